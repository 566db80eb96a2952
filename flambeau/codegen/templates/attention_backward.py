"""The backward kernel of attention: gradients of query, key and value, block by block.

Scores are computed again, a block at a time, from the saved logarithms of the sums. With P the
weights, dP = grad @ value.T and delta = the sum of grad * out along a row, the gradient of the
scores is dS = P * (dP - delta); then grad_value += P.T @ grad, grad_key += dS.T @ query and
grad_query += dS @ key.

A chunk is one head of the keys, with all heads of the query that share it. Where there are too few
heads to go round, the keys of a head are cut into pieces, a chunk each, which add to their own part
of grad_query; the launcher adds those up. Either way sums are made in a fixed order. What both
kernels share is in attention_blocks.py.
"""

from flambeau.codegen import scalar as m
from flambeau.codegen.llvm import load_element, masked_load, masked_store
from flambeau.codegen.loops import I64, V
from flambeau.codegen.templates.attention_blocks import KEYS, Blocks


class Backward(Blocks):
    names = (
        "grad_query", "grad_key", "grad_value", "query", "key", "value", "out", "logsumexp", "grad",
        "mask", "keep", "sums",
    )  # fmt: skip

    def __init__(self, code, causal, mask, keep, cut):
        super().__init__(code, causal, mask, keep)
        self.stored = self.compute if cut else code  # parts are rounded when they are added up

    def write(self):
        self.add_copy()
        self.add_store("store_rows", self.stored)
        if self.half:
            self.add_store("round_rows", self.code)
        self.add_turn()
        self.add_planes(self.queries)
        self.add_score_tile("score_tile", self.queries)
        self.add_row_tile()
        fn = self.fn
        shared_heads = self.heads / self.sharing
        self.piece, rest = self.chunk % self.pieces, self.chunk / self.pieces
        self.batch, self.shared = rest / shared_heads, rest % shared_heads
        self.room()
        self.key_low = fn.min(self.piece * self.per_piece, self.source_length)
        self.key_high = fn.min(self.key_low + self.per_piece, self.source_length)
        self.open_sums()
        with fn.loop(0, self.sharing) as nth:
            self.head = self.shared * self.sharing + nth
            with fn.loop(0, self.length, self.queries) as first:
                self.first, self.count = first, fn.min(self.length - first, self.queries)
                self.query_block()
        self.close_sums()

    def room(self):
        fn = self.fn
        self.width_padded = self.padded(self.width)
        self.value_width_padded = self.padded(self.value_width)
        width, value_width = self.width_padded, self.value_width_padded
        self.strips = self.scratch(width * self.queries)
        self.grad_strips = self.scratch(value_width * self.queries)
        self.key_copy = self.scratch(width * KEYS)
        self.value_copy = self.scratch(value_width * KEYS)
        self.query_copy = self.scratch(width * self.queries)
        self.grad_copy = self.scratch(value_width * self.queries)
        self.query_sums = self.scratch(width * self.queries)
        size = KEYS * self.queries
        self.weights = fn.alloca(self.type, size)
        self.slopes = fn.alloca(self.type, size)
        self.bias = fn.alloca(self.type, size) if self.mask else self.slopes
        self.coins = fn.alloca(self.type, size) if self.keep else self.slopes
        self.logs = fn.alloca(self.type, self.queries)
        self.deltas = fn.alloca(self.type, self.queries)

    # -- sums over queries: gradients of key and value --------------------------------------------

    def open_sums(self):
        """Where grad_key and grad_value add up: in place, or, for half types, in scratch."""
        fn = self.fn
        count = self.key_high - self.key_low
        if not self.half:
            self.key_sums = self.tensor("grad_key", self.batch, self.shared)
            self.value_sums = self.tensor("grad_value", self.batch, self.shared)
        else:
            row = self.width_padded + self.value_width_padded
            heads = self.heads / self.sharing
            start = (self.batch * heads + self.shared) * self.source_length * row
            place = self.place(self.pointer("sums"), start)
            self.key_sums = place, self.width_padded * self.item
            place = self.place(place, self.source_length * self.width_padded)
            self.value_sums = place, self.value_width_padded * self.item
        for base, by, width in (
            (*self.key_sums, self.width),
            (*self.value_sums, self.value_width),
        ):
            with fn.loop(0, count) as j:
                row = fn.gep(base, (self.key_low + j) * by, "i8")
                with fn.loop(0, width, self.w) as d:
                    mask = self.lane_mask(fn, width - d)
                    masked_store(fn, self.spread(0), self.place(row, d), mask)

    def close_sums(self):
        """Sums of half types are rounded once, at the end."""
        if not self.half:
            return
        for name, base, by, width in (
            ("grad_key", *self.key_sums, self.width),
            ("grad_value", *self.value_sums, self.value_width),
        ):
            target, to = self.tensor(name, self.batch, self.shared)
            start = self.fn.gep(target, self.key_low * to, "i8")
            source = self.fn.gep(base, self.key_low * by, "i8")
            count = self.key_high - self.key_low
            self.run("round_rows", source, by, count, width, start, to)

    # -- tiles ------------------------------------------------------------------------------------

    def add_row_tile(self):
        """A tile whose lanes are columns of a gradient: its rows += factor * sums."""

        def epilogue(fn, sums, masks, target, by, left, factor):
            factor = fn.splat(factor, self.w)
            for r, row in enumerate(sums):
                with fn.when(left > r):
                    for v, value in enumerate(row):
                        at = fn.gep(fn.gep(target, by * r, "i8"), v * self.w, self.type)
                        old = masked_load(fn, at, self.vector, masks[v])
                        new = fn.intrinsic("fma", value, factor, old)
                        masked_store(fn, new, at, masks[v])

        extra = "p target, i by, i left, f factor"
        self.add_tile("row_tile", None, "strided", epilogue, extra, masked=True)

    def row_tiles(self, depth, a, a_row, a_step, b, b_step, width, target, by, left, factor):
        """One row of tiles, all columns of a gradient."""
        with self.fn.loop(0, width, self.span) as d:
            self.run(
                "row_tile",
                depth,
                a,
                a_row,
                a_step,
                self.place(b, d),
                b_step,
                width - d,
                self.place(target, d),
                by,
                left,
                factor,
            )

    # -- the walk ---------------------------------------------------------------------------------

    def query_block(self):
        """One block of queries against all keys it sees."""
        fn = self.fn
        self.fill(self.query_sums, self.width_padded * self.queries, 0)
        limit = self.keys_seen(self.first, self.count, V(fn, I64, "0"), self.key_high)
        with fn.when(limit > self.key_low):
            self.load_block()
            self.load_logs()
            with fn.loop(self.key_low, limit, KEYS) as key:
                self.key_block(key, fn.min(limit - key, KEYS))
        target, by = self.tensor("grad_query", self.batch, self.head)
        into = fn.gep(target, self.piece * self.by_piece + self.first * by, "i8")
        step = self.width_padded * self.item
        self.run("store_rows", self.query_sums, step, self.count, self.width, into, by)

    def user_rows(self, name):
        base, by = self.tensor(name, self.batch, self.head)
        return self.fn.gep(base, self.first * by, "i8"), by

    def load_block(self):
        """Queries and gradients of the block to scratch, as rows and as strips."""
        one = self.fn.value(1, self.type)
        for name, factor, width, rows, strips in (
            ("query", self.scale, self.width, self.query_copy, self.strips),
            ("grad", one, self.value_width, self.grad_copy, self.grad_strips),
        ):
            at, by = self.user_rows(name)
            to = self.padded(width) * self.item
            self.run("copy_rows", at, by, self.count, width, rows, to)
            self.to_strips(rows, self.count, width, factor, strips)

    def load_logs(self):
        """Logarithms and deltas of the block; lanes without a query get those of the last one."""
        fn, w = self.fn, self.w
        base = (self.batch * self.heads + self.head) * self.length + self.first
        out, by_out = self.user_rows("out")
        grad, by_grad = self.user_rows("grad")
        with fn.loop(0, self.queries) as i:
            row = fn.min(i, self.count - 1)
            log = fn.load(self.place(self.pointer("logsumexp"), base + row), self.type)
            fn.store(log, self.place(self.logs, i))
        with fn.loop(0, self.count) as i:
            total = fn.var(self.spread(0))
            with fn.loop(0, self.value_width, w) as d:
                mask = self.lane_mask(fn, self.value_width - d)
                x, y = (
                    load_element(
                        fn,
                        fn.gep(base, i * by + d * self.memory_item, "i8"),
                        self.code,
                        w,
                        "c",
                        mask=mask,
                    )
                    for base, by in ((out, by_out), (grad, by_grad))
                )
                total.set(fn.intrinsic("fma", x, y, total.get()))
            fn.store(self.across(total.get()), self.place(self.deltas, i))
        with fn.loop(self.count, self.queries) as i:
            fn.store(fn.value(0, self.type), self.place(self.deltas, i))

    def across(self, value):
        """Sum of the lanes, by halves."""
        fn, w = self.fn, self.w
        while w > 2:
            w //= 2
            value = fn.shuffle(value, None, range(w)) + fn.shuffle(value, None, range(w, 2 * w))
        return fn.extract(value, 0) + fn.extract(value, 1)

    def key_block(self, key, count):
        fn, rows = self.fn, self.rows
        whole = (count & (rows - 1)) == 0
        keys, key_stride = self.readable(
            *self.tensor("key", self.batch, self.shared),
            key,
            count,
            self.width,
            self.key_copy,
            whole,
        )
        values, value_stride = self.readable(
            *self.tensor("value", self.batch, self.shared),
            key,
            count,
            self.value_width,
            self.value_copy,
            whole,
        )
        with fn.loop(0, self.count, self.span) as query:
            seen = self.keys_seen(self.first + query, self.span, key, count)
            # whole tiles of keys are read later: what no query may see becomes zero there
            limit = fn.min(self.rounded(seen, rows), count)
            with fn.when(limit > 0):
                weights, slopes = self.place(self.weights, query), self.place(self.slopes, query)
                bias, coins = self.place(self.bias, query), self.place(self.coins, query)
                for at, stride, width, strips, target in (
                    (keys, key_stride, self.width, self.strips, weights),
                    (values, value_stride, self.value_width, self.grad_strips, slopes),
                ):
                    strip = self.place(strips, query * self.padded(width))
                    self.score_tiles(
                        "score_tile", limit, at, stride, width, strip, target, self.queries
                    )
                self.load_planes(
                    self.batch,
                    self.head,
                    self.first + query,
                    fn.min(self.count - query, self.span),
                    key,
                    limit,
                    bias,
                    coins,
                )
                with fn.loop(query, query + self.span, self.w) as i:
                    self.slope_of_scores(key, limit, i)
        self.add_to_keys(key, count)
        self.add_to_queries(key, count, keys, key_stride)

    def slope_of_scores(self, key, limit, i):
        """Scores become weights, products become gradients of scores, for a vector of queries."""
        fn = self.fn
        log, delta = self.get(self.logs, i), self.get(self.deltas, i)
        with fn.loop(0, limit) as j:
            place = j * self.queries + i
            score = self.get(self.weights, place)
            if self.mask:
                score = score + self.get(self.bias, place)
            weight = self.calculate(m.exp, score - log)
            if self.causal:
                seen = self.visible(key + j, self.first + i)
                weight = fn.select(seen, weight, self.spread(0))
            slope, dropped = self.get(self.slopes, place), weight
            if self.keep:
                coin = self.get(self.coins, place)
                slope, dropped = slope * coin, weight * coin
            self.put(dropped, self.weights, place)
            self.put(weight * (slope - delta), self.slopes, place)

    def add_to_keys(self, key, count):
        """grad_value += weights.T @ grad and grad_key += slopes.T @ query, by tiles of keys."""
        fn = self.fn
        zero, item = V(fn, I64, "0"), V(fn, I64, str(self.item))
        by = V(fn, I64, str(self.queries * self.item))
        one = fn.value(1, self.type)
        with fn.loop(0, count, self.rows) as j:
            start = fn.max(key + j - self.first, 0) if self.causal else zero
            depth, left = self.count - start, count - j
            with fn.when(depth > 0):
                for source, rows, width, sums, by_sums, factor in (
                    (self.weights, self.grad_copy, self.value_width, *self.value_sums, one),
                    (self.slopes, self.query_copy, self.width, *self.key_sums, self.scale),
                ):
                    stride = self.padded(width) * self.item
                    a = self.place(source, j * self.queries + start)
                    b = fn.gep(rows, start * stride, "i8")
                    target = fn.gep(sums, (key + j) * by_sums, "i8")
                    self.row_tiles(
                        depth, a, by, item, b, stride, width, target, by_sums, left, factor
                    )

    def add_to_queries(self, key, count, keys, stride):
        """grad_query += slopes @ key, by tiles of queries."""
        fn = self.fn
        item, by = V(fn, I64, str(self.item)), V(fn, I64, str(self.queries * self.item))
        to = self.width_padded * self.item
        with fn.loop(0, self.count, self.rows) as i:
            depth = self.keys_seen(self.first + i, self.rows, key, count)
            with fn.when(depth > 0):
                target = fn.gep(self.query_sums, i * to, "i8")
                a = self.place(self.slopes, i)
                self.row_tiles(
                    depth,
                    a,
                    item,
                    by,
                    keys,
                    stride,
                    self.width,
                    target,
                    to,
                    V(fn, I64, str(self.rows)),
                    self.scale,
                )


def build(code, causal, mask, keep, cut):
    """IR of the backward kernel; cut: are keys cut into pieces?"""
    return Backward(code, causal, mask, keep, cut).text()
