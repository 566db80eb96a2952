"""Reductions in their public spellings: overloads of max, var, norm and others, put together from rows."""

import math

from flambeau import return_types as named
from flambeau.codegen import scalar as m
from flambeau.ops.table import Dims, composite

_NO_INPLACE = "function method out"


def _is_tensor(value):
    return hasattr(value, "_layout")


def _extreme(input, dim, keepdim, other, pairwise, along, full, result):
    if other is not None or _is_tensor(dim):
        return pairwise(input, dim if other is None else other)
    if dim is None:
        return full(input)
    return result(along(input, dim, keepdim))


def _word(name):
    return lambda *args: m._tensor_word(name)(*args)


@composite(variants=_NO_INPLACE)
def max(input, dim: object = None, keepdim: bool = False, *, other: object = None):
    """The largest element; along a dimension, also where it is; of two tensors, elementwise."""
    return _extreme(
        input,
        dim,
        keepdim,
        other,
        _word("maximum"),
        _word("_max_dim"),
        _word("_max_all"),
        named.max,
    )


@composite(variants=_NO_INPLACE)
def min(input, dim: object = None, keepdim: bool = False, *, other: object = None):
    """The smallest element; along a dimension, also where it is; of two tensors, elementwise."""
    return _extreme(
        input,
        dim,
        keepdim,
        other,
        _word("minimum"),
        _word("_min_dim"),
        _word("_min_all"),
        named.min,
    )


@composite(variants=_NO_INPLACE)
def aminmax(input, *, dim: object = None, keepdim: bool = False):
    """Smallest and largest element."""
    return named.aminmax(_word("_aminmax")(input, dim, keepdim))


def _correction(dim, unbiased, correction):
    """var(False), var(0, False) and var(0, correction=0) all say how much to take off the count."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return dim, float(correction)


def _spread(row, input, dim, unbiased, keepdim, correction):
    dim, correction = _correction(dim, unbiased, correction)
    if input.is_complex():
        parts = [_word("_var")(part, dim, correction, keepdim) for part in (input.real, input.imag)]
        total = parts[0] + parts[1]
        return total.sqrt() if row == "_std" else total
    return _word(row)(input, dim, correction, keepdim)


@composite(variants=_NO_INPLACE)
def var(
    input,
    dim: Dims = None,
    unbiased: object = None,
    keepdim: bool = False,
    *,
    correction: object = None,
):
    """Variance over the given dimensions."""
    return _spread("_var", input, dim, unbiased, keepdim, correction)


@composite(variants=_NO_INPLACE)
def std(
    input,
    dim: Dims = None,
    unbiased: object = None,
    keepdim: bool = False,
    *,
    correction: object = None,
):
    """Standard deviation over the given dimensions."""
    return _spread("_std", input, dim, unbiased, keepdim, correction)


@composite(variants="function")
def var_mean(
    input,
    dim: Dims = None,
    unbiased: object = None,
    keepdim: bool = False,
    *,
    correction: object = None,
):
    """Variance and mean over the given dimensions."""
    if input.is_complex():
        return var.body(input, dim, unbiased, keepdim, correction=correction), input.mean(
            dim, keepdim
        )
    dim, correction = _correction(dim, unbiased, correction)
    return tuple(_word("_var_mean")(input, dim, correction, keepdim))


@composite(variants="function")
def std_mean(
    input,
    dim: Dims = None,
    unbiased: object = None,
    keepdim: bool = False,
    *,
    correction: object = None,
):
    """Standard deviation and mean over the given dimensions."""
    if input.is_complex():
        return std.body(input, dim, unbiased, keepdim, correction=correction), input.mean(
            dim, keepdim
        )
    dim, correction = _correction(dim, unbiased, correction)
    return tuple(_word("_std_mean")(input, dim, correction, keepdim))


@composite(variants=_NO_INPLACE)
def nanmean(input, dim: Dims = None, keepdim: bool = False, *, dtype: object = None):
    """Mean over the given dimensions of the elements that are not nan."""
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype.scalar_name}"
        )
    count = (~input.isnan()).sum(dim, keepdim)
    return input.nansum(dim, keepdim, dtype=dtype) / count


def logsumexp_grad(g, input, out, dim, keepdim):
    if not keepdim and input.shape:
        for k in sorted(k % len(input.shape) for k in (dim if isinstance(dim, tuple) else (dim,))):
            g, out = g.unsqueeze(k), out.unsqueeze(k)
    return g * (input - out).exp()


@composite(
    variants=_NO_INPLACE,
    grad=lambda g, input, out, dim, keepdim: logsumexp_grad(g, input, out, dim, keepdim),
)
def logsumexp(input, dim: Dims, keepdim: bool = False):
    """log(sum(exp(input))) without overflow."""
    if not (input.is_floating_point() or input.is_complex()):
        input = input * 1.0  # becomes the default float
    if input.numel() == 0:
        return input.exp().sum(dim, keepdim=keepdim).log()
    top = input.amax(dim, keepdim=True)
    # an infinite maximum would give inf - inf
    shift = m.where(top.abs() == math.inf, top.new_zeros(()), top)
    total = (input - shift).exp().sum(dim, keepdim=keepdim)
    if not keepdim:
        shift = shift.squeeze(dim if isinstance(dim, tuple) else (dim,)) if input.shape else shift
    return total.log() + shift


def _vector_norm(x, ord, dim, keepdim, dtype):
    ord = float(ord)
    row = "_norm_max" if ord == math.inf else "_norm_min" if ord == -math.inf else "_norm_sum"
    return m._tensor_word(row)(x, int(ord) if ord in (0, 1, 2) else ord, dim, keepdim, dtype=dtype)


@composite(variants="", bind=True)
def linalg_vector_norm(
    input, ord: object = 2, dim: Dims = None, keepdim: bool = False, *, dtype: object = None
):
    """The ord-norm of vectors."""
    if (input.numel() == 0 and float(ord) in (math.inf,)) or (
        float(ord) < 0 and input.numel() == 0
    ):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {float(ord)} norm on an empty tensor because the operation does not have an identity"
        )
    return _vector_norm(input, ord, dim, keepdim, dtype)


@composite(variants="function method")
def norm(
    input, p: object = "fro", dim: Dims = None, keepdim: bool = False, *, dtype: object = None
):
    """A vector norm over the given dimensions (Frobenius by default)."""
    if p == "nuc":
        raise NotImplementedError("the nuclear norm needs singular values: see linalg.matrix_norm")
    if not (input.is_floating_point() or input.is_complex()) and dtype is None:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {input.dtype.scalar_name}"
        )
    return _vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim, dtype)


@composite(variants="function method")
def dist(input, other, p: float = 2):
    """The p-norm of the difference."""
    return _vector_norm(input - other, p, None, False, None)
