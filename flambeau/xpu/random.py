"""`torch.xpu.random`: generators of GPUs that are not here: seeds are taken, states are none."""

from collections.abc import Iterable
from typing import Any, NoReturn

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]
_MISSING = "Torch not compiled with XPU enabled"


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
    raise AssertionError(_MISSING)


def get_rng_state(device: Any = "xpu") -> NoReturn:
    """Refused."""
    raise AssertionError(_MISSING)


def get_rng_state_all() -> list[Any]:
    """The state of each device: none."""
    return []


def set_rng_state(new_state: Any, device: Any = "xpu") -> None:
    """Kept for a device that never comes."""


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """The states of all devices: none are taken."""
    for state in new_states:
        set_rng_state(state)
