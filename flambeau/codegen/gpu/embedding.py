"""Rows of a table by number on a GPU: threads side by side copy what lies side by side.

The gradient of a table is summed row by row, from places that were sorted by row; so the order of
additions is always the same.
"""

from flambeau.codegen.descriptions import Links, Lookup, Rows, SortedSums
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.gpu.together import in_flight
from flambeau.codegen.llvm import load_element, store_element
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I8, I32, I64, Module, bytes_of, element, vector
from flambeau.codegen.templates.embedding import OUT_OF_RANGE, place_at

THREADS = 256
WORDS = len(Lookup._fields)
LONG = 16  # terms that are loaded at once, where so many remain
UNITS = (16, 8, 4, 2, 1)  # bytes that a thread copies at once: as many as everything is aligned to


def build_lookup(size, index):
    """Both texts: copy rows of elements of `size` bytes: (out, table, index)."""
    module = Module()
    kernel = Kernel(module, "pppp", THREADS, words=WORDS, resident=5)
    fn = kernel.fn
    d = Lookup(*[kernel.word(k) for k in range(WORDS)])
    out, table, places = (kernel.argument(1 + k) for k in range(3))
    bits = d.length | d.stride
    for base in (out, table):
        bits = bits | fn.pure(f"ptrtoint {base} to i64", I64)

    def copy(unit):
        type = {16: "<4 x i32>"}.get(unit, f"i{8 * unit}")
        per_row = d.length / unit
        first = kernel.group * THREADS + thread

        def read(at):
            """(is the number that of a row?, what is copied)"""
            place = divided(fn, at, per_row)
            row = place_at(fn, places, place, index)
            inside = row.below(d.rows)
            row = fn.select(inside, row, fn.value(0, I64))
            source = fn.gep(table, row * d.stride + (at - place * per_row) * unit, I8)
            return inside, fn.load(source, type, unit)

        def write(at, found):
            inside, value = found
            with fn.when(~inside):
                fn.store(fn.value(OUT_OF_RANGE, I64), kernel.status, 8)
            fn.store(value, fn.gep(out, at * unit, I8), unit)

        # (a table without rows has no element that could be read)
        total = fn.select(d.rows > 0, d.places * per_row, fn.value(0, I64))
        with fn.when((d.rows == 0) & (d.places > 0)):
            fn.store(fn.value(OUT_OF_RANGE, I64), kernel.status, 8)
        in_flight(fn, first, total, kernel.groups * THREADS, read, write)

    def choose(units):
        unit, *rest = units
        if not rest or unit == size:
            copy(unit)
            return
        fn.if_else((bits & (unit - 1)) == 0, lambda: copy(unit), lambda: choose(rest))

    with kernel.threads(last=True) as thread:
        choose([unit for unit in UNITS if unit >= size] or [16])
    kernel.done()

    def groups(fn, word):
        each = 4 * THREADS * 4
        return (word(1) * word(2) / max(size, 4) + (each - 1)) / each

    add_host_entry(module, kernel, groups)
    return module_text(module)


def build_ones_at():
    """Both texts: rows of zeros with a one at a place: (out, places), 64-bit integers."""
    module = Module()
    kernel = Kernel(module, "ppp", THREADS, words=len(Rows._fields))
    fn, d = kernel.fn, Rows(*[kernel.word(k) for k in range(len(Rows._fields))])
    out, places = kernel.argument(1), kernel.argument(2)
    first, step = kernel.group * THREADS, kernel.groups * THREADS
    with kernel.threads(last=True) as thread, fn.loop(first + thread, d[1] * d[2], step) as at:
        row = divided(fn, at, d[2])
        column, place = at - row * d[2], fn.load(fn.gep(places, row, I64), I64)
        with fn.when(~place.below(d[2])):
            fn.store(fn.value(OUT_OF_RANGE, I64), kernel.status, 8)
        fn.store(fn.convert("zext", place == column, I64), fn.gep(out, at, I64))
    kernel.done()
    add_host_entry(module, kernel, lambda fn, word: (word(1) * word(2) + THREADS) / THREADS)
    return module_text(module)


# -- gradients of tables ---------------------------------------------------------------------------


def build_firsts(index):
    """Where the run of each row begins among sorted indices: (firsts, keys), 32-bit firsts.

    Rows without a run stay what they are.
    """
    module = Module()
    kernel = Kernel(module, "ppp", THREADS, words=len(Links._fields))
    fn, d = kernel.fn, Links(*[kernel.word(k) for k in range(len(Links._fields))])
    firsts, keys = kernel.argument(1), kernel.argument(2)
    first = kernel.group * THREADS
    with (
        kernel.threads(last=True) as thread,
        fn.loop(first + thread, d.places, kernel.groups * THREADS) as p,
    ):
        row, before = (place_at(fn, keys, at, index) for at in (p, fn.max(p - 1, 0)))
        inside = row.below(d.rows)
        with fn.when(~inside):
            fn.store(fn.value(OUT_OF_RANGE, I64), kernel.status, 8)
        with fn.when(inside & (row != d.padding) & ((row != before) | (p == 0))):
            fn.store(fn.convert("trunc", p, I32), fn.gep(firsts, row, I32))
    kernel.done()
    add_host_entry(module, kernel, lambda fn, word: (word(1) + (THREADS - 1)) / THREADS)
    return module_text(module)


def build_sorted_sum(code, access, index, bags, factors, averaged):
    """Rows of sums: (out, gradient, firsts, keys, order, bags, factors).

    As templates/embedding.py:build_linked_sum, but the places of a row are a run of `order`.
    """
    return _SortedSum(code, access, index, bags, factors, averaged).text()


class _SortedSum:
    def __init__(self, code, access, index, bags, factors, averaged):
        self.code, self.access, self.index = code, access, index
        self.has_bags, self.factors, self.averaged = bags, factors, averaged
        self.module = Module()
        words = len(SortedSums._fields)
        self.kernel = kernel = Kernel(self.module, "p" * 8, THREADS, words=words)
        self.fn = kernel.fn
        self.d = SortedSums(*[kernel.word(k) for k in range(words)])
        self.out, self.gradient, self.firsts, self.keys, self.order, self.bags, self.factor = (
            kernel.argument(1 + k) for k in range(7)
        )
        self.lanes = 16 // bytes_of(MEMORY_TYPE[code]) if access == "c" else 1

    def text(self):
        fn, d, kernel = self.fn, self.d, self.kernel
        with kernel.threads(last=True) as self.thread:
            if self.lanes > 1:
                item = bytes_of(MEMORY_TYPE[self.code])
                bits = (d.columns * item) | d.stride
                for base in (self.out, self.gradient):
                    bits = bits | fn.pure(f"ptrtoint {base} to i64", I64)
                fn.if_else((bits & 15) == 0, lambda: self.rows(self.lanes), lambda: self.rows(1))
            else:
                self.rows(1)
        kernel.done()

        def groups(fn, word):
            return (word(1) * word(2) / self.lanes + THREADS) / THREADS

        add_host_entry(self.module, kernel, groups)
        return module_text(self.module)

    def rows(self, width):
        fn, d, kernel = self.fn, self.d, self.kernel
        fn.vector_align = 16 if width > 1 else None
        per_row = d.columns / width
        first, step = kernel.group * THREADS + self.thread, kernel.groups * THREADS
        type = LLVM_TYPE[COMPUTE_TYPE[self.code]]
        with fn.loop(first, d.rows * per_row, step) as at:
            row = divided(fn, at, per_row)
            column = (at - row * per_row) * width
            total = fn.var(fn.value(0.0, vector(type, width)))
            begin = fn.convert("sext", fn.load(fn.gep(self.firsts, row, I32), I32), I64)
            with fn.when(begin >= 0):
                self.add_run(row, begin, column, total, width)
            place = fn.gep(self.out, row * d.columns + column, MEMORY_TYPE[self.code])
            store_element(fn, total.get(), place, self.code, width, "c")
        fn.vector_align = None

    def add_run(self, row, begin, column, total, width):
        fn, d = self.fn, self.d
        q = fn.var(begin)

        def goes_on(ahead):
            last = place_at(fn, self.keys, fn.min(q.get() + ahead, d.places - 1), self.index)
            return (q.get() + ahead < d.places) & (last == row)

        for many in (LONG, 1):
            with fn.while_(lambda many=many: goes_on(many - 1)):
                terms = [self.term(q.get() + k, column, width) for k in range(many)]
                sum = total.get()
                for term in terms:
                    sum = sum + term
                total.set(sum)
                q.set(q.get() + many)
        if self.averaged:
            count = fn.convert("sitofp", q.get() - begin, element(total.type))
            total.set(total.get() * fn.splat(fn.value(1.0, count.type) / count, width))

    def term(self, q, column, width):
        fn, code = self.fn, self.code
        place = fn.convert("zext", fn.load(fn.gep(self.order, q, I32), I32), I64)
        source = fn.load(fn.gep(self.bags, place, I64), I64) if self.has_bags else place
        at = fn.gep(self.gradient, source * self.d.stride + column * self.d.step, I8)
        value = load_element(fn, at, code, width, "c")
        if self.factors:
            at = fn.gep(self.factor, place, MEMORY_TYPE[self.factors])
            value = value * fn.splat(load_element(fn, at, self.factors, 1, "c"), width)
        return value
