"""Rows: a tensor as lines along one dimension, side by side in memory, for kernels that walk lines.

`as_rows` moves the dimension last and copies if needed; `from_rows` puts a result back in place.
`blocks` cuts long work into chunks by size alone, so results never depend on threads.
"""

from flambeau._dtype import bool_
from flambeau._layout import dense_layout, make_layout, wrap_dim
from flambeau._natively import natively
from flambeau._tensor import alias, empty_like_layout, empty_tensor
from flambeau.eager.copying import copy_into
from flambeau.eager.kernels import pool
from flambeau.ops.table import public
from flambeau.runtime.cpu import words
from flambeau.storage import new_storage


def is_computed(t):
    """Are there elements to compute? (Not if the tensor is empty or on the meta device.)"""
    return has_work(t._layout)


def has_work(layout):
    """The same of a layout."""
    return layout.numel > 0 and layout.device.runtime.computes


def dense_like(layout):
    """The layout of a result that lies side by side."""
    return layout if layout.is_dense else dense_layout(layout.sizes, layout.dtype, layout.device)


def lengthened(layout, columns, dtype):
    """A dense layout with one more dimension than another, the last."""
    return dense_layout((*layout.sizes, columns), dtype, layout.device)


def vector_layout(size, dtype, device):
    return make_layout((size,), (1,), dtype, device)


@natively
def plane_step(sizes: tuple, strides: tuple, dims):
    """Elements from plane to plane, if planes (the last `dims` dimensions) lie side by side and
    evenly apart; else -1.
    """
    first = len(sizes) - dims
    dense = 1
    for k in range(len(sizes) - 1, first - 1, -1):
        if strides[k] != dense and sizes[k] != 1:
            return -1
        dense *= sizes[k]
    step = dense
    expected = -1
    for k in range(first - 1, -1, -1):
        if sizes[k] == 1:
            continue
        if expected == -1:
            step = expected = strides[k]
        if strides[k] != expected:
            return -1
        expected = strides[k] * sizes[k]
    return step


def address(t):
    return t._storage.pointer + t._offset


def contiguous(t):
    """The tensor itself if it lies side by side, else a copy; unknown to autograd."""
    if t._layout.is_contiguous:
        return t
    out = empty_tensor(t.shape, t.dtype, t.device)
    copy_into(out, t)
    return out


def truths(t):
    """A tensor with its booleans as 0 and 1: bytes that are looked at as booleans may be more."""
    return public("ne")(t, False) if t._layout.dtype is bool_ else t


def as_layout(t, layout):
    """A tensor in a layout of its shape: itself, or a copy."""
    if t._layout is layout:
        return t
    out = empty_like_layout(layout)
    if has_work(layout):
        copy_into(out, t)
    return out


def _moved(layout, dim):
    """A layout with a dimension moved to the end."""
    shape, strides = list(layout.sizes), list(layout.strides)
    for facts in (shape, strides) if shape else ():
        facts.append(facts.pop(dim))
    return make_layout(tuple(shape), tuple(strides), layout.dtype, layout.device)


def as_rows(t, dim):
    """(rows, length, a tensor with the rows side by side); dim counts from the front."""
    layout = t._layout
    length = layout.sizes[dim] if layout.ndim else 1
    rows = layout.numel // length if length else 0
    if dim >= layout.ndim - 1 and layout.is_contiguous:
        return rows, length, t
    return rows, length, contiguous(alias(t, _moved(layout, dim), t._offset))


def row_shape(t, dim, length):
    """The shape of a result as rows: the dimension last, of another length."""
    shape = t._layout.sizes
    return (*shape[:dim], *shape[dim + 1 :], length) if shape else ()


def from_rows(rows, dim):
    """A row result with its last dimension moved back to dim, contiguous."""
    ndim = rows._layout.ndim
    if ndim < 2 or dim == ndim - 1:
        return rows
    layout = rows._layout
    shape, strides = list(layout.sizes), list(layout.strides)
    for facts in (shape, strides):
        facts.insert(dim, facts.pop())
    view = make_layout(tuple(shape), tuple(strides), layout.dtype, layout.device)
    return contiguous(alias(rows, view, 0))


def reduced_shape(layout, dim, keepdim):
    """The shape of a layout without a dimension."""
    shape = layout.sizes
    return (*shape[:dim], *((1,) if keepdim else ()), *shape[dim + 1 :]) if shape else ()


def dimension(t, dim):
    return wrap_dim(dim, t._layout.ndim)


def chunks_of(count, per_chunk):
    """How many chunks so many items make; more than one want workers."""
    chunks = -(-count // per_chunk)
    if chunks > 1:
        pool().ensure_workers()
    return chunks


def share_of(device, count, least=1):
    """Items of a chunk: so many on the host, as few as may be where a chunk is a thread's."""
    return count if device.runtime.is_host else min(count, least)


def blocks(n, least, most=64):
    """(blocks, length of a block): at least `least` long, at most `most` of them."""
    length = max(least, -(-n // most))
    length = (length + 1023) & -1024
    return max(1, chunks_of(n, length)), length


def told_words(count, device):
    """Words that a kernel fills for Python: (their address, a function that gives them)."""
    runtime = device.runtime
    if runtime.is_host:
        block, place = words(bytes(8 * count))
        return place, lambda: block
    there = new_storage(8 * count, device)

    def fetched():
        block, place = words(bytes(8 * count))
        runtime.read(place, there.pointer, 8 * count)
        return block

    return there.pointer, fetched
