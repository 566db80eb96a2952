"""`torch.monitor`: events that programs log, and counts that are logged once per window of time."""

import enum
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

__all__ = [
    "Aggregation",
    "Event",
    "EventHandlerHandle",
    "Stat",
    "TensorboardEventHandler",
    "data_value_t",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]

data_value_t = str | float | int | bool


class Aggregation(enum.Enum):
    """What a `Stat` makes of the values of a window."""

    VALUE = 0  # the last
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6

    def __repr__(self) -> str:
        return f"<Aggregation.{self.name}: {self.value}>"

    def __int__(self) -> int:
        return self.value


_VALUES: dict[Aggregation, Callable[[list[float]], float]] = {
    Aggregation.VALUE: lambda values: values[-1],
    Aggregation.MEAN: lambda values: sum(values) / len(values),
    Aggregation.COUNT: lambda values: float(len(values)),
    Aggregation.SUM: lambda values: float(sum(values)),
    Aggregation.MAX: max,
    Aggregation.MIN: min,
}


class Event:
    """Something that happened: a name, when, and values by their names."""

    def __init__(self, name: str, timestamp: datetime, data: Mapping[str, data_value_t]) -> None:
        fits = isinstance(name, str) and isinstance(timestamp, datetime)
        if not fits or not all(
            isinstance(key, str) and isinstance(value, (str, int, float))
            for key, value in data.items()
        ):
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are "
                "supported:\n    1. Event(name: str, timestamp: datetime.datetime, data: "
                "Mapping[str, str | float | int | bool])"
            )
        self.name = name
        self.timestamp = timestamp
        self.data = {k: float(v) if isinstance(v, bool) else v for k, v in data.items()}


class EventHandlerHandle:
    """What `register_event_handler` gives, to be handed to `unregister_event_handler`."""

    def __new__(cls, *args: Any) -> Any:
        raise TypeError("torch.monitor.EventHandlerHandle: No constructor defined!")


_handlers: dict[EventHandlerHandle, Callable[[Event], Any]] = {}
_lock = threading.Lock()


def register_event_handler(callback: Callable[[Event], Any]) -> EventHandlerHandle:
    """From here on callback is told of every event."""
    handle = object.__new__(EventHandlerHandle)
    with _lock:
        _handlers[handle] = callback
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """The end of that."""
    with _lock:
        _handlers.pop(handler, None)


def log_event(event: Event) -> None:
    """Tell all handlers."""
    if not isinstance(event, Event):
        raise TypeError(
            "log_event(): incompatible function arguments. The following argument types are "
            "supported:\n    1. (event: Event) -> None"
        )
    with _lock:
        handlers = list(_handlers.values())
    for handler in handlers:
        handler(event)


class Stat:
    """Values added over time, summed up once per window.

    When a window is over, its aggregations become what `get` tells and are logged as an event
    "torch.monitor.Stat" with entries such as "name.mean". A window is also over, for its values,
    after max_samples of them; what comes later in its time is not counted.
    """

    def __init__(
        self,
        name: str,
        aggregations: Sequence[Aggregation],
        window_size: timedelta,
        max_samples: int = (1 << 63) - 1,
    ) -> None:
        self.name = name
        self._aggregations = list(aggregations)
        self._seconds = max(window_size.total_seconds(), 0.0)
        self._most = max_samples
        self._values: list[float] = []
        self._last: dict[Aggregation, float] = {}
        self._window = self._now()
        self._full = False
        self._own = threading.Lock()

    def _now(self) -> float:
        return time.time() // self._seconds if self._seconds else 0.0

    @property
    def count(self) -> int:
        """How many values the current window has."""
        with self._own:
            event = self._closed()
            found = len(self._values)
        self._tell(event)
        return found

    def add(self, v: float) -> None:
        """Add a value."""
        value = float(v)
        with self._own:
            event = self._closed()
            if not self._full:
                self._values.append(value)
                if len(self._values) >= self._most:
                    event, self._full = self._summed(), True
        self._tell(event)

    def get(self) -> dict[Aggregation, float]:
        """The aggregations of the last window that is over."""
        with self._own:
            event = self._closed()
            found = dict(self._last)
        self._tell(event)
        return found

    def _closed(self) -> Event | None:
        """The event of a window that has come to its end; None if there is none."""
        now = self._now()
        if now == self._window:
            return None
        self._window, self._full = now, False
        return self._summed() if self._values else None

    def _summed(self) -> Event:
        values, self._values = self._values, []
        self._last = {a: _VALUES[a](values) for a in self._aggregations}
        data = {f"{self.name}.{a.name.lower()}": v for a, v in self._last.items()}
        return Event("torch.monitor.Stat", datetime.now(), data)

    def _tell(self, event: Event | None) -> None:
        if event is not None:
            log_event(event)

    def __del__(self) -> None:
        if self.__dict__.get("_values"):
            self._tell(self._summed())


class TensorboardEventHandler:
    """Writes what `Stat` logs to TensorBoard: `register_event_handler(handler(writer))`."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == "torch.monitor.Stat":
            for tag, value in event.data.items():
                if isinstance(value, (int, float)):
                    self._writer.add_scalar(tag, value, walltime=event.timestamp.timestamp())


def set_vital(*args: Any) -> None:
    """An older way to say something about a program; PyTorch only warns of it now."""
    warnings.warn("'set_vital' is deprecated, please do not call", stacklevel=2)
