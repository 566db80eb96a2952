"""Functions of matrices and products of them: powers, the exponential, chains, vander, vecdot.

All are composites of matrix products. The exponential is a Padé approximant of a scaled matrix,
squared back up; its derivative is a corner of the exponential of a matrix twice the size.
"""

import functools
import itertools
import operator

from flambeau import _dtype as d
from flambeau.codegen import scalar as m
from flambeau.ops import linalg_checks as check
from flambeau.ops.linalg_solving import adjoint
from flambeau.ops.support import refuse_complex32
from flambeau.ops.table import OptionalTensor, Tensors, composite, public

_PLAIN = "function method out"


@composite(variants="")
def linalg_diagonal(A, *, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """The diagonal of matrices, a view."""
    return A.diagonal(offset, dim1, dim2)


# -- powers ---------------------------------------------------------------------------------------


def _power(A, n):
    if n >= 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    check.square(A, "linalg.matrix_power")
    if n == 0:
        return A.clone().copy_(public("eye")(A.shape[-1], dtype=A.dtype, device=A.device))
    if n < 0:
        A, n = public("linalg_inv")(A), -n
    if n == 1:
        return A.clone()
    found = None
    while n:  # by squaring
        if n & 1:
            found = A if found is None else found @ A
        n >>= 1
        if n:
            A = A @ A
    return found


@composite(variants="out", exact_out=True, castable_out="matrix_power: result")
def linalg_matrix_power(input, n: int):
    """Products of n copies of a matrix, or of its inverse."""
    return _power(input, n)


@composite(variants=_PLAIN)
def matrix_power(input, n: int):
    """Products of n copies of a matrix, or of its inverse."""
    return _power(input, n)


# -- the exponential ------------------------------------------------------------------------------

# Numerators of diagonal Padé approximants of exp, and the 1-norms up to which they are exact to
# rounding: degree 7 in single precision, 13 in double (Higham, 2005).
_PADE = {
    7: (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1),
    13: (
        64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800,
        129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800,
        960960, 16380, 182, 1,
    ),
}  # fmt: skip
_REACH = {7: 3.925724783138660, 13: 5.371920351148152}


def _approximant(A, degree):
    b = _PADE[degree]
    one = public("eye")(A.shape[-1], dtype=A.dtype, device=A.device)
    squares = [one, A @ A]
    while len(squares) <= min(3, degree // 2):
        squares.append(squares[1] @ squares[-1])

    def polynomial(coefficients):
        low = sum(c * s for c, s in zip(coefficients[:4], squares))
        if len(coefficients) <= 4:
            return low
        return low + squares[3] @ sum(c * s for c, s in zip(coefficients[4:], squares[1:]))

    odd, even = A @ polynomial(b[1::2]), polynomial(b[0::2])
    return public("linalg_solve_ex")(even - odd, even + odd)[0]


def _exponential(A):
    if A.numel() == 0 or not A.device.runtime.computes:
        return public("empty_like")(A)
    degree = 7 if A.dtype.to_real() is d.float32 else 13
    size = A.abs().sum(-2).amax(-1)
    doublings = (size / _REACH[degree]).log2().ceil().clamp_min(0)
    # without an end there is no scaling: nan and infinity find their own way
    doublings = doublings.masked_fill(~doublings.isfinite(), 0)
    scale = (-doublings).exp2().to(A.dtype)
    found = _approximant(A * scale[..., None, None], degree)
    for step in range(int(doublings.amax().item())):
        squared = found @ found
        found = public("where")((doublings > step)[..., None, None], squared, found)
    return found.contiguous()


def _exponential_grad(g, input):
    n = input.shape[-1]
    A = adjoint(input)
    cat = public("cat")
    upper = cat([A, g], -1)
    lower = cat([g * 0, A], -1)
    return public("linalg_matrix_exp")(cat([upper, lower], -2)).narrow(-2, 0, n).narrow(-1, n, n)


@composite(variants="", grad=lambda g, input: _exponential_grad(g, input))
def linalg_matrix_exp(input):
    """The exponential of square matrices."""
    check.square(input, "linalg.matrix_exp")
    check.floating(input, "linalg.matrix_exp")
    refuse_complex32("bmm" if input.shape[-1] > 1 else "exp_vml_cpu", input)
    if input.dtype in check.HALF:
        return _exponential(input.to(d.float32)).to(input.dtype)
    return _exponential(input)


@composite(variants="function method")
def matrix_exp(input):
    """The exponential of square matrices."""
    return public("linalg_matrix_exp")(input)


# -- products -------------------------------------------------------------------------------------


def _cheapest(sizes):
    """split(i, j): where to cut the product of matrices i .. j last."""

    @functools.cache
    def cost(i, j):
        if i == j:
            return 0, None
        found = [
            (cost(i, k)[0] + cost(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
            for k in range(i, j)
        ]
        # of equal costs the first; three matrices are multiplied from the left, as PyTorch does
        return min(found, key=lambda pair: (pair[0], -pair[1] if len(sizes) == 4 else pair[1]))

    return lambda i, j: cost(i, j)[1]


def _check_chain(tensors):
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    for label, t in (("first", tensors[0]), ("last", tensors[-1])):
        if t.ndim not in (1, 2):
            raise RuntimeError(
                f"multi_dot(): the {label} tensor must be 1D or 2D but got {t.ndim}D"
            )
    for k, t in enumerate(tensors[1:-1], 1):
        if t.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {k} must be 2D but got {t.ndim}D")
    kind = tensors[0].dtype
    for k, t in enumerate(tensors):
        if t.dtype is not kind:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{kind.cpp_name} and tensor {k} {t.dtype.cpp_name}"
            )


@composite(
    variants="out",
    bind=True,
    exact_out="multi_dot(): expected out tensor to have dtype {wanted.cpp_name} but got "
    "{got.cpp_name}",
)
def linalg_multi_dot(tensors: Tensors):
    """The product of several matrices, in the cheapest order."""
    _check_chain(tensors)
    first, last = tensors[0], tensors[-1]
    chain = list(tensors)
    if first.ndim == 1:
        chain[0] = first.unsqueeze(0)
    if last.ndim == 1:
        chain[-1] = last.unsqueeze(1)
    for k, (a, b) in enumerate(itertools.pairwise(chain)):
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {k} and {k + 1} with shapes {list(a.shape)} and "
                f"{list(b.shape)} cannot be multiplied"
            )
    split = _cheapest([t.shape[0] for t in chain] + [chain[-1].shape[1]])

    def multiply(i, j):
        if i == j:
            return chain[i]
        k = split(i, j)
        return multiply(i, k).mm(multiply(k + 1, j))

    rows = () if first.ndim == 1 else first.shape[:1]
    columns = () if last.ndim == 1 else last.shape[1:]
    return multiply(0, len(chain) - 1).view((*rows, *columns))


@composite(
    variants="out",
    bind=True,
    exact_out="linalg.vecdot: Expected out of dtype{wanted.scalar_name} but found "
    "{got.scalar_name}",
)
def linalg_vecdot(x, y, *, dim: int = -1):
    """Products of vectors along a dimension, the first conjugated."""
    check.floating(x, "linalg.vecdot")
    check.same_dtype(x, y, "linalg.vecdot", ("x", "y"))
    if x.ndim == 1 and y.ndim == 1:
        return x.vdot(y)
    return (m.conj(x) * y).sum(dim)


@composite(variants="", bind=True)
def linalg_vander(x, *, N: int | None = None):
    """Powers 0, 1, ... N - 1 of the elements, along a new last dimension."""
    if x.dtype in check.HALF or x.dtype is d.bool_:
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{x.dtype.scalar_name}"
        )
    n = N if N is not None else (x.shape[-1] if x.ndim else 1)
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    if x.dtype.category < d.FLOATING:
        x = x.to(d.int64)
    column = (x if x.ndim else x.unsqueeze(0)).unsqueeze(-1)
    powers = column.expand(*column.shape[:-1], n - 1).cumprod(-1)
    return public("cat")([public("ones_like")(column), powers], -1)


# -- few singular values of large matrices --------------------------------------------------------


def _basis(A, q, rounds, M):
    """Orthonormal columns that nearly span what A maps onto (Halko et al., 2009)."""
    if M is not None:
        A = A - M
    rounded = A.dtype.category < d.FLOATING or A.dtype is d.bfloat16
    dtype = d.float32 if rounded else A.dtype
    R = public("empty")((A.shape[-1], q), dtype=dtype, device=A.device).normal_()
    orthonormal = public("linalg_qr")
    Q = orthonormal(A @ R)[0]
    for _ in range(rounds):
        Q = orthonormal(adjoint(A) @ Q)[0]
        Q = orthonormal(A @ Q)[0]
    return Q


def _check_columns(q):
    try:
        operator.index(q)
    except TypeError:
        raise TypeError(
            "randn(): argument 'size' failed to unpack the object at pos 2 with error "
            f'"type must be tuple of ints,but got {type(q).__name__}"'
        ) from None


def _low_rank(A, q, rounds, M):
    rows, columns = A.shape[-2:]
    if M is not None:
        M = M.expand(A.shape)
    _check_columns(q)
    if M is not None:
        kind = A.dtype if A.dtype.category >= d.FLOATING else d.float32
        for t in (A, M):
            if t.dtype is not kind:
                raise RuntimeError(
                    "expected m1 and m2 to have the same dtype, but got: "
                    f"{t.dtype.cpp_name} != {kind.cpp_name}"
                )
    wide = rows < columns
    if wide:
        A, M = adjoint(A), None if M is None else adjoint(M)
    Q = _basis(A, q, rounds, M)
    B = adjoint(Q) @ (A if M is None else A - M)
    U, S, Vh = public("linalg_svd")(B, False)
    U, V = Q @ U, adjoint(Vh)
    return (V, S, U) if wide else (U, S, V)


@composite(variants="function", bind=True, python=True)
def svd_lowrank(A, q: object = 6, niter: object = 2, M: OptionalTensor = None):
    """U, S, V of a matrix that is nearly of rank q, by random projections."""
    return _low_rank(A, 6 if q is None else q, 2 if niter is None else niter, M)


@composite(variants="function", bind=True, python=True)
def pca_lowrank(A, q: object = None, center: object = True, niter: object = 2):
    """Principal components: svd_lowrank of the centred matrix."""
    rows, columns = A.shape[-2:]
    if q is None:
        q = min(6, rows, columns)
    elif not 0 <= q <= min(rows, columns):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)="
            f"{min(rows, columns)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - A.mean(-2, keepdim=True)
    return _low_rank(A, q, niter, None)
