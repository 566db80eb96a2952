"""How random numbers move with their parameters: gamma_slope and beta_slope.

A sample x with cdf F(x; a) stays at its quantile when a changes, so dx/da = -(dF/da) / (dF/dx):
implicit reparametrisation. F and dF/da come from the same power series of positive terms; with each
term goes the sum of reciprocals that its logarithmic derivative adds. What cancels is as rare as
the tail that a sample comes from. Both words work in f64 whatever they are given.
"""

import math

from flambeau.codegen.gammalib import _STIRLING, _TEMME, _log1p_less, digamma, in_double
from flambeau.codegen.mathlib import exp, horner, log
from flambeau.codegen.scalar import abs_, const, repeat_while, select, spelled
from flambeau.codegen.scalar import copysign as _copysign
from flambeau.codegen.scalar import fma as _fma
from flambeau.codegen.scalar import sqrt as _sqrt

_TEMME_SLOPES = tuple(tuple(n * c for n, c in enumerate(row))[1:] for row in _TEMME)


def _weighed_series(wanted, ratio, gain):
    """The sums of c_n and of c_n h_n, for c_n+1 = c_n ratio(n) and h_n+1 = h_n + gain(n)."""
    zero, one = const(0.0, "f64"), const(1.0, "f64")

    def going(_n, term, _h, total, _weighed):
        return term > total * 2.0**-54

    def step(_, n, term, h, total, weighed):
        term, h = term * ratio(n), h + gain(n)
        return n + 1.0, term, h, total + term, _fma(term, h, weighed)

    first = select(wanted, one, zero)
    return repeat_while(10000, going, step, zero, first, zero, first, zero)[3:]


def _gamma_by_series(a, x, wanted):
    # F = x^a e^-x / gamma(a + 1) * sum of x^n / ((a + 1) ... (a + n))
    total, weighed = _weighed_series(
        wanted, lambda n: x / (a + 1.0 + n), lambda n: 1.0 / (a + 1.0 + n)
    )
    return -(x / a) * ((log(x) - digamma(a + 1.0)) * total - weighed)


def _gamma_by_expansion(a, x):
    """Temme's uniform expansion of F, differentiated; see _igamma_uniform in gammalib.py."""
    r = 1.0 / a
    u = (x - a) * r
    eta = _copysign(_sqrt(-2.0 * _log1p_less(u)), u)
    ratio = select(abs_(u) < 1e-7, 1.0 + u / 3.0, u / eta)
    rest, slope = const(0.0, "f64"), const(0.0, "f64")
    for k in reversed(range(len(_TEMME))):
        value = horner(eta, _TEMME[k])
        rest = _fma(rest, r, value)
        slope = _fma(slope, r, -r * (ratio * horner(eta, _TEMME_SLOPES[k]) + k * value))
    scaled_gamma = exp(r * horner(r * r, _STIRLING["f64"]))
    change = 0.5 * eta - ratio - (log(x * r) - 0.5 * r) * rest - slope
    return -x * r * scaled_gamma * change


@spelled
@in_double
def gamma_slope(a, x):
    """dx/da for a sample x of the gamma distribution with shape a and scale 1."""
    near = (a > 200.0) & (abs_(x - a) < 0.3 * a)
    inside = (a > 0) & (a < math.inf) & (x > 0) & (x < math.inf)
    return select(near, _gamma_by_expansion(a, x), _gamma_by_series(a, x, inside & ~near))


@spelled
@in_double
def beta_slope(x, a, total):
    """dx/da / (1 - x) for a sample x of the beta distribution with a and b = total - a.

    That is how far the first of several Dirichlet components moves, over how much is left for the
    others.
    """
    b = total - a
    # below the mean the series in x, above it its mirror image in 1 - x; but neither near its end,
    # where it hardly converges
    low = ((x * total <= a) | (x < 0.1)) & (x < 0.9)
    first, z = select(low, a, b), select(low, x, 1.0 - x)
    mean_size = a * b / total
    near = mean_size > 1e5
    inside = (a > 0) & (b > 0) & (x > 0) & (x <= 1) & ~near

    # F = x^a (1-x)^b / (a B(a, b)) * sum of (a+b)_n / (a+1)_n x^n
    def gain(n):
        return 1.0 / (total + n) - select(low, 1.0 / (a + 1.0 + n), const(0.0, "f64"))

    sums = _weighed_series(inside, lambda n: (total + n) / (first + 1.0 + n) * z, gain)
    start = log(x) + digamma(total) - digamma(select(low, a + 1.0, a))
    slope = x / first * (start * sums[0] + sums[1])
    slope = select(low, -slope, slope)

    # so many that the distribution is normal: mean and width move
    mean = a / total
    widening = 0.5 * (1.0 / a - 2.0 / total - 1.0 / (total + 1.0))
    wide = (b / (total * total) + (x - mean) * widening) / (1.0 - x)
    return select(near, wide, select(x > 0, slope, const(0.0, "f64")))
