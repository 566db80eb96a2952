"""Who has which task: the ledger of an epoch that workers load.

Tasks are numbered as they are sent; each belongs to a worker until its batch is handed out. The
ledger is all that has to be known to go on with the epoch later, even when the iterator and its
workers are gone: how many batches came from each worker, where its random streams and its dataset
were after the last of them, whose turn it is, and, if batches may overtake each other, which ones
are still to come.
"""

import pickle
from typing import Any

from .random_state import RandomState


class Ledger:
    """The tasks of one epoch.

    Args:
        workers: how many there are.
        prefetch: how many tasks each of them has in advance.
        in_order: whether batches are handed out in the order of tasks.
        saved: what `states` gave for the epoch that is resumed, if it fits.
        first_number: of the first batch of indices that will be drawn, within the epoch.
        starts: where the random streams of workers that stayed were when the epoch began.
    """

    def __init__(
        self,
        workers: int,
        prefetch: int,
        in_order: bool,
        saved: list[dict[str, Any]] | None,
        first_number: int,
        starts: dict[int, RandomState],
    ) -> None:
        self.sent = 0  # the number of the next task
        self.next = 0  # the task whose batch is handed out next
        self.owners: dict[int, int] = {}  # task -> worker
        self.active = [True] * workers
        self.loads = [0] * workers  # tasks that each worker has
        new = [dict(batches=0, start=None, random=None, dataset=None) for _ in range(workers)]
        # Plain data, or what is made plain when somebody asks: a RandomState, or a pickle.
        self.positions: list[dict[str, Any]] = [dict(state) for state in saved or new]
        if not saved:
            for worker, start in starts.items():
                self.positions[worker]["start"] = start
        self._ends: dict[int, Any] = {}  # positions of workers that have no more to give
        self.most = prefetch * workers
        self.in_order = in_order
        self._turn = saved[0]["next"] if saved else 0
        self._waiting: list[int] = []  # numbers of the first batches, if they are out of order
        self._first_number = first_number

    def begin_with(self, waiting: list[int], then: int) -> None:
        """The first batches have these numbers; the others are counted from `then`."""
        self._waiting, self._first_number = waiting, then

    def choose(self) -> int | None:
        """The worker for the next task; None if there is none."""
        count = len(self.active)
        for step in range(count):
            worker = (self._turn + step) % count
            if self.active[worker] and (
                self.in_order or self.loads[worker] < self.most // sum(self.active)
            ):
                self._turn = (worker + 1) % count
                return worker
        return None

    def give(self, worker: int) -> int:
        """The number of a task that a worker gets."""
        task = self.sent
        self.owners[task] = worker
        self.loads[worker] += 1
        self.sent += 1
        return task

    def finish(self, task: int, failed: bool, position: tuple[Any, Any]) -> int:
        """A task is done with; returns whose it was."""
        worker = self.owners.pop(task)
        self.loads[worker] -= 1
        if not failed:
            self.positions[worker]["batches"] += 1
        self._move(worker, position)
        return worker

    def _move(self, worker: int, position: tuple[Any, Any]) -> None:
        for name, value in zip(("random", "dataset"), position):
            if value is not None:
                self.positions[worker][name] = value

    def end(self, worker: int, position: tuple[Any, Any]) -> None:
        """A worker has no more to give; batches of it may still be waiting."""
        self.active[worker] = False
        self._ends[worker] = position

    def close(self) -> None:
        """The epoch is over."""
        for worker, position in self._ends.items():
            self._move(worker, position)

    def skip_ended(self, arrived: dict) -> bool:
        """Pass over tasks of workers that have ended; False when no task is left."""
        while self.next < self.sent:
            worker = self.owners.get(self.next)
            if worker is not None:
                if self.active[worker] or self.next in arrived:
                    return True
                del self.owners[self.next]
            self.next += 1
        return False

    def states(self) -> list[dict[str, Any]]:
        """For each worker where it is, as of the batches handed out."""
        turn = self._whose_turn()
        waiting = None if self.in_order else self._numbers()
        found = []
        for position in self.positions:
            state = {name: _plain(value) for name, value in position.items()}
            found.append({**state, "next": turn, "waiting": waiting})
        return found

    def _whose_turn(self):
        for task in range(self.next, self.sent):
            if task in self.owners:
                return self.owners[task]
        return self._turn

    def _numbers(self):
        known = len(self._waiting)
        return [
            self._waiting[task] if task < known else self._first_number + task - known
            for task in sorted(self.owners)
        ]


def _plain(value):
    if isinstance(value, bytes):
        value = pickle.loads(value)
    return value.plain() if isinstance(value, RandomState) else value
