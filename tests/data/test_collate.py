"""Collating and converting: every kind of sample, alone and in containers."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.data._utils import collate as functions
from tests.data.loading_cases import COLLATE, program
from tests.snippets import outcome

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/loading.json"
RECORDED = json.loads(GOLDEN.read_text())["collate"]
D = torch.utils.data


@pytest.mark.parametrize("snippet", COLLATE)
def test_outcome_is_the_recorded_one(snippet):
    assert outcome(torch, program(snippet)) == RECORDED[snippet]


@pytest.mark.oracle
def test_outcome_is_that_of_torch():
    oracle = pytest.importorskip("torch")
    for snippet in COLLATE:
        assert outcome(torch, program(snippet)) == outcome(oracle, program(snippet)), snippet


DTYPES = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
).split()


@pytest.mark.parametrize("name", DTYPES)
def test_tensors_of_every_dtype(name):
    rows = torch.arange(12).reshape(3, 4).to(getattr(torch, name))
    batch = D.default_collate(list(rows))
    assert batch.dtype is rows.dtype and torch.equal(batch, rows)
    assert batch.data_ptr() != rows.data_ptr()


@pytest.mark.parametrize("name", [n for n in DTYPES if n != "bfloat16"])
def test_arrays_and_numbers_of_every_dtype(name):
    rows = np.arange(12).reshape(3, 4).astype(name)
    for batch in (D.default_collate(list(rows)), D.default_collate([*rows[0]])):
        assert str(batch.dtype) == f"torch.{name}"
    assert D.default_collate(list(rows)).numpy().tolist() == rows.tolist()
    assert str(D.default_convert(rows).dtype) == f"torch.{name}"


def test_the_map_can_be_extended(monkeypatch):
    class Word:
        def __init__(self, text):
            self.text = text

    def joined(batch, *, collate_fn_map=None):
        return "".join(word.text for word in batch)

    with pytest.raises(TypeError, match=r"found <class .*Word'>"):
        D.default_collate([Word("a")])
    monkeypatch.setitem(functions.default_collate_fn_map, Word, joined)
    assert D.default_collate([(Word("a"), 1), (Word("b"), 2)])[0] == "ab"


def test_numpy_comes_right_after_tensors_in_the_map():
    D.default_collate([np.float32(1)])
    kinds = list(functions.default_collate_fn_map)
    assert kinds[:3] == [torch.Tensor, np.ndarray, (np.bool_, np.number, np.object_)]
    assert kinds[3:] == [float, int, str, bytes]


def test_numpy_is_not_needed_and_then_known():
    text = """
import sys, flambeau
D = flambeau.utils.data
print(D.default_collate([(1, 2.5), (3, 4.5)]), "numpy" in sys.modules)
import numpy
print(D.default_collate([numpy.float32(1), numpy.float32(2)]).dtype)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "[tensor([1, 3]), tensor([2.5000, 4.5000], dtype=torch.float64)] False"
    assert second == "torch.float32"
