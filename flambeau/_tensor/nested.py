"""Tensors from nested Python data: numbers in lists in lists, tensors and NumPy numbers among them.

The shape is judged by the first elements, the dtype by all of them; then the numbers are packed as
doubles or 64-bit integers and cast by a kernel. Arrays as a whole are interchange.py's business.
"""

import struct
import warnings
from itertools import chain

from flambeau import _dtype
from flambeau._device import cpu
from flambeau._layout import Size, dense_layout
from flambeau._tensor import Tensor, empty_like_layout, empty_tensor
from flambeau._tensor.dlpack import from_dlpack
from flambeau._tensor.interchange import copied, dtype_of_array, from_numpy
from flambeau.eager.copying import copy_into
from flambeau.runtime.cpu import pack_at, write_bytes

_PLAIN = {bool, int, float, complex}
_MAX_DIMS = 128


def from_data(data, dtype=None, device=None):
    """A new tensor with a copy of nested data (numbers, sequences, arrays, tensors)."""
    device = device or cpu
    if device is cpu:
        t = plain(data, dtype)
        if t is not None:
            return t
    if isinstance(data, Tensor):
        return copied(data, dtype or data.dtype, device)
    if _is_array(data) or (hasattr(data, "__array__") and not _is_sequence(data)):
        return copied(from_numpy(data, warn=False), dtype, device)
    if hasattr(data, "__dlpack__"):
        return copied(from_dlpack(data), dtype, device)
    if type(data) in _LISTS and data and _is_array(data[0]) and data[0].shape:
        warnings.warn(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider "
            "converting the list to a single numpy.ndarray with numpy.array() before converting "
            "to a tensor.",
            stacklevel=3,
        )
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    shape, numbers, kinds = _sizes(data), [], set()
    if type(data) in (list, tuple) and len(shape) == 1 and set(map(type, data)) <= _PLAIN:
        numbers, kinds = list(data), set(map(type, data))  # the common case, in a hurry
    elif dtype is None:
        dtype = _inferred(data)
        _collect(data, shape, 0, numbers, dtype)
    else:
        _collect(data, shape, 0, numbers, dtype)
    if 0 in shape:
        numbers = []
    return from_numbers(numbers, shape, dtype or _dtype_of_kinds(kinds), device)


_LETTERS = {
    _dtype.float32: "f",
    _dtype.float64: "d",
    _dtype.int64: "q",
    _dtype.int32: "i",
    _dtype.uint8: "B",
    _dtype.bool_: "?",
}
_LISTS = frozenset((list, tuple))


def plain(data, dtype=None):
    """Numbers, or lists of them however deep, straight into memory without a cast; else None.

    Everything unusual is left to from_data: odd types and shapes, numbers that do not fit.
    """
    kind = type(data)
    if kind in _PLAIN:
        kinds, shape, numbers = {kind}, (), (data,)
    elif kind in _LISTS:
        kinds, shape, numbers = set(map(type, data)), (len(data),), data
        while kinds <= _LISTS and kinds:
            lengths = set(map(len, numbers))
            if len(lengths) != 1 or len(shape) == _MAX_DIMS:  # a list may contain itself
                return None
            shape += tuple(lengths)
            numbers = list(chain.from_iterable(numbers))
            kinds = set(map(type, numbers))
    else:
        return None
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if dtype is None:
        dtype = _dtype_of_kinds(kinds)
    letter = _LETTERS.get(dtype)
    if letter is None or kind is complex or dtype.category < _dtype.scalar_dtype(kind).category:
        return None
    t = empty_tensor(shape, dtype, cpu)
    try:
        pack_at(t._storage.pointer, t._layout.nbytes, f"{len(numbers)}{letter}", numbers)
    except (struct.error, OverflowError):
        return None  # too large for the type: the slower way has the words for it
    return t


def _is_sequence(data):
    if isinstance(data, (list, tuple, str, bytes, range)):
        return True
    return (
        hasattr(data, "__getitem__")
        and hasattr(data, "__len__")
        and not isinstance(data, (dict, Tensor))
    )


def _is_array(data):
    return hasattr(data, "__array_interface__")


def _sizes(data):
    """The shape of nested sequences, judged by their first elements."""
    sizes = []
    while _is_sequence(data):
        if _is_array(data) and hasattr(data, "shape"):
            if data.shape == ():
                if hasattr(data, "__setitem__"):
                    raise TypeError("len() of unsized object")
                return sizes  # a NumPy number
            return [*sizes, *data.shape]
        sizes.append(len(data))
        if len(sizes) > _MAX_DIMS or (isinstance(data, str) and len(data)):
            raise ValueError(f"too many dimensions '{type(data).__name__}'")
        if not sizes[-1]:
            break
        try:
            data = data[0]
        except Exception as error:
            raise ValueError(
                f"could not determine the shape of object type '{type(data).__name__}'"
            ) from error
        if isinstance(data, bytes):
            raise TypeError("new(): invalid data type 'bytes'")
    return sizes


# -- dtypes ----------------------------------------------------------------------------------------


def infer_dtype(numbers):
    """The dtype of Python numbers."""
    return _dtype_of_kinds(set(map(type, numbers)))


def _dtype_of_kinds(kinds):
    if complex in kinds:
        return _dtype.default_complex()
    if float in kinds or not kinds:
        return _dtype.default_dtype()
    return _dtype.int64 if int in kinds else _dtype.bool_


def _inferred(data):
    """The dtype of nested data: what all its elements promote to."""
    kind = type(data)
    if kind in _PLAIN:
        return _dtype_of_kinds({kind})
    if isinstance(data, Tensor):
        return data.dtype
    if _is_array(data):
        return dtype_of_array(data)
    for python in (bool, int, float, complex):
        if isinstance(data, python):
            return _dtype_of_kinds({python})
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    if not _is_sequence(data):
        raise RuntimeError(f"Could not infer dtype of {kind.__name__}")
    kinds = set(map(type, data))
    if kinds <= _PLAIN:
        return _dtype_of_kinds(kinds)
    found = None
    for item in data:
        if item is data:
            raise TypeError("new(): self-referential lists are incompatible")
        own = _inferred(item)
        found = own if found is None else _dtype.promote_types(found, own)
    return found


# -- numbers ---------------------------------------------------------------------------------------


def _collect(data, shape, dim, out, dtype):
    """Append the numbers of nested data, in order."""
    if dim == len(shape):
        out.append(_number(data, dtype))
        return
    if not _is_sequence(data):
        raise TypeError("not a sequence")
    if len(data) != shape[dim]:
        if 0 in shape:
            return  # nothing is stored, and nothing is compared
        raise ValueError(f"expected sequence of length {shape[dim]} at dim {dim} (got {len(data)})")
    if _is_array(data):
        data = data.tolist()
    if dim == len(shape) - 1 and set(map(type, data)) <= _PLAIN:
        out.extend(data)
        return
    for item in data:
        _collect(item, shape, dim + 1, out, dtype)


def _number(value, dtype):
    """A Python number for one element of a dtype."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Tensor):
        if value._layout.numel != 1:
            if dtype.category < _dtype.FLOATING:
                raise TypeError(
                    "only integer tensors of a single element can be converted to an index"
                )
            raise ValueError("only one element tensors can be converted to Python scalars")
        return value.item()
    if _is_array(value) and getattr(value, "shape", None) == ():
        return value.item()
    for kind in (bool, int, float, complex):
        if isinstance(value, kind):
            return kind(value)
    if dtype.category >= _dtype.FLOATING:
        if hasattr(value, "__float__"):
            return float(value)
        raise TypeError(f"must be real number, not {type(value).__name__}")
    if hasattr(value, "__index__"):
        return value.__index__()
    raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")


def from_numbers(numbers, shape, dtype, device=cpu):
    """A dense tensor from a flat list of Python numbers."""
    layout = dense_layout(Size(shape), dtype, device)
    out = empty_like_layout(layout)
    if not numbers:
        return out
    wide, data = _packed(numbers, dtype)
    if not device.runtime.computes:
        return out
    source = empty_tensor(layout.shape, wide, cpu)
    write_bytes(source._storage.pointer, data)
    copy_into(out, source)
    return out


def _packed(numbers, dtype):
    """(the wide dtype they are packed in, the bytes)"""
    kinds = set(map(type, numbers))
    if complex in kinds:
        if dtype.category == _dtype.BOOL:
            numbers = [bool(x) for x in numbers]
        elif dtype.category == _dtype.INTEGER:
            raise TypeError("'complex' object cannot be interpreted as an integer")
        elif dtype.category == _dtype.FLOATING:
            raise TypeError("must be real number, not complex")
        else:
            parts = (p for z in numbers for p in (complex(z).real, complex(z).imag))
            return _dtype.complex128, struct.pack(f"{2 * len(numbers)}d", *parts)
    elif dtype.category >= _dtype.FLOATING:
        return _dtype.float64, _doubles(numbers)
    if dtype is _dtype.bool_:
        return _dtype.bool_, bytes(map(bool, numbers))
    if float in kinds:
        numbers = [_whole(x, dtype) for x in numbers]
    return _integers(numbers, dtype)


def _doubles(numbers):
    try:
        return struct.pack(f"{len(numbers)}d", *numbers)
    except (OverflowError, struct.error):
        raise OverflowError("int too large to convert to float") from None


def _overflow(dtype):
    return RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")


def _whole(x, dtype):
    if type(x) is float:
        limits = _dtype.iinfo(_dtype.int64 if dtype is _dtype.uint64 and x < 0 else dtype)
        if not limits.min <= x <= limits.max:  # before it is cut to an integer
            raise _overflow(dtype)
    return int(x)


def _integers(numbers, dtype):
    low, high = min(numbers), max(numbers)
    if dtype is _dtype.uint64:
        if low < 0:
            raise OverflowError("can't convert negative int to unsigned")
        if high >= 1 << 64:
            raise OverflowError("int too big to convert")
        return dtype, struct.pack(f"{len(numbers)}Q", *numbers)
    if low < -(1 << 63) or high >= 1 << 63:
        if dtype is _dtype.int64 and float in map(type, (low, high)):
            raise _overflow(dtype)
        raise ValueError("Overflow when unpacking long long")
    limits = _dtype.iinfo(dtype)
    # a negative number wraps around in an unsigned dtype
    if high > limits.max or low < (limits.min if dtype.is_signed else -limits.max):
        raise _overflow(dtype)
    return _dtype.int64, struct.pack(f"{len(numbers)}q", *numbers)
