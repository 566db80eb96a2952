"""Gathered batches are the batches of the long way, for every kind of source and sampler.

The long way is forced by a collate_fn that calls default_collate: it is then not known to be it.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau as torch
from flambeau.utils.data import collate
from flambeau.utils.data.fetch import GatherFetcher, create_fetcher

D = torch.utils.data
LENGTH = 23


def long_way(batch):
    return D.default_collate(batch)


DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 "
    "complex64 complex128"
).split()


def rows(name="float32", *shape):
    values = torch.arange(LENGTH * torch.Size(shape).numel()).reshape(LENGTH, *shape) % 100
    return values.to(getattr(torch, name))


class Renamed(D.TensorDataset):
    """A subclass that changes nothing."""


SOURCES = {
    **{f"tensor {name}": lambda name=name: D.TensorDataset(rows(name, 3)) for name in DTYPES},
    "vectors and numbers": lambda: D.TensorDataset(rows("float32", 5), rows("int64")),
    "images": lambda: D.TensorDataset(rows("float32", 3, 4, 5), rows()),
    "channels last": lambda: D.TensorDataset(
        rows("float32", 3, 4, 5).contiguous(memory_format=torch.channels_last)
    ),
    "transposed": lambda: D.TensorDataset(torch.arange(5 * LENGTH).reshape(5, LENGTH).T),
    "expanded": lambda: D.TensorDataset(rows("float32", 1).expand(LENGTH, 4)),
    "strided": lambda: D.TensorDataset(torch.arange(4 * LENGTH).reshape(2 * LENGTH, 2)[1::2]),
    "offset": lambda: D.TensorDataset(torch.arange(LENGTH + 4)[4:]),
    "without elements": lambda: D.TensorDataset(rows("float32", 0), rows("int8")),
    "conjugated": lambda: D.TensorDataset(rows("complex64", 2).conj()),
    "a tensor": lambda: rows("float32", 2),
    "subclass": lambda: Renamed(rows()),
    "subset": lambda: D.Subset(D.TensorDataset(rows("int16", 2), rows()), [5, 0, -1, 5, 22, -23]),
    "subset by range": lambda: D.Subset(D.TensorDataset(rows()), range(20, 2, -3)),
    "subset by tensor": lambda: D.Subset(D.TensorDataset(rows()), torch.tensor([3, -2, 1])),
    "subset of subset": lambda: D.Subset(D.Subset(D.TensorDataset(rows()), [5, 6, 7]), [2, -3]),
    "subset of a tensor": lambda: D.Subset(rows(), [4, 2, 9]),
    "stack": lambda: D.StackDataset(D.TensorDataset(rows(), rows("int8", 2)), rows("float64")),
    "named stack": lambda: D.StackDataset(x=rows("float32", 2), y=D.TensorDataset(rows("int64"))),
    "subset of a stack": lambda: D.Subset(D.StackDataset(x=rows(), y=rows("int64")), [1, 3, 5, 0]),
    "stack of subsets": lambda: D.StackDataset(
        D.Subset(rows(), [1, 2, 3]), D.Subset(D.TensorDataset(rows("int64")), [-1, 5, 4])
    ),
}
ORDERS = {
    "in order": lambda n: {"batch_size": 4},
    "dropped": lambda n: {"batch_size": 4, "drop_last": True},
    "shuffled": lambda n: {"batch_size": 4, "shuffle": True},
    "replaced": lambda n: {
        "batch_size": 5,
        "sampler": D.RandomSampler(range(n), replacement=True, num_samples=43),
    },
    "replaced, own generator": lambda n: {
        "batch_size": 50,
        "sampler": D.RandomSampler(
            range(n), replacement=True, num_samples=143, generator=torch.Generator().manual_seed(2)
        ),
    },
    "weighted": lambda n: {"batch_size": 5, "sampler": D.WeightedRandomSampler([1.0] * n, 12)},
    "listed": lambda n: {"batch_size": 2, "sampler": [0, n - 1, -1, -n, 1]},
    "batched": lambda n: {"batch_sampler": [[0, 1], [n - 1], [0, 0]]},
}


def leaves(batch):
    """Tensors of a batch with their places in it."""
    if isinstance(batch, torch.Tensor):
        return [("", batch)]
    items = batch.items() if isinstance(batch, dict) else enumerate(batch)
    kind = type(batch).__name__
    return [(f"{kind}[{key}]{place}", t) for key, part in items for place, t in leaves(part)]


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        for (place, a), (expected, b) in zip(leaves(one), leaves(other), strict=True):
            assert place == expected
            assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()
            assert a.is_contiguous() and a.requires_grad == b.requires_grad
            assert str(a.tolist()) == str(b.tolist())  # nan is nan


def is_gathered(dataset):
    return type(create_fetcher(0, dataset, True, D.default_collate, False)) is GatherFetcher


@pytest.mark.parametrize("source", SOURCES)
def test_batches_are_those_of_the_long_way(source):
    dataset = SOURCES[source]()
    assert is_gathered(dataset)
    for order in ORDERS:
        runs = []
        for collate_fn in (None, long_way):
            torch.manual_seed(3)
            loader = D.DataLoader(dataset, collate_fn=collate_fn, **ORDERS[order](len(dataset)))
            runs.append([list(loader), list(loader), torch.get_rng_state().tolist()])
        (*ours, ours_after), (*theirs, theirs_after) = runs
        assert ours_after == theirs_after, order
        for epoch, expected in zip(ours, theirs):
            same(epoch, expected)


class Doubled(D.TensorDataset):
    def __getitem__(self, index):
        return [2 * tensor for tensor in super().__getitem__(index)]


class Listed(D.TensorDataset):
    def __getitems__(self, indices):
        return [("own", i) for i in indices]


class Picky(D.Subset):
    def __getitem__(self, index):
        return "one"

    def __getitems__(self, indices):
        return ["many"] * len(indices)


NOT_GATHERED = {
    "own items": lambda: Doubled(rows()),
    "own batches": lambda: Listed(rows()),
    "own subset": lambda: Picky(D.TensorDataset(rows()), [1, 2]),
    "gradients": lambda: D.TensorDataset(rows().requires_grad_()),
    "parameters": lambda: D.TensorDataset(torch.nn.Parameter(rows())),
    "other parts": lambda: D.StackDataset(rows(), list(range(LENGTH))),
    "subset of others": lambda: D.Subset(list(range(5)), [1, 2]),
    "subset by truth": lambda: D.Subset(D.TensorDataset(rows()), [True, 2]),
    "subset out of range": lambda: D.Subset(D.TensorDataset(rows()), [1, LENGTH]),
    "concatenated": lambda: D.TensorDataset(rows()) + D.TensorDataset(rows()),
    "no rows": lambda: torch.tensor(5.0),
}


@pytest.mark.parametrize("source", NOT_GATHERED)
def test_others_go_the_long_way(source):
    assert not is_gathered(NOT_GATHERED[source]())


def test_a_changed_map_is_heeded(monkeypatch):
    dataset = D.TensorDataset(rows())
    monkeypatch.setitem(
        collate.default_collate_fn_map, torch.Tensor, lambda batch, *, collate_fn_map=None: "mine"
    )
    assert next(iter(D.DataLoader(dataset, batch_size=2))) == ["mine"]
    monkeypatch.undo()
    assert is_gathered(dataset)


def test_batches_are_new_memory():
    data = rows("float32", 2)
    for shuffle in (False, True):
        loader = D.DataLoader(D.TensorDataset(data), batch_size=LENGTH, shuffle=shuffle)
        before = data.tolist()
        for (batch,) in loader:
            batch.zero_()
        assert data.tolist() == before


def test_later_changes_of_the_data_are_seen():
    dataset = D.TensorDataset(torch.zeros(4))
    batches = iter(D.DataLoader(dataset, batch_size=2))
    next(batches)
    dataset.tensors = (torch.ones(4),)
    assert next(batches)[0].tolist() == [1, 1]
    subset = D.Subset(dataset, [0, 1])
    loader = D.DataLoader(subset, batch_size=2)
    dataset.tensors[0].copy_(torch.arange(4.0))
    assert next(iter(loader))[0].tolist() == [0, 1]
    subset.indices[0] = 3
    assert next(iter(loader))[0].tolist() == [3, 1]


@given(
    st.integers(1, 40), st.integers(1, 50), st.booleans(), st.booleans(), st.integers(0, 2**63 - 1)
)
def test_every_sample_comes_as_often_as_it_should(length, size, shuffle, drop_last, seed):
    torch.manual_seed(seed)
    loader = D.DataLoader(
        D.TensorDataset(torch.arange(length)), size, shuffle=shuffle, drop_last=drop_last
    )
    found = [i for (batch,) in loader for i in batch.tolist()]
    full = length - length % size if drop_last else length
    assert len(set(found)) == len(found) == full and set(found) <= set(range(length))
    if not shuffle:
        assert found == list(range(full))


def test_no_loop_over_samples(monkeypatch):
    def never(self, index):
        raise AssertionError("read one by one")

    dataset = D.TensorDataset(rows("float32", 4), rows("int64"))
    monkeypatch.setattr(D.RandomSampler, "__iter__", never)
    monkeypatch.setattr(D.BatchSampler, "__iter__", never)
    loader = D.DataLoader(dataset, batch_size=8, shuffle=True)
    assert [len(x) for x, _ in loader] == [8, 8, 7]
