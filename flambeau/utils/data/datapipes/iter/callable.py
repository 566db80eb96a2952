"""A function of each sample."""

import functools
from collections import namedtuple
from collections.abc import Callable, Iterator, Sized
from typing import Any, TypeVar

from ...collate import default_collate
from .._decorator import functional_datapipe
from ..dataframe import dataframe_wrapper
from ..datapipe import IterDataPipe
from ..utils.common import _check_unpickable_fn, validate_input_col
from .utils import no_length

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[_T_co]):
    """A function of each sample (functional name: ``map``).

    Args:
        datapipe: the source.
        fn: the function.
        input_col: which parts of a sample (indices of a list or tuple, keys of a dict) it is given;
            several as a list.
        output_col: where its result goes: in the place of the first input by default; -1 puts it
            at the end of a list or tuple, a new key into a dict.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper([(1, 2), (3, 4)]).map(str, input_col=1))
        [(1, '2'), (3, '4')]
    """

    datapipe: IterDataPipe[Any]
    fn: Callable[..., Any]

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        fn: Callable[..., Any],
        input_col: Any = None,
        output_col: Any = None,
    ) -> None:
        super().__init__()
        _check_unpickable_fn(fn)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        validate_input_col(fn, input_col)
        self.datapipe, self.fn = datapipe, fn
        self.input_col, self.output_col = input_col, output_col

    def _apply_fn(self, data: Any) -> Any:
        taken, place = self.input_col, self.output_col
        if taken is None:
            return self.fn(data)
        several = isinstance(taken, (list, tuple))
        result = self.fn(*(data[part] for part in taken)) if several else self.fn(data[taken])
        kind = type(data)
        changed = list(data) if isinstance(data, tuple) else data.copy()
        if place is None:
            if not several:
                changed[taken] = result
            else:
                changed[taken[0]] = result
                # the other inputs have gone into it
                for part in sorted(taken[1:], reverse=True):
                    del changed[part]
        elif place == -1 and isinstance(changed, list):
            changed.append(result)
        else:
            changed[place] = result
        return kind(changed) if isinstance(data, tuple) else changed

    def __iter__(self) -> Iterator[_T_co]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        if isinstance(self.datapipe, Sized):
            return len(self.datapipe)
        raise no_length(self)


def _collate_helper(conversion: Any, item: Any) -> tuple[Any, ...]:
    """The columns of a batch of frames, each by the function that stands for it."""
    frames = dataframe_wrapper
    if len(item.items) > 1:
        raise RuntimeError("Only supports one DataFrame per batch")
    frame = item.items[0]
    names = frames.get_columns(frame)
    for name in conversion:
        if name not in names:
            raise RuntimeError("Conversion keys missmatch")
    chosen = {}
    for name in names:
        function = conversion.get(name, default_collate)
        if not callable(function):
            raise RuntimeError("Collate (DF)DataPipe requires callable as dict values")
        chosen[name] = function
    row = [chosen[name](frame[name]) for name in names]
    return namedtuple("CollateResult", list(names))(*row)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe[Any]):
    """Tensors of the samples of a batch (functional name: ``collate``).

    Args:
        datapipe: the source, of batches.
        conversion: makes a batch of a list of samples; `default_collate` if not given. For frames,
            functions of columns by their names.
        collate_fn: an older name of `conversion`, for a function.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(4)).batch(2).collate())
        [tensor([0, 1]), tensor([2, 3])]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        conversion: Any = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        if collate_fn is not None:
            fn = collate_fn
        elif callable(conversion):
            fn = conversion
        else:
            fn = functools.partial(_collate_helper, conversion)
        super().__init__(datapipe, fn=fn)
