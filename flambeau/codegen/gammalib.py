"""The gamma function's family: lgamma, digamma, trigamma, polygamma, zeta, igamma, igammac.

The usual plan: Stirling-like series far out, recurrences and a polynomial closer in, reflection for
negative arguments. The two-argument functions iterate, and work in f64 whatever they are given.
Coefficients are minimax or Chebyshev fits; comments give interval and relative error.
"""

import math

from flambeau.codegen.errorlib import erfc
from flambeau.codegen.mathlib import exp, expm1, horner, log, log1p, pow
from flambeau.codegen.scalar import Expr, abs_, cast, const, repeat, repeat_while, select, spelled
from flambeau.codegen.scalar import copysign as _copysign
from flambeau.codegen.scalar import floor as _floor
from flambeau.codegen.scalar import fma as _fma
from flambeau.codegen.scalar import rint as _rint
from flambeau.codegen.scalar import sqrt as _sqrt
from flambeau.codegen.triglib import cos, sin

inf, nan = math.inf, math.nan
_HALF_LOG_TWO_PI = 0.9189385332046727418

# lgamma(2 + y) / y on [-1/2, 1/2]; errors 4.1e-9 and 1.9e-17
_LGAMMA = {
    "f32": (
        0.42278432846069336, 0.32246702909469604, -0.0673522800207138, 0.020581630989909172,
        -0.0073861777782440186, 0.0028788268100470304, -0.0011858376674354076,
        0.0005703468923456967, -0.00025386185734532773,
    ),
    "f64": (
        0.42278433509846713, 0.32246703342411326, -0.0673523010531956, 0.020580808427780335,
        -0.007385551028937974, 0.002890510331036772, -0.0011927539009204018,
        0.0005096695153484373, -0.00022315497868931946, 9.945767440096764e-05,
        -4.492371708374659e-05, 2.0505584372896933e-05, -9.456338120610123e-06,
        4.3847319318293745e-06, -1.9741884532905586e-06, 9.199898075671394e-07,
        -5.812501250599261e-07, 2.7880013392491846e-07,
    ),
}  # fmt: skip
# What Stirling's formula leaves of lgamma(x), times x, in powers of 1/x**2, x >= 8;
# errors 2.6e-9 and 4.7e-18, absolute
_STIRLING = {
    "f32": (0.0833333358168602, -0.002777698915451765, 0.0007800590246915817),
    "f64": (
        0.08333333333333333, -0.0027777777777776786, 0.0007936507935155974,
        -0.0005952380249159124, 0.0008417327986389447, -0.0019149914152151739,
        0.006209323048352402, -0.02087749782109059,
    ),
}  # fmt: skip
# (log(x) - 1/(2x) - digamma(x)) * x**2 in powers of 1/x**2, x >= 10; errors 2.8e-9 and 4.7e-18
_DIGAMMA = {
    "f32": (0.0833333358168602, -0.008333105593919754, 0.003907088655978441),
    "f64": (
        0.08333333333333333, -0.00833333333333325, 0.003968253968075666, -0.004166666522342153,
        0.007575700019690192, -0.021080254030497916, 0.0817995262526534, -0.34233314350830324,
    ),
}  # fmt: skip
# (x trigamma(x) - 1 - 1/(2x)) * x**2 in powers of 1/x**2, x >= 10; errors 7.0e-9 and 9.3e-18
_TRIGAMMA = {
    "f32": (0.1666666716337204, -0.033331528306007385, 0.02332279086112976),
    "f64": (
        0.16666666666666666, -0.033333333333331876, 0.02380952380642711, -0.03333333082365939,
        0.07575657331582288, -0.25289461303519994, 1.13979250652823, -5.310912615611725,
    ),
}  # fmt: skip


def in_double(function):
    """Let a function compute in f64 also when it is given f32."""

    def word(*args):
        type = next(a.type for a in args if isinstance(a, Expr))
        result = function(*(cast(a, "f64") for a in args))
        return cast(result, type)

    word.__name__ = word.__qualname__ = function.__name__
    word.__doc__ = function.__doc__
    return word


def _distance(x):
    """pi times the distance of x from the nearest integer, signed."""
    return math.pi * (x - _rint(x))


def _lgamma_positive(x):
    """lgamma for x > 0."""

    def down(_, y, product):
        over = y >= 2.5
        y = select(over, y - 1.0, y)
        return y, select(over, product * y, product)

    large = x >= 8.0
    one = const(1.0, x.type)
    y, product = repeat(6, down, select(large, one, x), one)
    low, least = x < 1.5, x < 0.5
    # below 1.5 the argument goes up instead, and the logarithm is taken away
    shift = select(least, x, select(low, x - 1.0, y - 2.0))
    product = select(least, x * (x + 1.0), select(low, x, product))
    logarithm = log(select(large, x, product))
    close = shift * horner(shift, _LGAMMA[x.type])
    close = select(low, close - logarithm, close + logarithm)
    r = 1.0 / x
    tail = _fma(r, horner(r * r, _STIRLING[x.type]), _HALF_LOG_TWO_PI)
    far = _fma(x, logarithm - 1.0, _fma(logarithm, -0.5, tail))
    return select(x == inf, x, select(large, far, close))


@spelled
def lgamma(x):
    a = abs_(x)
    y = _lgamma_positive(a)
    # lgamma(-a) = log(pi / (a |sin(pi a)|)) - lgamma(a)
    sine = abs_(sin(_distance(a)))
    # for the tiniest a, sin(pi a) underflows before its logarithm is large
    reflected = math.log(math.pi) - log(a * sine) - y
    small = a < (1.0e-8 if x.type == "f32" else 1.0e-17)
    reflected = select(small, -log(a), reflected)
    pole = (x <= 0) & (_floor(x) == x)
    return select(pole | (a == inf), const(inf, x.type), select(x < 0, reflected, y))


def _digamma_positive(x):
    """digamma for x > 0; the sum of 1 / (x + k) is kept as one fraction."""

    def up(_, x, top, bottom):
        low = x < 10.0
        top = select(low, _fma(top, x, bottom), top)
        bottom = select(low, bottom * x, bottom)
        return select(low, x + 1.0, x), top, bottom

    zero, one = const(0.0, x.type), const(1.0, x.type)
    y, top, bottom = repeat(10, up, x, zero, one)
    z = 1.0 / (y * y)
    series = log(y) - _fma(z, horner(z, _DIGAMMA[x.type]), 0.5 / y)
    return series - top / bottom


@spelled
def digamma(x):
    low = x < 0
    y = _digamma_positive(select(low, 1.0 - x, x))
    t = _distance(x)
    reflected = y - math.pi * cos(t) / sin(t)
    result = select(low, reflected, y)
    result = select(low & (_floor(x) == x), const(nan, x.type), result)
    return select(x == 0, -_copysign(const(inf, x.type), x), result)


@spelled
def trigamma(x):
    low = x < 0.5

    def up(_, x, total):
        near = x < 10.0
        return select(near, x + 1.0, x), select(near, total + 1.0 / (x * x), total)

    y, total = repeat(10, up, select(low, 1.0 - x, x), const(0.0, x.type))
    r = 1.0 / y
    z = r * r
    y = total + _fma(r, _fma(z, horner(z, _TRIGAMMA[x.type]), 0.5 * r), r)
    sine = sin(_distance(x))
    return select(low, (math.pi / sine) * (math.pi / sine) - y, y)


# B(2j) / (2j)!, j from 1
_ZETA = (
    0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07,
    2.08767569878681e-08, -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13,
    8.586062056277845e-15, -2.174868698558062e-16, 5.50900282836023e-18, -1.3954464685812524e-19,
)  # fmt: skip


@spelled
@in_double
def zeta(x, q):
    """The Hurwitz zeta function: the sum of (q + k)**-x over k >= 0, by Euler and Maclaurin."""

    def going(i, a, b, total):
        return ((i < 9.0) | (a <= 9.0)) & (a > -1.0e5) & ~(abs_(b) < 2.0**-53 * abs_(total))

    def step(_, i, a, b, total):
        a = a + 1.0
        b = pow(a, -x)
        return i + 1.0, a, b, total + b

    first = pow(q, -x)
    start = (const(0.0, "f64"), q, first, first)
    _, w, b, total = repeat_while(100000, going, step, *start)
    done = abs_(b) < 2.0**-53 * abs_(total)
    tail = b * w / (x - 1.0) - 0.5 * b
    factor, r = x, b / w
    for j, c in enumerate(_ZETA):
        tail = tail + factor * r * c
        factor = factor * (x + (2 * j + 1.0)) * (x + (2 * j + 2.0))
        r = r / (w * w)
    result = select(done | (x > 1.0e3), total, total + tail)
    edge = select(_floor(q) == q, const(inf, "f64"), const(nan, "f64"))
    result = select((q <= 0) & ((_floor(q) == q) | (_floor(x) != x)), edge, result)
    return select(x == 1.0, const(inf, "f64"), select(x < 1.0, const(nan, "f64"), result))


@spelled
def polygamma(n, x):
    """The n-th derivative of digamma; n is a number, or an expression that is at least 2."""
    if not isinstance(n, Expr) and n < 2:
        return digamma(x) if n == 0 else trigamma(x)
    n = cast(n, x.type) if isinstance(n, Expr) else const(n, x.type)
    size = exp(lgamma(n + 1.0)) * zeta(n + 1.0, x)
    half = n * 0.5
    return select(_floor(half) == half, -size, size)


# -- incomplete gamma functions ------------------------------------------------------------------

# Coefficients of eta**n / a**k in the uniform expansion (Temme), one row per k
_TEMME = (
    (
        -0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
        0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05,
        -2.185448510679992e-06, -1.85406221071516e-06, 8.296711340953087e-07,
        -1.7665952736826078e-07, 6.707853543401498e-09, 1.0261809784240309e-08,
        -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11,
        -5.830772132550426e-11, 2.4361948020667415e-11,
    ),
    (
        -0.001851851851851852, -0.003472222222222222, 0.0026455026455026454,
        -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07,
        -1.8098550334489977e-05, 7.64916091608111e-06, -1.6120900894563446e-06,
        4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
        1.1951628599778148e-08, -1.7543241719747647e-11, -1.0091543710600413e-09,
        4.162792991842583e-10, -8.56390702649298e-11,
    ),
    (
        0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049,
        2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05,
        -1.2760635188618728e-05, 3.423578734096138e-08, 1.3721957309062934e-06,
        -6.298992138380055e-07, 1.4280614206064242e-07, -2.0477098421990866e-10,
        -1.409252991086752e-08, 6.228974084922022e-09, -1.3670488396617114e-09,
        9.428356159014678e-13,
    ),
    (
        0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
        0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
        1.1082654115347302e-05, -5.6749528269915965e-06, 1.4230900732435883e-06,
        -2.7861080291528143e-11, -1.6958404091930278e-07, 8.099464905388083e-08,
        -1.9111168485973655e-08, 2.3928620439808118e-12, 2.0620131815488797e-09,
    ),
    (
        -0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902,
        -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05,
        1.1375726970678419e-05, 2.507497226237533e-10, -1.6954149536558305e-06,
        8.907507532205309e-07, -2.292934834000805e-07, 2.956794137544049e-11,
        2.8865829742708783e-08, -1.4189739437803219e-08,
    ),
    (
        -0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392,
        -0.00019932570516188847, 6.797780477937208e-05, 1.419062920643967e-07,
        -1.3594048189768693e-05, 8.018470256334202e-06, -2.291481176508095e-06,
        -3.252473551298454e-10, 3.4652846491085265e-07, -1.8447187191171344e-07,
        4.8240967037894184e-08,
    ),
)  # fmt: skip
_NEAR = 0.3  # |x - a| / a up to which the expansion is used, for a > 200


def _log1p_less(u):
    """log1p(u) - u, without cancellation where |u| is small."""
    s = u / (2.0 + u)
    z = s * s
    coefficients = [2.0 / (2 * k + 3) for k in range(20)]
    small = s * z * horner(z, coefficients) - u * s
    return select(abs_(u) < 0.5, small, log1p(u) - u)


def _lgamma1p(a):
    """lgamma(1 + a) for a >= 0, accurate also for tiny a."""
    small = a * horner(a, _LGAMMA["f64"]) - log1p(a)
    return select(a < 0.5, small, _lgamma_positive(1.0 + a))


def _prefactor(a, x):
    """x**a exp(-x) / gamma(a + 1)"""
    u = (x - a) / a
    small = exp(a * log(x) - x - _lgamma1p(a))
    r = 1.0 / a
    large = exp(a * _log1p_less(u) - r * horner(r * r, _STIRLING["f64"])) / _sqrt(2 * math.pi * a)
    return select(a < 10.0, small, large)


def _igamma_series(a, x, wanted, factor):
    """The lower function by its power series."""

    def going(_n, term, total):
        return term > total * 2.0**-54

    def step(_, n, term, total):
        n = n + 1.0
        term = term * (x / n)
        return n, term, total + term

    one = const(1.0, "f64")
    zero = const(0.0, "f64")
    start = (a, select(wanted, one, zero), select(wanted, one, zero))
    return repeat_while(2000, going, step, *start)[2] * factor


def _igammac_series(a, x, wanted):
    """The upper function for small x, where it may be far from 1 minus the lower one."""

    def going(_n, term, total):
        return abs_(term) > abs_(total) * 2.0**-54

    def step(_, n, power, total):
        n = n + 1.0
        power = power * (-x / n)
        return n, power, total + power / (a + n)

    zero = const(0.0, "f64")
    start = (zero, select(wanted, const(1.0, "f64"), zero), zero)
    total = repeat_while(100, going, step, *start)[2]
    power = a * log(x) - _lgamma1p(a)
    return -expm1(power) - a * exp(power) * total


def _igammac_fraction(a, x, wanted, factor):
    """The upper function by its continued fraction (Lentz)."""

    def going(_n, _b, _c, _d, _h, change):
        return abs_(change - 1.0) > 2.0**-53

    def step(_, n, b, c, d, h, _change):
        n = n + 1.0
        an = n * (a - n)
        b = b + 2.0
        d = 1.0 / _fma(an, d, b)
        c = b + an / c
        change = d * c
        return n, b, c, d, h * change, change

    b = x + 1.0 - a
    b = select(wanted, b, const(1.0, "f64"))
    change = select(wanted, const(0.0, "f64"), 1.0)
    start = (const(0.0, "f64"), b, const(1.0e300, "f64"), 1.0 / b, 1.0 / b, change)
    return repeat_while(2000, going, step, *start)[4] * factor * a


def _igamma_uniform(a, x):
    """Both functions for large a with x near a; the smaller one is accurate."""
    u = (x - a) / a
    square = -2.0 * _log1p_less(u)
    eta = _copysign(_sqrt(square), u)
    r = 1.0 / a
    rows = [horner(eta, row) for row in _TEMME]
    total = rows[-1]
    for row in reversed(rows[:-1]):
        total = _fma(total, r, row)
    rest = exp(-0.5 * a * square) / _sqrt(2 * math.pi * a) * total
    t = eta * _sqrt(0.5 * a)
    return 0.5 * erfc(-t) - rest, 0.5 * erfc(t) + rest


def _igamma_pair(a, x):
    """The lower and the upper function, where both arguments are positive and finite."""
    uniform = (a > 200.0) & (abs_(x - a) < _NEAR * a)
    upward = x > 1.1
    # which of the two to compute; the other is 1 minus it
    by_series = select(upward, x - a, select(x <= 0.5, -0.4 / log(x) - a, x * 1.1 - a)) < 0
    small_x = ~upward & ~by_series
    by_fraction = upward & ~by_series
    inside = (a > 0) & (x > 0) & (x < inf) & (a < inf) & ~uniform
    factor = _prefactor(a, x)
    lower = _igamma_series(a, x, inside & by_series, factor)
    upper = _igammac_series(a, x, inside & small_x)
    fraction = _igammac_fraction(a, x, inside & by_fraction, factor)
    upper = select(small_x, upper, fraction)
    p, q = select(by_series, lower, 1.0 - upper), select(by_series, 1.0 - lower, upper)
    near_p, near_q = _igamma_uniform(a, x)
    return select(uniform, near_p, p), select(uniform, near_q, q)


def _igamma_edges(a, x, value, at_zero, at_infinity):
    """Put in what holds at the ends: value at x = 0, value at x = inf."""
    low, high, no = const(at_zero, "f64"), const(at_infinity, "f64"), const(nan, "f64")
    value = select((x != x) | (a != a), no, value)
    value = select(x == inf, high, value)
    value = select(a == inf, select(x == inf, no, low), value)
    value = select(x == 0, low, value)
    value = select(a == 0, select(x > 0, high, no), value)
    return select((x < 0) | (a < 0), no, value)


@spelled
@in_double
def igamma(a, x):
    """The regularized lower incomplete gamma function."""
    return _igamma_edges(a, x, _igamma_pair(a, x)[0], 0.0, 1.0)


@spelled
@in_double
def igammac(a, x):
    """The regularized upper incomplete gamma function."""
    return _igamma_edges(a, x, _igamma_pair(a, x)[1], 1.0, 0.0)
