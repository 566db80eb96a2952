"""A pipe over anything that can be iterated."""

import copy
import warnings
from collections.abc import Iterable, Iterator, Sized
from typing import Any, TypeVar

from ..datapipe import IterDataPipe

__all__ = ["IterableWrapperIterDataPipe"]

_T = TypeVar("_T")


class IterableWrapperIterDataPipe(IterDataPipe[_T]):
    """The samples of an iterable.

    Args:
        iterable: where samples come from.
        deepcopy: whether every iteration reads a copy of its own, so that steps which change
            samples leave the source as it was.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(3)))
        [0, 1, 2]
    """

    def __init__(self, iterable: Iterable[_T], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[_T]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:  # of things that cannot be pickled
                warnings.warn(
                    "The input iterable can not be deepcopied, please be aware of in-place "
                    "modification would affect source data.",
                    stacklevel=2,
                )
        yield from source

    def __len__(self) -> int:
        if isinstance(self.iterable, Sized):
            return len(self.iterable)
        raise no_length(self)


def no_length(pipe: Any) -> TypeError:
    """What `len` of a pipe raises that does not know it."""
    return TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
