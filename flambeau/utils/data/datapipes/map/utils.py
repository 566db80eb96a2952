"""A pipe over anything with indices."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ..datapipe import MapDataPipe

__all__ = ["SequenceWrapperMapDataPipe"]

_T = TypeVar("_T")


class SequenceWrapperMapDataPipe(MapDataPipe[_T]):
    """The samples of a sequence, or of a mapping by its keys.

    Args:
        sequence: where samples come from.
        deepcopy: whether to read a copy, made now.

    Example:
        >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
        >>> SequenceWrapper({"a": 100, "b": 200})["a"]
        100
    """

    sequence: Any

    def __init__(self, sequence: Sequence[_T] | Mapping[Any, _T], deepcopy: bool = True) -> None:
        self.sequence = sequence
        if deepcopy:
            try:
                self.sequence = copy.deepcopy(sequence)
            except TypeError:  # of things that cannot be pickled
                warnings.warn(
                    "The input sequence can not be deepcopied, please be aware of in-place "
                    "modification would affect source data",
                    stacklevel=2,
                )

    def __getitem__(self, index: Any) -> _T:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)
