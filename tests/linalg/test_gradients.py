"""First and second derivatives of linear algebra, by finite differences. Needs no PyTorch."""

import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

L = torch.linalg
REAL, COMPLEX = torch.float64, torch.complex128


def matrix(*shape, dtype=REAL, seed=0):
    torch.manual_seed(seed)
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def regular(a):
    """A matrix far from singular, with eigenvalues far apart."""
    n = a.shape[-1]
    return a * 0.5 + torch.diag(torch.arange(1.0, n + 1, dtype=REAL)).to(a.dtype)


def positive(a):
    return a @ a.mH + torch.eye(a.shape[-1], dtype=a.dtype)


def symmetric(a):
    return regular(a + a.mH)


def phase_free(v):
    """What does not depend on the phase of vectors."""
    return (v.abs(), v @ v.mH) if v.is_complex() else v


def svd(a, **options):
    u, s, vh = L.svd(a, full_matrices=False, **options)
    return (u.abs(), s, vh.abs(), u @ vh) if a.is_complex() else (u, s, vh)


def eigh(a):
    values, vectors = L.eigh(symmetric(a))
    return values, vectors.abs() if a.is_complex() else vectors


def eig(a):
    values, vectors = L.eig(regular(a))
    return values, vectors.abs()


CASES = {
    "inv": (lambda a: L.inv(regular(a)), [(2, 3, 3)]),
    "det": (lambda a: L.det(a), [(2, 3, 3)]),
    "slogdet": (lambda a: L.slogdet(a)[1], [(2, 3, 3)]),
    "logdet": (lambda a: torch.logdet(positive(a)), [(3, 3)]),
    "solve": (lambda a, b: L.solve(regular(a), b), [(2, 3, 3), (2, 3, 2)]),
    "solve_vector": (lambda a, b: L.solve(regular(a), b), [(3, 3), (3,)]),
    "solve_right": (lambda a, b: L.solve(regular(a), b, left=False), [(2, 3, 3), (2, 2, 3)]),
    "solve_broadcast": (lambda a, b: L.solve(regular(a), b), [(3, 3), (2, 3, 2)]),
    "triangular_upper": (
        lambda a, b: L.solve_triangular(regular(a), b, upper=True), [(2, 3, 3), (3, 2)],
    ),
    "triangular_lower": (
        lambda a, b: L.solve_triangular(regular(a), b, upper=False, left=False), [(3, 3), (2, 3)],
    ),
    "triangular_unit": (
        lambda a, b: L.solve_triangular(a, b, upper=True, unitriangular=True), [(3, 3), (3, 2)],
    ),
    "lu_factor": (lambda a: L.lu_factor(regular(a))[0], [(2, 3, 3)]),
    "lu": (lambda a: L.lu(a)[1:], [(3, 3)]),
    "lu_tall": (lambda a: L.lu(a)[1:], [(4, 2)]),
    "lu_wide": (lambda a: L.lu(a)[1:], [(2, 4)]),
    "lu_solve": (
        lambda a, b: L.lu_solve(*L.lu_factor(regular(a)), b), [(3, 3), (3, 2)],
    ),
    "lu_solve_adjoint": (
        lambda a, b: L.lu_solve(*L.lu_factor(regular(a)), b, left=False, adjoint=True),
        [(3, 3), (2, 3)],
    ),
    "cholesky": (lambda a: L.cholesky(positive(a)), [(2, 3, 3)]),
    "cholesky_upper": (lambda a: L.cholesky(positive(a), upper=True), [(3, 3)]),
    "cholesky_solve": (
        lambda a, b: torch.cholesky_solve(b, L.cholesky(positive(a))), [(3, 3), (3, 2)],
    ),
    "cholesky_inverse": (lambda a: torch.cholesky_inverse(L.cholesky(positive(a))), [(3, 3)]),
    "qr": (lambda a: tuple(L.qr(a)), [(2, 4, 3)]),
    "qr_wide": (lambda a: tuple(L.qr(a)), [(3, 4)]),
    "qr_only_r": (lambda a: L.qr(a)[1], [(3, 3)]),
    "svd": (svd, [(2, 3, 3)]),
    "svd_tall": (svd, [(4, 3)]),
    "svd_wide": (svd, [(2, 4)]),
    "svdvals": (lambda a: L.svdvals(a), [(2, 3)]),
    "eigh": (eigh, [(2, 3, 3)]),
    "eigvalsh": (lambda a: L.eigvalsh(symmetric(a)), [(3, 3)]),
    "eig": (eig, [(2, 3, 3)]),
    "eigvals": (lambda a: L.eigvals(regular(a)), [(3, 3)]),
    "pinv": (lambda a: L.pinv(a), [(4, 3)]),
    "pinv_wide": (lambda a: L.pinv(a), [(2, 4)]),
    "pinv_hermitian": (lambda a: L.pinv(symmetric(a), hermitian=True), [(3, 3)]),
    "lstsq": (lambda a, b: L.lstsq(a, b)[0], [(4, 3), (4, 2)]),
    "lstsq_residuals": (lambda a, b: L.lstsq(a, b, driver="gels")[:2], [(4, 2), (4, 1)]),
    "matrix_exp": (lambda a: L.matrix_exp(a), [(2, 3, 3)]),
    "householder": (lambda a, t: L.householder_product(a, t), [(4, 3), (3,)]),
    "ormqr": (lambda a, t, b: torch.ormqr(a, t, b, transpose=True), [(4, 3), (3,), (4, 2)]),
    "matrix_power": (lambda a: L.matrix_power(regular(a), -3), [(3, 3)]),
    "nuclear": (lambda a: L.matrix_norm(a, "nuc"), [(3, 2)]),
    "norm_2": (lambda a: L.norm(a, 2), [(3, 3)]),
    "norm_inf": (lambda a: L.norm(a, float("inf")), [(3, 3)]),
    "cond": (lambda a: L.cond(regular(a)), [(3, 3)]),
    "cond_fro": (lambda a: L.cond(regular(a), "fro"), [(3, 3)]),
    "multi_dot": (lambda a, b, c: L.multi_dot([a, b, c]), [(2, 3), (3, 4), (4,)]),
    "tensorinv": (lambda a: L.tensorinv(a, ind=1), [(4, 2, 2)]),
    "tensorsolve": (lambda a, b: L.tensorsolve(a, b), [(2, 2, 4), (2, 2)]),
    "vander": (lambda a: L.vander(a, N=3), [(3,)]),
    "vecdot": (lambda a, b: L.vecdot(a, b), [(2, 3), (2, 3)]),
}  # fmt: skip
# a second derivative of an extreme element, or of a phase, is zero or undefined
ONCE = {"norm_inf"}


@pytest.mark.parametrize("dtype", [REAL, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize("name", CASES)
def test_derivatives(name, dtype):
    function, shapes = CASES[name]
    arguments = [matrix(*shape, dtype=dtype, seed=k) for k, shape in enumerate(shapes)]
    assert gradcheck(function, arguments)
    if name not in ONCE:
        assert gradgradcheck(function, arguments)


def test_determinant_of_singular_matrices():
    """The derivative is the adjugate, which rank n - 1 does not make zero."""
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=REAL, requires_grad=True)
    (grad,) = torch.autograd.grad(L.det(a), a)
    expected = torch.tensor([[4.0, -2.0], [-2.0, 1.0]], dtype=REAL)
    assert (grad - expected).abs().max() < 1e-12


def test_equal_singular_values_have_a_derivative():
    a = torch.eye(3, dtype=REAL).requires_grad_()
    (grad,) = torch.autograd.grad(L.svdvals(a).sum(), a)
    assert grad.tolist() == torch.eye(3).tolist()


def test_phases_are_refused():
    a = matrix(3, 3, dtype=COMPLEX)
    for text, loss in (
        ("svd_backward: The singular vectors", lambda: L.svd(a)[0].sum().abs()),
        ("linalg_eigh_backward: The eigenvectors", lambda: L.eigh(a)[1].sum().abs()),
        ("linalg_eig_backward: The eigenvectors", lambda: L.eig(a)[1].sum().abs()),
    ):
        with pytest.raises(RuntimeError, match=text):
            loss().backward()


def test_what_has_no_derivative():
    a = matrix(4, 3)
    with pytest.raises(RuntimeError, match="mode='complete' and nrows > ncols"):
        L.qr(a, mode="complete")[0].sum().backward()
    with pytest.raises(RuntimeError, match="depends on Q, which is not computed when mode='r'"):
        L.qr(a, mode="r")[1].sum().backward()
    with pytest.raises(NotImplementedError, match="the derivative for 'geqrf' is not implemented"):
        torch.geqrf(a)[0].sum().backward()
    square = matrix(3, 3)
    with pytest.raises(RuntimeError, match="derivative for aten::linalg_ldl_factor_ex"):
        L.ldl_factor(square)[0].sum().backward()
