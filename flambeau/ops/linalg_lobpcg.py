"""A few extreme eigenpairs of large symmetric matrices: lobpcg (Knyazev, 2001).

Each round looks for better vectors in the span of the present ones, their preconditioned residuals
and the last directions of search; the small eigenproblem inside goes to eigh. Only products with A
and B are needed. Eigenvalues are differentiable, as Rayleigh quotients of the vectors found.
"""

import itertools

from flambeau import _dtype as d
from flambeau.ops.table import OptionalTensor, composite, public

MOST_ROUNDS = 1000


def _orthonormal(S, B):
    """A basis of the span of S with SᵀBS = 1; directions that rounding made are dropped."""
    S = S / S.norm(dim=-2, keepdim=True).clamp_min(d.finfo(S.dtype).tiny)
    for _ in range(2):  # once more for what the first pass left
        values, vectors = public("linalg_eigh")(S.mT @ _times(B, S))
        keep = values > d.finfo(S.dtype).eps * S.shape[-1] * values.amax()
        count = int(keep.sum().item())
        vectors = vectors.narrow(-1, S.shape[-1] - count, count)
        S = S @ (vectors / values.narrow(-1, S.shape[-1] - count, count).sqrt())
    return S


def _times(B, X):
    return X if B is None else B @ X


def _best(A, S, count, largest):
    """The best vectors in the span of an orthonormal basis: (values, coefficients)."""
    inner = S.mT @ (A @ S)
    values, vectors = public("linalg_eigh")((inner + inner.mT) * 0.5)
    if largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values.narrow(-1, 0, count), vectors.narrow(-1, 0, count)


def _search(A, B, X, iK, rounds, tolerance, largest, wanted):
    count = X.shape[-1]
    S = _orthonormal(X, B)
    E, C = _best(A, S, min(count, S.shape[-1]), largest)
    X, P = S @ C, None
    size_a = (A @ X).norm().item() / max(X.norm().item(), d.finfo(X.dtype).tiny)
    size_b = 1.0 if B is None else (B @ X).norm().item() / max(X.norm().item(), 1e-30)
    for _ in range(rounds):
        R = A @ X - _times(B, X) * E
        scale = X.norm(dim=-2) * (size_a + E.abs() * size_b)
        if (R.norm(dim=-2)[:wanted] <= tolerance * scale[:wanted]).all().item():
            break
        W = R if iK is None else iK @ R
        parts = [X, W] if P is None else [X, W, P]
        S = _orthonormal(public("cat")(parts, -1), B)
        E, C = _best(A, S, count, largest)
        new = S @ C
        # what is new in the vectors is where the next round looks first
        P = new - X @ (X.mT @ _times(B, new))
        X = new
    return E, X


def _matrices(t, shape):
    """All matrices of a batch; what is not there, and one matrix (maybe sparse), as it is."""
    if t is None or len(shape) == 2:
        return [None if t is None else t.detach()]
    return t.detach().expand(shape).reshape(-1, *shape[-2:])


def _check(A, n):
    m = A.shape[-2]
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={n})"
        )


def _check_squares(A, B):
    if A.ndim and (A.requires_grad or (B is not None and B.requires_grad)):
        A - A.mT  # which has its own words for what is not square
    if A.ndim < 2:
        raise IndexError("tuple index out of range")
    if A.shape[-1] != A.shape[-2]:
        raise AssertionError(f"A must be square, got shape {A.shape}")


@composite(variants="function", bind=True, python=True)
def lobpcg(
    A,
    k: object = None,
    B: OptionalTensor = None,
    X: OptionalTensor = None,
    n: object = None,
    iK: OptionalTensor = None,
    niter: object = None,
    tol: object = None,
    largest: object = None,
    method: object = None,
    tracker: object = None,
    ortho_iparams: object = None,
    ortho_fparams: object = None,
    ortho_bparams: object = None,
):
    """The k largest (or smallest) eigenvalues of A x = λ B x, and their vectors."""
    _check_squares(A, B)
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    _check(A, n)
    for given in (ortho_iparams, ortho_fparams, ortho_bparams):
        if given is not None:
            iter(given)
    if not (tracker is None or callable(tracker)):
        raise TypeError(f"'{type(tracker).__name__}' object is not callable")
    if not A.dtype.is_floating_point:
        A @ A.new_empty((A.shape[-1], n), dtype=d.float32)  # says what it thinks of that
    tol = d.finfo(A.dtype).eps ** 0.5 if tol is None else tol
    rounds = MOST_ROUNDS if niter is None or niter < 0 else niter
    *batch, m, _ = A.shape
    start = X
    if X is None:
        start = public("empty")((*batch, m, n), dtype=A.dtype, device=A.device).normal_()
    first = start.detach().expand(*batch, m, n).reshape(-1, m, n)
    flat, mass, shortcut = (_matrices(t, A.shape) for t in (A, B, iK))
    upward = largest is None or bool(largest)
    found = [
        _search(*given, rounds, tol, upward, k)
        for given in zip(flat, itertools.cycle(mass), first, itertools.cycle(shortcut))
    ]
    stack = public("stack")
    values = stack([e.narrow(-1, 0, k) for e, _ in found]).reshape(*batch, k)
    vectors = stack([x.narrow(-1, 0, k) for _, x in found]).reshape(*batch, m, k)
    if A.requires_grad or (B is not None and B.requires_grad):
        top = (vectors * (A @ vectors)).sum(-2)
        values = top / (vectors * _times(B, vectors)).sum(-2)
    return values, vectors
