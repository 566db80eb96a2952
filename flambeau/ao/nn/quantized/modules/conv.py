"""Convolutions on quantized tensors."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import (
    WeightedQuantizedModule,
    observed_weight,
    scale_and_zero_point,
)
from flambeau.ao.quantized_ops.convolution import tuple_of
from flambeau.nn.utils.fusion import fuse_conv_bn_weights

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class _ConvNd(WeightedQuantizedModule):
    """A packed convolution; subclasses say how many dimensions it has."""

    _dims = 2
    _transposed = False
    _ending = ""
    _names = "QuantizedConv{}d"

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
        super().__init__()
        self._set_up(in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups,
                     bias, padding_mode)  # fmt: skip

    def _set_up(self, in_channels, out_channels, kernel_size, stride, padding, dilation,
                output_padding, groups, bias, padding_mode):  # fmt: skip
        if in_channels % groups or out_channels % groups:
            raise ValueError("in_channels must be divisible by groups")
        dims = self._dims
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = tuple_of(kernel_size, dims), tuple_of(stride, dims)
        self.padding = padding if isinstance(padding, str) else tuple_of(padding, dims)
        if padding == "same":
            self.padding = tuple(
                d * (k - 1) // 2 for d, k in zip(tuple_of(dilation, dims), self.kernel_size)
            )
        elif padding == "valid":
            self.padding = (0,) * dims
        self.dilation, self.output_padding = (
            tuple_of(dilation, dims),
            tuple_of(output_padding, dims),
        )
        self.transposed, self.padding_mode = self._transposed, padding_mode
        ends = (in_channels, out_channels // groups) if self.transposed else (
            out_channels, in_channels // groups)  # fmt: skip
        weight = torch._empty_affine_quantized(
            [*ends, *self.kernel_size], scale=1, zero_point=0, dtype=torch.qint8
        )
        self.set_weight_bias(weight, torch.zeros(out_channels) if bias else None)
        self.scale, self.zero_point = 1.0, 0

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        stem = f"conv{'_transpose' if self.transposed else ''}{self._dims}d_prepack"
        more = (self.output_padding,) if self.transposed else ()
        # edges of other kinds are added before the convolution
        padding = self.padding if self.padding_mode == "zeros" else (0,) * self._dims
        self._packed_params = getattr(torch.ops.quantized, stem)(
            w, b, self.stride, padding, *more, self.dilation, self.groups
        )

    def _weight_bias(self) -> tuple:
        return self._packed_params.unpack()

    def weight(self) -> Tensor:
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        return self._weight_bias()[1]

    def _get_name(self) -> str:
        return self._names.format(self._dims)

    def extra_repr(self) -> str:
        words = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, scale={self.scale}, zero_point={self.zero_point}"
        ]
        none = (0,) * self._dims
        if self.padding != none:
            words.append(f"padding={self.padding}")
        if self.dilation != (1,) * self._dims:
            words.append(f"dilation={self.dilation}")
        if self.output_padding != none:
            words.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            words.append(f"groups={self.groups}")
        if self.bias() is None:
            words.append("bias=False")
        return ", ".join(words)

    def forward(self, input: Tensor) -> Tensor:
        if self.padding_mode != "zeros":
            edges = [n for size in reversed(self.padding) for n in (size, size)]
            input = nn.functional.pad(input, edges, mode=self.padding_mode)
        stem = f"conv{'_transpose' if self.transposed else ''}{self._dims}d{self._ending}"
        run = getattr(torch.ops.quantized, stem)
        return run(input, self._packed_params, self.scale, self.zero_point)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        weight, bias = self._weight_bias()
        destination[prefix + "weight"], destination[prefix + "bias"] = weight, bias
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list,
        unexpected_keys: list, error_msgs: list,
    ) -> None:  # fmt: skip
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float module that has observed, or one trained with fake quantization."""
        scale, zero_point = scale_and_zero_point(mod)
        source = mod
        if isinstance(mod, nn.Sequential):
            source = mod[0]
            source.qconfig = mod.qconfig
        weight, bias = source.weight, source.bias
        if hasattr(mod, "bn"):  # a batch norm that is folded in now
            bn = mod.bn
            weight, bias = fuse_conv_bn_weights(
                weight, bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
            )
        more: tuple = (
            source.output_padding, source.groups, source.bias is not None, source.dilation,
            source.padding_mode,
        )  # fmt: skip
        facts = (
            source.in_channels, source.out_channels, source.kernel_size, source.stride,
            source.padding,
        )  # fmt: skip
        if not cls._transposed:
            more = (source.dilation, source.groups, bias is not None, source.padding_mode)
        found = cls(*facts, *more)
        found.set_weight_bias(observed_weight(source, weight), bias)
        found.scale, found.zero_point = scale, zero_point
        return found


class Conv1d(_ConvNd):
    _dims = 1


class Conv2d(_ConvNd):
    _dims = 2


class Conv3d(_ConvNd):
    _dims = 3


class _ConvTransposeNd(_ConvNd):
    _transposed = True
    _names = "QuantizedConvTranspose{}d"

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
