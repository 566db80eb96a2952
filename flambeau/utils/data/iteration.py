"""What all iterators of a loader share: an epoch's beginning, its count, its end.

`BaseIterator` draws the base seed and indices in PyTorch's order, so that random streams agree,
and keeps the epoch's `Progress`. How a batch is made of indices is `_next_data`: in this process
(`single_process.py`) or in others (`worker_iterator.py`).
"""

import warnings
from collections.abc import Iterator
from typing import Any

from .fetch import DatasetKind
from .loader_pipes import is_iterable_pipe, place_in_job, shared_seed
from .pinning import may_pin
from .resuming import Progress
from .sampler import fresh_seed


class BaseIterator:
    """One pass over a loader. A subclass writes `_next_data`."""

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = may_pin(loader.pin_memory, loader.pin_memory_device)
        self._pin_memory_device = "cuda" if self._pin_memory else None
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._persistent_workers = loader.persistent_workers
        self._base_seed = 0
        self._iterable_pipe = is_iterable_pipe(self._dataset)
        self._shared_seed: int | None = None  # of the shufflers of a pipe
        self._world_size, self._rank = place_in_job()
        self._begin(loader, draws_seed=True)

    def _begin(self, loader: Any, draws_seed: bool) -> None:
        """Start an epoch, or go on in the middle of one that the loader was told to resume."""
        progress = self._progress = Progress(loader)
        with progress.replaying():
            if self._iterable_pipe:
                self._shared_seed = shared_seed(loader)
            self._sampler_iter = self._indices()
            if progress.base_seed is not None:  # of the epoch that is resumed
                self._base_seed = progress.base_seed
                if progress.seed_drawn:
                    fresh_seed(loader.generator)
                    if self._iterable_pipe and self._num_workers:
                        shared_seed(loader)
            elif draws_seed:
                self._base_seed = fresh_seed(loader.generator)
                progress.seed_drawn = True
                if self._iterable_pipe and self._num_workers:
                    shared_seed(loader)  # PyTorch draws one that nobody uses
            if progress.resumed:
                progress.catch_up(self._sampler_iter)
        progress.base_seed = self._base_seed
        progress.begun()
        self._num_yielded = progress.batches

    def _indices(self) -> Iterator[Any]:
        """What indices are drawn from."""
        return iter(self._index_sampler)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Another epoch with the same workers, which keep their seeds."""
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._begin(loader, draws_seed=False)

    def _next_index(self) -> Any:
        return self._progress.draw(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __iter__(self) -> "BaseIterator":
        return self

    def __next__(self) -> Any:
        progress = self._progress
        try:
            data = self._next_data()
        except StopIteration:
            progress.active = False
            raise
        progress.consume()
        progress.batches = self._num_yielded = self._num_yielded + 1
        if (
            self._dataset_kind == DatasetKind.Iterable
            and self._IterableDataset_len_called is not None
            and self._num_yielded > self._IterableDataset_len_called
        ):
            self._warn_of_length()
        return data

    def _warn_of_length(self) -> None:
        message = (
            f"Length of IterableDataset {self._dataset} was reported to be "
            f"{self._IterableDataset_len_called}(when accessing len(dataloader)), but "
            f"{self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            message += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for "
                "examples."
            )
        warnings.warn(message, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")
