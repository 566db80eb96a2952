"""Whole programs on a GPU and on the host: training, saving, programs as graphs, quantization."""

import copy
import io

import pytest

import flambeau as torch
from flambeau import nn, optim
from flambeau.ao import quantization
from flambeau.utils.checkpoint import checkpoint

# how each optimizer is made; those of sparse gradients and of matrices get what they want below
OPTIMIZERS = {
    **{
        name: (name, {})
        for name in (
            "SGD Adam AdamW NAdam RAdam Adamax Adagrad Adadelta RMSprop Rprop ASGD LBFGS Adafactor "
            "Muon SparseAdam"
        ).split()
    },
    "nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "amsgrad": ("Adam", {"amsgrad": True, "foreach": False}),
    "fused": ("Adam", {"fused": True}),
    "maximizing": ("AdamW", {"maximize": True}),
}


def _closest(found, wanted):
    torch.testing.assert_close(found.detach().cpu(), wanted.detach(), rtol=2e-3, atol=2e-4)


def _trained(kind, options, device):
    """Parameters after three steps, saved state, and two more steps."""
    torch.manual_seed(0)
    if kind == "SparseAdam":
        model, x = nn.Embedding(6, 5, sparse=True), torch.tensor([1, 2, 3])
    else:
        model, x = nn.Linear(6, 5, bias=kind != "Muon"), torch.randn(4, 6)
    model, x = model.to(device), x.to(device)

    def loss():
        model.zero_grad()
        found = model(x).pow(2).sum()
        found.backward()
        return found

    first = getattr(optim, kind)(model.parameters(), **options)
    for _ in range(3):
        first.step(loss)
    second = getattr(optim, kind)(model.parameters(), **options)
    second.load_state_dict(first.state_dict())
    for _ in range(2):
        second.step(loss)
    return model.weight


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_take_the_hosts_steps(name):
    _closest(_trained(*OPTIMIZERS[name], "cuda"), _trained(*OPTIMIZERS[name], "cpu"))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("order", [2.0, 1.0, float("inf")])
def test_gradients_are_clipped(order, strict):
    torch.manual_seed(0)
    model = nn.Linear(6, 5)
    other = copy.deepcopy(model).cuda()
    for each in (model, other):
        each(torch.ones(4, 6, device=each.weight.device)).pow(2).sum().backward()
    norms = [
        nn.utils.clip_grad_norm_(each.parameters(), 0.5, order, error_if_nonfinite=strict)
        for each in (other, model)
    ]
    _closest(*norms)
    _closest(other.weight.grad, model.weight.grad)


@pytest.mark.parametrize("again", [False, True])
def test_what_is_computed_again_drops_the_same(again):
    layers = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8)).cuda()
    x = torch.randn(4, 8, device="cuda", requires_grad=True)
    torch.manual_seed(1)
    (wanted,) = torch.autograd.grad(layers(x).sum(), x)
    torch.manual_seed(1)
    checkpoint(layers, x, use_reentrant=again).sum().backward()
    assert torch.equal(x.grad, wanted)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences(kind):
    torch.manual_seed(0)
    model, x = kind(5, 6, 2, bidirectional=True, batch_first=True), torch.randn(3, 7, 5)
    packed = nn.utils.rnn.pack_padded_sequence(
        x, torch.tensor([7, 3, 5]), batch_first=True, enforce_sorted=False
    )
    found = copy.deepcopy(model).cuda()(packed.to("cuda"))[0]
    wanted = model(packed)[0]
    _closest(*(nn.utils.rnn.pad_packed_sequence(p)[0] for p in (found, wanted)))


def test_programs_are_saved_where_they_were():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).cuda()
    x = torch.randn(2, 3, device="cuda")
    for program in (torch.jit.trace(model, x), torch.jit.script(model)):
        file = io.BytesIO()
        torch.jit.save(program, file)
        file.seek(0)
        there = torch.jit.load(file)
        assert {p.device.type for p in there.parameters()} == {"cuda"}
        assert torch.equal(there(x), model(x))
        file.seek(0)
        _closest(model(x), torch.jit.load(file, map_location="cpu")(x.cpu()))


def test_weights_that_are_one_stay_one_in_programs():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(Tied().cuda(), torch.ones(1, 3, device="cuda")), file)
    file.seek(0)
    program = torch.jit.load(file)
    assert program.a.weight.data_ptr() == program.b.weight.data_ptr()


def test_programs_as_graphs():
    model = nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.LayerNorm(3)).cuda()
    x = torch.randn(2, 3, device="cuda")
    exported = torch.export.export(model, (x,))
    programs = [torch.fx.symbolic_trace(model), exported.module(), torch.jit.freeze(
        torch.jit.script(model.eval())
    )]  # fmt: skip
    for program in programs:
        torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize(
    "kind",
    [
        quantization.MinMaxObserver,
        quantization.HistogramObserver,
        quantization.FakeQuantize,
        quantization.MovingAveragePerChannelMinMaxObserver,
    ],
)
def test_observers(kind):
    found = []
    for device in ("cuda", "cpu"):
        torch.manual_seed(0)
        observer, x = kind().to(device), torch.randn(2, 4, 4).to(device)
        for part in x:
            observer(part)
        found.append(observer.calculate_qparams())
    for a, b in zip(*found, strict=True):
        _closest(a, b)


def test_models_of_a_gpu_are_written_as_onnx():
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("ml_dtypes")
    file = io.BytesIO()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).cuda()
    torch.onnx.export(model, (torch.randn(1, 3, 8, 8, device="cuda"),), file)
    assert onnx.load_from_string(file.getvalue()).graph.initializer


def test_memory_of_gpus_counts_as_shared():
    x = torch.ones(3, device="cuda")
    assert x.share_memory_() is x
