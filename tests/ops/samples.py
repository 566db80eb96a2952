"""Arguments to try rows with: which calls make sense, which numbers are telling.

A `Call` is a pattern of arguments: `T` stands for a tensor of the dtype under test, `B` for a
boolean one, everything else for itself. Rows that are not listed take one tensor per tensor
parameter. Values come in two kinds: `telling` ones (infinities, denormals, both zeros, the ends of
integer types) to compare results with, and `smooth` ones, inside the row's domain and off its
corners, for derivatives.
"""

from typing import NamedTuple

import numpy as np

T = "tensor"
B = "mask"
W = "weight"  # one number per channel


class Call(NamedTuple):
    """One way to call a row."""

    args: tuple
    kwargs: dict = {}


def call(*args, **kwargs):
    return Call(args, kwargs)


NUMBER = [call(T, T), call(T, 2), call(T, 1.5), call(T, -3)]
CALLS = {
    "add": [*NUMBER, call(T, T, alpha=2), call(T, T, alpha=-1.5), call(3, T), call(T, True)],
    "sub": [*NUMBER, call(T, T, alpha=2), call(2.5, T)],
    "rsub": [call(T, T), call(T, 3), call(T, T, alpha=2)],
    "mul": [*NUMBER, call(2, T)],
    "div": [
        *NUMBER, call(2, T), call(T, T, rounding_mode="floor"), call(T, T, rounding_mode="trunc"),
        call(T, 3, rounding_mode="floor"), call(T, 2.5, rounding_mode="trunc"),
    ],
    "floor_divide": [*NUMBER, call(7, T)],
    "remainder": [*NUMBER, call(7, T)],
    "fmod": NUMBER,
    "pow": [
        call(T, T), call(2, T), call(0, T), call(T, 0), call(T, 1), call(T, 2), call(T, 3),
        call(T, 4), call(T, 5),
        call(T, 0.5), call(T, 2.5), call(T, -1.0), call(T, -2.0), call(T, -0.5),
    ],
    "float_power": [call(T, T), call(T, 2), call(2.5, T)],
    "addcmul": [call(T, T, T), call(T, T, T, value=2), call(T, T, T, value=-1.5)],
    "addcdiv": [call(T, T, T), call(T, T, T, value=2), call(T, T, T, value=-1.5)],
    "lerp": [call(T, T, T), call(T, T, 0.25), call(T, T, 0.75)],
    "eq": NUMBER, "ne": NUMBER, "lt": NUMBER, "le": NUMBER, "gt": NUMBER, "ge": NUMBER,
    "isclose": [call(T, T), call(T, T, rtol=0.5, atol=0.1), call(T, T, equal_nan=True)],
    "bitwise_and": [call(T, T), call(T, 6), call(6, T)],
    "bitwise_or": [call(T, T), call(T, 6)],
    "bitwise_xor": [call(T, T), call(T, 6)],
    "bitwise_left_shift": [call(T, T), call(T, 3), call(1, T)],
    "bitwise_right_shift": [call(T, T), call(T, 3), call(100, T)],
    "clamp": [
        call(T, -1, 2), call(T, 0, 3), call(T, min=0.5), call(T, max=2), call(T, T, T),
        call(T, min=T), call(T, max=T), call(T, 3, 1),
    ],
    "clamp_min": [call(T, 1), call(T, T), call(T, 0.5)],
    "clamp_max": [call(T, 1), call(T, T), call(T, 0.5)],
    "where": [call(B, T, T), call(B, T, 1), call(B, 2.5, T), call(B, 1, 2)],
    "copysign": [call(T, T), call(T, -2.0), call(T, 2)],
    "round": [call(T), call(T, decimals=1), call(T, decimals=-1)],
    "nan_to_num": [call(T), call(T, 1.0, 2.0, -3.0), call(T, posinf=5.0)],
    "fill": [call(T, 2), call(T, 2.5)],
    "logit": [call(T), call(T, 0.1)],
    "xlogy": [call(T, T), call(2, T), call(T, 2.5)],
    "special_xlog1py": [call(T, T), call(2, T), call(T, 2.5)],
    "special_zeta": [call(T, T), call(2, T), call(T, 2.5)],
    "polygamma": [call(0, T), call(1, T), call(2, T), call(3, T)],
    "mvlgamma": [call(T, 1), call(T, 3)],
    "hardtanh": [call(T), call(T, -0.5, 2.0)],
    "threshold": [call(T, 0.5, 2.0), call(T, 1, 3)],
    "leaky_relu": [call(T), call(T, 0.2), call(T, -0.5)],
    "hardshrink": [call(T), call(T, 1.0)],
    "softshrink": [call(T), call(T, 1.0)],
    "elu": [call(T), call(T, 2.0)],
    "celu": [call(T), call(T, 2.0)],
    "gelu": [call(T), call(T, approximate="tanh")],
    "softplus": [call(T), call(T, 2.0, 3.0)],
    "prelu": [call(T, W)],
    "complex": [call(T, T)],
    "polar": [call(T, T)],
}  # fmt: skip
for _letter in ("t", "u", "v", "w"):
    for _shift in ("", "shifted_"):
        CALLS[f"special_{_shift}chebyshev_polynomial_{_letter}"] = [
            call(T, n) for n in (0, 1, 2, 5)
        ]
for _name in (
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
):
    CALLS[f"special_{_name}"] = [call(T, n) for n in (-1, 0, 1, 2, 5)]


def calls_of(op):
    """Ways to call a row."""
    if op.name in CALLS:
        return CALLS[op.name]
    return [Call((T,) * sum(p.kind == "tensor" for p in op.params))]


FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1.5, -2.5, 3.0, -3.0, 0.1, -0.3, 6.0, 7.25, -12.75,
    20.5, 33.0, -87.0,
    1e-3, -1e-5, 3e-39, -1e-42, 1e4, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
INTEGERS = [0, 1, -1, 2, -2, 3, 5, -5, 7, 12, -13, 63, 100, -100]
COMPLEX = [
    0, 1, -1, 1j, -1j, 0.5 + 0.5j, -0.5 + 2j, 2 - 1j, -1.5 - 0.25j, 3 + 4j, 1e-3 + 1e-3j, 0.25, -2,
    5j, 0.1 - 3j,
]  # fmt: skip
INTEGER_RANGES = {
    "uint8": (0, 255), "int8": (-128, 127), "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1), "uint16": (0, 2**16 - 1), "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}  # fmt: skip
DIVISIONS = ("floor_divide", "remainder", "fmod", "div")


def telling(dtype):
    """Values that show what a function does at the odd points, as a NumPy array (wide types)."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGER_RANGES:
        low, high = INTEGER_RANGES[dtype]
        values = [v for v in INTEGERS if low <= v <= high] + [low, high]
        return np.array(values, dtype="uint64" if dtype == "uint64" else "int64")
    if dtype.startswith("complex"):
        return np.array(COMPLEX, dtype="complex128")
    return np.array(FLOATS)


def operands(op, dtype, count):
    """One array per tensor: every telling value against every other."""
    values = telling(dtype)
    if count == 1:
        return [values]
    if count == 2:
        first, second = np.meshgrid(values, values, indexing="ij")
        second = second.copy()
        if dtype in INTEGER_RANGES and op.name in DIVISIONS:
            second[
                (second == 0) | (second == -1) | (second == np.array(-1).astype(second.dtype))
            ] = 3
        if dtype in INTEGER_RANGES and op.name == "pow":
            second = second % 7
        if op.name in ("gcd", "lcm"):  # the size of the lowest number does not fit
            first, second = (
                np.where(x == INTEGER_RANGES.get(dtype, (0, 0))[0], 6, x) for x in (first, second)
            )
        return [first.ravel(), second.ravel()]
    rng = np.random.default_rng(1)
    size = 8 * len(values)
    return [rng.permutation(np.resize(values, size)) for _ in range(count)]


# Smooth stretches for rows whose domain says too little, and points to stay away from.
SMOOTH = {
    "acosh": (1.2, 4), "polygamma": (0.5, 4), "mvlgamma": (2, 5), "pow": (0.3, 2.5),
    "float_power": (0.3, 2.5),
    "lgamma": (0.5, 4), "digamma": (0.5, 4), "igamma": (0.5, 3), "igammac": (0.5, 3),
    "special_zeta": (1.5, 4),
    "xlogy": (0.3, 3), "special_xlog1py": (0.3, 3), "remainder": (1.1, 1.9), "fmod": (1.1, 1.9),
    "erfinv": (-0.8, 0.8),
    "logit": (0.15, 0.85), "asin": (-0.8, 0.8), "acos": (-0.8, 0.8), "atanh": (-0.8, 0.8),
    "hypot": (0.3, 2),
    "special_ndtri": (0.1, 0.9), "special_entr": (0.2, 3), "floor": (0.1, 0.4), "ceil": (0.1, 0.4),
    "trunc": (0.1, 0.4),
    "round": (0.21, 0.24), "frac": (0.1, 0.9), "div": (1.2, 1.4), "clamp": (-3, 4), "tan": (-1, 1),
}  # fmt: skip
CORNERS = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 6.0, 10.0)


def smooth(op, rng, shape):
    """Random numbers where the row has derivatives."""
    low, high = SMOOTH.get(op.name, op.domain or (-2.2, 2.2))
    low, high = max(low, -4), min(high, 4)
    margin = 0.02 * (high - low)
    values = rng.uniform(low + margin, high - margin, shape)
    for corner in CORNERS:
        near = np.abs(values - corner) < 0.03
        values[near] += 0.07
    return values
