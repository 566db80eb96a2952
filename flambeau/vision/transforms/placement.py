"""Transforms of where pixels are, along the axes: sizes, crops, padding, flips, erasing.

Turning and bending are in `warping.py`. Draws come in torchvision's order.
"""

import math
import numbers
import warnings
from collections.abc import Sequence

import flambeau
from flambeau import Tensor, nn
from flambeau.vision.transforms import draws
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.arguments import TWO_DIMENSIONS, _setup_size, check_ranges
from flambeau.vision.transforms.interpolation import InterpolationMode, mode_or_given


class Resize(nn.Module):
    """Another size: (height, width), or one number for the shorter side."""

    def __init__(
        self, size, interpolation=InterpolationMode.BILINEAR, max_size=None, antialias=True
    ):
        super().__init__()
        if not isinstance(size, (int, Sequence)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size = size
        self.max_size = max_size
        self.interpolation = mode_or_given(interpolation)
        self.antialias = antialias

    def forward(self, img):
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(size={self.size}, interpolation={self.interpolation.value}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


class CenterCrop(nn.Module):
    """The middle of an image, padded with zeros where the image is smaller."""

    def __init__(self, size):
        super().__init__()
        self.size = _setup_size(size, error_msg=TWO_DIMENSIONS)

    def forward(self, img):
        return F.center_crop(img, self.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size})"


class Pad(nn.Module):
    """More pixels around an image; see `functional.pad`."""

    def __init__(self, padding, fill=0, padding_mode="constant"):
        super().__init__()
        if not isinstance(padding, (numbers.Number, tuple, list)):
            raise TypeError("Got inappropriate padding arg")
        if not isinstance(fill, (numbers.Number, tuple, list)):
            raise TypeError("Got inappropriate fill arg")
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
        if isinstance(padding, Sequence) and len(padding) not in (1, 2, 4):
            raise ValueError(
                "Padding must be an int or a 1, 2, or 4 element tuple, "
                f"not a {len(padding)} element tuple"
            )
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img):
        return F.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(padding={self.padding}, fill={self.fill}, "
            f"padding_mode={self.padding_mode})"
        )


class RandomCrop(nn.Module):
    """A part of the given size, anywhere in the image after padding.

    pad_if_needed: pad images that are smaller than the crop.
    """

    @staticmethod
    def get_params(img: Tensor, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a crop."""
        _, height, width = F.get_dimensions(img)
        return _crop_within(height, width, *output_size)

    def __init__(self, size, padding=None, pad_if_needed=False, fill=0, padding_mode="constant"):
        super().__init__()
        self.size = tuple(_setup_size(size, error_msg=TWO_DIMENSIONS))
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img):
        if self.padding is not None:
            if self._pads_in_place(img):
                return self._padded_crop(img)
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        if self.pad_if_needed:
            _, height, width = F.get_dimensions(img)
            if width < self.size[1]:
                img = F.pad(img, [self.size[1] - width, 0], self.fill, self.padding_mode)
            if height < self.size[0]:
                img = F.pad(img, [0, self.size[0] - height], self.fill, self.padding_mode)
        top, left, height, width = self.get_params(img, self.size)
        return F.crop(img, top, left, height, width)

    def _pads_in_place(self, img):
        """Whether padding with zeros and cropping can be one step, on an image of Pillow."""
        return (
            type(self).get_params is _GET_CROP
            and self.padding_mode == "constant"
            and not self.pad_if_needed
            and F.is_pil_image(img)
            and F.F_pil.pads_with_zeros(img, self.padding, self.fill)
        )

    def _padded_crop(self, img):
        left, top, right, bottom = F.F_pil.four_sides(self.padding)
        width, height = img.size
        i, j, h, w = _crop_within(top + height + bottom, left + width + right, *self.size)
        return F.F_pil.crop_beyond(img, i - top, j - left, h, w)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, padding={self.padding})"


_GET_CROP = RandomCrop.get_params


def _crop_within(height, width, crop_height, crop_width):
    if height < crop_height or width < crop_width:
        raise ValueError(
            f"Required crop size {(crop_height, crop_width)} is larger than input image size "
            f"{(height, width)}"
        )
    if width == crop_width and height == crop_height:
        return 0, 0, height, width
    top = draws.integer(0, height - crop_height + 1)
    left = draws.integer(0, width - crop_width + 1)
    return top, left, crop_height, crop_width


class RandomHorizontalFlip(nn.Module):
    """Left and right exchanged, with probability p."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, img):
        return F.hflip(img) if draws.happens(self.p) else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomVerticalFlip(nn.Module):
    """Top and bottom exchanged, with probability p."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, img):
        return F.vflip(img) if draws.happens(self.p) else img

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomResizedCrop(nn.Module):
    """A part of random area and shape, resized.

    scale: bounds of its area, as a share of the image. ratio: bounds of width / height.
    """

    def __init__(
        self,
        size,
        scale=(0.08, 1.0),
        ratio=(3.0 / 4.0, 4.0 / 3.0),
        interpolation=InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ):
        super().__init__()
        self.size = _setup_size(size, error_msg=TWO_DIMENSIONS)
        if not check_ranges(scale, ratio):
            warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=2)
        self.interpolation = mode_or_given(interpolation)
        self.antialias = antialias
        self.scale = scale
        self.ratio = ratio

    @staticmethod
    def get_params(
        img: Tensor, scale: list[float], ratio: list[float]
    ) -> tuple[int, int, int, int]:
        """Top, left, height and width of a crop."""
        _, height, width = F.get_dimensions(img)
        log_ratio = draws.logarithms(ratio)
        for _ in range(10):
            area = height * width * draws.uniform(scale[0], scale[1])
            aspect = draws.exponential_between(log_ratio[0], log_ratio[1])
            w = round(math.sqrt(area * aspect))
            h = round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return draws.integer(0, height - h + 1), draws.integer(0, width - w + 1), h, w
        # nothing fitted: the largest part in the middle that has a permitted shape
        w, h = width, height
        whole = float(width) / float(height)
        if whole < min(ratio):
            h = round(w / min(ratio))
        elif whole > max(ratio):
            w = round(h * max(ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img):
        i, j, h, w = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(
            img, i, j, h, w, self.size, self.interpolation, antialias=self.antialias
        )

    def __repr__(self) -> str:
        scale = tuple(round(s, 4) for s in self.scale)
        ratio = tuple(round(r, 4) for r in self.ratio)
        return (
            f"{type(self).__name__}(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias})"
        )


class FiveCrop(nn.Module):
    """The four corners and the middle, as a tuple."""

    def __init__(self, size):
        super().__init__()
        self.size = _setup_size(size, error_msg=TWO_DIMENSIONS)

    def forward(self, img):
        return F.five_crop(img, self.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size})"


class TenCrop(nn.Module):
    """The four corners and the middle of an image and of its mirror image, as a tuple."""

    def __init__(self, size, vertical_flip=False):
        super().__init__()
        self.size = _setup_size(size, error_msg=TWO_DIMENSIONS)
        self.vertical_flip = vertical_flip

    def forward(self, img):
        return F.ten_crop(img, self.size, self.vertical_flip)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, vertical_flip={self.vertical_flip})"


class RandomErasing(nn.Module):
    """A rectangle of a tensor overwritten, with probability p.

    scale and ratio: bounds of its area and of height / width. value: a number, one for each
    channel, or "random" for normal noise.
    """

    def __init__(self, p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False):
        super().__init__()
        if not isinstance(value, (numbers.Number, str, tuple, list)):
            raise TypeError("Argument value should be either a number or str or a sequence")
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if not check_ranges(scale, ratio):
            warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=2)
        if scale[0] < 0 or scale[1] > 1:
            raise ValueError("Scale should be between 0 and 1")
        if p < 0 or p > 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p = p
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    @staticmethod
    def get_params(
        img: Tensor,
        scale: tuple[float, float],
        ratio: tuple[float, float],
        value: list[float] | None = None,
    ) -> tuple[int, int, int, int, Tensor]:
        """Top, left, height and width of a rectangle, and what to write there."""
        channels, height, width = img.shape[-3], img.shape[-2], img.shape[-1]
        log_ratio = draws.logarithms(ratio)
        for _ in range(10):
            area = height * width * draws.uniform(scale[0], scale[1])
            aspect = draws.exponential_between(log_ratio[0], log_ratio[1])
            h = round(math.sqrt(area * aspect))
            w = round(math.sqrt(area / aspect))
            if not (h < height and w < width):
                continue
            if value is None:
                new = flambeau.empty([channels, h, w], dtype=flambeau.float32).normal_()
            else:
                new = flambeau.tensor(value)[:, None, None]
            top, left = draws.integer(0, height - h + 1), draws.integer(0, width - w + 1)
            return top, left, h, w, new
        return 0, 0, height, width, img

    def forward(self, img):
        if not draws.happens(self.p):
            return img
        value = self.value
        if isinstance(value, (int, float)):
            value = [float(value)]
        elif isinstance(value, str):
            value = None
        elif isinstance(value, (list, tuple)):
            value = [float(v) for v in value]
        if value is not None and len(value) not in (1, img.shape[-3]):
            raise ValueError(
                "If value is a sequence, it should have either a single value or "
                f"{img.shape[-3]} (number of input channels)"
            )
        i, j, h, w, new = self.get_params(img, scale=self.scale, ratio=self.ratio, value=value)
        return F.erase(img, i, j, h, w, new, self.inplace)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(p={self.p}, scale={self.scale}, ratio={self.ratio}, "
            f"value={self.value}, inplace={self.inplace})"
        )
