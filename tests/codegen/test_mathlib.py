"""The words of mathlib and its neighbours: accuracy, special values, and the two readings of them.

References are 80-bit floats of NumPy (long double), mpmath and, for special values, C's rules and
an installed PyTorch. Samples cover all exponents and the places where formulas change.
"""

import math

import mpmath
import numpy as np
import pytest

from flambeau.codegen import scalar
from tests.codegen import interpret, machine

scalar._load_math()
WORDS = scalar.WORDS
TYPES = {"f32": np.float32, "f64": np.float64}
inf, nan = math.inf, math.nan

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def sample(rng, type, count=3000):
    """Random bit patterns, and numbers of ordinary size on both sides of 0 and around 1."""
    dtype = TYPES[type]
    bits = rng.integers(0, 2 ** (8 * dtype().itemsize), count, dtype=f"u{dtype().itemsize}")
    parts = [bits.view(dtype)[np.isfinite(bits.view(dtype))]]
    for scale in (1e-4, 1e-2, 0.3, 1, 3, 10, 100, 1000):
        parts.append(rng.standard_normal(count // 4) * scale)
    parts += [1 + rng.standard_normal(count // 4) * s for s in (0.1, 1e-3, 1e-6)]
    return np.concatenate([p.astype(dtype) for p in parts])


def ulps(got, reference):
    """The distance of got from the long double reference, in units of the last place."""
    dtype = got.dtype.type
    rounded = reference.astype(dtype)
    unit = np.spacing(np.abs(rounded)).astype(np.longdouble)
    unit = np.where(np.isfinite(unit), unit, np.spacing(np.finfo(dtype).max))
    error = np.abs(got.astype(np.longdouble) - reference) / unit
    largest = np.finfo(dtype).max
    error = np.where(np.isinf(rounded), np.where(np.abs(got) >= largest, 0, inf), error)
    error = np.where(np.isinf(rounded) & np.isinf(got) & (got != rounded), inf, error)
    return np.where(
        np.isnan(rounded), np.where(np.isnan(got), 0, inf), np.where(np.isnan(got), inf, error)
    )


def assert_within(name, limit, got, reference, *inputs):
    error = ulps(got, reference)
    worst = np.argmax(error)
    at = [x[worst] for x in inputs]
    assert error[worst] <= limit, f"{name}{at} is {got[worst]!r}, {error[worst]:.2f} ulp off"


WIDE = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sqrt": np.sqrt, "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", WIDE)
def test_within_two_ulp(name, type, rng):
    x = sample(rng, type)
    got = machine.call(WORDS[name], x)
    assert_within(name, 2, got, WIDE[name](x.astype(np.longdouble)), x)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ["atan2", "hypot", "pow"])
def test_two_arguments_within_two_ulp(name, type, rng):
    x, y = sample(rng, type), rng.permutation(sample(rng, type))
    size = min(len(x), len(y))
    x, y = (np.abs(x[:size]) if name == "pow" else x[:size]), y[:size]
    wide = {"atan2": np.arctan2, "hypot": np.hypot, "pow": np.power}[name]
    got = machine.call(WORDS[name], x, y)
    assert_within(name, 2, got, wide(x.astype(np.longdouble), y.astype(np.longdouble)), x, y)


def precise(function, x):
    """mpmath's function at each element, as long double."""
    values = []
    with mpmath.workprec(1300 if np.max(np.abs(x)) > 1e10 else 120):
        for v in x:
            values.append(np.longdouble(mpmath.nstr(function(mpmath.mpf(float(v))), 25)))
    return np.array(values)


MP_WORDS = {
    "sin": mpmath.sin, "cos": mpmath.cos, "tan": mpmath.tan, "erf": mpmath.erf,
    "erfc": mpmath.erfc, "sinc": mpmath.sincpi,
    "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
}  # fmt: skip


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", MP_WORDS)
def test_within_two_ulp_of_mpmath(name, type, rng):
    x = rng.uniform(-9, 9, 300)
    if name in ("sin", "cos", "tan"):
        quarters = np.arange(1, 60) * np.pi / 2
        x = np.concatenate([x, quarters, quarters * 1e6, 10.0 ** rng.uniform(-30, 30, 100)])
    x = x.astype(TYPES[type])
    got = machine.call(WORDS[name], x)
    assert_within(name, 2, got, precise(MP_WORDS[name], x), x)


SPECIAL = {
    "erfinv": (mpmath.erfinv, -0.999, 0.999),
    "lgamma": (lambda x: mpmath.loggamma(x).real, 0.01, 60),
    "digamma": (mpmath.digamma, 2, 60),
    "trigamma": (lambda x: mpmath.polygamma(1, x), 0.01, 60),
    "i0": (lambda x: mpmath.besseli(0, x), -60, 60),
    "i0e": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), -60, 60),
    "i1": (lambda x: mpmath.besseli(1, x), -60, 60),
    "i1e": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), -60, 60),
    "modified_bessel_k0": (lambda x: mpmath.besselk(0, x), 0.001, 60),
    "modified_bessel_k1": (lambda x: mpmath.besselk(1, x), 0.001, 60),
    "scaled_modified_bessel_k0": (lambda x: mpmath.besselk(0, x) * mpmath.exp(x), 0.001, 60),
    "scaled_modified_bessel_k1": (lambda x: mpmath.besselk(1, x) * mpmath.exp(x), 0.001, 60),
    "ndtri": (lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), 0.001, 0.45),
    "log_ndtr": (lambda x: mpmath.log(mpmath.ncdf(x)), -20, 3),
    "airy_ai": (mpmath.airyai, -2, 12),
}


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_are_accurate(name, type, rng):
    function, low, high = SPECIAL[name]
    x = rng.uniform(low, high, 25).astype(TYPES[type])
    reference = precise(function, x)
    error = np.abs(machine.call(WORDS[name], x) - reference) / np.abs(reference)
    assert error.max() < (3e-6 if type == "f32" else 1e-13), x[np.argmax(error)]


WAVES = {
    "bessel_j0": mpmath.j0,
    "bessel_j1": mpmath.j1,
    "bessel_y0": lambda x: mpmath.bessely(0, x),
    "bessel_y1": lambda x: mpmath.bessely(1, x),
    "airy_ai": lambda x: mpmath.airyai(-x),
}


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", WAVES)
def test_oscillating_functions_are_accurate_beside_their_amplitude(name, type, rng):
    x = rng.uniform(0.1, 40, 60).astype(TYPES[type])
    reference = precise(WAVES[name], x)
    got = machine.call(WORDS[name], -x if name == "airy_ai" else x)
    error = np.abs(got - reference) / np.maximum(1 / np.sqrt(x), np.abs(reference))
    assert error.max() < (2e-5 if type == "f32" else 1e-13)


def test_zeta_and_incomplete_gamma_functions(rng):
    s, q = rng.uniform(1.1, 12, 40), rng.uniform(0.1, 30, 40)
    with mpmath.workprec(200):
        zeta = [float(mpmath.zeta(a, b)) for a, b in zip(s, q)]
    np.testing.assert_allclose(machine.call(WORDS["zeta"], s, q), zeta, rtol=1e-13)
    a = 10.0 ** rng.uniform(-2, 3, 60)
    x = a * np.exp(rng.standard_normal(60) * 0.3)
    for name, (low, high) in {"igamma": (0, "x"), "igammac": ("x", mpmath.inf)}.items():
        exact = [
            mpmath.gammainc(
                p, *(mpmath.mpf(r) if e == "x" else e for e in (low, high)), regularized=True
            )
            for p, r in zip(a, x)
        ]
        np.testing.assert_allclose(
            machine.call(WORDS[name], a, x), np.array(exact, float), rtol=1e-11
        )
    x = rng.uniform(0.3, 9, 40)
    third = machine.call(lambda v: WORDS["polygamma"](3, v), x)
    np.testing.assert_allclose(third, [float(mpmath.polygamma(3, v)) for v in x], rtol=1e-13)


@pytest.mark.parametrize("type", TYPES)
def test_special_values_follow_c(type):
    cases = {
        "exp": [(inf, inf), (-inf, 0.0), (-0.0, 1.0), (nan, nan), (1000.0, inf), (-1000.0, 0.0)],
        "expm1": [(-0.0, -0.0), (0.0, 0.0), (-inf, -1.0), (inf, inf), (-1000.0, -1.0)],
        "log": [(0.0, -inf), (-0.0, -inf), (-1.0, nan), (inf, inf), (1.0, 0.0), (-inf, nan)],
        "log1p": [(-1.0, -inf), (-0.0, -0.0), (-2.0, nan), (inf, inf)],
        "tanh": [(-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan)],
        "sigmoid": [(inf, 1.0), (-inf, 0.0), (0.0, 0.5), (nan, nan)],
        "sin": [(-0.0, -0.0), (inf, nan), (-inf, nan)],
        "cos": [(-0.0, 1.0), (inf, nan)],
        "tan": [(-0.0, -0.0), (inf, nan)],
        "asin": [(-0.0, -0.0), (1.5, nan)],
        "acos": [(1.0, 0.0), (1.5, nan), (-2.0, nan)],
        "atan": [(-0.0, -0.0), (inf, math.pi / 2), (-inf, -math.pi / 2)],
        "asinh": [(-0.0, -0.0), (inf, inf), (-inf, -inf)],
        "acosh": [(1.0, 0.0), (0.5, nan), (inf, inf)],
        "atanh": [(-0.0, -0.0), (1.0, inf), (-1.0, -inf), (2.0, nan)],
        "erf": [(-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (nan, nan)],
        "erfc": [(inf, 0.0), (-inf, 2.0), (0.0, 1.0)],
        "erfinv": [(1.0, inf), (-1.0, -inf), (1.5, nan), (0.0, 0.0)],
        "lgamma": [(1.0, 0.0), (2.0, 0.0), (0.0, inf), (-3.0, inf), (inf, inf), (-inf, inf)],
        "digamma": [(0.0, -inf), (-0.0, inf), (-2.0, nan)],
    }
    for name, pairs in cases.items():
        x, expected = np.array(pairs, TYPES[type]).T
        got = machine.call(WORDS[name], np.ascontiguousarray(x))
        np.testing.assert_array_equal(got, expected, err_msg=name)
        real = ~np.isnan(expected)
        assert (np.signbit(got) == np.signbit(expected))[real].all(), name


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ["pow", "atan2", "hypot", "copysign", "nextafter"])
def test_special_pairs_follow_c(name, type):
    tiny, large = np.finfo(TYPES[type]).tiny, np.finfo(TYPES[type]).max
    v = [0.0, -0.0, 1, -1, inf, -inf, nan, 0.5, -0.5, 2, -2, 3, -3, tiny, large, -large, tiny / 8]
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(*[np.array(v, TYPES[type])] * 2))
    exact = {"pow": np.power, "atan2": np.arctan2}.get(name) or getattr(np, name)
    got, expected = machine.call(WORDS[name], x, y), exact(x, y)
    np.testing.assert_array_max_ulp(
        np.where(np.isnan(expected), 0, got),
        np.nan_to_num(expected, nan=0, posinf=inf, neginf=-inf),
        2,
    )
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    assert (np.signbit(got) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("type", TYPES)
def test_denormals_are_kept(type):
    tiny = np.finfo(TYPES[type]).tiny
    x = (np.array([1, 0.5, 0.25, 2.0**-10]) * tiny).astype(TYPES[type])
    for name in ("sin", "tan", "tanh", "asin", "atan", "sinh", "asinh", "atanh", "expm1", "log1p"):
        np.testing.assert_array_equal(machine.call(WORDS[name], -x), -x, err_msg=name)
    logs = np.log(x.astype(np.longdouble))
    for y in (
        machine.call(WORDS["exp"], logs.astype(TYPES[type])),
        np.exp(logs.astype(TYPES[type])),
    ):
        assert (y > 0).all() and (y < 2 * tiny).all()


def test_payload_of_nan_is_no_exponent():
    x = np.array([0x7FC00123, 0xFFC12345, 0x7FC000FF], np.uint32).view(np.float32)
    for name in ("exp", "exp2", "expm1", "tanh", "sigmoid", "erf", "erfc", "log", "sinh", "sin"):
        assert np.isnan(machine.call(WORDS[name], x)).all(), name


ONE = """
exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh
atanh erf erfc erfcx erfinv ndtri log_ndtr sigmoid rsqrt sinc lgamma digamma trigamma i0 i1e
bessel_j0 bessel_y1 modified_bessel_k1 airy_ai frexp_mantissa frexp_exponent sign round angle"""


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("name", ONE.split())
def test_machine_code_agrees_with_the_interpreter(name, type, rng):
    x = sample(rng, type, 400)
    x = np.concatenate([x, np.array([0.0, -0.0, inf, -inf, nan, 1, -1, 2, 0.5], x.dtype)])
    read, run = interpret.call(WORDS[name], x), machine.call(WORDS[name], x)
    np.testing.assert_array_equal(read, run)


@pytest.mark.parametrize("name", ["pow", "atan2", "hypot", "igamma", "zeta", "nextafter"])
def test_machine_code_of_pairs_agrees_with_the_interpreter(name, rng):
    x, y = rng.uniform(-3, 9, 200), rng.uniform(-3, 9, 200)
    read, run = interpret.call(WORDS[name], x, y), machine.call(WORDS[name], x, y)
    np.testing.assert_array_equal(read, run)


def test_integer_powers_wrap_and_negative_exponents_vanish():
    x, y = np.array([3, -2, 2, -1, 1, 5, 2]), np.array([4, 3, 62, -3, -7, -1, 64])
    got = machine.call(WORDS["pow"], x, y)
    assert got.tolist() == [81, -8, 2**62, -1, 1, 0, 0]


@pytest.mark.parametrize("type", TYPES)
def test_exponents_come_apart_and_together(type, rng):
    x = sample(rng, type)
    mantissa, exponent = np.frexp(x)
    np.testing.assert_array_equal(machine.call(WORDS["frexp_mantissa"], x), mantissa)
    np.testing.assert_array_equal(machine.call(WORDS["frexp_exponent"], x), exponent)
    n = rng.integers(-160, 160, x.size).astype(np.int32)
    np.testing.assert_array_equal(machine.call(WORDS["ldexp"], x, n), np.ldexp(x, n))


COMPLEX = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "exp2": np.exp2, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "expm1": np.expm1,
    "abs": np.abs, "angle": np.angle, "conj": np.conj, "reciprocal": lambda z: 1 / z,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)), "rsqrt": lambda z: 1 / np.sqrt(z),
    "sign": lambda z: z / np.abs(z),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_words_are_accurate(name, dtype, rng):
    z = (rng.standard_normal(500) + 1j * rng.standard_normal(500)) * 10.0 ** rng.uniform(-3, 1, 500)
    z = z.astype(dtype)
    reference = COMPLEX[name](z.astype(np.clongdouble))
    error = np.abs(machine.call(WORDS[name], z) - reference) / np.abs(reference)
    assert error.max() < (6e-7 if dtype == np.complex64 else 1e-15), z[np.argmax(error)]


def test_complex_powers(rng):
    a, b = rng.standard_normal((2, 200)) + 1j * rng.standard_normal((2, 200))
    np.testing.assert_allclose(machine.call(WORDS["pow"], a, b), a**b, rtol=1e-13)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "name", "exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh".split()
)
def test_complex_special_values_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    parts = [0.0, -0.0, 1, -1, inf, -inf, nan, 0.5, -2, 1e-3, 1e4, 100]
    z = np.array([complex(a, b) for a in parts for b in parts])
    got = machine.call(WORDS[name], z)
    # one by one: PyTorch's vector code follows other rules than its scalar code
    function = getattr(torch, name)
    expected = np.array([function(torch.tensor([v])).item() for v in z])
    for part in ("real", "imag"):
        a, b = getattr(got, part), getattr(expected, part)
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)
        zero = (a == 0) & (b == 0)
        np.testing.assert_array_equal(np.signbit(a)[zero], np.signbit(b)[zero])


@pytest.mark.oracle
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize(
    "name",
    "exp log log1p expm1 sin tan tanh atanh erf erfc erfinv lgamma sign angle round".split(),
)
def test_special_values_are_those_of_pytorch(name, type):
    torch = pytest.importorskip("torch")
    tiny, large = np.finfo(TYPES[type]).tiny, np.finfo(TYPES[type]).max
    v = [
        0.0,
        -0.0,
        1,
        -1,
        inf,
        -inf,
        nan,
        0.5,
        -0.5,
        2,
        -2,
        3,
        -3.5,
        10,
        100,
        -100,
        tiny,
        large,
        -large,
    ]
    x = np.array(v, TYPES[type])
    expected = getattr(torch, name)(torch.from_numpy(x)).numpy()
    got = machine.call(WORDS[name], x)
    np.testing.assert_allclose(got, expected, rtol=2e-6 if type == "f32" else 1e-13)
    zero = (got == 0) & (expected == 0)
    np.testing.assert_array_equal(np.signbit(got)[zero], np.signbit(expected)[zero])
