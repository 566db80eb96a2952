"""Position-sensitive regions: every bin reads channels of its own (Dai et al. 2016).

Channels of the input are (channels of the result, rows, columns). The weight of a pixel in a bin
is a product of one for its row and one for its column, so the result is a product of three
tensors for each region. `ps_roi_pool` has other weights.
"""

from collections.abc import Callable

import flambeau
from flambeau import Tensor

from ._utils import Boxes, Settled, as_rois, pair

Weights = Callable[[Tensor, Tensor, int, int], Tensor]


def position_sensitive(
    input: Tensor, rois: Tensor, size: tuple[int, int], scale: float, weights: Weights
) -> Tensor:
    """Sums over pixels; `weights(start, end, bins, pixels)` gives (K, bins, pixels)."""
    rows, columns = size
    if input.shape[1] % (rows * columns) != 0:
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    channels = input.shape[1] // (rows * columns)
    sides = rois.detach() * scale
    down = weights(sides[:, 2], sides[:, 4], rows, input.shape[2]).to(input.dtype)
    right = weights(sides[:, 1], sides[:, 3], columns, input.shape[3]).to(input.dtype)
    images = input.unflatten(1, (channels, rows, columns))
    found = [
        flambeau.einsum("cpqhw,ph,qw->cpq", images[int(image)], down[k], right[k])
        for k, image in enumerate(rois[:, 0].tolist())
    ]
    return flambeau.stack(found) if found else images[:0].sum((-2, -1))


def ps_roi_align(
    input: Tensor,
    boxes: Boxes,
    output_size: int | tuple[int, int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> Tensor:
    """Means of samples in the bins of regions, each bin from its own channels.

    Args:
        input: (N, channels * rows * columns, H, W).
        boxes, spatial_scale, sampling_ratio: as in `roi_align`.
    """

    def weights(start: Tensor, end: Tensor, bins: int, pixels: int) -> Tensor:
        start, size = start - 0.5, end - start
        step = size / bins
        grid = (
            flambeau.ceil(step) if sampling_ratio <= 0 else flambeau.full_like(step, sampling_ratio)
        )
        many = max(int(grid.max()), 0) if grid.numel() else 0
        k = flambeau.arange(many, dtype=start.dtype, device=start.device)
        places = flambeau.arange(bins, dtype=start.dtype, device=start.device)
        at = (start[:, None] + places * step[:, None])[:, :, None]
        at = at + ((k + 0.5) * step[:, None] / grid[:, None])[:, None, :]
        valid = (at >= -1) & (at <= pixels) & (k < grid[:, None])[:, None, :]
        at = at.clamp(0, pixels - 1)[..., None]
        pixel = flambeau.arange(pixels, dtype=start.dtype, device=start.device)
        near = (1 - (at - pixel).abs()).clamp(min=0)
        near = flambeau.where(valid[..., None], near, flambeau.zeros_like(near))
        return near.sum(2) / grid[:, None, None]

    size = pair(output_size)
    return position_sensitive(input, as_rois(boxes), size, spatial_scale, weights)


class PSRoIAlign(Settled):
    """The module of `ps_roi_align`."""

    shown = ("output_size", "spatial_scale", "sampling_ratio")

    def __init__(
        self, output_size: int | tuple[int, int], spatial_scale: float, sampling_ratio: int
    ) -> None:
        super().__init__(
            output_size=output_size, spatial_scale=spatial_scale, sampling_ratio=sampling_ratio
        )

    def forward(self, input: Tensor, rois: Boxes) -> Tensor:
        return ps_roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio)
