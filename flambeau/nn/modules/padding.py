"""Padding layers: constants, zeros, mirrored, repeated or circular edges, in 1 to 3 dimensions.

`padding` is one number for all sides or (left, right, top, bottom, front, back), as many as there
are sides.
"""

from typing import Any

from flambeau._tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.utils import each

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _ConstantPadNd(Module):
    __constants__ = ["padding", "value"]
    _dimensions: int

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__()
        self.padding = each(padding, 2 * self._dimensions)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """A constant around the last dimension."""

    _dimensions = 1


class ConstantPad2d(_ConstantPadNd):
    """A constant around the last two dimensions."""

    _dimensions = 2


class ConstantPad3d(_ConstantPadNd):
    """A constant around the last three dimensions."""

    _dimensions = 3


class _ZeroPad:
    """Constant padding whose constant is zero and need not be told."""

    padding: Any

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)  # type: ignore[call-arg]

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Zeros around the last dimension."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Zeros around the last two dimensions."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Zeros around the last three dimensions."""


class _EdgePadNd(Module):
    """What is around the edge is made of what is inside."""

    __constants__ = ["padding"]
    _dimensions: int
    _mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = each(padding, 2 * self._dimensions)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_EdgePadNd):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """A mirror at the edge of the last dimension."""

    _dimensions = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Mirrors at the edges of the last two dimensions."""

    _dimensions = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Mirrors at the edges of the last three dimensions."""

    _dimensions = 3


class _ReplicationPadNd(_EdgePadNd):
    _mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """The edge of the last dimension, repeated."""

    _dimensions = 1


class ReplicationPad2d(_ReplicationPadNd):
    """The edges of the last two dimensions, repeated."""

    _dimensions = 2


class ReplicationPad3d(_ReplicationPadNd):
    """The edges of the last three dimensions, repeated."""

    _dimensions = 3


class _CircularPadNd(_EdgePadNd):
    _mode = "circular"

    def _check_input_dim(self, input):
        n = self._dimensions
        if input.dim() not in (n + 1, n + 2):
            raise ValueError(f"expected {n + 1}D or {n + 2}D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


class CircularPad1d(_CircularPadNd):
    """The other end of the last dimension."""

    _dimensions = 1


class CircularPad2d(_CircularPadNd):
    """The other ends of the last two dimensions."""

    _dimensions = 2


class CircularPad3d(_CircularPadNd):
    """The other ends of the last three dimensions."""

    _dimensions = 3
