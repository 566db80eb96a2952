"""Arithmetic of sparse tensors, and what moves their elements: transposes, selections, joins.

Everything happens on values (tensors.values_of, tensors.over), so derivatives come by themselves.
"""

from flambeau import _dtype as d
from flambeau._dtype import can_cast
from flambeau._layout import Size, broadcast_shape, wrap_dim
from flambeau._memory_format import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from flambeau._sparse.conversion import (
    blocks_of,
    check_resize,
    coalesce,
    emptied,
    picked,
    to_compressed,
    to_coo,
    to_coordinates,
    to_dense,
    with_values,
)
from flambeau._sparse.tensors import (
    BLOCKED,
    BY_ROWS,
    COMPRESSED,
    SHOWN,
    compressed,
    coo,
    counting,
    dense_dim,
    flat_places,
    is_coo,
    is_sparse,
    kind_of,
    nnz,
    over,
    parts_of,
    pattern_of,
    recorded,
    runs,
    sparse_dim,
    values_of,
    write,
)
from flambeau._tensor import Tensor
from flambeau._tensor.questions import result_type
from flambeau.autograd.grad_mode import modes, no_grad
from flambeau.ops.table import public

_ORDER = "add(sparse, dense) is not supported. Use add(dense, sparse) instead."


def on_values(function, t, *args, **kwargs):
    """A function of values that leaves zeros zero; it wants each element once."""
    if is_coo(t):
        t = coalesce(t)
    return with_values(t, function(values_of(t), *args, **kwargs))


def on_values_linearly(function, t, *args, **kwargs):
    """The same for functions of which a sum may be taken before or after."""
    return with_values(t, function(values_of(t), *args, **kwargs))


def is_number(value):
    """A Python number, or a dense tensor without dimensions."""
    return not isinstance(value, Tensor) or (value.ndim == 0 and not is_sparse(value))


# -- sums ------------------------------------------------------------------------------------------


def add(a, b, *, alpha=1, name="AddBackward0"):
    """a + alpha b, of which one at least is sparse."""
    if not is_sparse(a):
        return _onto_dense(a, b, alpha, name)
    if not is_sparse(b):
        if not is_coo(a) and isinstance(b, Tensor) and b.shape == a.shape:
            return _onto_dense(b if alpha == 1 else b * alpha, a, 1, name)
        raise RuntimeError(_ORDER)
    _same_sizes(a, b)
    if pattern_of(a).same(pattern_of(b)):
        return with_values(a, public("add")(values_of(a), values_of(b), alpha=alpha), name)
    if is_coo(a) != is_coo(b):
        raise NotImplementedError(
            f"add: sparse tensors of two layouts, {kind_of(a)} and {kind_of(b)}, cannot be added"
        )
    first, second = to_coo(a), to_coo(b)
    dtype = result_type(a, b)
    if sparse_dim(first) != sparse_dim(second):  # which goes where one has no elements
        least = min(sparse_dim(first), sparse_dim(second))
        first, second = _with_sparse_dim(first, least), _with_sparse_dim(second, least)
    pieces = [values_of(first).to(dtype), values_of(second).to(dtype)]
    if alpha != 1:
        pieces[1] = pieces[1] * alpha
    indices = public("cat")([parts_of(first).indices, parts_of(second).indices], 1)
    out = coo(indices, public("cat")(pieces), a.shape, False, name)
    if parts_of(first).coalesced and parts_of(second).coalesced:
        out = coalesce(out)
        out = with_values(out, values_of(out), name)
    if is_coo(a):
        return out
    out = to_compressed(out, a._layout.kind, blocks_of(a))
    return with_values(out, values_of(out), name)


def _same_sizes(a, b):
    if a.shape != b.shape and not is_coo(a) and not is_coo(b):
        raise RuntimeError(
            "torch.add: Expected input tensors to have the same shape, but got tensor `self` with "
            f"shape {list(a.shape)} and tensor `other` with shape {list(b.shape)}"
        )
    if a.shape != b.shape:
        raise RuntimeError(
            f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != "
            f"{list(b.shape)}"
        )


def _onto_dense(a, b, alpha, name):
    """A dense tensor and a sparse one: both get the gradient that arrives, which is dense."""
    if not isinstance(a, Tensor):
        a = public("full")((), a, dtype=b.dtype)
    with no_grad():
        found = _added_to(a, b, alpha)
    return recorded(
        name, found, (a, b),
        lambda g, a, b: g.to(a.dtype),
        lambda g, a, b: (g if alpha == 1 else g * alpha).to(b.dtype),
    )  # fmt: skip


def _added_to(a, b, alpha):
    if a.shape != b.shape:
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same size, but self has size "
            f"{list(a.shape)} while other has size {list(b.shape)} (FYI: dense-sparse addition "
            "does not currently support broadcasting)"
        )
    b = to_coo(b)
    dims, values = sparse_dim(b), values_of(b)
    shape = b.shape[:dims]
    flat = flat_places(parts_of(b).indices, shape)
    dtype = result_type(a, b)
    a, values = a.to(dtype), values.to(dtype)
    rows = a.reshape(shape.numel(), *a.shape[dims:])
    if alpha != 1:
        values = values * alpha
    return rows.index_add(0, flat, values).reshape(a.shape)


def add_(a, b, *, alpha=1):
    """a += alpha b."""
    if is_sparse(a):
        found = add(a, b, alpha=alpha)
        _check_kept(found.dtype, a, "add")
        return put(a, found)
    if a.shape != b.shape:
        _added_to(a, b, alpha)
    _check_kept(result_type(a, b), a, "add")
    b = to_coo(b)
    dims, values = sparse_dim(b), values_of(b)
    shape = a.shape[:dims]
    flat = flat_places(parts_of(b).indices, shape)
    values = values.to(a.dtype)  # bytes have no negatives
    if alpha != 1:
        values = values * alpha
    if a._layout.is_contiguous:
        a.view(shape.numel(), *a.shape[dims:]).index_add_(0, flat, values)
        return a
    return a.index_put_(tuple(parts_of(b).indices), values, accumulate=True)


def _check_kept(dtype, a, word):
    """Can a take results of a dtype?"""
    if not can_cast(dtype, a.dtype):
        raise RuntimeError(
            f"Can't convert result type {dtype.scalar_name} to output {a.dtype.scalar_name}"
            + (f" in {word} operation" if word else "")
        )


def mul_(a, b):
    """a *= b."""
    found = mul(a, b)
    both = is_sparse(a) and is_sparse(b) and is_coo(a) and is_coo(b)
    ordered = both and parts_of(a).coalesced and parts_of(b).coalesced
    _check_kept(found.dtype, a, "mul" if ordered else "" if is_sparse(a) else "add")
    return put(a, found)


def _assigned(a, found):
    """In place: the elements of another tensor, and its place in the graph."""
    if a._requires_grad and a._grad_fn is None and modes.grad:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )
    write(a, parts_of(found))
    a._grad_fn, a._requires_grad = found._grad_fn, found._requires_grad or a._requires_grad
    return a


def put(a, found):
    """Into a tensor, sparse or dense, what was computed."""
    if not is_sparse(a):
        return a.copy_(to_dense(found))
    if not can_cast(found.dtype, a.dtype):
        mine, theirs = a.dtype.scalar_name, found.dtype.scalar_name
        raise RuntimeError(f"result type {theirs} can't be cast to the desired output type {mine}")
    return _assigned(a, found if found.dtype is a.dtype else to(found, a.dtype))


def in_place(function):
    """A function of a sparse tensor as one that changes it."""

    def changed(a, *args, **kwargs):
        return put(a, function(a, *args, **kwargs))

    return changed


def sub(a, b, *, alpha=1):
    for t in (a, b):
        if (t.dtype if isinstance(t, Tensor) else type(t)) in (d.bool_, bool):
            raise RuntimeError(
                "Subtraction, the `-` operator, with a bool tensor is not supported."
            )
    return add(a, b, alpha=-alpha, name="SubBackward0")


def sub_(a, b, *, alpha=1):
    return add_(a, b, alpha=-alpha)


def rsub(a, b, *, alpha=1):
    return add(b, a, alpha=-alpha)


# -- products and quotients ------------------------------------------------------------------------


def mul(a, b):
    """a * b, element by element."""
    if not is_sparse(a):
        a, b = b, a
    if is_number(b):
        return _scaled("mul", a, b)
    if not is_sparse(b):
        return _mul_dense(a, b)
    if not a.ndim and (b.ndim or nnz(b) > nnz(a)):
        a, b = b, a
    if not b.ndim:
        return _scaled("mul", to(a, result_type(a, b)), to_dense(b))
    if a.shape != b.shape:
        a, b = _to_common_shape(a, b)
    if not is_coo(a):
        with no_grad():
            found = to_compressed(mul(to_coo(a), to_coo(b)), a._layout.kind, blocks_of(a))
        return recorded("MulBackward0", found, (a, b), _times_second, _times_first)
    if pattern_of(a).same(pattern_of(b)) and parts_of(a).coalesced:
        return with_values(a, values_of(a) * values_of(b))
    a, b = coalesce(a), coalesce(b)
    return _intersection(a, b)


def _to_common_shape(a, b):
    """Two tensors by coordinates, broadcast to the shape of both."""
    try:
        shape = broadcast_shape(a.shape, b.shape)
    except RuntimeError:
        shape = None
    if shape is None or not (is_coo(a) and is_coo(b)):
        raise RuntimeError(
            f"mul operands have incompatible sizes, {list(a.shape)} and {list(b.shape)}"
        )
    a, b = broadcast_to(a, shape), broadcast_to(b, shape)
    first = min(sparse_dim(a), sparse_dim(b))
    return _with_sparse_dim(a, first), _with_sparse_dim(b, first)


def _with_sparse_dim(t, count):
    """The same with so many dimensions by coordinates."""
    return t if sparse_dim(t) == count else to_coordinates(to_dense(t), count)


def broadcast_to(t, shape):
    """Elements by coordinates, repeated along dimensions of size one and along new ones."""
    shape, extra = Size(shape), len(shape) - t.ndim
    if extra < 0 or any(s not in (1, n) for s, n in zip(t.shape, shape[extra:])):
        raise RuntimeError(
            f"The expanded size of the tensor ({list(shape)}) does not broadcast with "
            f"{list(t.shape)}"
        )
    if shape == t.shape:
        return t
    parts, first = parts_of(t), sparse_dim(t)
    spread = [*range(extra), *[k + extra for k in range(first) if t.shape[k] != shape[k + extra]]]
    sizes = [shape[k] for k in spread]
    copies = Size(sizes).numel()
    values = values_of(t).expand(nnz(t), *shape[extra + first :])
    which = counting(nnz(t), parts.indices).repeat(copies)
    at = counting(copies, parts.indices).repeat_interleave(nnz(t))
    rows = [parts.indices[k].index_select(0, which) for k in range(first)]
    rows = [at.new_zeros(at.shape[0])] * extra + rows
    for k, size in reversed(list(zip(spread, sizes))):
        rows[k] = at % max(size, 1)
        at = at.div(max(size, 1), rounding_mode="floor")
    indices = public("stack")(rows) if rows else parts.indices.repeat(1, copies)
    leading = parts.coalesced and spread == list(range(len(spread)))
    return coo(indices, values.index_select(0, which), shape, leading, "SparseBroadcastToBackward0")


def _scaled(name, t, number):
    """Elements times or by a number; so is the gradient, whatever places it has."""
    run = public(name)
    if isinstance(number, Tensor) and number.requires_grad:
        return on_values_linearly(run, t, number)
    with no_grad():
        found = on_values_linearly(run, t, number)
    factor = number.conjugate() if isinstance(number, complex) else number
    if isinstance(factor, Tensor) and factor.dtype.is_complex:
        factor = factor.conj()
    return recorded(
        name.capitalize() + "Backward0", found, (t,), lambda g, t: run(g, factor).to(t.dtype)
    )


def _intersection(a, b):
    """Products where both have an element."""
    shape = a.shape[: sparse_dim(a)]
    ours = flat_places(parts_of(a).indices, shape)
    theirs = flat_places(parts_of(b).indices, shape)
    if not ours.shape[0] or not theirs.shape[0]:
        keep = ours.new_zeros(0)
        at = keep
    else:
        at = public("searchsorted")(theirs, ours).clamp(max=theirs.shape[0] - 1)
        keep = (theirs[at] == ours).nonzero()[:, 0]
        at = at[keep]
    values = values_of(a).index_select(0, keep) * values_of(b).index_select(0, at)
    return coo(parts_of(a).indices[:, keep], values, a.shape, True, "MulBackward0")


def _mul_dense(a, b):
    """Sparse times dense: elements of the dense one at the places of the other."""
    if b.ndim > a.ndim and is_coo(a):
        a = broadcast_to(a, (*b.shape[: b.ndim - a.ndim], *a.shape))
    if b.ndim > a.ndim:
        raise RuntimeError(
            f"mul(sparse, dense): the dense tensor has more dimensions, {list(b.shape)}, than the "
            f"sparse one, {list(a.shape)}"
        )
    if b.shape == a.shape and (not is_coo(a) or parts_of(a).coalesced):
        with no_grad():
            found = with_values(a, values_of(a) * picked(b, pattern_of(a)))
        return recorded("MulBackward0", found, (a, b), _times_second, _times_first)
    dense = b.expand(a.shape)
    return with_values(a, values_of(a) * picked(dense, pattern_of(a)))


def _times_first(g, a, b):
    return public("mul")(g, a.conj())


def _times_second(g, a, b):
    return public("mul")(g, b.conj())


def div(a, b, *, rounding_mode=None):
    """a / b, by a number."""
    if not is_sparse(a):
        raise NotImplementedError(
            "Could not run 'aten::reciprocal' with arguments from the 'SparseCPU' backend."
        )
    if is_sparse(b) and not b.ndim:
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got a sparse "
            "divisor)"
        )
    if not is_number(b):
        shape = list(b.shape)
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{shape} for divisor)"
        )
    if rounding_mode is None:
        return _scaled("div", a, b)
    return on_values(public("div"), a, b, rounding_mode=rounding_mode)


def floor_divide(a, b):
    if is_sparse(a) and not is_number(b):
        raise RuntimeError(
            "Sparse floor division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(b.shape)} for divisor)"
        )
    return div(a, b, rounding_mode="floor")


def pow_(a, exponent):
    """Powers, which leave zeros zero if they are above zero."""
    if isinstance(exponent, Tensor) or not is_sparse(a):
        raise NotImplementedError("sparse powers take a number as their exponent")
    if exponent == 0:
        raise RuntimeError(
            "pow: expected a nonzero exponent for a sparse tensor: zeros would become ones"
        )
    return on_values(public("pow"), a, exponent)


# -- places ----------------------------------------------------------------------------------------

_TURNED = {
    sparse_csr: sparse_csc,
    sparse_csc: sparse_csr,
    sparse_bsr: sparse_bsc,
    sparse_bsc: sparse_bsr,
}


def transpose(t, dim0, dim1):
    """Two dimensions exchanged."""
    dim0, dim1 = wrap_dim(dim0, t.ndim), wrap_dim(dim1, t.ndim)
    order = list(range(t.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return _turned(t, order, "TransposeBackward0") if dim0 != dim1 else t


def t_(t):
    if is_coo(t) and (sparse_dim(t) > 2 or sparse_dim(t) < t.ndim):
        raise RuntimeError(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
            f"{sparse_dim(t)} sparse and {t.ndim - sparse_dim(t)} dense dimensions"
        )
    if t.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {t.ndim}D")
    return _turned(t, [1, 0], "TBackward0") if t.ndim == 2 else t


def permute(t, *order, dims=None):
    """Dimensions in another order, those by coordinates among themselves."""
    dims = order if dims is None else dims
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims
    if len(dims) != t.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {t.ndim} is not "
            f"equal to len(dims) = {len(dims)}"
        )
    order = [wrap_dim(k, t.ndim) for k in dims]
    if len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    if order == list(range(t.ndim)):
        return t
    return _turned(t, order, "PermuteBackward0")


def turned_in_place(function):
    """A function that moves dimensions, in place: the shape changes with the elements."""

    def changed(t, *args, **kwargs):
        found = function(t, *args, **kwargs)
        if found is not t:
            found = found if found.ndim else found.clone()
            t._layout = found._layout
            _assigned(t, found)
        return t

    return changed


def _turned(t, order, name):
    with no_grad():
        found = _in_order(t, order)
    back = [order.index(k) for k in range(t.ndim)]
    return recorded(name, found, (t,), lambda g, t: _returned(g, back, name))


def _returned(g, order, name):
    return _turned(g, order, name) if is_sparse(g) else g.permute(order)


def _in_order(t, order):
    shape = Size([t.shape[k] for k in order])
    if not is_coo(t):
        return _transposed_matrix(t, order, shape)
    first, parts = sparse_dim(t), parts_of(t)
    if sorted(order[:first]) != list(range(first)):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not "
            "allowed. Only transpositions within sparse and dense dimensions are supported."
        )
    indices = parts.indices
    if order[:first] != list(range(first)):
        indices = indices[order[:first]]
    values = values_of(t)
    if order[first:] != list(range(first, t.ndim)):
        values = values.permute([0, *[k - first + 1 for k in order[first:]]])
    kept = parts.coalesced and order[:first] == list(range(first))
    return coo(indices, values, shape, kept)


def _transposed_matrix(t, order, shape):
    parts, batch = parts_of(t), parts_of(t).plain.ndim - 1
    if order[:batch] != list(range(batch)) or order[batch : batch + 2] != [batch + 1, batch]:
        raise RuntimeError(
            "transpose(): only the two sides of a compressed matrix can be exchanged"
        )
    values, kind = values_of(t), t._layout.kind
    if kind in (sparse_bsr, sparse_bsc):
        values = values.transpose(batch + 1, batch + 2)
    return compressed(_TURNED[kind], parts.compressed, parts.plain, values, shape)


def select(t, dim, index, name="select"):
    """One slice along a dimension."""
    if not is_coo(t):
        return _select_row(t, dim, index, name)
    dim = wrap_dim(dim, t.ndim)
    size = t.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(t.shape)} at "
            f"dimension {dim}"
        )
    index %= size
    first, parts = sparse_dim(t), parts_of(t)
    shape = Size([s for k, s in enumerate(t.shape) if k != dim])
    if dim >= first:
        return coo(parts.indices, values_of(t).select(dim - first + 1, index), shape,
                   parts.coalesced)  # fmt: skip
    keep = (parts.indices[dim] == index).nonzero()[:, 0]
    values = values_of(t).index_select(0, keep)
    if first == 1:
        return values.any(0) if values.dtype is d.bool_ else values.sum(0, dtype=values.dtype)
    rest = [k for k in range(first) if k != dim]
    indices = parts.indices[rest][:, keep]
    return coo(indices, values, shape, parts.coalesced and (dim == 0 or keep.shape[0] < 2),
               "SelectBackward0")  # fmt: skip


def _select_row(t, dim, index, name="select"):
    """A row by its coordinates, one matrix of a batch, or one number of each element."""
    parts, dim = parts_of(t), wrap_dim(dim, t.ndim)
    batch = parts.plain.ndim - 1
    if not -t.shape[dim] <= index < t.shape[dim]:
        raise IndexError(
            f"{name}(): index {index} out of range for tensor of size {list(t.shape)} at "
            f"dimension {dim}"
        )
    if dim >= batch + 2:
        at = dim - 1 + 2 * (kind_of(t) in BLOCKED)  # one dimension of places instead of two
        shape = Size([s for k, s in enumerate(t.shape) if k != dim])
        values = values_of(t).select(at, index)
        return compressed(t._layout.kind, parts.compressed, parts.plain, values, shape)
    if not batch:
        return coalesce(select(to_coo(t), dim, index))
    if dim >= batch:
        raise RuntimeError(
            f"{name}(): selecting sparse dimensions is not supported for batched sparse compressed "
            "tensors."
        )
    shape = Size([s for k, s in enumerate(t.shape) if k != dim])
    pointers, places = (part.select(dim, index) for part in (parts.compressed, parts.plain))
    return compressed(t._layout.kind, pointers, places, values_of(t).select(dim, index), shape)


def index_select(t, dim, index):
    """Slices by number, in the order of the numbers."""
    dim = wrap_dim(dim, t.ndim)
    kind = kind_of(t)
    if not is_coo(t):
        return to_compressed(coalesce(index_select(to_coo(t), dim, index)), kind, None)
    first, parts = sparse_dim(t), parts_of(t)
    shape = Size([index.shape[0] if k == dim else s for k, s in enumerate(t.shape)])
    index = index.long()
    size = t.shape[dim]
    if index.numel() and (int(index.min()) < -size or int(index.max()) >= size):
        raise IndexError(
            f"index_select(): index contains {int(index.max())} that is out of range for tensor of "
            f"size {list(t.shape)} at dimension {dim}"
        )
    if dim >= first:
        values = values_of(t).index_select(dim - first + 1, index % size)
        return coo(parts.indices, values, shape, parts.coalesced)
    return _by_number(t, dim, index % max(size, 1), shape)


def _by_number(t, dim, index, shape):
    """Every element as often as its slice was asked for."""
    parts = parts_of(t)
    order = parts.indices[dim].sort(stable=True)[1]
    own = parts.indices[dim][order]
    begin = public("searchsorted")(own, index)
    count = public("searchsorted")(own, index, right=True) - begin
    which, offset = runs(count)
    source = order[begin[which] + offset]
    indices = parts.indices[:, source]
    rows = [which if k == dim else row for k, row in enumerate(indices)]
    values = values_of(t).index_select(0, source)
    return coo(public("stack")(rows), values, shape, False, "IndexSelectBackward0")


def narrow_copy(t, dim, start, length):
    """A range along a dimension."""
    if not 0 <= dim < t.ndim:
        raise RuntimeError(f"Dimension {dim} out of range. Expecting 0 <= dim < {t.ndim}.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    size = t.shape[dim]
    start = start + size if start < 0 else start
    if start < 0 or start + length > size:
        raise RuntimeError(
            "Invalid range to narrow. range(start, start+length) must be a subset of range(0, "
            f"{size})."
        )
    first, parts = sparse_dim(t), parts_of(t)
    shape = Size([length if k == dim else s for k, s in enumerate(t.shape)])
    if dim >= first:
        return coo(parts.indices, values_of(t).narrow(dim - first + 1, start, length), shape,
                   parts.coalesced)  # fmt: skip
    row = parts.indices[dim]
    keep = ((row >= start) & (row < start + length)).nonzero()[:, 0]
    indices = parts.indices[:, keep].clone()
    indices[dim] -= start
    return coo(indices, values_of(t).index_select(0, keep), shape, parts.coalesced)


def unsqueeze(t, dim):
    """A new dimension of size one."""
    dim = wrap_dim(dim, t.ndim + 1)
    first, parts = sparse_dim(t), parts_of(t)
    shape = Size([*t.shape[:dim], 1, *t.shape[dim:]])
    if dim > first:
        return coo(parts.indices, values_of(t).unsqueeze(dim - first + 1), shape, parts.coalesced)
    zeros = parts.indices.new_zeros((1, nnz(t)))
    indices = public("cat")([parts.indices[:dim], zeros, parts.indices[dim:]])
    return coo(indices, values_of(t), shape, parts.coalesced, "UnsqueezeBackward0")


def cat(tensors, dim=0, *, out=None):
    """Sparse tensors side by side."""
    for k, t in enumerate(tensors):
        if is_sparse(t) and not is_coo(t):
            word = t._layout.kind.name[-3:].upper()
            raise RuntimeError(f"Sparse {word} tensors do not have is_contiguous")
        if not is_sparse(t):
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {k}."
            )
    head = tensors[0]
    dim, first = wrap_dim(dim, head.ndim), sparse_dim(head)
    for k, t in enumerate(tensors):
        if t.ndim != head.ndim or any(
            s != n for j, (s, n) in enumerate(zip(t.shape, head.shape)) if j != dim
        ):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(head.shape)} (except in the "
                f"concatenating dimension), but found shape: {list(t.shape)} at position {k}."
            )
        if sparse_dim(t) != first:
            raise RuntimeError(
                "All tensors must have the same sparse_dim and dense_dim: "
                f"{first}, {head.ndim - first}, but tensor at position {k} has {sparse_dim(t)}, "
                f"{t.ndim - sparse_dim(t)}."
            )
    shape = list(head.shape)
    shape[dim] = sum(t.shape[dim] for t in tensors)
    if dim >= first:
        return _cat_values(tensors, dim, shape)
    pieces, at = [], 0
    for t in tensors:
        indices = parts_of(t).indices.clone()
        indices[dim] += at
        at += t.shape[dim]
        pieces.append(indices)
    values = public("cat")([values_of(t) for t in tensors])
    return coo(public("cat")(pieces, 1), values, shape, False, "CatBackward0")


def _cat_values(tensors, dim, shape):
    """Along a dimension of values: each brings zeros for the others."""
    pieces, at, first = [], 0, sparse_dim(tensors[0])
    for t in tensors:
        values = values_of(t)
        wide = values.new_zeros((values.shape[0], *shape[first:]))
        place = [slice(None)] * wide.ndim
        place[dim - first + 1] = slice(at, at + t.shape[dim])
        wide[tuple(place)] = values
        at += t.shape[dim]
        pieces.append(wide)
    indices = public("cat")([parts_of(t).indices for t in tensors], 1)
    return coo(indices, public("cat")(pieces), shape, False, "CatBackward0")


def stack(tensors, dim=0, *, out=None):
    dim = wrap_dim(dim, tensors[0].ndim + 1)
    return cat([unsqueeze(t, dim) for t in tensors], dim)


def getitem(t, key):
    """t[...] by integers, slices of everything, None and tensors of numbers."""
    keys = key if isinstance(key, tuple) else (key,)
    if Ellipsis in [k for k in keys if not isinstance(k, Tensor)]:
        at = [k is Ellipsis for k in keys].index(True)
        missing = t.ndim - sum(k is not None and k is not Ellipsis for k in keys)
        keys = (*keys[:at], *[slice(None)] * missing, *keys[at + 1 :])
    dim = 0
    for k in keys:
        if k is None:
            t = unsqueeze(t, dim)
            dim += 1
        elif isinstance(k, slice) and k == slice(None):
            dim += 1
        elif isinstance(k, int) or (isinstance(k, Tensor) and k.ndim == 0 and k.dtype is d.int64):
            t = select(t, dim, int(k)) if is_sparse(t) else t.select(dim, int(k))
        elif isinstance(k, (list, Tensor)):
            index = k if isinstance(k, Tensor) else public("tensor")(k)
            index = index.nonzero()[:, 0] if index.dtype is d.bool_ else index
            t = index_select(t, dim, index)
            dim += 1
        else:
            raise NotImplementedError(
                "Could not run 'aten::as_strided' with arguments from the 'SparseCPU' backend."
            )
    return t


# -- copies ----------------------------------------------------------------------------------------


def clone(t, *, memory_format=None):
    """A copy of places and values."""
    parts = parts_of(t)
    copies = {
        name: part.clone()
        for name, part in parts._asdict().items()
        if isinstance(part, Tensor) and name != "values"
    }
    return over(pattern_of(t), values_of(t).clone(), "CloneBackward0", **copies)


def to(t, *args, **kwargs):
    """Another dtype or device."""
    probe = parts_of(t).values
    moved = values_of(t).to(*args, **kwargs)
    if moved._layout is probe._layout and not kwargs.get("copy"):
        return t
    if kwargs.get("copy"):
        return clone(with_values(t, moved))
    if moved.device is probe.device:
        return with_values(t, moved, "ToCopyBackward0")
    parts = {
        name: part.to(moved.device)
        for name, part in parts_of(t)._asdict().items()
        if isinstance(part, Tensor) and name != "values"
    }
    return over(pattern_of(t), moved, "ToCopyBackward0", **parts)


def zeros_like(t, *, dtype=None, layout=None, device=None, requires_grad=False, **options):
    """No elements, or a zero for each that is there where rows are compressed."""
    kind = kind_of(t) if layout is None else layout
    dtype, device = dtype or t.dtype, device or t.device
    if kind in COMPRESSED and not is_coo(t):
        out = _empty_matrix(t, kind, dtype, device)
    elif kind is sparse_coo:
        out = emptied(t.shape, t.ndim - dense_dim(t), dtype, device)
    else:
        out = public("zeros")(t.shape, dtype=dtype, device=device, layout=kind)
    return out.requires_grad_(True) if requires_grad else out


def _empty_matrix(t, kind, dtype, device):
    """A matrix by rows or columns without elements; blocks are as large as those of another."""
    parts = parts_of(t)
    batch, sizes = parts.plain.ndim - 1, parts.values.shape[parts.plain.ndim :]
    if (kind in BLOCKED) != (t._layout.kind in BLOCKED):
        raise RuntimeError(
            "sparse_compressed_tensor_with_dims: "
            + (
                "blocksize needs to be a tuple of size 2, but got 0"
                if kind in BLOCKED
                else f"blocksize cannot be specified for non-block layout {SHOWN[kind]}"
            )
        )
    side = 0 if kind in BY_ROWS else 1
    lines = t.shape[batch + side] // (sizes[side] if kind in BLOCKED else 1)
    count = [*parts.plain.shape[:-1], 0]
    return compressed(
        kind,
        parts.compressed.new_zeros([*count[:-1], lines + 1], device=device),
        parts.plain.new_zeros(count, device=device),
        parts.values.new_zeros([*count, *sizes], dtype=dtype, device=device),
        t.shape,
    )


def zero_(t):
    return write(t, parts_of(zeros_like(t)))


def copy_(t, source, non_blocking=False):
    """The elements of another sparse tensor."""
    if is_sparse(t) and not is_coo(t):
        _check_copied(t, source)
    if is_sparse(source) and not is_coo(source) and not is_sparse(t):
        raise RuntimeError(
            "copy_sparse_compressed_ expected sparse compressed tensor layout but got Strided"
        )
    if not is_sparse(t) or not is_sparse(source):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{type_name(t)} and src type = {type_name(source)}"
        )
    if is_coo(t) and is_coo(source) and t.shape != source.shape:
        check_resize(t, source.shape, sparse_dim(source), source.ndim - sparse_dim(source))
    copied = clone(source if source.dtype is t.dtype else to(source, t.dtype))
    t._layout = copied._layout
    return _assigned(t, copied)


def _check_copied(t, source):
    """Can a compressed matrix take the elements of another?"""
    own, kind = SHOWN[kind_of(t)], SHOWN[kind_of(source)]
    if own != kind:
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different layouts is not "
            f"supported. self layout is {own} and src layout is {kind}"
        )
    for k, (mine, theirs) in enumerate(zip(t.shape, source.shape)):
        if mine != theirs:
            raise RuntimeError(
                "torch.copy_: expected shapes of self and src to match along dimension "
                f"{k} for {own} layout but the corresponding dimensions of self and src are "
                f"{mine} and {theirs}, respectively."
            )
    if nnz(t) != nnz(source):
        raise RuntimeError(
            "torch.copy_: only sparse compressed tensors with the same number of specified "
            "elements are supported."
        )
    if blocks_of(t) != blocks_of(source):
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different block sizes is not "
            f"supported. self and src block sizes are {list(blocks_of(t))} and "
            f"{list(blocks_of(source))}, respectively."
        )


def type_name(t):
    space = "sparse." if is_coo(t) else "sparse_csr." if is_sparse(t) else ""
    return f"torch.{space}{t.dtype.scalar_name}Tensor"
