"""Functions of torch about sparse matrices that are no rows: products under old names, pointers."""

from flambeau import _dtype as d
from flambeau._sparse import conversion, products
from flambeau._sparse.arithmetic import broadcast_to as _sparse_broadcast_to  # noqa: F401
from flambeau.interposing.overriding import answerable
from flambeau.ops.table import public

hspmm = answerable(products.hspmm)
smm = answerable(products.smm)
sspaddmm = answerable(products.sspaddmm)
hsmm, saddmm = hspmm, sspaddmm  # older names


@answerable
def spmm(input, mat2):
    """The product of two matrices."""
    return products.mm(input, mat2) if _any_sparse(input, mat2) else input.mm(mat2)


@answerable
def dsmm(input, mat2):
    """The same under another name."""
    return spmm(input, mat2)


def _any_sparse(*tensors):
    return any(t._layout.strides is None for t in tensors)


def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False, out=None):
    """Where each of `size` rows begins among sorted rows."""
    found = conversion.row_pointers(input.contiguous(), size)
    return found.to(d.int32) if out_int32 else found


def _convert_indices_from_csr_to_coo(
    crow_indices, col_indices, *, out_int32=False, transpose=False, out=None
):
    """Rows and columns of elements from where rows begin."""
    rows = conversion.rows_from(crow_indices, col_indices.shape[-1])
    pair = (col_indices, rows) if transpose else (rows, col_indices)
    dtype = d.int32 if out_int32 else d.int64
    return public("stack")([part.to(dtype) for part in pair])
