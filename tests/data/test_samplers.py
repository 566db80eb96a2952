"""Samplers: the very indices PyTorch draws, at the same moments."""

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau as torch
from flambeau.utils.data.sampler import batches_of_blocks
from tests.data.loading_cases import SAMPLERS, program
from tests.snippets import outcome

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/loading.json"
RECORDED = json.loads(GOLDEN.read_text())["samplers"]
D = torch.utils.data


@pytest.mark.parametrize("snippet", SAMPLERS)
def test_outcome_is_the_recorded_one(snippet):
    assert outcome(torch, program(snippet)) == RECORDED[snippet]


@pytest.mark.oracle
def test_outcome_is_that_of_torch():
    oracle = pytest.importorskip("torch")
    for snippet in SAMPLERS:
        assert outcome(torch, program(snippet)) == outcome(oracle, program(snippet)), snippet


@pytest.mark.oracle
@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 1000, 2500])
@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("own_generator", [False, True])
def test_long_sequences_are_those_of_torch(count, replacement, own_generator):
    oracle = pytest.importorskip("torch")
    drawn = []
    for package in (torch, oracle):
        package.manual_seed(11)
        generator = package.Generator().manual_seed(5) if own_generator else None
        sampler = package.utils.data.RandomSampler(range(1000), replacement, count, generator)
        epochs = [list(sampler) for _ in range(3)]
        after = package.get_rng_state().tolist()
        drawn.append((epochs, after, own_generator and generator.get_state().tolist()))
    assert drawn[0] == drawn[1]


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(1, 30), st.booleans())
def test_blocks_are_cut_as_batch_sampler_cuts_a_list(lengths, size, drop_last):
    total = sum(lengths)
    blocks = torch.arange(total).split(lengths) if lengths else ()
    found = [batch.tolist() for batch in batches_of_blocks(iter(blocks), size, drop_last)]
    assert found == list(D.BatchSampler(range(total), size, drop_last))


def test_blocks_are_asked_for_when_a_batch_needs_them():
    asked = []

    def blocks():
        for number in range(3):
            asked.append(number)
            yield torch.arange(4)

    batches = batches_of_blocks(blocks(), 2, False)
    seen = [(next(batches).tolist(), len(asked)) for _ in range(3)]
    assert seen == [([0, 1], 1), ([2, 3], 1), ([0, 1], 2)]


def test_distributed_shares_cover_the_dataset():
    for shuffle in (False, True):
        samplers = [D.DistributedSampler(range(23), 4, rank, shuffle) for rank in range(4)]
        shares = [list(sampler) for sampler in samplers]
        assert {len(share) for share in shares} == {6}
        assert {i for share in shares for i in share} == set(range(23))


def test_distributed_needs_its_place():
    if torch.distributed.is_available():
        pytest.skip("there is a distributed package to ask")
    for arguments in ({}, {"num_replicas": 2}, {"rank": 0}):
        with pytest.raises(RuntimeError, match="Requires distributed package to be available"):
            D.DistributedSampler(range(4), **arguments)
