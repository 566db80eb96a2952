"""Attention of bfloat16 by products of pairs: nothing is widened but scores and sums.

The walk is that of attention.py; operands are words of two bfloat16, as tiles want them that
multiply pairs (conv_tiles.py) or matrices of them (word_squares.py). Scores are rows of keys, as
they lie, times strips of queries, words of two columns. Exponentials are rounded and paired, two
keys to a word, and multiplied by values that were turned around, a row per column. Everything is
filled up with zeros to whole matrix registers.
"""

import math

from flambeau.codegen import scalar as m
from flambeau.codegen.llvm import masked_load, to_memory
from flambeau.codegen.loops import I1, I32, I64, V, vector
from flambeau.codegen.templates import squares
from flambeau.codegen.templates.attention import Forward
from flambeau.codegen.templates.attention_blocks import KEYS, transposed
from flambeau.codegen.templates.conv_patches import zipped
from flambeau.codegen.templates.conv_tiles import tile_function
from flambeau.codegen.templates.tiles import prefix_mask
from flambeau.codegen.templates.word_squares import square_function

STEP = 32  # bfloat16 of a line: what a matrix register takes at once
LINE = 2 * STEP  # bytes of it
WORDS = STEP // 2
LOG2E = 1 / math.log(2)


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


class WordForward(Words, Forward):
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
                with fn.loop(0, self.span, self.w) as lane:
                    self.exponentials(key, limit, query, lane)
                self.add_words(limit, query)

    def score_words(self, limit, query):
        by = self.lines(self.width)
        strip = self.fn.gep(self.strips, query * by, "i8")
        rows = self.rounded(limit, squares.SIDE)
        self.multiply(rows, by >> 2, self.key_copy, by, strip, self.scores, True)

    def exponential(self, value):
        """Close enough for weights of 8 bits: the exponent loses what float32 cannot hold of it."""
        return self.calculate(lambda x: m.exp2(x * LOG2E), value)

    def scaled(self, value):
        """Scores of queries that were not scaled before."""
        return value * self.spread(self.scale)

    def put_weights(self, limit, lane, weight):
        """Rounded weights of two keys to a word; zeros up to whole registers."""
        fn = self.fn

        def rounded(value):
            return to_memory(fn, value, self.code)

        def place(word):
            return fn.gep(self.weights, word * self.span + lane, I32)

        with fn.loop(0, limit, 2) as j:
            first = weight(j)
            second = weight(j + 1, j + 1 < limit)
            fn.store(zipped(fn, rounded(first), rounded(second)), place(j >> 1))
        words = (limit + 1) >> 1
        zero = fn.value(0, vector(I32, self.w))
        with fn.loop(words, self.rounded(words, WORDS)) as word:
            fn.store(zero, place(word))

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
