"""Words that a GPU has instructions for: each takes the function and values, and writes them."""

from collections.abc import Callable

from flambeau.codegen.loops import I32, rounded_f32

LOG2E = 1.4426950408889634


def _exp(fn, x):
    """exp(x) = 2**n * 2**r, with the fast instruction for 2**r and |r| <= 1/2.

    n + 127 is kept within 1 .. 253 by an addition that saturates; beyond, r is larger, and the last
    product is denormal, zero or infinite as it should be.
    """

    def number(value):
        return fn.value(rounded_f32(value), "float")

    magic = 1.5 * 2.0**23  # added to a number it rounds it to an integer, in the low bits
    share = fn.pure(
        'call float asm "fma.rn.sat.f32 $0, $1, $2, $3;", "=f,f,f,f"'
        f"({x}, {number(LOG2E / 252)}, {number(0.5)})",
        "float",
    )
    biased = fn.intrinsic("fma", share, number(252), number(magic + 1))
    n = biased - number(magic + 127)
    r = fn.intrinsic("fma", x, number(LOG2E), -n)
    r = fn.intrinsic("fma", x, number(LOG2E - rounded_f32(LOG2E)), r)
    bits = fn.convert("bitcast", biased, I32) << 23
    return fn.call("llvm.nvvm.ex2.approx.ftz.f", "float", r) * fn.convert("bitcast", bits, "float")


def _inverse(fn, x):
    return fn.call("llvm.nvvm.rcp.approx.ftz.f", "float", x)


def _divide(fn, a, b):
    """a / b, for b of a moderate size."""
    return a * _inverse(fn, b)


def _sigmoid(fn, x):
    below = _exp(fn, -x) + fn.value(1.0, "float")
    # results that are denormal are kept
    return fn.pure(f'call float asm "rcp.approx.f32 $0, $1;", "=f,f"({below})', "float")


def _tanh(fn, a):
    """tanh(a) where it is not small: 1 - 2 / (exp(2a) + 1)."""
    power = fn.call("llvm.nvvm.ex2.approx.ftz.f", "float", a * rounded_f32(2 * LOG2E))
    one = fn.value(1.0, "float")
    return fn.intrinsic("fma", _inverse(fn, power + one), fn.value(-2.0, "float"), one)


def _minimum(fn, a, b):
    """The smaller one; nan stays nan."""
    return fn.intrinsic("minimum", a, b)


def _maximum(fn, a, b):
    return fn.intrinsic("maximum", a, b)


WORDS: dict[tuple[str, str], Callable] = {
    ("exp", "f32"): _exp,
    ("divide", "f32"): _divide,
    ("sigmoid", "f32"): _sigmoid,
    ("tanh", "f32"): _tanh,
    ("minimum", "f32"): _minimum,
    ("maximum", "f32"): _maximum,
}
