"""Quantized layers one by one: beside their float layers, and beside PyTorch's quantized ones."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao import quantization as q
from flambeau.ao.nn import intrinsic, quantizable
from flambeau.ao.nn import quantized as nnq
from flambeau.ao.nn.intrinsic import quantized as quantized_intrinsic
from flambeau.ao.nn.quantized import dynamic

from . import cases

LAYERS = {
    "Linear": (lambda m: m.nn.Linear(6, 5), (4, 6)),
    "LinearReLU": (
        lambda m: m.ao.nn.intrinsic.LinearReLU(m.nn.Linear(6, 5), m.nn.ReLU()),
        (4, 6),
    ),
    "Conv1d": (lambda m: m.nn.Conv1d(4, 6, 3, 2, 1), (2, 4, 11)),
    "Conv2d": (lambda m: m.nn.Conv2d(4, 6, 3, 1, 1, 2, 2, bias=False), (2, 4, 9, 9)),
    "ConvReLU2d": (
        lambda m: m.ao.nn.intrinsic.ConvReLU2d(m.nn.Conv2d(4, 6, 3), m.nn.ReLU()),
        (2, 4, 9, 9),
    ),
    "Conv3d": (lambda m: m.nn.Conv3d(2, 3, 2), (2, 2, 4, 4, 4)),
    "ConvTranspose2d": (lambda m: m.nn.ConvTranspose2d(4, 3, 3, 2, 1, 1), (2, 4, 5, 5)),
    "BatchNorm2d": (lambda m: m.nn.BatchNorm2d(4), (2, 4, 5, 5)),
    "BNReLU2d": (
        lambda m: m.ao.nn.intrinsic.BNReLU2d(m.nn.BatchNorm2d(4), m.nn.ReLU()),
        (2, 4, 5, 5),
    ),
    "LayerNorm": (lambda m: m.nn.LayerNorm(6), (4, 6)),
    "GroupNorm": (lambda m: m.nn.GroupNorm(2, 4), (2, 4, 5, 5)),
    "ELU": (lambda m: m.nn.ELU(0.7), (4, 6)),
    "Hardswish": (lambda m: m.nn.Hardswish(), (4, 6)),
    "LeakyReLU": (lambda m: m.nn.LeakyReLU(0.2), (4, 6)),
    "ReLU6": (lambda m: m.nn.ReLU6(), (4, 6)),
    "LSTM": (lambda m: m.nn.LSTM(4, 3, 2), (5, 2, 4)),
    "LSTM both ways": (lambda m: m.nn.LSTM(4, 3, bidirectional=True), (5, 2, 4)),
    "MultiheadAttention": (lambda m: m.nn.MultiheadAttention(8, 2), (5, 2, 8)),
}


class Wrapped:
    """A layer between stubs, for one of two frameworks."""

    def __new__(cls, m, layer):
        stubs = m.ao.quantization

        class Model(m.nn.Module):
            def __init__(self):
                super().__init__()
                self.quant, self.dequant = stubs.QuantStub(), stubs.DeQuantStub()
                self.layer = layer

            def forward(self, x):
                x = self.quant(x)
                out = self.layer(x, x, x) if "Attention" in type(layer).__name__ else self.layer(x)
                out = out[0] if isinstance(out, tuple) else out
                return self.dequant(out)

        return Model().eval()


def converted(m, name):
    """(float model, quantized model, an input) with weights that are the same everywhere."""
    make, size = LAYERS[name]
    model = Wrapped(m, make(m))
    with m.no_grad():
        for k, (_, p) in enumerate(sorted(model.named_parameters())):
            p.copy_(cases.numbers(m, *p.shape, seed=k, scale=0.3))
    model.qconfig = m.ao.quantization.get_default_qconfig("fbgemm")
    if "Transpose" in name:  # one scale for the whole weight
        one = m.ao.quantization.default_weight_observer
        model.qconfig = m.ao.quantization.QConfig(model.qconfig.activation, one)
    found = m.ao.quantization.prepare(model)
    for k in range(2):
        found(cases.numbers(m, *size, seed=k))
    return model, m.ao.quantization.convert(found), cases.numbers(m, *size, seed=1)


@pytest.mark.filterwarnings("ignore:must run observer")
@pytest.mark.parametrize("name", LAYERS)
def test_near_its_float_layer(name):
    model, found, x = converted(torch, name)
    assert "Quantized" in repr(found.layer)
    error = (model(x) - found(x)).abs().max() / model(x).abs().max()
    assert error < 0.06
    again = found.state_dict()
    found.load_state_dict(again)
    assert torch.equal(found(x), converted(torch, name)[1](x))


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LAYERS)
def test_as_pytorch(name):
    oracle = pytest.importorskip("torch")
    oracle.backends.quantized.engine = "fbgemm"
    results = []
    for m in (oracle, torch):
        _, found, x = converted(m, name)
        results.append((found(x).tolist(), list(found.state_dict())))
    # the last bits of float layers show in the scales that observers find
    assert torch.allclose(*(torch.tensor(r[0]) for r in results), rtol=1e-5, atol=1e-5)
    if name != "MultiheadAttention":  # PyTorch keeps a weight there that nothing reads
        assert results[0][1] == results[1][1]


SIZES = [
    # dims, stride, padding, dilation, groups
    (1, 2, 1, 1, 1),
    (2, 1, 1, 1, 1),
    (2, 2, 0, 2, 2),
    (3, 1, 1, 1, 1),
]


@pytest.mark.parametrize(("dims", "stride", "padding", "dilation", "groups"), SIZES)
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_dynamic_convolutions(kind, dims, stride, padding, dilation, groups):
    """By way of bytes: the convolution of what the bytes stand for."""
    torch.manual_seed(0)
    more = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    layer = getattr(nn, f"{kind}{dims}d")(4, 6, 3, **more)
    layer.qconfig = q.default_dynamic_qconfig
    found = getattr(dynamic, f"{kind}{dims}d").from_float(layer)
    x = torch.randn(2, 4, *[7, 6, 5][:dims])
    rounded = torch.quantize_per_tensor_dynamic(x, torch.quint8, True).dequantize()
    layer.weight = nn.Parameter(found.weight().dequantize())
    assert torch.allclose(found(x), layer(rounded), atol=1e-5)
    assert repr(found).startswith(f"DynamicQuantized{kind}{dims}d(4, 6, kernel_size=")


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dims", [1, 2])
def test_transposed_as_pytorch(dims):
    oracle = pytest.importorskip("torch")
    oracle.backends.quantized.engine = "fbgemm"
    for stride, padding, more, dilation, groups in (
        (1, 0, 0, 1, 1), (2, 1, 1, 1, 2), (3, 2, 0, 2, 1), (2, 2, 0, 1, 4), (1, 2, 0, 1, 1),
    ):  # fmt: skip
        found = []
        for m in (oracle, torch):
            weight = cases.numbers(m, 4, 8 // groups, *[3] * dims, seed=2, scale=0.2)
            weight = m.quantize_per_tensor(weight, 0.004, 0, m.qint8)
            sizes = [[n] * dims for n in (stride, padding, more, dilation)]
            pack = getattr(m.ops.quantized, f"conv_transpose{dims}d_prepack")
            packed = pack(weight, cases.numbers(m, 8, seed=9), *sizes, groups)
            run = getattr(m.ops.quantized, f"conv_transpose{dims}d")
            x = cases.quantized(m, 2, 4, *[7, 5][:dims])
            found.append(run(x, packed, 0.1, 50).int_repr().tolist())
        assert found[0] == found[1]


@pytest.mark.parametrize("split", [False, True])
def test_cells_with_gates_of_their_own(split):
    torch.manual_seed(0)
    cell = nn.LSTMCell(4, 3)
    found = quantizable.LSTMCell.from_float(cell, split_gates=split)
    x, state = torch.randn(2, 4), (torch.randn(2, 3), torch.randn(2, 3))
    for wanted, given in zip((*cell(x, state), *cell(x)), (*found(x, state), *found(x))):
        assert torch.allclose(wanted, given, atol=1e-6)


@pytest.mark.parametrize("same", [True, False])
def test_attention_taken_apart(same):
    torch.manual_seed(0)
    sizes = {} if same else {"kdim": 6, "vdim": 5}
    layer = nn.MultiheadAttention(8, 2, batch_first=True, add_zero_attn=same, **sizes).eval()
    layer.qconfig = q.default_qconfig
    found = quantizable.MultiheadAttention.from_float(layer)
    x, key, value = torch.randn(2, 5, 8), torch.randn(2, 4, 8), torch.randn(2, 4, 8)
    if not same:
        key, value = key[..., :6].contiguous(), value[..., :5].contiguous()
    hidden = torch.tensor([[False, False, True, True], [False, False, False, True]])
    masks = {"key_padding_mask": hidden, "attn_mask": torch.rand(5, 4) > 0.8}
    for wanted, given in zip(layer(x, key, value, **masks), found(x, key, value, **masks)):
        assert torch.allclose(wanted, given, atol=1e-5)
    again = found.dequantize().eval()
    assert torch.allclose(again(x, key, value)[0], layer(x, key, value)[0], atol=1e-5)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: intrinsic.ConvReLU2d(nn.Linear(1, 1), nn.ReLU()), "Linear and ReLU"),
        (lambda: intrinsic.ConvBnReLU2d(nn.Linear(1, 1), nn.ReLU(), nn.ReLU()), "Linear, ReLU, and "
         "ReLU"),
    ],
)  # fmt: skip
def test_modules_that_do_not_fit(make, text):
    with pytest.raises(AssertionError, match=f"Incorrect types for input modules: {text}"):
        make()


def test_joins_of_other_levels():
    a = torch.quantize_per_tensor(torch.tensor([0.1, 0.5]), 0.01, 0, torch.quint8)
    b = torch.quantize_per_tensor(torch.tensor([0.3, 2.0]), 0.05, 10, torch.quint8)
    assert torch.stack([a, b]).int_repr().tolist() == [[10, 50], [30, 200]]


@pytest.mark.parametrize(
    ("layer", "op"),
    [
        (lambda: nnq.Linear(3, 4), "linear"),
        (lambda: quantized_intrinsic.LinearReLU(3, 4), "linear_relu"),
        (lambda: nnq.Conv1d(3, 4, 1), "conv1d"),
        (lambda: nnq.Conv2d(3, 4, 1), "conv2d.new"),
        (lambda: quantized_intrinsic.ConvReLU2d(3, 4, 1), "conv2d_relu.new"),
        (lambda: nnq.ConvTranspose2d(3, 4, 1), "conv_transpose2d"),
    ],
)
def test_floats_are_refused_by_name(layer, op):
    made = layer()
    x = torch.ones(1, 3, *getattr(made, "kernel_size", ()))
    with pytest.raises(NotImplementedError, match=f"Could not run 'quantized::{op}' with arg"):
        made(x)
