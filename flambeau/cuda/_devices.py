"""Which GPU is meant, and what speaks to it."""

from typing import Any

from flambeau import _device
from flambeau._device import is_there, runtimes_of

Device: Any = _device.device  # whose fields are slots, which mypy does not see


def devices() -> Any:
    """All GPUs, or None."""
    return runtimes_of(Device("cuda")) if is_there("cuda") else None


def needed() -> Any:
    """All GPUs; without one, PyTorch's complaint."""
    return runtimes_of(Device("cuda"))


def index_of(given: Any, needs_index: bool = False, allow_cpu: bool = False) -> int:
    """The number of the GPU that somebody names; None names the current one."""
    found = needed()
    if given is None:
        return found.current
    if isinstance(given, int) and not isinstance(given, bool):
        return found.current if given < 0 else given
    if isinstance(given, str):
        given = Device(given)
    if not isinstance(given, Device):
        raise ValueError(f"Expected a torch.device or an int, but got: {given}")
    place: Any = given
    if place.type != "cuda":
        if allow_cpu and place.type == "cpu":
            return -1
        raise ValueError(f"Expected a cuda device, but got: {given}")
    if place.index is None:
        if needs_index:
            raise ValueError(
                f'Expected a torch.device with a specified index or an integer, but got:"{given}"'
            )
        return found.current
    return place.index


def part(given: Any = None) -> Any:
    """The runtime of a GPU, which is started if it was not."""
    return needed().part(index_of(given))


def started(given: Any = None) -> Any:
    """The runtime of a GPU that was used already, or None."""
    found = devices()
    return None if found is None else found.parts.get(index_of(given))
