"""Words that look inside floats: neighbours, exponents, signs, rounding to an integer."""

import math

from flambeau.codegen.mathlib import FORMAT, power_of_two, typed_pair
from flambeau.codegen.scalar import WORDS, abs_, bitcast, cast, const, is_float, select, spelled
from flambeau.codegen.scalar import copysign as _copysign

inf, nan = math.inf, math.nan


@spelled
def sign(x):
    """-1, 0 or 1; 0 for nan."""
    one, zero = const(1, x.type), const(0, x.type)
    if x.type == "bool":
        return x
    if x.type[0] == "u":
        return select(x > 0, one, zero)
    return select(x > 0, one, select(x < 0, -one, zero))


@spelled
def round(x):
    """To the nearest integer, halves to the even one."""
    return WORDS["rint"](x) if is_float(x.type) else x


@spelled
def angle(x):
    """0 for positive numbers, pi for negative ones."""
    return select(x < 0, const(math.pi, x.type), select(x != x, x, const(0.0, x.type)))


@spelled
def nextafter(x, y):
    """The float next to x on the way to y."""
    x, y = typed_pair(x, y)
    f = FORMAT[x.type]
    bits = bitcast(x, f.int)
    away = (y > x) == (x > 0)  # from zero
    step = bitcast(select(away, bits + 1, bits - 1), x.type)
    least = bitcast(const(1, f.int), x.type)
    step = select(x == 0, _copysign(least, y), step)
    return select((x != x) | (y != y), x + y, select(x == y, y, step))


def _scaled_bits(x):
    """The bits of x, a denormal lifted into the normal range first, and whether that was needed."""
    f = FORMAT[x.type]
    denormal = abs_(x) < f.tiny
    return bitcast(select(denormal, x * f.lift, x), f.int), denormal


def _is_plain(x):
    return (abs_(x) < inf) & (x != 0)


@spelled
def frexp_mantissa(x):
    """m of x = m * 2**e, 1/2 <= |m| < 1."""
    f = FORMAT[x.type]
    bits, _ = _scaled_bits(x)
    kept = (1 << (f.mantissa + 8 if x.type == "f32" else f.mantissa + 11)) - (1 << f.mantissa)
    half = bits & ~kept | (f.one - (1 << f.mantissa))
    return select(_is_plain(x), bitcast(half, x.type), x)


@spelled
def frexp_exponent(x):
    """e of x = m * 2**e, 1/2 <= |m| < 1; an i32."""
    f = FORMAT[x.type]
    bits, denormal = _scaled_bits(x)
    mask, bias = (0xFF, 126) if x.type == "f32" else (0x7FF, 1022)
    e = (bits >> f.mantissa & mask) - bias
    e = cast(select(denormal, e - f.lift_bits, e), "i32")
    return select(_is_plain(x), e, const(0, "i32"))


@spelled
def ldexp(x, n):
    """x * 2**n; n is an integer, or a float with an integer value."""
    f = FORMAT[x.type]
    most = 300.0 if x.type == "f32" else 2200.0
    n = cast(n, x.type)
    n = select(n > most, const(most, x.type), select(n < -most, const(-most, x.type), n))
    # three factors, each within the normal range
    part = WORDS["trunc"](n * 0.25)
    step = power_of_two(part + f.magic)
    last = power_of_two((n - 3.0 * part) + f.magic)
    big = select(n < 0, x * last, x * step)  # the largest step down comes last, so it rounds once
    y = big * step * step * select(n < 0, step, last)
    return select((x == 0) | (abs_(x) == inf), x, y)
