"""The line between a loader and one of its workers.

It is a pair of connected sockets. Messages are pickled tuples; the descriptor of a new block of
memory follows the message that tells of it. The loader never blocks in sending, because a worker
that itself waits to be read would wait for ever: what does not fit into the line is kept until it
does. Where descriptors cannot be sent (Windows), all bytes go with the messages.
"""

import array
import contextlib
import os
import pickle
import socket
import struct
import weakref
from typing import Any

CAN_SEND_DESCRIPTORS = hasattr(socket, "send_fds") and hasattr(socket, "AF_UNIX")
_LONGEST = 0x7FFFFFFF


class _Line(socket.socket):
    """A connection's descriptor as a socket; it is the connection's to close."""

    def __del__(self) -> None:
        self.detach()  # else the collector, which knows no order, would close it twice


class WorkerEnd:
    """The worker's end. It is given to the process that becomes the worker."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def receive(self) -> Any:
        """The next message; EOFError when the loader has closed the line."""
        return pickle.loads(self.connection.recv_bytes())

    def send(self, message: Any, descriptor: int = -1) -> None:
        self.connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        if descriptor >= 0:
            rights = array.array("i", [descriptor])
            line = _Line(fileno=self.connection.fileno())
            try:
                control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
                line.sendmsg([b"d"], control)
            finally:
                line.detach()

    def fileno(self) -> int:
        return self.connection.fileno()


class LoaderEnd:
    """The loader's end."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._line: socket.socket | None = None
        if CAN_SEND_DESCRIPTORS:
            self._line = _Line(fileno=connection.fileno())
        self._unsent = b""
        _open_ends.add(self)

    def fileno(self) -> int:
        return self.connection.fileno()

    def send(self, message: Any) -> None:
        """Send, or keep for later what does not fit. A worker that is gone is noticed elsewhere."""
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        if self._line is None:
            with contextlib.suppress(OSError):
                self.connection.send_bytes(data)
            return
        if len(data) > _LONGEST:  # as multiprocessing.connection writes lengths
            header = struct.pack("!iQ", -1, len(data))
        else:
            header = struct.pack("!i", len(data))
        self._unsent += header + data
        self.flush()

    def flush(self) -> None:
        """Send what was kept, as far as it fits."""
        if not self._unsent or self._line is None:
            return
        try:
            sent = self._line.send(self._unsent, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            sent = len(self._unsent)
        self._unsent = self._unsent[sent:]

    @property
    def has_unsent(self) -> bool:
        return bool(self._unsent)

    def receive(self) -> Any:
        return pickle.loads(self.connection.recv_bytes())

    def receive_descriptor(self) -> int:
        """The descriptor that follows a message."""
        assert self._line is not None
        data, descriptors, _, _ = socket.recv_fds(self._line, 1, 1)
        if not data:
            raise EOFError
        if not descriptors:  # the system throws away what this process has no room for
            raise RuntimeError(
                "Too many open files. Communication with the workers is no longer possible. Please "
                "increase the limit using `ulimit -n` in the shell, or close files that are no "
                "longer needed"
            )
        os.set_inheritable(descriptors[0], False)
        return descriptors[0]

    def close(self) -> None:
        if self._line is not None:
            self._line.detach()
            self._line = None
        with contextlib.suppress(OSError):
            self.connection.close()


_open_ends: "weakref.WeakSet[LoaderEnd]" = weakref.WeakSet()


def _after_fork() -> None:
    """A child that held the loader's ends would keep its brothers from seeing that it is gone."""
    for end in list(_open_ends):
        end.close()
    _open_ends.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def new_channel(context: Any) -> tuple[LoaderEnd, WorkerEnd]:
    """Both ends of a new line."""
    ours, theirs = context.Pipe(duplex=True)
    return LoaderEnd(ours), WorkerEnd(theirs)
