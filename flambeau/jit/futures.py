"""fork and wait: a call that may run beside others, and its result."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

S = TypeVar("S")


class Future(Generic[S]):
    """The result of a call, which is there when somebody waits for it.

    The call runs when it is forked: kernels use all threads by themselves, so calls side by side
    would not be quicker, and errors and random numbers come in the order of the program.
    """

    def __init__(self, function: Callable[[], S] | None = None) -> None:
        self._error: BaseException | None = None
        self._value: Any = None
        self._done = False
        self._callbacks: list[Callable] = []
        if function is not None:
            try:
                self.set_result(function())
            except Exception as error:
                self._error, self._done = error, True

    def wait(self) -> S:
        """The result, or the error that the call raised."""
        if self._error is not None:
            raise self._error
        return self._value

    value = wait

    def done(self) -> bool:
        return self._done

    def set_result(self, result: S) -> None:
        self._value, self._done = result, True
        for callback in self._callbacks:
            callback(self)

    def set_exception(self, error: BaseException) -> None:
        self._error, self._done = error, True

    def then(self, callback: Callable[["Future[S]"], Any]) -> "Future[Any]":
        """A future of what a callback makes of this one."""
        return Future(lambda: callback(self))

    def add_done_callback(self, callback: Callable[["Future[S]"], None]) -> None:
        if self._done:
            callback(self)
        else:
            self._callbacks.append(callback)


def fork(func: Callable, *args: Any, **kwargs: Any) -> Future:
    """Call a function as a task; `wait` gives its result."""
    return Future(lambda: func(*args, **kwargs))


def wait(future: Future) -> Any:
    """The result of a task."""
    if future is None:
        raise RuntimeError("Future can't be None")
    return future.wait()
