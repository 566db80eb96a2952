"""`torch.utils.data._utils.worker`; what workers know of themselves is in `worker.py` above."""

import os
import sys
import types
from dataclasses import dataclass
from typing import Any

from .. import worker as _above
from ..worker import WorkerInfo as WorkerInfo
from ..worker import get_worker_info as get_worker_info
from ..worker import numpy_seed as _generate_state  # noqa: F401


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """A worker of another package's loader says that its dataset has ended."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """Such a loader tells its workers that another epoch begins, and they answer with it."""

    seed: int | None = None


class ManagerWatchdog:
    """Tells a worker whether the process that made it still lives."""

    def __init__(self) -> None:
        self._parent, self._gone = os.getppid(), False

    def is_alive(self) -> bool:
        """Whether it does."""
        self._gone = self._gone or os.getppid() != self._parent
        return not self._gone


class _Module(types.ModuleType):
    """What others write here is what `get_worker_info` tells."""

    @property
    def _worker_info(self) -> Any:
        return _above._worker_info

    @_worker_info.setter
    def _worker_info(self, info: Any) -> None:
        _above._worker_info = info


sys.modules[__name__].__class__ = _Module
