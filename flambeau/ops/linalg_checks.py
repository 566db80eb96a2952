"""What linear algebra refuses, in PyTorch's words: shapes, dtypes, matrices without factors.

Checks look at shapes and dtypes before anything is computed; `check_info` turns the error codes
that a factoring left behind (one per matrix, zero is fine) into an exception.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau.errors import LinAlgError

HALF = (d.float16, d.bfloat16, d.complex32)


def matrix(t, name, argument="A"):
    if t.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def square(t, name, argument="A"):
    matrix(t, name, argument)
    same_sides(t, name, argument)


def same_sides(t, name, argument="A"):
    m, n = t.shape[-2:]
    if m != n:
        raise RuntimeError(
            f"{name}{': ' if name else ''}{argument} must be batches of square matrices, but they "
            f"are {m} by {n} matrices"
        )


def floating(t, name, low_precision=True):
    if t.dtype.category < d.FLOATING:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{t.dtype.scalar_name}"
        )
    if not low_precision and t.dtype in HALF:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {t.dtype.scalar_name}")


def has_kernel(t, kernel, always=False):
    """PyTorch's kernels take single and double precision only; most are not asked for nothing."""
    if (t.dtype.category < d.FLOATING or t.dtype in HALF) and (always or t.numel()):
        name = ON_GPUS.get(kernel, kernel) if t.device.type == "cuda" else kernel
        raise errors.not_implemented(name, t.dtype)


ON_GPUS = {
    "cholesky_cpu": "cholesky_cusolver",
    "cholesky_inverse_out_cpu": "cholesky_cuda_potri",
    "cholesky_solve_cpu": "cholesky_cuda_potrs",
    "geqrf_cpu": "geqrf_cuda",
    "ldl_factor_kernel_cpu": "ldl_factor_looped_cusolver",
    "linalg_eig_out_cpu": "linalg_eig_cuda",
    "linalg_eigh_cpu": "linalg_eigh_cuda",
    "linalg_svd_cpu": "svd_cuda_gesvdj",
    "lu_cpu": "lu_factor_cusolver",
    "orgqr_cpu": "orgqr_cuda",
    "ormqr_cpu": "orgmr_cuda",
    "triangular_solve_cpu": "triangular_solve_cuda",
}


def same_dtype(a, b, name, names=("A", "B")):
    if a.dtype is not b.dtype:
        first, second = names
        raise RuntimeError(
            f"{name}: Expected {first} and {second} to have the same dtype, but found {first} of "
            f"type {a.dtype.scalar_name} and {second} of type {b.dtype.scalar_name} instead"
        )


def fits(a, b, left, name):
    """Can A X = B (or X A = B) be solved, by shape?"""
    if a.shape[-1 if left else -2] != b.shape[-2 if left else -1]:
        equation = "AX = B" if left else "XA = B"
        sizes = ["x".join(map(str, t.shape[-2:])) for t in (a, b)]
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} ({sizes[0]} and "
            f"{sizes[1]})"
        )


def legacy_pair(b, a, name):
    """The checks that old solvers share: cholesky_solve, triangular_solve, ldl_solve."""
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {b.dtype.scalar_name} "
            f"and A of type {a.dtype.scalar_name} instead."
        )
    same_sides(a, "")
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {a.shape[-1]} by "
            f"{a.shape[-1]} but each b matrix is {b.shape[-2]} by {b.shape[-1]}"
        )


def first_failure(info):
    """(batch element or None, error code) of the first matrix that failed; None if all is well."""
    info = getattr(info, "_bottom", info)  # inside of a transform: all samples
    if not info.device.runtime.computes or not info.numel():
        return None
    if not info.device.runtime.is_host:
        info = info.cpu()  # where there are few, asking takes longer than reading
    if info.ndim == 0:
        code = info.item()
        return (None, code) if code else None
    if not (info != 0).any().item():
        return None
    codes = info.reshape(-1).tolist()
    return next((k, code) for k, code in enumerate(codes) if code)


def check_info(info, name, text, kind=LinAlgError):
    """Raise if a factoring failed; text may name {code}."""
    found = first_failure(info)
    if found is not None:
        place, code = found
        where = "" if place is None else f"(Batch element {place}): "
        raise kind(f"{name}: {where}{text.format(code=code)}")


SINGULAR_INVERSE = (
    "The diagonal element {code} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)
SINGULAR_SOLVE = "The solver failed because the input matrix is singular."
NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order {code} is not positive-definite)."
)
SINGULAR_FACTOR = (
    "U[{code},{code}] is zero and using it on lu_solve would result in a division by zero. If you "
    "still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
    "linalg.lu_factor_ex(A, pivot)"
)
