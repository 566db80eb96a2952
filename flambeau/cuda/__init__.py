"""`torch.cuda`: GPUs, streams, memory, graphs. Without a GPU programs ask, seed and go on.

What needs a GPU says so in PyTorch's words; seeds, caches and statistics of no GPU are harmless.
Nothing is asked of the driver before the first question.
"""

from typing import Any

from flambeau._device import device as _device
from flambeau._tensor.legacy import TYPED as _TYPED
from flambeau.cuda import amp as amp
from flambeau.cuda import graphs as graphs
from flambeau.cuda import memory as memory
from flambeau.cuda import nvtx as nvtx
from flambeau.cuda import profiler as profiler
from flambeau.cuda import random as random
from flambeau.cuda import sparse as sparse
from flambeau.cuda import streams as streams
from flambeau.cuda._devices import devices as _devices
from flambeau.cuda._devices import index_of as _index_of
from flambeau.cuda._devices import needed as _needed
from flambeau.cuda._devices import part as _part
from flambeau.cuda.debugging import (
    CudaError,
    DeferredCudaCallError,
    check_error,
    cudaStatus,
    get_sync_debug_mode,
    set_sync_debug_mode,
)
from flambeau.cuda.graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from flambeau.cuda.memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    caching_allocator_enable,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    list_gpu_processes,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from flambeau.cuda.pools import MemPool, caching_allocator_disabled, use_mem_pool
from flambeau.cuda.properties import (
    can_device_access_peer,
    clock_rate,
    device_memory_used,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    is_bf16_supported,
    is_tf32_supported,
    memory_usage,
    power_draw,
    temperature,
    utilization,
)
from flambeau.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from flambeau.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
    synchronize,
)
from flambeau.errors import AcceleratorError as AcceleratorError
from flambeau.errors import OutOfMemoryError as OutOfMemoryError

__all__ = [
    "CUDAGraph",
    "CudaError",
    "DeferredCudaCallError",
    "Event",
    "ExternalStream",
    "MemPool",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "can_device_access_peer",
    "check_error",
    "clock_rate",
    "cudaStatus",
    "cudart",
    "current_blas_handle",
    "current_device",
    "current_solver_handle",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "graphs",
    "has_half",
    "has_magma",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "nvtx",
    "power_draw",
    "profiler",
    "random",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "sparse",
    "stream",
    "streams",
    "synchronize",
    "temperature",
    "use_mem_pool",
    "utilization",
]

Device = _device | str | int | None
has_half, has_magma = True, False


def is_available() -> bool:
    """Can tensors be on a GPU?"""
    return device_count() > 0


def device_count() -> int:
    """The number of GPUs that can be used."""
    found = _devices()
    return 0 if found is None else found.driver.count()


def is_initialized() -> bool:
    """Has a GPU been used?"""
    found = _device.runtimes.get("cuda")
    return found is not None and bool(found.parts)


def init() -> None:
    """Start the current GPU now, and not with its first tensor; says what is wrong if it can't."""
    if _devices() is None:
        from flambeau.runtime.cuda_driver import problems

        if problems:
            raise RuntimeError(problems[-1])
    _part()


def _lazy_call(callable: Any, **kwargs: Any) -> None:
    """Call something that needs a GPU: at once where there is one, never where there is none."""
    if is_available():
        callable()


def ipc_collect() -> None:
    """Nothing is shared between processes."""
    _needed()


def current_device() -> int:
    """The number of the current GPU."""
    return _needed().current


def set_device(device: Any) -> None:
    """Choose a GPU; a negative number chooses none."""
    if not isinstance(device, int):
        kind = str(_device(device)).partition(":")[0]
        if kind != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        _needed()
    if not isinstance(device, int) or device >= 0:
        _needed().use(_index_of(device, needs_index=True))


class device:
    """`with torch.cuda.device(i):` chooses a GPU for a while; None or a negative number none."""

    def __init__(self, device: Any) -> None:
        self.idx = device

    def __enter__(self) -> None:
        self._before = None
        if self.idx is None or (isinstance(self.idx, int) and self.idx < 0):
            return
        found = _devices()
        if found is None:
            raise RuntimeError("PyTorch was compiled without CUDA support")
        self._before = found.current
        found.use(_index_of(self.idx))

    def __exit__(self, *error: Any) -> None:
        if self._before is not None:
            _needed().use(self._before)


class device_of(device):
    """The same for the GPU that a tensor is on; tensors elsewhere change nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def current_blas_handle() -> int:
    """The handle of cuBLAS, of which none is given away."""
    _needed()
    return 0


def current_solver_handle() -> int:
    """The handle of cuSOLVER, of which none is given away."""
    _needed()
    return 0


def cudart() -> None:
    """The runtime library, which is not used: the driver is spoken to directly."""
    _needed()


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        from flambeau.random import cuda_generator

        return tuple(cuda_generator(k) for k in range(device_count()))
    if name == "_initialized":
        return is_initialized()
    if name.endswith("Storage"):
        from flambeau._storage_kinds import found

        return found(name, "torch.cuda")
    raise AttributeError(f"module 'torch.cuda' has no attribute '{name}'")


def _typed(plain: Any) -> type:
    """`torch.cuda.FloatTensor` and its kin: constructors, and classes for isinstance."""
    name, space = plain.__name__, plain.__module__.replace("torch", "torch.cuda", 1)

    class Kind(type):
        def __instancecheck__(cls, found: Any) -> bool:
            return found.is_cuda if isinstance(found, plain) else False

    def make(cls: type, *args: Any, **kwargs: Any) -> Any:
        if not is_available():
            raise TypeError(
                f"type {space}.{name} not available. Torch not compiled with CUDA enabled."
            )
        return plain(*args, **kwargs).cuda()

    return Kind(name, (), {"__new__": make, "__module__": space, "dtype": plain.dtype})


globals().update({name: _typed(kind) for name, kind in _TYPED.items()})
