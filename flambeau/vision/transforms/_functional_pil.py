"""Operations on PIL images, by Pillow itself. `functional` comes here with whatever is no tensor.

Importing this file imports Pillow; nothing else of the transforms does. Numbers and messages are
torchvision's. Conversions between images and tensors are in `conversion.py`.
"""

import numbers
from collections.abc import Sequence
from typing import Any, Literal

from PIL import Image, ImageEnhance, ImageOps

from flambeau.vision.transforms import arguments

_BANDS_OF_MODE = {"1": 1, "L": 1, "P": 1, "I": 1, "F": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}
# where cropping beyond the edges gives what padding with zeros gives
_ZERO_PADDED = frozenset("1 L LA RGB RGBA CMYK I F I;16".split())
_WITHOUT_HUE = frozenset("L 1 I F".split())


def _is_pil_image(img: Any) -> bool:
    return isinstance(img, Image.Image)


def _check(img: Any) -> None:
    if not isinstance(img, Image.Image):
        raise TypeError(f"img should be PIL Image. Got {type(img)}")


# -- sizes -----------------------------------------------------------------------------------------


def _check_kind(img: Any) -> None:
    if not isinstance(img, Image.Image):
        raise TypeError(f"Unexpected type {type(img)}")


def get_image_num_channels(img: Any) -> int:
    """How many bands an image has."""
    _check_kind(img)
    return _BANDS_OF_MODE.get(img.mode) or len(img.getbands())


def get_dimensions(img: Any) -> list[int]:
    """Bands, height and width."""
    channels = get_image_num_channels(img)
    width, height = img.size
    return [channels, height, width]


def get_image_size(img: Any) -> list[int]:
    """Width and height."""
    _check_kind(img)
    return list(img.size)


# -- places of pixels ------------------------------------------------------------------------------


def hflip(img: Image.Image) -> Image.Image:
    _check(img)
    return img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Image.Image) -> Image.Image:
    _check(img)
    return img.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def crop(img: Image.Image, top: int, left: int, height: int, width: int) -> Image.Image:
    _check(img)
    return img.crop((left, top, left + width, top + height))


def pads_with_zeros(img, padding, fill):
    """Whether cropping beyond the edges gives what `pad` and `crop` would give."""
    return (
        img.mode in _ZERO_PADDED
        and (fill is None or (isinstance(fill, (int, float)) and int(fill) == fill == 0))
        and plain_sides(padding) is not None
        and "transparency" not in img.info
    )


def crop_beyond(img, top, left, height, width):
    """A part of an image that may lie outside, where all is zero."""
    out = img.crop((left, top, left + width, top + height))
    out.info = {}  # padding makes a new image, which knows nothing of the file
    return out


def plain_sides(padding):
    """Left, top, right and bottom, where they are plain numbers of pixels; else None."""
    given = padding if isinstance(padding, (tuple, list)) else (padding,)
    if len(given) not in (1, 2, 4):
        return None
    for side in given:
        if type(side) is not int or side < 0:
            return None
    return arguments.four_sides(given)


def pad(
    img: Image.Image,
    padding: int | list[int] | tuple[int, ...],
    fill: float | list[float] | tuple[float, ...] | None = 0,
    padding_mode: Literal["constant", "edge", "reflect", "symmetric"] = "constant",
) -> Image.Image:
    _check(img)
    kinds = (numbers.Number, tuple, list)
    arguments.check_kinds(
        padding=(padding, kinds),
        fill=(fill, (*kinds, type(None))),
        padding_mode=(padding_mode, str),
    )
    arguments.check_side_count(padding)
    arguments.check_padding_mode(padding_mode)
    sides = arguments.four_sides(padding)
    if padding_mode != "constant":
        return _pad_from_edges(img, sides, padding_mode)
    out = ImageOps.expand(img, border=sides, **_parse_fill(fill, img, name="fill"))
    return _with_palette(out, img)


def _with_palette(out, img):
    """Pixels that are numbers of colours keep the colours."""
    if img.mode == "P":
        out.putpalette(img.getpalette())
    return out


def _pad_from_edges(img, sides, padding_mode):
    import numpy as np

    left, top, right, bottom = (min(side, 0) for side in sides)
    if left or top or right or bottom:
        img = img.crop((-left, -top, img.width + right, img.height + bottom))
    left, top, right, bottom = (max(side, 0) for side in sides)
    pixels = np.asarray(img)
    widths = [(top, bottom), (left, right), (0, 0)]
    out = Image.fromarray(np.pad(pixels, widths[: pixels.ndim], mode=padding_mode))
    return _with_palette(out, img)


def resize(
    img: Image.Image, size: list[int] | int, interpolation: Any = Image.Resampling.BILINEAR
) -> Image.Image:
    _check(img)
    if not (isinstance(size, list) and len(size) == 2):
        raise TypeError(f"Got inappropriate size arg: {size}")
    return img.resize((size[1], size[0]), interpolation)


def _parse_fill(
    fill: float | list[float] | tuple[float, ...] | None, img: Image.Image, name: str = "fillcolor"
) -> dict[str, Any]:
    """What Pillow wants for the colour of new pixels: one number per band, whole except in F."""
    bands = get_image_num_channels(img)
    is_list = isinstance(fill, (list, tuple))
    colors: Any = fill if is_list else [fill or 0]
    if len(colors) == 1:
        colors = [colors[0]] * bands
    if len(colors) != bands:
        raise ValueError(
            "The number of elements in 'fill' does not match the number of channels of the "
            f"image ({len(colors)} != {bands})"
        )
    whole = tuple(colors if img.mode == "F" else map(int, colors))
    is_for_all = bands > 1 and isinstance(colors[0], (int, float))
    return {name: whole if is_list or is_for_all else whole[0]}


def affine(
    img: Image.Image,
    matrix: list[float],
    interpolation: Any = Image.Resampling.NEAREST,
    fill: int | float | Sequence[int] | Sequence[float] | None = None,
) -> Image.Image:
    _check(img)
    options = _parse_fill(fill, img)  # type: ignore[arg-type]
    return img.transform(img.size, Image.Transform.AFFINE, matrix, interpolation, **options)


def rotate(
    img: Image.Image,
    angle: float,
    interpolation: Any = Image.Resampling.NEAREST,
    expand: bool = False,
    center: tuple[int, int] | None = None,
    fill: int | float | Sequence[int] | Sequence[float] | None = None,
) -> Image.Image:
    _check(img)
    options = _parse_fill(fill, img)  # type: ignore[arg-type]
    return img.rotate(angle, interpolation, expand, center, **options)


def perspective(
    img: Image.Image,
    perspective_coeffs: list[float],
    interpolation: Any = Image.Resampling.BICUBIC,
    fill: int | float | Sequence[int] | Sequence[float] | None = None,
) -> Image.Image:
    _check(img)
    options = _parse_fill(fill, img)  # type: ignore[arg-type]
    kind = Image.Transform.PERSPECTIVE
    return img.transform(img.size, kind, perspective_coeffs, interpolation, **options)


# -- colours ---------------------------------------------------------------------------------------


def adjust_brightness(img: Image.Image, brightness_factor: float) -> Image.Image:
    _check(img)
    return ImageEnhance.Brightness(img).enhance(brightness_factor)


def adjust_contrast(img: Image.Image, contrast_factor: float) -> Image.Image:
    _check(img)
    return ImageEnhance.Contrast(img).enhance(contrast_factor)


def adjust_saturation(img: Image.Image, saturation_factor: float) -> Image.Image:
    _check(img)
    return ImageEnhance.Color(img).enhance(saturation_factor)


def adjust_sharpness(img: Image.Image, sharpness_factor: float) -> Image.Image:
    _check(img)
    return ImageEnhance.Sharpness(img).enhance(sharpness_factor)


def adjust_hue(img: Image.Image, hue_factor: float) -> Image.Image:
    arguments.check_hue(hue_factor)
    _check(img)
    if img.mode in _WITHOUT_HUE:
        return img
    hue, saturation, value = img.convert("HSV").split()
    shift = int(hue_factor * 255)
    hue = hue.point([(old + shift) % 256 for old in range(256)])
    return Image.merge("HSV", (hue, saturation, value)).convert(img.mode)


def adjust_gamma(img: Image.Image, gamma: float, gain: float = 1.0) -> Image.Image:
    _check(img)
    arguments.check_gamma(gamma)
    curve = [int((255 + 1 - 1e-3) * gain * pow(value / 255.0, gamma)) for value in range(256)]
    return img.convert("RGB").point(curve * 3).convert(img.mode)


def to_grayscale(img: Image.Image, num_output_channels: int) -> Image.Image:
    _check(img)
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    gray = img.convert("L")
    return gray if num_output_channels == 1 else Image.merge("RGB", (gray, gray, gray))


def invert(img: Image.Image) -> Image.Image:
    _check(img)
    return ImageOps.invert(img)


def posterize(img: Image.Image, bits: int) -> Image.Image:
    _check(img)
    return ImageOps.posterize(img, bits)


def solarize(img: Image.Image, threshold: int) -> Image.Image:
    _check(img)
    return ImageOps.solarize(img, threshold)


def autocontrast(img: Image.Image) -> Image.Image:
    _check(img)
    return ImageOps.autocontrast(img)


def equalize(img: Image.Image) -> Image.Image:
    _check(img)
    return ImageOps.equalize(img)
