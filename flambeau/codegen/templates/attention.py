"""The forward kernel of attention: softmax(query @ key.T * scale + mask) @ value, block by block.

A chunk is one block of queries of one head. It walks over blocks of keys and keeps, per query, the
largest score so far, the sum of exponentials and the weighted sum of values; when a larger score
appears, the sums are scaled down (online softmax), so no more than one block of scores exists at a
time. Saved for backward: the logarithms of the sums of exponentials. What both kernels share is in
attention_blocks.py.
"""

import math

from flambeau.codegen import scalar as m
from flambeau.codegen.loops import I64, V
from flambeau.codegen.templates.attention_blocks import FORWARD, KEYS, Blocks


class Forward(Blocks):
    names = FORWARD
    unit = 1.0  # of scores, as exponents of e

    def write(self):
        self.add_copy()
        self.add_store("store_rows", self.code)
        self.add_turn()
        self.add_planes(self.span)
        self.add_score_tile("score_tile", self.span)
        self.add_value_tile()
        self.walk()

    def walk(self):
        """One block of queries against all keys it sees."""
        fn = self.fn
        # the longest blocks of a causal mask come first, so that no thread is left with one
        block = self.query_blocks - 1 - self.chunk % self.query_blocks
        rest = self.chunk / self.query_blocks
        self.batch, self.head = rest / self.heads, rest % self.heads
        shared = self.head / self.sharing
        self.first = block * self.queries
        self.count = fn.min(self.length - self.first, self.queries)
        self.keys_at = self.tensor("key", self.batch, shared)
        self.values_at = self.tensor("value", self.batch, shared)
        self.room()
        self.begin()
        self.load_queries()
        self.fill(self.sums, self.padded(self.value_width) * self.queries, 0)
        self.fill(self.peaks, V(fn, I64, str(self.queries)), -math.inf)
        self.fill(self.totals, V(fn, I64, str(self.queries)), 0)
        limit = self.keys_seen(self.first, self.count, V(fn, I64, "0"), self.source_length)
        with fn.loop(0, limit, KEYS) as key:
            self.key_block(key, fn.min(limit - key, KEYS))
        self.end()
        self.finish()

    def begin(self):
        """Before the first tile of a chunk."""

    def end(self):
        """After the last."""

    def load_queries(self):
        """The block of queries as strips."""
        query, by = self.tensor("query", self.batch, self.head)
        at, to = self.fn.gep(query, self.first * by, "i8"), self.padded(self.width) * self.item
        self.run("copy_rows", at, by, self.count, self.width, self.block_rows, to)
        self.to_strips(self.block_rows, self.count, self.width, self.scale, self.strips)

    def room(self):
        fn = self.fn
        width, value_width = self.padded(self.width), self.padded(self.value_width)
        self.block_rows = self.scratch(fn.max(width, value_width) * self.queries)
        self.strips = self.scratch(width * self.queries)
        self.sums = self.scratch(value_width * self.queries)
        self.key_copy = self.scratch(width * KEYS)
        self.value_copy = self.scratch(value_width * KEYS)
        self.scores = fn.alloca(self.type, KEYS * self.span)
        self.bias = fn.alloca(self.type, KEYS * self.span) if self.mask else self.scores
        self.coins = fn.alloca(self.type, KEYS * self.span) if self.keep else self.scores
        self.peaks = fn.alloca(self.type, self.queries)
        self.totals = fn.alloca(self.type, self.queries)
        self.shrink = fn.alloca(self.type, self.span)

    def add_value_tile(self):
        """sums = sums * shrink + values.T @ exponentials, for a few columns of the values."""

        def epilogue(fn, sums, masks, target, shrink):
            for v in range(2):
                factor = fn.load(fn.gep(shrink, v * self.w, self.type), self.vector)
                for r, row in enumerate(sums):
                    at = fn.gep(target, r * self.span + v * self.w, self.type)
                    old = fn.load(at, self.vector)
                    fn.store(fn.intrinsic("fma", old, factor, row[v]), at)

        self.add_tile("value_tile", None, "packed", epilogue, "p target, p shrink")

    def key_block(self, key, count):
        fn, rows = self.fn, self.rows
        whole = (count & (rows - 1)) == 0
        keys, key_stride = self.readable(
            *self.keys_at, key, count, self.width, self.key_copy, whole
        )
        whole = (self.value_width & (rows - 1)) == 0
        values, value_stride = self.readable(
            *self.values_at, key, count, self.value_width, self.value_copy, whole
        )
        with fn.loop(0, self.count, self.span) as query:
            limit = self.keys_seen(self.first + query, self.span, key, count)
            with fn.when(limit > 0):
                strip = self.place(self.strips, query * self.padded(self.width))
                self.score_tiles(
                    "score_tile", limit, keys, key_stride, self.width, strip, self.scores, self.span
                )
                self.load_planes(
                    self.batch,
                    self.head,
                    self.first + query,
                    fn.min(self.count - query, self.span),
                    key,
                    limit,
                    self.bias,
                    self.coins,
                )
                with fn.loop(0, self.span, self.w) as lane:
                    self.exponentials(key, limit, query, lane)
                self.add_values(limit, values, value_stride, query)

    def exponentials(self, key, limit, query, lane):
        """Scores of one vector of queries become exponentials below the largest score so far."""
        fn = self.fn
        i = query + lane
        low = self.spread(-math.inf)

        def score(j):
            value = self.get(self.scores, j * self.span + lane)
            if self.mask:
                value = value + self.get(self.bias, j * self.span + lane)
            if not self.causal:
                return value
            return fn.select(self.visible(key + j, self.first + i), value, low)

        before = self.get(self.peaks, i)
        peak = fn.var(before)
        with fn.loop(0, limit) as j:
            peak.set(fn.max(peak.get(), score(j)))
        after = peak.get()
        self.put(after, self.peaks, i)
        # a query that has seen nothing yet: any finite number will do
        base = fn.select(after == low, self.spread(0), after)
        shrink = self.calculate(m.exp, before - base)
        self.put(shrink, self.shrink, lane)
        total = fn.var(self.get(self.totals, i) * shrink)

        with fn.loop(0, limit) as j:
            weight = self.calculate(m.exp, score(j) - base)
            total.set(total.get() + weight)
            if self.keep:
                weight = weight * self.get(self.coins, j * self.span + lane)
            self.put(weight, self.scores, j * self.span + lane)
        self.put(total.get(), self.totals, i)

    def add_values(self, limit, values, stride, query):
        fn = self.fn
        sums = self.place(self.sums, query * self.padded(self.value_width))
        zero, item = V(fn, I64, "0"), V(fn, I64, str(self.item))
        with fn.loop(0, self.value_width, self.rows) as d:
            at, into = self.place(values, d), self.place(sums, d * self.span)
            operands = [limit, at, item, stride, self.scores, zero, zero, into, self.shrink]
            self.run("value_tile", *operands)

    def finish(self):
        """Divide by the sums of exponentials, write rows and the logarithms for backward."""
        fn, w = self.fn, self.w
        base = (self.batch * self.heads + self.head) * self.length + self.first
        logs = self.place(self.pointer("logsumexp"), base)
        with fn.loop(0, self.count, w) as i:
            total, peak = self.get(self.totals, i), self.get(self.peaks, i)
            nothing = total == self.spread(0)
            value = self.calculate(lambda t, p: m.log(t) + p * self.unit, total, peak)
            # where nothing was seen, backward shall find exponentials of zero
            value = fn.select(nothing, self.spread(math.inf), value)
            with fn.loop(0, fn.min(self.count - i, w)) as k:
                fn.store(fn.extract(value, k), self.place(logs, i + k))
            one = fn.select(nothing, self.spread(0), self.spread(1) / total)
            self.put(one, self.totals, i)
        self.from_strips(self.sums, self.totals, self.count, self.value_width, self.block_rows)
        out, by = self.tensor("out", self.batch, self.head)
        at, step = fn.gep(out, self.first * by, "i8"), self.padded(self.value_width) * self.item
        self.run("store_rows", self.block_rows, step, self.count, self.value_width, at, by)


def build(code, causal, mask, keep):
    """IR of the forward kernel."""
    return Forward(code, causal, mask, keep).text()
