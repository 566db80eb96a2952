"""Programs of collectives, and who runs them.

A collective is a generator that yields when it must wait: the rank (within its group) that it waits
for, or None. A `Lane` keeps the programs of a group in order; only its first one runs. The thread
that waits for a result runs the lane itself. What nobody waits for yet is run by one background
thread. Time, deaths and processors are looked after here and nowhere else.
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any

from flambeau.autograd.grad_mode import no_grad
from flambeau.futures import Future

from .errors import DistBackendError

__all__ = ["Lane", "Work", "bounded"]

SPINS = 60  # looks before the processor is offered to others
YIELDS = 3000  # offers before the thread goes to sleep between looks
MESSAGE_GRACE = 2.0  # seconds: a message of somebody who has left may still be on its way

_offer = getattr(os, "sched_yield", lambda: time.sleep(0))


class Work:
    """A collective that has been asked for."""

    def __init__(
        self,
        lane: "Lane",
        name: str,
        program: Generator,
        result: list | None = None,
        timeout: float = 1800.0,
    ) -> None:
        self._lane, self._name, self._program = lane, name, program
        self._result, self._timeout = result or [], timeout
        self._error: BaseException | None = None
        self._done = False
        self._began: float | None = None
        self._start = 0  # for profilers
        self._beside = False  # does it run while its caller goes on?
        self._late_since: float | None = None
        self._source: int | None = None
        self._future: Future | None = None
        self._lock = threading.Lock()

    # -- what callers see ------------------------------------------------------------------------
    def wait(self, timeout: timedelta | None = None) -> bool:
        """Until it is done; an error of it is raised here."""
        if not self._done:
            limit = timeout.total_seconds() if timeout else 0
            self._lane.run_until(self, limit)
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Is it over?"""
        if not self._done:
            self._lane.look()
        return self._done

    def is_success(self) -> bool:
        """Is it over, without an error?"""
        return self._done and self._error is None

    def exception(self) -> BaseException | None:
        """Its error, if there was one."""
        return self._error

    def result(self) -> list:
        """The tensors that hold its result."""
        return self._result

    def synchronize(self) -> None:
        """As wait."""
        self.wait()

    def source_rank(self) -> int:
        """Who sent what a recv has got."""
        if self._source is None:
            raise RuntimeError(
                "sourceRank() may only be called on work objects that correspond to a recv or "
                "recv-from-any call."
            )
        return self._source

    def get_future(self) -> Future:
        """Its result as a torch.futures.Future."""
        with self._lock:
            if self._future is None:
                self._future = Future()
                self._future._drive = self.wait
                if self._done:
                    self._tell()
            return self._future

    # -- what lanes do ---------------------------------------------------------------------------
    def _finish(self, error=None):
        recording = sys.modules.get("flambeau.profiler.recording")
        if recording is not None and self._start:
            track = id(self._lane) % (1 << 31) if self._beside else None
            for recorder in recording._active:
                recorder.span(f"gloo:{self._name}", self._start, time.perf_counter_ns(), track)
        self._error = error
        self._program.close()
        with self._lock:
            self._done = True
            future = self._future
        if future is not None:
            self._tell()

    def _tell(self):
        assert self._future is not None
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)


class Lane:
    """The programs of one group, in the order in which they were asked for."""

    def __init__(self, ranks: list[int], health: Any, grace: float = 0.02) -> None:
        self.ranks, self.health, self.grace = ranks, health, grace
        self.queue: deque[Work] = deque()
        self.lock = threading.Lock()
        self.error: BaseException | None = None
        self.doze: Callable[[int], None] | None = None  # sleeps until a member does something
        self.waits_for: int | None = None
        # with more processes than processors, whoever spins keeps others from what is waited for
        self.spins = SPINS if len(ranks) <= (os.cpu_count() or 1) else 4

    def submit(self, work: Work, background: bool) -> Work:
        """Put a program at the end; background: somebody else shall run it meanwhile."""
        if self.error is not None:
            raise DistBackendError(f"this process group is broken since: {self.error}")
        work._beside = background
        self.queue.append(work)
        if background:
            self.look()  # what can be done without waiting: others may already wait for it
            if self.queue:
                _background.add(self)
        return work

    def look(self) -> bool:
        """Go on as far as possible without waiting; False if another thread is at it."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            self._advance()
        finally:
            self.lock.release()
        return True

    def _advance(self):
        """Run programs until one has to wait."""
        queue = self.queue
        while queue:
            work = queue[0]
            if work._began is None:
                work._began = time.monotonic()
                work._start = time.perf_counter_ns()
            try:
                with no_grad():
                    waits_for = self.waits_for = next(work._program)
            except StopIteration:
                queue.popleft()
                work._finish()
                continue
            except Exception as error:
                self._break(error)
                continue
            if self.health.gone or time.monotonic() - work._began > work._timeout:
                self._judge(work, waits_for)
            if queue and queue[0] is work:
                return

    def _judge(self, work, waits_for):
        """A program waits although something is wrong: is it the end of it?"""
        late = time.monotonic() - work._began > work._timeout
        gone = self.health.gone
        dead = [rank for rank in self.ranks if gone.get(rank) == "died"]
        who = None if waits_for is None else self.ranks[waits_for]
        left = (
            [who] if who in gone else [rank for rank in self.ranks if rank in gone and who is None]
        )
        if not (dead or late or left):
            return
        if not late:
            # what they sent may still be on its way: counters are there, messages need longer
            now = time.monotonic()
            if work._late_since is None:
                work._late_since = now
            if now - work._late_since < self.grace:
                return
        self._break(DistBackendError(self._complaint(work, who, dead, left)))

    def _complaint(self, work, who, dead, left):
        if dead:
            names = ", ".join(map(str, dead))
            return f"rank {names} died; {work._name} cannot be completed."
        if left:
            names = ", ".join(map(str, left))
            return f"rank {names} has left the process group; {work._name} cannot be completed."
        missing = "" if who is None else f": rank {who} has not arrived"
        waited = f"Timed out waiting {work._timeout * 1e3:.0f}ms for {work._name}"
        return f"{waited} operation to complete{missing}."

    def _break(self, error):
        """Nothing of this group can go on."""
        self.error = error
        while self.queue:
            self.queue.popleft()._finish(error)

    def run_until(self, work: Work, limit: float = 0) -> None:
        """Run programs of this lane until this one is done."""
        count, began = 0, time.monotonic()
        while not work._done:
            if not self.look() and self.lock.acquire(timeout=0.001):
                self.lock.release()
            count += 1
            if count > self.spins:
                if limit and time.monotonic() - began > limit:
                    waited = f"Timed out waiting {limit * 1e3:.0f}ms for {work._name}"
                    raise DistBackendError(f"{waited} operation to complete.")
                if self.doze is not None and self.waits_for is not None:
                    self.doze(self.waits_for)
                elif count < YIELDS:
                    _offer()
                else:
                    time.sleep(0.0002)


class Background:
    """One thread that runs what nobody waits for yet."""

    def __init__(self):
        self.lanes: list[Lane] = []
        self.changed = threading.Condition()
        self.pid = None

    def add(self, lane):
        with self.changed:
            if lane not in self.lanes:
                self.lanes.append(lane)
            if self.pid != os.getpid():
                self.pid = os.getpid()
                threading.Thread(target=self.run, name="collectives", daemon=True).start()
            self.changed.notify()

    def run(self):
        while True:
            with self.changed:
                self.lanes = [lane for lane in self.lanes if lane.queue]
                while not self.lanes:
                    self.changed.wait()
                lanes = list(self.lanes)
            for lane in lanes:
                lane.look()
            time.sleep(0.0001)


_background = Background()


def bounded(function: Callable[[], Any], seconds: float, health: Any, what: str) -> Any:
    """function(), given up when time is over or somebody has died: for calls that block in C."""
    box: dict[str, Any] = {}
    ready = threading.Event()

    def run():
        try:
            box["value"] = function()
        except BaseException as error:
            box["error"] = error
        ready.set()

    threading.Thread(target=run, name=what, daemon=True).start()
    deadline = time.monotonic() + seconds
    while not ready.wait(0.05):
        dead = sorted(rank for rank, how in health.gone.items() if how == "died")
        if dead:
            raise DistBackendError(f"rank {', '.join(map(str, dead))} died during {what}.")
        if time.monotonic() > deadline:
            raise DistBackendError(f"Timed out waiting {seconds * 1e3:.0f}ms for {what}.")
    if "error" in box:
        raise box["error"]
    return box["value"]
