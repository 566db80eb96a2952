"""Transforms of v2 that take parts: in the middle, anywhere, resized, several, around boxes."""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import draws, parameters
from flambeau.vision.transforms import placement as v1
from flambeau.vision.transforms.arguments import check_padding_mode, height_and_width, keep
from flambeau.vision.transforms.conversion import is_pil_image
from flambeau.vision.transforms.v2 import functional as F
from flambeau.vision.transforms.v2.arguments import check_padding, fill_for, fills_by_type
from flambeau.vision.transforms.v2.functional.dispatch import is_pure_tensor
from flambeau.vision.transforms.v2.functional.placement import four_sides
from flambeau.vision.transforms.v2.samples import (
    get_bounding_boxes,
    has_all,
    has_any,
    query_size,
)
from flambeau.vision.transforms.v2.transform import Transform, _Calling, _WithoutBoxes

_PLACE = ("top", "left", "height", "width")


class CenterCrop(Transform):
    """The middle, padded with zeros where the input is smaller."""

    _v1_transform_cls = v1.CenterCrop

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = height_and_width(size)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self._call_kernel(F.center_crop, inpt, output_size=self.size)


class RandomCrop(Transform):
    """A part of the given size, anywhere after padding."""

    _v1_transform_cls = v1.RandomCrop

    def __init__(
        self,
        size: int | Sequence[int],
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        crop_size = height_and_width(size)
        if padding is not None:
            check_padding(padding)
        if padding is not None or pad_if_needed:
            check_padding_mode(padding_mode)
        sides = None
        if padding:
            left, top, right, bottom = four_sides(padding)
            sides = [left, right, top, bottom]
        keep(self, size=crop_size, padding=sides, pad_if_needed=pad_if_needed)
        keep(self, fill=fill, _fill=fills_by_type(fill), padding_mode=padding_mode)

    def _along(self, whole: int, part: int, before: int, after: int) -> tuple[int, int, int]:
        """The padding before and after on one axis, and the length that it makes."""
        if self.pad_if_needed:
            lacking = max(part - (whole + before + after), 0)
            before, after = before + lacking, after + lacking
        return before, after, whole + before + after

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        height, width = query_size(flat_inputs)
        crop_height, crop_width = self.size
        left, right, top, bottom = self.padding or (0, 0, 0, 0)
        top, bottom, height = self._along(height, crop_height, top, bottom)
        left, right, width = self._along(width, crop_width, left, right)
        if height < crop_height or width < crop_width:
            padded = "" if self.padding is None else "padded "
            raise ValueError(
                f"Required crop size {(crop_height, crop_width)} is larger than {padded}"
                f"input image size {(height, width)}."
            )
        params: dict[str, Any] = {"padding": [left, top, right, bottom], "place": None}
        spare_rows, spare_columns = height - crop_height, width - crop_width
        if spare_rows or spare_columns:
            # nothing is drawn along an axis where there is only one place
            i = draws.integer(0, spare_rows + 1) if spare_rows else 0
            j = draws.integer(0, spare_columns + 1) if spare_columns else 0
            params["place"] = dict(zip(_PLACE, (i, j, crop_height, crop_width)))
        return params

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        padding, place = params["padding"], params["place"]
        if any(padding):
            how = {"fill": fill_for(self._fill, type(inpt)), "padding_mode": self.padding_mode}
            inpt = self._call_kernel(F.pad, inpt, padding=padding, **how)
        return inpt if place is None else self._call_kernel(F.crop, inpt, **place)


class RandomResizedCrop(_Calling):
    """A part of random area and shape, resized."""

    _v1_transform_cls = v1.RandomResizedCrop
    _function = staticmethod(F.resized_crop)
    _named = ("size", "interpolation", "antialias")

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = "bilinear",
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        crop_size = height_and_width(size)
        for name, bounds in (("Scale", scale), ("Ratio", ratio)):
            if not (isinstance(bounds, Sequence) and len(bounds) == 2):
                raise TypeError(f"{name} should be a sequence of two floats.")
        parameters.warn_of_ranges(scale, ratio)
        keep(self, size=crop_size, scale=scale, ratio=ratio)
        keep(self, interpolation=interpolation, antialias=antialias)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        place = parameters.resized_crop(query_size(flat_inputs), self.scale, self.ratio)
        return dict(zip(_PLACE, place))


class _SeveralCrops(_WithoutBoxes):
    def check_inputs(self, flat_inputs: list[Any]) -> None:
        if has_any(flat_inputs, tv_tensors.BoundingBoxes, tv_tensors.Mask):
            raise TypeError(
                f"BoundingBoxes'es and Mask's are not supported by {type(self).__name__}()"
            )


class FiveCrop(_Calling, _SeveralCrops):
    """The four corners and the middle, as a tuple."""

    _v1_transform_cls = v1.FiveCrop
    _function = staticmethod(F.five_crop)
    _first = ("size",)

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = height_and_width(size)


class TenCrop(_Calling, _SeveralCrops):
    """The four corners and the middle of a picture and of its mirror image, as a tuple."""

    _v1_transform_cls = v1.TenCrop
    _function = staticmethod(F.ten_crop)
    _first = ("size",)
    _named = ("vertical_flip",)

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        super().__init__()
        keep(self, size=height_and_width(size), vertical_flip=vertical_flip)


class RandomIoUCrop(Transform):
    """A part that overlaps with a box at least so much as a drawn number says ("SSD: Single Shot
    MultiBox Detector"). Boxes whose middle lies outside become zero; SanitizeBoundingBoxes drops
    them."""

    def __init__(
        self,
        min_scale: float = 0.3,
        max_scale: float = 1.0,
        min_aspect_ratio: float = 0.5,
        max_aspect_ratio: float = 2.0,
        sampler_options: list[float] | None = None,
        trials: int = 40,
    ) -> None:
        super().__init__()
        keep(self, min_scale=min_scale, max_scale=max_scale)
        keep(self, min_aspect_ratio=min_aspect_ratio, max_aspect_ratio=max_aspect_ratio)
        # an overlap of one or more stands for the whole image
        options = sampler_options or [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]
        keep(self, options=options, trials=trials)

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        has_image = has_any(flat_inputs, is_pil_image, tv_tensors.Image, is_pure_tensor)
        if not (has_all(flat_inputs, tv_tensors.BoundingBoxes) and has_image):
            raise TypeError(
                f"{type(self).__name__}() requires input sample to contain tensor or PIL images "
                "and bounding boxes. Sample can also contain masks."
            )

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        size = query_size(flat_inputs)
        found = get_bounding_boxes(flat_inputs)
        boxes = F.convert_bounding_box_format(
            found.as_subclass(Tensor), found.format, tv_tensors.BoundingBoxFormat.XYXY
        )
        while True:
            overlap = self.options[draws.integer(0, len(self.options))]
            if overlap >= 1.0:
                return {}
            for _ in range(self.trials):
                params = self._trial(size, boxes, overlap)
                if params is not None:
                    return params

    def _trial(self, size, boxes, overlap):
        height, width = size
        scales = self.min_scale + (self.max_scale - self.min_scale) * flambeau.rand(2)
        new_width, new_height = int(width * scales[0]), int(height * scales[1])
        if not self.min_aspect_ratio <= new_width / new_height <= self.max_aspect_ratio:
            return None
        x, y = flambeau.rand(2)
        left, top = int((width - new_width) * x), int((height - new_height) * y)
        right, bottom = left + new_width, top + new_height
        if left == right or top == bottom:
            return None
        middle_x = 0.5 * (boxes[..., 0] + boxes[..., 2])
        middle_y = 0.5 * (boxes[..., 1] + boxes[..., 3])
        inside = (left < middle_x) & (middle_x < right) & (top < middle_y) & (middle_y < bottom)
        if not inside.any():
            return None
        if _best_overlap(boxes[inside], (left, top, right, bottom)) < overlap:
            return None
        place = (top, left, new_height, new_width)
        return {"place": dict(zip(_PLACE, place)), "inside": inside}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if not params:
            return inpt
        out = self._call_kernel(F.crop, inpt, **params["place"])
        if isinstance(out, tv_tensors.BoundingBoxes):
            out[~params["inside"]] = 0
        return out


def _best_overlap(boxes: Tensor, crop: tuple[int, int, int, int]) -> float:
    """The largest share that a box and the crop have of their union."""
    floats = boxes if boxes.is_floating_point() else boxes.to(flambeau.float32)
    x1, y1, x2, y2 = floats.unbind(-1)
    left, top, right, bottom = crop
    width = (x2.clamp(max=right) - x1.clamp(min=left)).clamp(min=0)
    height = (y2.clamp(max=bottom) - y1.clamp(min=top)).clamp(min=0)
    common = width * height
    union = (x2 - x1) * (y2 - y1) + (right - left) * (bottom - top) - common
    return (common / union).max().item()
