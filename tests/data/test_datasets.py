"""Datasets: what they give, in which order they are cut, what they say of bad arguments."""

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau as torch
from tests.data.loading_cases import DATASETS, program
from tests.snippets import outcome

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/loading.json"
RECORDED = json.loads(GOLDEN.read_text())["datasets"]
D = torch.utils.data


@pytest.mark.parametrize("snippet", DATASETS)
def test_outcome_is_the_recorded_one(snippet):
    assert outcome(torch, program(snippet)) == RECORDED[snippet]


@pytest.mark.oracle
def test_outcome_is_that_of_torch():
    oracle = pytest.importorskip("torch")
    for snippet in DATASETS:
        assert outcome(torch, program(snippet)) == outcome(oracle, program(snippet)), snippet


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6))
def test_concatenated_lists_are_the_joined_list(lengths):
    parts = [[(i, k) for k in range(n)] for i, n in enumerate(lengths)]
    joined = [item for part in parts for item in part]
    both = D.ConcatDataset(parts)
    assert len(both) == len(joined)
    assert [both[i] for i in range(len(both))] == joined
    assert [both[-1 - i] for i in range(len(both))] == joined[::-1]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.integers(0, 2**40))
def test_splits_are_a_partition(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    parts = D.random_split(range(sum(lengths)), lengths, generator)
    assert [len(part) for part in parts] == lengths
    assert sorted(i for part in parts for i in part.indices) == list(range(sum(lengths)))


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(5))
def test_splits_are_those_of_torch(seed):
    oracle = pytest.importorskip("torch")
    for lengths in ([600, 400], [0.8, 0.1, 0.1], [0.333, 0.333, 0.334], [1 / 3] * 3):
        splits = []
        for package in (torch, oracle):
            package.manual_seed(seed)
            parts = package.utils.data.random_split(range(1000), lengths)
            splits.append([part.indices for part in parts])
        assert splits[0] == splits[1]


def test_an_empty_part_is_warned_of():
    with pytest.warns(UserWarning, match=r"Length of split at index 1 is 0") as told:
        D.random_split(range(2), [0.9, 0.1], generator=torch.Generator())
    assert {warning.filename for warning in told} == {__file__}


def test_the_misspelt_name_still_works():
    both = D.ConcatDataset(["ab", "c"])
    with pytest.warns(FutureWarning, match="renamed to `cumulative_sizes`"):
        assert both.cummulative_sizes == [2, 3]


def test_classes_can_be_annotated():
    class Words(D.Dataset[str]):
        pass

    class Numbers(D.IterableDataset[int]):
        pass

    assert issubclass(Words, D.Dataset) and issubclass(Numbers, D.IterableDataset)
    assert D.Sampler[int] and D.Subset[str] and D.DataLoader[int]
