"""Generators of GPUs: seeds and states of the default ones."""

from collections.abc import Iterable
from typing import Any

from flambeau import random as _random
from flambeau._tensor import Tensor
from flambeau.cuda._devices import devices, index_of, needed


def _generator(device: Any) -> Any:
    needed()
    return _random.cuda_generator(index_of(device))


def manual_seed(seed: int) -> None:
    """Seed the current GPU's generator; without a GPU, nothing."""
    found = devices()
    if found is not None:
        _random.cuda_generator(found.current).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs, also of those that are used later."""
    _random.seed_gpus(int(seed))


def seed() -> None:
    """A seed of the system's choice for the current GPU."""
    found = devices()
    if found is not None:
        _random.cuda_generator(found.current).seed()


def seed_all() -> None:
    """The same for all GPUs."""
    if devices() is not None:
        _random.seed_gpus(_random.Generator().seed())


def initial_seed() -> int:
    """The seed of the current GPU's generator."""
    return _generator(None).initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a GPU's generator, as bytes on the host."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The state of every GPU's generator."""
    found = devices()
    return [] if found is None else [get_rng_state(k) for k in range(found.driver.count())]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Continue a GPU's generator from a state."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Continue every GPU's generator."""
    for k, state in enumerate(new_states):
        set_rng_state(state, k)
