"""Factors as results: LU, Cholesky and what is solved with a Cholesky factor.

Derivatives follow from differentiating the product of the factors and splitting the result into
triangles. Launchers are in eager/linalg_solving.py; the symmetric indefinite factoring (LDL) is in
linalg_ldl.py, orthogonal ones in linalg_orthogonal.py.
"""

from flambeau import _dtype as d
from flambeau.errors import warn_once
from flambeau.ops import linalg_checks as check
from flambeau.ops.linalg_solving import adjoint
from flambeau.ops.support import refuse_complex32
from flambeau.ops.table import composite, holds_anywhere, public, template
from flambeau.return_types import linalg_cholesky_ex as CholeskyEx
from flambeau.return_types import linalg_lu as LinalgLu
from flambeau.return_types import linalg_lu_factor as LuFactor
from flambeau.return_types import linalg_lu_factor_ex as LuFactorEx
from flambeau.return_types import lu_unpack as LuUnpack
from flambeau.return_types import triangular_solve as TriangularSolve

_PLAIN = "function method out"


def _triangular(A, B, upper, left=True, unit=False):
    return public("linalg_solve_triangular")(A, B, upper=upper, left=left, unitriangular=unit)


# -- LU -------------------------------------------------------------------------------------------


def _split(LU):
    """(L, U) of packed factors."""
    rows, columns = LU.shape[-2:]
    k = min(rows, columns)
    one = public("eye")(rows, k, dtype=LU.dtype, device=LU.device)
    return LU.narrow(-1, 0, k).tril(-1) + one, LU.narrow(-2, 0, k).triu()


def _plu_grad(gL, gU, P, L, U):
    """The gradient of A = P L U for gradients of L and U, of which either may be None.

    X = L⁻¹ Pᵀ dA U⁻¹ splits: dL = L tril(X, -1), dU = triu(X) U; what hangs over on the long side
    follows from that.
    """
    rows, columns, k = L.shape[-2], U.shape[-1], L.shape[-1]
    L1, U1 = L.narrow(-2, 0, k), U.narrow(-1, 0, k)
    inner = None
    if gL is not None:
        inner = (adjoint(L1) @ gL.narrow(-2, 0, k)).tril(-1)
    if gU is not None:
        upper = (gU.narrow(-1, 0, k) @ adjoint(U1)).triu()
        inner = upper if inner is None else inner + upper
    below = right = None
    if rows > k and gL is not None:
        gL2 = gL.narrow(-2, k, rows - k)
        inner = inner - (adjoint(L.narrow(-2, k, rows - k)) @ gL2).triu()
        below = _triangular(adjoint(U1), gL2, False, left=False)
    if columns > k and gU is not None:
        gU2 = gU.narrow(-1, k, columns - k)
        inner = inner - (gU2 @ adjoint(U.narrow(-1, k, columns - k))).tril(-1)
        right = _triangular(adjoint(L1), gU2, True, unit=True)
    first = _triangular(adjoint(L1), inner, True, unit=True)
    first = _triangular(adjoint(U1), first, False, left=False)
    cat = public("cat")
    if rows > k:
        below = first.new_zeros((*first.shape[:-2], rows - k, k)) if below is None else below
        first = cat([first, below], -2)
    elif columns > k:
        right = first.new_zeros((*first.shape[:-2], k, columns - k)) if right is None else right
        first = cat([first, right], -1)
    return first if P is None else P @ first


def _lu_factor_grad(g, out0, out1):
    L, U = _split(out0)
    k = L.shape[-1]
    P = public("_lu_permutation")(out1, out0.detach(), out0.shape[-2])
    return _plu_grad(g.narrow(-1, 0, k).tril(-1), g.narrow(-2, 0, k).triu(), P, L, U)


@template(
    "linalg_lu_factor_ex", variants="", outputs=3, grad=_lu_factor_grad,
    node="LinalgLuFactorExBackward0",
)  # fmt: skip
def _linalg_lu_factor_ex(A, pivot: bool = True, check_errors: bool = False):
    """(packed factors, pivots, info)."""


@composite(variants="out", bind=True, exact_out=True, outputs=3)
def linalg_lu_factor_ex(A, *, pivot: bool = True, check_errors: bool = False):
    """Packed LU factors, pivots, and which matrices are singular."""
    return LuFactorEx(public("_linalg_lu_factor_ex")(A, pivot, check_errors))


@composite(variants="out", bind=True, exact_out=True, outputs=2)
def linalg_lu_factor(A, *, pivot: bool = True):
    """Packed LU factors and pivots."""
    LU, pivots, info = public("_linalg_lu_factor_ex")(A, pivot, False)
    check.check_info(info, "torch.linalg.lu_factor", check.SINGULAR_FACTOR, RuntimeError)
    return LuFactor((LU, pivots))


@composite(variants="out", bind=True, exact_out=True, outputs=3)
def linalg_lu(A, *, pivot: bool = True):
    """P, L, U with A = P L U."""
    if A.ndim < 2:
        raise RuntimeError(
            f"linalg.lu: Expected tensor with 2 or more dimensions. Got size: {list(A.shape)} "
            "instead"
        )
    P, L, U = public("_linalg_lu")(A, pivot)
    return LinalgLu((P.detach(), L, U))


@composite(
    variants="",
    outputs=3,
    node="LinalgLuBackward0",
    joint_grad=lambda raw_gs, out0, out1, out2: _plu_grad(*raw_gs[1:], out0.detach(), out1, out2),
)
def _linalg_lu(A, pivot: bool):
    """P, L, U."""
    LU, pivots, _ = public("_linalg_lu_factor_ex")(A, pivot, False)
    return _unpacked(LU, pivots)


@template("linalg_permutation", variants="")
def _lu_permutation(LU_pivots, LU_data, rows: int):
    """Permutation matrices of pivots."""


def _unpacked(LU, pivots):
    P = public("_lu_permutation")(pivots, LU.detach(), LU.shape[-2])
    L, U = _split(LU)
    return P, L.contiguous(), U.contiguous()


@composite(variants="function out", bind=True, outputs=3)
def lu_unpack(LU_data, LU_pivots, unpack_data: bool = True, unpack_pivots: bool = True):
    """P, L and U from packed factors and pivots."""
    if LU_data.ndim < 2:
        raise RuntimeError(
            "torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: "
            f"{list(LU_data.shape)} instead"
        )
    if unpack_pivots and LU_pivots.dtype is not d.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
            "dtype.\nNote: this function is intended to be used with the output produced by "
            "torch.linalg.lu_factor"
        )
    if unpack_pivots and not LU_pivots.ndim:
        raise RuntimeError(
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you "
            "properly pass the result of lu_factor?"
        )
    if LU_data.numel():
        refuse_complex32("scatter_gather_scalar_cpu", LU_data)
    P = L = U = None
    if unpack_pivots:
        *batch, rows, columns = LU_data.shape
        pivots = LU_pivots[..., : min(rows, columns)]
        P = public("_lu_permutation")(pivots, LU_data.detach(), rows)
        P = P if P.shape[:-2] == tuple(batch) else P.expand(*batch, rows, rows).contiguous()
    if unpack_data:
        L, U = (t.contiguous() for t in _split(LU_data))
    return LuUnpack(LU_data.new_empty(0) if t is None else t for t in (P, L, U))


# -- Cholesky -------------------------------------------------------------------------------------


def _cholesky_grad(g, out, upper):
    """Half of L⁻ᴴ A L⁻¹, A being the lower half of Lᴴ gL and what mirrors it above."""
    L, gL = (adjoint(out), adjoint(g)) if upper else (out, g)
    inner = (adjoint(L) @ gL).tril()
    inner = inner + adjoint(inner.tril(-1))
    outer = _triangular(adjoint(L), inner, True)
    return _triangular(L, outer, False, left=False) * 0.5


def _cholesky_jvp(t, out, upper):
    """L times the lower half of L⁻¹ dA L⁻ᴴ."""
    L = adjoint(out) if upper else out
    inner = _triangular(L, t, False)
    inner = _triangular(adjoint(L), inner, True, left=False).tril()
    inner = inner - (inner.diagonal(0, -2, -1) * 0.5).diag_embed()
    found = L @ inner
    return adjoint(found) if upper else found


@template(
    "linalg_cholesky_ex", variants="", outputs=2, grad=_cholesky_grad, jvp=_cholesky_jvp,
    node="LinalgCholeskyExBackward0",
)  # fmt: skip
def _linalg_cholesky_ex(input, upper: bool = False, check_errors: bool = False):
    """(factor, info)."""


@composite(variants="out", bind=True, exact_out=True, outputs=2)
def linalg_cholesky_ex(input, *, upper: bool = False, check_errors: bool = False):
    """Cholesky factors, and which matrices are not positive-definite."""
    return CholeskyEx(public("_linalg_cholesky_ex")(input, upper, check_errors))


@composite(variants="out", exact_out=True)
def linalg_cholesky(input, *, upper: bool = False):
    """L with L Lᴴ = A (or U with Uᴴ U = A)."""
    found, info = public("_linalg_cholesky_ex")(input, upper, False)
    check.check_info(info, "linalg.cholesky", check.NOT_POSITIVE)
    return found


@template("cholesky", variants="", grad=_cholesky_grad, node="CholeskyBackward0")
def _cholesky(input, upper: bool = False):
    """The same under its old name."""


@composite(variants=_PLAIN, castable_out="cholesky: result")
def cholesky(input, upper: bool = False):
    """L with L Lᵀ = A (or U with Uᵀ U = A)."""
    warn_once(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a "
        "future PyTorch release.\nL = torch.cholesky(A)\nshould be replaced with\n"
        "L = torch.linalg.cholesky(A)\nand\nU = torch.cholesky(A, upper=True)\nshould be replaced "
        "with\nU = torch.linalg.cholesky(A).mH\nThis transform will produce equivalent results for "
        "all valid (symmetric positive definite) inputs."
    )
    return public("_cholesky")(input, upper)


@composite(variants=_PLAIN, castable_out="cholesky_solve: result")
def cholesky_solve(input, input2, upper: bool = False):
    """Solve A X = B by the Cholesky factor of A."""
    for name, t in (("b", input), ("u", input2)):
        if t.ndim < 2:
            raise RuntimeError(
                f"{name} should have at least 2 dimensions, but has {t.ndim} dimensions instead"
            )
    check.legacy_pair(input, input2, "cholesky_solve")
    check.has_kernel(input, "cholesky_solve_cpu", always=True)
    return _by_factor(input2, input, upper)


def _by_factor(factor, B, upper):
    first, last = (adjoint(factor), factor) if upper else (factor, adjoint(factor))
    return _triangular(last, _triangular(first, B, False), True)


@composite(variants=_PLAIN, castable_out="cholesky_inverse: result")
def cholesky_inverse(input, upper: bool = False):
    """The inverse of A from its Cholesky factor."""
    check.square(input, "cholesky_inverse")
    check.has_kernel(input, "cholesky_inverse_out_cpu", always=True)
    diagonal = input.detach().diagonal(0, -2, -1)
    if holds_anywhere(diagonal == 0):
        first = (diagonal == 0).to(d.int32)
        info = public("where")(first.any(-1), first.argmax(-1) + 1, 0)
        check.check_info(info, "cholesky_inverse", check.SINGULAR_INVERSE)
    n = input.shape[-1]
    one = public("eye")(n, dtype=input.dtype, device=input.device)
    return _by_factor(input, one.expand(input.shape), upper)


@composite(variants=_PLAIN, bind=True, outputs=2, exact_out=True)
def triangular_solve(
    input, A, upper: bool = True, transpose: bool = False, unitriangular: bool = False
):
    """Solve A X = B where A is triangular."""
    for name, t in (("b", input), ("A", A)):
        if t.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it "
                f"has {t.ndim} dimensions instead"
            )
    warn_once(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be "
        "removed in a future PyTorch release.\ntorch.linalg.solve_triangular has its arguments "
        "reversed and does not return a copy of one of the inputs.\nX = torch.triangular_solve(B, "
        "A).solution\nshould be replaced with\nX = torch.linalg.solve_triangular(A, B)."
    )
    check.legacy_pair(input, A, "triangular_solve")
    check.has_kernel(A, "triangular_solve_cpu", always=True)
    matrix = A.transpose(-2, -1) if transpose else A
    found = _triangular(matrix, input, upper != transpose, unit=unitriangular)
    batch = found.shape[:-2]
    copied = A.expand(*batch, *A.shape[-2:]).transpose(-2, -1).clone().transpose(-2, -1)
    return TriangularSolve((found, copied))
