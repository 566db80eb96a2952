"""TorchVersion: a version as text that compares by its numbers, as programs expect of PyTorch's."""

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["TorchVersion"]


class TorchVersion(str):
    """`TorchVersion("2.13.0") > "2.9"` and `> (2, 9)` are true; other texts compare as texts."""

    __hash__ = str.__hash__

    def _compare(self, other: Any, relation: str) -> Any:
        if isinstance(other, Iterable) and not isinstance(other, str):
            other = ".".join(str(part) for part in other)
        ours, theirs = release(self), release(str(other))
        if ours is None or theirs is None:
            return getattr(str, relation)(self, str(other))
        return getattr(tuple, relation)(ours, theirs)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "__le__")

    def __eq__(self, other: object) -> Any:
        return self._compare(other, "__eq__")

    def __ne__(self, other: object) -> Any:
        return self._compare(other, "__ne__")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, "__ge__")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, "__gt__")


def release(text):
    """The key by which versions are ordered: numbers, then pre-releases, then what is local.

    Trailing zeros do not count; `1.2a1` comes before `1.2`, `1.2+here` after it.
    """
    found = re.fullmatch(
        r"v?(\d+(?:\.\d+)*)(?:[._-]?(a|b|c|rc|dev|post)[._-]?(\d*))?(\+[\w.]+)?\w*", text.strip()
    )
    if not found:
        return None
    numbers = [int(part) for part in found[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    order = {"dev": -4, "a": -3, "b": -2, "c": -1, "rc": -1, None: 0, "post": 1}[found[2]]
    return tuple(numbers), order, int(found[3] or 0), found[4] or ""
