"""Special functions: the error function, gamma and its family, Bessel functions, polynomials.

Rows are called as PyTorch's operators are (`special_i0e` is public as `torch.special.i0e`; see
flambeau/special). The words are spelled in codegen/errorlib.py, gammalib.py and bessellib.py.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau.codegen import scalar as m
from flambeau.ops.elementary import sgn_of
from flambeau.ops.rules import floating, promoted
from flambeau.ops.support import INTEGRAL, not_implemented_derivative, refuses
from flambeau.ops.table import Count, composite, pointwise, public

SQRT_PI = math.sqrt(math.pi)
SPECIAL = "function out"  # functions of torch.special are not methods

# -- the error function and the normal distribution ------------------------------------------------


@pointwise(
    dtype=floating,
    dtypes=refuses("erf_vml_cpu", "complex"),
    namespace="special",
    grad=lambda g, input: 2 / SQRT_PI * m.exp(-(input * input)) * g,
)
def erf(input):
    """Error function of each element."""
    return m.erf(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("erfc_vml_cpu", "complex"),
    namespace="special",
    grad=lambda g, input: -2 / SQRT_PI * m.exp(-(input * input)) * g,
)
def erfc(input):
    """1 - erf(input), precise where that is small."""
    return m.erfc(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("erfinv_vml_cpu", "complex"),
    namespace="special",
    domain=(-1, 1),
    grad=lambda g, out: 0.5 * SQRT_PI * m.exp(out * out) * g,
)
def erfinv(input):
    """Inverse of the error function."""
    return m.erfinv(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("erfcx_cpu", "half complex"),
    variants=SPECIAL,
    grad=lambda g, input, out: (2 * input * out - 2 / SQRT_PI) * g,
)
def special_erfcx(input):
    """exp(input ** 2) * erfc(input)."""
    return m.erfcx(input)


@composite(variants=SPECIAL)
def special_ndtr(input):
    """The distribution function of the standard normal distribution."""
    return (1 + (input * math.sqrt(0.5)).erf()) * 0.5


@pointwise(
    dtype=floating,
    dtypes=refuses("ndtri_cpu", "half complex"),
    variants=SPECIAL,
    domain=(0, 1),
    grad=lambda g, out: g * math.sqrt(2 * math.pi) * m.exp(out * out * 0.5),
)
def special_ndtri(input):
    """Inverse of the distribution function of the standard normal distribution."""
    return m.ndtri(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("log_ndtr_cpu", "half complex"),
    variants=SPECIAL,
    grad=lambda g, input: g / m.erfcx(input * -math.sqrt(0.5)) * math.sqrt(2 / math.pi),
)
def special_log_ndtr(input):
    """Logarithm of the distribution function of the standard normal distribution."""
    return m.log_ndtr(input)


# -- logarithms and entropy ------------------------------------------------------------------------


def _logit_gradient(g, input, eps):
    slope = g / (input * (1 - input))
    if eps is None:
        return m.where((input >= 0) & (input <= 1), slope, math.nan)
    return m.where((input < eps) | (input > 1 - eps), 0, slope)


@pointwise(
    dtype=floating,
    dtypes=refuses("logit_cpu", "complex"),
    fits=True,
    namespace="special",
    domain=(0, 1),
    grad=_logit_gradient,
)
def logit(input, eps: float = None):
    """log(x / (1 - x)), with x held between eps and 1 - eps if eps is given."""
    if eps is not None:
        input = m.where(input < eps, eps, m.where(input > 1 - eps, 1 - eps, input))
    return m.log(input / (1 - input))


def _xlogy(x, y, log):
    value = x * log(y)
    return m.where(y != y, y, m.where(x == 0, 0, value))


def _overloads(name):
    """Both tensors, the second only, the first only."""

    def node(tensors, _):
        return name + ("0" if len(tensors) == 2 else "2" if tensors[0] == "input" else "1")

    return node


@pointwise(
    dtype=floating,
    dtypes=refuses("xlogy_cpu", "complex"),
    namespace="special",
    first_scalar=True,
    node=_overloads("XlogyBackward"),
    grad=dict(
        input=lambda g, input, other: m.where((input == 0) & (other <= 0), 0, g * m.log(other)),
        other=lambda g, input, other: g * input / other,
    ),
)
def xlogy(input, other):
    """input * log(other), and 0 where input is 0."""
    return _xlogy(input, other, m.log)


@pointwise(
    dtype=floating,
    dtypes=refuses("xlog1py_cpu", "complex"),
    variants=SPECIAL,
    first_scalar=True,
    node=_overloads("SpecialXlog1PyBackward"),
    grad=dict(
        input=lambda g, input, other: m.where((input == 0) & (other <= -1), 0, g * m.log1p(other)),
        other=lambda g, input, other: g * input / (other + 1),
    ),
)
def special_xlog1py(input, other):
    """input * log1p(other), and 0 where input is 0."""
    return _xlogy(input, other, m.log1p)


@pointwise(
    dtype=floating,
    dtypes=refuses("entr_cpu", "complex"),
    variants=SPECIAL,
    domain=(0, math.inf),
    grad=lambda g, input: g * -(m.log(input) + 1),
)
def special_entr(input):
    """The entropy -x log(x): 0 at zero, minus infinity below."""
    value = m.where(input > 0, -input * m.log(input), -math.inf)
    return m.where(input != input, input, m.where(input == 0, 0, value))


# -- gamma -----------------------------------------------------------------------------------------


@pointwise(
    dtype=floating,
    dtypes=refuses("lgamma_vml_cpu", "complex"),
    grad=lambda g, input: g * m.digamma(input),
)
def lgamma(input):
    """Logarithm of the absolute value of the gamma function."""
    return m.lgamma(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("digamma", "complex"),
    namespace="special",
    grad=lambda g, input: g * m.polygamma(1, input),
)
def digamma(input):
    """Logarithmic derivative of the gamma function."""
    return m.digamma(input)


def _check_order(bound):
    if not hasattr(bound["input"], "dtype"):
        kind = errors.kind_name(bound["input"])
        raise TypeError(f"polygamma(): argument 'input' (position 2) must be Tensor, not {kind}")
    if bound["n"] < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if bound["n"] == 1 and bound["input"].dtype.is_complex:
        raise errors.not_implemented("trigamma", bound["input"].dtype)


@pointwise(
    dtype=floating,
    dtypes=refuses("polygamma", "complex"),
    namespace="special",
    variants="function out",
    prepare=_check_order,
    grad=dict(input=lambda g, n, input: g * m.polygamma(n + 1, input)),
)
def polygamma(n: Count, input):
    """The n-th derivative of the digamma function."""
    if n == 0:
        return m.digamma(input)
    return m.trigamma(input) if n == 1 else m.polygamma(n, input)


def _mvlgamma_slope(g, input, p):
    return g * _over_halves(input, p, "digamma")


def _over_halves(input, p, name):
    """The sum of a function at input - j / 2 for j below p."""
    if p > _FEW_HALVES:  # all at once: what cannot be kept is refused at once, too
        halves = public("arange")(p, dtype=input.lgamma().dtype, device=input.device) / 2
        return getattr(input.unsqueeze(-1) - halves, name)().sum(-1)
    total = getattr(input, name)()
    for j in range(1, p):
        total = total + getattr(input - j / 2, name)()
    return total


_FEW_HALVES = 64


@composite(grad=_mvlgamma_slope)
def mvlgamma(input, p: int):
    """Logarithm of the multivariate gamma function of dimension p."""
    if input.dtype is d.bool_:
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input.dtype.is_complex:
        raise errors.not_implemented("arange_cpu", input.dtype)
    return _over_halves(input, p, "lgamma") + p * (p - 1) / 4 * math.log(math.pi)


def _igamma_slope(g, input, other):
    return g * m.exp((input - 1) * m.log(other) - other - m.lgamma(input))


@pointwise(
    dtype=promoted,
    dtypes=refuses("igamma_cpu", INTEGRAL + " complex"),
    numbers=False,
    domain=(0, math.inf),
    grad=dict(input=not_implemented_derivative("igamma"), other=_igamma_slope),
)
def igamma(input, other):
    """The regularised lower incomplete gamma function."""
    return m.igamma(input, other)


@pointwise(
    dtype=promoted,
    dtypes=refuses("igammac_cpu", INTEGRAL + " complex"),
    numbers=False,
    domain=(0, math.inf),
    grad=dict(
        input=not_implemented_derivative("igammac"),
        other=lambda g, input, other: -_igamma_slope(g, input, other),
    ),
)
def igammac(input, other):
    """The regularised upper incomplete gamma function."""
    return m.igammac(input, other)


def _zeta_slope(g, input, other):
    return g * -input * m.zeta(input + 1, other)


@pointwise(
    dtype=floating,
    dtypes=refuses("zeta_cpu", "half complex"),
    variants=SPECIAL,
    first_scalar=True,
    domain=(1, math.inf),
    node=_overloads("SpecialZetaBackward"),
    grad=dict(input=not_implemented_derivative("special_zeta"), other=_zeta_slope),
)
def special_zeta(input, other):
    """The Hurwitz zeta function: the sum of (k + other) ** -input over k."""
    return m.zeta(input, other)


# -- Bessel functions ------------------------------------------------------------------------------


@pointwise(
    dtype=floating, dtypes=refuses("i0_vml_cpu", "complex"), grad=lambda g, input: g * m.i1(input)
)
def i0(input):
    """Modified Bessel function of the first kind, order 0."""
    return m.i0(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("i0e_cpu", "complex"),
    variants=SPECIAL,
    grad=lambda g, input, out: g * (m.i1e(input) - sgn_of(input) * out),
)
def special_i0e(input):
    """i0 times exp(-|input|)."""
    return m.i0e(input)


def _i1_gradient(g, input, out):
    flat = ~((input > 0) | (input < 0))  # 0, and nan as in PyTorch
    safe = m.where(flat, 1, input)
    return m.where(flat, 0.5 * g, g * (m.i0(safe) - out / safe))


@pointwise(dtype=floating, dtypes=refuses("i1_cpu", "complex"), variants=SPECIAL, grad=_i1_gradient)
def special_i1(input):
    """Modified Bessel function of the first kind, order 1."""
    return m.i1(input)


def _i1e_gradient(g, input, out):
    flat = ~((input > 0) | (input < 0))
    safe = m.where(flat, 1, input)
    return m.where(flat, 0.5 * g, g * (m.i0e(safe) - out * (sgn_of(safe) + 1 / safe)))


@pointwise(
    dtype=floating, dtypes=refuses("i1e_cpu", "complex"), variants=SPECIAL, grad=_i1e_gradient
)
def special_i1e(input):
    """i1 times exp(-|input|)."""
    return m.i1e(input)


_PLAIN = {  # functions without a derivative in PyTorch
    "airy_ai": "The Airy function Ai.",
    "bessel_j0": "Bessel function of the first kind, order 0.",
    "bessel_j1": "Bessel function of the first kind, order 1.",
    "bessel_y0": "Bessel function of the second kind, order 0.",
    "bessel_y1": "Bessel function of the second kind, order 1.",
    "modified_bessel_i0": "Modified Bessel function of the first kind, order 0.",
    "modified_bessel_i1": "Modified Bessel function of the first kind, order 1.",
    "modified_bessel_k0": "Modified Bessel function of the second kind, order 0.",
    "modified_bessel_k1": "Modified Bessel function of the second kind, order 1.",
    "scaled_modified_bessel_k0": "modified_bessel_k0 times exp(input).",
    "scaled_modified_bessel_k1": "modified_bessel_k1 times exp(input).",
    "spherical_bessel_j0": "Spherical Bessel function of the first kind, order 0: sin(x) / x.",
}


def _plain_row(name, text):
    word = getattr(m, name)

    def row(input):
        return word(input)

    row.__name__, row.__doc__ = "special_" + name, text
    pointwise(dtype=floating, dtypes=refuses(name + "_cpu", "half complex"), variants=SPECIAL)(row)


for _name, _text in _PLAIN.items():
    _plain_row(_name, _text)


# -- polynomials -----------------------------------------------------------------------------------


def _recurrence(n, first, second, following, known=None, value=None):
    """The n-th of a sequence: first, second, then following(k, last, last but one) from k = 1.

    known: where there is no need to go there step by step, because value is the n-th.
    """

    def going(k, before, last):
        more = (m.cast(k, n.type) < n) & (last == last)
        return more if known is None else more & ~known

    def step(_, k, before, last):
        return k + 1, last, following(m.cast(k, n.type), last, before)

    one = m.const(1, n.type)
    start = m.const(1, "i64"), one * first, one * second
    _, _, last = m.repeat_while(1 << 40, going, step, *start)
    found = last if known is None else m.where(known, value, last)
    found = m.where(n < 1, one * first, found)
    return m.where(n < 0, m.const(0, n.type), found)


_STEPS = 128.0  # of Chebyshev polynomials; those of higher degrees have closed forms
_MANY = float(1 << 22)  # of others; from there on their limits are as good


def _odd(n):
    return n - 2 * m.floor(n / 2) > 0.5


def _chebyshev(second, inside, right, left):
    """inside(angle, n) is the value between -1 and 1, right(n) at 1, left(n) at -1 for even n."""

    def polynomial(x, n):
        known = (n > _STEPS) & (m.abs(x) <= 1)
        end = m.where(_odd(n), -left(n), left(n))
        value = m.where(x == 1, right(n), m.where(x == -1, end, inside(m.acos(x), n)))
        return _recurrence(n, 1, second(x), lambda k, p, q: (x + x) * p - q, known, value)

    return polynomial


def _legendre(x, n):
    angle = m.acos(x)
    known = (n > _MANY) & (m.abs(x) <= 1)
    end = m.where((x < 0) & _odd(n), x, m.abs(x))
    near = m.bessel_j0((n + 0.5) * angle) * m.sqrt(angle / m.sin(angle))
    value = m.where(m.abs(x) == 1, end, near)
    return _recurrence(
        n, 1, x, lambda k, p, q: ((k + k + 1) * x * p - k * q) / (k + 1), known, value
    )


def _laguerre(x, n):
    known = (n > _MANY) & (x >= 0)
    value = m.exp(x / 2) * m.bessel_j0(2 * m.sqrt(x * (n + 0.5)))
    return _recurrence(
        n, 1, 1 - x, lambda k, p, q: ((k + k + (1 - x)) * p - k * q) / (k + 1), known, value
    )


_POLYNOMIALS = {
    "chebyshev_polynomial_t": _chebyshev(
        lambda x: x, lambda a, n: m.cos(n * a), lambda n: n * 0 + 1, lambda n: n * 0 + 1
    ),
    "chebyshev_polynomial_u": _chebyshev(
        lambda x: x + x,
        lambda a, n: m.sin((n + 1) * a) / m.sin(a),
        lambda n: n + 1,
        lambda n: n + 1,
    ),
    "chebyshev_polynomial_v": _chebyshev(
        lambda x: x + x - 1,
        lambda a, n: m.cos((n + 0.5) * a) / m.cos(a / 2),
        lambda n: n * 0 + 1,
        lambda n: n + n + 1,
    ),
    "chebyshev_polynomial_w": _chebyshev(
        lambda x: x + x + 1,
        lambda a, n: m.sin((n + 0.5) * a) / m.sin(a / 2),
        lambda n: n + n + 1,
        lambda n: n * 0 + 1,
    ),
    "hermite_polynomial_h": lambda x, n: _recurrence(
        n, 1, x + x, lambda k, p, q: (x + x) * p - (k + k) * q
    ),
    "hermite_polynomial_he": lambda x, n: _recurrence(n, 1, x, lambda k, p, q: x * p - k * q),
    "laguerre_polynomial_l": _laguerre,
    "legendre_polynomial_p": _legendre,
}


def _shifted(polynomial):
    return lambda x, n: polynomial(x + x - 1, n)


for _letter in "tuvw":
    _name = "chebyshev_polynomial_" + _letter
    _POLYNOMIALS["shifted_" + _name] = _shifted(_POLYNOMIALS[_name])


def _polynomial_row(name, value):
    def row(input, n):
        # degrees are 64-bit integers; what is none counts as negative
        return value(input, m.where(m.abs(n) < 2.0**63, m.trunc(n), -1))

    row.__name__ = "special_" + name
    family, _, letter = name.partition("_polynomial_")
    row.__doc__ = (
        f"{family.replace('_', ' ').capitalize()} polynomial {letter.capitalize()} of degree n."
    )
    facts = dict(dtypes=refuses(name + "_cpu", "half complex"), variants=SPECIAL, first_scalar=True)
    missing = not_implemented_derivative("special_" + name)
    pointwise(dtype=floating, grad=dict(input=missing, n=missing), node="NotImplemented", **facts)(
        row
    )


for _name, _value in _POLYNOMIALS.items():
    _polynomial_row(_name, _value)
