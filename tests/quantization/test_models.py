"""Models from floats to integers: observers, fusing, conversion, training, files, accuracy."""

import io
import math

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao import quantization as q
from flambeau.ao.nn import quantized as nnq

from . import cases


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
        self.conv, self.bn, self.relu = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.pool, self.same = nn.MaxPool2d(2), nn.Conv2d(8, 8, 1)
        self.sum, self.linear = nnq.FloatFunctional(), nn.Linear(8 * 16, 10)

    def forward(self, x):
        x = self.pool(self.relu(self.bn(self.conv(self.quant(x)))))
        x = self.sum.add(x, self.same(x))
        return self.dequant(self.linear(x.flatten(1)))


def pictures(count, seed):
    """Bars at one of ten places, with noise: something to learn."""
    generator = torch.Generator().manual_seed(seed)
    x = 0.4 * torch.rand(count, 1, 8, 8, generator=generator)
    y = torch.randint(0, 10, (count,), generator=generator)
    for k, place in enumerate(y.tolist()):
        if place < 8:
            x[k, 0, :, place] += 0.7
        else:
            x[k, 0, 2 if place == 8 else 5] += 0.7
    return x, y


def train(model, steps=60):
    torch.manual_seed(0)
    x, y = pictures(400, 1)
    step = torch.optim.Adam(model.parameters(), 0.01)
    for k in range(steps):
        part = slice(k * 40 % 400, k * 40 % 400 + 40)
        loss = nn.functional.cross_entropy(model(x[part]), y[part])
        step.zero_grad()
        loss.backward()
        step.step()
    return model


def accuracy(model):
    x, y = pictures(500, 2)
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    return train(Net())


@pytest.mark.parametrize("engine", ["fbgemm", "x86", "qnnpack", "onednn"])
def test_after_training(trained, engine):
    model = q.fuse_modules(trained.eval(), [["conv", "bn", "relu"]])
    model.qconfig = q.get_default_qconfig(engine)
    model = q.prepare(model)
    model(pictures(100, 1)[0])
    model = q.convert(model)
    assert "QuantizedConvReLU2d(1, 8, kernel_size=(3, 3)" in repr(model)
    assert accuracy(model) > accuracy(trained) - 0.01


@pytest.mark.parametrize("version", [0, 1])
def test_while_training(trained, version):
    torch.manual_seed(0)
    model = Net()
    model.load_state_dict(trained.state_dict())
    model = q.fuse_modules_qat(model.train(), [["conv", "bn", "relu"]])
    model.qconfig = q.get_default_qat_qconfig("fbgemm", version)
    model = q.prepare_qat(model)
    train(model, 20)
    model.apply(q.disable_observer)
    model = q.convert(model.eval())
    assert accuracy(model) > accuracy(trained.eval()) - 0.01


@pytest.mark.filterwarnings("ignore:must run observer")
def test_files(trained):
    model = q.fuse_modules(trained.eval(), [["conv", "bn", "relu"]])
    model.qconfig = q.get_default_qconfig("fbgemm")
    model = q.prepare(model)
    model(pictures(10, 1)[0])
    model = q.convert(model)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = q.fuse_modules(Net().eval(), [["conv", "bn", "relu"]])
    other.qconfig = q.get_default_qconfig("fbgemm")
    other = q.convert(q.prepare(other))
    other.load_state_dict(torch.load(file))
    x = pictures(10, 3)[0]
    assert torch.equal(model(x), other(x))


def test_file_of_a_large_layer():
    sizes = []
    for model in (nn.Sequential(nn.Linear(512, 512)),):
        for made in (model, q.quantize_dynamic(model, {nn.Linear})):
            file = io.BytesIO()
            torch.save(made.state_dict(), file)
            sizes.append(len(file.getvalue()))
    assert sizes[1] < 0.27 * sizes[0]


@pytest.mark.parametrize(
    ("layer", "size", "text"),
    [
        (lambda: nn.Linear(8, 5), (3, 8), "DynamicQuantizedLinear(in_features=8, out_features=5, "
         "dtype=torch.qint8, qscheme=torch.per_tensor_affine)"),
        (lambda: nn.LSTM(8, 6, 2, bidirectional=True), (4, 3, 8),
         "DynamicQuantizedLSTM(8, 6, num_layers=2, bidirectional=True)"),
        (lambda: nn.GRU(8, 6, batch_first=True), (3, 4, 8),
         "DynamicQuantizedGRU(8, 6, batch_first=True)"),
        (lambda: nn.LSTMCell(8, 6), (3, 8), "DynamicQuantizedLSTMCell(8, 6)"),
        (lambda: nn.GRUCell(8, 6), (3, 8), "DynamicQuantizedGRUCell(8, 6)"),
        (lambda: nn.RNNCell(8, 6), (3, 8), "DynamicQuantizedRNNCell(8, 6)"),
    ],
)  # fmt: skip
def test_dynamic(layer, size, text):
    torch.manual_seed(0)
    model = nn.Sequential(layer())
    found = q.quantize_dynamic(model)
    x = torch.randn(size)
    wanted, given = model[0](x), found[0](x)
    while isinstance(wanted, tuple):
        wanted, given = wanted[0], given[0]
    assert repr(found[0]) == text and (wanted - given).abs().max() < 0.05


@pytest.mark.parametrize("config", ["", "_4bit"])
def test_tables(config):
    torch.manual_seed(0)
    model = nn.Sequential(nn.EmbeddingBag(20, 8, mode="sum"))
    qconfig = getattr(q, "float_qparams_weight_only_qconfig" + config)
    found = q.quantize_dynamic(model, {nn.EmbeddingBag: qconfig})
    indices, offsets = torch.tensor([1, 5, 7, 2]), torch.tensor([0, 2])
    error = (model[0](indices, offsets) - found[0](indices, offsets)).abs().max().item()
    assert error < (0.5 if config else 0.05)


@pytest.mark.parametrize(
    ("make", "scale", "zero_point"),
    [
        (lambda: q.MinMaxObserver(), 3.9101562 / 255, 128),
        (lambda: q.default_weight_observer(), 1.9550781 / 127.5, 0),
        (lambda: q.MinMaxObserver(reduce_range=True), 3.9101562 / 127, 64),
        (lambda: q.MovingAverageMinMaxObserver(), 3.9101562 / 255, 128),
    ],
)  # fmt: skip
def test_observers(make, scale, zero_point):
    observer = make()
    observer(torch.tensor([-1.9550781, 0.5, 1.9550781]))
    found, zero = observer.calculate_qparams()
    assert math.isclose(found.item(), scale, rel_tol=1e-5) and zero.item() == zero_point


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["HistogramObserver", "PerChannelMinMaxObserver"])
def test_observers_as_pytorch(kind):
    oracle = pytest.importorskip("torch")
    found = []
    for m in (oracle, torch):
        observer = getattr(m.ao.quantization, kind)()
        for k in range(3):
            observer(cases.numbers(m, 6, 50, seed=k, scale=1 + k))
        found.append([t.tolist() for t in observer.calculate_qparams()])
    assert found[0] == found[1]


def test_engines():
    assert torch.backends.quantized.engine in torch.backends.quantized.supported_engines
    with pytest.raises(RuntimeError, match="quantized engine nothing is not supported"):
        torch.backends.quantized.engine = "nothing"


class Plain(nn.Module):
    """No stubs: graphs find their places themselves."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.relu = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        self.pool, self.same, self.linear = nn.MaxPool2d(2), nn.Conv2d(8, 8, 1), nn.Linear(128, 10)

    def forward(self, x):
        x = self.pool(self.relu(self.bn(self.conv(x))))
        x = x + self.same(x)
        return self.linear(torch.flatten(x, 1))


CODE = """
def forward(self, x):
    conv_input_scale_0 = self.conv_input_scale_0
    conv_input_zero_point_0 = self.conv_input_zero_point_0
    quantize_per_tensor = torch.quantize_per_tensor(x, conv_input_scale_0, \
conv_input_zero_point_0, torch.quint8);  x = conv_input_scale_0 = conv_input_zero_point_0 = None
    conv = self.conv(quantize_per_tensor);  quantize_per_tensor = None
    pool = self.pool(conv);  conv = None
    same = self.same(pool)
    add_scale_0 = self.add_scale_0
    add_zero_point_0 = self.add_zero_point_0
    add_1 = torch.ops.quantized.add(pool, same, add_scale_0, add_zero_point_0);  \
pool = same = add_scale_0 = add_zero_point_0 = None
    flatten = torch.flatten(add_1, 1);  add_1 = None
    linear = self.linear(flatten);  flatten = None
    dequantize = linear.dequantize();  linear = None
    return dequantize
"""


@pytest.mark.parametrize("mode", ["after", "while", "dynamic"])
def test_graphs(mode):
    from flambeau.ao.quantization import quantize_fx as graphs

    torch.manual_seed(0)
    model = train(Plain())
    wanted, example = accuracy(model.eval()), (pictures(2, 1)[0],)
    if mode == "after":
        found = graphs.prepare_fx(model, q.get_default_qconfig_mapping("fbgemm"), example)
        found(pictures(100, 1)[0])
    elif mode == "while":
        mapping = q.get_default_qat_qconfig_mapping("fbgemm")
        found = train(graphs.prepare_qat_fx(model.train(), mapping, example), 20).eval()
    else:
        mapping = q.QConfigMapping().set_object_type(nn.Linear, q.default_dynamic_qconfig)
        found = graphs.prepare_fx(model, mapping, example)
    found = graphs.convert_fx(found)
    assert accuracy(found) > wanted - 0.01
    if mode == "dynamic":
        assert "DynamicQuantizedLinear" in repr(found)
    else:
        assert found.code.strip() == CODE.strip()
