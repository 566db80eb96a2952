"""From rows to frames, from frames to rows, and frames of other rows."""

import random
from collections.abc import Callable, Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import DFIterDataPipe, IterDataPipe
from . import dataframe_wrapper as frames

__all__ = [
    "ConcatDataFramesPipe",
    "DataFramesAsTuplesPipe",
    "ExampleAggregateAsDataFrames",
    "FilterDataFramesPipe",
    "PerRowDataFramesPipe",
    "ShuffleDataFramesPipe",
]


def _rows(pipe: Any) -> Iterator[Any]:
    """Each row of the frames of a pipe, as a frame."""
    for frame in pipe:
        for place in range(frames.get_len(frame)):
            yield frames.get_item(frame, place)


def _joined(rows: Any, size: int) -> Iterator[Any]:
    waiting = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == size:
            yield frames.concat(waiting)
            waiting = []
    if waiting:
        yield frames.concat(waiting)


class _FramePipe(DFIterDataPipe):
    def __init__(self, source_datapipe: Any) -> None:
        self.source_datapipe = source_datapipe


@functional_datapipe("_dataframes_as_tuples")
class DataFramesAsTuplesPipe(IterDataPipe[Any]):
    """The rows of frames, as tuples."""

    def __init__(self, source_datapipe: Any) -> None:
        self.source_datapipe = source_datapipe

    def __iter__(self) -> Iterator[Any]:
        for frame in self.source_datapipe:
            yield from frames.iterate(frame)


@functional_datapipe("_dataframes_per_row", enable_df_api_tracing=True)
class PerRowDataFramesPipe(_FramePipe):
    """Frames of one row each."""

    def __iter__(self) -> Iterator[Any]:
        yield from _rows(self.source_datapipe)


@functional_datapipe("_dataframes_concat", enable_df_api_tracing=True)
class ConcatDataFramesPipe(DFIterDataPipe):
    """One frame of several."""

    def __init__(self, source_datapipe: Any, batch: int = 3) -> None:
        self.source_datapipe, self.n_batch = source_datapipe, batch

    def __iter__(self) -> Iterator[Any]:
        yield from _joined(self.source_datapipe, self.n_batch)


@functional_datapipe("_dataframes_shuffle", enable_df_api_tracing=True)
class ShuffleDataFramesPipe(_FramePipe):
    """Frames with the rows of all in random order."""

    def __iter__(self) -> Iterator[Any]:
        found: list[Any] = []
        size = None
        for frame in self.source_datapipe:
            size = size or frames.get_len(frame)
            found.extend(_rows([frame]))
        random.shuffle(found)
        yield from _joined(found, size or 1)


@functional_datapipe("_dataframes_filter", enable_df_api_tracing=True)
class FilterDataFramesPipe(DFIterDataPipe):
    """Frames of the rows of which a function is true."""

    def __init__(self, source_datapipe: Any, filter_fn: Callable[..., Any]) -> None:
        self.source_datapipe, self.filter_fn = source_datapipe, filter_fn

    def __iter__(self) -> Iterator[Any]:
        found: list[Any] = []
        size = None
        for frame in self.source_datapipe:
            size = size or frames.get_len(frame)
            kept = self.filter_fn(frame)
            found.extend(row for row, keep in zip(_rows([frame]), kept) if keep)
        yield from _joined(found, size or 1)


@functional_datapipe("_to_dataframes_pipe", enable_df_api_tracing=True)
class ExampleAggregateAsDataFrames(DFIterDataPipe):
    """Frames of rows that come one by one."""

    def __init__(self, source_datapipe: Any, dataframe_size: int = 10, columns: Any = None) -> None:
        self.source_datapipe, self.columns = source_datapipe, columns
        self.dataframe_size = dataframe_size

    def __iter__(self) -> Iterator[Any]:
        waiting: list[Any] = []
        for row in self.source_datapipe:
            try:
                waiting.append(list(row))
            except TypeError:  # a row of one value
                waiting.append([row])
            if len(waiting) == self.dataframe_size:
                yield frames.create_dataframe(waiting, columns=self.columns)
                waiting = []
        if waiting:
            yield frames.create_dataframe(waiting, columns=self.columns)
