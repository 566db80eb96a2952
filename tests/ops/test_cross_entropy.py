"""cross_entropy and nll_loss: loops in double everywhere, PyTorch where it is installed."""

import warnings

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as functional
from flambeau.autograd import gradcheck, gradgradcheck
from tests.ops import both

SHAPES = [(6, 5), (4, 33), (3, 1), (1, 9000), (2, 5, 7), (2, 4, 3, 5), (2, 3, 2, 3, 2), (150, 700)]
DTYPES = ("float16", "bfloat16", "float32", "float64")
REDUCTIONS = ("none", "mean", "sum")


def classes_for(shape, seed=0):
    size = (shape[0], *shape[2:])
    return np.random.default_rng(seed).integers(0, shape[1], size)


def reference(scores, target, weight=None, ignored=-100, reduction="mean", smooth=0.0):
    """Loss and gradient of the scores (for a gradient of one), element by element."""
    c = scores.shape[1]
    rows = np.moveaxis(scores.astype(np.float64), 1, -1).reshape(-1, c)
    picked = target.reshape(-1)
    weight = np.ones(c) if weight is None else weight.astype(np.float64)
    losses, slopes, weights = np.zeros(len(rows)), np.zeros_like(rows), np.zeros(len(rows))
    for k, (row, t) in enumerate(zip(rows, picked)):
        if t == ignored:
            continue
        logs = row - row.max() - np.log(np.exp(row - row.max()).sum())
        truth = np.zeros(c)
        truth[t] = (1 - smooth) * weight[t]
        truth += smooth / c * weight
        losses[k] = -(truth * logs).sum()
        slopes[k] = np.exp(logs) * truth.sum() - truth
        weights[k] = weight[t]
    if reduction == "mean":
        slopes /= weights.sum()
    total = {"none": losses.reshape(target.shape), "sum": losses.sum()}
    total["mean"] = losses.sum() / weights.sum()
    slopes = np.moveaxis(slopes.reshape((*target.shape, c)), -1, 1)
    return total[reduction], slopes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_values_and_gradients(reduction, dtype):
    limit = both.TOLERANCE[dtype]
    for seed, shape in enumerate(SHAPES):
        for weighted in (False, True):
            ignored = 1 if shape[1] > 1 else -100
            x = both.tensor(flambeau, both.draw(shape, seed, 2.0), dtype)
            t = classes_for(shape, seed)
            w = None
            if weighted:
                w = np.random.default_rng(seed).random(shape[1]) + 0.5
                w = both.tensor(flambeau, w, dtype, grad=False)
            y = functional.cross_entropy(
                x, flambeau.from_numpy(t), w, ignore_index=ignored, reduction=reduction
            )
            given = None if w is None else both.numbers(w)
            wanted, slopes = reference(both.numbers(x), t, given, ignored, reduction)
            np.testing.assert_allclose(both.numbers(y), wanted, rtol=limit, atol=limit)
            y.sum().backward()
            np.testing.assert_allclose(both.numbers(x.grad), slopes, rtol=limit, atol=limit)
            assert x.grad.dtype is x.dtype and y.dtype is x.dtype


def test_smoothed_labels():
    for shape in SHAPES[:6]:
        t = classes_for(shape)
        for reduction in REDUCTIONS:
            x = both.tensor(flambeau, both.draw(shape), "float64")
            y = functional.cross_entropy(
                x, flambeau.from_numpy(t), reduction=reduction, label_smoothing=0.3
            )
            wanted, slopes = reference(x.detach().numpy(), t, reduction=reduction, smooth=0.3)
            np.testing.assert_allclose(both.numbers(y), wanted, rtol=1e-10)
            y.sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-9, atol=1e-12)


def test_probabilities():
    a, p = both.draw((4, 5, 3)), np.random.default_rng(1).random((4, 5, 3))
    x, target = flambeau.from_numpy(a), flambeau.from_numpy(p)
    logs = a - np.log(np.exp(a).sum(1, keepdims=True))
    for reduction, wanted in (
        ("none", -(p * logs).sum(1)),
        ("sum", -(p * logs).sum()),
        ("mean", -(p * logs).sum() / 12),
    ):
        ours = functional.cross_entropy(x, target, reduction=reduction)
        np.testing.assert_allclose(ours.numpy(), wanted, rtol=1e-10)
    smooth = functional.cross_entropy(x, target, label_smoothing=0.2)
    wanted = -((p * 0.8 + 0.2 / 5) * logs).sum() / 12
    np.testing.assert_allclose(smooth.numpy(), wanted, rtol=1e-10)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_nll_loss(reduction):
    for shape in SHAPES[:7]:
        a, t = both.draw(shape), classes_for(shape)
        w = np.random.default_rng(2).random(shape[1]) + 0.5
        x = both.tensor(flambeau, a, "float64")
        target, weight = flambeau.from_numpy(t), flambeau.from_numpy(w)
        y = functional.nll_loss(x, target, weight, reduction=reduction)
        losses = -np.take_along_axis(a, t[:, None], 1)[:, 0] * w[t]
        wanted = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / w[t].sum()}[reduction]
        np.testing.assert_allclose(both.numbers(y), wanted, rtol=1e-12)
        y.sum().backward()
        slopes = np.zeros(shape)
        scale = w[t] / w[t].sum() if reduction == "mean" else w[t]
        np.put_along_axis(slopes, t[:, None], -scale[:, None], 1)
        np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-12)
        if reduction == "mean":
            wanted = "NllLossBackward0" if len(shape) == 2 else "NllLoss2DBackward0"
            assert type(y.grad_fn).__name__ == wanted


def test_unbatched_and_bytes():
    x = flambeau.randn(5, requires_grad=True)
    y = functional.cross_entropy(x, flambeau.tensor(3))
    assert y.shape == ()
    y.backward()
    wanted, slopes = reference(x.detach().numpy()[None], np.array([3]))
    np.testing.assert_allclose(y.item(), wanted, rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), slopes[0], rtol=1e-4, atol=1e-6)
    none = functional.cross_entropy(x, flambeau.tensor(3), reduction="none")
    assert none.shape == ()
    z = flambeau.randn(4, 5)
    t = flambeau.tensor([0, 1, 2, 4])
    same = functional.cross_entropy(z, t.to(flambeau.uint8))
    assert same.item() == functional.cross_entropy(z, t).item()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_second_derivatives(reduction):
    for shape in ((4, 5), (2, 3, 4)):
        x = flambeau.randn(shape, dtype=flambeau.float64, requires_grad=True)
        t = flambeau.from_numpy(classes_for(shape))
        w = flambeau.rand(shape[1], dtype=flambeau.float64) + 0.5
        for f in (functional.cross_entropy, functional.nll_loss):

            def loss(x, f=f, t=t, w=w):
                return f(x, t, w, ignore_index=1, reduction=reduction)

            assert gradcheck(loss, (x,)) and gradgradcheck(loss, (x,))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_classes_out_of_range_are_never_read(reduction):
    for wrong in (5, -1, 2**62, -(2**63)):
        for shape in ((4, 5), (2, 5, 3)):
            t = classes_for(shape)
            t.reshape(-1)[-1] = wrong
            x = flambeau.randn(shape)
            for f in (functional.cross_entropy, functional.nll_loss):
                with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds."):
                    f(x, flambeau.from_numpy(t), reduction=reduction)
    with pytest.raises(IndexError, match="out of bounds"):
        functional.cross_entropy(flambeau.ones(3, 0), flambeau.zeros(3, dtype=flambeau.int64))


def test_nothing_and_everything_ignored():
    nothing = flambeau.zeros(0, dtype=flambeau.int64)
    for f in (functional.cross_entropy, functional.nll_loss):
        assert np.isnan(f(flambeau.ones(0, 5), nothing).item())
        assert f(flambeau.ones(0, 5), nothing, reduction="sum").item() == 0
        assert f(flambeau.ones(0, 5), nothing, reduction="none").shape == (0,)
        x = flambeau.randn(3, 5, requires_grad=True)
        t = flambeau.full((3,), -100, dtype=flambeau.int64)
        y = f(x, t)
        assert np.isnan(y.item())
        y.backward()
        assert (x.grad == 0).all()


def test_any_strides_and_meta():
    x, t = flambeau.randn(5, 12).t()[::2], flambeau.arange(12)[::2] % 5
    dense = functional.cross_entropy(x.contiguous(), t.contiguous()).item()
    assert functional.cross_entropy(x, t).item() == dense
    m = flambeau.empty(6, 5, device="meta", requires_grad=True)
    y = functional.cross_entropy(m, t.to("meta"))
    assert y.shape == () and y.device.type == "meta"


def test_old_arguments():
    x, t = flambeau.randn(4, 5), flambeau.tensor([0, 1, 2, 4])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = functional.cross_entropy(x, t, size_average=False)
        z = functional.nll_loss(x, t, reduce=False)
    assert "reduction='sum'" in str(seen[0].message) and z.shape == (4,)
    assert y.item() == functional.cross_entropy(x, t, reduction="sum").item()


def test_large_scores_keep_their_digits():
    x = flambeau.tensor([[30000.0, 30001.0, 29999.0]])
    y = functional.cross_entropy(x, flambeau.tensor([2]))
    np.testing.assert_allclose(y.item(), 2.407606, rtol=1e-5)


def test_threads_do_not_change_bits():
    x = flambeau.randn(400, 1000, requires_grad=True)
    t = flambeau.arange(400)
    z = flambeau.randn(4, 5, 100, 100, requires_grad=True)
    u = flambeau.zeros(4, 100, 100, dtype=flambeau.int64) + 3

    def run():
        found = []
        for scores, target in ((x, t), (z, u)):
            for reduction in REDUCTIONS:
                scores.grad = None
                y = functional.cross_entropy(scores, target, reduction=reduction)
                y.sum().backward()
                found += [y, scores.grad]
        return found

    one, two = both.bits_with_threads(run)
    assert one == two


COMPLAINTS = [
    "F.cross_entropy(x, t.int())", "F.cross_entropy(x, t.float())", "F.cross_entropy(x, t[:3])",
    "F.cross_entropy(x, t.bool())", "F.cross_entropy(x, t[:, None])",
    "F.cross_entropy(x, t, T.ones(4))", "F.cross_entropy(x, t, T.ones(5, 1))",
    "F.cross_entropy(x, t, T.ones(5).double())", "F.cross_entropy(x, t, reduction='foo')",
    "F.cross_entropy(x, t, label_smoothing=1.5)", "F.cross_entropy(x, x, ignore_index=3)",
    "F.cross_entropy(x.long(), t)", "F.cross_entropy(T.ones(()), T.zeros(()).long())",
    "F.cross_entropy(x[0], t[:2])", "F.cross_entropy(x, x, T.ones(4))",
    "F.cross_entropy(x, t, T.ones(4), label_smoothing=0.1)",
    "F.cross_entropy(T.ones(2, 5, 3), T.ones(2, 5, 3).long())",
    "F.cross_entropy(x, t, T.ones(5, requires_grad=True))",
    "F.nll_loss(T.ones(2, 5, 3), T.zeros(2, 3).long(), T.ones(5, requires_grad=True))",
    "F.cross_entropy(x, t + 1)", "F.nll_loss(x, t[:3])", "F.nll_loss(x, t + 1, reduction='none')",
    "F.nll_loss(x.long(), t)", "F.nll_loss(T.ones(()), t)", "F.nll_loss(x, t, T.ones(5).double())",
    "F.nll_loss(T.ones(2, 5, 3, 3), T.zeros(2, 3, 2).long())",
    "F.nll_loss(T.ones(2, 5, 3, 3), T.zeros(2, 3).long())",
    "F.nll_loss(T.ones(2, 5, 3, 3), T.zeros(2, 3, 3).long(), T.ones(3))",
    "F.nll_loss(T.ones(2, 5, 3), T.zeros(2, 4).long())",
    "F.nll_loss(T.ones(2, 5, 3), T.zeros(3, 3).long())",
]  # fmt: skip


@pytest.mark.oracle
def test_complaints_like_pytorch():
    torch = pytest.importorskip("torch")
    for text in COMPLAINTS:
        found = []
        for lib in (flambeau, torch):
            scope = {"T": lib, "F": lib.nn.functional, "x": lib.ones(4, 5)}
            scope["t"] = lib.tensor([0, 1, 2, 4])
            found.append(both.outcome(lambda text=text, scope=scope: eval(text, scope)))
        assert found[0] == found[1], text


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_like_pytorch(name, dtype):
    torch = pytest.importorskip("torch")
    for seed, shape in enumerate(SHAPES[:7]):
        t = classes_for(shape, seed)
        w = np.random.default_rng(seed).random(shape[1]) + 0.5
        for reduction in REDUCTIONS:
            smooth = {"label_smoothing": 0.1} if name == "cross_entropy" and seed % 2 else {}

            def loss(lib, x, t=t, w=w, reduction=reduction, smooth=smooth):
                weight = lib.from_numpy(w).to(x.dtype)
                target = lib.from_numpy(t)
                f = getattr(lib.nn.functional, name)
                return f(x, target, weight, reduction=reduction, ignore_index=1, **smooth)

            if shape[1] > 2:
                both.check(torch, loss, [both.draw(shape, seed)], dtype)


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_batch_wants_a_target_with_a_dimension(name, rows):
    # PyTorch takes no single class for a batch, not even for a batch of one
    loss = getattr(flambeau.nn.functional, name)
    said = rf"Expected input batch_size \({rows}\) to match target batch_size \(0\)\."
    with pytest.raises(ValueError, match=said):
        loss(flambeau.zeros(rows, 3), flambeau.tensor(1))
    assert loss(flambeau.zeros(3), flambeau.tensor(1)).ndim == 0
