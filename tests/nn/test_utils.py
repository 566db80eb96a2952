"""torch.nn.utils: programs that give what PyTorch gives, from records and live."""

import importlib
import json
import math
from pathlib import Path

import pytest

import flambeau
import flambeau.nn.utils.prune
from tests.golden.record_nn_utils import look_up, parameters
from tests.nn.utils_scenarios import SCENARIOS, run

GOLDEN = Path(__file__).parent.parent / "golden"
RECORDED = json.loads((GOLDEN / "nn_utils.json").read_text())
LISTED = json.loads((GOLDEN / "nn_utils_signatures.json").read_text())


def differences(found, expected, path="result"):
    """Where two nested results differ; numbers may by a little."""
    if isinstance(expected, float) and isinstance(found, (int, float)):
        if not math.isclose(found, expected, rel_tol=2e-4, abs_tol=2e-5):
            yield f"{path}: {found} instead of {expected}"
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            yield from differences(a, b, f"{path}[{k}]")
    elif isinstance(expected, dict) and isinstance(found, dict) and list(found) == list(expected):
        for key in expected:
            yield from differences(found[key], expected[key], f"{path}[{key!r}]")
    elif found != expected:
        yield f"{path}: {found} instead of {expected}"


def check(found, expected):
    wrong = list(differences(found, expected))
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("name", SCENARIOS)
def test_gives_what_was_recorded(name):
    check(run(name, flambeau), RECORDED[name])


@pytest.mark.oracle
@pytest.mark.parametrize("name", SCENARIOS)
def test_gives_what_pytorch_gives(name):
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.nn.utils.prune")
    check(run(name, flambeau), run(name, torch))


def test_every_public_name_is_there():
    assert not [name for name in LISTED["all"] if not hasattr(flambeau.nn.utils, name)]


@pytest.mark.parametrize("path", LISTED["functions"])
def test_signatures(path):
    module, *names = path.split(".")
    value = importlib.import_module(f"flambeau.nn.utils.{module}")
    for name in names:
        value = getattr(value, name)
    assert parameters(value) == LISTED["functions"][path]


@pytest.mark.parametrize("path", LISTED["others"])
def test_signatures_of_training_tools(path):
    assert parameters(look_up(flambeau, path)) == LISTED["others"][path]
