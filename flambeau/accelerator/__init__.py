"""`torch.accelerator`: the one kind of accelerator that is there. GPUs, if there are any."""

from importlib import import_module
from types import ModuleType
from typing import Any

from flambeau._device import device as _device
from flambeau._device import is_there

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
    return is_there("cuda")


def device_count() -> int:
    """The number of accelerators."""
    return _cuda().device_count() if is_available() else 0


def current_accelerator(check_available: bool = False) -> _device | None:
    """The device type of the accelerator, or None."""
    return _device("cuda") if is_available() else None


def _cuda() -> Any:
    if not is_there("cuda"):
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return import_module("flambeau.cuda")


def _same(name: str, ours: str = "") -> Any:
    """The function of torch.cuda of a name."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(_cuda(), name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = ours or name
    call.__doc__ = f"The same as torch.cuda.{name}."
    return call


current_device_index = current_device_idx = _same("current_device", "current_device_index")
set_device_index = set_device_idx = _same("set_device", "set_device_index")
device_index = _same("device", "device_index")
current_stream, set_stream = _same("current_stream"), _same("set_stream")
synchronize, empty_cache = _same("synchronize"), _same("empty_cache")
memory_allocated, max_memory_allocated = _same("memory_allocated"), _same("max_memory_allocated")
memory_stats, reset_peak_memory_stats = _same("memory_stats"), _same("reset_peak_memory_stats")
memory_reserved, max_memory_reserved = _same("memory_reserved"), _same("max_memory_reserved")
reset_accumulated_memory_stats = _same("reset_accumulated_memory_stats")
get_memory_info = _same("mem_get_info", "get_memory_info")
get_device_capability = _same("get_device_capability")


def get_device_module(device: Any = None) -> ModuleType:
    """The module that speaks of a kind of device: torch.cpu, torch.cuda, ..."""
    kind = _device(device).type if device is not None else "cpu"
    try:
        return import_module(f"flambeau.{kind}")
    except ModuleNotFoundError:
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        ) from None
