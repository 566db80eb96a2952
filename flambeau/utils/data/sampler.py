"""Samplers: in which order a loader asks for samples.

A sampler is an iterable of indices, a batch sampler one of lists of indices. The random ones draw
the very numbers PyTorch draws for the same seed, and at the same moments. They hold what they drew
as tensors (`_blocks`), so that a loader which gathers whole batches (`gathering.py`) never makes
Python integers of them. `distributed.py` has the sampler of one process among several.
"""

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar

import flambeau
from flambeau import Generator, Tensor

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_T_co = TypeVar("_T_co", covariant=True)
DRAWN_AT_ONCE = 32  # with replacement; a generator of the caller's advances in such steps


class Sampler(Generic[_T_co]):
    """Base of all samplers: a subclass writes `__iter__`, and `__len__` if it knows.

    A sampler with `state_dict` and `load_state_dict` resumes where it was; any other is run again
    up to that point when a loader resumes in the middle of an epoch.
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ... up to the length of the source."""

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order, or drawn one by one with replacement.

    Args:
        data_source: what has the length.
        replacement: whether an index may come again.
        num_samples: how many indices make an epoch; the length of the source by default.
        generator: where numbers are drawn from. Without one, each epoch takes a seed from the
            default generator and nothing else.
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source, self.generator = data_source, generator
        self.replacement, self._num_samples = replacement, num_samples
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        count = self.num_samples
        if not isinstance(count, int) or count <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={count}"
            )

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def _blocks(self) -> Iterator[Tensor]:
        """The indices in tensors, each drawn when the ones before are used up."""
        length, count = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(fresh_seed(None))
            step = 1 << 16  # nobody else draws from this one: many at once
        else:
            step = DRAWN_AT_ONCE
        if self.replacement:
            for done in range(0, count, step):
                size = (min(step, count - done),)
                yield flambeau.randint(high=length, size=size, generator=generator)
            return
        for _ in range(count // length):
            yield flambeau.randperm(length, generator=generator)
        # From a generator of the caller's even if nothing of it is used, so that it ends up where
        # PyTorch leaves it.
        if count % length or self.generator is not None:
            yield flambeau.randperm(length, generator=generator)[: count % length]

    def __iter__(self) -> Iterator[int]:
        for block in self._blocks():
            yield from block.tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order = flambeau.randperm(len(self.indices), generator=self.generator)
        yield from map(self.indices.__getitem__, order.tolist())

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with the given weights, which need not sum up to one.

    Args:
        weights: one number per index.
        num_samples: how many indices make an epoch.
        replacement: whether an index may come again.
        generator: where numbers are drawn from.

    Example:
        >>> list(flambeau.utils.data.WeightedRandomSampler([0.0, 2.0, 0.0], 4))
        [1, 1, 1, 1]
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        check_positive("num_samples", num_samples)
        check_boolean("replacement", replacement)
        self.weights = flambeau.as_tensor(weights, dtype=flambeau.float64)
        if self.weights.dim() != 1:
            raise ValueError(
                "weights should be a 1d sequence but given "
                f"weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def _blocks(self) -> Iterator[Tensor]:
        yield flambeau.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )

    def __iter__(self) -> Iterator[int]:
        for block in self._blocks():
            yield from block.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Indices of another sampler, gathered into lists.

    Example:
        >>> list(flambeau.utils.data.BatchSampler(range(7), batch_size=3, drop_last=False))
        [[0, 1, 2], [3, 4, 5], [6]]
    """

    def __init__(
        self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        check_positive("batch_size", batch_size)
        check_boolean("drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        size, shortest = self.batch_size, self.batch_size if self.drop_last else 1
        indices = iter(self.sampler)
        while len(batch := list(islice(indices, size))) >= shortest:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def batches_of_blocks(
    blocks: Iterator[Tensor], batch_size: int, drop_last: bool
) -> Iterator[Tensor]:
    """What BatchSampler would give, as tensors; a block is asked for when a batch needs it."""
    rest: list[Tensor] = []
    length = 0
    for block in blocks:
        rest.append(block)
        length += block.numel()
        if length < batch_size:
            continue
        whole = rest[0] if len(rest) == 1 else flambeau.cat(rest)
        end = length - length % batch_size
        yield from whole[:end].split(batch_size)
        rest, length = [whole[end:]], length - end
    if length and not drop_last:
        yield flambeau.cat(rest)


def fresh_seed(generator: Generator | None) -> int:
    """A seed for something else: 63 random bits of the generator (the default one for None)."""
    return flambeau.empty((), dtype=flambeau.int64).random_(generator=generator).item()


def check_positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def check_boolean(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} should be a boolean value, but got {name}={value}")
