"""Losses with margins: against plain loops, and against PyTorch where it is installed."""

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.autograd import gradcheck, gradgradcheck
from tests.ops.expressions import compare, with_gradients

REDUCE = {"none": lambda v: v, "mean": np.mean, "sum": np.sum}


def multi_margin(x, y, p=1, margin=1.0, weight=None):
    losses = []
    for row, label in zip(x, y):
        terms = [max(0.0, margin - row[label] + s) ** p for k, s in enumerate(row) if k != label]
        losses.append(sum(terms) / len(row) * (1 if weight is None else weight[label]))
    return np.array(losses)


def multilabel(x, y):
    losses = []
    for row, labels in zip(x, y):
        labels = [k for n, k in enumerate(labels) if -1 not in labels[: n + 1]]
        others = [k for k in range(len(row)) if k not in labels]
        terms = [max(0.0, 1 - (row[a] - row[b])) for a in labels for b in others]
        losses.append(sum(terms) / len(row))
    return np.array(losses)


def cosine(a, b, y, margin):
    cosines = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return np.where(y == 1, 1 - cosines, np.maximum(0, cosines - margin))


def triplet(a, p, n, margin, order, swap):
    def distance(u, v):
        return (np.abs(u - v + 1e-6) ** order).sum(-1) ** (1 / order)

    far = np.minimum(distance(a, n), distance(p, n)) if swap else distance(a, n)
    return np.maximum(0, distance(a, p) - far + margin)


@pytest.mark.parametrize("reduction", REDUCE)
def test_scores_per_class(reduction, rng):
    x = rng.standard_normal((6, 5))
    y = rng.integers(0, 5, 6)
    w = rng.random(5)
    labels = np.array([[1, 2, -1, 0, 0], [-1] * 5, [4, 3, 2, 1, 0], [0, 0, 1, -1, 7 - 5]] * 2)[:6]
    t, target, weight = torch.tensor(x, requires_grad=True), torch.tensor(y), torch.tensor(w)
    for p in (1, 2):
        for given in (None, weight):
            found = F.multi_margin_loss(t, target, p, 0.7, given, reduction=reduction)
            wanted = multi_margin(x, y, p, 0.7, None if given is None else w)
            np.testing.assert_allclose(found.detach().numpy(), REDUCE[reduction](wanted), 1e-12)
            assert gradcheck(
                lambda s, p=p, g=given: F.multi_margin_loss(s, target, p, 0.7, g), (t,)
            )
    assert gradgradcheck(lambda s: F.multi_margin_loss(s, target, 2, reduction=reduction), (t,))
    many = torch.tensor(labels)
    found = F.multilabel_margin_loss(t, many, reduction=reduction)
    wanted = REDUCE[reduction](multilabel(x, labels.tolist()))
    np.testing.assert_allclose(found.detach().numpy(), wanted, 1e-12)
    assert gradcheck(lambda s: F.multilabel_margin_loss(s, many, reduction=reduction), (t,))
    one = F.multilabel_margin_loss(t[0], many[0], reduction=reduction)
    assert one.shape == () and abs(one.item() - multilabel(x[:1], labels[:1].tolist())[0]) < 1e-12


@pytest.mark.parametrize("reduction", REDUCE)
def test_vectors(reduction, rng):
    a, b, c = (rng.standard_normal((6, 5)) for _ in range(3))
    y = np.sign(rng.standard_normal(6))
    x = [torch.tensor(v, requires_grad=True) for v in (a, b, c)]
    sign = torch.tensor(y)
    found = F.cosine_embedding_loss(*x[:2], sign, 0.1, reduction=reduction)
    np.testing.assert_allclose(
        found.detach().numpy(), REDUCE[reduction](cosine(a, b, y, 0.1)), 1e-9
    )
    assert gradcheck(lambda p, q: F.cosine_embedding_loss(p, q, sign, 0.1), x[:2])
    for order, swap in ((2.0, False), (2.0, True), (1.0, False), (3.0, True)):
        options = dict(margin=0.8, p=order, swap=swap, reduction=reduction)
        found = F.triplet_margin_loss(*x, **options)
        wanted = REDUCE[reduction](triplet(a, b, c, 0.8, order, swap))
        np.testing.assert_allclose(found.detach().numpy(), wanted, 1e-12)
    assert gradcheck(lambda *t: F.triplet_margin_loss(*t, swap=True), x)
    distance = lambda u, v: (u - v).abs().sum(-1)
    own = F.triplet_margin_with_distance_loss(*x, distance_function=distance, reduction=reduction)
    wanted = REDUCE[reduction](np.maximum(0, np.abs(a - b).sum(-1) - np.abs(a - c).sum(-1) + 1.0))
    np.testing.assert_allclose(own.detach().numpy(), wanted, 1e-12)


def test_targets_out_of_range():
    x = torch.rand(3, 4)
    for bad in (4, -1, 1 << 40):
        with pytest.raises(RuntimeError, match="target out of range"):
            F.multi_margin_loss(x, torch.tensor([0, bad, 1]))
    for bad in (4, -2):
        with pytest.raises(RuntimeError, match="'target' is out of range"):
            F.multilabel_margin_loss(x, torch.tensor([[0, bad, 1, -1]] * 3))


# -- against PyTorch -------------------------------------------------------------------------------

F_ = "torch.nn.functional."
X = "X('float32', 3, 4)"
LABELS = "torch.tensor([[1, 2, -1, 0], [3, -1, 0, 0], [-1, 1, 1, 1]])"


def expressions():
    for last in ("reduction='none'", "reduction='sum'", "size_average=False", "reduction='x'"):
        yield f"{F_}multi_margin_loss({X}, torch.tensor([1, 0, 3]), {last})"
        yield f"{F_}multilabel_margin_loss({X}, {LABELS}, {last})"
        yield f"{F_}multilabel_soft_margin_loss({X}, {X}.sigmoid(), {last})"
        yield f"{F_}cosine_embedding_loss({X}, {X} + 1, torch.tensor([1, -1, 0]), {last})"
        yield f"{F_}triplet_margin_loss({X}, {X} + 1, {X} - 1, {last})"
        yield f"{F_}margin_ranking_loss({X}, {X} + 1, {X}.sign(), {last})"
    for target in ("[1, 2]", "[1, 2, 4]", "[[1, 2, 3]]", "[1.0, 2.0, 0.0]"):
        yield f"{F_}multi_margin_loss({X}, torch.tensor({target}))"
    for given in (
        "p=3",
        "weight=X('float32', 3)",
        "weight=X('float64', 4)",
        "weight=X('float32', 2, 2)",
    ):
        yield f"{F_}multi_margin_loss({X}, torch.tensor([1, 0, 3]), {given})"
    for x, y in (("X('float32', 4)", "torch.tensor(2)"), ("X('float32', 4)", "torch.tensor([2])")):
        yield f"{F_}multi_margin_loss({x}, {y})"
        yield f"{F_}multi_margin_loss({x}, {y}, reduction='none')"
    for shape in ("2, 3, 4", "3, 0"):
        yield f"{F_}multi_margin_loss(X('float32', {shape}), torch.tensor([1, 0, 3]))"
        yield f"{F_}multilabel_margin_loss(X('float32', {shape}), {LABELS})"
    yield f"{F_}multi_margin_loss({X}.half(), torch.tensor([1, 0, 3]))"
    yield f"{F_}multilabel_margin_loss({X}.half(), {LABELS})"
    yield f"{F_}multilabel_margin_loss({X}, {LABELS}[:, :3])"
    yield f"{F_}multilabel_margin_loss({X}, {LABELS}.int())"
    yield f"{F_}cosine_embedding_loss({X}, {X}, torch.ones(3, 3))"
    yield f"{F_}cosine_embedding_loss({X}, {X}, torch.tensor(1.0))"
    yield f"{F_}cosine_embedding_loss({X}, {X}, torch.ones(4))"
    yield f"torch.cosine_embedding_loss({X}, {X} + 1, torch.ones(3))"
    yield f"{F_}triplet_margin_loss({X}, {X}, {X}[0])"
    yield f"{F_}triplet_margin_loss({X}, {X}, {X}, margin=0)"
    yield f"{F_}triplet_margin_with_distance_loss({X}, {X} + 1, {X} - 1, swap=True)"
    yield f"{F_}triplet_margin_with_distance_loss({X}, {X}, {X}, reduction='x')"
    yield f"torch.triplet_margin_loss({X}, {X} + 1, {X} - 1, swap=True)"
    yield f"{F_}margin_ranking_loss({X}, {X}, {X}[0])"
    yield f"torch.margin_ranking_loss({X}, {X}[0], {X}.sign(), 0.5, 1)"


@pytest.mark.oracle
def test_as_pytorch():
    theirs = pytest.importorskip("torch")
    assert not compare(torch, theirs, expressions())


@pytest.mark.oracle
def test_gradients_as_pytorch():
    theirs = pytest.importorskip("torch")
    label = "torch.tensor([1, 0, 3])"
    texts = [
        f"{F_}cosine_embedding_loss(a, b, torch.tensor([1, -1, 1]))",
        f"{F_}triplet_margin_loss(a, b, a * b, margin=2.0)",
        f"{F_}multilabel_soft_margin_loss(a, b, reduction='none')",
    ]
    programs = [with_gradients(text, (3, 4), (3, 4)) for text in texts]
    first = "a = X('float64', 3, 4).requires_grad_()\ny = {}\ny.sum().backward()\nr = [y, a.grad]"
    for text in (f"multi_margin_loss(a, {label}, p=2)", f"multilabel_margin_loss(a, {LABELS})"):
        programs.append(first.format(F_ + text))
    assert not compare(torch, theirs, programs)
