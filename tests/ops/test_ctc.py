"""ctc_loss: against a sum over every alignment, and against PyTorch where it is installed."""

import itertools
import math

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.autograd import grad, gradcheck
from tests.ops.expressions import compare


def by_hand(log_probs, target, blank=0):
    """Minus the log of the probability of all paths that collapse to the target."""
    times, classes = log_probs.shape
    total = 0.0
    for path in itertools.product(range(classes), repeat=times):
        collapsed = [k for k, _ in itertools.groupby(path) if k != blank]
        if collapsed == list(target):
            total += math.exp(sum(log_probs[t, k] for t, k in enumerate(path)))
    return -math.log(total) if total else math.inf


def by_states(log_probs, target, blank=0):
    """The same by adding up alignments step by step, for longer inputs."""
    labels = [blank]
    for k in target:
        labels += [k, blank]
    row = np.full(len(labels), -np.inf)
    row[0] = log_probs[0, blank]
    if len(labels) > 1:
        row[1] = log_probs[0, labels[1]]
    for t in range(1, len(log_probs)):
        old, row = row, np.full(len(labels), -np.inf)
        for s, label in enumerate(labels):
            terms = [old[s]] + ([old[s - 1]] if s else [])
            if s > 1 and label != labels[s - 2]:
                terms.append(old[s - 2])
            row[s] = np.logaddexp.reduce(terms) + log_probs[t, label]
    return -np.logaddexp.reduce(row[-2:])


def log_softmax(x):
    return x - np.logaddexp.reduce(x, -1, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_alignment(dtype, rng):
    x = log_softmax(rng.standard_normal((5, 6, 3)))
    targets = [[1], [1, 1], [2, 1], [], [1, 2, 1], [1, 1, 1]]
    lengths = [5, 4, 3, 5, 5, 4]
    wanted = [by_hand(x[:n, k], t) for k, (n, t) in enumerate(zip(lengths, targets))]
    flat = torch.tensor([k for t in targets for k in t])
    square = torch.tensor(
        [t + [9] * (3 - len(t)) for t in targets]
    )  # what is after the end is free
    t = torch.tensor(x, dtype=getattr(torch, dtype))
    sizes = [len(k) for k in targets]
    for given in (flat, square, square.int()):
        for one, two in ((lengths, sizes), (torch.tensor(lengths), torch.tensor(sizes))):
            found = F.ctc_loss(t, given, one, two, reduction="none")
            np.testing.assert_allclose(found.numpy(), wanted, 1e-5)
    assert wanted[5] == math.inf
    finite = [0 if w == math.inf else w for w in wanted]
    found = F.ctc_loss(t, flat, lengths, sizes, reduction="sum", zero_infinity=True)
    assert abs(found.item() - sum(finite)) < 1e-4
    found = F.ctc_loss(t, flat, lengths, sizes, zero_infinity=True)
    assert abs(found.item() - np.mean(np.array(finite) / np.maximum(sizes, 1))) < 1e-4


def test_long_inputs_and_any_strides(rng):
    x = log_softmax(rng.standard_normal((70, 5, 40)))
    lengths, sizes = [70, 61, 70, 5, 33], [30, 20, 0, 5, 16]
    targets = rng.integers(1, 40, (5, 31))
    wanted = [by_states(x[:n, k], targets[k, :s]) for k, (n, s) in enumerate(zip(lengths, sizes))]
    given = torch.tensor(targets)
    t = torch.tensor(x)
    views = {
        "plain": t,
        "batch first": t.transpose(0, 1).contiguous().transpose(0, 1),
        "classes apart": t.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    }
    for view in views.values():
        found = F.ctc_loss(view, given, lengths, sizes, reduction="none")
        np.testing.assert_allclose(found.numpy(), wanted, 1e-10)
        found = F.ctc_loss(view, given, lengths, sizes, 39, reduction="none")
        other = [
            by_states(x[:n, k], targets[k, :s], 39) for k, (n, s) in enumerate(zip(lengths, sizes))
        ]
        np.testing.assert_allclose(found.numpy(), other, 1e-10)


def test_gradients(rng):
    x = torch.tensor(rng.standard_normal((6, 4, 5)), requires_grad=True)
    targets = torch.tensor([[1, 2, 2], [3, 4, 1], [2, 0, 0], [4, 4, 4]])
    lengths, sizes = (6, 5, 6, 6), (3, 2, 1, 0)
    for reduction in ("none", "mean", "sum"):

        def loss(t, how=reduction):
            return F.ctc_loss(t.log_softmax(-1), targets, lengths, sizes, reduction=how)

        assert gradcheck(loss, (x,))
    one = x.detach()[:, 0].clone().requires_grad_()
    assert gradcheck(lambda t: F.ctc_loss(t.log_softmax(-1), targets[0], (6,), (3,)), (one,))


def test_impossible_targets_have_no_gradient(rng):
    x = torch.tensor(rng.standard_normal((4, 2, 5)), requires_grad=True)
    targets = torch.tensor([[1, 1, 1], [1, 2, 3]])
    loss = F.ctc_loss(x.log_softmax(-1), targets, (4, 3), (3, 3), zero_infinity=True)
    loss.backward()
    assert not x.grad[:, 0].any() and not x.grad[3].any() and x.grad[:3, 1].abs().sum() > 0


def test_same_bits_for_any_number_of_threads():
    x = torch.randn(60, 12, 30).log_softmax(-1)
    targets = torch.randint(1, 30, (12, 20))
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        leaf = x.clone().requires_grad_()
        loss = F.ctc_loss(leaf, targets, (60,) * 12, (20,) * 12)
        (slope,) = grad(loss, leaf)
        found.append((loss.item(), slope.numpy().tobytes()))
    assert found[0] == found[1]


def test_complaints():
    x = torch.randn(4, 2, 5).log_softmax(-1)
    targets = torch.tensor([[1, 2], [3, 9]])
    with pytest.raises(RuntimeError, match="targets must be in"):
        F.ctc_loss(x, targets, (4, 4), (2, 2))
    assert F.ctc_loss(x, targets, (4, 4), (2, 1)).item() > 0
    leaf = x.requires_grad_()
    (slope,) = grad(F.ctc_loss(leaf, targets, (4, 4), (2, 1)), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for aten::_ctc_loss_backward is not impl"):
        slope.sum().backward()
    assert F.ctc_loss(x.to("meta"), targets.to("meta"), (4, 4), (2, 2)).shape == ()


# -- against PyTorch -------------------------------------------------------------------------------

F_ = "torch.nn.functional."
X = "X('float64', 6, 3, 5).log_softmax(-1)"
Y, IL, TL = "torch.tensor([[1, 2, 2], [3, 4, 1], [2, 0, 0]])", "(6, 5, 6)", "(3, 2, 1)"


def expressions():
    for rest in ("", ", reduction='none'", ", reduction='sum'", ", blank=4", ", blank=5"):
        yield f"{F_}ctc_loss({X}, {Y}, {IL}, {TL}{rest})"
    yield f"{F_}ctc_loss({X}, torch.tensor([1, 2, 2, 3, 4, 2]), torch.tensor({IL}), {TL})"
    yield f"{F_}ctc_loss({X}, {Y}, torch.tensor({IL}), torch.tensor({TL}))"
    yield f"{F_}ctc_loss({X}[:, 0], {Y}[0], torch.tensor(6), torch.tensor(3))"
    yield f"{F_}ctc_loss({X}[:, 0], {Y}[0], (6,), (3,), reduction='none')"
    yield f"torch.ctc_loss({X}, {Y}, {IL}, {TL})"
    yield f"torch.ctc_loss({X}, {Y}, {IL}, {TL}, 0, 1, True)"
    yield f"{F_}ctc_loss({X}, {Y}.float(), {IL}, {TL})"
    for lengths in (
        "(6, 5), (3, 2, 1)", "(6, 5, 6), (3, 2)", "(7, 5, 6), (3, 2, 1)", "(-1, 5, 6), (3, 2, 1)",
        "(6, 5, 6), (4, 1, 1)", "(6, 5, 6), (-1, 1, 1)", "(2, 5, 6), (3, 2, 1)",
        "(0, 5, 6), (0, 2, 1)", "(0, 5, 6), (1, 2, 1)", "(6, 5, 6), (0, 0, 0)",
        "torch.tensor([6.0, 5.0, 6.0]), (3, 2, 1)",
    ):  # fmt: skip
        yield f"{F_}ctc_loss({X}, {Y}, {lengths}, reduction='none')"
    yield f"{F_}ctc_loss({X}, torch.tensor([1, 2, 2, 3, 4]), {IL}, {TL})"
    yield f"{F_}ctc_loss({X}, {Y}[:2], {IL}, {TL})"
    yield f"{F_}ctc_loss({X}[0, 0], {Y}, {IL}, {TL})"
    yield f"{F_}ctc_loss({X}.half(), {Y}, {IL}, {TL})"
    yield f"{F_}ctc_loss({X}, {Y}[None], {IL}, {TL})"
    yield f"{F_}ctc_loss({X}[:, :0], {Y}[:0], (), ())"
    yield f"{F_}ctc_loss({X}, {Y}, {IL}, {TL}, reduction='x')"
    start = "x = X('float64', 6, 3, 5).log_softmax(-1).requires_grad_()\n"
    for lengths, rest in (("(6, 5, 6)", ""), ("(2, 5, 6)", ", zero_infinity=True")):
        for reduction in ("mean", "sum"):
            call = f"y = {F_}ctc_loss(x, {Y}, {lengths}, {TL}, reduction='{reduction}'{rest})"
            yield f"{start}{call}\ny.backward()\nr = [y, x.grad]"


@pytest.mark.oracle
def test_as_pytorch():
    theirs = pytest.importorskip("torch")
    assert not compare(torch, theirs, expressions())
