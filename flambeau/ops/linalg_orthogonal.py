"""Orthogonal factors: QR, products of reflectors, least squares.

A product of reflectors I - τ v vᴴ is I - V T Vᴴ with a triangular T that follows from τ and VᴴV, so
householder_product and ormqr are matrix products and one triangular system, and differentiate by
themselves. Launchers of QR: eager/linalg_reflectors.py.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import broadcast_shape
from flambeau.errors import warn_once
from flambeau.ops import linalg_checks as check
from flambeau.ops.linalg_solving import _is_vector, adjoint
from flambeau.ops.linalg_spectra import pinv_grad
from flambeau.ops.table import composite, holds_anywhere, public, template
from flambeau.return_types import geqrf as Geqrf
from flambeau.return_types import linalg_lstsq as Lstsq
from flambeau.return_types import linalg_qr as LinalgQr
from flambeau.return_types import qr as Qr

_PLAIN = "function method out"


def _qr_grad(raw_gs, A_shape, out0, out1, mode):
    gQ, gR = raw_gs
    rows, columns = A_shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
            "use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    if mode == "complete" and rows > columns:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    Q, R = out0, out1
    k = Q.shape[-1]
    beside = None
    if columns > k:  # columns on the right are Q times theirs in R
        R2 = R.narrow(-1, k, columns - k)
        R = R.narrow(-1, 0, k)
        beside = Q.new_zeros((*Q.shape[:-1], columns - k))
        if gR is not None:
            gR2 = gR.narrow(-1, k, columns - k)
            gR = gR.narrow(-1, 0, k)
            beside = Q @ gR2
            turned = -(beside @ adjoint(R2))
            gQ = turned if gQ is None else gQ + turned
    inner = 0
    if gR is not None:
        inner = gR @ adjoint(R)
    if gQ is not None:
        inner = inner - adjoint(Q) @ gQ
    inner = inner.triu()
    inner = inner + adjoint(inner)
    inner = inner - (inner.diagonal(0, -2, -1) * 0.5).diag_embed()
    found = Q @ inner if gQ is None else gQ + Q @ inner
    found = public("linalg_solve_triangular")(adjoint(R), found, upper=False, left=False)
    return found if beside is None else public("cat")([found, beside], -1)


@template(
    "linalg_qr", variants="", outputs=2, joint_grad=_qr_grad,
    node="LinalgQrBackward0",
)  # fmt: skip
def _linalg_qr(A, mode: str = "reduced"):
    """(Q, R)."""


@composite(variants="out", bind=True, exact_out=True, outputs=2)
def linalg_qr(A, mode: str = "reduced"):
    """Q with orthonormal columns and R upper triangular, A = Q R."""
    return LinalgQr(public("_linalg_qr")(A, mode))


@composite(variants=_PLAIN, bind=True, outputs=2, exact_out=True)
def qr(input, some: bool = True):
    """Q with orthonormal columns and R upper triangular, A = Q R."""
    warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future "
        "PyTorch release.\nThe boolean parameter 'some' has been replaced with a string parameter "
        "'mode'.\nQ, R = torch.qr(A, some)\nshould be replaced with\nQ, R = torch.linalg.qr(A, "
        "'reduced' if some else 'complete')"
    )
    return Qr(public("_linalg_qr")(input, "reduced" if some else "complete"))


def _no_derivative(g):
    raise NotImplementedError("the derivative for 'geqrf' is not implemented.")


@template("geqrf", variants="", outputs=2, grad=_no_derivative, node="GeqrfBackward0")
def _geqrf(input):
    """(R above reflectors, their factors)."""


@composite(variants=_PLAIN, bind=True, outputs=2, castable_out="torch.geqrf: a tau")
def geqrf(input):
    """QR as LAPACK packs it: R, the reflectors below it, and their factors."""
    return Geqrf(public("_geqrf")(input))


# -- products of reflectors -----------------------------------------------------------------------


def _check_reflectors(name, input, tau):
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")


def _check_tau(name, input, tau):
    if not tau.ndim and "householder" in name:
        raise errors.no_dimensions(-1)
    if tau.ndim != input.ndim - 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal "
            f"to {tau.ndim} and input.ndim is equal to {input.ndim}"
        )
    if tau.shape[:-1] != input.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(tau.shape[:-1])}"
        )


def unit_trapezoid(input, count):
    """V: unit lower trapezoids."""
    one = public("eye")(input.shape[-2], count, dtype=input.dtype, device=input.device)
    return input.narrow(-1, 0, count).tril(-1) + one


def apply_inner(V, tau, right, transposed):
    """T right, or Tᴴ right, where T = (I + diag(τ) striu(VᴴV))⁻¹ diag(τ)."""
    system = tau.unsqueeze(-1) * (adjoint(V) @ V).triu(1)
    solve = public("linalg_solve_triangular")
    if transposed:
        found = solve(adjoint(system), right, upper=False, unitriangular=True)
        return adjoint(tau.unsqueeze(-2)) * found
    return solve(system, tau.unsqueeze(-1) * right, upper=True, unitriangular=True)


@composite(variants="out", bind=True, castable_out="torch.linalg.householder_product: result")
def linalg_householder_product(input, tau):
    """The first columns of a product of reflectors, as geqrf leaves them."""
    name = "torch.linalg.householder_product"
    _check_reflectors(name, input, tau)
    rows, columns = input.shape[-2:]
    if rows < columns:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if tau.shape and columns < tau.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    _check_tau(name, input, tau)
    if tau.dtype is not input.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {tau.dtype.scalar_name} does not match input dtype "
            f"{input.dtype.scalar_name}"
        )
    check.has_kernel(input, "orgqr_cpu", always=True)
    one = public("eye")(rows, columns, dtype=input.dtype, device=input.device)
    V = unit_trapezoid(input, tau.shape[-1])
    found = one - V @ apply_inner(V, tau, adjoint(V.narrow(-2, 0, columns)), False)
    return found.transpose(-2, -1).contiguous().transpose(-2, -1)


@composite(variants=_PLAIN, castable_out="torch.linalg.householder_product: result")
def orgqr(input, input2):
    """The first columns of a product of reflectors, as geqrf leaves them."""
    return public("linalg_householder_product")(input, input2)


@composite(
    variants=_PLAIN,
    exact_out="torch.ormqr: Expected input and result to have the same dtype, but input has dtype"
    "{wanted.scalar_name} and result has dtype {got.scalar_name}",
)
def ormqr(input, input2, input3, left: bool = True, transpose: bool = False):
    """A matrix times the full orthogonal factor that geqrf left (or its adjoint)."""
    tau, other = input2, input3
    name = "torch.ormqr"
    for label, t in (("input", input), ("other", other)):
        if t.ndim < 2:
            raise RuntimeError(f"{name}: {label} must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.shape[side] != input.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if tau.shape[-1] != min(other.shape[side], input.shape[-1]):
        raise RuntimeError(
            f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    _check_tau(name, input, tau)
    if other.shape[:-2] != input.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of other to be equal to input.shape[:-2], but got "
            f"{list(other.shape[:-2])}"
        )
    for label, t in (("tau", tau), ("other", other)):
        if t.dtype is not input.dtype:
            raise RuntimeError(
                f"{name}: Expected input and {label} to have the same dtype, but input has dtype"
                f"{input.dtype.scalar_name} and {label} has dtype {t.dtype.scalar_name}"
            )
    check.has_kernel(input, "ormqr_cpu")
    V = unit_trapezoid(input, tau.shape[-1])
    if left:
        found = other - V @ apply_inner(V, tau, adjoint(V) @ other, transpose)
    else:
        found = other - (other @ V) @ apply_inner(V, tau, adjoint(V), transpose)
    return found.transpose(-2, -1).contiguous().transpose(-2, -1)


# -- least squares --------------------------------------------------------------------------------


def _lstsq_grad(raw_gs, input, other, out0, needs):
    gX, gR = raw_gs[:2]
    gA = gB = None
    if gX is not None:
        P = public("linalg_pinv")(input)
        gB = adjoint(P) @ gX
        if needs[0]:
            gA = pinv_grad(gX @ adjoint(other), input, P)
    if gR is not None and gR.numel():
        # at the solution the residual does not change with it
        error = (input @ out0 - other) * (2 * gR.unsqueeze(-2))
        gB = -error if gB is None else gB - error
        if needs[0]:
            more = error @ adjoint(out0)
            gA = more if gA is None else gA + more
    return gA, gB


def _gels(A, B):
    """By QR (or LQ, where A is wide): A has full rank."""
    solve = public("linalg_solve_triangular")
    wide = A.shape[-2] < A.shape[-1]
    Q, R = public("_linalg_qr")(adjoint(A) if wide else A, "reduced")
    zeros = R.diagonal(0, -2, -1) == 0
    if A.device.type != "cuda" and holds_anywhere(zeros):  # there PyTorch does not look
        code = getattr(zeros, "_bottom", zeros).to(d.int32).argmax(-1).amax().item() + 1
        raise check.LinAlgError(
            "torch.linalg.lstsq: The least squares solution could not be computed because the "
            f"input matrix does not have full rank (error code: {code})."
        )
    if wide:
        return Q @ solve(adjoint(R), B, upper=False)
    return solve(R, adjoint(Q) @ B, upper=True)


def _counted(S, rcond, driver):
    """Which singular values count, with limits out of bounds as LAPACK's drivers take them."""
    limits = d.finfo(S.dtype)
    if driver == "gelsy":  # the largest counts whatever the limit is
        place = public("arange")(S.shape[-1], device=S.device)
        return ((rcond * S.narrow(-1, 0, 1) <= S) | (place == 0)) & (S > 0)
    if rcond < 0 or (driver == "gelsd" and not 0 < rcond < 1):
        rcond = limits.eps
    return (rcond * S.narrow(-1, 0, 1)).clamp(min=limits.tiny) < S


def _by_singular_values(A, B, rcond, driver):
    """(the shortest solution, rank, singular values)."""
    U, S, Vh = public("_linalg_svd")(A, False, True, None)
    if rcond is None:
        rcond = d.finfo(S.dtype).eps * max(A.shape[-2:])
    if not S.shape[-1]:
        return A.new_zeros((*B.shape[:-2], A.shape[-1], B.shape[-1])), S.sum(-1).to(d.int64), S
    keep = _counted(S, rcond, driver)
    scale = public("where")(keep, 1 / S, 0.0).unsqueeze(-1)
    return adjoint(Vh) @ (scale * (adjoint(U) @ B)), keep.sum(-1), S


@composite(variants="", outputs=4, joint_grad=_lstsq_grad, node="LinalgLstsqBackward0")
def _linalg_lstsq(input, other, rcond: object, driver: str):
    """(solution, residuals, rank, singular values) for matrices of one batch shape."""
    rows, columns = input.shape[-2:]
    nothing = input.new_empty(0, dtype=input.dtype.to_real())
    rank, values = input.new_empty(0, dtype=d.int64), nothing
    if driver == "gels":
        X = _gels(input, other)
    else:
        X, rank, S = _by_singular_values(input, other, rcond, driver)
        rank = rank if other.shape[-1] else rank * 0  # as LAPACK, which then does not look
        values = S if driver in ("gelsd", "gelss") else nothing
    residuals = nothing
    full = driver == "gels" or not holds_anywhere(rank != columns)
    if rows > columns and driver != "gelsy" and full:
        error = (input @ X - other).abs()
        residuals = (error * error).sum(-2)
    return X, residuals, rank, values


@composite(
    variants="out",
    bind=True,
    outputs=4,
    castable_out="torch.linalg.lstsq: solution solution rank singular_values",
)
def linalg_lstsq(input, b, rcond: float | None = None, *, driver: str | None = None):
    """Least squares: X that makes |A X - B| small, the shortest where there are several."""
    name = "torch.linalg.lstsq"
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if input.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype "
            f"{input.dtype.scalar_name} and other's dtype {b.dtype.scalar_name}"
        )
    if not 0 <= input.ndim - b.ndim <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - "
            "other.dim()) <= 1"
        )
    vector = b.ndim == 1 or _is_vector(input, b)
    if input.shape[-2] != b.shape[-1 if vector else -2]:
        raise RuntimeError(
            f"{name}: input.size(-2) should match other.size({-1 if vector else -2})"
        )
    on_gpu = input.device.type == "cuda"
    if on_gpu and driver not in (None, "gels"):
        raise RuntimeError(f"{name}: `driver` other than `gels` is not supported on CUDA")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    if input.dtype.category < d.FLOATING or input.dtype in check.HALF:
        if rcond is not None:  # else PyTorch asks for the precision of the dtype first
            raise errors.not_implemented("linalg_lstsq_cpu", input.dtype)
        raise RuntimeError("This function doesn't handle types other than float and double")
    right = b.unsqueeze(-1) if vector else b
    batch = broadcast_shape(input.shape[:-2], right.shape[:-2])
    input = input.expand(*batch, *input.shape[-2:])
    right = right.expand(*batch, *right.shape[-2:])
    default = "gels" if on_gpu else "gelsy"
    found = public("_linalg_lstsq")(input, right, rcond, driver or default)
    X, residuals, rank, values = found
    return Lstsq((X.squeeze(-1) if vector else X, residuals, rank, values.detach()))
