"""A function of each sample."""

from collections.abc import Callable
from typing import Any, TypeVar

from .._decorator import functional_datapipe
from ..datapipe import MapDataPipe
from ..utils.common import _check_unpickable_fn

__all__ = ["MapperMapDataPipe", "default_fn"]

_T_co = TypeVar("_T_co", covariant=True)


def default_fn(data: Any) -> Any:
    """The sample as it is."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[_T_co]):
    """A function of each sample (functional name: ``map``).

    Args:
        datapipe: the source.
        fn: the function.

    Example:
        >>> from flambeau.utils.data.datapipes.map import SequenceWrapper
        >>> list(SequenceWrapper(range(3)).map(str))
        ['0', '1', '2']
    """

    datapipe: Any
    fn: Callable[..., Any]

    def __init__(self, datapipe: MapDataPipe[Any], fn: Callable[..., Any] = default_fn) -> None:
        super().__init__()
        _check_unpickable_fn(fn)
        self.datapipe, self.fn = datapipe, fn

    def __len__(self) -> int:
        return len(self.datapipe)

    def __getitem__(self, index: Any) -> _T_co:
        return self.fn(self.datapipe[index])
