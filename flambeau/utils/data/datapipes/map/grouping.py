"""Batches of samples with indices."""

from collections.abc import Sized
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, MapDataPipe

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[DataChunk[Any]]):
    """Batches of samples with neighbouring indices (functional name: ``batch``).

    Args:
        datapipe: the source.
        batch_size: how many samples make a batch.
        drop_last: leave out a last batch that is not full.
        wrapper_class: what a batch is an instance of.

    Example:
        >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
        >>> list(SequenceWrapper(range(5)).batch(2))
        [[0, 1], [2, 3], [4]]
    """

    datapipe: Any
    batch_size: int
    drop_last: bool

    def __init__(
        self,
        datapipe: MapDataPipe[Any],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: type[DataChunk[Any]] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __getitem__(self, index: Any) -> DataChunk[Any]:
        batch: list[Any] = []
        start = index * self.batch_size
        try:
            for place in range(start, start + self.batch_size):
                batch.append(self.datapipe[place])
        except IndexError as error:
            if not batch or self.drop_last:
                raise IndexError(f"Index {index} is out of bound.") from error
        return self.wrapper_class(batch)

    def __len__(self) -> int:
        if not isinstance(self.datapipe, Sized):
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
