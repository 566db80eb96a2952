"""softmax, log_softmax and softmin: NumPy in double everywhere, PyTorch where it is installed."""

import warnings

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as functional
from flambeau.autograd import gradcheck, gradgradcheck
from tests.ops import both

# rows, columns, both with rests of vectors and blocks, sizes of one, a long row
CASES = [
    ((), 0), ((1,), 0), ((7,), 0), ((3, 10), 1), ((3, 10), 0), ((5, 7, 33), 1), ((4, 100, 3), 1),
    ((2, 9000), 1), ((2, 3, 4, 5), -2), ((70, 130), 0), ((300, 70), 0), ((2, 1, 3), 1),
]  # fmt: skip
NAMES = ("softmax", "log_softmax")
DTYPES = ("float16", "bfloat16", "float32", "float64")


def reference(name, a, dim):
    a = a.astype(np.float64)
    away = a - a.max(dim, keepdims=True) if a.ndim else a - a
    total = np.exp(away).sum(dim, keepdims=True) if a.ndim else np.exp(away)
    return away - np.log(total) if name == "log_softmax" else np.exp(away) / total


def slope(name, y, g, dim):
    """The gradient of the input, from the result and its gradient."""
    y, g = y.astype(np.float64), g.astype(np.float64)
    axes = dim if y.ndim else None
    if name == "softmax":
        return y * (g - (g * y).sum(axes, keepdims=True))
    return g - np.exp(y) * g.sum(axes, keepdims=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name, dtype):
    limit = both.TOLERANCE[dtype]
    for seed, (shape, dim) in enumerate(CASES):
        x = both.tensor(flambeau, both.draw(shape, seed, 3.0), dtype)
        y = getattr(flambeau, name)(x, dim)
        wanted = reference(name, both.numbers(x), dim)
        np.testing.assert_allclose(both.numbers(y), wanted, rtol=limit, atol=limit)
        g = both.tensor(flambeau, both.draw(shape, seed + 50), dtype, grad=False)
        y.backward(g)
        steep = slope(name, both.numbers(y), both.numbers(g), dim)
        np.testing.assert_allclose(both.numbers(x.grad), steep, rtol=limit, atol=limit)
        assert x.grad.dtype is x.dtype


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives(name):
    x = flambeau.randn(2, 3, 4, dtype=flambeau.float64, requires_grad=True)
    for dim in (0, 1, -1):
        assert gradcheck(lambda x, d=dim: getattr(flambeau, name)(x, d), (x,))
        assert gradgradcheck(lambda x, d=dim: getattr(flambeau, name)(x, d), (x,))


def test_any_strides():
    a = both.draw((6, 10, 8))
    x = flambeau.from_numpy(a)
    for view in (x.transpose(0, 2), x[::2, 1:, ::3], x[:, :1].expand(6, 4, 8), x.flip(1)):
        for dim in range(3):
            for name in NAMES:
                ours = getattr(flambeau, name)(view, dim)
                assert ours.is_contiguous()
                np.testing.assert_allclose(ours.numpy(), reference(name, view.numpy(), dim))


def test_gradients_of_any_strides():
    x = flambeau.randn(4, 6, dtype=flambeau.float64, requires_grad=True)
    g = flambeau.randn(6, 4, dtype=flambeau.float64).t()
    y = flambeau.softmax(x, 1)
    y.backward(g)
    np.testing.assert_allclose(x.grad.numpy(), slope("softmax", y.detach().numpy(), g.numpy(), 1))
    x.grad = None
    flambeau.log_softmax(x, 0).sum().backward()
    steep = slope(
        "log_softmax", reference("log_softmax", x.detach().numpy(), 0), np.ones((4, 6)), 0
    )
    np.testing.assert_allclose(x.grad.numpy(), steep, atol=1e-12)


def test_rows_with_infinities_and_nan():
    inf, nan = np.inf, np.nan
    rows = [[1, -inf, 2], [-inf, -inf, -inf], [inf, 0, 1], [nan, 0, 1], [1e4, -1e4, 0]]
    x = flambeau.tensor(rows)
    soft, logs = flambeau.softmax(x, 1).numpy(), flambeau.log_softmax(x, 1).numpy()
    assert soft[0, 1] == 0 and logs[0, 1] == -inf and np.isfinite(soft[0]).all()
    assert np.isnan(soft[1:4]).all() and np.isnan(logs[1:4]).all()
    np.testing.assert_allclose(soft[4], [1, 0, 0])
    np.testing.assert_allclose(logs[4], [0, -2e4, -1e4])


def test_dtype_is_cast_to_first():
    x = flambeau.arange(6).reshape(2, 3)
    assert flambeau.softmax(x, 1, dtype=flambeau.float64).dtype is flambeau.float64
    h = flambeau.full((2, 2), 300.0, dtype=flambeau.float16).requires_grad_()
    y = flambeau.softmax(h, 1, dtype=flambeau.float32)
    y.sum().backward()
    assert y.dtype is flambeau.float32 and h.grad.dtype is flambeau.float16
    assert functional.log_softmax(h, 1, 3, flambeau.float64).dtype is flambeau.float64


def test_nothing_and_meta():
    assert flambeau.softmax(flambeau.zeros(0, 3), 1).shape == (0, 3)
    assert flambeau.log_softmax(flambeau.zeros(3, 0), 1).shape == (3, 0)
    x = flambeau.empty(5, 7, device="meta", requires_grad=True)
    y = flambeau.softmax(x, 1)
    y.sum().backward()
    assert y.shape == (5, 7) and y.device.type == "meta" and x.grad.shape == (5, 7)


def test_implicit_dimension_warns():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = functional.softmax(flambeau.ones(2, 3))
    assert "Implicit dimension choice for softmax" in str(seen[0].message)
    np.testing.assert_allclose(y.numpy(), np.full((2, 3), 1 / 3), rtol=1e-6)
    np.testing.assert_allclose(
        functional.softmin(flambeau.tensor([0.0, 1.0]), 0).numpy(), [0.7310586, 0.2689414]
    )


def test_threads_do_not_change_bits():
    x = flambeau.randn(700, 500, requires_grad=True)

    def run():
        found = []
        for name in NAMES:
            for dim in (0, 1):
                x.grad = None
                y = getattr(flambeau, name)(x, dim)
                y.backward(x.detach())
                found += [y, x.grad]
        return found

    one, two = both.bits_with_threads(run)
    assert one == two


def test_logsumexp_over_one_dimension():
    for seed, (shape, dim) in enumerate(CASES[1:]):
        for keepdim in (False, True):
            x = both.tensor(flambeau, both.draw(shape, seed, 3.0), "float64")
            y = flambeau.logsumexp(x, dim, keepdim)
            a = x.detach().numpy()
            wanted = np.log(np.exp(a).sum(dim, keepdims=keepdim))
            np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=1e-12, atol=1e-12)
            g = both.draw(wanted.shape, seed + 50)
            y.backward(flambeau.from_numpy(np.array(g)))
            up = g if keepdim else np.expand_dims(g, dim)
            np.testing.assert_allclose(
                x.grad.numpy(), up * reference("softmax", a, dim), rtol=1e-10, atol=1e-12
            )
    inf, nan = np.inf, np.nan
    x = flambeau.tensor([[1, -inf], [-inf, -inf], [inf, 0], [nan, 0], [inf, -inf]])
    np.testing.assert_allclose(flambeau.logsumexp(x, 1).numpy(), [1, -inf, inf, nan, inf])
    z = flambeau.randn(3, 4, dtype=flambeau.float64, requires_grad=True)
    assert gradgradcheck(lambda z: flambeau.logsumexp(z, 0), (z,))


COMPLAINTS = [
    "T.softmax(x.long(), 0)", "T.softmax(x.long(), 1)", "T.log_softmax(x.bool(), 1)",
    "T.log_softmax(x.long(), 0)", "T.softmax(x, 2)", "T.softmax(x.to(T.complex64), 1)",
    "T.softmax(x, 1, out=T.empty(2, 3, dtype=T.float64))", "T.softmax(x, 1, out=T.empty(2, 3))",
    "F.softmin(x, 5)", "F.log_softmax(x)", "x.softmax(1, T.float64)", "T.special.softmax(x, 1)",
]  # fmt: skip


@pytest.mark.oracle
def test_complaints_like_pytorch():
    torch = pytest.importorskip("torch")
    for text in COMPLAINTS:
        found = []
        for lib in (flambeau, torch):
            scope = {"T": lib, "F": lib.nn.functional, "x": lib.ones(2, 3)}
            found.append(both.outcome(lambda text=text, scope=scope: eval(text, scope)))
        assert found[0] == found[1], text


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", DTYPES)
def test_like_pytorch(dtype):
    torch = pytest.importorskip("torch")
    for seed, (shape, dim) in enumerate(CASES):
        for name in NAMES:
            a = both.draw(shape, seed, 2.0)
            both.check(torch, lambda lib, x, n=name, d=dim: getattr(lib, n)(x, d), [a], dtype)
