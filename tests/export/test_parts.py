"""Parts of export: signatures, calls, branches, submodules, tables of decompositions, models."""

import dataclasses

import pytest

import flambeau as torch
from flambeau import export as ex
from flambeau import nn, vision
from flambeau._subclasses import FakeTensor
from flambeau.export.graph_signature import InputKind, OutputKind
from flambeau.fx.experimental.proxy_tensor import make_fx


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("passing", torch.ones(2), persistent=False)
        self.constant = torch.ones(2)

    def forward(self, x, *, scale=1.0, more=None):
        self.seen += 1
        self.passing = self.passing * 2
        y = self.layer(x) * scale + self.constant + self.passing
        return y if more is None else y + more["a"]


def test_signature_state_and_mutations():
    model = Counter()
    program = ex.export(model, (torch.ones(1, 2),), {"scale": 2.0, "more": {"a": torch.ones(2)}})
    assert model.seen == 0 and model.passing.tolist() == [1, 1]  # recording left no trace
    signature = program.graph_signature
    assert signature.parameters == ("layer.weight", "layer.bias")
    assert signature.buffers == ("seen", "passing")
    assert signature.non_persistent_buffers == ("passing",)
    assert signature.lifted_tensor_constants == ("constant",)
    assert signature.user_inputs == ("x", 2.0, "more_a")
    assert list(program.state_dict) == ["layer.weight", "layer.bias", "seen"]
    assert sorted(program.constants) == ["constant", "passing"]
    kinds = [spec.kind for spec in signature.input_specs]
    assert kinds.count(InputKind.PARAMETER) == 2 and kinds[-1] is InputKind.USER_INPUT
    lowered = program.run_decompositions()
    kinds = [spec.kind for spec in lowered.graph_signature.output_specs]
    assert kinds == [OutputKind.BUFFER_MUTATION] * 2 + [OutputKind.USER_OUTPUT]
    assert list(lowered.graph_signature.buffers_to_mutate.values()) == ["seen", "passing"]
    assert not any(str(n.target).endswith("_.Tensor") for n in lowered.graph.nodes)
    for found in (program, lowered):
        runs = found.module()
        args = (torch.ones(1, 2),), {"scale": 2.0, "more": {"a": torch.ones(2)}}
        first, second = runs(*args[0], **args[1]), runs(*args[0], **args[1])
        assert torch.equal(second - first, torch.full((1, 2), 2.0))
        assert runs.seen == 2 and runs.passing.tolist() == [4, 4]
        runs.seen.zero_()
        runs.passing.fill_(1)


def test_calls_are_checked():
    program = ex.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    runs = program.module()
    with pytest.raises(AssertionError, match=r"Guard failed: input.size\(\)\[0\] == 1"):
        runs(torch.ones(2, 2))
    with pytest.raises((ValueError, TypeError)):
        runs(torch.ones(1, 2), torch.ones(1))
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(torch.ones(1, 2))
    with pytest.raises(NotImplementedError, match=r"Calling train\(\) is not supported yet"):
        runs.train()


def test_values_of_nodes():
    program = ex.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    weight = next(iter(program.graph.nodes)).meta["val"]
    assert isinstance(weight, FakeTensor) and weight.requires_grad
    assert repr(weight) == "FakeTensor(..., size=(2, 2), requires_grad=True)"
    assert weight.device == torch.device("cpu")
    linear = program.graph.find_nodes(op="call_function", target=torch.ops.aten.linear.default)[0]
    assert next(iter(linear.meta["nn_module_stack"].values()))[0] == ""


@dataclasses.dataclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor


ex.register_dataclass(Pair)


def test_dataclasses():
    class Swap(nn.Module):
        def forward(self, pair):
            return Pair(pair.b + 1, pair.a)

    pair = Pair(torch.zeros(2), torch.ones(2))
    found = ex.export(Swap(), (pair,)).module()(pair)
    assert isinstance(found, Pair) and found.a.tolist() == [2, 2]


class Choice(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        yes, no = (lambda a: self.one(a) + 1), (lambda a: self.two(a * 2))
        return torch.cond(x.sum() > 0, yes, no, (x,)) * 2


def test_branches_on_values():
    model = Choice()
    program = ex.export(model, (torch.ones(3, 2),), dynamic_shapes=({0: ex.Dim("batch")},))
    assert "cond = torch.ops.higher_order.cond(gt, true_graph_0, false_graph_0, (x, " in str(
        program
    )
    assert "class true_graph_0(torch.nn.Module):" in str(program)
    for found in (program, program.run_decompositions()):
        for x in (torch.ones(5, 2), -torch.ones(4, 2)):
            torch.testing.assert_close(found.module()(x), model(x))
    with pytest.raises(RuntimeError, match="same shape and dtype"):

        class Wrong(nn.Module):
            def forward(self, x):
                return torch.cond(x.sum() > 0, lambda a: a, lambda a: a[:1], (x,))

        ex.export(Wrong(), (torch.ones(3),))


def test_parts_without_gradients():
    class Target(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            with torch.no_grad():
                goal = self.layer(x) * 2
            return goal + self.layer(x)

    model = Target()
    program = ex.export(model, (torch.ones(3, 2),))
    assert "torch.ops.higher_order.wrap_with_set_grad_enabled(False, submod_1, " in str(program)
    x = torch.randn(3, 2)
    model(x).sum().backward()
    expected = model.layer.weight.grad.clone()
    model.zero_grad()
    program.module()(x).sum().backward()
    torch.testing.assert_close(model.layer.weight.grad, expected)
    lowered = program.run_decompositions()
    assert "higher_order" not in lowered.graph_module.code
    torch.testing.assert_close(lowered.module()(x), model(x))


@pytest.mark.parametrize("kind", ["cond", "no_grad"])
def test_graphs_within_graphs_in_files(kind, tmp_path):
    class Quiet(nn.Module):
        def forward(self, x):
            with torch.no_grad():
                y = x * 2
            return y + x

    model = Choice() if kind == "cond" else Quiet()
    program = ex.export(model, (torch.ones(3, 2),), dynamic_shapes=({0: ex.Dim("batch")},))
    ex.save(program, tmp_path / "model.pt2")
    found = ex.load(tmp_path / "model.pt2")
    for x in (torch.ones(5, 2), -torch.ones(4, 2)):
        torch.testing.assert_close(found.module()(x), model(x))
    assert found.graph_module.code == program.graph_module.code


def test_custom_ops():
    @torch.library.custom_op("testlib::twice", mutates_args=())
    def twice(x: torch.Tensor, times: int = 2) -> torch.Tensor:
        return x * times

    twice.register_fake(lambda x, times=2: torch.empty_like(x))

    class Uses(nn.Module):
        def forward(self, x):
            return torch.ops.testlib.twice(x, 3) + twice(x)

    program = ex.export(Uses(), (torch.ones(2),))
    assert "torch.ops.testlib.twice.default(x, 3)" in program.graph_module.code
    assert program.module()(torch.ones(2)).tolist() == [5, 5]
    assert program.run_decompositions().module()(torch.ones(2)).tolist() == [5, 5]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.last = Block(), nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def forward(self, x):
        y = self.block(self.block(x)) + 1
        return self.last(y), y


def test_submodules_come_back():
    model = Net()
    module = ex.unflatten(ex.export(model, (torch.ones(1, 2),)))
    assert str(module.graph).splitlines()[2:5] == [
        "    %block : [num_users=1] = call_module[target=block](args = (%x,), kwargs = {})",
        "    %block_1 : [num_users=1] = call_module[target=block](args = (%block,), kwargs = {})",
        "    %add : [num_users=2] = call_function[target=torch.ops.aten.add.Tensor]"
        "(args = (%block_1, 1), kwargs = {})",
    ]
    assert [name for name, _ in module.named_modules()] == [
        "", "block", "block.layer", "last", "last.0", "last.1",
    ]  # fmt: skip
    x = torch.randn(1, 2)
    torch.testing.assert_close(module(x), model(x))
    assert module.state_dict().keys() == model.state_dict().keys()


def test_tables_of_decompositions():
    program = ex.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    kept = program.run_decompositions({})
    assert "torch.ops.aten.linear.default" in kept.graph_module.code
    table = ex.default_decompositions()
    del table[torch.ops.aten.linear.default]
    assert "aten.linear" in program.run_decompositions(table).graph_module.code
    own = {torch.ops.aten.relu.default: lambda x: torch.ops.aten.clamp.default(x, 0)}
    program = ex.export(nn.ReLU(), (torch.ones(2),))
    assert "aten.clamp.default(input_1, 0)" in program.run_decompositions(own).graph_module.code


def test_symbolic_sizes_in_make_fx():
    graph = make_fx(lambda x: x.view(x.shape[0] * x.shape[1]), tracing_mode="symbolic")
    found = graph(torch.ones(3, 4))
    assert "sym_size" in found.code and found(torch.ones(5, 6)).shape == (30,)
    fake = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.ones(2))
    assert isinstance(next(iter(fake.graph.nodes)).meta["val"], FakeTensor)
    kept = make_fx(nn.Linear(2, 2), pre_dispatch=True)(torch.ones(1, 2))
    assert "aten.linear.default" in kept.code


MODELS = {
    "resnet18": lambda: vision.models.resnet18(),
    "mobilenet_v3_small": lambda: vision.models.mobilenet_v3_small(),
    "shufflenet": lambda: vision.models.shufflenet_v2_x0_5(),
    "squeezenet": lambda: vision.models.squeezenet1_1(),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_models_for_other_batches(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    program = ex.export(model, (torch.randn(2, 3, 64, 64),), dynamic_shapes=({0: ex.Dim("batch")},))
    x = torch.randn(3, 3, 64, 64)
    with torch.no_grad():
        expected = model(x)
        torch.testing.assert_close(program.module()(x), expected)
        torch.testing.assert_close(program.run_decompositions().module()(x), expected)


OPS = {
    "aten.add.Tensor": "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "aten.relu.default": "aten::relu(Tensor self) -> Tensor",
    "aten.view.default": "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)",
    "aten.convolution.default": "aten::convolution(Tensor input, Tensor weight, Tensor? bias, "
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] "
    "output_padding, SymInt groups) -> Tensor",
    "aten.add_.Tensor": "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> "
    "Tensor(a!)",
}


@pytest.mark.parametrize("name", list(OPS))
def test_ops_and_schemas(name):
    _, short, kind = name.split(".")
    op = getattr(getattr(torch.ops.aten, short), kind)
    assert str(op) == name and str(op._schema) == OPS[name]
    assert op._schema.is_mutable == short.endswith("_")
    assert kind in op.overloadpacket.overloads()


def test_ops_are_called_by_their_schemas():
    aten, x = torch.ops.aten, torch.randn(1, 2, 4, 4)
    weight = torch.randn(3, 2, 3, 3)
    found = aten.convolution.default(x, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    torch.testing.assert_close(found, nn.functional.conv2d(x, weight, padding=1))
    rest = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True)
    torch.testing.assert_close(aten._convolution(x, weight, None, *rest), found)
    values, places = aten.max_pool2d_with_indices.default(x, [2, 2])
    assert values.shape == places.shape == (1, 2, 2, 2)
    assert aten.slice.Tensor(x, 3, 1, 3).shape == (1, 2, 4, 2)
    assert aten._softmax.default(x, -1, False).sum() > 0
    loss = aten.mse_loss.default(x, x + 1, 2)
    assert loss.item() == pytest.approx(32, rel=1e-5)
    with pytest.raises(AttributeError, match="has no overload name 'Nothing'"):
        getattr(aten.add, "Nothing")  # noqa: B009  an attribute that is not there
