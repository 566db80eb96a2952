"""Ten seconds on a cold kernel cache: is the whole thing alive? Run this before every commit.

One test for each thing everything else rests on: a kernel, a reduction, a product, a gradient, a
network that learns.
"""

import flambeau as torch


def test_a_sum():
    a = torch.arange(6.0).reshape(2, 3)
    assert (a + a).sum().item() == 30.0
    assert a.sum(dim=0).tolist() == [3.0, 5.0, 7.0]
    assert a.sum(dim=1).tolist() == [3.0, 12.0]


def test_broadcasting_and_promotion():
    a = torch.arange(3)
    b = torch.tensor([[0.5], [1.5]])
    c = a * b
    assert c.dtype == torch.float32
    assert c.tolist() == [[0.0, 0.5, 1.0], [0.0, 1.5, 3.0]]


def test_a_view_shares_memory():
    a = torch.zeros(2, 3)
    a.t()[1] += 1
    assert a.tolist() == [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]


def test_a_matmul():
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert (a @ a).tolist() == [[7.0, 10.0], [15.0, 22.0]]
    assert (a @ a.t()).tolist() == [[5.0, 11.0], [11.0, 25.0]]


def test_a_gradient():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x * x + 3 * x).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0, 9.0]


def test_a_gradient_against_differences():
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    step = 1e-6 * torch.ones(5, dtype=torch.float64)

    def f(x):
        return torch.tanh(x).exp() / (1 + x * x)

    (slope,) = torch.autograd.grad(f(x).sum(), x)
    with torch.no_grad():
        measured = (f(x + step) - f(x - step)) / 2e-6
    assert (slope - measured).abs().max().item() < 1e-8


def test_the_same_seed_gives_the_same_numbers():
    first = torch.manual_seed(3) and torch.randn(20)
    again = torch.manual_seed(3) and torch.randn(20)
    assert first.tolist() == again.tolist()
    assert first.std().item() > 0.1


def test_an_mlp_learns_xor():
    torch.manual_seed(0)
    inputs = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    targets = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    shapes = [(2, 8), (8,), (8, 1), (1,)]
    parameters = [torch.randn(*shape).requires_grad_() for shape in shapes]
    w1, b1, w2, b2 = parameters
    for _ in range(300):
        outputs = torch.tanh(inputs @ w1 + b1) @ w2 + b2
        loss = ((outputs - targets) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for parameter in parameters:
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    assert loss.item() < 0.01
    assert ((outputs > 0.5) == targets.bool()).all()
