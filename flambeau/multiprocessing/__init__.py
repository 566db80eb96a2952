"""`torch.multiprocessing`: Python's multiprocessing, with tensors that arrive in shared memory.

Everything of the standard module is here under its own name. A tensor, parameter or storage that is
put into a queue, a pipe or the arguments of a process moves to shared memory, and the other side
sees the same elements (`reductions.py`). `spawn` starts several processes and waits for them.
"""

import multiprocessing as _standard
from multiprocessing import *  # noqa: F403

from .reductions import register as _register
from .sharing import get_all_sharing_strategies as get_all_sharing_strategies
from .sharing import get_sharing_strategy as get_sharing_strategy
from .sharing import set_sharing_strategy as set_sharing_strategy
from .spawn import ENV_VAR_PARALLEL_START as ENV_VAR_PARALLEL_START
from .spawn import ProcessContext as ProcessContext
from .spawn import ProcessException as ProcessException
from .spawn import ProcessExitedException as ProcessExitedException
from .spawn import ProcessRaisedException as ProcessRaisedException
from .spawn import SpawnContext as SpawnContext
from .spawn import spawn as spawn
from .spawn import start_processes as start_processes

__all__ = [
    "set_sharing_strategy",
    "get_sharing_strategy",
    "get_all_sharing_strategies",
    *_standard.__all__,
]

_register()


def __getattr__(name):
    """What the standard module has beside its public names, `connection` for example."""
    return getattr(_standard, name)
