"""`torch.utils.weak`: references and dictionaries that keep nothing alive, by identity.

Tensors compare by value, so the dictionaries of `weakref` cannot hold them as keys.
"""

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from copy import deepcopy
from typing import Any

from flambeau import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to another if both mean the same object."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, its = self(), other() if isinstance(other, weakref.ref) else None
        if mine is not None and its is not None:
            return mine is its
        return self is other


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary whose items go when their key does; keys are told apart by identity."""

    def __init__(self, dict: Any = None, ref_type: type = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        # a callback must not keep the dictionary alive
        mine = weakref.ref(self)

        def gone(reference: Any) -> None:
            found = mine()
            if found is not None:
                found.data.pop(reference, None)

        self._gone = gone
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._gone)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum(reference() is not None for reference in self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list:
        """The references."""
        return list(self.data)

    def copy(self) -> "WeakIdKeyDictionary":
        """Another one with the same items."""
        return self._with(self.items())

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> "WeakIdKeyDictionary":
        return self._with((key, deepcopy(value, memo)) for key, value in self.items())

    def _with(self, *items: Any) -> "WeakIdKeyDictionary":
        out = type(self)(None, self.ref_type)
        for part in items:
            out.update(part)
        return out

    def __or__(self, other: Any) -> "WeakIdKeyDictionary":
        return self._with(self, other) if isinstance(other, Mapping) else NotImplemented

    def __ror__(self, other: Any) -> "WeakIdKeyDictionary":
        return self._with(other, self) if isinstance(other, Mapping) else NotImplemented

    def __ior__(self, other: Any) -> "WeakIdKeyDictionary":
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        mine, its = ({id(key): value for key, value in d.items()} for d in (self, other))
        return mine == its

    __hash__ = None  # type: ignore[assignment]


WeakTensorKeyDictionary = WeakIdKeyDictionary
