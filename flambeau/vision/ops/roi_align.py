"""roi_align: regions of feature maps, averaged into grids of one size (He et al. 2017)."""

from flambeau import Tensor
from flambeau.eager import regions as _launchers  # registers the kernels
from flambeau.ops import regions

from ._utils import Boxes, Settled, as_rois, pair

_REGISTERED = _launchers


def roi_align(
    input: Tensor,
    boxes: Boxes,
    output_size: int | tuple[int, int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    """Means of bilinear samples in the bins of regions: (K, C, *output_size).

    Args:
        input: (N, C, H, W).
        boxes: (K, 5) with the number of the image first, or a list of (L, 4), one per image;
            x1, y1, x2, y2.
        spatial_scale: from the coordinates of boxes to pixels of the input.
        sampling_ratio: samples of a bin in each direction; 0 or less: about one per pixel.
        aligned: pixels are squares whose centres lie at halves; otherwise they are points, and
            regions are at least one pixel long.
    """
    rois = as_rois(boxes)
    rows, columns = pair(output_size)
    return regions.roi_align(
        input, rois, float(spatial_scale), rows, columns, int(sampling_ratio), bool(aligned)
    )


class RoIAlign(Settled):
    """The module of `roi_align`."""

    shown = ("output_size", "spatial_scale", "sampling_ratio", "aligned")

    def __init__(
        self,
        output_size: int | tuple[int, int],
        spatial_scale: float,
        sampling_ratio: int,
        aligned: bool = False,
    ) -> None:
        sampling = {"sampling_ratio": sampling_ratio, "aligned": aligned}
        super().__init__(output_size=output_size, spatial_scale=spatial_scale, **sampling)

    def forward(self, input: Tensor, rois: Boxes) -> Tensor:
        size, scale = self.output_size, self.spatial_scale
        return roi_align(input, rois, size, scale, self.sampling_ratio, self.aligned)
