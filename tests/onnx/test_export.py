"""`torch.onnx.export`: what comes out is valid, and others compute the same with it."""

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.export import Dim
from flambeau.utils import _pytree as pytree

onnx = pytest.importorskip("onnx", reason="needs flambeau[onnx]")

from tests.onnx import models  # noqa: E402

VERSIONS = (13, 18, 23)


def others():
    """Who runs exported models: onnxruntime if it is there, ONNX's own evaluator if not."""
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return lambda proto, feed: ReferenceEvaluator(proto).run(None, feed)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1

    def run(proto, feed):
        return onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        ).run(None, feed)

    return run


def agree(model, args, atol=1e-4, read_back=True, **options):
    """Export, let others and our own importer run it, compare with the model."""
    model.eval()
    program = torch.onnx.export(model, args, **options)
    proto = program.model_proto
    with torch.no_grad():
        expected = [t for t in pytree.tree_leaves(model(*args)) if isinstance(t, torch.Tensor)]
    names = [value.name for value in proto.graph.input]
    tensors = [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
    found = others()(proto, dict(zip(names, [t.numpy() for t in tensors])))
    compare(expected, found, atol)
    if read_back:
        with torch.no_grad():
            again = torch.onnx.load(proto)(*tensors)
        again = again if isinstance(again, tuple) else (again,)
        compare(expected, [t.numpy() for t in again], atol)
    return program


def compare(expected, found, atol):
    assert len(expected) == len(found)
    for left, right in zip(expected, found):
        left = left.detach().numpy()
        assert left.dtype == right.dtype and left.shape == right.shape
        scale = max(1.0, float(np.abs(left).max())) if left.size and left.dtype != bool else 1.0
        np.testing.assert_allclose(right, left, rtol=1e-3, atol=atol * scale)


@pytest.mark.parametrize("name", models.CALLS)
def test_ops(name):
    function, args = models.CALLS[name]
    agree(models.Function(function), args)


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_say_the_same(version):
    function, args = models.CALLS["normalised"]
    program = agree(models.Function(function), args, opset_version=version)
    assert program.model_proto.opset_import[0].version == version
    function, args = models.CALLS["activations"]
    agree(models.Function(function), args, opset_version=version)


@pytest.mark.parametrize("name", models.LAYERS)
def test_layers(name):
    make, args = models.LAYERS[name]
    torch.manual_seed(0)
    agree(make(), args)


@pytest.mark.parametrize("name", models.EXAMPLE_MODELS)
def test_models_of_the_examples(name):
    torch.manual_seed(0)
    agree(*models.EXAMPLE_MODELS[name]())


@pytest.mark.parametrize("name", models.QUICK_VISION)
def test_vision_models(name):
    agree(*models.vision(name), read_back=name == "mobilenet_v3_small")


@pytest.mark.slow
@pytest.mark.parametrize("name", models.SLOW_VISION)
def test_more_vision_models(name):
    agree(*models.vision(name), atol=1e-3)


class Sized(nn.Module):
    """Uses its sizes in every way that models do."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        batch, length = x.shape[:2]
        y = self.fc(x).view(batch, length * 2, 2)
        places = torch.arange(length, device=x.device)
        y = y[:, :length] + places.view(1, -1, 1) / length
        return y.transpose(1, 2).reshape(batch, -1), torch.zeros(batch, length + 1)


def test_sizes_may_change():
    model, x = Sized().eval(), models.rand(2, 5, 8)
    program = torch.onnx.export(
        model,
        (x,),
        input_names=["tokens"],
        output_names=["y", "zeros"],
        dynamic_shapes=({0: Dim("batch"), 1: Dim("length")},),
    )
    proto = program.model_proto
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", "length", 8]
    other = models.rand(3, 7, 8)
    found = others()(proto, {"tokens": other.numpy()})
    compare(list(model(other)), found, 1e-5)
    compare(list(model(other)), [t.detach().numpy() for t in torch.onnx.load(proto)(other)], 1e-5)


def test_dynamic_axes_by_name():
    model, x = nn.Linear(3, 2).eval(), models.rand(2, 3)
    program = torch.onnx.export(
        model,
        (x,),
        input_names=["x"],
        output_names=["y"],
        dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
    )
    graph = program.model_proto.graph
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_param == "n"
    assert [node.op_type for node in graph.node] == ["Gemm"]
    assert sorted(t.name for t in graph.initializer) == ["bias", "weight"]


def test_files(tmp_path):
    model, x = (
        nn.Sequential(nn.Linear(3, 40), nn.ReLU(), nn.Linear(40, 2)).eval(),
        models.rand(2, 3),
    )
    assert torch.onnx.export(model, (x,), tmp_path / "a.onnx", dynamo=False) is None
    program = torch.onnx.export(model, (x,), tmp_path / "b.onnx", export_params=False)
    assert len(onnx.load(tmp_path / "b.onnx").graph.input) == 5
    program.save(tmp_path / "c.onnx", external_data=True)
    assert (tmp_path / "c.onnx.data").exists()
    onnx.checker.check_model(str(tmp_path / "c.onnx"), full_check=True)
    for name in ("a.onnx", "c.onnx"):
        loaded = torch.onnx.load(tmp_path / name)
        assert torch.equal(loaded(x), model(x))
        assert set(loaded.state_dict()) == set(model.state_dict())


def test_training_mode_keeps_dropout_and_statistics():
    model = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.Dropout(0.5))
    x = models.IMAGE
    mode = torch.onnx.TrainingMode
    kinds = {}
    for training in (mode.EVAL, mode.TRAINING):
        proto = torch.onnx.export(model, (x,), training=training).model_proto
        kinds[training] = [node.op_type for node in proto.graph.node]
    assert kinds[mode.EVAL] == ["Conv", "BatchNormalization"]
    assert "Dropout" in kinds[mode.TRAINING]
    assert model.training


def test_what_cannot_be_exported_is_named():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = models.Function(lambda x: torch.linalg.svdvals(x))

        def forward(self, x):
            return self.inner(x)

    with pytest.raises(torch.onnx.UnsupportedOperatorError) as caught:
        torch.onnx.export(Holder(), (models.rand(3, 3),))
    message = str(caught.value)
    assert "svd" in message and "'inner'" in message and "return self.function(*args)" in message
    with pytest.raises(ValueError, match="opset_version"):
        torch.onnx.export(nn.ReLU(), (models.X,), opset_version=12)


def test_translations_of_users():
    model = models.Function(lambda x: torch.relu(x) + 1)
    table = {torch.ops.aten.relu.default: lambda g, x: g.op("my.domain::Positive", x, slope=0.5)}
    program = torch.onnx.export(
        model, (models.X,), custom_translation_table=table, custom_opsets={"my.domain": 2}
    )
    node = program.model_proto.graph.node[0]
    assert (node.domain, node.op_type) == ("my.domain", "Positive")
    assert {d.domain: d.version for d in program.model_proto.opset_import}["my.domain"] == 2


def test_programs_are_called_through_onnxruntime():
    pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    model = nn.Linear(3, 2).eval()
    program = torch.onnx.export(model, (models.rand(2, 3),), verify=True)
    x = models.rand(2, 3)
    torch.testing.assert_close(program(x)[0], model(x).detach())
    program.apply_weights({"weight": torch.zeros(2, 3)})
    torch.testing.assert_close(program(x)[0], model.bias.detach().expand(2, 2))
