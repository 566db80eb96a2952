"""Rows of every kind under vmap and jvp, against a loop over samples and small steps."""

import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau.eager.methods import public
from flambeau.func import grad, jacfwd, jacrev, jvp, vmap
from flambeau.ops.table import TABLE
from tests.func.transform_cases import CASES, arguments
from tests.ops.samples import T, calls_of, smooth

STEP = 1e-6


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def close(found, wanted, tolerance=1e-9):
    for f, w in zip(flat(found), flat(wanted), strict=True):
        assert f.shape == w.shape and f.dtype is w.dtype
        assert torch.allclose(f, w, rtol=tolerance, atol=tolerance, equal_nan=True)


def placings(count):
    yield [0] * count
    yield [-1] * count
    if count > 1:
        yield [None] + [0] * (count - 1)
        yield [0] + [None] * (count - 1)


def batched(function, samples, dims):
    """(what vmap gives, what a loop gives)."""
    first, count = samples[0], len(samples)

    def column(k):
        return torch.stack([s[k] for s in samples]).movedim(0, dims[k])

    given = [x if d is None else column(k) for k, (x, d) in enumerate(zip(first, dims))]
    one = [[x if d is None else x_k for x, x_k, d in zip(first, s, dims)] for s in samples]
    runs = [flat(function(*one[k])) for k in range(count)]
    return vmap(function, tuple(dims))(*given), [torch.stack(c) for c in zip(*runs)]


@pytest.mark.parametrize("name", CASES)
def test_vmap_is_a_loop(name):
    function, _ = CASES[name]
    samples = [arguments(name, k)[1] for k in range(3)]
    for dims in placings(len(samples[0])):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # none of these runs one by one
            close(*batched(function, samples, dims))


@pytest.mark.parametrize("name", CASES)
def test_jvp_is_a_step(name):
    function, inputs = arguments(name)
    _, tangents = arguments(name, seed=7)
    ahead = flat(function(*[x + STEP * t for x, t in zip(inputs, tangents)]))
    behind = flat(function(*[x - STEP * t for x, t in zip(inputs, tangents)]))
    value, moved = jvp(function, tuple(inputs), tuple(tangents))
    close(value, function(*inputs))
    close(moved, [(a - b) / (2 * STEP) for a, b in zip(ahead, behind)], 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_each_sample(name):
    function, _ = CASES[name]

    def total(*args):
        return sum((out * out.cos()).sum() for out in flat(function(*args)))

    samples = [arguments(name, k)[1] for k in range(2)]
    slopes = grad(total, tuple(range(len(samples[0]))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dims in placings(len(samples[0])):
            close(*batched(slopes, samples, dims), tolerance=1e-8)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("lstm", "attention", "conv2d")])
def test_jacobians_both_ways(name):
    function, inputs = arguments(name)

    def first(x):
        return flat(function(x, *inputs[1:]))[0]

    close(jacfwd(first)(inputs[0]), jacrev(first)(inputs[0]), 1e-8)


POINTWISE = [
    op
    for op in TABLE.values()
    if op.kind == "pointwise" and op.grads and "function" in op.variants and op.outputs == 1
]


@pytest.mark.parametrize("op", POINTWISE, ids=lambda op: op.name)
def test_pointwise_rows(op):
    rng = np.random.default_rng(3)
    for call in calls_of(op)[:2]:
        if any(a == "mask" or a == "weight" for a in call.args):
            continue
        places = [k for k, a in enumerate(call.args) if isinstance(a, str) and a == T]
        samples = [torch.tensor(smooth(op, rng, (3, 2))) for _ in places]
        if not places or any(s.dtype is not torch.float64 for s in samples):
            continue

        def function(*tensors, call=call, places=places):
            args = list(call.args)
            for k, t in zip(places, tensors):
                args[k] = t
            return public(op.name)(*args, **call.kwargs)

        try:
            whole = function(*samples)
        except (TypeError, RuntimeError):
            continue
        close(vmap(function)(*samples), whole, 1e-12)
        if not whole.dtype.is_floating_point:
            continue
        directions = tuple(torch.randn_like(s) for s in samples)
        ahead = function(*[s + STEP * d for s, d in zip(samples, directions)])
        behind = function(*[s - STEP * d for s, d in zip(samples, directions)])
        try:
            moved = jvp(function, tuple(samples), directions)[1]
        except RuntimeError as error:
            assert "does not support it" in str(error)  # nor is the derivative backward
            continue
        close(moved, (ahead - behind) / (2 * STEP), 1e-4)
