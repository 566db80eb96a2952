"""Matrix products on a GPU where no library does them: any dtype, any strides.

A group of 256 threads makes a square of 64 x 64 results. It goes through k in blocks of 16, which
all threads fetch together into shared memory, and every thread keeps 4 x 4 sums. What happens to
them before they reach memory is written as for the host (templates/epilogue.py).
"""

from typing import NamedTuple

from flambeau.codegen.descriptions import DeviceProduct
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, Module, V, bytes_of
from flambeau.codegen.templates.epilogue import Epilogue, _Finish
from flambeau.codegen.templates.tiles import load_parts, multiply_add, summed

SQUARE, DEPTH, EACH = 64, 16, 4
SIDE = SQUARE // EACH  # threads along a side
THREADS = SIDE * SIDE
WORDS = len(DeviceProduct._fields)


class Element(NamedTuple):
    """A tile of one result, as epilogues know tiles."""

    code: str
    parts: int
    type: str
    item: int
    sum_item: int
    rows: int = 1
    vectors: int = 1
    width: int = 1
    paired: bool = False


def build(code, scaled, addends, activation, batch):
    """Both texts of products of a dtype; addends: how many; batch: dimensions of it."""
    epilogue = Epilogue(scaled, "n" * addends, activation)
    return _Gemm(code, epilogue, batch).text()


class _Gemm:
    def __init__(self, code, epilogue, batch):
        self.code, self.epilogue, self.batch = code, epilogue, batch
        self.parts = 2 if code[0] == "c" else 1
        self.type = LLVM_TYPE[summed(code)]
        self.item = bytes_of(MEMORY_TYPE[code]) * self.parts
        self.module = Module()
        count = len(epilogue.addends)
        words = WORDS + batch * (4 + count) + 2 * count
        self.kernel = Kernel(self.module, "pppppi" + epilogue.kinds(code), THREADS, words=words)
        self.fn = self.kernel.fn

    def describe(self):
        """Words of the description, and room for those of addends."""
        fn, kernel = self.fn, self.kernel
        self.d = DeviceProduct(*[kernel.word(k) for k in range(WORDS)])
        self.terms = fn.alloca(I64, max(1, self.epilogue.words(self.code)), 8)
        return self.d

    def text(self):
        fn, kernel = self.fn, self.kernel
        d = self.describe()
        self.left = kernel.shared(self.type, self.parts * DEPTH * SQUARE)
        self.right = kernel.shared(self.type, self.parts * DEPTH * SQUARE)
        self.sums = kernel.private(self.type, EACH * EACH * self.parts)
        across = (d.n + (SQUARE - 1)) / SQUARE
        down = (d.m + (SQUARE - 1)) / SQUARE
        squares = across * down
        with fn.loop(kernel.group, squares * d.batch, kernel.groups) as item:
            matrix, square = item / squares, item % squares
            self.row = (square / across) * SQUARE
            self.column = (square % across) * SQUARE
            self.c, self.a, self.b = self._bases(matrix)
            self._square()
        kernel.done()
        add_host_entry(self.module, kernel, _groups)
        return module_text(self.module)

    def _bases(self, rest):
        """Addresses of C, A, B of one matrix of the batch; the addends' go to terms."""
        fn, kernel, batch = self.fn, self.kernel, self.batch
        count = len(self.epilogue.addends)
        offsets = [fn.value(0, I64)] * (3 + count)
        for dim in range(batch - 1, -1, -1):
            size = kernel.word(WORDS + dim)
            coordinate = rest % size if dim else rest
            rest = rest / size
            for t in range(3 + count):
                stride = kernel.word(WORDS + batch * (1 + t) + dim)
                offsets[t] = offsets[t] + coordinate * stride
        self._fill_terms(offsets[3:], WORDS + batch * (4 + count))
        return [fn.gep(kernel.argument(1 + t), offsets[t], "i8") for t in range(3)]

    def _fill_terms(self, offsets, strides_at):
        """Alpha, then address, row stride, column stride and factor of each addend."""
        fn, kernel = self.fn, self.kernel
        found, at = [], 6

        def numbers():
            nonlocal at
            for _ in range(self.parts):
                found.append(fn.load(fn.gep(kernel.block, at, I64), I64, 8))
                at += 1

        if self.epilogue.scaled:
            numbers()
        for t, offset in enumerate(offsets):
            found.append(fn.gep(kernel.argument(at), offset, "i8"))
            at += 1
            found += [kernel.word(strides_at + 2 * t), kernel.word(strides_at + 2 * t + 1)]
            numbers()
        for k, value in enumerate(found):
            fn.store(value, fn.gep(self.terms, k, I64), 8)

    def _square(self):
        """64 x 64 results."""
        fn, kernel, d = self.fn, self.kernel, self.d
        with kernel.threads() as thread:
            for k in range(EACH * EACH * self.parts):
                self.sums.set(thread, 0, k)
        with fn.loop(0, d.k, DEPTH) as first:
            with kernel.threads() as thread:
                self._fetch(thread, first, self.left, self.a, d.a_row, d.a_k, self.row, d.m)
                self._fetch(thread, first, self.right, self.b, d.b_column, d.b_k, self.column, d.n)
            with kernel.threads() as thread:
                self._multiply(thread)
        with kernel.threads() as thread:
            self._finish(thread)

    def _fetch(self, thread, first, target, base, stride, stride_k, start, size):
        """Every thread brings its share of a block; beyond the edges there are zeros."""
        fn, d = self.fn, self.d
        # neighbours along whichever stride is one element
        along = stride_k == self.item
        for turn in range(SQUARE * DEPTH // THREADS):
            at = thread + turn * THREADS
            i = fn.select(along, at / DEPTH, at % SQUARE)
            k = fn.select(along, at % DEPTH, at / SQUARE)
            inside = (start + i < size) & (first + k < d.k)

            def there(i=i, k=k):
                place = fn.gep(base, (start + i) * stride + (first + k) * stride_k, "i8")
                return load_parts(fn, place, self.code, 1, "c")

            values = self._if(inside, there)
            for p, value in enumerate(values):
                fn.store(value, fn.gep(target, (k * SQUARE + i) * self.parts + p, self.type))

    def _if(self, condition, then):
        """The parts that then() gives, or zeros."""
        fn = self.fn
        cells = [fn.var(V(fn, self.type, "zeroinitializer")) for _ in range(self.parts)]
        with fn.when(condition):
            for cell, value in zip(cells, then()):
                cell.set(value)
        return [cell.get() for cell in cells]

    def _multiply(self, thread):
        fn, p = self.fn, self.parts
        top, left = (thread / SIDE) * EACH, (thread % SIDE) * EACH
        for k in range(DEPTH):

            def part(base, at, k=k):
                place = (at + k * SQUARE) * p
                return [fn.load(fn.gep(base, place + q, self.type), self.type) for q in range(p)]

            rows = [part(self.left, top + r) for r in range(EACH)]
            columns = [part(self.right, left + c) for c in range(EACH)]
            for r in range(EACH):
                for c in range(EACH):
                    at = (r * EACH + c) * p
                    old = [self.sums.get(thread, at + q) for q in range(p)]
                    new = multiply_add(fn, old, rows[r], columns[c])
                    for q in range(p):
                        self.sums.set(thread, new[q], at + q)

    def _finish(self, thread):
        fn, d, p = self.fn, self.d, self.parts
        tile = Element(self.code, p, self.type, self.item, bytes_of(self.type) * p)
        top = self.row + (thread / SIDE) * EACH
        left = self.column + (thread % SIDE) * EACH
        for r in range(EACH):
            for c in range(EACH):
                row, column = top + r, left + c
                with fn.when((row < d.m) & (column < d.n)):
                    place = fn.gep(self.c, row * d.c_row + column * d.c_column, "i8")
                    rest = [] if self.epilogue.plain else [row, column, self.terms]
                    at = (r * EACH + c) * p
                    sums = [self.sums.get(thread, at + q) for q in range(p)]
                    zero = fn.value(0, I64)
                    _Finish(fn, tile, self.epilogue, None, place, zero, rest).put([sums], zero)


def _groups(fn, word):
    """A group per square of results."""
    m, n, batch = word(2), word(3), word(1)
    return ((m + (SQUARE - 1)) / SQUARE) * ((n + (SQUARE - 1)) / SQUARE) * batch
