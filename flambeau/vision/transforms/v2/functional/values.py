"""Functions of v2 on values: dtypes, normalisation, blurring, noise, erasing, compression."""

import io
import math
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.functional import conv2d
from flambeau.nn.functional import pad as pad_tensor
from flambeau.vision.pillow import pillow
from flambeau.vision.transforms import _functional_tensor as F_t
from flambeau.vision.transforms.conversion import pil_to_tensor, to_pil_image
from flambeau.vision.transforms.tensor_checks import max_value
from flambeau.vision.transforms.v2.functional.dispatch import kernel, operation, pil_kernel
from flambeau.vision.tv_tensors import BoundingBoxes, Image, KeyPoints, Mask, Video

_VALUE_BITS = {
    flambeau.uint8: 8,
    flambeau.int8: 7,
    flambeau.int16: 15,
    flambeau.uint16: 16,
    flambeau.int32: 31,
    flambeau.int64: 63,
}


def value_bits(dtype: flambeau.dtype) -> int:
    """How many bits of an integer hold its value."""
    if dtype not in _VALUE_BITS:
        raise TypeError(
            f"Number of value bits is only defined for integer dtypes, but got {dtype}."
        )
    return _VALUE_BITS[dtype]


# -- dtypes ----------------------------------------------------------------------------------------


@operation
def to_dtype(inpt: Any, dtype: flambeau.dtype = flambeau.float32, scale: bool = False) -> Any:
    """The input in another dtype; scale: pictures are scaled to the range of that dtype."""


@kernel(to_dtype, Tensor, Image, Video)
def to_dtype_image(
    image: Tensor, dtype: flambeau.dtype = flambeau.float32, scale: bool = False
) -> Tensor:
    if image.dtype == dtype:
        return image
    if not scale:
        return image.to(dtype)
    if image.is_floating_point():
        if dtype.is_floating_point:
            return image.to(dtype)
        wide = (flambeau.int32, flambeau.int64)
        if (image.dtype == flambeau.float32 and dtype in wide) or (
            image.dtype == flambeau.float64 and dtype == flambeau.int64
        ):
            raise RuntimeError(
                f"The conversion from {image.dtype} to {dtype} cannot be performed safely."
            )
        return image.mul(float(max_value(dtype)) + 1.0 - 1e-3).to(dtype)
    if dtype.is_floating_point:
        return image.to(dtype).mul(1.0 / max_value(image.dtype))
    shift = value_bits(image.dtype) - value_bits(dtype)
    if shift > 0:
        if image.dtype == flambeau.uint16:
            return (image / 2**shift).to(dtype)
        return image.bitwise_right_shift(shift).to(dtype)
    if dtype == flambeau.uint16:
        return image.to(dtype) * 2**-shift
    return image.to(dtype).bitwise_left_shift(-shift)


to_dtype_video = to_dtype_image


@kernel(to_dtype, BoundingBoxes, KeyPoints, Mask, wrapped=False)
def _to_dtype_other(inpt, dtype, scale=False):
    return inpt.to(dtype)


def convert_image_dtype(image: Tensor, dtype: flambeau.dtype = flambeau.float32) -> Tensor:
    """The same picture in another dtype, scaled to its range."""
    return to_dtype_image(image, dtype=dtype, scale=True)


# -- normalisation ---------------------------------------------------------------------------------


@operation
def normalize(inpt: Any, mean: Any, std: Any, inplace: bool = False) -> Any:
    """How many standard deviations each value lies above the mean of its channel."""


@kernel(normalize, Tensor, Image, Video)
def normalize_image(image: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    if not image.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {image.dtype}.")
    if image.ndim < 3:
        raise ValueError(
            f"Expected tensor to be a tensor image of size (..., C, H, W). Got {image.shape}."
        )
    stds = std if isinstance(std, (tuple, list)) else [std]
    if any(isinstance(s, (int, float)) and s == 0 for s in stds):
        raise ValueError("std evaluated to zero, leading to division by zero.")
    return F_t.normalize(image, mean, std, inplace)


normalize_video = normalize_image


# -- blurring and noise ----------------------------------------------------------------------------


@operation
def gaussian_blur(inpt: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Each pixel averaged with its neighbours, weighted by a bell."""


def _bell(size, sigma, dtype, device):
    limit = (size - 1) / (2.0 * math.sqrt(2.0))
    x = flambeau.linspace(-limit, limit, steps=size, dtype=dtype, device=device)
    return flambeau.softmax(x.div(sigma).pow(2).neg(), dim=0)


def _check_blur(kernel_size, sigma):
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    if len(sizes) != 2:
        raise ValueError(f"If kernel_size is a sequence its length should be 2. Got {len(sizes)}")
    for size in sizes:
        if size % 2 == 0 or size < 0:
            raise ValueError(
                f"kernel_size should have odd and positive integers. Got {kernel_size}"
            )
    if sigma is None:
        sigmas = [size * 0.15 + 0.35 for size in sizes]
    elif isinstance(sigma, (list, tuple)):
        sigmas = list(sigma) * 2 if len(sigma) == 1 else list(sigma)
        if len(sigmas) != 2:
            raise ValueError(f"If sigma is a sequence, its length should be 2. Got {len(sigmas)}")
    elif isinstance(sigma, (int, float)):
        sigmas = [float(sigma)] * 2
    else:
        raise TypeError(f"sigma should be either float or sequence of floats. Got {type(sigma)}")
    for width in sigmas:
        if width <= 0.0:
            raise ValueError(f"sigma should have positive values. Got {sigmas}")
    return sizes, sigmas


@kernel(gaussian_blur, Tensor, Image, Video)
def gaussian_blur_image(image: Tensor, kernel_size: Any, sigma: Any = None) -> Tensor:
    (width, height), (sigma_x, sigma_y) = _check_blur(kernel_size, sigma)
    if image.numel() == 0:
        return image
    dtype = image.dtype if image.is_floating_point() else flambeau.float32
    channels = image.shape[-3]
    bells = _bell(height, sigma_y, dtype, image.device).unsqueeze(-1) * _bell(
        width, sigma_x, dtype, image.device
    )
    batch = image.reshape(-1, *image.shape[-3:]).to(dtype)
    padding = [width // 2, width // 2, height // 2, height // 2]
    batch = pad_tensor(batch, padding, mode="reflect")
    out = conv2d(batch, bells.expand(channels, 1, height, width), groups=channels)
    if not image.is_floating_point():
        out = out.round().to(image.dtype)
    return out.reshape(image.shape)


gaussian_blur_video = gaussian_blur_image


@pil_kernel(gaussian_blur)
def _gaussian_blur_pil(image, kernel_size, sigma=None):
    return to_pil_image(gaussian_blur_image(pil_to_tensor(image), kernel_size, sigma), image.mode)


@operation
def gaussian_noise(inpt: Any, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Any:
    """Normal noise added to a picture; clip: values stay within their range."""


@kernel(gaussian_noise, Tensor, Image, Video)
def gaussian_noise_image(
    image: Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True
) -> Tensor:
    if sigma < 0:
        raise ValueError(f"sigma shouldn't be negative. Got {sigma}")
    if image.is_floating_point():
        out = image + (mean + flambeau.randn_like(image) * sigma)
        return flambeau.clamp(out, 0, 1) if clip else out
    if image.dtype == flambeau.uint8:
        drawn = flambeau.randn_like(image, dtype=flambeau.float32)
        out = image + (mean * 255 + drawn * (sigma * 255)).to(flambeau.int16)
        return (flambeau.clamp(out, 0, 255) if clip else out).to(flambeau.uint8)
    raise ValueError(
        f"Input tensor is expected to be in uint8 or float dtype, got dtype={image.dtype}"
    )


gaussian_noise_video = gaussian_noise_image


@pil_kernel(gaussian_noise)
def _gaussian_noise_pil(image, mean=0.0, sigma=0.1, clip=True):
    raise ValueError("Gaussian Noise is not implemented for PIL images.")


# -- erasing and compression -----------------------------------------------------------------------


@operation
def erase(inpt: Any, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Any:
    """The rectangle of h rows and w columns from (i, j) on, overwritten with v."""


@kernel(erase, Tensor, Image, Video)
def erase_image(
    image: Tensor, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False
) -> Tensor:
    if not inplace:
        image = image.clone()
    image[..., i : i + h, j : j + w] = v
    return image


erase_video = erase_image


@pil_kernel(erase)
def _erase_pil(image, i, j, h, w, v, inplace=False):
    return to_pil_image(erase_image(pil_to_tensor(image), i, j, h, w, v), image.mode)


@operation
def jpeg(image: Any, quality: int) -> Any:
    """A picture after it was compressed as JPEG with this quality, 1 to 100."""


@kernel(jpeg, Tensor, Image, Video)
def jpeg_image(image: Tensor, quality: int) -> Tensor:
    from flambeau.vision.io import decode_jpeg, encode_jpeg

    batch = image.reshape(-1, *image.shape[-3:])
    if not batch.shape[0]:
        return image.clone()
    done = [decode_jpeg(encode_jpeg(single, quality=quality)) for single in batch]
    return flambeau.stack(done).view(image.shape)


jpeg_video = jpeg_image


@pil_kernel(jpeg)
def _jpeg_pil(image, quality):
    file = io.BytesIO()
    image.save(file, format="JPEG", quality=quality)
    return pillow().open(file).copy()


# -- conversions and time --------------------------------------------------------------------------


def to_image(inpt: Any) -> Image:
    """A tensor, an (H, W, C) array or a PIL image as an Image."""
    from flambeau.vision.transforms.conversion import _is_array, is_pil_image

    if _is_array(inpt):
        import numpy as np

        out = flambeau.from_numpy(np.atleast_3d(inpt)).permute((2, 0, 1)).contiguous()
    elif is_pil_image(inpt):
        out = pil_to_tensor(inpt)
    elif isinstance(inpt, Tensor):
        out = inpt
    else:
        raise TypeError(
            "Input can either be a pure Tensor, a numpy array, or a PIL image, "
            f"but got {type(inpt)} instead."
        )
    return Image(out)


@operation
def uniform_temporal_subsample(inpt: Any, num_samples: int) -> Any:
    """So many frames of a video, at equal distances."""


@kernel(uniform_temporal_subsample, Tensor, Video)
def uniform_temporal_subsample_video(video: Tensor, num_samples: int) -> Tensor:
    last = video.shape[-4] - 1
    places = flambeau.linspace(0, last, num_samples, device=video.device).long()
    return flambeau.index_select(video, -4, places)
