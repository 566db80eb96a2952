"""How an iterable pipe is iterated: one iterator at a time, counted, and begun anew by each `iter`.

`watch(cls)` puts a watch around `__iter__` and `reset` of a class of pipes. Beginning an iteration
makes all earlier iterators of the pipe invalid and calls `reset`, except after a snapshot has been
restored (`utils/snapshot.py`): then the pipe goes on where the snapshot was taken.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any


class _SnapshotState(Enum):
    """How far a pipe has come."""

    NotStarted = 0
    Restored = 1
    Iterating = 2


INVALID = (
    "This iterator has been invalidated because another iterator has been created from the same "
    "IterDataPipe: {}\n"
    "This may be caused by multiple references to the same IterDataPipe. We recommend using "
    "`.fork()` if that is necessary."
)


def described(pipe: Any) -> str:
    """A pipe with its arguments, as far as it keeps them under their names."""
    known = inspect.signature(pipe.__init__).parameters
    parts = [
        f"{name}={value.__name__ if inspect.isfunction(value) else repr(value)}"
        for name, value in sorted(vars(pipe).items())
        if name in known
    ]
    return f"{type(pipe).__name__}({', '.join(parts)})"


def begin(pipe: Any) -> int:
    """The number of a new iterator, the only valid one from here on."""
    if pipe._is_child_datapipe:
        return pipe._set_main_datapipe_valid_iterator_id()
    last = pipe._valid_iterator_id
    pipe._valid_iterator_id = 0 if last is None else last + 1
    pipe.reset()
    return pipe._valid_iterator_id


def check_valid(pipe: Any, number: int) -> None:
    if pipe._is_child_datapipe:
        valid = pipe._check_valid_iterator_id(number)
    else:
        valid = pipe._valid_iterator_id == number
    if not valid:
        raise RuntimeError(INVALID.format(described(pipe)))


def tell_where(error: Exception, pipe: Any) -> None:
    """Say in the message which pipe an exception comes from, if no pipe below has."""
    where = f"\nThis exception is thrown by __iter__ of {described(pipe)}"
    if error.args and not isinstance(error.args[0], str):
        error.add_note(where.strip())
        return
    first, *others = error.args or ("",)
    if "thrown by __iter__ of" not in first and not first.startswith(INVALID.partition(":")[0]):
        error.args = (first + where, *others)


class Watched:
    """An iterator of a pipe that is no generator."""

    def __init__(self, iterator: Any, pipe: Any, number: int) -> None:
        self.iterator, self.source_dp, self.iterator_id = iterator, pipe, number

    def __iter__(self) -> "Watched":
        return self

    def __next__(self) -> Any:
        check_valid(self.source_dp, self.iterator_id)
        value = next(self.iterator)
        self.source_dp._number_of_samples_yielded += 1
        return value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.iterator, name)


def _taken_forward(pipe: Any) -> Iterator[Any] | None:
    """The iterator that a restored snapshot has left for the next iteration."""
    iterator, pipe._fast_forward_iterator = pipe._fast_forward_iterator, None
    if iterator is not None:
        pipe._snapshot_state = _SnapshotState.Iterating
    return iterator


def _watched_generator(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def __iter__(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        restored = _taken_forward(self)
        if restored is not None:
            yield from restored
            return
        number = begin(self)
        try:
            for value in function(self, *args, **kwargs):
                self._number_of_samples_yielded += 1
                yield value
                check_valid(self, number)
        except Exception as error:
            tell_where(error, self)
            raise

    return __iter__


def _watched_iterator(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def __iter__(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        restored = _taken_forward(self)
        if restored is not None:
            return restored
        number = begin(self)
        return Watched(function(self, *args, **kwargs), self, number)

    return __iter__


def _watched_reset(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def reset(self: Any, *args: Any, **kwargs: Any) -> None:
        if self._snapshot_state is not _SnapshotState.Restored:
            self._number_of_samples_yielded = 0
            self._fast_forward_iterator = None
            function(self, *args, **kwargs)
        self._snapshot_state = _SnapshotState.Iterating

    return reset


def watch(cls: Any) -> None:
    """Put the watch around what a class itself defines."""
    own = vars(cls)
    if "__iter__" in own:
        function = own["__iter__"]
        generates = inspect.isgeneratorfunction(function)
        around = _watched_generator if generates else _watched_iterator
        cls.__iter__ = around(function)
    if "reset" in own:
        cls.reset = _watched_reset(own["reset"])
