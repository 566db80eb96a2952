"""cdist and pdist: against norms written out in double, and against PyTorch where installed."""

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

NORMS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf]
SHAPES = [((4, 3), (5, 3)), ((2, 4, 37), (2, 5, 37)), ((2, 4, 3), (5, 3)), ((1, 1), (1, 1))]
SHAPES += [((30, 20), (31, 20)), ((6, 0), (5, 0)), ((0, 3), (5, 3)), ((3, 1, 2, 5), (4, 6, 5))]


def distances(a, b, p):
    """The definition."""
    d = np.abs(a[..., :, None, :].astype("float64") - b[..., None, :, :])
    if p == 0:
        return (d != 0).sum(-1).astype("float64")
    if math.isinf(p):
        return d.max(-1) if d.shape[-1] else d.sum(-1)
    return (d**p).sum(-1) ** (1 / p)


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cdist_is_the_norm_of_differences(rng, p, dtype):
    for s1, s2 in SHAPES:
        a, b = rng.standard_normal(s1).astype(dtype), rng.standard_normal(s2).astype(dtype)
        found = torch.cdist(torch.from_numpy(a), torch.from_numpy(b), p=p)
        wanted = distances(a, b, p)
        assert found.shape == wanted.shape and found.dtype is getattr(torch, dtype)
        assert np.allclose(found.numpy(), wanted, 2e-5 if dtype == "float32" else 1e-12, 1e-5)


@pytest.mark.parametrize("p", NORMS)
def test_pdist_is_the_upper_triangle(rng, p):
    for n, size in ((7, 3), (20, 33), (2, 1), (1, 3), (0, 3), (4, 0)):
        a = rng.standard_normal((n, size))
        found = torch.pdist(torch.from_numpy(a), p)
        wanted = distances(a, a, p)[np.triu_indices(n, 1)]
        assert np.allclose(found.numpy(), wanted) and found.shape == wanted.shape


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"])
def test_euclidean_distances_in_both_forms(rng, mode):
    a, b = rng.standard_normal((2, 40, 6)), rng.standard_normal((2, 3, 6))
    x, y = (torch.from_numpy(t).requires_grad_() for t in (a, b))
    assert np.allclose(torch.cdist(x, y, compute_mode=mode).detach().numpy(), distances(a, b, 2))
    x, y = x[:, :4].detach().requires_grad_(), y[:, :2].detach().requires_grad_()
    assert gradcheck(lambda s, t: torch.cdist(s, t, compute_mode=mode), (x, y))
    assert gradgradcheck(lambda s, t: torch.cdist(s, t, compute_mode=mode), (x, y))


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_gradients(rng, p):
    x, y = (torch.from_numpy(rng.standard_normal(s)).requires_grad_() for s in ((2, 4, 5), (3, 5)))
    assert gradcheck(lambda a, b: torch.cdist(a, b, p=p), (x, y))
    assert gradcheck(lambda a: torch.pdist(a, p), (y,))
    if p >= 1:
        assert gradgradcheck(lambda a, b: torch.cdist(a, b, p=p), (x, y))
        assert gradgradcheck(lambda a: torch.pdist(a, p), (y,))


def test_equal_rows_have_distance_and_gradient_zero():
    for p in NORMS:
        for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
            x = torch.tensor([[1.0, 2.0], [1.0, 2.0]], requires_grad=True)
            d = torch.cdist(x, x.detach(), p=p, compute_mode=mode)
            d.sum().backward()
            assert d.tolist() == [[0, 0], [0, 0]] and x.grad.tolist() == [[0, 0], [0, 0]]


def test_transposed_inputs_and_gradients(rng):
    a, b = rng.standard_normal((5, 8)), rng.standard_normal((5, 6))
    x, y = (torch.from_numpy(t).requires_grad_() for t in (a, b))
    d = torch.cdist(x.t(), y.t(), p=3.0)
    assert np.allclose(d.detach().numpy(), distances(a.T, b.T, 3))
    g = rng.standard_normal((6, 8))
    d.backward(torch.from_numpy(g).t())
    z, w = (torch.from_numpy(t).requires_grad_() for t in (a, b))
    torch.cdist(z.t().contiguous(), w.t().contiguous(), p=3.0).backward(
        torch.from_numpy(g.T.copy())
    )
    assert np.allclose(x.grad.numpy(), z.grad.numpy()) and np.allclose(
        y.grad.numpy(), w.grad.numpy()
    )


ERRORS = [
    (lambda: torch.cdist(torch.ones(4, 3), torch.ones(5, 4)),
     RuntimeError, "X1 and X2 must have the same number of columns. X1: 3 X2: 4"),
    (lambda: torch.cdist(torch.ones(3), torch.ones(5, 3)),
     RuntimeError, "cdist only supports at least 2D tensors, X1 got: 1D"),
    (lambda: torch.cdist(torch.ones(2, 4, 3), torch.ones(3, 5, 3)),
     RuntimeError, "The size of tensor a (2) must match the size of tensor b (3)"),
    (lambda: torch.cdist(torch.ones(4, 3), torch.ones(5, 3), p=-1),
     RuntimeError, "cdist only supports non-negative p values"),
    (lambda: torch.cdist(torch.ones(4, 3), torch.ones(5, 3), compute_mode="x"),
     ValueError, "x is not a valid value for compute_mode"),
    (lambda: torch.cdist(torch.ones(4, 3), torch.ones(5, 3).double()),
     RuntimeError, "expected scalar type Float but found Double"),
    (lambda: torch.cdist(torch.ones(4, 3).long(), torch.ones(5, 3)),
     RuntimeError, "cdist only supports floating-point dtypes, X1 got: Long"),
    (lambda: torch.cdist(torch.ones(4, 3).half(), torch.ones(5, 3).half()),
     NotImplementedError, "\"cdist\" not implemented for 'Half'"),
    (lambda: torch.pdist(torch.ones(3)), RuntimeError, "pdist only supports 2D tensors, got: 1D"),
    (lambda: torch.pdist(torch.ones(4, 3), p=-1),
     RuntimeError, "pdist only supports non-negative p values"),
]  # fmt: skip


@pytest.mark.parametrize("call, kind, message", ERRORS)
def test_errors(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_shapes_without_data():
    a, b = torch.empty(2, 4, 3, device="meta"), torch.empty(5, 3, device="meta")
    assert torch.cdist(a, b).shape == (2, 4, 5) and torch.pdist(b).shape == (10,)


@pytest.mark.oracle
@pytest.mark.parametrize("p", NORMS)
def test_against_pytorch(rng, p):
    oracle = pytest.importorskip("torch")
    for s1, s2 in (((4, 3), (5, 3)), ((2, 4, 37), (2, 5, 37)), ((70, 20), (90, 20))):
        a, b = rng.standard_normal(s1).astype("float32"), rng.standard_normal(s2).astype("float32")
        b[..., 0, :], b[..., 1, 0] = a[..., 1, :], a[..., 2, 0]
        g = rng.standard_normal((*s1[:-1], s2[-2])).astype("float32")
        results = []
        for kit in (torch, oracle):
            x, y = (kit.from_numpy(t.copy()).requires_grad_() for t in (a, b))
            d = kit.cdist(x, y, p=p, compute_mode="donot_use_mm_for_euclid_dist")
            d.backward(kit.from_numpy(g))
            results.append([t.detach().numpy() for t in (d, x.grad, y.grad)])
        for ours, theirs in zip(*results):
            assert np.allclose(ours, theirs, 1e-4, 1e-4)
