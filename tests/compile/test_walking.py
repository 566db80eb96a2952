"""Lists that modules give of themselves are part of a graph: parameters, buffers, modules below."""

import contextlib

import pytest

import flambeau
from flambeau import nn
from flambeau._dynamo.testing import CompileCounter
from flambeau.testing import assert_close

X = flambeau.arange(3.0)


def net():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Sequential(nn.Linear(3, 2)))
    model[2][0].tied = model[0]
    model.append(model[0])
    return model


PROGRAMS = {
    "sum": lambda x, m: x * sum((p**2).sum() for p in m.parameters()),
    "own": lambda x, m: x * sum([p.sum() for p in m[1].parameters(recurse=False)]),
    "names": lambda x, m: x * sum(len(n) * p.sum() for n, p in m.named_parameters()),
    "prefix": lambda x, m: x * sum(len(n) for n, _ in m.named_parameters(prefix="model")),
    "all": lambda x, m: x * len(list(m.named_parameters(remove_duplicate=False))),
    "first": lambda x, m: x.to(next(m.parameters()).dtype) + next(m.parameters()).sum(),
    "buffers": lambda x, m: x + sum(b.sum() for b in m.buffers()) * len(dict(m.named_buffers())),
    "children": lambda x, m: x * len(list(m.children())) + len(list(m.named_children())),
    "modules": lambda x, m: x * sum(isinstance(c, nn.Linear) for c in m.modules()),
    "paths": lambda x, m: x * sum(len(n) for n, c in m.named_modules()),
    "called": lambda x, m: [c(x[None]) for n, c in m.named_modules() if isinstance(c, nn.Linear)],
    "zip": lambda x, m: x + sum((p * q).sum() for p, q in zip(m.parameters(), m.parameters())),
}


def in_turn(x, m):
    found = m.parameters()
    first = next(found)
    return x * first.sum() + sum(p.sum() for p in found)


@pytest.mark.parametrize("program", [*PROGRAMS.values(), in_turn], ids=[*PROGRAMS, "in turn"])
def test_lists_are_what_they_are(program):
    model, counter = net(), CompileCounter()
    made = flambeau.compile(program, backend=counter, fullgraph=True)
    assert_close(made(X, model), program(X, model))
    assert_close(made(X, model), program(X, model))
    assert counter.frame_count <= 1


def test_changes_are_noticed():
    program, model = PROGRAMS["names"], net()
    made = flambeau.compile(program, fullgraph=True)
    made(X, model)
    for change in (
        lambda: model.append(nn.Linear(1, 1)),
        lambda: setattr(model[0], "weight", nn.Parameter(flambeau.ones(3, 3))),
        lambda: model[0].register_parameter("extra", nn.Parameter(flambeau.ones(2))),
        lambda: model[0].weight.data.fill_(7),
        lambda: model[2].pop(0),
    ):
        change()
        assert_close(made(X, model), program(X, model))
    model, counted = net(), flambeau.compile(PROGRAMS["buffers"], fullgraph=True)
    counted(X, model)
    model.register_buffer("more", flambeau.ones(4))
    assert_close(counted(X, model), PROGRAMS["buffers"](X, model))


def test_gradients_reach_what_was_listed():
    model = net()
    made = flambeau.compile(lambda x: PROGRAMS["sum"](x, model).sum(), fullgraph=True)
    for _ in range(3):
        found = flambeau.autograd.grad(made(X), list(model.parameters()))
        wanted = flambeau.autograd.grad(PROGRAMS["sum"](X, model).sum(), list(model.parameters()))
        assert_close(found, wanted, rtol=0, atol=0)


class Quiet(nn.Linear):
    def named_parameters(self, *args, **kwargs):
        return iter([])


def test_modules_with_lists_of_their_own_run_as_they_are():
    model = nn.Sequential(Quiet(2, 2))
    made = flambeau.compile(lambda x: x + len(list(model.parameters())))
    assert_close(made(X), X + len(list(model.parameters())))


around = contextlib.nullcontext(4)


def test_contexts_that_do_nothing():
    def program(x):
        with contextlib.nullcontext(), contextlib.nullcontext(2) as two, around as four:
            return x * two + four

    made = flambeau.compile(program, fullgraph=True)
    assert_close(made(X), program(X))
    assert_close(made(X), program(X))


def test_attributes_of_tensors_may_be_asked_for():
    program = lambda x: x * 2 if hasattr(x, "marked") else (x + 1) * (not hasattr(x * 1, "marked"))
    made, x = flambeau.compile(program, fullgraph=True), X.clone()
    assert_close(made(x), program(x))
    x.marked = True
    assert_close(made(x), program(x))
