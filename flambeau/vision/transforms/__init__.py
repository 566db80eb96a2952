"""torchvision.transforms: changes of images, for data to learn from more than once.

Images are PIL images or tensors of shape (..., C, H, W). The same seed gives the same draws as in
torchvision, whose results these are too: to the bit for PIL images and integers. `functional` holds
the changes as functions; `v2` the newer transforms, which also move boxes and masks.
"""

from flambeau.vision.transforms import transforms as transforms
from flambeau.vision.transforms.autoaugment import (
    AugMix,
    AutoAugment,
    AutoAugmentPolicy,
    RandAugment,
    TrivialAugmentWide,
)
from flambeau.vision.transforms.transforms import *  # noqa: F403
from flambeau.vision.transforms.transforms import __all__ as _names

__all__ = [
    "AugMix",
    "AutoAugment",
    "AutoAugmentPolicy",
    "RandAugment",
    "TrivialAugmentWide",
    *_names,
]


def __getattr__(name):
    if name in ("v2", "_presets", "_functional_pil"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
