"""Programs that are recorded: for other inputs, sizes and modules, with PyTorch's warnings."""

import warnings

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from tests.jit.loading import close, fill, plain, programs

P = programs()
ramp = P.ramp


def views(x):
    return x.view(x.size(0), -1) * 2, x.reshape(-1, x.shape[1] // 2), x.flatten(1)


def indices(x):
    y = x.clone()
    y[0] = 3.0
    y[:, 1] = x[:, 0]
    y[y > 2] = 0.0
    return y, x[0, 1:], x[..., None], x[torch.arange(2)], x[:, ::2], x.T, x[-1]


def shaped_zeros(x):
    return torch.zeros(x.size(0), 3) + torch.arange(x.size(0)).unsqueeze(1), x.new_ones(x.shape)


def ops(x):
    a, b = x.chunk(2, dim=1)
    values, places = torch.topk(x, 2)
    y = torch.cat([a, b, values], 1).softmax(-1).clamp(min=0.1)
    return y, places, torch.where(x > 0, x, -x), torch.stack([a, b]).mean(0), x.std(), x.argmax(1)


def reflected(x):
    y = x + 3
    return 2 / y, 2 - y, 2**y, 7 % y, 7 // y, 3 * y, y < 2, y.long(), y.double(), y.bool(), y.T @ y


def sizes_before_tensors(x):
    n, y, z = x.size(0), x + 3, x.long() & 7
    return n * y, n + y, n - y, n / y, n // y, n**y, n % y, n & z, n | z, n ^ z, n << z, n >> z


def losses(x):
    target = torch.zeros(x.size(0), dtype=torch.long)
    return F.cross_entropy(x, target) + F.mse_loss(x, x * 2) + F.binary_cross_entropy_with_logits(
        x, x.sigmoid()
    )  # fmt: skip


def in_place(x):
    y = x * 2
    y.add_(1).relu_()
    z = y[0]
    z.mul_(3)
    return y


def nested(pair, more):
    a, (b, c) = pair
    return a + b, {"c": c * 2, "d": more["x"]}


FUNCTIONS = [reflected, sizes_before_tensors, views, indices, shaped_zeros, ops, losses, in_place]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_recording_holds_for_other_sizes(function):
    made = torch.jit.trace(function, ramp(4, 6))
    made.graph.lint()
    for x in (ramp(4, 6), ramp(5, 8), ramp(3, 4) * 2):
        assert close(plain(made(x.clone())), plain(function(x.clone())))


def test_containers_of_tensors_are_inputs_and_outputs():
    inputs = ((ramp(2), (ramp(2), ramp(3))), {"x": ramp(1)})
    with pytest.raises(RuntimeError, match="Encountering a dict at the output of the tracer"):
        torch.jit.trace(nested, inputs)
    made = torch.jit.trace(nested, inputs, strict=False)
    assert close(plain(made(*inputs)), plain(nested(*inputs)))


def test_other_inputs_are_refused():
    with pytest.raises(RuntimeError, match="cannot be traced"):
        torch.jit.trace(lambda x, n: x * n, (ramp(2), 3))


MODELS = [
    (nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), (3, 4), (7, 4)),
    (P.ConvNet(), (2, 1, 8, 8), (3, 1, 8, 8)),
    (P.ResNet(), (1, 4, 5, 5), (2, 4, 6, 6)),
    (P.Encoder(), (2, 3, 8), (2, 3, 8)),
    (P.Attention(), (2, 5, 8), (3, 4, 8)),
    (nn.LSTM(3, 4, batch_first=True), (2, 5, 3), (2, 5, 3)),
    (nn.GRU(3, 4), (5, 2, 3), (5, 2, 3)),
    (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 3, 8), (2, 3, 8)),
]


@pytest.mark.parametrize(
    ("model", "first", "second"), MODELS, ids=[type(m[0]).__name__ for m in MODELS]
)
def test_recorded_models(model, first, second):
    fill(model).eval()
    made = torch.jit.trace(model, ramp(*first))
    for shape in (first, second):
        assert close(plain(made(ramp(*shape))), plain(model(ramp(*shape))))
    assert list(made.state_dict()) == list(model.state_dict())
    assert all(a is b for a, b in zip(made.parameters(), model.parameters()))


def test_modules_keep_their_place():
    model = P.ConvNet().eval()
    made = torch.jit.trace(model, ramp(1, 1, 8, 8))
    assert isinstance(made, torch.jit.TopLevelTracedModule)
    assert repr(made).startswith("ConvNet(\n  original_name=ConvNet\n  (features): Sequential(")
    assert "(features).forward(x, )" in made.code
    assert made.features[0].graph.findNode("aten::conv2d") is not None
    assert made.inlined_graph.findNode("prim::CallMethod") is None


def test_a_module_that_is_called_twice_has_two_methods():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(self.layer(x).relu())

    model = Twice()
    made = torch.jit.trace(model, ramp(2, 3))
    assert "forward1" in made.code
    assert torch.equal(made(ramp(5, 3)), model(ramp(5, 3)))


def branching(x):
    if x.sum() > 0:
        return x * 2
    return x


def numbers(x):
    return x * float(x.sum())


def counted(x):
    return x + len(x)


def walked(x):
    return sum(row for row in x)


def constants(x):
    return x + torch.tensor([1.0, 2.0])


WARNINGS = [
    (branching, "Converting a tensor to a Python boolean might cause the trace to be incorrect"),
    (numbers, "Converting a tensor to a Python float might cause the trace to be incorrect"),
    (counted, "Using len to get tensor shape might cause the trace to be incorrect"),
    (walked, "Iterating over a tensor might cause the trace to be incorrect"),
    (constants, "torch.tensor results are registered as constants in the trace"),
]


@pytest.mark.parametrize(("function", "start"), WARNINGS, ids=lambda f: getattr(f, "__name__", ""))
def test_what_may_not_hold_is_warned_of(function, start):
    with pytest.warns(torch.jit.TracerWarning) as caught:
        torch.jit.trace(function, ramp(2, 2) + 2)
    assert str(caught[0].message).startswith(start)


def test_wrong_recordings_are_told():
    with pytest.warns(torch.jit.TracerWarning) as caught:
        torch.jit.trace(branching, ramp(2) + 2, check_inputs=[(-ramp(2) - 2,)])
    start = "Output nr 1. of the traced function does not match the corresponding output"
    assert any(str(w.message).startswith(start) for w in caught)
    calls = []

    def changing(x):
        calls.append(1)
        return x + 1 if len(calls) % 2 else x * 2

    with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed across invocations"):
        torch.jit.trace(changing, ramp(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.jit.trace(changing, ramp(2), check_trace=False)
    numbers = iter([1.0, 2.0])
    with (
        pytest.raises(torch.jit.TracingCheckError, match="Tensor-valued Constant nodes differed"),
        pytest.warns(torch.jit.TracerWarning, match="registered as constants"),
    ):
        torch.jit.trace(lambda x: x + torch.tensor(next(numbers)), ramp(2))


@pytest.mark.parametrize("function", [lambda x: x + torch.rand(2), nn.Dropout()])
def test_recordings_that_draw_are_told_of(function):
    with pytest.warns(torch.jit.TracerWarning, match="Trace had nondeterministic nodes"):
        torch.jit.trace(function, ramp(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.jit.trace(nn.Dropout().eval(), ramp(2))


def test_several_methods():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))
            self.inner = nn.Identity()

        def forward(self, x):
            return self.inner(x) * self.weight

        def score(self, x, y):
            return (self.inner(x) * self.weight - y).sum()

    model = Two()
    inputs = {"forward": ramp(2), "score": (ramp(2), ramp(2))}
    made = torch.jit.trace_module(model, inputs)
    assert torch.equal(made(ramp(2)), ramp(2))
    assert torch.equal(made.score(ramp(2), ramp(2) + 1), model.score(ramp(2), ramp(2) + 1))


@torch.jit.script
def clipped(x, limit: float):
    if bool(x.sum() > limit):
        return x * 0
    return x


class Scripted(nn.Module):
    def forward(self, x):
        for _ in range(x.size(0)):
            x = x + 1
        return x


def test_scripts_keep_their_branches_in_recordings():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.jit.script(Scripted())
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return clipped(self.inner(self.layer(x)), 100.0)

    model = Outer()
    made = torch.jit.trace(model, ramp(2, 2))
    for x in (ramp(2, 2), ramp(5, 2), ramp(2, 2) * 1000 + 1000):
        assert torch.equal(made(x), model(x))


def test_recordings_are_called_by_scripts():
    traced = torch.jit.trace(nn.Sequential(nn.Linear(2, 2), nn.Tanh()), ramp(1, 2))
    doubled = torch.jit.trace(lambda x: x * 2, ramp(1))

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = traced

        def forward(self, x, n: int):
            for _ in range(n):
                x = doubled(self.inner(x))
            return x

    made = torch.jit.script(Outer())
    wanted = ramp(3, 2)
    for _ in range(3):
        wanted = traced(wanted) * 2
    assert torch.allclose(made(ramp(3, 2), 3), wanted)


def test_recording_is_a_question_that_is_answered():
    seen = []

    def function(x):
        seen.append(torch.jit.is_tracing())
        return x + 1

    torch.jit.trace(function, ramp(1), check_trace=False)
    assert seen == [True]
    assert not torch.jit.is_tracing()


def test_gradients_go_through_recordings():
    model = P.Mlp().eval()
    made = torch.jit.trace(model, ramp(2, 4))
    made(ramp(3, 4)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@torch.jit.script_if_tracing
def countdown(x, n: int):
    while n > 0:
        x = x + n
        n -= 1
    return x


def test_functions_that_are_scripts_while_recording():
    made = torch.jit.trace(lambda x: countdown(x, x.size(0)), ramp(2))
    assert torch.equal(made(ramp(4)), countdown(ramp(4), 4))


class Counted(torch.nn.Module):
    """Hooks open scopes while it runs, as tools that count operations do."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(2, 4, 3)
        self.up = torch.nn.ConvTranspose1d(4, 4, 2, stride=2)
        for name, module in self.named_modules():
            module.register_forward_pre_hook(
                lambda *_, n=name: torch._C._get_tracing_state().push_scope(n)
            )
            module.register_forward_hook(lambda *_: torch._C._get_tracing_state().pop_scope())

    def forward(self, x):
        return torch.nn.functional.interpolate(self.up(self.conv(x)), scale_factor=2.0)


def test_graphs_of_runs_know_sizes_and_scopes():
    model, x = Counted(), torch.randn(1, 2, 5)
    graph, result = torch.jit._get_trace_graph(model, x)
    assert len(list(graph.inputs())) == 5 and result.shape == (1, 4, 12)
    found = {}
    for node in graph.nodes():
        if node.kind().startswith("aten::"):
            value = node.output()
            assert value.isCompleteTensor() and value.node() is node
            found.setdefault(node.kind(), []).append((node.scopeName(), value.type().sizes()))
    assert found == {
        "aten::_convolution": [("/conv", [1, 4, 3]), ("/up", [1, 4, 6])],
        "aten::upsample_nearest1d": [("", [1, 4, 12])],
    }
    flags = [
        [i.toIValue() for i in n.inputs()][6] for n in graph.findAllNodes("aten::_convolution")
    ]
    assert flags == [False, True]
    assert "Float(1, 4, 12, strides=[48, 12, 1], requires_grad=1, device=cpu)" in str(graph)
    assert torch._C._get_tracing_state() is None
