"""Questions about a loader that resuming asks: its samplers, generators and settings.

Which samplers give the indices, whether one of them keeps a state of its own, which generators they
draw from, and what has to be the same for an epoch to go on. The answers are used in `resuming.py`.
"""

from typing import Any

from flambeau import Generator, default_generator

from .distributed import DistributedSampler
from .fetch import DatasetKind
from .sampler import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

OWN_SAMPLERS = (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def sampler_chain(loader: Any) -> list[Any]:
    """The sampler that gives indices, and the one it takes them from."""
    outer = loader._index_sampler
    inner = getattr(outer, "sampler", None)
    return [outer] if inner is None else [outer, inner]


def stateful_sampler(loader: Any) -> Any:
    return next(filter(is_stateful, sampler_chain(loader)), None)


def is_stateful(thing: Any) -> bool:
    """Whether something can be asked for its state and given it back."""
    return callable(getattr(thing, "state_dict", None)) and callable(
        getattr(thing, "load_state_dict", None)
    )


def generators_of(loader: Any) -> list[Generator]:
    """The generators a loader and its samplers draw from, each once, without the default one."""
    found: list[Generator] = []
    for thing in (loader, *sampler_chain(loader)):
        generator = getattr(thing, "generator", None)
        if isinstance(generator, Generator):
            known = (default_generator, *found)
            if not any(generator is other for other in known):
                found.append(generator)
    return found


def epoch_of(sampler: Any) -> int | None:
    """The epoch a sampler was told, as DistributedSampler is."""
    epoch = getattr(sampler, "epoch", None)
    return epoch if type(epoch) is int and callable(getattr(sampler, "set_epoch", None)) else None


def runs_foreign_code(loader: Any) -> bool:
    """Whether replaying an epoch may draw from streams that are not ours."""
    if loader._dataset_kind == DatasetKind.Iterable:
        return True
    return any(type(sampler) not in OWN_SAMPLERS for sampler in sampler_chain(loader))


def draws_again(loader: Any) -> bool:
    """Whether a sampler may draw after its first batch from a generator that others use too."""
    chain = sampler_chain(loader)
    if any(type(sampler) not in OWN_SAMPLERS or is_stateful(sampler) for sampler in chain):
        return True
    return any(getattr(sampler, "generator", None) is not None for sampler in chain)


def describe(loader: Any) -> dict[str, Any]:
    """What has to be the same for an epoch to go on."""
    by_index = loader._dataset_kind == DatasetKind.Map
    sized = by_index and hasattr(loader.dataset, "__len__")
    return {
        "kind": loader._dataset_kind,
        "batch_size": loader.batch_size,
        "drop_last": loader.drop_last,
        "samples": len(loader.dataset) if sized else None,
        # Which worker reads what of an iterable dataset depends on their number.
        "workers": None if by_index else loader.num_workers,
    }


def check_same(here: dict[str, Any], saved: dict[str, Any]) -> None:
    for name, value in here.items():
        if saved[name] != value:
            raise ValueError(
                f"an epoch cannot go on with other settings: {name} was {saved[name]} when the "
                f"state was saved, and is {value} here"
            )
