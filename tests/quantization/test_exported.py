"""Exported programs: quantizers, observers, pairs of ops, training, files."""

import io

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.ao.quantization import quantize_pt2e as pt2e
from flambeau.ao.quantization import quantizer as q
from flambeau.ao.quantization.quantizer import x86_inductor_quantizer as x86
from flambeau.ao.quantization.quantizer import xnnpack_quantizer as xnnpack

from . import cases
from .test_models import Plain, accuracy, pictures, train

OPS = torch.ops.quantized_decomposed


def unsigned(**options):
    config = x86.get_default_x86_inductor_quantization_config(**options)
    return x86.X86InductorQuantizer().set_global(config)


def signed(**options):
    config = xnnpack.get_symmetric_quantization_config(**options)
    return xnnpack.XNNPACKQuantizer().set_global(config)


def exported(model, count=32):
    batch = torch.export.Dim.AUTO
    return torch.export.export(model, (pictures(count)[0],), dynamic_shapes=({0: batch},)).module()


def called(model):
    return [str(node.target) for node in model.graph.nodes if node.op == "call_function"]


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    return train(Plain())


@pytest.mark.parametrize(
    "quantizer", [unsigned, signed, lambda: signed(is_per_channel=True)], ids=range(3)
)
def test_after_training(trained, quantizer):
    model = trained.eval()
    prepared = pt2e.prepare_pt2e(exported(model), quantizer())
    assert not any("batch_norm" in name for name in called(prepared))
    prepared(pictures(100)[0])
    found = pt2e.convert_pt2e(prepared)
    assert accuracy(found) > accuracy(model) - 0.01
    kinds = {value.dtype for name, value in found.state_dict().items() if "frozen" in name}
    assert kinds == {torch.int8} and not any("weight" in n for n, _ in found.named_buffers())
    assert called(found).count("quantized_decomposed.quantize_per_tensor.default") >= 4
    file = io.BytesIO()
    torch.export.save(torch.export.export(found, (pictures(4)[0],)), file)
    file.seek(0)
    x = pictures(4)[0]
    assert torch.equal(torch.export.load(file).module()(x), found(x))


@pytest.mark.parametrize("quantizer", [unsigned, signed])
def test_while_training(trained, quantizer):
    model = Plain()
    model.load_state_dict(trained.state_dict())
    found = pt2e.prepare_qat_pt2e(exported(model.train(), 40), quantizer(is_qat=True))
    train(found, 60)
    pt2e.move_exported_model_to_eval(found)
    rounded = found(pictures(40)[0])
    found = pt2e.convert_pt2e(found)
    assert not any("batch_norm" in name or "add_" in name for name in called(found))
    assert (found(pictures(40)[0]) - rounded).abs().max() < 0.15 * rounded.abs().max()
    assert accuracy(found) > accuracy(trained.eval()) - 0.02


def test_parts(trained):
    """Only what is asked for: by name, by class, by op."""
    config = xnnpack.get_symmetric_quantization_config()
    aten = torch.ops.aten
    for choose, layers in (
        (lambda one: one.set_module_name("conv", config), ["conv2d"]),
        (lambda one: one.set_module_type(nn.Linear, config), ["linear"]),
        (lambda one: one.set_operator_type(aten.linear.default, config), ["linear"]),
        (lambda one: one.set_global(config).set_module_name("linear", None), ["conv2d", "conv2d"]),
    ):
        found = pt2e.prepare_pt2e(exported(trained.eval()), choose(xnnpack.XNNPACKQuantizer()))
        found(pictures(20)[0])
        found = pt2e.convert_pt2e(found)
        weights = [
            next(iter(node.users))
            for node in found.graph.nodes
            if "dequantize" in str(node.target) and node.args[0].op == "get_attr"
        ]
        assert sorted(str(node.target).split(".")[1] for node in weights) == layers


class Own(q.Quantizer):
    """A quantizer as users write them: known levels, levels like others, levels from others."""

    def annotate(self, model):
        known = q.FixedQParamsQuantizationSpec(torch.uint8, 1 / 256, 0, 0, 255)
        for node in model.graph.nodes:
            if str(node.target) == "aten.mul.Tensor":
                first, second = node.args
                node.meta["quantization_annotation"] = q.QuantizationAnnotation(
                    {first: known, second: q.SharedQuantizationSpec((first, node))},
                    q.DerivedQuantizationSpec(
                        [(first, node), (second, node)],
                        lambda watchers: (torch.tensor([0.5]), torch.tensor([3])),
                        torch.int8, -128, 127,
                    ),
                    _annotated=True,
                )  # fmt: skip
        return model

    def validate(self, model):
        pass


def test_quantizers_of_users():
    class Product(nn.Module):
        def forward(self, x, y):
            return x * y

    x, y = torch.rand(5), torch.rand(5)
    model = torch.export.export(Product(), (x, y)).module()
    model = pt2e.prepare_pt2e(model, q.ComposableQuantizer([Own()]))
    model(x, y)
    found = pt2e.convert_pt2e(model)(x, y)
    levels = [(t * 256).round().clamp(0, 255) / 256 for t in (x, y)]
    assert torch.equal(found, ((levels[0] * levels[1]) * 2).round() / 2)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: signed(is_dynamic=True), NotImplementedError),
        (lambda: unsigned(is_dynamic=True), NotImplementedError),
        (lambda: q.QuantizationSpec(torch.int8, None, 5, 3), ValueError),
        (lambda: q.QuantizationSpec(torch.int8, None, ch_axis=-1), ValueError),
    ],
)
def test_refusals(make, error):
    with pytest.raises(error):
        make()


def pairs(m):
    ops, x = m.ops.quantized_decomposed, cases.numbers(m, 3, 40)
    whole = ops.quantize_per_tensor(x, 0.013, 7, -128, 127, m.int8)
    facts = (m.tensor([0.01, 0.02, 0.013]), m.tensor([1, 0, 5]), 0, -128, 127, m.int8)
    rows = ops.quantize_per_channel(x, *facts)
    back = ops.dequantize_per_tensor(whole, 0.013, 7, -128, 127, m.int8)
    return [t.tolist() for t in (whole, back, rows, ops.dequantize_per_channel(rows, *facts))]


def test_ops():
    x = torch.tensor([0.05, 0.15, 0.25, -9.0, 40.0])  # halves go to the even level
    whole = OPS.quantize_per_tensor(x, 0.1, 3, -10, 100, torch.int8)
    assert whole.tolist() == [3, 5, 5, -10, 100]
    assert OPS.dequantize_per_tensor(whole, 0.5, 3, -10, 100, torch.int8).tolist() == [
        0.0, 1.0, 1.0, -6.5, 48.5,
    ]  # fmt: skip


@pytest.mark.oracle
def test_ops_as_pytorch():
    oracle = pytest.importorskip("torch")
    pytest.importorskip("torch.ao.quantization.fx._decomposed")
    assert pairs(oracle) == pairs(torch)
