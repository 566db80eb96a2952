"""Operations on image tensors that look at neighbours: blurring and sharpening.

A filter is a convolution with one small kernel for each channel; edges are mirrored by blurring
and left alone by sharpening.
"""

import flambeau
from flambeau import Tensor
from flambeau.nn.functional import conv2d
from flambeau.nn.functional import pad as pad_tensor
from flambeau.vision.transforms.arguments import check_factor
from flambeau.vision.transforms.tensor_checks import (
    AsBatch,
    check_channels,
    check_image,
    working_dtype,
)
from flambeau.vision.transforms.tensor_color import _blend


def gaussian_kernel(kernel_size: int, sigma: float, dtype, device) -> Tensor:
    """A bell of so many samples that add up to one."""
    half = (kernel_size - 1) * 0.5
    x = flambeau.linspace(-half, half, steps=kernel_size, dtype=dtype, device=device)
    bell = flambeau.exp(-0.5 * (x / sigma).pow(2))
    return bell / bell.sum()


def gaussian_blur(img: Tensor, kernel_size: list[int], sigma: list[float]) -> Tensor:
    if not isinstance(img, Tensor):
        raise TypeError(f"img should be Tensor. Got {type(img)}")
    check_image(img)
    dtype = working_dtype(img)
    width, height = kernel_size
    across = gaussian_kernel(width, sigma[0], dtype, img.device)
    down = gaussian_kernel(height, sigma[1], dtype, img.device)
    kernel = flambeau.mm(down[:, None], across[None, :])
    batch = AsBatch(img, dtype)
    channels = img.shape[-3]
    padding = [width // 2, width // 2, height // 2, height // 2]
    padded = pad_tensor(batch.images, padding, mode="reflect")
    kernels = kernel.expand(channels, 1, height, width)
    return batch.restore(conv2d(padded, kernels, groups=padded.shape[-3]))


def inner_means(images: Tensor, channels: int) -> Tensor:
    """Pixels of a batch that have all neighbours, averaged with them; their own weight is 5/13."""
    weights = flambeau.ones((3, 3), dtype=images.dtype, device=images.device)
    weights[1, 1] = 5.0
    kernels = (weights / weights.sum()).expand(channels, 1, 3, 3)
    return conv2d(images, kernels, groups=channels)


def _smoothed(img: Tensor) -> Tensor:
    batch = AsBatch(img, working_dtype(img))
    result = img.clone()
    result[..., 1:-1, 1:-1] = batch.restore(inner_means(batch.images, img.shape[-3]))
    return result


def adjust_sharpness(img: Tensor, sharpness_factor: float) -> Tensor:
    check_factor("sharpness_factor", sharpness_factor)
    check_image(img)
    check_channels(img, [1, 3])
    if img.shape[-1] <= 2 or img.shape[-2] <= 2:
        return img
    return _blend(img, _smoothed(img), sharpness_factor)
