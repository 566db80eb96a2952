"""Sums, norms and softmax of sparse tensors."""

from flambeau import _dtype as d
from flambeau._layout import Size, wrap_dim
from flambeau._memory_format import sparse_csr
from flambeau._sparse.conversion import (
    coalesce,
    to_compressed,
    to_coo,
    to_coordinates,
    to_dense,
    with_values,
)
from flambeau._sparse.tensors import (
    SHOWN,
    coo,
    counting,
    flat_places,
    is_coo,
    is_sparse,
    kind_of,
    nnz,
    parts_of,
    recorded,
    sparse_dim,
    values_of,
)
from flambeau.autograd.grad_mode import no_grad
from flambeau.ops.table import public


def _dims(t, dim):
    if dim is None:
        return tuple(range(t.ndim))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    found = tuple(wrap_dim(k, t.ndim) for k in dims)
    if len(set(found)) != len(found):
        raise RuntimeError("dim appears multiple times in the list of dims")
    return found or tuple(range(t.ndim))


def sum_(t, dim=None, keepdim=False, *, dtype=None, out=None):
    """Tensor.sum: over everything a number, along dimensions a sparse tensor."""
    if dim is None or dim == () or dim == []:
        found = parts_of(t).values.detach().sum(dtype=dtype)
        return recorded("SumBackward0", found, (t,), lambda g, t: g.to(t.dtype).expand(t.shape))
    dims = _dims(t, dim)
    if not is_coo(t):
        return _compressed_sum(t, dims, keepdim, dtype)
    if len(dims) == t.ndim and dims:
        found = sum_(t, dtype=dtype).reshape([1] * t.ndim if keepdim else [])
        return found
    if dtype is None and t.dtype.category < d.FLOATING:
        dtype = d.int64
    found = summed(t, dims, dtype)
    if keepdim:
        found = found if is_sparse(found) else to_coordinates(found)
        for k in sorted(dims):
            found = found.unsqueeze(k)
    return found


def _compressed_sum(t, dims, keepdim, dtype):
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    if kind_of(t) is not sparse_csr:
        raise RuntimeError(
            "Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but "
            f"got layout {SHOWN[kind_of(t)]}"
        )
    with no_grad():
        found = to_compressed(to_dense(t).sum(dims, keepdim=True, dtype=dtype), sparse_csr)
    return recorded("SumBackward1", found, (t,), _spread)


def _spread(g, t):
    """The gradient of sums that keep their dimensions: it has every place."""
    g = to_dense(g) if is_sparse(g) else g
    return g.to(t.dtype).expand(t.shape)


def summed(t, dims, dtype=None):
    """torch.sparse.sum: dense where all dimensions by coordinates go, else sparse."""
    first, parts = sparse_dim(t), parts_of(t)
    values = values_of(t)
    if dtype is not None:
        values = values.to(dtype)
    inner = [k - first + 1 for k in dims if k >= first]
    if inner:
        values = values.sum(inner)
    kept = [k for k in range(first) if k not in dims]
    shape = Size([s for k, s in enumerate(t.shape) if k not in dims])
    if not kept:
        return values.sum(0)
    if len(kept) == first:
        return coo(parts.indices, values, shape, parts.coalesced, "SparseSumBackward0")
    found = coalesce(coo(parts.indices[kept], values, shape, False))
    return with_values(found, values_of(found), "SparseSumBackward0")


def sparse_sum(input, dim=None, dtype=None):
    """torch.sparse.sum."""
    if dim is None:
        return values_of(coalesce(input)).sum(dtype=dtype)
    if not is_coo(input):
        raise NotImplementedError(
            "Could not run 'aten::_indices' with arguments from the 'SparseCsrCPU' backend."
        )
    return summed(input, _dims(input, dim), dtype)


def norm(t, p="fro", dim=None, keepdim=False, dtype=None, out=None):
    """The norm of all elements."""
    if dim is not None and tuple(_dims(t, dim)) != tuple(range(t.ndim)):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or "
            "contain all dimensions of the input"
        )
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dtype is not None and p in ("fro", None):
        raise ValueError("dtype argument is not supported in frobenius norm")
    if dtype is not None:
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    if is_coo(t):
        t = coalesce(t)
    p = 2 if p in ("fro", None) else p
    return public("norm")(values_of(t).reshape(-1), p)


def any_(t, *args, **kwargs):
    """Is any element not zero?"""
    return values_of(coalesce(t) if is_coo(t) else t).any()


def mean_(t, *args, **kwargs):
    """The mean of all elements, zeros among them, where a matrix is compressed."""
    if args or kwargs.get("dim") is not None or is_coo(t):
        raise NotImplementedError(
            "Could not run 'aten::mean.dim' with arguments from the 'SparseCPU' backend."
        )
    return values_of(t).sum() / t.numel()


# -- softmax ---------------------------------------------------------------------------------------


def _lines(t, dim):
    """(line of each element, how many lines): elements that a softmax along dim brings together."""
    first, indices = sparse_dim(t), parts_of(t).indices
    rest = [k for k in range(first) if k != dim]
    flat = flat_places(indices[rest], [t.shape[k] for k in rest])
    used, which = flat.unique(return_inverse=True)
    return which, used.shape[0]


def softmax(t, dim, dtype=None, logarithm=False):
    """Softmax of the elements that are there; others count as minus infinity."""
    if not is_sparse(t):
        raise NotImplementedError("sparse softmax takes sparse tensors")
    dim = wrap_dim(dim, t.ndim)
    if dtype is not None:
        t = with_values(t, values_of(t).to(dtype))
    if not is_coo(t):
        return to_compressed(softmax(to_coo(t), dim, None, logarithm), t._layout.kind)
    t = coalesce(t)
    first, values = sparse_dim(t), values_of(t)
    name = "SparseLogSoftmaxBackward0" if logarithm else "SparseSoftmaxBackward0"
    if dim >= first:
        run = public("log_softmax" if logarithm else "softmax")
        return with_values(t, run(values, dim - first + 1), name)
    if not nnz(t):
        return t
    which, count = _lines(t, dim)
    tail = values.shape[1:]
    spread = which.reshape(-1, *[1] * len(tail)).expand(values.shape)
    low = values.new_full((count, *tail), float("-inf"))
    most = low.scatter_reduce(0, spread, values.detach(), "amax")
    shifted = values - most.index_select(0, which)
    powers = shifted.exp()
    total = powers.new_zeros((count, *tail)).index_add(0, which, powers)
    if logarithm:
        found = shifted - total.log().index_select(0, which)
    else:
        found = powers / total.index_select(0, which)
    return with_values(t, found, name)


def log_softmax(t, dim, dtype=None):
    return softmax(t, dim, dtype, True)


# -- diagonals -------------------------------------------------------------------------------------


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix with rows of numbers along its diagonals."""
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if layout is not None and layout.name not in ("sparse_coo", "sparse_csr", "sparse_csc"):
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {layout}"
        )
    offsets = offsets.reshape(-1) if offsets.ndim == 0 else offsets
    diagonals = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    if diagonals.ndim != 2:
        raise RuntimeError("Diagonals must be vector or matrix")
    if offsets.ndim != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if diagonals.shape[0] != offsets.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets "
            f"({offsets.shape[0]})"
        )
    if offsets.dtype is not d.int64:
        raise RuntimeError(
            f"Offset Tensor must have dtype Long but got {offsets.dtype.scalar_name}"
        )
    if offsets.unique().shape[0] != offsets.shape[0]:
        raise RuntimeError("Offset tensor contains duplicate values")
    high, wide = shape
    columns = counting(min(wide, diagonals.shape[1]), diagonals)
    rows = columns.unsqueeze(0) - offsets.unsqueeze(1)
    inside = ((rows >= 0) & (rows < high)).reshape(-1).nonzero()[:, 0]
    places = public("stack")([rows.reshape(-1), columns.expand(rows.shape).reshape(-1)])
    values = diagonals[:, : columns.shape[0]].reshape(-1).index_select(0, inside)
    found = coo(places.index_select(1, inside), values, shape, False, "SpdiagsBackward0")
    if layout is None or layout.name == "sparse_coo":
        return found
    return to_compressed(coalesce(found), layout)
