"""Kernels that reach elements through indices: gather, scatter, index, take and their kin.

All of them are one walk. At every point of an iteration space a *table* is addressed by strides
plus index values times strides, a *list* by strides alone, and an element moves from the one to the
other (`read`, `set`) or is combined into the table (`add`, `mul`, `max`, `min`). Where an index
stays the same along the innermost dimension, whole rows move. Sizes and strides are words of the
launch description (see eager/index_plans.py); an index out of bounds sets the status word and moves
nothing.
"""

from typing import NamedTuple

from flambeau.codegen.descriptions_places import IndexedWalk
from flambeau.codegen.llvm import load_element, masked_load, masked_store, store_element
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import COMPUTE_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR, Module, V, bytes_of, is_float_type, vector
from flambeau.codegen.target import current


class Walk(NamedTuple):
    """Everything that the machine code of a walk depends on."""

    mode: str  # read, set, add, mul, max or min
    dtype: str  # dtype code; for read and set the element size as b1, b2, b4, b8 or b16
    indices: int  # how many
    access: str  # an index along a row: s (one for all), c (side by side), n (strided)
    rows: str  # the list there (and, for access s, the table): c, n, or s (one element for a row)
    wraps: bool  # do negative indices count from the end?


HEADER = len(IndexedWalk._fields)
MOVES = {"b1": "i8", "b2": "i16", "b4": "i32", "b8": "i64", "b16": "<2 x i64>"}
LANES = 8  # indices that are looked at together


def build_walk(*facts):
    """The IR text of a Walk. Arguments: description, table, list, indices."""
    walk, module = Walk(*facts), Module()
    fn = module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
    _Walker(fn, walk).write()
    fn.ret()
    add_entry(module, "p" * (3 + walk.indices))
    return module_text(module)


class _Walker:
    def __init__(self, fn, walk):
        self.fn, self.walk = fn, walk
        self.block, self.chunk = fn.params
        self.moves = walk.mode in ("read", "set")
        self.size = (
            int(walk.dtype[1:])
            if self.moves
            else bytes_of(MEMORY_TYPE[walk.dtype]) * (1 + (walk.dtype[0] == "c"))
        )
        self.operands = 2 + walk.indices

    def word(self, index):
        return self.fn.load(self.fn.gep(self.description, index, I64), I64, 8)

    def write(self):
        fn, k = self.fn, self.walk.indices
        self.description = argument_word(fn, self.block, 0, "p")
        bases = [argument_word(fn, self.block, 1 + n, "p") for n in range(self.operands)]
        self.status = fn.gep(self.block, 1 + self.operands, I64)
        d = IndexedWalk(*[self.word(n) for n in range(HEADER)])
        self.sizes = [self.word(HEADER + n) for n in range(k)]
        self.steps = [self.word(HEADER + k + n) for n in range(k)]
        at = HEADER + 2 * k
        self.inner = [self.word(at + 2 * n) for n in range(self.operands)]
        self.middle = [self.word(at + 2 * n + 1) for n in range(self.operands)]
        outer = at + 2 * self.operands
        self._hoist()
        row = fn.var((self.chunk / d.pieces) * d.per_chunk)
        last = fn.min(row.get() + d.per_chunk, d.rows)
        begin = (self.chunk % d.pieces) * d.piece
        end = fn.min(begin + d.piece, d.length)
        with fn.while_(lambda: row.get() < last):
            now = row.get()
            outside = fn.pure(f"udiv {now}, {d.middle.name}", I64)
            first = now - outside * d.middle
            count = fn.min(d.middle - first, last - now)
            starts = self._outer_bases(bases, outside, d.rank, outer)
            with fn.loop(first, first + count) as j:
                pointers = [fn.gep(b, j * m, "i8") for b, m in zip(starts, self.middle)]
                if self.walk.access == "s":
                    self._row(pointers, begin, end)
                else:
                    self._elements(pointers, begin, end)
            row.set(now + count)

    def _hoist(self):
        """Spread over lanes what the innermost loop uses; written here, it is known below."""
        fn = self.fn
        w = self.width = LANES if self.size < 16 and self.walk.access != "s" else 1
        # without products of 64 bits, and with addresses to be taken out of vectors, only what is
        # in bounds is asked of vectors
        self.apart = not self.moves or current().vector_bytes < 64
        for value in (*self.sizes, *self.steps):
            fn.splat(value, w)
        self.table_lanes = fn.iota(vector(I64, w)) * fn.splat(self.inner[0], w)

    def _outer_bases(self, bases, outside, rank, outer):
        """Where the operands stand at a coordinate of the outer dimensions."""
        fn = self.fn
        rest = fn.var(outside)
        offsets = [fn.var(V(fn, I64, "0")) for _ in bases]
        with fn.loop(0, rank) as n:
            d = rank - 1 - n
            place = outer + d * (1 + self.operands)
            size = self.word(place)
            quotient = fn.pure(f"udiv {rest.get()}, {size.name}", I64)
            c = rest.get() - quotient * size
            rest.set(quotient)
            for m, offset in enumerate(offsets):
                offset.set(offset.get() + c * self.word(place + 1 + m))
        return [fn.gep(b, o.get(), "i8") for b, o in zip(bases, offsets)]

    # -- indices -----------------------------------------------------------------------------
    def _offset(self, values):
        """(byte offset into the table, are all in bounds?) of index values, scalars or vectors."""
        fn, offset, fine = self.fn, None, None
        for value, size, step in zip(values, self.sizes, self.steps):
            size, step = fn.value(size, value.type), fn.value(step, value.type)
            if self.walk.wraps:
                value = value + fn.select(value < 0, size, fn.value(0, value.type))
            ok = value.below(size)
            fine = ok if fine is None else fine & ok
            part = value * step
            offset = part if offset is None else offset + part
        return offset, fine

    def _fail(self):
        self.fn.store(V(self.fn, I64, "1"), self.status, 8)

    # -- one index for a whole row -------------------------------------------------------------
    def _row(self, pointers, begin, end):
        fn = self.fn
        table, items, *indices = pointers
        offset, fine = self._offset([fn.load(p, I64, 8) for p in indices])

        def move():
            self._move_row(fn.gep(table, offset, "i8"), items, begin, end)

        fn.if_else(fine, move, self._fail)

    def _move_row(self, table, items, begin, end):
        fn, walk = self.fn, self.walk
        if walk.rows == "n":
            with fn.loop(begin, end) as i:
                self._one(
                    fn.gep(table, i * self.inner[0], "i8"), fn.gep(items, i * self.inner[1], "i8")
                )
            return
        start = begin * self.size
        table = fn.gep(table, start, "i8")
        items = items if walk.rows == "s" else fn.gep(items, start, "i8")
        if self.moves and walk.rows == "c":
            target, source = (items, table) if walk.mode == "read" else (table, items)
            copy_bytes(fn, target, source, (end - begin) * self.size)
        elif self.moves:
            self._fill_row(table, items, end - begin)
        else:
            self._combine_row(table, items, end - begin)

    def _fill_row(self, table, items, count):
        """One value for the whole row."""
        fn, e = self.fn, MOVES[self.walk.dtype]
        value = fn.load(items, e)
        w = 1 if self.size == 16 else current().vector_bytes // self.size
        self._steps(
            count, w, lambda i, width: fn.store(fn.splat(value, width), fn.gep(table, i, e))
        )

    def _combine_row(self, table, items, count):
        fn, walk = self.fn, self.walk
        dtype = walk.dtype
        e = MEMORY_TYPE[dtype]
        lanes = 2 if dtype[0] == "c" else 1
        w = max(1, current().vector_bytes // max(bytes_of(e), 4) // lanes)

        def step(i, width):
            at = fn.gep(table, i * lanes, e)
            a = load_element(fn, at, dtype, width, "c")
            given = items if walk.rows == "s" else fn.gep(items, i * lanes, e)
            b = load_element(fn, given, dtype, width, walk.rows)
            store_element(fn, combine(fn, walk, a, b), at, dtype, width, "c")

        self._steps(count, w, step)

    def _steps(self, count, w, step):
        """step(i, width) over count elements, in vectors as far as they go."""
        fn = self.fn
        blocks, whole = (count / (4 * w)) * (4 * w), (count / w) * w
        with fn.loop(0, blocks, 4 * w) as i:
            for k in range(4):
                step(i + k * w, w)
        with fn.loop(blocks, whole, w) as i:
            step(i, w)
        if w > 1:
            with fn.loop(whole, count) as i:
                step(i, 1)

    def _one(self, table, items):
        """One element, scalars."""
        fn, mode, dtype = self.fn, self.walk.mode, self.walk.dtype
        if self.moves:
            target, source = (items, table) if mode == "read" else (table, items)
            fn.store(fn.load(source, MOVES[dtype]), target)
            return
        a, b = (load_element(fn, p, dtype, 1, "c") for p in (table, items))
        store_element(fn, combine(fn, self.walk, a, b), table, dtype, 1, "c")

    # -- an index for every element ------------------------------------------------------------
    def _elements(self, pointers, begin, end):
        fn = self.fn
        w = self.width
        whole = begin + ((end - begin) / w) * w
        with fn.loop(begin, whole, w) as i:
            self._vector(pointers, i, w)
        if w > 1:
            with fn.loop(whole, end) as i:
                self._vector(pointers, i, 1)

    def _vector(self, pointers, i, w):
        fn, walk = self.fn, self.walk
        table, items, *indices = pointers
        values = []
        for p, stride in zip(indices, self.inner[2:]):
            at = fn.gep(p, i, I64) if walk.access == "c" else fn.gep(p, i * stride, "i8")
            values.append(load_element(fn, at, "i64", w, walk.access, stride))
        offset, fine = self._offset(values)
        bad = fn.any(~fine)

        def move():
            if w > 1 and self.apart:
                self._one_by_one(table, items, indices, i, w)
                return
            if w == 1:
                self._one(
                    fn.gep(table, offset + i * self.inner[0], "i8"),
                    fn.gep(items, i * self.inner[1], "i8"),
                )
                return
            self._lanes(
                fn.gep(table, i * self.inner[0], "i8"), offset + self.table_lanes, items, i, w
            )

        fn.if_else(bad, self._fail, move)

    def _one_by_one(self, table, items, indices, i, w):
        """Two may meet, and reading an index again beats extracting it."""
        fn, walk = self.fn, self.walk
        for lane in range(w):
            j = i + lane
            values = [
                fn.load(
                    fn.gep(p, j, I64) if walk.access == "c" else fn.gep(p, j * stride, "i8"), I64, 8
                )
                for p, stride in zip(indices, self.inner[2:])
            ]
            offset, _ = self._offset(values)
            at = (
                fn.gep(items, j * self.size, "i8")
                if walk.rows == "c"
                else fn.gep(items, j * self.inner[1], "i8")
            )
            self._one(fn.gep(table, offset + j * self.inner[0], "i8"), at)

    def _lanes(self, table, places, items, i, w):
        fn, walk = self.fn, self.walk
        stride = self.inner[1]
        e = MOVES[walk.dtype]
        at = fn.gep(items, i, e) if walk.rows == "c" else fn.gep(items, i * stride, "i8")
        addresses = fn.pure(f"getelementptr i8, {table}, {places}", vector(PTR, w))
        if walk.mode == "read":
            value = gather_lanes(fn, addresses, e, w)
            store_lanes(fn, value, at, walk.rows, stride, w)
        else:
            value = load_lanes(fn, at, e, walk.rows, stride, w)
            scatter_lanes(fn, value, addresses, w)


def gather_lanes(fn, addresses, e, w):
    """Elements from w addresses, lane by lane: measured faster than the gather instruction."""
    value = V(fn, vector(e, w), "poison")
    for lane in range(w):
        value = fn.insert(value, fn.load(fn.extract(addresses, lane), e), lane)
    return value


def scatter_lanes(fn, value, addresses, w):
    # in the order of lanes, so that of equal addresses the last one stays
    for lane in range(w):
        fn.store(fn.extract(value, lane), fn.extract(addresses, lane))


def load_lanes(fn, pointer, e, access, stride, w):
    if access == "c":
        return fn.load(pointer, vector(e, w))
    return gather_lanes(fn, _spread(fn, pointer, stride, w), e, w)


def store_lanes(fn, value, pointer, access, stride, w):
    if access == "c":
        return fn.store(value, pointer)
    return scatter_lanes(fn, value, _spread(fn, pointer, stride, w), w)


def _spread(fn, pointer, stride, w):
    lanes = fn.iota(vector(I64, w)) * fn.splat(stride, w)
    return fn.pure(f"getelementptr i8, {pointer}, {lanes}", vector(PTR, w))


def copy_bytes(fn, target, source, count):
    """Copy count bytes; blocks do not overlap."""
    w = current().vector_bytes
    t = vector("i8", w)
    whole = (count / w) * w
    with fn.loop(0, whole, w) as i:
        fn.store(fn.load(fn.gep(source, i, "i8"), t), fn.gep(target, i, "i8"))
    with fn.when(whole < count):
        source, target = fn.gep(source, whole, "i8"), fn.gep(target, whole, "i8")
        if w == 64:
            left = fn.convert("trunc", count - whole, "i8")
            mask = fn.iota(t).below(fn.splat(left, w))
            masked_store(fn, masked_load(fn, source, t, mask), target, mask)
        else:
            # only AVX-512 masks bytes; elsewhere the C library knows best
            fn.call(
                "llvm.memcpy.p0.p0.i64", "void", target, source, count - whole, V(fn, I1, "false")
            )


def combine(fn, walk, a, b):
    """The new element of the table."""
    mode, code = walk.mode, walk.dtype
    if code[0] == "c":
        (ar, ai), (br, bi) = a, b
        return (ar + br, ai + bi) if mode == "add" else (ar * br - ai * bi, ar * bi + ai * br)
    if code == "bool":
        return a | b if mode in ("add", "max") else a & b
    if mode == "add":
        return a + b
    if mode == "mul":
        return a * b
    if is_float_type(a.type):
        nan = fn.pure(f"fcmp uno {a}, {a.name}", (a < b).type)
        return fn.select(((a > b) if mode == "max" else (a < b)) | nan, a, b)
    less = a.below(b) if COMPUTE_TYPE[code][0] == "u" else a < b
    return fn.select(less, b, a) if mode == "max" else fn.select(less, a, b)


def build_find():
    """First of n words outside [low, high): its position plus one becomes the status."""
    module = Module()
    fn = module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
    block = fn.params[0]
    words = argument_word(fn, block, 1, "p")
    n, low, high = (argument_word(fn, block, k, "i") for k in (2, 3, 4))
    status = fn.gep(block, 5, I64)
    with fn.loop(0, n) as i:
        value = fn.load(fn.gep(words, i, I64), I64, 8)
        with fn.when((value < low) | (value >= high)):
            fn.store(i + 1, status, 8)
            fn.ret()
            fn.open(fn.label("dead"))
    fn.ret()
    add_entry(module, "ppiii", answers=True)
    return module_text(module)
