"""Matrix products as plain register-tiled nests: C = A @ B, batched, any strides of A and C.

Two schedules: `n` holds a tile of rows x vectors of columns and walks k (needs B's columns side by
side); `k` holds a tile of dot products and walks vectors along k (needs both operands' k side by
side). Half types are widened on load; integers wrap in their own type. Packing and cache blocking
are not here yet, so large products stay below peak.
"""

from flambeau.codegen import scalar
from flambeau.codegen.llvm import Emitter, load_element, store_element
from flambeau.codegen.llvm_cpu import add_entry, argument_word, host, module_text
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR, Module, V, bytes_of, vector

# Words: 0 chunks  1 rows per chunk  2 M  3 N  4 K
# 5-6 A strides (m, k)  7-8 B strides (k, n)  9-10 C strides (m, n)
# 11.. batch sizes, then batch strides of C, A, B. All strides in bytes.
HEADER = 11
BLOCK = 128  # products that are summed in one go: longer sums lose more digits
HALF = ("f16", "bf16")


class _Product:
    def __init__(self, code, batch):
        self.code, self.batch = code, batch
        self.module = Module()
        self.fn = fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        self.block, self.chunk = fn.params
        self.compute = COMPUTE_TYPE[code]
        self.parts = 2 if code[0] == "c" else 1
        self.width = max(1, host().vector_bytes // bytes_of(LLVM_TYPE[self.compute]))
        self.size = bytes_of(MEMORY_TYPE[code]) * self.parts

    def word(self, k):
        return self.fn.load(self.fn.gep(self.description, k, I64), I64, 8)

    def text(self):
        fn = self.fn
        self.description = argument_word(fn, self.block, 0, "p")
        bases = [argument_word(fn, self.block, k, "p") for k in (1, 2, 3)]
        (
            per_chunk,
            self.m,
            self.n,
            self.k,
            self.am,
            self.ak,
            self.bk,
            self.bn,
            self.cm,
            self.cn,
        ) = (self.word(k) for k in range(1, HEADER))
        blocks = (self.m + per_chunk - 1) / per_chunk
        rest, block = self.chunk / blocks, self.chunk % blocks
        for d in range(self.batch - 1, -1, -1):
            size = self.word(HEADER + d)
            coordinate = rest % size if d else rest
            rest = rest / size
            for t in range(3):
                stride = self.word(HEADER + self.batch * (1 + t) + d)
                bases[t] = fn.gep(bases[t], coordinate * stride, "i8")
        self.c, self.a, self.b = bases
        low = block * per_chunk
        self.rows(low, fn.min(low + per_chunk, self.m))
        fn.ret()
        add_entry(self.module, "pppp")
        return module_text(self.module)

    def zero(self, width):
        t = vector(LLVM_TYPE[self.compute], width)
        return [
            V(self.fn, t, "zeroinitializer") if width > 1 else self.fn.value(0, t)
            for _ in range(self.parts)
        ]

    def multiply_add(self, width, acc, a, b):
        """acc + a * b on lists of parts."""
        t = self.compute
        symbols = [scalar.argument(k, t) for k in range(3 * self.parts)]
        if self.parts == 2:
            x = scalar.Complex(*symbols[0:2]) + scalar.Complex(*symbols[2:4]) * scalar.Complex(
                *symbols[4:6]
            )
        elif scalar.is_float(t):
            x = scalar.fma(symbols[1], symbols[2], symbols[0])
        else:
            x = symbols[0] + symbols[1] * symbols[2]
        found = Emitter(self.fn, width, [*acc, *a, *b]).emit(x)
        return list(found) if isinstance(found, tuple) else [found]

    def load(self, base, offset, width, access, stride=None, mask=None):
        value = load_element(
            self.fn, self.fn.gep(base, offset, "i8"), self.code, width, access, stride, mask
        )
        return list(value) if isinstance(value, tuple) else [value]

    def store(self, value, offset, width, access, stride, mask):
        value = tuple(value) if self.parts == 2 else value[0]
        store_element(
            self.fn,
            value,
            self.fn.gep(self.c, offset, "i8"),
            self.code,
            width,
            access,
            stride,
            mask,
        )

    def tail_mask(self, left):
        fn, w = self.fn, self.width
        lanes = fn.iota(vector("i32", w))
        return fn.pure(
            f"icmp ult {lanes}, {fn.splat(fn.convert('trunc', left, 'i32'), w).name}", vector(I1, w)
        )

    def tiles(self, low, high, size, run):
        """run(i, size) over whole tiles, then one by one."""
        fn = self.fn
        whole = low + ((high - low) / size) * size
        with fn.loop(low, whole, size) as i:
            run(i, size)
        if size > 1:
            with fn.loop(whole, high) as i:
                run(i, 1)


class ColumnProduct(_Product):
    """Schedule n."""

    def rows(self, low, high):
        fn, w = self.fn, self.width
        wide = 2 * w
        whole = (self.n / wide) * wide
        with fn.loop(0, whole, wide) as j:
            self.tiles(
                low,
                high,
                8 if self.parts == 1 else 3,
                lambda i, rows: self.tile(i, rows, j, 2, None),
            )
        with fn.loop(whole, self.n, w) as j:
            mask = self.tail_mask(fn.min(self.n - j, w)) if w > 1 else None
            self.tiles(
                low,
                high,
                8 if self.parts == 1 else 3,
                lambda i, rows: self.tile(i, rows, j, 1, mask),
            )

    def tile(self, i, rows, j, columns, mask):
        fn, w = self.fn, self.width
        a_base = fn.gep(self.a, i * self.am, "i8")
        b_base = fn.gep(self.b, j * self.size, "i8")
        # sums of BLOCK products, then sums of those in memory (where half types have no room)
        block = self.k if self.code in HALF else V(fn, I64, str(BLOCK))
        with fn.loop(0, self.k, block) as first:
            acc = [[[fn.var(v) for v in self.zero(w)] for _ in range(columns)] for _ in range(rows)]
            with fn.loop(first, fn.min(first + block, self.k)) as k:
                bs = [
                    self.load(b_base, k * self.bk + c * w * self.size, w, "c", None, mask)
                    for c in range(columns)
                ]
                for r in range(rows):
                    a = self.load(a_base, k * self.ak + self.am * r, w, "s")
                    for c in range(columns):
                        new = self.multiply_add(w, [v.get() for v in acc[r][c]], a, bs[c])
                        for cell, value in zip(acc[r][c], new):
                            cell.set(value)
            for r in range(rows):
                for c in range(columns):
                    offset = (i + r) * self.cm + (j + c * w) * self.cn
                    self.put([v.get() for v in acc[r][c]], offset, mask, first == 0)

    def put(self, value, offset, mask, fresh):
        fn = self.fn

        def write(access, stride):
            def store():
                new = value
                if self.code not in HALF:
                    old = self.load(self.c, offset, self.width, access, stride, mask)
                    start = self.zero(self.width)
                    new = [v + fn.select(fresh, z, o) for v, z, o in zip(value, start, old)]
                self.store(new, offset, self.width, access, stride, mask)

            return store

        fn.if_else(self.cn == self.size, write("c", None), write("n", self.cn))


class DotProduct(_Product):
    """Schedule k."""

    def rows(self, low, high):
        tile = 4 if self.parts == 1 else 2
        self.tiles(low, high, tile, lambda i, rows: self.columns(i, rows, tile))

    def columns(self, i, rows, tile):
        self.tiles(
            self.fn.value(0, I64), self.n, tile, lambda j, columns: self.tile(i, rows, j, columns)
        )

    def tile(self, i, rows, j, columns):
        fn, w = self.fn, self.width
        acc = [[[fn.var(v) for v in self.zero(w)] for _ in range(columns)] for _ in range(rows)]
        whole = (self.k / w) * w

        def step(k, mask):
            at = k * self.size
            xs = [
                self.load(self.a, (i + r) * self.am + at, w, "c", None, mask) for r in range(rows)
            ]
            ys = [
                self.load(self.b, (j + c) * self.bn + at, w, "c", None, mask)
                for c in range(columns)
            ]
            for r in range(rows):
                for c in range(columns):
                    new = self.multiply_add(w, [v.get() for v in acc[r][c]], xs[r], ys[c])
                    for cell, value in zip(acc[r][c], new):
                        cell.set(value)

        with fn.loop(0, whole, w) as k:
            step(k, None)
        if w > 1:
            with fn.when(whole < self.k):
                step(whole, self.tail_mask(self.k - whole))
        for r in range(rows):
            for c in range(columns):
                total = [self.across(v.get()) for v in acc[r][c]]
                self.store(total, (i + r) * self.cm + (j + c) * self.cn, 1, "c", None, None)

    def across(self, value):
        """Sum of the lanes, by halves."""
        fn, w = self.fn, self.width
        while w > 1:
            w //= 2
            if w > 1:
                value = fn.shuffle(value, None, range(w)) + fn.shuffle(value, None, range(w, 2 * w))
            else:
                value = fn.extract(value, 0) + fn.extract(value, 1)
        return value


def build(schedule, code, batch):
    """IR of a product for a memory dtype and a number of batch dimensions."""
    return {"n": ColumnProduct, "k": DotProduct}[schedule](code, batch).text()
