"""ParameterList and ParameterDict: parameters, and anything else, in a list or a dictionary.

Tensors become parameters when they are put in; other things are kept as they are. Each is an
attribute of the container, named by its place or key.
"""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from flambeau._tensor import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

__all__ = ["ParameterDict", "ParameterList"]


def place_of(index, length):
    """An index counted from the front, checked."""
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range")
    return index % length


def pairs(given, container, called="", ordered=False):
    """(key, value) of a mapping or of an iterable of pairs, or what PyTorch says if it is neither.

    ordered: keys of a plain dictionary are sorted.
    """
    if hasattr(given, "items"):
        plain = ordered and not isinstance(given, (OrderedDict, Module))
        return sorted(given.items()) if plain else list(given.items())
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{called or container}.update should be called with an iterable of key/value pairs, "
            f"but got {type(given).__name__}"
        )
    found = []
    for place, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{container} update sequence element #{place} should be Iterable; is"
                f"{type(pair).__name__}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{container} update sequence element #{place} has length {len(pair)}; 2 is "
                "required"
            )
        found.append(pair)
    return found


def _as_parameter(value):
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _described(named, kind):
    """One line for each thing in a container; kind tells how a tensor's dtype is written."""
    lines = []
    for name, value in named:
        if isinstance(value, Tensor):
            size = "x".join(str(n) for n in value.size())
            word = "Parameter" if isinstance(value, Parameter) else "Tensor"
            device = f" ({value.device})" if value.is_cuda else ""
            lines.append(f"  ({name}): {word} containing: [{kind(value)} of size {size}{device}]")
        else:
            lines.append(f"  ({name}): Object of type: {type(value).__name__}")
    return "\n".join(lines)


class ParameterList(Module):
    """A list of parameters."""

    _shows_names = False

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            found = self.__class__()
            for place in range(*index.indices(len(self))):
                found.append(self[place])
            return found
        return getattr(self, str(place_of(index, len(self))))

    def __setitem__(self, index: int, param: Any) -> None:
        setattr(self, str(place_of(index, len(self))), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[place] for place in range(len(self))])

    def __iadd__(self, parameters: Iterable[Any]) -> "ParameterList":
        return self.extend(parameters)

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value: Any) -> "ParameterList":
        """Add something at the end."""
        place = len(self)
        self._size += 1
        self[place] = value
        return self

    def extend(self, values: Iterable[Any]) -> "ParameterList":
        """Add several things at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                + type(values).__name__
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return _described(enumerate(self), lambda value: value.dtype)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters. Keys of a plain dictionary are sorted, others are not."""

    _shows_names = False

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def _key_to_attr(self, key):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type "
                f"is '{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        value = _as_parameter(value)
        name = self._key_to_attr(key)
        if isinstance(value, Parameter):
            self.register_parameter(name, value)  # this one refuses names that are methods
        else:
            setattr(self, name, value)
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> "ParameterDict":
        """Another dictionary of the same parameters."""
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """What is there, or default, which is put there."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Take everything out."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Take one thing out."""
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Any]:
        """Take the newest thing out."""
        key, _ = self._keys.popitem()
        self._keys[key] = None
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """What is there, or default."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> "ParameterDict":
        """A new dictionary with the same value for all keys."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Keys with values."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Put in what a mapping holds, or (key, value) pairs."""
        for key, value in pairs(parameters, "ParameterDict", "ParametersDict", ordered=True):
            self[key] = value

    def extra_repr(self) -> str:
        return _described(self.items(), lambda value: value.type())

    def __call__(self, input: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: Any) -> "ParameterDict":
        found = self.copy()
        found.update(other)
        return found

    def __ror__(self, other: Any) -> Any:
        found = other.copy()
        found.update(self)
        return found

    def __ior__(self, other: Any) -> "ParameterDict":
        self.update(other)
        return self
