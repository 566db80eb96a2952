"""Linear algebra on GPUs: results, gradients and errors are those of the host, by cuSOLVER and
cuBLAS on a real GPU, by stand-ins for them here.
"""

import contextlib

import pytest

import flambeau
from flambeau.eager import cuda_linalg, linalg_ldl, linalg_reflectors, linalg_small
from flambeau.runtime import cusolver
from tests.cuda.stand_in_solver import Blas, LibraryError, Solver

linalg = flambeau.linalg
FAR = {"float32": 2e-4, "float64": 1e-10, "complex64": 2e-4, "complex128": 1e-10}
BATCHES = {"one": (), "three": (3,), "planes": (2, 2)}
# single precision differs in letters of names only, of which one test is enough without a GPU
SINGLE = [pytest.param(k, marks=pytest.mark.gpu) for k in ("float32", "complex64")]
DTYPES = ["float64", "complex128", *SINGLE]


@pytest.fixture
def library(cuda, monkeypatch):
    """The libraries of the GPU, or stand-ins, which small matrices meet as well."""
    own = cuda.part(None).decompositions
    before = own.library()
    if before is not None:
        yield before
        return
    driver = cuda.driver
    monkeypatch.setattr(linalg_small, "SMALL_BESIDE", 1)
    monkeypatch.setattr(linalg_reflectors, "SMALL_BESIDE", 1)
    monkeypatch.setattr(linalg_ldl, "FEW", 1)
    found = cusolver.Library(cuda.part(None), Solver(driver), Blas(driver), (LibraryError,))
    own.use(found)
    yield found
    own.use(None)


def drawn(*shape, dtype="float64", seed=0):
    generator = flambeau.Generator().manual_seed(seed + 7 * len(shape))
    kind = getattr(flambeau, dtype)
    wide = flambeau.complex128 if kind.is_complex else flambeau.float64
    return flambeau.randn(shape, generator=generator, dtype=wide).to(kind)


def positive(*shape, dtype):
    a = drawn(*shape, dtype=dtype)
    return a @ a.mH + shape[-1] * flambeau.eye(shape[-1], dtype=a.dtype)


def close(host, gpu, far):
    assert host.shape == gpu.shape and host.dtype is gpu.dtype and gpu.device.type == "cuda"
    host, gpu = host.detach(), gpu.detach().cpu()
    if not host.dtype.is_floating_point and not host.dtype.is_complex:
        assert flambeau.equal(host, gpu)
    else:
        assert float((host - gpu).abs().norm()) <= far * (1 + float(host.abs().norm()))


def compare(work, tensors, far, gradients=True):
    """Results of work and the gradients of those that have one, on the GPU and on the host."""
    found = []
    for place in ("cpu", "cuda"):
        given = [t.detach().to(place).requires_grad_(gradients) for t in tensors]
        results = work(*given)
        results = (results,) if isinstance(results, flambeau.Tensor) else tuple(results)
        if gradients:
            loss = 0
            for k, r in enumerate(results):
                if r.requires_grad:
                    weights = drawn(*r.shape, dtype=str(r.dtype).split(".")[-1], seed=k).to(place)
                    loss = loss + (r * weights).sum().abs()
            loss.backward()
        found.append([*results, *[t.grad for t in given if t.grad is not None]])
    assert len(found[0]) == len(found[1])
    for host, gpu in zip(*found):
        close(host, gpu, far)


def same_strides(work, *tensors):
    """Results lie in memory as the host's do."""
    host, gpu = (work(*[t.to(place) for t in tensors]) for place in ("cpu", "cuda"))
    for a, b in zip(host, gpu):
        assert a.stride() == b.stride()


def first(work):
    return lambda *t: work(*t)[0]


def phases(work):
    """Vectors are known up to a factor, so products with it are compared."""

    def run(a):
        U, S, Vh = work(a)
        k = S.shape[-1]
        return S, (U[..., :k] * S.unsqueeze(-2).to(U.dtype)) @ Vh[..., :k, :], U @ U.mH, Vh.mH @ Vh

    return run


SQUARE = {
    "cholesky": (linalg.cholesky, "positive"),
    "cholesky_upper": (lambda a: linalg.cholesky(a, upper=True), "positive"),
    "cholesky_ex": (linalg.cholesky_ex, "positive"),
    "cholesky_inverse": (lambda a: flambeau.cholesky_inverse(linalg.cholesky(a)), "positive"),
    "inv": (linalg.inv, "positive"),
    "inv_ex": (linalg.inv_ex, "any"),
    "det": (linalg.det, "any"),
    "slogdet": (lambda a: linalg.slogdet(a)[1], "any"),
    "lu_factor": (first(linalg.lu_factor), "any"),
    "lu": (linalg.lu, "any"),
    "lu_pivots": (lambda a: linalg.lu_factor(a)[1], "plain"),
    "qr": (linalg.qr, "any"),
    "eigvalsh": (linalg.eigvalsh, "positive"),
    "svdvals": (linalg.svdvals, "any"),
    "pinv": (linalg.pinv, "any"),
    "pinv_hermitian": (lambda a: linalg.pinv(a, hermitian=True), "positive"),
    "matrix_rank": (linalg.matrix_rank, "plain"),
    "cond": (linalg.cond, "any"),
    "matrix_power": (lambda a: linalg.matrix_power(a, -2), "positive"),
}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SQUARE)
def test_square(library, name, dtype, batch):
    work, kind = SQUARE[name]
    draw = positive if "positive" in kind else drawn
    a = draw(*BATCHES[batch], 5, 5, dtype=dtype)
    if name.startswith("lu") and a.is_complex():
        pytest.skip("complex numbers are compared by another size")
    compare(work, [a], FAR[dtype], "plain" not in kind)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("limit", [0, 16])
def test_systems(library, limit, batch, dtype, monkeypatch):
    """limit: rows of systems that one call solves; others are swaps and triangles."""
    monkeypatch.setattr(cuda_linalg, "AT_ONCE", limit)
    far = FAR[dtype]
    a = positive(*BATCHES[batch], 5, 5, dtype=dtype)
    b, vector = drawn(*BATCHES[batch], 5, 3, dtype=dtype), drawn(5, dtype=dtype)
    compare(linalg.solve, [a, b], far)
    compare(lambda a, b: linalg.solve(a, b.mT, left=False), [a, b], far)
    compare(linalg.solve, [a[..., :, :], vector] if not BATCHES[batch] else [a, b[..., 0]], far)
    compare(lambda a, b: flambeau.cholesky_solve(b, linalg.cholesky(a)), [a, b], far)
    factors = lambda a: linalg.lu_factor(a)
    for options in ({}, {"adjoint": True}):
        compare(lambda a, b, o=options: linalg.lu_solve(*factors(a), b, **o), [a, b], far)
    work = lambda a, b: linalg.lu_solve(*factors(a), b.mT, left=False)
    compare(work, [a, b], far)
    compare(lambda a, b: linalg.ldl_solve(*linalg.ldl_factor(a), b), [a, b], far, False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_triangles(library, upper, unit, dtype):
    options = {"upper": upper, "unitriangular": unit}
    solve = lambda a, b: linalg.solve_triangular(a, b, **options)
    right = lambda a, b: linalg.solve_triangular(a, b.mT, left=False, **options)
    for batch in BATCHES.values():
        a, b = positive(*batch, 4, 4, dtype=dtype), drawn(*batch, 4, 3, dtype=dtype)
        compare(solve, [a, b], FAR[dtype])
        compare(lambda a, b: solve(a.mT, b), [a, b], FAR[dtype])
        compare(lambda a, b: solve(a.mH, b), [a, b], FAR[dtype])
        compare(right, [a, b], FAR[dtype])
        compare(lambda a, b: solve(a[..., ::2, ::2], b[..., ::2, :1]), [a, b], FAR[dtype])
    a, b = positive(4, 4, dtype=dtype), drawn(3, 4, 2, dtype=dtype)
    compare(solve, [a, b], FAR[dtype])  # one triangle for several


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_single_precision(library, dtype):
    for batch in BATCHES.values():
        a, far = positive(*batch, 5, 5, dtype=dtype), FAR[dtype]
        for work in (linalg.cholesky, linalg.inv, linalg.qr, linalg.eigvalsh, linalg.det):
            compare(work, [a], far)
        compare(linalg.solve, [a, a], far)
        compare(phases(linalg.svd), [a], far, False)
        compare(
            phases(lambda a: linalg.svd(a, driver="gesvd") if a.is_cuda else linalg.svd(a)),
            [a],
            far,
            False,
        )
        values, vectors = linalg.eig(a.to("cuda"))
        close(a.to(values.dtype) @ vectors.cpu(), vectors * values.unsqueeze(-2), 10 * far)


SHAPES = {"tall": (6, 4), "wide": (4, 6), "square": (5, 5), "column": (5, 1), "row": (1, 5)}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape(library, shape, dtype, batch):
    a, far = drawn(*BATCHES[batch], *SHAPES[shape], dtype=dtype), FAR[dtype]
    rows, columns = SHAPES[shape]
    compare(linalg.qr, [a], far)
    compare(lambda a: linalg.qr(a, mode="r")[1], [a], far, False)
    compare(lambda a: linalg.qr(a, mode="complete"), [a], far, rows <= columns)
    compare(flambeau.geqrf, [a], far, False)
    if not a.is_complex():  # those may be compared by another size
        compare(linalg.lu_factor, [a], far, False)
    P, L, U = linalg.lu(a.to("cuda"))
    close(a, P @ L @ U, far)
    compare(phases(linalg.svd), [a], far, False)
    compare(phases(lambda a: linalg.svd(a, full_matrices=False)), [a], far, False)
    compare(linalg.svdvals, [a], far)
    if rows >= columns:
        compare(lambda a: linalg.householder_product(*flambeau.geqrf(a)), [a], far, False)
        b = drawn(*BATCHES[batch], rows, 2, dtype=dtype)
        compare(lambda a, b: linalg.lstsq(a, b).solution, [a, b], far)
        compare(lambda a, b: flambeau.ormqr(*flambeau.geqrf(a), b), [a, b], far, False)


@pytest.mark.parametrize("driver", ["gesvd", "gesvdj", "gesvda"])
@pytest.mark.parametrize("shape", SHAPES)
def test_drivers(library, shape, driver):
    for batch in BATCHES.values():
        a = drawn(*batch, *SHAPES[shape], dtype="complex128")
        for full in (False, True):
            wanted = phases(lambda a, f=full: linalg.svd(a, f))(a)
            found = phases(lambda a, f=full: linalg.svd(a, f, driver=driver))(a.to("cuda"))
            for host, gpu in zip(wanted, found):
                close(host, gpu, 1e-10)
            close(linalg.svdvals(a), linalg.svdvals(a.to("cuda"), driver=driver), 1e-10)


def test_unknown_driver(library):
    with pytest.raises(RuntimeError, match="unknown svd driver foo"):
        linalg.svd(drawn(3, 3).to("cuda"), driver="foo")


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_spectra(library, dtype, batch):
    far = FAR[dtype]
    a = positive(*BATCHES[batch], 5, 5, dtype=dtype)
    for triangle in ("L", "U"):
        values, vectors = linalg.eigh(a.to("cuda"), triangle)
        close(linalg.eigh(a, triangle)[0], values, far)
        close(a @ vectors.cpu(), vectors * values.unsqueeze(-2).to(vectors.dtype), 5 * far)
        one = flambeau.eye(5, dtype=a.dtype).expand(a.shape)
        close(one, vectors.mH @ vectors, far)
    compare(lambda a: linalg.eigh(a)[1].abs(), [a], 100 * far)
    a = drawn(*BATCHES[batch], 6, 6, dtype=dtype)
    values, vectors = linalg.eig(a.to("cuda"))
    close((a.to(values.dtype) @ vectors.cpu()), vectors * values.unsqueeze(-2), 10 * far)
    size = vectors.abs().square().sum(-2)
    close(flambeau.ones(size.shape, dtype=size.dtype), size, far)
    order = lambda t: t.cpu().abs().sort(-1)[0]
    assert float((order(values) - order(linalg.eigvals(a))).abs().max()) < 10 * far
    values = linalg.eigvals(a.to("cuda"))
    assert float((order(values) - order(linalg.eigvals(a))).abs().max()) < 10 * far


def test_older_libraries(library, monkeypatch):
    """What the library does not have yet is done by others."""
    monkeypatch.setattr(library, "known", {})
    a = drawn(2, 40, 40)
    values, vectors = linalg.eig(a.to("cuda"))
    close(a.to(values.dtype) @ vectors.cpu(), vectors * values.unsqueeze(-2), 1e-9)
    close(linalg.eigvalsh(a + a.mT), linalg.eigvalsh((a + a.mT).to("cuda")), 1e-10)


def test_large_batches(library):
    """Many matrices are one call; of few large ones there is one each."""
    a = positive(40, 6, 6, dtype="float64")
    compare(linalg.cholesky, [a], 1e-10)
    compare(linalg.inv, [a], 1e-10)
    compare(linalg.qr, [drawn(40, 6, 4)], 1e-10)
    if isinstance(library.blas, Blas):
        for lib in (library.blas, library.solver):
            lib.calls.clear()
        linalg.solve(a.to("cuda"), a.to("cuda"))
        assert library.blas.calls == ["dgetrf_batched", "dgetrs_batched"]
        library.blas.calls.clear()
        linalg.inv(a.to("cuda"))
        assert library.blas.calls == ["dgetrf_batched", "dgetri_batched"]
        library.blas.calls.clear()
        linalg.solve(a[0].to("cuda"), a[0].to("cuda"))
        assert library.solver.calls == ["dgetrf", "dgetrs"]
        library.blas.calls.clear()
        a = positive(2, 20, 20, dtype="float64").to("cuda")
        linalg.solve(a, a)
        assert library.blas.calls == ["dgetrf_batched", "dtrsm_batched", "dtrsm_batched"]


def test_memory_of_results(library):
    for shape in ((4, 4), (3, 4, 4), (3, 5, 4), (4, 6)):
        a = drawn(*shape)
        same_strides(linalg.qr, a)
        same_strides(linalg.lu_factor, a)
        if shape[-1] == shape[-2]:
            a = positive(*shape, dtype="float64")
            same_strides(linalg.eigh, a)
            same_strides(linalg.eig, a)
            same_strides(lambda a: (linalg.cholesky(a), linalg.cholesky(a, upper=True)), a)
            same_strides(lambda a: (linalg.inv(a), linalg.solve(a, a)), a)
            same_strides(lambda a: (linalg.solve_triangular(a, a, upper=True),), a)


def test_nothing_to_factor(library):
    for work in (linalg.cholesky, linalg.inv, linalg.qr, linalg.svd, linalg.eigh, linalg.lu_factor):
        for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
            compare(work, [flambeau.empty(*shape)], 0, False)
    compare(linalg.qr, [flambeau.empty(3, 0)], 0, False)
    compare(linalg.solve, [flambeau.eye(3), flambeau.empty(3, 0)], 0, False)


def test_inputs_stay_as_they_are(library):
    a = positive(3, 5, 5, dtype="float64").to("cuda")
    before = a.cpu()
    for name in "cholesky inv qr svd svdvals eigh eigvalsh eig eigvals lu_factor det lu".split():
        getattr(linalg, name)(a)
        assert flambeau.equal(a.cpu(), before), name
    linalg.solve(a, a), linalg.solve_triangular(a, a, upper=True), linalg.lstsq(a, a)
    assert flambeau.equal(a.cpu(), before)


@pytest.mark.parametrize("n", [3, 4, 6])
def test_small_singular(cuda, n):
    """Our own kernels tell by codes alone; the GPU goes on without complaint."""
    a = flambeau.zeros(5, n, n, device="cuda")
    a[1] = flambeau.eye(n, device="cuda")
    for found in (linalg.inv_ex(a), linalg.solve_ex(a, a)):
        assert found[1].cpu().tolist() == [1, 0, 1, 1, 1]
    assert linalg.det(a).cpu().tolist() == [0, 1, 0, 0, 0]
    flambeau.cuda.synchronize()


SINGULAR = {
    "inv": linalg.inv,
    "solve": lambda a: linalg.solve(a, a),
    "lu_factor": linalg.lu_factor,
    "cholesky": lambda a: linalg.cholesky(a - flambeau.eye(4, dtype=a.dtype, device=a.device)),
    "cholesky_inverse": flambeau.cholesky_inverse,
}


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("name", SINGULAR)
def test_singular(library, name, batch):
    a = flambeau.zeros(*batch, 4, 4)
    if batch:
        a[0] = 3 * flambeau.eye(4)
    said = []
    for place in ("cpu", "cuda"):
        with pytest.raises(RuntimeError) as error:
            SINGULAR[name](a.to(place))
        said.append((error.type, str(error.value)))
    assert said[0] == said[1]
    assert linalg.inv_ex(a.to("cuda")).info.cpu().tolist() == linalg.inv_ex(a).info.tolist()


def test_values_that_are_none(library):
    nan = flambeau.full((3, 3), float("nan"), device="cuda")
    with contextlib.suppress(linalg.LinAlgError):  # libraries may tell, or not
        assert linalg.svd(nan)[1].isnan().all()
    for batch, n in (((), 3), ((5,), 3), ((5,), 40), ((), 300)):
        with contextlib.suppress(linalg.LinAlgError):
            a = flambeau.full((*batch, n, n), float("nan"), device="cuda")
            assert linalg.eigvalsh(a).isnan().all()
    with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
        linalg.eig(nan)


def test_rotations_that_do_not_converge(library):
    if not isinstance(library.solver, Solver):
        pytest.skip("a stand-in can be told to fail")
    library.solver.fails = 1
    compare(phases(linalg.svd), [drawn(5, 4)], 1e-10, False)
    assert "dgesvd" in library.solver.calls


@pytest.mark.parametrize("batch", [(), (3,)])
def test_without_pivots(library, batch):
    a = positive(*batch, 5, 5, dtype="float64").to("cuda")
    P, L, U = linalg.lu(a, pivot=False)
    close(a.cpu(), L @ U, 1e-12)
    close(flambeau.eye(5, dtype=a.dtype).expand(a.shape), P, 0)
    lu, pivots = linalg.lu_factor(a, pivot=False)
    assert pivots.cpu().tolist() == flambeau.arange(1, 6).expand(*batch, 5).tolist()
    close(linalg.solve(a.cpu(), a.cpu()), linalg.lu_solve(lu, pivots, a), 1e-12)


def test_least_squares(library):
    a, b = drawn(6, 4).to("cuda"), drawn(6, 2).to("cuda")
    with pytest.raises(RuntimeError, match="other than `gels` is not supported on CUDA"):
        linalg.lstsq(a, b, driver="gelsd")
    close(linalg.lstsq(a.cpu(), b.cpu(), driver="gels")[1], linalg.lstsq(a, b)[1], 1e-12)
    assert not linalg.lstsq(flambeau.zeros_like(a), b)[0].isfinite().any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
def test_symmetric(library, batch, dtype):
    a = drawn(*BATCHES[batch], 5, 5, dtype=dtype)
    a = a + a.mT + 8 * flambeau.eye(5, dtype=a.dtype)  # symmetric, not Hermitian
    b = drawn(*BATCHES[batch], 5, 2, dtype=dtype)
    factors, pivots = linalg.ldl_factor(a.to("cuda"))
    close(linalg.solve(a, b), linalg.ldl_solve(factors, pivots, b.to("cuda")), FAR[dtype])
    if isinstance(library.solver, Solver):  # on a GPU, matrices this small are our kernel's
        pivots[..., 1] = 9
        with pytest.raises(RuntimeError, match="must all satisfy"):
            linalg.ldl_solve(factors, pivots, b.to("cuda"))


def test_half_types_are_refused(library):
    a = flambeau.eye(4, device="cuda").half()
    with pytest.raises(NotImplementedError, match='"cholesky_cusolver" not implemented for'):
        linalg.cholesky(a)


def test_wrong_pivots(library):
    lu, pivots = linalg.lu_factor(drawn(4, 4).to("cuda"))
    for wrong in (0, 5):
        pivots[1] = wrong
        with pytest.raises(RuntimeError, match="Pivots given to lu_solve must all be"):
            linalg.lu_solve(lu, pivots, lu)
        with pytest.raises(IndexError, match="swaps"):
            flambeau.lu_unpack(lu, pivots)[0].cpu()


def test_preferred_library(cuda):
    choose = flambeau.backends.cuda.preferred_linalg_library
    before = choose()
    assert choose("cusolver") == choose()
    with pytest.raises(RuntimeError, match="Unknown input value"):
        choose("foo")
    choose("default")
    assert choose() == before


def test_compiled(library):
    def work(a, b):
        L, info = linalg.cholesky_ex(a * 2)
        return linalg.solve_triangular(L, b, upper=False) + info[:, None, None]

    compiled = flambeau.compile(work)
    for seed in range(6):
        a, b = positive(3, 5, 5, dtype="float64"), drawn(3, 5, 2, seed=seed)
        close(work(a, b), compiled(a.to("cuda"), b.to("cuda")), 1e-10)


def test_streams(library):
    a = positive(64, 64, dtype="float64").to("cuda")
    stream = flambeau.cuda.Stream()
    stream.wait_stream(flambeau.cuda.current_stream())
    with flambeau.cuda.stream(stream):
        found = linalg.inv(a)
    flambeau.cuda.current_stream().wait_stream(stream)
    close(linalg.inv(a.cpu()), found, 1e-10)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [40, 300])
def test_larger(library, n, dtype):
    far = 10 * FAR[dtype]
    for batch in ((), (3,)):
        a, spd = drawn(*batch, n, n, dtype=dtype), positive(*batch, n, n, dtype=dtype)
        compare(linalg.cholesky, [spd], far)
        compare(linalg.inv, [spd], far)
        compare(linalg.solve, [spd, a], far)
        compare(lambda a: linalg.solve_triangular(a, a, upper=True), [spd], far)
        compare(lambda a: linalg.qr(a)[1].abs(), [a], far, False)
        compare(linalg.svdvals, [a], far, False)
        compare(linalg.eigvalsh, [spd], far, False)
        compare(phases(linalg.svd), [a], far, False)
        values, vectors = linalg.eig(a.to("cuda"))
        close(a.to(values.dtype) @ vectors.cpu(), vectors * values.unsqueeze(-2), 10 * far)
        L, D = linalg.ldl_factor(spd.to("cuda"))
        close(
            linalg.ldl_solve(*linalg.ldl_factor(spd), a), linalg.ldl_solve(L, D, a.to("cuda")), far
        )


@pytest.mark.gpu
def test_graphs(library):
    a = positive(8, 64, 64, dtype="float32").to("cuda")
    work = lambda: (linalg.cholesky_ex(a)[0], linalg.inv_ex(a)[0], linalg.qr(a)[1])
    work()
    graph = flambeau.cuda.CUDAGraph()
    with flambeau.cuda.graph(graph):
        found = work()
    a.copy_(2 * positive(8, 64, 64, dtype="float32"))
    graph.replay()
    flambeau.cuda.synchronize()
    for one, other in zip(found, work()):
        close(other.cpu(), one, 1e-4)


@pytest.mark.gpu
def test_the_library_is_there(library):
    assert isinstance(library.solver.__name__, str)
