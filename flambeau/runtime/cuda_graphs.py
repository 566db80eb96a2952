"""Recording what a GPU is asked for, to run it again.

While a graph is recorded, memory comes from pools that nobody else has, so that addresses stay
valid, and long descriptions go into pinned memory that lives as long as the graph. Nothing may wait
meanwhile. Generators leave seed and offset to the moment when the graph runs.
"""

import ctypes
import itertools
import os
import struct
from collections import OrderedDict
from typing import Any

from flambeau.runtime import cuda

MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
RING = 1 << 22
WAITED = "CUDA error: operation not permitted when stream is capturing"
_numbers = itertools.count(1)
_words = (cuda.RING, cuda.RING_SIZE, cuda.RING_AT, cuda.COPY, cuda.WAIT, cuda.BLOCKING, cuda.LAUNCH)


OF_TAPES = "graph", 0


def new_pool():
    """The name of memory that graphs may share."""
    return "graph", next(_numbers)


class GraphDraws:
    """Numbers of a generator inside a graph: seed and offset are in memory of the device."""

    def __init__(self, generator, driver, address):
        self.generator, self.driver, self.used = generator, driver, 0
        self.address = address  # of 16 bytes

    def advance(self, increment):
        offset = self.used
        self.used += increment
        return 0, offset, self.address

    def start(self, stream):
        """The numbers of one run."""
        seed, offset, _ = self.generator.advance(self.used)
        words = ctypes.create_string_buffer(struct.pack("<QQ", seed, offset), 16)
        self.driver.to_device(self.address, ctypes.addressof(words), 16, stream)


def exchange(state, values):
    """Put values in the place of the words that a recording needs for itself; what was there."""
    before = [state[k] for k in _words]
    for k, value in zip(_words, values):
        state[k] = value
    return before


class Waits:
    """What is called in place of the driver's wait: nothing may wait while a graph is recorded."""

    def __init__(self):
        self.noted = False
        self.function = ctypes.CFUNCTYPE(ctypes.c_int)(self._note)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value

    def _note(self):
        self.noted = True
        return 0


def capture_stream(runtime):
    """A stream on which graphs are captured."""
    stream = runtime.facts.get("capture stream")
    if stream is None:
        stream = runtime.facts["capture stream"] = runtime.driver.new_stream()
    return stream


GRAPHS = 8  # that are kept of the same launches
PATIENCE = 4  # times that no graph is found before other addresses are to come again
SEEN = 64  # sets of addresses that were met once
IN_VAIN = 4 * GRAPHS  # graphs that were made; by then each should have run several times


class ByAddresses:
    """Graphs of the same launches for several sets of addresses, which come again in loops: pools
    hand the same blocks out in the same order.

    A graph is made when its addresses come for the second time. wanted: those that are to come
    again, if nobody else has them (`handed_out_next`).
    """

    def __init__(self):
        self.graphs: OrderedDict = OrderedDict()  # addresses -> graph
        self.seen: set = set()
        self.wanted: Any = None
        self.missed = 0  # since a graph was found
        self.made = self.hits = 0

    def find(self, key):
        """The graph of these addresses, or None."""
        found = self.graphs.get(key)
        if found is not None:
            self.hits += 1
            self.missed = 0
        return found

    def is_due(self, key):
        """There is none; is one to be made?"""
        self.missed += 1
        if not self.graphs or self.missed > PATIENCE:
            self.wanted = key
        is_vain = self.made >= IN_VAIN and self.hits < 2 * self.made
        if key in self.seen and not is_vain:
            return True
        if len(self.seen) >= SEEN:
            self.seen.clear()
        self.seen.add(key)
        return False

    def keep(self, key, graph):
        """What was made of the launches; None if that is not possible."""
        self.made += 1
        if graph is None:
            self.made = 1 << 62  # not again
            return
        if len(self.graphs) >= GRAPHS:
            self.graphs.popitem(last=False)
        self.graphs[key], self.wanted = graph, key


def handed_out_next(pool, address):
    """Let a pool hand a block out next; False if somebody has it."""
    if pool and pool[-1] == address:
        return True
    try:
        pool.remove(address)
    except ValueError:
        return False
    pool.append(address)
    return True


class TapeGraph:
    """Launches of a tape as a graph, for the addresses that they have now.

    launch() makes them; size: bytes that their long descriptions take at most. Those lie in memory
    of the device, where they are put when all are known. What libraries take while they are called
    comes from pools that only such graphs have: they take turns.
    """

    def __init__(self, runtime, launch, size):
        self.runtime, driver = runtime, runtime.driver
        self.graph = self.program = self.ring = 0
        self.ring = driver.allocate(size)
        words, waits = ctypes.create_string_buffer(size), Waits()

        def stage(there, source, nbytes, stream):
            ctypes.memmove(ctypes.addressof(words) + there - self.ring, source, nbytes)
            return 0

        kind = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
        )
        copy = kind(stage)
        self.hook, go = driver.launch_hook()
        values = self.ring, size, 0, ctypes.cast(copy, ctypes.c_void_p).value, waits.address, 0, go
        state, stream = runtime.state, capture_stream(runtime)
        pools = runtime.allocator.choose(OF_TAPES)
        before, was_on = exchange(state, values), runtime.stream
        runtime.put_stream(stream)
        done = None
        try:
            driver.begin_capture(stream, MODES["relaxed"])
            try:
                done = launch()
            finally:
                self.graph = driver.end_capture(stream)
        finally:
            used = state[cuda.RING_AT]
            exchange(state, before)
            runtime.put_stream(was_on)
            runtime.allocator.put_back(pools)
        self.is_good = done is None and not waits.noted
        if self.is_good:
            if used:
                driver.to_device(self.ring, ctypes.addressof(words), used, was_on)
                driver.wait_stream(was_on)
            self.program = driver.instantiate(self.graph)

    def play(self):
        self.runtime.driver.play(self.program, self.runtime.stream)

    def __del__(self):
        driver = self.runtime.driver
        if driver.process == os.getpid():
            driver.free_graph(self.graph, self.program)
            if self.ring:
                driver.free(self.ring)


class Recording:
    """A graph: first it is recorded, then it runs."""

    def __init__(self, runtime, pool, generators):
        self.runtime, self.pool, self.generators = runtime, pool, generators
        self.draws: list = []
        self.graph = self.program = self.ring = 0

    def begin(self, mode):
        runtime, driver = self.runtime, self.runtime.driver
        self.ring = driver.allocate_pinned(RING)
        self.draws = [GraphDraws(g, driver, driver.allocate(16)) for g in self.generators]
        for g, draws in zip(self.generators, self.draws):
            g._graph = draws
        runtime.allocator.choose(self.pool)
        self.waits = Waits()
        self.hook, launch = driver.launch_hook()
        copy = ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value
        values = self.ring, RING, 0, copy, self.waits.address, 0, launch
        self.before = exchange(runtime.state, values)
        runtime.is_capturing = True
        driver.begin_capture(runtime.stream, MODES[mode])

    def end(self):
        runtime = self.runtime
        exchange(runtime.state, self.before)
        runtime.is_capturing = False
        for g in self.generators:
            g._graph = None
        runtime.allocator.choose(runtime.stream or None)
        self.graph = runtime.driver.end_capture(runtime.stream)
        if self.waits.noted:
            raise RuntimeError(WAITED)
        self.program = runtime.driver.instantiate(self.graph)

    def play(self):
        runtime = self.runtime
        for draws in self.draws:
            if draws.used:
                draws.start(runtime.stream)
        runtime.driver.play(self.program, runtime.stream)

    def free(self):
        """The graph and what belongs to it."""
        driver = self.runtime.driver
        driver.free_graph(self.graph, self.program)
        if self.ring:
            driver.free_pinned(self.ring)
        for draws in self.draws:
            driver.free(draws.address)
        self.graph = self.program = self.ring = 0
        self.draws = []
