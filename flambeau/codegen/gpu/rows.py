"""Row programs on a GPU: the language of templates/rows.py, with a team of threads per row.

Every pass goes over the elements of a row, a team's width of vectors at a time; totals are joined
in the team, and all its threads know the numbers of the row. What is read again comes from cache.
Walks and descriptions are those of the host: rows side by side, rows in segments (planes), rows
across memory (columns: a thread per row). Tallies are summed by threads that each take a position.
"""

from types import SimpleNamespace

from flambeau.codegen import descriptions
from flambeau.codegen.gpu.pointwise import LINE, divided
from flambeau.codegen.gpu.teams import GROUP, Team, groups_of
from flambeau.codegen.llvm import load_element, store_element
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, Module, bytes_of
from flambeau.codegen.templates import normalization, row_programs
from flambeau.codegen.templates.rows import (
    Between,
    Max,
    Pass,
    SegmentSum,
    Sum,
    Tallies,
    Walk,
    convert_count,
    narrowed,
    widened,
)

WRITTEN = ("row", "row out", "piece out")  # places of numbers that a Between may store


def build(walk, name, *facts):
    """Both texts of the program of that name for one way of walking."""
    make = getattr(row_programs, name, None) or getattr(normalization, name)
    program = make(*facts)
    first = next(iter(program.operands.values()))[0]
    kinds = "p" * (1 + len(program.operands)) + "f" * len(program.scalars)
    module = Module()
    words = len(WORDS[walk]._fields)
    kernel = Kernel(module, kinds, GROUP, words=words)
    found = WALKS[walk](kernel, program, COMPUTE_TYPE[first])
    found.run()
    kernel.done()
    add_host_entry(module, kernel, found.groups)
    return module_text(module)


class TeamWalk(Walk):
    """What walks by teams share: numbers of rows in privates, totals that are joined."""

    def __init__(self, kernel, program, compute):
        arguments = [kernel.argument(1 + k) for k in range(len(kernel.kinds) - 1)]
        super().__init__(SimpleNamespace(fn=kernel.fn, arguments=arguments), program, compute)
        self.kernel = kernel
        elements = [c for c, place in program.operands.values() if place == "element"]
        self.width = max(1, min(LINE // max(_item(c) for c in elements), 8)) if elements else 1
        self.held: dict = {}  # numbers of the row by name, in privates
        self.d = WORDS[self.walk](*[kernel.word(k) for k in range(len(WORDS[self.walk]._fields))])

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
        actions = step.body(self.elements(), self.numbers())
        totals = {k: a for k, a in actions.items() if isinstance(a, (Sum, Max))}
        cells = {k: kernel.private(self.total_type(a)) for k, a in totals.items()}
        with kernel.threads(last=True) as thread:
            item, lane = self.team.mine(first, thread)
            for k, a in totals.items():
                cells[k].set(thread, self.no_total(a))
            with fn.when(item < count):
                self.values = self.known(thread)
                own = {k: fn.var(self.no_total(a)) for k, a in totals.items()}
                self.walk_row(actions, item, lane, own)
                for k, cell in own.items():
                    cells[k].set(thread, cell.get())
        if not totals:
            return
        kinds = [type(a) for a in totals.values()]
        self.team.join(
            list(cells.values()),
            lambda a, b: [self.join(kind, x, y) for kind, x, y in zip(kinds, a, b)],
        )
        with kernel.threads(last=True) as thread:
            for k, a in totals.items():
                value = cells[k].get(thread)
                value = narrowed(fn, value, self.type) if type(a) is Sum else value
                self.set(thread, k, value)

    def total_type(self, action):
        """Sums are kept in double."""
        return "double" if type(action) is Sum else LLVM_TYPE[self.type]

    def no_total(self, action):
        zero = self.zero(type(action), 1)
        return widened(self.fn, zero, "f64") if type(action) is Sum else zero

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
        """Vectors of w elements, a step apart; sums of a run are kept in the compute type."""
        fn = self.fn
        kinds = {k: Max if type(a) is Max else Sum for k, a in actions.items() if k in totals}
        cells = {k: fn.var(self.zero(kind, w)) for k, kind in kinds.items()}
        lanes = {n: fn.splat(v, w) for n, v in numbers.items()}
        with fn.loop(first, high, step) as i:
            values = dict(lanes)
            for name in self.names_of(actions):
                if name not in values:
                    code = self.program.operands[name][0]
                    values[name] = self.fetched(name, code, i, w)
            emitter = self.emitter(values, w)
            for name, action in actions.items():
                if name in cells:
                    new = self.contribute(emitter, kinds[name], action.value, cells[name].get())
                    cells[name].set(new)
                else:
                    code = self.program.operands[name][0]
                    value = emitter.emit(action.value)
                    store_element(fn, value, self.address(name, i), code, w, "c")
        for k, kind in kinds.items():
            value = self.joined(kind, cells[k].get(), w)
            if totals[k].type == "double" and value.type != "double":
                value = widened(fn, value, "f64")
            totals[k].set(self.join(kind, totals[k].get(), value))

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
                    found = found | distance * _item(code)
            found = found & (min(LINE, _item(code) * self.width) - 1)
            bits = found if bits is None else bits | found
        return fn.value(True, "i1") if bits is None else bits == 0


class Rows(TeamWalk):
    """Rows side by side in memory."""

    walk = "rows"

    def run(self):
        fn, kernel, d = self.fn, self.kernel, self.d
        self.n = d.length
        self.team = Team(kernel, d.length, self.width, d.rows)
        self.is_aligned = self.aligned(d.length)
        if any(isinstance(step, (Pass, Between)) for step in self.program.steps):
            with self.team.items(d.rows) as first:
                self.start(first, d.rows)
                self.steps(first, d.rows)
        tallies = [step for step in self.program.steps if isinstance(step, Tallies)]
        if tallies:
            with fn.loop(kernel.group, d.chunks, kernel.groups) as chunk:
                self.tally(tallies[0], chunk)

    def groups(self, fn, word):
        found = groups_of(fn, word(2), self.width, word(1))
        has_tallies = any(isinstance(step, Tallies) for step in self.program.steps)
        return fn.max(found, word(0)) if has_tallies else found

    def index(self, place, item):
        return item

    def elements_of(self, item):
        return self.n

    def walk_row(self, actions, item, lane, totals):
        self.starts = {"element": item * self.n, "column": self.fn.value(0, I64)}
        zero = self.fn.value(0, I64)
        self.run_over(actions, zero, self.n, lane, totals, self.is_aligned)

    def tally(self, step, chunk):
        """Totals per position over the rows of a chunk: a thread per position."""
        fn, d = self.fn, self.d
        low = chunk * d.per_chunk
        high = fn.min(low + d.per_chunk, d.rows)
        with self.kernel.threads(last=True) as thread, fn.loop(thread, self.n, GROUP) as i:
            self.values = dict.fromkeys(self.held) | {
                n: None for n, (_, place) in self.program.operands.items() if place == "row"
            }
            found = step.body(self.elements(), self.numbers())
            cells = {n: fn.var(self.zero(Sum, 1)) for n in found}
            with fn.loop(low, high) as row:
                self.starts = {"element": row * self.n, "column": fn.value(0, I64)}
                values = {}
                for name in self.names_in(found.values()):
                    plain = name.removeprefix("row ")
                    code = self.program.operands[plain][0]
                    at = self.address(name, i) if plain == name else self.place(plain, row)
                    values[name] = load_element(fn, at, code, 1, "c")
                emitter = self.emitter(values, 1)
                for name, e in found.items():
                    cells[name].set(self.contribute(emitter, Sum, e, cells[name].get()))
            for name, cell in cells.items():
                at = self.place(name, chunk * self.n + i)
                store_element(fn, cell.get(), at, self.program.operands[name][0], 1, "c")


class Planes(TeamWalk):
    """Rows in segments: runs of memory at a fixed distance from one another."""

    walk = "planes"

    def run(self):
        kernel, d = self.kernel, self.d
        count = d.rows * d.pieces
        self.team = Team(kernel, d.length * d.segments, self.width, count)
        self.is_aligned = self.aligned(d.row_step, d.segment_step, d.part)
        with self.team.items(count) as first:
            self.start(first, count)
            self.steps(first, count)

    def groups(self, fn, word):
        d = descriptions.Planes(*[word(k) for k in range(len(descriptions.Planes._fields))])
        return groups_of(fn, d.length * d.segments, self.width, d.rows * d.pieces)

    def elements(self):
        found = super().elements()
        for name, (_, place) in self.program.operands.items():
            if place == "segment":
                setattr(found, name, self.symbol(name))
        return found

    def index(self, place, item):
        if place in ("piece", "piece out"):
            return item
        return item - divided(self.fn, item, self.d.rows) * self.d.rows

    def span(self, item):
        """(row, first and last segment, first and last element of each) of an item."""
        fn, d = self.fn, self.d
        piece = divided(fn, item, d.rows)
        row = item - piece * d.rows
        parts = (d.length + d.part - 1) / d.part
        first = (piece / parts) * d.run
        low = (piece % parts) * d.part
        return row, first, fn.min(first + d.run, d.segments), low, fn.min(low + d.part, d.length)

    def elements_of(self, item):
        _, first, last, low, high = self.span(item)
        return (last - first) * (high - low)

    def walk_row(self, actions, item, lane, totals):
        fn, d = self.fn, self.d
        row, first, last, low, high = self.span(item)
        inner = {k: a for k, a in actions.items() if type(a) is SegmentSum}
        with fn.loop(first, last) as segment:
            self.starts = {"element": row * d.row_step + segment * d.segment_step}
            self.segment = (row % d.period) * d.segments + segment
            if inner:
                # few and short: the first thread of the team sums them alone
                with fn.when(lane == 0):
                    self.sum_segment(actions, inner, low, high, totals, row, segment)
            else:
                self.run_over(actions, low, high, lane, totals, self.is_aligned)

    def sum_segment(self, actions, inner, low, high, totals, row, segment):
        fn = self.fn
        own = {k: fn.var(fn.value(0.0, "double")) for k in inner}
        names = [n for n in self.names_of(actions) if n.startswith("row ")]
        numbers = {n: self.values[n[4:]] for n in names}
        self.elements_by(actions, numbers, low, high, fn.value(1, I64), totals | own, 1)
        for name, cell in own.items():
            value = narrowed(fn, cell.get(), self.type)
            fn.store(value, self.place(name, row * self.d.segments + segment))

    def fetched(self, name, code, i, w):
        if self.program.operands[name][1] == "segment":
            return load_element(self.fn, self.place(name, self.segment), code, w, "s")
        return super().fetched(name, code, i, w)


class Columns(Walk):
    """Rows that run across memory: a thread per row, neighbours side by side."""

    def __init__(self, kernel, program, compute):
        arguments = [kernel.argument(1 + k) for k in range(len(kernel.kinds) - 1)]
        super().__init__(SimpleNamespace(fn=kernel.fn, arguments=arguments), program, compute)
        self.kernel, self.width = kernel, 1
        fields = descriptions.Columns._fields
        self.d = descriptions.Columns(*[kernel.word(k) for k in range(len(fields))])

    def groups(self, fn, word):
        d = descriptions.Columns(*[word(k) for k in range(len(descriptions.Columns._fields))])
        pieces = (d.height + d.length - 1) / d.length
        return (pieces * d.inner + (GROUP - 1)) / GROUP

    def run(self):
        fn, kernel, d = self.fn, self.kernel, self.d
        pieces = (d.height + d.length - 1) / d.length
        step = kernel.groups * GROUP
        with (
            kernel.threads(last=True) as thread,
            fn.loop(kernel.group * GROUP + thread, pieces * d.inner, step) as item,
        ):
            outer = divided(fn, item, d.inner)
            self.column, self.item = item - outer * d.inner, item
            self.n = fn.min(d.length, d.height - outer * d.length)
            self.first = outer * d.length * d.inner + self.column
            self.values = {"n": convert_count(fn, self.n, self.type)} | self.scalars
            for name, (code, place) in self.program.operands.items():
                if place in ("row", "piece"):
                    at = self.place(name, self.index(place))
                    self.values[name] = load_element(fn, at, code, 1, "s")
            for step in self.program.steps:
                (self.between if isinstance(step, Between) else self.pass_over)(step)

    def index(self, place):
        return self.item if place in ("piece", "piece out") else self.column

    def between(self, step):
        found = step.body(self.numbers())
        for name, value in zip(found, self.evaluate(list(found.values()), 1)):
            self.values[name] = value
            code, place = self.program.operands.get(name, ("", ""))
            if place:
                at = self.place(name, self.index(place))
                store_element(self.fn, value, at, code, 1, "c")

    def pass_over(self, step):
        fn = self.fn
        actions = step.body(self.elements(), self.numbers())
        totals = {k: a for k, a in actions.items() if isinstance(a, (Sum, Max))}
        cells = {k: fn.var(self.no_total(a)) for k, a in totals.items()}
        used = self.names_in([a.value for a in actions.values()])
        with fn.loop(0, self.n) as i:
            at = self.first + i * self.d.inner
            values = {}
            for name in used:
                if name.startswith("row "):
                    values[name] = self.values[name[4:]]
                else:
                    code = self.program.operands[name][0]
                    values[name] = load_element(fn, self.place(name, at), code, 1, "c")
            emitter = self.emitter(values, 1)
            for name, action in actions.items():
                if name in cells:
                    value = emitter.emit(action.value)
                    if type(action) is Sum:
                        value = widened(fn, value, "f64")
                    cells[name].set(self.join(type(action), cells[name].get(), value))
                else:
                    code = self.program.operands[name][0]
                    store_element(
                        fn, emitter.emit(action.value), self.place(name, at), code, 1, "c"
                    )
        for name, cell in cells.items():
            value, kind = cell.get(), type(totals[name])
            self.values[name] = narrowed(fn, value, self.type) if kind is Sum else value

    def no_total(self, action):
        """Sums are kept in double."""
        zero = self.zero(type(action), 1)
        return widened(self.fn, zero, "f64") if type(action) is Sum else zero


def _item(code):
    return bytes_of(MEMORY_TYPE[code])


WALKS = {"rows": Rows, "planes": Planes, "columns": Columns}
WORDS = {
    "rows": descriptions.Rows,
    "planes": descriptions.Planes,
    "columns": descriptions.Columns,
}
