"""roi_align over several feature maps: large regions read small maps (Lin et al. 2017)."""

from collections.abc import Sequence

import flambeau
from flambeau import Tensor

from ._utils import Settled, convert_boxes_to_roi_format
from .boxes import box_area
from .roi_align import roi_align


class LevelMapper:
    """Which map a region reads: floor(level0 + log2(side / scale0)), within k_min .. k_max."""

    def __init__(
        self,
        k_min: int,
        k_max: int,
        canonical_scale: int = 224,
        canonical_level: int = 4,
        eps: float = 1e-6,
    ) -> None:
        self.k_min, self.k_max = k_min, k_max
        self.lvl0, self.s0, self.eps = canonical_level, canonical_scale, eps

    def __call__(self, boxlists: Sequence[Tensor]) -> Tensor:
        sides = flambeau.cat([box_area(boxes) for boxes in boxlists]).sqrt()
        exact = (sides / self.s0).log2() + self.lvl0 + self.eps
        return exact.floor().clamp(self.k_min, self.k_max).long() - self.k_min


def initLevelMapper(
    k_min: int,
    k_max: int,
    canonical_scale: int = 224,
    canonical_level: int = 4,
    eps: float = 1e-6,
) -> LevelMapper:
    return LevelMapper(k_min, k_max, canonical_scale, canonical_level, eps)


class MultiScaleRoIAlign(Settled):
    """roi_align on the map that fits the size of each region.

    Args:
        featmap_names: which maps of the dict that `forward` gets.
        canonical_scale, canonical_level: a region with sides of this many pixels reads this level.
    """

    shown = ("featmap_names", "output_size", "sampling_ratio")
    scales: list[float] | None
    map_levels: LevelMapper | None

    def __init__(
        self,
        featmap_names: list[str],
        output_size: int | tuple[int, ...] | list[int],
        sampling_ratio: int,
        *,
        canonical_scale: int = 224,
        canonical_level: int = 4,
    ) -> None:
        size = (output_size,) * 2 if isinstance(output_size, int) else tuple(output_size)
        super().__init__(
            featmap_names=featmap_names, output_size=size, sampling_ratio=sampling_ratio
        )
        self.canonical_scale, self.canonical_level = canonical_scale, canonical_level
        self.scales = self.map_levels = None  # known when the first maps come

    def _measure(self, maps: list[Tensor], image_shapes: list[tuple[int, int]]) -> None:
        """How much smaller than the images the maps are: powers of two."""
        if not image_shapes:
            raise ValueError("images list should not be empty")
        height = max(shape[0] for shape in image_shapes)
        self.scales = [
            2 ** float(flambeau.tensor(each.shape[-2] / height).log2().round()) for each in maps
        ]
        levels = [-flambeau.tensor(scale).log2().item() for scale in self.scales]
        self.map_levels = LevelMapper(
            int(levels[0]), int(levels[-1]), self.canonical_scale, self.canonical_level
        )

    def forward(
        self, x: dict[str, Tensor], boxes: list[Tensor], image_shapes: list[tuple[int, int]]
    ) -> Tensor:
        """Features of boxes (one tensor per image) from maps by name: (K, C, *output_size)."""
        maps = [value for name, value in x.items() if name in self.featmap_names]
        if self.scales is None or self.map_levels is None:
            self._measure(maps, image_shapes)
        assert self.scales is not None and self.map_levels is not None
        rois = convert_boxes_to_roi_format(boxes)
        size, ratio = self.output_size, self.sampling_ratio
        if len(maps) == 1:
            return roi_align(maps[0], rois, size, self.scales[0], ratio)
        levels = self.map_levels(boxes)
        result = maps[0].new_zeros((len(rois), maps[0].shape[1], *size))
        for level, (each, scale) in enumerate(zip(maps, self.scales, strict=True)):
            places = flambeau.where(levels.eq(level))[0]
            found = roi_align(each, rois[places], size, scale, ratio)
            result[places] = found.to(result.dtype)
        return result
