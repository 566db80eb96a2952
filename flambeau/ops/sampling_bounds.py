"""Bounds of random integers: what a dtype can hold and what is refused.

A float must not round up to the excluded bound, so what is drawn from depends on the dtype.
"""

import math
import operator
import warnings

from flambeau import _dtype as d

DIGITS = {d.float64: 53, d.float32: 24, d.float16: 11, d.bfloat16: 8}


def bound(value):
    if isinstance(value, float):
        raise TypeError(
            "random_() received an invalid combination of arguments - got (float), but expected int"
        )
    value = operator.index(value)
    if not -(2**63) <= value < 2**63:
        raise ValueError("Overflow when unpacking long long")
    return value


def check_order(low, high, fine, what, relation):
    if not fine:
        raise RuntimeError(f"random_ expects {what}, but got from={low} {relation}={high}")


def largest(dtype):
    if dtype.category > d.INTEGER:
        raise RuntimeError(
            "random_from_to_impl handles only integral, floating-point and boolean types"
        )
    return 1 if dtype is d.bool_ else -1 if dtype is d.uint64 else d.iinfo(dtype).max


def check_bounds(dtype, bounds):
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


def next_above(low, dtype):
    """low, or the next number up that survives rounding to the dtype."""
    back = _rounded(low + 1, dtype)
    if back < low:
        return back + (1 << (abs(low + 1).bit_length() - DIGITS[dtype]))
    return low


def next_below(high, dtype):
    back = _rounded(high - 1, dtype)
    if back >= high:
        return back - (1 << (abs(high - 1).bit_length() - DIGITS[dtype]))
    return high
