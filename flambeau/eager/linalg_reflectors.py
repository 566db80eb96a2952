"""Launchers of QR: one kernel call for batches of small matrices, blocks of columns for large ones.

A block of reflectors is applied to what lies right of it as I - V T Vᴴ, which is matrix products
(`apply_inner` of ops/linalg_orthogonal.py). Kernels: codegen/templates/reflectors.py.
"""

from math import prod

from flambeau._layout import Size, collapse
from flambeau._tensor import empty_tensor
from flambeau.eager.linalg_factors import (
    columns_of,
    empty_columns,
    is_real_work,
    launch,
    launches_unrecorded,
    library_for,
    part,
    pointer,
    stacked,
    turned,
    unit_columns,
)
from flambeau.eager.rows import contiguous
from flambeau.ops import linalg_checks as check
from flambeau.ops.linalg_orthogonal import apply_inner, unit_trapezoid
from flambeau.ops.linalg_solving import adjoint

BLOCK = 32  # columns that a kernel factors at a time
SMALL = 64 * 64  # elements of matrices that one kernel call takes all the way
SMALL_BESIDE = 8 * 8  # the same where there is a library: matrices of a thread's own
SEVERAL = 2  # calls of a library to make Q that are no worse than products


def _geqrf_in_place(t):
    """Reflectors of a dense batch whose columns lie side by side; gives their factors."""
    *batch, m, n = t.shape
    k = min(m, n)
    tau = empty_tensor(Size((*batch, k)), t.dtype, t.device)
    if not is_real_work(t):
        return tau
    own = library_for(t)
    if own is not None:
        own.geqrf(t, tau)
        return tau
    a, size = stacked(t), max(1, t._layout.numel // (m * n))
    whole = m * n <= SMALL
    for first in range(0, k, n if whole else BLOCK):
        last = n if whole else min(first + BLOCK, k)
        rows, columns = m - first, last - first
        launch(
            "geqrf", t, size, 2 * rows * columns * columns,
            [rows, columns, m, m * n, k], pointer(a, first * (m + 1)), pointer(tau, first),
        )  # fmt: skip
        if last < n:
            below, right = slice(first, m), slice(last, n)
            V = unit_trapezoid(part(a, below, slice(first, last)), columns)
            rest = part(a, below, right)
            factors = tau.reshape(size, k).narrow(-1, first, columns)
            inner = apply_inner(V, factors, adjoint(V) @ rest, True)
            # transposed, so that rows of the product lie as columns of the rest do
            turned(rest).sub_(inner.mT @ V.mT)
    return tau


@launches_unrecorded("geqrf")
def geqrf(input):
    if input.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check.has_kernel(input, "geqrf_cpu", always=True)
    found = columns_of(input)
    return found, _geqrf_in_place(found)


@launches_unrecorded("linalg_qr")
def qr(A, mode):
    check.matrix(A, "linalg.qr")
    check.floating(A, "linalg.qr")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    check.has_kernel(A, "geqrf_cpu", always=True)
    *batch, m, n = A.shape
    k = m if mode == "complete" else min(m, n)
    q_shape = (*batch, m, k)
    if not is_real_work(A):
        Q = _nothing(A) if mode == "r" else unit_columns(q_shape, A.dtype, A.device)
        return Q, empty_columns((*batch, k, n), A.dtype, A.device)
    own = library_for(A)
    small = SMALL if own is None else SMALL_BESIDE
    if m * n <= small and m * k <= small:
        return _small_qr(A, k, mode != "r")
    packed = columns_of(A)
    tau = _geqrf_in_place(packed)
    R = packed.narrow(-2, 0, min(m, k)).triu()
    R = columns_of(R)
    if mode == "r":
        return _nothing(A), R
    if own is not None and prod(batch) <= SEVERAL:
        return own.orgqr(packed, tau, k), R
    V = unit_trapezoid(packed, min(m, n))
    Q = unit_columns(q_shape, A.dtype, A.device)
    inner = apply_inner(V, tau, adjoint(V.narrow(-2, 0, k)), False)
    turned(Q).sub_(inner.mT @ V.mT)
    return Q, R


def _nothing(A):
    return empty_tensor(Size((0,)), A.dtype, A.device)


def _small_qr(A, k, wants_q):
    *batch, m, n = A.shape
    strides = [s * A._layout.itemsize for s in A._layout.strides]
    sizes, steps = collapse(batch, [strides[:-2]])
    if len(sizes) > 1:
        A = contiguous(A)
        strides = [s * A._layout.itemsize for s in A._layout.strides]
        sizes, steps = collapse(batch, [strides[:-2]])
    count, step = (sizes[0], steps[0][0]) if sizes else (1, 0)
    work = empty_columns((*batch, m, n), A.dtype, A.device)
    tau = empty_tensor(Size((*batch, min(m, n))), A.dtype, A.device)
    Q = empty_columns((*batch, m, k), A.dtype, A.device) if wants_q else _nothing(A)
    R = empty_columns((*batch, k, n), A.dtype, A.device)
    launch(
        "qr", A, count, 4 * m * n * min(m, n),
        [m, n, k if wants_q else 0, k, *strides[-2:], step],
        pointer(A), pointer(work), pointer(tau), pointer(Q), pointer(R),
    )  # fmt: skip
    return Q, R
