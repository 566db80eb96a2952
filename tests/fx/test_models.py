"""Every model of torchvision that classifies or segments is recorded, and computes the same."""

import pytest

import flambeau
from flambeau import fx
from flambeau.testing import assert_close
from flambeau.vision import models

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = models.list_models(models) + models.list_models(models.segmentation)


def make(name):
    inner = any(part in name for part in ("deeplab", "fcn", "lraspp"))
    return models.get_model(name, **({"weights_backbone": None} if inner else {}))


@pytest.mark.parametrize("name", NAMES)
def test_models_are_recorded(name):
    with flambeau.device("meta"):
        model = make(name)
    made = fx.symbolic_trace(model)
    made.graph.lint()
    leaves = {node.target for node in made.graph.nodes if node.op == "call_module"}
    assert leaves <= {path for path, _ in model.named_modules()}
    assert dict(made.named_parameters()).keys() == dict(model.named_parameters()).keys()


@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_1", "shufflenet_v2_x0_5", "swin_t"])
def test_recorded_models_compute_the_same(name):
    flambeau.manual_seed(0)
    model = make(name).eval()
    x = flambeau.randn(1, 3, 64, 64)
    with flambeau.no_grad():
        assert_close(fx.symbolic_trace(model)(x), model(x))


def test_resnet_reads_as_its_paper():
    with flambeau.device("meta"):
        code = fx.symbolic_trace(models.resnet18()).code
    lines = [line.strip() for line in code.strip().splitlines()]
    assert lines[1:6] == [
        "conv1 = self.conv1(x);  x = None",
        "bn1 = self.bn1(conv1);  conv1 = None",
        "relu = self.relu(bn1);  bn1 = None",
        "maxpool = self.maxpool(relu);  relu = None",
        'layer1_0_conv1 = getattr(self.layer1, "0").conv1(maxpool)',
    ]
    assert lines[-3:] == [
        "flatten = torch.flatten(avgpool, 1);  avgpool = None",
        "fc = self.fc(flatten);  flatten = None",
        "return fc",
    ]
