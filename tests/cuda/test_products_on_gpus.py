"""Small products of half types on GPUs, which kernels of our own do."""

import pytest

import flambeau as torch
from flambeau.eager import kernels

F = torch.nn.functional
SIZES = [(64, 96, 64), (1, 40, 32), (70, 33, 160), (5, 300, 768), (130, 7, 96), (64, 64, 1024)]


def drawn(*shape, dtype):
    return torch.randn(*shape).to(dtype).to("cuda")


def is_near(found, expected):
    """Sums of floats in any order, rounded once to a half type."""
    found, expected = found.cpu().double(), expected.cpu().double()
    return bool(((found - expected).abs() <= 0.01 * expected.abs() + 0.01).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("m, n, k", SIZES)
def test_small_products(dtype, m, n, k):
    torch.manual_seed(m + n + k)
    x, w, b = drawn(m, k, dtype=dtype), drawn(n, k, dtype=dtype), drawn(n, dtype=dtype)
    wide = [t.cpu().double() for t in (x, w, b)]
    assert is_near(F.linear(x, w, b), F.linear(*wide))
    assert is_near(x @ w.t(), wide[0] @ wide[1].t())
    assert F.linear(x, w, b).equal(F.linear(x, w, b))
    more = drawn(m, n, dtype=dtype)
    expected = torch.addmm(more.cpu().double(), wide[0], wide[1].t(), beta=0.5, alpha=2)
    assert is_near(torch.addmm(more, x, w.t(), beta=0.5, alpha=2), expected)


def test_each_element_counts():
    """One product at a time: which elements an instruction takes is no matter of luck."""
    x, w = (torch.zeros(64, 64, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    for k in range(64):
        row, column = (7 * k + 3) % 64, (5 * k + 1) % 64
        x.zero_()
        w.zero_()
        x[row, k], w[column, k] = 2.0, 3.0
        found = (x @ w.t()).float().cpu()
        assert float(found[row, column]) == 6.0 and float(found.sum()) == 6.0


def test_addresses_that_lie_oddly():
    torch.manual_seed(1)
    x, w = drawn(10, 100, dtype=torch.bfloat16), drawn(50, 99, dtype=torch.bfloat16)
    a, b = x[:, 3:67], w[:, 1:65]
    assert is_near(a @ b.t(), a.cpu().double() @ b.cpu().double().t())


def test_which_products_are_small():
    plan = torch.device("cuda").runtime.multiplies

    def build(m, n, k, dtype=torch.bfloat16):
        like = torch.empty(1, 1, dtype=dtype, device="cuda")._layout
        found = plan(like, m, n, k, (n, 1), (k, 1), (1, k), False, "", (), (), ())
        return kernels.recipes.get(found.kernel.__self__, ("",))[0]

    assert build(64, 768, 768) == "small_products:build_small"
    for facts in ((64, 50304, 768), (64, 768, 33), (64, 768, 768, torch.float32)):
        assert build(*facts) != "small_products:build_small"
