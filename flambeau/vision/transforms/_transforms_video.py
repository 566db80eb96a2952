"""Transforms of video clips, (C, T, H, W), as torchvision still has them for older programs."""

import numbers
import random
import warnings
from typing import Any

from flambeau import Tensor
from flambeau.vision.transforms import _functional_video as F
from flambeau.vision.transforms.arguments import Listed
from flambeau.vision.transforms.placement import RandomCrop, RandomResizedCrop

__all__ = [
    "RandomCropVideo",
    "RandomResizedCropVideo",
    "CenterCropVideo",
    "NormalizeVideo",
    "ToTensorVideo",
    "RandomHorizontalFlipVideo",
]

warnings.warn(
    "The 'torchvision.transforms._transforms_video' module is deprecated since 0.12 and will be "
    "removed in the future. Please use the 'torchvision.transforms' module instead.",
    stacklevel=2,
)


def _pair(size: Any) -> Any:
    return (int(size), int(size)) if isinstance(size, numbers.Number) else size  # type: ignore[call-overload]


class RandomCropVideo(RandomCrop):
    """A part of the given size, anywhere in the frames."""

    _listed: tuple[str, ...] = ("size",)

    def __init__(self, size):
        super().__init__(_pair(size))

    def __call__(self, clip: Tensor) -> Tensor:
        return F.crop(clip, *self.get_params(clip, self.size))


class RandomResizedCropVideo(RandomResizedCrop):
    """A part of random area and shape, resized."""

    _listed: tuple[str, ...] = ("size", "interpolation_mode", "scale", "ratio")

    def __init__(
        self,
        size,
        scale=(0.08, 1.0),
        ratio=(3.0 / 4.0, 4.0 / 3.0),
        interpolation_mode="bilinear",
    ):
        if isinstance(size, tuple) and len(size) != 2:
            raise ValueError(f"size should be tuple (height, width), instead got {size}")
        super().__init__(size if isinstance(size, tuple) else (size, size), scale, ratio)
        self.interpolation_mode = interpolation_mode

    def __call__(self, clip: Tensor) -> Tensor:
        place = self.get_params(clip, self.scale, self.ratio)
        return F.resized_crop(clip, *place, self.size, self.interpolation_mode)

    def _facts(self) -> dict[str, Any]:
        return Listed._facts(self)  # bounds as they were given, not rounded


class CenterCropVideo(Listed):
    """The middle of every frame."""

    _listed = ("crop_size",)

    def __init__(self, crop_size):
        self.crop_size = _pair(crop_size)

    def __call__(self, clip: Tensor) -> Tensor:
        return F.center_crop(clip, self.crop_size)


class NormalizeVideo(Listed):
    """Subtract a mean from each channel, and divide by a standard deviation."""

    _listed = ("mean", "std", "inplace")

    def __init__(self, mean, std, inplace=False):
        self.mean, self.std, self.inplace = mean, std, inplace

    def __call__(self, clip: Tensor) -> Tensor:
        return F.normalize(clip, self.mean, self.std, self.inplace)


class ToTensorVideo:
    """Bytes of (T, H, W, C) as floats from 0 to 1 of (C, T, H, W)."""

    def __call__(self, clip: Tensor) -> Tensor:
        return F.to_tensor(clip)

    def __repr__(self) -> str:
        return type(self).__name__


class RandomHorizontalFlipVideo(Listed):
    """Left and right exchanged, with probability p, which Python's `random` decides."""

    _listed = ("p",)

    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, clip: Tensor) -> Tensor:
        return F.hflip(clip) if random.random() < self.p else clip
