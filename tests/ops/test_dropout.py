"""Dropout, rrelu, gumbel_softmax: by the coins that bernoulli_ draws, and against PyTorch.

What bernoulli_ and uniform_ draw is recorded from PyTorch (test_sampling.py), so a mask that agrees
with bernoulli_ for the same seed is PyTorch's.
"""

import math

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau.autograd import grad, gradgradcheck
from tests.ops.expressions import compare

DTYPES = ["float16", "bfloat16", "float32", "float64"]


def coins(shape, keep, dtype="float32"):
    torch.manual_seed(5)
    return torch.empty(shape, dtype=getattr(torch, dtype)).bernoulli_(keep)


def seeded(function, *args, **kwargs):
    torch.manual_seed(5)
    return function(*args, **kwargs)


def plain(t):
    return t.detach().double().numpy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout_is_noise_times_input(dtype):
    for shape in ((), (1,), (7,), (3, 5), (2, 1000, 3)):
        x = torch.randn(shape).to(getattr(torch, dtype)).requires_grad_()
        noise = coins(shape, 1 - 0.3, dtype)
        wanted = x.detach() * noise.clone().div_(1 - 0.3)
        y = seeded(F.dropout, x, 0.3)
        assert np.array_equal(plain(y), plain(wanted)) and y.dtype is x.dtype
        assert np.array_equal(plain(seeded(F.dropout, x.detach(), 0.3)), plain(wanted))
        g = torch.ones(shape).to(x.dtype)
        (slope,) = grad(y, x, g)
        np.testing.assert_allclose(
            plain(slope), plain(noise) / 0.7, 4e-3 if "16" in dtype else 1e-6
        )
        z = x.detach().clone()
        assert seeded(F.dropout, z, 0.3, inplace=True) is z
        assert np.array_equal(plain(z), plain(wanted)) and z._version == 1


def test_order_is_that_of_memory():
    x = torch.randn(4, 6, 5)
    turned = x.permute(2, 0, 1)
    wanted = seeded(F.dropout, x, 0.5)
    y = seeded(F.dropout, turned, 0.5)
    assert y.stride() == turned.stride() and torch.equal(y.permute(1, 2, 0), wanted)
    cut = torch.randn(6, 8)[::2, ::2]
    noise = coins((3, 4), 0.5)
    assert torch.equal(seeded(F.dropout, cut, 0.5), cut * noise * 2)
    assert torch.equal(
        seeded(F.dropout, cut.clone()[:, :2], 0.5), cut[:, :2] * coins((3, 2), 0.5) * 2
    )
    wide = torch.randn(3, 1).expand(3, 4)
    assert seeded(F.dropout, wide, 0.5).shape == (3, 4)


def test_nothing_to_draw():
    x = torch.randn(4, requires_grad=True)
    assert F.dropout(x, 0.5, False) is x and F.dropout(x, 0.0) is x
    assert F.dropout(x, 1.0).tolist() == [0.0] * 4
    assert F.dropout(torch.empty(0), 0.5).shape == (0,)
    assert F.dropout(torch.empty(3, device="meta"), 0.5).shape == (3,)
    hidden = F.dropout(torch.full((64,), math.inf), 0.5)
    assert hidden.isnan().any() and hidden.isinf().any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_alpha_dropout(dtype):
    floor, p = 1.7580993408473766, 0.4
    a = ((floor * floor * p + 1) * (1 - p)) ** -0.5
    x = torch.randn(5, 40).to(getattr(torch, dtype)).requires_grad_()
    noise = coins((5, 40), 1 - p, dtype)
    offset = noise.add(-1).mul_(floor * a).add_(floor * a * p)
    wanted = (x.detach() * noise.mul(a)).add_(offset)
    y = seeded(F.alpha_dropout, x, p, True)
    assert np.array_equal(plain(y), plain(wanted))
    (slope,) = grad(y.sum(), x)
    np.testing.assert_allclose(plain(slope), plain(noise) * a, 4e-3 if "16" in dtype else 1e-6)
    z = x.detach().clone()
    assert torch.equal(seeded(F.alpha_dropout, z, p, True, True), y.detach()) and z._version == 1
    assert F.alpha_dropout(x, p) is x


def test_whole_channels():
    x = torch.randn(3, 4, 5, 6, requires_grad=True)
    noise = coins((3, 4, 1, 1), 0.5)
    assert torch.equal(seeded(F.dropout2d, x), x * (noise * 2))
    (slope,) = grad(seeded(F.dropout2d, x).sum(), x)
    assert torch.equal(slope, (noise * 2).expand(3, 4, 5, 6))
    line = torch.randn(4, 9)
    assert torch.equal(seeded(F.dropout1d, line), line * coins((4, 1), 0.5) * 2)
    z = line.clone()
    assert seeded(F.dropout1d, z, inplace=True) is z and z.shape == (4, 9)
    assert torch.equal(z, line * coins((4, 1), 0.5) * 2)
    assert seeded(F.feature_alpha_dropout, x, 0.5, True).shape == x.shape


def test_in_place_where_history_matters():
    x = torch.ones(50, requires_grad=True)
    y = x * 3
    z = seeded(F.dropout, y, 0.5, inplace=True)
    assert z is y and y.grad_fn.name() == "MulBackward0"
    y.sum().backward()
    assert torch.equal(x.grad, coins((50,), 0.5) * 6)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        F.dropout(x, 0.5, inplace=True)


def test_native_dropout():
    x = torch.randn(6, 7, requires_grad=True)
    y, mask = seeded(torch.native_dropout, x, 0.3, True)
    assert mask.dtype is torch.bool and torch.equal(mask.float(), coins((6, 7), 1 - 0.3))
    assert y.grad_fn.name() == "NativeDropoutBackward0" and torch.equal(y, x * mask * (1 / 0.7))
    (slope,) = grad(y.sum(), x)
    assert torch.equal(slope, mask * (1 / 0.7))
    y, mask = torch.native_dropout(x, 0.3, False)
    assert torch.equal(y, x) and bool(mask.all())


def test_second_derivatives():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    for function in (
        lambda t: seeded(F.dropout, t * t, 0.4),
        lambda t: seeded(F.alpha_dropout, t * t, 0.4, True),
        lambda t: seeded(F.rrelu, t * t - 1, training=True),
        lambda t: seeded(F.gumbel_softmax, t),
    ):
        assert gradgradcheck(function, (x,))


def test_rrelu():
    x = torch.randn(40, requires_grad=True)
    y = seeded(F.rrelu, x, 0.1, 0.3, True)
    slope = plain(y) / plain(x)
    positive = plain(x) > 0
    assert (slope[positive] == 1).all()
    assert ((slope[~positive] >= 0.0999) & (slope[~positive] < 0.3001)).all()
    (found,) = grad(y.sum(), x)
    np.testing.assert_allclose(plain(found), slope, 1e-5)
    z = (x * 1).relu() - x  # something with a history
    w = z * 1
    seeded(F.rrelu, w, 0.1, 0.3, True, True).sum().backward()
    assert x.grad is not None
    assert torch.equal(F.rrelu(x), F.leaky_relu(x, (1 / 8 + 1 / 3) / 2))


def test_gumbel_softmax():
    x = torch.randn(6, 5, requires_grad=True)
    soft = seeded(F.gumbel_softmax, x, 0.7)
    torch.manual_seed(5)
    noise = -torch.empty(6, 5).exponential_().log()
    np.testing.assert_allclose(plain(soft), plain(((x + noise) / 0.7).softmax(-1)), 1e-5)
    hard = seeded(F.gumbel_softmax, x, 0.7, True)
    assert torch.equal(hard.argmax(-1), soft.argmax(-1))
    np.testing.assert_allclose(plain(hard), np.eye(5)[plain(soft).argmax(-1)], atol=1e-6)
    slopes = [grad((t * t.detach()).sum(), x, retain_graph=True)[0] for t in (soft, hard)]
    assert slopes[1].abs().sum() > 0


def test_complaints():
    x = torch.ones(3)
    for function in (F.dropout, F.alpha_dropout, F.dropout1d, F.feature_alpha_dropout):
        with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but"):
            function(x, 1.5)
    with pytest.raises(RuntimeError, match="Expected 2D or 3D input, but received a 1D input"):
        F.dropout1d(x)
    with pytest.warns(UserWarning, match="Received a 2-D input to dropout2d"):
        F.dropout2d(torch.ones(3, 3))


# -- against PyTorch -------------------------------------------------------------------------------

F_ = "torch.nn.functional."
X = "X('{d}', 3, 7)"
CALLS = [
    "dropout(x)", "dropout(x, 0.3)", "dropout(x, 1.0)", "dropout(x, 0.3, False)", "dropout(x, -1)",
    "dropout(x.t(), 0.3)", "dropout(x[:, ::2], 0.3)", "dropout(x * 1, 0.3, inplace=True)",
    "alpha_dropout(x, 0.3, True)", "alpha_dropout(x, 0.3)", "alpha_dropout(x * 1, 0.3, True, True)",
    "alpha_dropout(x, 1.0, True)", "feature_alpha_dropout(x, 0.3, True)", "dropout1d(x)",
    "dropout2d(x)", "dropout3d(x)", "dropout2d(x[None])", "dropout2d(x[None, None])",
    "dropout3d(x[None])", "dropout3d(x[None, None])", "dropout3d(x[None, None, None])",
    "dropout1d(x[None])", "rrelu(x)",
    "gumbel_softmax(x)", "gumbel_softmax(x, 0.5, True, dim=0)", "gumbel_softmax(x, eps=1e-3)",
]  # fmt: skip


def programs():
    for dtype in DTYPES:
        for call in CALLS if dtype == "float32" else CALLS[::3]:
            yield (
                f"x = {X.format(d=dtype)}.requires_grad_()\ntorch.manual_seed(3)\n"
                f"y = {F_}{call}\ny.backward(X('{dtype}', *y.shape, seed=1))\nr = [y, x.grad]"
            )
        start = f"x = {X.format(d=dtype)}.requires_grad_()\ntorch.manual_seed(3)\n"
        yield start + "r = torch.native_dropout(x, 0.3, True)"
        yield start + "r = torch.feature_dropout(x, 0.3, True)"
        if dtype != "float16":
            yield start + f"y = {F_}rrelu(x, training=True)\ny.sum().backward()\nr = [y, x.grad]"
            yield start + "r = torch.rrelu_(x.detach() * 1, 0.1, 0.2, True)"
    yield f"torch.manual_seed(1)\nr = {F_}dropout(torch.arange(5), 0.3)"
    yield "torch.manual_seed(1)\nr = torch.dropout(X('float32', 3), 1.5, True)"
    yield f"torch.manual_seed(1)\nr = {F_}rrelu(X('float32', 3), 0.5, 0.2)"
    yield f"torch.manual_seed(1)\nr = {F_}rrelu(X('float16', 3), training=True)"


@pytest.mark.oracle
def test_as_pytorch():
    theirs = pytest.importorskip("torch")
    assert not compare(torch, theirs, programs())
