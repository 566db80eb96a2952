"""Reductions over some or all dimensions.

A row says how states start, take in an element (the body), combine and finish; `result` names the dtype
a reduction computes with and those of its results. Derivatives work on tensors.
"""

import math

from flambeau import _dtype as d
from flambeau.codegen import scalar
from flambeau.codegen import scalar as m
from flambeau.ops.table import Dims, reduction


def restore_dims(g, shape, dim, keepdim):
    """A gradient of a reduction, spread over what was reduced."""
    if not keepdim and shape:
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
    return scalar.Complex(m.const(0, type), m.const(0, type)) if code[0] == "c" else m.const(0, type)


def one(type, code):
    return scalar.Complex(m.const(1, type), m.const(0, type)) if code[0] == "c" else m.const(1, type)


@reduction(result=summed, state=same_state, init=zero, combine=lambda a, b: a + b, variants="function method out",
           grad=lambda g, input_shape, dim, keepdim: restore_dims(g, input_shape, dim, keepdim))  # fmt: skip
def sum(input, dim: Dims = None, keepdim: bool = False, *, dtype: object = None):
    """Sum over the given dimensions."""
    return input


@reduction(result=averaged, state=same_state, init=zero, combine=lambda a, b: a + b, finish=lambda s, count: _divide(s, count),
           variants="function method out",
           grad=lambda g, input_shape, dim, keepdim: restore_dims(g, input_shape, dim, keepdim) / reduced_count(input_shape, dim))  # fmt: skip
def mean(input, dim: Dims = None, keepdim: bool = False, *, dtype: object = None):
    """Mean over the given dimensions."""
    return input


def _divide(s, count):
    if isinstance(s, scalar.Complex):
        n = m.cast(count, s.re.type)
        return scalar.Complex(s.re / n, s.im / n)
    return s / m.cast(count, s.type)
