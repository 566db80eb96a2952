"""roi_pool: the largest element in each bin of a region (Girshick 2015)."""

from flambeau import Tensor
from flambeau.eager import regions as _launchers  # registers the kernels
from flambeau.ops import regions

from ._utils import Boxes, Settled, as_rois, pair

_REGISTERED = _launchers


def roi_pool(
    input: Tensor,
    boxes: Boxes,
    output_size: int | tuple[int, int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """The largest element of each bin of regions, with edges rounded to pixels.

    Args:
        input: (N, C, H, W).
        boxes: (K, 5) with the number of the image first, or a list of (L, 4), one per image.
        spatial_scale: from the coordinates of boxes to pixels of the input.
    """
    rois = as_rois(boxes)
    rows, columns = pair(output_size)
    return regions.roi_pool(input, rois, float(spatial_scale), rows, columns)[0]


class RoIPool(Settled):
    """The module of `roi_pool`."""

    shown = ("output_size", "spatial_scale")

    def __init__(self, output_size: int | tuple[int, int], spatial_scale: float) -> None:
        super().__init__(output_size=output_size, spatial_scale=spatial_scale)

    def forward(self, input: Tensor, rois: Boxes) -> Tensor:
        return roi_pool(input, rois, self.output_size, self.spatial_scale)
