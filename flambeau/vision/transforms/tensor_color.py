"""Operations on the values of image tensors: dtypes, brightness, hue, contrast, normalisation.

Formulas and the order of their roundings are torchvision's, so that integers come out the same.
What moves pixels is in `tensor_geometry.py`, what looks at neighbours in `tensor_filters.py`.
"""

import flambeau
from flambeau import Tensor
from flambeau.ops import pixels
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
        if dtype.is_floating_point:
            return image.to(dtype)
        wide = (flambeau.int32, flambeau.int64)
        if (image.dtype == flambeau.float32 and dtype in wide) or (
            image.dtype == flambeau.float64 and dtype == flambeau.int64
        ):
            raise RuntimeError(
                f"The cast from {image.dtype} to {dtype} cannot be performed safely."
            )
        # each integer gets an equal share of the interval; 1.0 itself goes to the last
        return image.mul(float(max_value(dtype)) + 1.0 - 1e-3).to(dtype)
    most = float(max_value(image.dtype))
    if dtype.is_floating_point:
        return image.to(dtype) / most
    new_most = float(max_value(dtype))
    if most > new_most:
        factor = int((most + 1) // (new_most + 1))
        return flambeau.div(image, factor, rounding_mode="floor").to(dtype)
    return image.to(dtype) * int((new_most + 1) // (most + 1))


# -- blending --------------------------------------------------------------------------------------


def _blend(img: Tensor, other: Tensor, ratio: float) -> Tensor:
    ratio = float(ratio)
    bound = max_value(img.dtype)
    return (ratio * img + (1.0 - ratio) * other).clamp(0, bound).to(img.dtype)


def _check_factor(name: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def rgb_to_grayscale(img: Tensor, num_output_channels: int = 1) -> Tensor:
    """Luma of an RGB image, in one channel or repeated in three."""
    check_three_dimensions(img)
    check_channels(img, [1, 3])
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if img.shape[-3] == 3:
        red, green, blue = img.unbind(dim=-3)
        gray = (0.2989 * red + 0.587 * green + 0.114 * blue).to(img.dtype).unsqueeze(dim=-3)
    else:
        gray = img.clone()
    return gray.expand(img.shape) if num_output_channels == 3 else gray


def adjust_brightness(img: Tensor, brightness_factor: float) -> Tensor:
    _check_factor("brightness_factor", brightness_factor)
    check_image(img)
    check_channels(img, [1, 3])
    return _blend(img, flambeau.zeros_like(img), brightness_factor)


def adjust_contrast(img: Tensor, contrast_factor: float) -> Tensor:
    _check_factor("contrast_factor", contrast_factor)
    check_image(img)
    check_channels(img, [3, 1])
    gray = rgb_to_grayscale(img) if get_dimensions(img)[0] == 3 else img
    mean = flambeau.mean(gray.to(working_dtype(img)), dim=(-3, -2, -1), keepdim=True)
    return _blend(img, mean, contrast_factor)


def adjust_saturation(img: Tensor, saturation_factor: float) -> Tensor:
    _check_factor("saturation_factor", saturation_factor)
    check_image(img)
    check_channels(img, [1, 3])
    if get_dimensions(img)[0] == 1:
        return img
    return _blend(img, rgb_to_grayscale(img), saturation_factor)


# -- hue -------------------------------------------------------------------------------------------


def adjust_hue(img: Tensor, hue_factor: float) -> Tensor:
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if not isinstance(img, Tensor):
        raise TypeError("Input img should be Tensor image")
    check_image(img)
    check_channels(img, [1, 3])
    if get_dimensions(img)[0] == 1:
        return img
    hue, saturation, value = rgb_to_hsv(convert_image_dtype(img, flambeau.float32))
    hue = (hue + hue_factor) % 1.0
    return convert_image_dtype(hsv_to_rgb(hue, saturation, value), img.dtype)


def rgb_to_hsv(img: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Hue, saturation and value of a float image, all between 0 and 1."""
    red, green, blue = img.unbind(dim=-3)
    most = img.amax(dim=-3)
    least = img.amin(dim=-3)
    is_gray = most == least
    spread = most - least
    ones = flambeau.ones_like(most)
    saturation = spread / flambeau.where(is_gray, ones, most)
    divisor = flambeau.where(is_gray, ones, spread)
    from_red, from_green, from_blue = ((most - c) / divisor for c in (red, green, blue))
    at_red = most == red
    at_green = most == green
    sextant = (
        at_red * (from_blue - from_green)
        + (at_green & ~at_red) * (2.0 + from_red - from_blue)
        + (~at_green & ~at_red) * (4.0 + from_green - from_red)
    )
    return flambeau.fmod(sextant / 6.0 + 1.0, 1.0), saturation, most


def hsv_to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """The image of which `rgb_to_hsv` gives these."""
    place = hue * 6.0
    whole = place.floor()
    part = place - whole
    sextant = (whole.to(flambeau.int32) % 6).to(flambeau.int64).unsqueeze(dim=-3)
    p = flambeau.clamp(value * (1.0 - saturation), 0.0, 1.0)
    q = flambeau.clamp(value * (1.0 - saturation * part), 0.0, 1.0)
    t = flambeau.clamp(value * (1.0 - saturation * (1.0 - part)), 0.0, 1.0)
    channels = ((value, q, p, p, t, value), (t, value, value, q, p, p), (p, p, t, value, value, q))
    return flambeau.cat(
        [flambeau.stack(by_sextant, dim=-3).gather(-3, sextant) for by_sextant in channels], dim=-3
    )


# -- curves ----------------------------------------------------------------------------------------


def adjust_gamma(img: Tensor, gamma: float, gain: float = 1) -> Tensor:
    if not isinstance(img, Tensor):
        raise TypeError("Input img should be a Tensor.")
    check_channels(img, [1, 3])
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
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
    dtype = working_dtype(img)
    least = img.amin(dim=(-2, -1), keepdim=True).to(dtype)
    most = img.amax(dim=(-2, -1), keepdim=True).to(dtype)
    scale = bound / (most - least)
    is_flat = flambeau.isfinite(scale).logical_not()
    least[is_flat] = 0
    scale[is_flat] = 1
    return ((img - least) * scale).clamp(0, bound).to(img.dtype)


def _equalize_channel(channel: Tensor) -> Tensor:
    counts = flambeau.bincount(channel.reshape(-1), minlength=256)
    present = counts[counts != 0]
    step = present[:-1].sum().item() // 255
    if step == 0:
        return channel
    below = counts.cumsum(0) + step // 2
    curve = flambeau.div(below, step, rounding_mode="floor")
    curve = flambeau.nn.functional.pad(curve, [1, 0])[:-1].clamp(0, 255)
    return curve[channel.to(flambeau.int64)].to(flambeau.uint8)


def equalize(img: Tensor) -> Tensor:
    check_image(img)
    if not 3 <= img.ndim <= 4:
        raise TypeError(f"Input image tensor should have 3 or 4 dimensions, but found {img.ndim}")
    if img.dtype != flambeau.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    check_channels(img, [1, 3])
    if img.ndim == 4:
        return flambeau.stack([equalize(single) for single in img])
    return flambeau.stack([_equalize_channel(channel) for channel in img])


# -- normalisation ---------------------------------------------------------------------------------

_moments: dict = {}  # mean and std as tensors, by their numbers and the dtype
_ONE_ROUNDING = frozenset((flambeau.float32, flambeau.float64))


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
        mean = flambeau.as_tensor(mean, dtype=dtype, device=device)
        std = flambeau.as_tensor(std, dtype=dtype, device=device)
    if (std == 0).any():
        raise ValueError(
            f"std evaluated to zero after conversion to {dtype}, leading to division by zero."
        )
    if mean.ndim == 1:
        mean = mean.view(-1, 1, 1)
    if std.ndim == 1:
        std = std.view(-1, 1, 1)
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
