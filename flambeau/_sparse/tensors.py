"""What a sparse tensor is made of, and how it hangs in the graph.

`Coo` and `Compressed` name the tensors that hold the elements. Two functions lead from a sparse
tensor to its values and back, and both are known to autograd: `values_of` and `over`. An op on
sparse tensors is written between them, on dense tensors, and has its derivatives from there.
Where a gradient has other places than the elements, the op says itself what it is (`recorded`).
"""

from typing import Any, NamedTuple

from flambeau import _dtype as d
from flambeau import interposing
from flambeau._layout import Size, sparse_layout
from flambeau._memory_format import (
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from flambeau._tensor import Tensor, make_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import FREED, Node, edge_of, init_node, save_input, unpack
from flambeau.ops.table import public
from flambeau.storage import composed

BY_ROWS = (sparse_csr, sparse_bsr)
BLOCKED = (sparse_bsr, sparse_bsc)
COMPRESSED = (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
SHOWN = {
    strided: "Strided",
    sparse_coo: "Sparse",
    sparse_csr: "SparseCsr",
    sparse_csc: "SparseCsc",
    sparse_bsr: "SparseBsr",
    sparse_bsc: "SparseBsc",
}


class Coo(NamedTuple):
    """Elements by coordinates: indices is [sparse dimensions, count], values [count, ...].

    coalesced: are the coordinates sorted, and is there each of them once?
    """

    indices: Tensor
    values: Tensor
    coalesced: bool


class Compressed(NamedTuple):
    """Elements by rows (or columns): where each of them begins, and the place of each element."""

    compressed: Tensor
    plain: Tensor
    values: Tensor


def is_sparse(value):
    """Is it a tensor without strides?"""
    return isinstance(value, Tensor) and value._layout.strides is None


def is_coo(value):
    """Is it a tensor of elements by coordinates?"""
    return is_sparse(value) and value._layout.kind is sparse_coo


def parts_of(t) -> Any:
    """The Coo or Compressed of a sparse tensor."""
    return t._storage.held[0]


def kind_of(t):
    """The layout of any tensor, as PyTorch names it."""
    return t._layout.kind if t._layout.strides is None else strided


def start():
    """From the first sparse tensor on, functions look for such arguments."""
    from flambeau._sparse.answers import ANSWERS  # which needs this file

    if not interposing.is_pushed(ANSWERS):
        interposing.push(ANSWERS)


def bare(parts, shape, kind):
    """A sparse tensor outside the graph."""
    start()
    values = parts.values
    layout = sparse_layout(shape, values.dtype, values.device, kind)
    return make_tensor(layout, composed(parts), 0)


def write(t, parts):
    """In place: a tensor has other elements from now on."""
    t._storage.held[0] = parts
    t._storage.version += 1
    values = parts.values
    t._layout = sparse_layout(t.shape, t.dtype, values.device, t._layout.kind)
    return t


# -- in the graph ----------------------------------------------------------------------------------


class Pattern(NamedTuple):
    """Where elements are: all of a sparse tensor but its values."""

    parts: Any
    shape: Size
    kind: Any

    def same(self, other):
        """Are the elements of another tensor at the very same places, in the same order?"""
        mine, theirs = self.parts, other.parts
        return (
            self.kind is other.kind
            and self.shape == other.shape
            and all(_same_memory(a, b) for a, b in zip(mine, theirs) if a is not mine.values)
        )


def _same_memory(a, b):
    if not isinstance(a, Tensor):
        return True
    return a._storage is b._storage and a._offset == b._offset and a.shape == b.shape


def pattern_of(t):
    return Pattern(parts_of(t), t.shape, t._layout.kind)


class ValuesBackward0(Node):
    """The way back from values: a sparse gradient at the same places."""

    __slots__ = ("pattern",)

    def apply(self, grads, create_graph):
        return [_each_place_once(self.pattern, grads[0])]


def _each_place_once(pattern, values):
    """A gradient of values as one of elements: what adds up to one element has its gradient."""
    parts = pattern.parts
    if pattern.kind is not sparse_coo or parts.coalesced:
        return over(pattern, values)
    flat, order = flat_places(parts.indices, pattern.shape[: parts.indices.shape[0]]).sort()
    first = flat.new_ones(flat.shape[0], dtype=d.bool_)
    first[1:] = flat[1:] != flat[:-1]
    if bool(first.all()):
        return over(pattern, values)
    order = order[first]
    indices = parts.indices.index_select(1, order)
    return coo(indices, values.index_select(0, order), pattern.shape, True)


class _Made(Node):
    """The way back from a sparse tensor: what its gradient has at the places of the elements."""

    __slots__ = ("pattern",)

    def apply(self, grads, create_graph):
        from flambeau._sparse.conversion import coalesce, picked

        g, parts = grads[0], self.pattern.parts
        if is_coo(g) and isinstance(parts, Coo) and not parts.coalesced:
            g = coalesce(g)  # where elements add up, each has the gradient of their sum
        return [picked(g, self.pattern)]


class _Step(Node):
    """An op whose derivatives are given: one function of (gradient, *inputs) for each input."""

    __slots__ = ("formulas",)

    def apply(self, grads, create_graph):
        if self.saved is None:
            raise RuntimeError(FREED)
        inputs = [unpack(item, self) for item in self.saved]
        return [
            edge and formula(grads[0], *inputs) for edge, formula in zip(self.edges, self.formulas)
        ]


_classes: dict = {}


def _named(name, base=_Made):
    if (name, base) not in _classes:
        _classes[name, base] = type(name, (base,), {})
    return _classes[name, base]


def recorded(name, out, inputs, *formulas):
    """Put into the graph what was computed outside of it."""
    if modes.grad and any(t._requires_grad for t in inputs):
        edges = tuple(edge_of(t) if t._requires_grad else None for t in inputs)
        node = init_node(object.__new__(_named(name, _Step)), edges, tuple(map(save_input, inputs)))
        node.formulas = formulas
        out._grad_fn, out._output_nr, out._requires_grad = node, 0, True
    return out


def values_of(t):
    """The values of a sparse tensor, in the graph; they share its memory."""
    values = parts_of(t).values.detach()
    if modes.grad and t._requires_grad:
        node = init_node(object.__new__(ValuesBackward0), (edge_of(t),), ())
        node.pattern = pattern_of(t)
        values._grad_fn, values._output_nr, values._requires_grad = node, 0, True
    return values


def over(pattern, values, name="SparseCooTensorWithDimsAndTensorsBackward0", shape=None, **parts):
    """A sparse tensor of the same pattern with other values, in the graph.

    shape, parts: what else is not as in the pattern.
    """
    found = pattern.parts._replace(values=values.detach(), **parts)
    out = bare(found, pattern.shape if shape is None else shape, pattern.kind)
    if modes.grad and values._requires_grad:
        node = init_node(object.__new__(_named(name)), (edge_of(values),), ())
        node.pattern = pattern_of(out)
        out._grad_fn, out._requires_grad = node, True
    return out


def coo(indices, values, shape, coalesced=False, name="SparseCooTensorWithDimsAndTensorsBackward0"):
    """A sparse tensor of elements by coordinates, in the graph."""
    coalesced = coalesced or indices.shape[1] < 2
    pattern = Pattern(Coo(indices, values, coalesced), Size(shape), sparse_coo)
    return over(pattern, values, name)


def compressed(kind, pointers, places, values, shape):
    """A sparse tensor by rows or columns, in the graph."""
    pattern = Pattern(Compressed(pointers, places, values), Size(shape), kind)
    return over(pattern, values, "SparseCompressedTensorBackward0")


# -- asking ----------------------------------------------------------------------------------------


def sparse_dim(t):
    """How many dimensions are by coordinates."""
    if not is_sparse(t):
        raise RuntimeError("sparse_dim expected sparse or strided tensor layout but got Strided")
    return parts_of(t).indices.shape[0] if is_coo(t) else 2


def dense_dim(t):
    """How many dimensions each value has."""
    parts = parts_of(t)
    if is_coo(t):
        return parts.values.ndim - 1
    return parts.values.ndim - parts.plain.ndim - 2 * (t._layout.kind in BLOCKED)


def nnz(t):
    """How many elements are there."""
    if not is_sparse(t):
        raise RuntimeError(
            "Could not run 'aten::_nnz' with arguments from the 'CPU' backend. It takes sparse "
            "tensors only."
        )
    parts = parts_of(t)
    return parts.indices.shape[1] if is_coo(t) else parts.plain.shape[-1]


def flat_places(indices, shape):
    """Coordinates [dimensions, count] as one number each, in row-major order."""
    if indices.shape[0] == 1:
        return indices[0]
    found = None
    for row, size in zip(indices, shape):
        found = row if found is None else found * size + row
    if found is None:
        return public("zeros")(indices.shape[1], dtype=d.int64, device=indices.device)
    return found


def counting(many, like):
    """0, 1, 2, ... on the device of a tensor."""
    return public("arange")(many, device=like.device)


def runs(count):
    """For the elements of runs that are so long: (number of its run, place in it) of each."""
    which = counting(count.shape[0], count).repeat_interleave(count)
    return which, counting(which.shape[0], count) - (count.cumsum(0) - count)[which]


def coordinates(flat, shape):
    """The converse."""
    rows: list[Tensor] = []
    for size in reversed(shape):
        rows.insert(0, flat % size if len(rows) < len(shape) - 1 else flat)
        flat = flat.div(max(size, 1), rounding_mode="floor")
    if not rows:
        return public("zeros")((0, flat.shape[0]), dtype=d.int64, device=flat.device)
    return public("stack")(rows)
