"""Launching softmax, log_softmax and logsumexp, forward and backward, along any dimension.

A contiguous tensor is outer x n x inner: with inner 1 the programs run along rows, else down
columns. Programs: `codegen/templates/row_programs.py`; table rows: `ops/softmax.py`.
"""

import math

from flambeau import errors
from flambeau._layout import dense_layout, wrap_dim
from flambeau.codegen.descriptions import Columns, Rows
from flambeau.eager.planned import idle, planned
from flambeau.eager.rows import chunks_of, dense_like, has_work, reduced_shape
from flambeau.runtime.cpu import packed

GRAIN = 1 << 16  # elements per chunk
FEW = 1 << 14  # elements of a chunk on a GPU
FINE = 1 << 13  # the same where chunks leave nothing to add up: some microseconds of work
ROW = 32  # elements that would take as long as beginning a row does


def row_kernel(layout, walk, name, *facts):
    """The kernel of a row program; walk: rows, planes or columns."""
    return layout.device.runtime.kernel(name, "row_programs:build", walk, name, *facts)


def along_rows(rows, n, device):
    """(description of a walk along rows, chunks), where every chunk has sums of its own."""
    per_chunk = GRAIN // n or 1
    if not device.runtime.is_host:  # a group of threads has a chunk: many, and teams fill them
        per_chunk = min(max(16, (FEW // n) & -16), max(1, rows // 512))
    chunks = 1 if rows <= per_chunk else chunks_of(rows, per_chunk)
    return packed(Rows(chunks, rows, n, per_chunk)), chunks


def row_by_row(rows, n):
    """The description of a walk along rows that know nothing of each other: equal chunks."""
    chunks = rows * (n + ROW) // FINE & -2
    if chunks < 2:
        return packed(Rows(1, rows, n, rows))
    per_chunk = -(-rows // min(chunks, rows))
    return packed(Rows(chunks_of(rows, per_chunk), rows, n, per_chunk))


def _down_columns(outer, n, inner):
    per_group = max(64, GRAIN // n & -64)
    groups = -(-inner // per_group)
    chunks = chunks_of(outer * groups, 1)
    return packed(Columns(chunks, outer * n, n, inner, groups, per_group))


def _plan(name, layout, dim):
    """A program along a dimension; the result has the shape of the layout."""
    sizes = layout.sizes
    dim = wrap_dim(dim, len(sizes))
    if not layout.dtype.is_floating_point and layout.numel:
        last = "lastdim_" if dim >= len(sizes) - 1 else ""
        raise errors.not_implemented(f"{name}_{last}kernel_impl", layout.dtype)
    out = dense_like(layout)
    if not has_work(layout):
        return idle(out)
    n = sizes[dim] if sizes else 1
    inner = math.prod(sizes[dim + 1 :])
    rows = layout.numel // n
    if inner == 1:
        walk, described = "rows", row_by_row(rows, n)
    else:
        walk, described = "columns", _down_columns(rows // inner, n, inner)
    return out, row_kernel(layout, walk, name, layout.dtype.code), described


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


def _both_ways(name):
    @planned("_" + name, "input: dense, dim, half_to_float")
    def forward(input, dim, half_to_float):
        if half_to_float and input.device.runtime.is_host:
            raise RuntimeError("softmax with half to float conversion is not supported on CPU")
        return _plan(name, input, dim)

    back = name + "_backward"

    @planned(back, "grad_output: dense, output: dense, dim, input_dtype", backward=True)
    def backward(grad_output, output, dim, input_dtype):
        found = _plan(back, output, dim)
        _check_alike(grad_output, output, back)
        return found


_both_ways("softmax")
_both_ways("log_softmax")


# -- logsumexp, over one dimension -----------------------------------------------------------------


@planned("logsumexp_rows", "input: dense, dim, keepdim")
def logsumexp_rows(input, dim, keepdim):
    """A number per row."""
    _, kernel, described = _plan("logsumexp", input, dim)
    shape = reduced_shape(input, wrap_dim(dim, input.ndim), keepdim)
    return dense_layout(shape, input.dtype, input.device), kernel, described


@planned("logsumexp_backward", "g: dense, input: dense, out: dense, dim, keepdim", backward=True)
def logsumexp_backward(g, input, out, dim, keepdim):
    return _plan("logsumexp_backward", input, dim)
