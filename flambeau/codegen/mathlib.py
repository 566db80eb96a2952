"""exp, log, pow, tanh and their relatives, spelled from arithmetic, fma, selects and bit patterns.

Every function serves f32 and f64: the formula is one, the coefficients differ. All are within
2 ulp, keep denormals, and treat nan, infinities and signed zeros as C does; none branches.
The neighbours: `triglib.py` (sin to atan2), `errorlib.py` (erf and the normal distribution),
`gammalib.py`, `bessellib.py`, `floatbits.py` (exponents and neighbours), `complexlib.py`.

Coefficients are minimax fits (Remez); the comment beside them gives interval and relative error.
"""

import math
from types import SimpleNamespace

from flambeau.codegen.scalar import (
    Expr,
    abs_,
    bitcast,
    cast,
    const,
    is_float,
    lift,
    native,
    repeat,
    scale,
    select,
    spelled,
)
from flambeau.codegen.scalar import copysign as _copysign
from flambeau.codegen.scalar import fma as _fma
from flambeau.codegen.scalar import rint as _rint
from flambeau.codegen.scalar import sqrt as _sqrt

inf, nan = math.inf, math.nan

LN2 = {"f32": (0.693147182464599609375, -1.904654299957768e-09)}
LN2["f64"] = (0.6931471805599453094, 2.3190468138462996e-17)

# What the bits of each float type look like. `magic` added to a number rounds it to an integer,
# which then sits in the low bits of the sum.
FORMAT = {
    "f32": SimpleNamespace(
        int="i32", unsigned="u32", mantissa=23, one=0x3F800000, magic=1.5 * 2.0**23, tiny=2.0**-126,
        sqrt_half=0x3F3504F3, lift=2.0**24, lift_bits=24, fraction=0x7FFFFF, epsilon=2.0**-23,
        max=3.4028234663852886e38,
    ),
    "f64": SimpleNamespace(
        int="i64", unsigned="u64", mantissa=52, one=0x3FF << 52, magic=1.5 * 2.0**52,
        tiny=2.0**-1022, sqrt_half=0x3FE6A09E667F3BCD, lift=2.0**54, lift_bits=54,
        fraction=(1 << 52) - 1, epsilon=2.0**-52, max=1.7976931348623157e308,
    ),
}  # fmt: skip


def horner(x, coefficients):
    """The polynomial with these coefficients, lowest power first."""
    total = const(coefficients[-1], x.type)
    for c in reversed(coefficients[:-1]):
        total = _fma(total, x, c)
    return total


def two_sum(a, b):
    """a + b and its rounding error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fast_two_sum(a, b):
    """a + b and its rounding error, where |a| >= |b| or a is 0."""
    s = a + b
    return s, b - (s - a)


def two_product(a, b):
    """a * b and its rounding error."""
    p = a * b
    return p, _fma(a, b, -p)


def typed_pair(a, b):
    """Both as expressions; a number takes the type of the other."""
    a = a if isinstance(a, Expr) else lift(a, b.type)
    return a, lift(b, a.type)


def at_most(x, limit):
    """The smaller one; nan stays nan."""
    limit = const(limit, x.type)
    return native("minimum", x, limit, portable=select(limit < x, limit, x))


def at_least(x, limit):
    """The larger one; nan stays nan."""
    limit = const(limit, x.type)
    return native("maximum", x, limit, portable=select(limit > x, limit, x))


def is_negative(x):
    """Whether the sign bit is set (true for -0.0)."""
    return bitcast(x, FORMAT[x.type].int) < 0


def power_of_two(t, more=0):
    """2**(n + more), a normal number, for the low bits n of a sum with `magic`."""
    f = FORMAT[t.type]
    return bitcast((bitcast(t, f.int) << f.mantissa) + (f.one + (more << f.mantissa)), t.type)


def times_power(p, t):
    """p * 2**n for the low bits n of a sum with `magic`; in two steps, as n may be out of range."""
    f = FORMAT[p.type]
    whole = bitcast(t, f.int) << f.mantissa
    half = (whole >> 1) & ~f.fraction
    first = bitcast(half + f.one, p.type)
    second = bitcast(whole - half + f.one, p.type)
    return scale(p, t - f.magic, p * first * second)


# -- exponentials --------------------------------------------------------------------------------

# 2**r on [-1/2, 1/2], error 3.0e-9; f64: exp(r) on [-ln2/2, ln2/2], error 1.2e-17.
EXP2_F32 = (
    1.0, 0.6931471824645996, 0.24022647738456726, 0.05550359934568405, 0.009618505835533142,
    0.0013390806270763278, 0.00015326471475418657,
)  # fmt: skip
_EXP_F64 = (
    1.0, 1.0, 0.5000000000000011, 0.16666666666666413, 0.041666666666530294, 0.008333333333494309,
    0.0013888888943593227, 0.00019841269506916888, 2.4801493138503457e-05, 2.755758609143449e-06,
    2.7630233679324234e-07, 2.5000139604455784e-08,
)  # fmt: skip
# 2**r on [-1/2, 1/2], error 1.9e-17
_EXP2_F64 = (
    1.0, 0.6931471805599453, 0.24022650695910072, 0.055504108664821736, 0.009618129107628562,
    0.0013333558146381755, 0.00015403530393172255, 1.525273386483046e-05, 1.3215487003027232e-06,
    1.0178047536786776e-07, 7.0548149902627755e-09, 4.457238524911449e-10, 2.5855011974358404e-11,
)  # fmt: skip
# (expm1(r) - r) / r**2 on [-ln2/2, ln2/2]; error in expm1 1.4e-8 and 3.4e-17
_EXPM1 = {
    "f32": (0.4999999701976776, 0.1666654646396637, 0.041667431592941284, 0.008366304449737072,
            0.001387119642458856),
    "f64": (0.5000000000000006, 0.16666666666666588, 0.04166666666657682, 0.008333333333389589,
            0.0013888888931539818, 0.00019841269718850945, 2.4801505306251054e-05,
            2.7557407746689193e-06, 2.762602424520625e-07, 2.5053691352520784e-08),
}  # fmt: skip
_LOG2E = 1.4426950408889634074
_LOG2E_F32 = (1.44269502162933349609375, 1.925962991e-08)
# Beyond these the exponential is 0 or infinite; twice that range still scales correctly.
_EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}


def exp_parts(x, low=None, less_one=False):
    """exp(x + low) as p * 2**n: p (or p - 1), and the sum with `magic` whose low bits are n."""
    f = FORMAT[x.type]
    if x.type == "f32":
        t = _fma(x, _LOG2E_F32[0], f.magic)
        n = t - f.magic
        high, rest = _LOG2E_F32
        r = _fma(x, high, -n)
        r = _fma(x, rest, r) if low is None else r + _fma(low, high, x * rest)
        return r * horner(r, EXP2_F32[1:]) if less_one else horner(r, EXP2_F32), t
    t = _fma(x, _LOG2E, f.magic)
    n = t - f.magic
    r = _fma(n, -LN2["f64"][1], _fma(n, -LN2["f64"][0], x))
    r = r if low is None else r + low
    return r * horner(r, _EXP_F64[1:]) if less_one else horner(r, _EXP_F64), t


def exp_sum(x, low):
    """exp(x + low), for a low part that is tiny beside 1."""
    least, most = _EXP_RANGE[x.type]
    return times_power(*exp_parts(at_least(at_most(x, most), least), low))


@spelled
def exp(x):
    return native("exp", x, portable=exp_sum(x, None))


@spelled
def exp2(x):
    least, most = (-151.0, 129.0) if x.type == "f32" else (-1076.0, 1025.0)
    x = at_least(at_most(x, most), least)
    t = x + FORMAT[x.type].magic
    r = x - (t - FORMAT[x.type].magic)
    return times_power(horner(r, EXP2_F32 if x.type == "f32" else _EXP2_F64), t)


def _expm1_parts(x):
    """x without n * ln2: that difference, expm1 of it less the difference, and n + `magic`.

    The low part of ln2 goes into the second result, so that the first is free of rounding.
    """
    magic, (high, low) = FORMAT[x.type].magic, LN2[x.type]
    t = _fma(x, _LOG2E, magic)
    n = t - magic
    exact = _fma(n, -high, x)
    r = _fma(n, -low, exact)
    return exact, _fma(n, -low, r * r * horner(r, _EXPM1[x.type])), t


@spelled
def expm1(x):
    # 2**(n - 1) keeps the largest results in range; the sign is copied for the sake of -0.0.
    least, most = (-20.0, 89.0) if x.type == "f32" else (-40.0, 710.0)
    r, rest, t = _expm1_parts(at_least(at_most(x, most), least))
    half = power_of_two(t, -1)
    y = _fma(half, rest, _fma(half, r, half - 0.5))
    return _copysign(y + y, x)


@spelled
def sigmoid(x):
    # 1 / (1 + exp(-x)), numerator and denominator scaled by 2**-k so that exp(-x) stays finite
    # where the quotient is denormal. The exponential is not rounded by itself before 1 is added.
    least, most, k = (-20.0, 104.0, -25) if x.type == "f32" else (-40.0, 746.0, -56)
    p, t = exp_parts(at_least(at_most(-x, most), least), less_one=True)
    s = power_of_two(t, k)
    portable = const(2.0**k, x.type) / (s + _fma(p, s, 2.0**k))
    return native("sigmoid", x, portable=portable)


# (tanh(x) / x - 1) / x**2 on [0, 0.55] in powers of x**2; error in tanh 3.9e-8 and 2.4e-17
_TANH = {
    "f32": (-0.33332934975624084, 0.13320444524288177, -0.05265319347381592, 0.016401076689362526),
    "f64": (-0.3333333333333223, 0.13333333333156966, -0.05396825387031081, 0.021869485836614234,
            -0.008863192640377118, 0.003591704581775494, -0.0014531415215426767,
            0.000578912161341066, -0.00020993221676588467, 5.076353699038934e-05),
}  # fmt: skip


@spelled
def tanh(x):
    # 1 - 2 / (exp(2|x|) + 1): from 0.55 on the error of the quotient is halved or better
    a = at_most(abs_(x), 9.25 if x.type == "f32" else 19.5)
    if x.type == "f32":
        magic = FORMAT["f32"].magic
        t = _fma(a, 2.0 * _LOG2E, magic)
        p = horner(_fma(a, 2.0 * _LOG2E, magic - t), EXP2_F32)
    else:
        p, t = exp_parts(a + a)
    far = 1.0 - 2.0 / _fma(p, power_of_two(t), 1.0)
    far = native("tanh", abs_(x), portable=far)
    z = a * a
    near = _fma(a * z, horner(z, _TANH[x.type]), a)
    return _copysign(select(a < 0.55, near, far), x)


# (sinh(x) / x - 1) / x**2 on [0, 1] in powers of x**2; error in sinh 3.0e-10 and 9.4e-18
_SINH = {
    "f32": (0.1666666716337204, 0.00833331048488617, 0.00019842895562760532,
            2.7822131869470468e-06),
    "f64": (0.16666666666666669, 0.008333333333333148, 0.00019841269841431873,
            2.7557319157070984e-06, 2.505212313692146e-08, 1.605725974997703e-10,
            7.758749445783288e-13),
}  # fmt: skip


def _half_exp(a):
    """exp(a) / 2, which overflows only where cosh does."""
    p, t = exp_parts(at_most(a, 90.0 if a.type == "f32" else 711.0))
    return times_power(p, t - 1.0)


@spelled
def sinh(x):
    a = abs_(x)
    e = _half_exp(a)
    z = x * x
    small = _fma(x * z, horner(z, _SINH[x.type]), x)
    return select(a < 1.0, small, _copysign(e - 0.25 / e, x))


@spelled
def cosh(x):
    e = _half_exp(abs_(x))
    return e + 0.25 / e


# -- logarithms ----------------------------------------------------------------------------------

# (log1p(f) - f) / f**2 on [sqrt(1/2) - 1, sqrt(2) - 1]; error in log1p 3.0e-8
_LOG_F32 = (
    -0.49999991059303284, 0.3333394527435303, -0.25001776218414307, 0.19962239265441895,
    -0.1657032072544098, 0.14916370809078217, -0.14307644963264465, 0.08738618344068527,
)  # fmt: skip
# (2 atanh(s) / s - 2) / s**2 in powers of s**2, |s| <= 3 - 2 sqrt(2); error 3.6e-18
_LOG_F64 = (
    0.6666666666666734, 0.3999999999941464, 0.28571428742393584, 0.22222198572735702,
    0.1818356434331491, 0.15314050233341722, 0.14795951928476425,
)  # fmt: skip
# log_b(2) in two parts, log_b(e) in two parts
_BASES = {
    "f32": {
        "e": (*LN2["f32"], 1.0, 0.0),
        "2": (1.0, 0.0, *_LOG2E_F32),
        "10": (0.301030009984970092773, -1.43209889e-08, 0.434294492006301879883, -1.010305e-08),
    },
    "f64": {
        "e": (*LN2["f64"], 1.0, 0.0),
        "2": (1.0, 0.0, 1.4426950408889634, 2.0355273740931033e-17),
        "10": (0.30102999566398120, -2.8037281277851704e-18,
               0.43429448190325182, 1.098319650216765e-17),
    },
}  # fmt: skip


def split(x):
    """Positive x as m * 2**k, m in [sqrt(1/2), sqrt(2)): m, k as a float, the exponent's bits."""
    f = FORMAT[x.type]
    denormal = x < f.tiny
    bits = bitcast(select(denormal, x * f.lift, x), f.int) - f.sqrt_half
    exponent = bits >> f.mantissa
    m = bitcast((bits & f.fraction) + f.sqrt_half, x.type)
    if x.type == "f32":
        k = cast(exponent, "f32")
    else:  # few machines convert vectors of i64 directly
        k = bitcast(exponent + 0x4338000000000000, "f64") - f.magic
    return m, select(denormal, k - f.lift_bits, k), exponent


def log_sum(x, low, base="e", more=0.0):
    """log of x + low (low tiny beside x) plus more * log(2), in some base."""
    type = x.type
    ln2, ln2_low, scale, scale_low = _BASES[type][base]
    m, k, exponent = split(x)
    f = m - 1.0
    if low is not None:
        g = FORMAT[type]
        f = select(low == 0, f, _fma(low, bitcast(g.one - (exponent << g.mantissa), type), f))
    z = f * f
    if type == "f32":
        w = z * horner(f, _LOG_F32)
    else:
        s = f / (2.0 + f)
        ss = s * s
        w = _fma(s, _fma(ss, horner(ss, _LOG_F64), 0.5 * z), -0.5 * z)
    k = k if isinstance(more, float) and more == 0 else k + more
    if base == "e":
        result = _fma(k, ln2, f + _fma(k, ln2_low, w))
    else:
        rest = _fma(w, scale, f * scale_low)
        rest = _fma(k, ln2_low, rest) if ln2_low else rest
        result = _fma(f, scale, rest)
        result = result + k if ln2 == 1.0 else _fma(k, ln2, result)
    edge = select(x == 0, const(-inf, type), const(nan, type))
    result = select(x > 0, result, edge)
    return select(x < inf, result, x)


@spelled
def log(x):
    return log_sum(x, None, "e")


@spelled
def log2(x):
    return log_sum(x, None, "2")


@spelled
def log10(x):
    return log_sum(x, None, "10")


@spelled
def log1p(x):
    u = 1.0 + x
    # two_sum, cheaper because one of the terms is 1: the larger one goes first
    low = select(abs_(x) < 1.0, x - (u - 1.0), 1.0 - (u - x))
    return select(x == 0, x, log_sum(u, select(u < 2.0**60, low, 0.0), "e"))


def _root_sum(x, sign):
    """x + sqrt(x*x + sign) for x >= 0 in two parts."""
    p, p_low = two_product(x, x)
    h, h_low = two_sum(p, const(sign, x.type))
    s = _sqrt(h)
    s_low = (_fma(-s, s, h) + (h_low + p_low)) / (s + s)
    s_low = select(s > 0, s_low, 0.0)
    a, a_low = two_sum(x, s)
    return a, a_low + s_low


@spelled
def asinh(x):
    small, large = (2.0**-12, 2.0**30) if x.type == "f32" else (2.0**-26, 2.0**60)
    a = abs_(x)
    huge = a > large
    u, low = _root_sum(at_most(a, large), 1.0)
    twice = select(huge, const(1.0, x.type), 0.0)
    y = log_sum(select(huge, a, u), select(huge, 0.0, low), "e", twice)
    return select(a < small, x, _copysign(y, x))


@spelled
def acosh(x):
    large = 2.0**30 if x.type == "f32" else 2.0**60
    huge = x > large
    u, low = _root_sum(at_most(x, large), -1.0)
    twice = select(huge, const(1.0, x.type), 0.0)
    y = log_sum(select(huge, x, u), select(huge, 0.0, low), "e", twice)
    return select(x < 1.0, const(nan, x.type), y)


@spelled
def atanh(x):
    # log((1 + a) / (1 - a)) / 2 with the rounding error of the quotient carried along
    a = abs_(x)
    top, top_low = fast_two_sum(const(1.0, x.type), a)
    bottom, bottom_low = fast_two_sum(const(1.0, x.type), -a)
    q = top / bottom
    q_low = (_fma(-q, bottom, top) + _fma(-q, bottom_low, top_low)) / bottom
    y = 0.5 * log_sum(q, select(a < 1.0, q_low, 0.0), "e")
    small = 2.0**-12 if x.type == "f32" else 2.0**-26
    return select(a < small, x, _copysign(select(a > 1.0, const(nan, x.type), y), x))


# -- powers --------------------------------------------------------------------------------------

# (2 atanh(s) / s - 2 - 2/3 s**2) / s**4 in powers of s**2, |s| <= 3 - 2 sqrt(2);
# error relative to atanh 1.7e-11 and 2.1e-20
_POW = {
    "f32": (0.40000152587890625, 0.2854709029197693, 0.23419634997844696),
    "f64": (0.3999999999999998, 0.28571428571445096, 0.22222222217539944, 0.18181818869894434,
            0.15384556899283058, 0.13336316343226956, 0.11674840134105138, 0.11988834523419185),
}  # fmt: skip
_TWO_THIRDS = {"f32": (0.666666686534881591796875, -1.9868214925130e-08)}
_TWO_THIRDS["f64"] = (0.66666666666666662966, 3.7007434154171886e-17)


def log_pair(a):
    """log of a finite positive number in two parts: about twice the precision of the type."""
    m, k, _ = split(a)
    f = m - 1.0
    d = 2.0 + f
    d_low = f - (d - 2.0)
    r = 1.0 / d
    s = f * r
    s_low = r * _fma(-s, d_low, _fma(-s, d, f))
    z, z_low = two_product(s, s)
    z_low = _fma(s + s, s_low, z_low)
    t, t_low = two_product(s, z)
    t_low = _fma(s, z_low, _fma(s_low, z, t_low))
    c, c_low = _TWO_THIRDS[a.type]
    u, u_low = two_product(t, const(c, a.type))
    u_low = _fma(t, c_low, _fma(t_low, c, u_low))
    tail = t * z * horner(z, _POW[a.type])
    ln2, ln2_low = LN2[a.type]
    e, e_low = two_product(k, const(ln2, a.type))
    h, h_low = fast_two_sum(e, s + s)
    g, g_low = fast_two_sum(h, u)
    low = _fma(k, ln2_low, e_low) + (h_low + g_low + (s_low + s_low) + (u_low + tail))
    return fast_two_sum(g, low)


def _integer_pow(x, y):
    """x**y for integers by squaring; a negative y gives what is left of 1 / x**-y."""

    def step(_, base, exponent, result):
        result = select((exponent & 1) != 0, result * base, result)
        return base * base, exponent >> 1, result

    bits = int(x.type[1:])
    _, _, power = repeat(bits, step, x, y, const(1, x.type))
    if x.type[0] == "u":
        return power
    sign = select((y & 1) != 0, const(-1, x.type), const(1, x.type))
    unit = select(x == 1, const(1, x.type), select(x == -1, sign, const(0, x.type)))
    return select(y < 0, unit, power)


@spelled
def pow(x, y):
    x, y = typed_pair(x, y)
    if not is_float(x.type):
        return _integer_pow(x, y)
    a = abs_(x)
    high, low = log_pair(a)
    high = select(a < inf, select(a == 0, const(-inf, x.type), high), a)
    p = y * high
    p_low = _fma(y, low, _fma(y, high, -p))
    inside = abs_(p) < -_EXP_RANGE[x.type][0]
    result = exp_sum(p, select(inside, p_low, 0.0))
    half = 0.5 * y
    integer = _rint(y) == y
    odd = integer & (_rint(half) != half)
    result = select(odd, _copysign(result, x), result)
    result = select((x < 0) & (x > -inf) & ~integer, const(nan, x.type), result)
    one = (x == 1.0) | (y == 0) | ((x == -1.0) & (abs_(y) == inf))
    return select(one, const(1.0, x.type), result)


@spelled
def rsqrt(x):
    return 1.0 / _sqrt(x)


@spelled
def reciprocal(x):
    return 1.0 / x


@spelled
def hypot(x, y):
    # scaled by a power of two so that the squares neither overflow nor vanish
    x, y = typed_pair(x, y)
    a, b = abs_(x), abs_(y)
    swap = a < b
    big, small = select(swap, b, a), select(swap, a, b)
    edge, shift = (2.0**60, 2.0**80) if x.type == "f32" else (2.0**500, 2.0**700)
    up = big < 1 / edge
    down = big > edge
    scale = select(up, const(shift, x.type), select(down, const(1 / shift, x.type), 1.0))
    back = select(up, const(1 / shift, x.type), select(down, const(shift, x.type), 1.0))
    s, t = big * scale, small * scale
    r = _sqrt(_fma(s, s, t * t)) * back
    return select((a == inf) | (b == inf), const(inf, x.type), select(a + b == a + b, r, a + b))
