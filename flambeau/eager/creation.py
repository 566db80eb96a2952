"""Creation functions: tensor, zeros, full and their kin.

Each gives a new tensor; filling is done by kernels without inputs (copying.py). Ranges and grids
are in ranges.py, what all of them are told (sizes, dtypes, devices) in options.py.
"""

import warnings

from flambeau import _device, _dtype
from flambeau._device import cpu, default_device
from flambeau._layout import make_layout
from flambeau._memory_format import strided
from flambeau._tensor import Tensor, empty_like_layout, interchange, make_tensor
from flambeau._tensor.admission import reach
from flambeau._tensor.dlpack import from_dlpack as from_dlpack
from flambeau._tensor.dlpack import to_dlpack as to_dlpack
from flambeau._tensor.nested import from_data, infer_dtype, plain
from flambeau._typed_storage import TypedStorage, UntypedStorage, typed
from flambeau.eager.arguments import argument as asked
from flambeau.eager.copying import WHOLE, fill_into, filled, formatted_layout
from flambeau.eager.fragments import follow_makers
from flambeau.eager.options import (
    KINDS,
    device_of,
    dtype_of,
    finish,
    fresh_plain,
    into,
    like,
    named,
    new_layout,
    number,
    size_from,
    size_tuple,
    told_again,
)
from flambeau.eager.plans import Plans
from flambeau.eager.ranges import arange as arange
from flambeau.eager.ranges import eye as eye
from flambeau.eager.ranges import linspace as linspace
from flambeau.eager.ranges import logspace as logspace
from flambeau.eager.ranges import range_ as range_
from flambeau.runtime.switches import switches
from flambeau.storage import new_storage


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new leaf with a copy of data; the dtype is inferred unless given."""
    known = dtype is None or type(dtype) is _dtype.dtype
    if known and device is None and default_device() is cpu:
        t = plain(data, dtype)
        if t is not None:
            return t if requires_grad is False else finish(t, requires_grad)
    if isinstance(data, (TypedStorage, UntypedStorage)):
        dtype = dtype_of(dtype, "tensor")
        found = empty(0, dtype=dtype, device=data.device).set_(data)
        return finish(found.to(device_of(device, "tensor"), copy=True), requires_grad)
    _warn_copy(data, "torch.tensor(sourceTensor)")
    dtype = None if dtype is None else dtype_of(dtype, "tensor")
    return finish(from_data(data, dtype, device_of(device, "tensor")), requires_grad)


def _warn_copy(data, call):
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), "
            f"rather than {call}.",
            UserWarning,
            stacklevel=3,
        )


def as_tensor(data, *, dtype=None, device=None):
    """data as a tensor, sharing memory where that is possible."""
    plainly = dtype is device is None and type(data) in interchange.ARRAY_TYPES
    if plainly and default_device() is cpu:
        return interchange.from_numpy(data, warn=False)
    if dtype is not None:
        dtype = dtype_of(dtype, "as_tensor")
    if isinstance(data, Tensor):
        return data.to(
            dtype=dtype, device=None if device is None else device_of(device, "as_tensor")
        )
    if hasattr(data, "__cuda_array_interface__"):
        return _adopted(data).to(dtype=dtype, device=device)
    if hasattr(data, "__array_interface__") and hasattr(data, "__len__"):
        found, where = interchange.from_numpy(data, warn=False), device_of(device, "as_tensor")
        if where is found.device and (dtype is None or dtype is found.dtype):
            return found
        return found.to(dtype=dtype, device=where)
    if hasattr(data, "__dlpack__"):
        return from_dlpack(data).to(dtype=dtype, device=device)
    return from_data(data, dtype, device_of(device, "as_tensor"))


def _adopted(data):
    from flambeau._tensor import cuda_arrays  # with the first one

    return cuda_arrays.adopted(data)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """obj as a tensor, sharing its memory unless that is impossible or a copy is asked for.

    A tensor keeps its history and wants gradients as before, unless requires_grad is told.
    """
    if copy is False and interchange.is_number(obj):
        raise RuntimeError(
            "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. "
        )
    t = _shared(obj, dtype)
    if t is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        t = from_data(obj, dtype and dtype_of(dtype, "asarray"), device_of(device, "asarray"))
        return finish(t, bool(requires_grad))
    where = t.device if device is None else device_of(device, "asarray")
    wanted = t.dtype if dtype is None else dtype_of(dtype, "asarray")
    if copy is False and where != t.device:
        raise ValueError(f"can't alias tensor from device '{t.device}' to '{where}'.")
    if copy is False and wanted is not t.dtype:
        raise ValueError(
            f"can't alias tensor with dtype '{t.dtype.scalar_name}' into dtype "
            f"'{wanted.scalar_name}'."
        )
    if requires_grad is None and isinstance(obj, Tensor) and obj.requires_grad:
        warnings.warn(
            "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of "
            "False.",
            stacklevel=2,
        )
    result = (t.clone() if copy else t).to(dtype=wanted, device=where)
    if requires_grad is False and result.requires_grad:
        return result.requires_grad_(False) if result.is_leaf else result.detach()
    return finish(result, bool(requires_grad))


def _shared(obj, dtype):
    """A tensor over the memory of obj, or None."""
    if isinstance(obj, Tensor):
        return obj
    if hasattr(obj, "__cuda_array_interface__"):
        return _adopted(obj)
    if hasattr(obj, "__array_interface__"):
        return interchange.from_numpy(obj, warn=False)
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        return interchange.from_buffer(obj, dtype_of(dtype, "asarray"), -1, 0)
    if isinstance(obj, UntypedStorage):
        return typed(obj._storage, dtype_of(dtype, "asarray"), obj.device)._tensor()
    return None


def from_numpy(array):
    """A tensor that shares the memory of a NumPy array."""
    found = _from_array(array)  # noqa: F821
    return interchange.from_numpy(array) if found is None else found


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A 1-d tensor over the memory of an object with the buffer protocol."""
    return finish(interchange.from_buffer(buffer, dtype, count, offset), requires_grad)


def _plan_like(layout):
    return layout if layout.is_dense else formatted_layout(layout, None)


_LIKE = Plans(_plan_like)
_ROOMY = frozenset(_dtype.BY_CODE[c] for c in "f64 f32 f16 bf16 i64 i32 i16".split())


def unwritten(t, start=0):
    """Memory from a byte on, filled so that every run reads the same: with nan or the largest."""
    layout, storage = t._layout, t._storage
    dtype = layout.dtype
    first = -(-start // dtype.itemsize)
    count = storage.nbytes // dtype.itemsize - first
    if count <= 0 or not storage.pointer:
        return t
    if dtype.category >= _dtype.FLOATING:
        value = float("nan")
    else:
        value = dtype is _dtype.BY_NAME["bool"] or _dtype.iinfo(dtype).max
    flat = make_layout((count,), (1,), dtype, layout.device)
    fill_into(make_tensor(flat, storage, first * dtype.itemsize), _checked(value, dtype))
    return t


def sized(name, sizes, size, out, dtype, device, requires_grad, fill=None, memory_format=None):
    """A tensor of some size that fill(tensor) gives values; every argument is looked at."""
    shape = size_from(sizes if size is None else (size,), name)
    if out is None:
        layout = new_layout(shape, dtype, device, name)
        if memory_format is not None:
            layout = formatted_layout(layout, memory_format)
        t = empty_like_layout(layout)
    else:
        t = into(out, shape, dtype, name=name)
    if fill is not None:
        fill(t)
        t._storage.version += out is not None
    elif switches.fills:
        unwritten(t)
    return finish(t, requires_grad, name)


follow_makers(globals())


def _plan_constant(key):
    """(dtype and device in full, kernel, description) of tensors full of a number of a type."""
    dtype, device, kind = key
    dtype, device = KINDS[dtype, device]
    return dtype, device, *WHOLE[make_layout((2,), (1,), dtype, device).sort, kind]


CONSTANTS = Plans(_plan_constant, mixed=True)


def plain_constant(sizes, dtype, device, value):
    """As `fresh_plain`, full of a number."""
    if not sizes:
        return None
    kind = type(value)
    try:
        found = CONSTANTS[dtype, default_device() if device is None else device, kind]
    except TypeError:  # a dtype or a device that is none, and may not even be hashable
        return None
    dtype, device, kernel, described = found
    t = _sized(sizes, dtype, device)  # noqa: F821
    if t is not None:
        kernel(described, t._storage.pointer, value, t._layout.numel)
    return t


def _sparse_zeros(sizes, out, dtype, device, layout, requires_grad, name):
    """A tensor of another layout, without elements."""
    if out is not None:
        told = "".join(map(str.title, layout.name.removesuffix("_coo").split("_")))
        raise RuntimeError(f"layout {told} does not match layout of out parameter (Strided)")
    from flambeau._sparse.creation import zeros_in  # with the first sparse tensor

    shape = size_from(sizes if isinstance(sizes[0], int) else (sizes[0],), name)
    made = zeros_in(layout, shape, dtype_of(dtype, name), device_of(device, name), name)
    return finish(made, requires_grad, name)


def _sparse_like(input, value, dtype, layout, device, requires_grad, memory_format):
    """zeros_like and its kin of a dense tensor in another layout."""
    if memory_format is not None:
        raise RuntimeError("memory format option is only supported by strided tensors")
    if value != 0:
        raise NotImplementedError(
            "Could not run 'aten::empty_strided' with arguments from the 'SparseCPU' backend."
        )
    dtype, device = dtype or input.dtype, device or input.device
    return zeros(input.shape, dtype=dtype, layout=layout, device=device,
                 requires_grad=requires_grad)  # fmt: skip


def empty(
    *sizes, size=None, out=None, dtype=None, layout=None, device=None, requires_grad=False,
    pin_memory=False, memory_format=None,
):  # fmt: skip
    """A tensor with uninitialised memory."""
    if size is out is memory_format is layout is None:
        t = fresh_plain(sizes, dtype, device)
        if t is not None:
            if switches.fills:
                unwritten(t)
            return t if requires_grad is False else finish(t, requires_grad, "empty")
    if layout is not None and layout is not strided:
        sizes = sizes if size is None else size
        return _sparse_zeros(sizes, out, dtype, device, layout, requires_grad, "empty")
    return sized(
        "empty", sizes, size, out, dtype, device, requires_grad, memory_format=memory_format
    )


def full(
    size, fill_value, *, out=None, dtype=None, layout=None, device=None, requires_grad=False,
    pin_memory=False,
):  # fmt: skip
    """A tensor with every element equal to fill_value."""
    if layout is not None and layout is not strided:
        raise RuntimeError("full(...) is not implemented for sparse layout")
    return _full("full", size, fill_value, out, dtype, device, requires_grad)


def _full(name, size, value, out, dtype, device, requires_grad):
    kind = type(value)
    is_plain = (kind is int or kind is float) and isinstance(size, tuple) and out is None
    if (
        is_plain
        and -1000 <= value <= 1000
        and (dtype is None or (type(dtype) is _dtype.dtype and dtype in _ROOMY))
    ):
        found = infer_dtype((value,)) if dtype is None else dtype
        t = plain_constant((size,), found, device, value)
        if t is not None:
            return t if requires_grad is False else finish(t, requires_grad, name)
    value = number(value, name, "fill_value", 2)
    shape = size_tuple(size, name)
    if dtype is None and out is None:
        dtype = infer_dtype([value])
        if dtype is _dtype.complex32:  # though `tensor` makes such ones of half numbers
            dtype = _dtype.complex64

    def fill(t):
        fill_into(t, _checked(value, t.dtype))

    return sized(name, (shape,), None, out, dtype, device, requires_grad, fill)


def _checked(value, dtype):
    """A number to fill with, if the dtype can hold it."""
    value = _dtype.check_fill(value, dtype)
    if type(value) is int:
        return _dtype.as_64_bits(value, dtype.category >= _dtype.FLOATING)
    return value


def empty_strided(
    size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """A tensor with uninitialised memory and the given strides."""
    shape = size_tuple(size, "empty_strided")
    stride = asked("empty_strided", "stride", 2, "int list", stride)
    if len(shape) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
            f"({len(stride)})"
        )
    dtype = dtype_of(dtype)
    nbytes = reach(shape, stride, 0, dtype.itemsize)
    plan = make_layout(shape, tuple(stride), dtype, device_of(device, "empty_strided"))
    t = make_tensor(plan, new_storage(nbytes, plan.device), 0)
    if switches.fills:
        unwritten(t)
    return finish(t, requires_grad, "empty_strided")


def like_layout(input, dtype, device, memory_format, name):
    """The layout of a tensor like another, but for what is said; None where `like` gives None."""
    if type(input) is Tensor and dtype is device is memory_format is None:
        return _LIKE[input._layout]
    if like(input, name) is None:
        return None
    layout = formatted_layout(
        input._layout, memory_format, None if dtype is None else dtype_of(dtype, name)
    )
    if device is not None:
        layout = make_layout(layout.shape, layout.strides, layout.dtype, device_of(device, name))
    return layout


def empty_like(
    input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None,
    pin_memory=False,
):  # fmt: skip
    """An uninitialised tensor of the same shape, dtype and device."""
    if layout is not None and layout is not strided and isinstance(input, Tensor):
        return _sparse_like(input, None, dtype, layout, device, requires_grad, memory_format)
    plan = like_layout(input, dtype, device, memory_format, "empty_like")
    if plan is None:
        return told_again(
            empty_like, input, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad, memory_format=memory_format, pin_memory=pin_memory,
        )  # fmt: skip
    t = empty_like_layout(plan)
    if switches.fills:
        unwritten(t)
    return finish(t, requires_grad)


def full_like(
    input, fill_value, *, dtype=None, layout=None, device=None, requires_grad=False,
    memory_format=None, pin_memory=False,
):  # fmt: skip
    """A constant tensor of the same shape, dtype and device."""
    plan = like_layout(input, dtype, device, memory_format, "full_like")
    if plan is None:
        return told_again(
            full_like, input, fill_value, dtype=dtype, layout=layout, device=device,
            requires_grad=requires_grad, memory_format=memory_format, pin_memory=pin_memory,
        )  # fmt: skip
    value = _checked(number(fill_value, "full_like", "fill_value", 2), plan.dtype)
    return finish(filled(plan, value), requires_grad)


def _constant(word, value):
    """Three functions that make tensors full of a number: of a size, like another, as a method."""

    def fill(t):
        fill_into(t, value)

    def of_size(
        *sizes, size=None, out=None, dtype=None, layout=None, device=None, requires_grad=False,
        pin_memory=False,
    ):  # fmt: skip
        if size is out is layout is None:
            t = plain_constant(sizes, dtype, device, value)
            if t is not None:
                return t if requires_grad is False else finish(t, requires_grad, word)
        if layout is not None and layout is not strided:
            if value:
                raise RuntimeError("full(...) is not implemented for sparse layout")
            sizes = sizes if size is None else size
            return _sparse_zeros(sizes, out, dtype, device, layout, requires_grad, word)
        return sized(word, sizes, size, out, dtype, device, requires_grad, fill)

    def like_another(
        input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None,
        pin_memory=False,
    ):  # fmt: skip
        if layout is not None and layout is not strided and isinstance(input, Tensor):
            return _sparse_like(input, value, dtype, layout, device, requires_grad, memory_format)
        if type(input) is Tensor and dtype is device is memory_format is None:
            t = filled(_LIKE[input._layout], value)
            return t if requires_grad is False else finish(t, requires_grad, word + "_like")
        plan = like_layout(input, dtype, device, memory_format, word + "_like")
        if plan is None:
            return told_again(
                like_another, input, dtype=dtype, layout=layout, device=device,
                requires_grad=requires_grad, memory_format=memory_format, pin_memory=pin_memory,
            )  # fmt: skip
        return finish(filled(plan, value), requires_grad, word + "_like")

    def method(
        self, *sizes, size=None, dtype=None, device=None, requires_grad=False, layout=None,
        pin_memory=False,
    ):  # fmt: skip
        dtype = self._layout.dtype if dtype is None else dtype
        device = device or self._layout.device
        t = plain_constant(sizes, dtype, device, value) if size is None else None
        if t is not None:
            return t if requires_grad is False else finish(t, requires_grad, "new_" + word)
        return sized("new_" + word, sizes, size, None, dtype, device, requires_grad, fill)

    return (
        named(of_size, word, f"A tensor of {word}."),
        named(like_another, word + "_like", f"A tensor of {word}, else like another."),
        named(method, "new_" + word, f"A tensor of {word} with the dtype and device of this one."),
    )


zeros, zeros_like, new_zeros = _constant("zeros", 0)
ones, ones_like, new_ones = _constant("ones", 1)


def scalar_tensor(
    s, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """A 0-d tensor."""
    s = number(s, "scalar_tensor", "s", 1)
    return _full("scalar_tensor", (), s, None, dtype_of(dtype), device, requires_grad)


# -- new_* methods ---------------------------------------------------------------------------------


def new_empty(
    self, *sizes, size=None, dtype=None, device=None, requires_grad=False, layout=None,
    pin_memory=False,
):  # fmt: skip
    """An uninitialised tensor with the dtype and device of this one."""
    dtype, device = dtype or self._layout.dtype, device or self._layout.device
    t = fresh_plain(sizes, dtype, device) if size is None else None
    if t is None:
        return sized("new_empty", sizes, size, None, dtype, device, requires_grad)
    if switches.fills:
        unwritten(t)
    return finish(t, requires_grad)


def new_empty_strided(
    self, size, stride, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
):
    """An uninitialised tensor with given strides and the dtype and device of this one."""
    options = {"dtype": dtype or self.dtype, "device": device or self.device}
    return empty_strided(size, stride, **options, requires_grad=requires_grad)


def new_full(
    self, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=None,
    pin_memory=False,
):  # fmt: skip
    """A constant tensor with the dtype and device of this one."""
    dtype, device = dtype or self._layout.dtype, device or self._layout.device
    return _full("new_full", size, fill_value, None, dtype, device, requires_grad)


def new_tensor(
    self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
):
    """A copy of data with the dtype and device of this tensor."""
    _warn_copy(data, "tensor.new_tensor(sourceTensor)")
    device = _device.resolve(device or self.device)
    return finish(from_data(data, dtype or self.dtype, device), requires_grad)


PUBLIC = """tensor as_tensor asarray from_dlpack to_dlpack from_numpy frombuffer empty
empty_strided full zeros ones empty_like zeros_like ones_like full_like arange linspace logspace eye
scalar_tensor""".split()
METHODS = "new_empty new_empty_strided new_zeros new_ones new_full new_tensor".split()
