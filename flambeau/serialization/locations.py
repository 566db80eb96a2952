"""Where storages are, and onto which device those of a file are put.

A file says for each storage where it was ("cpu", "cuda:0"); map_location is None, another place,
a dictionary from places to places, or a function of a storage and its place. Places of others are
told with `register_package`.
"""

from collections.abc import Callable
from typing import Any

from flambeau._device import cpu, device, is_there, runtimes_of
from flambeau._typed_storage import TypedStorage, UntypedStorage
from flambeau.storage import new_storage

NO_CUDA = (
    "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If "
    "you are running on a CPU-only machine, please use torch.load with "
    "map_location=torch.device('cpu') to map your storages to the CPU."
)
NO_HPU = (
    "The HPU device module is not registered. If you are running on a CPU-only machine, please use "
    "torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
)
_packages: list = []  # (priority, tagger, deserializer)


def register_package(
    priority: int,
    tagger: Callable[[Any], str | None],
    deserializer: Callable[[Any, str], Any],
) -> None:
    """Teach save and load about a kind of place.

    Args:
        priority: packages of lower numbers are asked first; PyTorch's own begin with 10.
        tagger: the name of the place of a storage; None if it is not there.
        deserializer: the storage at a place of that name; None if the name is not known.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def has_packages():
    return bool(_packages)


def _is_ours(priority):
    return priority > 10  # "cpu" has 10


def location_tag(storage: UntypedStorage | TypedStorage) -> str:
    """What a file calls the place of a storage."""
    for priority, tagger, _ in _packages:
        if _is_ours(priority):
            break
        found = tagger(storage)
        if found:
            return found
    return "cpu"


def default_restore_location(storage: Any, location: str) -> Any:
    """The storage at a place; an error if nobody knows the place."""
    for _, _, deserializer in _packages:
        found = deserializer(storage, location)
        if found is not None:
            return found
    place = known_place(location)
    return (
        storage
        if place in ("cpu", "meta")
        else UntypedStorage(moved(storage._storage, place)[0], device=place)
    )


def validate_cuda_device(location: str) -> int:
    """The number of a CUDA device that is there."""
    if not is_there("cuda"):
        raise RuntimeError(NO_CUDA)
    index = int(location.partition(":")[2] or runtimes_of(device("cuda")).current)
    count = runtimes_of(device("cuda")).driver.count()
    if index >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but "
            f"torch.cuda.device_count() is {count}. Please use torch.load with map_location to map "
            "your storages to an existing device."
        )
    return index


def validate_hpu_device(location: str) -> int:
    """The number of an HPU device; here there is none."""
    raise RuntimeError(NO_HPU)


def known_place(location):
    """ "cpu", "meta" or "cuda:0"; an error for places that are not here."""
    kind = location.partition(":")[0]
    if kind in ("cpu", "meta"):
        return kind
    if kind == "cuda":
        return f"cuda:{validate_cuda_device(location)}"
    if kind == "hpu":
        raise RuntimeError(NO_HPU)
    if kind in device.runtimes:
        return kind
    raise RuntimeError(
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with "
        f"{location})"
    )


def place_of(location, map_location):
    """Where a storage goes: "cpu" or "meta"; None if a function must be asked."""
    if isinstance(map_location, dict):
        location = str(map_location.get(location, location))
    elif isinstance(map_location, (str, device)):
        location = str(map_location)
    elif map_location is not None:
        return None
    return None if _packages else known_place(location)


def moved(storage, place):
    """(a storage of the host at a place, its device)."""
    if place is None or place in ("cpu", "meta"):
        return storage, cpu
    there = device(place)
    found = new_storage(storage.nbytes, there)
    if storage.nbytes:
        there.runtime.write(found.pointer, storage.pointer, storage.nbytes)
    return found, there


def ask(map_location, storage, location):
    """(the storage that a function wants in place of one that was read, its device)."""
    if isinstance(map_location, dict):
        location, map_location = str(map_location.get(location, location)), None
    elif isinstance(map_location, (str, device)):
        location, map_location = str(map_location), None
    given = UntypedStorage(storage)
    answer = None if map_location is None else map_location(given, location)
    if answer is None:
        answer = default_restore_location(given, location)
    answer = getattr(answer, "_untyped_storage", answer)
    if not isinstance(answer, UntypedStorage):
        raise TypeError(f"map_location must return a storage or None, not {type(answer).__name__}")
    return answer._storage, answer.device
