"""Tensors from and to NumPy arrays and buffers, and their elements as Python numbers.

Arrays share memory in both directions; each side keeps the other's owner alive. Tensors from nested
lists are made in nested.py, other people's tensors come in through utils/dlpack.py.
"""

import math
import warnings

from flambeau import _dtype
from flambeau._device import cpu
from flambeau._layout import Size, dense_layout, make_layout, span
from flambeau._tensor import ARRAYS, empty_like_layout, made_plainly, make_tensor
from flambeau._tensor.admission import admit
from flambeau._tensor.scalars import LISTS, READERS, list_reader, reader
from flambeau.autograd.grad_mode import modes
from flambeau.eager.copying import copy_into
from flambeau.eager.plans import Plans
from flambeau.runtime import arrays
from flambeau.storage import borrowed_storage, lend


def copied(t, dtype, device):
    dtype = dtype or t.dtype
    out = empty_like_layout(dense_layout(t.shape, dtype, device))
    copy_into(out, t)
    return out


# -- NumPy -----------------------------------------------------------------------------------------

_TYPESTR = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint64": "<u8",
    "uint32": "<u4",
    "uint16": "<u2",
    "uint8": "|u1",
    "bool": "|b1",
    "complex64": "<c8",
    "complex128": "<c16",
}
_FROM_TYPESTR = {text: _dtype.BY_NAME[name] for name, text in _TYPESTR.items()}
_SUPPORTED = (
    "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, "
    "uint16, uint8, and bool"
)


def to_numpy(self, *, force=False):
    """A NumPy array over the same memory."""
    if force:
        self = self.detach()
    elif self._requires_grad and modes.grad:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    storage = self._storage
    window = _WINDOWS[self._layout]
    lend(storage)
    return arrays.array_over(storage, storage.pointer + self._offset, *window)


def _window(layout):
    """What an array over memory of a layout is made of."""
    if layout.device is not cpu:
        raise TypeError(
            f"can't convert {layout.device} device type tensor to numpy. Use Tensor.cpu() to copy "
            "the tensor to host memory first."
        )
    typestr = _TYPESTR.get(layout.dtype.name)
    if typestr is None:
        raise TypeError(f"Got unsupported ScalarType {layout.dtype.scalar_name}")
    _meet_arrays()
    shape, size = tuple(layout.shape), layout.itemsize
    span = size + sum((n - 1) * s * size for n, s in zip(shape, layout.strides))
    return arrays.window(
        shape, tuple(s * size for s in layout.strides), typestr, span if layout.numel else 0
    )


def _meet_arrays():
    """Native code makes arrays, and takes them in, from now on."""
    if ARRAYS:
        return
    table = arrays.function_table()
    if table is not None:
        for name, typestr in _TYPESTR.items():
            ours, theirs = _dtype.BY_NAME[name], arrays.type_of(typestr)
            ARRAYS[ours], ARRAYS[theirs] = theirs, ours
        ARRAYS[None] = table  # the last, for threads that look meanwhile


_WINDOWS = Plans(_window, by_default=False, cuts=False)


def is_number(value):
    """Is it a NumPy number, rather than an array?"""
    return (
        hasattr(value, "__array_interface__")
        and getattr(value, "shape", None) == ()
        and not hasattr(value, "__setitem__")
    )


def dtype_of_array(array):
    """The dtype of an array or of a NumPy number."""
    return _dtype_of(array.dtype)


def _dtype_of(theirs):
    if not theirs.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. "
            "Conversion between byte orders is currently not supported."
        )
    dtype = _FROM_TYPESTR.get(theirs.str)
    if dtype is None:
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{theirs.type.__name__}. "
            f"The only supported types are: {_SUPPORTED}."
        )
    return dtype


def _array_layout(key):
    """The layout of an array by NumPy's dtype, shape and strides in bytes."""
    theirs, shape, strides = key
    dtype = _dtype_of(theirs)
    if min(strides, default=0) < 0:
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not currently supported. (You can probably work around this by making a "
            "copy of your array  with array.copy().) "
        )
    if any(s % dtype.itemsize for s in strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. "
            "Copy the numpy array to reallocate the memory."
        )
    return make_layout(Size(shape), tuple([s // dtype.itemsize for s in strides]), dtype, cpu)


_LAYOUTS = Plans(_array_layout, by_default=False, cuts=False)
ARRAY_TYPES: set = set()  # NumPy's class of arrays, once it has been met


def from_numpy(array, warn=True):
    """A tensor over the memory of a NumPy array."""
    if type(array) not in ARRAY_TYPES:
        if warn and not arrays.is_array(array):
            raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
        array = arrays.as_array(array)
        ARRAY_TYPES.add(type(array))
        _meet_arrays()
    made_plainly()
    layout = _LAYOUTS[array.dtype, array.shape, array.strides]
    if warn and not array.flags.writeable:
        warn_read_only("NumPy array", "array")
    # an array may reach further than its bytes, or have elements that are one in memory
    nbytes = layout.nbytes if layout.is_dense else span(layout) * layout.itemsize
    return make_tensor(layout, borrowed_storage(arrays.address(array), nbytes, array), 0)


def warn_read_only(kind, short):
    warnings.warn(
        f"The given {kind} is not writable, and PyTorch does not support non-writable tensors. "
        "This means writing to this tensor will result in undefined behavior. You may want to copy "
        f"the {short} to protect its data or make it writable before converting it to a tensor.",
        UserWarning,
        stacklevel=4,
    )


def from_buffer(buffer, dtype, count, offset):
    """A 1-d tensor over the memory of an object with the buffer protocol."""
    try:
        owner, address, length, is_read_only = arrays.buffer_memory(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % dtype.itemsize:
            raise ValueError(
                f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
                f"multiple of element size ({dtype.itemsize})"
            )
        count = (length - offset) // dtype.itemsize
    if count * dtype.itemsize > length - offset:
        raise ValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} "
            f"bytes) must not be greater than actual buffer length ({length} bytes)"
        )
    if is_read_only:
        warn_read_only("buffer", "buffer")
    layout = make_layout(Size((count,)), (1,), dtype, cpu)
    return admit(layout, borrowed_storage(address, length, owner), offset)


# -- Python numbers --------------------------------------------------------------------------------


def _numbers(address, count, dtype):
    """Python numbers from native memory."""
    if dtype.is_complex:
        values = list_reader(dtype.to_real())(address, 2 * count)
        return [complex(a, b) for a, b in zip(values[::2], values[1::2])]
    return (LISTS.get(dtype) or list_reader(dtype))(address, count)


def item(self):
    """The only element, as a Python number."""
    layout = self._layout
    if layout.numel != 1:
        raise RuntimeError(f"a Tensor with {layout.numel} elements cannot be converted to Scalar")
    if layout.device is not cpu:
        if not layout.device.runtime.computes:
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        self = copied(self, None, cpu)
    read = READERS.get(layout.dtype) or reader(layout.dtype)
    address = self._storage.pointer + self._offset
    return read(address) if read is not None else _numbers(address, 1, layout.dtype)[0]


def tolist(self):
    """Nested lists of Python numbers."""
    layout = self._layout
    if layout.device is not cpu or not layout.is_contiguous:
        if not layout.device.runtime.computes:
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        self = copied(self, None, cpu)
    if layout.ndim == 0:
        return item(self)
    values = _numbers(self._storage.pointer + self._offset, layout.numel, layout.dtype)
    return values if layout.ndim == 1 else _nest(values, layout.shape)


def _nest(values, shape):
    if math.prod(shape) == 0:
        return _empty_nest(shape)
    for size in reversed(shape[1:]):
        values = [values[k : k + size] for k in range(0, len(values), size)]
    return values


def _empty_nest(shape):
    found = [None] * shape[0] if shape else []  # where there is no room for it, this says so
    for k in range(len(found)):
        found[k] = _empty_nest(shape[1:])
    return found
