"""Batches of frames."""

from collections.abc import Iterator
from typing import Any

from ..datapipe import DataChunk
from . import dataframe_wrapper as frames

__all__ = ["DataChunkDF"]


class DataChunkDF(DataChunk[Any]):
    """A batch of frames; its samples are the rows of all."""

    def __iter__(self) -> Iterator[Any]:
        for frame in self.items:
            yield from frames.iterate(frame)

    def __len__(self) -> int:
        return sum(map(frames.get_len, self.items))
