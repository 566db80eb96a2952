"""Event files hold what PyTorch writes for the same calls, live and as recorded."""

import json
import math
from pathlib import Path

import pytest

import flambeau
from tests.watching.tensorboard_cases import CASES, FRESH_ONLY, written

pytest.importorskip("tensorboard")
GOLDEN = Path(__file__).parent.parent / "golden" / "tensorboard.json"


def assert_close(found, expected, place=""):
    """Equal, up to the last digits of sums that NumPy adds in an order of its own."""
    if isinstance(expected, dict) and isinstance(found, dict):
        assert found.keys() == expected.keys(), place
        for key in expected:
            assert_close(found[key], expected[key], f"{place}/{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        assert len(found) == len(expected), place
        for k, (f, e) in enumerate(zip(found, expected)):
            assert_close(f, e, f"{place}/{k}")
    elif isinstance(expected, float) and isinstance(found, float):
        assert math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-12), place
    else:
        assert found == expected, place


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_events_are_those_of_pytorch(case, tmp_path):
    torch = pytest.importorskip("torch")
    found = written(case, flambeau, tmp_path / "a" / "run")
    assert_close(found, written(case, torch, tmp_path / "b" / "run"))


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.__name__ not in FRESH_ONLY], ids=lambda case: case.__name__
)
def test_events_are_those_recorded(case, tmp_path):
    expected = json.loads(GOLDEN.read_text())[case.__name__]
    found = json.loads(json.dumps(written(case, flambeau, tmp_path / "run")))
    assert_close(found, expected)
