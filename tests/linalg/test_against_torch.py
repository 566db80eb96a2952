"""Linear algebra against an installed PyTorch: values, shapes, strides, dtypes, gradients.

Vectors of decompositions are compared through what does not depend on their signs.
"""

import warnings

import pytest

import flambeau

pytestmark = pytest.mark.oracle
DTYPES = ["float32", "float64", "complex64", "complex128"]


def _positive(t, a):
    return a @ a.mH + t.eye(a.shape[-1], dtype=a.dtype)


def _unsigned(u, s, vh):
    return s, (u * s.unsqueeze(-2)) @ vh


CASES = {
    "inv": (lambda t, a: t.linalg.inv(a), [(2, 3, 3)]),
    "inverse_large": (lambda t, a: t.inverse(a), [(140, 140)]),
    "det": (lambda t, a: t.linalg.det(a), [(2, 3, 3)]),
    "slogdet": (lambda t, a: t.linalg.slogdet(a), [(2, 3, 3)]),
    "logdet": (lambda t, a: t.logdet(_positive(t, a)), [(3, 3)]),
    "solve": (lambda t, a, b: t.linalg.solve(a, b), [(2, 3, 3), (2, 3, 2)]),
    "solve_broadcast": (lambda t, a, b: t.linalg.solve(a, b), [(3, 3), (4, 2, 3, 2)]),
    "solve_right": (lambda t, a, b: t.linalg.solve(a, b, left=False), [(3, 3), (2, 3)]),
    "solve_ex": (lambda t, a, b: t.linalg.solve_ex(a, b), [(3, 3), (3,)]),
    "lu": (lambda t, a: t.linalg.lu(a), [(2, 5, 3)]),
    "lu_factor": (lambda t, a: t.linalg.lu_factor(a), [(3, 5)]),
    "lu_factor_ex": (lambda t, a: t.linalg.lu_factor_ex(a), [(2, 4, 4)]),
    "lu_solve": (
        lambda t, a, b: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, adjoint=True),
        [(3, 3), (3, 2)],
    ),
    "lu_unpack": (lambda t, a: t.lu_unpack(*t.linalg.lu_factor(a)), [(4, 4)]),
    "cholesky": (lambda t, a: t.linalg.cholesky(_positive(t, a)), [(2, 3, 3)]),
    "cholesky_upper": (lambda t, a: t.linalg.cholesky(_positive(t, a), upper=True), [(3, 3)]),
    "cholesky_ex": (lambda t, a: t.linalg.cholesky_ex(_positive(t, a)), [(3, 3)]),
    "cholesky_solve": (
        lambda t, a, b: t.cholesky_solve(b, t.linalg.cholesky(_positive(t, a))), [(3, 3), (3, 2)],
    ),
    "cholesky_inverse": (
        lambda t, a: t.cholesky_inverse(t.linalg.cholesky(_positive(t, a))), [(3, 3)],
    ),
    "solve_triangular": (
        lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True), [(3, 3), (2, 3, 4)],
    ),
    "triangular_solve": (
        lambda t, a, b: t.triangular_solve(b, a, transpose=True, upper=False)[0],
        [(3, 3), (3, 2)],
    ),
    "qr": (lambda t, a: t.linalg.qr(a), [(2, 4, 3)]),
    "qr_wide": (lambda t, a: t.linalg.qr(a), [(3, 5)]),
    "svd": (lambda t, a: _unsigned(*t.linalg.svd(a, full_matrices=False)), [(2, 4, 3)]),
    "svdvals": (lambda t, a: t.linalg.svdvals(a), [(3, 4)]),
    "eigvalsh": (lambda t, a: t.linalg.eigvalsh(a + a.mH), [(2, 4, 4)]),
    "eigh": (
        lambda t, a: (lambda w, v: (w, (v * (w**3).unsqueeze(-2)) @ v.mH))(
            *t.linalg.eigh(a + a.mH, "U")
        ),
        [(3, 3)],
    ),
    "eig": (
        lambda t, a: (lambda w, v: v @ t.diag_embed(w**2) @ t.linalg.inv(v))(*t.linalg.eig(a)),
        [(3, 3)],
    ),
    "pinv": (lambda t, a: t.linalg.pinv(a), [(2, 4, 3)]),
    "pinv_rtol": (lambda t, a: t.linalg.pinv(a, rtol=0.5), [(4, 3)]),
    "pinv_hermitian": (lambda t, a: t.linalg.pinv(_positive(t, a), hermitian=True), [(3, 3)]),
    "lstsq": (lambda t, a, b: t.linalg.lstsq(a, b)[0], [(2, 4, 3), (2, 4, 2)]),
    "lstsq_gelsd": (lambda t, a, b: t.linalg.lstsq(a, b, driver="gelsd")[:3], [(4, 3), (4,)]),
    "matrix_exp": (lambda t, a: t.linalg.matrix_exp(a), [(2, 3, 3)]),
    "matrix_power": (lambda t, a: t.linalg.matrix_power(a, 4), [(3, 3)]),
    "matrix_rank": (lambda t, a: t.linalg.matrix_rank(a), [(2, 3, 4)]),
    "householder": (lambda t, a, b: t.linalg.householder_product(a, b), [(4, 3), (3,)]),
    "ormqr": (
        lambda t, a, b, c: t.ormqr(a, b, c, left=False, transpose=True), [(4, 3), (3,), (2, 4)],
    ),
    "geqrf": (lambda t, a: t.geqrf(a.detach()), [(4, 3)]),
    "cond": (lambda t, a: t.linalg.cond(a), [(2, 3, 3)]),
    "cond_1": (lambda t, a: t.linalg.cond(a, 1), [(3, 3)]),
    "norm_nuc": (lambda t, a: t.norm(a, "nuc"), [(3, 4)]),
    "norm_2": (lambda t, a: t.linalg.norm(a, 2), [(3, 4)]),
    "norm_inf": (lambda t, a: t.linalg.matrix_norm(a, float("inf"), keepdim=True), [(2, 3, 4)]),
    "norm": (lambda t, a: t.linalg.norm(a), [(2, 3, 4)]),
    "frobenius": (lambda t, a: t.frobenius_norm(a, (0, 1)), [(3, 4)]),
    "multi_dot": (lambda t, a, b, c: t.linalg.multi_dot([a, b, c]), [(2,), (2, 5), (5, 3)]),
    "tensorinv": (lambda t, a: t.linalg.tensorinv(a, ind=1), [(6, 2, 3)]),
    "tensorsolve": (lambda t, a, b: t.linalg.tensorsolve(a, b, dims=(1,)), [(2, 6, 3), (2, 3)]),
    "vander": (lambda t, a: t.linalg.vander(a, N=4), [(2, 3)]),
    "vecdot": (lambda t, a, b: t.linalg.vecdot(a, b, dim=0), [(2, 3), (2, 3)]),
    "diagonal": (lambda t, a: t.linalg.diagonal(a, offset=1), [(2, 3, 4)]),
    "ldl": (lambda t, a: t.linalg.ldl_factor_ex((a + a.mT).detach()), [(2, 6, 6)]),
}  # fmt: skip
# PyTorch 2.13 fails on its own inverse in the backward pass of cond(a, 1)
NO_GRADIENT = {"matrix_rank", "geqrf", "ldl", "cond_1"}


def _numbers(x):
    return x.detach().resolve_conj().numpy()


def _assert_close(ours, theirs, dtype, exact_strides=False):
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype) == str(theirs.dtype)
    if ours.dtype.is_floating_point or ours.dtype.is_complex:
        rtol = 2e-3 if dtype in ("float32", "complex64") else 1e-8
        a, b = _numbers(ours), _numbers(theirs)
        assert abs(a - b).max() <= rtol * max(1, abs(b).max()) if a.size else True
    else:
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_case(name, dtype, rng):
    torch = pytest.importorskip("torch")
    function, shapes = CASES[name]
    arrays = []
    for shape in shapes:
        values = rng.standard_normal(shape)
        if dtype.startswith("c"):
            values = values + 1j * rng.standard_normal(shape)
        arrays.append(values.astype(dtype))
    results = []
    for t in (flambeau, torch):
        inputs = [t.from_numpy(a.copy()).requires_grad_() for a in arrays]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = function(t, *inputs)
        found = tuple(found) if isinstance(found, tuple) else (found,)
        grads = ()
        if name not in NO_GRADIENT:
            used = [x for x in found if x.requires_grad]
            total = sum((x.abs() ** 2).sum() for x in used)
            grads = t.autograd.grad(total, inputs)
        results.append((found, grads))
    (ours, our_grads), (theirs, their_grads) = results
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs):
        _assert_close(x, y, dtype)
    for x, y in zip(our_grads, their_grads):
        _assert_close(x, y, dtype)


def test_every_name_is_there():
    torch = pytest.importorskip("torch")
    theirs = {n for n in dir(torch.linalg) if not n.startswith("_")} - {"common_notes"}
    assert not {n for n in theirs if not hasattr(flambeau.linalg, n)}
