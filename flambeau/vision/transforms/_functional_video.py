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
    dimensions = clip.ndim
    if dimensions == 4:
        return True
    raise ValueError(f"clip should be 4D. Got {dimensions}D")


def crop(clip: Tensor, i: int, j: int, h: int, w: int) -> Tensor:
    """The part of h rows and w columns from (i, j) on."""
    if clip.ndim == 4:
        return clip[..., i : i + h, j : j + w]
    raise ValueError("clip should be a 4D tensor")


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
    height, width = crop_size
    more_rows, more_columns = clip.shape[-2] - height, clip.shape[-1] - width
    if min(more_rows, more_columns) < 0:
        raise ValueError("height and width must be no smaller than crop_size")
    return crop(clip, round(more_rows / 2.0), round(more_columns / 2.0), height, width)


def to_tensor(clip: Tensor) -> Tensor:
    """Bytes of (T, H, W, C) as floats from 0 to 1 of (C, T, H, W)."""
    _is_tensor_video_clip(clip)
    if clip.dtype != flambeau.uint8:
        raise TypeError(f"clip tensor should have data type uint8. Got {clip.dtype}")
    return clip.float().permute(3, 0, 1, 2) / 255.0


def normalize(clip: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """How many standard deviations each value lies above the mean of its channel."""
    _is_tensor_video_clip(clip)
    out = clip if inplace else clip.clone()
    kind: dict[str, Any] = {"dtype": out.dtype, "device": out.device}
    by_channel = (flambeau.as_tensor(v, **kind)[:, None, None, None] for v in (mean, std))
    return out.sub_(next(by_channel)).div_(next(by_channel))


def hflip(clip: Tensor) -> Tensor:
    """Left and right exchanged."""
    _is_tensor_video_clip(clip)
    return clip.flip(-1)
