"""Operations on the values of image tensors: dtypes, brightness, hue, contrast, normalisation.

Formulas and the order of their roundings are torchvision's, so that integers come out the same.
What moves pixels is in `tensor_geometry.py`, what looks at neighbours in `tensor_filters.py`.
"""

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.ops import pixels
from flambeau.vision.transforms.arguments import check_factor, check_gamma, check_hue
from flambeau.vision.transforms.tensor_checks import (
    check_channels,
    check_image,
    check_three_dimensions,
    get_dimensions,
    max_value,
    working_dtype,
)


def convert_image_dtype(image: Tensor, dtype: flambeau.dtype = flambeau.float32) -> Tensor:
    """The same picture in another dtype: values are scaled to the range of that dtype."""
    if image.dtype == dtype:
        return image
    if image.is_floating_point():
        return floats_as(image, dtype, "cast")
    most = float(max_value(image.dtype))
    if dtype.is_floating_point:
        return image.to(dtype) / most
    new_most = float(max_value(dtype))
    if most > new_most:
        factor = int((most + 1) // (new_most + 1))
        return flambeau.div(image, factor, rounding_mode="floor").to(dtype)
    return image.to(dtype) * int((new_most + 1) // (most + 1))


_UNSAFE = {
    flambeau.float32: (flambeau.int32, flambeau.int64),
    flambeau.float64: (flambeau.int64,),
}


def floats_as(image: Tensor, dtype: flambeau.dtype, what: str) -> Tensor:
    """A picture of floats in another dtype; each integer gets an equal share of the interval."""
    if dtype.is_floating_point:
        return image.to(dtype)
    if dtype in _UNSAFE.get(image.dtype, ()):
        raise RuntimeError(f"The {what} from {image.dtype} to {dtype} cannot be performed safely.")
    count = float(max_value(dtype)) + 1.0
    return image.mul(count - 1e-3).to(dtype)  # a bit less, so that 1.0 itself goes to the last


# -- blending --------------------------------------------------------------------------------------


def _blend(img: Tensor, other: Tensor, ratio: float) -> Tensor:
    ratio = float(ratio)
    bound = max_value(img.dtype)
    return (ratio * img + (1.0 - ratio) * other).clamp(0, bound).to(img.dtype)


_LUMA = (0.2989, 0.587, 0.114)  # what red, green and blue add to how bright a pixel looks


def rgb_to_grayscale(img: Tensor, num_output_channels: int = 1) -> Tensor:
    """Luma of an RGB image, in one channel or repeated in three."""
    check_three_dimensions(img)
    check_channels(img, [1, 3])
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    gray = img.clone() if img.shape[-3] == 1 else _luma(img)
    return gray if num_output_channels == 1 else gray.expand(img.shape)


def _luma(img: Tensor) -> Tensor:
    red, green, blue = (share * band for share, band in zip(_LUMA, img.unbind(-3)))
    return (red + green + blue).to(img.dtype).unsqueeze(-3)


def adjust_brightness(img: Tensor, brightness_factor: float) -> Tensor:
    check_factor("brightness_factor", brightness_factor)
    check_image(img)
    check_channels(img, [1, 3])
    return _blend(img, flambeau.zeros_like(img), brightness_factor)


def adjust_contrast(img: Tensor, contrast_factor: float) -> Tensor:
    check_factor("contrast_factor", contrast_factor)
    check_image(img)
    check_channels(img, [3, 1])
    gray = rgb_to_grayscale(img) if get_dimensions(img)[0] == 3 else img
    return _blend(img, mean_level(gray.to(working_dtype(img))), contrast_factor)


def mean_level(gray: Tensor) -> Tensor:
    """The mean of each image."""
    return gray.mean(dim=(-3, -2, -1), keepdim=True)


def adjust_saturation(img: Tensor, saturation_factor: float) -> Tensor:
    check_factor("saturation_factor", saturation_factor)
    check_image(img)
    check_channels(img, [1, 3])
    is_gray = get_dimensions(img)[0] == 1
    return img if is_gray else _blend(img, rgb_to_grayscale(img), saturation_factor)


# -- hue -------------------------------------------------------------------------------------------


def adjust_hue(img: Tensor, hue_factor: float) -> Tensor:
    check_hue(hue_factor)
    if not isinstance(img, Tensor):
        raise TypeError("Input img should be Tensor image")
    check_image(img)
    check_channels(img, [1, 3])
    if get_dimensions(img)[0] == 1:
        return img
    floats = convert_image_dtype(img, flambeau.float32)
    turned = turned_hues(floats, hue_factor, lambda s: s / 6.0, lambda s, f: 1.0 - s * (1.0 - f))
    return convert_image_dtype(turned, img.dtype)


def turned_hues(img: Tensor, by: float, sixth: Callable, rising: Callable) -> Tensor:
    """A picture of floats with hues turned by a share of the circle.

    What v1 and v2 round differently: sixth(x) is x / 6, and rising(s, f) is 1 - s (1 - f).
    """
    sextant, saturation, value = _rgb_to_sextants(img)
    hue = flambeau.fmod(sixth(sextant) + 1.0, 1.0)
    return _hsv_to_rgb((hue + by) % 1.0, saturation, value, rising)


def _rgb_to_sextants(img: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hue (-1 to 5, red at 0), saturation and value (0 to 1) of a float image."""
    most, least = img.amax(dim=-3), img.amin(dim=-3)
    spread = most - least
    is_gray = most == least
    saturation = spread / most.masked_fill(is_gray, 1.0)
    distances = (most.unsqueeze(-3) - img) / spread.masked_fill(is_gray, 1.0).unsqueeze(-3)
    to_red, to_green, to_blue = distances.unbind(-3)
    red, green, _ = img.unbind(-3)
    beyond_red = flambeau.where(most == green, 2.0 + to_red - to_blue, 4.0 + to_green - to_red)
    return flambeau.where(most == red, to_blue - to_green, beyond_red), saturation, most


# By sextant of the hue, which of (value, p, q, t) red is; green and blue follow it around the
# circle at a distance of two sextants each.
_RED = (0, 2, 1, 1, 3, 0)
_SEXTANTS = [_RED, _RED[-2:] + _RED[:-2], _RED[-4:] + _RED[:-4]]


def _hsv_to_rgb(hue: Tensor, saturation: Tensor, value: Tensor, rising: Callable) -> Tensor:
    place = hue * 6.0
    whole = place.floor()
    part = place - whole
    shares = (1.0 - saturation, 1.0 - saturation * part, rising(saturation, part))
    levels = [value, *((share * value).clamp(0.0, 1.0) for share in shares)]
    sextant = (whole.to(flambeau.int32) % 6).to(flambeau.int64)
    which = flambeau.tensor(_SEXTANTS, dtype=flambeau.int64, device=hue.device)[:, sextant]
    return flambeau.stack(levels, dim=-3).gather(-3, which.movedim(0, -3))


# -- curves ----------------------------------------------------------------------------------------


def adjust_gamma(img: Tensor, gamma: float, gain: float = 1) -> Tensor:
    if not isinstance(img, Tensor):
        raise TypeError("Input img should be a Tensor.")
    check_channels(img, [1, 3])
    check_gamma(gamma)
    result = img if img.is_floating_point() else convert_image_dtype(img, flambeau.float32)
    result = (gain * result.pow(gamma)).clamp(0, 1)
    return convert_image_dtype(result, img.dtype)


def invert(img: Tensor) -> Tensor:
    check_image(img)
    check_three_dimensions(img)
    check_channels(img, [1, 3])
    return max_value(img.dtype) - img


def posterize(img: Tensor, bits: int) -> Tensor:
    check_image(img)
    check_three_dimensions(img)
    if img.dtype != flambeau.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    check_channels(img, [1, 3])
    return img & -int(2 ** (8 - bits))


def solarize(img: Tensor, threshold: float) -> Tensor:
    check_image(img)
    check_three_dimensions(img)
    check_channels(img, [1, 3])
    if threshold > max_value(img.dtype):
        raise TypeError("Threshold should be less than bound of img.")
    return flambeau.where(img >= threshold, invert(img), img)


def autocontrast(img: Tensor) -> Tensor:
    check_image(img)
    check_three_dimensions(img)
    check_channels(img, [1, 3])
    bound = max_value(img.dtype)
    low, high = darkest_and_lightest(img)
    gain = bound / (high - low)
    is_flat = ~gain.isfinite()
    stretched = (img - low.masked_fill(is_flat, 0)) * gain.masked_fill(is_flat, 1)
    return stretched.clamp(0, bound).to(img.dtype)


def darkest_and_lightest(img: Tensor) -> tuple[Tensor, Tensor]:
    """The extremes of each channel, as floats."""
    dtype = working_dtype(img)
    over: dict[str, Any] = {"dim": (-2, -1), "keepdim": True}
    return img.amin(**over).to(dtype), img.amax(**over).to(dtype)


def equalize(img: Tensor) -> Tensor:
    check_image(img)
    if not 3 <= img.ndim <= 4:
        raise TypeError(f"Input image tensor should have 3 or 4 dimensions, but found {img.ndim}")
    if img.dtype != flambeau.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    check_channels(img, [1, 3])
    return flambeau.stack([equalized(part) for part in img])


def equalized(img: Tensor) -> Tensor:
    """Bytes respaced, so that a value becomes the share of pixels that are darker, of 255."""
    planes = img.reshape(-1, img.shape[-2] * img.shape[-1])
    values = planes.to(flambeau.int64)
    ones = values.new_ones(1).expand_as(values)
    counts = values.new_zeros((len(planes), 256)).scatter_add_(1, values, ones)
    darker = counts.cumsum(1) - counts
    # so many pixels make one step of the new values; the lightest do not count
    lightest = planes.amax(1, keepdim=True).to(flambeau.int64)
    step = darker.gather(1, lightest) // 255
    curve = ((darker + step // 2) // step.clamp(min=1)).clamp(max=255)
    new = curve.to(flambeau.uint8).gather(1, values).view(img.shape)
    return flambeau.where((step == 0).view(*img.shape[:-2], 1, 1), img, new)


# -- normalisation ---------------------------------------------------------------------------------

_moments: dict = {}  # mean and std as tensors, by their numbers and the dtype
_ONE_ROUNDING = frozenset((flambeau.float32, flambeau.float64))


def _by_channel(values, dtype, device) -> Tensor:
    out = flambeau.as_tensor(values, dtype=dtype, device=device)
    return out.view(-1, 1, 1) if out.ndim == 1 else out


def _as_moments(mean, std, dtype, device) -> tuple[Tensor, Tensor]:
    key, mean_given, std_given = None, mean, std
    if isinstance(mean, (list, tuple)) and isinstance(std, (list, tuple)):
        try:
            key = (*mean, None, *std, dtype, device)
            found = _moments.get(key)
        except TypeError:  # tensors or lists among the numbers
            key = found = None
        if found is not None:
            return found
    with flambeau.inference_mode(False):  # they outlive this call, whose results may be recorded
        mean, std = (_by_channel(values, dtype, device) for values in (mean, std))
    if (std == 0).any():
        raise ValueError(
            f"std evaluated to zero after conversion to {dtype}, leading to division by zero."
        )
    if key is not None and all(
        type(number) in (int, float) for number in (*mean_given, *std_given)
    ):
        if len(_moments) >= 256:
            _moments.clear()
        _moments[key] = mean, std
    return mean, std


def normalize(tensor: Tensor, mean: list[float], std: list[float], inplace: bool = False) -> Tensor:
    check_image(tensor)
    dtype = tensor.dtype
    if not dtype.is_floating_point:
        raise TypeError(f"Input tensor should be a float tensor. Got {dtype}.")
    if tensor.ndim < 3:
        raise ValueError(
            "Expected tensor to be a tensor image of size (..., C, H, W). "
            f"Got tensor.size() = {tensor.size()}"
        )
    mean_of, std_of = _as_moments(mean, std, dtype, tensor.device)
    if not inplace:
        fitting = ((tensor.shape[-3], 1, 1), (1, 1, 1))
        if dtype in _ONE_ROUNDING and mean_of.shape in fitting and std_of.shape in fitting:
            return pixels.normalize_channel(tensor, mean_of, std_of)
        tensor = tensor.clone()
    return tensor.sub_(mean_of).div_(std_of)
