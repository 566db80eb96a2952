"""Playing tapes: memory for what a replay makes, the replay, its results and their history.

The function around a tape is generated text: it takes the inputs, makes new tensors for results,
plays the tape, says what was written, and hangs one node on results that want gradients. The node
keeps what the way back reads: arguments (whose versions are checked), results and one piece of
memory with everything else.
"""

import itertools
import linecache
import time
from typing import Any, NamedTuple

from flambeau import autograd
from flambeau._tensor import empty_like_layout, make_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import FREED, Node, _modified, edge_of, init_node
from flambeau.codegen.texts import code_of
from flambeau.compiler.lifetimes import padded
from flambeau.compiler.recording import Spoiled, plain_bytes
from flambeau.eager.copying import copy_into, filled
from flambeau.runtime.allocator import room_in
from flambeau.runtime.switches import switches

_numbers = itertools.count(1)
LARGE = 1 << 17  # bytes from which a block is taken from a pool, which costs a microsecond


def failed(status: Any) -> None:
    raise RuntimeError(f"a kernel of a compiled program reported {status}")


def complain(status: Any, plain: Any, inputs: tuple) -> None:
    """A kernel found something wrong: let the op say so, on copies of what it was given."""
    plain(*[x.detach().clone() for x in inputs])
    failed(status)


class Memory:
    """Where the results of a recording lie, and how fresh memory is handed out at a replay.

    A fresh block that is one result, as a whole, becomes a tensor of its layout (`whole`: block ->
    number of the result). If `apart`, other large ones are plain bytes of their own, which pools
    hold from earlier calls (`alone`); all others lie in one piece of plain bytes, at `places`.
    """

    def __init__(self, run, results, apart=False):
        count = len(run.bases)
        self.count, self.arena, self.gpu = count, run.arena, run.gpu
        self.found = [None if r is None else run.find(r) for r in results]
        users: dict = {}
        self.same: dict = {}  # number of a result -> that of the first one that is the same tensor
        first: dict = {}
        for k, place in enumerate(self.found):
            if place is None:
                continue
            if first.setdefault(id(results[k]), k) != k:
                self.same[k] = first[id(results[k])]
            else:
                users.setdefault(place.base, []).append(k)
        roots = {b: [k for k in ks if results[k]._requires_grad] for b, ks in users.items()}
        self.shares = any(len(ks) > 1 or (ks and base < count) for base, ks in roots.items())
        self.used = {base - count for base in users if base >= count}
        self.whole: dict = {}
        for base, ks in users.items():
            for k in ks if base >= count else ():
                r, place = results[k], self.found[k]
                is_whole = place.offset == 0 and r._layout.nbytes == r._storage.nbytes
                # others share its memory, and have no history of their own
                if is_whole and (k in roots[base] or not roots[base]):
                    self.whole.setdefault(base - count, k)
        touched = {base - count for base, *_ in run.moves()} | self.used
        self.places: dict = {}
        self.alone: dict = {}  # block -> layout
        self.size = 0
        for which, block in enumerate(run.fresh):
            if which not in touched or which in self.whole:
                continue
            if apart and run.gpu is None and block.size >= LARGE:
                self.alone[which] = plain_bytes(room_in(block.size))
            else:
                self.places[which] = self.size
                self.size += padded(block.size)


class Backward:
    """A recording of the way back. Its bases: inputs, fresh blocks of the way there, gradients."""

    def __init__(self, run, found, grads):
        self.run, self.found = run, found
        self.layouts = [g._layout for g in grads]
        self.used = {base for base, *_ in run.moves()}
        self.memory = Memory(run, found, apart=True)
        self.used |= {place.base for place in self.memory.found if place is not None}


class Parts(NamedTuple):
    """What the tapes of an entry are made of, for those who make a longer one of both.

    leaves: which argument a result is, or None; wants: arguments that want gradients, whose layouts
    are `grads` (None: there is no gradient); seeds: layouts of the gradients of results.
    """

    forward: Any
    memory: Memory
    outs: list
    leaves: list
    spent: list
    wants: tuple
    backward: Any
    own: Memory
    grads: list
    seeds: list


def _number(leaves, out):
    return next((k for k, t in enumerate(leaves) if t is out), None)


class Entry:
    """Tapes for one set of layouts, and the generated function that plays them."""

    def __init__(self, plain, run, leaves, outs, wants, written, backward, kept=None, spent=None):
        self.written = written
        memory = Memory(run, outs, apart=True)
        self.parts: Parts | None = None
        if spent is not None and backward is not None:
            layouts = [None if g is None else g._layout for g in backward.found]
            backward.run.result = None
            self.parts = Parts(
                run, memory, [o._layout for o in outs], [_number(leaves, o) for o in outs], spent,
                wants, backward.run, backward.memory, layouts, backward.layouts,
            )  # fmt: skip
        self.tape = run.tape([*memory.whole, *memory.alone], memory.places)
        self.text = _Text(plain, leaves, outs, memory, self.tape, written, kept)
        if backward is not None:
            again = None if written or run.draws() else plain
            self.text.record(wants, Way(again, wants, outs, memory, backward), spent or ())
        self.play = self.text.function("play")

    def front(self, key, slow):
        """`play` for inputs as the key has them; slow takes all others."""
        grad, mark, *facts = key
        text = self.text
        text.space["slow"] = slow
        conditions = [f"modes.grad is {grad}", "not modes.watched"]
        if mark is not None:  # what libraries may do
            text.space["switches"] = switches
            conditions.append(f"switches.convolving is {text.given(mark)}")
        for k, (layout, wants) in enumerate(facts):
            conditions.append(f"x{k}._layout is {text.given(layout)}")
            conditions.append(f"x{k}._requires_grad is {wants}")
        head = f"if not ({' and '.join(conditions)}):", f"    return slow({text.inputs})"
        return text.function("front", head)


class _Text:
    """Writes the function of an entry."""

    def __init__(self, plain, leaves, outs, memory, tape, written, kept):
        self.names = [f"x{k}" for k in range(len(leaves))]
        self.inputs = ", ".join(self.names)
        # no tensor of the dry run is kept: their history holds all that it computed
        self.memory, self.count = memory, len(outs)
        self.roots = [k for k, o in enumerate(outs) if o._requires_grad and k not in memory.same]
        self.space = {
            "fresh": empty_like_layout,
            "make": make_tensor,
            "plain": plain,
            "replay": tape.replay,
            "tape": tape,  # which lives as long as whoever plays it
            "edge_of": edge_of,
            "init": init_node,
            "new": object.__new__,
            "complain": complain,
            "wait": time.sleep,
            "modes": modes,
            "arena": memory.arena,
        }
        lines, bases = [], [*self.names]
        if memory.gpu is not None:
            self.space["gpu"], self.space["near"] = memory.gpu.runtime, tape.near
            lines += ["if gpu.is_capturing:", f"    return plain({self.inputs})"]
        if written:
            lines.append(f"if len({{{self._pointers()}}}) != {len(leaves)}:")
            lines.append(f"    return plain({self.inputs})")  # who knows what overwrites what
        if kept is not None:
            self.space["kept"], self.space["packed"] = kept, kept.memory
            held = _tuple(f"x{k}._storage" for k in kept.which)
            lines += [
                f"if not kept.holds(held := ({held})):",
                f"    kept.fill(held, ({_tuple(self.names)}))",
            ]
            bases.append("packed")
        for number in memory.whole.values():
            layout = self.given(outs[number]._layout)
            lines.append(f"o{number} = {_fresh(memory, layout, len(bases))}")
            bases.append(f"o{number}")
        for which, layout in memory.alone.items():
            lines.append(f"a{which} = fresh({self.given(layout)})")
            bases.append(f"a{which}")
        if memory.size:
            rest = plain_bytes(memory.size, memory.arena.place)
            lines.append(f"rest = {_fresh(memory, self.given(rest), len(bases))}")
            bases.append("rest")
        lines += [
            f"while (done := replay({', '.join(bases)}, arena.memory)) is not None:",
            "    if done is not False:",
            f"        complain(done, plain, ({_tuple(self.names)}))",
            "    if arena.is_recording_here():",
            f"        return plain({self.inputs})",
            "    wait(0)",  # another thread plays a tape
        ]
        lines += [f"x{k}._storage.version += {times}" for k, times in written.items() if times]
        for k, o in enumerate(outs):
            if k in memory.same:
                lines.append(f"o{k} = o{memory.same[k]}")
            elif k not in memory.whole.values():
                same = next((n for n, t in zip(self.names, leaves) if t is o), None)
                lines.append(f"o{k} = {same or self._placed(o, memory.found[k])}")
        self.lines = lines

    def _pointers(self):
        return ", ".join(f"{x}._storage.pointer or {k}" for k, x in enumerate(self.names))

    def given(self, value):
        """The name of a constant."""
        name = f"v{len(self.space)}"
        self.space[name] = value
        return name

    def _placed(self, o, place):
        """A result that shares the memory of something else."""
        if place is None:
            raise Spoiled("a result is memory that nobody knows")
        layout, which = self.given(o._layout), place.base - self.memory.count
        if which < 0:
            x = self.names[place.base]
            return f"make({layout}, {x}._storage, {x}._offset + {place.offset})"
        if which in self.memory.whole:
            whole = self.memory.whole[which]
            return f"make({layout}, o{whole}._storage, {place.offset})"
        if which in self.memory.alone:
            return f"make({layout}, a{which}._storage, {place.offset})"
        return f"make({layout}, rest._storage, {self.memory.places[which] + place.offset})"

    def record(self, wants, way, spent=()):
        """Lines that make the node: where gradients go, what the way back needs, its versions."""
        edges = "".join(f"edge_of(x{k}), " for k, wanted in enumerate(wants) if wanted)
        inputs = [f"x{k}" for k in way.inputs]
        whole = self.memory.whole
        names = [f"o{whole[which]}" if which in whole else f"a{which}" for which in way.kept]
        kept = [f"{name}._storage" for name in names]
        held = [*inputs, *kept, "rest._storage" if self.memory.size else "None"]
        held.append(f"({_tuple(self.names)})")
        held.append(f"({_tuple(f'{x}._storage.version' for x in self.names)})")
        versions = [*(f"+{x}._storage.version" for x in inputs), *(f"{o}.version" for o in kept)]
        self.space["Node"] = type(
            "CompiledFunctionBackward", (CompiledNode,), {"__slots__": (), "way": way}
        )
        self.lines.append(f"node = init(new(Node), ({edges}), ({_tuple(held)}), {len(self.roots)})")
        self.lines.append(f"node.versions = ({_tuple(versions)})")
        for k, root in enumerate(self.roots):
            self.lines.append(f"o{root}._grad_fn = node")
            self.lines.append(f"o{root}._output_nr = {k}")
            self.lines.append(f"o{root}._requires_grad = True")
        for k in spent:
            self.lines.append(f"o{k}._grad_fn = node")
            self.lines.append(f"o{k}._requires_grad = True")

    def function(self, name, head=()):
        results = _tuple(f"o{k}" for k in range(self.count))
        lines = [*head, *self.lines, f"return ({results})"]
        return compiled(name, self.inputs, lines, self.space)


def _fresh(memory, layout, base):
    """The expression of new memory for a base of a tape."""
    return f"fresh({layout})" if memory.gpu is None else f"near({base}, {layout})"


def _tuple(items):
    return "".join(f"{item}, " for item in items)


class CompiledNode(Node):
    """The history of a compiled program's results."""

    __slots__ = ("versions",)
    way: "Way"

    def apply(self, grads, create_graph):
        if self.saved is None:
            raise RuntimeError(FREED)
        if create_graph:
            return self.way.recorded(*self.saved[-2:], grads)
        keeps = modes.task is None or modes.task.keep_graph
        return self.way.go(self.saved, self.versions, grads, keeps)


class Way:
    """The way back of an entry: its tape, what it is given, and what comes of it.

    Bases of the tape are the inputs that it reads, whole blocks of the way there that it reads,
    the rest of the way there, the gradients, then fresh memory of its own.
    """

    def __init__(self, plain, wants, outs, memory, backward):
        self.plain, self.wants, count = plain, wants, len(wants)
        used, own = backward.used, backward.memory
        self.arena, self.gpu, self.one = own.arena, own.gpu, None
        self.inputs = [k for k in range(count) if k in used]
        layouts = {which: outs[k]._layout for which, k in memory.whole.items()} | memory.alone
        self.kept = [which for which in layouts if count + which in used]
        self.kept_layouts = [layouts[which] for which in self.kept]
        self.has_rest, self.layouts = bool(memory.size), backward.layouts
        self.rest = plain_bytes(memory.size, memory.arena.place)
        rest = len(self.inputs) + len(self.kept)
        first = rest + self.has_rest
        number = {k: (place, 0) for place, k in enumerate(self.inputs)}
        for place, which in enumerate(self.kept):
            number[count + which] = len(self.inputs) + place, 0
        for which, at in memory.places.items():
            number[count + which] = rest, at
        for k in range(len(self.layouts)):
            number[own.count - len(self.layouts) + k] = first + k, 0
        mine = first + len(self.layouts)
        pieces = [*own.whole, *own.alone]
        spare = None
        if self.gpu is not None and self.has_rest:  # on the host pools have such blocks one by one
            held = {count + k: at for k, at in memory.places.items()}
            spare = rest, memory.size, held, {count + k for k in memory.used}
        self.tape = backward.run.tape(pieces, own.places, number, mine, spare)
        for k, which in enumerate(pieces):
            number[own.count + which] = mine + k, 0
        for which, at in own.places.items():
            number[own.count + which] = mine + len(pieces), at
        fresh = [backward.found[k]._layout for k in own.whole.values()]
        fresh += own.alone.values()
        if own.size:
            fresh.append(plain_bytes(own.size, own.arena.place))
        results = []
        for r, place in zip(backward.found, own.found):
            if r is not None and place is None:
                raise Spoiled("a gradient is memory that nobody knows")
            base, shift = (0, 0) if place is None else number[place.base]
            results.append(r if r is None else (base, r._layout, shift + place.offset))
        bases = [r[0] for r in results if r is not None]
        # is every gradient new memory that nobody else knows?
        self.is_new = len(set(bases)) == len(bases) and all(b >= mine for b in bases)
        self.go = self._compiled(fresh, results)

    def _compiled(self, fresh, results):
        """def go(saved, versions, grads, keeps): gradients of the inputs that want some.

        keeps: may somebody go back again?
        """
        space = {
            "make": make_tensor,
            "fresh": empty_like_layout,
            "fit": fitting,
            "arena": self.arena,
            "replay": self.tape.replay,
            "tape": self.tape,
            "check": self.check,
            "failed": failed,
            "wait": time.sleep,
            "copied": _copied,
        }

        if self.gpu is not None:
            space["near"] = self.tape.near

        def given(value):
            name = f"v{len(space)}"
            space[name] = value
            return name

        count, kept = len(self.inputs), len(self.kept)
        lines = [f"{_tuple(f's{k}' for k in range(count + kept + 1))}_, _ = saved"]
        versions = [f"s{k}._storage.version" for k in range(count)]
        versions += [f"s{count + k}.version" for k in range(kept)]
        if versions:
            lines.append(f"if ({_tuple(versions)}) != versions:")
            lines.append("    check(saved, versions)")
        for k in range(count):
            lines.append(f"b{k} = s{k}")
        for k, layout in enumerate(self.kept_layouts, count):
            lines.append(f"b{k} = make({given(layout)}, s{k}, 0)")
        at = count + kept
        if self.has_rest:
            lines.append(f"b{at} = make({given(plain_bytes(0, self.arena.place))}, s{at}, 0)")
            if self.gpu is not None:  # who goes back again finds it as it was
                lines.append("if keeps:")
                lines.append(f"    b{at} = copied(s{at}, {given(self.rest)})")
            at += 1
        layouts: dict = {}  # of bases, by place
        for k, layout in enumerate(self.layouts):
            name = given(layout)
            lines.append(f"b{at} = grads[{k}]")
            lines.append(f"if b{at} is None or b{at}._layout is not {name}:")
            lines.append(f"    b{at} = fit(b{at}, {name})")
            layouts[at] = layout
            at += 1
        for layout in fresh:
            lines.append(f"b{at} = {_fresh(self, given(layout), at)}")
            layouts[at] = layout
            at += 1
        bases = ", ".join(f"b{k}" for k in range(at))
        lines += [
            f"while (done := replay({bases}, arena.memory)) is not None:",
            "    if done is not False:",
            "        failed(done)",
            "    wait(0)",  # another thread plays a tape
        ]
        found = []
        for result in results:
            if result is None:
                found.append("None")
                continue
            base, layout, offset = result
            if layouts.get(base) is layout and not offset:
                found.append(f"b{base}")
            else:
                name = given(layout)
                found.append(f"make({name}, b{base}._storage, b{base}._offset + {offset})")
        lines.append(f"return [{', '.join(found)}]")
        return compiled("go", "saved, versions, grads, keeps", lines, space)

    def ones(self, layout):
        """What a loss starts with: made once, as nothing writes to it or keeps it."""
        if self.one is None or self.one._layout is not layout:
            self.one = filled(layout, 1)
        return self.one

    def recorded(self, inputs, versions, grads):
        """The same as ops that are recorded in turn: the graph is run once more."""
        for t, version in zip(inputs, versions):
            if t._storage.version != version:
                raise RuntimeError(
                    _modified(t._layout, t._storage.version, version, t._grad_fn, t._output_nr)
                )
        if self.plain is None:
            raise RuntimeError(
                "torch.compile with aot_autograd does not currently support double backward "
                "through a program that draws random numbers or writes to its arguments"
            )
        outs = self.plain(*inputs)
        roots = list({id(o): o for o in outs if o._requires_grad}.values())
        pairs = [(o, g) for o, g in zip(roots, grads) if g is not None]
        wanted = [x for x, wants in zip(inputs, self.wants) if wants]
        roots, grads = zip(*pairs)
        return list(autograd.grad(roots, wanted, grads, create_graph=True, allow_unused=True))

    def check(self, saved, versions):
        """Complain of what was written since."""
        count = len(self.inputs)
        for k, version in enumerate(versions):
            t = saved[k]
            if k >= count:
                if t.version != version:
                    layout = self.kept_layouts[k - count]
                    raise RuntimeError(_modified(layout, t.version, version, None, 0))
            elif t._storage.version != version:
                raise RuntimeError(
                    _modified(t._layout, t._storage.version, version, t._grad_fn, t._output_nr)
                )


def compiled(name, parameters, lines, space):
    """The function of some lines; tracebacks show them."""
    text = f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in lines)
    title = f"<compiled program {next(_numbers)}>"
    linecache.cache[title] = (len(text), None, text.splitlines(True), title)
    exec(code_of(text, title), space)
    return space[name]


def _copied(storage, layout):
    """The bytes of a storage in another one."""
    out = empty_like_layout(layout)
    copy_into(out, make_tensor(layout, storage, 0))
    return out


def fitting(grad, layout):
    """A gradient as the tape knows it: dense, and zeros where there is none."""
    if grad is None:
        return filled(layout, 0)
    if grad._layout is layout:
        return grad
    dense = empty_like_layout(layout)
    dense.copy_(grad.detach())
    return dense
