"""Transforms of v2 along the axes: flips, sizes, padding, erasing. Crops: `cropping.py`."""

import math
import numbers
import warnings
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau.vision.transforms import draws
from flambeau.vision.transforms import placement as v1
from flambeau.vision.transforms.arguments import (
    _check_sequence_input,
    check_ranges,
)
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.arguments import (
    check_padding,
    check_padding_mode,
    fill_for,
    fills_by_type,
)
from flambeau.vision.transforms.v2.samples import (
    query_chw,
    query_size,
)
from flambeau.vision.transforms.v2.transform import (
    Transform,
    _RandomApplyTransform,
    _WithoutBoxes,
)


class RandomHorizontalFlip(_RandomApplyTransform):
    """Left and right exchanged, with probability p."""

    _v1_transform_cls = v1.RandomHorizontalFlip

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.horizontal_flip, inpt)


class RandomVerticalFlip(_RandomApplyTransform):
    """Top and bottom exchanged, with probability p."""

    _v1_transform_cls = v1.RandomVerticalFlip

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.vertical_flip, inpt)


# -- sizes -----------------------------------------------------------------------------------------


class Resize(Transform):
    """Another size: (height, width), one number for the shorter side, or None with a max_size."""

    _v1_transform_cls = v1.Resize

    def __init__(
        self,
        size: int | Sequence[int] | None,
        interpolation: Any = "bilinear",
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if isinstance(size, int):
            size = [size]
        elif isinstance(size, Sequence) and len(size) in (1, 2):
            size = list(size)
        elif size is not None:
            raise ValueError(
                "size can be an integer, a sequence of one or two integers, or None, "
                f"but got {size} instead."
            )
        elif not isinstance(max_size, int):
            raise ValueError(
                f"max_size must be an integer when size is None, but got {max_size} instead."
            )
        self.size = size
        self.interpolation = interpolation
        self.max_size = max_size
        self.antialias = antialias

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(
            F.resize,
            inpt,
            self.size,
            interpolation=self.interpolation,
            max_size=self.max_size,
            antialias=self.antialias,
        )


class _RandomSize(Transform):
    """A size that is drawn."""

    interpolation: Any
    antialias: bool | None

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(
            F.resize,
            inpt,
            size=params["size"],
            interpolation=self.interpolation,
            antialias=self.antialias,
        )


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
        self.target_size = target_size
        self.scale_range = scale_range
        self.interpolation = interpolation
        self.antialias = antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        low, high = self.scale_range
        scale = low + flambeau.rand(1) * (high - low)
        ratio = min(self.target_size[1] / height, self.target_size[0] / width) * scale
        return {"size": (int(height * ratio), int(width * ratio))}


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
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)
        self.max_size = max_size
        self.interpolation = interpolation
        self.antialias = antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        ratio = self.min_size[draws.integer(0, len(self.min_size))] / min(height, width)
        if self.max_size is not None:
            ratio = min(ratio, self.max_size / max(height, width))
        return {"size": (int(height * ratio), int(width * ratio))}


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
        self.min_size = min_size
        self.max_size = max_size
        self.interpolation = interpolation
        self.antialias = antialias

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"size": [draws.integer(self.min_size, self.max_size)]}


# -- padding ---------------------------------------------------------------------------------------


class Pad(Transform):
    """More pixels around; fill may be a dict from types to fills."""

    _v1_transform_cls = v1.Pad

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        check_padding(padding)
        check_padding_mode(padding_mode)
        self.padding = padding if isinstance(padding, int) else list(padding)
        self.fill = fill
        self._fill = fills_by_type(fill)
        self.padding_mode = padding_mode

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        fill = fill_for(self._fill, type(inpt))
        return self._call_kernel(
            F.pad, inpt, padding=self.padding, fill=fill, padding_mode=self.padding_mode
        )


class RandomZoomOut(_RandomApplyTransform):
    """The input somewhere on a larger canvas, with probability p."""

    def __init__(
        self, fill: Any = 0, side_range: Sequence[float] = (1.0, 4.0), p: float = 0.5
    ) -> None:
        super().__init__(p=p)
        self.fill = fill
        self._fill = fills_by_type(fill)
        _check_sequence_input(side_range, "side_range", req_sizes=(2,))
        self.side_range = side_range
        if side_range[0] < 1.0 or side_range[0] > side_range[1]:
            raise ValueError(f"Invalid side range provided {side_range}.")

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        low, high = self.side_range
        ratio = low + flambeau.rand(1) * (high - low)
        new_width, new_height = int(width * ratio), int(height * ratio)
        x, y = flambeau.rand(2)
        left, top = int((new_width - width) * x), int((new_height - height) * y)
        right, bottom = new_width - (left + width), new_height - (top + height)
        return {"padding": [left, top, right, bottom]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.pad, inpt, **params, fill=fill_for(self._fill, type(inpt)))


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
        if not isinstance(value, (numbers.Number, str, tuple, list)):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if not check_ranges(scale, ratio):
            warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=2)
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        self.scale = scale
        self.ratio = ratio
        self.value: Any = value
        if isinstance(value, (int, float)):
            self.value = [float(value)]
        elif isinstance(value, str):
            self.value = None
        elif isinstance(value, (list, tuple)):
            self.value = [float(v) for v in value]
        self.inplace = inplace

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        channels, height, width = query_chw(flat_inputs)
        if self.value is not None and len(self.value) not in (1, channels):
            raise ValueError(
                "If value is a sequence, it should have either a single value or "
                f"{channels} (number of inpt channels)"
            )
        log_ratio = draws.logarithms(self.ratio)
        for _ in range(10):
            area = height * width * draws.uniform(self.scale[0], self.scale[1])
            aspect = draws.exponential_between(log_ratio[0], log_ratio[1])
            h = round(math.sqrt(area * aspect))
            w = round(math.sqrt(area / aspect))
            if not (h < height and w < width):
                continue
            if self.value is None:
                new = flambeau.empty([channels, h, w], dtype=flambeau.float32).normal_()
            else:
                new = flambeau.tensor(self.value)[:, None, None]
            i, j = draws.integer(0, height - h + 1), draws.integer(0, width - w + 1)
            return {"i": i, "j": j, "h": h, "w": w, "v": new}
        return {"v": None}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if params["v"] is None:
            return inpt
        return self._call_kernel(F.erase, inpt, **params, inplace=self.inplace)
