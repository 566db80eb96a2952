"""Starting and ending the worker processes of a loader.

A `Crew` is the processes, the lines to them, and what has landed from each. Ending is closing the
lines: idle workers leave at once, busy ones after their sample, and none outlives a few seconds
(`worker.py` sees to that from inside, an exit handler from outside).
"""

import atexit
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import select
import signal
import sys
import time
import warnings
import weakref
from multiprocessing import resource_tracker
from pickle import PicklingError
from typing import Any

from flambeau.runtime.threads import forking

from .worker import GRACE, Job, run_worker
from .worker_channel import LoaderEnd, new_channel
from .worker_errors import lost_workers
from .worker_memory import Landing

PATIENCE = 1.0  # seconds that the loader waits for workers to leave
LAST_PATIENCE = 0.5  # the same when the program ends


class Crew:
    """The workers of one loader."""

    def __init__(self, context: Any, job: Job, resume: list) -> None:
        self.process_id = os.getpid()
        self.processes: list[Any] = []
        self.ends: list[LoaderEnd] = []
        self.landings = [Landing() for _ in range(job.num_workers)]
        self.closed = False
        self.listening: dict[int, int] = {}  # worker by descriptor of its line
        self.sentinels: dict[int, int] = {}  # worker by what is ready when its process ends
        self._lookout = select.poll() if hasattr(select, "poll") else None
        _reap()
        _crews.add(self)
        method = start_method_of(context)
        if method == "fork":
            import numpy.random  # noqa: F401  # once here instead of once in each worker
        try:
            for worker in range(job.num_workers):
                self._start(context, method, job, worker, resume[worker])
        except BaseException:
            self.close()
            raise

    def _start(self, context, method, job, worker, resume):
        ours, theirs = new_channel(context)
        self.ends.append(ours)
        process = context.Process(target=run_worker, args=(job, worker, theirs, resume))
        process.daemon = True
        try:
            with _quiet_start(method):
                process.start()
        except (TypeError, AttributeError, PicklingError) as error:
            error.add_note(
                f"A DataLoader with num_workers={job.num_workers} sends its dataset, collate_fn "
                f"and worker_init_fn to processes that start by {method!r}, so they must be "
                "picklable: no lambdas, no functions or classes inside of functions, no open "
                "files. Where it exists, multiprocessing_context='fork' needs no pickling."
            )
            raise
        finally:
            theirs.connection.close()
        self.processes.append(process)
        self._listen(ours.fileno(), worker, self.listening)
        self._listen(process.sentinel, worker, self.sentinels)

    def _listen(self, descriptor, worker, kind):
        kind[descriptor] = worker
        if self._lookout is not None:
            self._lookout.register(descriptor, select.POLLIN)

    def ready(self, seconds: float) -> list[int]:
        """Descriptors and sentinels of which there is news, after that many seconds at most."""
        waiting = [end for end in self.ends if end.has_unsent]
        if self._lookout is None:
            lines: dict[Any, int] = {
                self.ends[worker].connection: line for line, worker in self.listening.items()
            }
            news: Any = multiprocessing.connection.wait([*lines, *self.sentinels], seconds)
            return [lines.get(found, found) for found in news]
        for end in waiting:
            self._lookout.modify(end.fileno(), select.POLLIN | select.POLLOUT)
        found = self._lookout.poll(seconds * 1000)
        for end in waiting:
            end.flush()
            self._lookout.modify(end.fileno(), select.POLLIN)
        return [descriptor for descriptor, event in found if event != select.POLLOUT]

    def dismiss(self, worker: int) -> None:
        """A worker has nothing more to do: it may leave, and that is no loss."""
        end, process = self.ends[worker], self.processes[worker]
        for descriptor, kind in (
            (end.fileno(), self.listening),
            (process.sentinel, self.sentinels),
        ):
            del kind[descriptor]
            if self._lookout is not None:
                self._lookout.unregister(descriptor)
        end.close()

    def raise_if_lost(self) -> None:
        """Raise if a worker has ended that was not asked to."""
        lost = [
            (worker, self.processes[worker])
            for worker in sorted(self.sentinels.values())
            if not self.processes[worker].is_alive()
        ]
        if lost:
            self.close()
            raise lost_workers(lost)

    def raise_lost(self, worker: int) -> None:
        """Raise for a worker whose line is closed."""
        self.processes[worker].join(PATIENCE)
        self.raise_if_lost()
        self.close()
        raise lost_workers([(worker, self.processes[worker])])

    def close(self, patience: float = PATIENCE) -> None:
        """End all workers."""
        if self.closed or os.getpid() != self.process_id:
            return
        self.closed = True
        for end in self.ends:
            end.close()
        deadline = time.monotonic() + patience
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.exitcode is None:
                _lingering.append((process, time.monotonic() + GRACE + PATIENCE))

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


_crews: "weakref.WeakSet[Crew]" = weakref.WeakSet()
_lingering: list[tuple[Any, float]] = []  # busy when their loader ended, and until when they may be


def _reap(at_exit: bool = False) -> None:
    """Forget workers that have left meanwhile; those that should have are killed."""
    for entry in list(_lingering):
        process, deadline = entry
        if process._parent_pid != os.getpid():
            _lingering.remove(entry)
            continue
        if process.is_alive() and (at_exit or time.monotonic() > deadline):
            process.kill()
            process.join(PATIENCE)
        if not process.is_alive():
            _lingering.remove(entry)


@atexit.register
def _end_all() -> None:
    for crew in list(_crews):
        crew.close(LAST_PATIENCE)
    _reap(at_exit=True)


@contextlib.contextmanager
def _quiet_start(method):
    """Start a process that computes on one thread and cannot be interrupted before it is set up."""
    mask = None
    # a server that is started now would hand the mask down to processes of others
    if hasattr(signal, "pthread_sigmask") and method != "forkserver":
        if method == "spawn":
            resource_tracker.ensure_running()  # which would lift the mask if it started later
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    forking.alone = True
    try:
        with contextlib.ExitStack() as stack:
            if method == "fork" and sys.version_info >= (3, 12):
                # Python warns of threads that are lost in the child; ours know how to do without
                stack.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
            yield
    finally:
        forking.alone = False
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def start_method_of(context: Any) -> str:
    """How a context starts processes."""
    return context.get_start_method()
