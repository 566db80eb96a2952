"""Several pipes with indices as one."""

from typing import Any, TypeVar

from .._decorator import functional_datapipe
from ..datapipe import MapDataPipe

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]

_T_co = TypeVar("_T_co", covariant=True)


def _checked(datapipes: tuple[Any, ...]) -> tuple[Any, ...]:
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, MapDataPipe) for pipe in datapipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")
    return datapipes


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe[Any]):
    """Pipes one after the other, under one running index (functional name: ``concat``).

    Args:
        datapipes: the pipes; all but the last need lengths.

    Example:
        >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
        >>> list(SequenceWrapper(range(3)).concat(SequenceWrapper(range(2))))
        [0, 1, 2, 0, 1]
    """

    datapipes: tuple[Any, ...]

    def __init__(self, *datapipes: MapDataPipe[Any]) -> None:
        self.datapipes = _checked(datapipes)

    def __getitem__(self, index: Any) -> Any:
        place = index
        for pipe in self.datapipes:
            if place < len(pipe):
                return pipe[place]
            place -= len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe[tuple[Any, ...]]):
    """Tuples of the samples at an index (functional name: ``zip``).

    Args:
        datapipes: the pipes.

    Example:
        >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
        >>> list(SequenceWrapper(range(3)).zip(SequenceWrapper("ab")))
        [(0, 'a'), (1, 'b')]
    """

    datapipes: tuple[Any, ...]

    def __init__(self, *datapipes: MapDataPipe[Any]) -> None:
        self.datapipes = _checked(datapipes)

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        found = []
        for pipe in self.datapipes:
            try:
                found.append(pipe[index])
            except IndexError as error:
                raise IndexError(
                    f"Index {index} is out of range for one of the input MapDataPipes {pipe}."
                ) from error
        return tuple(found)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))
