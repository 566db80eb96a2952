"""Launching linear: input @ weight.T + bias as one product with an epilogue.

Rows of inputs with several dimensions are taken as one where strides allow, else as a batch.
"""

from math import prod

from flambeau._layout import Size, collapse, dense_layout, expanded_strides, make_layout, merged
from flambeau._tensor import alias, empty_like_layout
from flambeau.eager import gemm
from flambeau.eager.launching import launches
from flambeau.eager.plans import Plans
from flambeau.eager.products import product
from flambeau.eager.rows import contiguous
from flambeau.ops.products_checks import (
    check_added,
    check_expands,
    check_inner,
    check_same_dtype,
    refuse,
)


@launches("linear")
def linear(input, weight, bias):
    layout, plan, one = LINEAR[
        input._layout, weight._layout, None if bias is None else bias._layout
    ]
    out = empty_like_layout(layout)
    if one is None:
        plan(out, input, weight, bias)
        return out
    a = input._storage.pointer + input._offset
    b = weight._storage.pointer + weight._offset
    if bias is None:
        plan.run(out._storage.pointer, a, b)
    else:
        plan.run(out._storage.pointer, a, b, bias._storage.pointer + bias._offset, *one)
    return out


def _plan(key):
    """(layout of the result, Plan, factor of the bias), or (layout, function of tensors, None)."""
    input, weight, bias = key
    later = bias is not None and input.ndim > 2 and not _is_row(bias)
    _check(input, weight, None if later else bias)
    rows, k = input.sizes[:-1], input.sizes[-1]
    vector = weight.ndim == 1
    n = 1 if vector else weight.sizes[0]
    layout = dense_layout(rows if vector else (*rows, n), input.dtype, input.device)
    if layout.numel == 0 or not input.device.runtime.computes:
        return layout, _nothing, None
    if later:
        return layout, _added_later, None
    right = (weight.strides[0], 1) if vector else weight.strides[::-1]
    sizes, steps = rows, input.strides[:-1]
    if len(rows) != 1:
        sizes, steps = merged(rows, steps, 1)
    count, step = (sizes[-1], steps[-1]) if sizes else (1, k)
    batch, along, extra = sizes[:-1], (), []
    if bias is not None:
        plain = bias.ndim == 1 and bias.sizes[0] == n
        extra = [(0, bias.strides[0]) if plain else expanded_strides(bias, (count, n))]
        if batch and extra[0][0]:
            return layout, _by_views, None
    if batch:
        whole, inner = [], count * n
        for size in reversed(batch):
            whole.append(inner)
            inner *= size
        along = (*whole[::-1], *steps[:-1], *[0] * len(batch) * (1 + len(extra)))
    plan = gemm.plan(
        input, count, n, k, (n, 1), (step, input.strides[-1]), right, False, "", extra, batch, along
    )
    if plan.__class__ is not gemm.Plan:
        return layout, _by_views, None
    return layout, plan, gemm.number(1, input.dtype)


LINEAR = Plans(_plan, by_default=False)


@launches("linear_to_weight")
def linear_to_weight(g_out, input):
    found = product(g_out, input, _turned)
    return product(contiguous(g_out), contiguous(input), _turned) if found is None else found


def _turned(a, b):
    """a.T @ b, where all but the last dimension are rows; None if those are not evenly apart."""
    if a.ndim == 2:
        (rows, m), n = a.shape, b.shape[1]
        return (m, n), m, n, rows, a.strides[::-1], b.strides, (), ()
    count, steps = prod(a.shape[:-1]), [1, 1]
    for t, layout in enumerate((a, b) if count else ()):
        sizes, strides = collapse(layout.shape[:-1], [layout.strides[:-1]])
        if len(sizes) > 1:
            return None
        if sizes:
            count, steps[t] = sizes[0], strides[0][0]
    (m, n), left = (a.shape[-1], b.shape[-1]), (a.strides[-1], steps[0])
    return (m, n), m, n, count, left, (steps[1], b.strides[-1]), (), ()


def _is_row(bias):
    return bias.ndim == 1 or sum(n != 1 for n in bias.sizes) == 1


def _nothing(out, input, weight, bias):
    """Nobody has memory, or there is nothing in it."""


def _added_later(out, input, weight, bias):
    """A bias that is no row of the result: PyTorch adds it in place, in the shape of the result."""
    out.copy_(linear(input, weight, None).add_(bias.detach()))


def _by_views(out, input, weight, bias):
    """A product that takes more than one kernel: operands as matrices."""
    (n, k), (by_row, by_k) = weight.shape, weight._layout.strides
    columns = make_layout(Size((k, n)), (by_k, by_row), weight.dtype, weight.device)
    columns = alias(weight, columns, weight._offset)
    rows, strides = collapse(input.shape[:-1], [input._layout.strides[:-1]])
    if len(rows) == 1:
        left = make_layout(
            Size((rows[0], k)), (strides[0][0], input._layout.strides[-1]), out.dtype, out.device
        )
        input = alias(input, left, input._offset)
        out = alias(out, dense_layout((rows[0], n), out.dtype, out.device), out._offset)
    gemm.multiply_into(out, input, columns, addends=[] if bias is None else [(bias, 1)])


def _check(input, weight, bias):
    if not (input.ndim and weight.ndim):
        raise RuntimeError(
            "both arguments to linear need to be at least 1D, but they are "
            f"{input.ndim}D and {weight.ndim}D"
        )
    if weight.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D")
    *sizes, inner = input.shape
    rows = prod(sizes)
    if weight.ndim == 1 and bias is not None and (input.ndim == 2 or bias.ndim):
        raise RuntimeError("mat2 must be a matrix, got 1-D tensor")
    columns, wanted = weight.shape if weight.ndim == 2 else (1, *weight.shape)
    check_inner(rows, inner, wanted, columns)
    if bias is not None:
        if weight.ndim == 2:
            check_expands(bias, (rows, columns))
        check_added(bias, input, weight)
    check_same_dtype(input.dtype, weight.dtype)
    refuse("addmm_impl_cpu_", input, weight)
