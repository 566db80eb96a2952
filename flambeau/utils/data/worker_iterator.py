"""Loading by worker processes: who gets which task, and which batch comes next.

Tasks go round the workers, and batches come back in the order of the tasks, so the order does not
depend on which worker is quicker (unless `in_order=False` asks for that). Each worker has
`prefetch_factor` tasks in advance. Starting and ending processes is in `worker_processes.py`, what
they do in `worker.py`, how batches travel in `worker_parcels.py`.
"""

import time
from collections.abc import Iterator
from typing import Any

import flambeau.multiprocessing

from .fetch import DatasetKind
from .iteration import BaseIterator
from .loader_pipes import is_pipe, sharding_init_fn
from .pinning import pin_memory
from .worker import (
    BATCH,
    CHECK_INTERVAL,
    ENDED,
    FAILED,
    NEXT_EPOCH,
    READY,
    TASK,
    Job,
)
from .worker_parcels import Parcel, unpack
from .worker_processes import Crew
from .worker_tasks import Ledger


class WorkerIterator(BaseIterator):
    """One pass over a loader with workers, or many if they are persistent."""

    _crew: Crew | None = None
    _arrived: dict[int, Any]
    _ledger: Ledger
    _starts: dict[int, Any]  # where the random streams of workers that stayed began the epoch

    def __init__(self, loader: Any) -> None:
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._worker_init_fn = loader.worker_init_fn
        if is_pipe(loader.dataset):
            self._worker_init_fn = sharding_init_fn(loader.worker_init_fn)
        self._context = loader.multiprocessing_context or flambeau.multiprocessing
        self._batch_size = loader.batch_size
        super().__init__(loader)
        self._hire()
        self._first_tasks()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Another epoch with the same workers."""
        super()._reset(loader, first_iter)
        crew = self._crew
        if crew is None or crew.closed or self._reading:  # workers were lost, or interrupted
            self._hire()
        else:
            resume = self._saved_states()
            for worker, end in enumerate(crew.ends):
                end.send((NEXT_EPOCH, resume[worker], self._shared_seed))
            self._starts = {}
            while len(self._starts) < self._num_workers:
                self._wait()
            self._throw_away()
        self._first_tasks()

    def _hire(self) -> None:
        if self._crew is not None:
            self._crew.close()
        self._reading = False
        self._starts = {}
        job = Job(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
            self._base_seed,
            self._worker_init_fn,
            self._num_workers,
            self._batch_size,
            self._shared_seed,
        )
        self._crew = Crew(self._context, job, self._saved_states())

    def _first_tasks(self) -> None:
        """Give every worker something to do."""
        progress, saved = self._progress, self._progress.saved_workers
        resumed = saved if progress.resumed and saved and len(saved) == self._num_workers else None
        ledger = self._ledger = Ledger(
            self._num_workers,
            self._prefetch_factor,
            self._in_order,
            resumed,
            progress.consumed,
            self._starts,
        )
        self._arrived = {}  # task -> message
        if progress.resumed and saved and saved[0]["waiting"] is not None:
            self._serve_out_of_order(saved[0]["waiting"])
        progress.worker_states = ledger.states
        for _ in range(ledger.most):
            self._send_task()

    # -- tasks -------------------------------------------------------------------------------------

    def _send_task(self) -> None:
        """Draw a batch of indices for the worker whose turn it is."""
        crew, ledger = self._crew, self._ledger
        assert crew is not None
        if crew.closed:
            return
        worker = ledger.choose()
        if worker is None:
            return
        try:
            index = self._next_index()
        except StopIteration:
            return
        task = ledger.give(worker)
        crew.ends[worker].send((TASK, task, index, crew.landings[worker].returns()))

    def _next_data(self) -> Any:
        arrived, ledger = self._arrived, self._ledger
        while True:
            if not self._in_order and arrived:
                task = next(iter(arrived))
                return self._hand_out(task, arrived.pop(task))
            if not ledger.skip_ended(arrived):
                ledger.close()
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            message = arrived.pop(ledger.next, None)
            if message is not None:
                ledger.next += 1
                return self._hand_out(ledger.next - 1, message)
            self._wait()

    def _hand_out(self, task, message):
        failed = message[0] == FAILED
        worker = self._ledger.finish(task, failed, message[3])
        if failed:
            self._send_task()
            self._progress.consume()
            message[2].reraise()
        data = unpack(message[2], self._crew.landings[worker])
        self._send_task()
        return pin_memory(data, self._pin_memory_device) if self._pin_memory else data

    # -- messages ----------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait until something has come from a worker."""
        crew = self._crew
        assert crew is not None
        if crew.closed:
            raise RuntimeError(
                "the workers of this DataLoader iterator are gone; start a new iteration"
            )
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while True:
            seconds = CHECK_INTERVAL
            if deadline is not None:
                seconds = max(0.0, min(seconds, deadline - time.monotonic()))
            ready = crew.ready(seconds)
            lines = [found for found in ready if found in crew.listening]
            for line in lines:
                self._receive(crew, crew.listening[line])
            if lines:
                return
            if ready or seconds == CHECK_INTERVAL:
                crew.raise_if_lost()
            elif deadline is not None and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")

    def _receive(self, crew, worker):
        """Read one message, with the block of memory it may tell of."""
        end, landing = crew.ends[worker], crew.landings[worker]
        self._reading = True  # an interrupt in here leaves the line in the middle of a message
        try:
            message = end.receive()
            if message[0] == BATCH:
                parcel = Parcel(*message[2])
                landing.drop(parcel.dropped)
                if parcel.new_size:
                    landing.add(parcel.number, end.receive_descriptor(), parcel.new_size)
                message = BATCH, message[1], parcel, message[3]
        except (EOFError, ConnectionResetError):
            self._reading = False
            crew.raise_lost(worker)
        self._reading = False
        kind = message[0]
        if kind in (BATCH, FAILED):
            self._arrived[message[1]] = message
        elif kind == ENDED:
            self._ledger.end(worker, message[2])
            if not self._persistent_workers:
                crew.dismiss(worker)
            self._send_task()
        elif kind == READY:
            self._starts[worker] = message[1]

    def _throw_away(self) -> None:
        """Batches of an epoch that was left: their blocks are free."""
        assert self._crew is not None
        for task, message in self._arrived.items():
            if message[0] == BATCH and message[2].number >= 0:
                landing = self._crew.landings[self._ledger.owners[task]]
                landing.lease(message[2].number)
        self._arrived.clear()

    @property
    def _workers(self) -> list[Any]:
        """The processes, under PyTorch's name."""
        return [] if self._crew is None else self._crew.processes

    # -- ending ------------------------------------------------------------------------------------

    def _shutdown_workers(self) -> None:
        if self._crew is not None:
            self._crew.close()

    def __del__(self) -> None:
        self._shutdown_workers()

    # -- resuming ----------------------------------------------------------------------------------

    def _saved_states(self) -> list[Any]:
        """What each worker goes on from; None for a fresh start."""
        saved = self._progress.saved_workers
        if saved is None or len(saved) != self._num_workers:
            return [None] * self._num_workers
        if self._progress.resumed:
            return list(saved)
        # persistent workers after a whole epoch
        return [
            {**state, "batches": 0, "start": state["random"] or state["start"], "random": None}
            for state in saved
        ]

    # With in_order=False the batches that are still to come need not be the last ones drawn, so
    # their numbers are saved, and indices that are drawn again are picked by number.

    def _indices(self) -> Iterator[Any]:
        indices = super()._indices()
        self._drawn: list[Any] = []
        saved = self._progress.saved_workers
        if self._progress.resumed and saved and saved[0]["waiting"] is not None:
            return _recorded(indices, self._drawn)
        return indices

    def _serve_out_of_order(self, waiting: list[int]) -> None:
        progress = self._progress
        if self._dataset_kind == DatasetKind.Map and progress.sampler is None:
            waiting = [number for number in waiting if number < len(self._drawn)]
            progress.pending.clear()
            progress.pending.extend(self._drawn[number] for number in waiting)
            self._ledger.begin_with(waiting, progress.drawn)
        self._drawn = []


def _recorded(indices, record):
    for index in indices:
        record.append(index)
        yield index
