"""Scans: against NumPy everywhere, against PyTorch where it is installed."""

import numpy as np
import pytest

import flambeau as F

SHAPES = [(1,), (9,), (5, 8), (3, 70), (6, 5, 4), (30, 17), (2, 3, 40)]
NUMPY = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "logcumsumexp": np.logaddexp.accumulate,
}
TOLERANCE = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-12, "complex64": 1e-5}


def draw(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "complex64":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-3, 4, shape).astype(dtype)


def expected(name, a, dim):
    if a.dtype == np.float32 or a.dtype == np.float16:
        return NUMPY[name](a.astype(np.float64), axis=dim)
    if name in ("cumsum", "cumprod") and a.dtype.kind in "iub":
        return NUMPY[name](a.astype(np.int64), axis=dim)
    return NUMPY[name](a, axis=dim)


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "bool"]
)
@pytest.mark.parametrize("name", NUMPY)
def test_scans(name, dtype):
    if name == "logcumsumexp" and not dtype.startswith("float"):
        return
    for seed, shape in enumerate(SHAPES):
        a = draw(dtype, shape, seed)
        for dim in range(len(shape)):
            ours = getattr(F, name)(F.from_numpy(a), dim)
            ours = ours[0] if isinstance(ours, tuple) else ours
            tolerance = TOLERANCE.get(dtype, 0)
            wanted = expected(name, a, dim)
            assert np.allclose(ours.numpy(), wanted, rtol=tolerance, atol=tolerance), (shape, dim)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_complex_scans(name):
    a = draw("complex64", (5, 11))
    for dim in (0, 1):
        ours = getattr(F, name)(F.from_numpy(a), dim).numpy()
        assert np.allclose(ours, NUMPY[name](a.astype(complex), axis=dim), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["cumsum", "cummax", "logcumsumexp"])
def test_long_rows(name):
    a = draw("float32", (2, 140_001))
    ours = getattr(F, name)(F.from_numpy(a), 1)
    ours = ours[0] if isinstance(ours, tuple) else ours
    assert np.allclose(ours.numpy(), expected(name, a, 1), rtol=1e-5, atol=1e-5)


def test_same_bits_for_any_number_of_threads():
    x = F.from_numpy(draw("float32", (300_000,)))
    before = F.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            F.set_num_threads(threads)
            results.append((x.cumsum(0).numpy().tobytes(), x.sort()[1].numpy().tobytes()))
    finally:
        F.set_num_threads(before)
    assert results[0] == results[1]


def test_extremes_take_the_last_place_and_nan_stays():
    nan = float("nan")
    values, indices = F.tensor([1.0, 1.0, 0.0, nan, 2.0, nan]).cummax(0)
    assert indices.tolist() == [0, 1, 1, 3, 3, 5] and values[3:].isnan().all().item()
    values, indices = F.tensor([2, 1, 1, 3]).cummin(0)
    assert values.tolist() == [2, 1, 1, 1] and indices.tolist() == [0, 1, 2, 2]


def test_logcumsumexp_is_stable():
    inf = float("inf")
    x = F.tensor([-inf, -1000.0, 1000.0, -1000.0, inf])
    assert x.logcumsumexp(0).tolist() == [-inf, -1000.0, 1000.0, 1000.0, inf]


def test_dtypes_in_place_and_out():
    x = F.arange(4, dtype=F.int8)
    assert x.cumsum(0).dtype is F.int64 and x.cumsum(0, dtype=F.float32).dtype is F.float32
    assert x.cumsum_(0).dtype is F.int8 and x.tolist() == [0, 1, 3, 6]
    out = F.empty(0)
    assert F.cumsum(F.tensor([1.0, 2.0]), 0, out=out) is out and out.tolist() == [1.0, 3.0]
    with pytest.raises(RuntimeError, match="Bad in-place call: input tensor dtype signed char"):
        x.cumsum_(0, dtype=F.int64)
    with pytest.raises(
        NotImplementedError, match="\"logcumsumexp_out_cpu\" not implemented for 'Long'"
    ):
        F.arange(3).logcumsumexp(0)
    with pytest.raises(IndexError, match="Dimension out of range"):
        F.ones(3).cumsum(1)


def test_empty_and_meta():
    assert F.empty(0).cumsum(0).shape == (0,) and F.tensor(3.0).cummax(0).values.item() == 3.0
    meta = F.empty(2, 3, device="meta")
    assert meta.cumsum(0, dtype=F.float64).dtype is F.float64
    assert meta.cummin(1).indices.shape == (2, 3)


def test_diff():
    a = draw("float64", (3, 7))
    t = F.from_numpy(a)
    for n in range(4):
        assert np.allclose(F.diff(t, n, dim=1).numpy(), np.diff(a, n, axis=1))
    joined = np.diff(a, axis=0, prepend=a[:1], append=a)
    assert np.allclose(t.diff(dim=0, prepend=t[:1], append=t).numpy(), joined)
    with pytest.raises(RuntimeError, match="order must be non-negative but got -1"):
        t.diff(-1)


def test_integrals_and_gradients():
    a = draw("float64", (4, 6))
    x = np.array([0.0, 1.0, 1.5, 3.0, 4.0, 4.5])
    t, points = F.from_numpy(a), F.from_numpy(x)
    steps = (a[:, 1:] + a[:, :-1]) / 2 * np.diff(x)
    assert np.allclose(F.trapezoid(t, points).numpy(), steps.sum(1))
    assert np.allclose(F.cumulative_trapezoid(t, points).numpy(), steps.cumsum(1))
    assert np.allclose(F.trapz(t, dx=0.5, dim=0).numpy(), (a[1:] + a[:-1]).sum(0) / 4)
    for order in (1, 2):
        ours = F.gradient(t, spacing=(0.5, points), edge_order=order)
        for p, q in zip(ours, np.gradient(a, 0.5, x, edge_order=order)):
            assert np.allclose(p.numpy(), q)


def test_covariance():
    a = draw("float64", (3, 8))
    f, w = np.array([1, 2, 1, 3, 1, 1, 2, 1]), np.linspace(0.5, 2.0, 8)
    t = F.from_numpy(a)
    assert np.allclose(t.cov().numpy(), np.cov(a))
    ours = t.cov(correction=0, fweights=F.from_numpy(f), aweights=F.from_numpy(w))
    assert np.allclose(ours.numpy(), np.cov(a, ddof=0, fweights=f, aweights=w))
    assert np.allclose(t.corrcoef().numpy(), np.corrcoef(a))


GRADS = {
    "cumsum": lambda x: x.cumsum(1) ** 2,
    "cumprod": lambda x: x.cumprod(0) ** 2,
    "cumprod at a zero": lambda x: (x * F.tensor([1.0, 0.0, 1.0], dtype=F.float64)).cumprod(1),
    "cumprod at two zeros": lambda x: (x * F.tensor([0.0, 1.0, 0.0], dtype=F.float64)).cumprod(1),
    "cummax": lambda x: x.cummax(1)[0] ** 2,
    "cummin": lambda x: x.cummin(0)[0] ** 2,
    "logcumsumexp": lambda x: x.logcumsumexp(1) ** 2,
    "diff": lambda x: x.diff(prepend=x[:, :1] * 2) ** 2,
    "trapezoid": lambda x: F.trapezoid(x**2, x, dim=0),
    "cov": lambda x: x.cov() ** 2,
    "lone number": lambda x: x[0, 0].cumsum(0) * x[0, 0].cumprod(0) * x[0, 0].logcumsumexp(0),
}


@pytest.mark.parametrize("name", GRADS)
def test_derivatives(name):
    x = F.from_numpy(np.random.default_rng(1).standard_normal((3, 3))).requires_grad_()
    assert F.autograd.gradcheck(GRADS[name], (x,))
    assert F.autograd.gradgradcheck(GRADS[name], (x,))


@pytest.mark.oracle
@pytest.mark.parametrize("name", NUMPY)
def test_agrees_with_pytorch(name):
    torch = pytest.importorskip("torch")
    for dtype in ("float32", "float64", "int16"):
        if name == "logcumsumexp" and dtype == "int16":
            continue
        for seed, shape in enumerate([*SHAPES, (140_001,)]):
            a = draw(dtype, shape, seed).round(1)
            if dtype != "int16" and name.startswith("cumm"):
                a[np.random.default_rng(seed).random(shape) < 0.02] = np.nan
            dim = seed % len(shape)
            theirs, ours = (
                getattr(torch, name)(torch.from_numpy(a), dim),
                getattr(F, name)(F.from_numpy(a), dim),
            )
            if not isinstance(theirs, tuple):
                theirs, ours = (theirs,), (ours,)
            for p, q in zip(ours, theirs):
                assert p.numpy().dtype == q.numpy().dtype
                assert np.allclose(p.numpy(), q.numpy(), rtol=2e-6, atol=1e-6, equal_nan=True)
