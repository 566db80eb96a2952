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


def _rebuilt(t, base, elements, masked):
    """The sparse tensor of elements: where t has some, or everywhere if they were changed."""
    with no_grad():
        moved = not masked and not public("equal")(elements, base)
        pattern = _everywhere(t) if moved else pattern_of(t)
        found = over(pattern, picked(elements.detach(), pattern))
    return recorded("SparseBackward0", found, (elements,), lambda g, _: to_dense(g))


def on_dense(function, inputs, masked):
    """(function of dense tensors, dense tensors) in place of sparse ones."""
    inputs = [_once(t) for t in inputs]
    bases = [to_dense(t.detach()) if is_sparse(t) else t for t in inputs]

    @functools.wraps(function)
    def dense(*given):
        rows = zip(inputs, bases, given)
        out = function(*[_rebuilt(t, b, x, masked) if is_sparse(t) else x for t, b, x in rows])
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


def on_elements(function, inputs, masked):
    """(function of values, values) in place of sparse tensors: of their elements, or everywhere."""
    inputs = [_once(t) for t in inputs]
    patterns = [
        is_sparse(t) and (pattern_of(t) if masked else _everywhere(t.detach())) for t in inputs
    ]

    @functools.wraps(function)
    def of_values(*given):
        out = function(*[over(p, x) if p else x for p, x in zip(patterns, given)])
        return to_dense(out) if is_sparse(out) else out

    values = [
        picked(to_dense(t.detach()), p).clone().requires_grad_(t.requires_grad) if p else t
        for p, t in zip(patterns, inputs)
    ]
    return of_values, tuple(values)
