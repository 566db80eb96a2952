"""`gradcheck` accepts what PyTorch's accepts and refuses the rest in the same words."""

import json
import pathlib

import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.autograd.gradcheck import GradcheckError
from tests.autograd.gradcheck_cases import FUNCTIONS, cases, outcome

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/autograd.json"
RECORDED = json.loads(GOLDEN.read_text())["gradcheck"]
BY_NAME = {case.name: case for case in cases()}


def point(*shape):
    numbers = torch.arange(1.0, 1.0 + torch.Size(shape).numel(), dtype=torch.float64)
    return (numbers / 7).reshape(shape).requires_grad_()


@pytest.mark.parametrize("name", RECORDED)
def test_outcome_is_the_recorded_one(name):
    assert outcome(torch, BY_NAME[name]) == RECORDED[name]


def test_the_message_shows_both_jacobians():
    wrong = FUNCTIONS["wrong"](torch)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(wrong, point(2))
    first, numerical, *rest = str(caught.value).split("\n")
    assert first == "Jacobian mismatch for output 0 with respect to input 0,"
    assert numerical.startswith("numerical:tensor([[")
    assert any(line.startswith("analytical:tensor([[") for line in rest)


def test_fast_failure_also_shows_the_slow_jacobians():
    wrong = FUNCTIONS["wrong"](torch)
    with pytest.raises(GradcheckError, match="recompute numerical and analytical jacobians"):
        gradcheck(wrong, point(2), fast_mode=True)


def test_inputs_come_back_unchanged():
    x = point(2, 2)
    before, version = x.tolist(), x._version
    gradcheck(lambda x: x.exp(), x)
    gradcheck(lambda x: x.exp(), x, fast_mode=True)
    assert x.tolist() == before and x._version == version and x.grad is None


def test_inputs_come_back_unchanged_after_an_error():
    x = point(2)
    before, calls = x.tolist(), []

    def fragile(x):
        calls.append(1)
        if len(calls) == 2:
            raise ArithmeticError("on purpose")
        return x * 2

    with pytest.raises(ArithmeticError):
        gradcheck(fragile, x)
    assert x.tolist() == before


def test_outputs_of_changing_shape_are_refused():
    x = point(1)
    with pytest.raises(AssertionError, match="return outputs with the same shape"):
        gradcheck(lambda x: x.expand(1 if x.item() == 1 / 7 else 1 + int(x.item() > 1 / 7)), x)


def test_second_derivative_of_nothing_is_fine():
    assert gradgradcheck(lambda x: x.detach() * 0, point(2))


def test_a_check_leaves_the_random_state_alone_in_fast_mode():
    torch.manual_seed(3)
    expected = torch.rand(1).item()
    torch.manual_seed(3)
    gradcheck(lambda x: x.sin(), point(3), fast_mode=True)
    assert torch.rand(1).item() == expected


@pytest.mark.oracle
def test_outcomes_equal_torch():
    theirs = pytest.importorskip("torch")
    for case in cases():
        assert outcome(torch, case) == outcome(theirs, case), case.name
