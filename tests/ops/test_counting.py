"""Unique values, searches and histograms: against NumPy, and against PyTorch where installed."""

import numpy as np
import pytest

import flambeau as F


def draw(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    return (rng.integers(-9, 9, shape) / (2 if dtype.startswith("f") else 1)).astype(dtype)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint8", "int64", "bool"]
)
def test_unique(dtype):
    for seed, shape in enumerate([(1,), (20,), (6, 7), (70_000,)]):
        a = draw(dtype, shape, seed)
        values, inverse, counts = F.unique(F.from_numpy(a), return_inverse=True, return_counts=True)
        # in double: NumPy 2.4 sorts float16 wrongly on some machines
        wanted, wanted_counts = np.unique(a.astype(np.float64), return_counts=True)
        assert np.array_equal(values.numpy(), wanted)
        assert np.array_equal(counts.numpy(), wanted_counts)
        assert np.array_equal(values.numpy()[inverse.numpy()], a)


def test_every_nan_is_unique():
    nan = float("nan")
    values, counts = F.tensor([1.0, nan, 1.0, nan]).unique(return_counts=True)
    assert values.isnan().tolist() == [False, True, True] and counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_unique_slices(dtype):
    a = draw(dtype, (40, 2)) // 3
    for dim, b in ((0, a), (1, a.T), (1, np.stack([a, a], 2).transpose(1, 0, 2))):
        t = F.from_numpy(np.ascontiguousarray(b))
        values, inverse, counts = t.unique(dim=dim, return_inverse=True, return_counts=True)
        assert np.array_equal(values.numpy(), np.unique(b, axis=dim))
        assert np.array_equal(np.take(values.numpy(), inverse.numpy(), dim), b)
        assert counts.sum().item() == 40


def test_unique_consecutive():
    x = F.tensor([1, 1, 2, 2, 2, 1])
    values, inverse, counts = F.unique_consecutive(x, return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 1] and inverse.tolist() == [0, 0, 1, 1, 1, 2]
    assert counts.tolist() == [2, 3, 1]
    rows = F.tensor([[1, 2], [1, 2], [0, 5]])
    assert F.unique_consecutive(rows, dim=0).tolist() == [[1, 2], [0, 5]]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(dtype, side):
    edges, values = np.sort(draw(dtype, (31,))), draw(dtype, (4, 50), 1)
    ours = F.searchsorted(F.from_numpy(edges), F.from_numpy(values), side=side)
    assert np.array_equal(ours.numpy(), np.searchsorted(edges, values, side=side))
    ours = F.bucketize(
        F.from_numpy(values), F.from_numpy(edges), right=side == "right", out_int32=True
    )
    assert ours.dtype is F.int32
    assert np.array_equal(ours.numpy(), np.searchsorted(edges, values, side=side))


def test_searchsorted_in_rows_and_with_a_sorter():
    rows = F.tensor([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])
    assert F.searchsorted(rows, F.tensor([[3.0], [3.0]])).tolist() == [[1], [1]]
    x = F.tensor([5.0, 1.0, 3.0])
    assert F.searchsorted(x, F.tensor([0.0, 4.0]), sorter=x.argsort()).tolist() == [0, 2]
    assert F.searchsorted(x.sort()[0], 3).item() == 1
    assert F.searchsorted(x.sort()[0], F.tensor([float("nan")])).tolist() == [3]
    with pytest.raises(RuntimeError, match="sorter index out of range"):
        F.searchsorted(x, x, sorter=F.tensor([0, 1, 7]))
    with pytest.raises(
        RuntimeError, match="boundaries tensor should be 1 dimension or the first N-1"
    ):
        F.searchsorted(rows, x)


def test_bincount():
    a = np.random.default_rng(0).integers(0, 12, 200)
    w = np.random.default_rng(1).standard_normal(200)
    t = F.from_numpy(a)
    assert np.array_equal(t.bincount().numpy(), np.bincount(a))
    assert np.array_equal(F.bincount(t, minlength=20).numpy(), np.bincount(a, minlength=20))
    assert np.allclose(t.bincount(F.from_numpy(w)).numpy(), np.bincount(a, w))
    with pytest.raises(RuntimeError, match="bincount only supports 1-d non-negative integral"):
        F.bincount(-t - 1)


def test_histograms():
    a = np.random.default_rng(0).standard_normal(500)
    t = F.from_numpy(a)
    counts, edges = np.histogram(a, 7)
    assert np.array_equal(F.histc(t, 7).numpy(), counts)
    hist, ours = F.histogram(t, 7)
    assert np.array_equal(hist.numpy(), counts) and np.allclose(ours.numpy(), edges)
    hist, _ = t.histogram(F.tensor([-1.0, 0.0, 2.0], dtype=F.float64), density=True)
    assert np.allclose(hist.numpy(), np.histogram(a, [-1, 0, 2], density=True)[0])
    assert F.histc(F.tensor([0.0, 1.0, 2.0, 9.0]), 2, 0, 2).tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match=r"torch\.histc: max must be larger than min"):
        F.histc(t, 3, 2, 0)


def test_isin():
    a, b = draw("int64", (5, 8)), draw("int64", (9,), 3)
    for few in (b, b[:2], b[:0]):
        t, test = F.from_numpy(a), F.from_numpy(few)
        assert np.array_equal(F.isin(t, test).numpy(), np.isin(a, few))
        assert np.array_equal(F.isin(t, test, invert=True).numpy(), np.isin(a, few, invert=True))
    assert F.isin(F.tensor([float("nan"), 1.0]), F.tensor([float("nan")] * 6)).tolist() == [
        False,
        False,
    ]


@pytest.mark.oracle
def test_agrees_with_pytorch():
    torch = pytest.importorskip("torch")
    a = draw("float32", (300,))
    x, y = torch.from_numpy(a), F.from_numpy(a)
    for call in (
        lambda T, t: T.histc(t, 9),
        lambda T, t: T.histc(t, 5, -2, 3),
        lambda T, t: T.histogram(t, 6)[0],
        lambda T, t: T.histogram(t, 6, range=(-1.0, 2.0), weight=t, density=True)[0],
        lambda T, t: T.unique(t, return_inverse=True)[1],
    ):
        assert np.allclose(call(F, y).numpy(), call(torch, x).numpy())


def test_unique2_gives_what_is_asked_for():
    x = F.tensor([1, 1, 2, 3, 3])
    for inverse, counts in ((False, False), (True, False), (False, True)):
        found = F._unique2(x, True, inverse, counts)
        assert [len(t) for t in found] == [3, 5 * inverse, 3 * counts]


def test_norms_except_the_only_dimension():
    v = F.tensor([1.0, -2.0])
    assert F.norm_except_dim(v).tolist() == [1.0, 2.0]
    with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
        F.norm_except_dim(F.tensor(1.0))
