"""Filling tensors with random integers: bounds, and how many bits a number takes.

PyTorch draws base + bits % range; what the range is depends on the dtype, because a float must not
round up to the excluded bound. The memory side is in `sampling.py`, the rows in `ops/sampling.py`.
"""

import math
import operator
import warnings

from flambeau import _dtype as d
from flambeau.eager.rows import is_computed
from flambeau.eager.sampling import COMMON, DIGITS, fill, fills, require
from flambeau.ops.table import MISSING


@fills("random_")
def random_(out, low, high, generator):
    """random_(), random_(high) or random_(low, high); a high of None means: as far as it goes."""
    if low is MISSING and high is MISSING:
        random_all(out, generator)
    elif high is MISSING:
        random_from_to(out, 0, _bound(low), generator)
    else:
        low = 0 if low is MISSING else _bound(low)
        random_from_to(out, low, high if high is None else _bound(high), generator)


def _bound(value):
    if isinstance(value, float):
        raise TypeError(
            "random_() received an invalid combination of arguments - got (float), but expected int"
        )
    value = operator.index(value)
    if not -(2**63) <= value < 2**63:
        raise ValueError("Overflow when unpacking long long")
    return value


def random_all(out, generator):
    """Everything a dtype holds: 0 to the largest integer, or to 2^digits for floats."""
    if not is_computed(out):
        return
    dtype = out.dtype
    require(dtype, COMMON | {d.bool_}, "random_kernel_cpu")
    if dtype is d.bool_:
        span = 2
    else:
        span = 2 ** DIGITS[dtype] + 1 if dtype in DIGITS else d.iinfo(dtype).max + 1
    _draw_integers(out, dtype in (d.float64, d.int64), span, 0, generator)


def random_from_to(out, low, high, generator):
    """[low, high); high None: up to the largest of the dtype; low -2^63 as well: all 64 bits."""
    if not out.device.runtime.computes:
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
    require(out.dtype, COMMON - {d.float16}, name)
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
            raise RuntimeError(f"{name} is out of bounds for {dtype.cpp_name}")
    for value, name in bounds if dtype in DIGITS else ():
        if abs(value) > 2 ** DIGITS[dtype]:
            limit, kind = f"2^{DIGITS[dtype]}", dtype.cpp_name
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
