"""linear and bilinear: products with weights, as networks use them.

`linear` is one kernel forward (the bias is added where the sums are stored) and one product per
gradient that is wanted. Its launcher is in eager/linear.py; plain products are in products.py.
"""

import math

from flambeau.codegen import scalar as m
from flambeau.ops.support import refuse_complex32
from flambeau.ops.table import OptionalTensor, composite, template

NN = "nn.functional"


def _rows(t):
    """All but the last dimension as one."""
    return t if t.ndim == 2 else t.reshape(math.prod(t.shape[:-1]), t.shape[-1])


def _to_input(g, weight):
    if weight.ndim == 1:
        return g.unsqueeze(-1) * m.conj(weight)
    return linear(g, m.conj(weight).t())


def _to_weight(g, input, weight_shape):
    if len(weight_shape) == 1:
        return g.unsqueeze(-1) * m.conj(input)
    return linear_to_weight(g, m.conj(input))


def _to_bias(g, bias_shape):
    return g.sum(tuple(range(g.ndim - 1))) if len(bias_shape) == 1 < g.ndim else g


@template(
    "linear_to_weight",
    linear="g_out, input",
    variants="",
    node="MmBackward0",
    grad=dict(
        g_out=lambda g, input: linear(m.conj(input), g),
        input=lambda g, g_out: linear(m.conj(g_out), g.t()),
    ),
)
def linear_to_weight(g_out, input):
    """The gradient of a matrix of weights: g_out.T @ input, over the rows of all dimensions."""


@template(
    "linear",
    linear="input bias, weight bias",
    namespace=NN,
    variants="out",
    node="AddmmBackward0",
    bare_node="MmBackward0",
    edges="bias input weight.t",
    grad=dict(input=_to_input, weight=_to_weight, bias=_to_bias),
)
def linear(input, weight, bias: OptionalTensor = None):
    """input @ weight.T + bias, over the last dimension of input.

    Shape: input (*, in), weight (out, in) or (in), bias (out) or (); result (*, out) or (*).
    """


def _check_bilinear(input1, input2, weight, bias):
    given = {"input1": input1, "input2": input2, "weight": weight}
    given |= {} if bias is None else {"bias": bias}
    if len({t.dtype for t in given.values()}) > 1:
        names = ", ".join(f"{name}: {t.dtype.cpp_name}" for name, t in given.items())
        raise RuntimeError(f"All tensors must have the same dtype, got {names}")
    if input1.ndim != input2.ndim:
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}"
        )
    for k, (a, b) in enumerate(zip(input1.shape[:-1], input2.shape[:-1])):
        if a != b:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {k}: got {a} and {b}"
            )
    for k, t in ((1, input1), (2, input2)):
        if weight.ndim <= k:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-weight.ndim}, "
                f"{weight.ndim - 1}], but got {k})"
            )
        if t.shape[-1] != weight.shape[k]:
            raise RuntimeError(
                f"bilinear(): input{k} size does not match weight size: got {t.shape[-1]} but "
                f"expected {weight.shape[k]}"
            )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected "
            f"{weight.shape[0]}"
        )


@composite(namespace=NN, variants="function")
def bilinear(input1, input2, weight, bias: OptionalTensor = None):
    """input1 @ weight[k] @ input2 for each k, plus bias: a product of both inputs per result."""
    _check_bilinear(input1, input2, weight, bias)
    if input1.numel():
        refuse_complex32("bmm", weight)
    outer = input1.shape[:-1]
    if weight.ndim != 3:
        raise RuntimeError("number of dimensions must match")
    out, left, right = weight.shape
    a, b = _rows(input1) if input1.ndim != 1 else input1.unsqueeze(0), input2
    b = _rows(b) if b.ndim != 1 else b.unsqueeze(0)
    # the smaller intermediate: one row per sample, one column per pair (k, right)
    between = a.mm(weight.permute(1, 0, 2).reshape(left, out * right))
    found = between.view(a.shape[0], out, right).bmm(b.unsqueeze(2)).squeeze(2)
    found = found.view(*outer, out)
    return found if bias is None else found + bias
