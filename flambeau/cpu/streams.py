"""Streams and events of the host: a call returns when its work is done, so these keep no queue."""

from typing import Any


class Stream:
    """The one order in which the host works."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: "Stream") -> None:
        """Everything before has happened already."""

    def record_event(self) -> "Event":
        return Event()

    def wait_event(self, event: "Event") -> None:
        """It has happened already."""


class Event:
    """A moment that has passed."""

    def query(self) -> bool:
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Nothing to write down."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing to wait for."""


_current = Stream()


class StreamContext:
    """Inside, `current_stream()` is the stream that was given."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream, self.before = stream, _current

    def __enter__(self) -> None:
        global _current
        if self.stream is not None:
            self.before, _current = _current, self.stream

    def __exit__(self, *error: Any) -> None:
        global _current
        if self.stream is not None:
            _current = self.before


def stream(stream: Stream) -> StreamContext:
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    return _current
