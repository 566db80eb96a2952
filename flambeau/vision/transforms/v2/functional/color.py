"""Functions of v2 on colours. Tensors may have any number of leading dimensions."""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.functional import conv2d
from flambeau.vision.transforms.conversion import pil_to_tensor, to_pil_image
from flambeau.vision.transforms.functional import F_pil
from flambeau.vision.transforms.tensor_checks import max_value
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


def _check_factor(name: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


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
    _check_factor("brightness_factor", brightness_factor)
    _check_channels(image)
    return _within_range(image.mul(brightness_factor), image)


adjust_brightness_video = adjust_brightness_image
_by_pillow(adjust_brightness, "adjust_brightness")


@operation
def adjust_saturation(inpt: Any, saturation_factor: float) -> Any:
    """0 gives a gray picture, 1 the picture itself, 2 twice the saturation."""


@kernel(adjust_saturation, Tensor, Image, Video)
def adjust_saturation_image(image: Tensor, saturation_factor: float) -> Tensor:
    _check_factor("saturation_factor", saturation_factor)
    if _check_channels(image) == 1:
        return image
    gray = _luma(image)
    return _blend(image, gray if image.is_floating_point() else gray.floor(), saturation_factor)


adjust_saturation_video = adjust_saturation_image
_by_pillow(adjust_saturation, "adjust_saturation")


@operation
def adjust_contrast(inpt: Any, contrast_factor: float) -> Any:
    """0 gives plain gray, 1 the picture itself, 2 twice the contrast."""


@kernel(adjust_contrast, Tensor, Image, Video)
def adjust_contrast_image(image: Tensor, contrast_factor: float) -> Tensor:
    _check_factor("contrast_factor", contrast_factor)
    is_float = image.is_floating_point()
    if _check_channels(image) == 3:
        gray = _luma(image)
        gray = gray if is_float else gray.floor()
    else:
        gray = image if is_float else image.to(flambeau.float32)
    mean = flambeau.mean(gray, dim=(-3, -2, -1), keepdim=True)
    return _blend(image, mean, contrast_factor)


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
    _check_factor("sharpness_factor", sharpness_factor)
    if image.numel() == 0 or height <= 2 or width <= 2:
        return image
    is_float = image.is_floating_point()
    dtype = image.dtype if is_float else flambeau.float32
    a, b = 1.0 / 13.0, 5.0 / 13.0
    weights = flambeau.tensor([[a, a, a], [a, b, a], [a, a, a]], dtype=dtype, device=image.device)
    out = image.reshape(-1, channels, height, width).to(dtype=dtype, copy=True)
    smooth = conv2d(out, weights.expand(channels, 1, 3, 3), groups=channels)
    if not is_float:
        smooth = smooth.round()
    inner = out[..., 1:-1, 1:-1]
    inner.add_(smooth.sub(inner), alpha=1.0 - sharpness_factor)
    return _within_range(out, image).reshape(image.shape)


adjust_sharpness_video = adjust_sharpness_image
_by_pillow(adjust_sharpness, "adjust_sharpness")


# -- hue -------------------------------------------------------------------------------------------


@operation
def adjust_hue(inpt: Any, hue_factor: float) -> Any:
    """Hues turned around the circle: -0.5 and 0.5 are half of it."""


def _rgb_to_hsv(image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    red, green, _ = image.unbind(dim=-3)
    least, most = image.amin(dim=-3), image.amax(dim=-3)
    is_gray = most == least
    spread = most - least
    ones = flambeau.ones_like(most)
    saturation = spread / flambeau.where(is_gray, ones, most)
    divisor = flambeau.where(is_gray, ones, spread).unsqueeze(dim=-3)
    from_red, from_green, from_blue = ((most.unsqueeze(dim=-3) - image) / divisor).unbind(dim=-3)
    not_red = most != red
    at_green = most == green
    hue = (
        (from_blue - from_green) * ~not_red
        + (from_red + 2.0 - from_blue) * (at_green & not_red)
        + (from_green + 4.0 - from_red) * (not_red & ~at_green)
    )
    return (hue * (1.0 / 6.0) + 1.0).fmod(1.0), saturation, most


_SEXTANTS = ([0, 2, 1, 1, 3, 0], [3, 0, 0, 2, 1, 1], [1, 1, 3, 0, 0, 2])


def _hsv_to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    place = hue.mul(6)
    whole = place.floor()
    part = place - whole
    shifted = saturation * part
    rest = 1.0 - saturation
    q = ((1.0 - shifted) * value).clamp(0.0, 1.0)
    t = ((shifted + rest) * value).clamp(0.0, 1.0)
    p = (rest * value).clamp(0.0, 1.0)
    sextant = whole.to(flambeau.int32).remainder(6).to(flambeau.int64)
    choices = flambeau.stack((value, p, q, t), dim=-3)
    table = flambeau.tensor(_SEXTANTS, dtype=flambeau.int64, device=hue.device)
    return choices.gather(-3, table[:, sextant].movedim(0, -3))


@kernel(adjust_hue, Tensor, Image, Video)
def adjust_hue_image(image: Tensor, hue_factor: float) -> Tensor:
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if _check_channels(image) == 1 or image.numel() == 0:
        return image
    hue, saturation, value = _rgb_to_hsv(to_dtype_image(image, flambeau.float32, scale=True))
    turned = _hsv_to_rgb(hue.add(hue_factor).remainder(1.0), saturation, value)
    return to_dtype_image(turned, image.dtype, scale=True)


adjust_hue_video = adjust_hue_image
_by_pillow(adjust_hue, "adjust_hue")


# -- curves ----------------------------------------------------------------------------------------


@operation
def adjust_gamma(inpt: Any, gamma: float, gain: float = 1) -> Any:
    """gain * value ** gamma: above 1 makes shadows darker, below 1 lighter."""


@kernel(adjust_gamma, Tensor, Image, Video)
def adjust_gamma_image(image: Tensor, gamma: float, gain: float = 1.0) -> Tensor:
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    if not image.is_floating_point():
        out = to_dtype_image(image, flambeau.float32, scale=True).pow(gamma)
    else:
        out = image.pow(gamma)
    if gain != 1.0:
        out = out.mul(gain).clamp(0.0, 1.0)
    return to_dtype_image(out, image.dtype, scale=True)


adjust_gamma_video = adjust_gamma_image
_by_pillow(adjust_gamma, "adjust_gamma")


@operation
def posterize(inpt: Any, bits: int) -> Any:
    """A picture that keeps so many bits of each value."""


@kernel(posterize, Tensor, Image, Video)
def posterize_image(image: Tensor, bits: int) -> Tensor:
    if not isinstance(bits, int) or not 0 <= bits <= 8:
        raise TypeError(f"bits must be a positive integer in the range [0, 8], got {bits} instead.")
    if image.is_floating_point():
        levels = 1 << bits
        return image.mul(levels).floor().clamp(0, levels - 1).mul(1.0 / levels)
    width = value_bits(image.dtype)
    return image if bits >= width else image & (((1 << bits) - 1) << (width - bits))


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
    floats = image if image.is_floating_point() else image.to(flambeau.float32)
    least = floats.amin(dim=(-2, -1), keepdim=True)
    most = floats.amax(dim=(-2, -1), keepdim=True)
    is_flat = most == least
    unit = (most - least).mul(1.0 / bound)
    least[is_flat] = 0.0
    unit[is_flat] = 1.0
    return floats.sub(least).div(unit).clamp(0, bound).to(image.dtype)


autocontrast_video = autocontrast_image
_by_pillow(autocontrast, "autocontrast")


@operation
def equalize(inpt: Any) -> Any:
    """Values respaced so that all occur about equally often."""


@kernel(equalize, Tensor, Image, Video)
def equalize_image(image: Tensor) -> Tensor:
    if image.numel() == 0:
        return image
    bytes_ = to_dtype_image(image, flambeau.uint8, scale=True)
    flat = bytes_.flatten(start_dim=-2).to(flambeau.int64)
    counts = flambeau.zeros(*bytes_.shape[:-2], 256, dtype=flambeau.int32, device=image.device)
    counts.scatter_add_(dim=-1, index=flat, src=counts.new_ones(1).expand_as(flat))
    below = counts.cumsum(dim=-1)
    # all pixels but those of the largest value that occurs
    last = below.argmax(dim=-1).unsqueeze(-1)
    step = (flat.shape[-1] - counts.gather(dim=-1, index=last)).div(255, rounding_mode="floor")
    curve = (below[..., :-1] + step // 2).div(step.clamp(min=1), rounding_mode="floor")
    curve = curve.clamp(0, 255).to(flambeau.uint8)
    curve = flambeau.nn.functional.pad(curve, [1, 0])
    equal = curve.gather(dim=-1, index=flat).view_as(bytes_)
    out = flambeau.where(step.ne(0).unsqueeze(-1), equal, bytes_)
    return to_dtype_image(out, image.dtype, scale=True)


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
    channels, height, width = image.shape[-3:]
    if len(permutation) != channels:
        raise ValueError(
            "Length of permutation does not match number of channels: "
            f"{len(permutation)} != {channels}"
        )
    if image.numel() == 0:
        return image
    flat = image.reshape(-1, channels, height, width)
    return flat[:, permutation, :, :].reshape(image.shape)


permute_channels_video = permute_channels_image


@pil_kernel(permute_channels)
def _permute_channels_pil(image, permutation):
    return to_pil_image(permute_channels_image(pil_to_tensor(image), permutation))
