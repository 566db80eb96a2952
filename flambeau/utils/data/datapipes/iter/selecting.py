"""Some of the samples."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .._decorator import functional_datapipe
from ..dataframe import dataframe_wrapper
from ..datapipe import IterDataPipe
from ..utils.common import StreamWrapper, _check_unpickable_fn, validate_input_col

__all__ = ["FilterIterDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[_T_co]):
    """The samples of which a function is true (functional name: ``filter``).

    Args:
        datapipe: the source.
        filter_fn: the function.
        input_col: which parts of a sample it is given; several as a list.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(["a", "", "b"]).filter(bool))
        ['a', 'b']
    """

    def __init__(
        self,
        datapipe: IterDataPipe[_T_co],
        filter_fn: Callable[..., Any],
        input_col: Any = None,
    ) -> None:
        super().__init__()
        _check_unpickable_fn(filter_fn)
        validate_input_col(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def _apply_filter_fn(self, data: Any) -> Any:
        taken = self.input_col
        if taken is None:
            return self.filter_fn(data)
        if isinstance(taken, (list, tuple)):
            return self.filter_fn(*(data[part] for part in taken))
        return self.filter_fn(data[taken])

    def __iter__(self) -> Iterator[_T_co]:
        frames = dataframe_wrapper
        for data in self.datapipe:
            keep = self._apply_filter_fn(data)
            if frames.is_column(keep):  # of a frame: one answer a row
                rows = [row for row, kept in zip(frames.iterate(data), keep) if kept]
                if rows:
                    yield frames.concat(rows)
            elif not isinstance(keep, bool):
                raise ValueError(
                    "Boolean output is required for `filter_fn` of FilterIterDataPipe, got",
                    type(keep),
                )
            elif keep:
                yield data
            else:
                StreamWrapper.close_streams(data)
