"""Calls at the edges of what ops take give what PyTorch gives, as it was recorded."""

import json
import math
import pathlib
import re
import warnings

import pytest

import flambeau
from tests.ops.edge_cases import SNIPPETS
from tests.ops.refusal_cases import KIND_LINES, LINES

GOLDEN = pathlib.Path(__file__).parent.parent / "golden/edges.json"


def printed(torch, snippet):
    """What comes of a snippet as text: the value, or the exception and its first sentence."""
    space = {"torch": torch, "F": torch.nn.functional, "T": torch.tensor}
    space |= {"inf": math.inf, "nan": math.nan}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(eval(snippet, space))
        except Exception as error:
            first = re.split(r"(?<=[.!?])\s|\n", str(error).strip())[0]
            return f"{type(error).__name__}: {first}"


@pytest.fixture(scope="module")
def recorded():
    return json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("snippet", [*SNIPPETS, *LINES])
def test_outcome_is_the_recorded_one(snippet, recorded):
    assert printed(flambeau, snippet) == recorded[snippet]


@pytest.mark.parametrize("snippet", KIND_LINES)
def test_exception_is_the_recorded_one(snippet, recorded):
    assert printed(flambeau, snippet).partition(":")[0] == recorded[snippet].partition(":")[0]


@pytest.mark.oracle
def test_outcome_is_that_of_torch():
    oracle = pytest.importorskip("torch")
    for snippet in (*SNIPPETS, *LINES):
        assert printed(flambeau, snippet) == printed(oracle, snippet), snippet
