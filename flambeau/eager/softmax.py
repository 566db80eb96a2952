"""Launching softmax, log_softmax and logsumexp, forward and backward, along any dimension.

A contiguous tensor is outer x n x inner: with inner 1 the programs run along rows, else down
columns. Programs: `codegen/templates/row_programs.py`; table rows: `ops/softmax.py`.
"""

import math

from flambeau import errors
from flambeau._layout import dense_layout, wrap_dim
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions import Columns, Rows
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.plans import Plans
from flambeau.eager.rows import chunks_of, contiguous, dense_like, has_work
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed

GRAIN = 1 << 16  # elements per chunk


def row_kernel(layout, walk, name, *facts):
    """The kernel of a row program; walk: rows, planes or columns."""
    return layout.device.runtime.kernel(name, "row_programs:build", walk, name, *facts)


def along_rows(rows, n):
    """(description of a walk along rows, chunks)."""
    per_chunk = GRAIN // n or 1
    chunks = 1 if rows <= per_chunk else chunks_of(rows, per_chunk)
    return packed(Rows(chunks, rows, n, per_chunk)), chunks


def _down_columns(outer, n, inner):
    per_group = max(64, GRAIN // n & -64)
    groups = -(-inner // per_group)
    chunks = chunks_of(outer * groups, 1)
    return packed(Columns(chunks, outer * n, n, inner, groups, per_group))


def _plan(name, layout, dim):
    """(layout of a result of that shape, kernel, description) of a program along a dimension.

    No kernel: an operand has to be copied first.
    """
    sizes = layout.sizes
    dim = wrap_dim(dim, len(sizes))
    if not layout.dtype.is_floating_point and layout.numel:
        last = "lastdim_" if dim >= len(sizes) - 1 else ""
        raise errors.not_implemented(f"{name}_{last}kernel_impl", layout.dtype)
    out = dense_like(layout)
    if not has_work(layout):
        return out, nothing, b""
    if not layout.is_contiguous:
        return out, None, b""
    n = sizes[dim] if sizes else 1
    inner = math.prod(sizes[dim + 1 :])
    rows = layout.numel // n
    if inner == 1:
        walk, described = "rows", along_rows(rows, n)[0]
    else:
        walk, described = "columns", _down_columns(rows // inner, n, inner)
    return out, row_kernel(layout, walk, name, layout.dtype.code), described


def _plans(name):
    return Plans(lambda key: _plan(name, *key))


def _forward(name):
    plans = _plans(name)

    def launch(input, dim, half_to_float):
        layout, kernel, described = plans[input._layout, dim]
        if kernel is None:
            return launch(contiguous(input), dim, half_to_float)
        out = empty_like_layout(layout)
        kernel(described, out._storage.pointer, input._storage.pointer + input._offset)
        return out

    return launch


def _check_alike(grad_output, output, name):
    if grad_output.shape != output.shape:
        raise RuntimeError(
            "Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 "
            f"'output'; but {list(grad_output.shape)} does not equal {list(output.shape)} (while "
            f"checking arguments for {name})"
        )
    if grad_output.dtype is not output.dtype:
        raise RuntimeError(
            f"expected scalar type {output.dtype.scalar_name} but found "
            f"{grad_output.dtype.scalar_name}"
        )


def _backward(name):
    plans = _plans(name)

    def launch(grad_output, output, dim, input_dtype):
        layout, kernel, described = plans[output._layout, dim]
        if grad_output._layout is not output._layout or kernel is None:
            _check_alike(grad_output, output, name)
            output, grad_output = contiguous(output), contiguous(grad_output)
            layout, kernel, described = plans[output._layout, dim]
        out = empty_like_layout(layout)
        kernel(
            described,
            out._storage.pointer,
            grad_output._storage.pointer + grad_output._offset,
            output._storage.pointer + output._offset,
        )
        return out

    return launch


for _name in ("softmax", "log_softmax"):
    launches("_" + _name)(_forward(_name))
    launches_kernel(_name + "_backward")(_backward(_name + "_backward"))


# -- logsumexp, over one dimension -----------------------------------------------------------------


def _plan_logsumexp(key):
    """The same with the layout of the result: a number per row."""
    layout, dim, keepdim = key
    _, kernel, described = _plan("logsumexp", layout, dim)
    sizes = list(layout.sizes)
    if sizes:
        dim = wrap_dim(dim, len(sizes))
        sizes[dim : dim + 1] = (1,) if keepdim else ()
    return dense_layout(tuple(sizes), layout.dtype, layout.device), kernel, described


LOGSUMEXPS, LOGSUMEXP_GRADIENTS = Plans(_plan_logsumexp), _plans("logsumexp_backward")


@launches("logsumexp_rows")
def logsumexp_rows(input, dim, keepdim):
    layout, kernel, described = LOGSUMEXPS[input._layout, dim, keepdim]
    if kernel is None:
        return logsumexp_rows(contiguous(input), dim, keepdim)
    out = empty_like_layout(layout)
    kernel(described, out._storage.pointer, input._storage.pointer + input._offset)
    return out


@launches_kernel("logsumexp_backward")
def _logsumexp_backward(g, input, out, dim, keepdim):
    operands = [contiguous(t) for t in (g, input, out)]
    layout, kernel, described = LOGSUMEXP_GRADIENTS[operands[1]._layout, dim]
    dx = empty_like_layout(layout)
    kernel(described, dx._storage.pointer, *[t._storage.pointer + t._offset for t in operands])
    return dx
