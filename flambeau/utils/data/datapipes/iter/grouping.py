"""Samples together: batches and groups, and batches opened again."""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sized
from typing import Any, TypeVar

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe
from ..utils.common import _check_unpickable_fn
from . import sharding
from .utils import no_length

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


def __getattr__(name: str) -> Any:
    if name not in ("SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    warnings.warn(
        f"`{name}` from `torch.utils.data.datapipes.iter.grouping` is going to be removed in "
        f"PyTorch 2.1. Please use `{name}` from the `torch.utils.data.datapipes.iter.sharding`",
        FutureWarning,
        stacklevel=2,
    )
    return getattr(sharding, name)


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[DataChunk[Any]]):
    """Batches of samples that follow one another (functional name: ``batch``).

    Args:
        datapipe: the source.
        batch_size: how many samples make a batch.
        drop_last: leave out a last batch that is not full.
        wrapper_class: what a batch is an instance of.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
    """

    datapipe: IterDataPipe[Any]
    batch_size: int
    drop_last: bool

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: type[DataChunk[Any]] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __iter__(self) -> Iterator[DataChunk[Any]]:
        batch: list[Any] = []
        for sample in self.datapipe:
            batch.append(sample)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        if not isinstance(self.datapipe, Sized):
            raise no_length(self)
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """The samples of batches (functional name: ``unbatch``).

    Args:
        datapipe: the source.
        unbatch_level: how many levels of batches are opened; -1 for all.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([[[0, 1], [2]], [[3]]]).unbatch())
        [[0, 1], [2], [3]]
        >>> list(IterableWrapper([[[0, 1], [2]], [[3]]]).unbatch(unbatch_level=2))
        [0, 1, 2, 3]
    """

    def __init__(self, datapipe: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield from self._dive(sample, self.unbatch_level)

    def _dive(self, element: Any, unbatch_level: int) -> Iterator[Any]:
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        batch = isinstance(element, (list, DataChunk))
        if unbatch_level == 0 or (unbatch_level == -1 and not batch):
            yield element
            return
        if not batch:
            raise IndexError(
                f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe"
            )
        for part in element:
            yield from self._dive(part, unbatch_level if unbatch_level < 0 else unbatch_level - 1)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[Any]):
    """Groups of samples with the same key (functional name: ``groupby``).

    A group goes out when it has `group_size` samples; when the buffer is full, the largest goes out
    early; what is left at the end goes out by keys, in the order in which they came.

    Args:
        datapipe: the source.
        group_key_fn: the key of a sample.
        keep_key: hand out pairs of a key and its group.
        buffer_size: how many samples wait.
        group_size: how many samples make a group; as many as there are if not given.
        guaranteed_group_size: the least size of a group that may go out early.
        drop_remaining: leave out groups that are smaller than that when the buffer is full; else
            they are errors.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(["a", "bb", "cc", "d"]).groupby(len, group_size=2))
        [['bb', 'cc'], ['a', 'd']]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[_T_co],
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        _check_unpickable_fn(group_key_fn)
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size = buffer_size, group_size
        self.guaranteed_group_size: int | None = None
        self.drop_remaining = drop_remaining
        if group_size is not None and buffer_size is not None:
            if not 0 < group_size <= buffer_size:
                raise AssertionError("group_size must be > 0 and <= buffer_size")
            self.guaranteed_group_size = group_size
        if guaranteed_group_size is not None:
            if group_size is None or not 0 < guaranteed_group_size <= group_size:
                raise AssertionError(
                    "guaranteed_group_size must be > 0 and <= group_size and group_size must be set"
                )
            self.guaranteed_group_size = guaranteed_group_size
        self.wrapper_class = DataChunk
        self.reset()

    def _largest(self) -> Any:
        """The group that has to make room; None if it is too small and left out."""
        key = max(self._groups, key=lambda key: len(self._groups[key]))
        group, least = self._groups[key], self.guaranteed_group_size
        small = least is not None and len(group) < least
        if small and not self.drop_remaining:
            raise RuntimeError("Failed to group items", str(group))
        self._held -= len(group)
        del self._groups[key]
        return None if small else self._wrapped(key, group)

    def _wrapped(self, key: Any, group: list[Any]) -> Any:
        chunk = self.wrapper_class(group)
        return (key, chunk) if self.keep_key else chunk

    def __iter__(self) -> Iterator[Any]:
        groups = self._groups
        for sample in self.datapipe:
            key = self.group_key_fn(sample)
            groups[key].append(sample)
            self._held += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                self._held -= self.group_size
                yield self._wrapped(key, groups.pop(key))
            if self._held == self.max_buffer_size:
                early = self._largest()
                if early is not None:
                    yield early
        for key in list(groups):
            group = groups.pop(key)
            self._held -= len(group)
            yield self._wrapped(key, group)

    def reset(self) -> None:
        self._held = 0
        self._groups: dict[Any, list[Any]] = defaultdict(list)

    def __getstate__(self) -> Any:
        hidden = {"_held", "_groups"}
        return self._hooked({k: v for k, v in self.__dict__.items() if k not in hidden})

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self._held, self._groups = 0, defaultdict(list)
