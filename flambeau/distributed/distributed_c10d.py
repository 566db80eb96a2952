"""`torch.distributed.distributed_c10d`: PyTorch's file of nearly everything, by name."""

from . import *  # noqa: F403
from .constants import default_pg_timeout as default_pg_timeout
from .groups import Backend as Backend
from .groups import GroupMember as GroupMember
from .groups import ProcessGroup as ProcessGroup
from .groups import State
from .groups import default_group as _get_default_group
from .groups import not_in_group as _rank_not_in_group
from .progress import Work as Work
from .reduce_ops import ReduceOp as ReduceOp

__all__ = ["_get_default_group", "_get_default_store", "_rank_not_in_group"]


def _get_default_store():
    """The store that processes met in."""
    _get_default_group()
    return State.store


def __getattr__(name):
    """Whatever torch.distributed has."""
    from flambeau import distributed

    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(distributed, name)
