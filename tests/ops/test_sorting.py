"""Sorting and selecting: against NumPy everywhere, against PyTorch where it is installed."""

import numpy as np
import pytest

import flambeau as F

FLOATS = ["float16", "float32", "float64"]
INTS = ["int8", "uint8", "int16", "int32", "int64"]
SHAPES = [(1,), (7,), (5, 8), (4, 65), (3, 130), (2, 700), (6, 5, 4)]
LONG = (2, 70_001)


def draw(dtype, shape, seed=0, special=True):
    """Values with ties; for floats also nan, infinities and both zeros."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype not in FLOATS:
        bits = rng.integers(0, 2**63, shape, dtype=np.uint64)
        return (bits if seed % 2 else bits % 7).astype(dtype)
    a = rng.standard_normal(shape).round(1).astype(dtype)
    if special:
        for value in (np.nan, -0.0, np.inf, -np.inf):
            a[rng.random(shape) < 0.04] = value
    return a


def reference(a, dim, descending=False):
    """A stable argsort with nan largest."""
    if not descending:
        return np.argsort(a, axis=dim, kind="stable")
    flipped = np.argsort(np.flip(a, dim), axis=dim, kind="stable")
    return a.shape[dim] - 1 - np.flip(flipped, dim)


def same(ours, theirs):
    return np.array_equal(ours.numpy(), theirs, equal_nan=ours.is_floating_point())


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, "bool", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(dtype, descending):
    for seed, shape in enumerate(SHAPES):
        a = draw(dtype, shape, seed)
        for dim in range(len(shape)):
            values, indices = F.sort(F.from_numpy(a), dim, descending)
            order = reference(a, dim, descending)
            assert same(indices, order), (shape, dim)
            assert same(values, np.take_along_axis(a, order, dim)), (shape, dim)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16", "uint8"])
def test_sort_of_long_rows(dtype):
    for seed in (0, 1):
        a = draw(dtype, LONG, seed)
        values, indices = F.from_numpy(a).sort(descending=bool(seed))
        order = reference(a, 1, bool(seed))
        assert same(indices, order) and same(values, np.take_along_axis(a, order, 1))


def test_sort_keeps_bits_of_zeros_and_nans():
    a = np.array([0.0, -0.0, np.nan, -1.0, -0.0, 0.0], dtype=np.float32)
    values = F.from_numpy(a).sort().values.numpy()
    assert np.signbit(values[:5]).tolist() == [True, False, True, True, False]


def test_sort_of_bfloat16():
    x = F.tensor([1.5, -2.0, float("nan"), 0.25]).bfloat16()
    assert x.sort().indices.tolist() == [1, 3, 0, 2]


def test_sort_of_strided_views():
    a = draw("float32", (6, 10))
    t = F.from_numpy(a)
    order = reference(a.T[::2], 0)
    assert same(t.t()[::2].sort(0).indices, order)


def test_argsort_and_msort():
    a = draw("float32", (5, 6), 3)
    t = F.from_numpy(a)
    assert same(t.argsort(0, True), reference(a, 0, True))
    assert same(F.msort(t), np.take_along_axis(a, reference(a, 0), 0))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize("largest", [False, True])
def test_topk(dtype, largest):
    for seed, shape in enumerate([*SHAPES, (3, 3000), LONG]):
        a = draw(dtype, shape, seed)
        dim = seed % len(shape)
        order = reference(a, dim, largest)
        n = shape[dim]
        for k in {0, 1, n // 9, n // 2, n}:
            values, indices = F.topk(F.from_numpy(a), k, dim, largest)
            best = np.take(order, range(k), dim)
            assert same(indices, best) and same(values, np.take_along_axis(a, best, dim)), (
                shape,
                k,
            )


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
def test_kthvalue(dtype):
    for seed, shape in enumerate([*SHAPES, (3, 3000)]):
        a = draw(dtype, shape, seed)
        dim = seed % len(shape)
        order = reference(a, dim)
        for k in {1, shape[dim] // 2 + 1, shape[dim]}:
            values, indices = F.kthvalue(F.from_numpy(a), k, dim, keepdim=True)
            chosen = np.take(order, [k - 1], dim)
            assert same(indices, chosen) and same(values, np.take_along_axis(a, chosen, dim))


def test_median_takes_the_lower_and_nan_wins():
    x = F.tensor([[4.0, 1.0, 3.0, 2.0], [1.0, float("nan"), 2.0, float("nan")]])
    values, indices = x.median(1)
    assert values[0].item() == 2.0 and values[1].isnan().item() and indices.tolist() == [3, 1]
    assert x.nanmedian(1).values.tolist() == [2.0, 1.0]
    assert x.nanmedian().item() == 2.0 and x.median().isnan().item()
    assert x.nanmedian(0, keepdim=True).values.shape == (1, 4)


def test_mode_is_the_smallest_of_the_most_frequent():
    values, indices = F.tensor([[2, 1, 2, 1, 3], [5, 5, 4, 0, 0]]).mode()
    assert values.tolist() == [1, 0] and indices.tolist() == [3, 4]


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantile(method):
    a = draw("float64", (4, 9), special=False)
    q = np.array([0.0, 0.3, 0.5, 0.95, 1.0])
    for dim in (None, 0, 1):
        ours = F.quantile(F.from_numpy(a), F.from_numpy(q), dim, interpolation=method)
        assert np.allclose(ours.numpy(), np.quantile(a, q, axis=dim, method=method))
    a[1, 2] = np.nan
    t = F.from_numpy(a)
    assert t.quantile(0.5, dim=1, interpolation=method).isnan().tolist() == [
        False,
        True,
        False,
        False,
    ]
    ours = t.nanquantile(0.3, dim=1, interpolation=method)
    assert np.allclose(ours.numpy(), np.nanquantile(a, 0.3, axis=1, method=method))


def test_quantile_shapes():
    x = F.zeros(2, 3, 4)
    assert x.quantile(0.5).shape == () and x.quantile(0.5, keepdim=True).shape == (1, 1, 1)
    assert x.quantile(F.tensor([0.1, 0.9]), 1).shape == (2, 2, 4)
    assert x.quantile(F.tensor([0.1, 0.9]), 1, True).shape == (2, 2, 1, 4)


def test_meta_shapes():
    x = F.empty(3, 4, device="meta")
    assert x.sort(0).indices.shape == (3, 4) and x.topk(2).values.shape == (3, 2)
    assert x.kthvalue(1).values.shape == (3,) and x.median().shape == ()
    assert x.mode(0, True).indices.shape == (1, 4) and x.quantile(0.5).shape == ()


def test_results_print_as_in_pytorch():
    text = "torch.return_types.sort(\nvalues=tensor([1., 2., 3.]),\nindices=tensor([1, 2, 0]))"
    assert repr(F.tensor([3.0, 1.0, 2.0]).sort()) == text


ERRORS = [
    (lambda x: x.sort(2), IndexError, "Dimension out of range"),
    (lambda x: x.topk(9), RuntimeError, "selected index k out of range"),
    (lambda x: x.bool().topk(1), RuntimeError, "topk does not support bool dtypes on CPU"),
    (
        lambda x: x.kthvalue(9),
        RuntimeError,
        r"kthvalue\(\): selected number k out of range for dim",
    ),
    (lambda x: x[:0].kthvalue(1, 0), IndexError, r"kthvalue\(\): Expected reduction dim 0 to have"),
    (lambda x: x.bool().median(), NotImplementedError, "\"median_cpu\" not implemented for 'Bool'"),
    (
        lambda x: x.quantile(1.5),
        RuntimeError,
        r"quantile\(\) q must be in the range \[0, 1\] but got 1",
    ),
    (
        lambda x: x.int().quantile(0.5),
        RuntimeError,
        r"quantile\(\) input tensor must be either float",
    ),
    (lambda x: x.sort(0)[0].to(F.complex64).sort(), RuntimeError, "Sort does not support complex"),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case):
    call, kind, text = ERRORS[case]
    with pytest.raises(kind, match=text):
        call(F.zeros(2, 3))


def test_out():
    x = F.tensor([3.0, 1.0, 2.0])
    out = F.empty(0), F.empty(0, dtype=F.int64)
    assert F.sort(x, out=out).values is out[0] and out[1].tolist() == [1, 2, 0]
    with pytest.raises(RuntimeError, match="out tensor to have dtype float, but got double"):
        F.topk(x, 2, out=(F.empty(0, dtype=F.float64), out[1]))
    with pytest.raises(RuntimeError, match="output indices must be of scalar type Long"):
        F.kthvalue(x, 2, out=(out[0], F.empty(0)))


# -- derivatives -----------------------------------------------------------------------------------

GRADS = {
    "sort": lambda x: x.sort(0)[0] * x.sort(1, descending=True)[0],
    "topk": lambda x: x.topk(2, 1)[0] ** 2,
    "kthvalue": lambda x: x.kthvalue(2, 0, keepdim=True)[0] ** 2,
    "median": lambda x: x.median() ** 2,
    "median_dim": lambda x: x.median(1)[0] ** 2,
    "nanmedian_dim": lambda x: x.nanmedian(0, True)[0] ** 2,
    "mode": lambda x: x.mode(1)[0] ** 2,
    "quantile": lambda x: x.quantile(0.3, dim=1) ** 2,
    "nanquantile": lambda x: x.nanquantile(0.4) ** 2,
    "lone number": lambda x: x[0, 0].sort()[0] * x[0, 0].topk(1)[0] * x[0, 0].median(0)[0],
}


@pytest.mark.parametrize("name", GRADS)
def test_derivatives(name):
    x = F.from_numpy(np.random.default_rng(1).standard_normal((3, 4))).requires_grad_()
    assert F.autograd.gradcheck(GRADS[name], (x,))
    assert F.autograd.gradgradcheck(GRADS[name], (x,))


def test_median_of_ties_shares_its_gradient():
    x = F.tensor([1.0, 2.0, 2.0, 5.0], requires_grad=True)
    x.median().backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5, 0.0]


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_agrees_with_pytorch(dtype):
    torch = pytest.importorskip("torch")
    for seed, shape in enumerate(SHAPES):
        a = draw(dtype, shape, seed)
        x, y = torch.from_numpy(a), F.from_numpy(a)
        dim = seed % len(shape)
        for call in (
            lambda t, dim=dim: t.sort(dim=dim, stable=True),
            lambda t, dim=dim: t.sort(dim=dim, stable=True, descending=True),
            lambda t, dim=dim: (t.median(dim)[0], t.nanmedian(dim)[0], t.median(), t.nanmedian()),
        ):
            for theirs, ours in zip(call(x), call(y)):
                assert same(ours, theirs.numpy())


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles_are_written_into_tensors_of_their_dtype_only(name):
    x = F.tensor([1.0, 2.0, 4.0])
    out = F.empty(0)
    assert getattr(F, name)(x, 0.5, out=out) is out and out.item() == 2
    for dtype in (F.int32, F.float64):
        with pytest.raises(
            RuntimeError, match=r"quantile\(\) out tensor must be same dtype as the"
        ):
            getattr(F, name)(x, 0.5, out=F.empty(0, dtype=dtype))


RANKED = {
    "rows": lambda x: x.sort(dim=1, stable=True),
    "long": lambda x: x.flatten().sort(stable=True),
    "mode": lambda x: x.mode(1),
    "unique": lambda x: x.flatten().unique(dim=0, return_counts=True),
    "unique runs": lambda x: x.flatten().unique_consecutive(dim=0, return_inverse=True),
}


@pytest.mark.parametrize("name", RANKED)
def test_bytes_seen_as_booleans_are_true_whatever_they_are(name):
    F.manual_seed(0)
    numbers = F.randint(0, 5, (400, 33), dtype=F.uint8)
    for got, expected in zip(RANKED[name](numbers.view(F.bool)), RANKED[name](numbers != 0)):
        assert F.equal(got.int(), expected.int())
