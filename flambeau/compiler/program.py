"""A graph as a program: op by op the first time, by one native call from the second time on.

`compile_graph(gm, inputs)` gives a function of tensors that does what the graph does. For each set
of layouts (and of what wants gradients) it runs the graph as it is once; the second time it records
what the graph launches (recording.py), forward and backward, joins pointwise launches (fusing.py)
and makes tapes of the rest. Kernels are found by patterns, as ever, so a new size means a new tape
but, as a rule, no new machine code.

Recording is dry, so that all effects are those of the replay that follows. Where it is known of all
kernels what they do (accesses.py) none of them runs; else it works on copies of what the graph
might write to, and takes the generator back.
"""

from collections import Counter, OrderedDict
from typing import Any

from flambeau import autograd, fx
from flambeau import random as _random
from flambeau._device import device
from flambeau._layout import dense_layout
from flambeau._tensor import Tensor, empty_like_layout, make_tensor
from flambeau.amp.autocast_mode import CAST, preserved_autocast, set_autocast_enabled
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, edge_of
from flambeau.compiler import playing, recording
from flambeau.compiler.accesses import only_read, surely_writes
from flambeau.compiler.again import Again
from flambeau.compiler.keeping import keep
from flambeau.compiler.recording import Recording, Spoiled, Unheard, base_of
from flambeau.compiler.stepping import step_program
from flambeau.eager.copying import filled
from flambeau.nn import Parameter
from flambeau.runtime import cpu
from flambeau.runtime.switches import switches

TRIES = 3  # recordings that memory of somebody else may spoil
ENTRIES = 64  # sets of layouts that a program remembers
PLAIN_TYPES = frozenset((Tensor, Parameter))


def compile_graph(gm: fx.GraphModule, inputs: Any, options: dict | None = None) -> Any:
    """A function of the graph's inputs that gives its outputs."""
    return step_program(gm, program_of) or program_of(gm, len(inputs))


def program_of(gm: fx.GraphModule, count: int, root: int | None = None) -> "Program":
    """The program of a graph without steps in it. root: see `Program`."""
    return Program(gm.forward, count, holds_ops_only(gm), root)


def holds_ops_only(gm: fx.GraphModule) -> bool:
    """Is there nothing in a graph but our ops? Functions of users may keep what they compute."""
    return all(
        node.op != "call_module"
        and (node.op != "call_function" or _home_of(node.target) in ("flambeau", "_operator"))
        for node in gm.graph.nodes
    )


def _home_of(function):
    return (getattr(function, "__module__", None) or "").partition(".")[0]


class Program:
    """What a graph computes, by tapes where there are some.

    silent: may it be recorded without kernels running? root: the one result from which somebody
    goes back, at once, so that all others are left with a history that is used up. front: a
    generated function that knows the latest entry; all others go through `slow`.
    """

    def __init__(self, run: Any, count: int, silent: bool = True, root: int | None = None) -> None:
        self.run, self.count, self.silent, self.root = run, count, silent, root
        self.entries: OrderedDict = OrderedDict()
        self.reasons: list[str] = []  # why something is not on tape
        self.front: Any = self.slow

    def __call__(self, *inputs: Tensor) -> Any:
        return self.front(*inputs)

    def slow(self, *inputs: Tensor) -> Any:
        """A call with layouts that are not those of the latest one."""
        if modes.watched or not PLAIN_TYPES.issuperset(map(type, inputs)):
            return self.run(*inputs)
        key = self._key(inputs)
        if key not in self.entries:
            return self._first(key, inputs)
        entry = self._entry(key, inputs)
        if entry is None:
            return self.run(*inputs)
        self.front = entry.front(key, self.slow)
        return entry.play(*inputs)

    def entry_for(self, inputs: tuple) -> tuple:
        """(key, entry) of inputs that were met before; no entry if there is none on tape."""
        if modes.watched or not PLAIN_TYPES.issuperset(map(type, inputs)):
            return None, None
        key = self._key(inputs)
        return key, self._entry(key, inputs) if key in self.entries else None

    def _key(self, inputs):
        on_gpu = bool(inputs) and inputs[0]._layout.device.type == "cuda"
        mark = switches.convolving if on_gpu else None
        return (modes.grad, mark, *[(x._layout, x._requires_grad) for x in inputs])

    def _entry(self, key, inputs):
        """What is on tape, which happens when it is asked for the first time."""
        entry = self.entries[key]
        if type(entry) is _Seen:
            if recording.is_active():
                return None  # somebody records what we do
            entry = self.entries[key] = self._recorded(entry, inputs, key[0])
        if type(entry) is not playing.Entry:
            return None
        self.entries.move_to_end(key)
        return entry

    def _first(self, key, inputs):
        if len(self.entries) >= ENTRIES:
            self.entries.popitem(last=False)
        before = [x._storage.version for x in inputs]
        result = self.run(*inputs)
        versions = zip(inputs, before)
        written = {k: n for k, (x, v) in enumerate(versions) if (n := x._storage.version - v)}
        self.entries[key] = _Seen(written)
        return result

    def _recorded(self, seen, inputs, grad):
        if not recording.can_record():
            return PLAIN
        try:
            wants = tuple(grad and x._requires_grad for x in inputs)
            return _Dry(self.run, inputs, wants, seen.written, self.root).entry(self.silent)
        except Spoiled as why:
            seen.tries += 1
            if why.again and seen.tries < TRIES:
                return seen
            self.reasons.append(str(why))
        except Exception as error:  # what is wrong shows when it is run for real
            self.reasons.append(f"{type(error).__name__} while recording: {error}")
        return PLAIN


class _Seen:
    """Layouts that were met once. written: inputs that the graph changed, and how often."""

    def __init__(self, written):
        self.written, self.tries = written, 0


PLAIN = object()  # in place of an entry: op by op


class _Dry:
    """A dry run of a graph for some inputs, of which an entry is made."""

    def __init__(self, run, inputs, wants, written, root=None):
        self.run, self.inputs, self.wants, self.written = run, inputs, wants, dict(written)
        self.root = root
        self.place = inputs[0]._layout.device if inputs else device("cpu")
        if any(x._layout.device != self.place for x in inputs):
            raise Spoiled("arguments are on several devices")
        starts = Counter(x._storage.pointer for x in inputs if x._storage.nbytes)
        self.shared = {k for k, x in enumerate(inputs) if starts[x._storage.pointer] > 1}
        self._check_shared()
        if any(wants[k] for k in written):
            raise Spoiled("an argument that wants a gradient is written to")
        if any(not x._layout.device.runtime.computes for x in inputs):
            raise Spoiled("there is no memory on this device")

    def _check_shared(self):
        """Arguments may lie in the same memory as long as that is read only."""
        if any(self.wants[k] or k in self.written for k in self.shared):
            raise Spoiled("two arguments lie in the same memory")

    def entry(self, may_be_silent):
        generators = [_random.default_generator]
        if self.place.type == "cuda":
            generators.append(_random.cuda_generator(self.place.index))
        marks = [g._mark() for g in generators]
        for silent in (True, False) if may_be_silent else (False,):
            self.silent = silent
            try:
                with preserved_autocast():
                    return self._entry()
            except Unheard:
                pass
            finally:
                for generator, mark in zip(generators, marks):
                    generator._go_back(mark)
        raise Spoiled("a kernel is not known")

    def _entry(self):
        leaves = [self._leaf(k, x) for k, x in enumerate(self.inputs)]
        forward = Recording([base_of(t) for t in leaves], self.place)
        outs = list(forward.run(lambda: self.run(*leaves), self.silent))
        if not all(isinstance(o, Tensor) for o in outs):
            raise Spoiled("a result is no tensor")
        spent = None if self.root is None else _cut_off(outs, self.root)
        forward.result = None
        for k in self._written(forward, leaves):
            self.written.setdefault(k, 0)  # without saying so: running statistics
        self._check_shared()
        plan = forward.plan([("input", k) for k in range(len(leaves))], "saved")
        backward, gone = self._backward(forward, plan, leaves, outs)
        forward.launches = plan.launches(lambda block: block[0] != "arena" and block not in gone)
        kept = None
        if not any(self.wants) and self.place.type == "cpu":
            given = enumerate(self.inputs)
            kept = keep(
                forward, {k for k, x in given if type(x) is Parameter and k not in self.written}
            )
        return playing.Entry(
            self.run, forward, leaves, outs, self.wants, self.written, backward, kept, spent
        )

    def _written(self, forward, leaves):
        """Arguments that the run wrote to; Spoiled if memory was used that nobody knows."""
        moves = forward.moves()
        if not self.silent:
            given = enumerate(zip(self.inputs, leaves))
            return [k for k, (x, t) in given if not self.wants[k] and not _same_bytes(x, t)]
        found = set()
        for base, _, launch, place, word in moves:
            if base >= len(leaves) or self.wants[base]:
                continue
            launch = forward.launches[launch]
            if place in only_read(launch):
                continue
            if word is not None or not surely_writes(launch.definition):
                raise Unheard("who knows whether an argument is written to")
            found.add(base)
        return sorted(found)

    def _leaf(self, k, x):
        """What stands for an argument: itself if it wants a gradient, else other memory."""
        if self.wants[k]:
            t = make_tensor(x._layout, x._storage, x._offset)
            t._requires_grad = True
            return t
        copy = empty_like_layout(recording.plain_bytes(x._storage.nbytes, self.place))
        if not self.silent:
            runtime = x._layout.device.runtime
            runtime.copy(copy._storage.pointer, x._storage.pointer, x._storage.nbytes)
        return make_tensor(x._layout, copy._storage, x._offset)

    def _backward(self, forward, plan, leaves, outs):
        """(the way back or None, blocks that need not be kept for it)."""
        wanted = [t for t, wants in zip(leaves, self.wants) if wants]
        memory = playing.Memory(forward, outs)
        roots = [o for k, o in enumerate(outs) if o._requires_grad and k not in memory.same]
        if not wanted or not roots:
            return None, frozenset()
        if memory.shares:
            raise Spoiled("results that want gradients share memory")
        grads = [filled(_dense(o._layout), 0) for o in roots]
        if any(forward.find(g) is not None for g in grads):
            raise Spoiled("memory of the way there was freed behind it", True)
        blocks = [(b.start, b.start, b.size) for b in forward.fresh]
        run = Recording([*map(base_of, leaves), *blocks, *map(base_of, grads)], self.place)
        for kind in CAST:
            set_autocast_enabled(kind, False)  # who goes back does so outside of it
        found = run.run(
            lambda: autograd.grad(roots, wanted, grads, retain_graph=True, allow_unused=True),
            self.silent,
        )
        used = {base for base, *_ in run.moves()}
        names = [("input", k) for k in range(len(leaves))]
        names += [("saved", k) for k in range(len(blocks))]
        names += [("gradient", k) for k in range(len(grads))]
        back = run.plan(names, "result")
        count = len(leaves)

        def stays(block):
            """Is it there, unchanged, on the way back? Only what is read there in any case."""
            kind, k = block
            if kind == "saved":
                return k not in memory.used or count + k in used
            return kind == "input" and k in used and k not in self.written

        again = Again(plan, back, lambda b: b[0] == "saved" and b[1] not in memory.used, stays)
        run.launches = back.launches(lambda block: block[0] != "arena", again)
        return playing.Backward(run, found, grads), again.gone


def _cut_off(outs, root):
    """Leave one result with its history; numbers of those that shared it, and lose it."""
    start = outs[root]
    spent = [k for k, o in enumerate(outs) if o._requires_grad and o is not start]
    if not spent:
        return spent
    met, todo = set(), [edge_of(start)[0]]
    while todo:
        node = todo.pop()
        if id(node) not in met and isinstance(node, Node):
            met.add(id(node))
            todo += [edge[0] for edge in node.edges if edge is not None]
    for k in spent:
        if id(edge_of(outs[k])[0]) not in met:
            raise Spoiled("a result has a history of its own")
    for k in spent:
        outs[k] = outs[k].detach()
    return spent


def _dense(layout):
    return dense_layout(layout.shape, layout.dtype, layout.device)


def _same_bytes(a, b):
    """Do the storages of two tensors hold the same?"""
    n = a._storage.nbytes
    if a._layout.device.type != "cpu":
        layout = recording.plain_bytes(n, a._layout.device)
        return bool(
            (make_tensor(layout, a._storage, 0) == make_tensor(layout, b._storage, 0)).all()
        )
    return n == 0 or cpu.buffer_at(a._storage.pointer, n) == cpu.buffer_at(b._storage.pointer, n)
