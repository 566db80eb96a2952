"""Row programs on a GPU: the language of templates/rows.py, with a team of threads per row.

Walks and descriptions are those of the host: rows side by side (here), rows in segments
(`rows_planes.py`), rows across memory (`rows_columns.py`). Rows that are short enough stay in
registers from the first pass to the last. Tallies are summed by threads that each take a position.
"""

from flambeau.codegen import descriptions
from flambeau.codegen.gpu.pointwise import LINE
from flambeau.codegen.gpu.row_teams import UNROLL, TeamWalk
from flambeau.codegen.gpu.rows_columns import Columns
from flambeau.codegen.gpu.rows_planes import Planes
from flambeau.codegen.gpu.teams import GROUP, Team, groups_of
from flambeau.codegen.llvm import from_memory, load_element, store_element, to_memory
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import COMPUTE_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, Module, vector
from flambeau.codegen.templates import row_programs
from flambeau.codegen.templates.rows import Between, Pass, Sum, SumExp, Tallies

ROOM = 4  # vectors of each operand that a thread keeps in registers


def build(walk, name, *facts):
    """Both texts of the program of that name for one way of walking."""
    return _text(walk, row_programs.program_of(name, *facts))


def build_joined(walk, name, facts, operands, kinds, head, tail):
    """The same with pointwise work around it, as in templates/row_programs.py."""
    program = row_programs.program_of(name, *facts)
    more = {n: (code, "element") for n, code in operands}
    program = program._replace(operands=program.operands | more, head=head, tail=tail)
    return _text(walk, program, kinds)


def _text(walk, program, more=""):
    first = next(iter(program.operands.values()))[0]
    kinds = "p" * (1 + len(program.operands)) + "f" * len(program.scalars) + more
    module = Module()
    words = len(WALKS[walk].words._fields)
    reads = sum(place == "element" for _, place in program.operands.values()) - 1
    # as many as there are without registers spilling over
    resident = 2 if walk != "rows" or reads > 3 else 3 if reads > 1 else 4
    kernel = Kernel(module, kinds, GROUP, words=words, resident=resident)
    found = WALKS[walk](kernel, program, COMPUTE_TYPE[first])
    found.run()
    kernel.done()
    add_host_entry(module, kernel, found.groups)
    return module_text(module)


class AnyNumber:
    """Numbers of a row of any name, for those who only look at what a step does."""

    def __init__(self, walk):
        self.walk = walk

    def __getattr__(self, name):
        return self.walk.symbol("row " + name)


class Rows(TeamWalk):
    """Rows side by side in memory; threads keep the elements of rows that are short enough."""

    words = descriptions.Rows

    def __init__(self, kernel, program, compute):
        super().__init__(kernel, program, compute)
        self.kept = None  # elements in registers: name -> a Private per vector
        self.sources = self.read_only()

    def read_only(self):
        """Elements that passes read, and none of them writes."""
        read, written = set(), set()
        for step in self.program.steps:
            if isinstance(step, Pass):
                actions = step.body(self.elements(), AnyNumber(self))
                read.update(self.names_of(actions))
                written.update(actions)
        places = self.program.operands.items()
        return [n for n, (_, p) in places if p == "element" and n in read and n not in written]

    def run(self):
        fn, kernel, d = self.fn, self.kernel, self.d
        self.n = d.length
        self.team = Team(kernel, d.length, self.width, d.rows, ROOM)
        self.is_aligned = self.aligned(d.length)
        has_rows = any(isinstance(step, (Pass, Between)) for step in self.program.steps)
        tallies = [step for step in self.program.steps if isinstance(step, Tallies)]
        if not tallies:
            with self.team.items(d.rows) as first:
                self.start(first, d.rows)
                self.in_registers(first, d.rows)
            return
        # a group tallies the rows that it has just read: they are still near
        teams = fn.value(GROUP, I64) / self.team.size
        with fn.loop(kernel.group, d.chunks, kernel.groups) as chunk:
            low = chunk * d.per_chunk
            high = fn.min(low + d.per_chunk, d.rows)
            if has_rows:
                with fn.loop(low, high, teams) as first:
                    self.start(first, high)
                    self.in_registers(first, high)
            self.tally(tallies[0], chunk)

    def groups(self, fn, word):
        if any(isinstance(step, Tallies) for step in self.program.steps):
            return word(0)
        return groups_of(fn, word(2), self.width, word(1), ROOM)

    def in_registers(self, first, count):
        """All steps of a group's rows; elements are read once if threads can keep them."""
        fn, w = self.fn, self.width
        if w == 1 or sum(isinstance(step, Pass) for step in self.program.steps) < 2:
            self.steps(first, count)
            return
        fits = (self.n <= self.team.size * (w * ROOM)) & ((self.n & (w - 1)) == 0)

        def keeping():
            self.keep(first, count)
            self.steps(first, count)
            self.kept = None

        fn.if_else(fits & self.is_aligned, keeping, lambda: self.steps(first, count))

    def keep(self, first, count):
        """Load the elements of a row, all of a thread's on the way at once."""
        fn, w, codes = self.fn, self.width, self.program.operands
        head, tail = self.program.head, self.program.tail
        names = [n for n in self.sources if head is None or n != head.name]
        names += [n for part in (head, tail) if part is not None for n in part.inputs]
        types = {n: vector(MEMORY_TYPE[codes[n][0]], w) for n in codes}
        self.kept = {n: [self.kernel.private(types[n]) for _ in range(ROOM)] for n in names}
        with self.kernel.threads(last=True) as self.thread:
            item, lane = self.team.mine(first, self.thread)
            self.starts = {"element": fn.min(item, count - 1) * self.n}
            fn.vector_align = LINE

            def load(at):
                for name, cells in self.kept.items():
                    cells[self.slot].set(self.thread, fn.load(self.address(name, at), types[name]))

            self.over_kept(lane, load)
            if head is not None:
                cells = [self.kernel.private(types[head.name]) for _ in range(ROOM)]
                self.over_kept(lane, lambda at: self.keep_head(cells, at, item < count))
                self.kept[head.name] = cells
            fn.vector_align = None

    def keep_head(self, cells, at, is_row):
        """What a head computes, into registers; what others want of it is stored."""
        head, fn = self.program.head, self.fn
        found = self.part_at(head, (), at, self.width)
        code = self.program.operands[head.name][0]
        cells[self.slot].set(self.thread, to_memory(fn, found[0], code))
        if head.outputs or head.is_stored:
            with fn.when(is_row):
                self.store_head(found, at, self.width)

    def begin_pass(self, step):
        super().begin_pass(step)
        if self.kept is not None:
            self.stores_head = self.computes_head = False

    def index(self, place, item):
        return item

    def elements_of(self, item):
        return self.n

    def walk_row(self, actions, item, lane, totals):
        self.starts = {"element": item * self.n, "column": self.fn.value(0, I64)}
        if self.kept is None:
            zero = self.fn.value(0, I64)
            self.run_over(actions, zero, self.n, lane, totals, self.is_aligned)
            return
        fn, w = self.fn, self.width
        numbers = [n for n in self.names_of(actions) if n.startswith("row ")]
        lanes = {n: fn.splat(self.values[n[4:]], w) for n in numbers}
        for total in totals.values():
            total.begin(w)
        powers = [t for t in totals.values() if t.kind is SumExp]
        fn.vector_align = LINE
        if powers:  # the largest number first: nothing has to be scaled then
            self.over_kept(lane, lambda at: powers[0].run.take_top(self.power(actions, lanes, at)))
            self.over_kept(lane, lambda at: powers[0].run.add(self.power(actions, lanes, at)))
        else:
            self.over_kept(lane, lambda at: self.act(actions, lanes, [at], totals, w))
        fn.vector_align = None
        for total in totals.values():
            total.end(w)

    def over_kept(self, lane, act):
        """act(place) for all elements of a thread in registers."""
        step, at = self.team.size * self.width, lane * self.width
        for k in range(ROOM):
            at, self.slot = at + step if k else at, k
            with self.fn.when(at < self.n):
                act(at)

    def power(self, actions, lanes, at):
        """The exponent of a pass that adds up exponentials and does nothing else."""
        (action,) = actions.values()
        values = self.fetched_all(actions, lanes, at, self.width)
        return self.emitter(values, self.width).emit(action.value)

    def fetched(self, name, code, i, w):
        if self.kept is not None and name in self.kept:
            raw = self.kept[name][self.slot].get(self.thread)
            return from_memory(self.fn, raw, code)
        return super().fetched(name, code, i, w)

    def tally(self, step, chunk):
        """Totals per position over the rows of a chunk: threads side by side take positions."""
        fn, w = self.fn, self.width
        with self.kernel.threads(last=True) as thread:
            if w == 1:
                self.tally_by(step, chunk, thread, 1)
                return

            def vectors():
                fn.vector_align = LINE
                self.tally_by(step, chunk, thread, w)
                fn.vector_align = None

            whole = self.is_aligned & ((self.n & (w - 1)) == 0)
            fn.if_else(whole, vectors, lambda: self.tally_by(step, chunk, thread, 1))

    def tally_by(self, step, chunk, thread, w):
        fn, d = self.fn, self.d
        low = chunk * d.per_chunk
        high = fn.min(low + d.per_chunk, d.rows)
        self.values = dict.fromkeys(self.held) | {
            n: None for n, (_, place) in self.program.operands.items() if place == "row"
        }
        found = step.body(self.elements(), self.numbers())
        with fn.loop(thread * w, self.n, GROUP * w) as i:
            cells = {n: fn.var(self.zero(Sum, w)) for n in found}

            def take(rows):
                emitters = [self.emitter(self.of_row(found, row, i, w), w) for row in rows]
                for emitter in emitters:
                    for name, e in found.items():
                        cells[name].set(self.contribute(emitter, Sum, e, cells[name].get()))

            row = fn.var(low)
            with fn.while_(lambda: (row.get() + (UNROLL - 1)) < high):
                here = row.get()
                take([here + k for k in range(UNROLL)])
                row.set(here + UNROLL)
            with fn.loop(row.get(), high) as last:
                take([last])
            for name, cell in cells.items():
                at = self.place(name, chunk * self.n + i)
                store_element(fn, cell.get(), at, self.program.operands[name][0], w, "c")

    def of_row(self, found, row, i, w):
        """What tallies name of a row, at a position."""
        fn, values = self.fn, {}
        self.starts = {"element": row * self.n, "column": fn.value(0, I64)}
        head = self.program.head
        for name in self.names_in(found.values()):
            if head is not None and name == head.name:  # others may not have stored it yet
                values[name] = self.part_at(head, (), i, w)[0]
                continue
            plain = name.removeprefix("row ")
            code = self.program.operands[plain][0]
            if plain == name:
                values[name] = load_element(fn, self.address(name, i), code, w, "c")
            else:
                values[name] = load_element(fn, self.place(plain, row), code, w, "s")
        return values


WALKS = {"rows": Rows, "planes": Planes, "columns": Columns}
