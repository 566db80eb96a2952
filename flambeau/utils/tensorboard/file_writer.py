"""FileWriter: one event file, written by a thread of the `tensorboard` package.

That thread and its queue do not survive a fork. A writer that is used in a forked child therefore
begins a file of its own there (TensorBoard reads all event files of a folder as one run), and never
touches the queue or the file of its parent. What waits in queues when a program ends is written.
"""

import atexit
import contextlib
import multiprocessing.util
import os
import threading
import time
import weakref
from typing import Any

from tensorboard.compat.proto import event_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

_writers: "weakref.WeakSet[FileWriter]" = weakref.WeakSet()
_saved_at_exit: set[int] = set()  # processes that write what is left when they end


class FileWriter:
    """Writes events into a file of its own in log_dir.

    Args:
        log_dir: the folder; it is made if it is missing.
        max_queue: so many events may wait; one more makes the caller wait.
        flush_secs: seconds between two flushes of the file.
        filename_suffix: added to the name of the file.
    """

    def __init__(
        self,
        log_dir: Any,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self._options = (str(log_dir), max_queue, flush_secs, filename_suffix)
        self._lock = threading.Lock()
        self._closed = False
        self.event_writer: Any = None
        self._open()
        _writers.add(self)

    def _open(self):
        """The writer of this process, begun if there is none yet."""
        with self._lock:
            if self.event_writer is None:
                if self._closed:
                    raise OSError("Writer is closed")
                self.event_writer = EventFileWriter(*self._options)
                _save_at_exit()
        return self.event_writer

    def get_logdir(self) -> str:
        """The folder of the event file."""
        return self._options[0]

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an Event; step and walltime go into it."""
        if step is not None:
            event.step = int(step)
        event.wall_time = walltime if walltime is not None else time.time()
        (self.event_writer or self._open()).add_event(event)

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a Summary, in an Event."""
        self.add_event(event_pb2.Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """Write a GraphDef and the RunMetadata beside it."""
        graph, profile = graph_profile
        self.add_onnx_graph(graph, walltime)
        notes = {"tag": "step1", "run_metadata": profile.SerializeToString()}
        tagged = event_pb2.TaggedRunMetadata(**notes)
        self.add_event(event_pb2.Event(tagged_run_metadata=tagged), walltime=walltime)

    def add_onnx_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Write a GraphDef."""
        definition = graph.SerializeToString()
        self.add_event(event_pb2.Event(graph_def=definition), walltime=walltime)

    def flush(self) -> None:
        """Wait until everything that was added is in the file."""
        if self.event_writer is not None:
            self.event_writer.flush()
        elif self._closed:
            raise OSError("Writer is closed")

    def close(self) -> None:
        """Write what waits, and close the file. A second time does nothing."""
        with self._lock:
            writer, self.event_writer, self._closed = self.event_writer, None, True
        if writer is not None:
            writer.close()

    def reopen(self) -> None:
        """After close: go on, in a new event file. Does nothing if the writer is open."""
        self._closed = False
        self._open()

    def _forget_parent(self):
        """In a forked child: neither locks nor queues of the parent can be trusted."""
        self._lock = threading.Lock()
        self.event_writer = None


def _after_fork():
    for writer in list(_writers):
        writer._forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _save_at_exit():
    """Once per process; processes of multiprocessing end without atexit."""
    if os.getpid() in _saved_at_exit:
        return
    _saved_at_exit.add(os.getpid())
    if multiprocessing.parent_process() is None:
        atexit.register(_flush_all)
    else:
        multiprocessing.util.Finalize(None, _flush_all, exitpriority=0)


def _flush_all():
    for writer in list(_writers):
        with contextlib.suppress(Exception):  # the thread that writes has told its error
            writer.flush()
