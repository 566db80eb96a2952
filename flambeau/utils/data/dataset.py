"""Datasets: where samples come from.

A map-style dataset answers `dataset[index]`; an iterable one hands out samples in its own order. A
dataset may also answer `__getitems__(indices)` with a list of samples, which loaders prefer. The
classes below join, cut and pair such sources; none of them copies a sample. How samples become
batches is told in `collate.py`, batches without a loop over samples in `gathering.py`.
"""

import itertools
import math
import typing
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import flambeau
from flambeau import Generator, Tensor, default_generator

__all__ = [
    "Dataset",
    "IterableDataset",
    "TensorDataset",
    "StackDataset",
    "ConcatDataset",
    "ChainDataset",
    "Subset",
    "random_split",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


def _samples(dataset: Any, indices: list[Any]) -> list[Any]:
    """Many samples of a dataset, all at once where it knows how."""
    at_once = getattr(dataset, "__getitems__", None)
    return at_once(indices) if callable(at_once) else [dataset[index] for index in indices]


class Dataset(Generic[_T_co]):
    """Samples by index: a subclass writes `__getitem__`, and `__len__` unless its sampler knows.

    A subclass may add `__getitems__(indices)`, which returns the samples of a whole batch as a
    list. `first + second` is the two datasets one after the other.

    Example:
        >>> class Squares(flambeau.utils.data.Dataset):
        ...     def __getitem__(self, index):
        ...         return index * index
        ...
        ...     def __len__(self):
        ...         return 10
        >>> len(Squares() + Squares())
        20
    """

    # Neither __len__ nor __getitems__ here: to have them means to answer them.

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: "Dataset[_T_co]") -> "ConcatDataset[_T_co]":
        return ConcatDataset([self, other])


# typing's Iterable puts Generic last among the bases, as subclasses with more bases need it
class IterableDataset(Dataset[_T_co], typing.Iterable[_T_co]):
    """Samples in an order of their own: a subclass writes `__iter__`.

    With worker processes every worker has a copy of the dataset; `get_worker_info()` tells
    `__iter__` which share of the samples is the worker's own. A subclass with `state_dict` and
    `load_state_dict` resumes where it was; any other is read again up to that point.
    """

    def __add__(self, other: Dataset[_T_co]) -> "ChainDataset":  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: sample i is `(first[i], second[i], ...)`.

    Example:
        >>> pairs = flambeau.utils.data.TensorDataset(flambeau.arange(3), flambeau.ones(3, 2))
        >>> pairs[1]
        (tensor(1), tensor([1., 1.]))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [tensor.size(0) for tensor in tensors]
        if len({*sizes}) > 1:
            raise AssertionError(f"Size mismatch between tensors; their first sizes are {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Samples of several datasets side by side: tuples, or dicts for keyword arguments.

    Example:
        >>> stack = flambeau.utils.data.StackDataset(word=["a", "b"], number=[1, 2])
        >>> stack[1]
        {'word': 'b', 'number': 2}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in self._parts()]
        if not lengths:
            raise ValueError("At least one dataset should be passed")
        if any(length != lengths[0] for length in lengths):
            raise ValueError("Size mismatch between datasets")
        self._length = lengths[0]

    def _parts(self) -> list[Any]:
        datasets = self.datasets
        return list(datasets.values() if isinstance(datasets, dict) else datasets)

    def _joined(self, values: Iterable[Any]) -> Any:
        """One value per dataset as a sample."""
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, values))
        return tuple(values)

    def __getitem__(self, index: Any) -> Any:
        return self._joined(dataset[index] for dataset in self._parts())

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = [_samples(dataset, indices) for dataset in self._parts()]
        wanted = len(indices)
        for count in map(len, columns):
            if count != wanted:
                raise ValueError(
                    f"Nested dataset's output size mismatch. Expected {wanted}, got {count}"
                )
        return [self._joined(values) for values in zip(*columns)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Map-style datasets one after the other, under one running index.

    Example:
        >>> both = flambeau.utils.data.ConcatDataset(["ab", "cde"])
        >>> len(both), both[2], both[-1]
        (5, 'c', 'e')
    """

    datasets: list[Dataset[_T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """The running total of the lengths."""
        return list(itertools.accumulate(map(len, sequence)))

    def __init__(self, datasets: Iterable[Dataset[_T_co]]) -> None:
        super().__init__()
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> _T_co:
        place = idx if idx >= 0 else idx + len(self)
        if place < 0:
            raise ValueError("absolute value of index should not exceed dataset length")
        number = bisect_right(self.cumulative_sizes, place)
        before = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][place - before]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The older, misspelt name of `cumulative_sizes`."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
            FutureWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Iterable datasets one after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        super().__init__()
        self.datasets = datasets

    def _checked(self) -> Iterator[IterableDataset[Any]]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(map(len, self._checked()))  # type: ignore[arg-type]


class Subset(Dataset[_T_co]):
    """The samples of a dataset at the given indices, in their order.

    Example:
        >>> flambeau.utils.data.Subset("abcdef", [4, 0])[0]
        'e'
    """

    dataset: Dataset[_T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices
        kind = type(self)
        own = [getattr(kind, n) is not getattr(Subset, n) for n in ("__getitem__", "__getitems__")]
        # Loaders would call the inherited __getitems__ and never see the new __getitem__.
        if own == [True, False]:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__. "
                "When subclassing Subset and overriding __getitem__, you must also override "
                "__getitems__ to ensure DataLoader works correctly with your custom logic. "
                "A simple implementation:\n\n"
                "def __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> _T_co:
        whole: Any = self.dataset
        several = isinstance(idx, list)
        return whole[[*map(self.indices.__getitem__, idx)] if several else self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[_T_co]:
        return _samples(self.dataset, [self.indices[index] for index in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[_T],
    lengths: Sequence[int | float],
    generator: Generator | None = default_generator,
) -> list[Subset[_T]]:
    """Cut a dataset at random into parts that share no sample.

    Args:
        dataset: a map-style dataset with a length.
        lengths: how many samples each part gets, or fractions that sum up to 1; what rounding down
            leaves over goes to the first parts, one sample each.
        generator: where the permutation is drawn from; seed it to get the same parts again.

    Example:
        >>> parts = flambeau.utils.data.random_split(range(10), [0.7, 0.3])
        >>> [len(part) for part in parts]
        [7, 3]
    """
    total = len(dataset)  # type: ignore[arg-type]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(lengths, total)
    if sum(lengths) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = flambeau.randperm(total, generator=generator).tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, indices[end - length : end]) for end, length in zip(ends, lengths)]


def _lengths_of_fractions(fractions: Sequence[float], total: int) -> list[int]:
    lengths = []
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        lengths.append(math.floor(total * fraction))
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if not length:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return lengths
