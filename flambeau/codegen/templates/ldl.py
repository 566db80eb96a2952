"""Symmetric indefinite matrices: the factoring of Bunch and Kaufman, and systems solved with it.

A = P L D Lᵀ Pᵀ (or Lᴴ) with blocks of one or two rows in D, in the lower triangle, packed and
pivoted as LAPACK's ?sytrf and ?hetrf do: a pivot of a single row counts from 1, both pivots of a
pair are negative. Columns lie side by side; innermost loops run down them.
"""

import math

from flambeau.codegen import descriptions_linalg as descriptions
from flambeau.codegen import scalar
from flambeau.codegen.loops import I1, I32, I64, V, literal
from flambeau.codegen.templates.factoring import _first_failure, _matrices, _start

ALPHA = (1 + math.sqrt(17)) / 8  # bounds how much elements may grow


class _Triangle:
    """One matrix: its elements and the steps of the factoring."""

    def __init__(self, fn, x, base, n, column, hermitian):
        self.fn, self.x, self.base, self.n, self.column = fn, x, base, n, column
        self.hermitian = hermitian

    def get(self, i, j):
        return self.x.load(self.base, j * self.column + i)

    def put(self, value, i, j):
        self.x.store(value, self.base, j * self.column + i)

    def conj(self, value):
        return self.x.conj(value) if self.hermitian else value

    def real(self, value):
        """What is left of a diagonal element: Hermitian matrices have real ones."""
        return (value[0], *self.x.zero()[1:]) if self.hermitian else value

    def size(self, value):
        return self.x.magnitude(self.real(value))

    def largest(self, low, high, element, best, place):
        """Largest magnitude of element(i) for low <= i < high, into two variables."""
        fn = self.fn
        with fn.loop(low, high) as i:
            size, known = self.x.magnitude(element(i)), best.get()
            larger = size > known
            best.set(fn.select(larger, size, known))
            place.set(fn.select(larger, i, place.get()))

    def swap(self, a, b, turned=False):
        """Exchange elements at two places (i, j), conjugated if turned and Hermitian."""
        one, other = self.get(*a), self.get(*b)
        if turned:
            one, other = self.conj(one), self.conj(other)
        self.put(other, *a)
        self.put(one, *b)

    def exchange(self, low, high):
        """Rows and columns low < high of the part that is not factored yet."""
        fn = self.fn
        with fn.loop(high + 1, self.n) as i:
            self.swap((i, low), (i, high))
        with fn.loop(low + 1, high) as j:
            self.swap((j, low), (high, j), turned=True)
        self.put(self.conj(self.get(high, low)), high, low)
        self.swap((low, low), (high, high))

    def minus(self, a, b):
        return tuple(p - q for p, q in zip(a, b))

    def times(self, a, b):
        return self.x.minus_product(self.x.zero(), tuple(-p for p in a), b)

    def eliminate_one(self, k):
        fn, x = self.fn, self.x
        pivot = self.real(self.get(k, k))
        source = x.at(x.at(self.base, k * self.column), fn.value(0, I64))
        with fn.loop(k + 1, self.n) as j:
            factor = self.conj(x.quotient(self.get(j, k), pivot))
            target = x.at(self.base, j * self.column)

            def step(i, w, mask):
                value = x.load(target, i, w, mask)
                value = x.minus_product(value, x.load(source, i, w, mask), x.spread(factor, w))
                x.store(value, target, i, mask)

            x.along(j, self.n, step)
        with fn.loop(k + 1, self.n) as j:
            self.put(x.quotient(self.get(j, k), pivot), j, k)

    def eliminate_two(self, k):
        """Rows k and k + 1 at once; D's block is scaled by its corner before it is inverted."""
        fn, x = self.fn, self.x
        corner = self.get(k + 1, k)
        low = x.quotient(self.real(self.get(k + 1, k + 1)), corner)
        high = x.quotient(self.real(self.get(k, k)), self.conj(corner))
        one = (V(fn, x.type, literal(1.0, x.type)), *x.zero()[1:])
        scale = x.quotient(one, self.minus(self.times(low, high), one))
        first, second = x.at(self.base, k * self.column), x.at(self.base, (k + 1) * self.column)
        with fn.loop(k + 2, self.n) as j:
            a, b = self.get(j, k), self.get(j, k + 1)
            # the row (a, b) times the inverse of the block
            left = self.times(
                scale,
                self.minus(
                    self.times(low, x.quotient(a, self.conj(corner))),
                    x.quotient(b, self.conj(corner)),
                ),
            )
            right = self.times(
                scale, self.minus(self.times(high, x.quotient(b, corner)), x.quotient(a, corner))
            )
            factors = self.conj(left), self.conj(right)
            target = x.at(self.base, j * self.column)

            def step(i, w, mask):
                value = x.load(target, i, w, mask)
                for source, factor in zip((first, second), factors):
                    value = x.minus_product(value, x.load(source, i, w, mask), x.spread(factor, w))
                x.store(value, target, i, mask)

            x.along(j, self.n, step)
            self.put(left, j, k)
            self.put(right, j, k + 1)


def _build(code, hermitian):
    """Factor in place: (matrices, pivots, info); above the diagonal come zeros."""
    kernel, fn, x, (matrices, pivots, info), facts = _start("ppp", code, descriptions.Ldl)
    count, per_chunk, n, column, stride = facts
    zero = V(fn, x.type, literal(0.0, x.type))
    alpha = scalar.const(ALPHA, x.compute).data  # rounded to the type
    column_best, row_best = fn.var(zero), fn.var(zero)
    k_cell, place, row_place = (fn.var(V(fn, I64, "0")) for _ in range(3))
    chosen, pair = fn.var(V(fn, I64, "0")), fn.var(V(fn, I1, "false"))
    with _matrices(kernel, count, per_chunk) as number:
        base = x.at(matrices, number * stride)
        own_pivots = fn.gep(pivots, number * n, I32)
        a = _Triangle(fn, x, base, n, column, hermitian)
        k_cell.set(0)
        with fn.while_(lambda: k_cell.get() < n):
            k = k_cell.get()
            own = a.size(a.get(k, k))
            column_best.set(0.0)
            place.set(k)
            chosen.set(k)
            pair.set(False)
            a.largest(k + 1, n, lambda i: a.get(i, k), column_best, place)
            below, i_max = column_best.get(), place.get()

            def note():
                _first_failure(fn, info, number, k + 1)
                a.put(a.real(a.get(k, k)), k, k)

            def choose():
                with fn.when(own < below * alpha):
                    row_best.set(0.0)
                    a.largest(k, i_max, lambda j: a.get(i_max, j), row_best, row_place)
                    a.largest(i_max + 1, n, lambda i: a.get(i, i_max), row_best, row_place)
                    beside = row_best.get()
                    grows = own < below * alpha * (below / beside)
                    with fn.when(grows):
                        chosen.set(i_max)
                        pair.set(a.size(a.get(i_max, i_max)) < beside * alpha)
                two = pair.get()
                row = chosen.get()
                target = k + fn.convert("zext", two, I64)
                with fn.when(row != target):
                    a.exchange(target, row)
                    with fn.when(two):
                        a.swap((k + 1, k), (row, k))
                fn.if_else(two, lambda: a.eliminate_two(k), lambda: a.eliminate_one(k))

            none = (own == 0) & (below == 0)
            fn.if_else(none, note, choose)
            two, row = pair.get(), fn.convert("trunc", chosen.get() + 1, I32)
            fn.store(fn.select(two, 0 - row, row), fn.gep(own_pivots, k, I32))
            with fn.when(two):
                fn.store(0 - row, fn.gep(own_pivots, k + 1, I32))
            k_cell.set(k + 1 + fn.convert("zext", two, I64))
        with fn.loop(0, n) as j:
            top = x.at(base, j * column)
            x.along(fn.value(0, I64), j, lambda i, w, mask: x.store(x.zero(w), top, i, mask))
    return kernel.text()


def build_ldl(code):
    return _build(code, False)


def build_ldl_hermitian(code):
    return _build(code, True)


class _Column:
    """One right-hand side."""

    def __init__(self, fn, x, base):
        self.fn, self.x, self.base = fn, x, base

    def get(self, i):
        return self.x.load(self.base, i)

    def put(self, value, i):
        self.x.store(value, self.base, i)

    def swap(self, i, j):
        one, other = self.get(i), self.get(j)
        self.put(other, i)
        self.put(one, j)


def _build_solve(code, hermitian):
    """Solve in place of B: (factors, B, pivots). A pivot that makes no sense fails."""
    kernel, fn, x, (factors, right, pivots), facts = _start("ppp", code, descriptions.LdlSystems)
    pieces, per_chunk, n, columns, column, stride, b_column, b_stride = facts
    cell, ok = fn.var(V(fn, I64, "0")), fn.var(V(fn, I1, "true"))
    with _matrices(kernel, pieces, per_chunk) as piece:
        number, which = piece / columns, piece % columns
        a = _Triangle(fn, x, x.at(factors, number * stride), n, column, hermitian)
        b = _Column(fn, x, x.at(right, number * b_stride + which * b_column))
        own = fn.gep(pivots, number * n, I32)

        def pivot(k):
            return fn.convert("sext", fn.load(fn.gep(own, k, I32), I32), I64)

        ok.set(True)
        cell.set(0)  # where the next block begins
        with fn.loop(0, n) as k:  # the way back reads all pivots, also those inside of blocks
            p = pivot(k)
            row, double, begins = fn.select(p < 0, 0 - p, p), p < 0, cell.get() == k
            halved = begins & double & (k + 1 >= n)
            for number_of, wrong in enumerate((row < 1, row > n, halved), 1):
                kernel.fail(wrong, number_of)
                with fn.when(wrong):
                    ok.set(False)
            with fn.when(begins):
                cell.set(k + 1 + fn.convert("zext", double, I64))

        def subtract_column(k, low):
            """b[low:] -= L[low:, k] b[k]."""
            top, factor = x.at(a.base, k * column), b.get(k)

            def step(i, w, mask):
                value = x.minus_product(
                    x.load(b.base, i, w, mask), x.load(top, i, w, mask), x.spread(factor, w)
                )
                x.store(value, b.base, i, mask)

            x.along(low, n, step)

        def subtract_dot(k, low):
            """b[k] -= L[low:, k] b[low:], conjugated for Hermitian matrices."""
            cells = [fn.var(p) for p in b.get(k)]
            with fn.loop(low, n) as i:
                new = x.minus_product(tuple(c.get() for c in cells), a.conj(a.get(i, k)), b.get(i))
                for c, p in zip(cells, new):
                    c.set(p)
            b.put(tuple(c.get() for c in cells), k)

        def forward_one(k, row):
            b.swap(k, row)
            subtract_column(k, k + 1)
            b.put(x.quotient(b.get(k), a.real(a.get(k, k))), k)

        def forward_two(k, row):
            b.swap(k + 1, row)
            subtract_column(k, k + 2)
            subtract_column(k + 1, k + 2)
            corner = a.get(k + 1, k)
            high = x.quotient(a.real(a.get(k, k)), a.conj(corner))
            low = x.quotient(a.real(a.get(k + 1, k + 1)), corner)
            one = (V(fn, x.type, literal(1.0, x.type)), *x.zero()[1:])
            scale = a.minus(a.times(high, low), one)
            first = x.quotient(b.get(k), a.conj(corner))
            second = x.quotient(b.get(k + 1), corner)
            b.put(x.quotient(a.minus(a.times(low, first), second), scale), k)
            b.put(x.quotient(a.minus(a.times(high, second), first), scale), k + 1)

        with fn.when(ok.get()):
            cell.set(0)
            with fn.while_(lambda: cell.get() < n):
                k = cell.get()
                p = pivot(k)
                single = p > 0
                row = fn.select(single, p, 0 - p) - 1
                fn.if_else(single, lambda: forward_one(k, row), lambda: forward_two(k, row))
                cell.set(fn.select(single, k + 1, k + 2))
            cell.set(n - 1)
            with fn.while_(lambda: cell.get() >= 0):
                k = cell.get()
                p = pivot(k)
                single = p > 0
                row = fn.select(single, p, 0 - p) - 1
                subtract_dot(k, k + 1)
                with fn.when((~single) & (k > 0)):
                    subtract_dot(k - 1, k + 1)
                b.swap(k, row)
                cell.set(fn.select(single, k - 1, k - 2))
    return kernel.text()


def build_ldl_solve(code):
    return _build_solve(code, False)


def build_ldl_solve_hermitian(code):
    return _build_solve(code, True)
