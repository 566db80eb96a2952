"""Every class of torch.nn is here, made with the same arguments, with the same methods."""

import inspect
import json
from pathlib import Path

import pytest

from flambeau import nn
from tests.nn.signatures import class_signatures, signatures

RECORDED = json.loads((Path(__file__).parents[1] / "golden/nn_names.json").read_text())
CLASSES = RECORDED["classes"]


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_recorded_signatures(name):
    assert hasattr(nn, name), f"nn.{name} is missing"
    found = class_signatures(getattr(nn, name), nn.Module)
    assert {key: found.get(key) for key in CLASSES[name]} == CLASSES[name]


# of torch.nn.functional: they multiply numbers of eight bits, or are helpers
LEFT_OUT = {"grouped_mm", "scaled_mm", "scaled_grouped_mm", "assert_int_or_pair"}


@pytest.mark.parametrize("name", [n for n in RECORDED["functions"] if n not in LEFT_OUT])
def test_a_function_has_the_recorded_parameters(name):
    want = RECORDED["functions"][name]
    found = list(inspect.signature(getattr(nn.functional, name)).parameters)
    if want is not None and found[:2] != ["args", "kwargs"]:
        assert [p for p in found if p in want] == want


def test_other_names():
    assert all(hasattr(nn, name) for name in RECORDED["others"])


def test_nothing_is_called_like_a_module_that_is_none():
    assert set(signatures(nn)) <= set(CLASSES)


@pytest.mark.oracle
def test_the_record_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    assert signatures(torch.nn) == CLASSES
