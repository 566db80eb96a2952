"""Bessel functions: i0 to i1e, J, Y, I and K of orders 0 and 1, spherical j0, and Airy's Ai.

Each is a polynomial (times what makes the function smooth) on a first interval and another one in
the reciprocal argument beyond it; the fits are in `bessel_fits.py`. Near the zeros of an
oscillating function the error is small beside its amplitude, not beside its value.
"""

import math

from flambeau.codegen import bessel_fits as fits
from flambeau.codegen.mathlib import at_least, at_most, exp, horner, is_negative, log
from flambeau.codegen.scalar import abs_, const, select, spelled
from flambeau.codegen.scalar import copysign as _copysign
from flambeau.codegen.scalar import fma as _fma
from flambeau.codegen.scalar import sqrt as _sqrt
from flambeau.codegen.triglib import cos, sin

inf, nan = math.inf, math.nan


def _fit(table, x, low, high):
    """The fit at x, which lies between low and high."""
    v = _fma(x, 2 / (high - low), -(high + low) / (high - low))
    return horner(v, table[x.type])


# -- I and K -------------------------------------------------------------------------------------


@spelled
def i0e(x):
    a = abs_(x)
    small = _fit(fits.I0E_SMALL, at_most(a, 8.0), 0.0, 8.0)
    b = at_least(a, 8.0)
    large = _fit(fits.I0E_LARGE, 8.0 / b, 0.0, 1.0) / _sqrt(b)
    return select(a < 8.0, small, large)


@spelled
def i1e(x):
    a = abs_(x)
    small = x * _fit(fits.I1E_SMALL, at_most(a, 8.0), 0.0, 8.0)
    b = at_least(a, 8.0)
    large = _fit(fits.I1E_LARGE, 8.0 / b, 0.0, 1.0) / _sqrt(b)
    return select(a < 8.0, small, _copysign(large, x))


def _unscaled(scaled, x):
    """scaled * exp(|x|), in two steps because the exponential may overflow first."""
    e = exp(0.5 * abs_(x))
    return scaled * e * e


@spelled
def i0(x):
    return _unscaled(i0e(x), x)


@spelled
def i1(x):
    return _unscaled(i1e(x), x)


@spelled
def modified_bessel_i0(x):
    return i0(x)


@spelled
def modified_bessel_i1(x):
    return i1(x)


def _k_small(x, order):
    """K on (0, 2]: a logarithm times I, and a polynomial."""
    x = at_most(x, 2.0)
    z = x * x
    logarithm = log(0.5 * x)
    if order == 0:
        grown = _fit(fits.I0_SQUARE, z, 0.0, 4.0)
        return _fma(-logarithm, grown, _fit(fits.K0_SMALL, z, 0.0, 4.0))
    grown = x * _fit(fits.I1_SQUARE, z, 0.0, 4.0)
    return _fma(logarithm, grown, _fit(fits.K1_SMALL, z, 0.0, 4.0) / x)


def _k_large(x, order):
    """exp(x) * K on [2, inf)."""
    b = at_least(x, 2.0)
    table = fits.K0E_LARGE if order == 0 else fits.K1E_LARGE
    return _fit(table, 2.0 / b, 0.0, 1.0) / _sqrt(b)


def _k_edges(x, y):
    y = select(x == 0, const(inf, x.type), y)
    return select(x < 0, const(nan, x.type), y)


def _k(x, order):
    # in two steps: exp(-x) is denormal, and coarse, before the product is
    e = exp(-0.5 * at_least(x, 2.0))
    return _k_edges(x, select(x <= 2.0, _k_small(x, order), _k_large(x, order) * e * e))


def _scaled_k(x, order):
    near = _k_small(x, order) * exp(at_most(x, 2.0))
    return _k_edges(x, select(x <= 2.0, near, _k_large(x, order)))


@spelled
def modified_bessel_k0(x):
    return _k(x, 0)


@spelled
def modified_bessel_k1(x):
    return _k(x, 1)


@spelled
def scaled_modified_bessel_k0(x):
    return _scaled_k(x, 0)


@spelled
def scaled_modified_bessel_k1(x):
    return _scaled_k(x, 1)


# -- J and Y -------------------------------------------------------------------------------------

# squares of the zeros of J0 and J1 in (0, 5]
_J0_ZEROS = (5.783185962946784, 30.471262343662087)
_J1_ZERO = 14.681970642123893


def _j_small(x, order):
    """J on [0, 5]; the zeros inside are factors."""
    z = at_most(x * x, 25.0)
    if order == 0:
        return (z - _J0_ZEROS[0]) * (z - _J0_ZEROS[1]) * _fit(fits.J0_SMALL, z, 0.0, 25.0)
    return x * (z - _J1_ZERO) * _fit(fits.J1_SMALL, z, 0.0, 25.0)


def _y_small(x, order):
    """Y on (0, 5]."""
    z = at_most(x * x, 25.0)
    logarithm = log(x)
    if order == 0:
        rest = _fit(fits.Y0_SMALL, z, 0.0, 25.0)
        return _fma((2 / math.pi) * logarithm, _j_small(x, 0), rest)
    rest = x * _fit(fits.Y1_SMALL, z, 0.0, 25.0)
    return _fma(2 / math.pi, _fma(logarithm, _j_small(x, 1), -1.0 / x), rest)


def _hankel(x, order):
    """J and Y beyond 5, from P, Q and an angle, whose eighth of a turn is added by hand."""
    b = at_least(x, 5.0)
    r = 5.0 / b
    u = r * r
    p = _fit(fits.P0 if order == 0 else fits.P1, u, 0.0, 1.0)
    q = _fit(fits.Q0 if order == 0 else fits.Q1, u, 0.0, 1.0) / b
    s, c = sin(b), cos(b)
    # cos and sin of x - pi/4 (order 0) or x - 3 pi/4 (order 1), times sqrt(2)
    cosine, sine = (c + s, s - c) if order == 0 else (s - c, -(s + c))
    size = _sqrt(1 / math.pi / b)
    return size * _fma(p, cosine, -(q * sine)), size * _fma(p, sine, q * cosine)


@spelled
def bessel_j0(x):
    a = abs_(x)
    return select(a <= 5.0, _j_small(a, 0), _hankel(a, 0)[0])


@spelled
def bessel_j1(x):
    a = abs_(x)
    y = select(a <= 5.0, _j_small(a, 1), _hankel(a, 1)[0])
    return select(is_negative(x), -y, y)


def _y(x, order):
    y = select(x <= 5.0, _y_small(x, order), _hankel(x, order)[1])
    y = select(x == 0, const(-inf, x.type), y)
    return select(x < 0, const(nan, x.type), y)


@spelled
def bessel_y0(x):
    return _y(x, 0)


@spelled
def bessel_y1(x):
    return _y(x, 1)


@spelled
def spherical_bessel_j0(x):
    """sin(x) / x"""
    y = select(abs_(x) == inf, const(0.0, x.type), sin(x) / x)
    return select(x == 0, const(1.0, x.type), y)


# -- Airy ----------------------------------------------------------------------------------------

_AIRY_LEAST = 2 / 3 * 3.5**1.5


@spelled
def airy_ai(x):
    middle = _fit(fits.AIRY_MIDDLE, at_least(at_most(x, 2.0), -3.5), -3.5, 2.0)
    a = at_least(abs_(x), 2.0)
    root = _sqrt(a)
    t = (2 / 3) * a * root
    quarter = _sqrt(root)
    r = 1.0 / t
    e = exp(-0.5 * t)
    right = _fit(fits.AIRY_LARGE, r, 0.0, 0.5304) * e * (0.5 / math.sqrt(math.pi)) / quarter * e
    u = at_most(_AIRY_LEAST * r, 1.0)
    f = _fit(fits.AIRY_F, u * u, 0.0, 1.0)
    g = _fit(fits.AIRY_G, u * u, 0.0, 1.0) * r
    s, c = sin(t), cos(t)
    # sin and cos of t + pi/4
    wave = (s + c) * f - (c - s) * g
    left = math.sqrt(0.5 / math.pi) * wave / quarter
    y = select(x > 2.0, right, select(x < -3.5, left, middle))
    return select(abs_(x) == inf, const(nan, x.type), y)
