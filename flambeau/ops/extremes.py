"""Extremes: the largest and smallest elements, and where they are.

Rows whose name begins with _ are single overloads; `max`, `min` and `aminmax` choose among them.
nan beats every number, of equal elements the first one counts.
"""

import math

from flambeau import _dtype as d
from flambeau import errors
from flambeau import return_types as named
from flambeau.codegen import scalar
from flambeau.codegen import scalar as m
from flambeau.ops.reductions import reduced_dims, unchanged, unsqueezed
from flambeau.ops.table import Dims, composite, public, reduction

_PLAIN = "function method out"


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


# -- what cannot be had: extremes of nothing, and of complex numbers ------------------------------


def _needs_dim(name, kind=RuntimeError, hint=True):
    """Without elements there is no extreme, unless the reduced dimensions have elements."""
    more = " Specify the reduction dim with the 'dim' argument." if hint else ""

    def check(op, layout, dims, given):
        if layout.numel:
            return
        if given.get("dim") in (None, ()):
            raise kind(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0.{more}"
            )
        for k in dims:
            if layout.ndim and layout.shape[k] == 0:
                raise IndexError(f"{name}(): Expected reduction dim {k} to have non-zero size.")

    return check


def _no_complex(name):
    """Emptiness is noticed first here."""
    empty = _needs_dim(name)

    def both(op, layout, dims, given):
        empty(op, layout, dims, given)
        if layout.dtype.is_complex:
            raise RuntimeError(f"{name}(): does not support complex input")

    return both


# -- values ---------------------------------------------------------------------------------------


def spread_evenly(g, input, out, dim, keepdim):
    """The gradient of an extreme, shared by all elements that attain it."""
    shape = input.shape
    g, out = (unsqueezed(t, shape, dim, keepdim) for t in (g, out))
    return _shared(g, input == out, dim)


def _shared(g, mask, dim):
    shape = mask.shape
    count = mask.sum(tuple(reduced_dims(dim, len(shape))), keepdim=True) if shape else mask
    return mask * (g / count)


def spread_over_all(g, input, out):
    """Of all elements, and a nan result belongs to the nan elements."""
    return _shared(g, (input == out) | (input.isnan() & out.isnan()), None)


# The state of an extreme is the best number so far and whether a nan was seen: comparing and
# noticing nan apart takes two instructions per vector where one rule for both takes four. The
# mark is an integer as wide as the number: without mask registers anything else is narrowed.


def _extreme_state(type, code):
    return (type, _mark(type)) if scalar.is_float(type) else (type,)


def _mark(type):
    return "i64" if type == "f64" else "i32"


def _extreme(limit, beats):
    def init(type, code):
        return (limit(type), m.const(0, _mark(type))) if scalar.is_float(type) else limit(type)

    def combine(a, b):
        if not isinstance(a, tuple):
            return scalar.select(beats(b, a), b, a)
        return scalar.select(beats(b[0], a[0]), b[0], a[0]), a[1] | b[1]

    def step(state, x, index, *numbers):
        if not isinstance(state, tuple):
            return scalar.select(beats(x, state), x, state)
        best, mark = state
        seen = scalar.select(x != x, m.const(-1, mark.type), m.const(0, mark.type))
        return scalar.select(beats(x, best), x, best), mark | seen

    def finish(s):
        nan = isinstance(s, tuple)
        return scalar.select(s[1] != 0, m.const(math.nan, s[0].type), s[0]) if nan else s

    return dict(
        init=init, combine=combine, step=step, finish=finish, state=_extreme_state, result=unchanged
    )


_HIGHEST = _extreme(lowest, lambda a, b: a > b)
_LOWEST = _extreme(highest, lambda a, b: a < b)
_EXTREME = dict(
    variants=_PLAIN,
    out="match",
    signatures=("Tensor input, ints? dim=(), bool keepdim=False, *, Tensor out=None",),
    grad=lambda g, input, out, dim, keepdim: spread_evenly(g, input, out, dim, keepdim),
)


@reduction(
    **_HIGHEST, **_EXTREME, check=_needs_dim("amax"), refuses=("max_values_cpu", "wide complex")
)
def amax(input, dim: Dims = (), keepdim: bool = False):
    """Largest element over the given dimensions; equal ones share the gradient."""
    return input


@reduction(
    **_LOWEST, **_EXTREME, check=_needs_dim("amin"), refuses=("min_values_cpu", "wide complex")
)
def amin(input, dim: Dims = (), keepdim: bool = False):
    """Smallest element over the given dimensions; equal ones share the gradient."""
    return input


@reduction(
    **_HIGHEST,
    variants="",
    public="max",
    node="MaxBackward1",
    check=_needs_dim("max"),
    refuses=("max_all", "wide complex"),
    out="castable",
    grad=lambda g, input, out: spread_over_all(g, input, out),
)
def _max_all(input):
    """Largest of all elements."""
    return input


@reduction(
    **_LOWEST,
    variants="",
    public="min",
    node="MinBackward1",
    check=_needs_dim("min"),
    refuses=("min_all", "wide complex"),
    out="castable",
    grad=lambda g, input, out: spread_over_all(g, input, out),
)
def _min_all(input):
    """Smallest of all elements."""
    return input


def _minmax_check(op, layout, dims, given):
    if layout.numel:
        return
    if given["dim"] is None:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    if layout.ndim and layout.shape[dims[0]] == 0:
        raise IndexError(f"aminmax: Expected reduction dim {dims[0]} to have non-zero size.")


def _minmax_grad(gs, input, low, high, dim, keepdim):
    parts = (spread_evenly(g, input, out, dim, keepdim) for g, out in zip(gs, (low, high)))
    return (next(parts) + next(parts),)


@reduction(
    result=lambda dtype, given: (dtype, (dtype, dtype)),
    outputs=2,
    state=lambda type, code: (type, type),
    check=_minmax_check,
    refuses=("aminmax_cpu", "wide complex"),
    variants="",
    init=lambda type, code: (highest(type), lowest(type)),
    combine=lambda a, b: (m.minimum(a[0], b[0]), m.maximum(a[1], b[1])),
    node="AminmaxBackward0",
    public="aminmax",
    joint_grad=lambda gs, input, out0, out1, dim, keepdim: _minmax_grad(
        gs, input, out0, out1, dim, keepdim
    ),
)
def _aminmax(input, dim: object = None, keepdim: bool = False):
    """Smallest and largest element."""
    return input, input


# -- places: states that remember where, (value, index). Of equal values the first wins; nan beats
# all.
NOWHERE = (1 << 63) - 1


def _better(beats):
    def choose(a, b):
        nan_b = m.isnan(b[0]) & ~m.isnan(a[0])
        tie = ((a[0] == b[0]) | (m.isnan(a[0]) & m.isnan(b[0]))) & (b[1] < a[1])
        take = beats(b[0], a[0]) | nan_b | tie
        return scalar.select(take, b[0], a[0]), scalar.select(take, b[1], a[1])

    return choose


def _takes(beats):
    """One more element: later in the range, so a tie never takes (except at the very first)."""

    def step(state, x, index, *numbers):
        best, where = state
        take = beats(x, best)
        if scalar.is_float(x.type):
            take = take | (m.isnan(x) & ~m.isnan(best))
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
    )


_TOP, _BOTTOM = _located(lowest, lambda a, b: a > b), _located(highest, lambda a, b: a < b)
_PLACE = dict(
    finish=lambda s: s[1],
    variants=_PLAIN,
    out="exact",
    signatures=("Tensor input, int? dim=None, bool keepdim=False, *, Tensor out=None",),
)


def _places(name):
    """What a row of this name refuses: dtypes before dimensions."""

    def result(dtype, given):
        if dtype is d.bool_ or dtype.is_complex:
            kind = "bool" if dtype is d.bool_ else "complex"
            raise RuntimeError(f"{name}(): does not support {kind} input")
        return dtype, (d.int64,)

    return dict(result=result, check=_needs_dim(name, IndexError, False))


@reduction(**_TOP, **_PLACE, **_places("argmax"), refuses=("argmax_cpu", "wide"))
def argmax(input, dim: int | None = None, keepdim: bool = False):
    """Where the largest element is."""
    return input


@reduction(**_BOTTOM, **_PLACE, **_places("argmin"), refuses=("argmin_cpu", "wide"))
def argmin(input, dim: int | None = None, keepdim: bool = False):
    """Where the smallest element is."""
    return input


def select_grad(g, input_shape, out1, dim, keepdim):
    """The gradient goes to the chosen elements."""
    if not input_shape:
        return g
    if not keepdim:
        g, out1 = g.unsqueeze(dim), out1.unsqueeze(dim)
    return g.new_zeros(input_shape).scatter(dim, out1, g)


def _picked(t, dim, places, keepdim):
    """The elements of a tensor at chosen places along a dimension."""
    if not t.ndim:
        return t
    return t.gather(dim, places) if keepdim else t.gather(dim, places.unsqueeze(dim)).squeeze(dim)


_CHOOSING = dict(
    result=lambda dtype, given: (dtype, (dtype, d.int64)),
    outputs=2,
    variants="",
    out="exact",
    grad=lambda g, input_shape, out1, dim, keepdim: select_grad(g, input_shape, out1, dim, keepdim),
    jvp=lambda t, out1, dim, keepdim: _picked(t, dim, out1, keepdim),
)


@reduction(
    **_TOP,
    **_CHOOSING,
    public="max",
    node="MaxBackward0",
    check=_no_complex("max"),
    refuses=("max_cpu", "wide complex"),
)
def _max_dim(input, dim: int, keepdim: bool = False):
    """Largest element along a dimension, and where it is."""
    return input


@reduction(
    **_BOTTOM,
    **_CHOOSING,
    public="min",
    node="MinBackward0",
    check=_no_complex("min"),
    refuses=("min_cpu", "wide complex"),
)
def _min_dim(input, dim: int, keepdim: bool = False):
    """Smallest element along a dimension, and where it is."""
    return input


# -- overloads ------------------------------------------------------------------------------------

_THREE = (
    "Tensor input, *, Tensor out=None",
    "Tensor input, Tensor other, *, Tensor out=None",
    "Tensor input, int dim, bool keepdim=False, *, Tensors out=None",
)


def _choose(name, pairwise, result):
    names = f"_{name}_all", pairwise, f"_{name}_dim"
    rows: list = [None, None, None]  # their functions, when first needed

    def body(overload, out, arguments):
        row = rows[overload]
        if row is None:
            row = rows[overload] = public(names[overload])
        found = row(*arguments) if out is None else row(*arguments, out=out)
        return result(found) if overload == 2 else found

    return body


@composite(
    "overloads", variants=_PLAIN, signatures=_THREE, choose=_choose("max", "maximum", named.max)
)
def max(input, dim: object = None, keepdim: bool = False, *, other: object = None):
    """The largest element; along a dimension, also where it is; of two tensors, elementwise."""


@composite(
    "overloads", variants=_PLAIN, signatures=_THREE, choose=_choose("min", "minimum", named.min)
)
def min(input, dim: object = None, keepdim: bool = False, *, other: object = None):
    """The smallest element; along a dimension, also where it is; of two tensors, elementwise."""


def _both(overload, out, arguments):
    row = public("_aminmax")
    input, dim, _ = arguments
    if dim in (0, -1) and not input.ndim and input.dtype.is_complex:
        raise RuntimeError(f"aminmax not implemented for {input.dtype.scalar_name}")
    if out is None:
        return named.aminmax(row(*arguments))
    for o in out:
        if o.dtype is not arguments[0].dtype:
            raise errors.not_exact_out(arguments[0].dtype, o.dtype)
    return named.aminmax(row(*arguments, out=out))


@composite(
    "overloads",
    variants=_PLAIN,
    choose=_both,
    signatures=("Tensor input, *, int? dim=None, bool keepdim=False, Tensors out=None",),
    outputs=2,
)
def aminmax(input, *, dim: int | None = None, keepdim: bool = False):
    """Smallest and largest element."""
