"""add_graph: modules are scopes, ops are nodes inside, edges lead from who made a tensor."""

import contextlib
import dataclasses
import io
import threading

import pytest

import flambeau as fl
from flambeau import interposing, nn
from flambeau.eager import methods
from flambeau.nn import functional as F

pytest.importorskip("tensorboard")
from flambeau.utils.tensorboard import SummaryWriter
from flambeau.utils.tensorboard._pytorch_graph import graph
from tests.watching.tensorboard_cases import read_events


def nodes_of(model, args, **options):
    proto, _ = graph(model, args, **options)
    found = {node.name: node for node in proto.node}
    assert len(found) == len(proto.node)  # names are unique
    for node in proto.node:
        for name in node.input:
            source, _, output = name.partition(":")
            assert source in found, f"{node.name} takes {name}"
            assert int(output or 0) < len(found[source].attr["_output_shapes"].list.shape)
    return found


def shapes(node):
    return [[d.size for d in shape.dim] for shape in node.attr["_output_shapes"].list.shape]


def behind(found, name):
    """All nodes that a node depends on."""
    seen, stack = set(), [name]
    while stack:
        for source in found[stack.pop()].input:
            source = source.partition(":")[0]
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return seen


class Block(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return fl.relu(self.norm(self.conv(x)) + x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Block(), Block())
        self.heads = nn.ModuleList([nn.Linear(48, 5), nn.Linear(48, 2)])

    def forward(self, x):
        x = self.body(x).flatten(1)
        return [head(x) for head in self.heads]


def test_names_nest_as_modules_do():
    found = nodes_of(Net(), fl.randn(2, 3, 4, 4))
    block = "Net/Sequential[body]/Block[1]"
    described = {n: (node.op, list(node.input), shapes(node)) for n, node in found.items()}
    expected = {
        "input/x": ("IO Node", [], [[2, 3, 4, 4]]),
        f"{block}/Conv2d[conv]/weight": ("Parameter", [], [[3, 3, 3, 3]]),
        f"{block}/BatchNorm2d[norm]/running_var": ("Buffer", [], [[3]]),
        f"{block}/Conv2d[conv]/conv2d": (
            "aten::conv2d",
            [
                "Net/Sequential[body]/Block[0]/relu",
                f"{block}/Conv2d[conv]/weight",
                f"{block}/Conv2d[conv]/bias",
            ],
            [[2, 3, 4, 4]],
        ),
        f"{block}/add": (
            "aten::add",
            [f"{block}/BatchNorm2d[norm]/batch_norm", "Net/Sequential[body]/Block[0]/relu"],
            [[2, 3, 4, 4]],
        ),
        "Net/flatten": ("aten::flatten", [f"{block}/relu"], [[2, 48]]),
        "Net/ModuleList[heads]/Linear[1]/linear": (
            "aten::linear",
            [
                "Net/flatten",
                "Net/ModuleList[heads]/Linear[1]/weight",
                "Net/ModuleList[heads]/Linear[1]/bias",
            ],
            [[2, 2]],
        ),
        "output/output.2": ("IO Node", ["Net/ModuleList[heads]/Linear[1]/linear"], [[2, 2]]),
    }
    assert {name: described[name] for name in expected} == expected


def _mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 2)), fl.ones(3, 4)


def _convnet():
    layers = nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4, 2), nn.LogSoftmax(1)), fl.ones(2, 1, 8, 8)


def _transformer():
    return nn.TransformerEncoderLayer(8, 2, 16), fl.ones(5, 2, 8)


def _decoder():
    layer = nn.TransformerDecoderLayer(8, 2, 16)
    return nn.TransformerDecoder(layer, 2), (fl.ones(5, 2, 8), fl.ones(4, 2, 8))


class _Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.rnn = getattr(nn, kind)(4, 6, 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(12, 10)

    def forward(self, words):
        result, _ = self.rnn(self.embed(words))
        return self.out(result[:, -1])


def _recurrent(kind):
    return lambda: (_Recurrent(kind), fl.zeros(2, 5, dtype=fl.long))


def _cell():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(3, 3)

        def forward(self, xs):
            h = fl.zeros(2, 3)
            for x in xs:
                h = self.cell(x, h)
            return h

    return Loop(), fl.ones(4, 2, 3)


def _two_inputs():
    return nn.Bilinear(2, 3, 4), (fl.ones(5, 2), fl.ones(5, 3))


def _functional():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(fl.ones(3, 4))

        def forward(self, x):
            x = F.linear(x, self.w)
            x = 1 - x / 2 + x**2
            x = F.normalize(F.softmax(x, dim=-1))
            x = fl.cat([x, x.exp(), 2 * x], dim=1)
            a, b, c = x.split(3, dim=1)
            return (a @ b.t()).sum() + c.mean()

    return Plain(), fl.ones(2, 4)


def _lazy():
    return nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()), fl.ones(2, 4)


def _function():
    def work(x, y):
        return (x * y).tanh()

    return work, (fl.ones(3), fl.ones(3))


ARCHITECTURES = {
    "mlp": _mlp,
    "convnet": _convnet,
    "resnet": lambda: (Net(), fl.randn(2, 3, 4, 4)),
    "transformer": _transformer,
    "decoder": _decoder,
    "lstm": _recurrent("LSTM"),
    "gru": _recurrent("GRU"),
    "rnn": _recurrent("RNN"),
    "cell": _cell,
    "two inputs": _two_inputs,
    "functional": _functional,
    "lazy": _lazy,
    "function": _function,
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_outputs_depend_on_all_inputs_and_parameters(name):
    fl.manual_seed(0)
    model, args = ARCHITECTURES[name]()
    found = nodes_of(model, args)
    outputs = [n for n in found if n.startswith("output/")]
    reached = set().union(*(behind(found, n) for n in outputs))
    inputs = {n for n in found if n.startswith("input/")}
    assert inputs and inputs <= reached
    assert not [n for n in found if found[n].op == "prim::Constant"]
    if isinstance(model, nn.Module):
        parameters = {n for n in found if found[n].op == "Parameter"}
        assert parameters <= reached
        assert len(parameters) == len(list(model.parameters()))
    ops = {n for n in found if found[n].op.startswith("aten::")}
    root = type(model).__name__ if isinstance(model, nn.Module) else "work"
    assert ops and all(n.startswith(root + "/") for n in ops)


def test_lists_tuples_dictionaries_and_dataclasses_are_looked_into():
    @dataclasses.dataclass
    class Result:
        logits: object
        loss: object = None

    class Many(nn.Module):
        def forward(self, pair, named, unused, *rest):
            total = pair[0] + pair[1][0] + named["a"]
            return {"sum": total, "more": (total * 2, [rest[0] - 1]), "r": Result(total.exp())}

    one = fl.ones(2)
    args = ((one, [one + 1]), {"a": one + 2}, one + 3, one + 4)
    found = nodes_of(Many(), args)
    inputs = [n for n in found if n.startswith("input/")]
    assert inputs == ["input/pair.0", "input/pair.1.0", "input/named.a", "input/input.4"]
    outputs = {n: (found[n].input[0], found[n].attr["attr"].s) for n in found if "output/" in n}
    assert outputs == {
        "output/output.1": ("Many/add.1", b"{ place : sum}"),
        "output/output.2": ("Many/mul", b"{ place : more.0}"),
        "output/output.3": ("Many/sub", b"{ place : more.1.0}"),
        "output/output.4": ("Many/exp", b"{ place : r.logits}"),
    }


def test_several_results_have_numbers():
    def work(x):
        low, high = x.chunk(2)
        _, places = high.sort()
        return low + places

    found = nodes_of(work, fl.arange(4.0))
    assert shapes(found["work/chunk"]) == [[2], [2]]
    assert list(found["work/sort"].input) == ["work/chunk:1"]
    assert list(found["work/add"].input) == ["work/chunk", "work/sort:1"]


def test_writes_in_place_lead_on():
    def work(x):
        y = x * 1
        y += 1
        y.mul_(2)
        y[0] = 7
        return y.relu_().data

    found = nodes_of(work, fl.ones(2, 2))
    chain, name = [], "output/output.1"
    while found[name].input:
        name = found[name].input[0]
        chain.append(name)
    assert chain == [
        "work/relu_",
        "work/fill_",
        "work/mul_",
        "work/add_",
        "work/mul",
        "input/x",
    ]


def test_writes_into_a_view_change_the_whole():
    def work(x):
        y = x.exp()
        left, right = y.chunk(2)
        left.mul_(2)
        y[0][1:] = 3
        return y + 1, right

    found = nodes_of(work, fl.ones(4, 3))
    assert list(found["work/add"].input) == ["work/fill_"]
    assert list(found["output/output.2"].input) == ["work/chunk:1"]
    assert list(found["work/select"].input) == ["work/mul_"]


def test_a_module_called_twice_stays_in_its_scope():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.again = self.fc

        def forward(self, x):
            return self.again(self.fc(x))

    found = nodes_of(Twice(), fl.ones(1, 2))
    assert list(found["Twice/Linear[fc]/linear.1"].input) == [
        "Twice/Linear[fc]/linear",
        "Twice/Linear[fc]/weight",
        "Twice/Linear[fc]/bias",
    ]


def test_tensors_from_nowhere_are_constants():
    kept = fl.tensor([1.0, 2.0])

    class Closed(nn.Module):
        def forward(self, x):
            return x + kept + nn.ReLU()(x)

    found = nodes_of(Closed(), fl.ones(2))
    assert found["Closed/constant"].op == "prim::Constant"
    assert (
        found["Closed/constant"].attr["attr"].s == b"{ dtype : torch.float32, value : [1.0, 2.0]}"
    )
    assert found["Closed/ReLU/relu"].op == "aten::relu"  # a module that is nobody's child


def test_arguments_are_told_by_name():
    def work(x):
        return x.permute(1, 0)[:, None, 1:].reshape(-1).clamp(min=0.5).to(fl.float64).to(fl.float64)

    found = nodes_of(work, fl.ones(2, 3))
    told = {name: node.attr["attr"].s.decode() for name, node in found.items()}
    assert told == {
        "input/x": "",
        "output/output.1": "",
        "work/permute": "{ dims : [1, 0]}",
        "work/slice": "{ index : [:, None, 1:]}",
        "work/reshape": "{ shape : -1}",
        "work/clamp": "{ min : 0.5}",
        "work/to": "{ 1 : torch.float64}",
    }


def test_functions_of_users_are_one_node_and_checkpoints_are_looked_into():
    from flambeau.utils.checkpoint import checkpoint

    class Double(fl.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    class Checked(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            x = checkpoint(self.fc, x, use_reentrant=False)
            x = checkpoint(self.fc, x, use_reentrant=True)
            return Double.apply(x, 2)

    found = nodes_of(Checked(), fl.ones(1, 2))
    assert found["Checked/Double"].op == "Double"
    assert list(found["Checked/Double"].input) == ["Checked/Linear[fc]/linear.1"]
    assert found["Checked/Linear[fc]/linear.1"].input[0] == "Checked/Linear[fc]/linear"
    assert not [n for n in found if "/mul" in n]


def test_autocast_inside_changes_nothing_in_the_graph():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            with fl.autocast("cpu", dtype=fl.bfloat16):
                x = self.fc(x)
            return self.fc(x.float())

    model = Mixed()
    found = nodes_of(model, fl.ones(1, 2))
    assert [n for n in found if found[n].op == "aten::linear"] == [
        "Mixed/Linear[fc]/linear",
        "Mixed/Linear[fc]/linear.1",
    ]
    assert model.fc(fl.ones(1, 2)).dtype is fl.float32
    with fl.autocast("cpu", dtype=fl.bfloat16):
        assert model.fc(fl.ones(1, 2)).dtype is fl.bfloat16


def test_the_model_is_left_as_it_was():
    model = Net()
    model.body[0].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    state = {k: v.clone() for k, v in model.state_dict().items()}
    code = interposing.own_code(methods.function("linear"))
    nodes_of(model, fl.randn(2, 3, 4, 4))
    assert modes == {name: module.training for name, module in model.named_modules()}
    assert modes["body.0"] is False and modes["body.1"] is True
    assert all((v == state[k]).all() for k, v in model.state_dict().items())
    assert interposing.own_code(methods.function("linear")) is code


def test_other_threads_are_not_recorded():
    done = threading.Event()

    def work(x):
        thread = threading.Thread(target=lambda: (fl.ones(3).exp().log(), done.set()))
        thread.start()
        thread.join()
        return x + 1

    assert [n for n in nodes_of(work, fl.ones(2)) if n.startswith("work/")] == ["work/add"]
    assert done.is_set()


def test_errors_are_told_and_leave_nothing_behind(tmp_path):
    code = interposing.own_code(methods.function("linear"))
    printed = io.StringIO()
    model = nn.Linear(2, 2)
    with SummaryWriter(tmp_path) as writer:
        with contextlib.redirect_stdout(printed), pytest.raises(RuntimeError) as raised:
            writer.add_graph(model, fl.ones(3))
        assert "mat1 and mat2 shapes cannot be multiplied (1x3 and 2x2)" in str(raised.value)
        assert printed.getvalue() == f"{raised.value}\nError occurs, No graph saved\n"
        with contextlib.redirect_stdout(printed), pytest.raises(RuntimeError, match="input_to_mod"):
            writer.add_graph(model)
        with pytest.raises(TypeError, match="'int' object is not iterable"):
            writer.add_graph(model, 3)
    assert model.training
    assert interposing.own_code(methods.function("linear")) is code
    assert not [e for e in read_events(tmp_path)["."] if "graph_def" in e]


def test_verbose_prints_the_graph(tmp_path, capsys):
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(nn.Linear(2, 3), fl.ones(1, 2), verbose=True)
    printed = capsys.readouterr().out
    assert "%Linear/linear : [1, 3] = aten::linear(%input/input, %Linear/weight" in printed
    events = read_events(tmp_path)["."]
    assert [key for e in events for key in e if key in ("graph_def", "tagged_run_metadata")] == [
        "graph_def",
        "tagged_run_metadata",
    ]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scopes_inputs_and_shapes_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    from torch.utils.tensorboard._pytorch_graph import graph as their_graph

    def build(torch):
        nn = torch.nn

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(3, 3, 3, padding=1)
                self.norm = nn.BatchNorm2d(3)

            def forward(self, x):
                return torch.relu(self.norm(self.conv(x)) + x)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(Block(), Block())
                self.fc = nn.Linear(48, 5)

            def forward(self, x, scale):
                return torch.log_softmax(self.fc(self.body(x).flatten(1)) * scale, dim=1)

        return Net()

    def described(proto):
        """(scope, shape) of ops that make tensors; parameters by name."""
        ops, others = [], set()
        for node in proto.node:
            scope = node.name.rpartition("/")[0]
            if node.op.startswith("aten::"):
                kind = node.op.replace("::_convolution", "::conv2d")
                ops.append((scope, kind, shapes(node)))
            elif node.op in ("prim::GetAttr", "Parameter", "Buffer"):
                # PyTorch puts Net/fc/weight into Net/fc/weight/weight
                others.add(scope if node.op == "prim::GetAttr" else node.name)
            elif scope in ("input", "output"):
                others.add((node.name, str(shapes(node))))
        return ops, others

    args = (2, 3, 4, 4), (2, 1)
    theirs = described(their_graph(build(torch), tuple(map(torch.ones, args)))[0])
    assert described(graph(build(fl), tuple(map(fl.ones, args)))[0]) == theirs
    assert len(theirs[0]) == 12
