"""Creation functions: tensor, zeros, arange, eye and their kin.

Each gives a new tensor; filling is done by kernels without inputs (copying.py), ranges and grids by
kernels that know the coordinates of each element.
"""

import math
import operator

from flambeau import _device, _dtype
from flambeau._layout import Size, dense_layout, make_layout
from flambeau._tensor import Tensor, empty_like_layout, make_tensor, new_storage
from flambeau.codegen import scalar
from flambeau.eager import interchange
from flambeau.eager.copying import filled, formatted_layout
from flambeau.eager.plan import plan_nest
from flambeau.storage import borrowed_storage

MAX_BYTES = 1 << 62


def size_from(size, name="empty"):
    """zeros(2, 3), zeros((2, 3)), zeros(Size): the shape that was meant."""
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = size[0]
    elif len(size) == 1 and size[0] is None:
        raise TypeError(f"{name}(): argument 'size' must be tuple of ints, but found element of type NoneType at pos 0")
    try:
        shape = Size(map(operator.index, size))
    except TypeError:
        bad = next((k, s) for k, s in enumerate(size) if not hasattr(s, "__index__"))
        raise TypeError(
            f"{name}(): argument 'size' (position 1) must be tuple of ints, but found element of type "
            f"{type(bad[1]).__name__} at pos {bad[0]}"
        ) from None
    for s in shape:
        if s < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {s}: {list(shape)}")
    return shape


def _dtype_of(dtype):
    if dtype is None:
        return _dtype.default_dtype()
    if not isinstance(dtype, _dtype.dtype):
        named = {float: _dtype.float64, int: _dtype.int64, bool: _dtype.bool_, complex: _dtype.complex128}.get(dtype)
        if named is None:
            raise TypeError(f"dtype must be a torch.dtype, not {type(dtype).__name__}")
        return named
    return dtype


def _layout(shape, dtype, device):
    layout = dense_layout(shape, _dtype_of(dtype), _device.resolve(device))
    if layout.nbytes >= MAX_BYTES:
        raise RuntimeError("Storage size calculation overflowed with sizes=" + str(list(shape)))
    return layout


def _finish(t, requires_grad):
    if requires_grad:
        t.requires_grad_(True)
    return t


def _into(out, shape, dtype):
    if dtype is not None and out.dtype is not dtype:
        raise RuntimeError(f"dtype {dtype} does not match dtype of out parameter ({out.dtype})")
    if out.shape != shape:
        out._resize_output(shape)
    return out


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new leaf with a copy of data; the dtype is inferred unless given."""
    if isinstance(data, Tensor):
        import warnings

        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
    dtype = None if dtype is None else _dtype_of(dtype)
    return _finish(interchange.from_data(data, dtype, _device.resolve(device)), requires_grad)


def as_tensor(data, dtype=None, device=None):
    """data as a tensor, sharing memory where that is possible."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype or data.dtype, device=device)
    if hasattr(data, "__array_interface__"):
        t = interchange.from_numpy(data, warn=False)
        return t if dtype is None and device is None else t.to(dtype=dtype or t.dtype, device=_device.resolve(device))
    if hasattr(data, "__dlpack__"):
        from flambeau.utils.dlpack import from_dlpack

        return from_dlpack(data).to(dtype=dtype, device=device)
    return interchange.from_data(data, dtype and _dtype_of(dtype), _device.resolve(device))


asarray = as_tensor


def from_numpy(array):
    """A tensor that shares the memory of a NumPy array."""
    return interchange.from_numpy(array)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A 1-d tensor over the memory of an object with the buffer protocol."""
    import ctypes

    view = memoryview(buffer).cast("B")
    if not len(view):
        raise ValueError("both buffer length (0) and count (-1) must not be 0")
    available = len(view) - offset
    if count < 0:
        if available % dtype.itemsize:
            raise ValueError(
                f"buffer length ({available} bytes) after offset ({offset} bytes) must be a multiple of element size ({dtype.itemsize})"
            )
        count = available // dtype.itemsize
    if count * dtype.itemsize > available:
        raise ValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset ({offset} bytes) must not be greater "
            f"than actual buffer length ({len(view)} bytes)"
        )
    if view.readonly:
        hold = (ctypes.c_char * len(view)).from_buffer_copy(view)
    else:
        hold = (ctypes.c_char * len(view)).from_buffer(view)
    storage = borrowed_storage(ctypes.addressof(hold), len(view), (hold, buffer))
    layout = make_layout(Size((count,)), (1,), dtype, _device.cpu)
    return _finish(make_tensor(layout, storage, offset), requires_grad)


def empty(*size, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None, names=None):
    """A tensor with uninitialised memory."""
    shape = size_from(size, "empty")
    if out is not None:
        return _into(out, shape, dtype)
    plan = _layout(shape, dtype, device)
    if memory_format is not None:
        plan = formatted_layout(plan, memory_format)
    return _finish(empty_like_layout(plan), requires_grad)


def empty_strided(size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor with uninitialised memory and the given strides."""
    shape = size_from((size,), "empty_strided")
    plan = make_layout(shape, tuple(stride), _dtype_of(dtype), _device.resolve(device))
    elements = 1 + sum((s - 1) * st for s, st in zip(shape, stride)) if plan.numel else 0
    storage = new_storage(elements * plan.itemsize if plan.device.type == "cpu" else 0)
    return _finish(make_tensor(plan, storage, 0), requires_grad)


def full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, names=None):
    """A tensor with every element equal to fill_value."""
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    if dtype is None and out is None:
        dtype = interchange.infer_dtype([fill_value])
    shape = size_from(size if isinstance(size, tuple) else (size,), "full")
    if out is not None:
        return _into(out, shape, dtype).fill_(fill_value)
    return _finish(filled(_layout(shape, dtype, device), fill_value), requires_grad)


def zeros(*size, out=None, dtype=None, layout=None, device=None, requires_grad=False, names=None, pin_memory=False):
    """A tensor of zeros."""
    shape = size_from(size, "zeros")
    if out is not None:
        return _into(out, shape, dtype).zero_()
    return _finish(filled(_layout(shape, dtype, device), 0), requires_grad)


def ones(*size, out=None, dtype=None, layout=None, device=None, requires_grad=False, names=None, pin_memory=False):
    """A tensor of ones."""
    shape = size_from(size, "ones")
    if out is not None:
        return _into(out, shape, dtype).fill_(1)
    return _finish(filled(_layout(shape, dtype, device), 1), requires_grad)


def _like(input, dtype, device, memory_format):
    layout = formatted_layout(input._layout, memory_format, dtype and _dtype_of(dtype))
    if device is not None:
        layout = make_layout(layout.shape, layout.strides, layout.dtype, _device.resolve(device))
    return layout


def empty_like(input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, pin_memory=False):
    """An uninitialised tensor of the same shape, dtype and device."""
    return _finish(empty_like_layout(_like(input, dtype, device, memory_format)), requires_grad)


def zeros_like(input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, pin_memory=False):
    """Zeros of the same shape, dtype and device."""
    return _finish(filled(_like(input, dtype, device, memory_format), 0), requires_grad)


def ones_like(input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, pin_memory=False):
    """Ones of the same shape, dtype and device."""
    return _finish(filled(_like(input, dtype, device, memory_format), 1), requires_grad)


def full_like(input, fill_value, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, pin_memory=False):
    """A constant tensor of the same shape, dtype and device."""
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    return _finish(filled(_like(input, dtype, device, memory_format), fill_value), requires_grad)


_grids: dict = {}


def grid(key, trace, numbers, layout, out=None):
    """Fill a tensor by a function of the coordinates: trace(*numbers) gives the value of an element."""
    t = empty_like_layout(layout) if out is None else out
    kinds = "".join("f" if type(n) is float else "i" for n in numbers)
    cached = (key, kinds, t._layout)
    found = _grids.get(cached)
    if found is None:
        if len(_grids) > 1024:
            _grids.clear()
        shape = t._layout.shape
        found = _grids[cached] = plan_nest(
            (key, kinds), lambda *n: (trace(*n),), [], kinds, (t.dtype,), (t._layout,), shape, t.device, collapsing=False
        )
    found[1](found[2], t._storage.pointer + t._offset, *numbers)
    if out is not None:
        out._storage.version += 1
    return t


def arange(start, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """start, start + step, ... up to but without end."""
    if end is None:
        start, end = 0, start
    start, end, step = (x.item() if isinstance(x, Tensor) else _plain(x) for x in (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (step > 0) != (end >= start) and start != end:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        dtype = out.dtype if out is not None else _dtype.int64
        if out is None and float in (type(start), type(end), type(step)):
            dtype = _dtype.default_dtype()
    if dtype is _dtype.int64:
        start, end, step = int(start), int(end), int(step)
        count = max(0, -((start - end) // step) if step > 0 else -((end - start) // -step))
    else:
        count = max(0, math.ceil((end - start) / step))
    plan = _layout(Size((count,)), dtype, device)
    if out is not None and out.shape != plan.shape:
        out._resize_output(plan.shape)

    if dtype.category == _dtype.INTEGER and all(type(x) is int for x in (start, step)):

        def trace(a, b):
            return a + scalar.coordinate(0) * b

        return _finish(grid("arange", trace, (start, step), plan, out), requires_grad)

    def trace_float(a, b):
        return a + scalar.cast(scalar.coordinate(0), "f64") * b

    return _finish(grid("arange_float", trace_float, (float(start), float(step)), plan, out), requires_grad)


def _plain(x):
    if type(x) in (int, float, bool):
        return x
    if hasattr(x, "item"):
        return x.item()
    if not hasattr(x, "__float__") and not hasattr(x, "__index__"):
        raise TypeError(f"arange() received an invalid combination of arguments - got ({type(x).__name__})")
    return x


def range_(start, end, step=1, **options):
    """Like arange, but with the end included (deprecated in PyTorch)."""
    count = math.floor((end - start) / step) + 1
    return arange(float(start), float(start) + step * (count - 0.5), float(step), **options)


def linspace(start, end, steps, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """steps values from start to end, evenly spaced, both included."""
    start, end = (x.item() if isinstance(x, Tensor) else x for x in (start, end))
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    dtype = _dtype_of(dtype if out is None or dtype is not None else out.dtype)
    if complex in (type(start), type(end)) and not dtype.is_complex:
        dtype = _dtype.default_complex()
    plan = _layout(Size((int(steps),)), dtype, device)
    if out is not None and out.shape != plan.shape:
        out._resize_output(plan.shape)
    t = _linspace_into(start, end, int(steps), plan, out)
    return _finish(t, requires_grad)


def _linspace_into(start, end, steps, plan, out):
    if plan.dtype.is_complex:
        z0, z1 = complex(start), complex(end)
        real = _layout(plan.shape, plan.dtype.to_real(), plan.device)
        re = _linspace_into(z0.real, z1.real, steps, real, None)
        im = _linspace_into(z0.imag, z1.imag, steps, real, None)
        from flambeau.eager.methods import function

        result = function("complex")(re, im)
        return result if out is None else out.copy_(result)
    type = "f64" if plan.dtype.code == "f64" or plan.dtype.category < 2 else "f32"

    def trace(a, b, n):
        # symmetric around the middle, as PyTorch counts from whichever end is nearer
        a, b = scalar.cast(a, type), scalar.cast(b, type)
        i = scalar.coordinate(0)
        step = (b - a) / scalar.cast(scalar.select(n > 1, n - 1, 1), type)
        low = scalar.WORDS["fma"](step, scalar.cast(i, type), a)
        high = scalar.WORDS["fma"](-step, scalar.cast(n - 1 - i, type), b)
        return scalar.select((i + i < n) | (n < 2), low, high)

    return grid(f"linspace_{type}", trace, (float(start), float(end), steps), plan, out)


def logspace(start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """base to the power of evenly spaced exponents."""
    dtype = _dtype_of(dtype if out is None or dtype is not None else out.dtype)
    wide = dtype if dtype.category >= 2 else _dtype.float64
    from flambeau.eager.methods import function

    exponents = linspace(start, end, steps, dtype=wide, device=device)
    t = function("pow")(float(base), exponents).to(dtype)
    return _finish(t if out is None else out._resize_output(t.shape).copy_(t), requires_grad)


def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """Ones on the diagonal, zeros elsewhere."""
    m = n if m is None else m
    for name, value in (("n", n), ("m", m)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    plan = _layout(Size((n, m)), dtype if out is None or dtype is not None else out.dtype, device)
    if out is not None and out.shape != plan.shape:
        out._resize_output(plan.shape)

    def trace():
        return scalar.coordinate(0) == scalar.coordinate(1)

    return _finish(grid("eye", trace, (), plan, out), requires_grad)


def scalar_tensor(s, *, dtype=None, layout=None, device=None, requires_grad=False):
    """A 0-d tensor."""
    return full((), s, dtype=dtype or _dtype.default_dtype(), device=device, requires_grad=requires_grad)


# -- new_* methods ---------------------------------------------------------------------------------------


def _new_options(self, dtype, device):
    return {"dtype": dtype or self.dtype, "device": device or self.device}


def new_empty(self, *size, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return empty(*size, **_new_options(self, dtype, device), requires_grad=requires_grad)


def new_empty_strided(self, size, stride, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return empty_strided(size, stride, **_new_options(self, dtype, device), requires_grad=requires_grad)


def new_zeros(self, *size, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return zeros(*size, **_new_options(self, dtype, device), requires_grad=requires_grad)


def new_ones(self, *size, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return ones(*size, **_new_options(self, dtype, device), requires_grad=requires_grad)


def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    return full(size, fill_value, **_new_options(self, dtype, device), requires_grad=requires_grad)


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    dtype = dtype or self.dtype
    return _finish(interchange.from_data(data, dtype, _device.resolve(device or self.device)), requires_grad)


PUBLIC = """tensor as_tensor asarray from_numpy frombuffer empty empty_strided full zeros ones empty_like zeros_like
ones_like full_like arange linspace logspace eye scalar_tensor""".split()
METHODS = "new_empty new_empty_strided new_zeros new_ones new_full new_tensor".split()
