"""Batches without a loop over samples.

Where a dataset is made of tensors (TensorDataset, a tensor itself, and Subset and StackDataset of
these) and the default collation is meant, sample after sample stacked is the same as one gather of
rows per tensor, into new memory. `find_gather` says whether that holds; `index_batches` keeps the
order of the built-in samplers as tensors and slices on the way. Everything else goes through
`fetch.MapFetcher`, with the same result.
"""

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import flambeau
from flambeau import Tensor

from . import collate
from .dataset import StackDataset, Subset, TensorDataset
from .sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
    batches_of_blocks,
)

Index = Tensor | slice  # rows by number, or neighbouring ones
_known_places: WeakKeyDictionary[Subset[Any], tuple[int, list[int], Tensor]] = WeakKeyDictionary()


class Gather:
    """How to read many samples at once: `batch(index)` for indices below `length`."""

    __slots__ = ("length", "batch")

    def __init__(self, length: int, batch: Callable[[Index], Any]) -> None:
        self.length = length
        self.batch = batch

    def index_of(self, indices: Any) -> Index | None:
        """Indices in the form `batch` takes; None unless all are integers in range."""
        if type(indices) is Tensor or type(indices) is slice:
            return indices
        if type(indices) is not list or set(map(type, indices)) != {int}:
            return None
        length = self.length
        if max(indices) >= length or (lowest := min(indices)) < -length:
            return None
        if lowest < 0:
            indices = [index % length for index in indices]
        return flambeau.tensor(indices)


def find_gather(dataset: Any, collate_fn: Any) -> Gather | None:
    """The gather of a dataset made of tensors; None where samples have to be read one by one."""
    if collate_fn is not collate.default_collate or not collate.is_as_delivered():
        return None
    return _gather_of(dataset)


def _gather_of(dataset: Any) -> Gather | None:
    kind = type(dataset)
    if kind is Tensor:
        return _gather_of_tensor(dataset)
    if isinstance(dataset, TensorDataset):
        return _gather_of_tensors(dataset)
    if kind is StackDataset:
        return _gather_of_stack(dataset)
    if kind is Subset:
        return _gather_of_subset(dataset)
    return None


def _has_plain_rows(tensor: Any) -> bool:
    # Batches of tensors that want gradients show in their grad_fn how they were made.
    return (
        type(tensor) is Tensor
        and tensor.dim() > 0
        and not tensor.requires_grad
        and tensor.layout is flambeau.strided
        and tensor.device.type == "cpu"
    )


def _rows(tensor: Tensor, index: Index) -> Tensor:
    """The rows in new memory, side by side, as stacking them would give."""
    if type(index) is slice:
        return tensor[index].clone(memory_format=flambeau.contiguous_format)
    return tensor.index_select(0, index)


def _gather_of_tensor(tensor: Tensor) -> Gather | None:
    if not _has_plain_rows(tensor):
        return None
    return Gather(tensor.size(0), lambda index: _rows(tensor, index))


def _gather_of_tensors(dataset: TensorDataset) -> Gather | None:
    kind = type(dataset)
    if kind.__getitem__ is not TensorDataset.__getitem__ or hasattr(dataset, "__getitems__"):
        return None  # a subclass with samples of its own
    if not dataset.tensors or not all(map(_has_plain_rows, dataset.tensors)):
        return None

    def batch(index: Index) -> list[Tensor]:
        if type(index) is slice:
            return [_rows(tensor, index) for tensor in dataset.tensors]
        return [tensor.index_select(0, index) for tensor in dataset.tensors]

    return Gather(min(tensor.size(0) for tensor in dataset.tensors), batch)


def _gather_of_stack(dataset: StackDataset) -> Gather | None:
    parts = [_gather_of(part) for part in dataset._parts()]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    length = min(part.length for part in known)
    if isinstance(dataset.datasets, dict):
        names = list(dataset.datasets)
        return Gather(
            length, lambda index: {name: part.batch(index) for name, part in zip(names, known)}
        )
    return Gather(length, lambda index: [part.batch(index) for part in known])


def _gather_of_subset(dataset: Subset[Any]) -> Gather | None:
    inner = _gather_of(dataset.dataset)
    if inner is None or not len(dataset.indices):
        return None
    places = _places(dataset, inner)
    if places is None:
        return None
    return Gather(places.numel(), lambda index: inner.batch(_rows(places, index)))


def _places(dataset: Subset[Any], inner: Gather) -> Tensor | None:
    """The indices of a subset as a tensor; made again only if they have changed."""
    indices: Any = dataset.indices
    if type(indices) is range and _within(indices, inner.length):
        return flambeau.arange(indices.start, indices.stop, indices.step)
    if type(indices) is not list:
        if type(indices) is not range and not _is_vector_of_integers(indices):
            return None
        indices = [int(index) for index in indices]
    known = _known_places.get(dataset)
    if known is not None and known[0] == inner.length and known[1] == indices:
        return known[2]
    places = inner.index_of(indices)
    if not isinstance(places, Tensor):
        return None
    _known_places[dataset] = inner.length, list(indices), places
    return places


def _within(indices: range, length: int) -> bool:
    """Whether the indices of a range that is not empty count from the front and exist."""
    return min(indices[0], indices[-1]) >= 0 and max(indices[0], indices[-1]) < length


def _is_vector_of_integers(indices: Any) -> bool:
    """Whether these are an array or a tensor whose elements are numbers of samples."""
    dtype = str(getattr(indices, "dtype", "")).rpartition(".")[2]
    return getattr(indices, "ndim", None) == 1 and dtype.startswith(("int", "uint"))


def index_batches(batch_sampler: Any, gather: Gather) -> Iterator[Index] | None:
    """What a batch sampler would give, without a Python integer per sample; None if unknown."""
    if type(batch_sampler) is not BatchSampler:
        return None
    sampler: Any = batch_sampler.sampler
    kind = type(sampler)
    if kind is WeightedRandomSampler:
        length = len(sampler.weights)
    elif kind is RandomSampler or kind is SequentialSampler:
        length = len(sampler.data_source)
    else:
        return None
    if length > gather.length:
        return None  # the dataset itself has to say that there is no such sample
    size, drop_last = batch_sampler.batch_size, batch_sampler.drop_last
    if kind is SequentialSampler:
        return _slices(length, size, drop_last)
    return batches_of_blocks(sampler._blocks(), size, drop_last)


def _slices(length: int, size: int, drop_last: bool) -> Iterator[slice]:
    end = length - length % size if drop_last else length
    for start in range(0, end, size):
        yield slice(start, min(start + size, length))
