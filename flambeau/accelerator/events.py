"""torch.Event and torch.Stream of the CPU, where work is done when a call returns."""

from typing import Any

from flambeau._device import device as _device

__all__ = ["Event", "Stream"]


def _on_cpu(name: str, device: Any) -> _device:
    chosen = _device("cpu") if device is None else _device(device)
    if chosen.type != "cpu":
        raise RuntimeError(f"torch.{name} of {chosen} is not implemented in flambeau")
    return chosen


class Event:
    """A mark in the work of a device: on the CPU everything before it has happened."""

    def __init__(
        self,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _on_cpu("Event", device)

    def record(self, stream: Any = None) -> None:
        """Mark this moment."""

    def query(self) -> bool:
        """Has everything before the mark happened?"""
        return True

    def wait(self, stream: Any = None) -> None:
        """Let later work wait for the mark."""

    def synchronize(self) -> None:
        """Wait for the mark."""


class Stream:
    """A queue of work; the CPU's is always empty."""

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device = _on_cpu("Stream", device)

    def query(self) -> bool:
        """Is all work done?"""
        return True

    def synchronize(self) -> None:
        """Wait for all work."""

    def wait_event(self, event: Event) -> None:
        """Let later work wait for a mark."""

    def wait_stream(self, stream: "Stream") -> None:
        """Let later work wait for another stream's."""

    def record_event(self, event: Event | None = None) -> Event:
        """A mark after the work so far."""
        return event or Event(self.device)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *error: Any) -> None:
        pass
