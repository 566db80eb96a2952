"""Upsample: larger or smaller pictures, and its two older names."""

from typing import Any

from flambeau.nn.modules.declaring import layer, told
from flambeau.nn.modules.module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


@layer(
    "interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor)",
    constants="size scale_factor mode align_corners name recompute_scale_factor",
)
class Upsample(Module):
    """Resamples the sizes behind (N, C) to `size`, or multiplies them by `scale_factor`.

    mode: nearest, linear, bilinear, bicubic or trilinear, by the number of dimensions.
    """

    size: Any = None
    scale_factor: Any = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def _settle(self):
        self.name = type(self).__name__
        factor = self.scale_factor
        several = isinstance(factor, tuple)
        self.scale_factor = tuple(map(float, factor)) if several else float(factor or 0) or None

    def __setstate__(self, state):
        state.setdefault("recompute_scale_factor", True)  # pickles older than the argument
        super().__setstate__(state)

    def extra_repr(self) -> str:
        return told(self, "size" if self.scale_factor is None else "scale_factor", "mode")


class UpsamplingNearest2d(Upsample):
    """Upsample with the nearest element."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample with straight lines between elements, corners upon corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
