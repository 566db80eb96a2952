"""Every loss module: text, buffers, values, gradients, old arguments, errors."""

import numpy as np
import pytest

import flambeau
from flambeau import nn
from tests.nn import case_checks as checks
from tests.nn.loss_cases import CASES, ERRORS

GOLDEN = checks.recorded("nn_losses.json")


@pytest.mark.parametrize("case", CASES)
def test_a_loss_is_as_recorded(case):
    checks.check_recorded(flambeau, case, GOLDEN["cases"][case])


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
def test_a_loss_is_as_in_pytorch(case):
    checks.check_pytorch(flambeau, pytest.importorskip("torch"), case)


@pytest.mark.parametrize("case", CASES)
def test_copies_do_the_same(case):
    checks.check_copies(flambeau, case)


@pytest.mark.oracle
@pytest.mark.parametrize("case", [c for c in CASES if GOLDEN["cases"][c]["initial keys"]])
def test_states_are_exchanged(case):
    checks.check_exchange(flambeau, pytest.importorskip("torch"), case)


@pytest.mark.parametrize("call", ERRORS)
def test_a_bad_call_is_refused_as_recorded(call):
    assert checks.refusal(flambeau, call) == GOLDEN["errors"][call]


def test_every_loss_has_a_case():
    made = {case.partition("(")[0] for case in CASES}
    assert set(nn.modules.loss.__all__) <= made


def test_old_arguments_and_names_are_told():
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert nn.L1Loss(size_average=False).reduction == "sum"
    with pytest.warns(FutureWarning, match="`NLLLoss2d` has been deprecated"):
        nn.NLLLoss2d()


def test_weights_are_buffers():
    loss = nn.CrossEntropyLoss(flambeau.ones(3)).double()
    assert loss.weight.dtype is flambeau.float64
    assert list(loss.state_dict()) == ["weight"]
    assert not list(nn.CrossEntropyLoss().state_dict())


def test_the_adaptive_softmax_is_a_distribution():
    module = nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 9, 15], 2.0, dtype=flambeau.float64)
    x = flambeau.randn(30, 16, dtype=flambeau.float64)
    full = module.log_prob(x)
    np.testing.assert_allclose(full.exp().sum(1).tolist(), np.ones(30), rtol=1e-12)
    target = flambeau.arange(30) % 20
    output, loss = module(x, target)
    np.testing.assert_allclose(output.tolist(), full[flambeau.arange(30), target].tolist())
    assert loss.item() == pytest.approx(-output.mean().item())
    assert module.predict(x).tolist() == full.argmax(1).tolist()
    found = module(x, target)
    assert found._fields == ("output", "loss")


@pytest.mark.oracle
def test_the_adaptive_softmax_predicts_as_pytorch():
    torch = pytest.importorskip("torch")
    found = []
    for lib in (flambeau, torch):
        lib.manual_seed(3)
        module = lib.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [2, 9, 15], 2.0)
        x = lib.randn(50, 16) * 3
        found.append((module.predict(x).tolist(), module.log_prob(x).tolist()))
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-5)
