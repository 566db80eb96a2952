"""Transforms of where pixels are, along the axes: sizes, crops, padding, flips, erasing.

Turning and bending are in `warping.py`; what is drawn, in `parameters.py`.
"""

import numbers
from collections.abc import Sequence
from typing import Any

from flambeau import Tensor
from flambeau.vision.transforms import draws, parameters
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.arguments import (
    ListedModule,
    check_kinds,
    check_padding_mode,
    check_side_count,
    height_and_width,
)
from flambeau.vision.transforms.interpolation import InterpolationMode, mode_or_given


class _Interpolated(ListedModule):
    """Keeps a mode of interpolation, and lists its name."""

    interpolation: Any

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "interpolation": self.interpolation.value}


class Resize(_Interpolated):
    """Another size: (height, width), or one number for the shorter side."""

    _listed = ("size", "interpolation", "max_size", "antialias")

    def __init__(
        self, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True
    ):
        if not isinstance(size, int):
            if not isinstance(size, Sequence):
                raise TypeError(f"Size should be int or sequence. Got {type(size)}")
            if not 1 <= len(size) <= 2:
                raise ValueError("If size is a sequence, it should have 1 or 2 values")
        mode = mode_or_given(interpolation)
        super().__init__(antialias=antialias, interpolation=mode, max_size=max_size, size=size)

    def forward(self, img):
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)


class Pad(ListedModule):
    """More pixels around an image; see `functional.pad`."""

    _listed = ("padding", "fill", "padding_mode")

    def __init__(self, padding, fill=0, padding_mode="constant"):
        kinds = (numbers.Number, tuple, list)
        check_kinds(padding=(padding, kinds), fill=(fill, kinds))
        check_padding_mode(padding_mode)
        check_side_count(padding)
        super().__init__(fill=fill, padding=padding, padding_mode=padding_mode)

    def forward(self, img):
        return F.pad(img, self.padding, self.fill, self.padding_mode)


# -- flips -----------------------------------------------------------------------------------------


class _Flip(ListedModule):
    _listed = ("p",)

    def __init__(self, p=0.5):
        super().__init__(p=p)


class RandomHorizontalFlip(_Flip):
    """Left and right exchanged, with probability p."""

    def forward(self, img):
        return F.hflip(img) if draws.happens(self.p) else img


class RandomVerticalFlip(_Flip):
    """Top and bottom exchanged, with probability p."""

    def forward(self, img):
        return F.vflip(img) if draws.happens(self.p) else img


# -- crops -----------------------------------------------------------------------------------------


class _Sized(ListedModule):
    _listed: tuple[str, ...] = ("size",)

    def __init__(self, size):
        super().__init__(size=height_and_width(size))


class CenterCrop(_Sized):
    """The middle of an image, padded with zeros where the image is smaller."""

    def forward(self, img):
        return F.center_crop(img, self.size)


class FiveCrop(_Sized):
    """The four corners and the middle, as a tuple."""

    def forward(self, img):
        return F.five_crop(img, self.size)


class TenCrop(_Sized):
    """The four corners and the middle of an image and of its mirror image, as a tuple."""

    _listed = ("size", "vertical_flip")

    def __init__(self, size, vertical_flip=False):
        super().__init__(size)
        self.vertical_flip = vertical_flip

    def forward(self, img):
        return F.ten_crop(img, self.size, self.vertical_flip)


class RandomCrop(ListedModule):
    """A part of the given size, anywhere in the image after padding.

    pad_if_needed: pad images that are smaller than the crop.
    """

    _listed: tuple[str, ...] = ("size", "padding")

    @staticmethod
    def get_params(img: Tensor, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a crop."""
        _, height, width = F.get_dimensions(img)
        crop_height, crop_width = output_size
        return parameters.crop((height, width), (crop_height, crop_width))

    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        super().__init__(
            size=tuple(height_and_width(size)),
            padding=padding,
            padding_mode=padding_mode,
            fill=fill,
            pad_if_needed=pad_if_needed,
        )

    def forward(self, img):
        if self._pads_in_place(img):
            return self._padded_crop(img)
        if self.padding is not None:
            img = self._padded(img, self.padding)
        if self.pad_if_needed:
            _, *size = F.get_dimensions(img)
            missing_rows, missing_columns = (want - has for want, has in zip(self.size, size))
            # one axis after the other: what edges are repeated at corners depends on it
            if missing_columns > 0:
                img = self._padded(img, [missing_columns, 0])
            if missing_rows > 0:
                img = self._padded(img, [0, missing_rows])
        return F.crop(img, *self.get_params(img, self.size))

    def _padded(self, img, padding):
        return F.pad(img, padding, self.fill, self.padding_mode)

    def _pads_in_place(self, img):
        """Whether padding with zeros and cropping can be one step, on an image of Pillow."""
        return (
            self.padding is not None
            and type(self).get_params is _GET_CROP
            and self.padding_mode == "constant"
            and not self.pad_if_needed
            and F.is_pil_image(img)
            and F.F_pil.pads_with_zeros(img, self.padding, self.fill)
        )

    def _padded_crop(self, img):
        left, top, right, bottom = F.F_pil.plain_sides(self.padding)
        canvas = top + img.height + bottom, left + img.width + right
        i, j, height, width = parameters.crop(canvas, self.size)
        return F.F_pil.crop_beyond(img, i - top, j - left, height, width)


_GET_CROP = RandomCrop.get_params


class RandomResizedCrop(_Interpolated):
    """A part of random area and shape, resized.

    scale: bounds of its area, as a share of the image. ratio: bounds of width / height.
    """

    _listed: tuple[str, ...] = ("size", "scale", "ratio", "interpolation", "antialias")

    def __init__(
        self,
        size,
        scale=(0.08, 1.0),
        ratio=(3.0 / 4.0, 4.0 / 3.0),
        interpolation=InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ):
        size = height_and_width(size)
        parameters.warn_of_ranges(scale, ratio)
        mode = mode_or_given(interpolation)
        super().__init__(
            size=size, scale=scale, ratio=ratio, antialias=antialias, interpolation=mode
        )

    @staticmethod
    def get_params(
        img: Tensor, scale: list[float], ratio: list[float]
    ) -> tuple[int, int, int, int]:
        """Top, left, height and width of a crop."""
        return parameters.resized_crop(F.get_dimensions(img)[1:], scale, ratio)

    def forward(self, img):
        place = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, *place, self.size, self.interpolation, self.antialias)

    def _facts(self) -> dict[str, Any]:
        facts = super()._facts()
        for name in ("scale", "ratio"):
            facts[name] = tuple(round(bound, 4) for bound in facts[name])
        return facts


# -- erasing ---------------------------------------------------------------------------------------


class RandomErasing(ListedModule):
    """A rectangle of a tensor overwritten, with probability p.

    scale and ratio: bounds of its area and of height / width. value: a number, one for each
    channel, or "random" for normal noise.
    """

    _listed = ("p", "scale", "ratio", "value", "inplace")

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False):
        parameters.check_erasing(value, scale, ratio)
        if p < 0 or p > 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        super().__init__(p=p, value=value, scale=scale, ratio=ratio, inplace=inplace)

    @staticmethod
    def get_params(
        img: Tensor,
        scale: tuple[float, float],
        ratio: tuple[float, float],
        value: list[float] | None = None,
    ) -> tuple[int, int, int, int, Tensor]:
        """Top, left, height and width of a rectangle, and what to write there."""
        shape = img.shape[-3:]
        found = parameters.erasure(shape, scale, ratio, value)
        return (0, 0, shape[1], shape[2], img) if found is None else found

    def forward(self, img):
        if not draws.happens(self.p):
            return img
        values = parameters.erasing_values(self.value)
        parameters.check_erasing_values(values, img.shape[-3], "input")
        return F.erase(img, *self.get_params(img, self.scale, self.ratio, values), self.inplace)
