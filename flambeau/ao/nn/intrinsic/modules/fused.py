"""Modules one after the other that are quantized as one."""

import inspect
from typing import Any

from flambeau import Tensor, nn

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU", "BNReLU2d", "BNReLU3d", "LinearBn1d",
    "LinearLeakyReLU", "LinearTanh", "ConvAdd2d", "ConvAddReLU2d",
]  # fmt: skip


class _FusedModule(nn.Sequential):
    """A sequence that is one step; classes made by `_fused` say what it is made of."""

    _parts: dict[str, type] = {}

    def __init__(self, *modules: nn.Module, **named: nn.Module) -> None:
        modules += tuple(named[name] for name in list(self._parts)[len(modules) :])
        fits = map(isinstance, modules, self._parts.values())
        if not all(fits):
            *first, last = (type(module).__name__ for module in modules)
            comma = "," if len(first) > 1 else ""
            words = f"{', '.join(first)}{comma} and {last}"
            raise AssertionError(f"Incorrect types for input modules: {words}")
        nn.Sequential.__init__(self, *modules)


_WORDS = {"BatchNorm": "bn", "LeakyReLU": "leaky_relu"}


def _fused(name: str, *kinds: type) -> Any:
    """A class for modules of these kinds, one after the other."""
    words = [kind.__name__.rstrip("123d") for kind in kinds]
    parts = {_WORDS.get(word, word.lower()): kind for word, kind in zip(words, kinds)}
    if name.startswith("BN"):
        parts = {"batch_norm": kinds[0], "relu": kinds[1]}
    made: Any = type(name, (_FusedModule,), {"_parts": parts, "__module__": __name__})
    one = inspect.Parameter.POSITIONAL_OR_KEYWORD
    made.__signature__ = inspect.Signature([inspect.Parameter(part, one) for part in parts])
    made.__doc__ = " and ".join(kind.__name__ for kind in kinds) + ", quantized as one."
    return made


ConvReLU1d = _fused("ConvReLU1d", nn.Conv1d, nn.ReLU)
ConvReLU2d = _fused("ConvReLU2d", nn.Conv2d, nn.ReLU)
ConvReLU3d = _fused("ConvReLU3d", nn.Conv3d, nn.ReLU)
ConvBn1d = _fused("ConvBn1d", nn.Conv1d, nn.BatchNorm1d)
ConvBn2d = _fused("ConvBn2d", nn.Conv2d, nn.BatchNorm2d)
ConvBn3d = _fused("ConvBn3d", nn.Conv3d, nn.BatchNorm3d)
ConvBnReLU1d = _fused("ConvBnReLU1d", nn.Conv1d, nn.BatchNorm1d, nn.ReLU)
ConvBnReLU2d = _fused("ConvBnReLU2d", nn.Conv2d, nn.BatchNorm2d, nn.ReLU)
ConvBnReLU3d = _fused("ConvBnReLU3d", nn.Conv3d, nn.BatchNorm3d, nn.ReLU)
BNReLU2d = _fused("BNReLU2d", nn.BatchNorm2d, nn.ReLU)
BNReLU3d = _fused("BNReLU3d", nn.BatchNorm3d, nn.ReLU)
LinearReLU = _fused("LinearReLU", nn.Linear, nn.ReLU)
LinearBn1d = _fused("LinearBn1d", nn.Linear, nn.BatchNorm1d)
LinearLeakyReLU = _fused("LinearLeakyReLU", nn.Linear, nn.LeakyReLU)
LinearTanh = _fused("LinearTanh", nn.Linear, nn.Tanh)


class ConvAdd2d(_FusedModule):
    """A convolution to which something else is added."""

    def __init__(self, conv: nn.Module, add: Any) -> None:
        nn.Sequential.__init__(self, conv)
        self.add = add

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(ConvAdd2d):
    """The same, and nothing below zero."""

    def __init__(self, conv: nn.Module, add: Any, relu: nn.Module) -> None:
        ConvAdd2d.__init__(self, conv, add)
        self.relu = relu

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        return self.relu(super().forward(x1, x2))
