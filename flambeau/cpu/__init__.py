"""`torch.cpu`: the processor, asked in the same words as other devices."""

import platform
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from flambeau.codegen.llvm_cpu import host_features
from flambeau.cpu import amp as amp
from flambeau.cpu.streams import Event as Event
from flambeau.cpu.streams import Stream as Stream
from flambeau.cpu.streams import StreamContext as StreamContext
from flambeau.cpu.streams import current_stream as current_stream
from flambeau.cpu.streams import stream as stream

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_initialized() -> bool:
    """Always: there is nothing to start."""
    return True


def get_capabilities() -> Mapping[str, bool | str]:
    """What the processor can do, by LLVM's names of features."""
    found = {name.replace(".", "_"): on for name, on in host_features().items()}
    return MappingProxyType({"architecture": platform.machine(), **found})


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
