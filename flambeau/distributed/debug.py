"""TORCH_DISTRIBUTED_DEBUG: under DETAIL, members compare what they call before they do it."""

import enum
import json
import os
from datetime import timedelta

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]


class DebugLevel(enum.IntEnum):
    """How much is looked after."""

    OFF, INFO, DETAIL = range(3)


_level = DebugLevel.OFF


def get_debug_level() -> DebugLevel:
    """How much is looked after now."""
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """From now on look after so much."""
    global _level
    _level = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """What TORCH_DISTRIBUTED_DEBUG says."""
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise RuntimeError(
            "The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL, but got " + name
        )
    set_debug_level(DebugLevel[name])


set_debug_level_from_env()


def is_detailed() -> bool:
    """Is every call compared?"""
    return _level is DebugLevel.DETAIL


def check_alike(group, name, tensors):
    """Raise where members call different collectives, or with different tensors.

    Every member writes what it calls into the store and reads what the others have written.
    """
    number, group._calls = group._calls, group._calls + 1
    store, size = group.get_group_store(), group.size()
    mine = {
        "op": name,
        "shapes": [list(t.shape) for t in tensors],
        "dtypes": [str(t.dtype) for t in tensors],
    }
    store.set(f"call/{number}/{group.rank()}", json.dumps(mine))
    for member in range(size):
        key = f"call/{number}/{member}"
        try:
            store.wait([key], timedelta(seconds=group._seconds))
        except RuntimeError:
            raise RuntimeError(
                f"Rank {group._world.rank} calls {name}, its collective number {number}; rank "
                f"{group._ranks[member]} has not called it within {group._seconds * 1e3:.0f} ms."
            ) from None
        theirs = json.loads(store.get(key))
        if theirs != mine:
            raise RuntimeError(
                "Detected mismatch between collectives on ranks. "
                f"Rank {group._world.rank} is running collective: {described(number, mine)}, but "
                f"Rank {group._ranks[member]} is running collective: {described(number, theirs)}."
            )
    if number > 1 and group.rank() == 0:
        for member in range(size):  # everybody has entered this call, so has read two calls ago
            store.delete_key(f"call/{number - 2}/{member}")


def described(number, call):
    parts = [f"SequenceNumber={number}", f"OpType={call['op'].upper()}"]
    if call["shapes"]:
        parts += [f"TensorShape={call['shapes']}", f"TensorDtypes={', '.join(call['dtypes'])}"]
    return "CollectiveFingerPrint(" + ", ".join(parts) + ")"
