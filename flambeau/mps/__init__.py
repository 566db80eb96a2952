"""`torch.mps`: Apple's GPUs, which flambeau does not use. Programs ask before they do."""

from typing import Any, NoReturn

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "seed", "synchronize"]


def is_available() -> bool:
    """Can tensors be on such a GPU?"""
    return False


def device_count() -> int:
    """The number of such GPUs."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed."""


def seed() -> None:
    """Nothing to seed."""


def synchronize() -> NoReturn:
    """Refused."""
    raise RuntimeError("Cannot execute deviceSynchronize() without MPS backend.")


def empty_cache() -> NoReturn:
    """Refused."""
    raise RuntimeError("Cannot execute emptyCache() without MPS backend.")


def _refused(*args: Any) -> NoReturn:
    raise RuntimeError("Cannot read memory statistics without MPS backend.")


current_allocated_memory = driver_allocated_memory = recommended_max_memory = _refused
