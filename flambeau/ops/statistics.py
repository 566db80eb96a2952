"""Variance, standard deviation, means without nan, and logsumexp.

Variances are Welford's running mean and sum of squares, joined by Chan's formula, so one pass over
memory gives mean and variance; float32 keeps its states in double, as PyTorch does.
"""

import math
import warnings

from flambeau import _dtype as d
from flambeau import errors
from flambeau.codegen import scalar
from flambeau.codegen import scalar as m
from flambeau.ops.reductions import (
    reduced_count,
    reduced_dims,
    restore_dims,
    unsqueezed,
)
from flambeau.ops.table import Dims, DType, Scalar, composite, public, reduction, template

_PLAIN = "function method out"


def _spread_result(outputs):
    return lambda dtype, given: (dtype, (dtype,) * outputs)


# The state of a variance: how many, a pivot (the first element seen), and the sums of the distances
# from it and of their squares. Distances from an element of the data lose at most as many digits as
# the count has, and a step needs no division.


def _spread_step(state, x, index, *numbers):
    n, pivot, first, second = state
    x = m.cast(x, pivot.type)
    pivot = scalar.select(n == 0, x, pivot)
    distance = x - pivot
    return n + 1, pivot, first + distance, m.fma(distance, distance, second)


def _spread_step_around_finite(state, x, index, *numbers):
    """The same with a mean that may be infinite: a pivot of inf would make it nan."""
    n, pivot, first, second = state
    x = m.cast(x, pivot.type)
    start = scalar.select(m.abs(x) < math.inf, x, m.const(0, x.type))
    pivot = scalar.select(n == 0, start, pivot)
    distance = x - pivot
    return n + 1, pivot, first + distance, m.fma(distance, distance, second)


def _spread_join(a, b):
    """Both around the pivot of a; an empty side leaves the other as it is."""
    n, shift = b[0], b[1] - a[1]
    first = a[2] + m.fma(n, shift, b[2])
    second = a[3] + m.fma(shift, m.fma(n, shift, b[2] + b[2]), b[3])
    joined = (a[0] + n, a[1], first, second)
    joined = tuple(scalar.select(a[0] == 0, y, x) for x, y in zip(joined, b))
    return tuple(scalar.select(n == 0, x, y) for x, y in zip(a, joined))


def _variance(s, count, correction):
    size = m.cast(count, s[3].type)
    squares = m.maximum(m.fma(s[2], -s[2] / m.maximum(size, 1), s[3]), 0)
    # fewer elements than the correction: nan or inf, never a negative variance
    rest = size - m.cast(correction, s[3].type)
    none, zero = m.const(math.nan, s[3].type), m.const(0, s[3].type)
    return scalar.select(count == 0, none, squares / scalar.select(rest > 0, rest, zero))


def _deviation(s, count, correction):
    return m.sqrt(_variance(s, count, correction))


def _mean_of(s, count):
    """The mean of nothing is nan."""
    size = m.cast(count, s[1].type)
    return scalar.select(count == 0, m.const(math.nan, s[1].type), s[1] + s[2] / size)


def var_grad(g, input, dim, correction, keepdim):
    shape = input.shape
    n = reduced_count(shape, dim) - correction
    everything = tuple(reduced_dims(dim, len(shape))) if shape else ()
    away = input - input.mean(everything, keepdim=True)
    g = unsqueezed(g, shape, dim, keepdim)
    if n <= 0 and (dim in (None, ()) or not shape):
        return g * m.where(away == 0, math.nan, math.inf)
    return (2 / n if n else math.inf) * g * away


def std_grad(g, input, out, dim, correction, keepdim):
    return var_grad((g / (2 * out)).masked_fill(out == 0, 0), input, dim, correction, keepdim)


def _var_jvp(t, input, dim, correction, keepdim):
    dims = tuple(reduced_dims(dim, input.ndim)) if input.ndim else ()
    moved = var_grad(t.conj() if t.is_complex() else t, input, dim, correction, True)
    moved = moved.sum(dims, keepdim=keepdim)
    return moved.real if moved.is_complex() else moved


def _std_jvp(t, input, out, dim, correction, keepdim):
    moved = _var_jvp(t, input, dim, correction, keepdim) / (2 * out)
    return moved.masked_fill(out == 0, 0)


def _with_mean_jvp(spread):
    def jvp(t, input, out0, dim, correction, keepdim):
        dims = tuple(reduced_dims(dim, input.ndim)) if input.ndim else ()
        mean = t.mean(dims, keepdim=keepdim)
        return spread(t, input, out0, dim, correction, keepdim), mean

    return jvp


_VAR_MEAN_JVP = _with_mean_jvp(lambda t, x, out, dim, c, k: _var_jvp(t, x, dim, c, k))
_STD_MEAN_JVP = _with_mean_jvp(_std_jvp)


def _mean_share(g, input, dim, keepdim):
    return restore_dims(g, input.shape, dim, keepdim) / reduced_count(input.shape, dim)


def _var_mean_grad(gs, input, dim, correction, keepdim):
    spread = var_grad(gs[0], input, dim, correction, keepdim)
    return (spread + _mean_share(gs[1], input, dim, keepdim),)


def _std_mean_grad(gs, input, out0, dim, correction, keepdim):
    spread = std_grad(gs[0], input, out0, dim, correction, keepdim)
    return (spread + _mean_share(gs[1], input, dim, keepdim),)


def _degrees(name):
    """A warning when the correction leaves nothing to divide by."""

    def note(shape, dims, given):
        kept = math.prod(s for k, s in enumerate(shape) if k not in dims)
        if kept and math.prod(shape[k] for k in dims) - given["correction"] > 0:
            return None
        return lambda: warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "reduction factor (input numel divided by output numel).",
            UserWarning,
            stacklevel=5,
        )

    return note


def _row(name, outputs=1):
    return dict(
        result=_spread_result(outputs),
        outputs=outputs,
        state=lambda type, code: ("f64" if type == "f32" else type,) * 4,
        init=lambda type, code: (m.const(0, "f64" if type == "f32" else type),) * 4,
        combine=_spread_join,
        step=_spread_step if outputs == 1 else _spread_step_around_finite,
        arguments=("correction",),
        note=_degrees(name),
        variants="",
        public=name,
    )


@reduction(
    **_row("var"),
    finish=_variance,
    node="VarBackward0",
    grad=lambda g, input, dim, correction, keepdim: var_grad(g, input, dim, correction, keepdim),
    jvp=_var_jvp,
)
def _var(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Variance over the given dimensions."""
    return input


@reduction(
    **_row("std"),
    finish=_deviation,
    node="StdBackward0",
    grad=lambda g, input, out, dim, correction, keepdim: std_grad(
        g, input, out, dim, correction, keepdim
    ),
    jvp=_std_jvp,
)
def _std(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Standard deviation over the given dimensions."""
    return input


@reduction(
    **_row("var_mean", 2),
    finish=lambda s, count, correction: (_variance(s, count, correction), _mean_of(s, count)),
    node="VarMeanBackward0",
    joint_grad=_var_mean_grad,
    jvp=_VAR_MEAN_JVP,
)
def _var_mean(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Variance and mean."""
    return input


@reduction(
    **_row("std_mean", 2),
    finish=lambda s, count, correction: (_deviation(s, count, correction), _mean_of(s, count)),
    node="StdMeanBackward0",
    joint_grad=_std_mean_grad,
    jvp=_STD_MEAN_JVP,
)
def _std_mean(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Standard deviation and mean."""
    return input


# -- complex numbers: the variance is that of both parts together ---------------------------------


def _of_parts(name, input, dim, correction, keepdim):
    if input.dtype is d.complex32 and name.startswith("std"):  # the sum of variances is rounded
        spread, *mean = public("_complex_var_mean")(input, dim, correction, keepdim)
        return (spread.sqrt(), *mean) if "mean" in name else spread.sqrt()
    row = public("_" + name)  # which also warns in its own name
    found = [row(part, dim, correction, keepdim) for part in (input.real, input.imag)]
    a, b = ([f[0] for f in found]) if "mean" in name else found
    spread = (a * a + b * b).sqrt() if name.startswith("std") else a + b
    return (spread, public("complex")(found[0][1], found[1][1])) if "mean" in name else spread


_COMPLEX = dict(variants="", bind=True)


@composite(
    **_COMPLEX | dict(variants="out"),
    node="VarBackward0",
    grad=lambda g, input, dim, correction, keepdim: var_grad(g, input, dim, correction, keepdim),
    jvp=_var_jvp,
)
def _complex_var(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Variance of complex numbers."""
    return _of_parts("var", input, dim, correction, keepdim)


@composite(
    **_COMPLEX | dict(variants="out"),
    node="StdBackward0",
    grad=lambda g, input, out, dim, correction, keepdim: std_grad(
        g, input, out, dim, correction, keepdim
    ),
    jvp=_std_jvp,
)
def _complex_std(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Standard deviation of complex numbers."""
    return _of_parts("std", input, dim, correction, keepdim)


@composite(
    **_COMPLEX,
    node="VarMeanBackward0",
    outputs=2,
    joint_grad=_var_mean_grad,
    jvp=_VAR_MEAN_JVP,
)
def _complex_var_mean(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Variance and mean of complex numbers."""
    return _of_parts("var_mean", input, dim, correction, keepdim)


@composite(
    **_COMPLEX,
    node="StdMeanBackward0",
    outputs=2,
    joint_grad=_std_mean_grad,
    jvp=_STD_MEAN_JVP,
)
def _complex_std_mean(input, dim: Dims = None, correction: float = 1.0, keepdim: bool = False):
    """Standard deviation and mean of complex numbers."""
    return _of_parts("std_mean", input, dim, correction, keepdim)


# -- overloads: how much to take off the count is said by a bool or by a number -------------------

_THREE = (
    "Tensor input, ints? dim, bool unbiased=True, bool keepdim=False, *, Tensor out=None",
    "Tensor input, ints? dim=None, *, Scalar correction=None, bool keepdim=False, Tensor out=None",
    "Tensor input, bool unbiased=True",
)


def _spread(name):
    def choose(overload, out, arguments):
        input, dim, keepdim = arguments[0], None, False
        if overload == 0:
            _, dim, correction, keepdim = arguments
        elif overload == 1:
            _, dim, correction, keepdim = arguments
            correction = 1 if correction is None else correction
        else:
            correction = arguments[1]
        if input.dtype.category < d.FLOATING:
            raise RuntimeError(f"{_family(name)} only support floating point and complex dtypes")
        if correction.__class__ is complex:
            raise d.overflow(d.float64)
        found = _compute(name, input, dim, float(correction), keepdim, out)
        return found if out is None else out

    return choose


def _family(name):
    return "std and var" if "mean" not in name else f"{name}"


def _compute(name, input, dim, correction, keepdim, out):
    if input.dtype.is_complex:
        row = public("_complex_" + name)
        if out is not None:
            return row(input, dim, correction, keepdim, out=out)
        return row(input, dim, correction, keepdim)
    row = public("_" + name)
    if out is None:
        return row(input, dim, correction, keepdim)
    if out.dtype.is_complex:
        raise errors.not_implemented("std_cpu", out.dtype)
    if out.dtype is d.float64 and not input._requires_grad:
        input = input.double()
    return row(input, dim, correction, keepdim, out=out)


@composite("overloads", variants=_PLAIN, signatures=_THREE, choose=_spread("var"))
def var(
    input,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Scalar | None = None,
):
    """Variance over the given dimensions."""


@composite("overloads", variants=_PLAIN, signatures=_THREE, choose=_spread("std"))
def std(
    input,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Scalar | None = None,
):
    """Standard deviation over the given dimensions."""


_NO_OUT = tuple(s.removesuffix(", Tensor out=None").removesuffix(", *") for s in _THREE)


@composite("overloads", variants="function", signatures=_NO_OUT, choose=_spread("var_mean"))
def var_mean(
    input,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Scalar | None = None,
):
    """Variance and mean over the given dimensions."""


@composite("overloads", variants="function", signatures=_NO_OUT, choose=_spread("std_mean"))
def std_mean(
    input,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Scalar | None = None,
):
    """Standard deviation and mean over the given dimensions."""


# -- means without nan, logarithms of sums --------------------------------------------------------


def _nanmean(overload, out, arguments):
    input, dim, keepdim, dtype = arguments
    if input.dtype.category < d.FLOATING:
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{input.dtype.scalar_name}"
        )
    if dtype is not None and dtype.category < d.FLOATING:
        raise RuntimeError(
            "nanmean(): could not infer output dtype. Optional dtype must be either a floating "
            f"point or complex dtype. Got: {dtype.scalar_name}"
        )
    count = (~input.isnan()).sum(dim, keepdim)
    if out is None:
        return input.nansum(dim, keepdim, dtype=dtype) / count
    return public("nansum")(input, dim, keepdim, dtype=dtype, out=out).div_(count)


@composite(
    "overloads",
    variants=_PLAIN,
    choose=_nanmean,
    signatures=(
        "Tensor input, ints? dim=None, bool keepdim=False, *, dtype dtype=None, Tensor out=None",
    ),
)
def nanmean(input, dim: Dims = None, keepdim: bool = False, *, dtype: DType = None):
    """Mean over the given dimensions of the elements that are not nan."""


def logsumexp_grad(g, input, out, dim, keepdim):
    g, out = (unsqueezed(t, input.shape, dim, keepdim) for t in (g, out))
    return g * m.conj((input - out).exp())


@composite("logsumexp_backward", variants="")
def _logsumexp_backward(g, input, result, dim: int, keepdim: bool):
    """Gradient of logsumexp over one dimension."""
    return logsumexp_grad(g, input, result, dim, keepdim)


@template(
    "logsumexp_rows",
    variants="",
    node="LogsumexpBackward0",
    grad=lambda g, input, out, dim, keepdim: _logsumexp_backward(g, input, out, dim, keepdim),
)
def _logsumexp_rows(input, dim: int, keepdim: bool = False):
    """log(sum(exp(input))) without overflow, over one dimension."""


@composite(
    variants="out",
    bind=True,
    node="LogsumexpBackward0",
    grad=lambda g, input, out, dim, keepdim: logsumexp_grad(g, input, out, dim, keepdim),
)
def _logsumexp(input, dim: Dims, keepdim: bool = False):
    """log(sum(exp(input))) without overflow, over several dimensions or of complex numbers."""
    if input.numel() == 0:
        return input.exp().sum(dim, keepdim=keepdim).log()
    top = (input.real if input.is_complex() else input).amax(dim, keepdim=True)
    # an infinite maximum would give inf - inf
    shift = m.where(top.abs() == math.inf, top.new_zeros(()), top)
    total = (input - shift).exp().sum(dim, keepdim=keepdim).log()
    return total + (shift if keepdim else shift.reshape(total.shape))


def _one_dim(dim, ndim):
    """The one dimension that is meant, or None."""
    if isinstance(dim, (tuple, list)):
        dim = dim[0] if len(dim) == 1 else None
    return dim if type(dim) is int and -ndim <= dim < ndim else None


def _logsumexp_of(overload, out, arguments):
    input, dim, keepdim = arguments
    if dim == () and input.ndim and not keepdim:
        raise RuntimeError(
            f"output with shape [] doesn't match the broadcast shape {[1] * input.ndim}"
        )
    if out is not None and out.dtype.category < d.FLOATING:
        raise RuntimeError(
            "logsumexp(): Expected floating point type for result tensor, but got: "
            f"{out.dtype.scalar_name}"
        )
    if input.dtype.category < d.FLOATING:
        input = input.to(d.default_dtype() if out is None else out.dtype)
    if out is None:
        one = _one_dim(dim, input.ndim)
        if one is not None and input.dtype.is_floating_point and input.numel():
            return _logsumexp_rows(input, one, keepdim)
        return public("_logsumexp")(input, dim, keepdim)
    if input._requires_grad:
        raise errors.out_requires_grad("logsumexp")
    if out.dtype is d.float64 and input.dtype is d.float32:
        input = input.double()
    return public("_logsumexp")(input, dim, keepdim, out=out)


@composite(
    "overloads",
    variants=_PLAIN,
    choose=_logsumexp_of,
    signatures=("Tensor input, ints dim, bool keepdim=False, *, Tensor out=None",),
)
def logsumexp(input, dim: Dims, keepdim: bool = False):
    """log(sum(exp(input))) without overflow."""
