"""A whole step of training on one tape: forward, backward, clipping and the optimizer's update.

The two tapes of a program (program.py) and what its optimizers launch become one: what the way back
needs lies in the arena with all other temporaries, there is no node, and one native call runs it.
Before each call the optimizers are asked what they would launch (`updates` in optim/ruled.py). If
these are the rules on the tape, over tensors of the same layouts, their tensors and numbers are
handed in, so learning rates, counts of steps and states are those of this very moment; if not, the
step is done as two tapes and the optimizer's own launches (stepping.py), or put on another tape.
"""

import time
from typing import Any

from flambeau._layout import same_layout
from flambeau._tensor import empty_like_layout, make_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import init_node
from flambeau.compiler.accesses import builder_of
from flambeau.compiler.lifetimes import laid_out, padded
from flambeau.compiler.playing import CompiledNode, compiled, complain
from flambeau.compiler.recording import ARENA, Recording, Spoiled, base_of
from flambeau.eager.copying import filled
from flambeau.eager.updating import update
from flambeau.nn.utils.clip_grad import clip_grad_norm_
from flambeau.runtime import tapes

MISS = object()  # in place of results: nothing was done, do it in another way


class SpentNode(CompiledNode):
    """The history of results of a step: it was gone back through."""

    __slots__ = ()


def _are_laid_out(tensors, layouts):
    """Do tensors have these layouts? In long runs two layouts may state the same facts."""
    found = [t._layout for t in tensors]
    if found == layouts:
        return True
    return len(found) == len(layouts) and all(map(same_layout, found, layouts))


class Updates:
    """What the optimizers of a step launch, as it was on the day of the recording."""

    def __init__(self, optimizers: list):
        self.optimizers = optimizers
        self.calls = self._asked()
        if any(name is None for name, *_ in self.calls):
            raise Spoiled("an optimizer does more than to launch a rule")
        self.forms = [_form(call) for call in self.calls]
        self.tensors = [t for _, columns, *_ in self.calls for c in columns for t in c or ()]
        self.layouts = [t._layout for t in self.tensors]
        self.repeating = [optimizer.repeating() for optimizer in optimizers]

    def _asked(self):
        return [call for optimizer in self.optimizers for call in optimizer.updates()]

    def now(self) -> tuple | None:
        """(tensors, numbers, tensors that are written) of this step; None if it is another one."""
        found: tuple = ([], [], [])
        try:
            for repeating in self.repeating:
                if not repeating.tell(*found):
                    break
            else:
                if _are_laid_out(found[0], self.layouts):
                    return found
        except (AttributeError, KeyError):  # something is not there any more
            pass
        return self._anew()

    def _anew(self):
        """The same, by asking for everything."""
        tensors: list = []
        numbers: list = []
        written: list = []
        calls = self._asked()
        if [*map(_form, calls)] != self.forms:
            return None
        for _, columns, given, _ in calls:
            for column in columns:
                if column is not None:
                    tensors += column
            numbers += given
            written += columns[0]
        if not _are_laid_out(tensors, self.layouts):
            return None
        for repeating in self.repeating:
            repeating.learn()
        return tensors, numbers, written


def _form(call):
    """What must be the same for a launch on the tape to be that of a call."""
    if call[0] is None:
        return None
    name, columns, numbers, flags = call
    lengths = [0 if c is None else len(c) for c in columns]
    return name, flags, lengths, len(numbers)


class UpdateStep:
    """Nothing but updates, on a tape: `play()` gives (), or MISS."""

    def __init__(self, optimizers: list):
        self.optimizers, self.updates = optimizers, Updates(optimizers)
        run = recorded(self.updates.tensors, self._perform)
        names = _names(run, [("given", k) for k in range(len(self.updates.tensors))], "after")
        if any(0 <= base - len(run.bases) < len(run.fresh) for base, *_ in run.moves()):
            raise Spoiled("a step leaves memory behind")
        bases = [("given", k) for k in range(len(self.updates.tensors))]
        self.tape = _joined([(run, names)], bases, _numbers(run))

    def _perform(self):
        for call in self.updates.calls:
            update(*call)

    def play(self) -> Any:
        if modes.watched or (found := self.updates.now()) is None:
            return MISS
        given, numbers, written = found
        while (done := self.tape.replay(*given, ARENA.memory, *numbers)) is not None:
            if done is not False or ARENA.is_recording_here():
                return MISS
            time.sleep(0)  # another thread plays a tape
        for t in written:
            t._storage.version += 1
        for optimizer in self.optimizers:
            if "step" in optimizer.__dict__:  # for schedulers
                optimizer._opt_called = True
        return ()


def recorded(tensors: list, perform: Any) -> Recording:
    """What perform() launches on some tensors, noted but not run."""
    storages = [t._storage for t in tensors]
    if any(t._layout.device.type != "cpu" for t in tensors):
        raise Spoiled("there are tensors on other devices")
    versions = [s.version for s in storages]
    run = Recording([base_of(t) for t in tensors])

    def without_gradients():
        before = modes.grad
        modes.grad = False
        try:
            return perform()
        finally:
            modes.grad = before

    try:
        run.run(without_gradients, silent=True)
    finally:
        for storage, version in zip(storages, versions):
            storage.version = version
    return run


class WholeStep:
    """One tape for a step with some layouts; `play(*inputs)` gives results, or MISS.

    before, after: (kind, optimizer, options) of what the step does around its program. inputs:
    those of this call, whose gradients are there or not as they are now. norms: places of results
    that are total norms.
    """

    def __init__(
        self,
        entry: Any,
        plain: Any,
        before: list,
        after: list,
        inputs: tuple,
        key: Any,
        norms: list,
    ):
        self.parts = parts = entry.parts
        self.before, self.after, self.key, self.norms = before, after, key, norms
        self.norm: Any = None  # (name, layout) of the block of a total norm that is a result
        self.written = entry.written
        self.inputs = inputs
        self.wanted = [k for k, wants in enumerate(parts.wants) if wants]
        self.check()
        self.old = {}  # wanted inputs that have a gradient, to which ours is added
        for k, layout in zip(self.wanted, parts.grads):
            if layout is not None and inputs[k]._grad is not None:
                self.old[k] = inputs[k]._grad
        self.zeroed = {k for k in self.old if _holds(before, "zeroed", inputs[k])}
        self.tape, self.updates, self.bases = self._tape()
        self.play = self._text(plain)
        del self.inputs, self.old

    def check(self):
        """Is it a step that this can be done with?"""
        parts, inputs = self.parts, self.inputs
        if len(parts.seeds) != 1:
            raise Spoiled("the way back has several beginnings")
        blocks = [place and place.base for place in parts.own.found]
        there = [b for b in blocks if b is not None]
        own = {b - parts.own.count for b in there}
        if len(set(there)) < len(there) or not own <= set(parts.own.whole):
            raise Spoiled("gradients share memory")
        for k, layout in zip(self.wanted, parts.grads):
            is_other = layout is not None and not same_layout(layout, inputs[k]._layout)
            if is_other or inputs[k]._extra is not None:
                raise Spoiled("a gradient is laid out in another way, or somebody waits for it")
            grad = inputs[k]._grad
            if grad is not None and (layout is None or not same_layout(grad._layout, layout)):
                raise Spoiled("there is a gradient of another kind")
            if grad is not None and grad._requires_grad:
                raise Spoiled("a gradient has a history")
        if not parts.memory.used <= set(parts.memory.whole):
            raise Spoiled("results share memory")
        if any(o is None and n is None for o, n in zip(parts.memory.found, parts.leaves)):
            raise Spoiled("a result is memory that nobody knows")
        for place, leaf in zip(parts.memory.found, parts.leaves):
            if place.base < parts.memory.count and leaf is None:
                raise Spoiled("a result is a view of an argument")

    # -- the tape ----------------------------------------------------------------------------------
    def _tape(self):
        """(the tape, updates, names of its bases)."""
        parts = self.parts
        grads = self._stand_ins()
        try:
            for k, grad in grads.items():
                if k not in self.old:
                    self.inputs[k]._grad = grad
            optimizers = [o for kind, o, _ in self.after if kind == "step"]
            updates = Updates(optimizers)
            self.same = self._coincidences(updates, grads)
            run, given = self._recorded(updates, grads)
        finally:
            for k in grads:
                if k not in self.old:
                    self.inputs[k]._grad = None
        n = len(self.inputs)
        saved = len(parts.forward.fresh)
        forward = _names(parts.forward, [("x", k) for k in range(n)], "saved")
        names = [("x", k) for k in range(n)] + [("saved", k) for k in range(saved)] + [("one", 0)]
        backward = _names(parts.backward, names, "grad")
        blocks = {}  # input -> block of its gradient
        for k, place in zip(self.wanted, parts.own.found):
            if place is not None:
                blocks[k] = "grad", place.base - parts.own.count
        names = [("given", k) for k in range(len(updates.tensors))]
        names += given
        names = [blocks[k] if kind == "new" else (kind, k) for kind, k in names]
        after = _names(run, names, "after")
        self.outs = dict(parts.memory.whole)  # block -> result
        bases = [("x", k) for k in range(n)]
        bases += [("saved", which) for which in self.outs]
        bases += [("one", 0)]
        self.new = {k: block for k, block in blocks.items() if k not in self.old}
        bases += self.new.values()
        bases += [("old", k) for k in self.old]
        if self.norm is not None:
            bases.append(self.norm[0])
        bases += [("given", k) for k in range(len(updates.tensors))]
        runs = [(parts.forward, forward), (parts.backward, backward), (run, after)]
        return _joined(runs, bases, _numbers(run)), updates, bases

    def _coincidences(self, updates, grads):
        """Input -> which tensor of the updates its gradient is.

        What comes before the updates (sums, clipping) finds gradients among those by their memory,
        so they have to be the same ones at each replay.
        """
        kinds = [kind for kind, *_ in self.after]
        if not self.old and "clip" not in kinds and "zeroed" not in kinds:
            return {}
        places = {id(t): at for at, t in enumerate(updates.tensors)}
        mine = {k: self.old.get(k, grad) for k, grad in grads.items()}
        return {k: places[id(t)] for k, t in mine.items() if id(t) in places}

    def _stand_ins(self):
        """Memory in place of the gradients of this step."""
        return {
            k: empty_like_layout(layout)
            for k, layout in zip(self.wanted, self.parts.grads)
            if layout is not None
        }

    def _recorded(self, updates, grads):
        """(what happens behind the way back, noted but not run; further bases it was given)."""
        extra: dict = {("new", k): grad for k, grad in grads.items()}
        extra |= {("old", k): old for k, old in self.old.items()}
        tensors = [*updates.tensors, *extra.values()]
        run = recorded(tensors, lambda: self._perform(updates.calls, grads))
        total, run.result = run.result, None
        first = len(tensors)
        left = {base - first for base, *_ in run.moves() if 0 <= base - first < len(run.fresh)}
        if self.norms:
            which = run.find(total).base - first
            self.norm = ("after", which), total._layout
            left.discard(which)
        if left:
            raise Spoiled("a step leaves memory behind")
        return run, [*extra]

    def _perform(self, calls, grads):
        for k, old in self.old.items():
            if k in self.zeroed:
                old.zero_()
            old.add_(grads[k])
        total = None
        for kind, held, options in self.after:
            if kind == "clip":
                total = clip_grad_norm_(held.params, *options)
        for call in calls:
            update(*call)
        for param in _params(self.after, "zeroed"):
            if param._grad is not None:
                param._grad.zero_()
        return total if self.norms else None

    # -- the function around it --------------------------------------------------------------------
    def _text(self, plain):
        return compiled("step", *_Text(self, plain).written())


def _params(around, kind):
    """Parameters of the optimizers that do something of a kind."""
    return [
        p
        for what, o, _ in around
        if what == kind
        for group in o.param_groups
        for p in group["params"]
    ]


def _holds(around, kind, param):
    """Is it one of those?"""
    return any(p is param for p in _params(around, kind))


def _names(run, bases, fresh):
    """Names of the bases, fresh blocks and temporaries of a recording, by number."""
    names = [*bases, *[(fresh, k) for k in range(len(run.fresh))]]
    return names + [(f"{fresh} arena", k) for k in range(len(run.temporary))]


def _sizes(run, names):
    """Bytes of the blocks of a recording, by name."""
    first = len(run.bases)
    blocks = [*run.fresh, *run.temporary]
    return {name: block.size for name, block in zip(names[first:], blocks)}


def _numbers(run):
    """(launch, argument) of all numbers of rules."""
    return [
        (k, place)
        for k, launch in enumerate(run.launches)
        if builder_of(launch.definition) == "updating:_build"
        for place in range(1, len(launch.arguments))
    ]


def _joined(runs, bases, numbers):
    """One tape of several recordings, each with names for what it numbers; numbers: of the last."""
    where = {name: (k, 0) for k, name in enumerate(bases)}
    launches: list = []
    found: list = []
    sizes: dict = {}
    for run, names in runs:
        first = len(launches)
        found += [(names[base], by, first + k, *place) for base, by, k, *place in run.moves()]
        sizes |= _sizes(run, names)
        numbers_from = first
        launches += run.launches
    lives: dict = {}
    for name, _, launch, *_ in found:
        if name not in where:
            begins = lives[name][1] if name in lives else launch
            lives[name] = padded(sizes[name]), begins, launch
    places, size = laid_out(lives)
    arena = len(bases)
    where |= {name: (arena, at) for name, at in places.items()}
    moves = []
    for name, by, *place in found:
        base, shift = where[name]
        moves.append((base, by + shift, *place))
    ARENA.reserve(size)
    placed = [(numbers_from + k, place) for k, place in numbers]
    return tapes.Tape(ARENA.native("replay"), ARENA.busy, launches, moves, arena + 1, placed)


class _Text:
    """Writes the function of a whole step."""

    def __init__(self, whole: WholeStep, plain: Any):
        self.whole, self.parts = whole, whole.parts
        self.names = [f"x{k}" for k in range(len(whole.inputs))]
        self.inputs = ", ".join(self.names)
        (seed,) = self.parts.seeds
        self.space: dict = {
            "MISS": MISS,
            "fresh": empty_like_layout,
            "same": same_layout,
            "make": make_tensor,
            "plain": plain,
            "replay": whole.tape.replay,
            "tape": whole.tape,
            "init": init_node,
            "new": object.__new__,
            "Spent": SpentNode,
            "complain": complain,
            "wait": time.sleep,
            "modes": modes,
            "arena": ARENA,
            "one": filled(seed, 1),
            "now": whole.updates.now,
        }

    def given(self, value):
        name = f"v{len(self.space)}"
        self.space[name] = value
        return name

    def written(self):
        """(parameters, lines, names) of the function."""
        lines = [*self._guards(), *self._memory(), *self._replay(), *self._results()]
        return self.inputs, lines, self.space

    def _guards(self):
        whole = self.whole
        grad, _, *facts = whole.key
        conditions = [f"modes.grad is {grad}", "not modes.watched"]
        for k, (layout, wants) in enumerate(facts):
            conditions.append(f"x{k}._layout is {self.given(layout)}")
            conditions.append(f"x{k}._requires_grad is {wants}")
        yield f"if not ({' and '.join(conditions)}):"
        yield "    return MISS"
        if whole.written:
            pointers = ", ".join(f"{x}._storage.pointer or {k}" for k, x in enumerate(self.names))
            yield f"if len({{{pointers}}}) != {len(self.names)}:"
            yield "    return MISS"
        yield from self._forgotten(whole.before)
        there = [f"x{k}._extra is None" for k in whole.wanted]
        held = ", ".join(f"{x}._storage" for x in self.names)
        for k, layout in zip(whole.wanted, self.parts.grads):
            if k in whole.old:
                yield f"h{k} = x{k}._grad"
                there.append(f"h{k} is not None and same(h{k}._layout, {self.given(layout)})")
                there.append(f"not h{k}._requires_grad and h{k}._storage not in ({held},)")
            else:
                there.append(f"x{k}._grad is None")
        around = [*whole.before, *whole.after]
        for k, x in enumerate(whole.inputs):  # what optimizers forget or fill is these very ones
            if any(_holds(around, kind, x) for kind in ("forgotten", "zeroed", "clip")):
                there.append(f"x{k} is {self.given(x)}")
        mine = {id(whole.inputs[k]) for k in (*whole.old, *whole.new)}
        others = [
            p for kind in ("zeroed", "clip") for p in _params(around, kind) if id(p) not in mine
        ]
        if others:
            there.append(f"all([p._grad is None for p in {self.given(others)}])")
        yield f"if not ({' and '.join(there)}):"
        yield "    return MISS"

    def _forgotten(self, around):
        params = _params(around, "forgotten")
        if params:
            yield f"for p in {self.given(params)}:"
            yield "    p._grad = None"

    def _memory(self):
        whole, parts = self.whole, self.parts
        for number in whole.outs.values():
            yield f"o{number} = fresh({self.given(parts.outs[number])})"
        if whole.norm is not None:
            yield f"norm = fresh({self.given(whole.norm[1])})"
        layouts = dict(zip(whole.wanted, parts.grads))
        for k in whole.new:
            if _holds(whole.after, "forgotten", whole.inputs[k]):  # nobody will see it
                self.space[f"g{k}"] = empty_like_layout(layouts[k])
                yield f"x{k}._grad = g{k}"
            else:
                yield f"x{k}._grad = g{k} = fresh({self.given(layouts[k])})"
        yield "try:"
        yield "    found = now()"
        yield "except Exception:"  # it comes again, in its place
        yield "    found = None"
        yield "if found is None:"
        yield from self._undone()
        yield "    return MISS"
        yield "given, numbers, written = found"
        same = [
            f"given[{at}] is {'h' if k in whole.old else 'g'}{k}" for k, at in whole.same.items()
        ]
        if same:
            yield f"if not ({' and '.join(same)}):"
            yield from self._undone()
            yield "    return MISS"

    def _undone(self):
        for k in self.whole.new:
            yield f"    x{k}._grad = None"
        yield "    pass"

    def _replay(self):
        whole = self.whole
        bases = [*self.names, *[f"o{n}" for n in whole.outs.values()], "one"]
        bases += [f"g{k}" for k in whole.new]
        bases += [f"h{k}" for k in whole.old]
        if whole.norm is not None:
            bases.append("norm")
        bases += ["*given", "arena.memory", "*numbers"]
        yield f"while (done := replay({', '.join(bases)})) is not None:"
        yield "    if done is False and not arena.is_recording_here():"
        yield "        wait(0)"  # another thread plays a tape
        yield "        continue"
        yield from self._undone()
        yield "    if done is False:"
        yield "        return MISS"
        yield f"    complain(done, plain, ({self.inputs},))"
        yield "for t in written:"
        yield "    t._storage.version += 1"
        for k, times in whole.written.items():
            if times:
                yield f"x{k}._storage.version += {times}"
        for k in whole.old:
            yield f"h{k}._storage.version += {1 + (k in whole.zeroed)}"
        for kind, optimizer, _ in whole.after:
            if kind == "step" and "step" in optimizer.__dict__:  # for schedulers
                yield f"{self.given(optimizer)}._opt_called = True"
        yield from self._forgotten(whole.after)

    def _results(self):
        parts, memory = self.parts, self.parts.memory
        for k, place in enumerate(memory.found):
            if k in memory.same:
                yield f"o{k} = o{memory.same[k]}"
            elif parts.leaves[k] is not None:
                yield f"o{k} = x{parts.leaves[k]}"
            elif k not in memory.whole.values():
                which = memory.whole[place.base - memory.count]
                yield f"o{k} = make({self.given(parts.outs[k])}, o{which}._storage, {place.offset})"
        wanted = "".join(f"(x{k}, 0), " for k in self.whole.wanted)  # they are leaves
        yield f"node = init(new(Spent), ({wanted}), None)"
        for k in (0, *parts.spent):
            yield f"o{k}._grad_fn = node"
            yield f"o{k}._requires_grad = True"
        names = [f"o{k}" for k in range(1, len(memory.found))]
        for place, _ in self.whole.norms:
            names.insert(place, "norm")
        yield f"return ({''.join(f'{name}, ' for name in names)})"
