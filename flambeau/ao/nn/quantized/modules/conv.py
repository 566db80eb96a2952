"""Convolutions on quantized tensors."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import (
    WeightedQuantizedModule,
    deployed,
    empty_weight,
    observed_weight,
    scale_and_zero_point,
)
from flambeau.ao.quantized_ops.convolution import tuple_of

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvNd(WeightedQuantizedModule):
    """A packed convolution; subclasses say how many dimensions it has."""

    _dims = 2
    _transposed = False
    _ending = ""
    _names = "QuantizedConv{}d"
    _stated = ("weight", "bias", "scale", "zero_point")
    _facts: tuple[str, ...] = (
        "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
        "padding_mode",
    )  # fmt: skip

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        nn.Module.__init__(self)
        self._set_up(in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups,
                     bias, padding_mode)  # fmt: skip

    def _set_up(self, in_channels, out_channels, kernel_size, stride, padding, dilation,
                output_padding, groups, bias, padding_mode):  # fmt: skip
        if out_channels <= 0:
            raise ValueError(f"out_channels must be greater than 0, got {out_channels}")
        if not self._transposed and padding_mode == "circular":
            raise ValueError(
                f"'padding_mode' {padding_mode} is not supported by quantized convolution"
            )
        if in_channels % groups or out_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.transposed, self.padding_mode = self._transposed, padding_mode
        sizes = {"kernel_size": kernel_size, "stride": stride, "dilation": dilation,
                 "output_padding": output_padding}  # fmt: skip
        for name, size in sizes.items():
            setattr(self, name, tuple_of(size, self._dims))
        self.padding = self._edges(padding)
        ends = [out_channels, in_channels // groups]
        if self.transposed:
            ends = [in_channels, out_channels // groups]
        self.set_weight_bias(
            empty_weight(*ends, *self.kernel_size), torch.zeros(out_channels) if bias else None
        )

    def _edges(self, padding):
        if padding == "same":
            return tuple(d * (k - 1) // 2 for d, k in zip(self.dilation, self.kernel_size))
        return tuple_of(0 if padding == "valid" else padding, self._dims)

    @property
    def _stem(self) -> str:
        return f"conv{'_transpose' if self.transposed else ''}{self._dims}d"

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        more = (self.output_padding,) if self.transposed else ()
        # edges of other kinds are added before the convolution
        padding = self.padding if self.padding_mode == "zeros" else (0,) * self._dims
        self._packed_params = getattr(torch.ops.quantized, self._stem + "_prepack")(
            w, b, self.stride, padding, *more, self.dilation, self.groups
        )

    def _get_name(self) -> str:
        return self._names.format(self._dims)

    def extra_repr(self) -> str:
        words = [f"{self.in_channels}, {self.out_channels}"]
        words += [f"{n}={getattr(self, n)}" for n in ("kernel_size", "stride", *_LEVELS)]
        usual = {"padding": 0, "dilation": 1, "output_padding": 0}
        facts: list = [(n, getattr(self, n), tuple_of(u, self._dims)) for n, u in usual.items()]
        facts += [("groups", self.groups, 1), ("bias", self.bias() is not None, True)]
        words += [f"{name}={value}" for name, value, default in facts if value != default]
        return ", ".join(words)

    def _padded(self, input: Tensor) -> Tensor:
        if self.padding_mode == "zeros":
            return input
        edges = [n for size in reversed(self.padding) for n in (size, size)]
        return nn.functional.pad(input, edges, mode=self.padding_mode)

    def _levels(self) -> tuple[float, int]:
        return self.scale, self.zero_point

    def forward(self, input: Tensor) -> Tensor:
        run = getattr(torch.ops.quantized, self._stem + self._ending)
        return run(self._padded(input), self._packed_params, self.scale, self.zero_point)

    def _to_save(self) -> dict[str, Any]:
        levels = [torch.tensor(level) for level in self._levels()]
        return dict(zip(self._stated, (*self._weight_bias(), *levels)))

    def _restore(self, weight: Any, bias: Any, scale: Any, zero_point: Any) -> None:  # type: ignore[override]
        self.set_weight_bias(weight, bias)
        super()._restore(scale, zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float module that has observed, or one trained with fake quantization."""
        levels = scale_and_zero_point(mod)
        layer, weight, bias = deployed(mod)
        found = cls(**{name: getattr(layer, name) for name in cls._facts}, bias=bias is not None)
        found._restore(observed_weight(layer, weight), bias, *levels)
        return found


_LEVELS = ("scale", "zero_point")


class Conv1d(_ConvNd):
    _dims = 1


class Conv2d(_ConvNd):
    _dims = 2


class Conv3d(_ConvNd):
    _dims = 3


class _ConvTransposeNd(_ConvNd):
    _transposed = True
    _names = "QuantizedConvTranspose{}d"
    _facts = (*_ConvNd._facts, "output_padding")

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        nn.Module.__init__(self)
        self._set_up(in_channels, out_channels, kernel_size, stride, padding, dilation,
                     output_padding, groups, bias, padding_mode)  # fmt: skip


class ConvTranspose1d(_ConvTransposeNd):
    _dims = 1


class ConvTranspose2d(_ConvTransposeNd):
    _dims = 2


class ConvTranspose3d(_ConvTransposeNd):
    _dims = 3
