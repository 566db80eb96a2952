"""`torch.xpu.streams`: classes of queues and their marks, of which none can be made here."""

from typing import Any, NoReturn

__all__ = ["Event", "Stream"]


class _Absent:
    """A class that stands for something of the device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"Tried to instantiate dummy base class {cls.__name__}")


class Event(_Absent):
    """A mark in a stream."""

    def __init__(self, enable_timing: bool = False) -> None: ...


class Stream(_Absent):
    """A queue of work."""

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None: ...
