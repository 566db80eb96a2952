"""Reductions on a GPU, for the arguments and descriptions of templates/reduction.py.

Along rows a team of threads takes a row (or a piece of one): every thread joins elements a team's
width apart into a state of its own, then the states are joined. Down columns neighbouring threads
take neighbouring columns, eight of them share a column, and their states are joined in shared
memory. What a row computes is never told apart from what it computes on the host.
"""

from flambeau.codegen.gpu.pointwise import LINE, divided
from flambeau.codegen.gpu.teams import GROUP, Team, groups_of, stored
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import LLVM_TYPE
from flambeau.codegen.loops import I64, V
from flambeau.codegen.templates import reduction as host
from flambeau.codegen.templates.reduction import HEADER, Reducing, Shape, fn_zero

UNROLL = 4  # vectors that a thread has on the way
ACROSS, DOWN = 32, 8  # threads of a group: columns, and threads that share one
ROWS, PIECES, LENGTH = (Reducing._fields.index(n) for n in ("rows", "pieces", "length"))


class _OnDevice:
    """What kernels on a GPU do in another way than programs of the host."""

    def begin(self):
        """Replace the body of the host by a kernel, with the same words under the same names."""
        kept, reduced = self.shape.kept, self.shape.reduced
        words = HEADER + 3 * kept + 2 * reduced
        self.module.functions.clear()
        self.kernel = kernel = Kernel(self.module, self.kinds, GROUP, words=words)
        self.fn, self.description, self.block = kernel.fn, kernel.description, kernel.block
        self.outs = [kernel.argument(1 + k) for k in range(self.n_out)]
        self.ins = [kernel.argument(1 + self.n_out + k) for k in range(self.n_in)]
        first = 1 + self.n_out + self.n_in
        self.scalars = [kernel.argument(first + k) for k in range(len(self.r.scalars))]
        for k, name in enumerate(Reducing._fields):
            setattr(self, name, kernel.word(k))
        at = HEADER
        for name, count in (
            ("kept_sizes", kept), ("kept_strides", kept), ("kept_outs", kept),
            ("reduced_sizes", reduced), ("reduced_strides", reduced),
        ):  # fmt: skip
            setattr(self, name, [kernel.word(at + k) for k in range(count)])
            at += count

    def offsets(self, index, sizes, *tables):
        fn, rest = self.fn, index
        sums = [fn_zero(fn) for _ in tables]
        for d in range(len(sizes) - 1, -1, -1):
            coordinate = rest
            if d:
                quotient = divided(fn, rest, sizes[d])
                coordinate, rest = rest - quotient * sizes[d], quotient
            sums = [s + coordinate * t[d] for s, t in zip(sums, tables)]
        return sums

    def private_totals(self):
        return [self.kernel.private(LLVM_TYPE[t]) for t in self.wide.state]

    def join_wide(self, a, b):
        types = self.wide.state
        return self.emit(1, self.wide.join, (a, types), (b, types))

    def total_runs(self):
        rows = V(self.fn, I64, "1")
        for size in self.reduced_sizes:
            rows = rows * size
        return rows


class RowKernel(_OnDevice, host.RowProgram):
    """A team of threads per row, or per piece of one."""

    def text(self):
        self.begin()
        fn, kernel = self.fn, self.kernel
        items = self.rows * self.pieces
        team = Team(kernel, self._elements(), self.width, items)
        totals = self.private_totals()
        with team.items(items) as first:
            with kernel.threads(last=True) as thread:
                item, lane = team.mine(first, thread)
                self._start(thread, totals)
                with fn.when(item < items):
                    row, part = divided(fn, item, self.pieces), None
                    part = item - row * self.pieces
                    start, _ = self.offsets(row, self.kept_sizes, self.kept_strides, self.kept_outs)
                    state = self._reduce(self.moved(self.ins, start), part, lane, team.size)
                    for cell, value in zip(totals, state):
                        cell.set(thread, value)
            team.join(totals, self.join_wide)
            with kernel.threads(last=True) as thread:
                item, lane = team.mine(first, thread)
                with fn.when((item < items) & (lane == 0)):
                    self._finish(item, [c.get(thread) for c in totals])
        kernel.done()
        add_host_entry(self.module, kernel, self._groups, self.describe)
        return module_text(self.module)

    def _elements(self):
        """Of a row, as far as teams care."""
        return self.fn.min(self.length, self.piece) if not self.shape.reduced else self.length

    def _groups(self, fn, word):
        length = word(LENGTH)
        if not self.shape.reduced:
            length = fn.min(length, word(Reducing._fields.index("piece")))
        return groups_of(fn, length, self.width, word(ROWS) * word(PIECES))

    def _start(self, thread, totals):
        for cell, value in zip(totals, self.emit(1, lambda: self.wide.start())):
            cell.set(thread, value)

    def _reduce(self, bases, part, lane, size):
        """The state of one thread: elements of its share."""
        fn = self.fn
        low = part * self.piece
        if not self.shape.reduced:
            high = fn.min(low + self.piece, self.length)
            return self._run(bases, low, high, fn_zero(fn), lane, size)
        high = fn.min(low + self.piece, self.total_runs())
        cells = [fn.var(v) for v in self.emit(1, lambda: self.wide.start())]
        with fn.loop(low, high) as k:
            (offset,) = self.offsets(k, self.reduced_sizes, self.reduced_strides)
            moved = self.moved(bases, offset)
            state = self._run(moved, fn_zero(fn), self.length, k * self.length, lane, size)
            joined = self.join_wide([c.get() for c in cells], state)
            for cell, value in zip(cells, joined):
                cell.set(value)
        return [c.get() for c in cells]

    def _run(self, bases, low, high, base_index, lane, size):
        """Elements low to high along the innermost dimension, as far as they are this thread's."""
        fn, w = self.fn, self.width
        wide = self.shape.access == "c" and w > 1
        cells = [self.cells(w if wide else 1) for _ in range(UNROLL)]
        if not wide:
            self._scalars(bases, low + lane, high, size, base_index, cells)
            return self._joined(cells, 1)
        whole = low + ((high - low) / w) * w
        aligned = self._is_aligned(bases, low)

        def vectors(align):
            def write():
                fn.vector_align = align
                step = size * w
                self._vectors(bases, low + lane * w, whole, step, base_index, cells)
                fn.vector_align = None

            return write

        fn.if_else(aligned, vectors(LINE), vectors(None))
        state = self._joined(cells, w)
        rest = [self.cells(1)]
        self._scalars(bases, whole + lane, high, size, base_index, rest)
        return self.join_wide(state, self._joined(rest, 1))

    def _is_aligned(self, bases, low):
        bits = None
        for k, base in enumerate(self.at(bases, low, "c")):
            del k
            place = self.fn.pure(f"ptrtoint {base} to i64", I64)
            bits = place if bits is None else bits | place
        return (bits & (LINE - 1)) == 0

    def _vectors(self, bases, first, high, step, base_index, cells):
        """Whole vectors, several at a time while there are so many."""
        fn = self.fn
        many = step * len(cells)
        end = fn.var(first)
        with fn.while_(lambda: (end.get() + step * (len(cells) - 1)) < high):
            at = end.get()
            for k, state in enumerate(cells):
                self.take(bases, at + step * k, base_index, state, None)
            end.set(at + many)
        with fn.loop(end.get(), high, step) as i:
            self.take(bases, i, base_index, cells[0], None)

    def _scalars(self, bases, first, high, step, base_index, cells):
        width, self.width = self.width, 1
        self._vectors(bases, first, high, step, base_index, cells)
        self.width = width

    def _joined(self, cells, w):
        width, self.width = self.width, w
        state = self.across([[c.get() for c in state] for state in cells])
        self.width = width
        return self.widened(1, state)

    def _finish(self, item, total):
        fn = self.fn
        row = divided(fn, item, self.pieces)
        if self.shape.sink == "states":
            out = (item - row * self.pieces) * self.rows + row
        else:
            _, out = self.offsets(row, self.kept_sizes, self.kept_strides, self.kept_outs)
        self.put(1, total, out, "c", None)


class ColumnKernel(_OnDevice, host.ColumnProgram):
    """Threads side by side take columns side by side."""

    def text(self):
        self.begin()
        fn, kernel = self.fn, self.kernel
        self.width = 1
        blocks = (self.length + (ACROSS - 1)) / ACROSS
        totals = self.private_totals()
        places = [kernel.shared(stored(LLVM_TYPE[t]), GROUP) for t in self.wide.state]
        count = blocks * self.rows * self.pieces
        with fn.loop(kernel.group, count, kernel.groups) as item:
            with kernel.threads() as thread:
                where = self._where(item, blocks, thread)
                self._reduce(thread, where, totals)
                for cell, place in zip(totals, places):
                    at = fn.gep(place, thread, stored(cell.type))
                    fn.store(cell.get(thread), at)
            with kernel.threads() as thread:
                column, part, row, slot = self._where(item, blocks, thread)
                with fn.when((slot == 0) & (column < self.length)):
                    self._finish(thread, column, part, row, totals, places)
        kernel.done()
        add_host_entry(self.module, kernel, _column_groups)
        return module_text(self.module)

    def _where(self, item, blocks, thread):
        """(column, piece, row of what is kept, which of the threads of the column)."""
        fn = self.fn
        rest = divided(fn, item, blocks)
        column = (item - rest * blocks) * ACROSS + thread % ACROSS
        row = divided(fn, rest, self.pieces)
        return column, rest - row * self.pieces, row, thread / ACROSS

    def _reduce(self, thread, where, totals):
        fn = self.fn
        column, part, row, slot = where
        for cell, value in zip(totals, self.emit(1, lambda: self.wide.start())):
            cell.set(thread, value)
        with fn.when(column < self.length):
            start, _ = self.offsets(row, self.kept_sizes, self.kept_strides, self.kept_outs)
            bases = self.at(self.moved(self.ins, start), column, self.shape.access)
            first = part * self.piece
            last = fn.min(first + self.piece, self.total_runs())
            cells = [self.cells(1) for _ in range(UNROLL)]
            self._walk(bases, first + slot, last, cells)
            state = self.across([[c.get() for c in state] for state in cells])
            for cell, value in zip(totals, self.widened(1, state)):
                cell.set(thread, value)

    def across(self, states):
        while len(states) > 1:
            half = len(states) // 2
            states = [self.join(1, a, b) for a, b in zip(states[:half], states[half:])]
        return states[0]

    def _walk(self, bases, first, last, cells):
        fn = self.fn
        at = fn.var(first)
        with fn.while_(lambda: (at.get() + DOWN * (UNROLL - 1)) < last):
            here = at.get()
            for k, state in enumerate(cells):
                self._take(bases, here + DOWN * k, state)
            at.set(here + DOWN * UNROLL)
        with fn.loop(at.get(), last, DOWN) as k:
            self._take(bases, k, cells[0])

    def _take(self, bases, k, cells):
        (offset,) = self.offsets(k, self.reduced_sizes, self.reduced_strides)
        x = self.load(self.moved(bases, offset), 1, self.shape.access, None)
        new = self.step(1, [c.get() for c in cells], x, k, None)
        for cell, value in zip(cells, new):
            cell.set(value)

    def _finish(self, thread, column, part, row, totals, places):
        fn = self.fn
        total = [cell.get(thread) for cell in totals]
        for slot in range(1, DOWN):
            other = [
                fn.load(fn.gep(place, thread + slot * ACROSS, stored(c.type)), c.type)
                for c, place in zip(totals, places)
            ]
            total = self.join_wide(total, other)
        if self.shape.sink == "states":
            out = (part * self.rows + row) * self.length + column
        else:
            _, out = self.offsets(row, self.kept_sizes, self.kept_strides, self.kept_outs)
            out = out + column * self.out_stride
        self.put(1, total, out, "c", None)


def _column_groups(fn, word):
    return ((word(LENGTH) + (ACROSS - 1)) / ACROSS) * word(ROWS) * word(PIECES)


class JoinKernel(ColumnKernel, host.JoinProgram):
    """The second launch, over the states of pieces."""


def build_rows(r, shape):
    """Both texts of a reduction along rows."""
    program = RowKernel(r, Shape(*shape))
    if shape[:5] == (0, 0, "c", "elements", "results"):
        program.describe = host._describe_whole
    return program.text()


def build_columns(r, shape, out_access):
    """Both texts of a reduction down columns."""
    return ColumnKernel(r, Shape(*shape)).text()


def build_join(r, shape, out_access):
    """Both texts of the second launch."""
    return JoinKernel(r.wide or r, Shape(*shape)).text()
