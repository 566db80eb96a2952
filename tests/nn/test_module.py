"""Module answers as PyTorch's does: registration, walking, hooks, state. Lines: module_cases.py."""

import json
from pathlib import Path

import pytest

import flambeau
import flambeau.nn
from tests.nn.module_cases import LINES, SETUP
from tests.nn.said import agree, said

RECORDED = json.loads((Path(__file__).parents[1] / "golden/nn_said.json").read_text())["modules"]


@pytest.mark.parametrize("line", LINES)
def test_a_module_answers_as_recorded(line):
    got, want = said(flambeau, line, SETUP), RECORDED[line]
    assert agree(got, want), (got, want)


@pytest.mark.oracle
def test_modules_answer_as_in_pytorch():
    torch = pytest.importorskip("torch")
    assert {line: said(torch, line, SETUP) for line in LINES} == RECORDED
