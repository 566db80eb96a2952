"""map_location: onto which device the storages of a file are put.

A file says for each storage where it was ("cpu", "cuda:0"); map_location is None, another place,
a dictionary from places to places, or a function of a storage and its place.
"""

from flambeau._device import device
from flambeau._typed_storage import UntypedStorage

NO_CUDA = (
    "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If "
    "you are running on a CPU-only machine, please use torch.load with "
    "map_location=torch.device('cpu') to map your storages to the CPU."
)


def known_place(location):
    """ "cpu" or "meta"; an error for places that are not here."""
    kind = location.partition(":")[0]
    if kind in ("cpu", "meta"):
        return kind
    if kind == "cuda":
        raise RuntimeError(NO_CUDA)
    raise RuntimeError(
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with "
        f"{location})"
    )


def place_of(location, map_location):
    """Where a storage goes: "cpu" or "meta"; None if a function must be asked."""
    if map_location is None:
        return known_place(location)
    if isinstance(map_location, dict):
        return known_place(str(map_location.get(location, location)))
    if isinstance(map_location, (str, device)):
        return known_place(str(map_location))
    return None


def ask(map_location, storage, location):
    """The storage that a function wants in place of one that was read; None for none."""
    answer = map_location(UntypedStorage(storage), location)
    if answer is None:
        known_place(location)
        return storage
    answer = getattr(answer, "_untyped_storage", answer)
    if not isinstance(answer, UntypedStorage):
        raise TypeError(f"map_location must return a storage or None, not {type(answer).__name__}")
    return answer._storage
