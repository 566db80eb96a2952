"""Recordings and tapes of GPUs: what is different there.

Launches are kernels as on the host, so a tape makes them again in the same way, one by one. Where
they are given the same addresses as before (which is the rule in loops: pools hand the same blocks
out in the same order) they run as a CUDA graph, with one launch for all. A graph holds for the very
addresses that it was made with, so nothing has to be copied to fixed places, and it does what the
launches would do. A few of them are kept for each tape.

Random numbers are drawn anew in each replay: while a run is recorded the generator leaves seed and
offset to memory of the device, which is filled before the launches.
"""

import contextlib
import threading
from typing import Any

from flambeau import random as _random
from flambeau._tensor import empty_like_layout
from flambeau.compiler import recording
from flambeau.runtime import cpu, cuda
from flambeau.runtime.cuda_graphs import (
    PATIENCE,
    ByAddresses,
    GraphDraws,
    TapeGraph,
    handed_out_next,
)
from flambeau.runtime.tapes import Places, Tape

SEED_BYTES = 16
SMALL = 1 << 16  # bytes of a result that may be copied

_turn = threading.RLock()  # tapes of several threads share temporaries, and their stream
_rooms: dict = {}  # memory of temporaries, by device


class Gpu:
    """The device of a recording."""

    def __init__(self, place: Any) -> None:
        self.runtime = place.runtime
        self.allocator = self.runtime.allocator
        self.arena = _rooms.setdefault(place, recording.Room(place))
        self.seed = empty_like_layout(recording.plain_bytes(SEED_BYTES, place))
        self.generator = _random.cuda_generator(place.index)
        self.draws = GraphDraws(self.generator, self.runtime.driver, self.seed._storage.pointer)

    @contextlib.contextmanager
    def recorded(self):
        """Around a run that is recorded."""
        if self.runtime.is_capturing or self.allocator.branch is not None:
            raise recording.Spoiled("another stream than the default one is in use", True)
        self.allocator.empty_cache()  # or there would be two of everything
        self.generator._graph = self.draws
        try:
            yield
        finally:
            self.generator._graph = None
            self.allocator.empty_cache()

    def holds(self, address: int) -> bool:
        """Is it where seed and offset are?"""
        return 0 <= address - self.draws.address < SEED_BYTES

    def tape(self, made: Tape) -> "GpuTape":
        return GpuTape(made, self)


class GpuTape:
    """A tape of a GPU: `replay(*tensors)` gives None, or False if another one plays."""

    def __init__(self, tape: Tape, gpu: Gpu) -> None:
        self.tape, self.gpu, self.runtime = tape, gpu, gpu.runtime
        self.launch = tape.replay
        self.places = Places(recording.ARENA.native("places"), tape.bases)
        self.graphs = ByAddresses()
        self.read: Any = None  # what was wanted when it was last read, and its words
        self.words: tuple = ()
        self.held: dict = {}  # base -> how often its memory was not to be had again
        self.still: dict = {}  # base -> memory of the tape that stands for it
        self.room = _staged_bytes(tape)

    def near(self, base: int, layout: Any) -> Any:
        """New memory for a base; where it was before, if nobody else has that."""
        wanted = self.graphs.wanted
        if wanted is not None:
            if wanted is not self.read:
                self.read, self.words = wanted, cpu.words_of(wanted[0])
            pool, address = layout.pool, self.words[base]
            if pool and pool[-1] == address:
                return empty_like_layout(layout)
            if handed_out_next(pool, address):
                self.held.pop(base, None)
            else:
                self._is_held(base, layout)
        return empty_like_layout(layout)

    def _is_held(self, base, layout):
        """Somebody keeps what was there: small results that are kept again and again get memory of
        the tape, and are copied.
        """
        self.held[base] = self.held.get(base, 0) + 1
        if self.held[base] > PATIENCE and layout.nbytes <= SMALL and base not in self.still:
            self.still[base] = empty_like_layout(layout)

    def replay(self, *tensors: Any) -> Any:
        if recording.ARENA.busy.is_up():
            return False
        with _turn:
            return self._played(tensors)

    def _played(self, tensors):
        if not self.still:
            return self._run(tensors)
        given = list(tensors)
        for base, still in self.still.items():
            given[base] = still
        done = self._run(given)
        for base, still in self.still.items():
            if done is None:
                target, source = tensors[base]._storage, still._storage
                self.runtime.copy(target.pointer, source.pointer, still._layout.nbytes)
        return done

    def _run(self, tensors):
        runtime, draws = self.runtime, self.gpu.draws
        if runtime.stream != self.gpu.arena.stream:  # temporaries of all tapes share memory
            runtime.driver.synchronize()
            self.gpu.arena.stream = runtime.stream
        if draws.used:
            draws.start(runtime.stream)
        if cpu.on_new or runtime.state[cuda.BLOCKING]:  # somebody looks at each launch
            return self.launch(*tensors)
        key = self.places.key(*tensors), runtime.allows_tf32
        found = self.graphs.find(key)
        if found is None:
            if not self.graphs.is_due(key):
                return self.launch(*tensors)
            found = self._captured(tensors)
            self.graphs.keep(key, found)
            if found is None:
                return self.launch(*tensors)
        found.play()
        return None

    def _captured(self, tensors):
        """The launches as a graph; None if something waits, or a library refuses."""
        try:
            graph = TapeGraph(self.runtime, lambda: self.launch(*tensors), self.room)
        except RuntimeError:
            return None
        return graph if graph.is_good else None


def _staged_bytes(tape):
    """Bytes of a ring that has room for all descriptions of a tape."""
    total = 1 << 12
    for launch in tape.launches:
        total += sum(512 + len(a) for a in launch.arguments if type(a) is bytes) + 512
    return total
