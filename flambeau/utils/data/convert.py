"""Samples of a loader that does not batch: NumPy values become tensors, all else stays.

`rebuilt` is how this file, `collate.py` and `pinning.py` make a container of the same kind from
new values, for containers whose classes may be anybody's.
"""

import copy
import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import flambeau
from flambeau import Tensor

NO_NUMBERS = frozenset("SaUO")  # kinds of NumPy arrays that no tensor can hold


def rebuilt_mapping(like: Mapping[Any, Any], values: Callable[[Any], Any]) -> Any:
    """A mapping like the given one, `values(key)` in place of each value.

    A mutable one is copied and changed, since it may carry more than its items; a class that can
    neither be copied nor made from a dict gives way to a dict.
    """
    try:
        if isinstance(like, MutableMapping):
            clone = copy.copy(like)
            clone.update({key: values(key) for key in like})
            return clone
        return type(like)({key: values(key) for key in like})  # type: ignore[call-arg]
    except TypeError:
        return {key: values(key) for key in like}


def rebuilt_sequence(like: Sequence[Any], values: Callable[[], Iterable[Any]]) -> Any:
    """A sequence like the given one with other values; a list where its class does not help."""
    try:
        if isinstance(like, MutableSequence):
            clone = copy.copy(like)
            for i, value in enumerate(values()):
                clone[i] = value
            return clone
        return type(like)(list(values()))  # type: ignore[call-arg]
    except TypeError:
        return list(values())


def is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def holds_no_numbers(array: Any) -> bool:
    """Whether a NumPy array holds texts or objects."""
    return not NO_NUMBERS.isdisjoint(array.dtype.str)


def default_convert(data: Any) -> Any:
    """Make tensors of the NumPy arrays and numbers in a sample, however deep in containers.

    Args:
        data: a sample; tuples in it become lists, as everywhere in loading.

    Example:
        >>> import numpy
        >>> flambeau.utils.data.default_convert({"a": numpy.arange(3), "b": "text"})
        {'a': tensor([0, 1, 2]), 'b': 'text'}
    """
    kind = type(data)
    if isinstance(data, Tensor):
        return data
    if kind.__module__ == "numpy" and kind.__name__ not in ("str_", "string_"):
        if isinstance(data, sys.modules["numpy"].ndarray) and holds_no_numbers(data):
            return data
        return flambeau.as_tensor(data)
    if isinstance(data, Mapping):
        return rebuilt_mapping(data, lambda key: default_convert(data[key]))
    if is_named_tuple(data):
        return kind(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return rebuilt_sequence(data, lambda: map(default_convert, data))
    return data
