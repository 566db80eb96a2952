"""What can be said to `torch.compile`, and asked of it."""

import copy
import pickle
import threading

import numpy as np
import pytest

import flambeau
from flambeau import _dynamo, nn
from flambeau._dynamo.testing import CompileCounter, CompileCounterWithBackend
from tests.compile.cases import numbers


def counted(function, *calls, **options):
    """A counter that saw some calls, and what they gave."""
    counter = CompileCounter()
    compiled = flambeau.compile(function, backend=counter, **options)
    return counter, [compiled(*args) for args in calls]


X = numbers(flambeau, 2, 3)


# -- modules ---------------------------------------------------------------------------------------


class Net(nn.Module):
    """Something to compile."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("shift", flambeau.ones(3))
        self.note = "a"

    def forward(self, x):
        """Twice the layer."""
        return self.linear(x) * 2 + self.shift

    def extra(self, x):
        return x + 1


def test_a_compiled_module_is_the_module():
    net = Net()
    made = flambeau.compile(net)
    assert isinstance(made, nn.Module) and isinstance(made, _dynamo.OptimizedModule) and made
    assert len(flambeau.compile(nn.Sequential(net, net))) == 2
    assert made._orig_mod is net and made.linear is net.linear and made.note == "a"
    made.note = "b"
    made.shift = flambeau.zeros(3)
    assert net.note == "b" and net.shift.sum() == 0
    assert list(made.state_dict()) == ["_orig_mod." + name for name in net.state_dict()]
    assert [n for n, _ in made.named_parameters()] == [
        "_orig_mod.linear.weight", "_orig_mod.linear.bias",
    ]  # fmt: skip
    assert flambeau.equal(made(X), net(X)) and flambeau.equal(made.forward(X), net(X))
    assert flambeau.equal(made.extra(X), X + 1)
    made.eval()
    assert not net.training and not made.training and not net.linear.training
    net.train()
    assert made.training
    made.load_state_dict(made.state_dict())
    with pytest.raises(AttributeError):
        made.nothing  # noqa: B018
    del made.note
    assert not hasattr(net, "note")


def test_a_compiled_module_is_copied_and_pickled():
    made = flambeau.compile(Net(), backend="eager")
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert isinstance(other, _dynamo.OptimizedModule) and other._orig_mod is not made._orig_mod
        assert flambeau.equal(other(X), made(X))


def test_a_compiled_module_in_a_module():
    made = nn.Sequential(flambeau.compile(nn.Linear(3, 3)), nn.ReLU())
    assert flambeau.equal(flambeau.compile(made)(X), made(X))


def test_a_compiled_module_has_hooks():
    seen = []
    made = flambeau.compile(Net())
    made.register_forward_hook(lambda module, args, result: seen.append(type(module).__name__))
    made(X)
    assert seen == ["OptimizedModule"]


def test_compile_in_place():
    counter = CompileCounter()
    net, other = Net(), Net()
    other.load_state_dict(net.state_dict())
    net.compile(backend=counter)
    assert flambeau.equal(net(X), other(X)) and counter.frame_count == 1
    assert list(net.state_dict()) == list(other.state_dict())
    net.register_forward_hook(lambda module, args, result: result * 0)
    assert net(X).abs().sum() == 0


def test_a_method_that_is_compiled_in_its_class():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 2.0

        @flambeau.compile(fullgraph=True)
        def forward(self, x):
            return x * self.scale

    model = Model()
    assert flambeau.equal(model(X), X * 2)
    model.scale = 3.0
    assert flambeau.equal(model(X), X * 3)
    assert flambeau.equal(flambeau.compile(model, fullgraph=True)(X), X * 3)


def test_functions_keep_their_names():
    def double(x):
        """Twice x."""
        return x * 2

    made = flambeau.compile(double)
    assert made.__name__ == "double" and made.__doc__ == "Twice x."
    assert made._torchdynamo_orig_callable is double
    assert flambeau.equal(flambeau.compile(made)(X), X * 2)


# -- arguments of compile --------------------------------------------------------------------------

REFUSED = {
    "mode and options": (dict(mode="default", options={}), RuntimeError, "Either mode or options"),
    "unknown mode": (dict(mode="fast"), RuntimeError, "Unrecognized mode=fast"),
    "unknown backend": (
        dict(backend="none"),
        _dynamo.exc.InvalidBackend,
        "Invalid backend: 'none'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    options, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        flambeau.compile(lambda x: x, **options)


@pytest.mark.parametrize("options", [
    dict(mode="default"), dict(mode="reduce-overhead"), dict(mode="max-autotune"),
    dict(options={"max_autotune": True}), dict(dynamic=True), dict(dynamic=False),
    dict(backend="eager"), dict(backend="aot_eager"), dict(backend="aot_eager_decomp_partition"),
    dict(fullgraph=True), dict(disable=True),
])  # fmt: skip
def test_options(options):
    assert flambeau.equal(flambeau.compile(lambda x: x + 1, **options)(X), X + 1)
    assert flambeau.equal(flambeau.compile(**options)(lambda x: x + 1)(X), X + 1)


def test_a_backend_gets_a_graph_and_inputs():
    seen = []

    def backend(gm, inputs):
        seen.append((gm, inputs))
        assert isinstance(gm, flambeau.fx.GraphModule)
        gm.graph.lint()
        return lambda *args: [a * 10 for a in gm(*args)]

    w = flambeau.ones(3)
    made = flambeau.compile(lambda x, y: (x @ w, x + y.sum()), backend=backend)
    a, b = made(X, X)
    assert flambeau.equal(a, X @ w * 10) and flambeau.equal(b, (X + X.sum()) * 10)
    [(gm, inputs)] = seen
    assert [n.op for n in gm.graph.nodes][:2] == ["placeholder"] * 2  # X and w, each once
    assert any(t is X for t in inputs) and any(t is w for t in inputs) and len(inputs) == 2


def test_writes_are_not_dead_code():
    def backend(gm, inputs):
        gm.graph.eliminate_dead_code()
        gm.recompile()
        return gm.forward

    def f(x, y):
        x.add_(1)
        y[0] = 7
        flambeau.sin(x, out=y)
        x *= 2
        flambeau.rand(3)

    flambeau.manual_seed(0)
    x, y = X.clone(), X.clone()
    flambeau.compile(f, backend=backend)(x, y)
    after = flambeau.rand(1)
    flambeau.manual_seed(0)
    p, q = X.clone(), X.clone()
    f(p, q)
    assert flambeau.equal(x, p) and flambeau.equal(y, q) and flambeau.equal(after, flambeau.rand(1))


def test_backends_have_names():
    @_dynamo.register_backend
    def counting_here(gm, inputs):
        return gm.forward

    assert "counting_here" in _dynamo.list_backends() and "inductor" in _dynamo.list_backends()
    assert "eager" in _dynamo.list_backends(None)
    assert _dynamo.lookup_backend("counting_here") is counting_here
    assert flambeau.equal(flambeau.compile(lambda x: x * 2, backend="counting_here")(X), X * 2)
    assert flambeau.compiler.list_backends() == _dynamo.list_backends()


def test_a_backend_that_fails():
    def backend(gm, inputs):
        raise ValueError("no idea")

    with pytest.raises(_dynamo.exc.BackendCompilerFailed, match="no idea"):
        flambeau.compile(lambda x: x + 1, backend=backend)(X)
    with _dynamo.config.patch(suppress_errors=True):
        assert flambeau.equal(flambeau.compile(lambda x: x + 1, backend=backend)(X), X + 1)


def test_counters():
    counter = CompileCounterWithBackend("eager")
    made = flambeau.compile(lambda x: x.sin() + 1, backend=counter)
    made(X), made(X)
    assert (counter.frame_count, counter.op_count, len(counter.graphs)) == (1, 2, 1)
    counter.clear()
    assert counter.frame_count == 0


# -- fullgraph -------------------------------------------------------------------------------------


def prints(x):
    print("never")
    return x + 1


def branches(x):
    if x.sum() > 0:
        return x
    return -x


def items(x):
    return x + x.sum().item()


def tries(x):
    try:
        return x + 1
    except RuntimeError:
        return x


def yields(x):
    yield x


UNSUPPORTED = {prints: "print", branches: "branch that depends on the values", items: "item",
               tries: "try around ops", yields: "runs on its own"}  # fmt: skip


@pytest.mark.parametrize("function", UNSUPPORTED)
def test_fullgraph_says_where_and_why(function, capsys):
    with pytest.raises(_dynamo.exc.Unsupported, match=UNSUPPORTED[function]) as found:
        flambeau.compile(function, fullgraph=True)(X)
    first = function.__code__.co_firstlineno
    assert any(f"test_api.py:{first + k}" in str(found.value) for k in (1, 2))
    assert capsys.readouterr().out == ""


def test_fullgraph_gives_the_errors_of_ops():
    with pytest.raises(RuntimeError, match="cannot be multiplied") as found:
        flambeau.compile(lambda x: x @ x, fullgraph=True)(X)
    assert found.type is RuntimeError


# -- what programs say -----------------------------------------------------------------------------


def test_disable():
    inner = CompileCounter()
    nested = flambeau.compile(lambda x: x * 3, backend=inner)

    @_dynamo.disable
    def hidden(x):
        return nested(x)

    @_dynamo.disable(recursive=False)
    def shallow(x):
        return nested(x)

    counter, [found] = counted(lambda x: hidden(x + 1) + shallow(x), (X,))
    assert flambeau.equal(found, (X + 1) * 3 + X * 3)
    assert inner.frame_count == 1 and counter.frame_count == 0
    assert _dynamo.disable is flambeau.compiler.disable


def test_is_compiling():
    def f(x):
        if flambeau.compiler.is_compiling() and _dynamo.is_compiling():
            return x + 1
        return x - 1

    assert flambeau.equal(f(X), X - 1)
    assert flambeau.equal(flambeau.compile(f)(X), X + 1)
    assert not flambeau.compiler.is_compiling() and not flambeau.compiler.is_dynamo_compiling()


def test_graph_break():
    def f(x):
        y = x + 1
        _dynamo.graph_break()
        return y * 2

    counter, [found] = counted(f, (X,))
    assert counter.frame_count == 2 and flambeau.equal(found, f(X))


def odd(x):
    return x.sin() if x.dim() else x


def test_allow_in_graph():
    kept = _dynamo.allow_in_graph(lambda x: odd(x) * 2)
    seen = []

    def backend(gm, inputs):
        seen.extend(n.target for n in gm.graph.nodes if n.op == "call_function")
        return gm.forward

    def f(x):
        return kept(x) + 1

    assert flambeau.equal(flambeau.compile(f, backend=backend, fullgraph=True)(X), f(X))
    assert kept in seen


def test_disallow_in_graph():
    left = _dynamo.disallow_in_graph(lambda x: x * 2)
    _, [found] = counted(lambda x: left(x) + 1, (X,))
    assert flambeau.equal(found, X * 2 + 1)


def test_assume_constant_result():
    calls = []

    @_dynamo.assume_constant_result
    def constant():
        calls.append(1)
        return 3

    counter, found = counted(lambda x: x * constant(), (X,), (X,), fullgraph=True)
    assert counter.frame_count == 1 and flambeau.equal(found[1], X * 3)


def test_stance():
    counter = CompileCounter()
    made = flambeau.compile(lambda x: x + 1, backend=counter)
    with flambeau.compiler.set_stance("force_eager"):
        made(X)
    assert counter.frame_count == 0
    made(X)
    assert counter.frame_count == 1
    with pytest.raises(RuntimeError, match="invalid"):
        flambeau.compiler.set_stance("nowhere")
    with flambeau.compiler.set_stance("fail_on_recompile"):
        made(X)
        with pytest.raises(RuntimeError, match="Detected recompile when"):
            made(X.double())
    with flambeau.compiler.set_stance("eager_on_recompile"):
        assert made(X.double()).dtype is flambeau.float64
    assert counter.frame_count == 1
    plainly = flambeau.compiler.set_stance("force_eager")(lambda x: made(x))
    plainly(X.double())
    assert counter.frame_count == 1
    made(X.double())
    assert counter.frame_count == 2


def test_a_first_call_may_run_as_it_is():
    counter = CompileCounter()
    made = flambeau.compile(lambda x: x * 2, backend=counter)
    with flambeau.compiler.set_stance("eager_then_compile"):
        counts = [(made(flambeau.ones(n)), counter.frame_count)[1] for n in (3, 4, 5, 6)]
    assert counts == [0, 1, 1, 1]


def test_marks_of_sizes_are_taken():
    x = X.clone()
    _dynamo.mark_dynamic(x, 0)
    _dynamo.maybe_mark_dynamic(x, 0)
    _dynamo.mark_static(x)
    _dynamo.mark_static_address(x)
    _dynamo.decorators.mark_unbacked(x, 0)


def test_settings():
    with _dynamo.config.patch(recompile_limit=2):
        assert _dynamo.config.recompile_limit == 2
    assert _dynamo.config.recompile_limit == 8
    inductor = flambeau._inductor.config
    with inductor.patch({"max_autotune": True}):
        assert inductor.max_autotune
    assert not inductor.max_autotune
    assert inductor.emulate_eager
    with pytest.raises(AttributeError, match="nothing"):
        _dynamo.config.patch(nothing=1)
    assert "max_autotune" in flambeau._inductor.list_options()
    assert flambeau._inductor.list_mode_options("default") == {}


def test_logs_are_checked():
    flambeau._logging.set_logs(dynamo=10, graph_breaks=True)
    with pytest.raises(ValueError, match="Unrecognized log"):
        flambeau._logging.set_logs(nothing=True)
    with pytest.raises(ValueError, match="level"):
        flambeau._logging.set_logs(dynamo="loud")


def test_arrays():
    doubled = flambeau.compiler.wrap_numpy(lambda a: np.multiply(a, 2))
    assert flambeau.equal(doubled(X), X * 2)


def test_substitutes():
    import bisect

    @flambeau.compiler.substitute_in_graph(bisect.bisect)
    def own_bisect(items, value):
        return len([i for i in items if i <= value])

    _, [found] = counted(lambda x: x * bisect.bisect([1, 2, 3], 2), (X,), fullgraph=True)
    assert flambeau.equal(found, X * 2)


# -- around calls ----------------------------------------------------------------------------------


def test_modes_see_the_program_itself():
    names = []

    class Watching(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    made = flambeau.compile(lambda x: x.sin() + 1)
    made(X), made(X)
    with Watching():
        made(X)
    assert names == ["sin", "add"]
    assert flambeau.fx.symbolic_trace(made)(X).shape == X.shape


def test_inference_mode():
    made = flambeau.compile(lambda x: x * 2)
    made(X)
    with flambeau.inference_mode():
        assert made(X).is_inference() == (X * 2).is_inference()


def test_subclasses_of_tensors_run_as_they_are():
    class Own(flambeau.Tensor):
        pass

    own = X.as_subclass(Own)
    made = flambeau.compile(lambda x: x * 2)
    assert type(made(X)) is flambeau.Tensor and type(made(own)) is Own


def test_meta_tensors_run_as_they_are():
    assert flambeau.compile(lambda x: x * 2)(X.to("meta")).device.type == "meta"


def test_reading_in_two_threads_at_once():
    made = flambeau.compile(lambda x, n: (x * n).sum(), backend="eager")
    with flambeau.no_grad():
        thread = threading.Thread(target=made, args=(X, 2))
        thread.start()
        thread.join()
        assert flambeau.equal(made(X, 3), (X * 3).sum())


def test_lines_in_tracebacks():
    def f(x):
        x = x + 1
        print(end="")
        raise ValueError("here")

    with pytest.raises(ValueError, match="here") as found:
        flambeau.compile(f)(X)
    last = found.traceback[-1]
    assert str(last.path) == __file__ and last.lineno == f.__code__.co_firstlineno + 2


def test_code_without_text_runs_as_it_is():
    space = {}
    exec("def f(x): return x * 2", space)
    counter, [found] = counted(space["f"], (X,))
    assert counter.frame_count == 0 and flambeau.equal(found, X * 2)
