"""Small systems in one go: factor, then solve, invert or take the determinant, a batch at a time.

Up to 4 x 4 each lane of a vector holds a matrix of its own and everything is unrolled: pivoting is
a choice per lane, so nothing branches. Larger matrices are walked one by one, column by column.
Both leave LU factors, pivots and error codes as `factoring.py` does, for derivatives.
"""

from flambeau.codegen import descriptions_linalg as descriptions
from flambeau.codegen.llvm import load_element, scatter, store_element
from flambeau.codegen.loops import I1, I32, I64, V, bytes_of, literal, vector
from flambeau.codegen.templates.factoring import (
    Numbers,
    _first_failure,
    _matrices,
    cholesky_rows,
    eliminate,
)
from flambeau.codegen.templates.sorting import Kernel

# Arguments: A, B, LU, pivots, info, X, determinants; what a purpose does not need may be null.


def build(purpose, code, lanes):
    """The kernel of a purpose (solve, inverse, det, cholesky); lanes: the size, if small enough."""
    if purpose == "cholesky":
        return build_cholesky_lanes(code, lanes) if lanes else build_cholesky_whole(code)
    return build_lanes(code, lanes, purpose) if lanes else build_whole(code, purpose)


def _start(code):
    kernel = Kernel("ppppppp")
    _, *facts = kernel.described(descriptions.Small)
    return kernel, kernel.fn, Numbers(kernel.fn, code), kernel.arguments, facts


class _Lanes:
    """Vectors across matrices: element (i, j) of `width` matrices at a time."""

    def __init__(self, fn, x, n, first, mask):
        self.fn, self.x, self.n, self.first, self.mask = fn, x, n, first, mask
        self.size = bytes_of(x.type) * x.parts

    def load(self, base, offset, stride):
        x, fn = self.x, self.fn
        at = fn.gep(base, self.first * stride + offset, "i8")
        found = load_element(fn, at, x.code, x.width, "n", stride, self.mask)
        return found if x.parts == 2 else (found,)

    def store(self, value, base, index, per_matrix):
        """Element `index` of each matrix's `per_matrix` elements."""
        x, fn = self.x, self.fn
        at = x.at(base, self.first * per_matrix + index)
        stride = per_matrix * self.size
        stride = stride if isinstance(stride, V) else fn.value(stride, I64)
        value = value if x.parts == 2 else value[0]
        store_element(fn, value, at, x.code, x.width, "n", stride, self.mask)

    def store_int(self, value, base, index, per_matrix):
        fn, w = self.fn, self.x.width
        places = (fn.splat(self.first, w) + fn.iota(vector(I64, w))) * per_matrix + index
        pointers = fn.pure(f"getelementptr i32, {base}, {places}", vector("ptr", w))
        scatter(fn, value, pointers, self.mask)

    def choose(self, condition, a, b):
        return tuple(self.fn.select(condition, p, q) for p, q in zip(a, b))

    def swap(self, condition, rows, k, i):
        """Exchange rows k and i where condition holds."""
        for j in range(len(rows[k])):
            a, b = rows[k][j], rows[i][j]
            rows[k][j] = self.choose(condition, b, a)
            rows[i][j] = self.choose(condition, a, b)

    def constant(self, value):
        t = vector(self.x.type, self.x.width)
        return V(self.fn, t, literal(value, t))

    def integer(self, value):
        t = vector(I32, self.x.width)
        return V(self.fn, t, literal(value, t))

    def factor(self, a):
        """LU of rows of elements, in place: ([row that each k was swapped with], info)."""
        fn, x, n = self.fn, self.x, self.n
        info, pivots = self.integer(0), []
        for k in range(n):
            best, place = x.magnitude(a[k][k]), self.integer(k)
            for i in range(k + 1, n):
                size = x.magnitude(a[i][k])
                larger = size > best
                best = fn.select(larger, size, best)
                place = fn.select(larger, self.integer(i), place)
            for i in range(k + 1, n):
                self.swap(place == i, a, k, i)
            pivots.append(place)
            usable = x.nonzero(a[k][k])
            info = fn.select((info == 0) & ~usable, self.integer(k + 1), info)
            for i in range(k + 1, n):
                a[i][k] = self.choose(usable, x.quotient(a[i][k], a[k][k]), a[i][k])
                for j in range(k + 1, n):
                    a[i][j] = x.minus_product(a[i][j], a[i][k], a[k][j])
        return pivots, info

    def solve(self, a, pivots, b):
        """b becomes the solution; b is a column as rows of one element."""
        x, n = self.x, self.n
        for k in range(n):
            for i in range(k + 1, n):
                self.swap(pivots[k] == i, b, k, i)
        for k in range(n):
            for i in range(k + 1, n):
                b[i][0] = x.minus_product(b[i][0], a[i][k], b[k][0])
        for k in reversed(range(n)):
            b[k][0] = x.quotient(b[k][0], a[k][k])
            for i in range(k):
                b[i][0] = x.minus_product(b[i][0], a[i][k], b[k][0])

    def determinant(self, a, pivots):
        fn, x = self.fn, self.x
        sign = self.constant(1.0)
        for k, place in enumerate(pivots):
            sign = fn.select(place == k, sign, -sign)
        found = (sign, *x.zero(x.width)[1:])
        for k in range(self.n):
            minus = tuple(-p for p in found)
            found = x.minus_product(x.zero(x.width), minus, a[k][k])
        return found


def build_lanes(code, n, purpose):
    """Matrices of a fixed small size; purpose is solve, inverse or det."""
    kernel, fn, x, (left, right, lu, pivots, info, out, dets), facts = _start(code)
    count, per_chunk, _, columns, row, column, stride, b_row, b_column, b_stride = facts
    w = x.width
    begin = kernel.chunk * per_chunk
    end = fn.min(begin + per_chunk, count)
    with fn.loop(begin, end, w) as first:
        left_over = fn.splat(fn.convert("trunc", fn.min(end - first, w), I32), w)
        mask = fn.pure(f"icmp ult {fn.iota(vector(I32, w))}, {left_over.name}", vector(I1, w))
        lanes = _Lanes(fn, x, n, first, mask)
        a = [[lanes.load(left, row * i + column * j, stride) for j in range(n)] for i in range(n)]
        places, codes = lanes.factor(a)
        for i in range(n):
            for j in range(n):
                lanes.store(a[i][j], lu, j * n + i, n * n)
            lanes.store_int(places[i] + 1, pivots, i, n)
        lanes.store_int(codes, info, 0, 1)
        if purpose == "det":
            lanes.store(lanes.determinant(a, places), dets, 0, 1)
        elif purpose == "inverse":
            for j in range(n):
                b = [[(lanes.constant(float(i == j)), *x.zero(w)[1:])] for i in range(n)]
                lanes.solve(a, places, b)
                for i in range(n):
                    lanes.store(b[i][0], out, j * n + i, n * n)
        else:
            with fn.loop(0, columns) as j:
                b = [[lanes.load(right, b_row * i + b_column * j, b_stride)] for i in range(n)]
                lanes.solve(a, places, b)
                for i in range(n):
                    lanes.store(b[i][0], out, j * n + i, columns * n)
    return kernel.text()


def build_whole(code, purpose):
    """Matrices of any size, one by one."""
    kernel, fn, x, (left, right, lu, pivots, info, out, dets), facts = _start(code)
    count, per_chunk, n, columns, row, column, stride, b_row, b_column, b_stride = facts
    odd = fn.var(V(fn, I1, "false"))
    with _matrices(kernel, count, per_chunk) as number:
        a = x.at(lu, number * n * n)
        own_pivots = fn.gep(pivots, number * n, I32)
        _copy(fn, x, fn.gep(left, number * stride, "i8"), a, n, n, row, column)
        fn.store(V(fn, I32, "0"), fn.gep(info, number, I32))
        odd.set(False)

        def swapped(k, place):
            odd.set(odd.get() ^ (place != k))

        def zero(k):
            _first_failure(fn, info, number, k + 1)

        eliminate(fn, x, a, n, n, n, fn.value(0, I64), own_pivots, zero, swapped)
        if purpose == "det":
            _store_determinant(fn, x, a, n, odd.get(), dets, number)
        elif purpose == "inverse":
            _invert(fn, x, a, x.at(out, number * n * n), n)
            _swap(fn, x, x.at(out, number * n * n), own_pivots, n, n, by_columns=True)
        else:
            b = x.at(out, number * n * columns)
            _copy(fn, x, fn.gep(right, number * b_stride, "i8"), b, n, columns, b_row, b_column)
            _swap(fn, x, b, own_pivots, n, columns)
            with fn.loop(0, columns) as j:
                _substitute(fn, x, a, x.at(b, j * n), n)
    return kernel.text()


def _copy(fn, x, source, target, rows, columns, row, column):
    """Elements by byte strides, to columns side by side."""
    with fn.loop(0, columns) as j:
        top = fn.gep(source, j * column, "i8")
        with fn.loop(0, rows) as i:
            found = load_element(fn, fn.gep(top, i * row, "i8"), x.code, 1, "c")
            x.store(found if x.parts == 2 else (found,), target, j * rows + i)


def _swap(fn, x, b, pivots, n, columns, by_columns=False):
    """Exchange rows as pivots say; or columns, from the last pivot to the first."""
    with fn.loop(0, n) as step:
        k = n - 1 - step if by_columns else step
        place = fn.convert("sext", fn.load(fn.gep(pivots, k, I32), I32), I64) - 1
        with fn.when(place != k):
            if by_columns:
                one, other = x.at(b, k * n), x.at(b, place * n)

                def exchange(i, w, mask):
                    values = x.load(one, i, w, mask), x.load(other, i, w, mask)
                    x.store(values[1], one, i, mask)
                    x.store(values[0], other, i, mask)

                x.along(fn.value(0, I64), n, exchange)
            else:
                with fn.loop(0, columns) as j:
                    one, other = x.load(b, j * n + k), x.load(b, j * n + place)
                    x.store(other, b, j * n + k)
                    x.store(one, b, j * n + place)


def _invert(fn, x, a, out, n):
    """U⁻¹ L⁻¹, column by column: Y U = I from the left, then Z L = Y from the right.

    Vectors run down columns and stay in registers while earlier columns are subtracted.
    """

    def rows(first, w, mask):
        def combine(k, low, high, start):
            """start - (columns low .. high) times (rows low .. high of column k of a)."""
            cells = [fn.var(p) for p in start]
            column = x.at(a, k * n)
            with fn.loop(low, high) as i:
                factor = x.spread(x.load(column, i), w)
                known = x.load(x.at(out, i * n), first, w, mask)
                new = x.minus_product(tuple(c.get() for c in cells), known, factor)
                for c, p in zip(cells, new):
                    c.set(p)
            return tuple(c.get() for c in cells)

        places = fn.splat(first, w) + fn.iota(vector(I64, w))
        one, nothing = literal(1.0, vector(x.type, w)), x.zero(w)
        with fn.loop(0, n) as k:
            here = fn.select(places == fn.splat(k, w), V(fn, nothing[0].type, one), nothing[0])
            found = combine(k, fn.value(0, I64), k, (here, *nothing[1:]))
            found = x.quotient(found, x.spread(x.load(a, k * (n + 1)), w))
            x.store(found, x.at(out, k * n), first, mask)
        with fn.loop(0, n) as step:
            k = n - 1 - step
            start = x.load(x.at(out, k * n), first, w, mask)
            x.store(combine(k, k + 1, n, start), x.at(out, k * n), first, mask)

    x.along(fn.value(0, I64), n, rows)


def _substitute(fn, x, a, b, n):
    """Solve with L, then with U, in place of one column."""

    def subtract(k, low, high, value):
        column = x.at(a, k * n)

        def step(i, w, mask):
            new = x.minus_product(
                x.load(b, i, w, mask), x.load(column, i, w, mask), x.spread(value, w)
            )
            x.store(new, b, i, mask)

        x.along(low, high, step)

    with fn.loop(0, n) as k:
        subtract(k, k + 1, n, x.load(b, k))
    with fn.loop(0, n) as step:
        k = n - 1 - step
        value = x.quotient(x.load(b, k), x.load(a, k * (n + 1)))
        x.store(value, b, k)
        subtract(k, fn.value(0, I64), k, value)


def _store_determinant(fn, x, a, n, odd, dets, number):
    one, minus = (V(fn, x.type, literal(s, x.type)) for s in (1.0, -1.0))
    cells = [fn.var(p) for p in (fn.select(odd, minus, one), *x.zero()[1:])]
    with fn.loop(0, n) as k:
        negated = tuple(-c.get() for c in cells)
        product = x.minus_product(x.zero(), negated, x.load(a, k * (n + 1)))
        for c, p in zip(cells, product):
            c.set(p)
    x.store(tuple(c.get() for c in cells), dets, number)


# -- Cholesky -------------------------------------------------------------------------------------
# Arguments: A, L, info.


def build_cholesky_lanes(code, n):
    """L with L Lᴴ = A for matrices of a fixed small size; zeros above the diagonal."""
    kernel = Kernel("ppp")
    fn, x, (source, out, info) = kernel.fn, Numbers(kernel.fn, code), kernel.arguments
    _, count, per_chunk, _, _, row, column, stride, *_ = kernel.described(descriptions.Small)
    w = x.width
    begin = kernel.chunk * per_chunk
    end = fn.min(begin + per_chunk, count)
    with fn.loop(begin, end, w) as first:
        left_over = fn.splat(fn.convert("trunc", fn.min(end - first, w), I32), w)
        mask = fn.pure(f"icmp ult {fn.iota(vector(I32, w))}, {left_over.name}", vector(I1, w))
        lanes = _Lanes(fn, x, n, first, mask)
        a = [
            [lanes.load(source, row * i + column * j, stride) for j in range(i + 1)]
            for i in range(n)
        ]
        codes = lanes.integer(0)
        for k in range(n):
            pivot = a[k][k][0]
            codes = fn.select((codes == 0) & ~(pivot > 0), lanes.integer(k + 1), codes)
            alive = codes == 0
            root = fn.intrinsic("sqrt", pivot)
            a[k][k] = lanes.choose(alive, (root, *x.zero(w)[1:]), a[k][k])
            for i in range(k + 1, n):
                a[i][k] = lanes.choose(alive, tuple(p / root for p in a[i][k]), a[i][k])
            for i in range(k + 1, n):
                for j in range(k + 1, i + 1):
                    new = x.minus_product(a[i][j], a[i][k], x.conj(a[j][k]))
                    a[i][j] = lanes.choose(alive, new, a[i][j])
        for i in range(n):
            for j in range(n):
                value = a[i][j] if j <= i else x.zero(w)
                lanes.store(value, out, j * n + i, n * n)
        lanes.store_int(codes, info, 0, 1)
    return kernel.text()


def build_cholesky_whole(code):
    """The same for any size, one by one: L by columns is U by rows."""
    kernel = Kernel("ppp")
    fn, x, (source, out, info) = kernel.fn, Numbers(kernel.fn, code), kernel.arguments
    _, count, per_chunk, n, _, row, column, stride, *_ = kernel.described(descriptions.Small)
    with _matrices(kernel, count, per_chunk) as number:
        a = x.at(out, number * n * n)
        _copy(fn, x, fn.gep(source, number * stride, "i8"), a, n, n, row, column)
        fn.store(V(fn, I32, "0"), fn.gep(info, number, I32))
        cholesky_rows(fn, x, a, n, n, lambda k: _first_failure(fn, info, number, k + 1))
    return kernel.text()
