"""GraphModule: its code, files, messages, hooks; functions that are wrapped; own tracers."""

import importlib
import math
import subprocess
import sys
from math import floor

import pytest

import flambeau
from flambeau import fx, nn


@fx.wrap
def as_a_whole(x, y=1):
    return x + y if x.sum() > 0 else x - y


fx.wrap("len")


def test_wrapped_functions_are_one_node():
    made = fx.symbolic_trace(lambda x: as_a_whole(x, y=len(x)))
    called = [node.target for node in made.graph.nodes if node.op == "call_function"]
    assert called == [len, as_a_whole]
    assert 'torch.fx._symbolic_trace.wrap("len")' in made.code
    assert made(flambeau.ones(3)).tolist() == [4, 4, 4]
    assert fx.symbolic_trace(made).code == made.code
    assert as_a_whole(flambeau.ones(1)).item() == 2  # itself again
    assert len([1, 2]) == 2


def test_functions_of_math_are_recorded_under_all_names():
    made = fx.symbolic_trace(lambda x: math.sqrt(x) + floor(x))
    assert [n.target for n in made.graph.nodes if n.op == "call_function"][:2] == [math.sqrt, floor]
    assert made(4.5) == math.sqrt(4.5) + 4
    assert math.sqrt(4) == 2


def test_a_tracer_wraps_what_it_is_told():
    def helper(x):
        return x * 2

    globals()["helper"] = helper
    tracer = fx.Tracer(autowrap_functions=(helper,))
    graph = tracer.trace(eval("lambda x: helper(x)", globals()))
    assert [n.target for n in graph.nodes if n.op == "call_function"] == [helper]


def test_asserts_are_recorded_if_a_tracer_wants_it():
    class Asserting(fx.Tracer):
        trace_asserts = True

    names = {}
    exec(
        "def program(x):\n    assert x.sum() > 0\n    return x", names
    )  # as pytest rewrites asserts
    graph = Asserting().trace(names["program"])
    assert graph.find_nodes(op="call_function", target=flambeau._assert)


def test_errors_point_into_generated_code(capsys):
    made = fx.symbolic_trace(lambda x: flambeau.relu(x) @ 3)
    with pytest.raises(TypeError):
        made(flambeau.ones(2, 2))
    told = capsys.readouterr().err
    assert "Call using an FX-traced Module, line 6 of the traced Module's generated forward" in told
    assert "matmul = relu @ 3;  relu = None\n\n~~~" in told and "<--- HERE" in told


def test_stack_traces_are_kept_on_request():
    class Keeping(fx.Tracer):
        record_stack_traces = True

    model = nn.Sequential(nn.Linear(2, 2))
    graph = Keeping().trace(lambda x: flambeau.relu(x) + 1)
    relu, add = (node for node in graph.nodes if node.op == "call_function")
    assert "test_modules.py" in relu.stack_trace and "flambeau.relu(x)" in add.stack_trace
    text = fx.GraphModule(model, graph).print_readable(print_output=False)
    assert "# File: " in text and "code: graph = Keeping()" in text


def test_recompiling_after_a_change():
    made = fx.symbolic_trace(lambda x: flambeau.relu(x))
    node = made.graph.find_nodes(op="call_function", target=flambeau.relu)[0]
    node.target = flambeau.neg
    assert made(flambeau.ones(1)).item() == 1
    made.recompile()
    assert made(flambeau.ones(1)).item() == -1
    with made.graph.on_generate_code(lambda _: lambda body: ["x = x + 1\n", *body]):
        made.recompile()
    assert made(flambeau.ones(1)).item() == -2


def test_modules_are_written_as_packages(tmp_path, monkeypatch):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.act = nn.Linear(3, 2), nn.GELU()
            self.register_buffer("shift", flambeau.ones(2))
            self.scale = nn.Parameter(flambeau.ones(2))

        def forward(self, x):
            return self.act(self.layer(x)) * self.scale + self.shift

    made = fx.symbolic_trace(Net())
    with pytest.warns(UserWarning, match="Was not able to save the following children modules"):
        made.to_folder(tmp_path / "written", "Written")
    monkeypatch.syspath_prepend(tmp_path)
    twin = importlib.import_module("written").Written()
    x = flambeau.randn(4, 3)
    assert flambeau.equal(twin(x), made(x))
    assert twin.state_dict().keys() == made.state_dict().keys()


def test_hooks_are_told_of_changes():
    made = fx.symbolic_trace(lambda x: flambeau.relu(x) + 1)
    made_nodes, gone = [], []
    made._register_create_node_hook(made_nodes.append)
    made._register_erase_node_hook(gone.append)
    relu = made.graph.find_nodes(op="call_function", target=flambeau.relu)[0]
    with made.graph.inserting_after(relu):
        new = made.graph.call_function(flambeau.neg, relu.args)
    relu.replace_all_uses_with(new)
    made.graph.erase_node(relu)
    assert (made_nodes, gone) == ([new], [relu])


def test_a_module_from_a_dictionary_holds_what_it_names():
    graph = fx.Graph()
    x = graph.placeholder("x")
    called = graph.call_module("deep.layer", (x,))
    graph.output(graph.call_function(flambeau.add, (called, graph.get_attr("deep.shift"))))
    layer = nn.Linear(2, 2)
    made = fx.GraphModule({"deep.layer": layer, "deep.shift": flambeau.ones(2)}, graph, "Made")
    assert type(made).__name__ == "Made"
    assert made.deep.layer is layer
    assert list(dict(made.named_buffers())) == ["deep.shift"]
    x = flambeau.randn(1, 2)
    assert flambeau.equal(made(x), layer(x) + 1)


def test_classes_that_hold_proxies():
    class Box(metaclass=fx.ProxyableClassMeta):
        def __init__(self, left, right):
            self.left, self.right = left, right

    made = fx.symbolic_trace(lambda x, y: Box(x, y))
    box = made(flambeau.ones(1), flambeau.zeros(1))
    assert isinstance(box, Box) and box.right.item() == 0


PROGRAM = """
import torch, torch.fx
import torch.nn as nn
from torch.fx import symbolic_trace, Interpreter
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg
gm = symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
ShapeProp(gm).propagate(torch.ones(4, 2))
print([tuple(n.meta["tensor_meta"].shape) for n in gm.graph.nodes], torch.fx.GraphModule.__name__)
print(make_fx(torch.sin)(torch.ones(1)).code.strip().splitlines()[-1])
"""


def test_programs_that_say_torch(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "flambeau", str(tmp_path / "program.py")],
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "[(4, 2), (4, 3), (4, 3), (4, 3)] GraphModule",
        "    return sin",
    ], done.stderr


def test_importing_the_package_loads_little():
    code = "import flambeau, flambeau.fx, sys; print([m for m in sys.modules if '.fx.' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "['flambeau.fx.wrapping']"
    code = "import flambeau, sys; print('flambeau.fx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_operands_of_einsum_in_a_tuple_are_recorded_one_by_one():
    def program(a, b):
        return flambeau.einsum("ij,jk->ik", (a, b))

    graph = flambeau.fx.symbolic_trace(program).graph
    (node,) = [n for n in graph.nodes if n.op == "call_function"]
    assert [str(a) for a in node.args] == ["ij,jk->ik", "a", "b"]
