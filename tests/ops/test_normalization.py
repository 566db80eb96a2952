"""Normalisation: formulas in double everywhere, PyTorch where it is installed."""

import numpy as np
import pytest

import flambeau
import flambeau.nn.functional as functional
from flambeau.autograd import gradcheck, gradgradcheck
from tests.ops import both

DTYPES = ("float16", "bfloat16", "float32", "float64")
LAYERS = [
    ((8, 128), 1),
    ((3, 5, 7), 2),
    ((3, 5, 7), 1),
    ((2, 9000), 1),
    ((150, 500), 1),
    ((70,), 1),
]
GROUPS = [((2, 6, 5), 3), ((2, 6, 4, 4), 2), ((3, 8, 17, 9), 4), ((4, 8), 2), ((1, 3, 5000), 1)]
# rows, planes and columns; many channels, few with pieces of segments or parts of them
BATCHES = [(4, 6), (200, 70), (2, 6, 5), (3, 8, 17, 9), (2, 3, 4, 5, 6), (4, 3, 150, 150),
           (60000, 3), (2000, 2, 40)]  # fmt: skip
EPS = 1e-5


def normal(a, axes):
    """(normalised, 1/deviation) in double."""
    a = a.astype(np.float64)
    away = a - a.mean(axes, keepdims=True)
    rstd = 1 / np.sqrt((away * away).mean(axes, keepdims=True) + EPS)
    return away * rstd, rstd


def slopes(a, g, w, axes, others):
    """Gradients of input, weight and bias; w is broadcast, others: what weights are summed over."""
    hat, rstd = normal(a, axes)
    g = g.astype(np.float64)
    h = g * w
    mean, tilt = h.mean(axes, keepdims=True), (h * hat).mean(axes, keepdims=True)
    return rstd * (h - mean - hat * tilt), (g * hat).sum(others), g.sum(others)


def draw(shape, dtype, seed):
    return both.tensor(flambeau, both.draw(shape, seed) * 2 + 1, dtype)


def close(t, wanted, dtype, more=1):
    limit = both.TOLERANCE[dtype] * more
    found = both.numbers(t)
    scale = max(1.0, float(np.abs(wanted).max())) if wanted.size else 1.0
    np.testing.assert_allclose(found, wanted.reshape(found.shape), rtol=limit, atol=limit * scale)


def spread(p, shape, axis=1):
    """A parameter per channel, ready to multiply with."""
    sizes = [1] * len(shape)
    sizes[axis] = -1
    return both.numbers(p).astype(np.float64).reshape(sizes)


# -- layers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm(dtype):
    for seed, (shape, k) in enumerate(LAYERS):
        x = draw(shape, dtype, seed)
        w, b = draw(shape[-k:], dtype, seed + 20), draw(shape[-k:], dtype, seed + 30)
        y = functional.layer_norm(x, shape[-k:], w, b)
        axes, others = tuple(range(len(shape) - k, len(shape))), tuple(range(len(shape) - k))
        a, weight = both.numbers(x), both.numbers(w).astype(np.float64)
        close(y, normal(a, axes)[0] * weight + both.numbers(b), dtype)
        g = both.tensor(flambeau, both.draw(shape, seed + 40), dtype, grad=False)
        y.backward(g)
        wanted = slopes(a, both.numbers(g), weight, axes, others)
        for t, expected in zip((x, w, b), wanted):
            assert t.grad.dtype is t.dtype and t.grad.shape == t.shape
            close(t.grad, expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm(dtype):
    for seed, (shape, k) in enumerate(LAYERS):
        x, w = draw(shape, dtype, seed), draw(shape[-k:], dtype, seed + 20)
        y = functional.rms_norm(x, shape[-k:], w, EPS)
        axes, others = tuple(range(len(shape) - k, len(shape))), tuple(range(len(shape) - k))
        a, weight = both.numbers(x).astype(np.float64), both.numbers(w).astype(np.float64)
        rstd = 1 / np.sqrt((a * a).mean(axes, keepdims=True) + EPS)
        close(y, a * rstd * weight, dtype)
        g = both.tensor(flambeau, both.draw(shape, seed + 40), dtype, grad=False)
        y.backward(g)
        up = both.numbers(g).astype(np.float64)
        h, hat = up * weight, a * rstd
        close(x.grad, rstd * (h - hat * (h * hat).mean(axes, keepdims=True)), dtype)
        close(w.grad, (up * hat).sum(others), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_group_norm(dtype):
    for seed, (shape, groups) in enumerate(GROUPS):
        x, c = draw(shape, dtype, seed), shape[1]
        w, b = draw((c,), dtype, seed + 20), draw((c,), dtype, seed + 30)
        y = functional.group_norm(x, groups, w, b)
        split = (shape[0], groups, c // groups, -1)
        a = both.numbers(x).reshape(split)
        weight = both.numbers(w).astype(np.float64).reshape(1, groups, -1, 1)
        bias = both.numbers(b).reshape(1, groups, -1, 1)
        close(y, normal(a, (2, 3))[0] * weight + bias, dtype)
        g = both.tensor(flambeau, both.draw(shape, seed + 40), dtype, grad=False)
        y.backward(g)
        wanted = slopes(a, both.numbers(g).reshape(split), weight, (2, 3), (0, 3))
        for t, expected in zip((x, w, b), wanted):
            close(t.grad, expected, dtype, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_batch_norm_in_training(dtype):
    for seed, shape in enumerate(BATCHES if dtype == "float32" else BATCHES[:5]):
        x, c = draw(shape, dtype, seed), shape[1]
        w, b = draw((c,), dtype, seed + 20), draw((c,), dtype, seed + 30)
        mean = both.tensor(flambeau, both.draw((c,), 5), dtype, grad=False)
        var = both.tensor(flambeau, both.draw((c,), 6) ** 2 + 1, dtype, grad=False)
        before = both.numbers(mean).astype(np.float64), both.numbers(var).astype(np.float64)
        y = functional.batch_norm(x, mean, var, w, b, True, 0.3, EPS)
        axes = (0, *range(2, len(shape)))
        a, weight = both.numbers(x).astype(np.float64), spread(w, shape)
        close(y, normal(a, axes)[0] * weight + spread(b, shape), dtype)
        close(mean, before[0] * 0.7 + a.mean(axes) * 0.3, dtype)
        close(var, before[1] * 0.7 + a.var(axes, ddof=1) * 0.3, dtype)
        assert mean._version == 0 and var._version == 0  # as in PyTorch
        g = both.tensor(flambeau, both.draw(shape, seed + 40), dtype, grad=False)
        y.backward(g)
        wanted = slopes(a, both.numbers(g), weight, axes, axes)
        for t, expected in zip((x, w, b), wanted):
            close(t.grad, expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_batch_norm_by_running_statistics(dtype):
    for seed, shape in enumerate(BATCHES if dtype == "float32" else BATCHES[:5]):
        x, c = draw(shape, dtype, seed), shape[1]
        w = draw((c,), dtype, seed + 20)
        mean = both.tensor(flambeau, both.draw((c,), 5), dtype, grad=False)
        var = both.tensor(flambeau, both.draw((c,), 6) ** 2 + 1, dtype, grad=False)
        y = functional.batch_norm(x, mean, var, w)
        a, weight = both.numbers(x).astype(np.float64), spread(w, shape)
        rstd = 1 / np.sqrt(spread(var, shape) + EPS)
        hat = (a - spread(mean, shape)) * rstd
        close(y, hat * weight, dtype)
        assert mean._version == 0
        g = both.tensor(flambeau, both.draw(shape, seed + 40), dtype, grad=False)
        y.backward(g)
        axes = (0, *range(2, len(shape)))
        close(x.grad, both.numbers(g) * weight * rstd, dtype)
        close(w.grad, (both.numbers(g).astype(np.float64) * hat).sum(axes), dtype)


def test_channels_last_is_kept():
    for shape in ((3, 8, 9, 7), (2, 3, 120, 150), (2, 20, 3, 4, 5)):
        form = flambeau.channels_last if len(shape) == 4 else flambeau.channels_last_3d
        plain = flambeau.randn(shape, requires_grad=True)
        last = plain.detach().contiguous(memory_format=form).requires_grad_()
        g = flambeau.randn(shape)
        for training in (True, False):
            c = shape[1]
            runs = []
            for x in (plain, last):
                x.grad = None
                w = flambeau.arange(1.0, c + 1, requires_grad=True)
                mean, var = flambeau.zeros(c), flambeau.ones(c)
                y = functional.batch_norm(x, mean, var, w, None, training)
                y.backward(g)
                runs.append((y, x.grad, w.grad, mean, var))
            assert runs[1][0].is_contiguous(memory_format=form)
            assert runs[1][1].is_contiguous(memory_format=form)
            for a, b in zip(*runs):
                np.testing.assert_allclose(
                    a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-4
                )
        y = functional.group_norm(last, 1)
        assert y.is_contiguous(memory_format=form)
        np.testing.assert_allclose(
            y.detach().numpy(), functional.group_norm(plain, 1).detach().numpy(), atol=1e-5
        )


def test_instance_norm():
    x, c = both.tensor(flambeau, both.draw((3, 4, 5, 6)) * 2 + 1, "float64"), 4
    w, b = draw((c,), "float64", 1), draw((c,), "float64", 2)
    mean, var = flambeau.zeros(c).double(), flambeau.ones(c).double()
    y = functional.instance_norm(x, mean, var, w, b, momentum=0.5)
    a, weight = x.detach().numpy(), spread(w, x.shape)
    close(y, normal(a, (2, 3))[0] * weight + spread(b, x.shape), "float64")
    close(mean, a.mean((2, 3)).mean(0) * 0.5, "float64")
    close(var, 0.5 + a.var((2, 3), ddof=1).mean(0) * 0.5, "float64")
    g = flambeau.randn(3, 4, 5, 6, dtype=flambeau.float64)
    y.backward(g)
    for t, wanted in zip((x, w, b), slopes(a, g.numpy(), weight, (2, 3), (0, 2, 3))):
        close(t.grad, wanted, "float64")


def test_far_from_zero():
    """Variances are distances from the mean, not differences of large squares."""
    a = both.draw((4, 600)).astype("float32") + 3000
    for found, axes in (
        (functional.layer_norm(flambeau.from_numpy(a), (600,)), 1),
        (functional.batch_norm(flambeau.from_numpy(a), None, None, training=True), 0),
        (functional.instance_norm(flambeau.from_numpy(a)[None]), 1),
    ):
        np.testing.assert_allclose(
            found.numpy().reshape(a.shape), normal(a, axes)[0], rtol=2e-3, atol=2e-3
        )


# -- derivatives, layouts, corners -----------------------------------------------------------------


def _leaf(*shape):
    return flambeau.randn(shape, dtype=flambeau.float64, requires_grad=True)


DERIVATIVES = {
    "layer_norm": (lambda x, w, b: functional.layer_norm(x, (3, 4), w, b), (2, 3, 4), (3, 4)),
    "plain layer_norm": (lambda x: functional.layer_norm(x, (4,)), (2, 3, 4), None),
    "group_norm": (lambda x, w, b: functional.group_norm(x, 2, w, b), (2, 4, 3), (4,)),
    "batch_norm": (
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, True), (2, 4, 3), (4,)
    ),
    "batch_norm of rows": (
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, True), (5, 4), (4,)
    ),
    "instance_norm": (
        lambda x, w, b: functional.instance_norm(x, weight=w, bias=b), (2, 4, 3), (4,)
    ),
    "local_response_norm": (lambda x: functional.local_response_norm(x, 3), (2, 4, 3), None),
    "normalize": (lambda x: functional.normalize(x), (3, 4), None),
}  # fmt: skip


@pytest.mark.parametrize("name", DERIVATIVES)
def test_second_derivatives(name):
    function, shape, weights = DERIVATIVES[name]
    leaves = (
        (_leaf(*shape),) if weights is None else (_leaf(*shape), _leaf(*weights), _leaf(*weights))
    )
    assert gradcheck(function, leaves) and gradgradcheck(function, leaves)


def test_second_derivatives_of_pairs():
    x, w = _leaf(3, 4), _leaf(4)
    assert gradgradcheck(lambda x, w: functional.rms_norm(x, (4,), w), (x, w))
    mean, var = flambeau.randn(4).double(), flambeau.rand(4).double() + 1

    def evaluated(x, w, b):
        return functional.batch_norm(x, mean, var, w, b)

    assert gradcheck(evaluated, (x, w, _leaf(4))) and gradgradcheck(evaluated, (x, w, _leaf(4)))
    for f in (functional.cosine_similarity, functional.pairwise_distance):
        assert gradcheck(f, (x, _leaf(3, 4))) and gradgradcheck(f, (x, _leaf(3, 4)))


def test_only_what_is_asked_for():
    x, w, b = flambeau.randn(4, 6, 5), flambeau.rand(6), flambeau.rand(6)
    for k in range(3):
        leaves = [t.clone().requires_grad_(j == k) for j, t in enumerate((x, w, b))]
        full = [t.clone().requires_grad_() for t in (x, w, b)]
        for f in (
            lambda x, w, b: functional.batch_norm(x, None, None, w, b, True),
            lambda x, w, b: functional.group_norm(x, 3, w, b),
            lambda x, w, b: functional.layer_norm(x.transpose(1, 2), (6,), w, b),
        ):
            for t in (*leaves, *full):
                t.grad = None
            weights = flambeau.arange(120.0).reshape(f(*full).shape)
            (f(*leaves) * weights).sum().backward()
            (f(*full) * weights).sum().backward()
            np.testing.assert_allclose(
                leaves[k].grad.numpy(), full[k].grad.numpy(), rtol=1e-4, atol=1e-2
            )


def test_any_strides():
    x = flambeau.randn(8, 6, 10).transpose(0, 2)[::2]
    dense, w = x.contiguous(), flambeau.rand(16)[::2]
    for f in (
        lambda x: functional.layer_norm(x, (8,), w, w),
        lambda x: functional.rms_norm(x, (8,), w),
        lambda x: functional.group_norm(x, 2, w[:6], w[:6]),
        lambda x: functional.batch_norm(x, None, None, w[:6], w[:6], True),
        lambda x: functional.instance_norm(x),
    ):
        assert np.array_equal(f(x).numpy(), f(dense).numpy())
        assert f(x).is_contiguous()


def test_parameters_wider_than_half():
    for dtype in (flambeau.float16, flambeau.bfloat16):
        x = flambeau.randn(4, 6, 5).to(dtype).requires_grad_()
        w = flambeau.rand(6, requires_grad=True)
        for f in (
            lambda x, w: functional.batch_norm(x, flambeau.zeros(6), flambeau.ones(6), w, w, True),
            lambda x, w: functional.group_norm(x, 3, w, w),
            lambda x, w: functional.layer_norm(x.transpose(1, 2), (6,), w, w),
        ):
            x.grad = w.grad = None
            y = f(x, w)
            y.sum().backward()
            assert y.dtype is dtype and x.grad.dtype is dtype and w.grad.dtype is flambeau.float32
            wide = f(x.detach().float(), w).detach()
            np.testing.assert_allclose(y.detach().float().numpy(), wide.numpy(), atol=5e-2)


def test_nothing_and_meta():
    empty = flambeau.zeros(0, 3, 4, requires_grad=True)
    w = flambeau.ones(3, requires_grad=True)
    y = functional.batch_norm(empty, None, None, w, None, True)
    y.sum().backward()
    assert y.shape == (0, 3, 4) and (w.grad == 0).all()
    assert functional.layer_norm(flambeau.zeros(0, 3), (3,)).shape == (0, 3)
    assert functional.layer_norm(flambeau.zeros(3, 0), (0,)).shape == (3, 0)
    assert functional.group_norm(flambeau.zeros(0, 4, 2), 2).shape == (0, 4, 2)
    x = flambeau.empty(2, 3, 4, device="meta", requires_grad=True)
    m = flambeau.ones(3, device="meta")
    for y in (
        functional.batch_norm(x, None, None, m, m, True),
        functional.group_norm(x, 3, m, m),
        functional.layer_norm(x, (4,)),
        functional.rms_norm(x, (4,)),
    ):
        y.sum().backward()
        assert y.shape == (2, 3, 4) and y.device.type == "meta"


def test_saved_statistics():
    x = flambeau.randn(4, 6, 5)
    _, mean, rstd = flambeau.native_layer_norm(x, (5,), None, None, EPS)
    a = x.numpy().astype(np.float64)
    np.testing.assert_allclose(mean.numpy()[..., 0], a.mean(-1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(rstd.numpy(), normal(a, 2)[1], rtol=1e-5)
    _, mean, rstd = flambeau.native_group_norm(x, None, None, 4, 6, 5, 2, EPS)
    assert mean.shape == (4, 2)
    np.testing.assert_allclose(mean.numpy(), a.reshape(4, 2, -1).mean(-1), rtol=1e-4, atol=1e-6)
    _, mean, rstd = flambeau.native_batch_norm(x, None, None, None, None, True, 0.1, EPS)
    np.testing.assert_allclose(rstd.numpy(), normal(a, (0, 2))[1].reshape(-1), rtol=1e-5)
    zeros, ones = flambeau.zeros(6), flambeau.ones(6)
    _, mean, _ = flambeau.native_batch_norm(x, None, None, zeros, ones, False, 0.1, EPS)
    assert mean.shape == (0,)


def test_threads_do_not_change_bits():
    x = flambeau.randn(16, 32, 40, 40, requires_grad=True)
    few = flambeau.randn(4, 3, 250, 250, requires_grad=True)
    rows = flambeau.randn(700, 512, requires_grad=True)
    w, three, many = (flambeau.rand(n, requires_grad=True) for n in (32, 3, 512))
    last = x.detach().contiguous(memory_format=flambeau.channels_last).requires_grad_()
    calls = [
        (lambda: functional.batch_norm(x, None, None, w, w, True), (x, w)),
        (lambda: functional.batch_norm(last, None, None, w, w, True), (last, w)),
        (lambda: functional.batch_norm(few, None, None, three, three, True), (few, three)),
        (lambda: functional.batch_norm(rows, None, None, many, many, True), (rows, many)),
        (lambda: functional.group_norm(x, 4, w, w), (x, w)),
        (lambda: functional.layer_norm(rows, (512,), many, many), (rows, many)),
    ]

    def run():
        found = []
        for call, leaves in calls:
            for t in leaves:
                t.grad = None
            y = call()
            (y * y.detach()).sum().backward()
            found += [y, *(t.grad for t in leaves)]
        return found

    one, two = both.bits_with_threads(run)
    assert one == two


# -- simpler ones ----------------------------------------------------------------------------------


def test_local_response_norm():
    a = both.draw((2, 7, 3))
    for size in (1, 2, 3, 5):
        mean = np.zeros_like(a)
        for c in range(7):
            low, high = max(0, c - size // 2), min(7, c + (size - 1) // 2 + 1)
            mean[:, c] = (a[:, low:high] ** 2).sum(1) / size
        ours = functional.local_response_norm(flambeau.from_numpy(a), size, 0.5, 0.75, 2.0)
        np.testing.assert_allclose(ours.numpy(), a / (2 + 0.5 * mean) ** 0.75)


def test_distances():
    a, b = both.draw((4, 5)), both.draw((4, 5), 1)
    x, y = flambeau.from_numpy(a), flambeau.from_numpy(b)
    cosine = (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))
    np.testing.assert_allclose(functional.cosine_similarity(x, y).numpy(), cosine)
    assert functional.cosine_similarity(x[:1], y, dim=0).shape == (5,)
    assert (functional.cosine_similarity(x * 0, y).numpy() == 0).all()
    away = np.abs(a - b + 1e-6)
    np.testing.assert_allclose(
        functional.pairwise_distance(x, y).numpy(), np.sqrt((away**2).sum(1))
    )
    np.testing.assert_allclose(
        functional.pairwise_distance(x, y, 1.0, keepdim=True).numpy(), away.sum(1, keepdims=True)
    )
    length = np.sqrt((a * a).sum(0, keepdims=True))
    np.testing.assert_allclose(functional.normalize(x, dim=0).numpy(), a / length)
    assert (functional.normalize(x * 0).numpy() == 0).all()


# -- PyTorch ---------------------------------------------------------------------------------------

COMPLAINTS = [
    "F.layer_norm(x, (3,))", "F.layer_norm(x, ())", "F.layer_norm(x, 5)",
    "F.layer_norm(x, (5,), T.ones(4))", "F.layer_norm(x, (5,), T.ones(5), T.ones(4))",
    "F.layer_norm(x.double(), (5,), T.ones(5))", "F.layer_norm(x, (5,), T.ones(5).double())",
    "F.layer_norm(x, (5,), T.ones(5), T.ones(5).double())", "F.layer_norm(x.long(), (5,))",
    "F.rms_norm(x, (4,))", "F.rms_norm(x, (5,), T.ones(4))", "F.rms_norm(x.long(), (5,))",
    "F.group_norm(x, 2)", "T.group_norm(x, 0)", "F.group_norm(x[0, 0, 0], 1)",
    "F.group_norm(x, 3, T.ones(2))", "F.group_norm(x, 3, T.ones(3).double())",
    "F.group_norm(x.long(), 3)", "F.group_norm(x[:1, :, :1, :1], 3)",
    "F.batch_norm(x, None, None)", "F.batch_norm(x[:1, :, :1, :1], None, None, training=True)",
    "F.batch_norm(x, T.zeros(2), T.ones(3))", "F.batch_norm(x, T.zeros(3), T.ones(2))",
    "F.batch_norm(x, T.zeros(3), T.ones(3), T.ones(2))", "F.batch_norm(x, T.zeros(3), None)",
    "F.batch_norm(x, T.zeros(3), None, training=True)",
    "F.batch_norm(x.double(), T.zeros(3), T.ones(3))",
    "F.batch_norm(x.long(), T.zeros(3), T.ones(3))",
    "F.batch_norm(x, T.zeros(3), T.ones(3), momentum=None)",
    "F.batch_norm(x, T.zeros(3, requires_grad=True), T.ones(3))",
    "F.instance_norm(x, None, None, use_input_stats=False)", "F.instance_norm(x[:, :, :1, :1])",
    "F.instance_norm(x, T.zeros(2), T.ones(2))", "F.instance_norm(x, weight=T.zeros(2))",
    "F.cosine_similarity(x.long(), x.long())", "F.local_response_norm(x[0, 0], 2)",
]  # fmt: skip


@pytest.mark.oracle
def test_complaints_like_pytorch():
    torch = pytest.importorskip("torch")
    for text in COMPLAINTS:
        found = []
        for lib in (flambeau, torch):
            scope = {"T": lib, "F": lib.nn.functional, "x": lib.ones(2, 3, 4, 5)}
            found.append(both.outcome(lambda text=text, scope=scope: eval(text, scope)))
        assert found[0] == found[1], text


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", DTYPES)
def test_like_pytorch(dtype):
    torch = pytest.importorskip("torch")
    shape = (3, 6, 5, 4)
    x, w, b = both.draw(shape), both.draw((6,), 1), both.draw((6,), 2)
    for last in (False, True):
        both.check(
            torch,
            lambda lib, x, w, b: lib.nn.functional.batch_norm(x, None, None, w, b, True),
            [x, w, b],
            dtype,
            last,
        )
    both.check(
        torch, lambda lib, x, w, b: lib.nn.functional.group_norm(x, 3, w, b), [x, w, b], dtype
    )
    v = both.draw((5, 4), 3)
    both.check(
        torch,
        lambda lib, x, w, b: lib.nn.functional.layer_norm(x, (5, 4), w, b),
        [x, v, v],
        dtype,
    )
    both.check(
        torch,
        lambda lib, x, w, b: lib.nn.functional.instance_norm(x, weight=w, bias=b),
        [x, w, b],
        dtype,
    )
    for lib in (flambeau, torch):
        assert lib.nn.functional.rms_norm(lib.ones(2, 3), (3,)).shape == (2, 3)
    ours, theirs = (
        lib.nn.functional.rms_norm(both.tensor(lib, x, dtype), (4,)) for lib in (flambeau, torch)
    )
    both.assert_same(ours.detach(), theirs.detach(), dtype)
    for name in ("cosine_similarity", "pairwise_distance"):
        ours, theirs = (
            getattr(lib.nn.functional, name)(
                both.tensor(lib, v, dtype), both.tensor(lib, v[::-1], dtype)
            )
            for lib in (flambeau, torch)
        )
        both.assert_same(ours.detach(), theirs.detach(), dtype)


def test_two_batches_may_go_forward_before_one_goes_back():
    layer = flambeau.nn.BatchNorm1d(3)
    first, second = (flambeau.randn(4, 3, requires_grad=True) for _ in range(2))
    (layer(first).square().sum() + layer(second).pow(3).sum()).backward()
    assert first.grad is not None and second.grad is not None
