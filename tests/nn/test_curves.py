"""Whole trainings follow PyTorch's loss curve from the same seed."""

import json
from pathlib import Path

import pytest

import flambeau as fl
from tests.nn.curve_programs import PROGRAMS, STEPS

CURVES = json.loads((Path(__file__).parent.parent / "golden" / "curves.json").read_text())


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_follow_the_recorded_curve(name):
    found, expected = PROGRAMS[name](fl), CURVES[name]
    assert len(found) == len(expected) == STEPS
    assert expected[-1] < 0.8 * expected[0]  # there is something to follow
    for step, (ours, theirs) in enumerate(zip(found, expected)):
        assert ours == pytest.approx(theirs, rel=1e-4), f"step {step}"


@pytest.mark.oracle
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_record_is_pytorchs(name):
    torch = pytest.importorskip("torch")
    assert PROGRAMS[name](torch) == pytest.approx(CURVES[name], rel=1e-4)
