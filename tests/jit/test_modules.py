"""Script modules as Python sees them: attributes, state, copies, marks, frozen ones."""

import copy
import dataclasses
import io
import pickle
from typing import Final, Optional

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import Tensor, nn
from tests.jit.loading import close, fill, plain, programs

P = programs()
ramp = P.ramp


def test_attributes_are_those_of_the_module():
    model = P.Attributes()
    made = torch.jit.script(model)
    assert made.weight is model.weight
    assert (made.steps, made.names, made.pair, made.limit) == (0, ["a", "b"], (1, 0.5), 3)
    made(ramp(3))
    assert made.steps == 1 and model.steps == 0
    assert made.reset(7) == 7 and made.steps == 7
    made.steps = 3
    assert made(ramp(3))[2] == 4
    with pytest.raises(RuntimeError, match="Could not cast attribute 'steps' to type int"):
        made.steps = "many"


def test_state_and_parameters_are_shared():
    model = P.ConvNet()
    made = torch.jit.script(model)
    assert list(made.state_dict()) == list(model.state_dict())
    assert [n for n, _ in made.named_parameters()] == [n for n, _ in model.named_parameters()]
    assert [n for n, _ in made.named_modules()] == [n for n, _ in model.named_modules()]
    made.load_state_dict({k: v + 1 for k, v in made.state_dict().items()})
    assert torch.equal(model.head.bias, made.head.bias)


def test_training_and_evaluation():
    made = torch.jit.script(nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(4)))
    made.eval()
    x = ramp(8, 4)
    assert torch.equal(made(x), made(x))
    made.train()
    assert made[0].training and not torch.equal(made(x), made(x))
    assert made[1].num_batches_tracked == 2


def test_conversion():
    made = torch.jit.script(P.Mlp()).double()
    assert made(ramp(2, 4).double()).dtype == torch.float64
    assert made.to(torch.float32)(ramp(2, 4)).dtype == torch.float32


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies(copied):
    made = torch.jit.script(P.Mlp()).eval()
    other = copied(made)
    assert torch.equal(other(ramp(2, 4)), made(ramp(2, 4)))
    assert (other.first.weight is made.first.weight) == (copied is copy.copy)
    assert other.training is False


def test_programs_are_not_pickled(tmp_path):
    made = torch.jit.script(P.Mlp())
    for write in (pickle.dumps, lambda m: torch.save(m, tmp_path / "m.pt")):
        with pytest.raises(RuntimeError, match=r"Tried to serialize object __torch__.*Mlp"):
            write(made)
    with pytest.raises(pickle.PickleError, match="ScriptFunction cannot be pickled"):
        pickle.dumps(torch.jit.script(P.helper))


def test_texts():
    made = torch.jit.script(P.Mlp())
    assert repr(made) == (
        "RecursiveScriptModule(\n  original_name=Mlp\n"
        "  (first): RecursiveScriptModule(original_name=Linear)\n"
        "  (second): RecursiveScriptModule(original_name=Linear)\n"
        "  (drop): RecursiveScriptModule(original_name=Dropout)\n)"
    )
    assert made.first.code == (
        "def forward(self,\n    input: Tensor) -> Tensor:\n  weight = self.weight\n"
        "  bias = self.bias\n  return torch.linear(input, weight, bias)\n"
    )
    assert {n.kind() for n in made.graph.nodes()} > {"prim::GetAttr", "prim::CallMethod"}


def test_scripts_of_scripts_are_themselves():
    made = torch.jit.script(P.Mlp())
    assert torch.jit.script(made) is made
    function = torch.jit.script(P.helper)
    assert torch.jit.script(function) is function


class Marks(nn.Module):
    limit: Final[int] = 3

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.anything = object()

    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) > self.limit:
            return self.broken(x)
        return self.in_python(x, 2)

    @torch.jit.ignore
    def in_python(self, x: Tensor, n: int) -> Tensor:
        return x * eval("n + 1")

    @torch.jit.unused
    def broken(self, x: Tensor) -> Tensor:
        return eval("x")

    @torch.jit.export
    def more(self, x: Tensor, y: Optional[Tensor] = None) -> Tensor:  # noqa: UP045
        return x if y is None else x + y


def test_marks():
    made = torch.jit.script(Marks())
    assert torch.equal(made(ramp(2)), ramp(2) * 3)
    assert torch.equal(made.more(ramp(2), ramp(2)), ramp(2) * 2)
    with pytest.raises(torch.jit.Error, match="unused"):
        made(ramp(5))
    with pytest.raises(RuntimeError, match="Could not export Python function call 'in_python'"):
        made.save_to_buffer()


@torch.jit.interface
class Step(nn.Module):
    def forward(self, input: Tensor) -> Tensor:
        pass


class Stepping(nn.Module):
    step: Step

    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, x: Tensor) -> Tensor:
        return self.step.forward(x) + 1


@pytest.mark.parametrize("step", [nn.ReLU(), nn.Tanh()], ids=["relu", "tanh"])
def test_interfaces(step):
    made = torch.jit.script(Stepping(step))
    assert torch.allclose(made(ramp(3)), step(ramp(3)) + 1)


class Older(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.count = torch.jit.Attribute(2, int)

    @torch.jit.script_method
    def forward(self, x):
        for _ in range(self.count):
            x = self.layer(x)
        return x


def test_modules_that_were_written_as_scripts():
    made = Older()
    x = ramp(1, 2)
    assert torch.allclose(made(x), made.layer(made.layer(x)))
    assert "forward" in made.code and "prim::Loop" in str(made.graph)
    file = io.BytesIO()
    made.save(file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(x), made(x))


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterDict({"a": torch.ones(2), "b": torch.ones(2) * 3})

    def forward(self, x):
        for key, weight in self.weights.items():
            if key == "b":
                x = x + weight
        return x * self.weights["b"]


def test_parameters_by_name():
    made = torch.jit.script(Named())
    assert torch.equal(made(ramp(2)), Named()(ramp(2)))
    assert [name for name, _ in made.named_parameters()] == ["weights.a", "weights.b"]


class Base(nn.Module):
    def helper(self, x):
        return x * 2

    def forward(self, x):
        return self.helper(x) + 1


class Derived(Base):
    def forward(self, x):
        return super().forward(x) * 10

    def helper(self, x):
        return x * 3


def test_derived_classes():
    assert torch.equal(torch.jit.script(Derived())(ramp(3)), Derived()(ramp(3)))


def test_modules_with_the_same_holdings_share_their_type():
    made = torch.jit.script(nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 3)]))
    assert made[0]._type is made[1]._type and made[0]._type is not made[2]._type


LAYERS = [
    (lambda: nn.Conv1d(2, 3, 2, padding=1, padding_mode="circular"), (1, 2, 5)),
    (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), (1, 2, 4, 4)),
    (lambda: nn.BatchNorm1d(3, momentum=None), (4, 3)),
    (lambda: nn.InstanceNorm2d(2, affine=True, track_running_stats=True), (2, 2, 3, 3)),
    (lambda: nn.LocalResponseNorm(2), (1, 3, 4, 4)),
    (lambda: nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), (2, 3, 3)),
    (lambda: nn.RNN(3, 4, nonlinearity="relu"), (5, 3)),
    (lambda: nn.GRUCell(3, 4), (2, 3)),
    (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 1, 3, 3)),
    (lambda: nn.Unfold(2), (1, 1, 3, 3)),
    (lambda: nn.LPPool2d(2, 2), (1, 1, 4, 4)),
    (lambda: nn.PReLU(), (3,)),
    (lambda: nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0), ((3, 1, 4), (2, 1, 4))),
    (lambda: nn.MultiheadAttention(4, 2, batch_first=True), ((1, 3, 4),) * 3),
]


@pytest.mark.parametrize(("layer", "shapes"), LAYERS, ids=[str(k) for k in range(len(LAYERS))])
def test_layers(layer, shapes):
    shapes = shapes if isinstance(shapes[0], tuple) else (shapes,)
    model, inputs = fill(layer()), [ramp(*s) for s in shapes]
    made = torch.jit.script(copy.deepcopy(model))
    for _ in range(2):
        assert close(plain(made(*inputs)), plain(model(*inputs)))
    assert close(plain(made.state_dict()), plain(model.state_dict()))


def frozen(model, **options):
    return torch.jit.freeze(torch.jit.script(model.eval()), **options)


def test_frozen_modules_are_constants():
    model = fill(P.ConvNet()).eval()
    made = frozen(model)
    assert torch.allclose(made(ramp(2, 1, 8, 8)), model(ramp(2, 1, 8, 8)), atol=1e-5)
    assert not list(made.parameters()) and not made.graph.findAllNodes("prim::GetAttr")
    assert not made.graph.findAllNodes("aten::batch_norm")
    exact = frozen(model, optimize_numerics=False)
    assert torch.equal(exact(ramp(2, 1, 8, 8)), model(ramp(2, 1, 8, 8)))


def test_frozen_modules_keep_what_is_asked_for():
    made = frozen(P.Attributes(), preserved_attrs=["reset", "kind"])
    assert made.kind == "sum" and made.reset(5) == 5
    made(ramp(3))
    assert made.steps == 6
    with pytest.raises(RuntimeError, match="modules in eval mode"):
        torch.jit.freeze(torch.jit.script(P.Mlp()))
    with pytest.raises(RuntimeError, match="expects a ScriptModule as input"):
        torch.jit.freeze(P.Mlp())


def test_modules_for_inference():
    model = fill(P.Mlp()).eval()
    made = torch.jit.optimize_for_inference(torch.jit.script(model))
    assert torch.allclose(made(ramp(2, 4)), model(ramp(2, 4)))
    assert torch.jit.export_opnames(made) == ["aten::linear", "aten::relu"]


def test_units_of_text():
    made = torch.jit.CompilationUnit(
        """
        def scale(x: Tensor, n: int) -> Tensor:
            return x * n

        def twice(x):
            return scale(x, 2)
        """
    )
    assert torch.equal(made.twice(ramp(2)), ramp(2) * 2)
    assert made.scale.code.startswith("def scale(x: Tensor,\n    n: int) -> Tensor:")
    with pytest.raises(AttributeError):
        made.missing  # noqa: B018


def test_tasks_and_questions():
    task = torch.jit.fork(lambda x: x + 1, ramp(2))
    assert torch.equal(torch.jit.wait(task), ramp(2) + 1)
    assert torch.jit.isinstance([1, 2], list[int]) and not torch.jit.isinstance([1, "a"], list[int])
    assert torch.jit.isinstance({"a": 1.0}, dict[str, float])
    assert torch.jit.set_fusion_strategy([("STATIC", 3)]) == [("STATIC", 2), ("DYNAMIC", 10)]
    assert torch.jit.set_fusion_strategy([("STATIC", 2), ("DYNAMIC", 10)]) == [("STATIC", 3)]
    torch.jit.script(P.helper)(ramp(2))
    assert torch.jit.last_executed_optimized_graph().findNode("aten::mul") is not None
    assert not torch.jit.is_scripting()


def test_functions_say_what_they_are():
    made = torch.jit.script(P.helper)
    assert made.__name__ == made.name == "helper"
    assert str(made.schema) == "helper(Tensor x, float scale=2.0) -> Tensor"
    assert made.qualified_name.endswith(".helper")
    code, constants = made.code_with_constants
    assert code == made.code and not constants.const_mapping


def test_functions_of_layers_are_attributes():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = F.gelu
            self.pool = torch.max

        def forward(self, x):
            return self.pool(self.act(x))

    assert torch.equal(torch.jit.script(Model())(ramp(3)), Model()(ramp(3)))


@dataclasses.dataclass
class Options:
    width: int
    scale: float = 2.0


def with_options(x: Tensor, n: int) -> Tensor:
    options = Options(n)
    if options == Options(3, 2.0):
        return x * 0
    return x * options.width * options.scale


def test_dataclasses():
    torch.jit.script(Options)
    made = torch.jit.script(with_options)
    assert torch.equal(made(ramp(2), 2), ramp(2) * 4)
    assert torch.equal(made(ramp(2), 3), ramp(2) * 0)


@dataclasses.dataclass
class Selection:
    index: Tensor
    weight: Tensor | None = None
    count: int | None = None


def same_selection(a: Selection, b: Selection) -> bool:
    return a == b


def test_dataclasses_with_missing_values():
    torch.jit.script(Selection)
    same = torch.jit.script(same_selection)
    one, two = torch.ones(1), torch.zeros(1)
    cases = [(one,), (one, one), (one, two), (one, None, 3), (two, None, 3)]
    for a in cases:
        for b in cases:
            assert same(Selection(*a), Selection(*b)) is (a is b)


@pytest.mark.parametrize("make", [torch.jit.script, lambda m: torch.jit.trace(m, ramp(1, 2))])
def test_modules_that_are_held_twice_are_one(make):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = self.a

        def forward(self, x):
            return self.b(self.a(x))

    model = Shared()
    made = make(model)
    loaded = torch.jit.load(io.BytesIO(made.save_to_buffer()))
    for other in (made, loaded):
        assert other.a is other.b
        assert torch.equal(other(ramp(3, 2)), model(ramp(3, 2)))


def test_hooks_and_optimizers():
    made, seen = torch.jit.script(nn.Linear(2, 2)), []
    made.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    before = made.weight.detach().clone()
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    made(ramp(3, 2)).sum().backward()
    optimizer.step()
    assert seen == [(3, 2)] and not torch.equal(made.weight, before)


def of_no_dimension(x: Tensor) -> Tensor:
    return torch.zeros((), dtype=x.dtype) + x.reshape(()) + torch.full((), 2.0)


def test_an_empty_tuple_is_a_list_of_sizes():
    assert torch.jit.script(of_no_dimension)(torch.ones(1)).item() == 3


def test_lazy_modules_see_an_input_first():
    model = nn.Sequential(nn.LazyLinear(2))
    text = "nn.modules.linear.LazyLinear' has uninitialized parameters weight, bias. Did you forget"
    with pytest.raises(RuntimeError, match=text):
        torch.jit.script(model)
    model(ramp(3, 4))
    assert torch.jit.script(model)(ramp(3, 4)).shape == (3, 2)
