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
from flambeau.codegen.llvm import load_element, masked_load, masked_store, store_element
from flambeau.codegen.llvm_names import MEMORY_TYPE
from flambeau.codegen.loops import I64, V, bytes_of
from flambeau.codegen.templates.attention_blocks import KEYS, Blocks


class Backward(Blocks):
    names = ("grad_query", "grad_key", "grad_value", "query", "key", "value", "out")
    names += ("logsumexp", "grad", "mask", "keep", "sums")

    def __init__(self, code, causal, mask, keep, cut):
        super().__init__(code, causal, mask, keep)
        self.query_code = self.compute if cut else code  # parts are rounded when they are added up

    def write(self):
        self.add_copy()
        self.add_strips()
        self.add_planes(self.queries)
        self.add_score_tile("score_tile", self.queries)
        self.add_row_tiles()
        fn = self.fn
        shared_heads = self.heads / self.sharing
        self.piece, rest = self.chunk % self.pieces, self.chunk / self.pieces
        self.batch, self.shared = rest / shared_heads, rest % shared_heads
        self.room()
        length = (self.source_length + (self.pieces - 1)) / self.pieces
        length = ((length + (KEYS - 1)) / KEYS) * KEYS
        self.key_low = fn.min(self.piece * length, self.source_length)
        self.key_high = fn.min(self.key_low + length, self.source_length)
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
        if self.half:
            self.query_copy = self.scratch(width * self.queries)
            self.grad_copy = self.scratch(value_width * self.queries)
        self.query_sums = self.scratch(width * self.queries)
        size = KEYS * self.queries
        self.weights = fn.alloca(self.type, size)
        self.slopes = fn.alloca(self.type, size)
        self.coins = fn.alloca(self.type, size) if self.keep else self.slopes
        self.logs = fn.alloca(self.type, self.queries)
        self.deltas = fn.alloca(self.type, self.queries)

    # -- sums over queries: gradients of key and value --------------------------------------------

    def open_sums(self):
        """Where grad_key and grad_value add up: in place, or, for half types, in scratch."""
        fn = self.fn
        count = self.key_high - self.key_low
        self.key_sums = self.tensor("grad_key", self.batch, self.shared)
        self.value_sums = self.tensor("grad_value", self.batch, self.shared)
        self.by_key, self.by_value = self.strides["grad_key"][2], self.strides["grad_value"][2]
        if self.half:
            row = self.width_padded + self.value_width_padded
            heads = self.heads / self.sharing
            start = (self.batch * heads + self.shared) * self.source_length * row
            self.key_sums = self.place(self.at["sums"], start)
            self.value_sums = self.place(self.key_sums, self.source_length * self.width_padded)
            self.by_key = self.width_padded * self.item
            self.by_value = self.value_width_padded * self.item
        for base, by, width in (
            (self.key_sums, self.by_key, self.width),
            (self.value_sums, self.by_value, self.value_width),
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
            ("grad_key", self.key_sums, self.by_key, self.width),
            ("grad_value", self.value_sums, self.by_value, self.value_width),
        ):
            target = self.tensor(name, self.batch, self.shared)
            to = self.strides[name][2]
            with self.fn.loop(self.key_low, self.key_high) as j:
                self.round_row(base, j * by, target, j * to, width, self.code)

    def round_row(self, base, offset, target, to, width, code):
        """A row of sums to a row of a gradient."""
        fn, size = self.fn, bytes_of(MEMORY_TYPE[code])
        row, into = fn.gep(base, offset, "i8"), fn.gep(target, to, "i8")
        with fn.loop(0, width, self.w) as d:
            mask = self.lane_mask(fn, width - d)
            at = fn.gep(into, d * size, "i8")
            store_element(fn, self.get(row, d), at, code, self.w, "c", mask=mask)

    # -- tiles ------------------------------------------------------------------------------------

    def add_row_tiles(self):
        """Tiles whose lanes are columns of a gradient: its rows += factor * sums."""

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
        self.add_tile("key_tile", self.item, "strided", epilogue, extra, masked=True)
        self.add_tile("query_tile", None, "strided", epilogue, extra, masked=True)

    def row_tiles(self, name, depth, a, a_row, a_step, b, b_step, width, target, by, left, factor):
        """One row of tiles, all columns of a gradient."""
        with self.fn.loop(0, width, self.span) as d:
            self.run(
                name,
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
            self.query_at, self.by_query = self.rows_of("query")
            self.grad_at, self.by_grad = self.rows_of("grad")
            self.load_strips()
            self.load_logs()
            with fn.loop(self.key_low, limit, KEYS) as key:
                self.key_block(key, fn.min(limit - key, KEYS))
        target, by = self.tensor("grad_query", self.batch, self.head), self.strides["grad_query"][2]
        target = fn.gep(target, self.piece * self.by_piece, "i8")
        with fn.loop(0, self.count) as i:
            offset, into = i * (self.width_padded * self.item), (self.first + i) * by
            self.round_row(self.query_sums, offset, target, into, self.width, self.query_code)

    def load_strips(self):
        one = self.fn.value(1, self.type)
        for name, factor, width, target in (
            ("query", self.scale, self.width, self.strips),
            ("grad", one, self.value_width, self.grad_strips),
        ):
            at, by = self.user_rows(name)
            strip = self.padded(width) * self.span
            self.run("to_strips", at, by, self.count, width, factor, target, strip)

    def user_rows(self, name):
        by = self.strides[name][2]
        return self.fn.gep(self.tensor(name, self.batch, self.head), self.first * by, "i8"), by

    def rows_of(self, name):
        """Rows of the block in the compute type: where they lie, or a copy for half types."""
        at, by = self.user_rows(name)
        if not self.half:
            return at, by
        buffer = self.query_copy if name == "query" else self.grad_copy
        width = self.width if name == "query" else self.value_width
        to = self.padded(width) * self.item
        self.run("copy_rows", at, by, self.count, width, buffer, to)
        return buffer, to

    def load_logs(self):
        """Logarithms and deltas of the block; lanes without a query get those of the last one."""
        fn, w = self.fn, self.w
        base = (self.batch * self.heads + self.head) * self.length + self.first
        out, by_out = self.user_rows("out")
        grad, by_grad = self.user_rows("grad")
        with fn.loop(0, self.queries) as i:
            row = fn.min(i, self.count - 1)
            log = fn.load(self.place(self.at["logsumexp"], base + row), self.type)
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
        whole = (count % rows) == 0
        keys, key_stride = self.readable(
            self.tensor("key", self.batch, self.shared),
            self.strides["key"][2],
            key,
            count,
            self.width,
            self.key_copy,
            whole,
        )
        values, value_stride = self.readable(
            self.tensor("value", self.batch, self.shared),
            self.strides["value"][2],
            key,
            count,
            self.value_width,
            self.value_copy,
            whole,
        )
        groups = (self.count + (self.span - 1)) / self.span
        with fn.loop(0, groups) as g:
            query = g * self.span
            seen = self.keys_seen(self.first + query, self.span, key, count)
            # whole tiles of keys are read later: what no query may see becomes zero there
            limit = fn.min(((seen + (rows - 1)) / rows) * rows, count)
            with fn.when(limit > 0):
                weights, slopes = self.place(self.weights, query), self.place(self.slopes, query)
                coins = self.place(self.coins, query)
                for at, stride, width, strips, target in (
                    (keys, key_stride, self.width, self.strips, weights),
                    (values, value_stride, self.value_width, self.grad_strips, slopes),
                ):
                    strip = self.place(strips, query * self.padded(width))
                    self.score_tiles(
                        "score_tile", limit, at, stride, width, strip, target, self.queries
                    )
                self.apply_planes(
                    self.batch,
                    self.head,
                    self.first + query,
                    fn.min(self.count - query, self.span),
                    key,
                    limit,
                    weights,
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
            weight = self.calculate(m.exp, self.get(self.weights, place) - log)
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
        zero, by = V(fn, I64, "0"), V(fn, I64, str(self.queries * self.item))
        one = fn.value(1, self.type)
        with fn.loop(0, count, self.rows) as j:
            start = fn.max(key + j - self.first, 0) if self.causal else zero
            depth, left = self.count - start, count - j
            with fn.when(depth > 0):
                for source, rows, stride, width, sums, by_sums, factor in (
                    (
                        self.weights,
                        self.grad_at,
                        self.by_grad,
                        self.value_width,
                        self.value_sums,
                        self.by_value,
                        one,
                    ),
                    (
                        self.slopes,
                        self.query_at,
                        self.by_query,
                        self.width,
                        self.key_sums,
                        self.by_key,
                        self.scale,
                    ),
                ):
                    a = self.place(source, j * self.queries + start)
                    b = fn.gep(rows, start * stride, "i8")
                    target = fn.gep(sums, (key + j) * by_sums, "i8")
                    self.row_tiles(
                        "key_tile", depth, a, by, zero, b, stride, width, target, by_sums, left,
                        factor,
                    )  # fmt: skip

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
                    "query_tile", depth, a, item, by, keys, stride, self.width, target, to,
                    V(fn, I64, str(self.rows)), self.scale,
                )  # fmt: skip


def build(code, causal, mask, keep, cut):
    """IR of the backward kernel; cut: are keys cut into pieces?"""
    return Backward(code, causal, mask, keep, cut).text()
