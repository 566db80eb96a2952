"""`torch.utils.data._utils.signal_handling`: loaders of other packages hear of workers that die.

Loaders here do without it: the line to a worker that is gone closes (`worker_channel.py`).
"""

import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import Any

from ..worker_errors import death

_workers: dict[int, set[int]] = {}  # of each loader, the processes that are expected to live
_SIGCHLD_handler_set = False


def _set_worker_pids(key: int, pids: Iterable[int]) -> None:
    _workers[key] = set(pids)


def _remove_worker_pids(key: int) -> None:
    _workers.pop(key, None)


def _set_worker_signal_handlers() -> None:
    """Workers die of their signals; who asked for their batches tells of it."""


def _error_if_any_worker_fails() -> None:
    """A RuntimeError for a worker that ended by a signal or an error."""
    if sys.platform == "win32":
        return
    for pids in list(_workers.values()):
        for pid in sorted(pids):
            try:
                found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                continue
            if found is None:
                continue
            code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
            if code:
                pids.clear()  # told once
                raise death(pid, code)


def _set_SIGCHLD_handler() -> None:
    """Look after workers whenever a child ends; only the main thread may ask for that."""
    global _SIGCHLD_handler_set
    if sys.platform == "win32" or _SIGCHLD_handler_set:
        return
    if threading.current_thread() is not threading.main_thread():
        return
    before: Any = signal.getsignal(signal.SIGCHLD)

    def handler(number: int, frame: Any) -> None:
        _error_if_any_worker_fails()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGCHLD, handler)
    _SIGCHLD_handler_set = True
