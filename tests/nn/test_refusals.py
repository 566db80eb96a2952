"""Layers refuse what PyTorch refuses, in its words, and tell the same. Lines: layer_refusals.py."""

import json
from pathlib import Path

import pytest

import flambeau
import flambeau.nn
from tests.nn.layer_refusals import LINES, SETUP
from tests.nn.said import agree, said

RECORDED = json.loads((Path(__file__).parents[1] / "golden/nn_said.json").read_text())["refusals"]


@pytest.mark.parametrize("line", LINES)
def test_a_layer_answers_as_recorded(line):
    got, want = said(flambeau, line, SETUP), RECORDED[line]
    assert agree(got, want), (got, want)


@pytest.mark.oracle
def test_layers_answer_as_in_pytorch():
    torch = pytest.importorskip("torch")
    assert {line: said(torch, line, SETUP) for line in LINES} == RECORDED


@pytest.mark.parametrize("text", ["padding='foo'", "padding_mode='foo'"])
def test_convolutions_name_what_they_know(text):
    with pytest.raises(ValueError, match=r"(should|must) be one of"):
        eval(f"flambeau.nn.Conv2d(2, 4, 3, {text})")
