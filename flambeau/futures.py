"""`torch.futures`: results that arrive later, on whatever thread brings them."""

import contextlib
import logging
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
_log = logging.getLogger("torch.futures")  # as programs that set levels know it


class Future(Generic[T]):
    """A value that will be there.

    Example:
        >>> from flambeau.futures import Future
        >>> future = Future()
        >>> doubled = future.then(lambda f: 2 * f.wait())
        >>> future.set_result(21)
        >>> doubled.wait()
        42
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._ready = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable] = []
        self._lock = threading.Lock()
        self._drive: Callable[[], Any] | None = None  # what a waiting thread may do meanwhile

    def done(self) -> bool:
        """Is the value, or an error, there?"""
        return self._ready.is_set()

    def wait(self) -> T:
        """The value, once it is there; an error is raised."""
        if self._drive is not None and not self._ready.is_set():
            self._drive()
        self._ready.wait()
        return self.value()

    def value(self) -> T:
        """The value, which must be there."""
        if not self._ready.is_set():
            raise RuntimeError("the future is not complete yet; wait() waits for it")
        if self._error is not None:
            raise self._error
        return self._value

    def set_result(self, result: T) -> None:
        """Here it is."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """There will be none, because of this."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, value, error):
        with self._lock:
            if self._ready.is_set():
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future "
                    "can only be marked completed once."
                )
            self._value, self._error = value, error
            self._ready.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._tell(callback)

    def _tell(self, callback):
        try:
            callback(self)
        except Exception as error:  # of nobody's interest but the reader's
            _log.error("%s", _said_of(error))

    def __reduce__(self) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future")

    def add_done_callback(self, callback: Callable[["Future[T]"], None]) -> None:
        """Call callback(self) when this is done, or now if it is."""
        with self._lock:
            if not self._ready.is_set():
                self._callbacks.append(callback)
                return
        self._tell(callback)

    def then(self, callback: Callable[["Future[T]"], Any]) -> "Future[Any]":
        """The future of callback(self)."""
        later: Future[Any] = Future()
        later._drive = self._drive

        def run(future):
            try:
                result = callback(future)
            except Exception as error:
                later.set_exception(RuntimeError(_said_of(error)))
            else:
                later.set_result(result)

        self.add_done_callback(run)
        return later


def collect_all(futures: Sequence[Future]) -> Future[list[Future]]:
    """A future that is done when all of these are; its value is their list."""
    _check(futures)
    whole: Future[list[Future]] = Future()
    waiting, lock = [len(futures)], threading.Lock()

    def one_more(_):
        with lock:
            waiting[0] -= 1
            last = waiting[0] == 0
        if last:
            failed = next((future for future in futures if future._error is not None), None)
            if failed is None:
                whole.set_result(list(futures))
            else:
                whole.set_exception(failed._error)

    def drive():
        for future in futures:
            with contextlib.suppress(Exception):  # the whole says it
                future.wait()

    whole._drive = drive
    if not futures:
        whole.set_result([])
    for future in futures:
        future.add_done_callback(one_more)
    return whole


def wait_all(futures: Sequence[Future]) -> list:
    """The values of all of these."""
    _check(futures)
    return [future.wait() for future in futures]


def _check(futures):
    if any(future is None for future in futures):
        raise RuntimeError("Future can't be None")


def _said_of(error):
    kind, lines = type(error).__name__, "".join(traceback.format_tb(error.__traceback__))
    return f"Got the following error when running the callback: {kind}: {error}\n\nAt:\n{lines}"
