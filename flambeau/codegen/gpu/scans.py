"""Scans on a GPU, for the arguments and descriptions of templates/scans.py.

Along rows a team of threads takes a tile of a row: every thread scans a few neighbours, the totals
of threads are scanned in the team, and what came before is combined in when results are written
(most long rows: codegen/gpu/chained.py).
Down columns 32 columns side by side belong to a group, and eight threads share a column in the same
way. A tile that is not full is the last of its stretch, so it does not matter what its spare places
hold; and a state of nothing loses against any element that is combined with it later.
"""

from flambeau.codegen.descriptions_places import ScanColumns, ScanRows
from flambeau.codegen.gpu.pointwise import LINE, divided
from flambeau.codegen.gpu.teams import GROUP, Team, groups_of, stored
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, Module, bytes_of, vector
from flambeau.codegen.templates.scans import _load_state, _offset, _Walk

ACROSS, DOWN = 32, 8  # threads of a group: columns, and threads that share one


def _item(code):
    return bytes_of(MEMORY_TYPE[code]) * (2 if code[0] == "c" else 1)


class _Scan:
    """What kernels of scans share."""

    resident = 3

    def __init__(self, kinds, described, name, source, targets):
        self.module = Module()
        self.kernel = kernel = Kernel(
            self.module, kinds, GROUP, words=len(described._fields), resident=self.resident
        )
        self.fn, self.source, self.targets = kernel.fn, source, targets
        self.d = described(*[kernel.word(k) for k in range(len(described._fields))])
        self.walk = _Walk(kernel, name, source, targets)
        self.types = [LLVM_TYPE[t] for t in self.walk.scan.types]
        self.nothing = self.walk.identity(1)

    def privates(self):
        return [self.kernel.private(t) for t in self.types]

    def combine(self, before, after):
        return self.walk.combine(before, after, 1)

    def get(self, cells, thread):
        return tuple(c.get(thread) for c in cells)

    def set(self, cells, thread, state):
        for cell, value in zip(cells, state):
            cell.set(thread, value)

    def scanned(self, states):
        """Running states of a few neighbours."""
        found = [states[0]]
        for state in states[1:]:
            found.append(self.combine(found[-1], state))
        return found

    def text(self, groups):
        self.kernel.done()
        add_host_entry(self.module, self.kernel, groups)
        return module_text(self.module)


class _Rows(_Scan):
    """Rows, or blocks of rows, each with a team of threads."""

    def __init__(self, kinds, name, source, targets):
        super().__init__(kinds, ScanRows, name, source, targets)
        self.each = 8 if sum(map(bytes_of, self.types)) <= 12 else 4
        self.team = Team(self.kernel, self.d.block, self.each, self.d.pieces)

    def groups(self, fn, word):
        d = ScanRows(*[word(k) for k in range(len(ScanRows._fields))])
        return groups_of(fn, d.block, self.each, d.pieces)

    def span(self, piece):
        """(row, first element of the piece, end)."""
        fn, d = self.fn, self.d
        row = divided(fn, piece, d.blocks)
        low = (piece - row * d.blocks) * d.block
        return row, low, fn.min(low + d.block, d.length)

    def is_aligned(self, bases, codes):
        """Do vectors of all operands start at multiples of their size?"""
        fn, bits = self.fn, None
        for base, code in zip(bases, codes):
            place = fn.pure(f"ptrtoint {base} to i64", I64) | self.d.length * _item(code)
            place = place & (min(LINE, self.each * _item(code)) - 1)
            bits = place if bits is None else bits | place
        return bits == 0

    def load(self, base, at, high, aligned, thread, cells):
        """States of a thread's elements into cells; what lies beyond the end is the last again."""
        fn, walk, each = self.fn, self.walk, self.each

        def wide():
            fn.vector_align = LINE
            position = fn.splat(at, each) + fn.iota(vector(I64, each))
            states = walk.load(base, at, position, each)
            fn.vector_align = None
            for k, place in enumerate(cells):
                self.set(place, thread, [fn.extract(s, k) for s in states])

        def singly():
            for k, place in enumerate(cells):
                here = fn.min(at + k, high - 1)
                self.set(place, thread, walk.load(base, here, here, 1))

        fn.if_else(aligned & (at + each <= high), wide, singly)

    def store(self, bases, at, high, aligned, states):
        fn, walk, each = self.fn, self.walk, self.each

        def wide():
            fn.vector_align = LINE
            parts = []
            for type, values in zip(self.types, zip(*states)):
                lanes = fn.value(0, vector(type, each))
                for k, value in enumerate(values):
                    lanes = fn.insert(lanes, value, k)
                parts.append(lanes)
            walk.store(bases, at, parts, each)
            fn.vector_align = None

        def singly():
            for k, state in enumerate(states):
                with fn.when(at + k < high):
                    walk.store(bases, at + k, state, 1)

        fn.if_else(aligned & (at + each <= high), wide, singly)

    def tiles(self, x, first, carry, aligned, outs=None):
        """Scan the pieces that a group has at a time; without outs only to the end: their total."""
        fn, kernel, d, team, each = self.fn, self.kernel, self.d, self.team, self.each
        cells = [self.privates() for _ in range(each)]
        total, before = self.privates(), self.privates()
        with fn.loop(0, d.block, team.size * each) as start:
            with kernel.threads(last=True) as thread:
                piece, lane = team.mine(first, thread)
                row, low, high = self.span(fn.min(piece, d.pieces - 1))
                base = _offset(fn, x, row * d.length, self.source)
                at = low + start + lane * each
                self.load(base, at, high, aligned, thread, cells)
                local = self.scanned([self.get(c, thread) for c in cells])
                for place, state in zip(cells, local):
                    self.set(place, thread, state)
                self.set(total, thread, local[-1])
            team.scan(total, before, self.combine, self.nothing)
            with kernel.threads(last=True) as thread:
                known = self.get(carry, thread)
                if outs is not None:
                    self.write(outs, first, start, thread, cells, before, known, aligned)
                self.set(carry, thread, self.combine(known, self.get(total, thread)))

    def write(self, outs, first, start, thread, cells, before, known, aligned):
        fn, d = self.fn, self.d
        piece, lane = self.team.mine(first, thread)
        with fn.when(piece < d.pieces):
            row, low, high = self.span(piece)
            bases = [_offset(fn, o, row * d.length, c) for o, c in zip(outs, self.targets)]
            earlier = self.combine(known, self.get(before, thread))
            states = [self.combine(earlier, self.get(c, thread)) for c in cells]
            self.store(bases, low + start + lane * self.each, high, aligned, states)


def build_scan_rows(name, source, targets):
    """Both texts: scan rows or blocks of rows: (targets..., source, totals)."""
    program = _Rows("p" * (len(targets) + 3), name, source, targets)
    fn, kernel, d, team = program.fn, program.kernel, program.d, program.team
    *outs, x, totals = (kernel.argument(1 + k) for k in range(len(targets) + 2))
    aligned = program.is_aligned([*outs, x], [*targets, source])
    carry, spare = program.privates(), program.privates()
    with team.items(d.pieces) as first:
        with kernel.threads(last=True) as thread:
            program.set(carry, thread, program.nothing)
        with fn.when(d.blocks > 1):
            # such blocks are long: a group each
            with kernel.threads(last=True) as thread:
                _sum_blocks(program, totals, first, thread, carry)
            team.scan(carry, spare, program.combine, program.nothing)
        program.tiles(x, first, carry, aligned, outs)
    return program.text(program.groups)


def _sum_blocks(program, totals, piece, thread, carry):
    """The total of a share of the blocks before a piece, threads in order."""
    fn, walk, blocks = program.fn, program.walk, program.d.blocks
    row = divided(fn, piece, blocks)
    number = piece - row * blocks
    share = (number + (GROUP - 1)) / GROUP
    first = fn.min(thread * share, number)
    with fn.loop(first, fn.min(first + share, number)) as k:
        at = (row * blocks + k) * len(program.types)
        after = _load_state(fn, walk, totals, at)
        program.set(carry, thread, program.combine(program.get(carry, thread), after))


def build_scan_totals(name, source, targets):
    """Both texts: the state of each block: (totals, source)."""
    program = _Rows("ppp", name, source, targets)
    fn, kernel, d, team = program.fn, program.kernel, program.d, program.team
    totals, x = kernel.argument(1), kernel.argument(2)
    aligned = program.is_aligned([x], [source])
    carry = program.privates()
    with team.items(d.pieces) as first:
        with kernel.threads(last=True) as thread:
            program.set(carry, thread, program.nothing)
        program.tiles(x, first, carry, aligned)
        with kernel.threads(last=True) as thread:
            piece, lane = team.mine(first, thread)
            with fn.when((piece < d.pieces) & (lane == 0)):
                for k, cell in enumerate(carry):
                    place = fn.gep(totals, piece * len(carry) + k, I64)
                    fn.store(cell.get(thread), place, 8)
    return program.text(program.groups)


# -- columns ---------------------------------------------------------------------------------------


class _Columns(_Scan):
    """Columns side by side; threads of a column take a few rows each."""

    def __init__(self, kinds, name, source, targets):
        super().__init__(kinds, ScanColumns, name, source, targets)
        self.each = 8 if sum(map(bytes_of, self.types)) <= 8 else 4
        self.places = [self.kernel.shared(stored(t), GROUP) for t in self.types]

    def groups(self, fn, word):
        d = ScanColumns(*[word(k) for k in range(len(ScanColumns._fields))])
        return ((d.chunks / d.groups) * d.inner + (ACROSS - 1)) / ACROSS

    def run(self, outs, x):
        fn, kernel, d = self.fn, self.kernel, self.d
        columns = (d.chunks / d.groups) * d.inner
        cells = [self.privates() for _ in range(self.each)]
        carry = self.privates()
        with fn.loop(kernel.group * ACROSS, columns, kernel.groups * ACROSS) as first:
            with kernel.threads(last=True) as thread:
                self.set(carry, thread, self.nothing)
            with fn.loop(0, d.length, DOWN * self.each) as start:
                with kernel.threads() as thread:
                    base = self.start_of(fn.min(first + thread % ACROSS, columns - 1))
                    self.load(x, base, start + (thread / ACROSS) * self.each, thread, cells)
                with kernel.threads() as thread:
                    column = first + thread % ACROSS
                    before = self.settle(thread, carry)
                    with fn.when(column < columns):
                        base, row = self.start_of(column), start + (thread / ACROSS) * self.each
                        for k, place in enumerate(cells):
                            state = self.combine(before, self.get(place, thread))
                            with fn.when(row + k < d.length):
                                self.walk.store(outs, base + (row + k) * d.inner, state, 1)

    def start_of(self, column):
        outer = divided(self.fn, column, self.d.inner)
        return outer * self.d.length * self.d.inner + (column - outer * self.d.inner)

    def load(self, x, base, row, thread, cells):
        """Running states of a thread's rows into cells, the last one for all to see."""
        fn, d = self.fn, self.d
        states = []
        for k in range(self.each):
            here = fn.min(row + k, d.length - 1)
            states.append(self.walk.load(x, base + here * d.inner, here, 1))
        local = self.scanned(states)
        for place, state in zip(cells, local):
            self.set(place, thread, state)
        for place, value in zip(self.places, local[-1]):
            fn.store(value, fn.gep(place, thread, stored(value.type)))

    def settle(self, thread, carry):
        """The state before a thread's rows; carry becomes the one after all of the tile."""
        fn, slot = self.fn, thread / ACROSS
        total = mine = self.get(carry, thread)
        for k in range(DOWN):
            mine = [fn.select(slot == k, a, b) for a, b in zip(total, mine)]
            at = thread % ACROSS + k * ACROSS
            part = [
                fn.load(fn.gep(place, at, stored(t)), t)
                for place, t in zip(self.places, self.types)
            ]
            total = self.combine(total, part)
        self.set(carry, thread, total)
        return mine


def build_scan_columns(name, source, targets):
    """Both texts: scan down columns that lie side by side: (targets..., source, nothing)."""
    program = _Columns("p" * (len(targets) + 3), name, source, targets)
    *outs, x, _ = (program.kernel.argument(1 + k) for k in range(len(targets) + 2))
    program.run(outs, x)
    return program.text(program.groups)
