"""`torch.mps.event`: marks in the queue of an Apple GPU, of which none can be made here."""

from typing import Any


class Event:
    """A mark that can be waited for and timed."""

    def __init__(self, enable_timing: bool = False) -> None:
        raise RuntimeError("Cannot execute acquireEvent() without MPS backend.")

    def record(self) -> None:
        """Not to be reached."""

    def wait(self) -> None:
        """Not to be reached."""

    def query(self) -> Any:
        """Not to be reached."""

    def synchronize(self) -> None:
        """Not to be reached."""

    def elapsed_time(self, end_event: Any) -> Any:
        """Not to be reached."""
