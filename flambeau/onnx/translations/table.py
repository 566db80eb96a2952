"""The table of translations: from an op of aten, by its name, to nodes of ONNX."""

from collections.abc import Callable
from typing import Any

__all__ = ["find", "known", "translates"]

_translations: dict[str, Callable[..., Any]] = {}


def translates(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function writes these ops of aten, whatever their overload.

    It gets the builder, then arguments as the op has them: tensors and sizes that may change are
    `Value`s, all else is as in the program. Keyword `out` holds what the op gives: dtype and shape.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _translations[name] = function
        return function

    return register


def find(name: str) -> Callable[..., Any] | None:
    return _translations.get(name)


def known() -> list[str]:
    """Names of all ops that can be written."""
    return sorted(_translations)
