"""`torch.ops.quantized`: ops on quantized tensors, under the names that programs call."""

from collections.abc import Callable
from typing import Any

from flambeau.ao.quantized_ops import (
    arithmetic,
    convolution,
    embedding,
    linear,
    normalization,
    transposed,
)

_FILES = (linear, convolution, transposed, arithmetic, normalization, embedding)


class Namespace:
    """The ops by name; each is a plain function that also answers for its overload `default`."""

    def __init__(self) -> None:
        self.name = "quantized"
        for module in _FILES:
            for name in module.PUBLIC:
                self._add(name, getattr(module, name))

    def _add(self, name: str, function: Any) -> None:
        function.__name__ = function.__qualname__ = name
        function.__module__ = "torch.ops.quantized"
        function.default = function
        setattr(self, name, function)

    def __repr__(self) -> str:
        return "<module 'torch.ops.quantized'>"

    def __getattr__(self, name: str) -> Callable:
        raise AttributeError(f"'_OpNamespace' 'quantized' object has no attribute '{name}'")


quantized = Namespace()
