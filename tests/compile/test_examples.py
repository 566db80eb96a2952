"""The models of the examples, trained plain and compiled: the same losses and weights."""

import importlib.util
from pathlib import Path

import pytest

import flambeau
from flambeau.nn import functional as F
from flambeau.testing import assert_close

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def gpt():
    model = example("char_gpt").GPT(20, 16, width=16, heads=2, layers=2)
    ids = flambeau.randint(0, 20, (2, 17))
    return model, (ids[:, :-1],), lambda y: F.cross_entropy(y.flatten(0, 1), ids[:, 1:].flatten())


def resnet():
    model = example("resnet_cifar").ResNet(depth=1, width=4)
    labels = flambeau.randint(0, 10, (4,))
    return model, (flambeau.randn(4, 3, 16, 16),), lambda y: F.cross_entropy(y, labels)


def vae():
    x = flambeau.rand(4, 64)
    return example("vae").VAE(16), (x,), lambda y: sum(part.square().mean() for part in y)


def convnet():
    labels = flambeau.randint(0, 10, (4,))
    model = example("convnet").Network(width=4)
    return model, (flambeau.randn(4, 1, 8, 8),), lambda y: F.cross_entropy(y, labels)


def lstm():
    model = example("word_lstm").Model(12, 8, 2, 0.3)
    ids = flambeau.randint(0, 12, (5, 3))
    return model, (ids,), lambda y: F.cross_entropy(y[0].flatten(0, 1), ids.flatten())


MODELS = [gpt, resnet, vae, convnet, lstm]


def trained(make, compile, steps=8):
    """Losses and weights after some steps."""
    flambeau.manual_seed(0)
    model, inputs, loss_of = make()
    optimizer = flambeau.optim.AdamW(model.parameters(), lr=0.01)
    run, losses = compile(model), []
    for step in range(steps):
        model.train(step != 4)  # one of them without dropout
        optimizer.zero_grad()
        loss = loss_of(run(*inputs))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *model.state_dict().values(), flambeau.get_rng_state()]


@pytest.mark.parametrize("make", MODELS)
def test_compiled_models_learn_the_same(make):
    wanted = trained(make, lambda model: model)
    found = trained(make, lambda m: flambeau.compile(m, backend="eager", fullgraph=True))
    assert all(map(flambeau.equal, found, wanted))
    native = trained(make, lambda m: flambeau.compile(m, fullgraph=True))
    assert_close(native, wanted, rtol=1e-3, atol=1e-4)
