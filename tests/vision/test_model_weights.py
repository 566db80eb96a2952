"""Weights: what was published, names and registers, loading of files, old ways of asking."""

import copy
import inspect
import json
import pickle
from collections import OrderedDict
from pathlib import Path

import pytest

import flambeau
from flambeau import hub
from flambeau.vision import models
from flambeau.vision.models._api import BUILTIN_MODELS, register_model
from tests.vision import model_cases as cases

RECORDED = json.loads((Path(__file__).parents[1] / "golden/models.json").read_text())


@pytest.fixture
def checkpoints(tmp_path, monkeypatch):
    """The folder where weight files are looked for."""
    monkeypatch.setattr("flambeau.hub.repositories._chosen_folder", str(tmp_path))
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return folder


def put(checkpoints, weights, state):
    path = checkpoints / weights.url.rsplit("/", 1)[1]
    flambeau.save(state, path)
    return path


def test_published_weights_are_torchvisions():
    assert cases.weights_of(models) == RECORDED["weights"]


def test_members():
    weights = models.ResNet50_Weights.IMAGENET1K_V1
    assert repr(weights) == str(weights) == "ResNet50_Weights.IMAGENET1K_V1"
    assert models.ResNet50_Weights.DEFAULT is models.ResNet50_Weights.IMAGENET1K_V2
    assert weights.url == "https://download.pytorch.org/models/resnet50-0676ba61.pth"
    assert weights.meta["num_params"] == 25557032
    assert len(weights.meta["categories"]) == 1000
    assert weights.meta["categories"][281] == "tabby"
    assert copy.deepcopy(weights) is weights
    assert pickle.loads(pickle.dumps(weights)) is weights
    assert weights.value == copy.deepcopy(weights.value) != 3


def test_transforms_prepare_images():
    pytest.importorskip("PIL")
    preset = models.EfficientNet_B0_Weights.DEFAULT.transforms()
    assert type(preset).__name__ == "ImageClassification"
    assert (preset.crop_size, preset.resize_size) == ([224], [256])
    assert preset.interpolation.value == "bicubic"
    assert preset(flambeau.randint(256, (3, 60, 40), dtype=flambeau.uint8)).shape == (3, 224, 224)
    assert models.ResNet18_Weights.DEFAULT.transforms(antialias=False).antialias is False


def test_verify():
    verify = models.ResNet18_Weights.verify
    member = models.ResNet18_Weights.IMAGENET1K_V1
    assert verify(None) is None and verify(member) is member
    assert verify("IMAGENET1K_V1") is verify("ResNet18_Weights.DEFAULT") is member
    with pytest.raises(
        TypeError,
        match="Invalid Weight class provided; expected ResNet18_Weights but received ResNet50_Weig",
    ):
        verify(models.ResNet50_Weights.DEFAULT)
    with pytest.raises(KeyError):
        verify("IMAGENET1K_V9")


def test_names_lead_to_models_and_weights():
    assert models.get_model_builder("ResNet18") is models.resnet18
    assert isinstance(models.get_model("squeezenet1_1", num_classes=2), models.SqueezeNet)
    assert models.get_model_weights("resnet50") is models.ResNet50_Weights
    assert models.get_model_weights(models.vit_b_16) is models.ViT_B_16_Weights
    found = models.get_weight("ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1")
    assert found is models.ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1
    for call, error, words in [
        (lambda: models.get_model("nothing"), ValueError, "Unknown model nothing"),
        (lambda: models.get_weight("a"), ValueError, "Invalid weight name provided: 'a'."),
        (lambda: models.get_weight("A.B"), ValueError, "The weight enum 'A' for the specific"),
        (lambda: models.get_model_weights(len), ValueError, "missing the 'weights' argument"),
        (
            lambda: models.get_model_weights(lambda weights: 1),
            ValueError,
            "The WeightsEnum class for the specific method couldn't be retrieved",
        ),
    ]:
        with pytest.raises(error, match=words):
            call()


def test_lists_of_models():
    assert models.list_models(include="vgg1?") == ["vgg11", "vgg13", "vgg16", "vgg19"]
    assert models.list_models(include=["alex*", "google*"]) == ["alexnet", "googlenet"]
    assert "resnet18" not in models.list_models(exclude="resnet*")
    assert models.list_models(module=flambeau) == []


def test_own_models_can_be_registered():
    try:

        @register_model("my_net")
        def build(**options):
            return options

        assert models.get_model("my_net", a=1) == {"a": 1}
        with pytest.raises(ValueError, match="already registered under the name 'my_net'"):
            register_model("my_net")(build)
    finally:
        del BUILTIN_MODELS["my_net"]


def test_signatures():
    for name in models.list_models(module=models):
        parameters = inspect.signature(getattr(models, name)).parameters
        assert list(parameters) == ["weights", "progress", "kwargs"]
        kinds = [p.kind.name for p in parameters.values()]
        assert kinds == ["KEYWORD_ONLY", "KEYWORD_ONLY", "VAR_KEYWORD"]
        assert models.get_model_builder(name).__doc__


# -- files -----------------------------------------------------------------------------------------


def test_a_file_in_the_folder_is_used(checkpoints):
    flambeau.manual_seed(0)
    weights = models.SqueezeNet1_1_Weights.DEFAULT
    source = models.squeezenet1_1()
    put(checkpoints, weights, source.state_dict())
    for said in (weights, "DEFAULT", "IMAGENET1K_V1", "SqueezeNet1_1_Weights.IMAGENET1K_V1"):
        model = models.squeezenet1_1(weights=said)
        assert all(
            flambeau.equal(a, b)
            for a, b in zip(model.parameters(), source.parameters(), strict=True)
        )
    with pytest.raises(ValueError, match="'num_classes' expected value 1000 but got 10 instead"):
        models.squeezenet1_1(weights="DEFAULT", num_classes=10)


def test_without_file_and_network_the_error_says_what_to_do(checkpoints, monkeypatch):
    def unreachable(*_, **__):
        from urllib.error import URLError

        raise URLError("no route")

    monkeypatch.setattr("flambeau.hub.transfer.urlopen", unreachable)
    with pytest.raises(OSError, match=r"could not download squeezenet1_1-b8a52dc0\.pth from https"):
        models.squeezenet1_1(weights="DEFAULT", progress=False)
    with pytest.raises(OSError, match=f"put it at {checkpoints}/squeezenet1_1-b8a52dc0.pth"):
        models.SqueezeNet1_1_Weights.DEFAULT.get_state_dict(progress=False)


def test_a_file_of_the_wrong_content_is_refused_on_download(checkpoints, tmp_path, monkeypatch):
    fake = tmp_path / "fake.pth"
    flambeau.save({}, fake)
    real = hub.transfer.urlopen
    monkeypatch.setattr(
        "flambeau.hub.transfer.urlopen", lambda request, **kw: real(fake.as_uri(), **kw)
    )
    with pytest.raises(RuntimeError, match='invalid hash value \\(expected "b8a52dc0"'):
        models.squeezenet1_1(weights="DEFAULT", progress=False)
    assert not list(checkpoints.iterdir())


def test_old_names_in_densenets_files(checkpoints):
    model = models.DenseNet(4, (2, 2), 8, num_classes=3)
    old = OrderedDict()
    for key, value in model.state_dict().items():
        for name in ("norm1", "norm2", "conv1", "conv2"):
            if "denselayer" in key:
                key = key.replace(f".{name}.", f".{name[:4]}.{name[4]}.")
        if not key.endswith("num_batches_tracked"):  # they are older than that, too
            old[key] = value.clone()
    assert "features.denseblock1.denselayer2.norm.1.running_mean" in old
    other = models.DenseNet(4, (2, 2), 8, num_classes=3)
    other.load_state_dict(old)
    x = flambeau.randn(1, 3, 32, 32)
    assert flambeau.equal(model.eval()(x), other.eval()(x))


def test_old_names_in_transformers_files():
    model, other = (models.VisionTransformer(16, 8, 1, 2, 8, 12, num_classes=2) for _ in range(2))
    old = OrderedDict()
    for key, value in model.state_dict().items():
        old[key.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2.")] = value
    other.load_state_dict(old)
    assert flambeau.equal(
        other.encoder.layers[0].mlp[3].weight, model.encoder.layers[0].mlp[3].weight
    )


def test_first_version_of_mnasnet():
    new = models.mnasnet0_5(num_classes=2)
    state = new.state_dict()
    state._metadata[""]["version"] = 1
    with pytest.warns(UserWarning, match="A new version of MNASNet"), pytest.raises(RuntimeError):
        new.load_state_dict(state)  # the stem was wider then
    assert new.layers[0].weight.shape[0] == 32
    again = models.mnasnet0_5(num_classes=2)
    with pytest.warns(UserWarning, match="A new version of MNASNet"):
        again.load_state_dict(new.state_dict())
    assert new._version == again._version == 1


def test_auxiliary_classifiers_with_weights(checkpoints):
    source = models.googlenet(init_weights=False)
    put(checkpoints, models.GoogLeNet_Weights.DEFAULT, source.state_dict())
    model = models.googlenet(weights="DEFAULT")
    assert model.aux1 is None and model.aux2 is None
    assert not model.aux_logits and model.transform_input
    with pytest.warns(UserWarning, match="auxiliary heads in the pretrained googlenet model"):
        model = models.googlenet(weights="DEFAULT", aux_logits=True)
    assert model.aux1 is not None
    with pytest.raises(ValueError, match="'aux_logits' expected value True but got False"):
        models.googlenet(weights="DEFAULT", aux_logits=False)


def test_weights_decide_the_size_of_images(checkpoints, monkeypatch):
    monkeypatch.setattr(models.WeightsEnum, "get_state_dict", lambda *_, **__: {})
    monkeypatch.setattr(models.VisionTransformer, "load_state_dict", lambda *_, **__: None)
    with flambeau.device("meta"):
        model = models.vit_b_16(weights="IMAGENET1K_SWAG_E2E_V1")
    assert model.image_size == 384
    with pytest.raises(ValueError, match="'image_size' expected value 224 but got 64"):
        models.vit_b_16(weights="DEFAULT", image_size=64)


@pytest.mark.oracle
def test_a_file_that_pytorch_wrote(checkpoints):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torchvision").models.shufflenet_v2_x0_5()
    weights = models.ShuffleNet_V2_X0_5_Weights.DEFAULT
    torch.save(theirs.state_dict(), checkpoints / weights.url.rsplit("/", 1)[1])
    ours = models.shufflenet_v2_x0_5(weights=weights).eval()
    x = torch.randn(1, 3, 32, 32)
    y = ours(flambeau.from_numpy(x.numpy()))
    torch.testing.assert_close(torch.from_numpy(y.detach().numpy()), theirs.eval()(x).detach())


# -- before version 0.13 ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "loads", "warnings"),
    [
        ((), {"pretrained": False}, False, ["The parameter 'pretrained'", "Arguments other than"]),
        ((), {"pretrained": True}, True, ["The parameter 'pretrained'", "Arguments other than"]),
        ((False,), {}, False, ["Using 'weights' as positional", "Arguments other than"]),
        ((True, False), {}, True, ["Using 'weights' and 'progress' as", "Arguments other than"]),
        ((), {"weights": True}, True, ["Arguments other than a weight enum or `None`"]),
        ((), {"weights": "legacy"}, True, ["Arguments other than a weight enum"]),
        ((None,), {}, False, ["Using 'weights' as positional parameter"]),
    ],
)
def test_old_ways_of_asking(checkpoints, arguments, options, loads, warnings, recwarn):
    weights = models.SqueezeNet1_1_Weights.IMAGENET1K_V1
    source = models.squeezenet1_1()
    put(checkpoints, weights, source.state_dict())
    model = models.squeezenet1_1(*arguments, **options)
    assert [
        str(w.message)[: len(text)] for w, text in zip(recwarn, warnings, strict=True)
    ] == warnings
    assert all(w.filename == __file__ for w in recwarn)
    assert flambeau.equal(model.features[0].weight, source.features[0].weight) is loads


def test_models_without_old_weights():
    with pytest.raises(ValueError, match="No weights available for model vit_h_14"):
        models.vit_h_14(pretrained=True)


# -- models with a backbone ------------------------------------------------------------------------


def test_backbones_have_weights_of_their_own(checkpoints):
    from flambeau.vision.models import segmentation

    source = models.mobilenet_v3_large()
    weights = models.MobileNet_V3_Large_Weights.IMAGENET1K_V1
    put(checkpoints, weights, source.state_dict())
    model = segmentation.lraspp_mobilenet_v3_large(num_classes=2)  # asks for them by default
    assert flambeau.equal(model.backbone["0"][0].weight, source.features[0][0].weight)
    whole = segmentation.lraspp_mobilenet_v3_large(weights_backbone=None)
    put(checkpoints, segmentation.LRASPP_MobileNet_V3_Large_Weights.DEFAULT, whole.state_dict())
    again = models.get_model("lraspp_mobilenet_v3_large", weights="DEFAULT")
    assert flambeau.equal(
        again.classifier.low_classifier.weight, whole.classifier.low_classifier.weight
    )
    assert models.get_weight("FCN_ResNet50_Weights.DEFAULT").meta["categories"][15] == "person"
    for call, error, words in [
        (
            lambda: segmentation.lraspp_mobilenet_v3_large(weights="DEFAULT", num_classes=3),
            ValueError,
            "The parameter 'num_classes' expected value 21 but got 3 instead.",
        ),
        (
            lambda: segmentation.fcn_resnet50(weights="DEFAULT", aux_loss=False),
            ValueError,
            "The parameter 'aux_loss' expected value True but got False instead.",
        ),
        (
            lambda: segmentation.lraspp_mobilenet_v3_large(aux_loss=True),
            NotImplementedError,
            "This model does not use auxiliary loss",
        ),
    ]:
        with pytest.raises(error, match=words):
            call()
    with pytest.warns(UserWarning) as said:
        segmentation.lraspp_mobilenet_v3_large(pretrained_backbone=False)
    assert "please use 'weights_backbone' instead" in str(said[0].message)
