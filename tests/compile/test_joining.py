"""Kernels of other kinds take pointwise neighbours in, and give the bits of separate launches."""

import pytest

import flambeau as torch
from flambeau.compiler import hosts
from flambeau.runtime import cpu
from tests.compile.test_tapes import entry_of, taped

F = torch.nn.functional


def names(program):
    """Kernels on the tape of a program."""
    return [cpu.name_of(launch.definition) for launch in entry_of(program).tape.kept[0]]


def _into_reduction(x, y):
    return ((x - y).square().mean(),)


def _into_rows(x, y):
    return ((x * y).sum(-1), (x - y).abs().amax(1))


def _into_columns(x, y):
    return ((x * y + 1).sum(0), torch.exp(x).amax(0))


def _halves_into_sum(x, y):
    return ((x.to(torch.float16) * 3).sum(), (y.double() + 0.1).sum(0))


def _one_for_all(x, y):
    return ((x * y.mean()).sum(),)


def _a_part(x, y):
    return ((x * 2)[1:, 2:].sum(0), (y * 2).flip(0).cumsum(0)[:, ::2].sum())


def _wide_sum(x, y):
    return ((x.to(torch.bfloat16) + 1).float().sum(1),)


def _around_softmax(x, y):
    return (torch.softmax(x * 0.5 + y, -1) * 2 + y,)


def _around_column_softmax(x, y):
    return (torch.softmax(x * 0.5 + y, 0).sub(1).abs(),)


def _around_log_softmax(x, y):
    return (-F.log_softmax(x * y, -1),)


def _product_into_layer_norm(x, y):
    return (F.layer_norm(x * y, x.shape[-1:]).relu(),)  # a sum of products is not rounded less


def _sum_that_stays(x, y):
    z = x + y
    return (F.layer_norm(z, z.shape[-1:], y[0], x[0]).tanh(), z)


def _half_layer_norm(x, y):
    z = x.to(torch.bfloat16) * 3
    return (F.layer_norm(z, z.shape[-1:]) * 3 + z,)


def _batch_norm(x, y):
    image = (x * 2).view(x.shape[0], 4, -1)
    return (F.batch_norm(image, None, None, training=True).relu() + 1,)


def _group_norm(x, y):
    image = (x + y).view(x.shape[0], 4, -1)
    return (F.group_norm(image, 2).sigmoid(),)


def _in_place(x, y):
    z = x * 1
    z.add_(y)
    n = F.layer_norm(z, z.shape[-1:])
    n.relu_()
    z.mul_(3)
    return (n, z)


def _overwritten(x, y):
    z = torch.softmax(x, -1)
    z.copy_(y * 2 + x)
    n = F.layer_norm(x + y, x.shape[-1:])
    n.view(-1)[: n.numel() // 2].copy_(y.view(-1)[: n.numel() // 2] + 1)
    return (z, n)


def _parts_of_a_result(x, y):
    z = torch.softmax(x, -1)
    return (z[1:] + z[:-1], z.T * 2, z.view(2, -1)[0] + 1)


def _long_chain_before(x, y):
    return (torch.softmax(torch.sin(x).exp().atan().erf(), -1),)


CASES = {
    _into_reduction: (1, 1),
    _into_rows: (2, 2),
    _into_columns: (2, 2),
    _halves_into_sum: (2, 2),
    _one_for_all: (2, 2),
    _a_part: (None, None),
    _wide_sum: (1, 1),
    _around_softmax: (1, 1),
    _around_column_softmax: (1, 1),
    _around_log_softmax: (1, 1),
    _product_into_layer_norm: (1, 1),
    _sum_that_stays: (1, None),
    _half_layer_norm: (1, None),
    _batch_norm: (1, 1),
    _group_norm: (1, 1),
    _in_place: (None, None),
    _overwritten: (None, None),
    _parts_of_a_result: (None, None),
    _long_chain_before: (1, 1),
}
SIZES = [(6, 8), (64, 36), (300, 260)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__[1:])
def test_results_and_launches(function, size):
    torch.manual_seed(1)
    x, y = torch.randn(size), torch.randn(size)
    program = taped(function, x, y)
    most = CASES[function][size == SIZES[-1]]
    if most is not None:
        assert len(names(program)) <= most, names(program)
    for found, wanted in zip(program(x, y), function(x, y)):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__[1:])
def test_gradients(function, dtype, size):
    if function in (_in_place, _overwritten):
        pytest.skip("it writes to what its own derivative keeps")
    torch.manual_seed(2)
    x, y = (torch.randn(size).to(dtype).requires_grad_() for _ in range(2))
    program = taped(function, x, y)
    found, wanted = [], []
    for run, grads in ((program, found), (function, wanted)):
        outs = run(x, y)
        total = sum((o.double() * 0.7).sum() for o in outs)
        grads += torch.autograd.grad(total, (x, y), allow_unused=True)
    for a, b in zip(found, wanted):
        assert a is b is None or torch.equal(a, b)


def _convolved(x, w, b):
    return (F.conv2d(x, w, b, padding=1).relu() + 1,)


def _convolved_apart(x, w, b):
    y = F.conv2d(x, w, b, stride=2)
    return (torch.tanh(y) * y.detach(), y)


def _convolved_in_place(x, w, b):
    return (F.conv2d(x, w, b).relu_(), F.conv2d(x, w).mul_(2.5).sigmoid_())


def _convolved_up(x, w, b):
    return (F.conv_transpose2d(x, w.transpose(0, 1), b, stride=2).relu(),)


def _pooled(x, w, b):
    return (F.max_pool2d(x.relu(), 2), F.avg_pool2d((x * 2).tanh(), 3), (w * b.sum()).sum())


CONVOLUTIONS = [_convolved, _convolved_apart, _convolved_in_place, _convolved_up, _pooled]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("taps", [1, 3, 5])
@pytest.mark.parametrize("function", CONVOLUTIONS, ids=lambda f: f.__name__[1:])
def test_convolutions(function, taps, dtype):
    torch.manual_seed(3)
    x, w, b = torch.randn(2, 8, 13, 17), torch.randn(16, 8, taps, taps), torch.randn(16)
    leaves = [t.to(dtype).requires_grad_() for t in (x, w, b)]
    plain = [t.detach() for t in leaves]
    still = taped(function, *plain)
    if function in (_convolved, _convolved_in_place) and dtype != torch.bfloat16:
        assert not {"relu", "fused"} & set(names(still)), names(still)
    program = taped(function, *leaves)
    results = []
    for run in (still, program, function):
        outs = run(*(plain if run is still else leaves))
        results.append([o.detach() for o in outs])
        if run is not still:
            total = sum((o.double() * 0.7).sum() for o in outs)
            results[-1] += torch.autograd.grad(total, leaves)
    for found in results[:2]:
        assert all(torch.equal(a, b) for a, b in zip(found, results[2]))


def _multiplied(a, b, c):
    return (torch.relu(a @ b),)


def _linear(a, b, c):
    return (F.gelu(F.linear(a, b.mT, c[0])) * 0.5,)


def _residual(a, b, c):
    return ((a @ b + c) * 2, a.mT @ a)


def _product_that_stays(a, b, c):
    y = a @ b
    return (torch.tanh(y) + c, y)


def _product_in_place(a, b, c):
    return ((a @ b).mul_(0.5).relu_(),)


def _batches(a, b, c):
    both = torch.stack([a, a + 1])
    return ((both @ b).exp().neg(),)


PRODUCTS = [_multiplied, _linear, _residual, _product_that_stays, _product_in_place, _batches]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [(1, 5, 7), (40, 70, 33), (600, 800, 400)], ids=str)
@pytest.mark.parametrize("most", [hosts.SMALL, 1 << 40], ids=["usual", "any size"])
@pytest.mark.parametrize("function", PRODUCTS, ids=lambda f: f.__name__[1:])
def test_products(function, size, dtype, monkeypatch, most):
    """Sizes that are not joined as a rule are right, too."""
    monkeypatch.setattr(hosts, "SMALL", most)
    torch.manual_seed(4)
    m, k, n = size
    a, b, c = (torch.randn(s).mul(0.1).to(dtype) for s in ((m, k), (k, n), (m, n)))
    program = taped(function, a, b, c)
    if function in (_multiplied, _product_in_place) and dtype != torch.bfloat16:
        assert (set(names(program)) == {"gemm"}) == (m * n <= hosts.SMALL)
    found = program(a, b, c)
    assert all(torch.equal(x, y) for x, y in zip(found, function(a, b, c)))
