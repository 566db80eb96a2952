"""Reductions on a GPU, for the arguments and descriptions of templates/reduction.py.

Along rows a team of threads takes a row (or a piece of one): every thread joins elements a team's
width apart into a state of its own, then the states are joined. Down columns neighbouring threads
take neighbouring columns, eight of them share a column, and their states are joined in shared
memory. What a row computes is never told apart from what it computes on the host.
"""

from flambeau.codegen import scalar
from flambeau.codegen.gpu.pointwise import LINE, divided
from flambeau.codegen.gpu.teams import GROUP, Team, groups_of, stored
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, V, bytes_of, vector
from flambeau.codegen.templates import reduction as host
from flambeau.codegen.templates.reduction import HEADER, Reducing, Shape, fn_zero

UNROLL = 4  # vectors that a thread has on the way
SHARED = 1 << 15  # bytes of shared memory for states of columns
ROWS, PIECES, LENGTH = (Reducing._fields.index(n) for n in ("rows", "pieces", "length"))


class _OnDevice:
    """What kernels on a GPU do in another way than programs of the host."""

    def begin(self):
        """Replace the body of the host by a kernel, with the same words under the same names."""
        kept, reduced = self.shape.kept, self.shape.reduced
        words = HEADER + 3 * kept + 2 * reduced
        self.module.functions.clear()
        self.kernel = kernel = Kernel(self.module, self.kinds, GROUP, words=words, resident=4)
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
        cells = [self.cells(w if wide else 1) for _ in range(self.chains())]
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
        end = fn.var(first)
        with fn.while_(lambda: (end.get() + step * (UNROLL - 1)) < high):
            at = end.get()
            self.take_all(bases, [at + step * k for k in range(UNROLL)], base_index, cells)
            end.set(at + step * UNROLL)
        with fn.loop(end.get(), high, step) as i:
            self.take_all(bases, [i], base_index, cells)

    def chains(self):
        """States side by side: several where they are small."""
        return UNROLL if self.n_state == 1 and self.r.input[0] != "c" else 1

    def take_all(self, bases, places, base_index, cells):
        """A few vectors, all of which are loaded first."""
        fn, w, access = self.fn, self.width, self.shape.access
        loaded = [self.load(self.at(bases, i, access), w, access, None) for i in places]
        for k, (i, x) in enumerate(zip(places, loaded)):
            index, state = i + base_index, cells[k % len(cells)]
            if w > 1:
                index = fn.splat(index, w) + fn.iota(vector(I64, w))
            new = self.step(w, self.gathered(state), x, index, None)
            for cell, value in zip(state, new):
                cell.set(value)

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
    """Threads side by side take columns side by side, a vector of them each if they can."""

    across, down = 32, 8  # threads of a group: columns, and threads that share one

    def text(self):
        self.begin()
        wide = self.lanes()
        if wide == 1:
            self.columns(1)
        else:
            fits = self._is_aligned() & ((self.length & (wide - 1)) == 0)
            self.fn.if_else(fits, lambda: self.columns(wide), lambda: self.columns(1))
        self.kernel.done()
        add_host_entry(self.module, self.kernel, self._groups)
        return module_text(self.module)

    def lanes(self):
        """Columns of a thread, if they lie side by side: as many as there is shared memory for."""
        item = bytes_of(MEMORY_TYPE[self.r.input]) * (2 if self.r.input[0] == "c" else 1)
        if self.shape.access != "c" or self.shape.source == "states" or item > LINE // 2:
            return 1
        found, size = LINE // item, sum(bytes_of(stored(LLVM_TYPE[t])) for t in self.wide.state)
        while found > 1 and found * size * GROUP > SHARED:
            found //= 2
        return found

    def _is_aligned(self):
        bits = self.fn.pure(f"ptrtoint {self.ins[0]} to i64", I64)
        for stride in (*self.kept_strides, *self.reduced_strides):
            bits = bits | stride
        return (bits & (LINE - 1)) == 0

    def _groups(self, fn, word):
        many = self.across * self.lanes()
        return ((word(LENGTH) + (many - 1)) / many) * word(ROWS) * word(PIECES)

    def columns(self, w):
        """All columns, w to a thread."""
        fn, kernel = self.fn, self.kernel
        blocks = (self.length + (self.across * w - 1)) / (self.across * w)
        totals = [self.private_totals() for _ in range(w)]
        places = [
            [kernel.shared(stored(LLVM_TYPE[t]), GROUP) for t in self.wide.state] for _ in range(w)
        ]
        count = blocks * self.rows * self.pieces
        with fn.loop(kernel.group, count, kernel.groups) as item:
            with kernel.threads() as thread:
                self._reduce(thread, self._where(item, blocks, thread, w), totals, w)
                for cells, shelves in zip(totals, places):
                    for cell, place in zip(cells, shelves):
                        at = fn.gep(place, thread, stored(cell.type))
                        fn.store(cell.get(thread), at)
            with kernel.threads() as thread:
                column, part, row, slot = self._where(item, blocks, thread, w)
                with fn.when((slot == 0) & (column < self.length)):
                    for k in range(w):
                        self._finish(thread, column + k, part, row, totals[k], places[k])

    def _where(self, item, blocks, thread, w):
        """(column, piece, row of what is kept, which of the threads of the column)."""
        fn = self.fn
        rest = divided(fn, item, blocks)
        column = ((item - rest * blocks) * self.across + thread % self.across) * w
        row = divided(fn, rest, self.pieces)
        return column, rest - row * self.pieces, row, thread / self.across

    def _reduce(self, thread, where, totals, w):
        fn = self.fn
        column, part, row, slot = where
        for cells in totals:
            for cell, value in zip(cells, self.emit(1, lambda: self.wide.start())):
                cell.set(thread, value)
        with fn.when(column < self.length):
            start, _ = self.offsets(row, self.kept_sizes, self.kept_strides, self.kept_outs)
            bases = self.at(self.moved(self.ins, start), column, self.shape.access)
            first = part * self.piece
            last = fn.min(first + self.piece, self.total_runs())
            state = self.cells(w)
            fn.vector_align = LINE
            self._walk(bases, first + slot, last, state, w)
            fn.vector_align = None
            found = self.widened(w, [c.get() for c in state])
            for k, cells in enumerate(totals):
                for cell, value in zip(cells, found):
                    cell.set(thread, fn.extract(value, k))

    def _walk(self, bases, first, last, state, w):
        fn, down = self.fn, self.down
        at = fn.var(first)
        with fn.while_(lambda: (at.get() + down * (UNROLL - 1)) < last):
            here = at.get()
            self._take(bases, [here + down * k for k in range(UNROLL)], state, w)
            at.set(here + down * UNROLL)
        with fn.loop(at.get(), last, down) as k:
            self._take(bases, [k], state, w)

    def _take(self, bases, places, state, w):
        """Elements of a few rows, all of which are loaded first."""
        loaded = []
        for k in places:
            (offset,) = self.offsets(k, self.reduced_sizes, self.reduced_strides)
            loaded.append(self.load(self.moved(bases, offset), w, self.shape.access, None))
        for k, x in zip(places, loaded):
            new = self.step(w, [c.get() for c in state], x, k, None)
            for cell, value in zip(state, new):
                cell.set(value)

    def _finish(self, thread, column, part, row, totals, places):
        fn = self.fn
        total = [cell.get(thread) for cell in totals]
        for slot in range(1, self.down):
            other = [
                fn.load(fn.gep(place, thread + slot * self.across, stored(c.type)), c.type)
                for c, place in zip(totals, places)
            ]
            total = self.join_wide(total, other)
        if self.shape.sink == "states":
            out = (part * self.rows + row) * self.length + column
        else:
            _, out = self.offsets(row, self.kept_sizes, self.kept_strides, self.kept_outs)
            out = out + column * self.out_stride
        self.put(1, total, out, "c", None)


class JoinKernel(ColumnKernel, host.JoinProgram):
    """The second launch, over the states of pieces: many, of few results."""

    across, down = 8, 32


def _narrow(r):
    """Variances of float32: a thread adds its few distances from an element up in float32, so that
    it loads whole vectors; all that is joined is joined in double, as on the host.
    """
    if r.input != "f32" or r.state != ("f64",) * 4 or r.wide is not None or r.indexed:
        return r

    def short(function):
        return lambda *given: tuple(scalar.cast(v, "f32") for v in function(*given))

    start, step, join = (short(f) for f in (r.start, r.step, r.join))
    return r._replace(state=("f32",) * 4, start=start, step=step, join=join, wide=r)


def build_rows(r, shape):
    """Both texts of a reduction along rows."""
    program = RowKernel(_narrow(r), Shape(*shape))
    if shape[:5] == (0, 0, "c", "elements", "results"):
        program.describe = host._describe_whole
    return program.text()


def build_columns(r, shape, out_access):
    """Both texts of a reduction down columns."""
    return ColumnKernel(_narrow(r), Shape(*shape)).text()


def build_join(r, shape, out_access):
    """Both texts of the second launch."""
    return JoinKernel(r.wide or r, Shape(*shape)).text()
