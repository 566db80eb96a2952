"""Cutting a tensor into several views, and giving several tensors a common shape.

A row marked `multi` gives a list of (shape, strides, offset); its outputs share one node, whose
derivative puts the pieces (`gs`, one gradient per output) together again. The unsafe variants make
the same pieces, but autograd does not treat them as views.
"""

import itertools

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import Size, broadcast_shape, contiguous_strides, wrap_dim
from flambeau.errors import kind_name
from flambeau.ops import table
from flambeau.ops.joining import cat, stack
from flambeau.ops.memory_views import as_strided
from flambeau.ops.table import IntList, Ints, Tensors, composite
from flambeau.ops.views import ints, slice

MOST = 1 << 26  # tensors that one call may give


def check_count(count):
    """More pieces than there can be are refused before the first is made."""
    if count > MOST:
        raise RuntimeError("std::bad_alloc")


def _pieces(layout, dim, sizes):
    """Consecutive pieces of a dimension."""
    found, start = [], 0
    shape, stride = layout.sizes, layout.strides[dim]
    for size in sizes:
        found.append(((*shape[:dim], size, *shape[dim + 1 :]), layout.strides, start * stride))
        start += size
    return found


def _together(gs, dim):
    """Gradients of pieces as one; those that lie side by side in memory are one already."""
    shape = _common_shape(gs, wrap_dim(dim, gs[0].ndim))
    if shape is None:
        return cat(gs, dim)
    return as_strided(gs[0], shape, contiguous_strides(shape))


def _common_shape(gs, dim):
    """The shape of what tensors without a history are parts of, one after another; or None."""
    first = gs[0]
    if len(gs) == 1 or not all(type(g) is type(first) and not g._requires_grad for g in gs):
        return None
    storage, layout, at = first._storage, first._layout, first._offset
    shape = list(layout.sizes)
    shape[dim] = sum([g._layout.sizes[dim] for g in gs])
    if not layout.numel or layout.strides != contiguous_strides(tuple(shape)):
        return None
    for g in gs:
        own = g._layout
        if g._storage is not storage or g._offset != at or own.strides != layout.strides:
            return None
        at += own.sizes[dim] * own.strides[dim] * own.itemsize
    return tuple(shape)


def _even(layout, split_size, dim):
    """Sizes of pieces of split_size, the last one smaller."""
    if not layout.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if split_size < 0:
        raise RuntimeError(
            f"split expects split_size be non-negative, but got split_size={split_size}"
        )
    size = layout.sizes[dim]
    if split_size == 0:
        if size:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
            )
        return [0]
    check_count(size // split_size)
    return [min(split_size, size - k) for k in range(0, size, split_size)] or [0]


def _given(layout, split_sizes, dim):
    if not layout.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    sizes = ints("split_with_sizes", "split_sizes", split_sizes)
    size = layout.sizes[dim]
    if min(sizes, default=0) < 0:
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={list(sizes)}"
        )
    if sum(sizes) != size:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size "
            f"at dimension {dim}), but got split_sizes={list(sizes)}"
        )
    return sizes


def _even_split(input, split_size, dim):
    if not input.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if split_size >= 0:  # else that is what is complained about
        dim = wrap_dim(dim, input.ndim)
    return _pieces(input, dim, _even(input, split_size, dim))


def _given_split(input, split_sizes, dim):
    if not input.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, input.ndim)
    return _pieces(input, dim, _given(input, split_sizes, dim))


@table.view(grad=lambda gs, dim: _together(gs, dim), multi=True, variants="", node="SplitBackward0")
def _split(input, split_size: int, dim: int = 0):
    """Pieces of split_size along dim."""
    return _even_split(input, split_size, dim)


@table.view(grad=lambda gs, dim: _together(gs, dim), multi=True, variants="function method")
def split_with_sizes(input, split_sizes: IntList, dim: int = 0):
    """Pieces of the given sizes along dim."""
    return _given_split(input, split_sizes, dim)


@table.view(
    grad=lambda gs, dim: _together(gs, dim), multi=True, fresh=True, variants="function method"
)
def unsafe_split(input, split_size: int, dim: int = 0):
    """split, whose results do not count as views."""
    return _even_split(input, split_size, dim)


@table.view(
    grad=lambda gs, dim: _together(gs, dim), multi=True, fresh=True, variants="function method"
)
def unsafe_split_with_sizes(input, split_sizes: IntList, dim: int = 0):
    """split_with_sizes, whose results do not count as views."""
    return _given_split(input, split_sizes, dim)


@composite(variants="function method")
def split(tensor, split_size_or_sections: Ints, dim: int = 0):
    """Pieces along dim, of one size or of the given sizes."""
    if isinstance(split_size_or_sections, (tuple, list)):
        return split_with_sizes(tensor, tuple(split_size_or_sections), dim)
    return _split(tensor, split_size_or_sections, dim)


def _chunked(layout, chunks, dim):
    if not layout.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = wrap_dim(dim, layout.ndim)
    size = layout.sizes[dim]
    # an empty dimension still gives the number of pieces that was asked for
    check_count(1 if size else chunks)
    sizes = _even(layout, -(-size // chunks), dim) if size else (0,) * chunks
    return _pieces(layout, dim, sizes)


@table.view(
    grad=lambda gs, dim: _together(gs, dim),
    multi=True,
    variants="function method",
    node="SplitBackward0",
)
def chunk(input, chunks: int, dim: int = 0):
    """At most `chunks` pieces of equal size along dim, the last one smaller."""
    return _chunked(input, chunks, dim)


@table.view(
    grad=lambda gs, dim: _together(gs, dim),
    multi=True,
    fresh=True,
    variants="function method",
    node="UnsafeSplitBackward0",
)
def unsafe_chunk(input, chunks: int, dim: int = 0):
    """chunk, whose results do not count as views."""
    return _chunked(input, chunks, dim)


@table.view(grad=lambda gs, dim: stack(gs, dim), multi=True, variants="function method")
def unbind(input, dim: int = 0):
    """The positions of a dimension, one tensor each."""
    if not input.ndim:
        raise errors.no_dimensions(dim)
    dim = wrap_dim(dim, input.ndim)
    shape, strides = input.sizes, input.strides
    rest, steps = shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :]
    check_count(shape[dim])
    return [(rest, steps, k * strides[dim]) for k in range(shape[dim])]


def _no_such_split(input, where):
    forms = "tuple of ints indices", "Tensor tensor_indices_or_sections", "int sections"
    forms = [f"Tensor input, {form}, int dim = 0" for form in forms]
    return errors.combination("tensor_split", (input, where), forms)


def _check_positions(input, positions):
    """PyTorch's parser looks at the first one, then at each as it is unpacked."""
    for k, position in enumerate(positions):
        if k and type(position) is bool:
            continue
        if isinstance(position, (bool, float, complex, str)):
            if not k:
                raise _no_such_split(input, positions)
            raise TypeError(
                f"tensor_split(): argument 'indices' failed to unpack the object at pos {k + 1} "
                f'with error "type must be tuple of ints,but got {kind_name(position)}"'
            )


@composite(variants="function method")
def tensor_split(input, indices_or_sections: object, dim: int = 0):
    """Pieces of nearly equal size, or cut before the given positions."""
    if isinstance(indices_or_sections, (bool, float, complex, str)):
        raise _no_such_split(input, indices_or_sections)
    if isinstance(indices_or_sections, int) and indices_or_sections > errors.LARGEST:
        raise ValueError("Overflow when unpacking long long")
    if isinstance(indices_or_sections, (tuple, list)):
        _check_positions(input, indices_or_sections)
    if not input.ndim:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    dim, where = wrap_dim(dim, input.ndim), indices_or_sections
    if hasattr(where, "_layout"):
        if where.dtype is not d.int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
                + where.dtype.scalar_name
            )
        if where.ndim > 1:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                f"one-dimensional tensor, but got a tensor with {where.ndim} dims"
            )
        where = where.tolist()
    size = input.shape[dim]
    if isinstance(where, (tuple, list)):
        ends = [*where, size]
        return tuple(slice(input, dim, a, b) for a, b in zip([0, *where], ends))
    if where <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {where}")
    check_count(where)
    least, larger = divmod(size, where)
    ends = [k * least + min(k, larger) for k in range(where + 1)]
    return tuple(slice(input, dim, a, b) for a, b in itertools.pairwise(ends))


def _along(name, dims, dim):
    """hsplit and its siblings: tensor_split along a fixed dimension, in equal parts only."""

    def body(input, indices_or_sections):
        if input.ndim < dims:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {dims} dimension, but got a tensor "
                f"with {input.ndim} dimensions!"
            )
        axis = dim if input.ndim > dim else 0
        size = input.shape[axis]
        sections = indices_or_sections if isinstance(indices_or_sections, int) else 1
        if not sections or size % sections:
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {axis}, but the size of the "
                f"dimension {size} is not divisible by the split_size {indices_or_sections}!"
            )
        return input.tensor_split(indices_or_sections, axis)

    return body


@composite(variants="function method")
def hsplit(input, indices_or_sections: Ints):
    """tensor_split along the second dimension (the first of a vector)."""
    return _along("hsplit", 1, 1)(input, indices_or_sections)


@composite(variants="function method")
def vsplit(input, indices_or_sections: Ints):
    """tensor_split along the first dimension."""
    return _along("vsplit", 2, 0)(input, indices_or_sections)


@composite(variants="function method")
def dsplit(input, indices_or_sections: Ints):
    """tensor_split along the third dimension."""
    return _along("dsplit", 3, 2)(input, indices_or_sections)


# -- a common shape -------------------------------------------------------------------------------


def listed(tensors):
    """The tensors of f(a, b), f((a, b)) and f(a) alike."""
    if hasattr(tensors, "_layout"):
        return [tensors]
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return list(tensors[0])
    return list(tensors)


@composite(variants="function", varargs="tensors")
def broadcast_tensors(tensors: Tensors):
    """The tensors, spread over their common shape."""
    tensors = listed(tensors)
    shape = broadcast_shape(*[t.shape for t in tensors]) if tensors else ()
    return tuple(t if t.shape == shape else t.expand(shape) for t in tensors)


@composite(variants="function")
def broadcast_shapes(*shapes):
    """The common shape of several shapes."""
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    found = [1] * max(map(len, shapes), default=0)
    for index, shape in enumerate(shapes):
        for k in range(-1, -1 - len(shape), -1):
            if shape[k] < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if shape[k] == 1 or shape[k] == found[k]:
                continue
            if shape[k] > errors.LARGEST:
                raise ValueError("Overflow when unpacking long long")
            if found[k] != 1 or shape[k] != shape[k]:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {shape[k]} at {k}! Mismatching "
                    f"argument at index {index} had {shape}; but expected shape should be "
                    f"broadcastable to {found}"
                )
            found[k] = shape[k]
    return Size(found)


def _each(tensors, function):
    if len(tensors) == 1 and hasattr(tensors[0], "_layout"):
        return function(tensors[0])
    found = listed(tensors)
    for k, t in enumerate(found):
        if not hasattr(t, "_layout"):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {kind_name(t)}")
    return tuple(map(function, found))


@composite(variants="function")
def atleast_1d(*tensors):
    """Tensors with at least one dimension."""
    return _each(tensors, lambda t: t.reshape(1) if t.ndim == 0 else t)


@composite(variants="function")
def atleast_2d(*tensors):
    """Tensors with at least two dimensions."""
    return _each(
        tensors, lambda t: t.reshape(1, 1) if t.ndim == 0 else t.unsqueeze(0) if t.ndim == 1 else t
    )


@composite(variants="function")
def atleast_3d(*tensors):
    """Tensors with at least three dimensions."""

    def lifted(t):
        if t.ndim == 0:
            return t.reshape(1, 1, 1)
        return (
            t.unsqueeze(0).unsqueeze(-1) if t.ndim == 1 else t.unsqueeze(-1) if t.ndim == 2 else t
        )

    return _each(tensors, lifted)
