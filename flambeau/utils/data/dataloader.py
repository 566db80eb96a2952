"""DataLoader: a dataset, an order, and batches to iterate over.

This file checks arguments, chooses samplers and makes iterators; `single_process.py` and
`worker_iterator.py` do the loading, `collate.py` makes batches of samples, `resuming.py` goes on in
the middle of an epoch.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from flambeau import Generator

from .collate import default_collate
from .convert import default_convert
from .dataset import Dataset, IterableDataset
from .fetch import DatasetKind
from .iteration import BaseIterator
from .loader_pipes import is_iterable_pipe, is_pipe, prepared
from .resuming import load_saved_state, saved_state
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from .single_process import SingleProcessIterator

__all__ = ["DataLoader", "default_collate", "default_convert"]

_T_co = TypeVar("_T_co", covariant=True)
FIXED = frozenset("batch_size batch_sampler sampler drop_last dataset persistent_workers".split())

# Names of PyTorch's that programs import or subclass.
_DatasetKind = DatasetKind
_collate_fn_t = _worker_init_fn_t = Callable  # for annotations
_BaseDataLoaderIter = BaseIterator
_SingleProcessDataLoaderIter = SingleProcessIterator


def __getattr__(name: str) -> Any:
    if name == "get_worker_info":
        from .worker import get_worker_info

        return get_worker_info
    if name == "_sharding_worker_init_fn":
        from .loader_pipes import shard_worker

        return shard_worker
    if name == "_MultiProcessingDataLoaderIter":
        from .worker_iterator import WorkerIterator

        return WorkerIterator
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


class _InfiniteConstantSampler(Sampler[None]):
    """None, for ever: the sampler of datasets that choose their own order."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[_T_co]):
    """Batches of a dataset, in order or shuffled, made here or by worker processes.

    Args:
        dataset: what samples come from.
        batch_size: samples in a batch; None hands out samples as they are.
        shuffle: a new random order in each epoch; of a pipe, whether its shufflers shuffle.
        sampler: an iterable of indices instead of `shuffle`.
        batch_sampler: an iterable of lists of indices, instead of `batch_size`, `shuffle`,
            `sampler` and `drop_last`.
        num_workers: how many processes load; 0 loads in this one.
        collate_fn: makes a batch of a list of samples; `default_collate` if not given.
        pin_memory: put batches into memory from which an accelerator copies faster.
        drop_last: leave out a last batch that is not full.
        timeout: seconds to wait for a batch of the workers; 0 waits as long as they live.
        worker_init_fn: called in each worker with its number before it loads.
        multiprocessing_context: how workers are started, as a name or a context.
        generator: where the order and the seeds of workers are drawn from.
        prefetch_factor: batches that each worker prepares in advance; 2 by default.
        persistent_workers: keep workers from one epoch to the next.
        pin_memory_device: no longer used.
        in_order: hand out batches of workers in order, rather than as they are ready.

    Example:
        >>> data = flambeau.utils.data.TensorDataset(flambeau.arange(5))
        >>> for (batch,) in flambeau.utils.data.DataLoader(data, batch_size=2):
        ...     print(batch)
        tensor([0, 1])
        tensor([2, 3])
        tensor([4])
    """

    dataset: Dataset[_T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Sampler[Any] | Iterable[Any]
    pin_memory_device: str
    prefetch_factor: int | None
    _iterator: BaseIterator | None
    # there also for subclasses that do not call __init__, such as torchdata's
    _saved: Any = None  # a loaded state, until the next epoch begins
    _group: Any = None  # of the processes that share seeds
    __initialized = False

    def __init__(
        self,
        dataset: Dataset[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        iterable_pipe = is_iterable_pipe(dataset)
        if is_pipe(dataset):
            dataset = prepared(dataset, shuffle)
        self.dataset, self.in_order = dataset, in_order
        self.num_workers, self.prefetch_factor = num_workers, prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout, self.worker_init_fn = timeout, worker_init_fn
        self.multiprocessing_context = multiprocessing_context

        if isinstance(dataset, IterableDataset):
            self._dataset_kind = DatasetKind.Iterable
            _check_unordered(None if iterable_pipe else shuffle, sampler, batch_sampler)
            shuffle = None if iterable_pipe else shuffle
        else:
            self._dataset_kind = DatasetKind.Map
            shuffle = bool(shuffle)
        _check_batching(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            sampler = self._order(shuffle, generator)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)

        self.batch_size, self.drop_last, self.generator = batch_size, drop_last, generator
        self.sampler, self.batch_sampler = sampler, batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self._progress: Any = None  # of the epoch begun last
        self.__initialized = True
        self.check_worker_number_rationality()

    def _order(self, shuffle: bool | None, generator: Generator | None) -> Any:
        """The order of a dataset that comes without a sampler."""
        source: Any = self.dataset
        if self._dataset_kind == DatasetKind.Iterable:
            return _InfiniteConstantSampler()
        return RandomSampler(source, generator=generator) if shuffle else SequentialSampler(source)

    def _get_iterator(self) -> BaseIterator:
        if self.num_workers == 0:
            return SingleProcessIterator(self)
        from .worker_iterator import WorkerIterator

        self.check_worker_number_rationality()
        return WorkerIterator(self)

    def __iter__(self) -> BaseIterator:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    @property
    def multiprocessing_context(self) -> Any:
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, multiprocessing_context: Any) -> None:
        if multiprocessing_context is not None:
            multiprocessing_context = _checked_context(multiprocessing_context, self.num_workers)
        self.__multiprocessing_context = multiprocessing_context

    def __setattr__(self, attr: str, val: Any) -> None:
        if self.__initialized and attr in FIXED:
            raise ValueError(
                f"{attr} attribute should not be set after {self.__class__.__name__} is initialized"
            )
        super().__setattr__(attr, val)

    def __getstate__(self) -> dict[str, Any]:
        # A copy in another process starts epochs of its own.
        return {**self.__dict__, "_progress": None, "_iterator": None, "_group": None}

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """What an iterator draws from: lists of indices if samples are batched, else indices."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        if self._dataset_kind == DatasetKind.Map:
            return len(self._index_sampler)
        # Remembered, for a warning when the dataset turns out to be longer.
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """Where this loader is: in which epoch, after which batch, with which random state.

        A loader with the same arguments that loads it hands out the rest of the epoch, and later
        epochs, as this one will. It is plain data: `save` writes it, `load` reads it with
        `weights_only=True`. What counts is what was handed out, not what workers have prepared.
        """
        return saved_state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state of `state_dict()`, with the next iteration over this loader.

        The random streams of the process (the default generator, Python's `random`, NumPy's) go
        back to where they were when the state was taken, so load it after what else draws numbers,
        such as making a model.
        """
        load_saved_state(self, state_dict)

    def check_worker_number_rationality(self) -> None:
        """Warn if there would be more workers than processors to run them."""
        if not self.num_workers:
            return
        affinity = getattr(os, "sched_getaffinity", None)
        count = len(affinity(0)) if affinity else os.cpu_count()
        if count is None:
            advice = (
                "DataLoader is not able to compute a suggested max number of worker in current "
                "system."
            )
        elif self.num_workers > count:
            unsure = "" if affinity else " (`cpuset` is not taken into account)"
            advice = (
                f"Our suggested max number of worker in current system is {count}{unsure}, which "
                "is smaller than what this DataLoader is going to create."
            )
        else:
            return
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {advice} "
            "Please be aware that excessive worker creation might get DataLoader running slow or "
            "even freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; "
            "use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None:
        if num_workers == 0:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing."
                "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to "
                "None."
            )
        if prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_unordered(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    """An iterable dataset has its own order."""
    given = [
        ("shuffle", shuffle, shuffle not in (False, None)),
        ("sampler", sampler, sampler is not None),
        ("batch_sampler", batch_sampler, batch_sampler is not None),
    ]
    for name, value, wrong in given:
        if wrong:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


def _check_batching(
    batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: Any
) -> None:
    """Of options that say the same thing, one at a time."""
    orders = [name for name, on in (("shuffle", shuffle), ("sampler", sampler is not None)) if on]
    if len(orders) == 2:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (orders or drop_last or batch_size != 1):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
            "drop_last"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )


def _checked_context(context: Any, num_workers: int) -> Any:
    if num_workers <= 0:
        raise ValueError(
            "multiprocessing_context can only be used with "
            f"multi-process loading (num_workers > 0), but got num_workers={num_workers}"
        )
    import multiprocessing  # with much of the standard library, which most loaders do without

    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                "multiprocessing_context option should specify a valid start method in "
                f"{methods!r}, but got multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string "
            f"specifying the start method, but got multiprocessing_context={context}"
        )
    return context
