"""`torch.cpu`: the processor, asked in the same words as other devices."""

from typing import Any

from flambeau.cpu import amp as amp

__all__ = ["current_device", "device_count", "is_available", "set_device", "synchronize"]


def is_available() -> bool:
    """There is always a processor."""
    return True


def device_count() -> int:
    """One: all cores together are one device."""
    return 1


def current_device() -> str:
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing to choose."""


def synchronize(device: Any = None) -> None:
    """Nothing to wait for: a call returns when its work is done."""
