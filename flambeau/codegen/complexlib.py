"""Words on complex numbers: pairs of float expressions.

Each function here takes over a word of the same name when one of its arguments is complex, and
leaves real arguments to the word it found. Formulas follow Kahan ("Branch cuts for complex
elementary functions"): no needless overflow, the right side of every cut, signed zeros kept.
"""

import math

from flambeau.codegen import floatbits, mathlib, triglib  # noqa: F401, words to wrap
from flambeau.codegen.mathlib import fast_two_sum, log_sum, two_product
from flambeau.codegen.scalar import WORDS, Complex, abs_, as_complex, const, select
from flambeau.codegen.scalar import copysign as _copysign
from flambeau.codegen.scalar import fma as _fma
from flambeau.codegen.scalar import sqrt as _sqrt

inf, nan = math.inf, math.nan
_exp, _expm1, _log = mathlib.exp, mathlib.expm1, mathlib.log
_sin, _cos, _tan = triglib.sin, triglib.cos, triglib.tan
_sinh, _cosh, _asinh, _atan, _atan2 = (
    mathlib.sinh,
    mathlib.cosh,
    mathlib.asinh,
    triglib.atan,
    triglib.atan2,
)


def for_complex(function):
    """Let the word of this name call `function` when an argument is complex."""
    name = function.__name__.rstrip("_")
    real = WORDS.get(name)

    def word(*args):
        if any(isinstance(a, Complex) for a in args):
            like = next(a for a in args if isinstance(a, Complex))
            return function(*(as_complex(a, like) for a in args))
        return real(*args)

    word.__name__ = name
    WORDS[name] = word
    return function


def _is_infinite(x):
    return abs_(x) == inf


def _scaled_exp(x, re, im):
    """exp(x) * (re, im) for |re|, |im| <= 1, without overflow of exp(x) alone."""
    large = x > (80.0 if x.type == "f32" else 700.0)
    e = _exp(select(large, x - 40.0, x))
    back = select(large, const(math.exp(40.0), x.type), 1.0)
    return e * re * back, e * im * back


@for_complex
def exp(z):
    x, y = z.re, z.im
    re, im = _scaled_exp(x, _cos(y), _sin(y))
    im = select(y == 0, y, im)
    # exp(-inf) is 0 whatever the angle; exp(inf) with no angle is infinite
    bad = _is_infinite(y) | (y != y)
    zero, infinite = const(0.0, x.type), const(inf, x.type)
    re = select(bad & (x == -inf), zero, select(bad & (x == inf), infinite, re))
    im = select(bad & (x == -inf), _copysign(zero, y), im)
    return Complex(re, im)


@for_complex
def exp2(z):
    ln2 = math.log(2)
    return exp(Complex(z.re * ln2, z.im * ln2))


@for_complex
def expm1(z):
    half = _sin(z.im * 0.5)
    re = _fma(_expm1(z.re), _cos(z.im), -2.0 * half * half)
    im = _scaled_exp(z.re, const(1.0, z.re.type), _sin(z.im))[1]
    return Complex(re, select(z.im == 0, z.im, im))


def _log_abs(x, y):
    """log(hypot(x, y)), accurate also where the absolute value is near 1."""
    a, b = abs_(x), abs_(y)
    swap = a < b
    big, small = select(swap, b, a), select(swap, a, b)
    far, shift, steps = (2.0**40, 2.0**80, 80) if x.type == "f32" else (2.0**400, 2.0**600, 600)
    up, down = big < 1 / far, big > far
    scale = select(up, const(shift, x.type), select(down, const(1 / shift, x.type), 1.0))
    more = select(up, const(-2.0 * steps, x.type), select(down, const(2.0 * steps, x.type), 0.0))
    p, p_low = two_product(big * scale, big * scale)
    q, q_low = two_product(small * scale, small * scale)
    s, s_low = fast_two_sum(p, q)
    result = 0.5 * log_sum(s, s_low + (p_low + q_low), "e", more)
    result = select(s > 0, result, const(-inf, x.type))
    result = select(x != x, x, select(y != y, y, result))
    return select(_is_infinite(x) | _is_infinite(y), const(inf, x.type), result)


@for_complex
def log(z):
    return Complex(_log_abs(z.re, z.im), _atan2(z.im, z.re))


def _log_in_base(z, scale):
    w = log(z)
    return Complex(w.re * scale, w.im * scale)


@for_complex
def log2(z):
    return _log_in_base(z, 1 / math.log(2))


@for_complex
def log10(z):
    return _log_in_base(z, 1 / math.log(10))


@for_complex
def log1p(z):
    # |1 + z|^2 = 1 + (x (2 + x) + y^2): near z = 0 the 1 must not be added first
    x, y = z.re, z.im
    u = x + 1.0
    near = 0.5 * mathlib.log1p(_fma(x, x + 2.0, y * y))
    close = (abs_(x) < 0.5) & (abs_(y) < 0.5)
    return Complex(select(close, near, _log_abs(u, y)), _atan2(y, u))


@for_complex
def sqrt(z):
    x, y = z.re, z.im
    a, b = abs_(x), abs_(y)
    # halve or lift extreme values; the factor is a power of four
    big = (a > 2.0**120) | (b > 2.0**120) if x.type == "f32" else (a > 2.0**1000) | (b > 2.0**1000)
    low = 2.0**-100 if x.type == "f32" else 2.0**-900
    tiny = (a < low) & (b < low)
    lift = 2.0**60 if x.type == "f32" else 2.0**200
    scale = select(big, const(2.0**-4, x.type), select(tiny, const(lift, x.type), 1.0))
    back = select(big, const(4.0, x.type), select(tiny, const(lift**-0.5, x.type), 1.0))
    a, b = a * scale, b * scale
    t = _sqrt(0.5 * (a + mathlib.hypot(a, b)))
    other = select(t == 0, b, 0.5 * b / t) * back
    t = t * back
    right = ~(x < 0)
    re, im = select(right, t, other), select(right, other, t)
    im = _copysign(im, y)
    re = select(_is_infinite(y), const(inf, x.type), re)
    im = select(_is_infinite(y), y, im)
    # an infinite real part with a finite imaginary one
    flat = _is_infinite(x) & (b < inf)
    re = select(flat, select(x > 0, const(inf, x.type), 0.0), re)
    im = select(flat, _copysign(select(x > 0, const(0.0, x.type), inf), y), im)
    return Complex(re, im)


@for_complex
def rsqrt(z):
    return 1.0 / sqrt(z)


@for_complex
def reciprocal(z):
    return Complex(const(1.0, z.re.type), const(0.0, z.re.type)) / z


@for_complex
def sigmoid(z):
    return reciprocal(exp(-z) + 1.0)


@for_complex
def sinh(z):
    x, y = z.re, z.im
    s, c = _sin(y), _cos(y)
    far = abs_(x) > (80.0 if x.type == "f32" else 700.0)
    # far out sinh and cosh are exp / 2
    re_far, im_far = _scaled_exp(abs_(x), 0.5 * c, 0.5 * s)
    re = select(far, _copysign(const(1.0, x.type), x) * re_far, _sinh(x) * c)
    im = select(far, im_far, _cosh(x) * s)
    bad = _is_infinite(y) | (y != y)
    re = select(bad & (x == 0), x, select(bad & _is_infinite(x), const(inf, x.type), re))
    return Complex(re, select(y == 0, y, im))


@for_complex
def cosh(z):
    x, y = z.re, z.im
    s, c = _sin(y), _cos(y)
    far = abs_(x) > (80.0 if x.type == "f32" else 700.0)
    re_far, im_far = _scaled_exp(abs_(x), 0.5 * c, 0.5 * s)
    re = select(far, re_far, _cosh(x) * c)
    im = select(far, _copysign(const(1.0, x.type), x) * im_far, _sinh(x) * s)
    bad = _is_infinite(y) | (y != y)
    re = select(bad & _is_infinite(x), const(inf, x.type), re)
    quiet = (y == 0) | ((x == 0) & bad)
    zero = _copysign(const(0.0, x.type), x) * _copysign(const(1.0, x.type), y)
    zero = select(bad, const(0.0, x.type), select(x != x, y, zero))
    return Complex(re, select(quiet, zero, im))


def _turned(function):
    """f(i z) / i: how sin, tan, asinh and atan follow from their sisters, which are all odd."""

    def word(z):
        w = function(Complex(z.im, z.re))
        return Complex(w.im, w.re)

    return word


@for_complex
def sin(z):
    return _turned(sinh)(z)


@for_complex
def cos(z):
    return cosh(Complex(-z.im, z.re))


@for_complex
def tanh(z):
    x, y = z.re, z.im
    limit = 15.0 if x.type == "f32" else 25.0
    far = abs_(x) > limit
    t = _tan(y)
    beta = _fma(t, t, 1.0)
    s = _sinh(select(far, const(1.0, x.type), x))
    rho = _sqrt(_fma(s, s, 1.0))
    bottom = _fma(beta * s, s, 1.0)
    # at the poles of tan both parts are limits
    re = select(_is_infinite(t), rho / s, beta * rho * s / bottom)
    im = select(_is_infinite(t), 1.0 / t, t / bottom)
    e = _exp(-2.0 * abs_(x))
    re = select(far, _copysign(const(1.0, x.type), x), re)
    im = select(far, 4.0 * _sin(y) * _cos(y) * e, im)
    # without an angle there is a limit only at infinity
    bad, limit = ~(abs_(y) < inf), _is_infinite(x)
    re = select(bad & ~limit, const(nan, x.type), re)
    im = select(bad & limit, _copysign(const(0.0, x.type), y), im)
    return Complex(select(x == 0, x, re), select(y == 0, y, im))


@for_complex
def tan(z):
    return _turned(tanh)(z)


def _roots(z):
    """sqrt(1 - z) and sqrt(1 + z); the sign of a zero imaginary part survives."""
    return sqrt(Complex(1.0 - z.re, -z.im)), sqrt(Complex(1.0 + z.re, z.im))


@for_complex
def asin(z):
    a, b = _roots(z)
    re = _atan2(z.re, a.re * b.re - a.im * b.im)
    im = _asinh(a.re * b.im - a.im * b.re)
    huge = _log_of_huge(z)
    far = huge[0]
    re = select(far, _copysign(_atan2(abs_(z.re), abs_(z.im)), z.re), re)
    re = select(z.re == 0, z.re, re)
    return Complex(re, _copysign(select(far, huge[1], im), z.im))


def _log_of_huge(z):
    """Where products of square roots would overflow, and log(2 |z|) for there."""
    limit = 2.0**60 if z.re.type == "f32" else 2.0**500
    far = (abs_(z.re) > limit) | (abs_(z.im) > limit)
    return far, _log_abs(z.re, z.im) + math.log(2)


@for_complex
def acos(z):
    a, b = _roots(z)
    re = 2.0 * _atan2(a.re, b.re)
    im = _asinh(b.re * a.im - b.im * a.re)
    far, log_far = _log_of_huge(z)
    re = select(far, _atan2(abs_(z.im), z.re), re)
    re = select(z.re == 0, const(math.pi / 2, z.re.type), re)
    im = _copysign(select(far, log_far, im), -z.im)
    return Complex(re, select(im == 0, const(0.0, im.type), im))


@for_complex
def acosh(z):
    # acosh(z) = +-i acos(z), with the real part positive
    w = acos(z)
    return Complex(abs_(w.im), _copysign(w.re, z.im))


@for_complex
def asinh(z):
    return _turned(asin)(z)


@for_complex
def atanh(z):
    x, y = z.re, z.im
    a, b = abs_(x), abs_(y)
    limit = 2.0**60 if x.type == "f32" else 2.0**500
    far = (a > limit) | (b > limit)
    u = 1.0 - a
    # log of |1 + z|^2 / |1 - z|^2, as 1 + 4x / |1 - z|^2
    re = 0.25 * mathlib.log1p(4.0 * a / _fma(u, u, b * b))
    h = mathlib.hypot(x * (1 / limit), y * (1 / limit))
    re_far = (a / limit) / h / h * (1 / limit)
    re_far = select(_is_infinite(x) | _is_infinite(y), const(0.0, x.type), re_far)
    im = 0.5 * _atan2(2.0 * y, _fma(u, 1.0 + a, -(y * y)))
    quarter = _copysign(const(math.pi / 2, x.type), y)
    re = select(x == 0, x, _copysign(select(far, re_far, re), x))
    return Complex(re, select(y != y, y, select(far, quarter, im)))


@for_complex
def atan(z):
    return _turned(atanh)(z)


@for_complex
def pow(a, b):
    w = exp(b * log(a))
    zero = (a.re == 0) & (a.im == 0)
    none = (b.re == 0) & (b.im == 0)
    # 0 ** b: 0 to the right of the imaginary axis, and no number elsewhere
    edge = select(b.re > 0, const(0.0, a.re.type), const(nan, a.re.type))
    re = select(none, const(1.0, a.re.type), select(zero, edge, w.re))
    return Complex(re, select(none, const(0.0, a.re.type), select(zero, edge, w.im)))


@for_complex
def sign(z):
    """z / |z|, and 0 for 0."""
    size = mathlib.hypot(z.re, z.im)
    size = select(size == inf, const(nan, size.type), size)
    zero = size == 0
    return Complex(select(zero, size, z.re / size), select(zero, size, z.im / size))


@for_complex
def angle(z):
    return _atan2(z.im, z.re)
