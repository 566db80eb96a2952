"""Recorded programs compute what the programs compute: as modules, interpreted, copied, pickled."""

import copy
import importlib
import io
import pickle
import threading

import pytest

import flambeau
from flambeau import fx, interposing, nn
from flambeau.testing import assert_close
from flambeau.utils._pytree import tree_leaves
from tests.fx import cases

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = cases.names(flambeau)
# these need other arguments, or draw numbers
UNRUN = {"lambda x: torch.special.i1(x)", "lambda x: operator.itemgetter(0)(x)"}


def program_of(text):
    return cases.MODULES[text](NAMES) if text in cases.MODULES else eval(text, vars(NAMES))


def values(result):
    """What can be compared."""
    if isinstance(result, cases.Record):
        result = (result.number, result.value)
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, (flambeau.Tensor, int))]


def given():
    flambeau.manual_seed(0)
    return flambeau.randn(2, 3)


RUN = [text for text in cases.PROGRAMS if text not in UNRUN and text not in ("nested", "plain")]


@pytest.mark.parametrize("text", RUN)
def test_recorded_programs_compute_the_same(text):
    program = program_of(text)
    made = fx.symbolic_trace(program)
    wanted = values(program(given()))
    assert_close(values(made(given())), wanted)
    assert_close(values(fx.Interpreter(made).run(given())), wanted)
    assert_close(values(fx.Transformer(made).transform()(given())), wanted)
    assert_close(values(copy.deepcopy(made)(given())), wanted)
    made.graph.lint()


@pytest.mark.parametrize("text", ["attention", "shared_weights", "annotated"])
def test_gradients_reach_the_same_parameters(text):
    program = program_of(text)
    made = fx.symbolic_trace(program)
    assert dict(made.named_parameters()).keys() <= dict(program.named_parameters()).keys()
    for name, parameter in made.named_parameters():
        assert parameter is program.get_parameter(name)
    out = made(given().requires_grad_())
    values(out)[0].sum().backward()
    assert all(parameter.grad is not None for parameter in made.parameters())


def test_train_and_eval_reach_submodules():
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(3))
    made = fx.symbolic_trace(model.eval())
    assert not made.training
    made.train()
    assert all(module.training for module in made.modules())


class Saved(nn.Module):
    """A module that pickles can find."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.ModuleList([nn.Linear(4, 2)])
        self.register_buffer("shift", flambeau.ones(2))

    def forward(self, x, flag=True):
        x = nn.functional.relu(self.second[0](self.first(x))) + self.shift
        return {"x": x, "y": (x.max(1).values, flag)}


@pytest.mark.parametrize("how", ["pickle", "save", "deepcopy", "copy"])
def test_copies_keep_code_weights_and_names(how):
    made = fx.symbolic_trace(Saved().eval())
    if how == "pickle":
        twin = pickle.loads(pickle.dumps(made))
    elif how == "save":
        file = io.BytesIO()
        flambeau.save(made, file)
        file.seek(0)
        twin = flambeau.load(file, weights_only=False)
    else:
        twin = getattr(copy, how)(made)
    assert twin.code == made.code
    assert str(twin.graph) == str(made.graph)
    assert not twin.training
    assert twin.state_dict().keys() == made.state_dict().keys()
    assert_close(values(twin(given())), values(made(given())))
    if how != "copy":
        assert twin.first.weight is not made.first.weight


def test_functions_in_globals_are_found_again_by_pickles():
    made = fx.symbolic_trace(lambda x: cases.Pair(flambeau.relu(x), NAMES.math.pi))
    assert_close(list(pickle.loads(pickle.dumps(made))(given())), list(made(given())))


def test_fixed_arguments_are_checked_and_trees_are_taken_apart():
    made = fx.symbolic_trace(lambda x, d: {"s": x + d["a"], "t": [d["b"][0]]},
                             {"d": {"a": fx.PH, "b": (fx.PH, 3)}})  # fmt: skip
    x, y = given(), given()
    result = made(x, {"a": y, "b": (4, 3)})
    assert_close(result["s"], x + y)
    assert result["t"] == [4]
    assert_close(fx.Interpreter(made).run(x, {"a": y, "b": (4, 3)})["s"], x + y)
    with pytest.raises(AssertionError, match="d has been specialized to have value 3"):
        made(x, {"a": y, "b": (4, 5)})
    never = fx.symbolic_trace(lambda x, y: x if y is None else y, {"y": None})
    with pytest.raises(AssertionError, match="y has been specialized to have value None"):
        never(x, 1)


def test_recording_leaves_nothing_behind():
    before = list(interposing.handlers())
    graph = fx.Graph()
    value = flambeau.relu(fx.Proxy(graph.placeholder("x")) + 1)
    assert list(interposing.handlers()) != before
    assert str(value.node.target.__name__) == "relu"
    del value
    model = nn.Linear(2, 2)
    fx.symbolic_trace(model)
    assert list(interposing.handlers()) == before
    assert type(model.weight) is nn.Parameter
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: bool(x))
    assert list(interposing.handlers()) == before


def test_interpreters_may_start_in_the_middle_and_keep_values():
    made = fx.symbolic_trace(lambda x, y=2: flambeau.relu(x) * y)
    relu = made.graph.find_nodes(op="call_function", target=flambeau.relu)[0]
    x = given()
    assert_close(fx.Interpreter(made).run(x, initial_env={relu: x}), x * 2)
    keeping = fx.Interpreter(made, garbage_collect_values=False)
    keeping.run(x, 3)
    assert [str(node) for node in keeping.env] == ["x", "y", "relu", "mul", "output"]
    boxed = [x, 3]
    assert_close(keeping.boxed_run(boxed), flambeau.relu(x) * 3)
    assert boxed == []


@pytest.mark.parametrize(
    "args, error, match",
    [
        ((), RuntimeError, "Expected positional argument for parameter x"),
        (
            ("text",),
            TypeError,
            "While executing %relu : .num_users=1. = call_function.target=torch",
        ),
    ],
)
def test_interpreters_say_which_node_went_wrong(args, error, match):
    made = fx.symbolic_trace(lambda x: flambeau.relu(x))
    with pytest.raises(error, match=match):
        fx.Interpreter(made).run(*args)


def test_transformers_change_what_nodes_become():
    class Swapping(fx.Transformer):
        def call_function(self, target, args, kwargs):
            target = {flambeau.sigmoid: flambeau.neg}.get(target, target)
            return super().call_function(target, args, kwargs)

        def call_method(self, target, args, kwargs):
            if target == "neg":
                return args[0].sigmoid()
            return super().call_method(target, args, kwargs)

    made = Swapping(fx.symbolic_trace(lambda x: flambeau.sigmoid(x).neg())).transform()
    assert_close(made(given()), given().neg().sigmoid())

    class Calling(fx.Transformer):
        def call_function(self, target, args, kwargs):
            if target is flambeau.sigmoid:
                return flambeau.neg(*args) * 2  # ops on values of the new graph
            return super().call_function(target, args, kwargs)

    made = Calling(fx.symbolic_trace(lambda x: flambeau.sigmoid(x).neg())).transform()
    assert_close(made(given()), given() * 2)


def test_graphs_are_pickled_whatever_their_length():
    def long(x):
        for _ in range(2000):
            x = x + 1
        return x

    graph = fx.symbolic_trace(long).graph
    twin, node = pickle.loads(pickle.dumps((graph, graph.output_node())))
    assert str(twin) == str(graph)
    assert node is twin.output_node()
    twin.lint()


@pytest.mark.oracle
def test_modules_are_exchanged_with_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.fx")
    results = []
    for writer, reader in ((torch, flambeau), (flambeau, torch)):
        layers = writer.nn.Linear(3, 4), writer.nn.ReLU(), writer.nn.Linear(4, 2)
        made = writer.fx.symbolic_trace(writer.nn.Sequential(*layers))
        writer.save(made, tmp_path / "module.pt")
        twin = reader.load(tmp_path / "module.pt", weights_only=False)
        assert twin.code == made.code
        x = [[1.0, 2.0, 3.0]]
        results.append((made(writer.tensor(x)).tolist(), twin(reader.tensor(x)).tolist()))
    for wanted, got in results:
        assert got[0] == pytest.approx(wanted[0])


def test_other_threads_are_not_recorded():
    model = nn.Linear(2, 2)
    seen = []

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(flambeau.ones(2))

        def forward(self, x):
            other = threading.Thread(target=lambda: seen.append(model(flambeau.ones(1, 2))))
            reading = threading.Thread(target=lambda: seen.append(self.weight))
            for thread in (other, reading):
                thread.start()
                thread.join()
            return x * self.weight

    net = Net()
    fx.symbolic_trace(net)
    assert isinstance(seen[0], flambeau.Tensor)
    assert seen[1] is net.weight


# -- what tracing must not lose --------------------------------------------------------------------


def nodes_of(function, tracer=None):
    tracer = fx.Tracer() if tracer is None else tracer
    return list(tracer.trace(function).nodes)


def test_calls_of_overloads_and_quantizations_are_recorded_as_they_are():
    aten = flambeau.ops.aten
    _, add, *_ = nodes_of(lambda x: aten.add.Tensor(x, x))
    assert add.target is aten.add.Tensor
    _, cat, *_ = nodes_of(lambda x: aten.cat.default([x, x]))
    assert cat.target is aten.cat.default
    _, quantized, *_ = nodes_of(lambda x: flambeau.quantize_per_tensor(x, 0.5, 0, flambeau.quint8))
    assert quantized.target is flambeau.quantize_per_tensor


class Strict(fx.Tracer):
    check_mutable_operations = True


def test_operators_are_no_mutable_operations_and_out_is():
    assert [n.name for n in nodes_of(lambda x: (x & x) | x, Strict())][1:3] == ["and_", "or_"]
    with pytest.raises(RuntimeError, match=r"mutable operation aten::sigmoid\.out"):
        nodes_of(lambda x: flambeau.sigmoid(x, out=flambeau.rand_like(x)), Strict())


def test_transformers_keep_what_nodes_know():
    graph = fx.symbolic_trace(lambda x: x.relu() + 1)
    for node in graph.graph.nodes:
        node.meta["mark"] = node.name
    again = fx.Transformer(graph).transform()
    calls = [n for n in again.graph.nodes if n.op.startswith("call")]
    assert [n.meta["mark"] for n in calls] == ["relu", "add"]


def test_interpreters_let_go_of_what_is_returned():
    run = fx.Interpreter(fx.symbolic_trace(lambda x: x.relu() + 1))
    run.run(flambeau.ones(2))
    assert {n.name for n in run.env} == {"output"}


def test_copies_of_proxies_have_nodes_of_their_own():
    node = next(iter(fx.symbolic_trace(lambda x: x + 1).graph.nodes))
    twin = copy.deepcopy(fx.Proxy(node))
    assert twin.node is not node and twin.node.name == node.name


def test_codegens_of_older_programs_say_how_to_return():
    class Lists(fx.graph.CodeGen):
        def generate_output(self, output_args):
            return f"return list({output_args!r})"

    module = fx.symbolic_trace(lambda x: (x, x + 1))
    module.graph.set_codegen(Lists())
    module.recompile()
    assert isinstance(module(flambeau.ones(1)), list)


def test_boxed_arguments_are_counted():
    runner = fx.Interpreter(fx.symbolic_trace(lambda a, b: a + b))
    for count, kind in ((3, "extra"), (1, "missing")):
        boxed = [flambeau.ones(1)] * count
        told = f"expected 2 arguments for placeholders but received {count} \\({kind} arguments"
        with pytest.raises(RuntimeError, match=told):
            runner.boxed_run(boxed)
        assert len(boxed) == count  # nothing has happened


def test_trees_of_arguments_are_recorded_again():
    given = {"a": {"a": [fx.PH], "z": fx.PH}, "b": True}
    program = lambda b, a: a["a"][0] + a["z"] if b else a["z"]
    once = fx.symbolic_trace(program, concrete_args=given)
    twice = fx.symbolic_trace(once)
    values = {"a": {"a": [flambeau.ones(2)], "z": flambeau.ones(2)}, "b": True}
    assert_close(twice(**values), program(**values))
