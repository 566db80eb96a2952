"""`torch.distributed` of a machine where processes cannot work together: programs ask, and go on.

What needs a process group says that there is none.
"""

from typing import Any, NoReturn

__all__ = [
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "destroy_process_group",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_available",
    "is_initialized",
    "is_nccl_available",
]


def is_available() -> bool:
    """Can processes work together?"""
    return False


def is_initialized() -> bool:
    """Is there a process group?"""
    return False


def is_nccl_available() -> bool:
    """Can GPUs of several processes work together?"""
    return False


is_mpi_available = is_gloo_available = is_torchelastic_launched = is_nccl_available


def init_process_group(*args: Any, **kwargs: Any) -> NoReturn:
    """Not there yet: it says so."""
    raise NotImplementedError("torch.distributed is not implemented in flambeau yet")


def _without_group(*args: Any, **kwargs: Any) -> NoReturn:
    raise ValueError(
        "Default process group has not been initialized, please make sure to call "
        "init_process_group."
    )


all_gather = all_reduce = barrier = broadcast = destroy_process_group = _without_group
get_rank = get_world_size = reduce = gather = scatter = send = recv = _without_group
broadcast_object_list = all_gather_object = new_group = _without_group


class ProcessGroup:
    """Processes that work together: there are none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _without_group()
