"""`torch.utils.data.graph`: the pipes that a pipe is made of.

They are found in its state, as `__getstate__` gives it: attributes that are pipes, and pipes in
containers among the attributes, wherever pickle would go.
"""

import pickle
import types
import warnings
from collections.abc import Collection
from typing import Any

from .datapipes.datapipe import IterDataPipe, MapDataPipe, _DataPipeSerializationWrapper

__all__ = ["traverse", "traverse_dps"]

DataPipe = IterDataPipe | MapDataPipe
DataPipeGraph = dict[int, tuple[Any, "DataPipeGraph"]]

# Nothing of these can hold a pipe, or pickle does not look.
PLAIN = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def _nothing() -> None:
    pass


class _Nowhere:
    def write(self, data: Any) -> None:
        pass


class _Finder(pickle.Pickler):
    """A pickler that writes nothing and notes the pipes it meets."""

    def __init__(self, known: set[int]) -> None:
        super().__init__(_Nowhere())
        self.known, self.found = known, []  # type: ignore[var-annotated]

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, DataPipe):
            if id(obj) not in self.known:
                self.found.append(obj)
            return _nothing, ()
        if obj is _nothing:
            return NotImplemented
        if isinstance(obj, PLAIN):
            return _nothing, ()
        try:
            reduced = obj.__reduce_ex__(4)
        except Exception:  # it cannot be pickled: nobody will look into it
            return _nothing, ()
        return (_nothing, ()) if isinstance(reduced, str) else reduced


def _state_of(pipe: Any, only_datapipe: bool) -> Any:
    if isinstance(pipe, _DataPipeSerializationWrapper):
        return pipe._datapipe
    state = pipe.__getstate__()
    if not only_datapipe:
        return state
    wanted = (IterDataPipe, MapDataPipe, Collection)
    if isinstance(state, dict):
        return {name: value for name, value in state.items() if isinstance(value, wanted)}
    if isinstance(state, (tuple, list)):
        return [value for value in state if isinstance(value, wanted)]
    return state


def _connected(pipe: Any, only_datapipe: bool, known: set[int]) -> list[Any]:
    finder = _Finder(known)
    finder.dump(_state_of(pipe, only_datapipe))
    return finder.found


def traverse_dps(datapipe: Any) -> DataPipeGraph:
    """The graph of a pipe: by its id, the pipe itself and the graph of its sources.

    Args:
        datapipe: the last pipe. Of its attributes, pipes and containers count.

    Example:
        >>> from flambeau.utils.data.datapipes.iter import IterableWrapper
        >>> pipe = IterableWrapper([1]).batch(2)
        >>> traverse_dps(pipe)[id(pipe)][0] is pipe
        True
    """
    return _graph_of(datapipe, only_datapipe=True, known=set())


def traverse(datapipe: Any, only_datapipe: bool | None = None) -> DataPipeGraph:
    """An older name of `traverse_dps`, which looks into all attributes.

    Args:
        datapipe: the last pipe.
        only_datapipe: whether only attributes that are pipes or containers count.
    """
    text = (
        "`traverse` function is deprecated and will be removed after 1.13. "
        "Please use `traverse_dps` instead."
    )
    if not only_datapipe:
        text += " And, the behavior will be changed to the equivalent of `only_datapipe=True`."
    warnings.warn(text, FutureWarning, stacklevel=2)
    return _graph_of(datapipe, bool(only_datapipe), set())


def _graph_of(pipe: Any, only_datapipe: bool, known: set[int]) -> DataPipeGraph:
    if not isinstance(pipe, DataPipe):
        raise RuntimeError(f"Expected `IterDataPipe` or `MapDataPipe`, but {type(pipe)} is found")
    if id(pipe) in known:
        return {}
    known = known | {id(pipe)}
    sources: DataPipeGraph = {}
    for source in _connected(pipe, only_datapipe, known):
        # what the branches before have found is looked into again, as often as it is used
        sources.update(_graph_of(source, only_datapipe, known))
    return {id(pipe): (pipe, sources)}
