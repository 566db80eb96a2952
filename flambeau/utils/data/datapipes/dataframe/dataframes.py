"""What is done to a frame that is not there yet.

A `Capture` is an expression over the frame; assignments are recorded with the root expression, in
order. `apply_ops` does all of it to a frame.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

from ..datapipe import DFIterDataPipe, IterDataPipe
from .structures import DataChunkDF

__all__ = ["Capture", "CaptureDataFrame", "CaptureDataFrameWithDataPipeOps", "DataFrameTracer"]

# what a pipe of frames does as a pipe, not to its frames
PIPE_STEPS = frozenset(
    "_dataframes_as_tuples _dataframes_concat _dataframes_filter _dataframes_per_row "
    "_dataframes_shuffle concat map".split()
)


class Capture:
    """An expression: a function of the values of other expressions, or the frame itself."""

    def __init__(self, root: Any = None, function: Any = None, *parts: Any, **named: Any) -> None:
        self.__dict__.update(_root=root or self, _function=function, _parts=parts, _named=named)
        if root is None:
            self.__dict__["_assignments"] = []

    def _grown(self, function: Callable[..., Any], *parts: Any, **named: Any) -> "Capture":
        return Capture(self._root, function, *parts, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._grown(getattr, self, name)

    def __getitem__(self, key: Any) -> Any:
        return self._grown(operator.getitem, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._root._assignments.append((operator.setitem, self, key, value))

    def __setattr__(self, name: str, value: Any) -> None:
        self._root._assignments.append((setattr, self, name, value))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._grown(lambda f, *a, **k: f(*a, **k), self, *args, **kwargs)

    def __add__(self, other: Any) -> Any:
        return self._grown(operator.add, self, other)

    def __sub__(self, other: Any) -> Any:
        return self._grown(operator.sub, self, other)

    def __mul__(self, other: Any) -> Any:
        return self._grown(operator.mul, self, other)

    def _value(self, frame: Any) -> Any:
        if self._function is None:
            return frame
        named = {name: _value(part, frame) for name, part in self._named.items()}
        return self._function(*(_value(part, frame) for part in self._parts), **named)

    def apply_ops(self, dataframe: Any) -> Any:
        """Do to a frame what was recorded, and give the value of this expression."""
        for function, *parts in self._root._assignments:
            function(*(_value(part, dataframe) for part in parts))
        return self._value(dataframe)


def _value(part: Any, frame: Any) -> Any:
    return part._value(frame) if isinstance(part, Capture) else part


class CaptureDataFrame(Capture):
    """A frame that is not there yet.

    Args:
        schema_df: not used.

    Example:
        >>> from flambeau.utils.data.datapipes.dataframe import CaptureDataFrame
        >>> frame = CaptureDataFrame()
        >>> frame["c"] = frame["a"] + 1
        >>> frame.apply_ops({"a": 1})
        {'a': 1, 'c': 2}
    """

    def __init__(self, schema_df: Any = None) -> None:
        super().__init__()


class CaptureDataFrameWithDataPipeOps(CaptureDataFrame):
    """A pipe of frames: steps of pipes are taken now, all else is recorded."""

    source_datapipe: Any

    def as_datapipe(self) -> Any:
        """A pipe of the frames to which all that was recorded has been done."""
        return DataFrameTracedOps(self.source_datapipe, self)

    def raw_iterator(self) -> Iterator[Any]:
        """The frames."""
        return iter(self.as_datapipe())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dataframes_as_tuples())

    def batch(
        self, batch_size: int = 10, drop_last: bool = False, wrapper_class: Any = DataChunkDF
    ) -> Any:
        """Batches of rows, each in one frame."""
        rows = self._dataframes_per_row()._dataframes_concat(batch_size).as_datapipe()
        return rows.batch(1, drop_last=drop_last, wrapper_class=wrapper_class)

    def groupby(self, group_key_fn: Callable[..., Any], **settings: Any) -> Any:
        """Rows in groups."""
        return self._dataframes_per_row().as_datapipe().groupby(group_key_fn, **settings)

    def shuffle(self, *args: Any, **kwargs: Any) -> Any:
        """Rows in random order."""
        return self._dataframes_shuffle(*args, **kwargs)

    def filter(self, *args: Any, **kwargs: Any) -> Any:
        """The rows of which a function of frames is true."""
        return self._dataframes_filter(*args, **kwargs)

    def collate(self, *args: Any, **kwargs: Any) -> Any:
        raise Exception("Can't collate unbatched DataFrames stream")

    def __getattr__(self, name: str) -> Any:
        if name in PIPE_STEPS:
            return getattr(self.as_datapipe(), name)
        return super().__getattr__(name)


class DataFrameTracer(CaptureDataFrameWithDataPipeOps, IterDataPipe[Any]):
    """The frames of a pipe, with what is done to them."""

    def __init__(self, source_datapipe: Any, schema_df: Any = None) -> None:
        super().__init__()
        self.__dict__["source_datapipe"] = source_datapipe

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):  # how far it has been read
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)


class DataFrameTracedOps(DFIterDataPipe):
    """The frames of a pipe after what was recorded."""

    def __init__(self, source_datapipe: Any, output_var: Any) -> None:
        self.source_datapipe, self.output_var = source_datapipe, output_var

    def __iter__(self) -> Iterator[Any]:
        for frame in self.source_datapipe:
            yield self.output_var.apply_ops(frame)


IterDataPipe.register_datapipe_as_function("trace_as_dataframe", DataFrameTracer)
