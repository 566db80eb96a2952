"""Compiled programs with autocast inside of them or around them have the bits of eager ones."""

import pytest

import flambeau
from flambeau import nn
from flambeau._dynamo.testing import CompileCounterWithBackend
from flambeau._dynamo.utils import counters

BF16, F16 = flambeau.bfloat16, flambeau.float16


def small():
    flambeau.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 8))


def inside(model, x):
    with flambeau.autocast("cpu", dtype=BF16):
        return model(x)


def nested(model, x):
    with flambeau.autocast("cpu", dtype=BF16):
        y = model(x)
        with flambeau.autocast("cpu", enabled=False):
            z = y.float() @ model[3].weight
            with flambeau.autocast("cpu", dtype=F16):
                w = z @ model[0].weight
        return y @ z.to(BF16).t(), w, model(x)


def used_twice(model, x):
    with flambeau.autocast("cpu"):
        return model(x) + model(model(x))


def without_cache(model, x):
    with flambeau.autocast("cpu", cache_enabled=False):
        return model(x) + model(model(x))


def delicate(model, x):
    with flambeau.autocast("cpu"):
        y = model(x)
        loss = nn.functional.mse_loss(y, x) + nn.functional.cross_entropy(y, x.softmax(-1))
        return loss, flambeau.cat([y, x]), flambeau.einsum("ij,kj->ik", y, x)


def asks(model, x):
    if flambeau.is_autocast_enabled("cpu"):
        return model(x).to(flambeau.get_autocast_dtype("cpu")) * 2
    return model(x) * 3


def with_grad_off(model, x):
    with flambeau.autocast("cpu"), flambeau.no_grad():
        y = model(x)
    return y + model(x)


def a_decorator(model, x):
    @flambeau.autocast("cpu")
    def part(t):
        return model(t)

    return part(x) + x


_mode = flambeau.autocast("cpu", dtype=F16)


def from_outside(model, x):
    with _mode:
        y = model(x)
    return y @ x.to(y.dtype).t()


PROGRAMS = {
    function.__name__: function
    for function in (
        inside, nested, used_twice, without_cache, delicate, asks, with_grad_off, a_decorator,
        from_outside, lambda model, x: model(x),
    )
}  # fmt: skip


def outcome(function, model, x, around):
    """Results and gradients; some ways to be around it."""
    x = x.clone().requires_grad_()
    model.zero_grad()
    with around():
        found = function(model, x)
    found = found if isinstance(found, tuple) else (found,)
    sum(f.float().sin().sum() for f in found).backward()
    return [*found, x.grad, *(p.grad for p in model.parameters())]


AROUND = {
    "nothing": flambeau.enable_grad,
    "bfloat16": lambda: flambeau.autocast("cpu"),
    "float16": lambda: flambeau.autocast("cpu", dtype=F16),
    "off": lambda: flambeau.autocast("cpu", enabled=False),
}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_those_of_eager(name, backend):
    function, model = PROGRAMS[name], small()
    made = flambeau.compile(function, backend=backend)
    for turn in range(3):
        for around in AROUND.values():
            x = flambeau.randn(5, 8)
            wanted = outcome(function, model, x, around)
            for a, b in zip(outcome(made, model, x, around), wanted):
                if a is None or b is None:  # a cast that was kept without history
                    assert a is b
                    continue
                assert a.dtype is b.dtype and flambeau.equal(a, b), (turn, around)
            assert not flambeau.is_autocast_enabled("cpu")


def test_it_is_one_graph_on_tape():
    counters.clear()
    model = small()
    made = flambeau.compile(nested, fullgraph=True)
    for _ in range(4):
        made(model, flambeau.randn(5, 8))
    assert counters["frames"]["total"] == 1 and not counters["graph_break"]
    [program] = made._torchdynamo_settings.graphs.values()
    assert not program.reasons


def test_sizes_vary_under_autocast():
    counters.clear()
    model = small()
    made = flambeau.compile(used_twice)
    for n in (3, 5, 4, 9, 5, 2):
        x = flambeau.randn(n, 8)
        assert flambeau.equal(made(model, x), used_twice(model, x))
    assert counters["frames"]["total"] == 2


def test_graphs_enter_and_leave():
    counter = CompileCounterWithBackend("eager")
    flambeau.compile(inside, backend=counter)(small(), flambeau.ones(2, 8))
    targets = [getattr(n.target, "__name__", "") for n in counter.graphs[0].graph.nodes]
    assert targets.count("_enter_autocast") == targets.count("_exit_autocast") == 1


def test_an_error_inside_leaves_autocast():
    def function(x, at):
        with flambeau.autocast("cpu"):
            return x.take(at)

    made = flambeau.compile(function)
    x = flambeau.ones(4)
    for at in (flambeau.tensor([1]), flambeau.tensor([1]), flambeau.tensor([77])):
        try:
            made(x, at)
        except (IndexError, RuntimeError):
            assert int(at) == 77
        assert not flambeau.is_autocast_enabled("cpu")


def test_a_step_under_autocast():
    def trained(compile):
        flambeau.manual_seed(0)
        model = small()
        optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            with flambeau.autocast("cpu"):
                loss = nn.functional.mse_loss(model(x), x)
            loss.backward()
            optimizer.step()
            return loss

        made = compile(step)
        x = flambeau.arange(40.0).reshape(5, 8) / 40
        return [made(x).item() for _ in range(6)], [p.tolist() for p in model.parameters()]

    assert trained(flambeau.compile) == trained(lambda f: f)
