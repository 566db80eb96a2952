"""`autograd.functional` gives PyTorch's numbers, shapes, histories and errors."""

import json
import math
import pathlib

import pytest

import flambeau as torch
from flambeau.autograd import functional
from tests.autograd.functional_cases import Case, cases, outcome

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/autograd.json"
RECORDED = json.loads(GOLDEN.read_text())["functional"]
BY_NAME = {case.name: case for case in cases()}


def agree(ours, theirs):
    """The same structure and texts, numbers to the last few bits."""
    if isinstance(theirs, dict):
        same_keys = isinstance(ours, dict) and ours.keys() == theirs.keys()
        return same_keys and all(agree(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(agree, ours, theirs))
    if isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-13, abs_tol=1e-13)
    return ours == theirs


@pytest.mark.parametrize("name", RECORDED)
def test_outcome_is_the_recorded_one(name):
    ours = outcome(torch, BY_NAME[name])
    assert agree(ours, RECORDED[name]), f"{ours}\n{RECORDED[name]}"


def test_jacobian_blocks_follow_outputs_then_inputs():
    x, y = torch.ones(2, 3), torch.ones(4)
    blocks = functional.jacobian(lambda a, b: (a.sum(0), a.sum() * b, b.sum()), (x, y))
    shapes = [[tuple(block.shape) for block in row] for row in blocks]
    assert shapes == [[(3, 2, 3), (3, 4)], [(4, 2, 3), (4, 4)], [(2, 3), (4,)]]


def test_jacobian_of_an_empty_output_is_empty():
    assert functional.jacobian(lambda x: x[:0], torch.ones(3)).shape == (0, 3)


def test_forward_mode_gives_the_same_jacobian():
    x = torch.tensor([1.0, -2.0])
    ours = functional.jacobian(lambda x: x * x, x, vectorize=True, strategy="forward-mode")
    assert ours.tolist() == [[2.0, 0.0], [0.0, -4.0]]


def test_hessian_is_symmetric_and_can_be_differentiated():
    x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    h = functional.hessian(lambda x: x.prod() ** 2, x, create_graph=True)
    assert torch.equal(h, h.t())
    (third,) = torch.autograd.grad(h[0, 0], x)
    assert third.tolist() == [0.0, 2 * 2 * 1.5]


def test_inputs_keep_no_gradient_and_no_history():
    x = torch.ones(2, requires_grad=True)
    out, product = functional.vjp(lambda x: x * x, x, torch.ones(2))
    assert x.grad is None
    assert not out.requires_grad and not product.requires_grad


def test_works_where_grad_mode_is_off():
    with torch.no_grad():
        assert functional.jacobian(lambda x: x * x, torch.ones(1)).tolist() == [[2.0]]
        assert functional.hvp(lambda x: (x**3).sum(), torch.ones(1))[1].tolist() == [6.0]
        assert not torch.is_grad_enabled()


@pytest.mark.oracle
@pytest.mark.parametrize("call", ["jacobian", "hessian", "vjp", "jvp", "vhp", "hvp"])
def test_outcomes_equal_torch(call):
    theirs = pytest.importorskip("torch")

    def both(case: Case):
        return outcome(torch, case), outcome(theirs, case)

    for case in cases():
        if case.call == call:
            ours, expected = both(case)
            assert agree(ours, expected), f"{case.name}\n{ours}\n{expected}"
