"""Functions of one number that every pocket calculator has: signs, rounding, roots, exponentials,
logarithms, trigonometry, hyperbolic functions; and a few of two numbers.

Derivatives of complex functions use the conjugate of the slope, as PyTorch does. The words
(`m.exp`, ...) are spelled in codegen/mathlib.py and its neighbours.
"""

import math

from flambeau import _dtype as d
from flambeau import errors, return_types
from flambeau.codegen import scalar as m
from flambeau.ops.rules import floating, magnitude, promoted, same
from flambeau.ops.support import INTEGRAL, dtype_of, every, group_of, refuses
from flambeau.ops.table import Count, composite, pointwise

LN2, LN10 = math.log(2), math.log(10)


def nothing(g):
    """The derivative of steps."""
    return 0


# -- signs -----------------------------------------------------------------------------------------

_NEGATED_BOOL = (
    "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
    "mask, use the `~` or `logical_not()` operator instead."
)


@pointwise(
    dtype=promoted,
    aliases="negative",
    grad=lambda g: -g,
    dtypes=refuses("neg_cpu", "wide", bool=(RuntimeError, _NEGATED_BOOL)),
    exact_out=True,
)
def neg(input):
    """The opposite of each element."""
    return -input


@composite(variants="function method")
def positive(input):
    """input itself, unless it is boolean."""
    if input.dtype is d.bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def sgn_of(x):
    """x / |x|, zero for zero, of expressions and tensors."""
    if isinstance(x, m.Complex):
        size = m.abs(x)
        scale = m.where(size == 0, 0, 1 / size)
        return m.Complex(x.re * scale, x.im * scale)
    return _sign(x) if isinstance(x, m.Expr) else x.sgn()


def _sign(x):
    if x.type[0] in "bu":
        return m.cast(x != 0, x.type)
    return m.cast(x > 0, x.type) - m.cast(x < 0, x.type)


@pointwise(
    dtype=magnitude,
    aliases="absolute",
    dtypes=refuses("abs_cpu", "bool wide"),
    grad=lambda g, input: g * sgn_of(input),
    exact_out=True,
)
def abs(input):
    """Absolute value of each element."""
    return m.abs(input)


@pointwise(
    dtype=promoted,
    grad=nothing,
    dtypes=refuses(
        "sign_cpu",
        "wide",
        complex=(
            NotImplementedError,
            "Unlike NumPy, torch.sign is not intended to support complex numbers. "
            "Please use torch.sgn instead.",
        ),
    ),
    exact_out=True,
)
def sign(input):
    """-1, 0 or 1, as each element is negative, zero or positive."""
    return _sign(input)


def _sgn_gradient(g, input, out):
    if isinstance(input, m.Complex) or (not isinstance(input, m.Expr) and input.dtype.is_complex):
        size = m.abs(input)
        turn = m.where(size == 0, 0, 1 / m.where(size == 0, 1, size))
        # only the part of g across the direction of input turns it
        along = real_part_of(m.conj(g) * out)
        return (g - out * along) * turn
    return 0


def real_part_of(x):
    return (
        m.real(x) if isinstance(x, (m.Expr, m.Complex)) else (x.real if x.dtype.is_complex else x)
    )


@pointwise(dtype=promoted, dtypes=refuses("sign_cpu", "wide"), grad=_sgn_gradient, exact_out=True)
def sgn(input):
    """The sign; for complex numbers the number of size one in the same direction."""
    return sgn_of(input)


def _copysign_gradient(g, input, out):
    return m.where(input == 0, 0, g * (out / m.where(input == 0, 1, input)))


@pointwise(
    dtype=floating,
    dtypes=refuses("copysign_cpu", "complex"),
    node=lambda tensors, _: f"CopysignBackward{2 - len(tensors)}",
    grad=dict(input=_copysign_gradient, other=nothing),
)
def copysign(input, other):
    """The size of input with the sign of other."""
    return m.copysign(input, other)


# -- rounding --------------------------------------------------------------------------------------


def _rounding(name):
    text = f"{name} is not supported for complex inputs"
    return refuses(f"{name}_vml_cpu", "bool", complex=(NotImplementedError, text))


@pointwise(dtype=promoted, dtypes=_rounding("floor"), grad=nothing, exact_out=True)
def floor(input):
    """The largest integer that is not larger."""
    return m.floor(input) if m.is_float(input.type) else input


@pointwise(dtype=promoted, dtypes=_rounding("ceil"), grad=nothing, exact_out=True)
def ceil(input):
    """The smallest integer that is not smaller."""
    return m.ceil(input) if m.is_float(input.type) else input


@pointwise(dtype=promoted, dtypes=_rounding("trunc"), aliases="fix", grad=nothing, exact_out=True)
def trunc(input):
    """The integer part."""
    return m.trunc(input) if m.is_float(input.type) else input


@pointwise(
    dtype=promoted,
    dtypes=refuses("round_vml_cpu", "bool complex"),
    grad=nothing,
    overload=lambda bound: "round_decimals" if bound["decimals"] else None,
)
def round(input, *, decimals: Count = 0):
    """The nearest integer (of two, the even one), or the nearest number with so many decimals."""
    return m.rint(input) if m.is_float(input.type) else input


@pointwise(
    dtype=promoted,
    dtypes=refuses("round_cpu", INTEGRAL + " complex"),
    variants="",
    node="RoundBackward1",
    grad=nothing,
)
def round_decimals(input, *, decimals: Count = 0):
    """The nearest number with so many decimals."""
    scale = math.inf if builtin_abs(decimals) > 308 else 10.0 ** builtin_abs(decimals)
    if decimals > 0:
        return m.rint(input * scale) / scale
    return m.rint(input / scale) * scale


def builtin_abs(x):
    return x if x >= 0 else -x


@pointwise(
    dtype=promoted,
    dtypes=refuses("frac_cpu", INTEGRAL + " complex"),
    grad=lambda g: g,
    exact_out=True,
)
def frac(input):
    """What is left of the integer part."""
    return input - m.trunc(input)


def _angles(name):
    return refuses(
        name, "", complex=(RuntimeError, f"{name} is not supported for complex tensors.")
    )


@pointwise(dtype=floating, dtypes=_angles("deg2rad"), grad=lambda g: g * (math.pi / 180))
def deg2rad(input):
    """Degrees to radians."""
    return input * (math.pi / 180)


@pointwise(dtype=floating, dtypes=_angles("rad2deg"), grad=lambda g: g * (180 / math.pi))
def rad2deg(input):
    """Radians to degrees."""
    return input * (180 / math.pi)


def _replacements(x, nan, posinf, neginf):
    low, high = (-3.4028234663852886e38, 3.4028234663852886e38)
    if x.type == "f64":
        low, high = -1.7976931348623157e308, 1.7976931348623157e308
    found = [0.0 if nan is None else nan, high if posinf is None else posinf]
    return [*found, low if neginf is None else neginf]


def _fill_bounds(bound):
    """In half types the largest number is smaller than the one the kernel computes with."""
    dtype = bound["input"].dtype
    if group_of(bound["input"]) == "half":
        most = 65504.0 if dtype is d.float16 else 3.3895313892515355e38
        for name, value in (("posinf", most), ("neginf", -most)):
            if bound[name] is None:
                bound[name] = value


@pointwise(
    dtype=promoted,
    dtypes=refuses("nan_to_num", ""),
    prepare=_fill_bounds,
    grad=lambda g, input: m.where(m.isnan(input) | m.isinf(input), 0, g),
    exact_out="nan_to_num: dtype of out: {got.scalar_name} should be same as input: "
    "{wanted.scalar_name}",
)
def nan_to_num(input, nan: float = None, posinf: float = None, neginf: float = None):
    """input with numbers in place of nan and the infinities."""
    if isinstance(input, m.Complex):
        return m.Complex(*(_finite(x, nan, posinf, neginf) for x in (input.re, input.im)))
    return _finite(input, nan, posinf, neginf) if m.is_float(input.type) else input


def _finite(x, *replacements):
    nan, most, least = _replacements(x, *replacements)
    x = m.where(x != x, nan, x)
    return m.where(x == math.inf, most, m.where(x == -math.inf, least, x))


# -- roots, exponentials, logarithms ---------------------------------------------------------------


@pointwise(
    dtype=floating, dtypes=refuses("reciprocal_cpu", ""), grad=lambda g, out: -g * m.conj(out * out)
)
def reciprocal(input):
    """One divided by each element."""
    return 1 / input


@pointwise(
    dtype=floating,
    dtypes=refuses("sqrt_vml_cpu", ""),
    domain=(0, math.inf),
    grad=lambda g, out: g / (2 * m.conj(out)),
)
def sqrt(input):
    """Square root of each element."""
    return m.sqrt(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("rsqrt_cpu", ""),
    domain=(0, math.inf),
    grad=lambda g, out: -0.5 * g * m.conj(out * out * out),
)
def rsqrt(input):
    """Reciprocal of the square root of each element."""
    return 1 / m.sqrt(input)


@pointwise(dtype=floating, dtypes=refuses("exp_vml_cpu", ""), grad=lambda g, out: g * m.conj(out))
def exp(input):
    """e to the power of each element."""
    return m.exp(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("exp2", ""),
    namespace="special",
    grad=lambda g, out: g * m.conj(out) * LN2,
)
def exp2(input):
    """Two to the power of each element."""
    return m.exp2(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("expm1_vml_cpu", ""),
    namespace="special",
    grad=lambda g, out: g * (m.conj(out) + 1),
)
def expm1(input):
    """exp(input) - 1, precise near zero."""
    return m.expm1(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("log_vml_cpu", ""),
    domain=(0, math.inf),
    grad=lambda g, input: g / m.conj(input),
)
def log(input):
    """Natural logarithm of each element."""
    return m.log(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("log2_vml_cpu", ""),
    domain=(0, math.inf),
    grad=lambda g, input: g / (m.conj(input) * LN2),
)
def log2(input):
    """Logarithm to base 2."""
    return m.log2(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("log10_vml_cpu", ""),
    domain=(0, math.inf),
    grad=lambda g, input: g / (m.conj(input) * LN10),
)
def log10(input):
    """Logarithm to base 10."""
    return m.log10(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("log1p_vml_cpu", ""),
    namespace="special",
    domain=(-1, math.inf),
    grad=lambda g, input: g / m.conj(input + 1),
)
def log1p(input):
    """log(1 + input), precise near zero."""
    return m.log1p(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("sigmoid_cpu", ""),
    grad=lambda g, out: g * m.conj((1 - out) * out),
)
def sigmoid(input):
    """1 / (1 + exp(-input))."""
    return m.sigmoid(input)


# -- trigonometry ----------------------------------------------------------------------------------


@pointwise(
    dtype=floating,
    dtypes=refuses("sin_vml_cpu", ""),
    grad=lambda g, input: g * m.conj(m.cos(input)),
)
def sin(input):
    """Sine of each element."""
    return m.sin(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("cos_vml_cpu", ""),
    grad=lambda g, input: g * -m.conj(m.sin(input)),
)
def cos(input):
    """Cosine of each element."""
    return m.cos(input)


@pointwise(
    dtype=floating, dtypes=refuses("tan_vml_cpu", ""), grad=lambda g, out: g * m.conj(1 + out * out)
)
def tan(input):
    """Tangent of each element."""
    return m.tan(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("asin_vml_cpu", ""),
    aliases="arcsin",
    domain=(-1, 1),
    grad=lambda g, input: g * m.conj(m.rsqrt(1 - input * input)),
)
def asin(input):
    """Inverse sine of each element."""
    return m.asin(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("acos_vml_cpu", ""),
    aliases="arccos",
    domain=(-1, 1),
    grad=lambda g, input: g * -m.conj(m.rsqrt(1 - input * input)),
)
def acos(input):
    """Inverse cosine of each element."""
    return m.acos(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("atan_vml_cpu", ""),
    aliases="arctan",
    grad=lambda g, input: g / m.conj(input * input + 1),
)
def atan(input):
    """Inverse tangent of each element."""
    return m.atan(input)


def _inverse_square(a, b):
    """1 / (a * a + b * b), and 0 at the origin."""
    square = a * a + b * b
    return m.where(square == 0, 0, 1 / m.where(square == 0, 1, square))


@pointwise(
    dtype=floating,
    aliases="arctan2",
    dtypes=refuses("atan2_cpu", "complex"),
    numbers=False,
    grad=dict(
        input=lambda g, input, other: g * other * _inverse_square(input, other),
        other=lambda g, input, other: g * -input * _inverse_square(input, other),
    ),
)
def atan2(input, other):
    """The angle of the point (other, input), in its quadrant."""
    return m.atan2(input, other)


@pointwise(
    dtype=floating, dtypes=refuses("sinh_cpu", ""), grad=lambda g, input: g * m.conj(m.cosh(input))
)
def sinh(input):
    """Hyperbolic sine of each element."""
    return m.sinh(input)


@pointwise(
    dtype=floating, dtypes=refuses("cosh_cpu", ""), grad=lambda g, input: g * m.conj(m.sinh(input))
)
def cosh(input):
    """Hyperbolic cosine of each element."""
    return m.cosh(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("tanh_vml_cpu", ""),
    grad=lambda g, out: g * m.conj(1 - out * out),
)
def tanh(input):
    """Hyperbolic tangent of each element."""
    return m.tanh(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("asinh_cpu", ""),
    aliases="arcsinh",
    grad=lambda g, input: g * m.conj(m.rsqrt(input * input + 1)),
)
def asinh(input):
    """Inverse hyperbolic sine of each element."""
    return m.asinh(input)


def _acosh_gradient(g, input):
    if isinstance(input, m.Expr) or getattr(input, "dtype", d.complex64).category < d.COMPLEX:
        return g * m.rsqrt(input * input - 1)
    return g * m.conj(m.rsqrt(input + 1) * m.rsqrt(input - 1))


@pointwise(
    dtype=floating,
    dtypes=refuses("acosh_cpu", ""),
    aliases="arccosh",
    domain=(1, math.inf),
    grad=_acosh_gradient,
)
def acosh(input):
    """Inverse hyperbolic cosine of each element."""
    return m.acosh(input)


@pointwise(
    dtype=floating,
    dtypes=refuses("atanh_cpu", ""),
    aliases="arctanh",
    domain=(-1, 1),
    grad=lambda g, input: g / m.conj(1 - input * input),
)
def atanh(input):
    """Inverse hyperbolic tangent of each element."""
    return m.atanh(input)


def sinc_slope(x):
    """The slope of sin(pi x) / (pi x)."""
    z = x * math.pi
    return (z * m.cos(z) - m.sin(z)) / (x * z)


@pointwise(
    dtype=floating,
    dtypes=refuses("sinc_cpu", ""),
    namespace="special",
    grad=lambda g, input: m.where(input == 0, 0, g * m.conj(sinc_slope(input))),
)
def sinc(input):
    """sin(pi x) / (pi x), and 1 at zero."""
    z = input * math.pi
    return m.where(z == 0, 1, m.sin(z) / z)


# -- two numbers -----------------------------------------------------------------------------------


@pointwise(
    dtype=promoted,
    dtypes=refuses("hypot_cpu", INTEGRAL + " complex"),
    numbers=False,
    grad=dict(
        input=lambda g, input, out: g * (input / out),
        other=lambda g, other, out: g * (other / out),
    ),
)
def hypot(input, other):
    """The hypotenuse of a right triangle with these legs."""
    return m.hypot(input, other)


def _log_sum_of_powers(a, b, exp, log1p):
    big = m.maximum(a, b)
    same = (a == b) & (m.abs(a) == math.inf)  # inf - inf would be nan
    return m.where(same, a, big + log1p(exp(-m.abs(a - b))))


@pointwise(
    dtype=promoted,
    dtypes=refuses("logaddexp_cpu", INTEGRAL),
    numbers=False,
    variants="function method out",
    grad=dict(
        input=lambda g, input, other: g / m.conj(1 + m.exp(other - input)),
        other=lambda g, input, other: g / m.conj(1 + m.exp(input - other)),
    ),
)
def logaddexp(input, other):
    """log(exp(input) + exp(other)), without overflow."""
    if isinstance(input, m.Complex):
        big, small = _ordered(input, other)
        return big + m.log1p(m.exp(small - big))
    return _log_sum_of_powers(input, other, m.exp, m.log1p)


def _ordered(a, b):
    """Complex numbers by their real parts, the larger first."""
    less = a.re < b.re
    return m.where(less, b, a), m.where(less, a, b)


@pointwise(
    dtype=promoted,
    dtypes=refuses("logaddexp2_cpu", INTEGRAL + " complex"),
    numbers=False,
    variants="function method out",
    grad=dict(
        input=lambda g, input, other: g / (1 + m.exp2(other - input)),
        other=lambda g, input, other: g / (1 + m.exp2(input - other)),
    ),
)
def logaddexp2(input, other):
    """log2(2 ** input + 2 ** other), without overflow."""
    return _log_sum_of_powers(input, other, m.exp2, lambda x: m.log1p(x) / LN2)


def _half_neighbours(bound):
    """Half types have neighbours of their own, which float32 would miss."""
    pairs = [(t.dtype, 2 if t.ndim else 1) for t in (bound["input"], bound["other"])]
    dtype = d.result_dtype(pairs)
    return {d.float16: "nextafter_float16", d.bfloat16: "nextafter_bfloat16"}.get(dtype)


_NEIGHBOUR_GRADS = dict(
    input=lambda g, input, other: m.where(input == other, 0, g),
    other=nothing,
)


@pointwise(
    dtype=promoted, dtypes=refuses("nextafter_cpu", INTEGRAL + " complex"), numbers=False,
    prepare=lambda bound: None, overload=_half_neighbours, grad=_NEIGHBOUR_GRADS,
)  # fmt: skip
def nextafter(input, other):
    """The next floating-point number after input toward other."""
    return m.nextafter(input, other)


def _half_step(x, y, step, smallest, normal, largest):
    """nextafter in a half type that is held in a float32: its last bit is `step` there."""
    outward = (y > x) == (x > 0)
    size, bits = m.abs(x), m.bitcast(x, "i32")
    grown = m.where(size < normal, size + smallest, m.abs(m.bitcast(bits + step, "f32")))
    shrunk = m.where(size <= normal, size - smallest, m.abs(m.bitcast(bits - step, "f32")))
    shrunk = m.where(size == math.inf, largest, shrunk)
    moved = m.copysign(m.where(outward, grown, shrunk), x)
    moved = m.where(x == 0, m.copysign(m.const(smallest, "f32"), y), moved)
    return m.where(x == y, y, m.where(m.isnan(x) | m.isnan(y), math.nan, moved))


@pointwise(dtype=promoted, variants="", node="NextafterBackward0", grad=_NEIGHBOUR_GRADS)
def nextafter_float16(input, other):
    """nextafter among float16 numbers."""
    return _half_step(input, other, 1 << 13, 2.0**-24, 2.0**-14, 65504.0)


@pointwise(dtype=promoted, variants="", node="NextafterBackward0", grad=_NEIGHBOUR_GRADS)
def nextafter_bfloat16(input, other):
    """nextafter among bfloat16 numbers."""
    return _half_step(input, other, 1 << 16, 2.0**-133, 2.0**-126, 3.3895313892515355e38)


def _no_bool_exponents(op, operands):
    if group_of(operands[0]) in ("half", "float") and dtype_of(operands[1]) is d.bool_:
        raise errors.not_implemented("ldexp_cpu_exp", d.bool_)


@pointwise(
    dtype=floating,
    dtypes=every(_no_bool_exponents, refuses("pow", "")),
    numbers=False,
    grad=dict(
        input=lambda g, other: g * m.conj(m.pow(2.0, other)),
        other=lambda g, out: g * m.conj(out) * LN2,
    ),
)
def ldexp(input, other):
    """input times two to the power of other."""
    two = m.as_complex(2.0, other) if isinstance(other, m.Complex) else m.const(2.0, other.type)
    return input * m.pow(two, other)


def _frexp_dtypes(operands):
    return operands[0][0], (operands[0][0], d.int32)


def _only_floating(op, operands):
    if group_of(operands[0]) not in ("half", "float"):
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")


@pointwise(
    dtype=_frexp_dtypes, dtypes=_only_floating, outputs=2, variants="", node="FrexpBackward0",
    grad=lambda g, out1: m.ldexp(g, -out1),
)  # fmt: skip
def frexp_kernel(input):
    """mantissa and exponent."""
    odd = (input == 0) | m.isinf(input) | m.isnan(input)
    exponent = m.where(odd, 0, m.cast(m.frexp_exponent(input), "i32"))
    return m.where(odd, input, m.frexp_mantissa(input)), exponent


@composite(
    variants="function method out",
    outputs=2,
    exact_out=(
        "torch.frexp() expects mantissa to have dtype {wanted.cpp_name} but got {got.cpp_name}",
        "torch.frexp() expects exponent to have int dtype but got {got.cpp_name}",
    ),
)
def frexp(input):
    """mantissa and exponent: input is mantissa * 2 ** exponent, the mantissa from 0.5 to 1."""
    return return_types.frexp(m.tensor_word("frexp_kernel")(input))


def _euclid(a, b):
    """The greatest common divisor, found on the sizes as unsigned numbers."""
    unsigned = "u" + a.type[1:]

    def step(_, a, b):
        return b, m.rem(a, m.where(b == 0, 1, b))

    sizes = [m.bitcast(m.abs(x), unsigned) for x in (a, b)]
    divisor, _ = m.repeat_while(2 * m.BITS[a.type], lambda a, b: b != 0, step, *sizes)
    return divisor


_NO_GCD = "bool wide half float complex"


@pointwise(dtype=promoted, dtypes=refuses("gcd_cpu", _NO_GCD), numbers=False)
def gcd(input, other):
    """Greatest common divisor."""
    return m.bitcast(_euclid(input, other), input.type)


@pointwise(dtype=promoted, dtypes=refuses("lcm_cpu", _NO_GCD), numbers=False)
def lcm(input, other):
    """Least common multiple."""
    divisor = _euclid(input, other)
    parts = m.quot(m.bitcast(m.abs(input), divisor.type), m.where(divisor == 0, 1, divisor))
    wide = "i32" if m.BITS[input.type] < 32 else input.type  # small integers multiply as C's int
    return m.cast(m.abs(m.cast(parts, wide) * m.cast(other, wide)), input.type)


# -- constants -------------------------------------------------------------------------------------


def _check_fill(bound):
    value = bound["value"]
    if hasattr(value, "ndim") and value.ndim:
        raise RuntimeError(
            "fill only supports 0-dimension value tensor "
            f"but got tensor with {value.ndim} dimensions."
        )


@pointwise(
    dtype=same,
    check=_check_fill,
    fits=True,
    settled=True,
    variants="function inplace",
    overlapping=True,
    node=lambda tensors, _: f"FillBackward{len(tensors) - 1}",
    grad=dict(input=nothing, value=lambda g: g),
)
def fill(input, value):
    """A tensor like input, full of value."""
    return value
