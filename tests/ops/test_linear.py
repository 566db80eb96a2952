"""linear and bilinear: against sums written out in double, and against PyTorch where installed."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

F = torch.nn.functional


def tensors(rng, *shapes, dtype="float64", grad=True):
    return [
        torch.from_numpy(np.asarray(rng.standard_normal(s)).astype(dtype)).requires_grad_(grad)
        for s in shapes
    ]


SHAPES = [((2, 3), 4), ((2, 2, 3), 4), ((3,), 4), ((5, 4, 2, 3), 1), ((33, 70), 65), ((1, 40), 9)]


@pytest.mark.parametrize("shape, out", SHAPES)
@pytest.mark.parametrize("biased", [True, False])
def test_linear_is_a_product_with_the_transposed_weight(rng, shape, out, biased):
    x, w, b = tensors(rng, shape, (out, shape[-1]), (out,), dtype="float32", grad=False)
    wanted = x.numpy().astype("float64") @ w.numpy().T.astype("float64")
    wanted = wanted + b.numpy() if biased else wanted
    found = F.linear(x, w, b if biased else None)
    assert found.shape == wanted.shape and found.is_contiguous()
    assert np.allclose(found.numpy(), wanted, 1e-5, 1e-5)
    # planned by now: the quick way gives the same
    assert torch.equal(found, F.linear(x, w, b if biased else None))


def test_gradients_of_linear_in_all_ranks(rng):
    for shape, out in SHAPES[:4]:
        x, w, b = tensors(rng, shape, (out, shape[-1]), (out,))
        assert gradcheck(F.linear, (x, w, b))
        assert gradgradcheck(F.linear, (x, w, b))
    for shape in ((3,), (2, 3), (2, 2, 3)):
        x, w = tensors(rng, shape, (3,))
        assert gradcheck(F.linear, (x, w))


def test_gradients_of_linear_lie_side_by_side(rng):
    x, w, b = tensors(rng, (4, 2, 3), (5, 3), (5,), dtype="float32")
    F.linear(x, w, b).sum().backward()
    assert all(t.grad.is_contiguous() and t.grad.shape == t.shape for t in (x, w, b))
    assert np.allclose(b.grad.numpy(), 8)
    assert np.allclose(w.grad.numpy(), x.detach().numpy().sum((0, 1))[None].repeat(5, 0), 1e-5)


def test_linear_of_strided_inputs(rng):
    x, w, b = tensors(rng, (6, 10, 14), (9, 20), (18,), dtype="float32", grad=False)
    for view in (x[::2, ::3, ::2], x.transpose(0, 1)[..., :7], x.expand(6, 10, 14)[..., 7:]):
        weight, bias = w[:, ::2][:, :7], b[::2]
        wanted = view.numpy() @ weight.numpy().T + bias.numpy()
        assert np.allclose(F.linear(view, weight, bias).numpy(), wanted, 1e-4, 1e-5)
        turned = w[:7, :9].t()
        assert np.allclose(
            F.linear(view, turned).numpy(), view.numpy() @ turned.numpy().T, 1e-4, 1e-5
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_round_once(rng, dtype):
    x, w, b = tensors(rng, (20, 1000), (30, 1000), (30,), grad=False)
    kind = getattr(torch, dtype)
    x, w, b = x.to(kind), w.to(kind), b.to(kind)
    exact = x.double() @ w.double().T + b.double()
    assert torch.allclose(F.linear(x, w, b).double(), exact, 5e-3, 1e-2)
    same = F.linear(x, w, b).double() - exact
    assert same.abs().max() <= exact.abs().max() * (2**-8 if dtype == "bfloat16" else 2**-11)


def test_nothing_in_the_middle_gives_a_gradient_of_zeros():
    w, b = torch.ones(4, 3, requires_grad=True), torch.ones(4, requires_grad=True)
    F.linear(torch.ones(2, 0, 3), w, b).sum().backward()
    assert w.grad.tolist() == [[0.0] * 3] * 4 and b.grad.tolist() == [0.0] * 4


def test_linear_with_nothing_to_do():
    w, b = torch.ones(4, 3), torch.arange(4.0)
    assert F.linear(torch.ones(0, 3), w, b).shape == (0, 4)
    assert F.linear(torch.ones(2, 0), torch.ones(4, 0), b).tolist() == [[0, 1, 2, 3]] * 2
    assert F.linear(torch.ones(2, 5, 3, device="meta"), w.to("meta")).shape == (2, 5, 4)
    whole = F.linear(torch.ones(2, 3, dtype=torch.int64), torch.ones(4, 3, dtype=torch.int64))
    assert whole.tolist() == [[3] * 4] * 2 and whole.dtype is torch.int64


ERRORS = [
    (((2, 3), (4, 5)), "mat1 and mat2 shapes cannot be multiplied (2x3 and 5x4)"),
    (((2, 2, 3), (4, 5)), "mat1 and mat2 shapes cannot be multiplied (4x3 and 5x4)"),
    (
        ((2, 3), (4, 3), (5,)),
        "The expanded size of the tensor (4) must match the existing size (5)",
    ),
    (((2, 3), (3,), ()), "mat2 must be a matrix, got 1-D tensor"),
    (((), (4, 5)), "both arguments to linear need to be at least 1D, but they are 0D and 2D"),
    (((2, 3), (2, 4, 3)), "t() expects a tensor with <= 2 dimensions, but self is 3D"),
]


@pytest.mark.parametrize("shapes, message", ERRORS)
def test_errors_of_linear(shapes, message):
    with pytest.raises(RuntimeError) as caught:
        F.linear(*[torch.ones(s) for s in shapes])
    assert str(caught.value).startswith(message)


def test_dtypes_must_agree():
    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="expected m1 and m2 to have the same dtype"):
        F.linear(x, torch.ones(4, 3).double())
    with pytest.raises(RuntimeError, match="self and mat2 must have the same dtype"):
        F.linear(x, torch.ones(4, 3), torch.ones(4).double())
    with pytest.raises(NotImplementedError, match="\"addmm_impl_cpu_\" not implemented for 'Bool'"):
        F.linear(x.bool(), torch.ones(4, 3).bool())


def test_bilinear(rng):
    for outer in ((), (2,), (2, 3)):
        x, y, w, b = tensors(rng, (*outer, 3), (*outer, 4), (5, 3, 4), (5,))
        wanted = np.einsum("...i,kij,...j->...k", *(t.detach().numpy() for t in (x, w, y)))
        assert np.allclose(F.bilinear(x, y, w, b).detach().numpy(), wanted + b.detach().numpy())
        assert gradcheck(F.bilinear, (x, y, w, b))
    with pytest.raises(RuntimeError, match="input1 size does not match weight size: got 2 but"):
        F.bilinear(torch.ones(2, 2), torch.ones(2, 4), torch.ones(5, 3, 4))
    with pytest.raises(RuntimeError, match="batch dimensions do not match at dim 0: got 2 and 3"):
        F.bilinear(torch.ones(2, 3), torch.ones(3, 4), torch.ones(5, 3, 4))


@pytest.mark.oracle
def test_linear_against_pytorch(rng):
    oracle = pytest.importorskip("torch")
    for shape, out in SHAPES:
        ours = tensors(rng, shape, (out, shape[-1]), (out,), dtype="float32")
        theirs = [oracle.from_numpy(t.detach().numpy().copy()).requires_grad_() for t in ours]
        a, b = F.linear(*ours), oracle.nn.functional.linear(*theirs)
        assert np.allclose(a.detach().numpy(), b.detach().numpy(), 1e-5, 1e-5)
        (a * a).sum().backward()
        (b * b).sum().backward()
        for x, y in zip(ours, theirs):
            assert np.allclose(x.grad.numpy(), y.grad.numpy(), 1e-4, 1e-4)
