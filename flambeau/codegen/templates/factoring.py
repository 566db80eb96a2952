"""Factorings of small matrices, many at a time: LU with pivots, Cholesky, triangular systems.

Each kernel walks a batch, one matrix after the other, with plain loops whose innermost runs over
elements that lie side by side. Large matrices are cut into blocks by eager/linalg_factors.py, which
leaves the bulk of the work to matrix products. Sizes and strides are description words, in elements
where nothing else is said. The symmetric indefinite factoring is in `ldl.py`.
"""

from flambeau.codegen import descriptions_linalg as descriptions
from flambeau.codegen import scalar
from flambeau.codegen.llvm import Emitter, load_element, store_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I32, I64, V, bytes_of, literal, vector, width_of
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel


class Numbers:
    """Elements of one dtype in a function: real ones have one part, complex ones two."""

    def __init__(self, fn, code):
        self.fn, self.code = fn, code
        self.parts = 2 if code[0] == "c" else 1
        self.compute = COMPUTE_TYPE[code]
        self.type = LLVM_TYPE[self.compute]
        self.width = current().vector_bytes // bytes_of(self.type)

    def at(self, base, index):
        """Address of base[index]."""
        return self.fn.gep(base, index * self.parts, MEMORY_TYPE[self.code])

    def load(self, base, index, width=1, mask=None):
        found = load_element(self.fn, self.at(base, index), self.code, width, "c", None, mask)
        return found if self.parts == 2 else (found,)

    def store(self, value, base, index, mask=None):
        width = width_of(value[0].type)
        value = value if self.parts == 2 else value[0]
        store_element(self.fn, value, self.at(base, index), self.code, width, "c", None, mask)

    def zero(self, width=1):
        t = vector(self.type, width)
        return tuple(V(self.fn, t, literal(0.0, t)) for _ in range(self.parts))

    def spread(self, value, width):
        return tuple(self.fn.splat(p, width) for p in value)

    def conj(self, value):
        return (value[0], -value[1]) if self.parts == 2 else value

    def _fma(self, a, b, c):
        return self.fn.intrinsic("fma", a, b, c)

    def minus_product(self, c, a, b):
        """c - a * b."""
        if self.parts == 1:
            return (self._fma(-a[0], b[0], c[0]),)
        re = self._fma(a[1], b[1], self._fma(-a[0], b[0], c[0]))
        im = self._fma(-a[1], b[0], self._fma(-a[0], b[1], c[1]))
        return re, im

    def quotient(self, a, b):
        if self.parts == 1:
            return (a[0] / b[0],)
        symbols = [scalar.argument(k, self.compute) for k in range(4)]
        x = scalar.Complex(*symbols[:2]) / scalar.Complex(*symbols[2:])
        return Emitter(self.fn, width_of(a[0].type), [*a, *b]).emit(x)

    def magnitude(self, a):
        """What pivots are compared by: |re| + |im|, as LAPACK does it."""
        found = self.fn.intrinsic("fabs", a[0])
        return found if self.parts == 1 else found + self.fn.intrinsic("fabs", a[1])

    def nonzero(self, a):
        found = a[0] != 0
        return found if self.parts == 1 else found | (a[1] != 0)

    def along(self, low, high, step):
        """step(index, width, mask) over low .. high: whole vectors, then a masked one."""
        fn, w = self.fn, self.width
        whole = low + ((high - low) / w) * w
        with fn.loop(low, whole, w) as i:
            step(i, w, None)
        with fn.when(whole < high):
            left = fn.splat(fn.convert("trunc", high - whole, I32), w)
            lanes = fn.iota(vector(I32, w))
            step(whole, w, fn.pure(f"icmp ult {lanes}, {left.name}", vector(I1, w)))


def _start(kinds, code, words):
    kernel = Kernel(kinds)
    _, *facts = kernel.described(words)
    return kernel, kernel.fn, Numbers(kernel.fn, code), kernel.arguments, facts


def _matrices(kernel, count, per_chunk):
    first = kernel.chunk * per_chunk
    return kernel.fn.loop(first, kernel.fn.min(first + per_chunk, count))


def build_lu(code):
    """LU in place, with partial pivoting: (matrices, pivots, info), columns side by side.

    Pivots and info count from base + 1; info keeps what is not zero, and both are int32.
    """
    kernel, fn, x, (matrices, pivots, info), facts = _start("ppp", code, descriptions.Lu)
    count, per_chunk, m, n, ld, stride, pivot_stride, base = facts
    with _matrices(kernel, count, per_chunk) as number:
        a = x.at(matrices, number * stride)
        own_pivots = fn.gep(pivots, number * pivot_stride, I32)

        def zero(k):
            _first_failure(fn, info, number, base + k + 1)

        eliminate(fn, x, a, m, n, ld, base, own_pivots, zero)
    return kernel.text()


def eliminate(fn, x, a, m, n, ld, base, pivots, zero, chosen=None):
    """LU of one matrix; zero(k) hears of pivots that are, chosen(k, row) of all of them."""
    best, place = fn.var(V(fn, x.type, literal(0.0, x.type))), fn.var(V(fn, I64, "0"))
    with fn.loop(0, fn.min(m, n)) as k:
        column = x.at(a, k * ld)
        best.set(x.magnitude(x.load(column, k)))
        place.set(k)
        with fn.loop(k + 1, m) as i:
            size = x.magnitude(x.load(column, i))
            known = best.get()
            larger = size > known
            best.set(fn.select(larger, size, known))
            place.set(fn.select(larger, i, place.get()))
        row = place.get()
        fn.store(fn.convert("trunc", row + base + 1, I32), fn.gep(pivots, k, I32))
        if chosen is not None:
            chosen(k, row)
        pivot = x.load(column, row)

        def divide():
            with fn.when(row != k), fn.loop(0, n) as j:
                upper, lower = x.load(a, j * ld + k), x.load(a, j * ld + row)
                x.store(lower, a, j * ld + k)
                x.store(upper, a, j * ld + row)

            def step(i, w, mask):
                value = x.quotient(x.load(column, i, w, mask), x.spread(pivot, w))
                x.store(value, column, i, mask)

            x.along(k + 1, m, step)

        fn.if_else(x.nonzero(pivot), divide, lambda: zero(k))
        with fn.loop(k + 1, n) as j:
            target = x.at(a, j * ld)
            factor = x.load(target, k)

            def step(i, w, mask):
                l = x.load(column, i, w, mask)
                value = x.minus_product(x.load(target, i, w, mask), l, x.spread(factor, w))
                x.store(value, target, i, mask)

            x.along(k + 1, m, step)


def _first_failure(fn, info, number, value):
    place = fn.gep(info, number, I32)
    with fn.when(fn.load(place, I32) == 0):
        fn.store(fn.convert("trunc", value, I32), place)


def build_swaps(code):
    """Swap rows as pivots say: (matrices, pivots), columns side by side.

    A pivot outside the matrix fails.
    """
    kernel, fn, x, (matrices, pivots), facts = _start("pp", code, descriptions.Swaps)
    count, per_chunk, rows, columns, ld, stride, pivot_stride, many, first, backward = facts
    with _matrices(kernel, count, per_chunk) as number:
        a = x.at(matrices, number * stride)
        own_pivots = fn.gep(pivots, number * pivot_stride, I32)
        with fn.loop(0, many) as step:
            k = fn.select(backward == 1, many - 1 - step, step)
            place = fn.load(fn.gep(own_pivots, k, I32), I32)
            row = fn.convert("sext", place, I64) - 1
            upper = k + first
            low, high = row < 0, (row >= rows) | (upper >= rows)
            kernel.fail(low, 1)
            kernel.fail(high, 2)
            outside = low | high
            with fn.when(~(outside | (row == upper))), fn.loop(0, columns) as j:
                one, other = x.load(a, j * ld + upper), x.load(a, j * ld + row)
                x.store(other, a, j * ld + upper)
                x.store(one, a, j * ld + row)
    return kernel.text()


def build_triangular(code):
    """Solve L X = B in place of B: (L, B), where rows of B lie side by side.

    Upper triangles are lower ones read backward: addresses of the last element and negative
    strides.
    """
    kernel, fn, x, (left, right), facts = _start("pp", code, descriptions.Triangular)
    pieces, per_chunk, groups, per_group, n, columns = facts[:6]
    row, column, left_stride, right_row, right_stride, unit = facts[6:]
    w = x.width
    with _matrices(kernel, pieces, per_chunk) as piece:
        number, group = piece / groups, piece % groups
        a, b = x.at(left, number * left_stride), x.at(right, number * right_stride)
        low = group * per_group
        high = fn.min(low + per_group, columns)

        def tile(j, vectors, width):
            with fn.loop(0, n) as i:
                at = b_row = x.at(b, i * right_row + j)
                line = x.at(a, i * row)
                cells = [
                    [fn.var(p) for p in x.load(at, fn.value(v * width, I64), width)]
                    for v in range(vectors)
                ]
                with fn.loop(0, i) as k:
                    factor = x.spread(x.load(line, k * column), width)
                    above = x.at(b, k * right_row + j)
                    for v, cell in enumerate(cells):
                        value = x.load(above, fn.value(v * width, I64), width)
                        new = x.minus_product(tuple(c.get() for c in cell), factor, value)
                        for c, p in zip(cell, new):
                            c.set(p)
                with fn.when(unit == 0):
                    pivot = x.spread(x.load(line, i * column), width)
                    for cell in cells:
                        new = x.quotient(tuple(c.get() for c in cell), pivot)
                        for c, p in zip(cell, new):
                            c.set(p)
                for v, cell in enumerate(cells):
                    x.store(tuple(c.get() for c in cell), b_row, fn.value(v * width, I64))

        many = 4 if x.parts == 1 else 2
        wide = low + ((high - low) / (many * w)) * (many * w)
        whole = wide + ((high - wide) / w) * w
        with fn.loop(low, wide, many * w) as j:
            tile(j, many, w)
        with fn.loop(wide, whole, w) as j:
            tile(j, 1, w)
        with fn.loop(whole, high) as j:
            tile(j, 1, 1)
    return kernel.text()


def build_cholesky(code):
    """U with Uᴴ U = A in place of the upper triangle: (matrices, info), rows side by side.

    Below the diagonal come zeros. info is base plus the order of the first leading minor that is
    not positive.
    """
    kernel, fn, x, (matrices, info), facts = _start("pp", code, descriptions.Cholesky)
    count, per_chunk, n, ld, stride, base = facts
    with _matrices(kernel, count, per_chunk) as number:
        a = x.at(matrices, number * stride)
        cholesky_rows(fn, x, a, n, ld, lambda k: _first_failure(fn, info, number, base + k + 1))
    return kernel.text()


def cholesky_rows(fn, x, a, n, ld, refuse):
    """One matrix; refuse(k) hears of the first minor that is not positive, and all stops there."""
    alive = fn.var(V(fn, I1, "true"))
    alive.set(True)
    with fn.loop(0, n) as k:
        line = x.at(a, k * ld)
        pivot = x.load(line, k)[0]

        def divide_and_subtract():
            root = fn.intrinsic("sqrt", pivot)

            def divide(i, w, mask):
                value = x.load(line, i, w, mask)
                x.store(tuple(p / fn.splat(root, w) for p in value), line, i, mask)

            x.store((root, *x.zero()[1:]), line, k)
            x.along(k + 1, n, divide)
            with fn.loop(k + 1, n) as i:
                target = x.at(a, i * ld)
                factor = x.conj(x.load(line, i))

                def step(j, w, mask):
                    u = x.load(line, j, w, mask)
                    value = x.minus_product(x.load(target, j, w, mask), u, x.spread(factor, w))
                    x.store(value, target, j, mask)

                x.along(i, n, step)

        def stop():
            refuse(k)
            alive.set(False)

        with fn.when(alive.get()):
            fn.if_else(pivot > 0, divide_and_subtract, stop)
        x.along(fn.value(0, I64), k, lambda i, w, mask: x.store(x.zero(w), line, i, mask))
