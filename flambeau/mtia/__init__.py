"""`torch.mtia`: Meta's accelerators, which flambeau does not use. Programs ask before they do.

What is there, and what it answers, is what a PyTorch without such devices has.
"""

from collections.abc import Callable
from typing import Any, NoReturn

from flambeau.errors import RefusedBlock

__all__ = [
    "MTIAGraph",
    "attach_out_of_memory_observer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "graph_pool_handle",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "record_memory_history",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "snapshot",
    "stream",
    "synchronize",
]


def _without(what: str) -> RuntimeError:
    return RuntimeError(f"Cannot execute {what}() without MTIA backend.")


def init() -> NoReturn:
    """Refused."""
    raise AssertionError("Torch not compiled with MTIA enabled.")


def is_available() -> bool:
    """Can tensors be on such a device?"""
    return False


def is_initialized() -> bool:
    """Has one been used?"""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """They all compute with bfloat16."""
    return True


def device_count() -> int:
    """The number of such devices."""
    return 0


def current_device() -> NoReturn:
    """Refused."""
    raise _without("getCurrentDevice")


def current_stream(device: Any = None) -> NoReturn:
    """Refused."""
    raise _without("getCurrentDevice")


def default_stream(device: Any = None) -> NoReturn:
    """Refused."""
    raise _without("getCurrentDevice")


def get_device_capability(device: Any = None) -> NoReturn:
    """Refused."""
    raise _without("getCurrentDevice")


def get_device_properties(device: Any = None) -> NoReturn:
    """Refused."""
    raise _without("getCurrentDevice")


def synchronize(device: Any = None) -> NoReturn:
    """Refused."""
    raise _without("getCurrentDevice")


def snapshot() -> NoReturn:
    """Refused."""
    raise _without("memorySnapshot")


def empty_cache() -> NoReturn:
    """Refused."""
    raise _without("emptyCache")


def attach_out_of_memory_observer(observer: Callable[[int, int, int, int], None]) -> NoReturn:
    """Refused."""
    raise _without("attachOutOfMemoryObserver")


def record_memory_history(
    enabled: str | None = "all", stacks: str = "python", max_entries: int = 0
) -> None:
    """Nothing to record."""


def memory_allocated(device: Any = None) -> int:
    """Bytes of tensors: none."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The most there have been: none."""
    return 0


def memory_stats(device: Any = None) -> dict[str, Any]:
    """All counters: none."""
    return {}


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing to reset."""


def set_device(device: Any) -> NoReturn:
    """Refused."""
    raise _without("setCurrentDevice")


class device:
    """A block with another current device."""

    def __init__(self, device: Any) -> None:
        self.idx = device if isinstance(device, int) else getattr(device, "index", None)

    def __enter__(self) -> NoReturn:
        raise _without("maybeExchangeDevice")

    def __exit__(self, *exc: object) -> None: ...


class StreamContext:
    """A block whose work goes to a stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> NoReturn:
        raise _without("getCurrentDevice")

    def __exit__(self, *exc: object) -> None: ...


def stream(stream: Any) -> StreamContext:
    """The same, as a function."""
    return StreamContext(stream)


def set_stream(stream: Any) -> None:
    """None leaves things as they are."""
    if stream is not None:
        raise _without("setCurrentStream")


class MTIAGraph:
    """Launches recorded once, of which none can be."""

    def __init__(self, keep_graph: bool = False) -> None:
        raise _without("mtiagraphCreate")


def graph(mtia_graph: Any, pool: Any = None, stream: Any = None) -> RefusedBlock:
    """Refused."""
    return RefusedBlock(_without("getCurrentDevice"))


def graph_pool_handle() -> NoReturn:
    """Refused."""
    raise _without("graphPoolHandle")


def manual_seed(seed: int) -> None:
    """Nothing to seed."""


def manual_seed_all(seed: int) -> None:
    """Nothing to seed."""


def seed() -> None:
    """Nothing to seed."""


def seed_all() -> None:
    """Nothing to seed."""


def initial_seed() -> NoReturn:
    """Refused."""
    init()


def get_rng_state(device: Any = "mtia") -> NoReturn:
    """Refused."""
    init()


def get_rng_state_all() -> list[Any]:
    """The state of each device: none."""
    return []


def set_rng_state(new_state: Any, device: Any = "mtia") -> NoReturn:
    """Refused."""
    raise _without("getCurrentDevice")


def set_rng_state_all(new_states: list[Any]) -> None:
    """The states of all devices."""
    for state in new_states:
        set_rng_state(state)
