"""A sample of everything on a GPU, or on the host in place of one, against the host."""

import random
import re

import pytest

import flambeau as torch
import flambeau.nn as nn
import flambeau.nn.functional as F
from tests.runtime import test_third_device as sample

NAME = "cuda"
FLOATS = {"rtol": 2e-5, "atol": 2e-5}


def check_close(found, wanted):
    for x, y in zip(sample.parts_of(found), sample.parts_of(wanted), strict=True):
        if isinstance(y, torch.Tensor):
            assert x.device == torch.device("cuda", 0)
            exact = not (y.dtype.is_floating_point or y.dtype.is_complex)
            torch.testing.assert_close(x.cpu(), y, equal_nan=True, **({} if exact else FLOATS))
        else:
            assert x == y


@pytest.mark.parametrize("expression", sample.expressions(sample.CASES))
def test_the_same_as_on_the_host(expression):
    check_close(eval(expression, sample.names_on(NAME)), eval(expression, sample.names_on("cpu")))


@pytest.mark.parametrize("expression", sample.expressions(sample.MODULES))
def test_modules(expression, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # recurrent layers round to it
    made, rest = re.match(r"(nn\.\w+\(.*?\))(\(.*)", expression).groups()
    found = []
    for place in (NAME, "cpu"):
        torch.manual_seed(0)
        found.append(eval(f"({made}).to(d).eval(){rest}", sample.names_on(place)))
    check_close(*map(sample.flat, found))


@pytest.mark.parametrize("expression", sample.expressions(sample.SLOPES))
def test_the_same_gradients(expression):
    slopes = []
    for place in (NAME, "cpu"):
        names = sample.names_on(place)
        names["a"].requires_grad_()
        eval(expression, names).backward()
        slopes.append(names["a"].grad)
    check_close(*slopes)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_training(optimizer):
    losses = []
    for place in (NAME, "cpu"):
        torch.manual_seed(0)
        layers = nn.Linear(6, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 6)
        model = nn.Sequential(*layers).to(place)
        names, steps = sample.names_on(place), []
        opt = getattr(torch.optim, optimizer)(model.parameters(), lr=1e-2)
        for _ in range(5):
            opt.zero_grad()
            loss = F.cross_entropy(model(names["a"]), names["t"])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            steps.append(loss.item())
        losses.append(steps)
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


SIZES = [(1,), (7,), (300,), (5000,), (3, 9000), (70, 300), (9000, 3), (33, 5, 40), (2, 3, 5, 700)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_reductions_of_many_shapes(size, dtype):
    x = torch.testing.make_tensor(size, dtype=getattr(torch, dtype), device="cpu", low=0, high=2)
    y, close = x.to(NAME), {"rtol": 1e-2, "atol": 1e-2} if dtype == "bfloat16" else FLOATS
    rng = random.Random(str((size, dtype)))
    for dim in (None, 0, -1, tuple(rng.sample(range(x.ndim), (x.ndim + 1) // 2))):
        for strided in (False, True):
            a, b = (x.mT, y.mT) if strided and x.ndim > 1 else (x, y)
            given = {} if dim is None else {"dim": dim}
            torch.testing.assert_close(b.sum(**given).cpu(), a.sum(**given), **close)
            torch.testing.assert_close((b != 0).any(**given).cpu(), (a != 0).any(**given))
            if dtype not in ("complex64", "bool") and not isinstance(dim, tuple):
                torch.testing.assert_close(b.argmax(**given).cpu(), a.argmax(**given))


@pytest.mark.parametrize("size", [(3, 1), (5, 33), (2, 1000), (4500, 6), (2, 9001), (3, 4, 70)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_row_programs_of_many_shapes(size, dtype):
    x = torch.randn(size).to(getattr(torch, dtype))
    close = {"rtol": 2e-2, "atol": 2e-2} if dtype == "bfloat16" else FLOATS
    for run in (
        lambda t: t.softmax(-1), lambda t: t.log_softmax(0), lambda t: t.logsumexp(-1),
        lambda t: F.layer_norm(t, t.shape[-1:]), lambda t: F.rms_norm(t, t.shape[-1:]),
        lambda t: t[..., 1:].softmax(-1) if t.shape[-1] > 1 else t,
    ):  # fmt: skip
        results = []
        for place in (NAME, "cpu"):
            leaf = x.clone().to(place).requires_grad_()
            out = run(leaf)
            out.float().pow(2).sum().backward()
            results.append((out.detach().cpu(), leaf.grad.cpu()))
        for found, wanted in zip(*results):
            torch.testing.assert_close(found, wanted, **close)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "complex64"])
def test_products_of_many_shapes(dtype):
    for m, n, k in ((1, 1, 1), (3, 5, 7), (64, 64, 16), (65, 70, 33), (130, 1, 50), (1, 130, 200)):
        a = torch.randint(-4, 5, (2, m, k)).to(getattr(torch, dtype))
        b = torch.randint(-4, 5, (2, k, n)).to(getattr(torch, dtype))
        for x, y in ((a, b), (a.mT.contiguous().mT, b), (a, b.mT.contiguous().mT), (a[0], b[0])):
            torch.testing.assert_close((x.to(NAME) @ y.to(NAME)).cpu(), x @ y)


def test_a_wrong_index_is_told_at_the_next_synchronisation(cuda):
    table = torch.randn(4, 3, device=NAME)
    wrong = torch.tensor([1, 9], device=NAME)
    F.embedding(wrong, table)
    with pytest.raises(IndexError, match="index out of range in self"):
        cuda.part(0).synchronize()
    assert F.embedding(torch.tensor([1], device=NAME), table).cpu().shape == (1, 3)


def test_memory_is_used_again(cuda):
    part = cuda.part(0)
    for _ in range(3):
        x = torch.randn(1000, 100, device=NAME)
        for _ in range(20):
            x = x * 1.01 + x.mean(0)
    before = part.allocator.reserved()
    for _ in range(50):
        x = x * 1.01 + x.mean(0)
    assert part.allocator.reserved() == before


def test_long_rows_are_sorted_scanned_and_selected():
    x = torch.randn(100_003)
    y, kept = x.to(NAME), x > 0
    assert torch.equal(y.sort()[0].cpu(), x.sort()[0])
    assert torch.equal(y.topk(5000)[0].cpu(), x.topk(5000)[0])
    assert torch.equal(y[kept.to(NAME)].cpu(), x[kept])
    assert torch.equal(torch.nonzero(kept.to(NAME)).cpu(), torch.nonzero(kept))
    n = torch.arange(100_003)
    assert torch.equal(n.to(NAME).cumsum(0).cpu(), n.cumsum(0))
    assert torch.equal((n % 50).to(NAME).unique().cpu(), torch.arange(50))
