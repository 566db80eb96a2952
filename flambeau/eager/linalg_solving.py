"""Launchers of solvers: systems of equations, inverses, determinants, LU and Cholesky factors.

Each checks its arguments in PyTorch's words, then factors copies of the matrices in place
(linalg_factors.py). Results have their columns side by side where PyTorch's have. Rows and
derivatives are in ops/linalg_solving.py and ops/linalg_factors.py.
"""

from flambeau import _dtype as d
from flambeau._layout import broadcast_shape
from flambeau.eager.linalg_factors import (
    cholesky_in_place,
    columns_of,
    empty_columns,
    identity,
    is_real_work,
    launches_unrecorded,
    library_for,
    lu_in_place,
    lu_solve,
    rows_of,
    solve_lower_or_upper,
    stacked,
    swap_rows,
    swapped_places,
    turned,
    wrong_pivots,
)
from flambeau.eager.linalg_small import small_cholesky, small_system
from flambeau.eager.rows import contiguous
from flambeau.ops import linalg_checks as check
from flambeau.ops.table import public


def _conjugated(t):
    return t.conj().resolve_conj() if t.dtype.is_complex else t


def _expanded(t, batch, ndim):
    """A dense batch repeated to a batch shape (ndim dimensions belong to each item)."""
    if t.shape[: t.ndim - ndim] == tuple(batch):
        return t
    return t.expand(*batch, *t.shape[t.ndim - ndim :])


def factored_solve(lu, pivots, b, left, adjoint):
    """Solve op(A) X = B (or X op(A) = B) with the factors of A; batches broadcast."""
    batch = broadcast_shape(lu.shape[:-2], b.shape[:-2])
    if lu.shape[:-2] != batch:
        lu = columns_of(lu, batch)
    elif lu._layout.strides[-2] != 1 or not _is_dense(lu):
        lu = columns_of(lu)
    pivots = contiguous(_expanded(pivots, batch, 1))
    if left:
        return lu_solve(lu, pivots, _expanded(b, batch, 2), adjoint)
    # X A = B is Aᴴ Xᴴ = Bᴴ
    found = lu_solve(lu, pivots, _conjugated(turned(_expanded(b, batch, 2))), not adjoint)
    return turned(_conjugated(found))


def _is_dense(t):
    """Do the matrices of a batch with columns side by side follow each other in memory?"""
    *batch, m, n = t.shape
    strides, step = t._layout.strides, m * n
    if n > 1 and strides[-1] != m:
        return False
    for size, stride in zip(reversed(batch), reversed(strides[:-2])):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


@launches_unrecorded("linalg_solve_ex")
def solve_ex(A, B, left):
    check.square(A, "linalg.solve")
    check.matrix(B, "linalg.solve", "B")
    check.fits(A, B, left, "linalg.solve")
    check.floating(A, "linalg.solve")
    check.same_dtype(A, B, "linalg.solve")
    check.has_kernel(A, "lu_cpu")
    broadcast_shape(B.shape[:-2], A.shape[:-2])  # for its complaint
    found = small_system("solve", A, B) if left else None
    if found is not None:
        return found.solution, found.lu, found.pivots, found.info
    lu = columns_of(A)
    pivots, info = lu_in_place(lu)
    return factored_solve(lu, pivots, B, left, False), lu, pivots, info


@launches_unrecorded("linalg_factored_solve")
def solve_again(A, LU, pivots, B, left, adjoint):
    if LU.dtype.category < d.FLOATING or LU.dtype is not B.dtype or pivots.dtype is not d.int32:
        raise RuntimeError("factors must be floating, as what they solve for, and pivots int32")
    if LU.ndim < 2 or B.ndim < 2 or LU.shape[-2] != LU.shape[-1]:
        raise RuntimeError("factors and right-hand sides must be matrices, those of factors square")
    if pivots.shape != LU.shape[:-1] or B.shape[-2 if left else -1] != LU.shape[-1]:
        raise RuntimeError("pivots and right-hand sides do not fit the factors")
    return factored_solve(LU, pivots, B, left, adjoint)


@launches_unrecorded("linalg_inv_ex")
def inv_ex(A, check_errors):
    check.square(A, "linalg.inv")
    check.floating(A, "linalg.inv", low_precision=False)
    small = small_system("inverse", A)
    if small is not None:
        found, info = small.solution, small.info
    else:
        lu = columns_of(A)
        pivots, info = lu_in_place(lu)
        found = _inverted(lu, pivots)
    if check_errors:
        check.check_info(info, "linalg.inv_ex", check.SINGULAR_INVERSE)
    return found, info


def _inverted(lu, pivots):
    own = library_for(lu) if is_real_work(lu) else None
    found = None if own is None else own.inverse(lu, pivots)
    if found is not None:
        return found
    one = identity(lu.shape[-1], lu.shape[:-2], lu.dtype, lu.device)
    return lu_solve(lu, pivots, one, False)


@launches_unrecorded("linalg_lu_factor_ex")
def lu_factor_ex(A, pivot, check_errors):
    if A.ndim < 2:
        raise RuntimeError(
            "torch.lu_factor: Expected tensor with 2 or more dimensions. Got size: "
            f"{list(A.shape)} instead"
        )
    check.has_kernel(A, "lu_cpu")
    if not pivot and A.numel() and library_for(A) is None:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    lu = columns_of(A)
    pivots, info = lu_in_place(lu, pivot)
    if check_errors:
        check.check_info(info, "torch.linalg.lu_factor_ex", check.SINGULAR_FACTOR, RuntimeError)
    return lu, pivots, info


def _swaps_sign(pivots):
    """-1 where the number of swaps is odd."""
    k = pivots.shape[-1]
    places = public("arange")(1, k + 1, dtype=d.int32, device=pivots.device)
    odd = (pivots != places).sum(-1).bitwise_and(1)
    return 1 - 2 * odd


def _factored(A):
    small = small_system("det", A)
    if small is not None:
        lu, pivots = small.lu, small.pivots
    else:
        lu = columns_of(A)
        pivots, _ = lu_in_place(lu)
    return lu, pivots, lu.diagonal(0, -2, -1)


@launches_unrecorded("linalg_det")
def det(A):
    check.square(A, "linalg.det")
    check.floating(A, "linalg.det")
    check.has_kernel(A, "lu_cpu")
    found = small_system("det", A)
    if found is not None:
        return found.determinants, found.lu, found.pivots
    lu, pivots, diagonal = _factored(A)
    return diagonal.prod(-1) * _swaps_sign(pivots), lu, pivots


@launches_unrecorded("linalg_slogdet")
def slogdet(A):
    check.square(A, "linalg.slogdet")
    check.floating(A, "linalg.slogdet", low_precision=False)
    lu, pivots, diagonal = _factored(A)
    sign = diagonal.sgn().prod(-1) * _swaps_sign(pivots)
    return sign, diagonal.abs().log().sum(-1), lu, pivots


@launches_unrecorded("linalg_cholesky_ex")
def cholesky_ex(input, upper, check_errors):
    check.square(input, "linalg.cholesky")
    check.floating(input, "linalg.cholesky")
    check.has_kernel(input, "cholesky_cpu")
    return _cholesky(input, upper, check_errors, "linalg.cholesky_ex")


def _cholesky(input, upper, check_errors, name):
    found = None if upper else small_cholesky(input)
    own = library_for(input) if found is None and is_real_work(input) else None
    if found is not None:
        found, info = found
    elif own is not None:
        info = public("zeros")(input.shape[:-2], dtype=d.int32, device=input.device)
        found = own.cholesky(input, upper, info)
    elif upper:
        rows = rows_of(input)
        info = cholesky_in_place(rows)
        found = columns_of(rows)
    else:
        # the lower triangle with columns side by side is an upper one with rows side by side
        found = columns_of(input)
        info = cholesky_in_place(turned(found))
    if check_errors:
        check.check_info(info, name, check.NOT_POSITIVE)
    return found, info


@launches_unrecorded("cholesky")
def cholesky(input, upper):
    if input.numel():
        check.square(input, "cholesky")
        check.has_kernel(input, "cholesky_cpu")
    else:
        check.matrix(input, "cholesky")
        return empty_columns(input.shape, input.dtype, input.device)
    found, info = _cholesky(input, upper, False, "cholesky")
    check.check_info(info, "cholesky", check.NOT_POSITIVE)
    return found


@launches_unrecorded("linalg_solve_triangular")
def solve_triangular(input, B, upper, left, unitriangular):
    name = "linalg.solve_triangular"
    if type(upper) is not bool:
        raise TypeError(
            'linalg_solve_triangular() missing 1 required positional arguments: "upper"'
        )
    check.square(input, name)
    check.matrix(B, name, "B")
    check.fits(input, B, left, name)
    check.has_kernel(input, "triangular_solve_cpu")
    batch = broadcast_shape(B.shape[:-2], input.shape[:-2])
    B = _expanded(B, batch, 2)
    a = _flat(_expanded(input, batch, 2))
    if B.dtype is not input.dtype:  # PyTorch does not look
        B = B.to(input.dtype)
    if left:
        own = library_for(B)
        right = rows_of(B) if own is None else columns_of(B)
        solve_lower_or_upper(a, stacked(right), upper, unitriangular)
        return columns_of(right) if own is None else right
    # X A = B is Aᵀ Xᵀ = Bᵀ
    right = rows_of(turned(B))
    solve_lower_or_upper(turned(a), stacked(right), not upper, unitriangular)
    return turned(right)


def _flat(t):
    """Matrices of a batch as three dimensions, without a copy where strides allow."""
    return t.reshape(-1 if t.numel() else 0, *t.shape[-2:]) if t.ndim != 3 else t


@launches_unrecorded("linalg_lu_solve")
def lu_solve_rows(LU, pivots, B, left, adjoint):
    check.floating(LU, "torch.linalg.lu_solve")
    check.same_dtype(LU, B, "linalg.lu_solve", ("LU", "B"))
    if pivots.dtype is not d.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    check.square(LU, "torch.linalg.lu_solve")
    check.matrix(B, "linalg.lu_solve", "B")
    check.fits(LU, B, left, "linalg.lu_solve")
    if LU.shape[-1] != pivots.shape[-1]:
        raise RuntimeError(
            "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the "
            "matrix"
        )
    if LU.shape[:-2] != pivots.shape[:-1]:
        raise RuntimeError(
            "linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got "
            f"pivots with shape {list(pivots.shape)} instead"
        )
    check.has_kernel(LU, "linalg.lu_solve_cpu")
    broadcast_shape(B.shape[:-2], LU.shape[:-2])
    if is_real_work(LU, B) and library_for(LU) is not None:
        _check_pivots(pivots, LU.shape[-1])
    return factored_solve(LU, pivots, B, left, adjoint)


def _check_pivots(pivots, n):
    """A library would follow them anywhere."""
    for outside, bound in (
        (pivots < 1, "greater or equal to 1"),
        (pivots > n, "smaller or equal to LU.size(-2)"),
    ):
        if outside.any().item():
            raise wrong_pivots(f"Pivots given to lu_solve must all be {bound}. ")


@launches_unrecorded("linalg_permutation")
def permutation(LU_pivots, LU_data, rows):
    """The permutation matrices of pivots, in the dtype of LU_data."""
    batch = LU_pivots.shape[:-1]
    out = identity(rows, batch, LU_data.dtype, LU_data.device)
    if not is_real_work(out) or not LU_pivots.shape[-1]:
        return out
    if not out.device.runtime.is_host:
        places = swapped_places(contiguous(LU_pivots), rows)
        return out.zero_().scatter_(-2, turned(places), 1)
    # swapping columns of the unit matrix, which rows side by side make swaps of rows
    said = "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
    swap_rows(stacked(turned(out)), contiguous(LU_pivots), said=said)
    return out
