"""Recording what a GPU is asked for, to run it again.

While a graph is recorded, memory comes from pools that nobody else has, so that addresses stay
valid, and long descriptions go into pinned memory that lives as long as the graph. Nothing may wait
meanwhile. Generators leave seed and offset to the moment when the graph runs.
"""

import ctypes
import itertools
import struct

from flambeau.runtime import cuda

MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
RING = 1 << 22
WAITED = "CUDA error: operation not permitted when stream is capturing"
_numbers = itertools.count(1)
_words = (cuda.RING, cuda.RING_SIZE, cuda.RING_AT, cuda.COPY, cuda.WAIT, cuda.BLOCKING, cuda.LAUNCH)


def new_pool():
    """The name of memory that graphs may share."""
    return "graph", next(_numbers)


class GraphDraws:
    """Numbers of a generator inside a graph: seed and offset are in memory of the device."""

    def __init__(self, generator, driver):
        self.generator, self.driver, self.used = generator, driver, 0
        self.address = driver.allocate(16)

    def advance(self, increment):
        offset = self.used
        self.used += increment
        return 0, offset, self.address

    def start(self, stream):
        """The numbers of one run."""
        seed, offset, _ = self.generator.advance(self.used)
        words = ctypes.create_string_buffer(struct.pack("<QQ", seed, offset), 16)
        self.driver.to_device(self.address, ctypes.addressof(words), 16, stream)


class Recording:
    """A graph: first it is recorded, then it runs."""

    def __init__(self, runtime, pool, generators):
        self.runtime, self.pool, self.generators = runtime, pool, generators
        self.draws: list = []
        self.graph = self.program = self.ring = 0
        self.waited = False

    def begin(self, mode):
        runtime, driver = self.runtime, self.runtime.driver
        state = runtime.state
        self.ring = driver.allocate_pinned(RING)
        self.draws = [GraphDraws(g, driver) for g in self.generators]
        for g, draws in zip(self.generators, self.draws):
            g._graph = draws
        runtime.allocator.choose(self.pool)
        self.before = [state[k] for k in _words]
        self.waiter = ctypes.CFUNCTYPE(ctypes.c_int)(self._note_wait)
        self.hook, launch = driver.launch_hook()
        copy = ctypes.cast(ctypes.CDLL(None).memcpy, ctypes.c_void_p).value
        wait = ctypes.cast(self.waiter, ctypes.c_void_p).value
        for k, value in zip(_words, (self.ring, RING, 0, copy, wait, 0, launch)):
            state[k] = value
        driver.begin_capture(runtime.stream, MODES[mode])

    def _note_wait(self):
        self.waited = True
        return 0

    def end(self):
        runtime = self.runtime
        for k, value in zip(_words, self.before):
            runtime.state[k] = value
        for g in self.generators:
            g._graph = None
        runtime.allocator.choose(runtime.stream or None)
        self.graph = runtime.driver.end_capture(runtime.stream)
        if self.waited:
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
