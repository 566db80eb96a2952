"""How shared memory reaches another process: as a file descriptor, or by the name of a file.

Descriptors are the rule on Linux: they leave nothing behind, whatever happens to the processes.
Names need no descriptor per block; the files lie in a temporary folder that the first process of a
family removes when it ends.
"""

import sys
from multiprocessing import util

from flambeau.runtime import shared_memory

_strategy = "file_descriptor" if sys.platform not in ("darwin", "win32") else "file_system"
_all_strategies = {"file_system", _strategy}


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how tensors are shared with other processes.

    Args:
        new_strategy: one of those that `get_all_sharing_strategies` names.
    """
    global _strategy
    if new_strategy not in _all_strategies:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, expected one of {_all_strategies}"
        )
    _strategy = new_strategy
    _apply()


def get_sharing_strategy() -> str:
    """How tensors are shared with other processes at present."""
    return _strategy


def get_all_sharing_strategies() -> set[str]:
    """The strategies there are on this system."""
    return set(_all_strategies)


def _apply() -> None:
    """New blocks get names, or not; children that are started from now on use the same folder."""
    shared_memory.folder = None if _strategy == "file_descriptor" else util.get_temp_dir()


_apply()
