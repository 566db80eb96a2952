"""Comparison, logic and bits; the larger, the smaller and the nearest within bounds.

Comparisons happen in the common dtype and give booleans. Where two values tie, gradients are shared
as PyTorch shares them: `maximum` splits evenly, `clamp` passes everything at its bounds.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau.codegen import scalar as m
from flambeau.ops.rules import boolean, promoted, real_boolean
from flambeau.ops.support import dtype_of, refuse_complex32, refuses
from flambeau.ops.table import OptionalTensor, composite, pointwise

# -- comparisons -----------------------------------------------------------------------------------


@pointwise(dtype=boolean)
def eq(input, other):
    """Is input equal to other?"""
    return input == other


@pointwise(dtype=boolean, aliases="not_equal")
def ne(input, other):
    """Is input different from other?"""
    return input != other


@pointwise(dtype=boolean, aliases="less", dtypes=refuses("lt_cpu", "wide complex"))
def lt(input, other):
    """Is input less than other?"""
    return input < other


@pointwise(dtype=boolean, aliases="less_equal", dtypes=refuses("le_cpu", "wide complex"))
def le(input, other):
    """Is input at most other?"""
    return input <= other


@pointwise(dtype=boolean, aliases="greater", dtypes=refuses("gt_cpu", "wide complex"))
def gt(input, other):
    """Is input greater than other?"""
    return input > other


@pointwise(dtype=boolean, aliases="greater_equal", dtypes=refuses("ge_cpu", "wide complex"))
def ge(input, other):
    """Is input at least other?"""
    return input >= other


def _check_close(bound):
    first, second = bound["input"].dtype, bound["other"].dtype
    if first is not second:
        raise RuntimeError(f"{first.scalar_name} did not match {second.scalar_name}")
    for name in ("rtol", "atol"):
        if not bound[name] >= 0:
            raise RuntimeError(
                f"{name} must be greater than or equal to zero, but got {bound[name]:g}"
            )


@pointwise(dtype=boolean, prepare=_check_close, numbers=False, variants="function method")
def isclose(input, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False):
    """Is input within atol + rtol * |other| of other?"""
    close = input == other
    if equal_nan:
        close = close | (m.isnan(input) & m.isnan(other))
    if not isinstance(input, m.Complex) and not m.is_float(input.type):
        input, other, rtol, atol = (m.cast(x, "f64") for x in (input, other, rtol, atol))
    error = m.abs(input - other)
    # without tolerance only equal values are close: integers beyond 2**53 lose digits above
    tolerant = (rtol != 0) | (atol != 0)
    return close | (tolerant & (error < math.inf) & (error <= atol + m.abs(other * rtol)))


@composite(variants="function method")
def allclose(input, other, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False):
    """Are all elements within atol + rtol * |other| of each other?"""
    return input.isclose(other, rtol, atol, equal_nan).all().item()


@composite(variants="function method")
def equal(input, other):
    """Have the tensors the same shape and elements?"""
    if input.shape != other.shape:
        return False
    if input.numel():
        refuse_complex32("equal_notnan_cpu" if input is other else "equal_cpu", input)
    return (input == other).all().item()


# -- tests of one number ---------------------------------------------------------------------------


@pointwise(dtype=real_boolean, variants="function method")
def isnan(input):
    """Is it not a number?"""
    return m.isnan(input)


@pointwise(dtype=real_boolean, variants="function method")
def isinf(input):
    """Is it infinite? (A complex number is if one of its parts is.)"""
    return m.isinf(input)


@pointwise(dtype=real_boolean, variants="function method")
def isfinite(input):
    """Is it neither infinite nor nan?"""
    return ~(m.isinf(input) | m.isnan(input))


def _no_complex(name):
    return refuses(name, "", complex=(RuntimeError, f"{name} does not support complex inputs."))


@pointwise(
    dtype=real_boolean,
    dtypes=_no_complex("isposinf"),
    variants="function method out",
    exact_out="isposinf does not support non-boolean outputs.",
)
def isposinf(input):
    """Is it positive infinity?"""
    return input == math.inf if m.is_float(input.type) else m.const(False, "bool")


@pointwise(
    dtype=real_boolean,
    dtypes=_no_complex("isneginf"),
    variants="function method out",
    exact_out="isneginf does not support non-boolean outputs.",
)
def isneginf(input):
    """Is it negative infinity?"""
    return input == -math.inf if m.is_float(input.type) else m.const(False, "bool")


@pointwise(dtype=real_boolean, variants="function method")
def isreal(input):
    """Has it no imaginary part?"""
    return input.im == 0 if isinstance(input, m.Complex) else m.const(True, "bool")


@pointwise(
    dtype=real_boolean,
    variants="function method out",
    exact_out="signbit does not support non-boolean outputs.",
    dtypes=refuses(
        "signbit",
        "",
        complex=(NotImplementedError, "signbit is not implemented for complex tensors."),
    ),
)
def signbit(input):
    """Is its sign bit set? (That of -0.0 is.)"""
    if not m.is_float(input.type):
        return input < 0
    return m.bitcast(input, "i" + input.type[1:]) < 0


# -- logic and bits --------------------------------------------------------------------------------


@pointwise(dtype=real_boolean, dtypes=refuses("logical_not_cpu", "wide"), loose=True)
def logical_not(input):
    """Is it zero?"""
    return input == 0


@pointwise(dtype=boolean, dtypes=refuses("logical_and_cpu", "wide"), loose=True, numbers=False)
def logical_and(input, other):
    """Are both different from zero?"""
    return (input != 0) & (other != 0)


@pointwise(dtype=boolean, dtypes=refuses("logical_or_cpu", "wide"), loose=True, numbers=False)
def logical_or(input, other):
    """Is one of them different from zero?"""
    return (input != 0) | (other != 0)


@pointwise(dtype=boolean, dtypes=refuses("logical_xor_cpu", "wide"), loose=True, numbers=False)
def logical_xor(input, other):
    """Is exactly one of them different from zero?"""
    return (input != 0) != (other != 0)


@pointwise(
    dtype=promoted, dtypes=refuses("bitwise_not_cpu", "wide half float complex"), exact_out=True
)
def bitwise_not(input):
    """Every bit inverted; for booleans, not."""
    return ~input


@pointwise(
    dtype=promoted, first_scalar="fresh", dtypes=refuses("bitwise_and_cpu", "half float complex")
)
def bitwise_and(input, other):
    """Bits that are set in both."""
    return input & other


@pointwise(
    dtype=promoted, first_scalar="fresh", dtypes=refuses("bitwise_or_cpu", "half float complex")
)
def bitwise_or(input, other):
    """Bits that are set in one of them."""
    return input | other


@pointwise(
    dtype=promoted, first_scalar="fresh", dtypes=refuses("bitwise_xor_cpu", "half float complex")
)
def bitwise_xor(input, other):
    """Bits that are set in exactly one of them."""
    return input ^ other


def _too_far(amount):
    bits = m.BITS[amount.type]
    over = amount >= bits
    return over if amount.type[0] == "u" else over | (amount < 0)


@pointwise(
    dtype=promoted,
    first_scalar="fresh",
    dtypes=refuses("lshift_cpu", "bool wide half float complex"),
)
def bitwise_left_shift(input, other):
    """Bits moved to the left; moved out of the number they are gone."""
    far = _too_far(other)
    return m.where(far, 0, input << m.where(far, 0, other))


@pointwise(
    dtype=promoted,
    first_scalar="fresh",
    dtypes=refuses("rshift_cpu", "bool wide half float complex"),
)
def bitwise_right_shift(input, other):
    """Bits moved to the right; the sign is kept."""
    far = _too_far(other)
    if input.type[0] == "u":
        return m.where(far, 0, input >> m.where(far, 0, other))
    return input >> m.where(far, m.BITS[input.type] - 1, other)


# -- the larger and the smaller --------------------------------------------------------------------


def _extreme(name, kernel):
    text = f"{name} not implemented for complex tensors."
    return refuses(kernel, "wide", complex=(RuntimeError, text))


@pointwise(
    dtype=promoted,
    dtypes=_extreme("maximum", "maximum_cpu"),
    numbers=False,
    variants="function method out",
    grad=dict(
        input=lambda g, input, other: m.where(input == other, g / 2, m.where(input < other, 0, g)),
        other=lambda g, input, other: m.where(input == other, g / 2, m.where(input > other, 0, g)),
    ),
)
def maximum(input, other):
    """The larger of two; nan if one of them is."""
    return m.maximum(input, other)


@pointwise(
    dtype=promoted,
    dtypes=_extreme("minimum", "minimum_cpu"),
    numbers=False,
    variants="function method out",
    grad=dict(
        input=lambda g, input, other: m.where(input == other, g / 2, m.where(input > other, 0, g)),
        other=lambda g, input, other: m.where(input == other, g / 2, m.where(input < other, 0, g)),
    ),
)
def minimum(input, other):
    """The smaller of two; nan if one of them is."""
    return m.minimum(input, other)


@pointwise(
    dtype=promoted,
    dtypes=_extreme("fmax", "maximum_cpu"),
    numbers=False,
    variants="function method out",
    grad=dict(
        input=lambda g, input, other: m.where((input >= other) | (other != other), g, 0),
        other=lambda g, input, other: m.where((input >= other) | (other != other), 0, g),
    ),
)
def fmax(input, other):
    """The larger of two, leaving out a nan."""
    return m.where((input >= other) | m.isnan(other), input, other)


@pointwise(
    dtype=promoted,
    dtypes=_extreme("fmin", "minimum_cpu"),
    numbers=False,
    variants="function method out",
    grad=dict(
        input=lambda g, input, other: m.where((input <= other) | (other != other), g, 0),
        other=lambda g, input, other: m.where((input <= other) | (other != other), 0, g),
    ),
)
def fmin(input, other):
    """The smaller of two, leaving out a nan."""
    return m.where((input <= other) | m.isnan(other), input, other)


# -- bounds ----------------------------------------------------------------------------------------


def at_least(x, low):
    """x, or low where x is less; of both zeros x is kept, and nan in either stays."""
    return m.where((x < low) | m.isnan(low), low, x)


def at_most(x, high):
    return m.where((x > high) | m.isnan(high), high, x)


def _within(x, low, high):
    if low is None:
        return x <= high
    return x >= low if high is None else (x >= low) & (x <= high)


_NO_COMPLEX_CLAMP = (NotImplementedError, "clamp is not supported for complex types")


def _clamp_dtypes(op, operands):
    numbers = isinstance(operands[1], type)
    kernel = "clamp_scalar_cpu" if numbers else "clamp_cpu"
    groups = "bool wide" if not numbers and len(operands) == 3 else "wide"
    refuses(kernel, groups, complex=_NO_COMPLEX_CLAMP)(op, operands)


def _one_bound(name, extreme):
    """With a tensor as its bound, clamp_min is maximum in all but name."""

    def check(op, operands):
        if isinstance(operands[1], type):
            refuses(f"{name}_scalar_cpu", "wide", complex=_NO_COMPLEX_CLAMP)(op, operands)
        else:
            refuses(f"{extreme}_cpu", "wide complex")(op, operands)

    return check


def _check_bounds(bound):
    if bound["min"] is None and bound["max"] is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    kinds = {hasattr(b, "dtype") for b in (bound["min"], bound["max"]) if b is not None}
    if len(kinds) > 1:
        _take_for_number(bound)
    if bound["input"].dtype.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")


def _take_for_number(bound):
    """Beside a number, a tensor without dimensions is another one."""
    name = "min" if hasattr(bound["min"], "dtype") else "max"
    t = bound[name]
    if t.ndim or not hasattr(t, "item") or t.requires_grad:
        forms = ("Tensor input, Tensor min, Tensor max", "Tensor input, Number min, Number max")
        raise errors.combination("clamp", bound.values(), forms)
    bound[name] = t.item()


def _clamp_node(name):
    def node(tensors, _):
        return f"{name}Backward{'0' if (len(tensors) > 1) == (name == 'Clamp') else '1'}"

    return node


def _low_gradient(g, input, min, max):
    under = input < min
    return m.where(under if max is None else under & (min < max), g, 0)


def _high_gradient(g, input, min, max):
    over = input > max
    return m.where(over if min is None else over | (max < min), g, 0)


@pointwise(
    dtype=promoted,
    fits=True,
    dtypes=_clamp_dtypes,
    check=_check_bounds,
    settled=True,
    aliases="clip",
    node=_clamp_node("Clamp"),
    grad=dict(
        input=lambda g, input, min, max: m.where(_within(input, min, max), g, 0),
        min=_low_gradient,
        max=_high_gradient,
    ),
)
def clamp(input, min: OptionalTensor = None, max: OptionalTensor = None):
    """input, no less than min and no more than max."""
    if min is not None:
        input = at_least(input, min)
    return input if max is None else at_most(input, max)


@pointwise(
    dtype=promoted,
    fits=True,
    dtypes=_one_bound("clamp_min", "maximum"),
    node=_clamp_node("ClampMin"),
    grad=dict(
        input=lambda g, input, min: m.where(input >= min, g, 0),
        min=lambda g, input, min: m.where(input < min, g, 0),
    ),
)
def clamp_min(input, min):
    """input, no less than min."""
    return at_least(input, min)


@pointwise(
    dtype=promoted,
    fits=True,
    dtypes=_one_bound("clamp_max", "minimum"),
    node=_clamp_node("ClampMax"),
    grad=dict(
        input=lambda g, input, max: m.where(input <= max, g, 0),
        max=lambda g, input, max: m.where(input > max, g, 0),
    ),
)
def clamp_max(input, max):
    """input, no more than max."""
    return at_most(input, max)


# -- choice ----------------------------------------------------------------------------------------


def _check_condition(op, operands):
    condition = operands[0]
    if isinstance(condition, type) or condition.dtype not in (d.bool_, d.uint8):
        name = condition.dtype.scalar_name
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {name}"
        )


@pointwise(
    dtype=lambda operands: promoted(operands[1:]),
    dtypes=_check_condition,
    variants="function out",
    exact_out="Expected out type to be {wanted.scalar_name} but got {got.scalar_name}",
    alone=lambda condition: condition.nonzero(as_tuple=True),
    grad=dict(
        input=lambda g, condition: m.where(condition != 0, g, 0),
        other=lambda g, condition: m.where(condition != 0, 0, g),
    ),
)
def where(condition, input, other):
    """input where the condition holds, else other."""
    return m.where(condition != 0, input, other)


_HEAVISIDE_MIXED = "heaviside is not yet implemented for tensors with different dtypes."


def _check_heaviside(op, operands):
    if any(dtype_of(o).is_complex for o in operands):
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if operands[0].dtype is not operands[1].dtype:
        raise RuntimeError(_HEAVISIDE_MIXED)
    refuses("heaviside_cpu", "wide")(op, operands)


@pointwise(dtype=promoted, dtypes=_check_heaviside, numbers=False, exact_out=_HEAVISIDE_MIXED)
def heaviside(input, values):
    """0 below zero, 1 above, values at zero."""
    above = m.cast(input > 0, input.type)
    return m.where(input == 0, values, above)
