"""Streams, events, and which stream work goes to."""

from typing import Any

from flambeau._device import device as Device
from flambeau.cuda._devices import devices, index_of, needed, part


def _require(name: str) -> None:
    if devices() is None:
        raise RuntimeError(f"torch.cuda.{name} requires CUDA support")


class Stream:
    """A queue of work on a GPU, done in order.

    Args:
        device: the GPU; the current one by default.
        priority: lower numbers go first; 0 is ordinary.
    """

    cuda_stream: int
    device: Any

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        _require("Stream")
        self._index = index_of(device)
        self.device = Device("cuda", self._index)
        self.priority = min(priority, 0)
        self.cuda_stream = part(self._index).driver.new_stream(self.priority)

    @property
    def device_index(self) -> int:
        return self._index

    @property
    def device_type(self) -> int:
        return 1

    @property
    def stream_id(self) -> int:
        return self.cuda_stream

    @property
    def _driver(self) -> Any:
        return part(self._index).driver

    def query(self) -> bool:
        """Is all work done?"""
        return self._driver.is_idle(self.cuda_stream)

    def synchronize(self) -> None:
        """Wait for all work."""
        runtime = part(self._index)
        runtime.driver.wait_stream(self.cuda_stream)
        runtime.check()

    def record_event(self, event: "Event | None" = None) -> "Event":
        """A mark behind the work so far."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: "Event") -> None:
        """Later work waits for an event."""
        if event.cuda_event:
            self._driver.stream_waits(self.cuda_stream, event.cuda_event)

    def wait_stream(self, stream: "Stream") -> None:
        """Later work waits for what another stream has to do now."""
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self._index, self.cuda_stream) == (other._index, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self._index, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __enter__(self) -> "Stream":
        self._before = current_stream(self._index)
        set_stream(self)
        return self

    def __exit__(self, *error: Any) -> None:
        set_stream(self._before)


class ExternalStream(Stream):
    """A stream that somebody else has made."""

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        _require("ExternalStream")
        self._index = index_of(device)
        self.device = Device("cuda", self._index)
        self.priority, self.cuda_stream = 0, int(stream_ptr)


class Event:
    """A mark in a stream: has the work before it been done, and when?

    Args:
        enable_timing: is the time of interest?
        blocking: does a thread that waits sleep?
    """

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        _require("Event")
        self.enable_timing, self.blocking = enable_timing, blocking
        self.cuda_event = 0
        self._index: int | None = None

    @property
    def device(self) -> Any:
        return None if self._index is None else Device("cuda", self._index)

    def record(self, stream: Stream | None = None) -> None:
        """Mark the current stream, or a given one."""
        stream = current_stream() if stream is None else stream
        if self.cuda_event and self._index != stream._index:
            raise RuntimeError(
                f"Event device {self._index} does not match recording stream's device "
                f"{stream._index}."
            )
        self._index, driver = stream._index, stream._driver
        if not self.cuda_event:
            self.cuda_event = driver.new_event(self.enable_timing, self.blocking)
        driver.record(self.cuda_event, stream.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Later work of a stream waits for this event."""
        (current_stream() if stream is None else stream).wait_event(self)

    def query(self) -> bool:
        """Has it come to pass?"""
        return not self.cuda_event or part(self._index).driver.has_passed(self.cuda_event)

    def synchronize(self) -> None:
        """Wait for it."""
        if self.cuda_event:
            runtime = part(self._index)
            runtime.driver.wait_event(self.cuda_event)
            runtime.check()

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds up to another event."""
        if not (self.cuda_event and end_event.cuda_event):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError(
                "Both events must be created with argument 'enable_timing=True' before calculating "
                "elapsed time."
            )
        return part(self._index).driver.elapsed(self.cuda_event, end_event.cuda_event)

    def __del__(self) -> None:
        event, self.cuda_event = getattr(self, "cuda_event", 0), 0
        found = devices() if event else None
        if found is not None and self._index in found.parts:
            found.driver.free_event(event)

    def __repr__(self) -> str:
        if self.cuda_event:
            return f"<torch.cuda.Event {self.cuda_event:#x}>"
        return "<torch.cuda.Event uninitialized>"


# -- which stream ----------------------------------------------------------------------------------


def current_stream(device: Any = None) -> Stream:
    """The stream that work goes to."""
    return ExternalStream(part(device).stream, index_of(device))


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to unless another was chosen."""
    part(device)
    return ExternalStream(0, index_of(device))


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A stream that another library has made; whoever made it ends it."""
    needed()
    return ExternalStream(data_ptr, device)


def set_stream(stream: Stream | None) -> None:
    """Send work to a stream from now on; `with stream(s):` is the better way."""
    if stream is not None:
        needed().use(stream._index)
        part(stream._index).set_stream(stream.cuda_stream)


class StreamContext:
    """`with torch.cuda.stream(s):` sends work to a stream for a while; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is None:
            return
        found = needed()
        self._index = found.current
        self._before = current_stream(self.stream._index)
        set_stream(self.stream)

    def __exit__(self, *error: Any) -> None:
        if self.stream is not None:
            set_stream(self._before)
            needed().use(self._index)


def stream(stream: Stream | None) -> StreamContext:
    """A context in which work goes to a stream."""
    return StreamContext(stream)


def synchronize(device: Any = None) -> None:
    """Wait for all work on a GPU."""
    part(device).synchronize()
