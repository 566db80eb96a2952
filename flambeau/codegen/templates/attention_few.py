"""Attention of few queries over many keys: one row at a time, lanes along the rows of memory.

An item of work is a piece of the keys of one head, with all queries that read it (those of several
heads, where heads share keys). It walks over blocks of keys with an online softmax, as attention.py
does; but scores are dot products along the width and the values are summed lane by lane, so a
single query leaves no lanes idle. Where the keys of a head are cut into pieces, `build_merge` joins
what the pieces found, in their order. How keys are cut depends on sizes only.
"""

import math
import operator

from flambeau.codegen import scalar as m
from flambeau.codegen.llvm import load_element, store_element
from flambeau.codegen.llvm_names import MEMORY_TYPE
from flambeau.codegen.loops import I64, bytes_of
from flambeau.codegen.templates.attention_blocks import FORWARD, KEYS, Blocks
from flambeau.codegen.templates.dots import Dots, dot_products
from flambeau.codegen.templates.pooling import folded

TOGETHER = 4  # keys whose values are added up side by side
STATE = 2  # words of a part beside its sums: the largest score, the sum of exponentials


class Rows(Blocks):
    """What both kernels share: where rows end, and where parts of them lie."""

    names = FORWARD

    def write(self):
        fn = self.fn
        self.open_room()
        first = self.chunk * self.per_chunk
        with fn.loop(first, fn.min(first + self.per_chunk, self.items)) as item:
            self.item_of(item)

    def part_of(self, row, piece):
        """Where a piece leaves the sums of a row, then its state."""
        at = (row * self.pieces + piece) * (self.value_width + STATE)
        return self.place(self.pointer("parts"), at)

    def each_vector(self):
        """Column and mask of every vector of a row of values."""
        return self.fn.loop(0, self.value_width, self.w)

    def finish(self, row, batch, head, query, sums, peak, total):
        """A row divided by its sum of exponentials, and the logarithm of that for backward."""
        fn = self.fn
        nothing = total == 0.0
        log = self.calculate(lambda t, p: m.log(t) + p, total, peak)
        # where nothing was seen, backward shall find exponentials of zero
        log = fn.select(nothing, fn.value(math.inf, self.type), log)
        fn.store(log, self.place(self.pointer("logsumexp"), row))
        one = fn.value(1, self.type)
        factor = self.spread(fn.select(nothing, fn.value(0, self.type), one / total))
        out, by = self.tensor("out", batch, head)
        out = fn.gep(out, query * by, "i8")
        with self.each_vector() as d:
            mask = self.lane_mask(fn, self.value_width - d)
            at = fn.gep(out, d * self.memory_item, "i8")
            value = self.get(sums, d) * factor
            store_element(fn, value, at, self.code, self.w, "c", mask=mask)


class Few(Rows):
    """cut: are the keys of a head cut into pieces?"""

    def __init__(self, code, causal, mask, keep, cut):
        super().__init__(code, causal, mask, keep)
        self.cut = cut

    def open_room(self):
        fn = self.fn
        self.count = self.sharing * self.length
        self.line = self.rounded(self.value_width, 2 * self.w)
        self.sums = self.scratch(self.line * self.count)
        self.peaks, self.totals = self.scratch(self.count), self.scratch(self.count)
        self.scores = fn.alloca(self.type, KEYS)
        self.plane = fn.alloca(self.type, KEYS) if self.mask or self.keep else self.scores

    def item_of(self, item):
        fn = self.fn
        piece, rest = item % self.pieces, item / self.pieces
        shared_heads = self.heads / self.sharing
        self.batch, shared = rest / shared_heads, rest % shared_heads
        self.first_head = shared * self.sharing
        self.keys, self.values = (self.tensor(n, self.batch, shared) for n in ("key", "value"))
        self.fill(self.sums, self.line * self.count, 0)
        with fn.loop(0, self.count) as r:
            fn.store(fn.value(-math.inf, self.type), self.place(self.peaks, r))
            fn.store(fn.value(0, self.type), self.place(self.totals, r))
        low = piece * self.per_piece
        high = fn.min(low + self.per_piece, self.source_length)
        with fn.loop(low, high, KEYS) as key, fn.loop(0, self.count) as r:
            head, query = self.first_head + r / self.length, r % self.length
            limit = self.keys_seen(query, 1, key, fn.min(high - key, KEYS))
            with fn.when(limit > 0):
                self.block_of(r, head, query, key, limit)
        with fn.loop(0, self.count) as r:
            self.close(r, piece)

    def block_of(self, r, head, query, key, limit):
        """One query and one block of keys."""
        self.score(head, query, key, limit)
        shrink = self.exponentials(r, head, query, key, limit)
        self.add_values(r, key, limit, shrink)

    def score(self, head, query, key, limit):
        fn = self.fn
        at, by = self.tensor("query", self.batch, head)
        at = fn.gep(at, query * by, "i8")
        keys, step = self.keys
        tile = Dots(self.code, 1, min(self.w, 8))
        with fn.loop(0, limit, tile.width) as j:
            start = fn.gep(keys, (key + j) * step, "i8")
            operands = self.width, at, start, fn.value(0, I64), step, limit - j
            ((found,),) = dot_products(fn, tile, *operands)
            fn.store(found[0], self.place(self.scores, j))

    def exponentials(self, r, head, query, key, limit):
        """Scores become exponentials below the largest so far; gives what sums shrink by."""
        fn, low = self.fn, self.spread(-math.inf)
        scale = self.spread(self.scale)
        if self.mask:
            by_batch, by_head, by_query, by_key = self.strides("mask")
            at = self.batch * by_batch + head * by_head + query * by_query + key * by_key
            base = fn.gep(self.pointer("mask"), at, "i8")
            self.load_plane(base, self.mask, by_key, limit, self.masking)
        top = fn.var(low)
        with fn.loop(0, limit, self.w) as j:
            value = self.get(self.scores, j) * scale
            if self.mask:
                value = value + self.get(self.plane, j)
            value = fn.select(self.lane_mask(fn, limit - j), value, low)
            self.put(value, self.scores, j)
            top.set(fn.max(top.get(), value))
        before = fn.load(self.place(self.peaks, r), self.type)
        after = fn.max(before, folded(fn, top.get(), fn.max))
        fn.store(after, self.place(self.peaks, r))
        # a query that has seen nothing yet: any finite number will do
        base = fn.select(after == -math.inf, fn.value(0, self.type), after)
        shrink = self.calculate(m.exp, before - base)
        if self.keep:  # coins lie side by side, in the shape of the scores
            row = (self.batch * self.heads + head) * self.length + query
            at = fn.gep(self.pointer("keep"), row * self.source_length + key, "i8")
            self.load_plane(at, "bool", fn.value(1, I64), limit, self.keeping)
        total = fn.var(self.spread(0))
        with fn.loop(0, limit, self.w) as j:
            p = self.calculate(m.exp, self.get(self.scores, j) - self.spread(base))
            total.set(total.get() + p)
            if self.keep:
                p = p * self.get(self.plane, j)
            self.put(p, self.scores, j)
        found = folded(fn, total.get(), operator.add)
        at = self.place(self.totals, r)
        fn.store(fn.intrinsic("fma", fn.load(at, self.type), shrink, found), at)
        return shrink

    def load_plane(self, base, code, by_key, limit, element):
        """A mask or coins of one query to scratch."""
        fn, size = self.fn, bytes_of(MEMORY_TYPE[code])

        def fetch(width):
            with fn.loop(0, limit, width) as j:
                mask = self.lane_mask(fn, limit - j) if width > 1 else None
                at = fn.gep(base, j * by_key, "i8")
                x = load_element(fn, at, code, width, "c", mask=mask)
                fn.store(element(fn, x, self.kept), self.place(self.plane, j))

        fn.if_else(by_key == size, lambda: fetch(self.w), lambda: fetch(1))

    def add_values(self, r, key, limit, shrink):
        """sums = sums * shrink + exponentials @ values, two vectors of columns at a time."""
        fn, w = self.fn, self.w
        base, step = self.values
        base, sums = fn.gep(base, key * step, "i8"), self.place(self.sums, r * self.line)
        with fn.loop(0, self.value_width, 2 * w) as d:
            masks = [self.lane_mask(fn, self.value_width - d - v * w) for v in range(2)]

            def added(j, held):
                p = self.spread(fn.load(self.place(self.scores, j), self.type))
                row = fn.gep(base, j * step + d * self.memory_item, "i8")
                found = []
                for v, (mask, acc) in enumerate(zip(masks, held)):
                    at = fn.gep(row, v * w * self.memory_item, "i8")
                    x = load_element(fn, at, self.code, w, "c", mask=mask)
                    found.append(fn.intrinsic("fma", p, x, acc))
                return found

            def several(values):
                j, *held = values
                found = [added(j + u, held[2 * u : 2 * u + 2]) for u in range(TOGETHER)]
                return [j + TOGETHER, *[x for pair in found for x in pair]]

            zero = self.spread(0)
            old = [self.get(sums, d + v * w) * self.spread(shrink) for v in range(2)]
            start = [fn.value(0, I64), *old, *[zero] * (2 * (TOGETHER - 1))]
            j, *held = fn.carry(limit / TOGETHER, start, several)
            while len(held) > 2:
                half = len(held) // 2
                held = [a + b for a, b in zip(held[:half], held[half:])]
            _, *held = fn.carry(
                limit - j, [j, *held], lambda values: [values[0] + 1, *added(values[0], values[1:])]
            )
            for v, x in enumerate(held):
                self.put(x, sums, d + v * w)

    def close(self, r, piece):
        """The row is done, or its part is."""
        fn = self.fn
        head, query = self.first_head + r / self.length, r % self.length
        row = (self.batch * self.heads + head) * self.length + query
        sums = self.place(self.sums, r * self.line)
        peak, total = (fn.load(self.place(p, r), self.type) for p in (self.peaks, self.totals))
        if not self.cut:
            self.finish(row, self.batch, head, query, sums, peak, total)
            return
        part = self.part_of(row, piece)
        with self.each_vector() as d:
            mask = self.lane_mask(fn, self.value_width - d)
            store_element(
                fn, self.get(sums, d), self.place(part, d), self.compute, self.w, "c", mask=mask
            )
        fn.store(peak, self.place(part, self.value_width))
        fn.store(total, self.place(part, self.value_width + 1))


class Merge(Rows):
    """Rows from the parts that pieces of the keys left; an item is a row."""

    def open_room(self):
        self.line = self.padded(self.value_width)
        self.sums = self.scratch(self.line)

    def item_of(self, row):
        fn = self.fn
        rest, query = row / self.length, row % self.length
        batch, head = rest / self.heads, rest % self.heads
        top, total = fn.var(fn.value(-math.inf, self.type)), fn.var(fn.value(0, self.type))
        with fn.loop(0, self.pieces) as piece:
            peak = self.place(self.part_of(row, piece), self.value_width)
            top.set(fn.max(top.get(), fn.load(peak, self.type)))
        base = fn.select(top.get() == -math.inf, fn.value(0, self.type), top.get())
        self.fill(self.sums, self.line, 0)
        with fn.loop(0, self.pieces) as piece:
            part = self.part_of(row, piece)
            peak = fn.load(self.place(part, self.value_width), self.type)
            factor = self.calculate(m.exp, peak - base)
            mine = fn.load(self.place(part, self.value_width + 1), self.type)
            total.set(fn.intrinsic("fma", mine, factor, total.get()))
            with self.each_vector() as d:
                mask = self.lane_mask(fn, self.value_width - d)
                x = load_element(fn, self.place(part, d), self.compute, self.w, "c", mask=mask)
                old = self.get(self.sums, d)
                self.put(fn.intrinsic("fma", x, self.spread(factor), old), self.sums, d)
        self.finish(row, batch, head, query, self.sums, top.get(), total.get())


def build(code, causal, mask, keep, cut):
    """IR of the kernel; with pieces (cut) its results are parts."""
    return Few(code, causal, mask, keep, cut).text()


def build_merge(code):
    """IR of the kernel that joins parts."""
    return Merge(code, False, "", False).text()
