"""complex32 on GPUs: the rows are those of the host, and so are the bits."""

import pytest

import flambeau as torch

H = torch.complex32
CALLS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "number": lambda a, b: a * (0.1 + 0.3j),
    "alpha": lambda a, b: a.add(b, alpha=0.3),
    "addcmul": lambda a, b: a.addcmul(b, b),
    "abs": lambda a, b: a.abs(),
    "cast": lambda a, b: a.to(torch.complex64),
    "narrow": lambda a, b: (a.to(torch.complex64) * 1.1).to(H),
    "strided": lambda a, b: a[::2] * b[1::2],
    "parts": lambda a, b: torch.complex(a.real, b.imag),
    "cat": lambda a, b: torch.cat([a, b]),
    "mask": lambda a, b: a[a.real > 0],
    "where": lambda a, b: torch.where(a.real > 0, a, b),
    "masked_fill": lambda a, b: a.masked_fill(a.real > 0, 2j),
    "pad": lambda a, b: torch.nn.functional.pad(a, (1, 1), value=2.5),
    "equal": lambda a, b: a == b,
}


def bits(t):
    t = t.detach().cpu()
    return (t.dtype, t.view(torch.int32) if t.dtype is H else t)


@pytest.mark.parametrize("name", CALLS)
def test_bits_are_those_of_the_host(name):
    torch.manual_seed(0)
    a, b = torch.randn(300, dtype=H), torch.randn(300, dtype=H)
    there, here = (bits(CALLS[name](x, y)) for x, y in ((a.cuda(), b.cuda()), (a, b)))
    assert there[0] is here[0] and torch.equal(there[1], here[1])


def test_gradients_are_those_of_the_host():
    torch.manual_seed(1)
    a, b = torch.randn(300, dtype=H), torch.randn(300, dtype=H)
    leaves = a.clone().requires_grad_(), a.cuda().requires_grad_()
    for leaf in leaves:
        (leaf * b.to(leaf.device)).abs().sum().backward()
    assert torch.equal(bits(leaves[0].grad)[1], bits(leaves[1].grad)[1])


def test_what_pytorch_has_not_on_the_host_is_refused_here_too():
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexHalf'"):
        torch.ones(2, dtype=H, device="cuda").exp()
