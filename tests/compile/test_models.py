"""Models train compiled as they train plainly: the same losses, weights and statistics."""

import pytest

import flambeau as torch
from tests.compile.model_cases import CASES

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 1e-2),
}


def trained(name, optimizer, steps, how, sizes=()):
    """Losses of some steps, then everything the model holds."""
    make, inputs, labels, loss_of = CASES[name]
    torch._dynamo.reset()
    torch.manual_seed(11)
    model = make()
    opt = OPTIMIZERS[optimizer](model.parameters())
    run = torch.compile(model) if how == "model" else model

    def step(x, y):
        opt.zero_grad()
        loss = loss_of(run(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    if how == "step":
        step = torch.compile(step)
    losses = []
    for k in range(steps):
        x, y = inputs(), labels()
        if sizes and name not in ("gpt",):
            x, y = x[: sizes[k % len(sizes)]], y[: sizes[k % len(sizes)]]
        losses.append(step(x, y))
        if k == steps // 2:
            model.eval()
            with torch.no_grad():
                losses.append(run(x).sum())
            model.train()
    return losses, list(model.state_dict().values())


def assert_same(a, b):
    for left, right in zip(a[0] + a[1], b[0] + b[1], strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("how", ["model", "step"])
@pytest.mark.parametrize("name", CASES)
def test_fifty_steps_are_the_same(name, how):
    optimizer = "adam" if name in ("gpt", "vae", "siren") else "sgd"
    plain = trained(name, optimizer, 50, "plain")
    assert_same(plain, trained(name, optimizer, 50, how))


@pytest.mark.parametrize("name", ["perceptron", "convnet", "siren", "regression"])
def test_batches_of_changing_size_are_the_same(name):
    sizes = (3, 4, 2, 3, 4)
    plain = trained(name, "sgd", 20, "plain", sizes)
    assert_same(plain, trained(name, "sgd", 20, "model", sizes))
