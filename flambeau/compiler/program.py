"""A graph as a program: op by op the first time, by one native call from the second time on.

`compile_graph(gm, inputs)` gives a function of tensors that does what the graph does. For each set
of layouts (and of what wants gradients) it runs the graph as it is once; the second time it records
what the graph launches (recording.py), forward and backward, and makes tapes of it. Kernels are
found by patterns, as ever, so a new size means a new tape but no new machine code.

Recording is dry: it works on copies of what the graph writes to and takes the generator back, so
that all effects are those of the replay that follows.
"""

import time
from collections import OrderedDict
from typing import Any

from flambeau import _dtype, autograd, fx
from flambeau import random as _random
from flambeau._device import device
from flambeau._layout import dense_layout
from flambeau._tensor import Tensor, empty_like_layout, make_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import FREED, Node, _modified, edge_of, init_node
from flambeau.compiler import recording
from flambeau.compiler.fusing import Again
from flambeau.compiler.recording import Recording, Spoiled, base_of
from flambeau.eager.copying import filled
from flambeau.runtime import cpu

ENTRIES = 64  # sets of layouts that a program remembers


def compile_graph(gm: fx.GraphModule, inputs: Any, options: dict | None = None) -> Any:
    """A function of the graph's inputs that gives its outputs."""
    return Program(gm.forward)


class Program:
    """What a graph computes, by tapes where there are some."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.entries: OrderedDict = OrderedDict()
        self.reasons: list[str] = []  # why something is not on tape

    def __call__(self, *inputs: Tensor) -> Any:
        grad = modes.grad
        key = (grad, *[(x._layout, x._requires_grad) for x in inputs])
        entry = self.entries.get(key)
        if entry is None:
            entry = self._first(key, inputs)
            return entry.result
        if type(entry) is _Seen:
            entry = self.entries[key] = self._recorded(entry, inputs, grad)
        if modes.watched or modes.inference or not entry.fits(inputs):
            return self.run(*inputs)
        return entry(*inputs)

    def _first(self, key, inputs):
        if len(self.entries) >= ENTRIES:
            self.entries.popitem(last=False)
        seen = self.entries[key] = _Seen()
        before = [x._storage.version for x in inputs]
        result = self.run(*inputs)
        seen.written = tuple(
            (k, now)
            for k, (x, then) in enumerate(zip(inputs, before))
            if (now := x._storage.version - then)
        )
        return _Once(result)

    def _recorded(self, seen, inputs, grad):
        if not recording.can_record():
            return _Plain(self.run)
        try:
            wants = tuple(grad and x._requires_grad for x in inputs)
            made = _Maker(self.run, inputs, wants, dict(seen.written)).entry()
        except Spoiled as why:
            self.reasons.append(str(why))
            return _Plain(self.run)
        return made


class _Once:
    def __init__(self, result):
        self.result = result


class _Seen:
    """Layouts that were met once. written: inputs that the graph changed, and how often."""

    written: tuple = ()


class _Plain:
    """Op by op."""

    def __init__(self, run):
        self.run = run

    def fits(self, inputs):
        return True

    def __call__(self, *inputs):
        return self.run(*inputs)


# -- making an entry ---------------------------------------------------------------------------


class _Maker:
    """Records a graph for some inputs, and makes an entry of it."""

    def __init__(self, run, inputs, wants, written):
        self.run, self.inputs, self.wants, self.written = run, inputs, wants, written
        starts = [x._storage.pointer for x in inputs if x._storage.nbytes]
        if len(set(starts)) != len(starts):
            raise Spoiled("two arguments lie in the same memory")
        if any(wants[k] for k in written):
            raise Spoiled("an argument that wants a gradient is written to")
        if any(not x._layout.device.runtime.computes for x in inputs):
            raise Spoiled("there is no memory on this device")

    def entry(self):
        generator = _random.default_generator
        mark = generator._mark()
        try:
            return self._entry()
        finally:
            generator._go_back(mark)

    def _entry(self):
        leaves = [self._leaf(k, x) for k, x in enumerate(self.inputs)]
        forward = Recording([base_of(t) for t in leaves])
        result = forward.run(lambda: self.run(*leaves))
        for k, (x, t) in enumerate(zip(self.inputs, leaves)):
            if not self.wants[k] and not same_bytes(x, t):
                self.written.setdefault(k, 0)  # without saying so: running statistics
        outs = list(result)
        if not all(isinstance(o, Tensor) for o in outs):
            raise Spoiled("a result is no tensor")
        forward.moves()  # is everything known?
        names = [("input", k) for k in range(len(leaves))]
        plan = forward.plan(names, "saved")
        memory = _Memory(forward, outs)
        backward, gone = None, frozenset()
        if any(self.wants):
            backward, gone = self._backward(forward, plan, leaves, outs, memory)
        forward.launches = plan.launches(lambda block: block[0] != "arena" and block not in gone)
        if gone:
            memory = _Memory(forward, outs)
        return Entry(self, forward, outs, memory, backward)

    def _leaf(self, k, x):
        """What stands for an argument in a dry run: a copy, if it might be written to."""
        if self.wants[k]:
            t = make_tensor(x._layout, x._storage, x._offset)
            t._requires_grad = True
            return t
        t = empty_like_layout(_bytes(x._storage.nbytes))
        x._layout.device.runtime.copy(t._storage.pointer, x._storage.pointer, x._storage.nbytes)
        return make_tensor(x._layout, t._storage, x._offset)

    def _backward(self, forward, plan, leaves, outs, memory):
        wanted = [t for t, wants in zip(leaves, self.wants) if wants]
        roots = [o for o in outs if o._requires_grad]
        if not roots:
            return None, frozenset()
        if memory.shares:
            raise Spoiled("results that want gradients share memory")
        layouts = [_dense(o._layout) for o in roots]
        grads = [filled(layout, 0) for layout in layouts]
        blocks = [(b.start, b.start, b.size) for b in forward.fresh]
        bases = [*map(base_of, leaves), *blocks, *map(base_of, grads)]
        run = Recording(bases)
        found = run.run(
            lambda: autograd.grad(roots, wanted, grads, retain_graph=True, allow_unused=True)
        )
        used = {base for base, *_ in run.moves()}
        names = [("input", k) for k in range(len(leaves))]
        names += [("saved", k) for k in range(len(forward.fresh))]
        names += [("gradient", k) for k in range(len(grads))]
        back = run.plan(names, "result")
        again = Again(
            plan,
            back,
            lambda block: block[0] == "saved" and block[1] not in memory.used,
            lambda block: block[0] == "saved"
            or (block[0] == "input" and block[1] in used and block[1] not in self.written),
        )
        run.launches = back.launches(lambda block: block[0] != "arena", again)
        return _Backward(run, found, layouts, len(leaves), len(forward.fresh)), again.gone


def same_bytes(a, b):
    """Do the storages of two tensors hold the same?"""
    n = a._storage.nbytes
    return n == 0 or cpu.buffer_at(a._storage.pointer, n) == cpu.buffer_at(b._storage.pointer, n)


def _dense(layout):
    return dense_layout(layout.shape, layout.dtype, layout.device)


def _bytes(count):
    return dense_layout((count,), _dtype.uint8, device("cpu"))


class _Memory:
    """Where results of a recording lie, and how fresh memory is handed out at a replay.

    A fresh block that is one result, as a whole, becomes a tensor of its layout. All others lie in
    one piece of plain bytes, at `places`.
    """

    def __init__(self, run, results):
        self.run, count = run, len(run.bases)
        self.found = [None if r is None else run.find(r) for r in results]
        self.whole: dict = {}  # fresh block -> number of the result
        users: dict = {}
        for k, place in enumerate(self.found):
            if place is not None:
                users.setdefault(place.base, []).append(k)
        self.shares = any(len(ks) > 1 or base < count for base, ks in users.items())
        for base, ks in users.items():
            if base >= count and len(ks) == 1:
                r, place = results[ks[0]], self.found[ks[0]]
                if place.offset == 0 and r._layout.nbytes == r._storage.nbytes:
                    self.whole[base - count] = ks[0]
        self.used = {base - count for base in users if base >= count}
        self.places, self.size = {}, 0
        touched = {base - count for base, *_ in run.moves()} | self.used
        for which, block in enumerate(run.fresh):
            if which not in self.whole and which in touched:
                self.places[which] = self.size
                self.size += recording.padded(block.size)

    def tape(self):
        """The tape on bases, whole results in their order, and the piece of bytes."""
        return self.run.tape(list(self.whole), self.places)


class _Backward:
    """The way back: its tape, and what it is to be given."""

    def __init__(self, run, found, layouts, inputs, fresh):
        self.run, self.found, self.layouts = run, found, layouts
        self.counts = inputs, fresh
        self.first_grad = inputs + fresh
        self.note_used()

    def note_used(self):
        """Which arguments, and what the way there left behind, are read."""
        run, (inputs, fresh) = self.run, self.counts
        self.memory = _Memory(run, self.found)
        used = {base for base, *_ in run.moves()}
        used |= {place.base for place in self.memory.found if place is not None}
        self.inputs = [k for k in range(inputs) if k in used]
        self.fresh = [k for k in range(fresh) if inputs + k in used]


class Entry:
    """Tapes for one set of layouts, and the generated function that plays them."""

    def __init__(self, maker, forward, outs, memory, backward):
        self.plain, self.written = maker.run, tuple(maker.written.items())
        self.count = len(maker.inputs)
        self.tape = memory.tape()
        self.draws = _random.default_generator.pointer in {
            value for launch in forward.launches for value in launch.arguments if type(value) is int
        }
        self.back = None
        text = _ForwardText(self, maker, outs, memory, backward)
        self.play = text.function()

    def fits(self, inputs):
        if not self.written:
            return True
        starts = [x._storage.pointer for x in inputs if x._storage.nbytes]
        return len(set(starts)) == len(starts)

    def __call__(self, *inputs):
        return self.play(*inputs)


def _failed(status):
    raise RuntimeError(f"a kernel of a compiled program reported {status}")


class _ForwardText:
    """Writes the function of an entry: memory, the replay, results and their node."""

    def __init__(self, entry, maker, outs, memory, backward):
        self.space = {
            "fresh": empty_like_layout,
            "make": make_tensor,
            "plain": entry.plain,
            "replay": entry.tape.replay,
            "edge_of": edge_of,
            "init": init_node,
            "new": object.__new__,
            "failed": _failed,
            "arena": recording.ARENA,
        }
        names = [f"x{k}" for k in range(len(maker.inputs))]
        lines = [f"def play({', '.join(names)}):"]
        bases = [*names]
        for number in memory.whole.values():
            lines.append(f"    o{number} = fresh({self.given(outs[number]._layout)})")
            bases.append(f"o{number}")
        if memory.size:
            lines.append(f"    rest = fresh({self.given(_bytes(memory.size))})")
            bases.append("rest")
        lines.append(f"    done = replay({', '.join(bases)}, arena.memory)")
        lines.append("    if done is not None:")
        if maker.written:
            lines.append("        if done is not False:")
            lines.append("            failed(done)")
        lines.append(f"        return plain({', '.join(names)})")
        for k, times in maker.written.items():
            lines.append(f"    x{k}._storage.version += {times}")
        for k, (o, place) in enumerate(zip(outs, memory.found)):
            if k in memory.whole.values():
                continue
            lines.append(f"    o{k} = {self.placed(o, place, names, memory)}")
        if backward is not None:
            self.record(lines, maker, outs, memory, backward)
        results = "".join(f"o{k}, " for k in range(len(outs)))
        lines.append(f"    return ({results})")
        self.text = "\n".join(lines)

    def given(self, value):
        name = f"v{len(self.space)}"
        self.space[name] = value
        return name

    def placed(self, o, place, names, memory):
        """A result that shares the memory of something else."""
        layout = self.given(o._layout)
        if place is None:
            raise Spoiled("a result is memory that nobody knows")
        count = len(names)
        if place.base < count:
            base = names[place.base]
            return f"make({layout}, {base}._storage, {base}._offset + {place.offset})"
        which = place.base - count
        if which in memory.whole:
            return f"make({layout}, o{memory.whole[which]}._storage, {place.offset})"
        return f"make({layout}, rest._storage, {memory.places[which] + place.offset})"

    def record(self, lines, maker, outs, memory, backward):
        """The node: where gradients go, what the way back needs, and versions of that."""
        wanted = [k for k, wants in enumerate(maker.wants) if wants]
        roots = [k for k, o in enumerate(outs) if o._requires_grad]
        kept = []
        for which in backward.fresh:
            if which in memory.whole:
                kept.append(f"o{memory.whole[which]}._storage")
        inputs = [f"x{k}" for k in backward.inputs]
        rest = "rest._storage" if memory.size else "None"
        node = type("CompiledFunctionBackward", (CompiledNode,), {"__slots__": ()})
        node.way = Way(maker, outs, memory, backward)
        self.space["node_class"] = node
        edges = "".join(f"edge_of(x{k}), " for k in wanted)
        held = "".join(f"{name}, " for name in [*inputs, *kept, rest])
        versions = "".join(
            f"{name}, " for name in [*(f"{x}._storage.version" for x in inputs)]
        )
        versions += "".join(f"{name}.version, " for name in kept)
        lines.append(f"    node = init(new(node_class), ({edges}), ({held}), {len(roots)})")
        lines.append(f"    node.versions = ({versions})")
        for k, root in enumerate(roots):
            lines.append(f"    o{root}._grad_fn = node")
            lines.append(f"    o{root}._output_nr = {k}")
            lines.append(f"    o{root}._requires_grad = True")

    def function(self):
        exec(compile(self.text, "<compiled program>", "exec"), self.space)
        return self.space["play"]


class CompiledNode(Node):
    """The history of a compiled program's results."""

    __slots__ = ("versions",)
    way: "Way"

    def apply(self, grads, create_graph):
        if self.saved is None:
            raise RuntimeError(FREED)
        if create_graph:
            raise RuntimeError(
                "torch.compile with aot_autograd does not currently support double backward"
            )
        return self.way.go(self.saved, self.versions, grads)


class Way:
    """The way back of an entry."""

    def __init__(self, maker, outs, memory, backward):
        self.layouts, self.backward = backward.layouts, backward
        self.inputs, self.memory = len(backward.inputs), backward.memory
        roots = [o for o in outs if o._requires_grad]
        numbers = {id(o): k for k, o in enumerate(outs)}
        del roots
        # bases of the tape are: inputs it reads, whole results it reads, the rest of the forward
        # pass, gradients, then its own fresh memory
        self.kept = [which for which in backward.fresh if which in memory.whole]
        self.kept_layouts = [outs[memory.whole[which]]._layout for which in self.kept]
        self.has_rest = bool(memory.size)
        total = len(maker.inputs)
        number: dict = {}
        for place, k in enumerate(backward.inputs):
            number[k] = (place, 0)
        for place, which in enumerate(self.kept):
            number[total + which] = (self.inputs + place, 0)
        rest = self.inputs + len(self.kept)
        for which, at in memory.places.items():
            number[total + which] = (rest, at)
        first = rest + self.has_rest
        for k in range(len(self.layouts)):
            number[backward.first_grad + k] = (first + k, 0)
        self.number, self.own = number, first + len(self.layouts)
        self.tape = backward.run.tape(
            list(self.memory.whole), self.memory.places, number, self.own
        )
        self.results = [self._result(k, r) for k, r in enumerate(backward.found)]
        self.fresh_layouts = [backward.found[k]._layout for k in self.memory.whole.values()]
        self.order = list(self.memory.whole)
        self.scratch = _bytes(self.memory.size) if self.memory.size else None
        del numbers
        self._let_go()

    def _let_go(self):
        """Tensors of the dry run are not needed any more."""
        self.backward = None
        self.memory.run = None

    def _result(self, k, r):
        """(number of the base, layout, bytes) of a gradient; None if there is none."""
        place = self.memory.found[k]
        if r is None:
            return None
        if place is None:
            raise Spoiled("a gradient is memory that nobody knows")
        count = len(self.memory.run.bases)
        if place.base >= count:
            which = place.base - count
            if which in self.memory.whole:
                at = self.own + list(self.memory.whole).index(which)
                return at, r._layout, place.offset
            at = self.own + len(self.memory.whole)
            return at, r._layout, self.memory.places[which] + place.offset
        base, shift = self.number[place.base]
        return base, r._layout, shift + place.offset

    def go(self, saved, versions, grads):
        """Gradients of the inputs that want some."""
        bases = []
        for k, t in enumerate(saved[: self.inputs]):
            if t._storage.version != versions[k]:
                raise RuntimeError(
                    _modified(t._layout, t._storage.version, versions[k], t._grad_fn, t._output_nr)
                )
            bases.append(t)
        storages = saved[self.inputs :]
        for k, layout in enumerate(self.kept_layouts):
            if storages[k].version != versions[self.inputs + k]:
                raise RuntimeError(
                    _modified(layout, storages[k].version, versions[self.inputs + k], None, 0)
                )
            bases.append(make_tensor(layout, storages[k], 0))
        if self.has_rest:
            bases.append(make_tensor(_bytes(storages[-1].nbytes), storages[-1], 0))
        bases += [_fitting(g, layout) for g, layout in zip(grads, self.layouts)]
        bases += [empty_like_layout(layout) for layout in self.fresh_layouts]
        if self.scratch is not None:
            bases.append(empty_like_layout(self.scratch))
        bases.append(recording.ARENA.memory)
        while (done := self.tape.replay(*bases)) is not None:
            if done is not False:
                _failed(done)
            time.sleep(0)  # another thread plays a tape
        found = []
        for result in self.results:
            if result is None:
                found.append(None)
                continue
            base, layout, offset = result
            t = bases[base]
            if t._layout is layout and offset == 0:
                found.append(t)
            else:
                found.append(make_tensor(layout, t._storage, t._offset + offset))
        return found


def _fitting(grad, layout):
    """A gradient as the tape knows it: dense, and zeros where there is none."""
    if grad is None:
        return filled(layout, 0)
    if grad._layout is layout:
        return grad
    dense = empty_like_layout(layout)
    dense.copy_(grad.detach())
    return dense
