"""The tile of processors with matrix registers (AMX): 32 rows x 32 columns of sums, 32 steps of k.

A matrix register holds 16 lines of 64 bytes. One instruction multiplies 16 rows of 32 bfloat16 by
16 columns of them and adds 256 sums in float32; four registers of sums, two of rows and two of
columns are all there are. Columns come from strips of pairs, as packing.py writes them for paired
tiles, filled up with zeros to 32 steps of k. Rows come from panels of their own (`pack_rows`): the
64 bytes of each row, one row after the other, then the next 32 steps.

A `Square` stands where a Tile does. Its sums come to memory, since matrix registers cannot be added
to or rounded; the epilogue takes them from there row by row (`Held`).

Where the processor has no such registers the same steps can be written as plain vector code, for
tests of everything around them. The instruction takes denormals for zero, as that of pairs does.
"""

from typing import NamedTuple

from flambeau.codegen.llvm import masked_load
from flambeau.codegen.loops import I8, I32, I64, PTR, V, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.packing import turned
from flambeau.codegen.templates.tiles import Tile, load_pairs, prefix_mask

SIDE = 16  # lines of a matrix register
LINE = 64  # bytes of one of them
STEP = 32  # elements of k in a line
SUMS, ROWS, COLUMNS = 0, 4, 6  # the first register of each kind
SPILL = 2 * SIDE * LINE  # bytes that are read behind the last panel


def available(kind="bf16"):
    """Does the target multiply matrices of bfloat16 (kind "int8": of bytes)?"""
    on = current().features.get
    return bool(on(f"amx-{kind}") and on("amx-tile")) and current().vector_bytes == 64


def begin(fn, kind="bf16"):
    """Matrix registers are set up for a thread: each has 16 lines of 64 bytes."""
    if not available(kind):
        return
    settings = [1, *[0] * 15, *[LINE, 0] * 8, *[0] * 16, *[SIDE] * 8, *[0] * 8]
    table = V(fn, PTR, fn.module.constant(I8, settings))
    fn.call("llvm.x86.ldtilecfg", "void", table)


def end(fn, kind="bf16"):
    """The thread does not need them any more."""
    if available(kind):
        fn.call("llvm.x86.tilerelease", "void")


def matrices(fn, kind, added):
    """Matrix registers of a function; added(fn, sums, a word of a row for all lanes, words of
    columns) is what multiplies where there are none.
    """
    return _Matrices(fn, kind) if available(kind) else _Emulated(fn, added)


class Square(NamedTuple):
    """rows x 32 sums; `vectors` is always 2.

    a: "packed", or "strided" for whole sixteens of rows and whole steps of k, side by side.
    """

    code: str
    rows: int
    vectors: int = 2
    a: str = "packed"

    b, paired, grain = "packed", True, STEP  # type: ignore[misc]
    parts, type, width, columns = Tile.parts, Tile.type, Tile.width, Tile.columns  # type: ignore[misc]
    item, sum_item, packed_item = Tile.item, Tile.sum_item, Tile.packed_item  # type: ignore[misc]

    def sums(self, fn, o, masks):
        """What a tile function computes; o: its Operands."""
        registers = matrices(fn, "bf16", add_words)
        down, across = -(-self.rows // SIDE), 2
        sums = [(i, j) for i in range(down) for j in range(across)]
        for i, j in sums:
            registers.clear(SUMS + 2 * i + j)
        row, on = fn.value(LINE, I64), fn.value(self.rows * LINE, I64)  # to the next row, and step
        if self.a == "strided":
            row, on = o.a_row, fn.value(LINE, I64)

        def step(cursors):
            a, b = cursors
            for j in range(across):
                registers.load(COLUMNS + j, fn.gep(b, j * LINE, I8), across * LINE)
            for i in range(down):
                registers.load(ROWS + i, fn.gep(a, row * (i * SIDE), I8), row)
                for j in range(across):
                    registers.multiply(SUMS + 2 * i + j, ROWS + i, COLUMNS + j)
            return [fn.gep(a, on, I8), fn.gep(b, SIDE * across * LINE, I8)]

        fn.carry((o.depth + (STEP - 1)) / STEP, [o.a, o.b], step)
        held = fn.alloca(I32, down * SIDE * across * SIDE)
        for i, j in sums:
            place = fn.gep(held, (i * SIDE * across + j) * LINE, I8)
            registers.store(SUMS + 2 * i + j, place, across * LINE)
        return Held(fn, self, held)


class Held:
    """Sums of a square in memory."""

    def __init__(self, fn, tile, place):
        self.fn, self.tile, self.place = fn, tile, place

    def row(self, r):
        """The vectors of a row, as those of any tile: lists of one part."""
        type = vector(self.tile.type, self.tile.width)
        return [[self.fn.load(place, type)] for place in self.places(r)]

    def put(self, r, row):
        for place, parts in zip(self.places(r), row):
            self.fn.store(parts[0], place)

    def places(self, r):
        line = self.fn.gep(self.place, r * (2 * LINE), I8)
        return [self.fn.gep(line, v * LINE, I8) for v in range(2)]


class _Matrices:
    """The registers themselves."""

    def __init__(self, fn, kind):
        self.fn = fn
        self.product = {"bf16": "tdpbf16ps", "int8": "tdpbusd"}[kind]

    def do(self, name, *arguments):
        given = [V(self.fn, I8, str(x)) if isinstance(x, int) else x for x in arguments]
        self.fn.call(f"llvm.x86.{name}", "void", *given)

    def clear(self, k):
        self.do("tilezero", k)

    def load(self, k, place, step):
        self.do("tileloadd64", k, place, self.fn.value(step, I64))

    def multiply(self, k, rows, columns):
        self.do(self.product, k, rows, columns)

    def store(self, k, place, step):
        self.do("tilestored64", k, place, self.fn.value(step, I64))


class _Emulated:
    """The same on blocks of memory, with the processor's own vectors."""

    def __init__(self, fn, added):
        self.fn, self.added = fn, added
        self.blocks = [fn.alloca(I32, SIDE * SIDE) for _ in range(8)]

    def clear(self, k):
        zero = self.fn.value(0, vector(I32, SIDE))
        for r in range(SIDE):
            self.fn.store(zero, self.fn.gep(self.blocks[k], r * LINE, I8), 4)

    def copy(self, source, source_step, target, target_step):
        fn = self.fn
        with fn.loop(0, SIDE) as r:
            words = fn.load(fn.gep(source, r * source_step, I8), vector(I32, SIDE), 4)
            fn.store(words, fn.gep(target, r * target_step, I8), 4)

    def load(self, k, place, step):
        self.copy(place, step, self.blocks[k], LINE)

    def store(self, k, place, step):
        self.copy(self.blocks[k], LINE, place, step)

    def multiply(self, k, rows, columns):
        fn = self.fn
        with fn.loop(0, SIDE) as r, fn.loop(0, SIDE) as pair:
            one = fn.load(fn.gep(self.blocks[rows], r * LINE + pair * 4, I8), I32, 4)
            place = fn.gep(self.blocks[k], r * LINE, I8)
            before = fn.load(place, vector(I32, SIDE), 4)
            two = fn.load(fn.gep(self.blocks[columns], pair * LINE, I8), vector(I32, SIDE), 4)
            fn.store(self.added(fn, before, fn.splat(one, SIDE), two), place, 4)


def add_words(fn, sums, x, y):
    """sums + the products of both halves of words, bfloat16 each."""
    sums = fn.convert("bitcast", sums, vector("float", SIDE))
    for half in (lambda words: words << 16, lambda words: words & -65536):
        a, b = (fn.convert("bitcast", half(words), sums.type) for words in (x, y))
        sums = fn.intrinsic("fma", a, b, sums)
    return sums


def pack_rows(module):
    """Add `pack_rows(count, depth, source, row step, k step, out)`; see the top of this file."""
    parameters = [(I64, "count"), (I64, "depth"), (PTR, "source"), (I64, "row_step")]
    fn = module.function("pack_rows", [*parameters, (I64, "k_step"), (PTR, "out")], internal=True)
    _, _, _, row_step, k_step, _ = fn.params
    rows = _Rows(fn)
    fn.if_else(
        k_step == 2,
        rows.copied,
        lambda: fn.if_else(row_step == 2, rows.turned, rows.one_by_one),
    )
    fn.ret()


class _Rows:
    """Panels of rows from any strides."""

    def __init__(self, fn):
        self.fn = fn
        self.count, self.depth, self.source, self.row_step, self.k_step, self.out = fn.params
        self.steps = (self.depth + (STEP - 1)) / STEP

    def place(self, step, row):
        return self.fn.gep(self.out, (step * self.count + row) * LINE, I8)

    def left(self, step):
        """Elements of k from a step on."""
        return self.depth - step * STEP

    def copied(self):
        """k lies side by side."""
        fn = self.fn
        with fn.loop(0, self.steps) as step:
            mask = prefix_mask(fn, STEP, self.left(step))
            first = fn.gep(self.source, step * LINE, I8)
            with fn.loop(0, self.count) as row:
                place = fn.gep(first, row * self.row_step, I8)
                fn.store(load_pairs(fn, place, SIDE, mask), self.place(step, row), 4)

    def turned(self):
        """Rows lie side by side: squares of 16 rows by 16 pairs are turned around in registers."""
        fn = self.fn
        with fn.loop(0, self.steps) as step, fn.loop(0, self.count, SIDE) as row:
            first = fn.gep(self.source, row * 2, I8)
            mask = prefix_mask(fn, SIDE, self.count - row)
            pairs = [self.pair(first, step, p, mask) for p in range(SIDE)]
            for r, words in enumerate(turned(fn, pairs)):
                # rows beyond the last are overwritten by the next step, or never read
                fn.store(words, self.place(step, row + r), 4)

    def pair(self, first, step, p, mask):
        """16 rows of elements 2p and 2p + 1 of a step, as words; zeros behind the end."""
        fn, type = self.fn, vector("i16", SIDE)
        halves = []
        for k in (2 * p, 2 * p + 1):
            there = fn.pure(f"icmp sgt {self.left(step)}, {k}", "i1")
            only = mask & fn.splat(there, SIDE)
            place = fn.gep(first, (step * STEP + k) * self.k_step, I8)
            halves.append(masked_load(fn, place, type, only))
        order = [i // 2 + (i % 2) * SIDE for i in range(2 * SIDE)]
        return fn.convert("bitcast", fn.shuffle(*halves, order), vector(I32, SIDE))

    def one_by_one(self):
        fn = self.fn
        zero = fn.value(0, vector(I32, SIDE))
        with fn.loop(0, self.count) as row:
            line = fn.gep(self.source, row * self.row_step, I8)
            with fn.loop(0, self.steps) as step:
                fn.store(zero, self.place(step, row), 4)
            with fn.loop(0, self.depth) as k:
                x = fn.load(fn.gep(line, k * self.k_step, I8), "i16", 2)
                place = fn.gep(self.place(k / STEP, row), (k % STEP) * 2, I8)
                fn.store(x, place, 2)
