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
from flambeau.vision.transforms.arguments import blur_sizes
from flambeau.vision.transforms.conversion import pil_to_tensor, to_pil_image
from flambeau.vision.transforms.tensor_checks import VALUE_BITS, max_value, working_dtype
from flambeau.vision.transforms.tensor_color import floats_as
from flambeau.vision.transforms.tensor_geometry import overwritten
from flambeau.vision.transforms.v2.functional.dispatch import kernel, operation, pil_kernel
from flambeau.vision.tv_tensors import BoundingBoxes, Image, KeyPoints, Mask, Video


def value_bits(dtype: flambeau.dtype) -> int:
    """How many bits of an integer hold its value."""
    if dtype not in VALUE_BITS:
        raise TypeError(
            f"Number of value bits is only defined for integer dtypes, but got {dtype}."
        )
    return VALUE_BITS[dtype]


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
        return floats_as(image, dtype, "conversion")
    if dtype.is_floating_point:
        return image.to(dtype).mul(1.0 / max_value(image.dtype))
    return _with_bits(image, dtype, value_bits(image.dtype) - value_bits(dtype))


def _with_bits(image: Tensor, dtype: flambeau.dtype, lost: int) -> Tensor:
    """Integers with fewer bits, or (lost is negative) more of them. uint16 knows no shifts."""
    if lost > 0:
        is_wide = image.dtype == flambeau.uint16
        return (image / 2**lost if is_wide else image >> lost).to(dtype)
    out = image.to(dtype)
    return out * 2**-lost if dtype == flambeau.uint16 else out << -lost


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
    """A bell of so many samples that add up to one."""
    end = (size - 1) / math.sqrt(8.0)
    places = flambeau.linspace(-end, end, steps=size, dtype=dtype, device=device)
    return flambeau.softmax(-((places / sigma) ** 2), dim=0)


@kernel(gaussian_blur, Tensor, Image, Video)
def gaussian_blur_image(image: Tensor, kernel_size: Any, sigma: Any = None) -> Tensor:
    given = list(sigma) if isinstance(sigma, tuple) else sigma
    (width, height), (sigma_x, sigma_y) = blur_sizes(kernel_size, given)
    if image.numel() == 0:
        return image
    dtype = working_dtype(image)
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
    is_float = image.is_floating_point()
    if not is_float and image.dtype != flambeau.uint8:
        raise ValueError(
            f"Input tensor is expected to be in uint8 or float dtype, got dtype={image.dtype}"
        )
    white = 1 if is_float else 255
    noise = flambeau.randn_like(image, dtype=working_dtype(image))
    noise = mean * white + noise * (sigma * white)
    out = image + (noise if is_float else noise.to(flambeau.int16))
    return (out.clamp(0, white) if clip else out).to(image.dtype)


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
    return overwritten(image if inplace else image.clone(), (i, j, h, w), v)


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
    return flambeau.stack(done).view(image.shape)  # type: ignore[arg-type]


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

        out = flambeau.from_numpy(np.atleast_3d(inpt)).movedim(-1, 0).contiguous()
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
