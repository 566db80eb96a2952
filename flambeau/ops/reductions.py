"""Reductions over some or all dimensions.

A row says how states start, take in an element (the body), combine and finish; `result` names the dtype
a reduction computes with and those of its results. Derivatives work on tensors.
"""

import math

from flambeau import _dtype as d
from flambeau.codegen import scalar
from flambeau.codegen import scalar as m
from flambeau.ops.table import Dims, public, reduction


def restore_dims(g, shape, dim, keepdim):
    """A gradient of a reduction, spread over what was reduced."""
    if not keepdim and g.ndim:
        for k in sorted(_dims(dim, len(shape))):
            g = g.unsqueeze(k)
    return g.expand(shape)


def _dims(dim, ndim):
    if dim is None or dim == ():
        return range(ndim)
    return [k % ndim for k in (dim if isinstance(dim, (tuple, list)) else (dim,))]


def reduced_count(shape, dim):
    """How many elements each result of a reduction stands for."""
    return math.prod(shape[k] for k in _dims(dim, len(shape))) if shape else 1


# -- dtype rules: (input dtype, arguments) -> (compute dtype, result dtypes) -------------------------------


def summed(dtype, given):
    wanted = given.get("dtype")
    if wanted is None:
        wanted = d.int64 if dtype.category < d.FLOATING else dtype
    return wanted, (wanted,)


def averaged(dtype, given):
    wanted = given.get("dtype") or dtype
    if wanted.category < d.FLOATING:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {wanted.scalar_name}"
            if given.get("dtype") is None
            else f"mean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. Got: {wanted.scalar_name}"
        )
    return wanted, (wanted,)


def unchanged(dtype, given):
    return dtype, (dtype,)


def same_state(type, code):
    return (type, type) if code[0] == "c" else (type,)


def zero(type, code):
    return (
        scalar.Complex(m.const(0, type), m.const(0, type)) if code[0] == "c" else m.const(0, type)
    )


def one(type, code):
    return (
        scalar.Complex(m.const(1, type), m.const(0, type)) if code[0] == "c" else m.const(1, type)
    )


@reduction(
    result=summed,
    state=same_state,
    init=zero,
    combine=lambda a, b: a + b,
    variants="function method out",
    overloads=True,
    grad=lambda g, input_shape, dim, keepdim: restore_dims(g, input_shape, dim, keepdim),
)
def sum(input, dim: Dims = None, keepdim: bool = False, *, dtype: object = None):
    """Sum over the given dimensions."""
    return input


@reduction(
    result=averaged,
    state=same_state,
    init=zero,
    combine=lambda a, b: a + b,
    finish=lambda s, count: _divide(s, count),
    variants="function method out",
    overloads=True,
    grad=lambda g, input_shape, dim, keepdim: (
        restore_dims(g, input_shape, dim, keepdim) / reduced_count(input_shape, dim)
    ),
)
def mean(input, dim: Dims = None, keepdim: bool = False, *, dtype: object = None):
    """Mean over the given dimensions."""
    return input


def _divide(s, count):
    if isinstance(s, scalar.Complex):
        n = m.cast(count, s.re.type)
        return scalar.Complex(s.re / n, s.im / n)
    return s / m.cast(count, s.type)


# -- products ---------------------------------------------------------------------------------------------


def prod_grad(g, input, out, dim, keepdim):
    """d prod / d x is the product of the others: out / x, or by running products where zeros forbid that."""
    if dim is None:
        if not input.shape:
            return g
        flat = input.reshape(-1)
        return prod_grad(g, flat, out, 0, False).reshape(input.shape)
    if not keepdim and input.shape:
        g, out = g.unsqueeze(dim), out.unsqueeze(dim)
    if not input.shape:
        return g
    if not bool((input == 0).any()):
        return g * m.conj(out / input)
    ones = input.narrow(dim, 0, 1) * 0 + 1
    n = input.shape[dim]
    before = _cat([ones, input.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = _cat([ones, input.narrow(dim, 1, n - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return g * m.conj(before * after)


def _cat(tensors, dim):
    return public("cat")(tensors, dim)


@reduction(
    result=summed,
    state=same_state,
    init=one,
    combine=lambda a, b: a * b,
    variants="function method out",
    overloads=True,
    grad=lambda g, input, out, dim, keepdim: prod_grad(g, input, out, dim, keepdim),
)
def prod(input, dim: object = None, keepdim: bool = False, *, dtype: object = None):
    """Product over a dimension, or of all elements."""
    return input


# -- extremes ---------------------------------------------------------------------------------------------


def lowest(type, code=None):
    return _limit(type, -math.inf)


def highest(type, code=None):
    return _limit(type, math.inf)


def _limit(type, value):
    if scalar.is_float(type):
        return m.const(value, type)
    if type == "bool":
        return m.const(value > 0, "bool")
    bits = scalar.BITS[type]
    if type[0] == "u":
        return m.const((1 << bits) - 1 if value > 0 else 0, type)
    return m.const((1 << (bits - 1)) - 1 if value > 0 else -(1 << (bits - 1)), type)


def needs_elements(op, layout, dims, given):
    """Extremes of nothing do not exist."""
    if layout.dtype.is_complex:
        raise NotImplementedError(
            f"\"{op.name}_cpu\" not implemented for '{layout.dtype.scalar_name}'"
        )
    if layout.numel == 0:
        name = op.name.strip("_").split("_")[0] if op.name.startswith("_") else op.name
        if given.get("dim") in (None, ()):
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
            )
        for k in dims:
            if layout.ndim and layout.shape[k] == 0:
                raise IndexError(f"{name}(): Expected reduction dim {k} to have non-zero size.")


def spread_evenly(g, input, out, dim, keepdim):
    """The gradient of an extreme, shared by all elements that attain it."""
    if not keepdim and input.shape:
        for k in sorted(_dims(dim, len(input.shape))):
            g, out = g.unsqueeze(k), out.unsqueeze(k)
    mask = input == out
    count = mask.sum(tuple(_dims(dim, len(input.shape))), keepdim=True) if input.shape else 1
    return mask * (g / count)


# The state of an extreme is the best number so far and whether a nan was seen: comparing and noticing
# nan apart takes two instructions per vector where one rule for both takes four.


def _extreme_state(type, code):
    return (type, "bool") if scalar.is_float(type) else (type,)


def _extreme(limit, beats):
    def init(type, code):
        return (limit(type), m.const(False, "bool")) if scalar.is_float(type) else limit(type)

    def combine(a, b):
        if not isinstance(a, tuple):
            return scalar.select(beats(b, a), b, a)
        return scalar.select(beats(b[0], a[0]), b[0], a[0]), a[1] | b[1]

    def step(state, x, index, *numbers):
        if not isinstance(state, tuple):
            return scalar.select(beats(x, state), x, state)
        return scalar.select(beats(x, state[0]), x, state[0]), state[1] | (x != x)

    def finish(s):
        return (
            scalar.select(s[1], m.const(math.nan, s[0].type), s[0]) if isinstance(s, tuple) else s
        )

    return dict(
        init=init,
        combine=combine,
        step=step,
        finish=finish,
        state=_extreme_state,
        result=unchanged,
        check=needs_elements,
    )


_HIGHEST, _LOWEST = _extreme(lowest, lambda a, b: a > b), _extreme(highest, lambda a, b: a < b)
_EXTREME = dict(
    variants="function method out",
    grad=lambda g, input, out, dim, keepdim: spread_evenly(g, input, out, dim, keepdim),
)


@reduction(**_HIGHEST, **_EXTREME)
def amax(input, dim: Dims = (), keepdim: bool = False):
    """Largest element over the given dimensions; equal ones share the gradient."""
    return input


@reduction(**_LOWEST, **_EXTREME)
def amin(input, dim: Dims = (), keepdim: bool = False):
    """Smallest element over the given dimensions; equal ones share the gradient."""
    return input


def _minmax(dtype, given):
    return dtype, (dtype, dtype)


@reduction(
    result=_minmax,
    outputs=2,
    state=lambda type, code: (type, type),
    check=needs_elements,
    variants="",
    init=lambda type, code: (highest(type), lowest(type)),
    combine=lambda a, b: (m.minimum(a[0], b[0]), m.maximum(a[1], b[1])),
    node="AminmaxBackward0",
    joint_grad=lambda gs, input, out0, out1, dim, keepdim: _aminmax_grad(
        gs, input, out0, out1, dim, keepdim
    ),
)
def _aminmax(input, dim: object = None, keepdim: bool = False):
    """Smallest and largest element."""
    return input, input


def _aminmax_grad(gs, input, low, high, dim, keepdim):
    return (
        spread_evenly(gs[0], input, low, dim, keepdim)
        + spread_evenly(gs[1], input, high, dim, keepdim),
    )


# States that remember where: (value, index). Of equal values the first wins; nan beats everything.
NOWHERE = (1 << 63) - 1


def _better(beats):
    def choose(a, b):
        nan_b = m.isnan(b[0]) & ~m.isnan(a[0])
        tie = ((a[0] == b[0]) | (m.isnan(a[0]) & m.isnan(b[0]))) & (b[1] < a[1])
        take = beats(b[0], a[0]) | nan_b | tie
        return scalar.select(take, b[0], a[0]), scalar.select(take, b[1], a[1])

    return choose


def _takes(beats):
    """One more element: later in the range, so a tie never takes (except the very first element)."""

    def step(state, x, index, *numbers):
        best, where = state
        take = (
            beats(x, best) | (m.isnan(x) & ~m.isnan(best))
            if scalar.is_float(x.type)
            else beats(x, best)
        )
        take = take | ((where == NOWHERE) & (x == best))
        return scalar.select(take, x, best), scalar.select(take, index, where)

    return step


def _located(limit, beats):
    return dict(
        state=lambda type, code: (type, "i64"),
        init=lambda type, code: (limit(type), m.const(NOWHERE, "i64")),
        combine=_better(beats),
        step=_takes(beats),
        indexed=True,
        check=needs_elements,
    )


def _index_result(dtype, given):
    return dtype, (d.int64,)


def _argument_check(op, layout, dims, given):
    if layout.dtype is d.bool_:
        raise NotImplementedError(f"\"{op.name}_cpu\" not implemented for 'Bool'")
    needs_elements(op, layout, dims, given)


@reduction(
    **{**_located(lowest, lambda a, b: a > b), "check": _argument_check},
    result=_index_result,
    finish=lambda s: s[1],
    variants="function method out",
)
def argmax(input, dim: object = None, keepdim: bool = False):
    """Where the largest element is."""
    return input


@reduction(
    **{**_located(highest, lambda a, b: a < b), "check": _argument_check},
    result=_index_result,
    finish=lambda s: s[1],
    variants="function method out",
)
def argmin(input, dim: object = None, keepdim: bool = False):
    """Where the smallest element is."""
    return input


def _value_and_index(dtype, given):
    return dtype, (dtype, d.int64)


def select_grad(g, input_shape, out1, dim, keepdim):
    """The gradient goes to the chosen elements."""
    if not input_shape:
        return g
    if not keepdim:
        g, out1 = g.unsqueeze(dim), out1.unsqueeze(dim)
    return g.new_zeros(input_shape).scatter(dim, out1, g)


_CHOOSING = dict(
    result=_value_and_index,
    outputs=2,
    variants="",
    grad=lambda g, input_shape, out1, dim, keepdim: select_grad(g, input_shape, out1, dim, keepdim),
)


@reduction(**_located(lowest, lambda a, b: a > b), **_CHOOSING, node="MaxBackward0")
def _max_dim(input, dim: int, keepdim: bool = False):
    """Largest element along a dimension, and where it is."""
    return input


@reduction(**_located(highest, lambda a, b: a < b), **_CHOOSING, node="MinBackward0")
def _min_dim(input, dim: int, keepdim: bool = False):
    """Smallest element along a dimension, and where it is."""
    return input


@reduction(
    **_HIGHEST,
    variants="",
    node="MaxBackward1",
    grad=lambda g, input, out: spread_evenly(g, input, out, None, False),
)
def _max_all(input):
    """Largest of all elements."""
    return input


@reduction(
    **_LOWEST,
    variants="",
    node="MinBackward1",
    grad=lambda g, input, out: spread_evenly(g, input, out, None, False),
)
def _min_all(input):
    """Smallest of all elements."""
    return input


# -- truth ------------------------------------------------------------------------------------------------


def _truth(dtype, given):
    return d.bool_, (d.uint8 if dtype is d.uint8 else d.bool_,)


@reduction(
    result=_truth,
    state=lambda type, code: ("bool",),
    init=lambda type, code: m.const(True, "bool"),
    combine=lambda a, b: a & b,
    variants="function method out",
)
def all(input, dim: Dims = None, keepdim: bool = False):
    """Are all elements true?"""
    return input


@reduction(
    result=_truth,
    state=lambda type, code: ("bool",),
    init=lambda type, code: m.const(False, "bool"),
    combine=lambda a, b: a | b,
    variants="function method out",
)
def any(input, dim: Dims = None, keepdim: bool = False):
    """Is any element true?"""
    return input


# -- variance: Welford's running mean and sum of squares, joined by Chan's formula ------------------------------


def _spread(dtype, given):
    if dtype.category < d.FLOATING:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    return dtype, (dtype,)


def _spread_mean(dtype, given):
    compute, (out,) = _spread(dtype, given)
    return compute, (out, out)


def _welford_step(state, x, index, *numbers):
    n, mean_, m2 = state
    n = n + 1
    delta = x - mean_
    mean_ = m.fma(delta, 1 / n, mean_)
    return n, mean_, m.fma(delta, x - mean_, m2)


def _welford_join(a, b):
    n = a[0] + b[0]
    safe = scalar.select(n == 0, m.const(1, n.type), n)
    delta = b[1] - a[1]
    weight = b[0] / safe
    # an empty side leaves the other exactly as it is
    mean_ = scalar.select(a[0] == 0, b[1], m.fma(delta, weight, a[1]))
    return n, mean_, a[2] + b[2] + delta * delta * a[0] * weight


_WELFORD = dict(
    state=lambda type, code: (type,) * 3,
    init=lambda type, code: (m.const(0, type),) * 3,
    combine=_welford_join,
    step=_welford_step,
    numbers=("correction",),
    variants="",
)


def _variance(s, count, correction):
    n = m.cast(count, s[2].type) - m.cast(correction, s[2].type)
    # fewer elements than the correction: nan or inf, never a negative variance
    return s[2] / m.maximum(n, 0)


def var_grad(g, input, dim, correction, keepdim):
    n = reduced_count(input.shape, dim) - correction
    if not input.shape:
        return g * (math.nan if n <= 0 else 0) + input * 0
    if not keepdim:
        for k in sorted(_dims(dim, len(input.shape))):
            g = g.unsqueeze(k)
    scale = 2 / n if n > 0 else math.nan if n == 0 else 0
    return (scale * g) * (input - input.mean(tuple(_dims(dim, len(input.shape))), keepdim=True))


@reduction(
    result=_spread,
    finish=_variance,
    **_WELFORD,
    node="VarBackward0",
    grad=lambda g, input, dim, correction, keepdim: var_grad(g, input, dim, correction, keepdim),
)
def _var(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Variance over the given dimensions."""
    return input


def std_grad(g, input, out, dim, correction, keepdim):
    return var_grad((g / (2 * out)).masked_fill(out == 0, 0), input, dim, correction, keepdim)


@reduction(
    result=_spread,
    finish=lambda s, count, correction: m.sqrt(_variance(s, count, correction)),
    **_WELFORD,
    node="StdBackward0",
    grad=lambda g, input, out, dim, correction, keepdim: std_grad(
        g, input, out, dim, correction, keepdim
    ),
)
def _std(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Standard deviation over the given dimensions."""
    return input


def _with_mean_grad(spread):
    def grad(gs, input, out0, dim, correction, keepdim):
        g = spread(gs[0], input, out0, dim, correction, keepdim)
        return (
            g + restore_dims(gs[1], input.shape, dim, keepdim) / reduced_count(input.shape, dim),
        )

    return grad


@reduction(
    result=_spread_mean,
    outputs=2,
    finish=lambda s, count, correction: (_variance(s, count, correction), s[1]),
    **_WELFORD,
    node="VarMeanBackward0",
    joint_grad=_with_mean_grad(lambda g, x, out, dim, c, k: var_grad(g, x, dim, c, k)),
)
def _var_mean(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Variance and mean."""
    return input


@reduction(
    result=_spread_mean,
    outputs=2,
    finish=lambda s, count, correction: (m.sqrt(_variance(s, count, correction)), s[1]),
    **_WELFORD,
    node="StdMeanBackward0",
    joint_grad=_with_mean_grad(std_grad),
)
def _std_mean(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Standard deviation and mean."""
    return input


# -- norms ------------------------------------------------------------------------------------------------


def _norm_result(dtype, given):
    wanted = given.get("dtype") or dtype
    if wanted.category < d.FLOATING:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {dtype.scalar_name}"
        )
    return wanted, (wanted.to_real(),)


def _norm_body(input, ord=2):
    if isinstance(input, scalar.Complex) and ord == 2:
        return input.re * input.re + input.im * input.im
    size = m.abs(input)
    if ord == 2:
        return size * size
    if ord == 0:
        return m.cast(size != 0, size.type)
    if ord in (1, math.inf, -math.inf):
        return size
    return m.pow(size, m.const(ord, size.type))


def _norm_finish(s, ord=2):
    if ord == 2:
        return m.sqrt(s)
    return s if ord in (0, 1, math.inf, -math.inf) else m.pow(s, m.const(1 / ord, s.type))


def norm_grad(g, input, out, ord, dim, keepdim):
    shape = input.shape
    if not keepdim and shape:
        for k in sorted(_dims(dim, len(shape))):
            g, out = g.unsqueeze(k), out.unsqueeze(k)
    if ord == 0:
        return input * 0
    if ord == 1:
        return input.sgn() * g
    if ord == 2:
        return input * (g / out).masked_fill(out == 0, 0)
    if ord in (math.inf, -math.inf):
        size = input.abs()
        hits = size == out
        return input.sgn() * ((g / hits.sum(tuple(_dims(dim, len(shape))), keepdim=True)) * hits)
    if ord < 1:
        return (
            input.sgn()
            * (input.abs() ** (ord - 1)).masked_fill(input == 0, 0)
            * (g * out ** (1 - ord))
        )
    if ord < 2:
        return (
            input.sgn() * input.abs() ** (ord - 1) * (g / out ** (ord - 1)).masked_fill(out == 0, 0)
        )
    return input * input.abs() ** (ord - 2) * (g / out ** (ord - 1)).masked_fill(out == 0, 0)


def _norm_state(type, code):
    return (type,)


_NORM = dict(
    result=_norm_result,
    state=_norm_state,
    complex_state=False,
    statics=("ord",),
    variants="",
    finish=_norm_finish,
    node="LinalgVectorNormBackward0",
    grad=lambda g, input, out, ord, dim, keepdim: norm_grad(g, input, out, ord, dim, keepdim),
)


@reduction(init=lambda type, code: m.const(0, type), combine=lambda a, b: a + b, **_NORM)
def _norm_sum(
    input, ord: object = 2, dim: Dims = None, keepdim: bool = False, *, dtype: object = None
):
    """A vector norm that adds something up."""
    return _norm_body(input, ord)


@reduction(init=lambda type, code: m.const(0, type), combine=lambda a, b: m.maximum(a, b), **_NORM)
def _norm_max(
    input, ord: object = math.inf, dim: Dims = None, keepdim: bool = False, *, dtype: object = None
):
    """The largest magnitude."""
    return _norm_body(input, ord)


@reduction(
    init=lambda type, code: m.const(math.inf, type), combine=lambda a, b: m.minimum(a, b), **_NORM
)
def _norm_min(
    input, ord: object = -math.inf, dim: Dims = None, keepdim: bool = False, *, dtype: object = None
):
    """The smallest magnitude."""
    return _norm_body(input, ord)


# -- nan-aware --------------------------------------------------------------------------------------------


def _without_nan(x):
    return scalar.select(
        m.isnan(x), zero(x.type if not isinstance(x, scalar.Complex) else x.re.type, x.type), x
    )


@reduction(
    result=summed,
    state=same_state,
    init=zero,
    combine=lambda a, b: a + b,
    variants="function method out",
    grad=lambda g, input, dim, keepdim: restore_dims(g, input.shape, dim, keepdim) * ~input.isnan(),
)
def nansum(input, dim: Dims = None, keepdim: bool = False, *, dtype: object = None):
    """Sum over the given dimensions, nan counted as zero."""
    return _without_nan(input)
