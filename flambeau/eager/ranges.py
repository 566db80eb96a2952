"""Tensors that are functions of their coordinates: arange, linspace, logspace, eye.

One kernel without inputs per kind (`grid`); its element is in `ops/grids.py`.
"""

import math
import struct
import warnings

from flambeau import _dtype, errors
from flambeau._device import default_device
from flambeau._layout import Size
from flambeau._tensor import Tensor, empty_like_layout
from flambeau.eager.fragments import follow_makers
from flambeau.eager.kernels import pool
from flambeau.eager.options import (
    KINDS,
    dtype_of,
    finish,
    fresh_plain,
    integer,
    into,
    new_layout,
    number,
    refuse_recorded,
)
from flambeau.eager.overlaps import check_overlap
from flambeau.eager.plan import describe_run, nest_kernel, plan_nest
from flambeau.eager.plans import Plans
from flambeau.ops.grids import LANES, TRACES
from flambeau.ops.support import refuse_complex32
from flambeau.ops.table import MISSING
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed


def grid(name, numbers, layout, out=None):
    """Fill a tensor by a function of its coordinates."""
    t = empty_like_layout(layout) if out is None else out
    kinds = "".join(["f" if type(n) is float else "i" for n in numbers])
    kernel, description = plan_grid(name, kinds, t._layout)
    kernel(description, t._storage.pointer + t._offset, *numbers)
    if out is not None:
        out._storage.version += 1
    return t


def plan_grid(name, kinds, layout):
    """(kernel, description) of a grid; kinds: the letters of its numbers."""
    if layout.ndim == 1 and layout.is_dense and layout.numel:
        kernel, chunk, steps = _LINES[name, kinds, layout.dtype, layout.device]
        return kernel, describe_run(layout.numel, chunk, steps)
    facts = (layout.dtype,), (layout,), layout.shape, layout.device
    return plan_nest((name, kinds), TRACES[name], [], kinds, *facts, collapsing=False)[1:]


def _plan_line(key):
    """(kernel, elements per chunk, steps) of a grid with one dimension."""
    name, kinds, dtype, device = key
    if not device.runtime.computes:
        return nothing, 1 << 62, (0,)
    outputs = ((dtype.code, "c"),)
    key = name, kinds
    kernel, chunk = nest_kernel(device.runtime, key, TRACES[name], outputs, (), kinds, 0)
    pool().ensure_workers()
    return kernel, chunk, (dtype.itemsize,)


_LINES = Plans(_plan_line, by_default=False)


def _plan_count(key):
    """(kernel, description) of a grid with one dimension, told last how many elements it has."""
    kernel, chunk, steps = _plan_line(key)
    return kernel, packed((0, chunk, *steps))


_COUNTS = Plans(_plan_count, by_default=False)


def _count_into(t, name, kinds, *numbers):
    """Fill a new vector by a function of its coordinates."""
    layout = t._layout
    kernel, description = _COUNTS[name, kinds, layout.dtype, layout.device]
    kernel(description, t._storage.pointer, *numbers, layout.numel)
    return t


# -- arange ----------------------------------------------------------------------------------------


def arange(
    start=MISSING, end=MISSING, step=1, *, out=None, dtype=None, layout=None, device=None,
    requires_grad=False, pin_memory=False,
):  # fmt: skip
    """start, start + step, ... up to but without end."""
    if out is None:
        first, last = (0, start) if end is MISSING else (start, end)
        t = _plain_range(first, last, step, dtype, device)
        if t is not None:
            return finish(t, True) if requires_grad else t
    if end is MISSING:
        if start is MISSING:
            raise TypeError(
                "arange() received an invalid combination of arguments - got (), "
                "but expected (Number start, Number end, Number step)"
            )
        start, end = 0, number(start, "arange", "end", 1)
    elif start is MISSING:
        start = 0
    start, end, step = _bounds("arange", start, end, step)
    if dtype is None:
        dtype = out.dtype if out is not None else _dtype.int64
        if out is None and float in (type(start), type(end), type(step)):
            dtype = _dtype.default_dtype()
    dtype = dtype_of(dtype, "arange")
    if dtype is _dtype.int64:
        for x in (start, end, step):
            _dtype.check_fits(x, dtype)
        if 0 < abs(step) < 1:
            check_range(start, end, step)
            raise ValueError("step must be nonzero")  # as a whole number
        start, end, step = int(start), int(end), int(step)
    check_range(start, end, step)
    return _spread(
        "arange", start, step, _count(start, end, step), dtype, device, out, requires_grad
    )


def _plain_range(first, last, step, dtype, device):
    """A range between plain numbers of moderate size, upwards; None for others."""
    if type(first) is type(last) is type(step) is int:
        if dtype is None:
            return _plain_integers(first, last, step, device)
    elif _NUMBERS.issuperset((type(first), type(last), type(step))):
        dtype = _dtype.default_dtype() if dtype is None else dtype
        if type(dtype) is not _dtype.dtype or dtype.category < _dtype.FLOATING:
            return None  # how the bounds round is said below
    else:
        return None
    if not (step > 0 and -_FAR < first <= last < _FAR):
        return None
    count = _count(first, last, step)
    t = fresh_plain((count,), dtype, device)
    if t is None or t._layout.dtype.category in (_dtype.BOOL, _dtype.COMPLEX):
        return None
    name, whole = _kind(t._layout.dtype, count)
    if whole is None:
        return _count_into(t, name, "ii", first, step)
    return _count_into(t, name, "ffi", float(first), float(step), whole)


def _plain_integers(first, last, step, device):
    """The same for integers of the usual dtype."""
    if not (step > 0 and -_FAR < first <= last < _FAR):
        return None
    try:
        device, kernel, description = _INTEGERS[default_device() if device is None else device]
    except TypeError:  # no device, and may not even be hashable
        return None
    count = -((first - last) // step)
    t = _sized((count,), _dtype.int64, device)  # noqa: F821
    if t is not None:
        kernel(description, t._storage.pointer, first, step, count)
    return t


def _plan_integers(device):
    _, device = KINDS[_dtype.int64, device]
    return device, *_COUNTS["arange", "ii", _dtype.int64, device]


_INTEGERS = Plans(_plan_integers, by_default=False, mixed=True)
follow_makers(globals())
_NUMBERS = frozenset((int, float))
_FAR = 1 << 53


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
    if step == 0 or step != step:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (step > 0) != (end >= start) and start != end:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def _count(start, end, step):
    if type(start) is type(end) is type(step) is int:
        return -((start - end) // step)
    return max(0, math.ceil((end - start) / step))


def _kind(dtype, count):
    """(grid of a range, how many elements are counted by vectors; None for integers)"""
    if dtype.category == _dtype.INTEGER:
        return "arange", None
    if dtype.name in _dtype.FLOAT8:
        raise errors.not_implemented("arange_cpu", dtype)
    return "arange_" + dtype.code, count & -2 * LANES[dtype.code]


def _keeps_shape(out, count, name):
    """Has out= as many elements as it takes, in another shape? Then it keeps that."""
    if out is not None:
        refuse_recorded(out, name)
    return out is not None and out._layout.numel == count and out.shape != (count,)


def _reshaped_into(out, found):
    check_overlap(out, ())
    return out.copy_(found.reshape(out.shape))


def warn_of_resizing(out, count):
    """PyTorch's warning where out= of a range has another number of elements."""
    if out._layout.numel:
        warnings.warn(
            f"The number of elements in the out tensor of shape {list(out.shape)} is "
            f"{out._layout.numel} which does not match the computed number of elements {count}. "
            "Note that this may occur as a result of rounding error. The out tensor will be "
            f"resized to a tensor of shape ({count},).",
            UserWarning,
            stacklevel=4,
        )


def _spread(name, start, step, count, dtype, device, out, requires_grad):
    if _keeps_shape(out, count, name):
        found = _spread(name, start, step, count, out.dtype, out.device, None, False)
        return _reshaped_into(out, found)
    if dtype.category in (_dtype.BOOL, _dtype.COMPLEX):
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{dtype.scalar_name}'")
    plan = new_layout(Size((count,)), dtype, device, name)
    if out is not None and out.shape != plan.shape:
        warn_of_resizing(out, count)
        out = out.resize_(plan.shape)
    if out is not None:
        into(out, plan.shape, dtype)
        check_overlap(out, ())
    kind, whole = _kind(dtype, count)
    numbers = (int(start), int(step)) if whole is None else (float(start), float(step), whole)
    return finish(grid(kind, numbers, plan, out), requires_grad)


def range_(
    start, end, step=1, *, out=None, dtype=None, layout=None, device=None, requires_grad=False
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
    if dtype is not None and dtype_of(dtype, "range").is_complex:
        raise NotImplementedError(f"\"range_cpu\" not implemented for '{dtype.scalar_name}'")
    check_range(start, end, step)
    count = math.floor((end - start) / step) + 1
    dtype = dtype_of(dtype if out is None or dtype is not None else out.dtype, "range")
    return _spread("range", start, step, count, dtype, device, out, requires_grad)


# -- linspace --------------------------------------------------------------------------------------


def linspace(
    start, end, steps, *, out=None, dtype=None, layout=None, device=None, requires_grad=False,
    pin_memory=False,
):  # fmt: skip
    """steps values from start to end, evenly spaced, both included."""
    if out is None and type(steps) is int and _NUMBERS.issuperset((type(start), type(end))):
        t = fresh_plain((steps,), dtype, device) if steps > 1 else None
        if t is not None and t._layout.dtype.code in ("f32", "f64"):
            name = "linspace_" + t._layout.dtype.code
            t = _count_into(t, name, "ffi", float(start), float(end), steps)
            return finish(t, True) if requires_grad else t
    if _are_hidden(start, end):
        return _linspace_of_tensors(start, end, steps, dtype)
    start, end, dtype = _ends("linspace", start, end, steps, dtype, out)
    if _keeps_shape(out, steps, "linspace") and out.dtype is dtype:
        return _reshaped_into(out, linspace(start, end, steps, dtype=dtype, device=out.device))
    plan = new_layout(Size((steps,)), dtype, device, "linspace")
    if out is not None:
        check_overlap(into(out, plan.shape, dtype, plan.device), ())
    return finish(linspace_into(start, end, plan, out), requires_grad)


def _are_hidden(*values):
    """Is one of them a tensor inside of a transform, whose number is not told?"""
    return any(type(x) is not Tensor and hasattr(x, "_level") for x in values)


def _linspace_of_tensors(start, end, steps, dtype):
    """The same by ops on tensors, whose numbers transforms such as vmap do not tell."""
    integer(steps, "linspace", "steps", 3)
    length = end - start
    kind = length.dtype if length.dtype.category >= _dtype.FLOATING else _dtype.default_dtype()
    dtype = dtype or kind
    places = arange(steps, dtype=kind.to_real())
    step = length / max(steps - 1, 1)
    # from both ends, so that both are met
    below = places < max(steps // 2, 1)
    return (start + step * places).where(below, end - step * (steps - 1 - places)).to(dtype)


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
    return start, end, _ends_dtype(name, start, end, steps, dtype, out)


def _ends_dtype(name, start, end, steps, dtype, out):
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
    if found in (_dtype.bool_, _dtype.complex32) and steps > 1:
        raise errors.not_implemented(f"{name}_cpu", found)
    return found


def linspace_into(start, end, plan, out=None):
    """Evenly spaced values in a tensor of one dimension."""
    dtype, steps = plan.dtype, plan.shape[0]
    if dtype.is_complex:
        return _complex_linspace(complex(start), complex(end), plan, out)
    start, end = float(_real(start)), float(_real(end))
    if dtype.category == _dtype.INTEGER:
        for x in (start, end):
            _dtype.check_fits(x, dtype)
        start, end = math.trunc(start) * 1.0, math.trunc(end) * 1.0
    if dtype.itemsize == 2 and dtype.category == _dtype.FLOATING:
        return _half_linspace(start, end, plan, out)
    if steps <= 1:  # not computed: an infinite start stays what it is
        target = empty_like_layout(plan) if out is None else out
        return target.fill_(start)
    name = "linspace_f32" if dtype.code == "f32" else "linspace_f64"
    return grid(name, (start, end, steps), plan, out)


def _real(x):
    return x.real if type(x) is complex else x


def _complex_linspace(start, end, plan, out):
    real = new_layout(plan.shape, plan.dtype.to_real(), plan.device)
    t = empty_like_layout(plan) if out is None else out
    if not plan.device.runtime.computes:
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
    if not n or not plan.device.runtime.computes:
        return t
    start, end = near(start), near(end)
    if n == 1:
        return t.fill_(start)
    step = near(float32_number(near(end - start) / near(n - 1)))
    middle = n // 2
    low, high = (middle,), (n - 1 - middle, -1, -1)
    t[:middle] = arange(*low, device=plan.device).to(dtype).mul(step).add(start)
    t[middle:] = arange(*high, device=plan.device).to(dtype).mul(-step).add(end)
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
    start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, device=None,
    requires_grad=False, pin_memory=False,
):  # fmt: skip
    """base to the power of evenly spaced exponents."""
    if _are_hidden(start, end):
        return float(base) ** _linspace_of_tensors(start, end, steps, dtype)
    start, end, dtype = _ends("logspace", start, end, steps, dtype, out)
    wide = dtype if dtype.category >= _dtype.FLOATING else _dtype.float64
    exponents = linspace_into(start, end, new_layout(Size((steps,)), wide, device, "logspace"))
    if wide is _dtype.complex32:  # one exponent: there is no power of more (_ends_dtype)
        return finish(exponents.fill_(float(base) ** start) if steps else exponents, requires_grad)
    # __rpow__ casts the base to the exponents' dtype, as PyTorch does
    t = float(base) ** exponents
    if steps == 1 and t.device.runtime.computes:
        _dtype.check_fits(t.item(), dtype)
    t = t.to(dtype)
    if _keeps_shape(out, steps, "logspace") and out.dtype is dtype:
        return _reshaped_into(out, t)
    if out is not None:
        check_overlap(into(out, t.shape, dtype, t.device), ())
        t = out.copy_(t)
    return finish(t, requires_grad)


# -- eye -------------------------------------------------------------------------------------------


def eye(
    n, m=None, *, out=None, dtype=None, layout=None, device=None, requires_grad=False,
    pin_memory=False,
):  # fmt: skip
    """Ones on the diagonal, zeros elsewhere."""
    if out is None:
        t = fresh_plain((n, n if m is None else m), dtype, device)
        if t is not None:
            kernel, description = _EYES[t._layout]
            kernel(description, t._storage.pointer)
            return finish(t, True) if requires_grad else t
    n = integer(n, "eye", "n", 1)
    m = n if m is None else integer(m, "eye", "m", 2)
    for name, value in (("n", n), ("m", m)):
        if value < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {value}")
    dtype = dtype if out is None or dtype is not None else out.dtype
    plan = new_layout(Size((n, m)), dtype, device, "eye")
    refuse_complex32("eye", plan)
    out = None if out is None else into(out, plan.shape, plan.dtype, plan.device, "eye")
    return finish(grid("eye", (), plan, out), requires_grad)


def _plan_eye(layout):
    refuse_complex32("eye", layout)
    return plan_grid("eye", "", layout)


_EYES = Plans(_plan_eye)
