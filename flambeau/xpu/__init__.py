"""`torch.xpu`: Intel's GPUs, which flambeau does not use. Programs ask before they do.

What is there, and what it answers, is what a PyTorch without such GPUs has.
"""

from typing import Any, NoReturn

from flambeau.errors import RefusedBlock
from flambeau.xpu import memory as memory
from flambeau.xpu import random as random
from flambeau.xpu import streams as streams
from flambeau.xpu.memory import (
    MemPool as MemPool,
)
from flambeau.xpu.memory import (
    XPUPluggableAllocator as XPUPluggableAllocator,
)
from flambeau.xpu.memory import (
    change_current_allocator as change_current_allocator,
)
from flambeau.xpu.memory import (
    empty_cache as empty_cache,
)
from flambeau.xpu.memory import (
    get_per_process_memory_fraction as get_per_process_memory_fraction,
)
from flambeau.xpu.memory import (
    max_memory_allocated as max_memory_allocated,
)
from flambeau.xpu.memory import (
    max_memory_reserved as max_memory_reserved,
)
from flambeau.xpu.memory import (
    mem_get_info as mem_get_info,
)
from flambeau.xpu.memory import (
    memory_allocated as memory_allocated,
)
from flambeau.xpu.memory import (
    memory_reserved as memory_reserved,
)
from flambeau.xpu.memory import (
    memory_snapshot as memory_snapshot,
)
from flambeau.xpu.memory import (
    memory_stats as memory_stats,
)
from flambeau.xpu.memory import (
    memory_stats_as_nested_dict as memory_stats_as_nested_dict,
)
from flambeau.xpu.memory import (
    reset_accumulated_memory_stats as reset_accumulated_memory_stats,
)
from flambeau.xpu.memory import (
    reset_peak_memory_stats as reset_peak_memory_stats,
)
from flambeau.xpu.memory import (
    set_per_process_memory_fraction as set_per_process_memory_fraction,
)
from flambeau.xpu.memory import (
    use_mem_pool as use_mem_pool,
)
from flambeau.xpu.random import (
    get_rng_state as get_rng_state,
)
from flambeau.xpu.random import (
    get_rng_state_all as get_rng_state_all,
)
from flambeau.xpu.random import (
    initial_seed as initial_seed,
)
from flambeau.xpu.random import (
    manual_seed as manual_seed,
)
from flambeau.xpu.random import (
    manual_seed_all as manual_seed_all,
)
from flambeau.xpu.random import (
    seed as seed,
)
from flambeau.xpu.random import (
    seed_all as seed_all,
)
from flambeau.xpu.random import (
    set_rng_state as set_rng_state,
)
from flambeau.xpu.random import (
    set_rng_state_all as set_rng_state_all,
)
from flambeau.xpu.streams import Event, Stream, _Absent

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "XPUGraph",
    "can_device_access_peer",
    "clock_rate",
    "current_device",
    "current_stream",
    "default_generators",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_stream_from_external",
    "graph",
    "graph_pool_handle",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "make_graphed_callables",
    "power_draw",
    "set_device",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
    "temperature",
    "utilization",
    "memory_usage",
    *memory.__all__,
    *random.__all__,
]
default_generators: tuple[Any, ...] = ()
_MISSING = "Torch not compiled with XPU enabled"


def is_available() -> bool:
    """Can tensors be on such a GPU?"""
    return False


def device_count() -> int:
    """The number of such GPUs."""
    return 0


def is_initialized() -> bool:
    """Has one been used?"""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Does one compute with bfloat16?"""
    return False


def is_tf32_supported() -> bool:
    """Does one multiply with TF32?"""
    return False


def get_arch_list() -> list[str]:
    """Kinds of GPUs that kernels were made for."""
    return []


def get_gencode_flags() -> str:
    """The same, as flags of a compiler."""
    return ""


def init() -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def current_device() -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def synchronize(device: Any = None) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def set_device(device: Any) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def get_device_properties(device: Any = None) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def get_device_name(device: Any = None) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def get_device_capability(device: Any = None) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def can_device_access_peer(device: Any, peer: Any) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


class device:
    """A block with another current device."""

    def __init__(self, device: Any) -> None:
        self.idx = device if isinstance(device, int) else getattr(device, "index", None)

    def __enter__(self) -> NoReturn:
        raise NotImplementedError("PyTorch was compiled without XPU support")

    def __exit__(self, *exc: object) -> None: ...


class device_of(device):
    """The device of a tensor, which is none of these."""

    def __init__(self, obj: Any) -> None:
        super().__init__(-1)


class StreamContext:
    """A block whose work goes to a stream; None leaves things as they are."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            raise AssertionError(_MISSING)

    def __exit__(self, *exc: object) -> None: ...


def stream(stream: Any) -> StreamContext:
    """The same, as a function."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def set_stream(stream: Any) -> None:
    """None leaves things as they are."""
    if stream is not None:
        raise AssertionError(_MISSING)


def get_stream_from_external(data_ptr: int, device: Any = None) -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


class XPUGraph(_Absent):
    """Launches recorded once."""

    def __init__(self, keep_graph: bool = False) -> None: ...


def graph(xpu_graph: Any, pool: Any = None, stream: Any = None) -> RefusedBlock:
    """Refused."""
    return RefusedBlock(RuntimeError("Tried to instantiate dummy base class Stream"))


def graph_pool_handle() -> NoReturn:
    """Refused."""
    raise RuntimeError("Tried to instantiate dummy base class _xpu_graph_pool_handle")


def is_current_stream_capturing() -> NoReturn:
    """Refused."""
    raise RuntimeError("Tried to instantiate dummy base class _xpu_isCurrentStreamCapturing")


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Refused."""
    return XPUGraph()


def _asked(device: Any = None) -> NoReturn:
    raise ImportError("pyzes is required; install it with 'pip install pyzes'.")


# what a tool of Intel's tells
clock_rate = device_memory_used = memory_usage = power_draw = temperature = utilization = _asked
