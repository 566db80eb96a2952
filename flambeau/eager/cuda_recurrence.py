"""Recurrent layers on GPUs by cuDNN, where batches are of equal length; others run step by step.

For most types the library launches several kernels per step, and a processor does not launch them
as fast as a GPU runs them. So a call that is given the very addresses of an earlier one, as is the
rule in loops, is played as a graph that was captured from it.
"""

import os
import threading

from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.autograd.grad_mode import modes
from flambeau.eager import kernels
from flambeau.eager.copying import copy_into, fill_into
from flambeau.eager.rows import address, contiguous
from flambeau.runtime import cudnn_rnn, touching
from flambeau.runtime.cuda_graphs import ByAddresses, capture_stream, handed_out_next
from flambeau.runtime.switches import switches

KINDS = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "tanh", "rnn_relu": "relu"}
# which way is quickest: float32 has no good kernel that walks by itself
WAYS = dict.fromkeys(("f16", "bf16"), (cudnn_rnn.PERSISTENT, cudnn_rnn.STANDARD))
RELAXED = 2  # what else happens while a graph is captured is none of its business


class Recurrence:
    """What a GPU does for recurrent layers."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.stacks: dict = {}
        runtime.allocator.givers.append(self.forget)

    def forget(self):
        """Graphs go; they are captured anew when they are needed."""
        for stack in filter(None, self.stacks.values()):
            for call in stack.calls:
                call.graphs = ByAddresses()

    def stack(self, input, hidden, kind, steps, layers, both, biased):
        """The layers of a call as the library has them, or None; input, hidden: layouts."""
        rows, inputs = input.sizes
        facts = input.dtype, rows // steps, inputs, hidden.sizes[2], kind, steps, layers, both
        key = *facts, biased, switches.convolving
        if key not in self.stacks:
            self.stacks[key] = self._made(input.device, *key)
        return self.stacks[key]

    def _made(
        self, device, dtype, batch, inputs, width, kind, steps, layers, both, biased, mark
    ):  # fmt: skip
        enabled, tf32, _, _ = mark
        code = dtype.code
        if not enabled or code not in cudnn_rnn.TYPES or not batch * inputs * width:
            return None
        library = self.runtime.cudnn()
        if library is None:
            return None
        facts = KINDS[kind], code, steps, batch, inputs, width, layers, both, biased, tf32
        plans = []
        for way in WAYS.get(code, (cudnn_rnn.STANDARD,)):
            try:
                plans.append((cudnn_rnn.Stack(library, *facts, way), way))
            except (cudnn_rnn.Failed, OSError, AttributeError):
                continue
        sizes = steps * batch, inputs, batch, width, layers * (2 if both else 1), 2 if both else 1
        return Stack(self, device, dtype, kind == "lstm", sizes, plans) if plans else None


class Stack:
    """Layers of the library, with tensors.

    Names of tensors: x and y are rows, h and c states before, hn and cn after, w all weights, kept
    what the library keeps for backward, room what it works in; d_x and so on gradients.
    """

    def __init__(self, recurrence, device, dtype, has_cell, sizes, plans):
        rows, inputs, batch, width, states, directions = sizes
        self.recurrence, self.runtime = recurrence, recurrence.runtime
        self.device, self.dtype, self.plans = device, dtype, plans
        self.has_cell = has_cell
        plan, _ = plans[0]
        shapes = {"x": (rows, inputs), "y": (rows, directions * width)}
        shapes |= dict.fromkeys(("h", "hn", "c", "cn"), (states, batch, width))
        shapes["w"] = (plan.weight_bytes.value // dtype.itemsize,)
        self.shapes = shapes
        names = FORWARD, BACKWARD
        self.calls = [_Call(self, n, act) for n, act in zip(names, self._acts())]

    def _acts(self):
        return (
            lambda _, *places: self.plans[0][0].forward(b"", *places),
            lambda _, *places: self.plans[0][0].backward(b"", *places),
        )

    def layout(self, name):
        """That of a tensor; gradients are as large as what they belong to."""
        shape = self.shapes.get(name.removeprefix("d_"))
        if shape is None:
            plan, _ = self.plans[0]
            nbytes = (plan.room if name == "room" else plan.kept).value
            shape = (max(1, -(-nbytes // self.dtype.itemsize)),)
        return dense_layout(shape, self.dtype, self.device)

    def expect_weights(self):
        """All weights will be put into one tensor next."""
        self.calls[0].expect("w", self.layout("w"))

    def forward(self, input, hidden, cell, weights, keeps):
        """(rows of output, last states, last cells, what is kept)."""
        given = {"x": input, "h": hidden, "w": weights}
        if self.has_cell:
            given["c"] = cell
        given = {name: contiguous(t.detach()) for name, t in given.items()}
        call, made = self.calls[0], ("y", "hn", "kept", "room", *(("cn",) if self.has_cell else ()))
        while True:
            t = {**given, **{n: call.new(n) for n in made}}
            try:
                call.run(t)
                break
            except cudnn_rnn.Failed:
                if len(self.plans) == 1:
                    raise
                self.plans.pop(0)  # the library thought better of it
        kept = t["kept"] if keeps else self._nothing()
        return *[t[n] if n in t else self._nothing() for n in LAST], kept

    def backward(self, g_output, g_hidden, g_cell, input, hidden, cell, weights, output, kept):
        """Gradients of input, states, cells and weights."""
        given = {"x": input, "y": output, "h": hidden, "w": weights, "kept": kept}
        if self.has_cell:
            given["c"] = cell
        t = {name: contiguous(t.detach()) for name, t in given.items()}
        call = self.calls[1]
        # it changes, and might be needed again; tapes see to that themselves
        if (modes.task is None or modes.task.keep_graph) and not touching.told:
            t["kept"] = call.new("kept")
            copy_into(t["kept"], kept)
        ends = {"d_y": g_output, "d_hn": g_hidden, "d_cn": g_cell}
        for name, end in ends.items():
            if name != "d_cn" or self.has_cell:
                if end is None:
                    t[name] = fill_into(call.new(name), 0)
                else:
                    call.expect(name, self.layout(name))
                    t[name] = contiguous(end.detach())
        for name in ("d_x", "d_h", "room", *(("d_c",) if self.has_cell else ())):
            t[name] = call.new(name)
        t["d_w"] = fill_into(call.new("d_w"), 0)
        call.run(t)
        return [t.get(n) for n in SLOPES]

    def _nothing(self):
        return empty_like_layout(dense_layout((0,), self.dtype, self.device))


class _Call:
    """A call of the library, or a graph of it for addresses that come again."""

    def __init__(self, stack, names, act):
        self.stack, self.runtime, self.names = stack, stack.runtime, names
        name = "cudnn_recurrence" if names is FORWARD else "cudnn_recurrence_backward"
        self.act = kernels.python_kernel(name, act, self.runtime)
        self.graphs = ByAddresses()
        self.lock = threading.Lock()

    def new(self, name):
        """Memory for a tensor: where it was before, if nobody else has that."""
        layout = self.stack.layout(name)
        self.expect(name, layout)
        return empty_like_layout(layout)

    def expect(self, name, layout):
        """Let the next tensor of a layout lie where this one did before."""
        wanted = self.graphs.wanted
        if wanted is not None and self._is_free():
            handed_out_next(layout.pool, wanted[self.names.index(name)])

    def run(self, tensors):
        places = tuple([address(tensors[n]) if n in tensors else 0 for n in self.names])
        _, way = self.stack.plans[0]
        if way != cudnn_rnn.STANDARD or not self._is_free():
            self.act(b"", *places)
            return
        with self.lock:
            found = self.graphs.find(places)
            if found is None:
                if not self.graphs.is_due(places):
                    self.act(b"", *places)
                    return
                found = self._captured(places)
                self.graphs.keep(places, found)
            if found is None:
                self.act(b"", *places)
            else:
                self.runtime.driver.play(found.program, self.runtime.stream)

    def _is_free(self):
        """Does nobody record what is done, and are we on the default stream?"""
        return not (self.runtime.driver.recording or touching.told or self.runtime.stream)

    def _captured(self, places):
        """The call as a graph; None if the library cannot be captured."""
        runtime = self.runtime
        driver, before, stream = runtime.driver, runtime.stream, capture_stream(runtime)
        runtime.put_stream(stream)  # not by set_stream: no memory changes hands
        try:
            driver.begin_capture(stream, RELAXED)
            try:
                self.act(b"", *places)
            finally:
                graph = driver.end_capture(stream)
            return _Graph(driver, graph)
        except RuntimeError:
            return None
        finally:
            runtime.put_stream(before)


class _Graph:
    """What was captured, and what plays it."""

    def __init__(self, driver, graph):
        self.driver, self.graph = driver, graph
        self.program = driver.instantiate(graph)

    def __del__(self):
        if self.driver.process == os.getpid():
            self.driver.free_graph(self.graph, self.program)


LAST = "y", "hn", "cn"
SLOPES = "d_x", "d_h", "d_c", "d_w"
FORWARD = "x", "y", "h", "hn", "c", "cn", "w", "room", "kept"
BACKWARD = (
    "y", "d_y", "x", "d_x", "h", "d_hn", "d_h", "c", "d_cn", "d_c", "w", "d_w", "room", "kept",
)  # fmt: skip
