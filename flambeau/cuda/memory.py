"""Memory of GPUs: what is in use, what is kept, and how much there may be.

Blocks come in size classes and are kept when tensors let go of them; `allocated` counts blocks in
use by their classes, `reserved` what was taken from the driver.
"""

from collections import OrderedDict
from typing import Any

from flambeau.cuda._devices import devices, index_of, needed, part, started


def empty_cache() -> None:
    """Give memory that no tensor has back to the driver."""
    found = devices()
    for runtime in [] if found is None else list(found.parts.values()):
        runtime.allocator.empty_cache()


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors have."""
    runtime = started(device)
    return 0 if runtime is None else runtime.allocator.allocated()


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors had."""
    runtime = started(device)
    return 0 if runtime is None else runtime.allocator.peak_allocated()


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the driver."""
    runtime = started(device)
    return 0 if runtime is None else runtime.allocator.reserved()


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes taken from the driver."""
    runtime = started(device)
    return 0 if runtime is None else runtime.allocator.peak_reserved()


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Peaks count from now on."""
    runtime = started(device)
    if runtime is not None:
        runtime.allocator.reset_peak()


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Counters of events start at nothing."""
    runtime = started(device)
    if runtime is not None:
        a = runtime.allocator
        a.retries = a.failures = a.taken = a.given_back = 0


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Counters of the allocator, by PyTorch's names as far as they are counted."""
    runtime = started(device)
    if runtime is None:
        return OrderedDict()
    a = runtime.allocator
    counted: dict = {"num_alloc_retries": a.retries, "num_ooms": a.failures}
    counted |= {"num_device_alloc": a.taken, "num_device_free": a.given_back}
    pairs = {
        "allocated_bytes": (a.allocated(), a.peak_allocated()),
        "active_bytes": (a.allocated(), a.peak_allocated()),
        "requested_bytes": (a.allocated(), a.peak_allocated()),
        "reserved_bytes": (a.reserved(), a.peak_reserved()),
        "segment": (len(a.maps) + len(a.slabs), a.taken),
    }
    for name, (now, peak) in pairs.items():
        counted[f"{name}.all.current"], counted[f"{name}.all.peak"] = now, peak
    return OrderedDict(sorted(counted.items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The same in dictionaries of dictionaries."""
    return _nested(memory_stats(device))


def _nested(counters: dict[str, Any]) -> dict[str, Any]:
    nested: dict = {}
    for name, value in counters.items():
        *outer, last = name.split(".")
        inner = nested
        for key in outer:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return nested


def host_memory_stats() -> OrderedDict[str, Any]:
    """Counters of pinned memory of the host."""
    found = devices()
    if found is None or not found.parts:
        return OrderedDict()
    sizes = found.pinned_blocks
    free = sum(size * len(blocks) for size, blocks in found.pinned_free.items())
    idle = sum(map(len, found.pinned_free.values()))
    held = sum(sizes.values())
    return OrderedDict(
        {
            "active_bytes.current": held - free,
            "active_requests.current": len(sizes) - idle,
            "allocated_bytes.current": held,
            "allocations.current": len(sizes),
            "num_host_alloc": len(sizes),
            "num_host_free": 0,
        }
    )


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The same in dictionaries of dictionaries."""
    return _nested(host_memory_stats())


def reset_accumulated_host_memory_stats() -> None:
    """Blocks of the host are never given back, so nothing accumulates."""


def reset_peak_host_memory_stats() -> None:
    """Nor do peaks differ from what there is."""


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The counters as a table."""
    index, stats = index_of(device), memory_stats(device)
    lines = [f" PyTorch CUDA memory summary, device ID {index} ".center(75, "=")]
    lines += [f"|{name:<52}|{value:>20}|" for name, value in stats.items()]
    return "\n".join([*lines, "=" * 75]) + "\n"


def memory_snapshot(mempool_id: Any = None) -> list[dict[str, Any]]:
    """Pieces of memory that were taken from the driver."""
    found = devices()
    pieces = []
    for index, runtime in ({} if found is None else found.parts).items():
        for address, (_, size) in runtime.allocator.maps.items():
            pieces.append({"device": index, "address": address, "total_size": size})
    return pieces


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, all) bytes of a GPU."""
    runtime = part(device)
    runtime.driver.use(runtime.index)
    return runtime.driver.memory()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let this process have a part of a GPU's memory at most."""
    runtime = part(device)
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    runtime.allocator.fraction = fraction


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of a GPU's memory that this process may have."""
    return part(device).allocator.fraction


_lent: dict = {}  # address -> (runtime, what takes it back)


def caching_allocator_alloc(size: int, device: Any = None, stream: Any = None) -> int:
    """Memory for another library; `caching_allocator_delete` takes it back."""
    if not isinstance(size, int):
        raise TypeError(f"Invalid type for size argument: {type(size)}")
    address, give = part(device).allocator.take(size)
    _lent[address] = give
    return address


def caching_allocator_delete(mem_ptr: int) -> None:
    """Take memory of `caching_allocator_alloc` back."""
    _lent.pop(mem_ptr)(mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """Blocks are always kept here."""


def get_allocator_backend() -> str:
    """Whose allocator this is."""
    return "native"


def list_gpu_processes(device: Any = None) -> str:
    """Who else uses a GPU; that takes the package pynvml."""
    needed()
    try:
        import pynvml
    except ModuleNotFoundError:
        return "pynvml module not found, please install nvidia-ml-py"
    index = index_of(device)
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    lines = [f"GPU:{index}"]
    for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
        used = (process.usedGpuMemory or 0) / (1 << 20)
        lines.append(f"process {process.pid:>10d} uses {used:>12.3f} MB GPU memory")
    return "\n".join(lines if len(lines) > 1 else [*lines, "no processes are running"])
