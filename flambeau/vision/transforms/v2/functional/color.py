"""Functions of v2 on colours. Tensors may have any number of leading dimensions."""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision.transforms.arguments import check_factor, check_gamma, check_hue
from flambeau.vision.transforms.conversion import pil_to_tensor, to_pil_image
from flambeau.vision.transforms.functional import F_pil
from flambeau.vision.transforms.tensor_checks import max_value, working_dtype
from flambeau.vision.transforms.tensor_color import (
    darkest_and_lightest,
    equalized,
    mean_level,
    turned_hues,
)
from flambeau.vision.transforms.tensor_filters import inner_means
from flambeau.vision.transforms.v2.functional.dispatch import kernel, operation, pil_kernel
from flambeau.vision.transforms.v2.functional.values import to_dtype_image, value_bits
from flambeau.vision.tv_tensors import Image, Video


def _by_pillow(functional, name):
    def run(image, *args, **kwargs):
        return getattr(F_pil, name)(image, *args, **kwargs)

    pil_kernel(functional)(run)


def _check_channels(image: Tensor) -> int:
    channels = image.shape[-3]
    if channels not in (1, 3):
        raise TypeError(
            f"Input image tensor permitted channel values are 1 or 3, but found {channels}"
        )
    return channels


def _within_range(values: Tensor, image: Tensor) -> Tensor:
    values = values.clamp(0, max_value(image.dtype))
    return values if image.is_floating_point() else values.to(image.dtype)


def _blend(image: Tensor, other: Tensor, ratio: float) -> Tensor:
    ratio = float(ratio)
    return _within_range(image.mul(ratio).add(other, alpha=1.0 - ratio), image)


# -- gray ------------------------------------------------------------------------------------------


@operation
def rgb_to_grayscale(inpt: Any, num_output_channels: int = 1) -> Any:
    """A picture in gray, with one channel or three equal ones."""


to_grayscale = rgb_to_grayscale


def _luma(image: Tensor) -> Tensor:
    red, green, blue = image.unbind(dim=-3)
    gray = red.mul(0.2989).add(green, alpha=0.587).add(blue, alpha=0.114)
    return gray.unsqueeze(dim=-3)


def _gray_levels(image: Tensor) -> Tensor:
    """How bright the pixels of a picture are, in steps of its dtype but as floats."""
    if image.shape[-3] == 1:
        return image.to(working_dtype(image))
    return _luma(image) if image.is_floating_point() else _luma(image).floor()


def _check_output_channels(count: int) -> None:
    if count not in (1, 3):
        raise ValueError(f"num_output_channels must be 1 or 3, got {count}.")


@kernel(rgb_to_grayscale, Tensor, Image)
def rgb_to_grayscale_image(image: Tensor, num_output_channels: int = 1) -> Tensor:
    _check_output_channels(num_output_channels)
    if image.shape[-3] == 1:
        if num_output_channels == 1:
            return image.clone()
        return image.repeat([1] * (image.ndim - 3) + [3, 1, 1])
    gray = _luma(image).to(image.dtype)
    return gray.expand(image.shape) if num_output_channels == 3 else gray


@pil_kernel(rgb_to_grayscale)
def _rgb_to_grayscale_pil(image, num_output_channels=1):
    _check_output_channels(num_output_channels)
    return F_pil.to_grayscale(image, num_output_channels)


@operation
def grayscale_to_rgb(inpt: Any) -> Any:
    """A gray picture with three equal channels; coloured ones stay as they are."""


@kernel(grayscale_to_rgb, Tensor, Image)
def grayscale_to_rgb_image(image: Tensor) -> Tensor:
    return image if image.shape[-3] >= 3 else rgb_to_grayscale_image(image, 3)


@pil_kernel(grayscale_to_rgb)
def _grayscale_to_rgb_pil(image):
    return image.convert(mode="RGB")


# -- factors ---------------------------------------------------------------------------------------


@operation
def adjust_brightness(inpt: Any, brightness_factor: float) -> Any:
    """0 gives black, 1 the picture itself, 2 one that is twice as bright."""


@kernel(adjust_brightness, Tensor, Image, Video)
def adjust_brightness_image(image: Tensor, brightness_factor: float) -> Tensor:
    check_factor("brightness_factor", brightness_factor)
    _check_channels(image)
    return _within_range(image.mul(brightness_factor), image)


adjust_brightness_video = adjust_brightness_image
_by_pillow(adjust_brightness, "adjust_brightness")


@operation
def adjust_saturation(inpt: Any, saturation_factor: float) -> Any:
    """0 gives a gray picture, 1 the picture itself, 2 twice the saturation."""


@kernel(adjust_saturation, Tensor, Image, Video)
def adjust_saturation_image(image: Tensor, saturation_factor: float) -> Tensor:
    check_factor("saturation_factor", saturation_factor)
    if _check_channels(image) == 1:
        return image
    return _blend(image, _gray_levels(image), saturation_factor)


adjust_saturation_video = adjust_saturation_image
_by_pillow(adjust_saturation, "adjust_saturation")


@operation
def adjust_contrast(inpt: Any, contrast_factor: float) -> Any:
    """0 gives plain gray, 1 the picture itself, 2 twice the contrast."""


@kernel(adjust_contrast, Tensor, Image, Video)
def adjust_contrast_image(image: Tensor, contrast_factor: float) -> Tensor:
    check_factor("contrast_factor", contrast_factor)
    _check_channels(image)
    return _blend(image, mean_level(_gray_levels(image)), contrast_factor)


adjust_contrast_video = adjust_contrast_image
_by_pillow(adjust_contrast, "adjust_contrast")


@operation
def adjust_sharpness(inpt: Any, sharpness_factor: float) -> Any:
    """0 gives a blurred picture, 1 the picture itself, 2 one that is twice as sharp."""


@kernel(adjust_sharpness, Tensor, Image, Video)
def adjust_sharpness_image(image: Tensor, sharpness_factor: float) -> Tensor:
    channels, height, width = image.shape[-3:]
    if channels not in (1, 3):
        raise TypeError(f"Input image tensor can have 1 or 3 channels, but found {channels}")
    check_factor("sharpness_factor", sharpness_factor)
    if min(height, width) <= 2 or image.numel() == 0:
        return image
    out = image.reshape(-1, channels, height, width).to(working_dtype(image), copy=True)
    smooth = inner_means(out, channels)
    inside = out[..., 1:-1, 1:-1]  # pixels at the edges stay as they are
    difference = (smooth if image.is_floating_point() else smooth.round()) - inside
    inside.add_(difference, alpha=1.0 - sharpness_factor)
    return _within_range(out, image).reshape(image.shape)


adjust_sharpness_video = adjust_sharpness_image
_by_pillow(adjust_sharpness, "adjust_sharpness")


# -- hue -------------------------------------------------------------------------------------------


@operation
def adjust_hue(inpt: Any, hue_factor: float) -> Any:
    """Hues turned around the circle: -0.5 and 0.5 are half of it."""


@kernel(adjust_hue, Tensor, Image, Video)
def adjust_hue_image(image: Tensor, hue_factor: float) -> Tensor:
    check_hue(hue_factor)
    if _check_channels(image) == 1 or image.numel() == 0:
        return image
    floats = to_dtype_image(image, flambeau.float32, scale=True)
    turned = turned_hues(floats, hue_factor, lambda s: s * (1.0 / 6.0), _rising)
    return to_dtype_image(turned, image.dtype, scale=True)


def _rising(saturation, part):
    return saturation * part + (1.0 - saturation)


adjust_hue_video = adjust_hue_image
_by_pillow(adjust_hue, "adjust_hue")


# -- curves ----------------------------------------------------------------------------------------


@operation
def adjust_gamma(inpt: Any, gamma: float, gain: float = 1) -> Any:
    """gain * value ** gamma: above 1 makes shadows darker, below 1 lighter."""


@kernel(adjust_gamma, Tensor, Image, Video)
def adjust_gamma_image(image: Tensor, gamma: float, gain: float = 1.0) -> Tensor:
    check_gamma(gamma)
    curve = to_dtype_image(image, working_dtype(image), scale=True).pow(gamma)
    if gain != 1.0:
        curve = curve.mul(gain).clamp(0.0, 1.0)
    return to_dtype_image(curve, image.dtype, scale=True)


adjust_gamma_video = adjust_gamma_image
_by_pillow(adjust_gamma, "adjust_gamma")


@operation
def posterize(inpt: Any, bits: int) -> Any:
    """A picture that keeps so many bits of each value."""


@kernel(posterize, Tensor, Image, Video)
def posterize_image(image: Tensor, bits: int) -> Tensor:
    if not (isinstance(bits, int) and 0 <= bits <= 8):
        raise TypeError(f"bits must be a positive integer in the range [0, 8], got {bits} instead.")
    if not image.is_floating_point():
        most = (1 << value_bits(image.dtype)) - 1
        lost = most >> bits
        return image & (most - lost) if lost else image
    count = 2**bits
    return (image * count).floor().clamp(0, count - 1) * (1.0 / count)


posterize_video = posterize_image
_by_pillow(posterize, "posterize")


@operation
def solarize(inpt: Any, threshold: float) -> Any:
    """Values from the threshold on, inverted."""


@kernel(solarize, Tensor, Image, Video)
def solarize_image(image: Tensor, threshold: float) -> Tensor:
    if threshold > max_value(image.dtype):
        raise TypeError(
            f"Threshold should be less or equal the maximum value of the dtype, but got {threshold}"
        )
    return flambeau.where(image >= threshold, invert_image(image), image)


solarize_video = solarize_image
_by_pillow(solarize, "solarize")


@operation
def autocontrast(inpt: Any) -> Any:
    """Each channel stretched, so that its darkest pixel is black and its lightest white."""


@kernel(autocontrast, Tensor, Image, Video)
def autocontrast_image(image: Tensor) -> Tensor:
    _check_channels(image)
    if image.numel() == 0:
        return image
    bound = max_value(image.dtype)
    low, high = darkest_and_lightest(image.to(working_dtype(image)))
    is_flat = low == high
    unit = ((high - low) * (1.0 / bound)).masked_fill(is_flat, 1.0)
    above = image - low.masked_fill(is_flat, 0.0)
    return (above / unit).clamp(0, bound).to(image.dtype)


autocontrast_video = autocontrast_image
_by_pillow(autocontrast, "autocontrast")


@operation
def equalize(inpt: Any) -> Any:
    """Values respaced so that all occur about equally often."""


@kernel(equalize, Tensor, Image, Video)
def equalize_image(image: Tensor) -> Tensor:
    if image.numel() == 0:
        return image
    as_bytes = to_dtype_image(image, flambeau.uint8, scale=True)
    return to_dtype_image(equalized(as_bytes), image.dtype, scale=True)


equalize_video = equalize_image
_by_pillow(equalize, "equalize")


@operation
def invert(inpt: Any) -> Any:
    """The negative of a picture."""


@kernel(invert, Tensor, Image, Video)
def invert_image(image: Tensor) -> Tensor:
    if image.is_floating_point():
        return 1.0 - image
    if image.dtype == flambeau.uint8:
        return image.bitwise_not()
    return image.bitwise_xor((1 << value_bits(image.dtype)) - 1)


invert_video = invert_image
_by_pillow(invert, "invert")


@operation
def permute_channels(inpt: Any, permutation: Any) -> Any:
    """Channels in another order."""


@kernel(permute_channels, Tensor, Image, Video)
def permute_channels_image(image: Tensor, permutation: Any) -> Tensor:
    count, channels = len(permutation), image.shape[-3]
    if count != channels:
        raise ValueError(
            f"Length of permutation does not match number of channels: {count} != {channels}"
        )
    return image[..., permutation, :, :] if image.numel() else image


permute_channels_video = permute_channels_image


@pil_kernel(permute_channels)
def _permute_channels_pil(image, permutation):
    return to_pil_image(permute_channels_image(pil_to_tensor(image), permutation))
