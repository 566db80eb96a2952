"""DataLoader in one process: batches, order, random streams, lengths, errors."""

import json
import pathlib
import pickle
import subprocess
import sys

import pytest

import flambeau as torch
from tests.data.loading_cases import LOADER, program
from tests.snippets import outcome

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/loading.json"
RECORDED = json.loads(GOLDEN.read_text())["loader"]
D = torch.utils.data


@pytest.mark.parametrize("snippet", LOADER)
def test_outcome_is_the_recorded_one(snippet):
    assert outcome(torch, program(snippet)) == RECORDED[snippet]


@pytest.mark.oracle
def test_outcome_is_that_of_torch():
    oracle = pytest.importorskip("torch")
    for snippet in LOADER:
        assert outcome(torch, program(snippet)) == outcome(oracle, program(snippet)), snippet


@pytest.mark.oracle
@pytest.mark.parametrize("own_generator", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 64, None])
def test_the_default_generator_is_where_torch_leaves_it(batch_size, own_generator):
    oracle = pytest.importorskip("torch")
    seen = []
    for package in (torch, oracle):
        package.manual_seed(5)
        data = package.utils.data
        generator = package.Generator().manual_seed(1) if own_generator else None
        dataset = data.TensorDataset(package.arange(101))
        loader = data.DataLoader(dataset, batch_size, shuffle=True, generator=generator)
        story = []
        for _ in range(3):
            for (batch,) in loader:
                story += batch.reshape(-1).tolist()
                story.append(package.rand(()).item())  # as a model with dropout draws
            story.append(package.get_rng_state().tolist())
            story.append(own_generator and generator.get_state().tolist())
        seen.append(story)
    assert seen[0] == seen[1]


class Broken(D.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index == 4:
            raise KeyError("no such file")
        return index


class BrokenBatches(Broken):
    def __getitems__(self, indices):
        return [self[i] for i in indices]


class BrokenStream(D.IterableDataset):
    def __iter__(self):
        yield 1
        yield 2
        raise OSError("connection lost")


@pytest.mark.parametrize(
    ("dataset", "batch_size", "note"),
    [
        (Broken(), 2, "raised while reading sample 4 of Broken"),
        (Broken(), None, "raised while reading sample 4 of Broken"),
        (BrokenBatches(), 3, "raised while reading samples [3, 4, 5] of BrokenBatches"),
        (BrokenStream(), 2, "raised while reading sample 2 (counted from 0) of BrokenStream"),
        (BrokenStream(), None, "raised while reading sample 2 (counted from 0) of BrokenStream"),
    ],
)
def test_errors_of_a_dataset_tell_the_sample(dataset, batch_size, note):
    with pytest.raises((KeyError, OSError)) as caught:
        list(D.DataLoader(dataset, batch_size=batch_size))
    assert caught.value.__notes__ == [note]
    assert caught.value.args in [("no such file",), ("connection lost",)]


def test_long_lists_of_indices_are_shortened():
    class All(BrokenBatches):
        def __len__(self):
            return 5000

    with pytest.raises(KeyError) as caught:
        list(D.DataLoader(All(), batch_size=5000))
    assert len(caught.value.__notes__[0]) < 200 and "19, ...]" in caught.value.__notes__[0]


def test_the_fetcher_knows_which_index_failed():
    fetcher = D._DatasetKind.create_fetcher(0, Broken(), True, list, False)
    with pytest.raises(KeyError):
        fetcher.fetch([1, 4, 5])
    assert fetcher.failed_index == 4
    assert fetcher.fetch([1, 5]) == [1, 5]


def test_loading_goes_on_after_an_error():
    batches = iter(D.DataLoader(Broken(), batch_size=2))
    assert [next(batches).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(KeyError):
        next(batches)
    with pytest.raises(StopIteration):
        next(batches)


def test_a_wrong_length_is_warned_of_where_it_shows():
    class Short(D.IterableDataset):
        def __iter__(self):
            return iter(range(3))

        def __len__(self):
            return 2

    loader = D.DataLoader(Short(), batch_size=None)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match=r"reported to be 2.*but 3 samples") as told:
        for _ in loader:
            pass
    assert told[0].filename == __file__


@pytest.mark.parametrize("more", [{}, {"pin_memory_device": "cuda"}])
def test_pinning_without_an_accelerator_warns_and_does_nothing(more):
    if torch.cuda.is_available():
        pytest.skip("there is an accelerator")
    loader = D.DataLoader([1, 2], batch_size=2, pin_memory=True, **more)
    with pytest.warns(UserWarning) as told:
        assert [batch.tolist() for batch in loader] == [[1, 2]]
    assert "no accelerator is found" in str(told[-1].message) and len(told) == 1 + len(more)
    assert {warning.filename for warning in told} == {__file__}


class Pinnable:
    def __init__(self):
        self.pinned = False

    def pin_memory(self):
        self.pinned = True
        return self


def test_pinning_walks_through_containers():
    from flambeau.utils.data.pinning import pin_memory

    data = {"a": [Pinnable(), (Pinnable(), "text")], "b": Pinnable(), "c": 5}
    found = pin_memory(data)
    assert found["a"][0].pinned and found["a"][1][0].pinned and found["b"].pinned
    assert found["a"][1][1] == "text" and found["c"] == 5 and found is not data


def test_bars_know_their_length():
    tqdm = pytest.importorskip("tqdm")
    loader = D.DataLoader(D.TensorDataset(torch.arange(10)), batch_size=3, shuffle=True)
    with tqdm.tqdm(loader, disable=True) as bar:
        assert bar.total == 4 and sum(1 for _ in bar) == 4


def test_iterators_cannot_be_pickled_and_loaders_can():
    loader = D.DataLoader(D.TensorDataset(torch.arange(4)), batch_size=3)
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        pickle.dumps(iter(loader))
    again = pickle.loads(pickle.dumps(loader))
    assert [batch.tolist() for (batch,) in again] == [[0, 1, 2], [3]]


def test_too_many_workers_are_warned_of():
    with pytest.warns(UserWarning, match="This DataLoader will create 100000 worker processes"):
        D.DataLoader([1], num_workers=100000)


def test_importing_is_cheap():
    text = """
import sys, flambeau.utils.data
print([name for name in ("numpy", "PIL", "llvmlite") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_names_that_programs_import():
    from flambeau.utils.data._utils.collate import default_collate
    from flambeau.utils.data._utils.fetch import _MapDatasetFetcher
    from flambeau.utils.data._utils.pin_memory import pin_memory
    from flambeau.utils.data.dataloader import _BaseDataLoaderIter, _SingleProcessDataLoaderIter

    assert default_collate is D.default_collate and callable(pin_memory)
    assert isinstance(iter(D.DataLoader([1])), _SingleProcessDataLoaderIter)
    assert issubclass(_SingleProcessDataLoaderIter, _BaseDataLoaderIter)
    assert _MapDatasetFetcher([5], False, str, False).fetch(0) == "5"
