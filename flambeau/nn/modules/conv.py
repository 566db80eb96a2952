"""Convolutions and transposed convolutions in one, two and three dimensions, and lazy ones.

Shapes: input (N, in_channels, *sizes) or without N; weight (out_channels, in_channels / groups,
*kernel_size), for transposed ones (in_channels, out_channels / groups, *kernel_size).
"""

from collections.abc import Sequence
from typing import Any

from flambeau._tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.filling import fill_by_inputs, make_parameters
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import _reverse_repeat_tuple, each
from flambeau.nn.parameter import UninitializedParameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]


_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _check_groups(groups, **channels):
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    for name, count in channels.items():
        if count % groups:
            raise ValueError(f"{name} must be divisible by groups")


def _check_padding(padding, mode, stride):
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}"
            )
        if padding == "same" and set(stride) != {1}:
            raise ValueError("padding='same' is not supported for strided convolutions")
    if mode not in _PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {{{str(_PADDING_MODES)[1:-1]}}}, but got "
            f"padding_mode='{mode}'"
        )


class _ConvNd(Module):
    __constants__ = (
        "stride padding dilation groups padding_mode output_padding in_channels out_channels "
        "kernel_size"
    ).split()
    bias: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: Any,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_groups(groups, in_channels=in_channels, out_channels=out_channels)
        _check_padding(padding, padding_mode, stride)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = kernel_size, stride, dilation
        self.padding, self.padding_mode, self.output_padding = padding, padding_mode, output_padding
        self.transposed = transposed
        # what F.pad takes: (before, after) per dimension, the last dimension first
        self._reversed_padding_repeated_twice = self._sides()
        first, second = out_channels, in_channels
        if transposed:
            first, second = second, first
        shape = (first, second // groups, *kernel_size)
        make_parameters(self, device, dtype, weight=shape, bias=(out_channels,) if bias else None)
        self.reset_parameters()

    def _sides(self):
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        sides = [0] * (2 * len(self.kernel_size))
        if self.padding == "same":
            for place, (size, step) in enumerate(zip(self.kernel_size[::-1], self.dilation[::-1])):
                total = step * (size - 1)
                sides[2 * place] = total // 2
                sides[2 * place + 1] = total - total // 2
        return sides

    def reset_parameters(self) -> None:
        """Uniform numbers up to 1 / sqrt(in_channels / groups * prod(kernel_size)), for both."""
        fill_by_inputs(self.weight, self.bias)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        for name, plain in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (plain,) * len(value):
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state):
        super().__setstate__({"padding_mode": "zeros", **state})  # pickles older than the argument


class _Convolution(_ConvNd):
    """What ConvNd adds: the choice of function and the padding before it."""

    _dimensions: int

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
        n = self._dimensions
        if not isinstance(padding, str):
            padding = each(padding, n)
        window: Any = each(kernel_size, n), each(stride, n), padding, each(dilation, n), False
        options: Any = {"groups": groups, "bias": bias, "padding_mode": padding_mode}
        options |= {"output_padding": (0,) * n, "device": device, "dtype": dtype}
        super().__init__(in_channels, out_channels, *window, **options)

    def _padded(self, input):
        """The input with edges made of what is inside; the convolution then adds none."""
        return F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)


class Conv1d(_Convolution):
    """Convolution over (N, C, L)."""

    _dimensions = 1

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = self._padded(input), 0
        return F.conv1d(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv2d(_Convolution):
    """Convolution over (N, C, H, W)."""

    _dimensions = 2

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = self._padded(input), 0
        return F.conv2d(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv3d(_Convolution):
    """Convolution over (N, C, D, H, W)."""

    _dimensions = 3

    def _conv_forward(self, input, weight, bias):
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = self._padded(input), 0
        return F.conv3d(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    """What ConvTransposeNd adds: an output size that may be told with each call."""

    _dimensions: int

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
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        n = self._dimensions
        kernel, step, pad, spread = (
            each(size, n) for size in (kernel_size, stride, padding, dilation)
        )
        options: Any = {"groups": groups, "bias": bias, "padding_mode": padding_mode}
        options |= {"output_padding": each(output_padding, n), "device": device, "dtype": dtype}
        super().__init__(in_channels, out_channels, kernel, step, pad, spread, True, **options)

    def _output_padding(self, input, output_size):
        """What to add at the ends so that the output has this size."""
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for {type(self).__name__}")
        if output_size is None:
            return self.output_padding
        n = self._dimensions
        rank = input.dim()
        output_size = tuple(output_size)
        if len(output_size) == rank:  # all sizes, channels included
            output_size = output_size[-n:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {rank}D input, output_size must have {n} or {rank} "
                f"elements (got {len(output_size)})"
            )
        sizes = input.shape[-n:]
        least = [
            (size - 1) * step - 2 * pad + spread * (width - 1) + 1
            for size, step, pad, spread, width in zip(
                sizes, self.stride, self.padding, self.dilation, self.kernel_size
            )
        ]
        most = [low + step - 1 for low, step in zip(least, self.stride)]
        if any(not low <= size <= high for low, size, high in zip(least, output_size, most)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to "
                f"{most} (for an input of {sizes})"
            )
        return [size - low for size, low in zip(output_size, least)]


class _ConvTransposeMixin(_ConvTransposeNd):
    """An older name, which libraries import."""


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution over (N, C, L)."""

    _dimensions = 1

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        ends = self._output_padding(input, output_size)
        return F.conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, ends, self.groups,
            self.dilation,
        )  # fmt: skip


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution over (N, C, H, W)."""

    _dimensions = 2

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        ends = self._output_padding(input, output_size)
        return F.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, ends, self.groups,
            self.dilation,
        )  # fmt: skip


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution over (N, C, D, H, W)."""

    _dimensions = 3

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        ends = self._output_padding(input, output_size)
        return F.conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, ends, self.groups,
            self.dilation,
        )  # fmt: skip


# -- lazy ones ------------------------------------------------------------------------------------


class _LazyConvXdMixin(LazyModuleMixin):
    """in_channels comes from the first input."""

    _dimensions: int
    groups: int
    transposed: bool
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    weight: Any
    bias: Any

    def _make_lazy(self, out_channels, bias, device, dtype):
        """Put what waits for shapes in the place of what was made with no channels."""
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def _get_num_spatial_dims(self) -> int:
        return self._dimensions

    def _get_in_channels(self, input):
        rank = self._get_num_spatial_dims() + 1
        if input.dim() not in (rank, rank + 1):
            raise RuntimeError(
                f"Expected {rank}D (unbatched) or {rank + 1}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return input.shape[-rank]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        _check_groups(self.groups, in_channels=self.in_channels)
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConvolution(_LazyConvXdMixin):
    def __init__(
        self,
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
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConvolution, Conv1d):
    """Conv1d without in_channels."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):
    """Conv2d without in_channels."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvolution, Conv3d):
    """Conv3d without in_channels."""

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self,
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
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """ConvTranspose1d without in_channels."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """ConvTranspose2d without in_channels."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """ConvTranspose3d without in_channels."""

    cls_to_become = ConvTranspose3d
