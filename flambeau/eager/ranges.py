"""Tensors that are functions of their coordinates: arange, linspace, logspace, eye.

One kernel without inputs per kind (`grid`). Where PyTorch's loops round in a way that shows (steps
counted from the start of each vector, the upper half of linspace from the end), so do these.
"""

import math
import struct
import warnings

from flambeau import _device, _dtype
from flambeau._layout import Size, dense_layout
from flambeau._tensor import Tensor, empty_like_layout
from flambeau.codegen import scalar
from flambeau.eager.options import (
    dtype_of,
    finish,
    integer,
    into,
    new_layout,
    number,
    plain_key,
)
from flambeau.eager.plan import MAX_PLANS, plan_nest

_grids: dict = {}


def grid(key, trace, numbers, layout, out=None):
    """Fill a tensor by a function of its coordinates; trace(*numbers) is one element."""
    t = empty_like_layout(layout) if out is None else out
    kinds = "".join("f" if type(n) is float else "i" for n in numbers)
    cached = (key, kinds, t._layout)
    found = _grids.get(cached)
    if found is None:
        if len(_grids) > 1024:
            _grids.clear()
        found = _grids[cached] = plan_nest(
            (key, kinds),
            lambda *n: (trace(*n),),
            [],
            kinds,
            (t.dtype,),
            (t._layout,),
            t._layout.shape,
            t.device,
            collapsing=False,
        )
    found[1](found[2], t._storage.pointer + t._offset, *numbers)
    if out is not None:
        out._storage.version += 1
    return t


_known: dict = {}  # what a function was plainly asked for -> layout, plan of grid
_dtype.Defaults.remembered.append(_known)
_NUMBERS = frozenset((int, float))


def _grid_again(key, numbers):
    """A new tensor by the plan that a call like this one has left; None if there is none."""
    try:
        found = _known.get(key)
    except TypeError:  # a dtype or a device that nothing can be known by
        return None
    if found is None:
        return None
    layout, plan = found
    t = empty_like_layout(layout)
    plan[1](plan[2], t._storage.pointer, *numbers)
    return t


def _remember_grid(key, name, kinds, layout):
    if len(_known) > MAX_PLANS:
        _known.clear()
    _known[key] = layout, _grids[name, kinds, layout]


# -- arange ----------------------------------------------------------------------------------------


def arange(
    start=None,
    end=None,
    step=1,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """start, start + step, ... up to but without end."""
    if out is None and dtype is None and device is None and type(start) is type(step) is int:
        t = _integers(start, end, step)
        if t is not None:
            return finish(t, requires_grad)
    if start is None and end is not None:
        start = 0
    if end is None:
        if start is None:
            raise TypeError(
                "arange() received an invalid combination of arguments - got (), "
                "but expected (Number start, Number end, Number step)"
            )
        start, end = 0, number(start, "arange", "end", 1)
    start, end, step = _bounds("arange", start, end, step)
    if dtype is None:
        dtype = out.dtype if out is not None else _dtype.int64
        if out is None and float in (type(start), type(end), type(step)):
            dtype = _dtype.default_dtype()
    dtype = dtype_of(dtype, "arange")
    if dtype is _dtype.int64:
        for x in (start, end, step):
            _dtype.check_fits(x, dtype)
        start, end, step = int(start), int(end), int(step)
    check_range(start, end, step)
    return _spread(
        "arange", start, step, _count(start, end, step), dtype, device, out, requires_grad
    )


def _integers(start, end, step):
    """arange of small plain integers on the default device, in a hurry; else None."""
    if end is None:
        start, end = 0, start
    if type(end) is not int or step <= 0 or end < start or max(abs(start), end) >> 62:
        return None
    key = ((end - start + step - 1) // step, _device.default_device())
    found = _counts.get(key)
    if found is None:
        layout = dense_layout(key[:1], _dtype.int64, key[1])
        t = grid("arange", _arithmetic, (start, step), layout)
        if len(_counts) > MAX_PLANS:
            _counts.clear()
        _counts[key] = layout, _grids["arange", "ii", layout]
        return t
    layout, plan = found
    t = empty_like_layout(layout)
    plan[1](plan[2], t._storage.pointer, start, step)
    return t


_counts: dict = {}  # (number of integers, device) -> layout, plan of grid


def _arithmetic(start, step):
    return start + scalar.coordinate(0) * step


def _bounds(name, start, end, step):
    given = [start, end, step]
    try:
        given = [number(x, name, "end", 1) for x in given]
    except TypeError:
        kinds = ", ".join(type(x).__name__ for x in given)
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({kinds}), "
            "but expected (Number start, Number end, Number step)"
        ) from None
    for x in given:
        if type(x) is complex:
            _dtype.check_fits(x, _dtype.float64)
    return given


def check_range(start, end, step):
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (step > 0) != (end >= start) and start != end:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def _count(start, end, step):
    if all(type(x) is int for x in (start, end, step)):
        return -((start - end) // step)
    return max(0, math.ceil((end - start) / step))


# PyTorch counts from the start of each vector of its own, 32 bytes long, two vectors at a time;
# what is left over is counted from the start of the range.
_LANES = {"float64": 4, "float32": 8, "float16": 16, "bfloat16": 16}


def _spread(name, start, step, count, dtype, device, out, requires_grad):
    if dtype.category in (_dtype.BOOL, _dtype.COMPLEX):
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{dtype.scalar_name}'")
    plan = new_layout(Size((count,)), dtype, device, name)
    if out is not None and out.shape != plan.shape:
        if out._layout.numel:
            warnings.warn(
                f"The number of elements in the out tensor of shape {list(out.shape)} is "
                f"{out._layout.numel} which does not match the computed number of elements "
                f"{count}. Note that this may occur as a result of rounding error. The out tensor "
                f"will be resized to a tensor of shape ({count},).",
                UserWarning,
                stacklevel=3,
            )
        out = out.resize_(plan.shape)
    if out is not None:
        into(out, plan.shape, dtype)
    if dtype.category == _dtype.INTEGER:
        t = grid("arange", _arithmetic, (int(start), int(step)), plan, out)
        return finish(t, requires_grad)
    lanes = _LANES[dtype.name]
    numbers = (float(start), float(step), count // (2 * lanes) * (2 * lanes))
    return finish(
        grid(f"arange_{dtype.code}", _arange_trace(dtype), numbers, plan, out), requires_grad
    )


def _arange_trace(dtype):
    """One element of a float range. Doubles compute float32, floats compute the half types."""
    lanes, fma = _LANES[dtype.name], scalar.WORDS["fma"]
    wide = "f32" if dtype.itemsize == 2 else "f64"
    own = {"f64": "f64", "f32": "f32"}.get(dtype.code)

    def trace(a, b, whole):
        a, b = scalar.cast(a, wide), scalar.cast(b, wide)
        i = scalar.coordinate(0)
        lane = i & (lanes - 1)
        first = fma(b, scalar.cast(i - lane, wide), a)
        first = (
            rounded(first, dtype.code)
            if own is None
            else scalar.cast(scalar.cast(first, own), wide)
        )
        in_vector = fma(b, scalar.cast(lane, wide), first)
        return scalar.select(i < whole, in_vector, fma(b, scalar.cast(i, wide), a))

    return trace


def rounded(x, code):
    """A float32 expression rounded to a half type (of moderate size), still as a float32."""
    kept = {"f16": 13, "bf16": 16}[code]  # bits that go
    bits = scalar.bitcast(x, "u32")
    odd = (bits >> kept) & 1
    bits = (bits + odd + ((1 << (kept - 1)) - 1)) & (0xFFFFFFFF ^ ((1 << kept) - 1))
    near = scalar.bitcast(bits, "f32")
    if code == "f16":
        # below the normal range the spacing is constant: adding and subtracting rounds to it
        magic = 2.0**-24 * 2.0**23 * 1.5
        small = (x + magic) - magic
        near = scalar.select(scalar.WORDS["abs"](x) < 2.0**-14, small, near)
    return near


def range_(
    start,
    end,
    step=1,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
):
    """Like arange, but with the end included (deprecated in PyTorch)."""
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    start, end, step = _bounds("range", start, end, step)
    check_range(start, end, step)
    count = math.floor((end - start) / step) + 1
    dtype = dtype_of(dtype if out is None or dtype is not None else out.dtype, "range")
    return _spread("range", start, step, count, dtype, device, out, requires_grad)


# -- linspace --------------------------------------------------------------------------------------


def linspace(
    start,
    end,
    steps,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """steps values from start to end, evenly spaced, both included."""
    key = None
    if out is None and type(steps) is int and _NUMBERS.issuperset((type(start), type(end))):
        key = plain_key("linspace", (steps,), dtype, device)
        t = _grid_again(key, (float(start), float(end), steps))
        if t is not None:
            return finish(t, requires_grad)
    start, end, dtype = _ends("linspace", start, end, steps, dtype, out)
    plan = new_layout(Size((steps,)), dtype, device, "linspace")
    out = None if out is None else into(out, plan.shape)
    t = linspace_into(start, end, plan, out)
    if key is not None and steps > 1 and plan.dtype in (_dtype.float32, _dtype.float64):
        _remember_grid(key, f"linspace_{plan.dtype.code}", "ffi", plan)
    return finish(t, requires_grad)


def _ends(name, start, end, steps, dtype, out):
    for which, x in (("start", start), ("end", end)):
        if isinstance(x, Tensor) and x._layout.ndim:
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got {which} with "
                f"{x._layout.ndim} dimension(s)."
            )
    given = start, end, steps
    try:
        start, end = number(start, name, "start", 1), number(end, name, "end", 2)
        integer(steps, name, "steps", 3)
    except TypeError:
        kinds = ", ".join(type(x).__name__ for x in given)
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({kinds}), "
            "but expected (Number start, Number end, int steps)"
        ) from None
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return start, end, _ends_dtype(name, start, end, dtype, out)


def _ends_dtype(name, start, end, dtype, out):
    given = dtype if dtype is not None or out is None else out.dtype
    found = dtype_of(given, name)
    if complex in (type(start), type(end)) and not found.is_complex:
        if given is not None:
            default = "double" if _dtype.default_complex() is _dtype.complex128 else "float"
            raise RuntimeError(
                f"torch.{name}(): inferred dtype c10::complex<{default}> can't be safely cast to "
                f"passed dtype {found.scalar_name}"
            )
        return _dtype.default_complex()
    if found is _dtype.bool_:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Bool'")
    return found


def linspace_into(start, end, plan, out=None):
    """Evenly spaced values in a tensor of one dimension."""
    dtype, steps = plan.dtype, plan.shape[0]
    if dtype.is_complex:
        return _complex_linspace(complex(start), complex(end), plan, out)
    start, end = float(_real(start)), float(_real(end))
    if dtype.category < _dtype.FLOATING:
        start, end = math.trunc(start) * 1.0, math.trunc(end) * 1.0
    if dtype.itemsize == 2 and dtype.category == _dtype.FLOATING:
        return _half_linspace(start, end, plan, out)
    type = "f32" if dtype.code == "f32" else "f64"
    if steps == 1:
        end = start  # and no division by zero

    def trace(a, b, n):
        a, b = scalar.cast(a, type), scalar.cast(b, type)
        i, fma = scalar.coordinate(0), scalar.WORDS["fma"]
        step = (b - a) / scalar.cast(scalar.select(n > 1, n - 1, 1), type)
        low = fma(step, scalar.cast(i, type), a)
        high = fma(-step, scalar.cast(n - 1 - i, type), b)
        return scalar.select(i < (n >> 1), low, high)

    return grid(f"linspace_{type}", trace, (start, end, steps), plan, out)


def _real(x):
    return x.real if type(x) is complex else x


def _complex_linspace(start, end, plan, out):
    real = new_layout(plan.shape, plan.dtype.to_real(), plan.device)
    t = empty_like_layout(plan) if out is None else out
    if plan.device.type == "meta":
        return t
    pairs = t.view(plan.dtype.to_real()).view(-1, 2)
    pairs.select(1, 0).copy_(linspace_into(start.real, end.real, real))
    pairs.select(1, 1).copy_(linspace_into(start.imag, end.imag, real))
    return t


def _half_linspace(start, end, plan, out):
    """Every step of the formula is rounded to the half type, so it is done on tensors."""
    dtype, n = plan.dtype, plan.shape[0]

    def near(x):
        return half_number(x, dtype)

    t = empty_like_layout(plan) if out is None else out
    if not n or plan.device.type == "meta":
        return t
    start, end = near(start), near(end)
    if n == 1:
        return t.fill_(start)
    step = near(float32_number(near(end - start) / near(n - 1)))
    middle = n // 2
    t[:middle] = arange(middle).to(dtype).mul(step).add(start)
    t[middle:] = arange(n - 1 - middle, -1, -1).to(dtype).mul(-step).add(end)
    return t


def float32_number(x):
    """The nearest float32, as a Python float."""
    return struct.unpack("f", struct.pack("f", x))[0]


def half_number(x, dtype):
    """The nearest number of a half type, as a Python float."""
    if dtype is _dtype.float16:
        return struct.unpack("e", struct.pack("e", x))[0]
    bits = struct.unpack("I", struct.pack("f", x))[0]
    bits = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    return struct.unpack("f", struct.pack("I", bits))[0]


def logspace(
    start,
    end,
    steps,
    base=10.0,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """base to the power of evenly spaced exponents."""
    start, end, dtype = _ends("logspace", start, end, steps, dtype, out)
    wide = dtype if dtype.category >= _dtype.FLOATING else _dtype.float64
    exponents = linspace_into(start, end, new_layout(Size((steps,)), wide, device, "logspace"))
    # __rpow__ casts the base to the exponents' dtype, as PyTorch does
    t = (float(base) ** exponents).to(dtype)
    return finish(t if out is None else into(out, t.shape).copy_(t), requires_grad)


# -- eye -------------------------------------------------------------------------------------------


def eye(
    n,
    m=None,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Ones on the diagonal, zeros elsewhere."""
    key = None
    if out is None and type(n) is int and (m is None or type(m) is int):
        key = plain_key("eye", (n, n if m is None else m), dtype, device)
        t = _grid_again(key, ())
        if t is not None:
            return finish(t, requires_grad)
    n = integer(n, "eye", "n", 1)
    m = n if m is None else integer(m, "eye", "m", 2)
    for name, value in (("n", n), ("m", m)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    dtype = dtype if out is None or dtype is not None else out.dtype
    plan = new_layout(Size((n, m)), dtype, device, "eye")
    out = None if out is None else into(out, plan.shape)

    def trace():
        return scalar.coordinate(0) == scalar.coordinate(1)

    t = grid("eye", trace, (), plan, out)
    if key is not None:
        _remember_grid(key, "eye", "", plan)
    return finish(t, requires_grad)
