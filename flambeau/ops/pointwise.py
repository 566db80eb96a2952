"""Arithmetic: sums, products, quotients, remainders, powers, and what mixes three tensors.

The pointwise rows are spread over families: comparison and logic are in `comparison.py`, functions
of one number in `elementary.py` and `special_functions.py`, activations in `activations.py`.
Bodies see operands already cast to the dtype they compute in; derivatives follow PyTorch's at the
odd points.
"""

import cmath
import math

from flambeau import _dtype as d
from flambeau.codegen import scalar as m
from flambeau.ops.rules import floating, promoted, same
from flambeau.ops.support import (
    INTEGRAL,
    dtype_of,
    every,
    group_of,
    not_implemented_derivative,
    refuses,
)
from flambeau.ops.table import Scalar, composite, pointwise

DIVISION_BY_ZERO = RuntimeError("ZeroDivisionError")
_TWO_BOOLS = (
    "Subtraction, the `-` operator, with two bool tensors is not supported. "
    "Use the `^` or `logical_xor()` operator instead."
)
_ONE_BOOL = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
    "invert a mask, use the `~` or `logical_not()` operator instead."
)


def scaled(x, factor):
    """x * factor, without a trace of a factor that is 1 anyway."""
    return x if isinstance(factor, (int, float)) and factor == 1 else x * factor


# -- sums and products -----------------------------------------------------------------------------


def _check_alpha(bound):
    alpha = bound["alpha"]
    if type(alpha) is int:
        return
    operands = [bound["input"], bound["other"]]
    common = d.result_dtype(
        [
            (o.dtype, 2 if o.ndim else 1) if hasattr(o, "dtype") else (d.scalar_dtype(type(o)), 0)
            for o in operands
        ]
    )
    if type(alpha) is bool and common is not d.bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if type(alpha) in (float, complex) and common.category < d.FLOATING:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if type(alpha) is complex and common.category < d.COMPLEX:
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )


def _no_bool_operand(op, operands):
    bools = [group_of(o) == "bool" for o in operands]
    if any(bools):
        raise RuntimeError(_TWO_BOOLS if all(bools) else _ONE_BOOL)


@pointwise(
    dtype=promoted,
    dtypes=refuses("add_stub", "wide"),
    check=_check_alpha,
    settled=True,
    old_orders=(("input", "alpha", "other"),),
    first_scalar=True,
    number_pairs=True,
    grad=dict(input=lambda g: g, other=lambda g, alpha: scaled(g, m.conj(alpha))),
)
def add(input, other, *, alpha: Scalar = 1):
    """Sum of input and alpha times other; for booleans, whether one of them is true."""
    if input.type == "bool":
        return input | (other if isinstance(alpha, int) else other & alpha)
    return input + scaled(other, alpha)


@pointwise(
    dtype=promoted,
    dtypes=every(_no_bool_operand, refuses("add_stub", "wide")),
    check=_check_alpha,
    settled=True,
    old_orders=(("input", "alpha", "other"),),
    aliases="subtract",
    first_scalar=True,
    number_pairs=True,
    grad=dict(input=lambda g: g, other=lambda g, alpha: -scaled(g, m.conj(alpha))),
)
def sub(input, other, *, alpha: Scalar = 1):
    """Difference of input and alpha times other."""
    return input - scaled(other, alpha)


@pointwise(
    dtype=promoted,
    dtypes=every(_no_bool_operand, refuses("add_stub", "wide")),
    check=_check_alpha,
    settled=True,
    old_orders=(("input", "other", "alpha"),),
    variants="function",
    node=lambda tensors, _: f"RsubBackward{2 - len(tensors)}",
    grad=dict(input=lambda g, alpha: -scaled(g, m.conj(alpha)), other=lambda g: g),
)
def rsub(input, other, *, alpha: Scalar = 1):
    """Difference of other and alpha times input."""
    return other - scaled(input, alpha)


@pointwise(
    dtype=promoted,
    aliases="multiply",
    first_scalar=True,
    number_pairs=True,
    exact_numbers=True,
    grad=dict(
        input=lambda g, other: g * m.conj(other),
        other=lambda g, input: g * m.conj(input),
    ),
)
def mul(input, other):
    """Product of two tensors, with broadcasting."""
    return input * other


def _check_factor(bound):
    """A float beside integers is taken for an integer: it must be one of their dtype."""
    if type(bound["value"]) is float:
        common = d.result_dtype(
            [(bound[n].dtype, 2 if bound[n].ndim else 1) for n in ("input", "tensor1", "tensor2")]
        )
        if common in (d.uint8, d.int8, d.int16, d.int32, d.int64):  # others have no kernel
            d.check_fits(bound["value"], common)


@pointwise(
    dtype=promoted,
    dtypes=refuses("addcmul_cpu_out", "bool wide"),
    check=_check_factor,
    settled=True,
    old_orders=(("input", "value", "tensor1", "tensor2"),),
    numbers=False,
    grad=dict(
        input=lambda g: g,
        tensor1=lambda g, tensor2, value: scaled(g * m.conj(tensor2), m.conj(value)),
        tensor2=lambda g, tensor1, value: scaled(g * m.conj(tensor1), m.conj(value)),
    ),
)
def addcmul(input, tensor1, tensor2, *, value: Scalar = 1):
    """input plus value times the product of tensor1 and tensor2."""
    return input + scaled(tensor1, value) * tensor2


def _no_integer_division(op, operands):
    if all(dtype_of(o).category < d.FLOATING for o in operands[1:]):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release "
            "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv "
            "behavior can be implemented as (input + value * torch.trunc(tensor1 / tensor2))"
            ".to(input.dtype) for integer inputs and as (input + value * tensor1 / tensor2) for "
            "float inputs. The future addcdiv behavior is just the latter implementation: "
            "(input + value * tensor1 / tensor2), for all dtypes."
        )


@pointwise(
    dtype=promoted,
    dtypes=every(_no_integer_division, refuses("addcdiv_cpu_out", "")),
    old_orders=(("input", "value", "tensor1", "tensor2"),),
    numbers=False,
    grad=dict(
        input=lambda g: g,
        tensor1=lambda g, tensor2, value: g * m.conj(value / tensor2),
        tensor2=lambda g, tensor1, tensor2, value: (
            -g * m.conj(scaled(tensor1, value) / (tensor2 * tensor2))
        ),
    ),
)
def addcdiv(input, tensor1, tensor2, *, value: Scalar = 1):
    """input plus value times the quotient of tensor1 and tensor2."""
    return input + scaled(tensor1, value) / tensor2


def _lerp_dtypes(op, operands):
    first = operands[0].dtype
    for name, o in zip(("end", "weight"), operands[1:]):
        if isinstance(o, type) or (name == "weight" and not o.ndim):
            continue
        if o.dtype is not first:
            raise RuntimeError(
                f"expected dtype {first.cpp_name} for `{name}` but got dtype {o.dtype.cpp_name}"
            )
    kind = "scalar" if isinstance(operands[2], type) else "tensor"
    refuses(f"lerp_kernel_{kind}", INTEGRAL)(op, operands)


def _lerp_dtype(operands):
    """A weight without dimensions is promoted as in arithmetic; others have the dtype of input."""
    return promoted(operands) if operands[2][1] == 1 else same(operands)


@pointwise(
    dtype=_lerp_dtype,
    dtypes=_lerp_dtypes,
    fits=True,
    numbers_for=("weight",),
    node=lambda tensors, _: f"LerpBackward{len(tensors) - 2}",
    exact_numbers=True,
    grad=dict(
        input=lambda g, weight: g * (1 - m.conj(weight)),
        end=lambda g, weight: g * m.conj(weight),
        weight=lambda g, input, end: g * m.conj(end - input),
    ),
)
def lerp(input, end, weight):
    """Linear interpolation: input + weight * (end - input)."""
    # each end is reached exactly: near end, count backwards from it
    span = end - input
    return m.where(m.abs(weight) < 0.5, input + weight * span, end - span * (1 - weight))


# -- quotients and remainders ----------------------------------------------------------------------


def _check_mode(bound):
    mode = bound["rounding_mode"]
    if mode not in (None, "trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'"
        )


@pointwise(
    dtype=floating,
    dtypes=refuses("div_cpu", ""),
    check=_check_mode,
    settled=True,
    aliases="divide true_divide",
    first_scalar=True,
    number_pairs=True,
    exact_numbers=True,
    overload=lambda bound: bound["rounding_mode"] and f"div_{bound['rounding_mode']}",
    grad=dict(
        input=lambda g, other: g / m.conj(other),
        other=lambda g, input, other: -g * m.conj((input / other) / other),
    ),
)
def div(input, other, *, rounding_mode: str = None):
    """Quotient of two tensors; rounding_mode "trunc" or "floor" rounds it to an integer."""
    return input / other


def _safe(b):
    """An integer divisor that cannot trap; the check beside it reports the zeros."""
    return m.where((b == 0) | (b == -1) if b.type[0] == "i" else b == 0, 1, b)


def _integer_quotient(a, b):
    q = m.quot(a, _safe(b))
    # the lowest number divided by -1 wraps
    return m.check(b != 0, m.where(b == -1, -a, q) if b.type[0] == "i" else q)


def _integer_remainder(a, b):
    r = m.rem(a, _safe(b))
    return m.check(b != 0, m.where(b == -1, 0, r) if b.type[0] == "i" else r)


def _opposite(r, b):
    """Has a remainder the wrong sign for a floored division?"""
    return (r != 0) & ((r < 0) != (b < 0))


def _floor_quotient(a, b):
    if not m.is_float(a.type):
        q = _integer_quotient(a, b)
        if a.type[0] == "u":
            return q
        return m.where(_opposite(a - q * b, b), q - 1, q)
    # From the exact remainder, as Python does: floor(a / b) is off by one where a / b rounds up.
    r = m.rem(a, b)
    q = (a - r) / b
    q = m.where(_opposite(r, b), q - 1, q)
    whole = m.floor(q)
    whole = m.where(q - whole > 0.5, whole + 1, whole)
    quotient = a / b
    return m.where(
        b == 0, quotient, m.where(q == 0, m.copysign(m.const(0, a.type), quotient), whole)
    )


@pointwise(
    dtype=promoted,
    dtypes=refuses("div_trunc_cpu", "bool wide complex"),
    variants="",
    node="DivBackward2",
    error=DIVISION_BY_ZERO,
    first_scalar=True,
    number_pairs=True,
    exact_numbers=True,
    grad=dict(input=lambda g: 0, other=lambda g: 0),
)
def div_trunc(input, other):
    """Quotient rounded toward zero."""
    if not m.is_float(input.type):
        return _integer_quotient(input, other)
    return m.trunc(input / other)


@pointwise(
    dtype=promoted,
    dtypes=refuses("div_floor_cpu", "bool wide complex"),
    variants="",
    node="DivBackward2",
    error=DIVISION_BY_ZERO,
    first_scalar=True,
    number_pairs=True,
    exact_numbers=True,
    grad=dict(input=lambda g: 0, other=lambda g: 0),
)
def div_floor(input, other):
    """Quotient rounded down."""
    return _floor_quotient(input, other)


@pointwise(
    dtype=promoted,
    dtypes=refuses("div_floor_cpu", "bool wide complex"),
    first_scalar=True,
    number_pairs=True,
    exact_numbers=True,
    error=DIVISION_BY_ZERO,
    node="NotImplemented",
    grad=dict(
        input=not_implemented_derivative("floor_divide"),
        other=not_implemented_derivative("floor_divide"),
    ),
)
def floor_divide(input, other):
    """Quotient rounded down."""
    return _floor_quotient(input, other)


def _remainder_node(tensors, _):
    if "input" not in tensors:
        return "NotImplemented"
    return f"RemainderBackward{len(tensors) - 1}"


@pointwise(
    dtype=promoted,
    dtypes=refuses("remainder_cpu", "bool wide complex"),
    first_scalar="fresh",
    error=DIVISION_BY_ZERO,
    node=_remainder_node,
    grad=dict(
        input=lambda g: g,
        other=lambda g, input, other: -g * floor_quotient(input, other),
    ),
)
def remainder(input, other):
    """What a floored division leaves: it has the sign of other."""
    if not m.is_float(input.type):
        r = _integer_remainder(input, other)
        return r if input.type[0] == "u" else m.where(_opposite(r, other), r + other, r)
    r = m.rem(input, other)
    return m.where(_opposite(r, other), r + other, r)


@pointwise(
    dtype=promoted,
    dtypes=refuses("fmod_cpu", "bool wide complex"),
    error=DIVISION_BY_ZERO,
    node=lambda tensors, _: f"FmodBackward{len(tensors) - 1}",
    grad=dict(
        input=lambda g: g,
        other=lambda g, input, other: -g * m.trunc(input / other),
    ),
)
def fmod(input, other):
    """What a division cut toward zero leaves: it has the sign of input."""
    if not m.is_float(input.type):
        return _integer_remainder(input, other)
    return m.rem(input, other)


def floor_quotient(a, b):
    """Floored division on expressions or tensors."""
    if isinstance(a, m.Expr) or isinstance(b, m.Expr):
        like = a if isinstance(a, m.Expr) else b
        return _floor_quotient(m.lift(a, like.type), m.lift(b, like.type))
    return a.div(b, rounding_mode="floor")


# -- powers ----------------------------------------------------------------------------------------

FOLDED_POWERS = (0, 0.5, 1, 2, 3, 4, -0.5, -1, -2)


def power(x, y):
    """x ** y; a number y that is a small power is spelled as products."""
    if isinstance(y, (int, float)) and isinstance(x, (m.Expr, m.Complex)):
        if y in FOLDED_POWERS:
            return _folded_power(x, y)
        y = float(y)
    return m.pow(x, y)


def _folded_power(x, y):
    if y < 0:
        return 1 / _folded_power(x, -y)
    if y == 0:
        return m.as_complex(1, x) if isinstance(x, m.Complex) else m.const(1, x.type)
    if y == 0.5:
        return m.sqrt(x)
    square = x * x if y > 1 else x
    return {1: x, 2: square, 3: square * x, 4: square * square}[y]


def _check_power(bound):
    exponent = bound["exponent"]
    if type(exponent) not in (int, float) or 0 <= exponent < 128:  # what every dtype holds
        return
    dtype = getattr(bound["input"], "dtype", None)
    if dtype is d.float16:
        d.check_fits(exponent, dtype)
    elif type(exponent) is int and dtype is not None and dtype.category < d.FLOATING:
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        d.check_fits(d.check_fits(exponent, d.int64), dtype)


def _base_gradient(g, input, exponent):
    if isinstance(exponent, (int, float, complex)):
        if exponent == 0:
            return 0
        return g * m.conj(scaled(power(input, exponent - 1), exponent))
    slope = g * m.conj(exponent * power(input, exponent - 1))
    return m.where(exponent == 0, 0, slope)


def _exponent_gradient(g, input, exponent, out):
    if isinstance(input, (int, float, complex)):
        if input == 0:
            return m.where(real_part(exponent) >= 0, 0, g * m.conj(out) * -math.inf)
        negative = isinstance(input, complex) or input < 0
        return g * m.conj(out * (cmath.log(input) if negative else math.log(input)))
    flat = (input == 0) & (real_part(exponent) >= 0)
    return m.where(flat, 0, g * m.conj(out * m.log(input)))


def real_part(x):
    """The real part of an expression or a tensor; real ones are their own."""
    if isinstance(x, (m.Expr, m.Complex)):
        return m.real(x)
    return x.real if x.dtype.is_complex else x


def _pow_node(tensors, statics):
    return "PowBackward" + ("1" if len(tensors) == 2 else "0" if "input" in tensors else "2")


@pointwise(
    dtype=promoted,
    dtypes=refuses("pow", "bool wide"),
    check=_check_power,
    first_scalar=True,
    fold=FOLDED_POWERS,
    node=_pow_node,
    grad=dict(input=_base_gradient, exponent=_exponent_gradient),
)
def pow(input, exponent):
    """input to the power of exponent."""
    return power(input, exponent)


@composite(variants="function method inplace out")
def square(input):
    """The square of each element."""
    return input**2


@composite(
    variants="function method inplace out",
    first_scalar=True,
    exact_out="the output given to float_power has dtype {got.scalar_name} but the operation's "
    "result requires dtype {wanted.scalar_name}",
    exact_inplace="the base given to float_power_ has dtype {got.scalar_name} but the operation's "
    "result requires dtype {wanted.scalar_name}",
)
def float_power(input, exponent):
    """input to the power of exponent, in double precision."""
    operands = (input, exponent)
    if not any(hasattr(o, "dtype") for o in operands):
        raise TypeError(
            f"float_power(): at least one argument must be Tensor, not {type(input).__name__}"
        )
    is_complex = any(
        o.dtype.is_complex if hasattr(o, "dtype") else isinstance(o, complex) for o in operands
    )
    wide = d.complex128 if is_complex else d.float64
    a, b = (o.to(wide) if hasattr(o, "dtype") else o for o in operands)
    return m.pow(a, b)
