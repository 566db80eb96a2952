"""Row programs on a GPU, as far as all walks by teams of threads agree.

Every pass goes over the elements of a row, a team's width of vectors at a time; totals are joined
in the team, and all its threads know the numbers of the row.
"""

import math
from types import SimpleNamespace

from flambeau.codegen.gpu.pointwise import LINE
from flambeau.codegen.gpu.powers import Online, joining, larger
from flambeau.codegen.llvm import Emitter, load_element, store_element
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, bytes_of
from flambeau.codegen.templates.rows import (
    Between,
    Max,
    Pass,
    SegmentSum,
    Sum,
    SumExp,
    Walk,
    convert_count,
    narrowed,
    widened,
)

UNROLL = 4  # vectors that a thread has on the way, of all operands together
TOTALS = {Sum: Sum, SegmentSum: Sum, Max: Max, SumExp: SumExp}  # what is added up, and how
WRITTEN = ("row", "row out", "piece out")  # places of numbers that a Between may store


class TeamWalk(Walk):
    """What walks by teams share: numbers of rows in privates, totals that are joined."""

    words: type  # of the description

    def __init__(self, kernel, program, compute):
        arguments = [kernel.argument(1 + k) for k in range(len(kernel.kinds) - 1)]
        super().__init__(SimpleNamespace(fn=kernel.fn, arguments=arguments), program, compute)
        self.kernel = kernel
        elements = [c for c, place in program.operands.values() if place == "element"]
        self.width = max(1, min(LINE // max(item_of(c) for c in elements), 8)) if elements else 1
        self.held: dict = {}  # numbers of the row by name, in privates
        self.d = self.words(*[kernel.word(k) for k in range(len(self.words._fields))])

    def set(self, thread, name, value):
        if name not in self.held:
            self.held[name] = self.kernel.private(LLVM_TYPE[self.type])
        self.held[name].set(thread, value)

    def known(self, thread):
        """Numbers of the row, as this thread knows them."""
        return {n: cell.get(thread) for n, cell in self.held.items()}

    # -- steps -------------------------------------------------------------------------------------
    def steps(self, first, count):
        """All steps of the rows that a group has at a time."""
        for step in self.program.steps:
            if isinstance(step, Between):
                self.between(step, first, count)
            elif isinstance(step, Pass):
                self.pass_over(step, first, count)

    def start(self, first, count):
        """Numbers that are known from the start."""
        with self.kernel.threads(last=True) as thread:
            item, _ = self.team.mine(first, thread)
            item = self.fn.min(item, count - 1)
            self.set(thread, "n", convert_count(self.fn, self.elements_of(item), self.type))
            for name, value in self.scalars.items():
                self.set(thread, name, value)
            for name, (code, place) in self.program.operands.items():
                if place in ("row", "piece"):
                    at = self.place(name, self.index(place, item))
                    self.set(thread, name, load_element(self.fn, at, code, 1, "s"))

    def between(self, step, first, count):
        fn = self.fn
        with self.kernel.threads(last=True) as thread:
            item, lane = self.team.mine(first, thread)
            self.values = self.known(thread)
            found = step.body(self.numbers())
            values = self.evaluate(list(found.values()), 1)
            for name, value in zip(found, values):
                self.set(thread, name, value)
            with fn.when((item < count) & (lane == 0)):
                for name, value in zip(found, values):
                    code, place = self.program.operands.get(name, ("", ""))
                    if place in WRITTEN:
                        at = self.place(name, self.index(place, item))
                        store_element(fn, value, at, code, 1, "c")

    def pass_over(self, step, first, count):
        fn, kernel = self.fn, self.kernel
        self.values = dict.fromkeys(self.held)
        self.begin_pass(step)
        actions = step.body(self.elements(), self.numbers())
        totals = {k: Total(self, a) for k, a in actions.items() if type(a) in TOTALS}
        cells = {k: [kernel.private(v.type) for v in t.start] for k, t in totals.items()}
        with kernel.threads(last=True) as thread:
            item, lane = self.team.mine(first, thread)
            for k, total in totals.items():
                for cell, value in zip(cells[k], total.start):
                    cell.set(thread, value)
            with fn.when(item < count):
                self.values, self.thread = self.known(thread), thread
                for total in totals.values():
                    total.clear()
                self.walk_row(actions, item, lane, totals)
                for k, total in totals.items():
                    for cell, own in zip(cells[k], total.cells):
                        cell.set(thread, own.get())
        if totals:
            self.settle(totals, cells)

    def settle(self, totals, cells):
        """Join what threads found; totals become numbers of the row."""

        def join(a, b):
            found, at = [], 0
            for total in totals.values():
                n = len(total.start)
                found += total.joined(a[at : at + n], b[at : at + n])
                at += n
            return found

        self.team.join([c for part in cells.values() for c in part], join)
        with self.kernel.threads(last=True) as thread:
            for k, total in totals.items():
                for name, cell in zip(total.names(k), cells[k]):
                    value = cell.get(thread)
                    narrow = value.type == "double"
                    self.set(thread, name, narrowed(self.fn, value, self.type) if narrow else value)

    def join(self, kind, a, b):
        return larger(self.fn, a, b) if kind is Max else a + b

    # -- elements ----------------------------------------------------------------------------------
    def run_over(self, actions, low, high, lane, totals, aligned):
        """Elements low to high of a run, as far as they are this thread's."""
        fn, w = self.fn, self.width
        numbers = {n: self.values[n[4:]] for n in self.names_of(actions) if n.startswith("row ")}
        if w == 1:
            self.elements_by(actions, numbers, low + lane, high, self.team.size, totals, 1)
            return
        whole = low + ((high - low) / w) * w

        def vectors():
            fn.vector_align = LINE
            step = self.team.size * w
            self.elements_by(actions, numbers, low + lane * w, whole, step, totals, w)
            fn.vector_align = None
            rest = whole + lane
            self.elements_by(actions, numbers, rest, high, self.team.size, totals, 1)

        def singly():
            self.elements_by(actions, numbers, low + lane, high, self.team.size, totals, 1)

        fn.if_else(aligned, vectors, singly)

    def names_of(self, actions):
        return self.names_in([a.value for a in actions.values()])

    def elements_by(self, actions, numbers, first, high, step, totals, w):
        """Vectors of w elements, a step apart, several on the way at a time."""
        fn = self.fn
        lanes = {n: fn.splat(v, w) for n, v in numbers.items()}
        for total in totals.values():
            total.begin(w)
        read = [n for n in self.names_of(actions) if not n.startswith("row ")]
        end, many = fn.var(first), max(1, UNROLL // max(1, len(read)))
        if many > 1:
            with fn.while_(lambda: (end.get() + step * (many - 1)) < high):
                at = end.get()
                self.act(actions, lanes, [at + step * k for k in range(many)], totals, w)
                end.set(at + step * many)
        with fn.loop(end.get(), high, step) as i:
            self.act(actions, lanes, [i], totals, w)
        for total in totals.values():
            total.end(w)

    def act(self, actions, lanes, places, totals, w):
        """What a pass does with a few vectors: all are loaded first."""
        emitters = [self.emitter(self.fetched_all(actions, lanes, i, w), w) for i in places]
        for name, action in actions.items():
            if name in totals:
                totals[name].take(emitters)
                continue
            for i, emitter in zip(places, emitters):
                self.put_at(name, emitter.emit(action.value), i, w, not totals)

    def put_at(self, name, value, i, w, is_last):
        """Store an element, or what a tail makes of it; is_last: has this pass no totals?"""
        tail = self.program.tail
        if tail is None or name != tail.name or not is_last:
            self.store_at(name, value, i, w)
            return
        found = self.part_at(tail, (value,), i, w)
        if tail.is_stored:
            self.store_at(name, value, i, w)
        for output, result in zip(tail.outputs, found):
            self.store_at(output, result, i, w)

    def store_at(self, name, value, i, w):
        code = self.program.operands[name][0]
        store_element(self.fn, value, self.address(name, i), code, w, "c")

    def part_at(self, part, given, i, w):
        """What pointwise work makes of its elements at i."""
        values = [*given]
        for name in part.inputs:
            values.append(self.fetched(name, self.program.operands[name][0], i, w))
        return self.part_of(part, values, w)

    def part_of(self, part, values, w):
        values = [*values, *(self.fn.splat(self.more[k], w) for k in part.numbers)]
        emitter = Emitter(self.fn, w, dict(enumerate(values)))
        return [emitter.emit(v) for v in part.values]

    def store_head(self, found, i, w):
        """Store what a head found, as far as anybody wants it."""
        head = self.program.head
        for name, value in zip(head.outputs, found[1:]):
            self.store_at(name, value, i, w)
        if head.is_stored:
            self.store_at(head.name, found[0], i, w)

    def fetched_all(self, actions, lanes, i, w):
        """What actions name, by name."""
        values, head = dict(lanes), self.program.head
        if self.stores_head or (self.computes_head and head.name in self.names_of(actions)):
            found = self.part_at(head, (), i, w)
            values[head.name] = found[0]
            if self.stores_head:
                self.store_head(found, i, w)
        for name in self.names_of(actions):
            if name not in values:
                values[name] = self.fetched(name, self.program.operands[name][0], i, w)
        return values

    def fetched(self, name, code, i, w):
        return load_element(self.fn, self.address(name, i), code, w, "c")

    def joined(self, kind, value, w):
        """The lanes of a vector joined, by halves."""
        width, self.width = self.width, w
        found = self.across(kind, value)
        self.width = width
        return found

    def address(self, name, i):
        return self.place(name, self.starts[self.program.operands[name][1]] + i)

    def aligned(self, *distances):
        """Do all vectors lie at multiples of their size, given distances in elements?"""
        fn, bits = self.fn, None
        for name, (code, place) in self.program.operands.items():
            if place not in ("element", "column"):
                continue
            base = fn.pure(f"ptrtoint {self.bases[name]} to i64", I64)
            found = base
            if place == "element":
                for distance in distances:
                    found = found | distance * item_of(code)
            found = found & (min(LINE, item_of(code) * self.width) - 1)
            bits = found if bits is None else bits | found
        return fn.value(True, "i1") if bits is None else bits == 0


class Total:
    """A total of a pass, as one thread finds it: sums in double, those of a run as computed."""

    def __init__(self, walk, action):
        self.walk, self.fn, self.action = walk, walk.fn, action
        fn, type = walk.fn, LLVM_TYPE[walk.type]
        lowest, zero = fn.value(-math.inf, type), fn.value(0.0, "double")
        self.kind = TOTALS[action.__class__]
        self.start = {Sum: [zero], Max: [lowest], SumExp: [lowest, zero]}[self.kind]

    def names(self, name):
        """Of the numbers that it gives."""
        return ("top", name) if self.kind is SumExp else (name,)

    def clear(self):
        self.cells = [self.fn.var(v) for v in self.start]

    def joined(self, a, b):
        if self.kind is SumExp:
            return list(joining(self.fn, self.action.plain)(a, b))
        return [self.walk.join(self.kind, a[0], b[0])]

    def begin(self, w):
        fn, walk = self.fn, self.walk
        if self.kind is SumExp:
            self.run = Online(fn, LLVM_TYPE[walk.type], self.action.plain)
        else:
            self.run = fn.var(walk.zero(self.kind, w))

    def take(self, emitters):
        """What a few vectors add."""
        value = self.action.value
        if self.kind is SumExp:
            self.run.take([emitter.emit(value) for emitter in emitters])
            return
        for emitter in emitters:
            self.run.set(self.walk.contribute(emitter, self.kind, value, self.run.get()))

    def end(self, w):
        """The run is over: join it to what came before."""
        fn = self.fn
        if self.kind is SumExp:
            found = [self.run.top.get(), self.run.total.get()]
        else:
            found = [self.walk.joined(self.kind, self.run.get(), w)]
        found = [
            widened(fn, v, "f64") if c.type == "double" else v for c, v in zip(self.cells, found)
        ]
        for cell, value in zip(self.cells, self.joined([c.get() for c in self.cells], found)):
            cell.set(value)


def item_of(code):
    """Bytes of an element."""
    return bytes_of(MEMORY_TYPE[code])
