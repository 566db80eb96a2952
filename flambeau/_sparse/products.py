"""Products of sparse matrices.

A sparse matrix times a dense one sums rows of the dense one, with a factor each
(ops/sparse_products.py). All other products are made of that, or of indices that are joined.
"""

from flambeau import _dtype as d
from flambeau._memory_format import sparse_csr
from flambeau._sparse.arithmetic import transpose
from flambeau._sparse.conversion import (
    coalesce,
    row_pointers,
    rows_from,
    to_compressed,
    to_coo,
    to_dense,
    with_values,
)
from flambeau._sparse.tensors import (
    SHOWN,
    coo,
    counting,
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
)
from flambeau.autograd.grad_mode import no_grad
from flambeau.eager import sparse_products as launchers
from flambeau.ops import sparse_products as kernel_rows
from flambeau.ops.embedding import bag_dots
from flambeau.ops.table import public

LAUNCHERS = launchers  # loading them is what it takes
_WITH_KERNELS = (d.float32, d.float64, d.bfloat16, d.float16)


def _check(a, b, name="mm"):
    if a.ndim != 2 or b.ndim != 2:
        number, other = (1, a) if a.ndim != 2 else (2, b)
        raise RuntimeError(f"mat{number} must be a matrix, got {other.ndim}-D tensor")
    if a.shape[1] != b.shape[0]:
        (m, k), (l, n) = a.shape, b.shape
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {l}x{n})")
    if a.dtype is not b.dtype:
        mine, theirs = a.dtype.scalar_name, b.dtype.scalar_name
        if is_coo(a) and is_coo(b):
            raise RuntimeError(f"mat1 dtype {mine} does not match mat2 dtype {theirs}")
        if is_coo(b) or (is_sparse(a) and is_sparse(b)):
            mine, theirs = theirs, mine
        raise RuntimeError(f"expected scalar type {mine} but found {theirs}")


def by_rows(t):
    """(row pointers, columns, values) of a sparse matrix; pointers are found once."""
    if t._layout.kind is sparse_csr:
        parts = parts_of(t)
        return parts.compressed, parts.plain, values_of(t)
    t = coalesce(to_coo(t))
    if sparse_dim(t) != 2:
        raise RuntimeError("products take sparse matrices whose values are numbers")
    indices = parts_of(t).indices
    return row_pointers(indices[0].contiguous(), t.shape[0]), indices[1].contiguous(), values_of(t)


def rows_product(pointers, places, values, dense):
    """Sums of rows of a dense matrix, with a factor each; in the graph."""
    if pointers.dtype is not places.dtype:
        pointers, places = pointers.long(), places.long()
    if _has_kernel(values, dense):
        return kernel_rows.rows_product(pointers, places, values, dense)
    rows = rows_from(pointers, places.shape[0])
    picked = dense.index_select(0, places) * values.unsqueeze(-1)
    return dense.new_zeros((pointers.shape[0] - 1, dense.shape[1])).index_add(0, rows, picked)


def mm(a, b, *, out=None):
    """The product of two matrices of which one at least is sparse; gradients have every place."""
    with no_grad():
        found = product(a, b)
    recorded("MmBackward0", found, (a, b), _first_gradient, _second_gradient)
    return found if out is None else out.copy_(found)


def _first_gradient(g, a, b):
    return public("mm")(g, adjoint(b))


def _second_gradient(g, a, b):
    """That of the second factor: rows of g are spread along links, without a transposed matrix."""
    if not is_sparse(a) or is_sparse(g) or not _has_kernel(a, g):
        return public("mm")(adjoint(a), g)
    return kernel_rows.dense_gradient(g, *by_rows(a), (a.shape[1], g.shape[1]))


def adjoint(t):
    """The transposed matrix, conjugated."""
    return (t.conj() if t.dtype.is_complex else t).transpose(0, 1)


def _has_kernel(a, dense):
    return a.dtype in _WITH_KERNELS and dense.device.type == "cpu" and dense.shape[1] > 0


def product(a, b, *, out=None):
    """torch.sparse.mm: the same, but a sparse factor gets a gradient where it has elements."""
    _check(a, b)
    if is_sparse(a) and is_sparse(b):
        return _sparse_product(a, b)
    if is_sparse(a):
        found = rows_product(*by_rows(a), b)
    else:
        found = transpose_dense(rows_product(*by_rows(transpose(b, 0, 1)), transpose_dense(a)))
    return found if out is None else out.copy_(found)


def reduced_mm(a, b, reduce):
    """The same with means or extremes in place of sums, over the elements that are there."""
    _check(a, b)
    pointers, places, values = by_rows(a)
    rows = rows_from(pointers, places.shape[0]).long()
    terms = b.index_select(0, places) * values.unsqueeze(-1)
    out = terms.new_zeros((a.shape[0], b.shape[1]))
    index = rows.unsqueeze(-1).expand(terms.shape)
    return out.scatter_reduce(0, index, terms, reduce, include_self=False)


def transpose_dense(t):
    return t.transpose(0, 1)


def _sparse_product(a, b):
    """Every element of a meets the row of b that its column names."""
    first = coalesce(to_coo(a))
    pointers, columns, values = by_rows(b)
    rows, middle = parts_of(first).indices
    begin = pointers[:-1].index_select(0, middle).long()
    count = pointers[1:].index_select(0, middle).long() - begin
    which, offset = runs(count)
    at = begin[which] + offset
    indices = public("stack")([rows[which], columns.long()[at]])
    products = values_of(first).index_select(0, which) * values.index_select(0, at)
    found = coalesce(coo(indices, products, (a.shape[0], b.shape[1])))
    found = with_values(found, values_of(found), "SparseSparseMatmulBackward0")
    return found if is_coo(a) else to_compressed(found, sparse_csr)


def addmm(input, a, b, *, beta=1, alpha=1, out=None):
    """beta input + alpha a b; gradients have every place."""
    with no_grad():
        found = masked_addmm(input, a, b, beta=beta, alpha=alpha)
    recorded(
        "AddmmBackward0", found, (input, a, b),
        lambda g, input, a, b: (g * beta).sum_to_size(input.shape),
        lambda g, input, a, b: _first_gradient(g * alpha, a, b),
        lambda g, input, a, b: _second_gradient(g * alpha, a, b),
    )  # fmt: skip
    return found if out is None else out.copy_(found)


def masked_addmm(input, a, b, *, beta=1, alpha=1):
    """torch.sparse.addmm: the same, but a sparse factor gets a gradient where it has elements."""
    found = product(a, b) if is_sparse(a) or is_sparse(b) else public("mm")(a, b)
    if is_sparse(found) and not is_sparse(input):
        found = to_dense(found)
    if alpha != 1:
        found = found * alpha
    if beta != 0:
        found = public("add")(input if beta == 1 else input * beta, found)
    return found


def mv(a, vector, *, out=None):
    """A sparse matrix times a vector."""
    if a.ndim != 2 or vector.ndim != 1:
        raise RuntimeError(
            f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {a.ndim}"
            f"Tensor Dim: {vector.ndim}"
        )
    if a.shape[1] != vector.shape[0]:
        raise RuntimeError(
            f"mv: expected self.size(-1) == vec.size(-1), but got {a.shape[1]} and "
            f"{vector.shape[0]}"
        )
    with no_grad():
        found = product(a, vector.unsqueeze(1)).squeeze(1)
    recorded(
        "MvBackward0", found, (a, vector),
        lambda g, a, v: public("outer")(g, v.conj()),
        lambda g, a, v: _second_gradient(g.unsqueeze(1), a, v).squeeze(1),
    )  # fmt: skip
    return found if out is None else out.copy_(found)


def addmv(input, a, vector, *, beta=1, alpha=1, out=None):
    return input * beta + mv(a, vector) * alpha


def matmul(a, b, *, out=None):
    """a @ b of matrices, vectors and batches."""
    if a.ndim == 2 and b.ndim == 2:
        return mm(a, b)
    if a.ndim == 2 and b.ndim == 1 and is_sparse(a):
        return mv(a, b)
    if a.ndim == 1 and b.ndim == 2 and is_sparse(b):
        return mv(transpose(b, 0, 1), a)
    if 1 in (a.ndim, b.ndim) and a.ndim + b.ndim == 3:  # the vector is the sparse one
        return public("matmul")(to_dense(a), to_dense(b))
    if a.ndim == 3 and b.ndim == 3:
        return bmm(a, b)
    if is_sparse(a) and not is_sparse(b) and a.ndim == 2 and b.ndim > 2:
        pieces = b.reshape(-1, *b.shape[-2:])
        found = public("stack")([mm(a, piece) for piece in pieces])
        return found.reshape(*b.shape[:-2], a.shape[0], b.shape[-1])
    if is_sparse(b) and not is_sparse(a) and b.ndim == 2 and a.ndim > 2:
        return mm(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    raise RuntimeError(
        f"matmul: sparse tensors of {a.ndim} and {b.ndim} dimensions cannot be multiplied"
    )


def bmm(a, b, *, out=None):
    """Products of the matrices of two batches; only the first may be sparse."""
    if not is_sparse(a):
        return transpose_last(bmm(transpose(b, 1, 2), transpose_last(a)))
    if is_sparse(b):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError("bmm_sparse: batch sizes and matrices do not fit together")
    batch, high, wide = a.shape
    first = coalesce(to_coo(a))
    which, rows, columns = parts_of(first).indices
    pointers = row_pointers((which * high + rows).contiguous(), batch * high)
    found = rows_product(
        pointers, which * wide + columns, values_of(first), b.reshape(batch * wide, b.shape[2])
    )
    return found.reshape(batch, high, b.shape[2])


def transpose_last(t):
    return t.transpose(1, 2)


def linear(input, weight, bias=None):
    """input @ weight.T + bias, the weight sparse."""
    if input.ndim == 2:
        found = mm(input, weight.t())
    else:
        found = mm(input.reshape(-1, input.shape[-1]), weight.t())
        found = found.reshape(*input.shape[:-1], weight.shape[0])
    return found if bias is None else found + bias


def smm(a, b):
    """The same as a sparse tensor with all elements."""
    if not is_sparse(a):
        raise RuntimeError("tensor.sspaddmm(...) can only be called on sparse tensors")
    found = mm(a, b)
    if is_sparse(found):
        return found
    rows, columns = found.shape
    every = counting(rows * columns, found)
    indices = public("stack")([every.div(columns, rounding_mode="floor"), every % columns])
    return coo(indices, found.reshape(-1), found.shape)


def sspaddmm(input, a, b, *, beta=1, alpha=1, out=None):
    """beta input + alpha a b, all of them sparse."""
    if not input.is_sparse:
        raise RuntimeError("tensor.sspaddmm(...) can only be called on sparse tensors")
    if not is_sparse(a):
        raise RuntimeError(
            "sspaddmm: expected 'mat1' to have sparse layout, got 'mat1' with layout Strided"
        )
    if is_sparse(b):
        raise RuntimeError(
            "sspaddmm: expected 'mat2' to have strided layout, got 'mat2' with layout "
            f"{SHOWN[kind_of(b)]}"
        )
    return public("add")(input * beta, smm(a, b) * alpha)


def hspmm(a, b, *, out=None):
    """The same by rows: those that a has elements in."""
    _check(a, b, "hspmm")
    a = coalesce(a)
    rows = parts_of(a).indices[0]
    used, which = rows.unique(return_inverse=True)
    pointers = row_pointers(which, used.shape[0])
    values = rows_product(pointers, parts_of(a).indices[1].contiguous(), values_of(a), b)
    return coo(used.unsqueeze(0), values, (a.shape[0], b.shape[1]))


def sampled_addmm(input, a, b, *, beta=1.0, alpha=1.0, out=None):
    """beta input + alpha (a b) at the places where input has elements."""
    parts = parts_of(input)
    if input._layout.kind is not sparse_csr:
        raise RuntimeError(
            f"sampled_addmm: Expected self to be a sparse CSR tensor, got {input._layout.kind}"
        )
    if a.shape[-1] != b.shape[-2]:
        (m, k), (l, n) = a.shape[-2:], b.shape[-2:]
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({m}x{k} and {l}x{n})"
        )
    if tuple(input.shape[-2:]) != (a.shape[-2], b.shape[-1]):
        raise RuntimeError(
            f"sampled_addmm: self.shape[-2] must match mat1.shape[-2], got {list(input.shape)}"
        )
    rows = rows_from(parts.compressed, nnz(input)).long()
    columns = parts.plain.long()
    right = b.transpose(-2, -1)
    there = columns.shape[0] > 0
    if there and (int(columns.min()) < 0 or int(columns.max()) >= right.shape[0]):
        raise RuntimeError("found an index that is out of bounds for the size of a sparse tensor")
    if there and a.dtype in _WITH_KERNELS and a.device.type == "cpu":
        dots = bag_dots(a, right, columns, rows, -1)
    else:
        dots = (a.index_select(0, rows) * right.index_select(0, columns)).sum(-1)
    values = dots if alpha == 1 else dots * alpha
    if beta != 0:
        values = values + (values_of(input) * beta if beta != 1 else values_of(input))
    found = over(pattern_of(input), values, "SparseSampledAddmmBackward0")
    return found if out is None else out.copy_(found)


def spsolve(a, b):
    """The solution of a sparse system."""
    return public("linalg_solve")(to_dense(a), b)


def triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):
    """(solution of a x = b, an empty tensor): a is triangular and by rows."""
    if is_coo(a) or is_sparse(b):
        raise NotImplementedError(
            "Could not run 'aten::triangular_solve' with arguments from the 'SparseCPU' backend."
        )
    found = public("triangular_solve")(b, to_dense(a), upper, transpose, unitriangular)
    return type(found)((found[0], b.new_empty(0)))
