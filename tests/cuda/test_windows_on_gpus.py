"""Pooling, joins, pads and sliding blocks on a GPU, by the host."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from tests.cuda.test_sorting_on_gpus import check

POOLS = """
F.max_pool2d(x, 3, 2, 1)
F.max_pool2d(x, 3, 2, 1, return_indices=True)
F.max_pool2d(x, 2)
F.max_pool2d(x, 3, 1, 1, 2, return_indices=True)
F.max_pool2d(x, (9, 8), 5, return_indices=True)
F.max_pool2d(x, 3, 2, ceil_mode=True)
F.avg_pool2d(x, 3, 2, 1)
F.avg_pool2d(x, 2)
F.avg_pool2d(x, (9, 8), 5)
F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)
F.avg_pool2d(x, 3, divisor_override=5)
F.adaptive_avg_pool2d(x, 1)
F.adaptive_avg_pool2d(x, (3, 4))
F.adaptive_avg_pool2d(x, 20)
F.adaptive_max_pool2d(x, 1, return_indices=True)
F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
F.adaptive_max_pool2d(x, 20, return_indices=True)
F.max_pool3d(cube, 3, 2, 1, return_indices=True)
F.max_pool3d(cube, 2)
F.avg_pool3d(cube, 3, 2, 1)
F.adaptive_avg_pool3d(cube, 2)
F.max_pool1d(line, 3, 2, 1)
F.max_pool1d(line, 40)
F.avg_pool1d(line, 3, 2, 1)
F.adaptive_max_pool1d(line, 7, return_indices=True)
F.unfold(x, 3, padding=1, stride=2)
F.unfold(x, (2, 3), dilation=2)
F.fold(F.unfold(x, 3, padding=1, stride=2), (13, 17), 3, padding=1, stride=2)
F.pad(x, (1, 2, 0, 3))
F.pad(x, (-1, 2), value=1)
F.pad(x, (1, 2, 3, 1), mode="reflect")
F.pad(x, (1, 2, 3, 1), mode="replicate")
F.pad(x, (1, 2, 3, 1), mode="circular")
"""


def with_gradient(expression, dtype, last, place):
    """Results and gradient of an expression."""
    torch.manual_seed(0)
    shapes = {"x": (2, 8, 13, 17), "cube": (2, 3, 6, 7, 8), "line": (2, 3, 50)}
    given = {}
    for name, shape in shapes.items():
        t = torch.randint(-20, 20, shape).to(getattr(torch, dtype))
        t.view(-1)[5] = float("nan")
        t[0, 1] = float("-inf")
        if last and t.ndim == 4:
            t = t.to(memory_format=torch.channels_last)
        given[name] = t.to(place).requires_grad_()
    found = eval(expression, {"F": F, **given})
    found = found if type(found) is tuple else (found,)
    slope = torch.arange(found[0].numel()).remainder(11).reshape(found[0].shape)
    found[0].backward(slope.to(found[0].dtype).to(place))
    slopes = [t.grad for t in given.values() if t.grad is not None]
    return [t.detach().cpu() for t in (*found, *slopes)]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("expression", POOLS.split("\n")[1:-1])
def test_windows(expression, dtype, last):
    close = {"rtol": 1e-2, "atol": 2e-2} if dtype == "bfloat16" else {"rtol": 1e-5, "atol": 1e-5}
    pairs = zip(*[with_gradient(expression, dtype, last, place) for place in ("cuda", "cpu")])
    for found, wanted in pairs:
        torch.testing.assert_close(found, wanted, equal_nan=True, **close)


def test_windows_of_integers():
    x = torch.randint(-20, 20, (2, 8, 13, 17))
    check(lambda t: F.max_pool2d(t, 3), x.int())
    check(lambda t: F.max_pool2d(t, 3), x.abs().to(torch.uint8))
    check(lambda t: F.avg_pool2d(t, 3), x)


@pytest.mark.parametrize("dtype", "float32 bfloat16 uint8 complex64 complex128".split())
def test_joins(dtype):
    def make(*shape):
        return torch.randint(0, 9, shape).to(getattr(torch, dtype))

    a = make(5, 7, 8)
    for dim, parts in (
        (1, (a, make(5, 3, 8), make(5, 1, 8))),
        (0, (make(5, 3), make(2, 3), make(7, 3))),
        (-1, (make(50, 33), make(50, 64))),
        (0, (a.mT, a.mT)),
        (0, [make(3, 5)] * 300),
        (0, (make(0, 4), make(2, 4))),
    ):
        check(lambda *t, d=dim: torch.cat(t, d), *parts)
    for dim in (0, 1, -1):
        check(lambda *t, d=dim: torch.stack(t, d), a, a)
    pad = torch.nn.utils.rnn.pad_sequence
    for facts in ({"batch_first": True}, {"padding_value": 1}, {"padding_side": "left"}):
        check(lambda *t, f=facts: pad(list(t), **f), make(5, 3), make(9, 3))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("dims", [2, 3])
def test_grids(mode, padding, dims):
    if (mode, dims) == ("bicubic", 3):
        return
    found = []
    for place in ("cuda", "cpu"):
        torch.manual_seed(0)
        x = torch.randn((3, 10, 4, 40, 50)[: dims + 2]).to(place).requires_grad_()
        grid = (torch.rand((*(3, 3, 30, 31)[: dims + 1], dims)) * 2.6 - 1.3).to(place)
        grid.requires_grad_()
        out = F.grid_sample(x, grid, mode, padding, align_corners=False)
        out.pow(2).sum().backward()
        found.append([t.detach().cpu() for t in (out, x.grad, grid.grad)])
    for ours, wanted in zip(*found):
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("times, labels", [(20, 5), (5, 4), (300, 140)])
def test_alignments(times, labels, zero_infinity):
    found = []
    for place in ("cuda", "cpu"):
        torch.manual_seed(0)
        x = torch.randn(times, 2, 7).to(place).requires_grad_()
        targets = torch.randint(1, 7, (2, labels)).to(place)
        lengths = torch.tensor([times, times - 3]), torch.tensor([labels, labels - 2])
        facts = {"reduction": "sum", "zero_infinity": zero_infinity}
        loss = F.ctc_loss(x.log_softmax(-1), targets, *lengths, **facts)
        loss.backward()
        found.append((loss.detach().cpu(), x.grad.cpu()))
    for ours, wanted in zip(*found):
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("scale", [2.0, 0.5, 1.7])
@pytest.mark.parametrize("last", [False, True])
def test_resampling(mode, scale, last):
    found = []
    for place in ("cuda", "cpu"):
        torch.manual_seed(0)
        x = torch.randn(3, 3, 9, 10)
        x = (x.to(memory_format=torch.channels_last) if last else x).to(place).requires_grad_()
        out = F.interpolate(x, scale_factor=scale, mode=mode)
        out.pow(2).sum().backward()
        found.append((out.detach().cpu(), x.grad.cpu()))
    for ours, wanted in zip(*found):
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("last", [False, True])
def test_unpooling(last):
    """Elements go back to where they came from, and gradients with them; others are zero."""
    torch.manual_seed(3)
    x = torch.randn(2, 3, 16, 20)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    found = []
    for place in ("cpu", "cuda"):
        given = x.to(place).detach().requires_grad_()
        out, where = F.max_pool2d(given, 3, 2, 1, return_indices=True)
        back = F.max_unpool2d(out, where, 3, 2, 1, output_size=(16, 20))
        back.square().sum().backward()
        found.append([back.detach().cpu(), given.grad.cpu()])
    assert all(a.equal(b) for a, b in zip(*found))
