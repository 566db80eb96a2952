"""Launchers of decompositions that LAPACK computes: singular values, eigenvalues, QR.

Tensors become arrays over the same memory and results are written into tensors with columns side by
side, as PyTorch has them. NumPy computes in double precision, so single precision loses nothing.
Rows and derivatives: ops/linalg_spectra.py, ops/linalg_orthogonal.py.
"""

from flambeau import _dtype as d
from flambeau._layout import Size
from flambeau._tensor import empty_tensor
from flambeau.eager.copying import fill_into
from flambeau.eager.interchange import to_numpy
from flambeau.eager.linalg_factors import empty_columns, is_real_work, launches_unrecorded
from flambeau.ops import linalg_checks as check
from flambeau.runtime import lapack


def _vectors(array, shape, dtype, device):
    """Matrices of vectors from an array."""
    out = empty_columns(shape, dtype, device)
    to_numpy(out)[...] = array
    return out


def _values(array, shape, dtype, device):
    out = empty_tensor(Size(shape), dtype, device)
    to_numpy(out)[...] = array
    return out


def _unit(shape, dtype, device):
    """Unit matrices (not always square), columns side by side."""
    out = empty_columns(shape, dtype, device)
    if is_real_work(out):
        fill_into(out, 0)
        fill_into(out.diagonal(0, -2, -1), 1)
    return out


def _has_nan(t):
    return t.isnan().any().item()


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
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
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
        return _unit(shapes[0], A.dtype, A.device), S, _unit(shapes[2], A.dtype, A.device)
    found = lapack.svd(to_numpy(A, force=True), full_matrices, compute_uv)
    values = None if found is None else found[1] if compute_uv else found
    if values is None or values.min() != values.min():
        if _has_nan(A):
            raise check.LinAlgError(_NOT_FINITE)
        if values is None:
            raise check.LinAlgError(_NO_CONVERGENCE)
    S = _values(values, shapes[1], real, A.device)
    if not compute_uv:
        return _nothing(A), S, _nothing(A)
    U, Vh = (_vectors(found[i], shapes[i], A.dtype, A.device) for i in (0, 2))
    return U, S, Vh


def _nothing(A):
    return empty_tensor(Size((0,)), A.dtype, A.device)


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
    found = lapack.eigh(to_numpy(A, force=True), triangle, compute_v)
    if found is None:
        if not A.isfinite().all().item():
            values = fill_into(empty_tensor(A.shape[:-1], real, A.device), float("nan"))
            vectors = empty_columns(A.shape, A.dtype, A.device)
            return values, fill_into(vectors, float("nan"))
        raise check.LinAlgError(
            "linalg.eigh: The algorithm failed to converge because the input matrix is "
            "ill-conditioned or has too many repeated eigenvalues (error code: 1)."
        )
    values, vectors = found if compute_v else (found, None)
    values = _values(values, A.shape[:-1], real, A.device)
    if not compute_v:
        return values, _nothing(A)
    return values, _vectors(vectors, A.shape, A.dtype, A.device)


@launches_unrecorded("linalg_eig")
def eig(input, compute_v, name):
    check.square(input, f"linalg.{name}")
    if input.dtype.category < d.FLOATING:
        raise RuntimeError(f"Unknown Complex ScalarType for {input.dtype.scalar_name}")
    check.has_kernel(input, "linalg_eig_out_cpu")
    dtype = input.dtype.to_complex()
    if not is_real_work(input):
        values = empty_tensor(input.shape[:-1], dtype, input.device)
        return values, empty_columns(input.shape, dtype, input.device)
    if not input.isfinite().all().item():
        raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
    found = lapack.eig(to_numpy(input, force=True), compute_v)
    if found is None:
        raise check.LinAlgError(
            "linalg.eig: The algorithm failed to converge because the input matrix is "
            "ill-conditioned or has too many repeated eigenvalues (error code: 1)."
        )
    values, vectors = found if compute_v else (found, None)
    values = _values(values, input.shape[:-1], dtype, input.device)
    if not compute_v:
        return values, empty_tensor(Size((0,)), dtype, input.device)
    return values, _vectors(vectors, input.shape, dtype, input.device)


@launches_unrecorded("linalg_qr")
def qr(A, mode):
    check.matrix(A, "linalg.qr")
    check.floating(A, "linalg.qr")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    check.has_kernel(A, "geqrf_cpu")
    *batch, m, n = A.shape
    k = m if mode == "complete" else min(m, n)
    q_shape, r_shape = (*batch, m, k), (*batch, k, n)
    if not is_real_work(A):
        Q = _nothing(A) if mode == "r" else _unit(q_shape, A.dtype, A.device)
        return Q, empty_columns(r_shape, A.dtype, A.device)
    found = lapack.qr(to_numpy(A, force=True), mode)
    if mode == "r":
        return _nothing(A), _vectors(found, r_shape, A.dtype, A.device)
    return tuple(
        _vectors(array, shape, A.dtype, A.device) for array, shape in zip(found, (q_shape, r_shape))
    )


@launches_unrecorded("geqrf")
def geqrf(input):
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check.has_kernel(input, "geqrf_cpu")
    *batch, m, n = input.shape
    shape = (*batch, min(m, n))
    if not is_real_work(input):
        out = empty_columns(input.shape, input.dtype, input.device)
        return out, empty_tensor(Size(shape), input.dtype, input.device)
    reflectors, factors = lapack.qr(to_numpy(input, force=True), "raw")
    found = _vectors(reflectors.swapaxes(-2, -1), input.shape, input.dtype, input.device)
    return found, _values(factors, shape, input.dtype, input.device)
