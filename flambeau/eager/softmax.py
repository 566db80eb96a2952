"""Launching softmax, log_softmax and logsumexp, forward and backward, along any dimension.

A contiguous tensor is outer x n x inner: with inner 1 the programs run along rows, else down
columns. Programs: `codegen/templates/row_programs.py`; table rows: `ops/softmax.py`.
"""

import math

from flambeau import errors
from flambeau._layout import dense_layout, wrap_dim
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.fronts import kernel_unless_recorded, quick_function
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.outs import not_exact
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rows import contiguous, is_computed, reduced_shape
from flambeau.runtime.cpu import words

_kernels: dict = {}
GRAIN = 1 << 16  # elements per chunk


def row_kernel(walk, name, *facts):
    """The kernel of a row program; walk: rows or columns."""
    key = (walk, name, facts)
    found = _kernels.get(key)
    if found is None:
        from flambeau.codegen.templates import row_programs  # with llvmlite, on first need

        found = walked(walk, getattr(row_programs, name)(*facts), name)
        _kernels[key] = found
    return found


def walked(walk, program, name):
    """The kernel of a program for one way of walking: rows, planes or columns."""
    from flambeau.codegen.templates import rows, rows_columns, rows_planes

    build = {
        "rows": rows.build_rows,
        "planes": rows_planes.build_planes,
        "columns": rows_columns.build_columns,
    }
    return load_kernel(build[walk](program), name)


def row_words(rows, n):
    """Description of a walk along rows."""
    per_chunk = max(1, GRAIN // max(n, 1))
    owner, at = words([-(-rows // per_chunk), rows, n, per_chunk])
    if owner[0] > 1:
        pool().ensure_workers()
    return owner, at


def _plan(name, layout, dim):
    """(layout of the result, kernel, description, what keeps it alive)."""
    shape = layout.shape
    n = shape[dim] if shape else 1
    inner = math.prod(shape[dim + 1 :])
    outer = layout.numel // (n * inner)
    if inner == 1:
        walk, (owner, at) = "rows", row_words(outer, n)
    else:
        walk = "columns"
        per_group = max(64, GRAIN // n & -64)
        groups = -(-inner // per_group)
        owner, at = words([outer * groups, outer * n, n, inner, groups, per_group])
        if owner[0] > 1:
            pool().ensure_workers()
    return layout, row_kernel(walk, name, layout.dtype.code), at, owner


def _planned(plans, name, layout, dim):
    if len(plans) > MAX_PLANS:
        plans.clear()
    plan = plans[layout, dim] = _plan(name, layout, wrap_dim(dim, layout.ndim))
    return plan


def _forward(name, program):
    plans: dict = {}

    def launch(input, dim, half_to_float):
        plan = plans.get((input._layout, dim))
        if plan is None:
            layout, given = input._layout, dim
            dim = wrap_dim(dim, layout.ndim)
            if not layout.dtype.is_floating_point:
                last = "lastdim_" if dim >= layout.ndim - 1 else ""
                raise errors.not_implemented(f"{name}_{last}kernel_impl", layout.dtype)
            if not is_computed(input):
                return empty_like_layout(dense_layout(layout.shape, layout.dtype, layout.device))
            if not layout.is_contiguous:
                return launch(contiguous(input), dim, half_to_float)
            plan = _planned(plans, program, layout, given)
        layout, kernel, description, _ = plan
        out = empty_like_layout(layout)
        kernel(description, out._storage.pointer, input._storage.pointer + input._offset)
        return out

    return launch


def _backward(program):
    plans: dict = {}

    def launch(grad_output, output, dim, input_dtype):
        layout = output._layout
        plan = plans.get((layout, dim))
        if plan is None or grad_output._layout is not layout:
            if not is_computed(output):
                return empty_like_layout(dense_layout(layout.shape, layout.dtype, layout.device))
            output, grad_output = contiguous(output), contiguous(grad_output)
            plan = _planned(plans, program, output._layout, dim)
        layout, kernel, description, _ = plan
        out = empty_like_layout(layout)
        kernel(
            description,
            out._storage.pointer,
            grad_output._storage.pointer + grad_output._offset,
            output._storage.pointer + output._offset,
        )
        return out

    return launch


# -- logsumexp, over one dimension -----------------------------------------------------------------

_logsumexps: dict = {}
_logsumexp_backwards: dict = {}


@launches("logsumexp_rows")
def logsumexp_rows(input, dim, keepdim):
    layout = input._layout
    plan = _logsumexps.get((layout, dim))
    if plan is None:
        if not layout.is_contiguous:
            input = contiguous(input)
        if is_computed(input):
            plan = _planned(_logsumexps, "logsumexp", input._layout, dim)
    out = empty_tensor(reduced_shape(input, wrap_dim(dim, layout.ndim), keepdim), *_kind(layout))
    if plan is not None:
        plan[1](plan[2], out._storage.pointer, input._storage.pointer + input._offset)
    return out


def _kind(layout):
    return layout.dtype, layout.device


def _logsumexp_backward(g, input, out, dim, keepdim):
    layout = input._layout
    dx = empty_like_layout(dense_layout(layout.shape, *_kind(layout)))
    if is_computed(input):
        input, g, out = contiguous(input), contiguous(g), contiguous(out)
        plan = _logsumexp_backwards.get((input._layout, dim))
        if plan is None:
            plan = _planned(_logsumexp_backwards, "logsumexp_backward", input._layout, dim)
        operands = dx, g, input, out
        plan[1](plan[2], *[t._storage.pointer + t._offset for t in operands])
    return dx


FRONTS["logsumexp_backward"] = kernel_unless_recorded(_logsumexp_backward)


for _name in ("softmax", "log_softmax"):
    launches("_" + _name)(_forward(_name, _name))
    FRONTS[_name + "_backward"] = kernel_unless_recorded(_backward(_name + "_backward"))


def _exact_out(op, function):
    """out= must have the very dtype of the result."""

    def general(*args, out=None, **kwargs):
        if out is None:
            return function(*args, **kwargs)
        result = function(*args, **kwargs)
        if out.dtype is not result.dtype:
            raise not_exact(result.dtype, out.dtype)
        if result._requires_grad:
            raise errors.out_requires_grad(op.name)
        if out.shape != result.shape:
            out._resize_output(result.shape)
        return out.copy_(result)

    return quick_function(op, op.body, general)


FRONTS["softmax_out"] = _exact_out
