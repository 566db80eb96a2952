"""How images are prepared for published weights: what `weights.transforms()` returns.

Each preset is a module that takes a PIL image or a tensor and returns the tensor that a model
wants. The steps themselves are functions of `functional`.
"""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor, nn

__all__ = ["ImageClassification", "ObjectDetection", "SemanticSegmentation"]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def interpolation_mode(name: Any) -> Any:
    """The member of InterpolationMode of this name; "bilinear" if None."""
    from . import InterpolationMode

    return (
        InterpolationMode(name or "bilinear") if not isinstance(name, InterpolationMode) else name
    )


class _Preset(nn.Module):
    _shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = [f"\n    {name}={getattr(self, name)}" for name in self._shown]
        return f"{type(self).__name__}({''.join(lines)}{chr(10) if lines else ''})"


def _as_float_tensor(image: Any) -> Tensor:
    from . import functional

    if not isinstance(image, Tensor):
        image = functional.pil_to_tensor(image)
    return functional.convert_image_dtype(image, flambeau.float)


class ObjectDetection(_Preset):
    """Values between 0 and 1; detectors resize and normalize by themselves."""

    def forward(self, img: Any) -> Tensor:
        return _as_float_tensor(img)

    def describe(self) -> str:
        return (
            "Takes PIL images, tensors (C, H, W) and batches (B, C, H, W). "
            "Values are rescaled to [0.0, 1.0]."
        )


class ImageClassification(_Preset):
    """Resize, crop the centre, rescale to 0..1, normalize."""

    _shown = ("crop_size", "resize_size", "mean", "std", "interpolation")

    def __init__(
        self,
        *,
        crop_size: int,
        resize_size: int = 256,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        interpolation: Any = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.crop_size, self.resize_size = [crop_size], [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation = interpolation_mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Tensor:
        from . import functional

        img = functional.resize(img, self.resize_size, self.interpolation, antialias=self.antialias)
        img = _as_float_tensor(functional.center_crop(img, self.crop_size))
        return functional.normalize(img, mean=self.mean, std=self.std)

    def describe(self) -> str:
        return (
            "Takes PIL images, tensors (C, H, W) and batches (B, C, H, W). Images are resized to "
            f"resize_size={self.resize_size} with interpolation={self.interpolation}, cropped in "
            f"the centre to crop_size={self.crop_size}, rescaled to [0.0, 1.0] and normalized with "
            f"mean={self.mean} and std={self.std}."
        )


class SemanticSegmentation(_Preset):
    """Resize unless `resize_size` is None, rescale to 0..1, normalize."""

    _shown = ("resize_size", "mean", "std", "interpolation")

    def __init__(
        self,
        *,
        resize_size: int | None,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        interpolation: Any = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.resize_size = None if resize_size is None else [resize_size]
        self.mean, self.std = list(mean), list(std)
        self.interpolation = interpolation_mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Tensor:
        from . import functional

        if self.resize_size is not None:
            img = functional.resize(
                img, self.resize_size, self.interpolation, antialias=self.antialias
            )
        return functional.normalize(_as_float_tensor(img), mean=self.mean, std=self.std)

    def describe(self) -> str:
        return (
            "Takes PIL images, tensors (C, H, W) and batches (B, C, H, W). Images are resized to "
            f"resize_size={self.resize_size} with interpolation={self.interpolation}, rescaled to "
            f"[0.0, 1.0] and normalized with mean={self.mean} and std={self.std}."
        )
