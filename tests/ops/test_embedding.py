"""Embeddings, bags and one_hot: against plain loops, and against PyTorch where it is installed."""

import itertools

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.autograd import grad, gradcheck, gradgradcheck
from tests.ops.expressions import compare

LIMIT = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-12}


def table_gradient(g, index, rows, padding=None, scaled=False):
    """Sums of the gradients of places, one place after the other."""
    out = np.zeros((rows, g.shape[-1]))
    g = g.reshape(-1, g.shape[-1])
    counts = np.bincount(index.ravel(), minlength=rows)
    for k, row in enumerate(index.ravel()):
        if row != padding:
            out[row] += g[k] / (counts[row] if scaled else 1)
    return out


# -- embedding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", LIMIT)
def test_rows_and_their_gradients(dtype, rng):
    for rows, columns, shape in ((5, 3, (4,)), (7, 16, (2, 3)), (40, 37, (3, 5, 7)), (3, 150, ())):
        w = rng.standard_normal((rows, columns))
        i = rng.integers(0, rows, shape)
        weight = torch.tensor(w, dtype=getattr(torch, dtype), requires_grad=True)
        out = F.embedding(torch.tensor(i), weight)
        assert out.dtype is weight.dtype and out.shape == (*shape, columns)
        held = weight.detach().double().numpy()
        assert np.array_equal(out.detach().double().numpy(), held[i])
        g = torch.randn(*shape, columns).to(weight.dtype)
        (found,) = grad(out, weight, g)
        wanted = table_gradient(g.double().numpy(), i, rows)
        np.testing.assert_allclose(found.double().numpy(), wanted, LIMIT[dtype], LIMIT[dtype])


def test_options(rng):
    w = torch.tensor(rng.standard_normal((6, 4)), requires_grad=True)
    i = np.array([[1, 1, 5], [5, 0, 5]])
    g = torch.tensor(rng.standard_normal((2, 3, 4)))
    for padding, scaled in ((None, False), (5, False), (-1, True), (0, True), (-6, False)):
        out = F.embedding(
            torch.tensor(i, dtype=torch.int32), w, padding_idx=padding, scale_grad_by_freq=scaled
        )
        (found,) = grad(out, w, g)
        row = None if padding is None else padding % 6
        wanted = table_gradient(g.numpy(), i, 6, row, scaled)
        np.testing.assert_allclose(found.numpy(), wanted, 1e-12)


def test_layouts(rng):
    w = rng.standard_normal((6, 8))
    i = rng.integers(0, 6, (4, 5))
    index = torch.tensor(i)
    views = {
        "cut": (torch.tensor(np.repeat(w, 2, 0))[::2], w),
        "gaps": (torch.tensor(np.repeat(w, 2, 1))[:, ::2], w),
        "turned": (torch.tensor(w.T.copy()).t(), w),
        "spread": (torch.tensor(w[:1]).expand(6, 8), np.repeat(w[:1], 6, 0)),
    }
    for name, (weight, wanted) in views.items():
        assert np.array_equal(F.embedding(index, weight).numpy(), wanted[i]), name
        assert np.array_equal(F.embedding(index.t(), weight).numpy(), wanted[i.T]), name
    weight = torch.tensor(w, requires_grad=True)
    flat = F.embedding(index.reshape(-1), weight)
    g = torch.tensor(rng.standard_normal((8, 20)))
    for given in (g.t(), torch.ones(()).double().expand(20, 8), g[:, :1].t().expand(20, 8)):
        (found,) = grad(flat, weight, given, retain_graph=True)
        np.testing.assert_allclose(found.numpy(), table_gradient(given.numpy(), i, 6), 1e-12)
    F.embedding(index, weight).sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), table_gradient(np.ones((20, 8)), i, 6), 1e-12)


def test_same_bits_for_any_number_of_threads(rng):
    i = torch.tensor(rng.integers(0, 3000, 20_000) ** 2 // 3000)
    w, g = torch.randn(3000, 96), torch.randn(20_000, 96)
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        weight = w.clone().requires_grad_()
        out = F.embedding(i, weight)
        out.backward(g)
        bag = F.embedding_bag(i.reshape(-1, 5), weight, mode="mean")
        (more,) = grad(bag, weight, g[:4000])
        found.append([t.detach().numpy().tobytes() for t in (out, weight.grad, bag, more)])
    assert found[0] == found[1]
    wanted = table_gradient(g.double().numpy(), i.numpy(), 3000)
    np.testing.assert_allclose(weight.grad.numpy(), wanted, 1e-4, 1e-4)


def test_derivatives_of_derivatives(rng):
    i = torch.tensor([[1, 1, 0], [3, 2, 1]])
    w = torch.tensor(rng.standard_normal((4, 3)), requires_grad=True)
    for options in ({}, {"padding_idx": 1}, {"scale_grad_by_freq": True}):
        if not options:
            assert gradcheck(lambda t: F.embedding(i, t), (w,))
        assert gradgradcheck(lambda t, o=options: F.embedding(i, t * t, **o), (w,))


def test_nothing():
    w = torch.rand(4, 3, requires_grad=True)
    none = torch.empty(2, 0, dtype=torch.int64)
    out = F.embedding(none, w)
    assert out.shape == (2, 0, 3)
    (found,) = grad(out, w, torch.zeros(2, 0, 3))
    assert found.tolist() == [[0.0] * 3] * 4
    assert F.embedding(torch.tensor([1]), torch.rand(4, 0)).shape == (1, 0)
    assert F.embedding(torch.empty(2, dtype=torch.int64, device="meta"), w.to("meta")).shape == (
        2,
        3,
    )
    assert F.embedding(torch.tensor([1]), torch.arange(6).reshape(3, 2)).tolist() == [[2, 3]]


def test_max_norm(rng):
    for order in (2.0, 1.0, 3.0, float("inf")):
        w = rng.standard_normal((5, 4)) * 3
        weight = torch.tensor(w)
        F.embedding(torch.tensor([4, 1, 4]), weight, max_norm=1.5, norm_type=order)
        wanted = w.copy()
        for row in (1, 4):
            norm = np.linalg.norm(w[row], order)
            wanted[row] *= 1.5 / (norm + 1e-7) if norm > 1.5 else 1
        np.testing.assert_allclose(weight.numpy(), wanted, 1e-12)
    leaf = torch.rand(5, 4, requires_grad=True)
    F.embedding(torch.tensor([1]), leaf, max_norm=0.1).sum().backward()
    assert leaf._version == 1 and leaf.grad is not None


def test_complaints():
    w = torch.rand(4, 3)
    for bad in (4, -1, 1 << 40):
        with pytest.raises(IndexError, match="index out of range in self"):
            F.embedding(torch.tensor([0, bad]), w)
        with pytest.raises(RuntimeError, match="which is not in the valid range"):
            F.embedding_bag(torch.tensor([0, bad]), w, torch.tensor([0]))
    rows = F.embedding(
        torch.tensor([0]), w.clone().requires_grad_(), sparse=True, scale_grad_by_freq=True
    )
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse"):
        rows.sum().backward()
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        F.embedding(torch.tensor([0]), w, padding_idx=4)


# -- bags ------------------------------------------------------------------------------------------


def plain_bags(w, index, bounds, mode, weights=None, padding=None):
    out = np.zeros((len(bounds) - 1, w.shape[1]))
    for bag, (a, b) in enumerate(itertools.pairwise(bounds)):
        places = [k for k in range(a, b) if index[k] != padding]
        rows = np.array([w[index[k]] * (1 if weights is None else weights[k]) for k in places])
        if places:
            out[bag] = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](rows, 0)
    return out


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode, rng):
    w = rng.standard_normal((9, 21))
    index = rng.integers(0, 9, 14)
    bounds = [0, 3, 3, 4, 11, 14]
    for dtype in ("float64", "float16") if mode == "sum" else ("float32",):
        weight = torch.tensor(w, dtype=getattr(torch, dtype))
        held = weight.double().numpy()
        for padding in (None, 2, -1):
            row = None if padding is None else padding % 9
            given = torch.tensor(index)
            wanted = plain_bags(held, index, bounds, mode, None, row)
            for offsets, last in ((bounds[:-1], False), (bounds, True)):
                found = F.embedding_bag(
                    given, weight, torch.tensor(offsets), mode=mode, include_last_offset=last,
                    padding_idx=padding,
                )  # fmt: skip
                np.testing.assert_allclose(found.double().numpy(), wanted, LIMIT[dtype], 1e-2)
        square = F.embedding_bag(torch.tensor(index.reshape(2, 7)), weight, mode=mode)
        wanted = plain_bags(held, index, [0, 7, 14], mode)
        np.testing.assert_allclose(square.double().numpy(), wanted, 5 * LIMIT[dtype], 1e-2)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradients_of_bags(mode, rng):
    w = torch.tensor(rng.standard_normal((5, 3)), requires_grad=True)
    index, offsets = torch.tensor([1, 1, 0, 3, 4, 3, 2]), torch.tensor([0, 2, 2, 6])
    choices = [{}, {"padding_idx": 3}]
    if mode != "max":
        choices.append({"scale_grad_by_freq": True})
    for options in choices:

        def bags(t, o=options):
            return F.embedding_bag(index, t, offsets, mode=mode, **o)

        if "scale_grad_by_freq" not in options and "padding_idx" not in options:
            assert gradcheck(bags, (w,))
        assert gradgradcheck(lambda t, b=bags: b(t * t), (w,))
    if mode == "sum":
        factors = torch.tensor(rng.standard_normal(7), requires_grad=True)

        def weighted(t, f):
            return F.embedding_bag(index, t, offsets, mode="sum", per_sample_weights=f)

        assert gradcheck(weighted, (w, factors)) and gradgradcheck(weighted, (w, factors))
        wanted = plain_bags(
            w.detach().numpy(), index.numpy(), [0, 2, 2, 6, 7], "sum", factors.detach().numpy()
        )
        np.testing.assert_allclose(weighted(w, factors).detach().numpy(), wanted, 1e-12)


def test_places_after_the_last_offset_get_nothing(rng):
    w = torch.tensor(rng.standard_normal((5, 3)), requires_grad=True)
    index, factors = torch.tensor([1, 2, 4, 3]), torch.ones(4).double().requires_grad_()
    out = F.embedding_bag(
        index, w, torch.tensor([0, 1, 3]), mode="sum", per_sample_weights=factors,
        include_last_offset=True,
    )  # fmt: skip
    gradients = grad(out.sum(), (w, factors))
    assert gradients[0].sum(1).tolist() == [0, 3, 3, 0, 3] and gradients[1][3] == 0


# -- one_hot ---------------------------------------------------------------------------------------


def test_one_hot(rng):
    i = rng.integers(0, 6, (3, 4))
    i[0, 0] = 5
    found = F.one_hot(torch.tensor(i))
    assert found.dtype is torch.int64 and np.array_equal(found.numpy(), np.eye(6, dtype=int)[i])
    assert F.one_hot(torch.tensor(2), 5).tolist() == [0, 0, 1, 0, 0]


# -- against PyTorch -------------------------------------------------------------------------------

F_ = "torch.nn.functional."
W, I, O = "X('float32', 5, 3)", "torch.tensor([1, 2, 4, 3, 0])", "torch.tensor([0, 2, 2])"


def expressions():
    for index in ("[[1, 2], [0, 4]]", "1", "[1, 5]", "[-1]", "[1.0]"):
        yield f"{F_}embedding(torch.tensor({index}), {W})"
    yield f"{F_}embedding(torch.tensor([1], dtype=torch.int16), {W})"
    yield f"{F_}embedding({I}, {W}.half())"
    yield f"{F_}embedding({I}, X('float32', 5))"
    yield f"{F_}embedding({I}, X('float32', 5, 3, 2))"
    yield f"{F_}embedding({I}, X('float32', 0, 3))"
    yield f"{F_}embedding({I}, {W}, padding_idx=5)"
    yield f"torch.embedding({W}, {I}, 1, True)"
    yield f"torch.embedding_renorm_({W}, {I}, 0.7, 2.0)"
    yield f"torch.embedding_renorm_({W}.bfloat16(), {I}.reshape(1, 5), 0.7, 1.0)"
    for bad in ("X('float32', 5), {I}", "{W}, torch.tensor([7])", "{W}, torch.tensor([1.0])"):
        yield f"torch.embedding_renorm_({bad.format(W=W, I=I)}, 1.0, 2.0)"
    for mode in range(3):
        for rest in ("", ", False, None, False, 2", ", False, None, True"):
            offsets = "torch.tensor([0, 2, 5])" if rest.endswith("True") else O
            for dtype in ("float32", "float64"):
                table = f"{W}.to(torch.{dtype})"
                yield f"torch.embedding_bag({table}, {I}, {offsets}, False, {mode}{rest})"
    for mode in ("sum", "mean", "max"):
        yield f"{F_}embedding_bag({I}.reshape(1, 5), {W}, mode='{mode}')"
        yield f"{F_}embedding_bag({I}.int(), {W}, {O}, mode='{mode}')"
        yield f"{F_}embedding_bag({I}, {W}, {O}, max_norm=0.5, mode='{mode}')"
        yield f"{F_}embedding_bag({I}, {W}, {O}, mode='{mode}', per_sample_weights=X('float32', 5))"
        yield f"{F_}embedding_bag({I}, {W}, {O}, mode='{mode}', scale_grad_by_freq=True)"
    for rest in (
        "", ", torch.tensor([1, 2])", ", torch.tensor([0, 7])", ", torch.tensor([0.0])",
        f", {O}.reshape(1, 3)", f", {O}, mode='x'", f", {O}, padding_idx=7", f", {O}.int()",
        f", {O}, padding_idx=-6", ", torch.tensor([], dtype=torch.int64)",
        f", {O}, mode='sum', per_sample_weights=X('float32', 4)",
        f", {O}, mode='sum', per_sample_weights=X('float64', 5)",
        ", torch.tensor([], dtype=torch.int64), include_last_offset=True",
    ):  # fmt: skip
        yield f"{F_}embedding_bag({I}, {W}{rest})"
    yield f"{F_}embedding_bag(torch.tensor([1, 5]), {W}, torch.tensor([0]))"
    yield f"{F_}embedding_bag({I}.reshape(1, 5), {W}, {O})"
    yield f"{F_}embedding_bag({I}, X('float32', 5), {O})"
    yield f"{F_}embedding_bag({I}.reshape(1, 1, 5), {W})"
    yield f"{F_}embedding_bag({I}[:0].reshape(0, 3), {W})"
    for given in ("[0, 2]", "[0, 2], 5", "[0, 2], 2", "[-1, 2]", "[0.0]", "[0], 0", "[0], -2", "2"):
        values, *rest = given.rsplit(", ", 1) if given.count("]") and given[-1] != "]" else (given,)
        yield f"{F_}one_hot(torch.tensor({values}){''.join(', ' + r for r in rest)})"
    yield f"{F_}one_hot(torch.tensor([], dtype=torch.int64))"
    yield f"{F_}one_hot(torch.tensor([], dtype=torch.int64), 3)"
    yield f"{F_}one_hot(torch.tensor([1], dtype=torch.int32))"


def gradients():
    start = "w = X('float64', 5, 3).requires_grad_()\np = X('float64', 5).requires_grad_()\n"
    end = "\ny.backward(X('float64', *y.shape, seed=1))\nr = [y, w.grad, p.grad if {p} else 0]"
    for rest in ("", ", padding_idx=1", ", padding_idx=-1, scale_grad_by_freq=True"):
        call = f"y = {F_}embedding(torch.tensor([[1, 2, 1], [4, 0, 1]]), w{rest})"
        yield start + call + end.format(p=False)
    index = "torch.tensor([1, 2, 1, 3, 0])"
    for mode in ("sum", "mean", "max"):
        for rest in ("", ", padding_idx=1"):
            call = f"y = {F_}embedding_bag({index}, w, {O}, mode='{mode}'{rest})"
            yield start + call + end.format(p=False)
    for rest in ("", ", padding_idx=1"):
        call = f"y = {F_}embedding_bag({index}, w, {O}, mode='sum', per_sample_weights=p{rest})"
        yield start + call + end.format(p=True)


@pytest.mark.oracle
def test_as_pytorch():
    theirs = pytest.importorskip("torch")
    assert not compare(torch, theirs, [*expressions(), *gradients()])
