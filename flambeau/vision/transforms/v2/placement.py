"""Transforms of v2 along the axes: flips, sizes, padding, erasing. Crops: `cropping.py`."""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau.vision.transforms import draws, parameters
from flambeau.vision.transforms import placement as v1
from flambeau.vision.transforms.arguments import (
    _check_sequence_input,
    check_padding_mode,
    keep,
)
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.arguments import check_padding, fills_by_type
from flambeau.vision.transforms.v2.samples import query_chw, query_size
from flambeau.vision.transforms.v2.transform import (
    _Calling,
    _RandomApplyTransform,
    _WithoutBoxes,
)


class RandomHorizontalFlip(_Calling, _RandomApplyTransform):
    """Left and right exchanged, with probability p."""

    _v1_transform_cls = v1.RandomHorizontalFlip
    _function = staticmethod(F.horizontal_flip)


class RandomVerticalFlip(_Calling, _RandomApplyTransform):
    """Top and bottom exchanged, with probability p."""

    _v1_transform_cls = v1.RandomVerticalFlip
    _function = staticmethod(F.vertical_flip)


# -- sizes -----------------------------------------------------------------------------------------


class Resize(_Calling):
    """Another size: (height, width), one number for the shorter side, or None with a max_size."""

    _v1_transform_cls = v1.Resize
    _function = staticmethod(F.resize)
    _first = ("size",)
    _named = ("interpolation", "max_size", "antialias")

    def __init__(
        self,
        size: int | Sequence[int] | None,
        interpolation: Any = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        lengths: Any = [size] if isinstance(size, int) else size
        if lengths is None:
            if not isinstance(max_size, int):
                raise ValueError(
                    f"max_size must be an integer when size is None, but got {max_size} instead."
                )
        elif isinstance(lengths, Sequence) and 1 <= len(lengths) <= 2:
            lengths = list(lengths)
        else:
            raise ValueError(
                "size can be an integer, a sequence of one or two integers, or None, "
                f"but got {size} instead."
            )
        how = {"interpolation": interpolation, "max_size": max_size, "antialias": antialias}
        keep(self, size=lengths, **how)


def _times(size: tuple[int, int], factor: Any) -> tuple[int, int]:
    height, width = size
    return int(height * factor), int(width * factor)


def _between(bounds: Any) -> Any:
    """A draw between two bounds, as a tensor of one element."""
    low, high = bounds
    return low + flambeau.rand(1) * (high - low)


class _RandomSize(_Calling):
    """A size that is drawn."""

    _function = staticmethod(F.resize)
    _named = ("interpolation", "antialias")


class ScaleJitter(_RandomSize):
    """A size that would fit into target_size, times a random factor."""

    def __init__(
        self,
        target_size: tuple[int, int],
        scale_range: tuple[float, float] = (0.1, 2.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        keep(self, target_size=target_size, scale_range=scale_range)
        keep(self, interpolation=interpolation, antialias=antialias)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        size = query_size(flat_inputs)
        factor = _between(self.scale_range)
        # the target is turned against the size, as torchvision has it
        fitting = min(self.target_size[1 - axis] / size[axis] for axis in (0, 1))
        return {"size": _times(size, fitting * factor)}


class RandomShortestSize(_RandomSize):
    """One of several lengths for the shorter side; max_size: what the longer may not exceed."""

    def __init__(
        self,
        min_size: int | Sequence[int],
        max_size: int | None = None,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        lengths = [min_size] if isinstance(min_size, int) else list(min_size)
        keep(self, min_size=lengths, max_size=max_size)
        keep(self, interpolation=interpolation, antialias=antialias)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        short, long = sorted(size := query_size(flat_inputs))
        factor = self.min_size[draws.integer(0, len(self.min_size))] / short
        if self.max_size is not None and self.max_size / long < factor:
            factor = self.max_size / long
        return {"size": _times(size, factor)}


class RandomResize(_RandomSize):
    """A random length for the shorter side."""

    def __init__(
        self,
        min_size: int,
        max_size: int,
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        keep(self, min_size=min_size, max_size=max_size)
        keep(self, interpolation=interpolation, antialias=antialias)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"size": [draws.integer(self.min_size, self.max_size)]}


# -- padding ---------------------------------------------------------------------------------------


class Pad(_Calling):
    """More pixels around; fill may be a dict from types to fills."""

    _v1_transform_cls = v1.Pad
    _function = staticmethod(F.pad)
    _named = ("padding", "padding_mode")

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        check_padding(padding)
        check_padding_mode(padding_mode)
        sides = padding if isinstance(padding, int) else list(padding)
        fills = fills_by_type(fill)
        keep(self, padding=sides, fill=fill, _fill=fills, padding_mode=padding_mode)


class RandomZoomOut(_Calling, _RandomApplyTransform):
    """The input somewhere on a larger canvas, with probability p."""

    _function = staticmethod(F.pad)

    def __init__(
        self, fill: Any = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5
    ) -> None:
        super().__init__(p=p)
        fills = fills_by_type(fill)
        _check_sequence_input(side_range, "side_range", (2,))
        if not 1.0 <= side_range[0] <= side_range[1]:
            raise ValueError(f"Invalid side range provided {side_range}.")
        keep(self, fill=fill, _fill=fills, side_range=side_range)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        size = query_size(flat_inputs)
        added = [new - old for new, old in zip(_times(size, _between(self.side_range)), size)]
        x, y = flambeau.rand(2)
        above, before = int(added[0] * y), int(added[1] * x)
        return {"padding": [before, above, added[1] - before, added[0] - above]}


# -- erasing ---------------------------------------------------------------------------------------


class RandomErasing(_WithoutBoxes, _RandomApplyTransform):
    """A rectangle of a picture overwritten, with probability p."""

    _v1_transform_cls = v1.RandomErasing

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0.0,
        inplace: bool = False,
    ) -> None:
        super().__init__(p=p)
        parameters.check_erasing(value, scale, ratio)
        values = parameters.erasing_values(value)
        keep(self, scale=scale, ratio=ratio, value=values, inplace=inplace)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        shape = query_chw(flat_inputs)
        parameters.check_erasing_values(self.value, shape[0], "inpt")
        return {"erasure": parameters.erasure(shape, self.scale, self.ratio, self.value)}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if params["erasure"] is None:
            return inpt
        named = dict(zip("ijhwv", params["erasure"]))
        return self._call_kernel(F.erase, inpt, **named, inplace=self.inplace)
