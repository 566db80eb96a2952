"""Pooling: maxima, means and norms of windows; adaptive, fractional and undone ones.

Shapes: (N, C, *sizes) or (C, *sizes). Sizes of windows are one number or one per dimension.
"""

from dataclasses import InitVar
from typing import Any

from flambeau._tensor import Tensor
from flambeau.nn.modules.declaring import layer
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import each

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


def _settle_stride(pool):
    """Windows lie side by side unless told otherwise."""
    if pool.stride is None:
        pool.stride = pool.kernel_size


# -- maxima ---------------------------------------------------------------------------------------


@layer(shows="kernel_size stride padding dilation ceil_mode")
class _MaxPoolNd(Module):
    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    return_indices: bool = False
    ceil_mode: bool = False

    _settle = _settle_stride


@layer("max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)")
class MaxPool1d(_MaxPoolNd):
    """The largest element of each window of (N, C, L)."""


@layer("max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)")
class MaxPool2d(_MaxPoolNd):
    """The largest element of each window of (N, C, H, W)."""


@layer("max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)")
class MaxPool3d(_MaxPoolNd):
    """The largest element of each window of (N, C, D, H, W)."""


_UNPOOLED = "input: Tensor, indices: Tensor, output_size=None"


@layer(constants="")
class _MaxUnpoolNd(Module):
    kernel_size: Any
    stride: Any = None
    padding: Any = 0

    def _settle(self):
        _settle_stride(self)
        for name in self._kept:
            setattr(self, name, each(getattr(self, name), self._dimensions))


@layer("max_unpool1d(input, indices, kernel_size, stride, padding, output_size)", takes=_UNPOOLED)
class MaxUnpool1d(_MaxUnpoolNd):
    """Puts maxima of MaxPool1d back to where its indices say; zeros elsewhere."""

    _dimensions = 1


@layer("max_unpool2d(input, indices, kernel_size, stride, padding, output_size)", takes=_UNPOOLED)
class MaxUnpool2d(_MaxUnpoolNd):
    """Puts maxima of MaxPool2d back to where its indices say; zeros elsewhere."""

    _dimensions = 2


@layer("max_unpool3d(input, indices, kernel_size, stride, padding, output_size)", takes=_UNPOOLED)
class MaxUnpool3d(_MaxUnpoolNd):
    """Puts maxima of MaxPool3d back to where its indices say; zeros elsewhere."""

    _dimensions = 3


@layer(shows="", constants="kernel_size return_indices output_size output_ratio")
class _FractionalMaxPoolNd(Module):
    kernel_size: Any
    output_size: Any = None
    output_ratio: Any = None
    return_indices: bool = False
    _random_samples: InitVar[Tensor | None] = None

    def _settle(self, _random_samples):
        given = self.output_ratio
        if self.output_size is None and given is None:
            raise ValueError(
                f"{type(self).__name__} requires specifying either an output size, or a pooling "
                "ratio"
            )
        if not (self.output_size is None or given is None):
            raise ValueError("only one of output_size and output_ratio may be specified")
        for name in ("kernel_size", "output_size", "output_ratio"):
            if getattr(self, name) is not None:
                setattr(self, name, each(getattr(self, name), self._dimensions))
        if given is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {given})")
        self.register_buffer("_random_samples", _random_samples)


@layer(
    "fractional_max_pool2d(input, kernel_size, output_size, output_ratio, return_indices,"
    " _random_samples)",
    takes="input: Tensor",
)
class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Maxima of windows of (N, C, H, W) at random places, as many as asked for."""

    _dimensions = 2


@layer(
    "fractional_max_pool3d(input, kernel_size, output_size, output_ratio, return_indices,"
    " _random_samples)",
    takes="input: Tensor",
)
class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maxima of windows of (N, C, D, H, W) at random places, as many as asked for."""

    _dimensions = 3

    def _settle(self, _random_samples):
        size = self.kernel_size
        if min(size if isinstance(size, (tuple, list)) else (size,)) <= 0:
            raise ValueError(f"kernel_size must be greater than 0, but got {size}")
        super()._settle(_random_samples)


# -- means ----------------------------------------------------------------------------------------


class _AvgPoolNd(Module):
    pass


@layer(
    "avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad)",
    shows="kernel_size stride padding",
)
class AvgPool1d(_AvgPoolNd):
    """The mean of each window of (N, C, L)."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    ceil_mode: bool = False
    count_include_pad: bool = True

    def _settle(self):
        _settle_stride(self)
        for name in ("kernel_size", "stride", "padding"):
            setattr(self, name, each(getattr(self, name), 1))


@layer(shows="kernel_size stride padding")
class _AvgPoolOverride(_AvgPoolNd):
    """Means of areas and volumes, which may be divided by a number of one's own."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None

    _settle = _settle_stride


@layer(
    "avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad,"
    " divisor_override)"
)
class AvgPool2d(_AvgPoolOverride):
    """The mean of each window of (N, C, H, W)."""


@layer(
    "avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad,"
    " divisor_override)"
)
class AvgPool3d(_AvgPoolOverride):
    """The mean of each window of (N, C, D, H, W)."""

    def __setstate__(self, state):
        # pickles older than the arguments
        old = {"padding": 0, "ceil_mode": False, "count_include_pad": True}
        super().__setstate__(old | state)


@layer()
class _LPPoolNd(Module):
    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False


@layer("lp_pool1d(input, float(norm_type), kernel_size, stride, ceil_mode)")
class LPPool1d(_LPPoolNd):
    """The p-norm of each window of (N, C, L)."""


@layer("lp_pool2d(input, float(norm_type), kernel_size, stride, ceil_mode)")
class LPPool2d(_LPPoolNd):
    """The p-norm of each window of (N, C, H, W)."""


@layer("lp_pool3d(input, float(norm_type), kernel_size, stride, ceil_mode)")
class LPPool3d(_LPPoolNd):
    """The p-norm of each window of (N, C, D, H, W)."""


# -- windows that fit the output ------------------------------------------------------------------


@layer(shows="output_size")
class _AdaptiveMaxPoolNd(Module):
    output_size: Any
    return_indices: bool = False


@layer("adaptive_max_pool1d(input, output_size, return_indices)")
class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """As many maxima as asked for, whatever the length; None keeps a size."""


@layer("adaptive_max_pool2d(input, output_size, return_indices)")
class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """As many maxima as asked for, whatever the area."""


@layer("adaptive_max_pool3d(input, output_size, return_indices)")
class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """As many maxima as asked for, whatever the volume."""


@layer()
class _AdaptiveAvgPoolNd(Module):
    output_size: Any


@layer("adaptive_avg_pool1d(input, output_size)")
class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """As many means as asked for, whatever the length."""


@layer("adaptive_avg_pool2d(input, output_size)")
class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """As many means as asked for, whatever the area."""


@layer("adaptive_avg_pool3d(input, output_size)")
class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """As many means as asked for, whatever the volume."""
