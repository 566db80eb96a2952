"""What images go through before a model with given weights sees them.

`weights.transforms()` of a model makes one of these. Each takes PIL images or tensors, and says in
words what it does (`describe`).
"""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision.transforms import functional as F
from flambeau.vision.transforms.arguments import ListedModule, listing
from flambeau.vision.transforms.interpolation import InterpolationMode

__all__ = [
    "ObjectDetection",
    "ImageClassification",
    "VideoClassification",
    "SemanticSegmentation",
    "OpticalFlow",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
_ACCEPTS = (
    "Accepts ``PIL.Image``, batched ``(B, C, H, W)`` and single ``(C, H, W)`` image "
    "``torch.Tensor`` objects. "
)


def interpolation_mode(name: str) -> InterpolationMode:
    """The mode of that name, as "bilinear"."""
    return InterpolationMode(name)


def _as_floats(img: Any) -> Tensor:
    if not isinstance(img, Tensor):
        img = F.pil_to_tensor(img)
    return F.convert_image_dtype(img, flambeau.float32)


class _Preset(ListedModule):
    """A text with one setting to a line."""

    mean: list[float]
    std: list[float]

    def __repr__(self) -> str:
        lines = [f"{name}={value}" for name, value in self._facts().items()]
        return listing(type(self).__name__, lines) if lines else super().__repr__()

    def _resized(self, img: Any, antialias: bool | None) -> Any:
        return F.resize(img, self.resize_size, self.interpolation, antialias=antialias)

    def _normalized(self, img: Any) -> Tensor:
        return F.normalize(_as_floats(img), self.mean, self.std)

    def _normalization(self) -> str:
        return (
            "Finally the values are first rescaled to ``[0.0, 1.0]`` and then normalized using "
            f"``mean={self.mean}`` and ``std={self.std}``."
        )


class ObjectDetection(_Preset):
    """Floats from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, img: Any) -> Tensor:
        return _as_floats(img)

    def describe(self) -> str:
        """What is done, in words."""
        return f"{_ACCEPTS}The images are rescaled to ``[0.0, 1.0]``."


class ImageClassification(_Preset):
    """Resized, cropped in the middle, and normalised."""

    _listed = ("crop_size", "resize_size", "mean", "std", "interpolation")

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int = 256,
        mean: tuple[float, ...] = IMAGENET_MEAN,
        std: tuple[float, ...] = IMAGENET_STD,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__(
            crop_size=[crop_size],
            resize_size=[resize_size],
            interpolation=interpolation,
            antialias=antialias,
            mean=list(mean),
            std=list(std),
        )

    def forward(self, img: Any) -> Tensor:
        resized = self._resized(img, self.antialias)
        return self._normalized(F.center_crop(resized, self.crop_size))

    def describe(self) -> str:
        """What is done, in words."""
        return (
            f"{_ACCEPTS}The images are resized to ``resize_size={self.resize_size}`` using "
            f"``interpolation={self.interpolation}``, followed by a central crop of "
            f"``crop_size={self.crop_size}``. {self._normalization()}"
        )


class VideoClassification(_Preset):
    """Frames resized, cropped in the middle and normalised; channels come before frames."""

    _listed = ("crop_size", "resize_size", "mean", "std", "interpolation")

    def __init__(
        self,
        *,
        crop_size: tuple[int, int],
        resize_size: Sequence[int],
        mean: tuple[float, ...] = (0.43216, 0.394666, 0.37645),
        std: tuple[float, ...] = (0.22803, 0.22145, 0.216989),
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    ) -> None:
        super().__init__(
            crop_size=list(crop_size),
            resize_size=list(resize_size),
            interpolation=interpolation,
            mean=list(mean),
            std=list(std),
        )

    def forward(self, vid: Tensor) -> Tensor:
        frames = vid.flatten(end_dim=-4)
        # the weights were learned on frames that were resized without antialiasing
        frames = F.center_crop(self._resized(frames, antialias=False), self.crop_size)
        frames = self._normalized(frames)
        return frames.view(*vid.shape[:-2], *self.crop_size).transpose(-4, -3)

    def describe(self) -> str:
        """What is done, in words."""
        return (
            "Accepts batched ``(B, T, C, H, W)`` and single ``(T, C, H, W)`` video frame "
            f"``torch.Tensor`` objects. The frames are resized to "
            f"``resize_size={self.resize_size}`` using ``interpolation={self.interpolation}``, "
            f"followed by a central crop of ``crop_size={self.crop_size}``. "
            f"{self._normalization()} Finally the output dimensions are permuted to "
            "``(..., C, T, H, W)`` tensors."
        )


class SemanticSegmentation(_Preset):
    """Resized, where a size is given, and normalised."""

    _listed = ("resize_size", "mean", "std", "interpolation")

    def __init__(
        self,
        *,
        resize_size: int | None,
        mean: tuple[float, ...] = IMAGENET_MEAN,
        std: tuple[float, ...] = IMAGENET_STD,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__(
            resize_size=None if resize_size is None else [resize_size],
            interpolation=interpolation,
            antialias=antialias,
            mean=list(mean),
            std=list(std),
        )

    def forward(self, img: Any) -> Tensor:
        keeps_size = self.resize_size is None
        return self._normalized(img if keeps_size else self._resized(img, self.antialias))

    def describe(self) -> str:
        """What is done, in words."""
        return (
            f"{_ACCEPTS}The images are resized to ``resize_size={self.resize_size}`` using "
            f"``interpolation={self.interpolation}``. {self._normalization()}"
        )


class OpticalFlow(_Preset):
    """Two images as floats from -1 to 1."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, img1: Any, img2: Any) -> tuple[Tensor, Tensor]:
        first, second = (
            F.normalize(_as_floats(img), mean=[0.5] * 3, std=[0.5] * 3).contiguous()
            for img in (img1, img2)
        )
        return first, second

    def describe(self) -> str:
        """What is done, in words."""
        return f"{_ACCEPTS}The images are rescaled to ``[-1.0, 1.0]``."
