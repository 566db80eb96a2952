"""Checkpoints in compiled programs: what runs again is part of the graph."""

import pytest

import flambeau
from flambeau import nn
from flambeau._dynamo.exc import Unsupported
from flambeau.testing import assert_close
from flambeau.utils.checkpoint import checkpoint

net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3))


def several(x):
    found = checkpoint(lambda a: (a.sin(), {"k": a.cos().exp()}), x, use_reentrant=False)
    return found[0] * found[1]["k"]


def within(x):
    inner = lambda a: checkpoint(flambeau.sin, a, use_reentrant=False).exp()
    return checkpoint(inner, x, use_reentrant=False)


PROGRAMS = {
    "layers": lambda x: checkpoint(net, x, use_reentrant=False) + x,
    "two arguments": lambda x: checkpoint(flambeau.mul, x, x.cos(), use_reentrant=False).exp(),
    "several": several,
    "within": within,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_they_compute_the_same_with_the_same_random_numbers(name, backend):
    program = PROGRAMS[name]
    made = flambeau.compile(program, backend=backend, fullgraph=True)
    for rows in (2, 2, 2, 5, 7):
        for wants in (True, False):
            found = []
            for function in (program, made):
                flambeau.manual_seed(3)
                net.zero_grad()
                x = flambeau.linspace(-1, 1, rows * 3).reshape(rows, 3).requires_grad_(wants)
                y = function(x)
                if y.requires_grad:
                    (y * flambeau.arange(y.numel()).reshape(y.shape)).sum().backward()
                found.append((y, x.grad, [p.grad for p in net.parameters()], flambeau.rand(2)))
            assert_close(*found)


def test_as_little_is_kept():
    program = PROGRAMS["several"]
    kept: list = []
    x = flambeau.ones(3, requires_grad=True)
    for function in (program, flambeau.compile(program, fullgraph=True, backend="eager")):
        kept.append([])
        with flambeau.autograd.graph.saved_tensors_hooks(lambda t: kept[-1].append(t) or t, id):
            function(x)
    assert len(kept[0]) == len(kept[1]) < 5  # which sin, cos, exp and mul would keep


def test_reentrant_ones_run_as_they_are():
    program = lambda x: checkpoint(flambeau.sin, x, use_reentrant=True) * 2
    x = flambeau.ones(3, requires_grad=True)
    assert_close(flambeau.compile(program)(x), program(x))
    with pytest.raises(Unsupported, match="reentrant"):
        flambeau.compile(program, fullgraph=True)(x)
