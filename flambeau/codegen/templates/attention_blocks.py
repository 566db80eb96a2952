"""What the forward and the backward kernel of attention share: blocks, strips, planes, tiles.

The one idea: lanes are queries. Scores are kept transposed, one row per key, so maxima, sums and
corrections of the softmax never cross lanes, and keys and values are read where they lie, one
element at a time, spread over the lanes. Queries are transposed once per block into strips of a
tile's width. Blocks of keys that cannot be read in whole tiles, and half types, are copied to
scratch first. Scratch lives on the stack of the thread. See attention.py and attention_backward.py
for the schedules, and attention_few.py for another one. Words: descriptions.Attention.
"""

import math

from flambeau.codegen import scalar
from flambeau.codegen.descriptions import STRIDES, Attention
from flambeau.codegen.llvm import Emitter, convert, load_element, store_element
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR, Module, V, bytes_of, vector, width_of
from flambeau.codegen.templates.tiles import Tile, accumulate, lanes, registers

HEADER = len(Attention._fields)
GROUPS = 2  # strips of queries in a block
KEYS = 64  # keys in a block
# arguments of the forward kernels after the description; parts are for pieces of keys
FORWARD = ("out", "logsumexp", "query", "key", "value", "mask", "keep", "parts")
UNROLL = 2  # steps of a tile per turn of its loop


def row_tile():
    """Rows of a register tile that is two vectors wide."""
    return 8 if registers() == 32 else 4


def queries_per_block(code):
    return GROUPS * 2 * lanes(code)


class Blocks:
    """A kernel under construction; subclasses write its schedule in `write`.

    code: dtype of query, key and value; mask: "" or the dtype of a mask; keep: are there coins of
    a dropout; causal: are later keys hidden?
    """

    names: tuple = ()  # arguments after the description: tensors, then two numbers

    def __init__(self, code, causal, mask, keep):
        self.code, self.causal, self.mask, self.keep = code, causal, mask, keep
        self.compute = COMPUTE_TYPE[code]
        self.type = LLVM_TYPE[self.compute]
        self.item, self.memory_item = bytes_of(self.type), bytes_of(MEMORY_TYPE[code])
        self.half = self.compute != code
        self.w = lanes(code)
        self.vector = vector(self.type, self.w)
        self.rows, self.span = row_tile(), 2 * self.w
        self.queries = GROUPS * self.span
        self.module = Module()
        params = [(PTR, "block"), (I64, "chunk")]
        self.fn = self.module.function("body", params, internal=True)

    def text(self):
        fn = self.fn
        self.block, self.chunk = fn.params
        self.description = argument_word(fn, self.block, 0, "p")
        count = len(self.names)
        self.scale, self.kept = (
            convert(fn, argument_word(fn, self.block, count + k, "f"), "f64", self.compute)
            for k in (1, 2)
        )
        words = Attention(*map(self.word, range(HEADER)))
        self.items, self.per_chunk, self.by_piece = words.items, words.per_chunk, words.by_piece
        self.query_blocks, self.pieces, self.per_piece = words.blocks, words.pieces, words.per_piece
        self.heads, self.sharing = words.heads, words.sharing
        self.length, self.source_length = words.length, words.source_length
        self.width, self.value_width = words.width, words.value_width
        self.write()
        fn.ret()
        add_entry(self.module, "p" * (count + 1) + "ff")
        return module_text(self.module)

    def word(self, k):
        return self.fn.load(self.fn.gep(self.description, k, I64), I64, 8)

    # -- places -----------------------------------------------------------------------------------

    def scratch(self, elements):
        """Room for a run-time number of elements; only in the entry of the function."""
        size = elements * self.item
        return self.fn.emit(f"alloca i8, {size}, align 64", PTR)

    def padded(self, n):
        """n rounded up to whole vectors and tiles."""
        return self.rounded(n, max(self.w, self.rows))

    @staticmethod
    def rounded(n, step):
        """n rounded up to a multiple of a power of two."""
        return (n + (step - 1)) & -step

    def strides(self, name):
        """Strides of a tensor; read where they are used, since there are too many to hold."""
        first = HEADER
        for other, count in STRIDES.items():
            if other == name:
                return [self.word(first + k) for k in range(count)]
            first += count
        raise KeyError(name)

    def tensor(self, name, batch, head):
        """Address of the first row of a head, and the stride from row to row."""
        by_batch, by_head, by_row = self.strides(name)
        at = batch * by_batch + head * by_head
        return self.fn.gep(self.pointer(name), at, "i8"), by_row

    def pointer(self, name):
        return argument_word(self.fn, self.block, 1 + self.names.index(name), "p")

    def place(self, base, index):
        return self.fn.gep(base, index, self.type)

    def get(self, base, index):
        return self.fn.load(self.place(base, index), self.vector)

    def put(self, value, base, index):
        self.fn.store(value, self.place(base, index))

    def spread(self, value):
        """A number in every lane."""
        return self.fn.value(value, self.vector)

    def fill(self, base, count, number):
        """The same number in `count` (a multiple of the vector width) elements."""
        with self.fn.loop(0, count, self.w) as i:
            self.put(self.spread(number), base, i)

    def lane_mask(self, fn, left):
        """Lanes below `left`."""
        lane = fn.iota(vector("i32", self.w))
        bound = fn.splat(fn.convert("trunc", left, "i32"), self.w)
        return fn.pure(f"icmp slt {lane}, {bound.name}", vector(I1, self.w))

    def calculate(self, word, *values):
        """A word of the scalar language on vectors."""
        symbols = [scalar.argument(k, self.compute) for k in range(len(values))]
        return Emitter(self.fn, width_of(values[0].type), values).emit(word(*symbols))

    # -- functions of the kernel ------------------------------------------------------------------

    def part(self, name, params):
        """A function of this kernel. Parameters: p pointer, i integer, f number, v vector."""
        types = {"p": PTR, "i": I64, "f": self.type, "v": self.vector}
        pairs = [p.split() for p in params.split(", ")]
        return self.module.function(name, [(types[t], n) for t, n in pairs], internal=True)

    def run(self, name, *values):
        """Call a function of this module."""
        self.fn.line(f"call void @{name}({', '.join(map(repr, values))})")

    def add_copy(self):
        """copy_rows: rows of the user's tensor to scratch of the compute type, a row per stride."""
        fn = self.part("copy_rows", "p source, i by, i count, i width, p target, i to")
        source, by, count, width, target, to = fn.params
        with fn.loop(0, count) as i:
            row, out = fn.gep(source, i * by, "i8"), fn.gep(target, i * to, "i8")
            with fn.loop(0, width, self.w) as d:
                at = fn.gep(row, d * self.memory_item, "i8")
                mask = self.lane_mask(fn, width - d)
                value = load_element(fn, at, self.code, self.w, "c", mask=mask)
                fn.store(value, fn.gep(out, d, self.type))
        fn.ret()

    def add_store(self, name, code):
        """The converse of copy_rows, to rows of a dtype."""
        fn = self.part(name, "p source, i by, i count, i width, p target, i to")
        source, by, count, width, target, to = fn.params
        with fn.loop(0, count) as i:
            row, out = fn.gep(source, i * by, "i8"), fn.gep(target, i * to, "i8")
            with fn.loop(0, width, self.w) as d:
                value = fn.load(fn.gep(row, d, self.type), self.vector)
                at = fn.gep(out, d * bytes_of(MEMORY_TYPE[code]), "i8")
                mask = self.lane_mask(fn, width - d)
                store_element(fn, value, at, code, self.w, "c", mask=mask)
        fn.ret()

    def add_turn(self):
        """turn: a square of elements, times a factor per lane, transposed."""
        fn = self.part("turn", "p source, i by, v factor, p target, i to")
        source, by, factor, target, to = fn.params
        rows = [
            fn.load(fn.gep(source, by * r, self.type), self.vector) * factor for r in range(self.w)
        ]
        for c, value in enumerate(transposed(fn, rows)):
            fn.store(value, fn.gep(target, to * c, self.type))
        fn.ret()

    # Strips hold a block of queries transposed: element (i, d) lies at d * span + i of its strip.

    def to_strips(self, rows, count, width, factor, strips):
        """Rows of a block in scratch, times a number, to strips."""
        fn, padded = self.fn, self.padded(width)
        span, factor = fn.value(self.span, I64), self.spread(factor)
        with fn.loop(0, count, self.w) as i, fn.loop(0, width, self.w) as d:
            at = self.place(rows, i * padded + d)
            into = self.place(strips, self.in_strip(i, d, padded))
            self.run("turn", at, padded, factor, into, span)

    def from_strips(self, strips, factors, count, width, rows):
        """Strips, times a number per query, to rows of a block in scratch."""
        fn, padded = self.fn, self.padded(width)
        span = fn.value(self.span, I64)
        with fn.loop(0, count, self.w) as i:
            factor = self.get(factors, i)
            with fn.loop(0, width, self.w) as d:
                at = self.place(strips, self.in_strip(i, d, padded))
                into = self.place(rows, i * padded + d)
                self.run("turn", at, span, factor, into, padded)

    def in_strip(self, i, d, padded):
        return (i & -self.span) * padded + d * self.span + (i & (self.span - 1))

    def add_tile(self, name, a_step, b, epilogue, extra, masked=False):
        """A register tile as a function: (depth, a, a_row, a_step, b, b_step, columns, *extra)."""
        params = "i depth, p a, i a_row, i a_step, p b, i b_step, i columns"
        fn = self.part(name, f"{params}, {extra}")
        depth, a, a_row, step, b_at, b_step, columns, *rest = fn.params
        tile = Tile(self.compute, self.rows, 2, "strided", b, UNROLL)
        step = fn.value(a_step, I64) if a_step is not None else step
        masks = None
        if masked:
            masks = [self.lane_mask(fn, columns - v * self.w) for v in range(2)]
        sums = accumulate(fn, tile, depth, a, b_at, a_row, step, b_step, masks=masks)
        epilogue(fn, [[parts[0] for parts in row] for row in sums], masks, *rest)
        fn.ret()

    def add_score_tile(self, name, row_length):
        """Products of keys and queries (or values and gradients), stored as rows of scores."""

        def epilogue(fn, sums, masks, target):
            for r, row in enumerate(sums):
                for v, value in enumerate(row):
                    fn.store(value, fn.gep(target, r * row_length + v * self.w, self.type))

        self.add_tile(name, self.item, "packed", epilogue, "p target")

    def score_tiles(self, name, limit, keys, stride, depth, strip, target, row_length):
        """All rows of scores below a limit, against one strip of queries."""
        zero = V(self.fn, I64, "0")
        with self.fn.loop(0, limit, self.rows) as j:
            at = self.fn.gep(keys, j * stride, "i8")
            into = self.place(target, j * row_length)
            self.run(name, depth, at, stride, zero, strip, zero, zero, into)

    # -- blocks of keys ---------------------------------------------------------------------------

    def readable(self, base, stride, first, count, width, buffer, whole):
        """(address, stride) of rows that tiles may read: where they lie, or a copy in scratch."""
        fn = self.fn
        start, to = fn.gep(base, first * stride, "i8"), self.padded(width) * self.item
        if self.half:
            self.run("copy_rows", start, stride, count, width, buffer, to)
            return buffer, to
        place, step = fn.var(start), fn.var(stride)
        with fn.when(~whole):
            self.run("copy_rows", start, stride, count, width, buffer, to)
            place.set(buffer)
            step.set(to)
        return place.get(), step.get()

    def keys_seen(self, first_query, count, first_key, most):
        """How many of the keys from first_key on the last of some queries may see."""
        if not self.causal:
            return most
        fn = self.fn
        return fn.max(fn.min(first_query + count - first_key, most), 0)

    def visible(self, key, first_query):
        """Which lanes may see a key; lane k is query first_query + k."""
        fn = self.fn
        lane = fn.iota(vector("i32", self.w))
        bound = fn.splat(fn.convert("trunc", key - first_query, "i32"), self.w)
        return lane >= bound

    # -- planes: tensors with an element per pair of query and key --------------------------------

    def add_plane(self, name, code, element, row_length):
        """A function that brings part of a plane to scratch, transposed as scores are.

        element(fn, x, number) is what loaded elements mean.
        """
        params = "p base, i by_query, i by_key, i count, i keys, p target, f number"
        fn = self.part(name, params)
        base, by_query, by_key, count, keys, target, number = fn.params
        size, w = bytes_of(MEMORY_TYPE[code]), self.w
        rows = fn.alloca(self.type, w * KEYS)
        one = fn.splat(fn.value(1, self.type), w)

        def fetch(row, into, width):
            with fn.loop(0, keys, width) as j:
                mask = self.lane_mask(fn, keys - j) if width > 1 else None
                x = load_element(fn, fn.gep(row, j * by_key, "i8"), code, width, "c", mask=mask)
                fn.store(element(fn, x, number), fn.gep(into, j, self.type))

        with fn.loop(0, count, w) as i:
            with fn.loop(0, fn.min(count - i, w)) as r:
                row = fn.gep(base, (i + r) * by_query, "i8")
                into = fn.gep(rows, r * KEYS, self.type)
                fn.if_else(by_key == size, lambda: fetch(row, into, w), lambda: fetch(row, into, 1))
            with fn.loop(0, keys, w) as j:
                place = fn.gep(rows, j, self.type)
                into = fn.gep(target, j * row_length + i, self.type)
                fn.line(f"call void @turn({place}, i64 {KEYS}, {one}, {into}, i64 {row_length})")
        fn.ret()

    def add_planes(self, row_length):
        """set_mask and set_keep, for kernels that have a mask or coins."""
        if self.mask:
            self.add_plane("set_mask", self.mask, self.masking, row_length)
        if self.keep:
            self.add_plane("set_keep", "bool", self.keeping, row_length)

    def masking(self, fn, x, number):
        if self.mask == "bool":
            type = vector(self.type, width_of(x.type))
            return fn.select(x, fn.value(0, type), fn.value(-math.inf, type))
        return convert(fn, x, COMPUTE_TYPE[self.mask], self.compute)

    def keeping(self, fn, x, number):
        width = width_of(x.type)
        return fn.select(x, fn.splat(number, width), fn.value(0, vector(self.type, width)))

    def load_planes(self, batch, head, query, count, key, limit, bias, coins):
        """Mask and coins of some queries and keys; `bias` and `coins` are where they go."""
        fn, zero = self.fn, self.fn.value(0, self.type)
        if self.mask:
            by_batch, by_head, by_query, by_key = self.strides("mask")
            at = batch * by_batch + head * by_head + query * by_query + key * by_key
            base = fn.gep(self.pointer("mask"), at, "i8")
            self.run("set_mask", base, by_query, by_key, count, limit, bias, zero)
        if self.keep:
            # coins lie side by side, in the shape of the scores
            row = (batch * self.heads + head) * self.length + query
            base = fn.gep(self.pointer("keep"), row * self.source_length + key, "i8")
            one = V(fn, I64, "1")
            self.run("set_keep", base, self.source_length, one, count, limit, coins, self.kept)


def transposed(fn, rows):
    """A square of vectors, lanes and vectors exchanged: halves swap at every scale."""
    rows, n = list(rows), len(rows)
    scale = n // 2
    while scale:
        for k in range(n):
            if not k & scale:
                a, b = rows[k], rows[k + scale]
                low = [p if not p & scale else n + p - scale for p in range(n)]
                high = [p + scale if not p & scale else n + p for p in range(n)]
                rows[k], rows[k + scale] = fn.shuffle(a, b, low), fn.shuffle(a, b, high)
        scale //= 2
    return rows
