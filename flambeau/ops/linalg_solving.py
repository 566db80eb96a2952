"""Systems of equations: solve, inv, determinants, triangular and factored systems.

A solution is factored once: derivatives solve again with the factors that the forward pass kept
(`_linalg_factored_solve`, which differentiates as a function of the matrix itself). LU and Cholesky
factors as results are in linalg_factors.py; launchers in eager/linalg_solving.py.
"""

from math import prod

from flambeau import _dtype as d
from flambeau.codegen import scalar as m
from flambeau.ops import linalg_checks as check
from flambeau.ops.table import IntList, composite, holds_anywhere, public, template
from flambeau.return_types import linalg_inv_ex as InvEx
from flambeau.return_types import linalg_slogdet as LinalgSlogdet
from flambeau.return_types import linalg_solve_ex as SolveEx
from flambeau.return_types import slogdet as Slogdet

_PLAIN = "function method out"


def adjoint(t):
    return m.conj(t.transpose(-2, -1))


def _again(A, LU, pivots, B, left, adjoint):
    return public("_linalg_factored_solve")(A, LU.detach(), pivots, B, left, adjoint)


# -- solutions that keep their factors ------------------------------------------------------------


def _again_grad(g, A, LU, pivots, out, left, adjoint, needs):
    gA, gB = _solved_grad(g, A, LU, pivots, out, left, adjoint, needs[0])
    return gA, None, None, gB


def _solved_grad(g, A, LU, pivots, X, left, adjointed, wants_matrix):
    """Gradients for A and B of X with op(A) X = B (or X op(A) = B), op the adjoint or nothing."""
    gB = _again(A, LU, pivots, g, left, not adjointed)
    if not wants_matrix:
        return None, gB
    # of op(A) it is -gB Xᴴ (or -Xᴴ gB); of A, that or its adjoint
    if adjointed:
        gA = X @ adjoint(gB) if left else adjoint(gB) @ X
    else:
        gA = gB @ adjoint(X) if left else adjoint(X) @ gB
    return -gA, gB


@template(
    "linalg_factored_solve", variants="function", joint_grad=_again_grad,
    node="LinalgSolveExBackward0",
)  # fmt: skip
def _linalg_factored_solve(A, LU, pivots, B, left: bool, adjoint: bool):
    """Solve with A (or its adjoint) once more, by factors that are at hand."""


@template(
    "linalg_solve_ex", variants="function", outputs=4,
    joint_grad=lambda g, A, out0, out1, out2, left, needs: _solved_grad(
        g, A, out1, out2, out0, left, False, needs[0]
    ),
)  # fmt: skip
def _linalg_solve_ex(A, B, *, left: bool = True):
    """(X with A X = B, or X A = B; LU; pivots; info)."""


def _is_vector(A, B):
    """Is B one vector, or a batch of vectors?"""
    return B.ndim == 1 or (B.ndim + 1 == A.ndim and B.shape == A.shape[:-1])


def _solve(A, B, left, check_errors, name):
    vector = A.ndim > 1 and _is_vector(A, B)
    if vector and not left and A.shape[-2:] == (1, 1):
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for "
            "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    X, _, _, info = public("_linalg_solve_ex")(A, B.unsqueeze(-1) if vector else B, left=left)
    if check_errors:
        check.check_info(info, name, check.SINGULAR_SOLVE)
    return (X.squeeze(-1) if vector else X), info


@composite(variants="out", bind=True, exact_out=True, outputs=2)
def linalg_solve_ex(A, B, *, left: bool = True, check_errors: bool = False):
    """Solve A X = B (or X A = B); info says which matrices were singular."""
    return SolveEx(_solve(A, B, left, check_errors, "torch.linalg.solve_ex"))


@composite(variants="out", exact_out=True)
def linalg_solve(A, B, *, left: bool = True):
    """Solve A X = B (or X A = B)."""
    return _solve(A, B, left, True, "torch.linalg.solve")[0]


@template(
    "linalg_inv_ex", variants="", outputs=2, node="LinalgInvExBackward0",
    grad=lambda g, out: -(adjoint(out) @ g @ adjoint(out)),
)  # fmt: skip
def _linalg_inv_ex(A, check_errors: bool = False):
    """Inverses and error codes."""


@composite(variants="out", bind=True, exact_out=True, outputs=2)
def linalg_inv_ex(A, *, check_errors: bool = False):
    """Inverses; info says which matrices were singular."""
    return InvEx(public("_linalg_inv_ex")(A, check_errors))


def _inverse(A, name="linalg.inv"):
    found, info = public("_linalg_inv_ex")(A, False)
    check.check_info(info, name, check.SINGULAR_INVERSE)
    return found


@composite(variants="out", exact_out=True)
def linalg_inv(A):
    """Inverses of square matrices."""
    return _inverse(A)


@composite(variants=_PLAIN, exact_out=True)
def inverse(input):
    """Inverses of square matrices."""
    return _inverse(input)


# -- determinants ---------------------------------------------------------------------------------


def _det_grad(g, A, out0, out1, out2):
    """g conj(det) A⁻ᴴ; a zero on the diagonal of U is nudged, so that rank n - 1 comes right."""
    LU, diagonal = out1.detach(), out1.detach().diagonal(0, -2, -1)
    determinant = out0
    singular = diagonal == 0
    if holds_anywhere(singular):
        nudge = singular.to(LU.dtype) * d.finfo(LU.dtype).eps
        LU = LU + nudge.diag_embed()
        k = LU.shape[-1]
        places = public("arange")(1, k + 1, dtype=d.int32)
        odd = (out2 != places).sum(-1).bitwise_and(1)
        nudged = LU.diagonal(0, -2, -1).prod(-1) * (1 - 2 * odd)
        determinant = public("where")(singular.any(-1), nudged, determinant)
    scale = (g * m.conj(determinant)).unsqueeze(-1).expand(A.shape[:-1])
    return _again(A, LU, out2, scale.diag_embed(), True, True)


@template("linalg_det", variants="", outputs=3, grad=_det_grad)
def _linalg_det(A):
    """(determinants, LU, pivots)."""


@composite(variants="out", exact_out=True)
def linalg_det(A):
    """Determinants of square matrices."""
    return public("_linalg_det")(A)[0]


@composite(variants="function method", exact_out=True)
def det(input):
    """Determinants of square matrices."""
    return public("_linalg_det")(input)[0]


def _slogdet_grad(raw_gs, A, out0, out2, out3):
    g_sign, g_log = raw_gs[:2]
    scale = g_log
    if A.is_complex():
        turn = None if g_sign is None else -(m.conj(g_sign) * out0).imag
        if turn is None:
            scale = g_log.to(A.dtype)
        else:
            zero = turn.new_zeros(()) if g_log is None else g_log
            scale = public("complex")(zero.expand(turn.shape), turn)
    elif g_log is None:  # signs do not change
        return (A * 0,)
    scale = scale.unsqueeze(-1).expand(A.shape[:-1])
    return (_again(A, out2, out3, scale.diag_embed(), True, True),)


@template("linalg_slogdet", variants="", outputs=4, joint_grad=_slogdet_grad)
def _linalg_slogdet(A):
    """(signs, logarithms of absolute determinants, LU, pivots)."""


@composite(variants="out", bind=True, exact_out=True, outputs=2)
def linalg_slogdet(A):
    """Determinants as a sign and the logarithm of an absolute value."""
    return LinalgSlogdet(public("_linalg_slogdet")(A)[:2])


@composite(variants="function method out", bind=True, exact_out=True, outputs=2)
def slogdet(input):
    """Determinants as a sign and the logarithm of an absolute value."""
    return Slogdet(public("_linalg_slogdet")(input)[:2])


@composite(variants="function method")
def logdet(input):
    """Logarithms of determinants; nan where a determinant is negative."""
    check.square(input, "logdet")
    check.floating(input, "logdet", low_precision=False)
    sign, log = public("_linalg_slogdet")(input)[:2]
    if input.is_complex():
        return log + sign.log()
    return public("where")(sign == -1, log.new_full((), float("nan")), log)


# -- triangular systems ---------------------------------------------------------------------------


def _triangle(t, upper, unit):
    return t.triu(int(unit)) if upper else t.tril(-int(unit))


def _triangular_grad(g, input, out, upper, left, unitriangular, needs):
    gB = public("linalg_solve_triangular")(
        adjoint(input), g, upper=not upper, left=left, unitriangular=unitriangular
    )
    if not needs[0]:
        return None, gB
    gA = -(gB @ adjoint(out) if left else adjoint(out) @ gB)
    return _triangle(gA, upper, unitriangular), gB


@template(
    "linalg_solve_triangular",
    variants="out",
    joint_grad=_triangular_grad,
    exact_out="expected scalar type {wanted.scalar_name} but found {got.scalar_name}",
)
def linalg_solve_triangular(
    input, B, *, upper: bool, left: bool = True, unitriangular: bool = False
):
    """Solve A X = B (or X A = B) where A is triangular; the other triangle is not read."""


# -- systems by LU factors ------------------------------------------------------------------------


def _lu_solve_grad(g, LU, pivots, out, left, adjoint, needs):
    gB = public("linalg_lu_solve")(LU, pivots, g, left=left, adjoint=not adjoint)
    if not needs[0]:
        return None, None, gB
    return _lu_grad_of_solution(gB, LU, pivots, out, left, adjoint), None, gB


def _lu_grad_of_solution(gB, LU, pivots, X, left, adjointed):
    if adjointed:
        gA = X @ adjoint(gB) if left else adjoint(gB) @ X
    else:
        gA = gB @ adjoint(X) if left else adjoint(X) @ gB
    P, L, U = public("lu_unpack")(LU, pivots)
    gA = -(P.transpose(-2, -1) @ gA)
    return (gA @ adjoint(U)).tril(-1) + (adjoint(L) @ gA).triu()


@template(
    "linalg_lu_solve", variants="out", edges="LU B", joint_grad=_lu_solve_grad, exact_out=True
)
def linalg_lu_solve(LU, pivots, B, *, left: bool = True, adjoint: bool = False):
    """Solve a system by the LU factors of its matrix."""


@composite(variants=_PLAIN, exact_out=True)
def lu_solve(input, LU_data, LU_pivots):
    """Solve a system by the LU factors of its matrix."""
    return public("linalg_lu_solve")(LU_data, LU_pivots, input)


# -- systems of tensors ---------------------------------------------------------------------------


@composite(variants="out", castable_out="tensorinv: result")
def linalg_tensorinv(input, ind: int = 2):
    """The inverse with respect to tensordot: the first `ind` dimensions against the others."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    if ind > input.ndim:
        raise RuntimeError(f"ArrayRef: invalid slice, N = {ind}; size = {input.ndim}")
    start, end = tuple(input.shape[:ind]), tuple(input.shape[ind:])
    if prod(start) != prod(end):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {prod(end)} != {prod(start)}"
        )
    found = _inverse(input.reshape(prod(end), prod(start)), "inv")
    return found.reshape(end + start)


@composite(variants="out", bind=True, castable_out="tensorsolve: result")
def linalg_tensorsolve(input, other, dims: IntList = None):
    """X with tensordot(input, X, X.ndim) = other."""
    if dims is not None:
        dims = [dims] if isinstance(dims, int) else list(dims)
        input = input.movedim(dims, list(range(input.ndim - len(dims), input.ndim)))
    rest = tuple(input.shape[other.ndim :])
    n = prod(rest)
    if n != other.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {n} != {other.numel()}"
        )
    return public("linalg_solve")(input.reshape(n, n), other.reshape(n)).reshape(rest)
