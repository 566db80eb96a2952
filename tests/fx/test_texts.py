"""Graphs and code of recorded programs read as PyTorch's, letter for letter."""

import json
from pathlib import Path

import pytest

import flambeau
from tests.fx import cases, edit_cases

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "fx.json").read_text())
pytestmark = pytest.mark.filterwarnings("ignore")


def plain(value):
    """As JSON gives it back."""
    return json.loads(json.dumps(value, default=sorted))


@pytest.mark.parametrize("program", cases.PROGRAMS)
def test_recorded_programs_read_as_in_pytorch(program):
    assert cases.texts(flambeau, program) == GOLDEN["texts"][program]


@pytest.mark.parametrize("program", cases.REFUSED)
def test_what_cannot_be_recorded_is_refused_in_pytorchs_words(program):
    assert cases.said(flambeau, program) == GOLDEN["said"][program]


@pytest.mark.parametrize("place", range(len(cases.FIXED)))
def test_fixed_arguments_read_as_in_pytorch(place):
    assert cases.fixed_texts(flambeau, *cases.FIXED[place]) == GOLDEN["fixed"][place]


@pytest.mark.parametrize("name", edit_cases.EDITS)
def test_changed_graphs_read_as_in_pytorch(name):
    assert plain(edit_cases.edited(flambeau, name)) == GOLDEN["edits"][name]


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["texts", "said", "fixed", "edits"])
def test_the_record_is_what_pytorch_says(kind):
    torch = pytest.importorskip("torch")
    if kind == "fixed":
        found = [cases.fixed_texts(torch, *pair) for pair in cases.FIXED]
    else:
        tell = {"texts": cases.texts, "said": cases.said, "edits": edit_cases.edited}[kind]
        found = {name: tell(torch, name) for name in GOLDEN[kind]}
    assert plain(found) == GOLDEN[kind]
