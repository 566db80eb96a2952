"""`torch.xpu`: Intel's GPUs, which flambeau does not use. Programs ask before they do."""

from typing import NoReturn

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "manual_seed",
    "manual_seed_all",
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


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Nothing to empty."""


def synchronize(device: object = None) -> NoReturn:
    """Refused."""
    raise AssertionError("Torch not compiled with XPU enabled")
