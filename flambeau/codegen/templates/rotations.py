"""Eigenvalues and singular values of stacks of small matrices, by Jacobi's rotations.

Each lane of a vector holds a matrix of its own, so nothing crosses lanes and every matrix gets the
same result in whatever company. Symmetric matrices are rotated from both sides until they are
diagonal; for singular values columns are rotated until they are orthogonal to each other, and their
lengths are the values (Hestenes). A rotation that a lane does not need leaves its numbers as they
are. Matrices are scaled by a power of two first, so that squares neither overflow nor vanish.
"""

from contextlib import contextmanager

from flambeau.codegen import descriptions_linalg as descriptions
from flambeau.codegen.llvm import gather, scatter
from flambeau.codegen.llvm_names import LLVM_TYPE
from flambeau.codegen.loops import I1, I64, PTR, V, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel

MOST_SWEEPS = 40
BITS = {"f32": 23, "f64": 52}
TINY = {"f32": 2.0**-100, "f64": 2.0**-830}  # squares of lengths without a direction
LEAST = {"f32": 2.0**-120, "f64": 2.0**-990}  # products of two squares that are looked at


class _Stack:
    """Some matrices of a stack, one per lane, as cells of scratch memory."""

    def __init__(self, code, kinds):
        self.kernel = Kernel(kinds)
        self.fn, self.code, self.scalar = self.kernel.fn, code, LLVM_TYPE[code]
        self.width = current().vector_bytes // bytes_of(self.scalar)
        self.type, self.long = vector(self.scalar, self.width), vector(I64, self.width)
        self.words = self.kernel.described(descriptions.Rotations)
        room = self.words.room * self.kernel.chunk
        self.cells = self.fn.gep(self.kernel.arguments[-1], room, self.type)

    @contextmanager
    def groups(self):
        """For each group of matrices; the last one is repeated where there are too few."""
        fn, w, words = self.fn, self.width, self.words
        begin = self.kernel.chunk * words.per_chunk
        with fn.loop(begin, fn.min(begin + words.per_chunk, words.count), w) as first:
            lane, last = fn.iota(self.long), fn.splat(words.count - 1, w)
            self.number = fn.min(fn.splat(first, w) + lane, last)
            yield first

    def constant(self, value):
        return self.fn.value(value, self.type)

    def cell(self, start, index):
        return self.fn.gep(start, index, self.type)

    def load(self, place):
        return self.fn.load(place, self.type)

    def store(self, value, place):
        self.fn.store(value, place)

    def places(self, base, stride, offset):
        """Addresses of an element of each matrix; offset: a number, or one per lane."""
        fn, w = self.fn, self.width
        offset = offset if offset.type == self.long else fn.splat(offset, w)
        index = self.number * fn.splat(stride, w) + offset
        return fn.pure(f"getelementptr {self.scalar}, {base}, {index}", vector(PTR, w))

    def read(self, base, offset):
        return gather(self.fn, self.places(base, self.words.stride, offset), self.scalar, None)

    def write(self, value, base, stride, offset):
        scatter(self.fn, value, self.places(base, stride, offset), None)

    def magnitude(self, x):
        return self.fn.intrinsic("fabs", x)

    def look_at(self, x):
        """Note the largest magnitude of what is read, and whether all of it is finite."""
        fn = self.fn
        self.largest.set(fn.max(self.largest.get(), self.magnitude(x)))
        self.zero.set(fn.intrinsic("fma", x, self.constant(0.0), self.zero.get()))

    def begin(self):
        self.largest, self.zero = (self.fn.var(self.constant(0.0)) for _ in range(2))

    def scales(self):
        """(a power of two that brings the largest magnitude to about one, its inverse)."""
        fn, bits, largest = self.fn, BITS[self.code], self.largest.get()
        self.kernel.fail(fn.any(~(self.zero.get() == 0.0)))  # infinity times zero is no number
        integer = vector(f"i{8 * bytes_of(self.scalar)}", self.width)
        top = (1 << (8 * bytes_of(self.scalar) - 1 - bits)) - 2  # 254 or 2046
        exponent = fn.convert("bitcast", largest, integer) >> bits
        exponent = fn.max(fn.min(exponent, top - 1), 1)
        return [
            fn.convert("bitcast", power << bits, self.type)
            for power in (fn.value(top, integer) - exponent, exponent)
        ]

    def turn(self, off, difference, wanted):
        """(tangent, sine, sine / (1 + cosine)) that make `off` vanish; zeros where not wanted."""
        fn, one = self.fn, self.constant(1.0)
        zeta = difference / (fn.select(wanted, off, one) * 2.0)
        root = fn.intrinsic("sqrt", fn.intrinsic("fma", zeta, zeta, one))
        t = fn.intrinsic("copysign", one, zeta) / (self.magnitude(zeta) + root)
        t = fn.select(wanted, t, self.constant(0.0))
        c = one / fn.intrinsic("sqrt", fn.intrinsic("fma", t, t, one))
        return t, t * c, t * c / (one + c)

    def rotate(self, count, first, first_step, second, second_step, s, tau):
        """Rotate so many pairs of cells; steps count cells.

        With 1 - s tau for the cosine, small rotations make small errors (Rutishauser).
        """
        fn = self.fn
        with fn.loop(0, count) as k:
            at = self.cell(first, k * first_step), self.cell(second, k * second_step)
            x, y = map(self.load, at)
            self.store(fn.intrinsic("fma", -s, fn.intrinsic("fma", tau, x, y), x), at[0])
            self.store(fn.intrinsic("fma", s, fn.intrinsic("fma", -tau, y, x), y), at[1])

    def unit(self, start, n):
        """A unit matrix, columns side by side."""
        fn = self.fn
        one, zero = (self.constant(x) for x in (1.0, 0.0))
        with fn.loop(0, n) as j:
            with fn.loop(0, n) as i:
                self.store(zero, self.cell(start, j * n + i))
            self.store(one, self.cell(start, j * (n + 1)))

    def sweeps(self, sweep):
        """sweep() until it finds nothing to do in any lane: it sets what it is given."""
        fn = self.fn
        busy, again = fn.var(V(fn, I1, "true")), fn.var(V(fn, I1, "false"))
        with fn.loop(0, MOST_SWEEPS), fn.when(busy.get()):
            again.set(False)
            sweep(again)
            busy.set(again.get())
        self.kernel.fail(busy.get())

    def rank(self, of, n, at, descending):
        """Which place value `at` of n cells has among them; equal ones keep their order."""
        fn, own = self.fn, self.load(self.cell(of, at))
        zero, one = (fn.value(x, self.long) for x in (0, 1))
        place = fn.var(zero)
        with fn.loop(0, n) as j:
            other = self.load(self.cell(of, j))
            before = other > own if descending else other < own
            earlier = fn.splat(j < at, self.width)
            before = before | ((other == own) & earlier)
            place.set(place.get() + fn.select(before, one, zero))
        return place.get()


def build_eigh(code, lower, with_vectors):
    """Eigenvalues, ascending, of symmetric matrices: (A, values, vectors, scratch)."""
    s = _Stack(code, "pppp")
    fn, words, (source, values, vectors, _) = s.fn, s.words, s.kernel.arguments
    n = words.columns
    line = n | 1  # rows an even number of cells apart would share places in the cache
    a, v = s.cells, s.cell(s.cells, n * line)
    w = s.cell(v, n * n)
    with s.groups():
        s.begin()
        with fn.loop(0, n) as i, fn.loop(i, n) as j:  # above the diagonal, wherever it comes from
            row, column = (j, i) if lower else (i, j)
            x = s.read(source, row * words.row + column * words.column)
            s.store(x, s.cell(a, i * line + j))
            s.look_at(x)
        down, up = s.scales()
        total = fn.var(s.constant(0.0))
        with fn.loop(0, n) as i, fn.loop(i, n) as j:
            place = s.cell(a, i * line + j)
            x = s.load(place) * down
            s.store(x, place)
            total.set(fn.intrinsic("fma", x, x, total.get()))
        if with_vectors:
            s.unit(v, n)
        size = fn.convert("sitofp", n, s.scalar)
        norm, size = fn.intrinsic("sqrt", total.get()), fn.splat(size, s.width)
        least = norm * (2.0 ** -(BITS[code] + 1)) / size

        def sweep(again):
            with fn.loop(0, n) as p, fn.loop(p + 1, n) as q:
                off = s.load(s.cell(a, p * line + q))
                wanted = s.magnitude(off) > least
                with fn.when(fn.any(wanted)):
                    again.set(True)
                    rotate(p, q, off, wanted)

        def rotate(p, q, off, wanted):
            places = s.cell(a, p * (line + 1)), s.cell(a, q * (line + 1))
            x, y = map(s.load, places)
            t, *angle = s.turn(off, y - x, wanted)
            s.store(x - t * off, places[0])
            s.store(fn.intrinsic("fma", t, off, y), places[1])
            s.store(fn.select(wanted, s.constant(0.0), off), s.cell(a, p * line + q))
            one = fn.value(1, I64)
            # columns above p; the row of p and the column of q between them; rows behind q
            s.rotate(p, s.cell(a, p), line, s.cell(a, q), line, *angle)
            between = s.cell(a, p * line + p + 1), one, s.cell(a, (p + 1) * line + q), line
            s.rotate(q - p - 1, *between, *angle)
            behind = s.cell(a, p * line + q + 1), one, s.cell(a, q * line + q + 1), one
            s.rotate(n - q - 1, *behind, *angle)
            if with_vectors:
                s.rotate(n, s.cell(v, p * n), one, s.cell(v, q * n), one, *angle)

        s.sweeps(sweep)
        with fn.loop(0, n) as i:
            s.store(s.load(s.cell(a, i * (line + 1))) * up, s.cell(w, i))
        with fn.loop(0, n) as i:
            place = s.rank(w, n, i, False)
            s.write(s.load(s.cell(w, i)), values, n, place)
            if with_vectors:
                with fn.loop(0, n) as r:
                    offset = place * fn.splat(n, s.width) + fn.splat(r, s.width)
                    s.write(s.load(s.cell(v, i * n + r)), vectors, n * n, offset)
    return s.kernel.text()


def build_svd(code, with_vectors):
    """Singular values, descending, of tall matrices: (A, values, left, right, scratch).

    Fails where a column has no direction, so that others must be found for it.
    """
    s = _Stack(code, "ppppp")
    fn, words, (source, values, left, right, _) = s.fn, s.words, s.kernel.arguments
    m, n = words.rows, words.columns
    one, zero = fn.value(1, I64), s.constant(0.0)
    g, v = s.cells, s.cell(s.cells, m * n)
    lengths = s.cell(v, n * n)
    with s.groups():
        s.begin()
        with fn.loop(0, n) as j, fn.loop(0, m) as i:
            x = s.read(source, i * words.row + j * words.column)
            s.store(x, s.cell(g, j * m + i))
            s.look_at(x)
        down, up = s.scales()
        with fn.loop(0, m * n) as k:
            s.store(s.load(s.cell(g, k)) * down, s.cell(g, k))
        if with_vectors:
            s.unit(v, n)
        rows = fn.intrinsic("sqrt", fn.convert("sitofp", m, s.scalar))
        limit = fn.splat(rows * 2.0 ** -(BITS[code] + 1), s.width)

        def dot(p, q):
            total = fn.var(zero)
            with fn.loop(0, m) as i:
                pair = [s.load(s.cell(g, c * m + i)) for c in (p, q)]
                total.set(fn.intrinsic("fma", *pair, total.get()))
            return total.get()

        def measure():
            with fn.loop(0, n) as j:
                s.store(dot(j, j), s.cell(lengths, j))

        def sweep(again):
            measure()  # what rotations make of lengths is true to some digits only
            with fn.loop(0, n) as p, fn.loop(p + 1, n) as q:
                places = s.cell(lengths, p), s.cell(lengths, q)
                x, y = map(s.load, places)
                off, both = dot(p, q), fn.max(x * y, s.constant(LEAST[code]))
                wanted = s.magnitude(off) > limit * fn.intrinsic("sqrt", both)
                with fn.when(fn.any(wanted)):
                    again.set(True)
                    t, *angle = s.turn(off, y - x, wanted)
                    s.store(fn.max(x - t * off, zero), places[0])
                    s.store(fn.max(fn.intrinsic("fma", t, off, y), zero), places[1])
                    s.rotate(m, s.cell(g, p * m), one, s.cell(g, q * m), one, *angle)
                    if with_vectors:
                        s.rotate(n, s.cell(v, p * n), one, s.cell(v, q * n), one, *angle)

        s.sweeps(sweep)
        measure()
        with fn.loop(0, n) as j:
            place = s.rank(lengths, n, j, True)
            squared = s.load(s.cell(lengths, j))
            length = fn.intrinsic("sqrt", squared)
            s.write(length * up, values, n, place)
            if with_vectors:
                s.kernel.fail(fn.any(squared < TINY[code]))

                def spread(of, count, base, steps, stride, factor):
                    with fn.loop(0, count) as i:
                        offset = place * fn.splat(steps[1], s.width)
                        offset = offset + fn.splat(i * steps[0], s.width)
                        s.write(s.load(s.cell(of, j * count + i)) * factor, base, stride, offset)

                steps = words.left_row, words.left_column
                spread(g, m, left, steps, words.left_stride, s.constant(1.0) / length)
                steps = words.right_row, words.right_column
                spread(v, n, right, steps, words.right_stride, s.constant(1.0))
    return s.kernel.text()
