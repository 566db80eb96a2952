"""torch.cond in compiled programs: both branches are part of one graph."""

import pytest

import flambeau
from flambeau import cond, nn
from flambeau._dynamo.exc import Unsupported
from flambeau._dynamo.testing import CompileCounterWithBackend
from flambeau.testing import assert_close

UP, DOWN = flambeau.arange(3.0) + 1, -flambeau.arange(3.0) - 1
AROUND = flambeau.full((3,), 5.0)
layer = nn.Linear(3, 3)


def operands(x):
    return cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))


def from_around(x):
    y = x * 2
    return cond(x.sum() > 0, lambda: (y * AROUND).sin(), lambda: y + x) + y


def several(x):
    found = cond(x.sum() > 0, lambda a: {"s": a + 1, "p": (a * 3,)}, _other, (x,))
    return found["s"], found["p"][0] * 2


def _other(a):
    return {"s": a - 1, "p": (a / 2,)}


def within(x):
    inner = lambda a: cond(a.sum() > 4, lambda b: b * 10, lambda b: b * 3, (a,))
    return cond(x.sum() > 0, inner, lambda a: a - 1, (x,))


def with_sizes(x):
    return cond(x.sum() > 0, lambda a: a * a.shape[0], lambda a: a - x.shape[0], (x,))


def with_layers(x):
    return cond(x.sum() > 0, layer, lambda a: layer(a).relu() * 3, (x,))


def known(x):
    return cond(x.dim() == 1, lambda a: a + 1, lambda a: a - 1, (x,))


@pytest.mark.parametrize(
    "program", [operands, from_around, several, within, with_sizes, with_layers, known]
)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_branches_are_taken_as_they_fall(program, backend):
    counter = CompileCounterWithBackend(backend)
    made = flambeau.compile(program, backend=counter, fullgraph=True)
    for x in (UP, DOWN, UP, DOWN, UP / 3):
        assert_close(made(x), program(x), rtol=0, atol=0)
    assert counter.frame_count == 1


def test_sizes_may_change():
    counter = CompileCounterWithBackend("inductor")
    made = flambeau.compile(with_sizes, backend=counter, fullgraph=True)
    for n in (2, 3, 4, 5, 6):
        for x in (flambeau.ones(n), -flambeau.ones(n)):
            assert_close(made(x), with_sizes(x))
    assert counter.frame_count == 2


def test_gradients_go_through_the_branch_that_was_taken():
    made = flambeau.compile(lambda x: with_layers(x).sum(), fullgraph=True)
    for x in (UP, DOWN, UP, DOWN):
        found = flambeau.autograd.grad(made(x), list(layer.parameters()))
        wanted = flambeau.autograd.grad(with_layers(x).sum(), list(layer.parameters()))
        assert_close(found, wanted, rtol=0, atol=0)


def writes(x):
    return cond(x.sum() > 0, lambda a: a.add_(1) * 2, lambda a: a * 2, (x.clone(),))


def gives_a_view(x):
    return cond(x.sum() > 0, lambda a: a[:2], lambda a: a[1:] * 2, (x,))


def gives_what_it_got(x):
    return cond(x.sum() > 0, lambda a: a, lambda a: a * 2, (x,))


def of_other_shapes(x):
    return cond(x.sum() > 0, lambda a: a * 2, lambda a: a.sum(), (x,))


def leaks(x):
    kept = []
    y = cond(x.sum() > 0, lambda a: (kept.append(a * 7), a * 2)[1], lambda a: a * 3, (x,))
    return y + kept[0] if kept else y


@pytest.mark.parametrize(
    "program", [writes, gives_a_view, gives_what_it_got, of_other_shapes, leaks]
)
def test_other_branches_run_as_they_are(program):
    made = flambeau.compile(program)
    for x in (UP, DOWN, UP):
        assert_close(made(x), program(x))
    with pytest.raises(Unsupported):
        flambeau.compile(program, fullgraph=True)(UP)
