"""Marks on functions: not to be compiled, to be kept whole, of constant result; and what is behind
a compiled function."""

import types
import weakref
from typing import Any

_marks: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
_originals: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def mark(function: Any, word: str) -> None:
    """Say something about a function."""
    _marks[function] = word


def mark_of(function: Any) -> str | None:
    """disabled, in graph, out of graph, constant; or nothing."""
    if not isinstance(function, types.FunctionType):
        return None
    return _marks.get(function)


def compiled_from(made: Any, original: Any) -> None:
    """A compiled function or module, and what it was made of."""
    _originals[made] = original


def original_of(made: Any) -> Any:
    """What a compiled function or module was made of; None for others."""
    if isinstance(made, types.FunctionType) or getattr(type(made), "_is_compiled", False):
        return _originals.get(made)
    return None


def unmarked(function: Any) -> None:
    """Take a mark away."""
    _marks.pop(function, None)
