"""Tensors from and to Python lists and NumPy arrays.

Lists are flattened, packed as doubles or 64-bit integers and cast by a kernel. NumPy arrays share memory
in both directions; each side keeps the other's owner alive.
"""

import math
import struct
import warnings

from flambeau import _dtype
from flambeau._device import cpu
from flambeau._layout import Size, dense_layout, make_layout
from flambeau._tensor import Tensor, empty_like_layout, empty_tensor, make_tensor
from flambeau.eager.copying import copy_into
from flambeau.runtime.cpu import read_bytes, write_bytes
from flambeau.storage import borrowed_storage

_SEQUENCES = (list, tuple)


def _shape_of(data):
    """The shape of nested sequences, judged by their first elements."""
    shape = []
    while True:
        if isinstance(data, _SEQUENCES) or (hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes, dict))):
            if isinstance(data, Tensor) or hasattr(data, "__array_interface__"):
                shape.extend(data.shape)
                return shape
            shape.append(len(data))
            if not len(data):
                return shape
            data = data[0]
        else:
            return shape


def _flatten(data, shape, dim, out):
    if dim == len(shape):
        if isinstance(data, _SEQUENCES) or (hasattr(data, "__len__") and not isinstance(data, (str, bytes)) and getattr(data, "shape", None) != ()):
            raise ValueError(f"only one element tensors can be converted to Python scalars; got {data!r} where a number is expected")
        out.append(_number(data))
        return
    try:
        length = len(data)
    except TypeError:
        raise TypeError(f"expected a sequence at dim {dim}, got {type(data).__name__}") from None
    if length != shape[dim]:
        raise ValueError(f"expected sequence of length {shape[dim]} at dim {dim} (got {length})")
    if isinstance(data, Tensor) or hasattr(data, "__array_interface__"):
        data = data.tolist()
    if dim == len(shape) - 1:
        kinds = set(map(type, data))
        if kinds <= _PLAIN:
            out.extend(data)
            return
    for item in data:
        _flatten(item, shape, dim + 1, out)


_PLAIN = {bool, int, float, complex}


def _number(value):
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Tensor):
        return value.item()
    item = getattr(value, "item", None)
    if item is not None:
        return item()
    for kind in (bool, int, float, complex):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, str):
        raise TypeError("new(): invalid data type 'str'")
    if hasattr(value, "__index__"):
        return value.__index__()
    if hasattr(value, "__float__"):
        return float(value)
    raise RuntimeError(f"Could not infer dtype of {type(value).__name__}")


def infer_dtype(numbers):
    kinds = set(map(type, numbers))
    if not kinds or float in kinds:
        return _dtype.default_complex() if complex in kinds else _dtype.default_dtype()
    if complex in kinds:
        return _dtype.default_complex()
    return _dtype.int64 if int in kinds else _dtype.bool_


def from_data(data, dtype=None, device=None):
    """A new tensor with a copy of nested data (numbers, sequences, arrays, tensors)."""
    device = device or cpu
    if isinstance(data, Tensor):
        return _copied(data, dtype or data.dtype, device)
    if hasattr(data, "__array_interface__") or hasattr(data, "__array__"):
        return _copied(from_numpy(data, warn=False), dtype, device)
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    shape = _shape_of(data)
    numbers: list = []
    if 0 not in shape:
        _flatten(data, shape, 0, numbers)
    elif not shape or shape.index(0) > 0:
        _flatten(data, shape[: shape.index(0)], 0, []) if False else None
    return from_numbers(numbers, shape, dtype or infer_dtype(numbers), device)


def from_numbers(numbers, shape, dtype, device=cpu):
    """A dense tensor from a flat list of Python numbers."""
    layout = dense_layout(Size(shape), dtype, device)
    out = empty_like_layout(layout)
    if not numbers or device.type != "cpu":
        return out
    if complex in set(map(type, numbers)):
        if dtype.category < _dtype.COMPLEX:
            raise TypeError("can't convert complex to float" if dtype.category == 2 else "can't convert complex to int")
        wide = _dtype.complex128
        data = struct.pack(f"{2 * len(numbers)}d", *(p for z in numbers for p in (complex(z).real, complex(z).imag)))
    elif dtype.category >= _dtype.FLOATING or float in set(map(type, numbers)):
        wide, data = _dtype.float64, struct.pack(f"{len(numbers)}d", *numbers)
        if dtype.category == _dtype.INTEGER:
            numbers = [_to_int(x) for x in numbers]
            wide, data = _dtype.int64, struct.pack(f"{len(numbers)}q", *numbers)
    else:
        wide, data = _pack_integers(numbers, dtype)
    source = empty_tensor(layout.shape, wide, cpu)
    write_bytes(source._storage.pointer, data)
    copy_into(out, source)
    return out


def _to_int(x):
    if math.isnan(x):
        raise ValueError("cannot convert float NaN to integer")
    if math.isinf(x):
        raise OverflowError("cannot convert float infinity to integer")
    return int(x)


def _pack_integers(numbers, dtype):
    if dtype.category == _dtype.INTEGER:
        bits = 8 * dtype.itemsize
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.is_signed else (0, (1 << bits) - 1)
        # a negative number for an unsigned dtype wraps as long as it fits the signed one
        worst = min(numbers), max(numbers)
        if worst[1] > high or worst[0] < (low if dtype.is_signed else -(1 << (bits - 1))):
            if worst[1] > (1 << 63) - 1 and dtype is not _dtype.uint64 or worst[0] < -(1 << 63):
                raise RuntimeError("Overflow when unpacking long long")
            raise RuntimeError(f"value cannot be converted to type {dtype.name}_t without overflow")
        if dtype is _dtype.uint64:
            return _dtype.uint64, struct.pack(f"{len(numbers)}Q", *(n & (1 << 64) - 1 for n in numbers))
    try:
        return _dtype.int64, struct.pack(f"{len(numbers)}q", *numbers)
    except struct.error:
        raise RuntimeError("Overflow when unpacking long long") from None


def _copied(t, dtype, device):
    dtype = dtype or t.dtype
    out = empty_like_layout(dense_layout(t.shape, dtype, device))
    if device.type == "cpu":
        copy_into(out, t)
    return out


# -- NumPy -------------------------------------------------------------------------------------------

_TYPESTR = {
    "float64": "<f8", "float32": "<f4", "float16": "<f2", "int64": "<i8", "int32": "<i4", "int16": "<i2", "int8": "|i1",
    "uint64": "<u8", "uint32": "<u4", "uint16": "<u2", "uint8": "|u1", "bool": "|b1", "complex64": "<c8", "complex128": "<c16",
}  # fmt: skip
_FROM_TYPESTR = {text: _dtype.BY_NAME[name] for name, text in _TYPESTR.items()}
_SUPPORTED = "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool"


class _Exported:
    """Memory shown to NumPy; keeps the storage alive."""

    def __init__(self, t):
        layout = t._layout
        self.storage = t._storage
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(layout.shape),
            "typestr": _TYPESTR[layout.dtype.name],
            "data": (t._storage.pointer + t._offset or 64, False),
            "strides": tuple(s * layout.itemsize for s in layout.strides) if layout.numel else None,
        }


def to_numpy(t, force=False):
    """A NumPy array over the same memory."""
    if force:
        t = t.detach()
    elif t._requires_grad:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    if t._layout.device.type != "cpu":
        raise TypeError(
            f"can't convert {t._layout.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    if t.dtype.name not in _TYPESTR:
        raise TypeError(f"Got unsupported ScalarType {t.dtype.scalar_name}")
    import numpy

    if t._layout.numel == 0:
        return numpy.empty(tuple(t.shape), dtype=_TYPESTR[t.dtype.name])
    return numpy.asarray(_Exported(t))


def from_numpy(array, warn=True):
    """A tensor over the memory of a NumPy array."""
    import numpy

    if warn and not isinstance(array, numpy.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    array = numpy.asarray(array)
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. "
            "Conversion between byte orders is currently not supported."
        )
    dtype = _FROM_TYPESTR.get(array.dtype.str)
    if dtype is None:
        raise TypeError(
            f"can't convert np.ndarray of type {_numpy_name(array.dtype)}. The only supported types are: {_SUPPORTED}."
        )
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array  with array.copy().) "
        )
    if any(s % array.itemsize for s in array.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory."
        )
    if warn and not array.flags.writeable:
        warnings.warn(
            "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means "
            "writing to this tensor will result in undefined behavior. You may want to copy the array to protect its "
            "data or make it writable before converting it to a tensor.",
            UserWarning,
            stacklevel=3,
        )
    strides = tuple(s // array.itemsize for s in array.strides)
    layout = make_layout(Size(array.shape), strides, dtype, cpu)
    pointer = array.__array_interface__["data"][0]
    return make_tensor(layout, borrowed_storage(pointer, array.nbytes, array), 0)


def _numpy_name(dtype):
    return f"numpy.{dtype.type.__name__}"


# -- Python numbers -----------------------------------------------------------------------------------

_STRUCT = {
    "float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
    "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B", "bool": "?", "complex64": "f", "complex128": "d",
}  # fmt: skip
_unpackers: dict = {}


def _numbers(address, count, dtype):
    """Python numbers from native memory."""
    if dtype is _dtype.bfloat16:
        halves = struct.unpack(f"{count}H", read_bytes(address, 2 * count))
        return struct.unpack(f"{count}f", struct.pack(f"{count}I", *(h << 16 for h in halves)))
    parts = 2 * count if dtype.is_complex else count
    values = struct.unpack(f"{parts}{_STRUCT[dtype.name]}", read_bytes(address, count * dtype.itemsize))
    return [complex(a, b) for a, b in zip(values[::2], values[1::2])] if dtype.is_complex else values


def item(t):
    """The only element, as a Python number."""
    layout = t._layout
    if layout.numel != 1:
        raise RuntimeError(f"a Tensor with {layout.numel} elements cannot be converted to Scalar")
    if layout.device.type == "meta":
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    return _numbers(t._storage.pointer + t._offset, 1, layout.dtype)[0]


def tolist(t):
    """Nested lists of Python numbers."""
    if t._layout.ndim == 0:
        return item(t)
    if not t._layout.is_contiguous:
        dense = empty_tensor(t.shape, t.dtype, t.device)
        copy_into(dense, t)
        t = dense
    values = list(_numbers(t._storage.pointer + t._offset, t._layout.numel, t.dtype)) if t._layout.numel else []
    return _nest(values, t.shape)


def _nest(values, shape):
    if math.prod(shape) == 0:
        return _empty_nest(shape)
    for size in reversed(shape[1:]):
        values = [values[k : k + size] for k in range(0, len(values), size)]
    return values


def _empty_nest(shape):
    return [_empty_nest(shape[1:]) for _ in range(shape[0])] if shape else []
