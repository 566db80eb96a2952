"""What a worker process of a DataLoader does: fetch batches and send them, until the line closes.

`WorkerInfo` and `get_worker_info` tell code that runs in a worker which one it is. Seeds follow
PyTorch's rules, so that a dataset which draws random numbers gives the same batches. How batches
travel is told in `worker_parcels.py`; the loader's side is `worker_iterator.py`.
"""

import contextlib
import multiprocessing
import os
import pickle
import random
import select
import signal
import threading
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import flambeau

from .fetch import DatasetKind, IterableFetcher, create_fetcher
from .loader_pipes import seed_pipes
from .random_state import RandomState
from .resuming import restore_dataset, resume_iterable, state_of_dataset
from .worker_channel import CAN_SEND_DESCRIPTORS, WorkerEnd
from .worker_errors import Failure
from .worker_memory import Arena
from .worker_parcels import pack

# kinds of messages to a worker
TASK, NEXT_EPOCH = range(2)
# kinds of answers
BATCH, FAILED, ENDED, READY = range(4)

NOWHERE = None, None  # a position that tells nothing new

GRACE = 5.0  # seconds that a worker may go on with a sample after its loader has gone
CHECK_INTERVAL = 1.0  # seconds between two looks at whether the parent lives


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker of a DataLoader knows about itself.

    Attributes:
        id: its number, from 0.
        num_workers: how many workers there are.
        seed: what its random streams were started from.
        dataset: its own copy of the dataset.
        rng: for workers that are threads; None in processes.
        worker_method: "multiprocessing".
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Which worker this process is; None if it is none.

    Example:
        >>> flambeau.utils.data.get_worker_info() is None
        True
    """
    return _worker_info


class Job(NamedTuple):
    """What all workers of a loader are told when they start."""

    kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    base_seed: int
    init_fn: Any
    num_workers: int
    batch_size: int | None
    shared_seed: int | None  # of the shufflers of a pipe


# -- seeds -----------------------------------------------------------------------------------------


def numpy_seed(base_seed: int, worker_id: int) -> list[int]:
    """Four words for numpy.random.seed: O'Neill's seed sequence over worker and base seed."""
    mask, shift = 0xFFFFFFFF, 16
    constant = 0x43B0D7E5

    def scramble(value):
        nonlocal constant
        value = (value ^ constant) & mask
        constant = constant * 0x931E8875 & mask
        value = value * constant & mask
        return value ^ value >> shift

    def mix(x, y):
        value = (0xCA01F9DD * x - 0x4973F715 * y) & mask
        return value ^ value >> shift

    pool = [scramble(word) for word in (worker_id, base_seed & mask, base_seed >> 32, 0)]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = mix(pool[target], scramble(pool[source]))
    words, constant = [], 0x8B51F9DD
    for word in pool:
        word = word ^ constant
        constant = constant * 0x58F38DED & mask
        word = word * constant & mask
        words.append(word ^ word >> shift)
    return words


def _seed_all(base_seed, worker_id):
    seed = base_seed + worker_id
    random.seed(seed)
    flambeau.manual_seed(seed)
    import numpy

    numpy.random.seed(numpy_seed(base_seed, worker_id))
    return seed


# -- the process -----------------------------------------------------------------------------------


def _set_signals():
    """Ctrl-C is for the loader to answer; requests to end are obeyed."""
    if threading.current_thread() is not threading.main_thread():
        return
    # a function, not SIG_IGN: programs that the dataset starts shall not inherit it
    signal.signal(signal.SIGINT, lambda number, frame: None)
    if callable(signal.getsignal(signal.SIGTERM)):  # a handler of the parent's
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _watch(end):
    """End this process when its parent has ended, or a while after its loader has."""
    parent = multiprocessing.parent_process()
    lookout, line = select.poll(), end.fileno()
    lookout.register(line, 0)
    if parent is not None:
        lookout.register(parent.sentinel, select.POLLIN)
    first_parent, deadline = os.getppid(), None
    while True:
        ready = dict(lookout.poll(CHECK_INTERVAL * 1000))
        if (parent is not None and parent.sentinel in ready) or os.getppid() != first_parent:
            os._exit(1)
        if ready and deadline is None:
            deadline = time.monotonic() + GRACE
            lookout.unregister(line)
        if deadline is not None and time.monotonic() > deadline:
            os._exit(1)


def run_worker(job: Job, worker_id: int, end: WorkerEnd, resume: Any) -> None:
    """The life of a worker."""
    _set_signals()
    if hasattr(select, "poll"):
        threading.Thread(target=_watch, args=(end,), name="flambeau-watch", daemon=True).start()
    # these say that the loader has closed the line
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        _Worker(job, worker_id, end, resume).run()
    with contextlib.suppress(OSError):
        end.connection.close()


class _Worker:
    """One worker: a fetcher, and the line to its loader."""

    def __init__(self, job: Job, worker_id: int, end: WorkerEnd, resume: Any) -> None:
        global _worker_info
        self.job, self.id, self.end = job, worker_id, end
        self.where = f"in DataLoader worker process {worker_id}"
        self.arena = Arena() if CAN_SEND_DESCRIPTORS else None
        self.init_failure: Failure | None = None
        self.fetcher: Any = None
        self.ended = False
        self.streams = self.start = RandomState([], None, None)
        flambeau.set_num_threads(1)
        seed = _seed_all(job.base_seed, worker_id)
        _worker_info = WorkerInfo(worker_id, job.num_workers, seed, job.dataset)
        self._begin(resume, job.shared_seed, first=True)

    def _begin(self, resume, shared_seed, first=False):
        """Start an epoch, or go on in one that is resumed."""
        job = self.job
        self.ended, self.fetcher, self.init_failure = False, None, None
        try:
            if shared_seed is not None:
                seed_pipes(job.dataset, shared_seed)
            if first and job.init_fn is not None:
                job.init_fn(self.id)
            if resume is not None:
                if resume["start"] is not None:
                    RandomState.from_plain(resume["start"]).restore()
                restore_dataset(job.dataset, resume["dataset"])
            self.start = self.streams = RandomState.now()
            self.fetcher = create_fetcher(
                job.kind, job.dataset, job.auto_collation, job.collate_fn, job.drop_last
            )
            if resume is not None:
                self._go_on(resume)
        except Exception as error:
            self.init_failure = Failure(error, self.where)

    def _go_on(self, resume):
        if isinstance(self.fetcher, IterableFetcher):
            index = [None] * (self.job.batch_size or 1) if self.job.auto_collation else None
            resume_iterable(self.fetcher, resume["dataset"], resume["batches"], index)
        if resume["random"] is not None:
            RandomState.from_plain(resume["random"]).restore()

    def _position(self):
        """What it takes to go on from here: streams, if they moved, and the dataset's own state.

        Both are pickled on their own: the loader seldom looks into them.
        """
        before, self.streams = self.streams, RandomState.now()
        streams = None if self.streams == before else pickle.dumps(self.streams)
        dataset = state_of_dataset(self.job.dataset, self.fetcher)
        return streams, None if dataset is None else pickle.dumps(dataset)

    def _moved(self):
        """The same after a failure, of which the dataset's own state says nothing."""
        return pickle.dumps(RandomState.now()), None

    def run(self):
        while True:
            kind, *rest = self.end.receive()
            if kind == TASK:
                self._fetch(*rest)
            elif kind == NEXT_EPOCH:
                self._begin(*rest)
                self.end.send((READY, self.start))

    def _fetch(self, task, index, returned):
        if self.arena is not None:
            self.arena.give_back(returned)
        if self.ended:
            return
        if self.init_failure is not None:
            self.end.send((FAILED, task, self.init_failure, NOWHERE))
            return
        descriptor = -1
        try:
            data = self.fetcher.fetch(index)
            position = self._position()
            parcel, descriptor = pack(data, self.arena)
            message = BATCH, task, tuple(parcel), position
        except Exception as error:
            if isinstance(error, StopIteration) and self.job.kind == DatasetKind.Iterable:
                self.ended = True
                message = ENDED, task, self._position()
            else:
                message = FAILED, task, Failure(error, self.where), self._moved()
        self.end.send(message, descriptor)
        if descriptor >= 0:
            os.close(descriptor)
