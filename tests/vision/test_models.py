"""Models: torchvision's tensors by name and shape, its start values, its results and gradients.

Structures and start values come from tests/golden/models.json; with torchvision installed, whole
forward and backward passes are compared in float64, where rounding cannot hide a difference.
"""

import copy
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.vision import models
from tests.vision import model_cases as cases

RECORDED = json.loads((Path(__file__).parents[1] / "golden/models.json").read_text())


def test_every_model_of_torchvision_is_there():
    assert cases.names(models) == sorted(RECORDED["structures"])


@pytest.mark.parametrize("name", RECORDED["structures"])
def test_names_shapes_and_texts(name):
    with flambeau.device("meta"):
        model = cases.build(models, name)
    assert cases.structure(model) == RECORDED["structures"][name]


@pytest.mark.parametrize("text", RECORDED["variants"])
def test_other_settings(text):
    name, _, options = text.partition(" ")
    with flambeau.device("meta"):
        model = cases.build(models, name, **json.loads(options))
    assert cases.structure(model) == RECORDED["variants"][text]


@pytest.mark.parametrize("name", cases.SMALL)
def test_start_values_for_a_seed(name):
    flambeau.manual_seed(cases.SEED)
    assert cases.values(cases.build(models, name)) == RECORDED["values"][name]


def vision_transformer(models, stem=False):
    from_stem = None
    if stem:
        module = sys.modules[models.VisionTransformer.__module__]
        from_stem = [module.ConvStemConfig(8, 3, 2), module.ConvStemConfig(12, 3, 4)]
    return models.VisionTransformer(
        32, 8, 2, 4, 32, 48, dropout=0.1, attention_dropout=0.1, num_classes=6,
        representation_size=10, conv_stem_configs=from_stem,
    )  # fmt: skip


def swin_transformer(models, version):
    module = sys.modules[models.SwinTransformer.__module__]
    block, merging = module.SwinTransformerBlock, module.PatchMerging
    if version == 2:
        block, merging = module.SwinTransformerBlockV2, module.PatchMergingV2
    return models.SwinTransformer(
        [4, 4], 16, [2, 2], [2, 4], [3, 2], dropout=0.1, attention_dropout=0.1, num_classes=6,
        stochastic_depth_prob=0.3, block=block, downsample_layer=merging,
    )  # fmt: skip


def convnext(models):
    config = sys.modules[models.ConvNeXt.__module__].CNBlockConfig
    rows = [config(8, 12, 1), config(12, None, 2)]
    return models.ConvNeXt(rows, 0.3, layer_scale=0.5, num_classes=6)


def efficientnet(models, fused):
    module = sys.modules[models.EfficientNet.__module__]
    if fused:
        rows = [
            module.FusedMBConvConfig(1, 3, 1, 8, 8, 2),
            module.FusedMBConvConfig(4, 3, 2, 8, 16, 2),
        ]
    else:
        rows = [
            module.MBConvConfig(1, 3, 1, 8, 8, 1),
            module.MBConvConfig(6, 5, 2, 8, 16, 2, 1.0, 1.4),
        ]
    return models.EfficientNet(rows, 0.2, num_classes=6, stochastic_depth_prob=0.4)


def maxvit(models):
    return models.MaxVit(
        (32, 32), 8, 2, [8, 16], [1, 2], 4, 0.3, attention_dropout=0.1, num_classes=6
    )


def resnext(models):
    block = sys.modules[models.ResNet.__module__].Bottleneck
    dilated = [False, True, False]
    return models.ResNet(block, [1, 2, 1, 1], 6, True, 4, 8, dilated)


def segmenter(models):
    """Of a small ResNet; results are dicts."""
    resnet, fcn, deeplab = (
        sys.modules[f"{models.__name__}.{name}"]
        for name in ("resnet", "segmentation.fcn", "segmentation.deeplabv3")
    )
    backbone = models.ResNet(
        resnet.BasicBlock, [1, 1, 1, 1], replace_stride_with_dilation=[False, False, False]
    )
    getter = sys.modules[f"{models.__name__}._utils"].IntermediateLayerGetter
    backbone = getter(backbone, {"layer4": "out", "layer3": "aux"})
    head = deeplab.DeepLabHead(512, 6, (1, 2))
    return deeplab.DeepLabV3(backbone, head, fcn.FCNHead(256, 6))


def by_name(name, **options):
    return lambda models: cases.build(models, name, num_classes=6, **options)


# name -> (size of images, model of a package)
PASSES = {
    "convnext": (16, convnext),
    "densenet": (32, lambda m: m.DenseNet(4, (2, 3), 8, drop_rate=0.2, num_classes=6)),
    "efficientnet": (24, lambda m: efficientnet(m, False)),
    "efficientnet_v2": (24, lambda m: efficientnet(m, True)),
    "googlenet": (48, by_name("googlenet", init_weights=True, transform_input=True)),
    "inception_v3": (75, by_name("inception_v3", init_weights=True, aux_logits=False)),
    "maxvit": (32, maxvit),
    "mnasnet0_5": (40, by_name("mnasnet0_5")),
    "mobilenet_v2": (40, by_name("mobilenet_v2")),
    "mobilenet_v3_small": (40, by_name("mobilenet_v3_small", dilated=True)),
    "regnet_y_400mf": (40, by_name("regnet_y_400mf")),
    "resnet18": (40, by_name("resnet18")),
    "resnext": (40, resnext),
    "segmenter": (40, segmenter),
    "shufflenet_v2_x0_5": (40, by_name("shufflenet_v2_x0_5")),
    "squeezenet1_1": (40, by_name("squeezenet1_1")),
    "swin": (28, lambda m: swin_transformer(m, 1)),
    "swin_v2": (28, lambda m: swin_transformer(m, 2)),
    "vit": (32, vision_transformer),
    "vit with a stem": (32, lambda m: vision_transformer(m, stem=True)),
}
# batches of three through many normalizations of single pixels: differences are blown up
LOOSE = {"mobilenet_v3_small": 1e-6}


@pytest.fixture
def one_thread():
    """Small images are not worth the waiting of threads for each other."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads(), flambeau.get_num_threads()
    torch.set_num_threads(1)
    flambeau.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    flambeau.set_num_threads(before[1])


@pytest.mark.oracle
@pytest.mark.parametrize("name", PASSES)
def test_values_and_gradients(name, one_thread):
    torch = pytest.importorskip("torch")
    theirs_module = pytest.importorskip("torchvision").models
    size, make = PASSES[name]
    torch.manual_seed(1)
    theirs = make(theirs_module).double()
    head = [p for p in theirs.parameters() if not p.any()]
    for p in head:  # heads that start as zeros would hide everything
        torch.nn.init.normal_(p, std=0.05)
    ours = make(models).double()
    ours.load_state_dict(
        {key: flambeau.from_numpy(v.numpy()) for key, v in theirs.state_dict().items()}
    )
    image = np.random.default_rng(0).standard_normal((3, 3, size, size))
    for training in (False, True):
        passes = []
        for package, model in ((torch, theirs), (flambeau, ours)):
            model.train(training)
            package.manual_seed(5)
            out = model(package.from_numpy(image))
            parts = out if isinstance(out, tuple) else [out]
            parts = (
                [*out.values()] if isinstance(out, dict) else [p for p in parts if p is not None]
            )
            sum((part * part).sum() for part in parts).backward()
            passes.append(
                (
                    type(out).__name__,
                    [p.detach().numpy() for p in parts],
                    [p.grad.numpy() for p in model.parameters() if p.grad is not None],
                    [b.numpy().copy() for b in model.buffers()],
                )
            )
            model.zero_grad()
        (kind, *a), (other, *b) = passes
        assert kind == other
        tolerance = LOOSE.get(name, 1e-8)
        largest = max(np.abs(x).max() for x in a[1])
        for mine, right in zip(b, a, strict=True):
            assert len(mine) == len(right)
        for x, y in zip(b[0] + b[2], a[0] + a[2], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10 * max(1, np.abs(y).max()))
        for x, y in zip(b[1], a[1], strict=True):
            allowed = tolerance * np.abs(y).max() + 1e-12 * largest
            assert np.abs(x - y).max() <= allowed


def test_auxiliary_classifiers_are_named():
    flambeau.manual_seed(0)
    model = models.googlenet(init_weights=False, num_classes=3)
    out = model(flambeau.randn(2, 3, 48, 48))
    assert type(out) is models.GoogLeNetOutputs
    assert out._fields == ("logits", "aux_logits2", "aux_logits1")
    assert [part.shape for part in out] == [(2, 3)] * 3
    assert model.eval()(flambeau.randn(2, 3, 48, 48)).shape == (2, 3)
    assert models.InceptionOutputs._fields == ("logits", "aux_logits")


@pytest.mark.parametrize("name", ["googlenet", "inception_v3"])
def test_slow_starts_are_announced(name):
    with (
        flambeau.device("meta"),
        pytest.warns(FutureWarning, match="The default weight initialization of"),
    ):
        models.get_model(name)


def test_memory_efficient_dense_layers_compute_the_same():
    outs = []
    for efficient in (False, True):
        flambeau.manual_seed(0)
        model = models.DenseNet(4, (2, 2), 8, memory_efficient=efficient, num_classes=3)
        x = flambeau.randn(2, 3, 32, 32, requires_grad=True)
        y = model(x)
        y.square().sum().backward()
        outs.append((y, x.grad, model.features.denseblock1.denselayer2.conv1.weight.grad))
    for a, b in zip(*outs, strict=True):
        assert flambeau.allclose(a, b, atol=1e-6)


def test_models_are_copied_and_pickled():
    model = models.shufflenet_v2_x0_5(num_classes=2).eval()
    x = flambeau.randn(1, 3, 32, 32)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert flambeau.equal(other(x), model(x))


def test_channels_last_and_half_precision_run():
    model = models.mobilenet_v3_small(num_classes=3).eval()
    x = flambeau.randn(1, 3, 32, 32)
    y = model(x.contiguous(memory_format=flambeau.channels_last))
    assert flambeau.allclose(y, model(x), atol=1e-5)
    assert model.bfloat16()(x.bfloat16()).dtype is flambeau.bfloat16


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: models.resnet18(replace_stride_with_dilation=[True]),
            ValueError,
            "replace_stride_with_dilation should be None or a 3-element tuple, got \\[True\\]",
        ),
        (
            lambda: models.resnet18(width_per_group=128),
            ValueError,
            "BasicBlock only supports groups=1 and base_width=64",
        ),
        (
            lambda: models.resnext50_32x4d(groups=2),
            ValueError,
            "The parameter 'groups' expected value 32 but got 2 instead.",
        ),
        (
            lambda: models.SqueezeNet("2_0"),
            ValueError,
            "Unsupported SqueezeNet version 2_0: 1_0 or 1_1 expected",
        ),
        (lambda: models.MNASNet(0.0), ValueError, "alpha should be greater than 0.0"),
        (lambda: models.MobileNetV3([], 8), ValueError, "setting should not be empty"),
        (lambda: models.MobileNetV3([1], 8), TypeError, "should be List\\[InvertedResidualConfig"),
        (lambda: models.EfficientNet([1], 0.1), TypeError, "should be List\\[MBConvConfig\\]"),
        (lambda: models.ConvNeXt([1]), TypeError, "should be List\\[CNBlockConfig\\]"),
        (
            lambda: models.vit_b_32(image_size=40),
            AssertionError,
            "Input shape indivisible by patch size!",
        ),
        (
            lambda: models.vit_b_32(image_size=32)(flambeau.zeros(1, 3, 64, 32)),
            AssertionError,
            "Wrong image height! Expected 32 but got 64!",
        ),
        (
            lambda: models.ShuffleNetV2([1], [1] * 5),
            ValueError,
            "expected stages_repeats as list of 3 positive ints",
        ),
        (lambda: models.resnet18(weird=1), TypeError, "weird"),
        (
            lambda: models.maxvit_t(input_size=(200, 224)),
            ValueError,
            "of block 0 is not divisible by partition size 7. Consider changing",
        ),
    ],
)
def test_what_models_refuse(call, error, words):
    with flambeau.device("meta"), pytest.raises(error, match=words):
        call()


def test_positions_are_resampled_for_other_sizes():
    from flambeau.vision.models.vision_transformer import interpolate_embeddings

    with flambeau.device("meta"):
        model = models.vit_b_32(image_size=96, num_classes=2)
    state = {key: flambeau.zeros(v.shape) for key, v in model.state_dict().items()}
    state["encoder.pos_embedding"] = flambeau.arange(10.0).view(1, 10, 1).expand(1, 10, 768)
    found = interpolate_embeddings(64, 32, dict(state), "bilinear", reset_heads=True)
    assert found["encoder.pos_embedding"][0, :, 0].tolist() == [0, 1, 3, 7, 9]  # corners stay
    assert not any(key.startswith("heads") for key in found)
    assert interpolate_embeddings(96, 32, state) is state
    with pytest.raises(ValueError, match="seq_length is not a perfect square"):
        interpolate_embeddings(64, 32, {"encoder.pos_embedding": flambeau.zeros(1, 4, 8)})


def test_intermediate_layers():
    from flambeau.vision.models._utils import IntermediateLayerGetter

    model = models.resnet18(num_classes=2).eval()
    getter = IntermediateLayerGetter(model, {"layer1": "a", "layer3": "b"})
    assert list(getter) == [
        "conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3",
    ]  # fmt: skip
    out = getter(flambeau.randn(1, 3, 32, 32))
    assert {name: tuple(v.shape) for name, v in out.items()} == {
        "a": (1, 64, 8, 8),
        "b": (1, 256, 2, 2),
    }
    with pytest.raises(ValueError, match="return_layers are not present in model"):
        IntermediateLayerGetter(model, {"layer9": "a"})


def test_frozen_normalization_takes_the_place_of_the_other():
    from flambeau.vision.ops import FrozenBatchNorm2d

    model = models.resnet18(num_classes=2).eval()
    frozen = models.resnet18(num_classes=2, norm_layer=FrozenBatchNorm2d).eval()
    assert not any("bn" in name for name, _ in frozen.named_parameters())
    frozen.load_state_dict(model.state_dict())  # num_batches_tracked is left out
    x = flambeau.randn(1, 3, 32, 32)
    assert flambeau.allclose(frozen(x), model(x), atol=1e-5)
    assert isinstance(model.bn1, nn.BatchNorm2d)


def test_features_of_inner_layers():
    from flambeau.vision.models.feature_extraction import (
        create_feature_extractor,
        get_graph_node_names,
    )

    model = models.resnet18(num_classes=2).eval()
    nodes = {"layer1.0.relu": "first", "layer1.0.relu_1": "second", "layer4": "last"}
    extractor = create_feature_extractor(model, nodes)
    used = [key for key in model.state_dict() if not key.startswith("fc")]
    assert sorted(extractor.state_dict()) == sorted(used)
    x = flambeau.randn(1, 3, 32, 32)
    out = extractor(x)
    assert {name: tuple(v.shape) for name, v in out.items()} == {
        "first": (1, 64, 8, 8),
        "second": (1, 64, 8, 8),
        "last": (1, 512, 1, 1),
    }
    assert flambeau.equal(
        out["second"], model.layer1[0](model.maxpool(model.relu(model.bn1(model.conv1(x)))))
    )
    assert flambeau.equal(model(x), model.fc(out["last"].flatten(1)))  # hooks are gone
    assert not extractor.training and extractor.train().training
    extractor.eval()  # modules are shared
    names = get_graph_node_names(model)[0]
    assert names[:5] == ["x", "conv1", "bn1", "relu", "maxpool"]
    assert names[5:12] == [
        f"layer1.0.{name}" for name in "conv1 bn1 relu conv2 bn2 add relu_1".split()
    ]
    assert names[-3:] == ["avgpool", "flatten", "fc"]
    added = create_feature_extractor(model, ["layer1.0.add", "flatten"])(x)
    assert [tuple(v.shape) for v in added.values()] == [(1, 64, 8, 8), (1, 512)]
    listed = create_feature_extractor(model, ["avgpool"])
    assert listed(x)["avgpool"].shape == (1, 512, 1, 1)
    for arguments, words in [
        ({}, "Either `return_nodes` or"),
        ({"train_return_nodes": ["fc"]}, "then both should be specified"),
        ({"return_nodes": ["nothing"]}, "node: 'nothing' is not present in model"),
    ]:
        with pytest.raises(ValueError, match=words):
            create_feature_extractor(model, **arguments)


@pytest.mark.oracle
def test_features_of_inner_layers_are_torchvisions():
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torchvision.models.feature_extraction")
    from flambeau.vision.models import feature_extraction as ours

    nodes = {"layer1.0.relu": "a", "layer2.0.relu_1": "b", "layer3": "c"}
    a = sys.modules["torchvision"].models.resnet18(num_classes=2).eval()
    b = models.resnet18(num_classes=2).eval()
    b.load_state_dict({k: flambeau.from_numpy(v.numpy()) for k, v in a.state_dict().items()})
    x = torch.randn(1, 3, 32, 32)
    right = theirs.create_feature_extractor(a, nodes)(x)
    found = ours.create_feature_extractor(b, nodes)(flambeau.from_numpy(x.numpy()))
    assert list(found) == list(right)
    for name, value in right.items():
        np.testing.assert_allclose(found[name].detach().numpy(), value.detach().numpy(), atol=1e-4)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["shufflenet_v2_x0_5", "mobilenet_v3_small", "squeezenet1_1"])
def test_whole_models_are_exchanged(name, tmp_path):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torchvision").models.get_model(name, num_classes=2).eval()
    torch.save(theirs, tmp_path / "theirs.pt")
    ours = flambeau.load(tmp_path / "theirs.pt", weights_only=False)
    assert type(ours).__module__.startswith("flambeau.vision.models")
    flambeau.save(ours, tmp_path / "ours.pt")
    again = torch.load(tmp_path / "ours.pt", weights_only=False)
    assert type(again) is type(theirs)
    x = torch.randn(1, 3, 40, 40)
    right = theirs(x).detach()
    torch.testing.assert_close(again(x).detach(), right)
    found = ours(flambeau.from_numpy(x.numpy())).detach().numpy()
    np.testing.assert_allclose(found, right.numpy(), rtol=1e-4, atol=1e-5)
