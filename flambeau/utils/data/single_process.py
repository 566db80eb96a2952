"""Loading in the process that asks.

`SingleProcessIterator` makes each batch when it is wanted. Where batches are gathered from tensors
(`gathering.py`), indices of the built-in samplers stay tensors.
"""

from collections.abc import Iterator
from typing import Any

from .fetch import DatasetKind, GatherFetcher, IterableFetcher, create_fetcher
from .gathering import index_batches
from .iteration import BaseIterator
from .loader_parts import is_stateful
from .loader_pipes import is_pipe, seed_pipes, shard
from .pinning import pin_memory
from .resuming import restore_dataset, resume_iterable, state_of_dataset


class SingleProcessIterator(BaseIterator):
    """One pass over a loader without workers."""

    def __init__(self, loader: Any) -> None:
        if loader.timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        if loader.num_workers != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires num_workers == 0")
        arguments = (
            loader.dataset,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
        )
        kind = loader._dataset_kind
        # Reading by index starts nothing, so its fetcher may come first and say how indices go.
        self._dataset_fetcher: Any = None
        if kind == DatasetKind.Map:
            self._dataset_fetcher = create_fetcher(kind, *arguments)
        super().__init__(loader)
        progress = self._progress
        restore_dataset(self._dataset, progress.saved_dataset)
        if self._shared_seed is not None:
            seed_pipes(self._dataset, self._shared_seed)
        if is_pipe(self._dataset):
            shard(self._dataset)
        if self._dataset_fetcher is None:
            with progress.replaying():
                fetcher = create_fetcher(kind, *arguments)
                if progress.resumed and isinstance(fetcher, IterableFetcher):
                    index = [None] * loader.batch_size if self._auto_collation else None
                    state = progress.saved_dataset
                    resume_iterable(fetcher, state, progress.consumed, index, progress)
            self._dataset_fetcher = fetcher
            progress.begun()
        dataset, fetcher = self._dataset, self._dataset_fetcher
        self._fetch = fetcher.fetch
        stateful = is_stateful(dataset) or is_stateful(getattr(fetcher, "dataset_iter", None))
        if stateful:  # else a loop that is left early shall let go of the dataset's iterator
            progress.dataset_state = lambda: state_of_dataset(dataset, fetcher)
        # Samples of an iterable dataset are read again to resume, so what they depend on matters.
        self._draws = kind == DatasetKind.Iterable and not stateful

    def _indices(self) -> Iterator[Any]:
        fetcher = self._dataset_fetcher
        if isinstance(fetcher, GatherFetcher):
            batches = index_batches(self._index_sampler, fetcher.gather)
            if batches is not None:
                return batches
        return super()._indices()

    def _next_data(self) -> Any:
        index = self._progress.draw(self._sampler_iter)
        try:
            if self._draws:
                with self._progress.watching(self._progress.consumed):
                    data = self._fetch(index)
            else:
                data = self._fetch(index)
        except StopIteration:
            raise
        except Exception:
            self._progress.consume()
            raise
        return pin_memory(data, self._pin_memory_device) if self._pin_memory else data
