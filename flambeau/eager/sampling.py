"""Launching the sampling kernels: what may be asked, which kernel, over which memory.

PyTorch fills a tensor in the order its elements lie in memory, whatever its shape says; a tensor
with gaps is therefore drawn side by side into a scratch block first, and copied. Each launcher
checks its arguments as PyTorch does (in its order, since a program may meet two errors at once).
Kernels are written by `codegen/templates/sampling.py` and `rejection.py`; the rows are in
`ops/sampling.py`.
"""

import math
import warnings

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import is_dense_in_some_order, make_layout, memory_order, overlaps_itself
from flambeau._tensor import alias, empty_tensor
from flambeau.eager.kernels import load_kernel
from flambeau.eager.plan import plan_nest
from flambeau.random import Generator, default_generator

_kernels: dict = {}
HALF_AND_UP = frozenset((d.float16, d.bfloat16, d.float32, d.float64))
COMMON = HALF_AND_UP | {
    d.uint8,
    d.int8,
    d.int16,
    d.int32,
    d.int64,
}  # what most kernels are made for
DIGITS = {d.float64: 53, d.float32: 24, d.float16: 11, d.bfloat16: 8}
_CPP_NAMES = {
    d.float64: "double", d.float32: "float", d.float16: "c10::Half", d.bfloat16: "c10::BFloat16",
    d.bool_: "bool", d.uint8: "unsigned char", d.int8: "signed char", d.int16: "short int",
    d.int32: "int", d.int64: "long int", d.uint16: "short unsigned int",
    d.uint32: "unsigned int", d.uint64: "long unsigned int",
    d.complex64: "c10::complex<float>", d.complex128: "c10::complex<double>",
}  # fmt: skip


# -- kernels and memory ----------------------------------------------------------------------------


def kernel(name, *facts):
    """The kernel that `build_<name>(*facts)` of the templates describes."""
    found = _kernels.get((name, *facts))
    if found is None:
        from flambeau.codegen.templates import rejection, sampling  # with llvmlite, on first need

        build = getattr(sampling, "build_" + name, None) or getattr(rejection, "build_" + name)
        found = _kernels[name, *facts] = load_kernel(build(*facts), name)
    return found


def stream(generator):
    """The address of a generator's block; None stands for the default generator."""
    return default_generator.pointer if generator is None else generator.pointer


def check_generator(op, generator):
    if generator is not None and not isinstance(generator, Generator):
        kind = type(generator).__name__
        raise TypeError(f"{op}(): argument 'generator' must be torch.Generator, not {kind}")


def is_computed(t):
    """Does a tensor have elements to draw? (Not if it is empty or on the meta device.)"""
    return t._layout.numel > 0 and t._layout.device.type == "cpu"


def fill(out, name, facts, generator, *parameters):
    """Fill a tensor's memory, in the order of that memory."""
    layout = out._layout
    if not is_computed(out):
        return
    if overlaps_itself(layout):
        raise overlapping()
    run = kernel(name, *facts)
    if layout.is_contiguous or is_dense_in_some_order(layout):
        run(stream(generator), out.data_ptr(), layout.numel, *parameters)
        return
    view = in_memory_order(out)
    scratch = empty_tensor(view.shape, view.dtype, view.device)
    run(stream(generator), scratch.data_ptr(), layout.numel, *parameters)
    copy_into(view, scratch)


def overlapping():
    return RuntimeError(
        "unsupported operation: more than one element of the written-to tensor refers to a single "
        "memory location. Please clone() the tensor before performing the operation."
    )


def in_memory_order(t):
    """A view of a tensor whose row-major order is the order of its memory."""
    order = memory_order(t._layout.shape, [t._layout.strides])
    return turned(t, order)


def turned(t, order):
    """A view with the dimensions in another order, unknown to autograd."""
    shape, strides = t._layout.shape, t._layout.strides
    facts = tuple(shape[k] for k in order), tuple(strides[k] for k in order)
    return alias(t, make_layout(*facts, t.dtype, t.device), t._offset)


def real_view(t):
    """A complex tensor as pairs of real numbers."""
    layout = t._layout
    strides = (*(2 * s for s in layout.strides), 1)
    return alias(
        t, make_layout((*layout.shape, 2), strides, t.dtype.to_real(), t.device), t._offset
    )


def copy_into(target, source):
    """Copy between tensors of one shape and dtype, unknown to autograd."""
    _, run, description, owner = plan_nest(
        "scatter_samples", lambda x: (x,), [source._layout], "", None, outs=(target._layout,)
    )
    run(description, target.data_ptr(), source.data_ptr())
    del owner  # the description lived until here


def side_by_side(t, shape=None):
    """A contiguous tensor with the values of t, spread over a larger shape if one is given."""
    layout = t._layout
    if shape is None or layout.shape == shape:
        if layout.is_contiguous:
            return t
        shape = layout.shape
    missing = len(shape) - layout.ndim
    pairs = zip(layout.shape, layout.strides, shape[missing:])
    strides = (0,) * missing + tuple(0 if s == 1 and n != 1 else st for s, st, n in pairs)
    out = empty_tensor(shape, t.dtype, t.device)
    copy_into(out, alias(t, make_layout(shape, strides, t.dtype, t.device), t._offset))
    return out


# -- fills -----------------------------------------------------------------------------------------


def _require(dtype, supported, kernel_name):
    if dtype not in supported:
        raise errors.not_implemented(kernel_name, dtype)


def uniform_(out, low, high, generator):
    if out.device.type == "meta":
        return
    if out.dtype.is_complex:
        out = real_view(out)
        if out.numel() == 0:
            return
    dtype = out.dtype
    _require(dtype, HALF_AND_UP, "check_uniform_bounds")
    top = d.finfo(dtype).max
    for value, name in ((low, "from"), (high, "to")):
        if not -top <= value <= top:
            raise RuntimeError(f"{name} is out of bounds for {_CPP_NAMES[dtype]}")
    if not low <= high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if not high - low <= top:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{dtype.scalar_name}>::max(), "
            f"but found to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )
    fill(out, "uniform", (dtype.code,), generator, low, high)


def normal_(out, mean, std, generator):
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if not is_computed(out):
        return
    if out.dtype.is_complex:
        out, std = real_view(out), std / math.sqrt(2)
    _require(out.dtype, HALF_AND_UP, "normal_kernel_cpu")
    if out.numel() >= 16 and out._layout.is_contiguous:
        fill(out, "normal", (out.dtype.code,), generator, mean, std)
    else:
        fill(out, "fill", ("normal_pairs", out.dtype.code), generator, mean, std)


def log_normal_(out, mean, std, generator):
    if out.device.type == "cpu" and not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    _fill_through_libm(out, "log_normal", "log_normal_cpu", HALF_AND_UP, generator, mean, std)


def cauchy_(out, median, sigma, generator):
    if out.device.type == "cpu":
        if not sigma > 0:
            raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
        if not out.dtype.is_floating_point:
            raise _continuous("Cauchy", _CPP_NAMES[out.dtype])
    _fill_through_libm(out, "cauchy", "cauchy_cpu", HALF_AND_UP, generator, median, sigma)


def exponential_(out, lambd, generator):
    if out.device.type == "cpu" and not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    if is_computed(out) and not out.dtype.is_floating_point:
        raise _continuous("Exponential", out.dtype.scalar_name)
    _fill_through_libm(out, "exponential", "exponential_cpu", HALF_AND_UP, generator, lambd)


def geometric_(out, p, generator):
    if out.device.type == "cpu" and not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    _fill_through_libm(out, "geometric", "geometric_cpu", COMMON, generator, p)


def _continuous(name, dtype):
    return RuntimeError(
        f"{name} distribution is a continuous probability distribution. "
        f"dtype must be a floating point but you specified {dtype}"
    )


def _fill_through_libm(out, name, kernel_name, supported, generator, *parameters):
    if is_computed(out):
        _require(out.dtype, supported, kernel_name)
        fill(out, "fill", (name, out.dtype.code), generator, *parameters)


def bernoulli_(out, p, generator):
    """p: a probability for all elements."""
    if out.device.type == "cpu" and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if is_computed(out):
        _require(out.dtype, COMMON | {d.bool_}, "bernoulli_scalar_cpu_")
        fill(out, "bernoulli", (out.dtype.code,), generator, p)


def bernoulli_from(out, p, generator):
    """p: a tensor of probabilities, already in the shape of out."""
    if not is_computed(out):
        return
    if overlaps_itself(out._layout):
        raise overlapping()
    _require(out.dtype, COMMON | {d.bool_}, "bernoulli_tensor_cpu_self_")
    _require(p.dtype, HALF_AND_UP, "bernoulli_tensor_cpu_p_")
    order = memory_order(out.shape, [out._layout.strides, p._layout.strides])
    out, p = turned(out, order), side_by_side(turned(p, order))
    whole = out._layout.is_contiguous
    scratch = out if whole else empty_tensor(out.shape, out.dtype, out.device)
    run = kernel("bernoulli_from", out.dtype.code, p.dtype.code)
    status = run(stream(generator), scratch.data_ptr(), p.data_ptr(), out.numel())
    if not whole:
        copy_into(out, scratch)
    if status is not None:
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")


# -- integers --------------------------------------------------------------------------------------


def random_(out, generator):
    """Everything a dtype holds: 0 to the largest integer, or to 2^digits for floats."""
    if not is_computed(out):
        return
    dtype = out.dtype
    _require(dtype, COMMON | {d.bool_}, "random_kernel_cpu")
    if dtype is d.bool_:
        span = 2
    else:
        span = 2 ** DIGITS[dtype] + 1 if dtype in DIGITS else d.iinfo(dtype).max + 1
    _draw_integers(out, dtype in (d.float64, d.int64), span, 0, generator)


def random_from_to(out, low, high, generator):
    """[low, high); high None: up to the largest of the dtype; low -2^63 as well: all 64 bits."""
    if out.device.type == "meta":
        return
    dtype = out.dtype
    if high is None and low == -(2**63):
        _draw_all_bits(out, generator)
        return
    if high is not None:
        _check_order(low, high, low < high, "'from' to be less than 'to'", ">= to")
    if dtype in DIGITS:
        low = _next_above(low, dtype)
    if high is None:
        last = 2 ** DIGITS[dtype] if dtype in DIGITS else _largest(dtype)
        if dtype in DIGITS:
            words = "'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype"
            _check_order(low, last, low < last, words, "> to_inc")
    else:
        if dtype in DIGITS:
            high = _next_below(high, dtype)
            words = "'from' casted to dtype to be less than 'to' casted to dtype"
            _check_order(low, high, low < high, words, ">= to")
        last = high - 1
    _check_bounds(dtype, ((low, "from"), (last, "to - 1")))
    span = last - low + 1
    # beyond 2^28 the remainder of 32 bits would favour small numbers noticeably
    _draw_integers(out, span >= 2**28, span, low, generator)


def _check_order(low, high, fine, what, relation):
    if not fine:
        raise RuntimeError(f"random_ expects {what}, but got from={low} {relation}={high}")


def _draw_integers(out, wide, span, base, generator):
    span = span - 2**64 if span >= 2**63 else span  # the kernel takes signed words
    fill(out, "random", (out.dtype.code, wide), generator, span, base)


def _draw_all_bits(out, generator):
    if out.numel() == 0:
        return
    name = "random_full_64_bits_range_kernel_cpu"
    _require(out.dtype, COMMON - {d.float16}, name)
    if out.dtype not in (d.int64, d.float64, d.float32, d.bfloat16):
        raise RuntimeError(f"{name} handles only int64, double, float and bfloat16")
    _draw_integers(out, True, 0, 0, generator)


def _largest(dtype):
    if dtype.category > d.INTEGER:
        raise RuntimeError(
            "random_from_to_impl handles only integral, floating-point and boolean types"
        )
    return 1 if dtype is d.bool_ else -1 if dtype is d.uint64 else d.iinfo(dtype).max


def _check_bounds(dtype, bounds):
    if dtype.is_complex:
        raise RuntimeError(
            "check_random_bounds handles only integral, floating-point and boolean types"
        )
    if dtype in DIGITS:
        least, most = -d.finfo(dtype).max, d.finfo(dtype).max
    elif dtype is d.bool_:
        least, most = 0, 1
    else:
        least, most = d.iinfo(dtype).min, min(d.iinfo(dtype).max, 2**63 - 1)
    for value, name in bounds:
        if not least <= value <= most:
            raise RuntimeError(f"{name} is out of bounds for {_CPP_NAMES[dtype]}")
    for value, name in bounds if dtype in DIGITS else ():
        if abs(value) > 2 ** DIGITS[dtype]:
            limit, kind = f"2^{DIGITS[dtype]}", _CPP_NAMES[dtype]
            warnings.warn(
                f"{name} is out of bounds [-({limit}), {limit}]. Due to precision limitations "
                f"{kind} can support discrete uniform distribution only within this range. This "
                "warning will become an error in version 1.7 release, please fix the code in "
                "advance",
                stacklevel=4,
            )


def _rounded(value, dtype):
    """An integer as the dtype holds it (to nearest even); beyond 64 bits, what x86 makes of it."""
    shift = max(abs(value).bit_length() - DIGITS[dtype], 0)
    rest, unit = abs(value) & ((1 << shift) - 1), 1 << shift
    down = abs(value) - rest
    up = 2 * rest > unit or (2 * rest == unit and down & unit)
    value = math.copysign(1, value) * (down + (unit if up else 0))
    inside = abs(value) <= d.finfo(dtype).max and -(2.0**63) <= value < 2.0**63
    return int(value) if inside else -(2**63)


def _next_above(low, dtype):
    """low, or the next number up that survives rounding to the dtype."""
    back = _rounded(low + 1, dtype)
    if back < low:
        return back + (1 << (abs(low + 1).bit_length() - DIGITS[dtype]))
    return low


def _next_below(high, dtype):
    back = _rounded(high - 1, dtype)
    if back >= high:
        return back - (1 << (abs(high - 1).bit_length() - DIGITS[dtype]))
    return high
