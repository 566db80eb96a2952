"""What all pipes have: steps as methods, words for pickling, and who they are.

Steps register themselves by `functional_datapipe` (`_decorator.py`). Iterable pipes are watched
while they are iterated (`_hook_iterator.py`). The last classes carry a pipe to the workers of a
loader.
"""

import functools
import importlib
import importlib.util
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from ..dataset import Dataset, IterableDataset
from ._hook_iterator import _SnapshotState, watch

__all__ = ["DataChunk", "DFIterDataPipe", "IterDataPipe", "MapDataPipe"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class _Pipe:
    """What pipes of both kinds share: functional names, texts, and hooks around pickling."""

    functions: ClassVar[dict[str, Callable[..., Any]]]
    reduce_ex_hook: ClassVar[Callable[..., Any] | None] = None
    getstate_hook: ClassVar[Callable[..., Any] | None] = None
    str_hook: ClassVar[Callable[..., str] | None] = None
    repr_hook: ClassVar[Callable[..., str] | None] = None

    def __getattr__(self, name: str) -> Any:
        function = self.functions.get(name)
        if function is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        method = functools.partial(function, self)
        functools.update_wrapper(method, function, assigned=("__doc__",), updated=())
        return method

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.functions})

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function of a pipe a method of all pipes."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Make a class of pipes a method of all pipes."""
        if function_name in cls.functions:
            raise Exception(
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )

        def step(source: Any, *args: Any, **kwargs: Any) -> Any:
            result = cls_to_register(source, *args, **kwargs)
            if enable_df_api_tracing:
                frames = importlib.import_module(f"{__package__}.dataframe.dataframes")
                return frames.DataFrameTracer(result)
            return result

        name = f"(functional name: ``{function_name}``)"
        text = cls_to_register.__doc__ or ""
        step.__doc__ = text if name in text else f"{text}\n\n{name}"
        step.__name__ = function_name
        cls.functions[function_name] = step

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """What `__getstate__` hands its state through."""
        _set_hook(cls, "getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """What pickles pipes instead of `__reduce_ex__`, unless it raises NotImplementedError."""
        _set_hook(cls, "reduce_ex_hook", hook_fn)

    def __getstate__(self) -> Any:
        return self._hooked(self.__dict__)

    def _hooked(self, state: Any) -> Any:
        hook = type(self).getstate_hook
        return state if hook is None else hook(state)

    def __reduce_ex__(self, protocol: Any) -> Any:
        hook = type(self).reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        hook = type(self).repr_hook
        return type(self).__qualname__.rpartition(".")[2] if hook is None else hook(self)

    def __str__(self) -> str:
        hook = type(self).str_hook
        return type(self).__qualname__.rpartition(".")[2] if hook is None else hook(self)


def _set_hook(cls: Any, name: str, hook: Any) -> None:
    if getattr(cls, name) is not None and hook is not None:
        raise RuntimeError(f"Attempt to override existing {name}")
    setattr(cls, name, None if hook is None else staticmethod(hook))


class IterDataPipe(_Pipe, IterableDataset[_T_co]):
    """A pipe with an order of its own: a subclass writes `__iter__`.

    A pipe has one valid iterator at a time: `iter(pipe)` calls `reset`, and iterators made before
    raise when they are asked for more. `fork` makes several pipes of one.

    Example:
        >>> pipe = flambeau.utils.data.datapipes.iter.IterableWrapper(range(10))
        >>> list(pipe.map(str).batch(4, drop_last=True))
        [['0', '1', '2', '3'], ['4', '5', '6', '7']]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    _is_child_datapipe = False  # of a pipe that has several
    _valid_iterator_id: int | None = None
    _number_of_samples_yielded = 0
    _snapshot_state = _SnapshotState.NotStarted
    _fast_forward_iterator: Iterator[Any] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        watch(cls)

    def __iter__(self) -> Iterator[_T_co]:
        return self

    def reset(self) -> None:
        """Go back to the beginning; `iter` calls it."""


watch(IterDataPipe)


class DFIterDataPipe(IterDataPipe[Any]):
    """A pipe of data frames: the steps after it are put off until frames come."""

    def _is_dfpipe(self) -> bool:
        return True


class MapDataPipe(_Pipe, Dataset[_T_co]):
    """A pipe with samples by index: a subclass writes `__getitem__`, and `__len__` if it knows.

    Example:
        >>> pipe = flambeau.utils.data.datapipes.map.SequenceWrapper(range(10))
        >>> pipe.map(str).batch(4)[1]
        ['4', '5', '6', '7']
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class DataChunk(list[_T]):
    """A batch of samples that knows itself as one.

    Example:
        >>> print(flambeau.utils.data.DataChunk(range(3)))
        [0, 1, 2]
    """

    def __init__(self, items: Iterable[_T]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The samples as text."""
        return f"{indent}[{', '.join(map(str, iter(self)))}]"

    def raw_iterator(self) -> Iterator[_T]:
        """The samples as they are."""
        yield from self.items


class _DataPipeSerializationWrapper:
    """A pipe as a loader keeps it: where pickle gives up, dill carries it to workers."""

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __getstate__(self) -> Any:
        try:
            return pickle.dumps(self._datapipe), False
        except Exception:
            if importlib.util.find_spec("dill") is None:
                raise
            return importlib.import_module("dill").dumps(self._datapipe), True

    def __setstate__(self, state: Any) -> None:
        value, by_dill = state
        loads = importlib.import_module("dill").loads if by_dill else pickle.loads
        self._datapipe = loads(value)

    def __len__(self) -> int:
        try:
            return len(self._datapipe)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length") from error


class _IterDataPipeSerializationWrapper(_DataPipeSerializationWrapper, IterDataPipe[Any]):
    _datapipe_iter: Iterator[Any] | None = None

    def __iter__(self) -> "_IterDataPipeSerializationWrapper":
        self._datapipe_iter = iter(self._datapipe)
        return self

    def __next__(self) -> Any:
        if self._datapipe_iter is None:
            raise AssertionError("Iterator has not been initialized; call __iter__() first")
        return next(self._datapipe_iter)


class _MapDataPipeSerializationWrapper(_DataPipeSerializationWrapper, MapDataPipe[Any]):
    def __getitem__(self, idx: Any) -> Any:
        return self._datapipe[idx]
