"""`torch.accelerator`: the one kind of accelerator that is there. There is none yet."""

from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from flambeau._device import device as _device

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def is_available() -> bool:
    """Is there an accelerator at run time?"""
    return False


def device_count() -> int:
    """The number of accelerators."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """The device type of the accelerator, or None."""
    return None


def _none_here(*args: Any, **kwargs: Any) -> NoReturn:
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_idx = current_device_index = set_device_idx = set_device_index = _none_here
current_stream = set_stream = synchronize = empty_cache = device_index = _none_here
memory_allocated = max_memory_allocated = memory_stats = reset_peak_memory_stats = _none_here


def get_device_module(device: Any = None) -> ModuleType:
    """The module that speaks of a kind of device: torch.cpu, torch.cuda, ..."""
    kind = _device(device).type if device is not None else "cpu"  # type: ignore[attr-defined]
    try:
        return import_module(f"flambeau.{kind}")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        ) from None
