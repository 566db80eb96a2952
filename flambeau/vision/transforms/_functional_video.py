"""Functions on video clips, (C, T, H, W), as torchvision still has them for older programs."""

import warnings
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.functional import interpolate

warnings.warn(
    "The 'torchvision.transforms._functional_video' module is deprecated since 0.12 and will be "
    "removed in the future. Please use the 'torchvision.transforms.functional' module instead.",
    stacklevel=2,
)


def _is_tensor_video_clip(clip: Any) -> bool:
    if not isinstance(clip, Tensor):
        raise TypeError(f"clip should be Tensor. Got {type(clip)}")
    if clip.ndim != 4:
        raise ValueError(f"clip should be 4D. Got {clip.ndim}D")
    return True


def crop(clip: Tensor, i: int, j: int, h: int, w: int) -> Tensor:
    """The part of h rows and w columns from (i, j) on."""
    if len(clip.size()) != 4:
        raise ValueError("clip should be a 4D tensor")
    return clip[..., i : i + h, j : j + w]


def resize(clip: Tensor, target_size: Any, interpolation_mode: str) -> Tensor:
    """Frames of another size."""
    if len(target_size) != 2:
        raise ValueError(f"target size should be tuple (height, width), instead got {target_size}")
    return interpolate(clip, size=target_size, mode=interpolation_mode, align_corners=False)


def resized_crop(
    clip: Tensor,
    i: int,
    j: int,
    h: int,
    w: int,
    size: Any,
    interpolation_mode: str = "bilinear",
) -> Tensor:
    """A part, resized."""
    _is_tensor_video_clip(clip)
    return resize(crop(clip, i, j, h, w), size, interpolation_mode)


def center_crop(clip: Tensor, crop_size: tuple[int, int]) -> Tensor:
    """The middle of every frame."""
    _is_tensor_video_clip(clip)
    h, w = clip.size(-2), clip.size(-1)
    th, tw = crop_size
    if h < th or w < tw:
        raise ValueError("height and width must be no smaller than crop_size")
    return crop(clip, round((h - th) / 2.0), round((w - tw) / 2.0), th, tw)


def to_tensor(clip: Tensor) -> Tensor:
    """Bytes of (T, H, W, C) as floats from 0 to 1 of (C, T, H, W)."""
    _is_tensor_video_clip(clip)
    if clip.dtype != flambeau.uint8:
        raise TypeError(f"clip tensor should have data type uint8. Got {clip.dtype}")
    return clip.float().permute(3, 0, 1, 2) / 255.0


def normalize(clip: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """How many standard deviations each value lies above the mean of its channel."""
    _is_tensor_video_clip(clip)
    if not inplace:
        clip = clip.clone()
    mean = flambeau.as_tensor(mean, dtype=clip.dtype, device=clip.device)
    std = flambeau.as_tensor(std, dtype=clip.dtype, device=clip.device)
    return clip.sub_(mean[:, None, None, None]).div_(std[:, None, None, None])


def hflip(clip: Tensor) -> Tensor:
    """Left and right exchanged."""
    _is_tensor_video_clip(clip)
    return clip.flip(-1)
