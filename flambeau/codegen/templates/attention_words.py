"""Attention of bfloat16 by products of pairs: nothing is widened but scores and sums.

The walk is that of attention.py; operands are words of two bfloat16, as tiles want them that
multiply pairs (conv_tiles.py) or matrices of them (word_squares.py). Scores are rows of keys, as
they lie, times strips of queries, words of two columns. Exponentials are rounded and paired, two
keys to a word, and multiplied by values that were turned around, a row per column. Everything is
filled up with zeros to whole matrix registers.
"""

import math
import struct

from flambeau.codegen import mathlib
from flambeau.codegen.llvm import masked_load, to_memory
from flambeau.codegen.loops import I1, I32, I64, V, vector
from flambeau.codegen.templates import squares
from flambeau.codegen.templates.attention import Forward
from flambeau.codegen.templates.attention_blocks import KEYS, transposed
from flambeau.codegen.templates.conv_patches import zipped
from flambeau.codegen.templates.conv_tiles import tile_function
from flambeau.codegen.templates.tiles import pairs, prefix_mask
from flambeau.codegen.templates.word_squares import square_function

STEP = 32  # bfloat16 of a line: what a matrix register takes at once
LINE = 2 * STEP  # bytes of it
WORDS = STEP // 2
LOG2E = struct.unpack("f", struct.pack("f", 1 / math.log(2)))[0]  # as float32 has it
# 2**r on [-1/2, 1/2], relative error 2.9e-6
BRIEF_EXP2 = (
    1.0, 0.6931241750717163, 0.24024099111557007, 0.055906426161527634, 0.009582852013409138,
)  # fmt: skip
MAGIC = mathlib.FORMAT["f32"].magic


class Words:
    """Tiles and copies of words, for kernels of attention."""

    def add_tiles(self, square):
        """products: rows of words times two vectors of columns."""
        self.square = square
        if square:
            for down in (1, 2):
                square_function(self.module, f"square{down}x2", down, 2)
        else:
            tile_function(self.module, "pairs", "float", self.w, self.rows, 2, "rows", True)

    def multiply(self, rows, depth, a, a_row, b, sums, fresh):
        """sums (+)= a @ b for rows (whole sixteens) of `depth` words, against a strip."""
        fn, span = self.fn, self.fn.value(self.span * self.item, I64)
        fresh = V(fn, I1, str(fresh).lower())

        def tile(name, row, *more):
            at, into = fn.gep(a, row * a_row, "i8"), fn.gep(sums, row * span, "i8")
            self.run(name, depth, at, a_row, b, span, into, span, fresh, *more)

        if not self.square:
            with fn.loop(0, rows, self.rows) as row:
                tile("pairs", row)
            return
        side = squares.SIDE
        whole = rows & -(2 * side)
        with fn.loop(0, whole, 2 * side) as row:
            tile("square2x2", row, fn.value(2 * side, I64))
        with fn.when(whole < rows):
            tile("square1x2", whole, fn.value(side, I64))

    def add_copy_words(self):
        """copy_words: rows of the user's tensor as they are, with zeros up to whole lines."""
        fn = self.part("copy_words", "p source, i by, i count, i width, p target, i to")
        source, by, count, width, target, to = fn.params
        with fn.loop(0, count) as i:
            row, out = fn.gep(source, i * by, "i8"), fn.gep(target, i * to, "i8")
            with fn.loop(0, width, STEP) as d:
                mask = prefix_mask(fn, STEP, width - d)
                found = masked_load(fn, fn.gep(row, d * 2, "i8"), vector("i16", STEP), mask)
                fn.store(found, fn.gep(out, d * 2, "i8"), 2)
        fn.ret()

    def add_turn_words(self):
        """turn_words: 16 rows of 16 words, rows and words exchanged."""
        fn = self.part("turn_words", "p source, i by, p target, i to")
        source, by, target, to = fn.params
        held = vector(I32, WORDS)
        rows = [fn.load(fn.gep(source, by * r, "i8"), held, 4) for r in range(WORDS)]
        for c, value in enumerate(transposed(fn, rows)):
            fn.store(value, fn.gep(target, to * c, "i8"), 4)
        fn.ret()

    def add_turn_pairs(self):
        """turn_pairs: 32 rows of 16 elements become 16 rows of 16 words of two neighbours."""
        fn = self.part("turn_pairs", "p source, i by, p target, i to")
        source, by, target, to = fn.params
        halves = vector("i16", WORDS)
        rows = [fn.load(fn.gep(source, by * r, "i8"), halves, 2) for r in range(STEP)]
        words = [zipped(fn, rows[k], rows[k + 1]) for k in range(0, STEP, 2)]
        for c, value in enumerate(transposed(fn, words)):
            fn.store(value, fn.gep(target, to * c, "i8"), 4)
        fn.ret()

    def lines(self, n):
        """Bytes of a row of n elements, in whole lines."""
        return self.rounded(n, STEP) * 2

    def to_word_strips(self, rows, count, width, strips):
        """Rows of words to strips: word d of query i lies at d * span + i of its strip."""
        fn, by = self.fn, self.lines(width)
        span = fn.value(self.span * 4, I64)
        with fn.loop(0, count, self.w) as i, fn.loop(0, by, LINE) as d:
            strip = fn.gep(strips, (i & -self.span) * by, "i8")
            into = fn.gep(strip, (d >> 2) * span + (i & (self.span - 1)) * 4, "i8")
            self.run("turn_words", fn.gep(rows, i * by + d, "i8"), by, into, span)

    def turned_rows(self, rows, count, width, target):
        """Rows of a block as columns, words of two rows each; zeros where there is no row."""
        fn, by = self.fn, self.lines(width)
        to = fn.value(KEYS * 2, I64)
        zero = fn.value(0, vector("i8", LINE))
        with fn.loop(count, self.rounded(count, STEP)) as row, fn.loop(0, by, LINE) as d:
            fn.store(zero, fn.gep(rows, row * by + d, "i8"), 2)
        with fn.loop(0, count, STEP) as row, fn.loop(0, width, WORDS) as d:
            at = fn.gep(rows, row * by + d * 2, "i8")
            self.run("turn_pairs", at, by, fn.gep(target, d * to + row * 2, "i8"), to)

    def begin(self):
        if self.square:
            squares.begin(self.fn)

    def end(self):
        if self.square:
            squares.end(self.fn)


def brief_exp2(x):
    """2**x for x that is not positive, with an error of 3e-6."""
    x = mathlib.at_least(x, -151.0)
    t = x + MAGIC
    return mathlib.times_power(mathlib.horner(x - (t - MAGIC), BRIEF_EXP2), t)


class WordForward(Words, Forward):
    unit = math.log(2)

    def __init__(self, code, causal, mask, keep, paired):
        super().__init__(code, causal, mask, keep)
        self.add_tiles(paired == "square")

    def write(self):
        self.add_copy_words()
        self.add_turn_words()
        self.add_turn_pairs()
        self.add_store("store_rows", self.code)
        self.add_turn()
        self.add_planes(self.span)
        self.walk()

    def room(self):
        fn = self.fn
        value_width = self.padded(self.value_width)
        row, value_row = self.lines(self.width), self.lines(self.value_width)
        self.block_rows = self.scratch(fn.max(row >> 2, value_width) * self.queries)
        self.strips = self.scratch((row >> 2) * self.queries)
        self.sums = self.scratch(value_width * self.queries)
        self.key_copy = self.scratch((row >> 2) * KEYS)
        self.value_copy = self.scratch((value_row >> 2) * KEYS)
        self.value_turned = self.scratch(value_width * (KEYS // 2))
        self.scores = fn.alloca(self.type, KEYS * self.span)
        self.weights = fn.alloca(I32, KEYS // 2 * self.span)
        self.bias = fn.alloca(self.type, KEYS * self.span) if self.mask else self.scores
        self.coins = fn.alloca(self.type, KEYS * self.span) if self.keep else self.scores
        self.peaks = fn.alloca(self.type, self.queries)
        self.totals = fn.alloca(self.type, self.queries)
        self.shrink = fn.alloca(self.type, self.span)

    def load_queries(self):
        query, by = self.tensor("query", self.batch, self.head)
        at, to = self.fn.gep(query, self.first * by, "i8"), self.lines(self.width)
        self.run("copy_words", at, by, self.count, self.width, self.block_rows, to)
        self.to_word_strips(self.block_rows, self.count, self.width, self.strips)

    def key_block(self, key, count):
        fn = self.fn
        for (base, by), width, target in (
            (self.keys_at, self.width, self.key_copy),
            (self.values_at, self.value_width, self.value_copy),
        ):
            start = fn.gep(base, key * by, "i8")
            self.run("copy_words", start, by, count, width, target, self.lines(width))
        self.turned_rows(self.value_copy, count, self.value_width, self.value_turned)
        with fn.loop(0, self.count, self.span) as query:
            limit = self.keys_seen(self.first + query, self.span, key, count)
            with fn.when(limit > 0):
                self.score_words(limit, query)
                self.load_planes(
                    self.batch, self.head, self.first + query,
                    fn.min(self.count - query, self.span), key, limit, self.bias, self.coins,
                )  # fmt: skip
                self.weigh(key, limit, query)
                self.add_words(limit, query)

    def score_words(self, limit, query):
        by = self.lines(self.width)
        strip = self.fn.gep(self.strips, query * by, "i8")
        rows = self.rounded(limit, squares.SIDE)
        self.multiply(rows, by >> 2, self.key_copy, by, strip, self.scores, True)

    def weigh(self, key, limit, query):
        """Scores become weights; where all queries see all keys nothing has to be hidden."""
        if not self.causal:
            return self.weigh_strip(key, limit, query, False)
        self.fn.if_else(
            key + limit <= self.first + query + 1,
            lambda: self.weigh_strip(key, limit, query, False),
            lambda: self.weigh_strip(key, limit, query, True),
        )

    def weigh_strip(self, key, limit, query, hides):
        """Scores of a strip of queries become exponentials below the largest score so far.

        All vectors of the strip go side by side, so that they do not wait for each other; scores
        are exponents of 2, and weights that will have 8 bits get no more than 18.
        """
        fn, lanes = self.fn, range(0, self.span, self.w)
        low, scale = self.spread(-math.inf), self.spread(self.scale) * self.spread(LOG2E)

        def score(j, lane, less=None):
            """Less the largest one, where that is known."""
            value = self.get(self.scores, j * self.span + lane)
            if less is not None and not self.mask and not hides:
                return fn.intrinsic("fma", value, scale, -less)
            value = value * scale
            if self.mask:
                bias = self.get(self.bias, j * self.span + lane)
                value = value + bias * self.spread(LOG2E)
            if hides:
                value = fn.select(self.visible(key + j, self.first + query + lane), value, low)
            return value if less is None else value - less

        before = [self.get(self.peaks, query + lane) for lane in lanes]
        peaks = [fn.var(x) for x in before]
        with fn.loop(0, limit) as j:
            for peak, lane in zip(peaks, lanes):
                peak.set(fn.max(peak.get(), score(j, lane)))
        bases, totals = [], []
        for peak, old, lane in zip(peaks, before, lanes):
            after = peak.get()
            self.put(after, self.peaks, query + lane)
            # a query that has seen nothing yet: any finite number will do
            base = fn.select(after == low, self.spread(0), after)
            shrink = self.calculate(brief_exp2, old - base)
            self.put(shrink, self.shrink, lane)
            bases.append(base)
            totals.append(fn.var(self.get(self.totals, query + lane) * shrink))

        def weight(j, k):
            p = self.calculate(brief_exp2, score(j, lanes[k], bases[k]))
            totals[k].set(totals[k].get() + p)
            return p * self.get(self.coins, j * self.span + lanes[k]) if self.keep else p

        def put(j, both):
            for k, lane in enumerate(lanes):
                first = weight(j, k)
                second = weight(j + 1, k) if both else self.spread(0)
                place = fn.gep(self.weights, (j >> 1) * self.span + lane, I32)
                fn.store(self.word_of(first, second), place)

        even = limit & -2
        with fn.loop(0, even, 2) as j:
            put(j, True)
        with fn.when(even < limit):
            put(even, False)
        words = (limit + 1) >> 1
        zero = fn.value(0, vector(I32, self.w))
        with fn.loop(words, self.rounded(words, WORDS)) as word:
            for lane in lanes:
                fn.store(zero, fn.gep(self.weights, word * self.span + lane, I32))
        for total, lane in zip(totals, lanes):
            self.put(total.get(), self.totals, query + lane)

    def word_of(self, first, second):
        """Two vectors of weights, rounded, as words of both."""
        fn, w = self.fn, self.w
        if not pairs(self.code):
            return zipped(fn, *[to_memory(fn, x, self.code) for x in (first, second)])
        # tiny weights become zero, as they do when they are multiplied
        name = f"llvm.x86.avx512bf16.cvtne2ps2bf16.{32 * w}"
        both = fn.call(name, vector("bfloat", 2 * w), second, first)
        both = fn.convert("bitcast", both, vector("i16", 2 * w))
        mixed = fn.shuffle(both, None, [i // 2 + i % 2 * w for i in range(2 * w)])
        return fn.convert("bitcast", mixed, vector(I32, w))

    def add_words(self, limit, query):
        """sums = sums * shrink + values.T @ weights."""
        fn = self.fn
        sums = self.place(self.sums, query * self.padded(self.value_width))
        factors = [self.get(self.shrink, v * self.w) for v in range(2)]
        with fn.loop(0, self.value_width) as d:
            for v, factor in enumerate(factors):
                at = d * self.span + v * self.w
                self.put(self.get(sums, at) * factor, sums, at)
        rows = self.rounded(self.value_width, squares.SIDE)
        depth = self.rounded((limit + 1) >> 1, WORDS)
        by = fn.value(KEYS * 2, I64)
        self.multiply(rows, depth, self.value_turned, by, self.weights, sums, False)


def build(code, causal, mask, keep, paired):
    """IR of the forward kernel; paired: "square" for matrix registers."""
    return WordForward(code, causal, mask, keep, paired).text()
