"""Walks through indices on a GPU, for the arguments and descriptions of templates/indexing.py.

A thread takes an element, or a few bytes of a row where one index moves a whole row. What may be
written by several threads is either combined atomically (`build_shared_walk`, where the order of
operations makes no difference, or nobody asked for one), or by one thread in order: all of a column
(`build_columns`), or all that goes to one place, once places are sorted (`build_places`,
`build_runs`). Then results are the same in every run, and the same as the host's.
"""

from flambeau.codegen.descriptions_places import IndexedWalk
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.gpu.together import raised, raised_to, unsigned, updated
from flambeau.codegen.llvm import from_memory, load_element, store_element, to_memory
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import MEMORY_TYPE
from flambeau.codegen.loops import I8, I32, I64, Module, bytes_of, vector
from flambeau.codegen.templates.indexing import HEADER, MOVES, Walk, combine

THREADS = 256
UNITS = (16, 8, 4, 2, 1)  # bytes that a thread moves at once
SEVERAL = 4  # elements of a thread, where they lie side by side
RAISED = ("i32", "u32", "i64", "u64", "f32", "f64")  # what GPUs add to memory
TOGETHER = 8  # additions whose terms are loaded at once


class _Walker:
    """A walk under construction. more: kinds of arguments besides table, list and indices."""

    def __init__(self, walk, more="", indices=None):
        self.walk, self.module = walk, Module()
        self.given = walk.indices if indices is None else indices
        self.kernel = Kernel(self.module, "p" * (3 + self.given) + more, THREADS)
        self.fn, kernel = self.kernel.fn, self.kernel
        self.bases = [kernel.argument(1 + n) for n in range(2 + self.given)]
        self.moves = walk.mode in ("read", "set")
        code = walk.dtype
        self.size = int(code[1:]) if self.moves else _bytes(code)
        k, word = walk.indices, kernel.word
        self.operands = 2 + k
        self.d = IndexedWalk(*[word(n) for n in range(HEADER)])
        self.sizes = [word(HEADER + n) for n in range(k)]
        self.steps = [word(HEADER + k + n) for n in range(k)]
        at = HEADER + 2 * k
        self.inner = [word(at + 2 * n) for n in range(self.operands)]
        self.middle = [word(at + 2 * n + 1) for n in range(self.operands)]
        self.outer = at + 2 * self.operands

    def offsets(self, row, which=None):
        """How far the operands (or those which) have gone at a row."""
        fn, d = self.fn, self.d
        which = range(self.operands) if which is None else which
        found = [fn.var(row * self.middle[m]) for m in which]
        with fn.when(d.rank != 0):
            outside = divided(fn, row, d.middle)
            j, rest = row - outside * d.middle, fn.var(outside)
            for m, cell in zip(which, found):
                cell.set(j * self.middle[m])
            with fn.loop(0, d.rank) as n:
                place = (d.rank - 1 - n) * (1 + self.operands) + self.outer
                size = self.kernel.word(place)
                quotient = divided(fn, rest.get(), size)
                c = rest.get() - quotient * size
                rest.set(quotient)
                for m, cell in zip(which, found):
                    cell.set(cell.get() + c * self.kernel.word(place + 1 + m))
        return [cell.get() for cell in found]

    def alignment(self, which):
        """Bits of all that the addresses of some operands are made of."""
        fn, d = self.fn, self.d
        bits = fn.var(fn.value(0, I64))
        for m in which:
            place = fn.pure(f"ptrtoint {self.bases[m]} to i64", I64)
            bits.set(bits.get() | place | self.middle[m])
        with fn.loop(0, d.rank) as n:
            place = n * (1 + self.operands) + self.outer + 1
            for m in which:
                bits.set(bits.get() | self.kernel.word(place + m))
        return bits.get()

    def placed(self, values):
        """(bytes into the table, is every index in bounds?) of values of indices."""
        fn, total, fine = self.fn, fn_zero(self.fn), None
        for value, size, step in zip(values, self.sizes, self.steps):
            if self.walk.wraps:
                value = value + fn.select(value < 0, size, fn.value(0, I64))
            ok = value.below(size)
            fine = ok if fine is None else fine & ok
            total = total + value * step
        return total, fine

    def offset(self, places, i):
        """The same where indices are at i; places: where they start."""
        fn, found = self.fn, []
        for base, place, along in zip(self.bases[2:], places, self.inner[2:]):
            at = place if self.walk.access == "s" else place + i * along
            found.append(fn.load(fn.gep(base, at, I8), I64, 8))
        return self.placed(found)

    def fail(self):
        self.fn.store(self.fn.value(1, I64), self.kernel.status, 8)

    def each(self, count):
        """A loop over so many items, which all threads of the launch share."""
        kernel = self.kernel
        return self.fn.loop(kernel.group * THREADS + self.thread, count, kernel.groups * THREADS)

    def text(self, per_thread=None):
        kernel = self.kernel
        kernel.done()

        def groups(fn, word):
            count = word(4) * word(5)
            if per_thread is not None:
                count = per_thread(fn, word)
            return (count + (THREADS - 1)) / THREADS

        add_host_entry(self.module, kernel, groups)
        return module_text(self.module)

    # -- one element -------------------------------------------------------------------------------
    def move(self, table, items):
        fn, walk = self.fn, self.walk
        if self.moves:
            target, source = (items, table) if walk.mode == "read" else (table, items)
            fn.store(fn.load(source, MOVES[walk.dtype]), target)
            return
        a, b = (load_element(fn, p, walk.dtype, 1, "c") for p in (table, items))
        store_element(fn, combine(fn, walk, a, b), table, walk.dtype, 1, "c")

    def move_shared(self, table, items):
        """Combine into a place that others combine into at the same time."""
        fn, walk, code = self.fn, self.walk, self.walk.dtype
        type = MEMORY_TYPE[code]
        b = load_element(fn, items, code, 1, "c")
        if walk.mode == "add" and code in RAISED:
            raised(fn, table, b)
            return
        cell = f"i{8 * bytes_of(type)}"

        def new(before):
            a = from_memory(fn, fn.convert("bitcast", before, type), code)
            raw = to_memory(fn, combine(fn, walk, a, b), code)
            return fn.convert("bitcast", raw, cell)

        updated(fn, table, cell, new)


def fn_zero(fn):
    return fn.value(0, I64)


def _bytes(code):
    return bytes_of(MEMORY_TYPE[code]) * (1 + (code[0] == "c"))


def build_walk(*facts):
    """Both texts of a Walk in which no element of the table is written twice."""
    walker = _Walker(Walk(*facts))
    with walker.kernel.threads(last=True) as walker.thread:
        wide = walker.moves and facts[3] == "s" and facts[4] == "c"
        several = walker.moves and facts[3] == facts[4] == "c" and walker.size < 16
        if wide:
            _rows(walker)
        elif several:
            _several(walker, MOVES[walker.walk.dtype], walker.fn.store, walker.move)
        else:
            _elements(walker, walker.move)
    per_row = max(1, 16 // walker.size) if wide else SEVERAL if several else 1
    return walker.text(lambda fn, word: (word(4) * word(5) + (per_row - 1)) / per_row)


def build_shared_walk(*facts):
    """The same where several may be written to one place, in any order."""
    walker = _Walker(Walk(*facts))
    fn, code = walker.fn, walker.walk.dtype
    several = facts[0] == "add" and facts[3] == facts[4] == "c" and code in RAISED

    def add(value, place):
        raised(fn, place, value)

    with walker.kernel.threads(last=True) as walker.thread:
        if several:
            _several(walker, MEMORY_TYPE[code], add, walker.move_shared)
        else:
            _elements(walker, walker.move_shared)
    per_row = SEVERAL if several else 1
    return walker.text(lambda fn, word: (word(4) * word(5) + (per_row - 1)) / per_row)


def _elements(walker, move):
    """A thread per element."""
    fn, d = walker.fn, walker.d
    with walker.each(d.rows * d.length) as at:
        walker.number, row = at, divided(fn, at, d.length)
        i = at - row * d.length
        table, items, *places = walker.offsets(row)
        offset, fine = walker.offset(places, i)

        def one():
            move(
                fn.gep(walker.bases[0], table + offset + i * walker.inner[0], I8),
                fn.gep(walker.bases[1], items + i * walker.inner[1], I8),
            )

        fn.if_else(fine, one, walker.fail)


def _several(walker, e, put, move):
    """Elements side by side, with indices side by side: a few per thread.

    e: their type; put(value, place) writes one, move is for those that are not aligned.
    """
    fn, d = walker.fn, walker.d
    bits = walker.alignment(range(1, walker.operands))
    fits = ((bits & 15) | (d.length & (SEVERAL - 1))) == 0
    pair = vector(I64, 2)

    def together():
        per_row = d.length / SEVERAL
        with walker.each(d.rows * per_row) as at:
            row = divided(fn, at, per_row)
            i = (at - row * per_row) * SEVERAL
            table, items, *places = walker.offsets(row)
            found = [
                [fn.load(fn.gep(base, place + i * 8 + 16 * k, I8), pair, 16) for k in (0, 1)]
                for base, place in zip(walker.bases[2:], places)
            ]
            goal = fn.gep(walker.bases[1], items + i * walker.size, I8)
            lanes, align = vector(e, SEVERAL), min(16, SEVERAL * walker.size)
            reads = walker.walk.mode == "read"
            values = fn.value(0, lanes) if reads else fn.load(goal, lanes, align)
            for k in range(SEVERAL):
                offset, fine = walker.placed([fn.extract(p[k // 2], k % 2) for p in found])
                there = fn.gep(walker.bases[0], table + offset + (i + k) * walker.inner[0], I8)
                if reads:

                    def wrong():
                        walker.fail()
                        return fn.value(0, e)

                    got = fn.if_else(fine, lambda at=there: fn.load(at, e), wrong)
                    values = fn.insert(values, got, k)
                else:
                    value = fn.extract(values, k)
                    fn.if_else(fine, lambda v=value, at=there: put(v, at), walker.fail)
            if reads:
                fn.store(values, goal, align)

    fn.if_else(fits, together, lambda: _elements(walker, move))


def _rows(walker):
    """Rows that move as they are, in units as long as everything is aligned to."""
    fn, d, size = walker.fn, walker.d, walker.size
    length = d.length * size
    aligned = walker.alignment((0, 1)) | length
    for step in walker.steps:
        aligned = aligned | step

    def copy(unit):
        type = {16: "<4 x i32>"}.get(unit, f"i{8 * unit}")
        per_row = length / unit
        with walker.each(d.rows * per_row) as at:
            row = divided(fn, at, per_row)
            table, items, *places = walker.offsets(row)
            offset, fine = walker.offset(places, None)

            def one():
                along = (at - row * per_row) * unit
                there = fn.gep(walker.bases[0], table + offset + along, I8)
                here = fn.gep(walker.bases[1], items + along, I8)
                to, from_ = (here, there) if walker.walk.mode == "read" else (there, here)
                fn.store(fn.load(from_, type, unit), to, unit)

            fn.if_else(fine, one, walker.fail)

    def choose(units):
        unit, *rest = units
        if not rest or unit == size:
            copy(unit)
            return
        fn.if_else((aligned & (unit - 1)) == 0, lambda: copy(unit), lambda: choose(rest))

    choose([unit for unit in UNITS if unit >= size])


def build_claims(*facts):
    """The last element that goes to each place, counted from 1: (claims, list, indices)."""
    walker = _Walker(Walk(*facts), more="p")
    claims, table = walker.kernel.argument(3 + walker.given), walker.bases[0]

    def move(place, items):
        number = walker.fn.convert("trunc", walker.number + 1, I32)
        raised_to(walker.fn, _claim(walker, claims, table, place), number)

    with walker.kernel.threads(last=True) as walker.thread:
        _elements(walker, move)
    return walker.text()


def build_claimed(*facts):
    """Move the elements whose claims are theirs: (table, list, indices, claims)."""
    walker = _Walker(Walk(*facts), more="p")
    fn, claims, table = walker.fn, walker.kernel.argument(3 + walker.given), walker.bases[0]

    def move(place, items):
        number = fn.convert("trunc", walker.number + 1, I32)
        with fn.when(fn.load(_claim(walker, claims, table, place), I32) == number):
            walker.move(place, items)

    with walker.kernel.threads(last=True) as walker.thread:
        _elements(walker, move)
    return walker.text()


def _claim(walker, claims, table, place):
    """Where it is noted whose a place of the table is."""
    fn = walker.fn
    start, here = (fn.pure(f"ptrtoint {p} to i64", I64) for p in (table, place))
    return fn.gep(claims, (here - start) / walker.size, I32)


# -- in order --------------------------------------------------------------------------------------


def build_columns(*facts):
    """A thread per row of the walk, which goes through it from the first element to the last."""
    walker = _Walker(Walk(*facts))
    fn, d = walker.fn, walker.d
    with walker.kernel.threads(last=True) as walker.thread, walker.each(d.rows) as row:
        table, items, *places = walker.offsets(row)
        with fn.loop(0, d.length) as i:
            offset, fine = walker.offset(places, i)

            def one(i=i, offset=offset):
                walker.move(
                    fn.gep(walker.bases[0], table + offset + i * walker.inner[0], I8),
                    fn.gep(walker.bases[1], items + i * walker.inner[1], I8),
                )

            fn.if_else(fine, one, walker.fail)
    return walker.text(lambda fn, word: word(4))


def build_places(mode, indices, wraps, wide, size):
    """Which element of the table a row starts at: (keys, nothing, indices, what is out of bounds).

    mode: what for, which messages name; wide: are keys 64 bits? size: bytes of an element.
    """
    walker = _Walker(Walk("read", f"b{size}", indices, "s", "n", wraps), more="i")
    fn, key = walker.fn, I64 if wide else I32
    none = walker.kernel.argument(3 + indices)
    with walker.kernel.threads(last=True) as walker.thread, walker.each(walker.d.rows) as row:
        table, *places = walker.offsets(row, [0, *range(2, walker.operands)])
        offset, fine = walker.offset(places, None)

        def wrong():
            walker.fail()
            return none + 0

        found = fn.if_else(fine, lambda: (table + offset) / size, wrong)
        found = found if wide else fn.convert("trunc", found, I32)
        fn.store(found, fn.gep(walker.bases[0], row, key))
    return walker.text(lambda fn, word: word(4))


def build_runs(mode, dtype, indices, wide, rows):
    """All that goes to one place, in order: (table, list, keys, order, what is out of bounds).

    rows: do elements of a row lie side by side (c), or not (n)?
    """
    return _Runs(Walk(mode, dtype, indices, "s", rows, False), wide).write()


class _Runs(_Walker):
    """Runs of equal keys: the thread of the first element of one goes through all of it."""

    def __init__(self, walk, wide):
        super().__init__(walk, more="ppi", indices=0)
        self.key = I64 if wide else I32
        self.keys, self.order, self.none = (self.kernel.argument(3 + k) for k in range(3))
        self.lanes = max(1, 16 // self.size) if walk.rows == "c" and self.size < 16 else 1

    def write(self):
        fn = self.fn
        with self.kernel.threads(last=True) as self.thread:
            if self.lanes == 1:
                self.rows_by(1)
            else:
                bits = self.alignment((0, 1))
                for step in self.steps:
                    bits = bits | step
                fits = ((bits & 15) | (self.d.length & (self.lanes - 1))) == 0
                fn.if_else(fits, lambda: self.rows_by(self.lanes), lambda: self.rows_by(1))
        return self.text(lambda fn, word: word(4) * word(5) / self.lanes + 1)

    def rows_by(self, width):
        """Each thread takes so many elements of a row."""
        fn, d = self.fn, self.d
        fn.vector_align = 16 if width > 1 else None
        per_row = d.length / width
        with self.each(d.rows * per_row) as at:
            p = divided(fn, at, per_row)
            i, mine = (at - p * per_row) * width, self.key_at(p)
            before = self.key_at(fn.max(p - 1, 0))
            with fn.when(((before != mine) | (p == 0)) & (mine != self.none)):
                place = mine * self.size + i * self.inner[0]
                self.run(fn.gep(self.bases[0], place, I8), p, mine, i, width)
        fn.vector_align = None

    def key_at(self, p):
        return unsigned(self.fn, self.fn.load(self.fn.gep(self.keys, p, self.key), self.key))

    def item(self, q, i):
        fn = self.fn
        row = unsigned(fn, fn.load(fn.gep(self.order, q, I32), I32))
        (place,) = self.offsets(row, [1])
        return fn.gep(self.bases[1], place + i * self.inner[1], I8)

    def run(self, table, first, mine, i, width):
        """Combine the items of a run into its place."""
        fn, d, walk = self.fn, self.d, self.walk
        q = fn.var(first)

        def goes_on(ahead):
            last = fn.min(q.get() + ahead, d.rows - 1)
            return (q.get() + ahead < d.rows) & (self.key_at(last) == mine)

        if walk.mode == "set":
            with fn.while_(lambda: goes_on(1)):
                q.set(q.get() + 1)
            type = vector(MOVES[walk.dtype], width)
            fn.store(fn.load(self.item(q.get(), i), type), table)
            return
        start = load_element(fn, table, walk.dtype, width, "c")
        cells = [fn.var(v) for v in _parts(start)]

        def take(terms):
            total = _joined([c.get() for c in cells])
            for term in terms:
                total = combine(fn, walk, total, term)
            for cell, value in zip(cells, _parts(total)):
                cell.set(value)

        for many in (TOGETHER, 1):
            with fn.while_(lambda many=many: goes_on(many - 1)):
                items = [self.item(q.get() + k, i) for k in range(many)]
                take([load_element(fn, at, walk.dtype, width, "c") for at in items])
                q.set(q.get() + many)
        store_element(fn, _joined([c.get() for c in cells]), table, walk.dtype, width, "c")


def _parts(value):
    return value if type(value) is tuple else (value,)


def _joined(values):
    return tuple(values) if len(values) > 1 else values[0]
