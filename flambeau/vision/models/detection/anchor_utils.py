"""Boxes to start from: around every place of every feature map, in a few sizes and shapes."""

import math
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor, nn

from .image_list import ImageList

_MISMATCH = (
    "Anchors should be Tuple[Tuple[int]] because each feature map could potentially have different "
    "sizes and aspect ratios. There needs to be a match between the number of feature maps passed "
    "and the number of sizes / aspect ratios specified."
)


class AnchorGenerator(nn.Module):
    """Boxes of given areas and shapes around the corners of the cells of feature maps.

    Args:
        sizes: for each map, the square roots of areas, in pixels.
        aspect_ratios: for each map, heights divided by widths.
    """

    def __init__(
        self,
        sizes: Any = ((128, 256, 512),),
        aspect_ratios: Any = ((0.5, 1.0, 2.0),),
    ) -> None:
        super().__init__()
        if not isinstance(sizes[0], (list, tuple)):
            sizes = tuple((size,) for size in sizes)
        if not isinstance(aspect_ratios[0], (list, tuple)):
            aspect_ratios = (aspect_ratios,) * len(sizes)
        self.sizes, self.aspect_ratios = sizes, aspect_ratios
        self.cell_anchors = [
            self.generate_anchors(*pair) for pair in zip(sizes, aspect_ratios, strict=False)
        ]

    def generate_anchors(
        self,
        scales: Sequence[float],
        aspect_ratios: Sequence[float],
        dtype: Any = flambeau.float32,
        device: Any = flambeau.device("cpu"),  # noqa: B008
    ) -> Tensor:
        """All shapes in all sizes around the origin, in whole pixels."""
        sides = flambeau.as_tensor(scales, dtype=dtype, device=device)
        tall = flambeau.as_tensor(aspect_ratios, dtype=dtype, device=device).sqrt()
        heights, widths = ((factor[:, None] * sides).reshape(-1) for factor in (tall, 1 / tall))
        return (flambeau.stack([-widths, -heights, widths, heights], dim=1) / 2).round()

    def set_cell_anchors(self, dtype: Any, device: Any) -> None:
        self.cell_anchors = [cell.to(dtype=dtype, device=device) for cell in self.cell_anchors]

    def num_anchors_per_location(self) -> list[int]:
        pairs = zip(self.sizes, self.aspect_ratios, strict=False)
        return [len(sizes) * len(ratios) for sizes, ratios in pairs]

    def grid_anchors(self, grid_sizes: list[Any], strides: list[Any]) -> list[Tensor]:
        """The boxes of each map, row by row, all those of one cell side by side."""
        if not len(grid_sizes) == len(strides) == len(self.cell_anchors):
            raise AssertionError(_MISMATCH)
        return [
            (_corners(size, stride, cell).reshape(-1, 1, 4) + cell[None]).reshape(-1, 4)
            for size, stride, cell in zip(grid_sizes, strides, self.cell_anchors, strict=True)
        ]

    def forward(self, image_list: ImageList, feature_maps: list[Tensor]) -> list[Tensor]:
        """One tensor of boxes per image; they are the same for all."""
        whole = image_list.tensors.shape[-2:]
        grids = [each.shape[-2:] for each in feature_maps]
        strides = [[whole[0] // rows, whole[1] // columns] for rows, columns in grids]
        self.set_cell_anchors(feature_maps[0].dtype, feature_maps[0].device)
        boxes = flambeau.cat(self.grid_anchors(grids, strides))
        return [boxes for _ in image_list.image_sizes]


def _corners(size, stride, like):
    """(x, y, x, y) of the corner of each cell."""
    down, right = (
        flambeau.arange(n, dtype=flambeau.int32, device=like.device) * int(step)
        for n, step in zip(size, stride, strict=True)
    )
    y, x = (axis.reshape(-1) for axis in flambeau.meshgrid(down, right, indexing="ij"))
    return flambeau.stack([x, y, x, y], dim=1)


class DefaultBoxGenerator(nn.Module):
    """Boxes as shares of the image, around the middles of the cells of feature maps (SSD).

    Args:
        aspect_ratios: for each map, ratios besides 1; each stands for its inverse too.
        min_ratio, max_ratio: of scales that grow from map to map, unless `scales` are given.
        steps: pixels from cell to cell, unless the sizes of maps tell it.
        clip: whether boxes may not be larger than the image.
    """

    def __init__(
        self,
        aspect_ratios: list[list[int]],
        min_ratio: float = 0.15,
        max_ratio: float = 0.9,
        scales: list[float] | None = None,
        steps: list[int] | None = None,
        clip: bool = True,
    ) -> None:
        super().__init__()
        if steps is not None and len(aspect_ratios) != len(steps):
            raise ValueError("aspect_ratios and steps should have the same length")
        self.aspect_ratios, self.steps, self.clip = aspect_ratios, steps, clip
        self.scales = scales or self._growing(min_ratio, max_ratio, len(aspect_ratios))
        self._wh_pairs = self._generate_wh_pairs(len(aspect_ratios))

    def _growing(self, least: float, most: float, maps: int) -> list[float]:
        if maps == 1:
            return [least, most]
        return [*(least + (most - least) * k / (maps - 1.0) for k in range(maps)), 1.0]

    def _generate_wh_pairs(
        self,
        num_outputs: int,
        dtype: Any = flambeau.float32,
        device: Any = flambeau.device("cpu"),  # noqa: B008
    ) -> list[Tensor]:
        """Widths and heights for each map: two squares, then each ratio and its inverse."""
        found = []
        for own, following, ratios in zip(
            self.scales, self.scales[1:], self.aspect_ratios[:num_outputs], strict=False
        ):
            between = math.sqrt(own * following)
            pairs = [[own, own], [between, between]]
            for root in map(math.sqrt, ratios):
                pairs += [[own * root, own / root], [own / root, own * root]]
            found.append(flambeau.as_tensor(pairs, dtype=dtype, device=device))
        return found

    def num_anchors_per_location(self) -> list[int]:
        return [2 + 2 * len(ratios) for ratios in self.aspect_ratios]

    def _grid_default_boxes(
        self, grid_sizes: list[Any], image_size: list[int], dtype: Any = flambeau.float32
    ) -> Tensor:
        """Middles and sides of all boxes."""
        found = []
        for number, (size, pairs) in enumerate(zip(grid_sizes, self._wh_pairs, strict=False)):
            cells: Any = size
            if self.steps is not None:
                cells = [side / self.steps[number] for side in image_size]
            down, right = (
                ((flambeau.arange(n, device=pairs.device) + 0.5) / cell).to(dtype=dtype)
                for n, cell in zip(size, cells, strict=True)
            )
            y, x = (axis.reshape(-1) for axis in flambeau.meshgrid(down, right, indexing="ij"))
            middles = flambeau.stack([x, y], dim=1).repeat_interleave(len(pairs), dim=0)
            sides = (pairs.clamp(min=0, max=1) if self.clip else pairs).repeat(len(x), 1)
            found.append(flambeau.cat([middles, sides], dim=1))
        return flambeau.cat(found)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(aspect_ratios={self.aspect_ratios}, clip={self.clip}, "
            f"scales={self.scales}, steps={self.steps})"
        )

    def forward(self, image_list: ImageList, feature_maps: list[Tensor]) -> list[Tensor]:
        """One tensor of corners in pixels per image."""
        grids = [each.shape[-2:] for each in feature_maps]
        height, width = image_list.tensors.shape[-2:]
        first = feature_maps[0]
        shares = self._grid_default_boxes(grids, [height, width], first.dtype).to(first.device)
        middles, sides = shares[:, :2], shares[:, 2:]
        pixels = flambeau.tensor([width, height], device=first.device)
        found = []
        for _ in image_list.image_sizes:
            low, high = middles - 0.5 * sides, middles + 0.5 * sides
            found.append(flambeau.cat([low * pixels, high * pixels], dim=-1))
        return found
