"""Pickles of plain data and NumPy arrays, read without running anything.

The reader is the machine of `flambeau.serialization`, with a much shorter list of names: those by
which a pickle describes an array. They stand for harmless notes here; arrays are made of them
after their dtype, shape and size were compared.
"""

from __future__ import annotations

import io
import math
import os
from collections import OrderedDict
from pickle import UnpicklingError
from typing import Any

from flambeau.serialization.rebuilding import brief
from flambeau.serialization.restricted import Machine

_DTYPES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"}
_MOST_DIMS, _MOST_DEPTH, _MOST_VALUES = 32, 100, 1_000_000


def read_pickle(path: str | os.PathLike[str]) -> Any:
    """The object in a file that holds a pickle: containers, numbers, text and arrays.

    Python 2 had one type for text and bytes; both are read as text, in Latin-1.
    """
    with open(path, "rb") as file:
        return parse_pickle(file.read(), os.fspath(path))


def parse_pickle(content: bytes, name: str) -> Any:
    """The object that these bytes stand for; the name is for messages."""
    try:
        return _finished(_Reader(io.BytesIO(content), _no_ids, "bytes").load())
    except (UnpicklingError, EOFError, RecursionError, MemoryError) as error:
        why = str(error).removeprefix("Weights only load failed. ")
        raise RuntimeError(f"{name} cannot be read safely: {why}") from None


def _no_ids(_: Any) -> Any:
    raise UnpicklingError("it speaks of objects outside of the file")


class _Dtype:
    """What a pickle says of a dtype: a kind, a size, and later the order of bytes."""

    def __init__(self, code: Any = "", align: Any = 0, copy: Any = 1) -> None:
        code = code.decode("latin1") if isinstance(code, bytes) else code
        if not isinstance(code, str) or code not in _DTYPES:
            raise UnpicklingError(f"an array of dtype {brief(code)}")
        self.code = code
        self.order: Any = "|"

    def set_state(self, state: Any) -> None:
        order = state[1].decode("latin1") if isinstance(state[1], bytes) else state[1]
        if order not in ("|", "<", ">", "=") or any(part is not None for part in state[2:5]):
            raise UnpicklingError("a dtype that is not a plain number")
        self.order = order

    def numpy_dtype(self) -> Any:
        import numpy

        return numpy.dtype(self.code).newbyteorder(self.order)


class _Array:
    """What a pickle says of an array."""

    def __init__(self) -> None:
        self.value: Any = None

    def set_state(self, state: Any) -> None:
        _, shape, dtype, by_columns, data = state
        self.value = _array(data, dtype, shape, "F" if by_columns else "C")


def _array(data: Any, dtype: Any, shape: Any, order: Any) -> Any:
    """An array of its own memory, if data, dtype and shape fit together."""
    import numpy

    if isinstance(data, str):
        data = data.encode("latin1")
    if not isinstance(dtype, _Dtype) or not isinstance(data, (bytes, bytearray)):
        raise UnpicklingError("an array without a dtype, or without data")
    plain = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if not plain or len(shape) > _MOST_DIMS or order not in ("C", "F"):
        raise UnpicklingError("an array of no proper shape")
    wanted = dtype.numpy_dtype()
    if math.prod(shape) * wanted.itemsize != len(data):
        raise UnpicklingError(f"an array of shape {shape} over {len(data)} bytes")
    values = numpy.frombuffer(data, wanted).astype(wanted.newbyteorder("="))
    return values.reshape(shape, order=order)


# -- the names that may occur, and what stands for them --------------------------------------------


class _ArrayType:
    """numpy.ndarray, as an argument; nothing can be done with it."""


def _reconstruct(kind: Any, shape: Any, code: Any) -> _Array:
    if kind is not _ArrayType:
        raise UnpicklingError("an array of a type of its own")
    return _Array()


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    array = _Array()
    array.value = _array(data, dtype, shape, order)
    return array


def _scalar(dtype: Any, data: Any) -> Any:
    return _array(data, dtype, (), "C").item()


def _encode(text: Any, encoding: Any) -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise UnpicklingError("text in an unknown encoding")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    return b""  # how protocol 2 writes the bytes of an array without elements


_NAMES: dict[str, Any] = {"numpy.ndarray": _ArrayType, "numpy.dtype": _Dtype}
for _core in ("numpy.core", "numpy._core"):
    _NAMES[f"{_core}.multiarray._reconstruct"] = _reconstruct
    _NAMES[f"{_core}.multiarray.scalar"] = _scalar
    _NAMES[f"{_core}.numeric._frombuffer"] = _from_buffer
_NAMES |= {"builtins.bytes": _no_bytes, "__builtin__.bytes": _no_bytes}
_NAMES |= {"_codecs.encode": _encode, "collections.OrderedDict": OrderedDict}
_CALLED = [_Dtype, _reconstruct, _scalar, _from_buffer, _no_bytes, _encode, OrderedDict]


class _Reader(Machine):
    def find(self, module: Any, name: Any) -> Any:
        if not isinstance(module, str) or not isinstance(name, str):
            raise UnpicklingError("it asks for something without a name")
        full = f"{module}.{name}"
        if full not in _NAMES:
            raise UnpicklingError(f"it asks for {full[:100]!r}, which data does not need")
        return _NAMES[full]

    def call(self, function: Any, arguments: Any) -> Any:
        if not isinstance(arguments, tuple) or not any(function is other for other in _CALLED):
            raise UnpicklingError("it calls what is no function")
        if function is OrderedDict and arguments:
            raise UnpicklingError("a dictionary with arguments")
        return function(*arguments)

    def build(self, obj: Any, state: Any) -> None:
        if not isinstance(obj, (_Array, _Dtype)) or not isinstance(state, tuple):
            raise UnpicklingError("it sets attributes of what is not an array")
        obj.set_state(state)


def _finished(value: Any) -> Any:
    """The value with arrays for the notes about them."""
    return _Finishing().finished(value, 0)


class _Finishing:
    """Goes through a value; counts, as a short pickle can speak of more values than there are."""

    count = 0

    def finished(self, value: Any, depth: int) -> Any:
        self.count += 1
        if depth > _MOST_DEPTH or self.count > _MOST_VALUES:
            raise UnpicklingError("it is nested too deeply, or holds too many values")
        if isinstance(value, _Array):
            if value.value is None:
                raise UnpicklingError("an array without content")
            return value.value
        if isinstance(value, dict):
            return {self._key(k, depth): self.finished(v, depth + 1) for k, v in value.items()}
        if isinstance(value, list):
            return [self.finished(part, depth + 1) for part in value]
        if isinstance(value, tuple):
            return tuple(self.finished(part, depth + 1) for part in value)
        if isinstance(value, (bytes, bytearray)):
            return value.decode("latin1")
        if isinstance(value, (_Dtype, type)) or callable(value):
            raise UnpicklingError("it holds something that is no data")
        return value

    def _key(self, key: Any, depth: int) -> Any:
        key = self.finished(key, depth + 1)
        try:
            hash(key)
        except TypeError:
            raise UnpicklingError(f"a dictionary with a key of {type(key)}") from None
        return key
