"""torchvision.transforms.functional: operations on one image, which is a tensor or a PIL image.

Each function checks what both kinds share and hands the image to `_functional_tensor` or, through
Pillow, to `_functional_pil`. Conversions between the two are in `conversion.py`; the mathematics of
warps (matrices, coefficients) in `warps.py`.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision.pillow import pillow
from flambeau.vision.transforms import _functional_tensor as F_t
from flambeau.vision.transforms.arguments import (
    blur_sizes,
    check_angle,
    check_center,
    checked_shears,
    height_and_width,
    one_or_two,
)
from flambeau.vision.transforms.conversion import is_pil_image, pil_to_tensor, to_pil_image
from flambeau.vision.transforms.conversion import to_tensor as to_tensor
from flambeau.vision.transforms.interpolation import (
    InterpolationMode,
    _interpolation_modes_from_int,
    as_mode,
    pil_modes_mapping,
)
from flambeau.vision.transforms.warps import (
    _compute_resized_output_size,
    _get_inverse_affine_matrix,
    _get_perspective_coeffs,
)

_is_pil_image = is_pil_image


class _OnFirstUse:
    """Stands for `_functional_pil`, whose import imports Pillow; it becomes that when touched."""

    def __getattr__(self, name):
        pillow()
        from flambeau.vision.transforms import _functional_pil

        self.__dict__.update(vars(_functional_pil))
        return getattr(_functional_pil, name)


F_pil: Any = _OnFirstUse()


# -- sizes and conversions -------------------------------------------------------------------------


def get_dimensions(img: Any) -> list[int]:
    """Channels, height and width."""
    return F_t.get_dimensions(img) if isinstance(img, Tensor) else F_pil.get_dimensions(img)


def get_image_size(img: Any) -> list[int]:
    """Width and height."""
    return F_t.get_image_size(img) if isinstance(img, Tensor) else F_pil.get_image_size(img)


def get_image_num_channels(img: Any) -> int:
    """How many channels an image has."""
    if isinstance(img, Tensor):
        return F_t.get_image_num_channels(img)
    return F_pil.get_image_num_channels(img)


def convert_image_dtype(image: Any, dtype: flambeau.dtype = flambeau.float32) -> Any:
    """The same picture in another dtype: values are scaled to the range of that dtype."""
    if not isinstance(image, Tensor):
        raise TypeError("Input img should be Tensor Image")
    return F_t.convert_image_dtype(image, dtype)


def normalize(tensor: Any, mean: Any, std: Any, inplace: bool = False) -> Any:
    """How many standard deviations each value lies above the mean of its channel."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    return F_t.normalize(tensor, mean, std, inplace)


# -- resizing, padding, cropping -------------------------------------------------------------------


def resize(
    img: Any,
    size: int | Sequence[int],
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """An image of another size; one number is the length of the shorter side.

    max_size: what the longer side may not exceed. antialias: whether shrinking averages over all
    the pixels that a new one covers (always for PIL images).
    """
    mode = as_mode(interpolation)
    _check_size(size, max_size)
    old = get_dimensions(img)[1:]
    new = _compute_resized_output_size(old, [size] if isinstance(size, int) else size, max_size)
    if new == old:
        return img
    if isinstance(img, Tensor):
        return F_t.resize(img, new, mode.value, antialias)
    if antialias is False:
        warnings.warn(
            "Anti-alias option is always applied for PIL Image input. "
            "Argument antialias is ignored.",
            stacklevel=2,
        )
    return F_pil.resize(img, new, pil_modes_mapping[mode])


def _check_size(size, max_size):
    if not isinstance(size, (list, tuple)):
        return
    if len(size) not in (1, 2):
        raise ValueError(
            "Size must be an int or a 1 or 2 element tuple/list, "
            f"not a {len(size)} element tuple/list"
        )
    if len(size) == 2 and max_size is not None:
        raise ValueError(
            "max_size should only be passed if size specifies the length of the smaller edge, "
            "i.e. size should be an int or a sequence of length 1 in torchscript mode."
        )


def pad(
    img: Any, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant"
) -> Any:
    """An image with more pixels around it.

    padding: one number for all sides, (left and right, top and bottom), or (left, top, right,
    bottom). padding_mode: "constant" (of colour fill), "edge", "reflect" or "symmetric".
    """
    kind = F_t if isinstance(img, Tensor) else F_pil
    return kind.pad(img, padding, fill, padding_mode)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of an image; what lies outside is zero."""
    kind = F_t if isinstance(img, Tensor) else F_pil
    return kind.crop(img, top, left, height, width)


def center_crop(img: Any, output_size: int | Sequence[int]) -> Any:
    """The middle of an image, padded with zeros where the image is smaller."""
    crop_height, crop_width = one_or_two(output_size)
    _, height, width = get_dimensions(img)
    if crop_width > width or crop_height > height:
        more_x, more_y = max(crop_width - width, 0), max(crop_height - height, 0)
        img = pad(img, [more_x // 2, more_y // 2, (more_x + 1) // 2, (more_y + 1) // 2], fill=0)
        _, height, width = get_dimensions(img)
        if (crop_height, crop_width) == (height, width):
            return img
    top = round((height - crop_height) / 2.0)
    left = round((width - crop_width) / 2.0)
    return crop(img, top, left, crop_height, crop_width)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: int | Sequence[int],
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """A part of an image, resized."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: Any) -> Any:
    """Left and right exchanged."""
    return F_t.hflip(img) if isinstance(img, Tensor) else F_pil.hflip(img)


def vflip(img: Any) -> Any:
    """Top and bottom exchanged."""
    return F_t.vflip(img) if isinstance(img, Tensor) else F_pil.vflip(img)


def five_crop(img: Any, size: int | Sequence[int]) -> tuple[Any, ...]:
    """The four corners and the middle of an image."""
    crop_height, crop_width = size = height_and_width(size)
    _, height, width = get_dimensions(img)
    if crop_width > width or crop_height > height:
        raise ValueError(f"Requested crop size {size} is bigger than input size {(height, width)}")
    right, bottom = width - crop_width, height - crop_height
    top_left, top_right, bottom_left, bottom_right = (
        crop(img, top, left, crop_height, crop_width)
        for top, left in ((0, 0), (0, right), (bottom, 0), (bottom, right))
    )
    center = center_crop(img, [crop_height, crop_width])
    return top_left, top_right, bottom_left, bottom_right, center


def ten_crop(img: Any, size: int | Sequence[int], vertical_flip: bool = False) -> tuple[Any, ...]:
    """The four corners and the middle of an image and of its mirror image."""
    size = height_and_width(size)
    mirrored = vflip(img) if vertical_flip else hflip(img)
    return five_crop(img, size) + five_crop(mirrored, size)


# -- warps -----------------------------------------------------------------------------------------


def _from_the_middle(img, center):
    """A point in coordinates whose origin is the middle of the image."""
    if center is None:
        return [0.0, 0.0]
    _, height, width = get_dimensions(img)
    return [1.0 * (c - s * 0.5) for c, s in zip(center, (width, height))]


def perspective(
    img: Any,
    startpoints: list[list[int]],
    endpoints: list[list[int]],
    interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = None,
) -> Any:
    """The perspective in which four points of the image come to lie on four others."""
    coefficients = _get_perspective_coeffs(startpoints, endpoints)
    interpolation = as_mode(interpolation)
    if isinstance(img, Tensor):
        return F_t.perspective(img, coefficients, interpolation.value, fill)
    return F_pil.perspective(img, coefficients, pil_modes_mapping[interpolation], fill)


def rotate(
    img: Any,
    angle: float,
    interpolation: Any = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Any = None,
) -> Any:
    """An image turned counter-clockwise, by degrees.

    expand: make the result large enough for all of the image. center: the point that stays where
    it is, as (x, y); the middle by default.
    """
    interpolation = as_mode(interpolation)
    check_angle(angle)
    check_center(center)
    if not isinstance(img, Tensor):
        return F_pil.rotate(img, angle, pil_modes_mapping[interpolation], expand, center, fill)
    middle = _from_the_middle(img, center)
    # the inverse of turning by this angle, in coordinates whose y points down
    matrix = _get_inverse_affine_matrix(middle, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    return F_t.rotate(img, matrix, interpolation.value, expand, fill)


def affine(
    img: Any,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
    interpolation: Any = InterpolationMode.NEAREST,
    fill: Any = None,
    center: Sequence[float] | None = None,
) -> Any:
    """An image turned clockwise by degrees, moved by pixels, scaled and sheared by degrees."""
    interpolation = as_mode(interpolation)
    shears = checked_shears(angle, translate, scale, shear, center)
    _, height, width = get_dimensions(img)
    angle = float(angle)
    if not isinstance(img, Tensor):
        middle = [width * 0.5, height * 0.5] if center is None else center
        matrix = _get_inverse_affine_matrix(middle, angle, list(translate), scale, shears)
        return F_pil.affine(img, matrix, pil_modes_mapping[interpolation], fill)
    matrix = _get_inverse_affine_matrix(
        _from_the_middle(img, center), angle, [1.0 * t for t in translate], scale, shears
    )
    return F_t.affine(img, matrix, interpolation.value, fill)


def elastic_transform(
    img: Any,
    displacement: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    fill: Any = None,
) -> Any:
    """Each pixel taken from a place that a displacement, (1, H, W, 2), says.

    Displacements are fractions of half the image, along x and y.
    """
    if isinstance(interpolation, int):
        warnings.warn(
            "Argument interpolation should be of type InterpolationMode instead of int. "
            "Please, use InterpolationMode enum.",
            stacklevel=2,
        )
        interpolation = _interpolation_modes_from_int(interpolation)
    if not isinstance(displacement, Tensor):
        raise TypeError("Argument displacement should be a Tensor")
    tensor = _as_tensor(img)
    shape = (1, *tensor.shape[-2:], 2)
    if shape != tuple(displacement.shape):
        raise ValueError(
            f"Argument displacement shape should be {type(tensor.shape)(shape)}, "
            f"but given {displacement.shape}"
        )
    return _like(img, F_t.elastic_transform(tensor, displacement, interpolation.value, fill))


def _as_tensor(img):
    """The image itself or, from Pillow, its values as a tensor."""
    if isinstance(img, Tensor):
        return img
    if not is_pil_image(img):
        raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")
    return pil_to_tensor(img)


def _like(img, tensor):
    return tensor if isinstance(img, Tensor) else to_pil_image(tensor, mode=img.mode)


# -- colours ---------------------------------------------------------------------------------------


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """0 gives black, 1 the image itself, 2 one that is twice as bright."""
    kind = F_t if isinstance(img, Tensor) else F_pil
    return kind.adjust_brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """0 gives plain gray, 1 the image itself, 2 twice the contrast."""
    kind = F_t if isinstance(img, Tensor) else F_pil
    return kind.adjust_contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """0 gives a gray image, 1 the image itself, 2 twice the saturation."""
    kind = F_t if isinstance(img, Tensor) else F_pil
    return kind.adjust_saturation(img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Hues turned around the circle: -0.5 and 0.5 are half of it."""
    kind = F_t if isinstance(img, Tensor) else F_pil
    return kind.adjust_hue(img, hue_factor)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain * value ** gamma: above 1 makes shadows darker, below 1 lighter."""
    kind = F_t if isinstance(img, Tensor) else F_pil
    return kind.adjust_gamma(img, gamma, gain)


def to_grayscale(img, num_output_channels=1):
    """A PIL image in gray; `rgb_to_grayscale` takes tensors too."""
    if not is_pil_image(img):
        raise TypeError("Input should be PIL Image")
    return F_pil.to_grayscale(img, num_output_channels)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """An image in gray, with one channel or three equal ones."""
    if isinstance(img, Tensor):
        return F_t.rgb_to_grayscale(img, num_output_channels)
    return F_pil.to_grayscale(img, num_output_channels)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Any:
    """The rectangle of h rows and w columns from (i, j) on, overwritten with v."""
    if not isinstance(img, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    return F_t.erase(img, i, j, h, w, v, inplace=inplace)


def gaussian_blur(
    img: Any, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None = None
) -> Any:
    """Each pixel averaged with its neighbours, weighted by a bell.

    kernel_size and sigma are for x and y, or one number for both.
    """
    if not isinstance(kernel_size, (int, list, tuple)):
        raise TypeError(
            f"kernel_size should be int or a sequence of integers. Got {type(kernel_size)}"
        )
    given = [kernel_size] * 2 if isinstance(kernel_size, int) else kernel_size
    sizes, widths = blur_sizes(given, sigma)
    return _like(img, F_t.gaussian_blur(_as_tensor(img), sizes, widths))


def invert(img: Any) -> Any:
    """The negative of an image."""
    return F_t.invert(img) if isinstance(img, Tensor) else F_pil.invert(img)


def posterize(img: Any, bits: int) -> Any:
    """An image that keeps so many bits of each value."""
    if not 0 <= bits <= 8:
        raise ValueError(f"The number if bits should be between 0 and 8. Got {bits}")
    return F_t.posterize(img, bits) if isinstance(img, Tensor) else F_pil.posterize(img, bits)


def solarize(img: Any, threshold: float) -> Any:
    """Values from the threshold on, inverted."""
    kind = F_t if isinstance(img, Tensor) else F_pil
    return kind.solarize(img, threshold)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """0 gives a blurred image, 1 the image itself, 2 one that is twice as sharp."""
    kind = F_t if isinstance(img, Tensor) else F_pil
    return kind.adjust_sharpness(img, sharpness_factor)


def autocontrast(img: Any) -> Any:
    """Each channel stretched, so that its darkest pixel is black and its lightest white."""
    return F_t.autocontrast(img) if isinstance(img, Tensor) else F_pil.autocontrast(img)


def equalize(img: Any) -> Any:
    """Values respaced so that all occur about equally often."""
    return F_t.equalize(img) if isinstance(img, Tensor) else F_pil.equalize(img)
