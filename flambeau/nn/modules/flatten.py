"""Layers that give the same elements another shape: Flatten and Unflatten."""

from collections.abc import Sequence

from flambeau._tensor import Tensor
from flambeau.nn.modules.declaring import layer
from flambeau.nn.modules.module import Module

__all__ = ["Flatten", "Unflatten"]


@layer()
class Flatten(Module):
    """Joins the dimensions from start_dim to end_dim: (N, C, H, W) becomes (N, C * H * W)."""

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


@layer()
class Unflatten(Module):
    """Splits one dimension into several."""

    dim: int
    unflattened_size: Sequence[int]

    def _settle(self):
        sizes = self.unflattened_size
        if not isinstance(sizes, (tuple, list)):
            kind = type(sizes).__name__
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {kind}")
        for place, size in enumerate(sizes):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {place}"
                )

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)
