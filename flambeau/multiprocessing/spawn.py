"""Several processes that run one function, and what is told when one of them fails.

`spawn(fn, args, nprocs)` calls fn(i, *args) in process i. The first process that ends badly ends
the others too; its traceback, exit code or signal is what the caller sees.
"""

import contextlib
import logging
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flambeau.runtime.processes import signal_when_parent_dies

ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"
PATIENCE = 30.0  # seconds that processes have to follow a request to end

# how a process is ended, the mild way first, and what the log says of it
WAYS_TO_END = {
    "terminate": "Terminating process %s via signal SIGTERM",
    "kill": "Unable to shutdown process %s via SIGTERM , forcefully exiting via SIGKILL",
}

log = logging.getLogger("torch.multiprocessing.spawn")  # as programs that set levels know it

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "spawn",
    "SpawnContext",
    "start_processes",
]


class ProcessException(Exception):
    """A process failed."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process failed by an exception."""


class ProcessExitedException(ProcessException):
    """A process failed by a signal or an exit code."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple:
        parts = (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)
        return type(self), parts


def _run(fn, index, args, error_file):
    """What a process does: call the function, and leave a traceback behind if that fails."""
    signal_when_parent_dies(signal.SIGINT)
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent ended it, or ends with it
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that run side by side."""

    def __init__(self, processes: list, error_files: list) -> None:
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends; True when all have ended well.

        If one of them has failed, the others are ended and its exception is raised.

        Args:
            timeout: seconds to wait at most.
            grace_period: after a failure, seconds the others have before they are asked to end, and
                once more before they are killed.
        """
        if not self.sentinels:
            return True
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout):
            index = self.sentinels.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode:
                self._end_all(grace_period)
                raise self._error(index)
        return not self.sentinels

    def _end_all(self, grace_period):
        patience = (0.0, PATIENCE) if grace_period is None else (grace_period, grace_period)
        for seconds, (way, message) in zip(patience, WAYS_TO_END.items(), strict=True):
            for process in self._still_running(seconds):
                log.warning(message, process.pid)
                getattr(process, way)()
        for process in self.processes:
            process.join()

    def _still_running(self, seconds):
        """The processes that have not ended after so many seconds."""
        end = time.monotonic() + seconds
        running = [process for process in self.processes if process.is_alive()]
        while running and (left := end - time.monotonic()) > 0:
            multiprocessing.connection.wait([process.sentinel for process in running], left)
            running = [process for process in running if process.is_alive()]
        return running

    def _error(self, index):
        process, told = self.processes[index], None
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            with open(self.error_files[index], "rb") as file:
                told = pickle.load(file)
            os.unlink(self.error_files[index])
        if told is not None:
            text = f"\n\n-- Process {index} terminated with the following error:\n{told}"
            return ProcessRaisedException(text, index, process.pid)
        code = process.exitcode
        if code >= 0:
            text = f"process {index} terminated with exit code {code}"
            return ProcessExitedException(text, index, process.pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        text = f"process {index} terminated with signal {name}"
        return ProcessExitedException(text, index, process.pid, code, name)


class SpawnContext(ProcessContext):
    """The old name of ProcessContext."""

    def __init__(self, processes: list, error_files: list) -> None:
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, error_files)


def start_processes(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Like `spawn`, with a choice of how processes start: "spawn", "fork" or "forkserver"."""
    context: Any = multiprocessing.get_context(start_method)

    def start(index):
        descriptor, error_file = tempfile.mkstemp(prefix="flambeau-error-", suffix=".pickle")
        os.close(descriptor)
        os.unlink(error_file)  # only a process that fails writes it
        process = context.Process(target=_run, args=(fn, index, args, error_file), daemon=daemon)
        process.start()
        return process, error_file

    if start_method == "forkserver" and os.environ.get(ENV_VAR_PARALLEL_START, "0") == "1":
        with ThreadPoolExecutor(max_workers=nprocs) as executor:
            started = list(executor.map(start, range(nprocs)))
    else:
        started = [start(index) for index in range(nprocs)]
    processes = ProcessContext([p for p, _ in started], [file for _, file in started])
    if not join:
        return processes
    while not processes.join():
        pass
    return None


def spawn(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call fn(i, *args) in nprocs fresh processes, i counting them.

    If one of them fails, the others are ended and an exception tells why it failed.

    Args:
        fn: a function at the top level of a module, so that the processes can import it.
        args: what it gets beside i. Tensors arrive in shared memory.
        nprocs: how many processes.
        join: wait for all of them; otherwise a `ProcessContext` is returned.
        daemon: end them when this process ends.
        start_method: only "spawn"; `start_processes` knows others.
    """
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
