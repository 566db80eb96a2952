"""Pointwise rows against NumPy and mpmath, and the corners: refusals, ties, wrapping.

The comparison with PyTorch is in `test_table.py`; what is said here holds without it.
"""

import math

import mpmath
import numpy as np
import pytest

import flambeau
from flambeau.eager.methods import function
from flambeau.ops.table import TABLE
from tests.ops.samples import operands, smooth

INF, NAN = math.inf, math.nan
T = flambeau.tensor

NUMPY = {  # rows that NumPy has, by its name
    "add": "add", "sub": "subtract", "mul": "multiply", "div": "true_divide",
    "floor_divide": "floor_divide",
    "remainder": "remainder", "fmod": "fmod", "pow": "power", "neg": "negative", "abs": "absolute",
    "sign": "sign",
    "reciprocal": "reciprocal", "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1",
    "log": "log",
    "log2": "log2", "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "arcsin",
    "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "sinc": "sinc", "eq": "equal",
    "ne": "not_equal",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "isnan": "isnan",
    "isinf": "isinf",
    "isfinite": "isfinite", "signbit": "signbit", "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor", "logical_not": "logical_not", "maximum": "maximum",
    "minimum": "minimum", "fmax": "fmax",
    "fmin": "fmin", "copysign": "copysign", "nextafter": "nextafter", "hypot": "hypot",
    "logaddexp": "logaddexp",
    "logaddexp2": "logaddexp2", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint",
    "deg2rad": "deg2rad",
    "rad2deg": "rad2deg", "square": "square", "isposinf": "isposinf", "isneginf": "isneginf",
    "heaviside": "heaviside",
}  # fmt: skip
# where NumPy gives nan for nan and PyTorch 0
NUMPY_ODD = {"sign": lambda x: np.isnan(x), "heaviside": lambda x, y: np.isnan(x)}


@pytest.mark.parametrize("name", NUMPY)
def test_doubles_agree_with_numpy(name):
    reference = getattr(np, NUMPY[name])
    count = sum(p.kind == "tensor" for p in TABLE[name].params)
    values = operands(TABLE[name], "float64", count)
    got = function(name)(*(flambeau.from_numpy(v.copy()) for v in values)).numpy()
    with np.errstate(all="ignore"):
        want = reference(*values)
    keep = ~NUMPY_ODD[name](*values) if name in NUMPY_ODD else np.ones(len(want), dtype=bool)
    np.testing.assert_allclose(
        got[keep], want[keep], rtol=4e-15, atol=0 if name != "logaddexp2" else 1e-15
    )
    assert got.dtype == want.dtype


INTEGER_ROWS = [
    "add", "sub", "mul", "floor_divide", "remainder", "fmod", "neg", "abs", "sign", "bitwise_and",
    "bitwise_or",
    "bitwise_xor", "bitwise_not", "maximum", "minimum", "eq", "lt", "gcd",
]  # fmt: skip
NUMPY_INTEGER = NUMPY | {
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "bitwise_not": "invert", "gcd": "gcd",
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("name", INTEGER_ROWS)
def test_integers_agree_with_numpy_and_wrap(name, dtype):
    count = sum(p.kind == "tensor" for p in TABLE[name].params)
    values = [v.astype(dtype) for v in operands(TABLE[name], dtype, count)]
    got = function(name)(*(flambeau.from_numpy(v.copy()) for v in values)).numpy()
    with np.errstate(all="ignore"):
        want = getattr(np, NUMPY_INTEGER[name])(*values)
    np.testing.assert_array_equal(got, want)
    assert got.dtype == want.dtype


MPMATH = {  # special functions; arguments are doubles inside the domain
    "erf": mpmath.erf, "erfc": mpmath.erfc, "erfinv": mpmath.erfinv,
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
    "digamma": mpmath.digamma, "i0": lambda x: mpmath.besseli(0, x),
    "special_i1": lambda x: mpmath.besseli(1, x),
    "special_i0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
    "special_i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
    "special_erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x), "special_ndtr": mpmath.ncdf,
    "special_log_ndtr": lambda x: mpmath.log(mpmath.ncdf(x)),
    "special_ndtri": lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * x - 1),
    "special_bessel_j0": lambda x: mpmath.besselj(0, x),
    "special_bessel_j1": lambda x: mpmath.besselj(1, x),
    "special_airy_ai": mpmath.airyai, "special_modified_bessel_i0": lambda x: mpmath.besseli(0, x),
    "special_modified_bessel_i1": lambda x: mpmath.besseli(1, x),
    "special_entr": lambda x: -x * mpmath.log(x),
    "logit": lambda x: mpmath.log(x / (1 - x)),
    "special_spherical_bessel_j0": lambda x: mpmath.sin(x) / x,
}  # fmt: skip


@pytest.mark.parametrize("name", MPMATH)
def test_special_functions_agree_with_mpmath(name, rng):
    values = smooth(TABLE[name], rng, (20,))
    want = np.array([float(MPMATH[name](mpmath.mpf(v))) for v in values])
    got = function(name)(flambeau.from_numpy(values)).numpy()
    np.testing.assert_allclose(got, want, rtol=2e-14, atol=2e-15)
    single = function(name)(flambeau.from_numpy(values.astype("float32"))).numpy()
    exact = np.array([float(MPMATH[name](mpmath.mpf(float(v)))) for v in values.astype("float32")])
    np.testing.assert_allclose(single, exact, rtol=2e-6, atol=1e-6)


POSITIVE_ARGUMENTS = {
    "special_bessel_y0": lambda x: mpmath.bessely(0, x),
    "special_bessel_y1": lambda x: mpmath.bessely(1, x),
    "special_modified_bessel_k0": lambda x: mpmath.besselk(0, x),
    "special_modified_bessel_k1": lambda x: mpmath.besselk(1, x),
    "special_scaled_modified_bessel_k0": lambda x: mpmath.besselk(0, x) * mpmath.exp(x),
    "special_scaled_modified_bessel_k1": lambda x: mpmath.besselk(1, x) * mpmath.exp(x),
}  # fmt: skip


@pytest.mark.parametrize("name", POSITIVE_ARGUMENTS)
def test_bessel_functions_of_the_second_kind_agree_with_mpmath(name, rng):
    values = rng.uniform(0.2, 12, 20)
    want = np.array([float(POSITIVE_ARGUMENTS[name](mpmath.mpf(v))) for v in values])
    got = function(name)(flambeau.from_numpy(values)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)


def test_incomplete_gamma_zeta_and_polygamma_agree_with_mpmath(rng):
    a, x = rng.uniform(0.3, 6, 12), rng.uniform(0.3, 6, 12)
    ours = [
        function(n)(flambeau.from_numpy(a), flambeau.from_numpy(x)).numpy()
        for n in ("igamma", "igammac")
    ]
    lower = np.array([float(mpmath.gammainc(p, 0, q, regularized=True)) for p, q in zip(a, x)])
    np.testing.assert_allclose(ours[0], lower, rtol=1e-12)
    np.testing.assert_allclose(ours[1], 1 - lower, rtol=1e-10)
    s = a + 1.1
    zeta = flambeau.special.zeta(flambeau.from_numpy(s), flambeau.from_numpy(x)).numpy()
    np.testing.assert_allclose(zeta, [float(mpmath.zeta(p, q)) for p, q in zip(s, x)], rtol=1e-12)
    for n in (1, 2, 4):
        got = flambeau.polygamma(n, flambeau.from_numpy(x)).numpy()
        np.testing.assert_allclose(got, [float(mpmath.polygamma(n, v)) for v in x], rtol=1e-12)


def test_polynomials_agree_with_numpy(rng):
    x = rng.uniform(-1.5, 1.5, 10)
    families = {
        "chebyshev_polynomial_t": np.polynomial.chebyshev.Chebyshev,
        "legendre_polynomial_p": np.polynomial.Legendre,
        "laguerre_polynomial_l": np.polynomial.Laguerre,
        "hermite_polynomial_h": np.polynomial.Hermite,
        "hermite_polynomial_he": np.polynomial.HermiteE,
    }  # fmt: skip
    for name, family in families.items():
        for n in (0, 1, 4, 9):
            got = getattr(flambeau.special, name)(flambeau.from_numpy(x), n).numpy()
            np.testing.assert_allclose(got, family.basis(n)(x), rtol=1e-10, atol=1e-10)


# -- activations -----------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.clip(x, 0, 6),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)), "silu": lambda x: x * sigmoid(x),
    "gelu": lambda x: x * 0.5 * np.array([1 + math.erf(v / math.sqrt(2)) for v in x]),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))), "softplus": lambda x: np.log1p(np.exp(x)),
    "softsign": lambda x: x / (1 + np.abs(x)), "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hardshrink": lambda x: np.where(np.abs(x) > 0.5, x, 0),
    "softshrink": lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0),
    "tanhshrink": lambda x: x - np.tanh(x),
    "logsigmoid": lambda x: np.log(sigmoid(x)), "sigmoid": sigmoid,
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_their_formulas(name):
    x = np.linspace(-8, 8, 65)
    got = function(name)(flambeau.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, ACTIVATIONS[name](x), rtol=1e-12, atol=1e-14)


def test_activations_stay_finite_where_their_formulas_overflow():
    x = T([-1e4, 1e4])
    assert function("logsigmoid")(x).tolist() == [-1e4, 0.0]
    assert function("softplus")(x).tolist() == [0.0, 1e4]
    assert function("mish")(x).tolist()[1] == 1e4
    assert flambeau.logaddexp(x, x - 100).tolist() == [-1e4, 1e4]


@pytest.mark.parametrize(
    "name", ["elu", "selu", "celu", "leaky_relu", "hardtanh", "threshold", "relu"]
)
def test_activations_in_place_are_differentiated_from_their_result(name, rng):
    from flambeau.eager.methods import inplace_function

    extra = (0.3, 0.0) if name == "threshold" else ()
    values = rng.uniform(-2, 2, 16)
    leaf, other = (flambeau.from_numpy(values.copy()).requires_grad_() for _ in range(2))
    inplace_function(name)(leaf * 1, *extra).sum().backward()
    function(name)(other * 1, *extra).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), other.grad.numpy(), rtol=1e-12)


def test_a_negative_slope_in_place_has_no_derivative():
    from flambeau.eager.methods import inplace_function

    x = T([1.0, -1.0], requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="In-place leakyReLu backward calculation"):
        inplace_function("leaky_relu")(x, -0.5)


# -- refusals --------------------------------------------------------------------------------------

REFUSALS = [
    (
        lambda: T([True]) - T([True]),
        RuntimeError,
        "Subtraction, the `-` operator, with two bool tensors",
    ),
    (lambda: T([True]) - 1, RuntimeError, "Subtraction, the `-` operator, with a bool tensor"),
    (lambda: -T([True]), RuntimeError, "Negation, the `-` operator, on a bool tensor"),
    (lambda: T([1, 2]) // T([1, 0]), RuntimeError, "ZeroDivisionError"),
    (lambda: T([1, 2]) % 0, RuntimeError, "ZeroDivisionError"),
    (lambda: flambeau.fmod(T([1]), 0), RuntimeError, "ZeroDivisionError"),
    (lambda: flambeau.div(T([1]), 0, rounding_mode="trunc"), RuntimeError, "ZeroDivisionError"),
    (lambda: T([2]) ** -1, RuntimeError, "Integers to negative integer powers are not allowed."),
    (
        lambda: ~T([1.0]),
        TypeError,
        "~ (operator.invert) is only implemented on integer and Boolean",
    ),
    (lambda: T([1.0]) & 1, NotImplementedError, "\"bitwise_and_cpu\" not implemented for 'Float'"),
    (lambda: T([1.0]) << 1, NotImplementedError, "\"lshift_cpu\" not implemented for 'Float'"),
    (
        lambda: flambeau.add(T([1]), 1, alpha=1.5),
        RuntimeError,
        "For integral input tensors, argument alpha",
    ),
    (
        lambda: flambeau.add(T([1]), 1, alpha=True),
        RuntimeError,
        "Boolean alpha only supported for Boolean",
    ),
    (
        lambda: flambeau.div(T([1]), 1, rounding_mode="up"),
        RuntimeError,
        "div expected rounding_mode to be one of",
    ),
    (
        lambda: flambeau.clamp(T([1])),
        RuntimeError,
        "torch.clamp: At least one of 'min' or 'max' must not be None",
    ),
    (
        lambda: flambeau.maximum(T([1]), 2),
        TypeError,
        "argument 'other' (position 2) must be Tensor, not int",
    ),
    (
        lambda: flambeau.exp(1),
        TypeError,
        "exp(): argument 'input' (position 1) must be Tensor, not int",
    ),
    (
        lambda: flambeau.where(T([1]), 1, 2),
        RuntimeError,
        "where expected condition to be a boolean tensor",
    ),
    (
        lambda: T([1j]) < T([1j]),
        NotImplementedError,
        "\"lt_cpu\" not implemented for 'ComplexFloat'",
    ),
    (
        lambda: flambeau.sign(T([1j])),
        NotImplementedError,
        "Unlike NumPy, torch.sign is not intended",
    ),
    (
        lambda: flambeau.addcdiv(T([1]), T([1]), T([1])),
        RuntimeError,
        "Integer division with addcdiv",
    ),
    (
        lambda: flambeau.lerp(T([1.0]), T([1.0]).double(), 0.5),
        RuntimeError,
        "expected dtype float for `end`",
    ),
    (lambda: flambeau.isclose(T([1.0]), T([1])), RuntimeError, "Float did not match Long"),
    (
        lambda: flambeau.polygamma(-1, T([1.0])),
        RuntimeError,
        "polygamma(n, x) does not support negative n.",
    ),
    (
        lambda: T([1, 2]).add_(1.5),
        RuntimeError,
        "result type Float can't be cast to the desired output type Long",
    ),
    (
        lambda: T([1, 2]).div_(2),
        RuntimeError,
        "result type Float can't be cast to the desired output type Long",
    ),
    (lambda: T([1.0]).fill_(T([1.0, 2.0])), RuntimeError, "only supports 0-dimension value tensor"),
    (
        lambda: function("celu")(T([1.0]), 0.0),
        RuntimeError,
        "ZeroDivisionError: alpha cannot be 0 for CELU",
    ),
    (
        lambda: function("gelu")(T([1.0]), approximate="x"),
        RuntimeError,
        "approximate argument must be either",
    ),
    (
        lambda: function("softshrink")(T([1.0]), -1.0),
        RuntimeError,
        "lambda must be in range [0, 3.40282e+38]",
    ),
    (
        lambda: function("glu")(T([1.0, 2.0, 3.0])),
        RuntimeError,
        "Halving dimension must be even, but dimension 0 is size 3",
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSALS)))
def test_refusals_have_the_words_of_pytorch(case):
    call, kind, words = REFUSALS[case]
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


def test_derivatives_that_pytorch_lacks_are_refused_in_backward():
    x = T([3.0], requires_grad=True)
    y = x // 2
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="derivative for aten::floor_divide is not implemented"):
        y.backward()


# -- corners ---------------------------------------------------------------------------------------


def gradient(f, *values):
    tensors = [T(v, requires_grad=True) for v in values]
    f(*tensors).sum().backward()
    return [t.grad.tolist() for t in tensors]


def test_ties_share_the_gradient():
    assert gradient(flambeau.maximum, [1.0, 2.0], [1.0, 3.0]) == [[0.5, 0.0], [0.5, 1.0]]
    assert gradient(flambeau.fmin, [1.0, NAN], [1.0, 3.0]) == [[1.0, 0.0], [0.0, 1.0]]


def test_clamp_passes_the_gradient_at_its_bounds():
    assert gradient(lambda x: x.clamp(0, 1), [-1.0, 0.0, 0.5, 1.0, 2.0]) == [
        [0.0, 1.0, 1.0, 1.0, 0.0]
    ]


def test_gradients_at_zero():
    assert gradient(flambeau.abs, [0.0]) == [[0.0]]
    assert gradient(flambeau.relu, [0.0, -0.0]) == [[0.0, 0.0]]
    assert gradient(flambeau.sqrt, [0.0]) == [[INF]]
    assert gradient(lambda x: x**2, [0.0]) == [[0.0]]
    assert gradient(lambda x: x**0, [0.0]) == [[0.0]]
    assert gradient(flambeau.pow, [0.0], [0.0]) == [[0.0], [0.0]]
    assert gradient(flambeau.atan2, [0.0], [0.0]) == [[0.0], [0.0]]


def test_floats_floor_as_python_does():
    a, b = [7.5, -7.5, 0.3, -1.0, 1e30], [2.0, 2.0, 0.1, 3.0, 7.0]
    x, y = T(a, dtype=flambeau.float64), T(b, dtype=flambeau.float64)
    assert (x // y).tolist() == [p // q for p, q in zip(a, b)]
    assert (x % y).tolist() == [p % q for p, q in zip(a, b)]


def test_shifts_past_the_width_lose_every_bit():
    x = T([1, -8])
    assert (x << 64).tolist() == [0, 0] and (x >> 64).tolist() == [0, -1]
    assert (x << -1).tolist() == [0, 0] and (x >> -1).tolist() == [0, -1]


def test_the_lowest_integer_divided_by_minus_one_wraps():
    low = -(2**63)
    assert (T([low]) // T([-1])).tolist() == [low] and (T([low]) % T([-1])).tolist() == [0]


def test_adding_booleans_is_or():
    a, b = T([True, True, False]), T([True, False, False])
    assert (a + b).tolist() == [True, True, False] and (a * b).tolist() == [True, False, False]


def test_small_powers_are_products_and_keep_their_node():
    x = T([3.0], requires_grad=True)
    assert (x**2).grad_fn.name() == "PowBackward0" and (x**3).item() == 27.0
    assert (x ** T([2.0])).grad_fn.name() == "PowBackward1" and (
        2**x
    ).grad_fn.name() == "PowBackward2"


def test_numbers_promote_by_kind():
    x = T([1, 2])
    assert (x + 1.5).dtype is flambeau.float32 and (x + True).dtype is flambeau.int64
    assert (T([1.0]).half() + 1.5).dtype is flambeau.float16 and (
        x * 1j
    ).dtype is flambeau.complex64
    assert (x.to(flambeau.uint8) + T(300)).dtype is flambeau.uint8


def test_backward_of_a_product_with_a_complex_number():
    x = T([1.0 + 2.0j], requires_grad=True)
    (x * (3 - 1j)).backward(T([1.0 + 0j]))
    assert x.grad.tolist() == [3 + 1j]
    y = T([1.0 + 2.0j], requires_grad=True)
    (y.conj() * (3 - 1j)).backward(T([1.0 + 0j]))
    assert y.grad.tolist() == [3 - 1j]


def test_where_takes_numbers_and_is_a_method_too():
    x = T([-1.0, 2.0])
    assert flambeau.where(x > 0, x, 0).tolist() == [0.0, 2.0] and x.where(
        x > 0, T(5.0)
    ).tolist() == [5.0, 2.0]
    assert flambeau.where(x > 0, 1, 2).dtype is flambeau.int64


def test_overlapping_memory_is_refused_by_inplace_rows():
    x = flambeau.arange(6.0)
    with pytest.raises(
        RuntimeError, match="unsupported operation: some elements of the input tensor"
    ):
        x[1:].add_(x[:-1])
    with pytest.raises(RuntimeError, match="unsupported operation: more than one element"):
        flambeau.zeros(1).expand(3).add_(1)


def test_where_with_a_condition_alone_gives_places():
    condition = flambeau.tensor([[0, 1, 0], [2, 0, 3]])
    for found in (flambeau.where(condition), flambeau.where(condition=condition > 0)):
        assert [part.tolist() for part in found] == [[0, 1, 1], [1, 0, 2]]
    assert [part.shape for part in flambeau.where(condition[:0])] == [(0,), (0,)]
    with pytest.raises(TypeError):
        flambeau.where(condition, 1.0)
    with pytest.raises(TypeError):
        flambeau.where(3)


# Which numbers meet half tensors as they are, and which are rounded first (as PyTorch does).
ROUNDED = "add sub remainder fmod pow ge gt le lt eq ne rsub".split()
EXACT = "mul div floor_divide".split()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ROUNDED + EXACT)
def test_numbers_beside_half_tensors(name, dtype):
    x = (flambeau.arange(-30, 31) / 10).to(getattr(flambeau, dtype))
    function = getattr(flambeau, name)
    for number in (0.4, 1.7, -0.3):
        other = flambeau.tensor(number)
        used = other if name in EXACT else other.to(x.dtype).float()
        expected = function(x.float(), used)
        expected = expected if expected.dtype is flambeau.bool else expected.to(x.dtype)
        for found in (function(x, number), function(x, other)):
            assert ((found == expected) | (found.isnan() & expected.isnan())).all(), number


class Answering:
    """Answers for operators from the right."""

    def __radd__(self, other):
        return "added"

    __rmul__ = __rsub__ = __rtruediv__ = __rpow__ = __ror__ = __rfloordiv__ = __radd__


@pytest.mark.parametrize(
    "name", "add sub mul truediv floordiv mod pow and or xor lshift rshift".split()
)
def test_operators_in_place_leave_strangers_to_python(name):
    x = T(2)
    assert getattr(x, f"__i{name}__")(object()) is NotImplemented
    assert name == "truediv" or getattr(x, f"__i{name}__")(2) is x


@pytest.mark.parametrize("operator", ["+=", "-=", "*=", "/=", "**=", "|=", "//="])
def test_the_right_side_of_an_operator_in_place_may_answer(operator):
    names = {"x": T(2.0), "y": Answering()}
    exec(f"x {operator} y", names)
    assert names["x"] == "added"
    with pytest.raises(
        TypeError, match=r"unsupported operand type\(s\) for .*: 'Tensor' and 'str'"
    ):
        exec(f"x {operator} 'a'", {"x": T(2.0)})


def test_float_power_in_place_wants_double_precision():
    assert T([2.0], dtype=flambeau.float64).float_power_(2).tolist() == [4.0]
    for x, power, wanted in ((T([1]), 2, "Double"), (T([1.0]), 2, "Double"), (T([1j]), 2, "Comp")):
        said = f"the base given to float_power_ has dtype .* requires dtype {wanted}"
        with pytest.raises(RuntimeError, match=said):
            x.float_power_(power)
