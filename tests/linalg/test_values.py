"""Values of linear algebra against definitions: factors multiply back, solutions solve.

Nothing here needs PyTorch; sizes include those that are cut into blocks. `test_against_torch.py`
asks PyTorch itself.
"""

import math

import numpy as np
import pytest

import flambeau as torch

L = torch.linalg
DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [(1, 1), (2, 2), (3, 4, 4), (2, 2, 7, 7), (150, 150), (0, 3, 3), (2, 0, 0)]


def sample(*shape, dtype="float64", seed=0):
    torch.manual_seed(seed)
    return torch.randn(*shape, dtype=getattr(torch, dtype))


def close(a, b, factor=1):
    """Equal up to rounding; errors grow with the size of matrices."""
    b = b.expand(a.shape)
    assert a.dtype is b.dtype, (a.dtype, b.dtype)
    if not a.numel():
        return
    eps = torch.finfo(a.dtype).eps
    scale = max(1.0, b.abs().max().item()) * max(a.shape[-2:] if a.ndim > 1 else a.shape or (1,))
    assert (a - b).abs().max().item() <= 40 * factor * eps * scale


def eye(t, n=None):
    return torch.eye(n or t.shape[-1], dtype=t.dtype)


def positive(a):
    return a @ a.mH + eye(a)


def shifted(a):
    """Far from singular."""
    return a + 3 * math.sqrt(a.shape[-1]) * eye(a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_inverse_and_solutions(shape, dtype):
    a = shifted(sample(*shape, dtype=dtype))
    inverse, info = L.inv_ex(a)
    close(inverse @ a, eye(a))
    assert not info.any() and info.shape == a.shape[:-2] and info.dtype is torch.int32
    b = sample(*shape[:-1], 3, dtype=dtype, seed=1)
    close(a @ L.solve(a, b), b)
    close(L.solve(a, b.mT, left=False) @ a, b.mT)
    lu, pivots = L.lu_factor(a)
    close(L.lu_solve(lu, pivots, b), L.solve(a, b))
    close(a.mH @ L.lu_solve(lu, pivots, b, adjoint=True), b)
    close(L.lu_solve(lu, pivots, b.mT, left=False, adjoint=True) @ a.mH, b.mT)
    if shape[-1]:
        close(a @ L.solve(a, b[..., 0]).unsqueeze(-1), b[..., :1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (2, 5, 3), (3, 6), (300, 140), (140, 300)], ids=str)
def test_lu(shape, dtype):
    a = sample(*shape, dtype=dtype)
    p, l, u = L.lu(a)
    close(p @ l @ u, a, 4)
    assert not l.numel() or l.abs().max().item() < 1.5  # by |re| + |im|, so up to √2
    packed, pivots, info = L.lu_factor_ex(a)
    assert pivots.dtype is torch.int32 and not info.any()
    for x, y in zip(torch.lu_unpack(packed, pivots), (p, l, u)):
        assert (x == y).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (330, 330)], ids=str)
def test_cholesky(shape, dtype):
    a = positive(sample(*shape, dtype=dtype))
    l, info = L.cholesky_ex(a)
    close(l @ l.mH, a)
    assert not info.any() and (l.triu(1) == 0).all()
    u = L.cholesky(a, upper=True)
    close(u, l.mH)
    b = sample(*shape[:-1], 2, dtype=dtype, seed=1)
    close(a @ torch.cholesky_solve(b, l), b, 100)
    close(torch.cholesky_solve(b, u, upper=True), torch.cholesky_solve(b, l), 100)
    close(torch.cholesky_inverse(l) @ a, eye(a), 100)
    # only one triangle is read
    close(L.cholesky(a.tril()), l)
    close(L.cholesky(a.triu(), upper=True), u)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("n", [1, 5, 150])
def test_triangular_systems(n, unit, upper, dtype):
    a = shifted(sample(2, n, n, dtype=dtype)) / (3 * n if unit else 1)
    b = sample(2, n, 35, dtype=dtype, seed=1)
    t = a.triu(int(unit)) if upper else a.tril(-int(unit))
    t = t + eye(t) if unit else t
    options = dict(upper=upper, unitriangular=unit)
    close(t @ L.solve_triangular(a, b, **options), b)
    close(L.solve_triangular(a, b.mT, left=False, **options) @ t, b.mT)
    # strides of every kind
    x = L.solve_triangular(a.mT.contiguous().mT, b.flip(0)[::2], **options)
    close(t @ x, b.flip(0)[::2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_indefinite_systems(n, hermitian, dtype):
    a = sample(3, n, n, dtype=dtype)
    a = a + (a.mH if hermitian else a.mT)
    ld, pivots, info = L.ldl_factor_ex(a, hermitian=hermitian)
    assert not info.any()
    b = sample(3, n, 4, dtype=dtype, seed=1)
    close(a @ L.ldl_solve(ld, pivots, b, hermitian=hermitian), b, 400)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(2, 4, 4), (5, 3), (3, 5), (100, 100), (120, 30), (3, 0), (0, 3)], ids=str
)
def test_qr(shape, dtype):
    a = sample(*shape, dtype=dtype)
    m, n = shape[-2:]
    for mode in ("reduced", "complete"):
        q, r = L.qr(a, mode)
        close(q @ r, a)
        close(q.mH @ q, eye(q), 4)
        assert (r.tril(-1) == 0).all()
    assert (L.qr(a, "r")[1] - L.qr(a)[1]).abs().sum() == 0
    if not a.numel():
        return
    packed, tau = torch.geqrf(a)
    close(packed.triu()[..., : min(m, n), :], L.qr(a)[1])
    if m >= n:
        close(L.householder_product(packed, tau), L.qr(a)[0], 4)
    q = L.qr(a, "complete")[0]
    b = sample(*shape[:-1], 3, dtype=dtype, seed=1)
    close(torch.ormqr(packed, tau, b), q @ b, 4)
    close(torch.ormqr(packed, tau, b, transpose=True), q.mH @ b, 4)
    close(torch.ormqr(packed, tau, b.mT, left=False), b.mT @ q, 4)
    close(torch.ormqr(packed, tau, b.mT, left=False, transpose=True), b.mT @ q.mH, 4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 4, 4), (5, 3), (2, 3, 5), (3, 0), (0, 3)], ids=str)
def test_svd(shape, dtype):
    a = sample(*shape, dtype=dtype)
    u, s, vh = L.svd(a, full_matrices=False)
    close((u * s.unsqueeze(-2)) @ vh, a)
    assert s.dtype is a.real.dtype and (s[..., :-1] >= s[..., 1:]).all()
    close(L.svdvals(a), s)
    u, s, vh = L.svd(a)
    for q in (u, vh):
        assert q.shape[-1] == q.shape[-2]
        close(q @ q.mH, eye(q))
    u, s, v = torch.svd(a)
    close((u * s.unsqueeze(-2)) @ v.mH, a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 5), (0, 0), (0, 2, 2)], ids=str)
def test_eigenvalues(shape, dtype):
    a = sample(*shape, dtype=dtype)
    values, vectors = L.eig(a)
    close(a.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2), 10)
    assert values.is_complex()
    h = a + a.mH
    for uplo in ("L", "U", "l", "u"):
        values, vectors = L.eigh(h, uplo)
        assert values.dtype is a.real.dtype
        close(h @ vectors, vectors * values.unsqueeze(-2), 10)
    close(L.eigvalsh(h), values)
    close(L.eigh(h.tril())[0], values)
    close(L.eigh(h.triu(), "U")[0], values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants(dtype):
    a = sample(4, 3, 3, dtype=dtype)
    by_hand = [np.linalg.det(x.numpy().astype("complex128")) for x in a]
    expected = torch.tensor(by_hand, dtype=torch.complex128)
    expected = expected.to(a.dtype) if a.is_complex() else expected.real.to(a.dtype)
    close(L.det(a), expected)
    sign, log = L.slogdet(a)
    close(sign * log.exp(), expected)
    assert log.dtype is a.real.dtype
    close(torch.logdet(positive(a)).exp(), L.det(positive(a)), 4)
    assert L.det(a[:, :0, :0]).tolist() == [1, 1, 1, 1]
    assert L.slogdet(torch.zeros(2, 2)).logabsdet.item() == -math.inf
    assert math.isnan(torch.logdet(-torch.eye(3)).item())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 3)], ids=str)
def test_pseudoinverses_and_least_squares(shape, dtype):
    a = sample(*shape, dtype=dtype)
    p = L.pinv(a)
    close(a @ p @ a, a)
    close(p @ a @ p, p)
    close((a @ p).mH, a @ p)
    close((p @ a).mH, p @ a)
    b = sample(*shape[:-1], 2, dtype=dtype, seed=1)
    for driver in ("gels", "gelsy", "gelsd", "gelss"):
        x, residuals, rank, values = L.lstsq(a, b, driver=driver)
        close(x, p @ b, 10)
        if shape[-2] > shape[-1] and driver != "gelsy":
            close(residuals, ((a @ x - b).abs() ** 2).sum(-2), 10)
        if driver != "gels":
            assert (rank == min(shape[-2:])).all()
        if driver in ("gelsd", "gelss"):
            close(values, L.svdvals(a))
    low = a[..., :1] @ a[..., :1, :]
    assert (L.matrix_rank(low) == 1).all() and (L.matrix_rank(a) == min(shape[-2:])).all()
    assert (L.matrix_rank(a, atol=1e6) == 0).all()
    assert (L.matrix_rank(a.mH @ a, hermitian=True) <= min(shape[-2:])).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0])
def test_matrix_exponential(scale, dtype):
    a = sample(3, 4, 4, dtype=dtype) * scale
    values, vectors = L.eig(a.to(torch.complex128))
    expected = vectors @ torch.diag_embed(values.exp()) @ L.inv(vectors)
    expected = expected if a.is_complex() else expected.real
    found = L.matrix_exp(a)
    worst = (found - expected).abs().amax((-2, -1)) / expected.abs().amax((-2, -1))
    assert worst.max().item() < (2e-4 if a.real.dtype is torch.float32 else 1e-11)


def test_powers_and_chains():
    a = sample(2, 3, 3)
    close(L.matrix_power(a, 5), a @ a @ a @ a @ a)
    close(L.matrix_power(a, -2) @ a @ a, eye(a), 100)
    close(L.matrix_power(a, 0), eye(a))
    assert L.matrix_power(torch.tensor([[1, 1], [1, 0]]), 10).tolist() == [[89, 55], [55, 34]]
    x, y, z = sample(4, 7), sample(7, 2), sample(2)
    close(L.multi_dot([x, y, z]), x @ y @ z)
    assert L.vander(torch.tensor([2, 3]), N=4).tolist() == [[1, 2, 4, 8], [1, 3, 9, 27]]


def test_norms():
    a = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], dtype=torch.float64)
    s = L.svdvals(a)
    for order, expected in {
        "fro": math.sqrt(91), "nuc": s.sum().item(), 1: 9, -1: 5, 2: s[0].item(),
        -2: s[-1].item(), math.inf: 15, -math.inf: 6,
    }.items():  # fmt: skip
        assert abs(L.matrix_norm(a, order).item() - expected) < 1e-12
        kept = L.matrix_norm(a.unsqueeze(1), order, dim=(0, 2), keepdim=True)
        assert kept.shape == (1, 1, 1) and abs(kept.item() - expected) < 1e-12
        assert abs(L.norm(a, order).item() - expected) < 1e-12
    assert abs(torch.norm(a, "nuc").item() - s.sum().item()) < 1e-12
    assert abs(torch.nuclear_norm(a).item() - s.sum().item()) < 1e-12
    square = shifted(sample(3, 3))
    for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        both = L.matrix_norm(square, order) * L.matrix_norm(L.inv(square), order)
        assert abs(L.cond(square, order).item() - both.item()) < 1e-10
    assert L.cond(torch.ones(2, 2), "fro").item() == math.inf


def test_low_rank():
    a = sample(30, 3) @ sample(3, 20, seed=1)
    for x in (a, a.mT):
        u, s, v = torch.svd_lowrank(x, q=4)
        close((u * s) @ v.mT, x, 10)
    u, s, v = torch.pca_lowrank(a, q=3)
    centred = a - a.mean(0)
    close((u * s) @ v.mT, centred, 10)


def test_columns_lie_side_by_side():
    a = shifted(sample(2, 3, 4, 4))
    for found in (L.inv(a), L.lu_factor(a)[0], L.qr(a)[0], L.svd(a)[0], L.cholesky(positive(a))):
        assert found.stride() == (48, 16, 1, 4)


def test_any_strides():
    a = sample(4, 6, 8)[:, ::2, ::2][:, :3, :3]
    a = a + 5 * torch.eye(3, dtype=a.dtype)
    for view in (a, a.mT, a.permute(0, 2, 1), a.flip(0), a[:1].expand(3, 3, 3)):
        dense = view.contiguous()
        assert (L.inv(view) == L.inv(dense)).all()
        assert (L.det(view) == L.det(dense)).all()
        assert (L.svdvals(view) == L.svdvals(dense)).all()
        b = sample(3, 1, dtype="float64").expand(3, 4)
        assert (L.solve(view, b) == L.solve(dense, b.contiguous())).all()


def test_threads_do_not_change_bits():
    a, b = shifted(sample(64, 20, 20)), shifted(sample(260, 260))
    found = []
    before = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append((L.inv(a), L.inv(b), L.cholesky(positive(b)), L.det(a)))
    finally:
        torch.set_num_threads(before)
    assert all((x == y).all() for x, y in zip(*found))


def test_meta_tensors_have_shapes():
    a = torch.empty(2, 3, 3, device="meta")
    assert L.inv(a).shape == a.shape and L.det(a).shape == (2,)
    assert [t.shape for t in L.svd(a)] == [(2, 3, 3), (2, 3), (2, 3, 3)]
    assert L.solve(a, torch.empty(2, 3, 5, device="meta")).shape == (2, 3, 5)
    assert L.qr(a)[1].device.type == "meta" and L.cholesky(a).shape == a.shape


def test_out():
    a = shifted(sample(3, 3))
    out = torch.empty(0, dtype=torch.float64)
    assert L.inv(a, out=out) is out and (out == L.inv(a)).all()
    outs = tuple(torch.empty(0, dtype=torch.float64) for _ in range(3))
    assert L.svd(a, out=outs).S is outs[1]
    assert (outs[1] - L.svdvals(a)).abs().max() < 1e-12
    with pytest.raises(
        RuntimeError, match="Expected out tensor to have dtype double, but got float"
    ):
        L.inv(a, out=torch.empty(3, 3))


@pytest.mark.parametrize("largest", [True, False])
def test_few_eigenpairs(largest):
    a = positive(sample(2, 40, 40))
    b = positive(sample(2, 40, 40, seed=1))
    values, vectors = torch.lobpcg(a, k=3, largest=largest, niter=300)
    expected = L.eigvalsh(a)
    expected = expected.flip(-1)[:, :3] if largest else expected[:, :3]
    assert ((values - expected).abs() < 1e-6 * expected.abs().max()).all()
    assert (a @ vectors - vectors * values.unsqueeze(-2)).norm() < 1e-4 * a.norm()
    # with a second matrix, eigenvalues of B⁻¹ A
    values, vectors = torch.lobpcg(a, k=2, B=b, largest=largest, niter=300)
    whole = L.eigvals(L.solve(b, a)).real.sort(-1).values
    expected = whole.flip(-1)[:, :2] if largest else whole[:, :2]
    assert ((values - expected).abs() < 1e-5 * expected.abs().max()).all()
    with pytest.raises(ValueError, match="LOBPCG algorithm is not applicable"):
        torch.lobpcg(a, k=20)


def test_a_matrix_that_is_not_finite_spoils_no_other():
    good = positive(sample(3, 3))
    both = torch.stack([good, good * float("inf")])
    for function in (L.eigvalsh, L.svdvals, L.eigvals, lambda a: L.eigh(a)[1]):
        found = function(both)
        assert torch.equal(found[0], function(good)), function
        assert found[1].isnan().all()
    assert L.matrix_rank(both).tolist() == [3, 0]


@pytest.mark.parametrize(
    ("driver", "rcond", "rank"),
    [
        ("gelsd", 1.0, 2), ("gelsd", -1.0, 2), ("gelsd", 0.6, 1), ("gelss", 1.0, 0),
        ("gelss", -1.0, 2), ("gelsy", 1.0, 1), ("gelsy", 2.0, 1), ("gelsy", 0.5, 2),
    ],
)  # fmt: skip
def test_limits_out_of_bounds_mean_to_least_squares_what_they_mean_to_lapack(driver, rcond, rank):
    A = torch.tensor([[2.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    X, _, found, _ = torch.linalg.lstsq(A, A, rcond=rcond, driver=driver)
    assert found.item() == rank
    assert X.tolist() == [[float(rank > 0), 0.0], [0.0, float(rank > 1)]]


@pytest.mark.parametrize("driver", ["gelsd", "gelss", "gelsy"])
def test_singular_least_squares_are_finite_with_the_precision_of_the_dtype(driver):
    A = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
    assert torch.linalg.lstsq(A, torch.ones(2, 1), rcond=-1, driver=driver)[0].tolist() == [
        [0.5],
        [0.0],
    ]


def test_products_that_want_a_gradient_are_not_written_into_out():
    A, out = torch.ones(2, 2, requires_grad=True), torch.zeros(2, 2)
    with pytest.raises(RuntimeError, match=r"matmul\(\): functions with out=... arguments don't"):
        torch.matmul(A, A, out=out)
    assert not out.requires_grad and out.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with torch.no_grad():
        assert torch.matmul(A, A, out=out) is out


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_few_eigenpairs_of_sparse_matrices(layout):
    a = torch.diag(torch.arange(1.0, 31, dtype=torch.float64))
    values, vectors = torch.lobpcg(getattr(a, layout)(), k=2, niter=200)
    assert values.tolist() == pytest.approx([30, 29]) and vectors.shape == (30, 2)
    found = torch.svd_lowrank(getattr(a, layout)(), q=30)
    assert found[1].tolist() == pytest.approx(range(30, 0, -1))


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        (torch.float64, 1e-312),
        (torch.complex128, 1e-320),
        (torch.float32, 1e-40),
        (torch.complex64, 1e-43),
    ],
)
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (80, 40)])
def test_columns_too_short_for_a_reciprocal(dtype, size, shape):
    a = torch.randn(shape, dtype=dtype) * size
    q, r = torch.linalg.qr(a)
    one = torch.eye(shape[1], dtype=dtype)
    eps = torch.finfo(dtype).eps
    assert (q.mH @ q - one).abs().max() < 100 * eps
    assert (q @ r - a).abs().max() < 100 * torch.finfo(dtype).tiny * eps
