"""Graphs of operations by cuDNN, through NVIDIA's frontend (the package nvidia-cudnn-frontend).

A `Graph` is described once, by tensors that have numbers; `built` lets the library choose how to
run it. What comes back is called as kernels are, with one address per tensor, in the order of the
numbers. Everything that the library cannot do is told by `Refused`, so that others do it.
"""

import atexit
import time
from array import array
from typing import Any

from flambeau.runtime.switches import lacking

TYPES = {"f16": "HALF", "bf16": "BFLOAT16", "f32": "FLOAT", "f64": "DOUBLE", "i64": "INT64"}
LIMIT = 1 << 31  # bytes of room that a plan may ask for


class Refused(ValueError):
    """The library does not do this."""


class Library:
    """cuDNN on one GPU."""

    def __init__(self, runtime):
        import cudnn  # an extra: flambeau[cuda]

        self.runtime, self.api = runtime, cudnn
        runtime.driver.use(runtime.index)
        module = cudnn._pybind_module
        # newer frontends put Python in front of their graphs; what lies behind is quicker
        self.kind: Any = getattr(module, "backend_graph", cudnn.pygraph)
        self.run = self.kind._execute_with_raw_ptrs
        handle = cudnn.create_handle()
        self.set_stream = cudnn.set_stream
        self.errors = cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError, TypeError
        self.keeper = handle
        self.handle = getattr(handle, "backend_handle", handle)
        self.stream = 0
        self.works: list = []
        atexit.register(self.close)

    def close(self):
        """Let go of everything: at the end of a program the frontend tells of what is left."""
        for work in self.works:
            work.close()
        self.works.clear()
        self.api = self.kind = self.run = self.set_stream = self.keeper = None
        self.errors = ()

    def graph(self, code):
        """A new graph whose tensors are of a dtype."""
        return Graph(self, code)

    def follow(self):
        """Work goes to the current stream, and a new thread gets the GPU's context."""
        runtime = self.runtime
        stream, _ = runtime.stream, runtime.driver.api
        if stream != self.stream:
            self.set_stream(self.keeper, stream)
            self.stream = stream


class Graph:
    """A graph that is being described."""

    def __init__(self, library, code):
        self.library, types = library, library.api.data_type
        self.types = {k: getattr(types, name) for k, name in TYPES.items()}
        self.type = self.types[code]
        self.sums = types.DOUBLE if code == "f64" else types.FLOAT
        self.inner = library.kind(
            io_data_type=self.type, intermediate_data_type=self.sums,
            compute_data_type=self.sums, handle=library.handle,
        )  # fmt: skip

    def given(self, uid, sizes, strides, code=None):
        """A tensor that the graph reads."""
        type = self.type if code is None else self.types[code]
        return self.inner.tensor(
            dim=list(sizes), stride=list(strides), data_type=type, uid=uid, name=f"t{uid}"
        )

    def wanted(self, found, uid, sizes, strides, code=None):
        """A tensor that the graph writes: what an operation gave, and where it goes."""
        type = self.type if code is None else self.types[code]
        found.set_output(True).set_uid(uid).set_data_type(type)
        found.set_dim(list(sizes)).set_stride(list(strides))

    def built(self, without=(), tries=0):
        """The graph as something to call. without: numerical notes of plans that are no good;
        tries: how many plans may be measured (0: the library's first choice is taken).
        """
        driver = self.library.runtime.driver
        back = driver.relaxed() if driver.recording else None
        try:
            return self._built(without, tries)
        except self.library.errors as error:
            raise Refused(str(error)) from None
        finally:
            if back is not None:
                back()

    def _built(self, without, tries):
        api, inner = self.library.api, self.inner
        inner.validate()
        inner.build_operation_graph()
        modes = api.heur_mode
        inner.create_execution_plans([modes.A, modes.FALLBACK])
        if without:
            inner.deselect_numeric_notes([getattr(api.numerical_note, name) for name in without])
        inner.deselect_workspace_greater_than(LIMIT)
        inner.check_support()
        if not tries:
            inner.build_plans()
            return Work(self.library, inner, -1, inner.get_workspace_size())
        return Choice(self.library, inner, tries)


class Work:
    """A graph that runs: called as kernels are, with nothing for a description, then addresses,
    those of tensors 1, 2, 3 and so on.
    """

    __slots__ = ("graph", "index", "library", "pool_for", "room", "run")

    def __init__(self, library, graph, index, room):
        self.library, self.graph, self.index, self.room = library, graph, index, room
        self.run, self.pool_for = library.run, library.runtime.pool_for
        library.works.append(self)

    def close(self):
        self.graph = self.run = None

    def __call__(self, _, *addresses):
        library, places = self.library, array("q", addresses)
        library.follow()
        start, count = places.buffer_info()
        if not self.room:
            self.run(self.graph, start, count, 0, library.handle, self.index)
            return
        memory = self.pool_for(self.room)
        try:
            block = memory.pop()
        except IndexError:
            block = memory.grow()
        try:
            self.run(self.graph, start, count, block, library.handle, self.index)
        finally:
            memory.give(block)


class Choice:
    """Several ways to run a graph: the first call measures them, later ones use the best."""

    def __init__(self, library, graph, tries):
        self.work, self.makings = None, (library, graph, tries)
        library.works.append(self)

    def close(self):
        self.work = self.makings = None

    def __call__(self, _, *addresses):
        if self.work is None:
            self.work = self._best(addresses, *self.makings)
        self.work(b"", *addresses)

    def _best(self, addresses, library, graph, tries):
        best, chosen = float("inf"), None
        if library.runtime.driver.recording:
            tries = 1  # nothing can be measured while a graph is captured
        for index in range(graph.get_execution_plan_count()):
            if not tries:
                break
            try:
                graph.build_plan_at_index(index)
            except library.errors:
                continue  # this one was deselected, or does not run here
            tries -= 1
            room = graph.get_workspace_size_plan_at_index(index)
            work = Work(library, graph, index, room)
            took = 0.0
            if not library.runtime.driver.recording:
                took = min(_seconds(library.runtime, work, addresses) for _ in range(3))
            if took < best:
                best, chosen = took, work
        if chosen is None:
            raise Refused("no plan of the library runs here")
        return chosen


def _seconds(runtime, work, addresses):
    runtime.driver.synchronize()
    began = time.perf_counter()
    work(b"", *addresses)
    runtime.driver.synchronize()
    return time.perf_counter() - began


def start(runtime):
    """The library on a GPU, or None where it is not installed."""
    if runtime.driver.emulated:
        return None
    try:
        return Library(runtime)
    except (AttributeError, ImportError, RuntimeError, OSError) as error:
        lacking("cuDNN", "convolutions, attention and recurrent layers", error)
        return None
