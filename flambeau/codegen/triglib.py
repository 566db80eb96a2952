"""sin, cos, tan and their inverses, spelled in the scalar language; within 2 ulp everywhere.

The argument is brought to [-pi/4, pi/4] by subtracting multiples of pi/2 held in three parts;
beyond the range where that is exact, a rare branch multiplies the mantissa with the bits of 2/pi
that matter (Payne and Hanek). Coefficients are minimax fits; comments give interval and error.
"""

import math

from flambeau.codegen.mathlib import (
    FORMAT,
    fast_two_sum,
    horner,
    is_negative,
    two_product,
    two_sum,
    typed_pair,
)
from flambeau.codegen.scalar import abs_, bitcast, cast, const, rarely, select, spelled, table
from flambeau.codegen.scalar import copysign as _copysign
from flambeau.codegen.scalar import fma as _fma
from flambeau.codegen.scalar import mulhi as _mulhi
from flambeau.codegen.scalar import rint as _rint
from flambeau.codegen.scalar import sqrt as _sqrt

inf, nan = math.inf, math.nan

HALF_PI = {
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "f64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
PI = {
    "f32": (3.1415927410125732, -8.742277657347586e-08),
    "f64": (3.141592653589793, 1.2246467991473532e-16),
}

# (sin(x) / x - 1) / x**2 and (cos(x) - 1 + x**2 / 2) / x**4 on [0, pi/4] in powers of x**2;
# errors in sin 4.0e-9 and 1.1e-17, in cos 1.2e-10 and 1.1e-18
_SIN = {
    "f32": (-0.16666655242443085, 0.008332189172506332, -0.0001951829035533592),
    "f64": (-0.1666666666666663, 0.008333333333322118, -0.00019841269829588755,
            2.7557313621147325e-06, -2.5050747729306266e-08, 1.589622837828719e-10),
}  # fmt: skip
_COS = {
    "f32": (0.04166664555668831, -0.0013887309469282627, 2.4432367354165763e-05),
    "f64": (0.041666666666666595, -0.0013888888888873058, 2.4801587288851985e-05,
            -2.7557314179366864e-07, 2.0875700850337253e-09, -1.1358536904393832e-11),
}  # fmt: skip

# 2/pi * 2**1280: enough bits for every f64
_TWO_OVER_PI = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561"
    "B7246E3A424DD2E006492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484"
    "E99C7026B45F7E413991D639835339F49C845F8BBDF9283B1FF897FFDE05980F"
    "EF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D7527BAC7EBE5F17B"
    "3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BABF0CFBC209AF4361D",
    16,
)
_LIMIT = {"f32": 1.0e5, "f64": 1.0e9}


def _two_over_pi_words(step, padding, count):
    """64 bits of 2/pi every `step` bits, with `padding` zero bits put before the first."""
    last = 1280 + padding - 64
    return [_TWO_OVER_PI >> (last - k * step) & (2**64 - 1) for k in range(count)]


def _reduce(x, precise):
    """x less a multiple of pi/2 in two parts, and that multiple in the low bits of an integer.

    For |x| < _LIMIT. The second part is left out unless the caller wants to be precise.
    """
    f = FORMAT[x.type]
    t = _fma(x, 2 / math.pi, f.magic)
    n = t - f.magic
    c1, c2, c3 = HALF_PI[x.type]
    first = _fma(n, -c1, x)  # exact
    if not precise:
        return _fma(n, -c3, _fma(n, -c2, first)), None, bitcast(t, f.int)
    second, error = two_product(n, const(c2, x.type))
    r, low = two_sum(first, -second)
    return *fast_two_sum(r, _fma(n, -c3, low - error)), bitcast(t, f.int)


def _reduce_f32_far(x):
    bits = bitcast(x, "u32")
    exponent = cast(bits >> 23 & 0xFF, "i64") - 120
    mantissa = cast(bits & 0x7FFFFF | 0x800000, "u64")
    words = _two_over_pi_words(32, 32, 8)
    word, shift = exponent >> 5, cast(exponent & 31, "u64")
    a, b = table(words, word, "u64"), table(words, word + 2, "u64")
    high = (a << shift) | ((b >> 1) >> (63 - shift))
    low = (b << shift) >> 32
    turns = mantissa * high + (mantissa * low >> 32)  # quarter turns, in units of 2**-62
    n = (turns + (1 << 61)) >> 62
    rest = cast(bitcast(turns - (n << 62), "i64"), "f64")
    rest = rest * (math.pi / 2 * 2.0**-62)
    r = cast(rest, "f32")
    return r, cast(rest - cast(r, "f64"), "f32"), cast(bitcast(n, "i64"), "i32")


def _reduce_f64_far(x):
    bits = bitcast(x, "u64")
    exponent = bitcast(bits >> 52 & 0x7FF, "i64") - 1013
    mantissa = bits & ((1 << 52) - 1) | (1 << 52)
    words = _two_over_pi_words(64, 64, 20)
    word, shift = exponent >> 6, bitcast(exponent & 63, "u64")
    w = [table(words, word + k, "u64") for k in range(4)]
    a, b, c = ((w[k] << shift) | ((w[k + 1] >> 1) >> (63 - shift)) for k in range(3))
    low = mantissa * b
    turns_low = low + _mulhi(mantissa, c)
    carry = select(turns_low < low, const(1, "u64"), const(0, "u64"))
    turns = mantissa * a + _mulhi(mantissa, b) + carry
    n = (turns + (1 << 61)) >> 62
    whole = bitcast(turns - (n << 62), "i64")
    high = cast(whole, "f64")
    tail = cast(whole - cast(high, "i64"), "f64") * 2.0**-62
    tail = tail + cast(turns_low >> 1, "f64") * 2.0**-125
    high = high * 2.0**-62
    c1, c2, _ = HALF_PI["f64"]
    r = high * c1
    return *fast_two_sum(r, _fma(high, c1, -r) + _fma(high, c2, tail * c1)), bitcast(n, "i64")


def _reduce_far(x):
    """The same for any finite x; the sign travels separately."""
    inside = abs_(x) < inf
    a = select(inside, abs_(x), 1.0e9)
    r, low, n = _reduce_f32_far(a) if x.type == "f32" else _reduce_f64_far(a)
    negative = x < 0
    r = select(inside, r, const(nan, x.type))
    return select(negative, -r, r), select(negative, -low, low), select(negative, -n, n)


def _sin_of(r):
    z = r * r
    return _fma(r * z, horner(z, _SIN[r.type]), r)


def _cos_of(r):
    z = r * r
    return _fma(z * z, horner(z, _COS[r.type]), _fma(z, -0.5, 1.0))


def _quadrant(r, n):
    """sin(r + n * pi/2)"""
    bits = FORMAT[r.type].int
    top = 30 if r.type == "f32" else 62
    y = select((n & 1) != 0, _cos_of(r), _sin_of(r))
    return bitcast(bitcast(y, bits) ^ ((n & 2) << top), r.type)


def _by_quadrant(x, finish, precise=False):
    return rarely(abs_(x) > _LIMIT[x.type], finish(*_reduce_far(x)), finish(*_reduce(x, precise)))


@spelled
def sin(x):
    y = _by_quadrant(x, lambda r, low, n: _quadrant(r, n))
    return select(x == 0, x, y)


@spelled
def cos(x):
    return _by_quadrant(x, lambda r, low, n: _quadrant(r, n + 1))


# (tan(x) / x - 1) / x**2 on [0, pi/4] in powers of x**2; error in tan 1.3e-9 and 2.2e-17
_TAN = {
    "f32": (0.33333349227905273, 0.13332675397396088, 0.05405888333916664, 0.02128652110695839,
            0.010826272889971733, 0.00010011588892666623, 0.004371613264083862),
    "f64": (0.3333333333333278, 0.1333333333341429, 0.05396825392682717, 0.021869489605200073,
            0.008863219217445095, 0.0035922886030898805, 0.0014547608267202004,
            0.0005950528429969205, 0.00022241458299877937, 0.0001364543420312851,
            -2.6286174996107234e-05, 8.93606381444703e-05, -4.482711554273566e-05,
            2.0851374007773642e-05),
}  # fmt: skip


@spelled
def tan(x):
    def finish(r, low, n):
        z = r * r
        # 1 + 1.3 z stands for 1 + tan(r)**2: the low part is below half an ulp
        t = r + _fma(r * z, horner(z, _TAN[r.type]), low * _fma(z, 1.3, 1.0))
        return select((n & 1) != 0, -1.0 / t, t)

    return select(x == 0, x, _by_quadrant(x, finish, precise=True))


@spelled
def sinc(x):
    """sin(pi x) / (pi x)"""
    f = FORMAT[x.type]
    high, low = PI[x.type]
    # what is left of x after multiples of 2, exactly, and then of 1/2
    r = select(abs_(x) < inf, x - 2.0 * _rint(x * 0.5), const(nan, x.type))
    t = r + r + f.magic
    r = _fma(t - f.magic, -0.5, r)
    theta = _fma(r, high, r * low)
    top = _quadrant(theta, bitcast(t, f.int))
    d = x * high
    d_low = _fma(x, high, -d) + x * low
    y = top / d
    y = y + _fma(-y, d_low, _fma(-y, d, top)) / d
    z = theta * theta
    return select(abs_(x) < 0.25, _fma(z, horner(z, _SIN[x.type]), 1.0), y)


# (asin(x) / x - 1) / x**2 on [0, 1/2] in powers of x**2; error in asin 4.9e-9 and 1.6e-17
_ASIN = {
    "f32": (0.16666752099990845, 0.074953094124794, 0.045469045639038086, 0.024185730144381523,
            0.0421561636030674),
    "f64": (0.16666666666665408, 0.07500000000336973, 0.044642856828353124, 0.03038195913635428,
            0.022371758056169595, 0.01735970479512972, 0.013885234143463555, 0.01216922601923991,
            0.006527891835829311, 0.019528543777880235, -0.016224757896418737, 0.03191265601909247),
}  # fmt: skip


def _asin_parts(x):
    """asin of s as s + w, where s is |x| up to 1/2 and sqrt((1 - |x|) / 2) above."""
    a = abs_(x)
    large = a > 0.5
    z = select(large, _fma(a, -0.5, 0.5), a * a)
    s = select(large, _sqrt(z), a)
    return large, s, s * z * horner(z, _ASIN[x.type])


@spelled
def asin(x):
    large, s, w = _asin_parts(x)
    high, low, _ = HALF_PI[x.type]
    y = select(large, high - _fma(s, 2.0, _fma(w, 2.0, -low)), s + w)
    return _copysign(y, x)


@spelled
def acos(x):
    large, s, w = _asin_parts(x)
    high, low, _ = HALF_PI[x.type]
    near_one = 2.0 * (s + w)
    near_minus_one = (2.0 * high - 2.0 * s) - _fma(w, 2.0, -2.0 * low)
    ends = select(x > 0, near_one, near_minus_one)
    s, w = _copysign(s, x), _copysign(w, x)
    return select(large, ends, high - (s - (low - w)))


# (atan(x) / x - 1) / x**2 on [0, 1] in powers of x**2; error in atan 2.7e-9 and 4.9e-17
_ATAN = {
    "f32": (-0.33333298563957214, 0.1999852955341339, -0.14264041185379028, 0.1095123142004013,
            -0.0840110182762146, 0.05792590603232384, -0.031154705211520195, 0.010906413197517395,
            -0.001792646711692214),
    "f64": (-0.3333333333333307, 0.1999999999995146, -0.1428571428257494, 0.11111111007020875,
            -0.09090907002902196, 0.07692279838315517, -0.0666640405009156, 0.05880527772811036,
            -0.052535183779055, 0.047223216575570555, -0.04219177574376095, 0.036641884391826994,
            -0.029903818887987058, 0.02198480762390853, -0.013900519770959586,
            0.0071964765968778694, -0.0028849057844847707, 0.0008313177348437047,
            -0.00015216005351380654, 1.3225002210578303e-05),
}  # fmt: skip


def _atan_parts(t):
    """atan of t in [0, 1] is t plus this."""
    z = t * t
    return t * z * horner(z, _ATAN[t.type])


@spelled
def atan(x):
    a = abs_(x)
    large = a > 1.0
    t = select(large, 1.0 / a, a)
    w = _atan_parts(t)
    high, low, _ = HALF_PI[x.type]
    return _copysign(select(large, high - (t - (low - w)), t + w), x)


@spelled
def atan2(y, x):
    y, x = typed_pair(y, x)
    a, b = abs_(y), abs_(x)
    steep = a > b
    top, bottom = select(steep, b, a), select(steep, a, b)
    t = top / bottom
    t = select(bottom == 0, const(0.0, x.type), select(top == inf, const(1.0, x.type), t))
    w = _atan_parts(t)
    # first octant: t + w; the others are pi/2 or pi more or less than that
    left = is_negative(x)
    high, low, _ = HALF_PI[x.type]
    zero = const(0.0, x.type)
    base = select(steep, const(high, x.type), select(left, const(2 * high, x.type), zero))
    base_low = select(steep, const(low, x.type), select(left, const(2 * low, x.type), zero))
    minus = steep != left
    t, w = select(minus, -t, t), select(minus, -w, w)
    result = _copysign(base + (t + (w + base_low)), y)
    return select((x != x) | (y != y), x + y, result)
