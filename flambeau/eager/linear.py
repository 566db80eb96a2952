"""Launching linear: input @ weight.T + bias as one product with an epilogue.

Layouts that were met before lead straight to a plan of gemm.py; rows of inputs with several
dimensions are taken as one where strides allow, else as a batch.
"""

from flambeau._layout import Size, collapse, dense_layout, make_layout
from flambeau._tensor import alias, empty_like_layout, empty_tensor
from flambeau.eager.launching import launches
from flambeau.eager.gemm import Plan, multiply_into, plan_for
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.products import (
    check_added,
    check_expands,
    check_inner,
    check_same_dtype,
    product,
    refuse,
)
from flambeau.eager.rows import is_computed

_ready: dict = {}  # layouts -> (layout of the result, plan, factor of the bias)


@launches("linear")
def linear(input, weight, bias):
    key = (input._layout, weight._layout, None if bias is None else bias._layout)
    found = _ready.get(key)
    if found is None:
        return _first(input, weight, bias, key)
    layout, plan, more = found
    out = empty_like_layout(layout)
    a = input._storage.pointer + input._offset
    b = weight._storage.pointer + weight._offset
    if more is None:
        plan.run(out._storage.pointer, a, b)
    else:
        plan.run(out._storage.pointer, a, b, bias._storage.pointer + bias._offset, more)
    return out


def _first(input, weight, bias, key):
    _check(input, weight, bias)
    if weight.ndim == 1:
        return _by_vector(input, weight, bias)
    shape = (*input.shape[:-1], weight.shape[0])
    out = empty_tensor(Size(shape), input.dtype, input.device)
    if not is_computed(out):
        return out
    (n, k), (by_row, by_k) = weight.shape, weight._layout.strides
    columns = _layout_of(weight, (k, n), (by_k, by_row))
    rows, strides = collapse(input.shape[:-1], [input._layout.strides[:-1]])
    if len(rows) > 1:
        return _batched(out, input, alias(weight, columns, weight._offset), bias)
    count = rows[0] if rows else 1
    step = strides[0][0] if rows else k
    a = _layout_of(input, (count, k), (step, input._layout.strides[-1]))
    c = dense_layout(Size((count, n)), out.dtype, out.device)
    addends = () if bias is None else (bias._layout,)
    plan = plan_for(c, a, columns, False, "", *addends)
    one = None if bias is None else (1.0 if input.dtype.is_floating_point else 1)
    if plan.__class__ is Plan and not input.dtype.is_complex:
        if len(_ready) > MAX_PLANS:
            _ready.clear()
        _ready[key] = out._layout, plan, one
    multiply_into(
        alias(out, c, out._offset),
        alias(input, a, input._offset),
        alias(weight, columns, weight._offset),
        addends=[] if bias is None else [(bias, 1)],
    )
    return out


def _layout_of(t, shape, strides):
    return make_layout(Size(shape), strides, t.dtype, t.device)


def _batched(out, input, columns, bias):
    """Rows that no single stride reaches: the outer dimensions are a batch."""
    multiply_into(out, input, columns, addends=[] if bias is None else [(bias, 1)])
    return out


def _by_vector(input, weight, bias):
    """A weight of one dimension: a product with a vector."""
    (k,), (step,) = weight.shape, weight._layout.strides
    column = alias(weight, _layout_of(weight, (k, 1), (step, 1)), weight._offset)
    a = input
    if input.ndim == 1:
        layout = _layout_of(input, (1, k), (1, input._layout.strides[0]))
        a = alias(input, layout, input._offset)
    if bias is None:
        found = product(a, column)
    else:
        found = empty_tensor(Size((*a.shape[:-1], 1)), a.dtype, a.device)
        multiply_into(found, a, column, addends=[(bias, 1)])
    shape = input.shape[:-1]
    return alias(found, dense_layout(Size(shape), found.dtype, found.device), found._offset)


def _check(input, weight, bias):
    if not (input.ndim and weight.ndim):
        raise RuntimeError(
            "both arguments to linear need to be at least 1D, but they are "
            f"{input.ndim}D and {weight.ndim}D"
        )
    if weight.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D")
    rows = 1
    for s in input.shape[:-1]:
        rows *= s
    if weight.ndim == 1 and bias is not None and (input.ndim > 1 or bias.ndim):
        raise RuntimeError("mat2 must be a matrix, got 1-D tensor")
    columns = weight.shape[0] if weight.ndim == 2 else 1
    check_inner(rows, input.shape[-1], weight.shape[-1], columns)
    if bias is not None and weight.ndim == 2:
        check_expands(bias, (rows, columns))
    if bias is not None:
        check_added(bias, input, weight)
    check_same_dtype(input.dtype, weight.dtype)
    refuse(input.dtype, "addmm_impl_cpu_")
