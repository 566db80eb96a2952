"""Dropout layers: in training some elements, or whole channels, are zero; in evaluation none.

The masks are drawn as PyTorch draws them, so the same seed drops the same elements.
"""

from flambeau.nn.modules.declaring import layer, told
from flambeau.nn.modules.module import Module

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


@layer()
class _DropoutNd(Module):
    p: float = 0.5
    inplace: bool = False

    def _settle(self):
        if not 0 <= self.p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {self.p}")

    def extra_repr(self) -> str:
        return told(self, "p", "inplace")


@layer("dropout(input, p, training, inplace)")
class Dropout(_DropoutNd):
    """Each element is zero with probability p; the others are divided by 1 - p."""


@layer("dropout1d(input, p, training, inplace)")
class Dropout1d(_DropoutNd):
    """Whole channels of (N, C, L) or (C, L) are dropped."""


@layer("dropout2d(input, p, training, inplace)")
class Dropout2d(_DropoutNd):
    """Whole channels of (N, C, H, W) are dropped."""


@layer("dropout3d(input, p, training, inplace)")
class Dropout3d(_DropoutNd):
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) are dropped."""


@layer("alpha_dropout(input, p, training)")
class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance behind a SELU: dropped elements saturate."""


@layer("feature_alpha_dropout(input, p, training)")
class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels."""
