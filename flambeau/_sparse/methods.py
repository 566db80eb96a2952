"""Methods of Tensor about sparse tensors: what they are made of, and conversions.

They load when somebody calls one (_tensor/sparse.py).
"""

from flambeau._memory_format import (
    sparse_bsc,
    sparse_bsr,
    sparse_csc,
    sparse_csr,
    strided,
)
from flambeau._sparse import arithmetic, conversion
from flambeau._sparse.conversion import emptied
from flambeau._sparse.products import smm, sspaddmm
from flambeau._sparse.tensors import (
    BY_ROWS,
    COMPRESSED,
    SHOWN,
    is_coo,
    is_sparse,
    kind_of,
    nnz,
    parts_of,
    sparse_dim,
    values_of,
)
from flambeau._sparse.tensors import dense_dim as count_dense

coalesce, is_coalesced = conversion.coalesce, conversion.is_coalesced
sparse_mask = conversion.sparse_mask


def _want_coo(t, name):
    if not is_coo(t):
        raise RuntimeError(
            f"{name} expected sparse coordinate tensor layout but got {SHOWN[kind_of(t)]}"
        )


def indices(t):
    """Coordinates [dimensions, count] of a coalesced tensor."""
    _want_coo(t, "indices")
    if not parts_of(t).coalesced:
        raise RuntimeError(
            "Cannot get indices on an uncoalesced tensor, please call .coalesce() first"
        )
    return parts_of(t).indices.detach()


def values(t):
    """The values that are there."""
    if not is_sparse(t):
        raise RuntimeError("values expected sparse tensor layout but got Strided")
    if is_coo(t) and not parts_of(t).coalesced:
        raise RuntimeError(
            "Cannot get values on an uncoalesced tensor, please call .coalesce() first"
        )
    return values_of(t)


def _backend(t):
    return "SparseCsrCPU" if is_sparse(t) else "CPU"


def _indices(t):
    if not is_coo(t):
        raise NotImplementedError(
            f"Could not run 'aten::_indices' with arguments from the '{_backend(t)}' backend."
        )
    return parts_of(t).indices.detach()


def _values(t):
    if not is_coo(t):
        raise NotImplementedError(
            f"Could not run 'aten::_values' with arguments from the '{_backend(t)}' backend."
        )
    return parts_of(t).values.detach()


def _nnz(t):
    return nnz(t)


def _part(name, by_rows, field):
    side = "row" if by_rows else "column"

    def asked(t):
        kind = kind_of(t)
        if kind not in COMPRESSED or (kind in BY_ROWS) != by_rows:
            raise RuntimeError(
                f"{name} expected sparse {side} compressed tensor layout but got {SHOWN[kind]}"
            )
        return getattr(parts_of(t), field).detach()

    asked.__name__ = asked.__qualname__ = name
    return asked


crow_indices = _part("crow_indices", True, "compressed")
col_indices = _part("col_indices", True, "plain")
ccol_indices = _part("ccol_indices", False, "compressed")
row_indices = _part("row_indices", False, "plain")


def dense_dim(t):
    return count_dense(t) if is_sparse(t) else t.ndim


def sparse_dims(t):
    return sparse_dim(t) if is_sparse(t) else 0


def to_sparse(t, *args, layout=None, blocksize=None, dense_dim=None):
    """Only what is not zero, by coordinates or in another sparse layout."""
    dims = args[0] if args else None
    if isinstance(dims, type(strided)):
        dims, layout = None, dims
    return conversion.to_sparse(t, dims, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_coo(t):
    return conversion.to_sparse(t)


def to_sparse_csr(t, dense_dim=None):
    return conversion.to_compressed(t, sparse_csr, None, dense_dim)


def to_sparse_csc(t, dense_dim=None):
    return conversion.to_compressed(t, sparse_csc, None, dense_dim)


def to_sparse_bsr(t, blocksize, dense_dim=None):
    return conversion.to_compressed(t, sparse_bsr, _blocks(blocksize, "bsr"), dense_dim)


def to_sparse_bsc(t, blocksize, dense_dim=None):
    return conversion.to_compressed(t, sparse_bsc, _blocks(blocksize, "bsc"), dense_dim)


def _blocks(blocksize, word):
    blocksize = (blocksize, blocksize) if isinstance(blocksize, int) else blocksize
    return tuple(blocksize)


def to_dense(t, dtype=None, *, masked_grad=None):
    """All elements, zeros among them."""
    if dtype is not None and is_sparse(t):
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return conversion.to_dense(t, dtype, masked_grad=masked_grad)


def sparse_resize_(t, size, sparse_dim, dense_dim):
    """In place: another size; elements stay where they are."""
    return conversion.resized(t, tuple(size), sparse_dim, dense_dim)


def sparse_resize_and_clear_(t, size, sparse_dim, dense_dim):
    """In place: another size, and no elements."""
    empty = emptied(tuple(size), sparse_dim, t.dtype, t.device)
    t._storage.held[0], t._layout = parts_of(empty), empty._layout
    return t


def resize_as_sparse_(t, other):
    """In place: the size of another sparse tensor."""
    return sparse_resize_(t, other.shape, sparse_dim(other), count_dense(other))


def _coalesced_(t, coalesced):
    """In place: say whether coordinates are sorted and there once."""
    _want_coo(t, "_coalesced_")
    t._storage.held[0] = parts_of(t)._replace(coalesced=bool(coalesced))
    return t


def narrow_copy(t, dim, start, length):
    """A range along a dimension, copied."""
    if is_sparse(t):
        return arithmetic.narrow_copy(t, dim, start, length)
    return t.narrow(dim, start, length).clone()


METHODS = {
    function.__name__: function
    for function in (
        coalesce, is_coalesced, sparse_mask, indices, values, _indices, _values, _nnz,
        crow_indices, col_indices, ccol_indices, row_indices, dense_dim, to_sparse, to_sparse_coo,
        to_sparse_csr, to_sparse_csc, to_sparse_bsr, to_sparse_bsc, to_dense, sparse_resize_,
        sparse_resize_and_clear_, resize_as_sparse_, _coalesced_, smm, sspaddmm,
        narrow_copy,
    )
}  # fmt: skip
METHODS["sparse_dim"] = METHODS["_dimI"] = sparse_dims
METHODS["_dimV"] = dense_dim
