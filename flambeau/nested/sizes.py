"""The size of a dimension in which pieces differ: a name, such as j1."""

import weakref
from typing import Any

_known: "weakref.WeakKeyDictionary[Any, NestedInt]" = weakref.WeakKeyDictionary()


class NestedInt:
    """A size that is another one for every piece; equal where it comes from the same offsets."""

    is_symbolic_int = True  # a Size takes it

    def __init__(self, number: int, factor: int = 1) -> None:
        self.number, self.factor = number, factor

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def _key(self) -> tuple:
        return self.number, self.factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(("j", *self._key()))

    def __mul__(self, other: Any) -> "NestedInt":
        if not isinstance(other, int):
            return NotImplemented
        return NestedInt(self.number, self.factor * other)

    __rmul__ = __mul__

    def __gt__(self, other: Any) -> bool:
        return other < 2

    def __ge__(self, other: Any) -> bool:
        return other <= 2

    def __lt__(self, other: Any) -> bool:
        return False

    def __le__(self, other: Any) -> bool:
        return self == other


def size_of(offsets: Any) -> NestedInt:
    """The name of the sizes between some offsets."""
    storage = offsets._storage
    found = _known.get(storage)
    if found is None:
        found = _known[storage] = NestedInt(next(_numbers))
    return found


def _count():
    number = 0
    while True:
        number += 1
        yield number


_numbers = _count()
