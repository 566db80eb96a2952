"""gradcheck of functions that take sparse tensors: they are checked as functions of dense ones."""

import functools

from flambeau._sparse.conversion import (
    blocks_of,
    coalesce,
    is_coalesced,
    picked,
    to_compressed,
    to_coordinates,
    to_dense,
)
from flambeau._sparse.tensors import (
    dense_dim,
    is_coo,
    is_sparse,
    over,
    pattern_of,
    recorded,
    sparse_dim,
)
from flambeau.autograd.grad_mode import no_grad
from flambeau.ops.table import public


def _everywhere(t):
    """A pattern of the same layout with every element."""
    ones = public("ones")(t.shape, dtype=t.dtype, device=t.device)
    if is_coo(t):
        return pattern_of(to_coordinates(ones, sparse_dim(t)))
    return pattern_of(to_compressed(ones, t._layout.kind, blocks_of(t), dense_dim(t)))


def _once(t):
    """The same with each element there once, so that it can be moved."""
    if not is_coo(t) or is_coalesced(t):
        return t
    return coalesce(t.detach()).requires_grad_(t.requires_grad)


def _rebuilt(t, elements, masked):
    """The sparse tensor of elements: where t has some, or everywhere if all of them count."""
    pattern = pattern_of(t) if masked else _everywhere(t)
    with no_grad():
        found = over(pattern, picked(elements.detach(), pattern))

    def back(g, _):
        if masked and not is_sparse(g):  # it is of places, too, where t has no elements
            g = over(pattern, picked(g, pattern))
        return to_dense(g)

    return recorded("SparseBackward0", found, (elements,), back)


def on_dense(function, inputs, masked):
    """(function of dense tensors, dense tensors) in place of sparse ones."""
    inputs = [_once(t) for t in inputs]
    bases = [to_dense(t.detach()) if is_sparse(t) else t for t in inputs]

    @functools.wraps(function)
    def dense(*given):
        rows = zip(inputs, given)
        out = function(*[_rebuilt(t, x, masked) if is_sparse(t) else x for t, x in rows])
        if is_sparse(out):
            raise ValueError(
                "Sparse output is not supported at gradcheck yet. Please call to_dense() on what "
                "the function gives."
            )
        return out

    plain = [
        b.clone().requires_grad_(t.requires_grad) if is_sparse(t) else t
        for t, b in zip(inputs, bases)
    ]
    return dense, tuple(plain)
