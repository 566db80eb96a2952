"""Fetching: from an index, or a list of them, to a finished batch.

The same fetchers serve a loader without workers and each worker process. When reading a sample
fails, the exception goes on unchanged, with a note that names the sample; `failed_index` on the
fetcher holds its index for callers that report it themselves.
"""

from collections.abc import Callable, Iterator
from typing import Any

from .gathering import Gather, find_gather

NOTHING_FAILED = object()  # any value could be an index, None too
SHOWN_INDICES = 20  # of a batch that failed as a whole


class DatasetKind:
    """How a dataset is read: by index, or in its own order."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> "Fetcher":
        return create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last)


class Fetcher:
    """Base of all fetchers: what they know."""

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.failed_index: Any = NOTHING_FAILED

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch of a list of indices; without batching, the sample of one index."""
        raise NotImplementedError

    def _failed(self, error: BaseException, index: Any, description: str) -> None:
        self.failed_index = index
        error.add_note(f"raised while reading {description} of {type(self.dataset).__name__}")


class MapFetcher(Fetcher):
    """Samples by index."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        if self.auto_collation:
            data = self.samples(possibly_batched_index)
        else:
            data = self._sample(possibly_batched_index)
        return self.collate_fn(data)

    def samples(self, indices: Any) -> Any:
        dataset = self.dataset
        if getattr(dataset, "__getitems__", None):
            try:
                return dataset.__getitems__(indices)
            except Exception as error:
                self._failed(error, indices, f"samples {shortened(indices)}")
                raise
        index = NOTHING_FAILED
        samples = []
        try:
            for index in indices:
                samples.append(dataset[index])
        except Exception as error:
            self._failed(error, index, f"sample {index!r}")
            raise
        return samples

    def _sample(self, index: Any) -> Any:
        try:
            return self.dataset[index]
        except Exception as error:
            self._failed(error, index, f"sample {index!r}")
            raise


class IterableFetcher(Fetcher):
    """The next samples, as many as there are indices."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.dataset_iter: Iterator[Any] = iter(self.dataset)
        self.ended = False
        self.samples_read = 0

    def fetch(self, possibly_batched_index: Any) -> Any:
        return self.collate_fn(self.samples(possibly_batched_index))

    def skip(self, possibly_batched_index: Any) -> None:
        """Read what `fetch` would read, and make nothing of it."""
        self.samples(possibly_batched_index)

    def samples(self, possibly_batched_index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self._next()
        samples: list[Any] = []
        for _ in possibly_batched_index:
            try:
                samples.append(self._next())
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(possibly_batched_index)):
            raise StopIteration
        return samples

    def _next(self) -> Any:
        try:
            sample = next(self.dataset_iter)
        except StopIteration:
            raise
        except Exception as error:
            self._failed(error, self.samples_read, f"sample {self.samples_read} (counted from 0)")
            raise
        self.samples_read += 1
        return sample


class GatherFetcher(MapFetcher):
    """Batches of tensor rows, one gather per tensor; indices may be a tensor or a slice too."""

    def __init__(self, gather: Gather, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.gather = gather

    def fetch(self, possibly_batched_index: Any) -> Any:
        index = self.gather.index_of(possibly_batched_index)
        if index is None:  # no plain integers, or out of range: the long way has the right error
            return super().fetch(possibly_batched_index)
        return self.gather.batch(index)


def create_fetcher(
    kind: int,
    dataset: Any,
    auto_collation: bool,
    collate_fn: Callable[[Any], Any],
    drop_last: bool,
) -> Fetcher:
    """The fetcher for a kind of dataset (`DatasetKind.Map` or `DatasetKind.Iterable`)."""
    arguments = dataset, auto_collation, collate_fn, drop_last
    if kind == DatasetKind.Iterable:
        return IterableFetcher(*arguments)
    gather = find_gather(dataset, collate_fn) if auto_collation else None
    return MapFetcher(*arguments) if gather is None else GatherFetcher(gather, *arguments)


def shortened(indices: Any) -> str:
    """A list of indices as text, not longer than anybody wants to read."""
    indices = list(indices)
    text = ", ".join(map(repr, indices[:SHOWN_INDICES]))
    return f"[{text}{', ...' if len(indices) > SHOWN_INDICES else ''}]"
