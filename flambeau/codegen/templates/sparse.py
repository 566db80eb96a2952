"""Products of a sparse matrix by rows: sums of rows of a dense matrix, with a factor each.

Every chunk makes a range of rows of the result, one after the other, so that the order of additions
does not depend on threads. Places are checked here: nobody else looks at them.
"""

from flambeau.codegen import descriptions
from flambeau.codegen.llvm import load_element, store_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I8, I64, vector
from flambeau.codegen.templates import embedding
from flambeau.codegen.templates.embedding import BAD_OFFSETS, OUT_OF_RANGE, lanes
from flambeau.codegen.templates.sorting import Kernel

AT_ONCE = 4  # products of a row that are on their way at the same time, for vectors


class _Walk:
    """Rows of a chunk. Arguments: (out, pointers, columns, values, dense)."""

    def __init__(self, code, index):
        self.kernel = kernel = Kernel("ppppp")
        self.fn, self.code, self.index = kernel.fn, code, index
        self.out, self.pointers, self.places, self.values, self.dense = kernel.arguments
        described = kernel.described(descriptions.RowsProduct)
        _, self.rows, self.count, self.columns, self.per_chunk, self.stride, self.high = described

    def each(self, visit):
        """visit(row, begin, end) for rows whose pointers are right."""
        fn, kernel = self.fn, self.kernel
        low = kernel.chunk * self.per_chunk
        with fn.loop(low, fn.min(low + self.per_chunk, self.rows)) as row:
            begin, end = (self.number(self.pointers, k) for k in (row, row + 1))
            good = (begin >= 0) & (begin <= end) & (end <= self.count)
            kernel.fail(~good, BAD_OFFSETS)
            with fn.when(good):
                visit(row, begin, end)

    def number(self, base, i):
        return embedding.place_at(self.fn, base, i, self.index)

    def column(self, i):
        """The place of element i, 0 in its stead where it is outside, which is reported."""
        fn = self.fn
        found = self.number(self.places, i)
        inside = found.below(self.high)
        self.kernel.fail(~inside, OUT_OF_RANGE)
        return fn.select(inside, found, fn.value(0, I64))

    def factor(self, i):
        at = self.fn.gep(self.values, i, MEMORY_TYPE[self.code])
        return load_element(self.fn, at, self.code, 1, "c")


def build_rows_product(code, index):
    """A sparse matrix times a dense one."""
    walk = _Walk(code, index)
    fn, w = walk.fn, lanes(code)
    zero = fn.value(0.0, vector(LLVM_TYPE[COMPUTE_TYPE[code]], w))

    def visit(row, begin, end):
        goal = fn.gep(walk.out, row * walk.columns, MEMORY_TYPE[code])

        def some(column, vectors, mask):
            sums = [fn.var(zero) for _ in range(vectors)]
            with fn.loop(begin, end) as i:
                base = fn.gep(walk.dense, walk.column(i) * walk.stride, I8)
                factor = fn.splat(walk.factor(i), w)
                for k, cell in enumerate(sums):
                    at = fn.gep(base, column + k * w, MEMORY_TYPE[code])
                    value = load_element(fn, at, code, w, "c", None, mask)
                    cell.set(cell.get() + value * factor)
            for k, cell in enumerate(sums):
                at = fn.gep(goal, column + k * w, MEMORY_TYPE[code])
                store_element(fn, cell.get(), at, code, w, "c", None, mask)

        embedding.each_part(fn, walk.columns, w, some)

    walk.each(visit)
    return walk.kernel.text()


def build_vector_product(code, index):
    """A sparse matrix times a vector: several sums on their way, added in order."""
    walk = _Walk(code, index)
    fn = walk.fn
    zero = fn.value(0.0, LLVM_TYPE[COMPUTE_TYPE[code]])

    def visit(row, begin, end):
        sums = [fn.var(zero) for _ in range(AT_ONCE)]
        whole = begin + ((end - begin) / AT_ONCE) * AT_ONCE

        def add(i, cell):
            at = fn.gep(walk.dense, walk.column(i) * walk.stride, I8)
            cell.set(cell.get() + load_element(fn, at, code, 1, "c") * walk.factor(i))

        with fn.loop(begin, whole, AT_ONCE) as i:
            for k, cell in enumerate(sums):
                add(i + k, cell)
        with fn.loop(whole, end) as i:
            add(i, sums[0])
        total = (sums[0].get() + sums[1].get()) + (sums[2].get() + sums[3].get())
        store_element(fn, total, fn.gep(walk.out, row, MEMORY_TYPE[code]), code, 1, "c")

    walk.each(visit)
    return walk.kernel.text()
