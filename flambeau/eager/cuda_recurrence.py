"""Recurrent layers on GPUs by cuDNN, where batches are of equal length; others run step by step.

For most types the library launches several kernels per step, and a processor does not launch them
as fast as a GPU runs them. So from the second call on a stack of layers has memory of its own,
where its calls were captured as graphs: they are copied to and from, and played.
"""

import threading

from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.eager import kernels
from flambeau.eager.copying import copy_into, fill_into
from flambeau.eager.rows import address, contiguous
from flambeau.runtime import cudnn_rnn, touching
from flambeau.runtime.switches import switches

KINDS = {"lstm": "lstm", "gru": "gru", "rnn_tanh": "tanh", "rnn_relu": "relu"}
# which way is quickest: float32 has no good kernel that walks by itself
WAYS = dict.fromkeys(("f16", "bf16"), (cudnn_rnn.PERSISTENT, cudnn_rnn.STANDARD))
RELAXED = 2  # what else happens while a graph is captured is none of its business
LARGEST = 1 << 30  # bytes of memory that all stacks may have for themselves


class Recurrence:
    """What a GPU does for recurrent layers."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.stacks: dict = {}
        self.owned = 0  # bytes of memory that stacks have for themselves
        runtime.allocator.givers.append(self.forget)

    def forget(self):
        """Stacks give their memory back; graphs are captured anew when they are needed."""
        for stack in self.stacks.values():
            if stack is not None and stack.own is not None:
                stack.own.close()
                stack.own = None
        self.owned = 0

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
        self.has_cell, self.calls, self.own = has_cell, 0, None
        self.lock = threading.Lock()  # one thread at a time has the memory of its own
        plan, _ = plans[0]
        shapes = {"x": (rows, inputs), "y": (rows, directions * width)}
        shapes |= dict.fromkeys(("h", "hn", "c", "cn"), (states, batch, width))
        shapes["w"] = (plan.weight_bytes.value // dtype.itemsize,)
        self.shapes = shapes
        home = self.runtime
        self.run = [kernels.python_kernel("cudnn_recurrence", act, home) for act in self._acts()]

    def _acts(self):
        return (
            lambda _, *places: self.plans[0][0].forward(b"", *places),
            lambda _, *places: self.plans[0][0].backward(b"", *places),
        )

    def new(self, name):
        """Memory for a tensor; gradients are as large as what they belong to."""
        shape = self.shapes.get(name.removeprefix("d_"))
        if shape is None:
            plan, _ = self.plans[0]
            nbytes = (plan.room if name == "room" else plan.kept).value
            shape = (max(1, -(-nbytes // self.dtype.itemsize)),)
        return empty_like_layout(dense_layout(shape, self.dtype, self.device))

    def forward(self, input, hidden, cell, weights, keeps):
        """(rows of output, last states, last cells, what is kept)."""
        given = {"x": input, "h": hidden, "w": weights}
        if self.has_cell:
            given["c"] = cell
        given = {name: contiguous(t.detach()) for name, t in given.items()}
        self.calls += 1
        own = self._own()
        if own is not None:
            with self.lock:
                found = own.forward(given)
                kept = _copy(found["kept"]) if keeps else self._nothing()
                return *[_copy(found[n]) if n in found else self._nothing() for n in LAST], kept
        while True:
            t = {**given, **{n: self.new(n) for n in ("y", "hn", "kept", "room")}}
            if self.has_cell:
                t["cn"] = self.new("cn")
            try:
                self.run[0](b"", *places(t, FORWARD))
                break
            except cudnn_rnn.Failed:
                if len(self.plans) == 1:
                    raise
                self.plans.pop(0)  # the library thought better of it
        return *[t[n] if n in t else self._nothing() for n in LAST], t["kept"]

    def backward(self, g_output, g_hidden, g_cell, input, hidden, cell, weights, output, kept):
        """Gradients of input, states, cells and weights."""
        given = {"x": input, "y": output, "h": hidden, "w": weights, "kept": kept}
        if self.has_cell:
            given["c"] = cell
        given = {name: contiguous(t.detach()) for name, t in given.items()}
        ends = {"d_y": g_output, "d_hn": g_hidden, "d_cn": g_cell}
        for name, t in ends.items():
            if name != "d_cn" or self.has_cell:
                given[name] = fill_into(self.new(name), 0) if t is None else t
        own = self._own()
        if own is not None:
            with self.lock:
                found = own.backward(given)
                return [_copy(found[n]) if n in found else None for n in SLOPES]
        t = {**given, "kept": _copy(given["kept"])}  # it changes, and might be needed again
        for name in ("d_x", "d_h", "room", *(("d_c",) if self.has_cell else ())):
            t[name] = self.new(name)
        t["d_w"] = fill_into(self.new("d_w"), 0)
        self.run[1](b"", *places(t, BACKWARD))
        return [t.get(n) for n in SLOPES]

    def _nothing(self):
        return empty_like_layout(dense_layout((0,), self.dtype, self.device))

    def _own(self):
        """Memory of its own, if graphs are worth it; none while somebody records what is done, and
        none on other streams than the default one, which it belongs to.
        """
        if self.runtime.driver.recording or touching.told or self.runtime.stream:
            return None
        if self.own is None and self.calls > 1:
            (plan, way), recurrence = self.plans[0], self.recurrence
            nbytes = plan.room.value + plan.kept.value
            if way == cudnn_rnn.STANDARD and recurrence.owned + nbytes <= LARGEST:
                recurrence.owned += nbytes
                self.own = Graphs(self)
        return self.own


class Graphs:
    """A stack with memory of its own, whose calls are graphs."""

    def __init__(self, stack):
        self.stack, self.programs = stack, {}
        names = ["x", "y", "h", "hn", "w", "kept", "room", "d_x", "d_y", "d_h", "d_hn", "d_w"]
        names += ["c", "cn", "d_c", "d_cn"] if stack.has_cell else []
        self.tensors = {name: stack.new(name) for name in names}

    def close(self):
        """Give memory back; nobody calls it afterwards."""
        for program in filter(None, self.programs.values()):
            self.stack.runtime.driver.free_graph(*program)
        self.programs.clear()
        self.tensors.clear()

    def forward(self, given):
        self._fill(given)
        self._play(0, FORWARD)
        return self.tensors

    def backward(self, given):
        self._fill(given)
        fill_into(self.tensors["d_w"], 0)
        self._play(1, BACKWARD)
        return self.tensors

    def _fill(self, given):
        for name, t in given.items():
            copy_into(self.tensors[name], t)

    def _play(self, number, names):
        """Play a graph; what cannot be one runs as it is."""
        runtime = self.stack.runtime
        if number not in self.programs:
            self.programs[number] = self._captured(number, names)
        if self.programs[number] is None:
            self._call(number, names)
        else:
            runtime.driver.play(self.programs[number][1], runtime.stream)

    def _call(self, number, names):
        plan, _ = self.stack.plans[0]
        (plan.forward, plan.backward)[number](b"", *places(self.tensors, names))

    def _captured(self, number, names):
        """A call as a graph and what plays it; None if the library cannot be captured."""
        runtime = self.stack.runtime
        driver, before = runtime.driver, runtime.stream
        stream = driver.new_stream()
        runtime.put_stream(stream)  # not by set_stream: no memory changes hands
        try:
            driver.begin_capture(stream, RELAXED)
            try:
                self._call(number, names)
            finally:
                graph = driver.end_capture(stream)
            return graph, driver.instantiate(graph)
        except RuntimeError:
            return None
        finally:
            runtime.put_stream(before)


LAST = "y", "hn", "cn"
SLOPES = "d_x", "d_h", "d_c", "d_w"
FORWARD = "x", "y", "h", "hn", "c", "cn", "w", "room", "kept"
BACKWARD = (
    "y", "d_y", "x", "d_x", "h", "d_hn", "d_h", "c", "d_cn", "d_c", "w", "d_w", "room", "kept",
)  # fmt: skip


def places(tensors, names):
    """Addresses of tensors by their names; 0 for those that are not there."""
    return [address(tensors[n]) if n in tensors else 0 for n in names]


def _copy(t):
    out = empty_like_layout(t._layout)
    copy_into(out, t)
    return out
