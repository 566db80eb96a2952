"""`torch.xpu.memory`: how much memory is in use on GPUs that are not here."""

import collections
from typing import Any, NoReturn

from flambeau.errors import RefusedBlock
from flambeau.xpu.streams import _Absent

__all__ = [
    "MemPool",
    "XPUPluggableAllocator",
    "change_current_allocator",
    "empty_cache",
    "get_per_process_memory_fraction",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]
_MISSING = "Torch not compiled with XPU enabled"


class MemPool(_Absent):
    """Memory apart from all other."""

    def __init__(self, allocator: Any = None, use_on_oom: bool = False) -> None: ...


class XPUPluggableAllocator:
    """Functions of a compiled library that hand out memory."""

    def __init__(self, path_to_lib_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        raise AssertionError(_MISSING)


def change_current_allocator(allocator: Any) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def use_mem_pool(pool: Any, device: Any = None) -> RefusedBlock:
    """Refused."""
    return RefusedBlock(AssertionError(_MISSING))


def empty_cache() -> None:
    """Nothing to empty."""


def get_per_process_memory_fraction(device: Any = None) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def mem_get_info(device: Any = None) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def memory_allocated(device: Any = None) -> int:
    """Bytes of tensors: none."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The most there have been: none."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """Bytes held for later: none."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """The most there have been: none."""
    return 0


def memory_stats(device: Any = None) -> dict[str, Any]:
    """All counters by their full names: none."""
    return collections.OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """All counters, in dictionaries: none."""
    return {}


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """All blocks: none."""
    return []


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Nothing to reset."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing to reset."""
