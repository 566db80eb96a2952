"""`torch.onnx.export` of models that are more than ops: quantized ones, scripted control flow."""

import pytest

import flambeau as torch
from flambeau import Tensor, nn
from flambeau._higher_order_ops import map as mapped
from flambeau._higher_order_ops import scan, while_loop
from flambeau.ao import quantization
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.quantization import quantize_fx, quantize_pt2e
from flambeau.ao.quantization.quantizer import x86_inductor_quantizer as x86

pytest.importorskip("onnx", reason="needs flambeau[onnx]")

from tests.onnx import models
from tests.onnx.test_export import agree, compare, others


class Net(nn.Module):
    """One of each kind that is quantized as a module."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.bn, self.relu = nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.same, self.sum = nn.Conv2d(8, 8, 1, groups=2), nnq.FloatFunctional()
        self.norm, self.swish, self.pool = nn.BatchNorm2d(8), nn.Hardswish(), nn.MaxPool2d(2)
        self.up, self.elu = nn.ConvTranspose2d(8, 4, 2, 2), nn.ELU()
        self.linear = nn.Linear(4 * 8 * 8, 5)

    def forward(self, x):
        x = self.relu(self.bn(self.conv(self.quant(x))))
        x = self.sum.add_relu(self.swish(self.norm(x)), self.same(x))
        x = self.elu(self.up(self.pool(x)))
        return self.dequant(self.linear(torch.flatten(x, 1)))


class Plain(nn.Module):
    """Graphs find their places themselves."""

    def __init__(self):
        super().__init__()
        self.conv, self.relu = nn.Conv2d(4, 8, 3, padding=1), nn.ReLU()
        self.same, self.linear = nn.Conv2d(8, 8, 1), nn.Linear(8 * 8 * 8, 5)

    def forward(self, x):
        x = self.relu(self.conv(x))
        x = torch.cat([x, x + self.same(x)], 1)[:, :8]
        return self.linear(torch.flatten(x, 1))


def by_modules():
    model = quantization.fuse_modules(Net().eval(), [["conv", "bn", "relu"]])
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    model.up.qconfig = quantization.default_qconfig  # one scale for the whole weight
    model = quantization.prepare(model)
    model(models.IMAGE)
    return quantization.convert(model)


def by_graphs():
    mapping = quantization.get_default_qconfig_mapping("fbgemm")
    model = quantize_fx.prepare_fx(Plain().eval(), mapping, (models.IMAGE,))
    model(models.IMAGE)
    return quantize_fx.convert_fx(model)


def by_programs():
    config = x86.get_default_x86_inductor_quantization_config()
    program = torch.export.export(Plain().eval(), (models.IMAGE,)).module()
    model = quantize_pt2e.prepare_pt2e(program, x86.X86InductorQuantizer().set_global(config))
    model(models.IMAGE)
    return quantize_pt2e.convert_pt2e(model)


@pytest.mark.parametrize("make", [by_modules, by_graphs, by_programs])
def test_quantized_models_are_pairs(make):
    """Integers in the file; results a level or two off, where sums of floats are rounded."""
    torch.manual_seed(0)
    model = make()
    program = torch.onnx.export(model, (models.IMAGE,))
    proto = program.model_proto
    kinds = [node.op_type for node in proto.graph.node]
    assert kinds.count("QuantizeLinear") >= 4 and "QLinearConv" not in kinds
    weights = [t for t in proto.graph.initializer if t.data_type == 3 and len(t.dims) > 1]
    assert len(weights) >= 3  # int8
    with torch.no_grad():
        wanted, read = model(models.IMAGE), torch.onnx.load(proto)(models.IMAGE)
    level = float(wanted.abs().max()) / 100
    compare([wanted], [read.detach().numpy()], 2 * level)
    found = others()(proto, {proto.graph.input[0].name: models.IMAGE.numpy()})
    if found is not None:
        compare([wanted], found, 3 * level)


def test_dynamic_layers_keep_their_integers():
    model = quantization.quantize_dynamic(nn.Sequential(nn.Flatten(), nn.Linear(256, 5)))
    program = torch.onnx.export(model, (models.IMAGE,))
    kinds = [node.op_type for node in program.model_proto.graph.node]
    assert kinds.count("DequantizeLinear") == 1 and "QuantizeLinear" not in kinds
    read = torch.onnx.load(program.model_proto)
    assert (read(models.IMAGE) - model(models.IMAGE)).abs().max() < 0.05


class Choice(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            y = self.linear(x)
        else:
            y = x - 1
        return y


class Scripted(nn.Module):
    """A condition inside of another module, a loop on a value, a loop over a number."""

    def __init__(self):
        super().__init__()
        self.inner = Choice()

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        rounds = torch.zeros([])
        while y.abs().sum() < 100:
            y = y * 2
            rounds = rounds + 1
        for _ in range(2):
            y = y + rounds
        return y


def test_scripted_control_flow():
    torch.manual_seed(0)
    model = torch.jit.script(Scripted())
    program = torch.onnx.export(model, (torch.ones(3, 4),))
    proto = program.model_proto
    kinds = [node.op_type for node in proto.graph.node]
    assert {"If", "Loop"} <= set(kinds)
    for number in (1.0, -1.0, 50.0, -0.01):  # each way through it
        x = torch.full((3, 4), number)
        with torch.no_grad():
            wanted, read = model(x), torch.onnx.load(proto)(x)
        compare([wanted], [read.detach().numpy()], 1e-5)
        found = others()(proto, {proto.graph.input[0].name: x.numpy()})
        if found is not None:
            compare([wanted], found, 1e-5)


LOOPS = {
    "Loop": lambda x: while_loop(
        lambda i, y: i < 5, lambda i, y: (i + 1, y * x + 1), (torch.tensor(0), x.clone())
    )[1],
    "Scan": lambda x: scan(lambda c, t: (c + t, c * t), x[0], x),
    "Scan that carries nothing": lambda x: mapped(lambda t, w: (t * w).sum(0), x, x[0]),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops(name):
    program = agree(models.Function(LOOPS[name]), (torch.randn(3, 4),))
    assert name.split()[0] in [node.op_type for node in program.model_proto.graph.node]
