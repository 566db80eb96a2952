"""Decorators of pipes: functional names, determinism, and checks of arguments."""

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

from .datapipe import IterDataPipe, MapDataPipe


class functional_datapipe:
    """Make a class of pipes a method of all pipes under a name.

    Args:
        name: of the method.
        enable_df_api_tracing: whether later steps are put off until data frames come.

    Example:
        >>> data = flambeau.utils.data
        >>> @data.functional_datapipe("doubled")
        ... class Doubler(data.IterDataPipe):
        ...     def __init__(self, source):
        ...         self.source = source
        ...
        ...     def __iter__(self):
        ...         for sample in self.source:
        ...             yield 2 * sample
        >>> list(data.datapipes.iter.IterableWrapper([1, 2]).doubled())
        [2, 4]
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        if issubclass(cls, IterDataPipe):
            tracing = self.enable_df_api_tracing
            IterDataPipe.register_datapipe_as_function(self.name, cls, tracing)
        elif issubclass(cls, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        return cls


_determinism = False


class guaranteed_datapipes_determinism:
    """Inside, pipes that are not deterministic are refused."""

    def __init__(self) -> None:
        global _determinism
        self.prev, _determinism = _determinism, True

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        global _determinism
        _determinism = self.prev


class non_deterministic:
    """Say that a class of pipes gives its samples in an order that may change.

    Args:
        arg: the class; or a function that is given the arguments of the class and says whether they
            make it so, which gives a decorator.
    """

    cls: Any = None

    def __init__(self, arg: Any) -> None:
        self.deterministic_fn: Callable[..., bool] = lambda *args, **kwargs: True
        self.reason = ""
        if isinstance(arg, type):
            self._take(arg)
        elif callable(arg):
            self.deterministic_fn, self.reason = arg, " with the inputs"
        else:
            raise TypeError(f"{arg} can not be decorated by non_deterministic")

    def _take(self, cls: Any) -> None:
        if not issubclass(cls, IterDataPipe):
            raise TypeError(
                "Only `IterDataPipe` can be decorated with `non_deterministic`, but "
                f"{cls.__name__} is found"
            )
        self.cls = cls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is None:
            self._take(args[0])
            return self.deterministic_wrapper_fn
        if self.reason == "":
            return self.deterministic_wrapper_fn(*args, **kwargs)
        return self.cls(*args, **kwargs)

    def deterministic_wrapper_fn(self, *args: Any, **kwargs: Any) -> Any:
        """The pipe of these arguments, if it may be."""
        if self.deterministic_fn(*args, **kwargs) and _determinism:
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic{self.reason}, but you set "
                "'guaranteed_datapipes_determinism'. You can turn off determinism for this "
                "DataPipe if that is acceptable for your application"
            )
        return self.cls(*args, **kwargs)


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Check that arguments annotated as pipes are pipes. Of what is left to type checkers."""
    signature = inspect.signature(f)
    hints = typing.get_type_hints(f)

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = hints.get(name)
            if not inspect.isclass(hint) or typing.get_origin(hint) is not None:
                continue
            if issubclass(hint, (IterDataPipe, MapDataPipe)) and not isinstance(value, hint):
                raise TypeError(
                    f"Expected argument '{name}' as a {hint.__name__}, but found {type(value)}"
                )
        return f(*args, **kwargs)

    return wrapper


_validation = True


class runtime_validation_disabled:
    """Inside, `runtime_validation` does nothing, as it does outside: for programs that say so."""

    def __init__(self) -> None:
        global _validation
        self.prev, _validation = _validation, False

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        global _validation
        _validation = self.prev


def runtime_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Mark `__iter__` of a pipe. Pipes carry no type of their samples that could be checked."""
    if f.__name__ != "__iter__":
        raise TypeError(f"Can not decorate function {f.__name__} with 'runtime_validation'")
    return f
