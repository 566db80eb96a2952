"""Distances between rows on a GPU, and their gradients: templates/distances.py with other loops.

Forward a group of threads makes 32 x 32 distances, four of them each, and fetches 32 coordinates of
all their rows at a time into shared memory. In the gradient a thread sums one coordinate of one row
over all its partners.
"""

from flambeau.codegen import scalar as m
from flambeau.codegen.descriptions import Pairs
from flambeau.codegen.gpu.pointwise import divided
from flambeau.codegen.llvm import Emitter
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import LLVM_TYPE
from flambeau.codegen.loops import I64, Module

SIDE, EACH, THREADS = 32, 2, 256
ACROSS = SIDE // EACH  # threads of a row of them
PITCH = SIDE + 1  # so that threads do not meet in a bank


class _Pairs:
    def __init__(self, code, triangle, kinds):
        self.code, self.triangle, self.e = code, triangle, LLVM_TYPE[code]
        self.module = Module()
        self.kernel = Kernel(self.module, kinds, THREADS, words=len(Pairs._fields))
        self.fn = self.kernel.fn
        self.d = Pairs(*[self.kernel.word(k) for k in range(len(Pairs._fields))])
        self.p = self.fn.convert("fptrunc", self.kernel.argument(len(kinds) - 1), self.e)

    def text(self, groups):
        self.kernel.done()
        add_host_entry(self.module, self.kernel, groups)
        return module_text(self.module)

    def place(self, matrix, i, j):
        """That of a distance."""
        d = self.d
        if self.triangle:
            return i * (d.rows * 2 - i - 1) / 2 + (j - i - 1)
        return matrix * d.by_matrix + i * d.by_row + j * d.by_column

    def symbols(self, count):
        return [m.argument(k, self.code) for k in range(count)]

    def load(self, base, at):
        return self.fn.load(self.fn.gep(base, at, self.e), self.e)


def build_forward(code, kind, triangle, term, total):
    """Arguments: description, out, first operand, second operand, exponent."""
    pairs = _Pairs(code, triangle, "ppppf")
    fn, kernel, d, e = pairs.fn, pairs.kernel, pairs.d, pairs.e
    out, first, second = (kernel.argument(k) for k in (1, 2, 3))
    x, y, exponent = pairs.symbols(3)
    each = term(x - y, exponent, kind)
    joined = m.where((y > x) | (y != y), y, x) if kind == "most" else x + y
    shelves = [kernel.shared(e, SIDE * PITCH) for _ in range(2)]
    sums = kernel.private(e, EACH * EACH)
    down, across = (d.rows + (SIDE - 1)) / SIDE, (d.others + (SIDE - 1)) / SIDE

    def fetch(thread, shelf, base, row, size, rows, start):
        """Coordinates from `start` on of rows from `row` on; zeros beyond the ends."""
        for turn in range(SIDE * SIDE // THREADS):
            at = thread + turn * THREADS
            i, k = row + at / SIDE, start + at % SIDE
            value = fn.if_else(
                (i < size) & (k < d.size),
                lambda i=i, k=k: pairs.load(base, (rows + i) * d.size + k),
                lambda: fn.value(0, e),
            )
            fn.store(value, fn.gep(shelf, at / SIDE * PITCH + at % SIDE, e))

    def add(thread):
        for k in range(SIDE):
            top, left = thread / ACROSS * EACH, thread % ACROSS * EACH
            a = [pairs.load(shelves[0], (top + r) * PITCH + k) for r in range(EACH)]
            b = [pairs.load(shelves[1], (left + c) * PITCH + k) for c in range(EACH)]
            for n in range(EACH * EACH):
                value = Emitter(fn, 1, [a[n // EACH], b[n % EACH], pairs.p]).emit(each)
                both = Emitter(fn, 1, [sums.get(thread, n), value]).emit(joined)
                sums.set(thread, both, n)

    with fn.loop(kernel.group, _tiles(d), kernel.groups) as tile:
        matrix, rest = divided(fn, tile, down * across), tile % (down * across)
        row, column = rest / across * SIDE, rest % across * SIDE
        with kernel.threads(last=True) as thread:
            for n in range(EACH * EACH):
                sums.set(thread, fn.value(0, e), n)
        with fn.loop(0, d.size, SIDE) as start:
            with kernel.threads() as thread:
                fetch(thread, shelves[0], first, row, d.rows, matrix * d.rows, start)
                fetch(thread, shelves[1], second, column, d.others, matrix * d.others, start)
            with kernel.threads() as thread:
                add(thread)
        with kernel.threads() as thread:
            for n in range(EACH * EACH):
                i = row + thread / ACROSS * EACH + n // EACH
                j = column + thread % ACROSS * EACH + n % EACH
                there = (i < d.rows) & (j < d.others)
                with fn.when(there & (j > i) if triangle else there):
                    sum = sums.get(thread, n)
                    found = Emitter(fn, 1, [sum, sum, pairs.p]).emit(total(x, exponent, kind))
                    fn.store(found, fn.gep(out, pairs.place(matrix, i, j), e))
    return pairs.text(lambda fn, word: _tiles(Pairs(*map(word, range(len(Pairs._fields))))))


def _tiles(d):
    """How many squares of distances there are."""
    down, across = (d.rows + (SIDE - 1)) / SIDE, (d.others + (SIDE - 1)) / SIDE
    return d.all / d.rows * down * across


def build_gradient(code, kind, triangle, slope):
    """Arguments: description, out, gradient, first, second operand, distances, exponent."""
    pairs = _Pairs(code, triangle, "ppppppf")
    fn, kernel, d, e = pairs.fn, pairs.kernel, pairs.d, pairs.e
    out, gradient, first, second, distances = (kernel.argument(k) for k in range(1, 6))
    g, difference, distance, exponent = pairs.symbols(4)
    each = slope(g, difference, distance, exponent, kind)
    start = kernel.group * THREADS
    with (
        kernel.threads(last=True) as thread,
        fn.loop(start + thread, d.all * d.size, kernel.groups * THREADS) as at,
    ):
        row = divided(fn, at, d.size)
        k, matrix = at - row * d.size, divided(fn, row, d.rows)
        i, own = row - matrix * d.rows, pairs.load(first, at)
        sum = fn.var(fn.value(0, e))

        def partners(low, high, place):
            with fn.loop(low, high) as j:
                where = place(j)
                step = own - pairs.load(second, (matrix * d.others + j) * d.size + k)
                given = pairs.load(gradient, where), step, pairs.load(distances, where), pairs.p
                sum.set(sum.get() + Emitter(fn, 1, list(given)).emit(each))

        if triangle:
            partners(fn.value(0, I64), i, lambda j: pairs.place(matrix, j, i))
            partners(i + 1, d.others, lambda j: pairs.place(matrix, i, j))
        else:
            partners(fn.value(0, I64), d.others, lambda j: pairs.place(matrix, i, j))
        fn.store(sum.get(), fn.gep(out, at, e))
    return pairs.text(lambda fn, word: (word(2) * word(5) + (THREADS - 1)) / THREADS)
