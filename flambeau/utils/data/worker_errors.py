"""What goes wrong in workers, told in the process that asked for the batch.

An exception travels as text and type, since tracebacks cannot be pickled and many exceptions
neither; it is raised again with its own type wherever that can be made. A worker that is gone is
told of by its number, process and signal.
"""

import contextlib
import pickle
import signal
import traceback
from typing import Any


class KeyErrorMessage(str):
    """A text that KeyError shows as it is, line by line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """An exception of a worker, ready to travel.

    Args:
        error: the exception.
        where: as in "in DataLoader worker process 0".
    """

    def __init__(self, error: BaseException, where: str) -> None:
        self.where, self.name = where, type(error).__name__
        self.text = "".join(traceback.format_exception(error))
        # the class may be unknown on the other side, or local to a function
        self.kind = _pickled(type(error))
        self.attributes = _pickled(error.__dict__) if error.__dict__ else None

    def reraise(self) -> None:
        """Raise the exception here."""
        raise self.exception() from None

    def exception(self) -> BaseException:
        message: str = f"Caught {self.name} {self.where}.\nOriginal {self.text}"
        kind = _unpickled(self.kind)
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            return RuntimeError(message)
        if kind is KeyError:
            message = KeyErrorMessage(message)
        error = _made(kind, message)
        attributes = _unpickled(self.attributes)
        if isinstance(attributes, dict):
            with contextlib.suppress(Exception):
                error.__dict__.update(
                    {k: v for k, v in attributes.items() if k not in ("__notes__", "message")}
                )
        return error


def _pickled(value: Any) -> bytes | None:
    with contextlib.suppress(Exception):
        return pickle.dumps(value)
    return None


def _unpickled(data: bytes | None) -> Any:
    if data is None:
        return None
    with contextlib.suppress(Exception):
        return pickle.loads(data)
    return None


def _made(kind: Any, message: str) -> BaseException:
    """An exception of a class that shows a message, however its constructor wants to be called."""
    with contextlib.suppress(Exception):
        error = kind(message=message) if getattr(kind, "message", None) else kind(message)
        if message in str(error):
            return error
    # its constructor wants something else: go without it
    with contextlib.suppress(Exception):
        shown: dict[str, Any] = {
            "__str__": lambda self: message,
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
        }
        relative: Any = type(kind.__name__, (kind,), shown)
        error = relative.__new__(relative)
        error.args = (message,)
        return error
    return RuntimeError(message)


# -- workers that are gone -------------------------------------------------------------------------


def lost_workers(lost: list[tuple[int, Any]]) -> RuntimeError:
    """The exception for workers, as (number, process), that ended without being asked to."""
    pids = ", ".join(str(process.pid) for _, process in lost)
    stories = "; ".join(_story(number, process) for number, process in lost)
    error = RuntimeError(
        f"DataLoader worker (pid(s) {pids}) exited unexpectedly\n{stories}. Rerunning with "
        "num_workers=0 may show an error where it happens."
    )
    _, first = lost[0]
    error.__cause__ = death(first.pid, first.exitcode)
    return error


def _story(number, process):
    code = process.exitcode
    who = f"worker {number} ({process.name}, pid {process.pid})"
    if code is None:
        return f"{who} closed its connection"
    if code >= 0:
        return f"{who} ended with exit code {code}"
    hint = ""
    if _signal_name(-code) == "SIGKILL":
        hint = ", which is what the system does when memory runs out"
    return f"{who} was ended by {_signal_name(-code)}{hint}"


def _signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def death(pid: int, code: int | None) -> RuntimeError:
    """What PyTorch says of a worker that ended with a code, which is negative for signals."""
    if code is not None and code < 0:
        text = signal.strsignal(-code) or f"Unknown signal {-code}"
        return RuntimeError(f"DataLoader worker (pid {pid}) is killed by signal: {text}. ")
    return RuntimeError(
        f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {code}. Details are "
        "lost due to multiprocessing. Rerunning with num_workers=0 may give better error trace."
    )
