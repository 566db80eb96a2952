"""Singular values and eigenvalues, and what is counted or inverted with them: rank and pinv.

Derivatives divide by differences of (squared) values, so equal values have none for their vectors;
values alone are fine. Vectors of complex matrices are known up to a phase: a loss that depends on
it is refused in PyTorch's words. Launchers: eager/linalg_spectra.py.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau.codegen import scalar as m
from flambeau.ops import linalg_checks as check
from flambeau.ops.linalg_solving import adjoint
from flambeau.ops.support import refuse_gradient
from flambeau.ops.table import MISSING, composite, holds_anywhere, public, template
from flambeau.return_types import linalg_eig as Eig
from flambeau.return_types import linalg_eigh as Eigh
from flambeau.return_types import linalg_svd as LinalgSvd
from flambeau.return_types import svd as Svd

_PLAIN = "function method out"


def _unit(t, n):
    return public("eye")(n, dtype=t.dtype, device=t.device)


def _diagonal(t):
    return t.diagonal(0, -2, -1)


def _refuse_phase(values, text):
    """values must vanish, or the loss depends on the phase of vectors."""
    if holds_anywhere(values.detach().abs() > 1e-2):
        raise RuntimeError(text)


# -- singular values ------------------------------------------------------------------------------

_SVD_PHASE = (
    "svd_backward: The singular vectors in the complex case are specified up to multiplication by "
    "e^{i phi}. The specified loss function depends on this phase term, making it ill-defined."
)


def _svd_grad(raw_gs, A_shape, out0, out1, out2):
    gU, gS, gVh = raw_gs
    rows, columns = A_shape[-2:]
    S = out1
    k = S.shape[-1]
    U, Vh = out0.narrow(-1, 0, k), out2.narrow(-2, 0, k)
    if gU is None and gVh is None:
        return (U * gS.unsqueeze(-2).to(U.dtype)) @ Vh
    inner = _svd_inner(gU, gVh, U, S, Vh)
    if gS is not None:
        inner = inner + gS.to(U.dtype).diag_embed()
    found = U @ inner @ Vh
    if rows > k and gU is not None:  # what U moves out of its own span
        moved = gU.narrow(-1, 0, k) / S.unsqueeze(-2)
        found = found + (moved - U @ (adjoint(U) @ moved)) @ Vh
    if columns > k and gVh is not None:
        moved = gVh.narrow(-2, 0, k) / S.unsqueeze(-1)
        found = found + U @ (moved - (moved @ adjoint(Vh)) @ Vh)
    return found


def _svd_inner(gU, gVh, U, S, Vh):
    """What U and V move within their spans, in the basis of both."""
    k = S.shape[-1]
    turns_u = turns_v = None
    if gU is not None:
        turns_u = adjoint(U) @ gU.narrow(-1, 0, k)
        turns_u = turns_u - adjoint(turns_u)
    if gVh is not None:
        turns_v = Vh @ adjoint(gVh.narrow(-2, 0, k))
        turns_v = turns_v - adjoint(turns_v)
    squares = S * S
    gaps = squares.unsqueeze(-2) - squares.unsqueeze(-1) + _unit(S, k)
    inner = 0
    if turns_u is not None:
        inner = turns_u * S.unsqueeze(-2)
    if turns_v is not None:
        inner = inner + S.unsqueeze(-1) * turns_v
    inner = inner / gaps
    if U.is_complex():
        # both parts of a pair may turn by one phase, in opposite senses
        phases = [_diagonal(t).imag for t in (turns_u, turns_v) if t is not None]
        _refuse_phase(sum(phases[1:], phases[0]), _SVD_PHASE)
        inner = inner - _diagonal(inner).diag_embed()
        if turns_u is not None and turns_v is not None:
            inner = inner + (_diagonal(turns_u) / (2 * S)).diag_embed()
    return inner


@template("linalg_svd", variants="function", outputs=3, joint_grad=_svd_grad)
def _linalg_svd(A, full_matrices: bool = False, compute_uv: bool = True, driver: str | None = None):
    """(U, S, Vh); without vectors where compute_uv is False."""


@composite(variants="out", bind=True, exact_out=True, outputs=3)
def linalg_svd(A, full_matrices: bool = True, *, driver: str | None = None):
    """U, S, Vh with A = U diag(S) Vh."""
    return LinalgSvd(public("_linalg_svd")(A, full_matrices, True, driver))


@composite(variants="out", exact_out=True)
def linalg_svdvals(A, *, driver: str | None = None):
    """Singular values, the largest first."""
    return public("_linalg_svd")(A, False, A.requires_grad, driver)[1]


@composite(variants=_PLAIN, bind=True, outputs=3, exact_out=True)
def svd(input, some: bool = True, compute_uv: bool = True):
    """U, S, V with A = U diag(S) Vᴴ."""
    if input.ndim < 2:
        raise RuntimeError(
            f"linalg.svd: input should have at least 2 dimensions, but has {input.ndim} dimensions "
            "instead"
        )
    if not compute_uv:
        S = public("linalg_svdvals")(input)
        *batch, rows, columns = input.shape
        U, V = (input.new_zeros((*batch, n, n)) for n in (rows, columns))
        return Svd((U, S, V))
    U, S, Vh = public("_linalg_svd")(input, not some, True, None)
    return Svd((U, S, adjoint(Vh)))


# -- eigenvalues ----------------------------------------------------------------------------------

_PHASE = (
    "_backward: The eigenvectors in the complex case are specified up to multiplication by e^{i "
    "phi}. The specified loss function depends on this quantity, so it is ill-defined."
)


def _eigh_grad(raw_gs, out0, out1):
    gL, gV = raw_gs
    L, V = out0, out1
    if gV is None:
        return (V * gL.unsqueeze(-2).to(V.dtype)) @ adjoint(V)
    inner = adjoint(V) @ gV
    if V.is_complex():
        _refuse_phase(_diagonal(inner).imag, "linalg_eigh" + _PHASE)
    gaps = L.unsqueeze(-2) - L.unsqueeze(-1) + _unit(L, L.shape[-1])
    inner = inner / gaps
    inner = inner - _diagonal(inner).diag_embed()
    if gL is not None:
        inner = inner + gL.to(V.dtype).diag_embed()
    found = V @ inner @ adjoint(V)
    return (found + adjoint(found)) * 0.5


@template("linalg_eigh", variants="function", outputs=2, joint_grad=_eigh_grad)
def _linalg_eigh(A, UPLO: str = "L", compute_v: bool = True):
    """(values, vectors) of Hermitian matrices, of which one triangle is read."""


@composite(variants="out", bind=True, exact_out=True, outputs=2)
def linalg_eigh(input, UPLO: str = "L"):
    """Eigenvalues and eigenvectors of Hermitian matrices."""
    return Eigh(public("_linalg_eigh")(input, UPLO, True))


@composite(variants="out", exact_out=True)
def linalg_eigvalsh(input, UPLO: str = "L"):
    """Eigenvalues of Hermitian matrices, the smallest first."""
    return public("_linalg_eigh")(input, UPLO, input.requires_grad)[0]


def _eig_grad(raw_gs, input_layout, out0, out1):
    gL, gV = raw_gs
    L, V = out0, out1
    Vh = adjoint(V)
    if gV is None:
        inner = gL.unsqueeze(-1) * Vh
    else:
        inner = Vh @ gV
        along = _diagonal(inner)
        _refuse_phase(along.imag, "linalg_eig" + _PHASE)
        inner = inner - (Vh @ V) * along.real.unsqueeze(-2)
        values = m.conj(L)
        gaps = values.unsqueeze(-2) - values.unsqueeze(-1) + _unit(L, L.shape[-1])
        inner = inner / gaps
        inner = inner - _diagonal(inner).diag_embed()
        if gL is not None:
            inner = inner + gL.diag_embed()
        inner = inner @ Vh
    found = public("linalg_solve")(Vh, inner)
    return found if input_layout.dtype.is_complex else found.real


@template(
    "linalg_eig", variants="", outputs=2, joint_grad=_eig_grad,
    node="LinalgEigBackward0",
)  # fmt: skip
def _linalg_eig(input, compute_v: bool = True, name: str = "eig"):
    """(values, vectors) of square matrices."""


@composite(
    variants="out", bind=True, outputs=2, castable_out="torch.linalg.eig: eigenvalues eigenvectors"
)
def linalg_eig(input):
    """Eigenvalues and eigenvectors of square matrices, complex ones."""
    return Eig(public("_linalg_eig")(input, True, "eig"))


@composite(variants="out", castable_out="torch.linalg.eigvals: eigenvalues")
def linalg_eigvals(input):
    """Eigenvalues of square matrices, complex ones."""
    return public("_linalg_eig")(input, input.requires_grad, "eigvals")[0]


# -- what counts as zero --------------------------------------------------------------------------


def _check_tolerances(name, input, given, **named):
    """Tolerances are numbers or tensors; the one that is given first, if any, is not None."""
    first = "tol" if "rank" in name else "rcond"
    both = given and any(v is not None for v in named.values())
    for value in (*given, *(v for v in named.values() if v is not None)):
        if both or (not isinstance(value, (int, float)) and not hasattr(value, "_layout")):
            named = {k: v for k, v in named.items() if v is not None}
            forms = [f"Tensor input, *, {t} atol = None, {t} rtol = None" for t in _KINDS]
            forms += [f"Tensor input, {t} {first}" for t in _KINDS]
            raise errors.combination(name, (input, *given), forms, **named)


_KINDS = "Tensor", "float"


def tolerances(input, atol, rtol, name):
    """(atol, rtol) as numbers or tensors; by default, what rounding may leave."""
    atol, rtol = (float(t) if isinstance(t, int) else t for t in (atol, rtol))
    for label, value in (("atol", atol), ("rtol", rtol)):
        if hasattr(value, "_layout") and value.dtype.is_complex:
            raise RuntimeError(
                f"{name}: {label} tensor of complex type is not supported. Got "
                f"{value.dtype.scalar_name}"
            )
    if rtol is None:
        default = d.finfo(input.dtype.to_real()).eps * max(input.shape[-2:])
        if hasattr(atol, "_layout"):
            rtol = public("where")(atol > 0, 0.0, default)
        else:
            rtol = 0.0 if atol else default
    return (0.0 if atol is None else atol), rtol


def cut(largest, atol, rtol):
    """max(atol, rtol * largest), where the tolerances may be numbers or batches of them."""
    relative = rtol * largest
    if hasattr(atol, "_layout"):
        return public("maximum")(atol.to(relative.dtype), relative)
    return relative.clamp_min(float(atol))


def _check_single_or_double(input):
    if input.dtype.category < d.FLOATING or input.dtype in check.HALF:
        raise RuntimeError("This function doesn't handle types other than float and double")


@composite(variants="out", bind=True, castable_out="torch.linalg.matrix_rank: result")
def linalg_matrix_rank(
    input,
    tol: object = MISSING,
    hermitian: bool = False,
    *,
    atol: object = None,
    rtol: object = None,
):
    """How many singular values exceed a tolerance."""
    name = "torch.linalg.matrix_rank"
    given = () if tol is MISSING else (tol,)
    _check_tolerances("linalg_matrix_rank", input, given, atol=atol, rtol=rtol)
    check.matrix(input, name, "input")
    if given:
        atol, rtol = tol, 0.0
    if rtol is None or hasattr(atol, "_layout"):  # the precision of the dtype is asked for
        _check_single_or_double(input)
    atol, rtol = tolerances(input, atol, rtol, name)
    input = input.detach()
    if not input.numel():
        return input.new_zeros(input.shape[:-2], dtype=d.int64)
    if hermitian:
        values = public("linalg_eigvalsh")(input).abs()
    else:
        values = public("linalg_svdvals")(input)
    return (values > cut(values.amax(-1), atol, rtol).unsqueeze(-1)).sum(-1)


# -- pseudoinverses -------------------------------------------------------------------------------


def pinv_grad(g, A, P):
    """The gradient for A of its pseudoinverse P."""
    rows, columns = A.shape[-2:]
    gh, Ph = adjoint(g), adjoint(P)
    found = -(Ph @ g @ Ph)
    if rows > columns:  # A P is not the identity
        tail = gh @ P @ Ph
        found = found + tail - A @ (P @ tail)
        head = Ph @ P @ gh
        return found + head - (head @ P) @ A
    tail = Ph @ P @ gh
    found = found + tail - (tail @ P) @ A
    head = gh @ P @ Ph
    return found + head - A @ (P @ head)


def pinv_tangent(t, A, P):
    """How the pseudoinverse P of A moves with A (Golub and Pereyra, 1973)."""
    th, Ph = adjoint(t), adjoint(P)
    left, right = P @ (Ph @ th), th @ (Ph @ P)
    return left - (left @ A) @ P + right - P @ (A @ right) - P @ t @ P


@composite(
    variants="", grad=lambda g, input, out: pinv_grad(g, input, out),
    jvp=lambda t, input, out: pinv_tangent(t, input, out),
    node="LinalgPinvBackward0",
)  # fmt: skip
def _linalg_pinv(input, atol: object, rtol: object, hermitian: bool):
    """Pseudoinverses; singular values up to the tolerance count as zero."""
    if input.numel() == 0:
        *batch, rows, columns = input.shape
        return input.new_empty((*batch, columns, rows))
    if hermitian:
        L, V = public("_linalg_eigh")(input, "L", True)
        size = L.abs()
        left, right = V, adjoint(V)
    else:
        U, L, Vh = public("_linalg_svd")(input, False, True, None)
        size = L
        left, right = adjoint(Vh), adjoint(U)
    keep = size > cut(size.amax(-1), atol, rtol).unsqueeze(-1)
    scale = public("where")(keep, 1 / L, 0.0).to(input.dtype)
    return (left * scale.unsqueeze(-2)) @ right


@composite(variants="out", bind=True, castable_out="linalg.pinv: result")
def linalg_pinv(
    input,
    rcond: object = MISSING,
    hermitian: bool = False,
    *,
    atol: object = None,
    rtol: object = None,
):
    """Moore-Penrose pseudoinverses."""
    given = () if rcond is MISSING else (rcond,)
    _check_tolerances("linalg_pinv", input, given, atol=atol, rtol=rtol)
    refuse_gradient("linalg_pinv", atol=atol, rtol=rtol)
    if input.ndim < 2 and atol is not None and rtol is None:
        raise (
            errors.dimension_out_of_range(-2, input.ndim)
            if input.ndim
            else errors.no_dimensions(-2)
        )
    if input.ndim < 2 or input.dtype.category < d.FLOATING or input.dtype in check.HALF:
        raise RuntimeError(
            f"linalg.pinv({input.dtype.scalar_name}{{{list(input.shape)}}}): expected a tensor "
            "with 2 or more dimensions of float, double, cfloat or cdouble types"
        )
    if given:
        atol, rtol = 0.0, rcond
    atol, rtol = tolerances(input, atol, rtol, "torch.linalg.pinv")
    if hermitian and input.numel():
        check.square(input, "linalg.eigh")
    return public("_linalg_pinv")(input, atol, rtol, hermitian)


@composite(variants="function method")
def pinverse(input, rcond: float = 1e-15):
    """Moore-Penrose pseudoinverses."""
    return public("linalg_pinv")(input, rcond)
