"""`torch.mps`: Apple's GPUs, which flambeau does not use. Programs ask before they do."""

from typing import Any, NoReturn

from flambeau.mps import event as event
from flambeau.mps import profiler as profiler
from flambeau.mps.event import Event

__all__ = [
    "Event",
    "compile_shader",
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "get_rng_state",
    "is_available",
    "load_metallib",
    "manual_seed",
    "profiler",
    "recommended_max_memory",
    "seed",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "synchronize",
]


def is_available() -> bool:
    """Can tensors be on such a GPU?"""
    return False


def device_count() -> int:
    """The number of such GPUs."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed."""


def seed() -> NoReturn:
    """Refused."""
    raise RuntimeError("Cannot execute getDefaultGenerator() without MPS backend.")


def get_rng_state(device: Any = "mps") -> NoReturn:
    """Refused."""
    seed()


def set_rng_state(new_state: Any, device: Any = "mps") -> NoReturn:
    """Refused."""
    seed()


def set_per_process_memory_fraction(fraction: float) -> NoReturn:
    """Refused."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    raise RuntimeError("Cannot execute setMemoryFraction() without MPS backend.")


def compile_shader(source: str) -> NoReturn:
    """Refused."""
    raise RuntimeError("MPS is not available")


def load_metallib(source: Any) -> NoReturn:
    """Refused."""
    raise RuntimeError("MPS is not available")


def synchronize() -> NoReturn:
    """Refused."""
    raise RuntimeError("Cannot execute deviceSynchronize() without MPS backend.")


def empty_cache() -> NoReturn:
    """Refused."""
    raise RuntimeError("Cannot execute emptyCache() without MPS backend.")


def _refused(*args: Any) -> NoReturn:
    raise RuntimeError("Cannot read memory statistics without MPS backend.")


current_allocated_memory = driver_allocated_memory = recommended_max_memory = _refused
