"""Sorts, selections, runs and searches on a GPU, or on the host in place of one, by the host."""

import pytest

import flambeau as torch
from flambeau.eager import cuda_sorting

DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool"
SHAPES = [(), (1,), (5,), (3, 40), (2, 100), (3, 1000), (2, 4096), (3, 9001), (20003,), (0, 4)]


def drawn(shape, dtype, ties=True):
    """Values with ties, zeros of both signs and a nan, where there are such."""
    torch.manual_seed(sum(shape))
    dtype = getattr(torch, dtype)
    if not dtype.is_floating_point:
        low, high = (0, 2) if dtype is torch.bool else (0 if dtype is torch.uint8 else -90, 90)
        return torch.randint(low, high, shape).to(dtype)
    x = torch.randn(shape).to(dtype)
    flat = x.view(-1)
    if ties and flat.numel() > 20:
        flat[::7], flat[::11], flat[3], flat[2] = 0.0, -0.0, float("nan"), float("-inf")
    return x


def check(run, *tensors):
    """The same from tensors of the host and of the GPU."""
    wanted, found = run(*tensors), run(*[t.to("cuda") for t in tensors])
    pairs = (
        zip(found, wanted, strict=True) if type(wanted) is not torch.Tensor else [(found, wanted)]
    )
    for x, y in pairs:
        torch.testing.assert_close(x.cpu(), y, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES.split())
def test_sorts(dtype):
    for shape in SHAPES:
        for descending in (False, True):
            check(lambda t, d=descending: t.sort(descending=d, stable=True), drawn(shape, dtype))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sorts_along_any_dimension(dim):
    x = drawn((40, 30, 20), "float32")
    for t in (x, x.mT, x[:, ::2], x[::3].transpose(0, 2)):
        check(lambda t: t.sort(dim=dim), t)
        check(lambda t: t.argsort(dim, True), t)


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_sorts_that_keep_a_gpu_busy(dtype, monkeypatch):
    monkeypatch.setattr(cuda_sorting, "BUSY", 0)  # such as of millions, which take long elsewhere
    for shape in ((20003,), (3, 9001), (2, 4097)):
        check(lambda t: t.sort(), drawn(shape, dtype))


def test_rows_whose_keys_share_their_digits():
    for x in (torch.zeros(9000), torch.full((2, 5000), 7), torch.arange(9000) % 300 + (1 << 40)):
        check(lambda t: t.sort(), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "uint8"])
def test_selections(dtype):
    for shape in ((5,), (3, 40), (2, 300), (2, 4097), (3, 9000), (70001,), (2, 20000)):
        for x in {True: drawn(shape, dtype), False: drawn(shape, dtype, ties=False)}.values():
            for k in (1, 3, 50, 600):
                if k <= shape[-1]:
                    check(lambda t, k=k: t.topk(k), x)
                    check(lambda t, k=k: t.topk(k, largest=False), x)
                    check(lambda t, k=k: t.kthvalue(k), x)
            check(lambda t: t.median(-1), x)
            check(lambda t: t.nanmedian(-1), x)
            check(lambda t: t.median(), x)
            check(lambda t: t.mode(), x)
    check(lambda t: t.topk(3, dim=0), drawn((9000, 3), dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8", "bool"])
def test_runs(dtype):
    for shape in ((1,), (20,), (5000,), (50, 60), (0,)):
        x = drawn(shape, dtype, ties=False).mul(3).round().to(getattr(torch, dtype))
        for name in ("unique", "unique_consecutive"):
            check(lambda t, n=name: getattr(t, n)(return_inverse=True, return_counts=True), x)


def test_every_nan_is_a_run_of_its_own():
    check(lambda t: torch.unique(t, return_inverse=True), torch.tensor([1.0, float("nan")] * 3000))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8"])
@pytest.mark.parametrize("right", [False, True])
def test_searches(dtype, right):
    dtype = getattr(torch, dtype)
    torch.manual_seed(0)
    edges, x = (
        torch.randint(0, 50, (20,)).to(dtype).unique(),
        torch.randint(0, 60, (70, 90)).to(dtype),
    )
    check(lambda e, x: torch.searchsorted(e, x, right=right), edges, x)
    check(lambda e, x: torch.bucketize(x, e, right=right, out_int32=True), edges, x)
    rows = torch.randint(0, 50, (70, 20)).to(dtype)
    check(lambda e, x: torch.searchsorted(e.sort()[0], x, right=right), rows, x)
    check(lambda e, x: torch.searchsorted(e, x, sorter=e.argsort(), right=right), rows, x)


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_occurrences(dtype):
    torch.manual_seed(0)
    x, w = torch.randint(0, 50, (9000,)).to(getattr(torch, dtype)), torch.randn(9000)
    check(lambda x: torch.bincount(x, minlength=60), x)
    check(lambda x, w: torch.bincount(x, w), x, w)
    check(lambda x, w: torch.bincount(x, w), x, w.double())
    check(lambda w: torch.histc(w, bins=30, min=-2, max=2), w)


@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16", "int64", "complex64"])
def test_masks(dtype):
    torch.manual_seed(0)
    for shape in ((5,), (3, 7), (4096,), (4097,), (9000,), (40, 30, 20), (33, 3, 3, 50), (0, 3)):
        x = torch.randint(0, 2, shape).to(getattr(torch, dtype))
        kept, y = x != 0, torch.randint(0, 9, shape).to(x.dtype)
        check(torch.nonzero, x)
        check(lambda t: torch.nonzero(t, as_tuple=True), x)
        check(torch.count_nonzero, x)
        check(lambda y, m: y[m], y, kept)
        check(lambda y, m: y.mT.masked_select(m.mT) if y.ndim > 1 else y, y, kept)
        check(lambda y, m: y.masked_scatter(m, y.flip(0)), y, kept)


@pytest.mark.parametrize("count", [3, 5000, 40000])
def test_repeats(count):
    torch.manual_seed(0)
    check(torch.repeat_interleave, torch.randint(0, 5, (count,)))
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.repeat_interleave(torch.tensor([1, -1] * count, device="cuda"))


@pytest.mark.parametrize("name", ["int64", "int32", "int16", "int8", "uint8", "bool"])
def test_integers_are_sorted_without_positions(name):
    """Distinct ones of long rows, for any number of digits that differ."""
    dtype = getattr(torch, name)
    for largest in (2, 200, 70_000, 1 << 40):
        whole = torch.randint(0, largest, (6000,))
        if name not in ("bool", "uint8"):
            whole = whole - largest // 2
        given = whole.to(dtype)
        assert given.unique().equal(given.to("cuda").unique().cpu())
