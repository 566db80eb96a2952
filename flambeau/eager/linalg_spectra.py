"""Launchers of decompositions that LAPACK computes: singular values, eigenvalues.

Tensors become arrays over the same memory, and LAPACK writes into tensors with columns side by
side, as PyTorch has them, in the dtype asked for. GPUs have libraries for it (cuda_linalg.py); what
those do not do, or did not manage, is computed on the host. Rows and derivatives:
ops/linalg_spectra.py; QR has kernels of its own (linalg_reflectors.py).
"""

from flambeau import _dtype as d
from flambeau._device import cpu
from flambeau._layout import Size
from flambeau._tensor import empty_tensor
from flambeau._tensor.interchange import copied, to_numpy
from flambeau.eager.copying import copy_into, fill_into
from flambeau.eager.linalg_factors import (
    empty_columns,
    is_real_work,
    launches_unrecorded,
    library_for,
    unit_columns,
)
from flambeau.eager.linalg_rotations import rotated_eigh, rotated_svd
from flambeau.ops import linalg_checks as check
from flambeau.runtime import lapack


def _computed(function, A, options, *results):
    """Results of a LAPACK function on the device of A, or None; what is None is not asked for.

    Each result is (make, shape, dtype): LAPACK is on the host, so there it is made and filled.
    """
    source = A if A.device is cpu else copied(A, None, cpu)
    made = [r and r[0](Size(r[1]), r[2], cpu) for r in results]
    arrays = [None if t is None else to_numpy(t) for t in made]
    if not function(to_numpy(source, force=True), *options, *arrays):
        return None
    if A.device is cpu:
        return made
    there = [r and r[0](Size(r[1]), r[2], A.device) for r in results]
    for out, t in zip(there, made):
        if out is not None:
            copy_into(out, t)
    return there


def _is_finite(t):
    return t.isfinite().all().item()


def _set_apart(A):
    """(which matrices are not finite, all matrices with zeros in place of these)."""
    bad = ~A.isfinite().flatten(-2).all(-1)
    return bad, A.masked_fill(bad[..., None, None], 0)


_NO_CONVERGENCE = (
    "linalg.svd: The algorithm failed to converge because the input matrix is ill-conditioned or "
    "has too many repeated singular values (error code: 1)."
)
_NOT_FINITE = (
    "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite "
    "values."
)


@launches_unrecorded("linalg_svd")
def svd(A, full_matrices, compute_uv, driver):
    check.matrix(A, "linalg.svd")
    check.floating(A, "linalg.svd")
    if driver is not None and A.device.type != "cuda":
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
        )
    if driver not in (None, "gesvd", "gesvdj", "gesvda"):
        raise RuntimeError(
            f"torch.linalg.svd: unknown svd driver {driver} in svd_cusolver computation. Check doc "
            "at https://pytorch.org/docs/stable/generated/torch.linalg.svd.html"
        )
    check.has_kernel(A, "linalg_svd_cpu")
    *batch, m, n = A.shape
    k, real = min(m, n), A.dtype.to_real()
    wide_u, wide_v = (m, n) if full_matrices else (k, k)
    shapes = (*batch, m, wide_u), (*batch, k), (*batch, wide_v, n)
    if not is_real_work(A):
        S = empty_tensor(Size(shapes[1]), real, A.device)
        if not compute_uv:
            return _nothing(A), S, _nothing(A)
        return (
            unit_columns(shapes[0], A.dtype, A.device),
            S,
            unit_columns(shapes[2], A.dtype, A.device),
        )
    own = library_for(A)
    if own is not None:
        found = own.svd(A, full_matrices, compute_uv, driver)
        if found is not None:
            return found if compute_uv else (_nothing(A), found[1], _nothing(A))
    rotated = rotated_svd(A, compute_uv) if m == n or not full_matrices else None
    if rotated is not None:
        S, U, Vh = rotated
        return (U, S, Vh) if compute_uv else (_nothing(A), S, _nothing(A))
    if not _is_finite(A):  # some versions of LAPACK would never come back
        return _svd_of_infinities(A, shapes, compute_uv)
    left, right = (empty_columns, shapes[0], A.dtype), (empty_columns, shapes[2], A.dtype)
    if not compute_uv:
        left = right = None
    options = (full_matrices,)
    found = _computed(lapack.svd, A, options, left, (empty_tensor, shapes[1], real), right)
    if found is None:
        raise check.LinAlgError(_NO_CONVERGENCE)
    return tuple(found) if compute_uv else (_nothing(A), found[1], _nothing(A))


def _svd_of_infinities(A, shapes, compute_uv):
    """Values that are no numbers; with vectors, only where there is but one value."""
    if A.isnan().any().item():
        raise check.LinAlgError(_NOT_FINITE)
    if compute_uv and shapes[1][-1] > 1:
        raise check.LinAlgError(_NO_CONVERGENCE)
    if not compute_uv:
        bad, rest = _set_apart(A)
        S = svd(rest, True, False, None)[1].masked_fill_(bad[..., None], float("nan"))
        return _nothing(A), S, _nothing(A)
    S = fill_into(empty_tensor(Size(shapes[1]), A.dtype.to_real(), A.device), float("nan"))
    U, Vh = (unit_columns(shapes[i], A.dtype, A.device) for i in (0, 2))
    return U, S, Vh


def _nothing(A):
    return empty_tensor(Size((0,)), A.dtype, A.device)


_NO_VALUES = (
    "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned or "
    "has too many repeated eigenvalues (error code: 1)."
)


@launches_unrecorded("linalg_eigh")
def eigh(A, UPLO, compute_v):
    check.square(A, "linalg.eigh")
    triangle = UPLO.upper()
    if triangle not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    check.has_kernel(A, "linalg_eigh_cpu")
    real = A.dtype.to_real()
    if not is_real_work(A):
        values = empty_tensor(A.shape[:-1], real, A.device)
        vectors = empty_columns(A.shape, A.dtype, A.device) if compute_v else _nothing(A)
        return values, vectors
    own = library_for(A)
    found = own.eigh(A, triangle, compute_v) if own is not None else None
    if found is not None:
        return found[0], found[1] if compute_v else _nothing(A)
    if own is not None:
        raise check.LinAlgError(_NO_VALUES)
    rotated = rotated_eigh(A, triangle == "L", compute_v)
    if rotated is not None:
        return rotated[0], rotated[1] if compute_v else _nothing(A)
    if not _is_finite(A):
        bad, rest = _set_apart(A)
        values, vectors = eigh(rest, UPLO, compute_v)
        if compute_v:
            vectors.masked_fill_(bad[..., None, None], float("nan"))
        return values.masked_fill_(bad[..., None], float("nan")), vectors
    wanted = (empty_columns, A.shape, A.dtype) if compute_v else None
    found = _computed(lapack.eigh, A, (triangle,), (empty_tensor, A.shape[:-1], real), wanted)
    if found is None:
        raise check.LinAlgError(_NO_VALUES)
    return found[0], found[1] if compute_v else _nothing(A)


@launches_unrecorded("linalg_eig")
def eig(input, compute_v, name):
    check.square(input, f"linalg.{name}")
    if input.dtype.category < d.FLOATING:
        raise RuntimeError(f"Unknown Complex ScalarType for {input.dtype.scalar_name}")
    check.has_kernel(input, "linalg_eig_out_cpu", always=True)
    dtype = input.dtype.to_complex()
    if not is_real_work(input):
        values = empty_tensor(input.shape[:-1], dtype, input.device)
        return values, empty_columns(input.shape, dtype, input.device)
    if not _is_finite(input):
        if not compute_v:
            bad, rest = _set_apart(input)
            found, _ = eig(rest, False, name)
            return found.masked_fill(bad[..., None], complex("nan+nanj")), found.new_empty(0)
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    own = library_for(input)
    found = own.eig(input, compute_v) if own is not None else None
    if found is not None:
        return found[0], found[1] if compute_v else empty_tensor(Size((0,)), dtype, input.device)
    wanted = (empty_columns, input.shape, dtype) if compute_v else None
    found = _computed(lapack.eig, input, (), (empty_tensor, input.shape[:-1], dtype), wanted)
    if found is None:
        raise check.LinAlgError(
            "linalg.eig: The algorithm failed to converge because the input matrix is "
            "ill-conditioned or has too many repeated eigenvalues (error code: 1)."
        )
    return found[0], found[1] if compute_v else empty_tensor(Size((0,)), dtype, input.device)
