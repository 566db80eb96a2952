"""Models of vision can be scripted; what is scripted, saved and loaded agrees with eager mode."""

import io
from functools import partial

import pytest

import flambeau
from flambeau import nn
from flambeau.vision import models
from flambeau.vision.models import swin_transformer


def swin(**options):
    return swin_transformer.SwinTransformer(
        [4, 4], 12, [2, 2], [2, 3], [3, 3], num_classes=5, **options
    )


SECOND = {
    "block": swin_transformer.SwinTransformerBlockV2,
    "downsample_layer": swin_transformer.PatchMergingV2,
}
MODELS = {
    "densenet": (partial(models.DenseNet, 4, (2, 2, 2), 8, num_classes=5), 32),
    "googlenet": (partial(models.GoogLeNet, 5, init_weights=False), 64),
    "googlenet of images": (
        partial(models.GoogLeNet, 5, False, transform_input=True, init_weights=False), 64,
    ),
    "inception": (partial(models.Inception3, 5, init_weights=False), 80),
    "swin": (swin, 32),
    "swin of version 2": (partial(swin, **SECOND), 32),
    "maxvit": (
        partial(models.MaxVit, (32, 32), 8, 2, [8, 16], [1, 2], 8, 0.1, num_classes=5), 32,
    ),
}  # fmt: skip


def first(found):
    """Scripted GoogLeNet and Inception give tuples in every mode, as in torchvision."""
    return found if isinstance(found, flambeau.Tensor) else found[0]


@pytest.mark.parametrize("name", MODELS)
def test_scripted_models_agree(name):
    make, size = MODELS[name]
    flambeau.manual_seed(0)
    model = make().eval()
    scripted = flambeau.jit.script(model)
    x = flambeau.randn(2, 3, size, size)
    with flambeau.no_grad():
        wanted = model(x)
        assert flambeau.equal(first(scripted(x)), wanted)
        buffer = io.BytesIO()
        flambeau.jit.save(scripted, buffer)
        buffer.seek(0)
        assert flambeau.equal(first(flambeau.jit.load(buffer)(x)), wanted)


def test_they_learn_alike():
    make, size = MODELS["swin"]
    model = make(stochastic_depth_prob=0.0)
    scripted = flambeau.jit.script(model)
    x = flambeau.randn(2, 3, size, size)
    grads = []
    for each in (model, scripted):
        model.zero_grad()
        nn.functional.cross_entropy(each(x), flambeau.tensor([1, 2])).backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    assert all(flambeau.allclose(a, b, atol=1e-6) for a, b in zip(*grads))
