"""Random streams in workers: seeds by PyTorch's rules, and its very numbers."""

import importlib
import random

import numpy as np
import pytest

import flambeau
from flambeau.utils.data.worker import numpy_seed
from tests.data import worker_cases as cases


@pytest.fixture(autouse=True)
def limited():
    with cases.limit(60):
        yield


@pytest.mark.parametrize("base", [0, 1, 12345, 2**32 + 7, 2**63 - 1])
@pytest.mark.parametrize("worker", [0, 1, 31])
def test_numpy_is_seeded_by_a_seed_sequence(base, worker):
    words = (worker, base & 0xFFFFFFFF, base >> 32, 0)
    assert numpy_seed(base, worker) == np.random.SeedSequence(words).generate_state(4).tolist()


def batches(package, workers, seed=7, epochs=2, **settings):
    """What a dataset that draws gives."""
    data = importlib.import_module(package.__name__ + ".utils.data")
    package.manual_seed(seed)
    loader = data.DataLoader(
        cases.Random(package), 2, shuffle=True, num_workers=workers,
        collate_fn=cases.as_given, **settings,
    )  # fmt: skip
    return [list(loader) for _ in range(epochs)]


def test_every_worker_draws_from_streams_of_its_own():
    seed, (first, second) = 7, batches(flambeau, 2)
    flambeau.manual_seed(seed)
    base = flambeau.empty((), dtype=flambeau.int64).random_().item()
    for worker in range(2):
        flambeau.manual_seed(base + worker)
        streams = random.Random(base + worker), np.random.RandomState(numpy_seed(base, worker))
        for batch in first[worker::2]:
            for _, integer, normal, python, numpy in batch:
                assert integer == flambeau.randint(0, 1 << 30, ()).item()
                assert normal == flambeau.randn(()).item()
                assert (python, numpy) == (
                    streams[0].randrange(1 << 30),
                    streams[1].randint(1 << 30),
                )
    assert first != second


def test_the_same_seed_gives_the_same_batches():
    assert batches(flambeau, 2) == batches(flambeau, 2)
    assert batches(flambeau, 2) != batches(flambeau, 2, seed=8)


def test_the_parent_draws_one_number_per_epoch():
    flambeau.manual_seed(0)
    for _ in flambeau.utils.data.DataLoader(cases.Squares(4), num_workers=1):
        pass
    after = flambeau.rand(())
    flambeau.manual_seed(0)
    flambeau.empty((), dtype=flambeau.int64).random_()
    assert after == flambeau.rand(())


@pytest.mark.oracle
@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_batches_are_those_of_pytorch(workers, persistent):
    torch = pytest.importorskip("torch")
    settings = dict(persistent_workers=persistent)
    ours = batches(flambeau, workers, **settings)
    theirs = batches(torch, workers, **settings)
    assert flatten(ours) == flatten(theirs)


def flatten(epochs):
    return [[[list(sample) for sample in batch] for batch in epoch] for epoch in epochs]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_an_epoch_that_was_left_moves_streams_as_in_pytorch():
    torch = pytest.importorskip("torch")

    def run(package):
        data = importlib.import_module(package.__name__ + ".utils.data")
        package.manual_seed(3)
        loader = data.DataLoader(
            cases.Random(package, 20), 2, num_workers=2, collate_fn=cases.as_given,
            persistent_workers=True,
        )  # fmt: skip
        for number, _ in enumerate(loader):
            if number == 2:
                break
        return [list(loader)]

    assert flatten(run(flambeau)) == flatten(run(torch))
