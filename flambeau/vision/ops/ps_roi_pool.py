"""ps_roi_pool: means of whole pixels in the bins of regions, each bin from its own channels."""

import flambeau
from flambeau import Tensor

from ._utils import Boxes, Settled, as_rois, pair
from .ps_roi_align import position_sensitive


def _away_from_zero(x: Tensor) -> Tensor:
    """Halves are rounded away from zero, as in C."""
    return flambeau.trunc(x + flambeau.sign(x) * 0.5)


def _weights(start: Tensor, end: Tensor, bins: int, pixels: int) -> Tensor:
    start, end = _away_from_zero(start), _away_from_zero(end)
    step = ((end - start).clamp(min=1) / bins)[:, None]
    place = flambeau.arange(bins, dtype=start.dtype, device=start.device)
    low = (flambeau.floor(place * step) + start[:, None]).clamp(0, pixels - 1)
    high = (flambeau.ceil((place + 1) * step) + start[:, None]).clamp(0, pixels - 1)
    pixel = flambeau.arange(pixels, dtype=start.dtype, device=start.device)
    inside = (pixel >= low[..., None]) & (pixel < high[..., None])
    return inside.to(start.dtype) / (high - low).clamp(min=1)[..., None]


def ps_roi_pool(
    input: Tensor,
    boxes: Boxes,
    output_size: int | tuple[int, int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """Means of the pixels in the bins of regions, with edges rounded to pixels.

    Args:
        input: (N, channels * rows * columns, H, W).
        boxes, spatial_scale: as in `roi_pool`.
    """
    size = pair(output_size)
    return position_sensitive(input, as_rois(boxes), size, spatial_scale, _weights)


class PSRoIPool(Settled):
    """The module of `ps_roi_pool`."""

    shown = ("output_size", "spatial_scale")

    def __init__(self, output_size: int | tuple[int, int], spatial_scale: float) -> None:
        super().__init__(output_size=output_size, spatial_scale=spatial_scale)

    def forward(self, input: Tensor, rois: Boxes) -> Tensor:
        return ps_roi_pool(input, rois, self.output_size, self.spatial_scale)
