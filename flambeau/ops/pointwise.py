"""Arithmetic, comparison, rounding, exponentials: the pointwise rows."""

from flambeau.codegen import scalar as m
from flambeau.ops.rules import boolean, floating, promoted
from flambeau.ops.table import Scalar, pointwise


@pointwise(dtype=promoted, grad=dict(input=lambda g: g, other=lambda g, alpha: g * alpha))
def add(input, other, *, alpha: Scalar = 1):
    """Sum of two tensors, with broadcasting."""
    return input + other * alpha


@pointwise(dtype=promoted, grad=dict(input=lambda g, other: g * m.conj(other), other=lambda g, input: g * m.conj(input)))
def mul(input, other):
    """Product of two tensors, with broadcasting."""
    return input * other


@pointwise(dtype=boolean)
def lt(input, other):
    """Is input less than other?"""
    return input < other


@pointwise(dtype=floating, grad=lambda g, out: g * m.conj(out))
def exp(input):
    """e to the power of each element."""
    return m.exp(input)
