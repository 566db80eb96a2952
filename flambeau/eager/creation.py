"""Creation functions: tensor, zeros, full and their kin.

Each gives a new tensor; filling is done by kernels without inputs (copying.py). Ranges and grids
are in ranges.py, what all of them are told (sizes, dtypes, devices) in options.py.
"""

import warnings

from flambeau import _device, _dtype
from flambeau._device import cpu, default_device
from flambeau._layout import Size, make_layout
from flambeau._tensor import Tensor, empty_like_layout, make_tensor
from flambeau._typed_storage import TypedStorage, UntypedStorage
from flambeau.eager import interchange
from flambeau.eager.copying import (
    FILLS,
    cloned_layout,
    fill_into,
    filled,
    formatted_layout,
)
from flambeau.eager.dlpack import from_dlpack as from_dlpack
from flambeau.eager.dlpack import to_dlpack as to_dlpack
from flambeau.eager.nested import from_data, infer_dtype, plain
from flambeau.eager.options import (
    INT,
    MAX_BYTES,
    device_of,
    dtype_of,
    fill_number,
    finish,
    into,
    like,
    new_layout,
    number,
    plain_key,
    size_from,
    size_tuple,
)
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.ranges import arange as arange
from flambeau.eager.ranges import eye as eye
from flambeau.eager.ranges import linspace as linspace
from flambeau.eager.ranges import logspace as logspace
from flambeau.eager.ranges import range_ as range_
from flambeau.storage import new_storage


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new leaf with a copy of data; the dtype is inferred unless given."""
    known = dtype is None or type(dtype) is _dtype.dtype
    if known and device is None and default_device() is cpu:
        t = plain(data, dtype)
        if t is not None:
            return finish(t, requires_grad) if requires_grad else t
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


def as_tensor(data, dtype=None, device=None):
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
    if hasattr(data, "__array_interface__") and hasattr(data, "__len__"):
        found, where = interchange.from_numpy(data, warn=False), device_of(device, "as_tensor")
        if where is found.device and (dtype is None or dtype is found.dtype):
            return found
        return found.to(dtype=dtype, device=where)
    return from_data(data, dtype, device_of(device, "as_tensor"))


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """obj as a tensor, sharing its memory unless that is impossible or a copy is asked for."""
    t, shared = _shared(obj, dtype)
    if t is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        t = from_data(obj, dtype and dtype_of(dtype, "asarray"), device_of(device, "asarray"))
        return finish(t, requires_grad)
    where = t.device if device is None else device_of(device, "asarray")
    wanted = t.dtype if dtype is None else dtype_of(dtype, "asarray")
    if copy is False and where != t.device:
        raise ValueError(f"can't alias tensor from device '{t.device}' to '{where}'.")
    if copy is False and wanted is not t.dtype:
        raise ValueError(
            f"can't alias tensor with dtype '{t.dtype.scalar_name}' into dtype "
            f"'{wanted.scalar_name}'."
        )
    if copy:
        shared = shared.clone()
    result = shared.to(dtype=wanted, device=where)
    if isinstance(obj, Tensor):
        return result if requires_grad else result.detach() if obj.requires_grad else result
    return finish(result, requires_grad)


def _shared(obj, dtype):
    """A tensor over the memory of obj, twice, or (None, None)."""
    if isinstance(obj, Tensor):
        return obj, obj
    if hasattr(obj, "__array_interface__"):
        t = interchange.from_numpy(obj, warn=False)
    elif hasattr(obj, "__dlpack__"):
        t = from_dlpack(obj)
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        t = interchange.from_buffer(obj, dtype_of(dtype, "asarray"), -1, 0)
    elif isinstance(obj, UntypedStorage):
        t = TypedStorage(obj._storage, dtype_of(dtype, "asarray"))._tensor()
    else:
        return None, None
    return t, t


def from_numpy(array):
    """A tensor that shares the memory of a NumPy array."""
    return interchange.from_numpy(array)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A 1-d tensor over the memory of an object with the buffer protocol."""
    return finish(interchange.from_buffer(buffer, dtype, count, offset), requires_grad)


_INT_FLOAT = frozenset((int, float))
_ROOMY = frozenset(
    (
        _dtype.float64,
        _dtype.float32,
        _dtype.float16,
        _dtype.bfloat16,
        _dtype.int64,
        _dtype.int32,
        _dtype.int16,
    )
)
_known: dict = {}  # (what, sizes, dtype, device), or a layout -> layout and plan of a fill
_dtype.Defaults.remembered.append(_known)


def _remember(key, *plan):
    if key is not None:
        if len(_known) > MAX_PLANS:
            _known.clear()
        _known[key] = plan


def _filled_again(key, value, requires_grad):
    """A new tensor that was asked for before, full of a small number; else None."""
    try:
        found = _known.get(key)
    except TypeError:  # a dtype or a device that nothing can be known by
        return None
    if found is None:
        return None
    layout, kernel, description = found
    t = empty_like_layout(layout)
    kernel(description, t._storage.pointer, value)
    return finish(t, requires_grad) if requires_grad else t


def _filled_first(key, layout, value, requires_grad):
    """The same for a call that is new; the next one like it finds its plan."""
    _remember(key, layout, *FILLS[layout, type(value)])
    return finish(filled(layout, value), requires_grad)


def _shape(sizes, size, name):
    if size is not None:
        return size_from((size,), name)
    return size_from(sizes, name)


def empty(
    *sizes,
    size=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    memory_format=None,
    names=None,
):
    """A tensor with uninitialised memory."""
    if out is not None:
        return into(out, _shape(sizes, size, "empty"), dtype, "empty")
    key = plain_key("empty", sizes, dtype, device) if size is memory_format is None else None
    try:
        found = _known.get(key)
    except TypeError:  # a dtype or a device that nothing can be known by
        found = key = None
    if found is None:
        plan = new_layout(_shape(sizes, size, "empty"), dtype, device, "empty")
        if memory_format is not None:
            plan = formatted_layout(plan, memory_format)
        _remember(key, plan)
    else:
        (plan,) = found
    t = empty_like_layout(plan)
    return finish(t, requires_grad) if requires_grad else t


def empty_strided(
    size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """A tensor with uninitialised memory and the given strides."""
    shape = size_tuple(size, "empty_strided")
    if len(shape) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
            f"({len(stride)})"
        )
    plan = make_layout(shape, tuple(stride), dtype_of(dtype), device_of(device, "empty_strided"))
    elements = 1 + sum((s - 1) * st for s, st in zip(shape, stride)) if plan.numel else 0
    if elements * plan.itemsize >= MAX_BYTES or min(stride, default=0) < 0:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and "
            f"strides={list(stride)}"
        )
    storage = new_storage(elements * plan.itemsize if plan.device.type == "cpu" else 0)
    return finish(make_tensor(plan, storage, 0), requires_grad)


def full(
    size,
    fill_value,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    names=None,
):
    """A tensor with every element equal to fill_value."""
    key = None
    plainly = isinstance(size, tuple) and INT.issuperset(map(type, size))
    if plainly and out is None and _is_small(fill_value, dtype):
        key = plain_key(type(fill_value), size, dtype, device)
        t = _filled_again(key, fill_value, requires_grad)
        if t is not None:
            return t
    fill_value = number(fill_value, "full", "fill_value", 2)
    shape = size_tuple(size, "full")
    if out is not None:
        out = into(out, shape, dtype, "full")
        fill_into(out, _checked(fill_value, out.dtype))
        out._storage.version += 1
        return out
    dtype = infer_dtype([fill_value]) if dtype is None else dtype_of(dtype, "full")
    plan = new_layout(shape, dtype, device, "full")
    return _filled_first(key, plan, _checked(fill_value, dtype), requires_grad)


def _is_small(value, dtype):
    """Is this a number that surely fits the dtype that was asked for?"""
    if type(value) not in _INT_FLOAT or not -1000 <= value <= 1000:
        return False
    return dtype is None or (type(dtype) is _dtype.dtype and dtype in _ROOMY)


def _checked(value, dtype):
    """A number to fill with, if the dtype can hold it."""
    return fill_number(_dtype.check_fits(value, dtype))


def zeros(
    *sizes,
    size=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    names=None,
):
    """A tensor of zeros."""
    key = None
    if size is out is None:
        key = plain_key("blank", sizes, dtype, device)
        t = _filled_again(key, 0, requires_grad)
        if t is not None:
            return t
    if out is not None:
        return into(out, _shape(sizes, size, "zeros"), dtype).zero_()
    plan = new_layout(_shape(sizes, size, "zeros"), dtype, device, "zeros")
    return _filled_first(key, plan, 0, requires_grad)


def ones(
    *sizes,
    size=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
    names=None,
):
    """A tensor of ones."""
    key = None
    if size is out is None:
        key = plain_key("blank", sizes, dtype, device)
        t = _filled_again(key, 1, requires_grad)
        if t is not None:
            return t
    if out is not None:
        return into(out, _shape(sizes, size, "ones"), dtype, "ones").fill_(1)
    plan = new_layout(_shape(sizes, size, "ones"), dtype, device, "ones")
    return _filled_first(key, plan, 1, requires_grad)


def _like(input, dtype, device, memory_format, name):
    if dtype is None and device is None and type(input) is Tensor:
        return cloned_layout(input._layout, memory_format)
    like(input, name)
    layout = formatted_layout(input._layout, memory_format, dtype and dtype_of(dtype, name))
    if device is not None:
        layout = make_layout(layout.shape, layout.strides, layout.dtype, device_of(device, name))
    return layout


def empty_like(
    input,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
    pin_memory=False,
):
    """An uninitialised tensor of the same shape, dtype and device."""
    plan = _like(input, dtype, device, memory_format, "empty_like")
    return finish(empty_like_layout(plan), requires_grad)


def zeros_like(
    input,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
    pin_memory=False,
):
    """Zeros of the same shape, dtype and device."""
    key = None
    if type(input) is Tensor and dtype is device is memory_format is None:
        key = input._layout
        t = _filled_again(key, 0, requires_grad)
        if t is not None:
            return t
    plan = _like(input, dtype, device, memory_format, "zeros_like")
    return _filled_first(key, plan, 0, requires_grad)


def ones_like(
    input,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
    pin_memory=False,
):
    """Ones of the same shape, dtype and device."""
    key = None
    if type(input) is Tensor and dtype is device is memory_format is None:
        key = input._layout
        t = _filled_again(key, 1, requires_grad)
        if t is not None:
            return t
    plan = _like(input, dtype, device, memory_format, "ones_like")
    return _filled_first(key, plan, 1, requires_grad)


def full_like(
    input,
    fill_value,
    *,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
    pin_memory=False,
):
    """A constant tensor of the same shape, dtype and device."""
    plan = _like(input, dtype, device, memory_format, "full_like")
    value = _checked(number(fill_value, "full_like", "fill_value", 2), plan.dtype)
    return finish(filled(plan, value), requires_grad)


def scalar_tensor(
    s, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """A 0-d tensor."""
    s = number(s, "scalar_tensor", "s", 1)
    return full((), s, dtype=dtype_of(dtype), device=device, requires_grad=requires_grad)


# -- new_* methods ---------------------------------------------------------------------------------


def _new_options(self, dtype, device):
    return {"dtype": dtype or self.dtype, "device": device or self.device}


def new_empty(
    self,
    *sizes,
    size=None,
    dtype=None,
    device=None,
    requires_grad=False,
    layout=None,
    pin_memory=False,
):
    """An uninitialised tensor with the dtype and device of this one."""
    shape = _shape(sizes, size, "new_empty")
    return empty(shape, **_new_options(self, dtype, device), requires_grad=requires_grad)


def new_empty_strided(
    self, size, stride, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False
):
    """An uninitialised tensor with given strides and the dtype and device of this one."""
    options = _new_options(self, dtype, device)
    return empty_strided(size, stride, **options, requires_grad=requires_grad)


def new_zeros(
    self,
    *sizes,
    size=None,
    dtype=None,
    device=None,
    requires_grad=False,
    layout=None,
    pin_memory=False,
):
    """Zeros with the dtype and device of this tensor."""
    shape = _shape(sizes, size, "new_zeros")
    return zeros(shape, **_new_options(self, dtype, device), requires_grad=requires_grad)


def new_ones(
    self,
    *sizes,
    size=None,
    dtype=None,
    device=None,
    requires_grad=False,
    layout=None,
    pin_memory=False,
):
    """Ones with the dtype and device of this tensor."""
    shape = _shape(sizes, size, "new_ones")
    return ones(shape, **_new_options(self, dtype, device), requires_grad=requires_grad)


def new_full(
    self,
    size,
    fill_value,
    *,
    dtype=None,
    device=None,
    requires_grad=False,
    layout=None,
    pin_memory=False,
):
    """A constant tensor with the dtype and device of this one."""
    options = _new_options(self, dtype, device)
    if type(size) is not Size:  # which has been looked at before
        size = size_tuple(size, "new_full")
    fill_value = number(fill_value, "new_full", "fill_value", 2)
    return full(size, fill_value, **options, requires_grad=requires_grad)


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
