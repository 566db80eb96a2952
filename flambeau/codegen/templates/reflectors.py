"""QR by Householder reflectors, in place, as LAPACK's ?geqrf leaves it.

Column k becomes R above and a vector v below, with H = I - τ v vᴴ and v[k] = 1 left unsaid. The
diagonal of R is real, with the sign opposite to what it replaces. `build_qr` also multiplies the
reflectors out, for small matrices; large ones are cut into blocks by eager/linalg_reflectors.py.
"""

from flambeau.codegen import descriptions_linalg as descriptions
from flambeau.codegen.llvm import load_element
from flambeau.codegen.loops import I64, V, literal
from flambeau.codegen.templates.factoring import _matrices, _start

# Squares outside this range are summed again, scaled by the largest element.
SAFE = {"f32": (2.0**-100, 2.0**100), "f64": (2.0**-900, 2.0**900)}
# Columns shorter than this have lost digits, and have no reciprocal: they are stretched first.
SHORT = {"f32": 2.0**-103, "f64": 2.0**-970}
STRETCH = 2.0**100


class Reflectors:
    """Steps on matrices of one dtype whose columns lie side by side."""

    def __init__(self, fn, x):
        self.fn, self.x = fn, x

    def number(self, value):
        return V(self.fn, self.x.type, literal(value, self.x.type))

    def _across(self, value):
        """Sum of the lanes, by halves."""
        fn, w = self.fn, self.x.width
        while w > 1:
            w //= 2
            if w == 1:
                return fn.extract(value, 0) + fn.extract(value, 1)
            value = fn.shuffle(value, None, range(w)) + fn.shuffle(value, None, range(w, 2 * w))
        return value

    def dot(self, v, c, low, high):
        """Sum of conj(v) c."""
        x, fn = self.x, self.fn
        cells = [fn.var(p) for p in x.zero(x.width)]

        def step(i, w, mask):
            a = tuple(-p for p in x.conj(x.load(v, i, w, mask)))
            new = x.minus_product(tuple(c.get() for c in cells), a, x.load(c, i, w, mask))
            for cell, p in zip(cells, new):
                cell.set(p)

        x.along(low, high, step)
        return tuple(self._across(cell.get()) for cell in cells)

    def length(self, column, low, high):
        """The 2-norm of part of a column, without overflow."""
        x, fn = self.x, self.fn
        total = fn.var(x.zero(x.width)[0])

        def step(i, w, mask):
            for p in x.load(column, i, w, mask):
                total.set(fn.intrinsic("fma", p, p, total.get()))

        x.along(low, high, step)
        squares = self._across(total.get())
        least, most = SAFE[x.compute]
        safe = (squares > least) & (squares < most)
        found = fn.var(fn.intrinsic("sqrt", squares))
        with fn.when(~(safe | (squares != squares))):
            found.set(self._scaled_length(column, low, high))
        return found.get()

    def _scaled_length(self, column, low, high):
        x, fn = self.x, self.fn
        largest, total = fn.var(self.number(0.0)), fn.var(self.number(0.0))
        with fn.loop(low, high) as i:
            for p in x.load(column, i):
                size = fn.intrinsic("fabs", p)
                largest.set(fn.select(size > largest.get(), size, largest.get()))
        scale = fn.select(largest.get() == 0, self.number(1.0), largest.get())
        with fn.loop(low, high) as i:
            for p in x.load(column, i):
                part = p / scale
                total.set(fn.intrinsic("fma", part, part, total.get()))
        return largest.get() * fn.intrinsic("sqrt", total.get())

    def hypotenuse(self, a, b):
        fn = self.fn
        a, b = fn.intrinsic("fabs", a), fn.intrinsic("fabs", b)
        larger = a > b
        big, small = fn.select(larger, a, b), fn.select(larger, b, a)
        ratio = small / fn.select(big == 0, self.number(1.0), big)
        return big * fn.intrinsic("sqrt", fn.intrinsic("fma", ratio, ratio, self.number(1.0)))

    def _stretch(self, column, k, m, rest, shrink):
        """Multiply column[k:] until it has all its digits, if it is very short."""
        x, fn = self.x, self.fn
        size = rest.get()
        for p in x.load(column, k):
            size = self.hypotenuse(p, size)
        with fn.when(size < SHORT[x.compute]):
            factor = self.number(STRETCH)
            with fn.loop(k, m) as i:
                x.store(tuple(p * factor for p in x.load(column, i)), column, i)
            rest.set(self.length(column, k + 1, m))
            shrink.set(self.number(1 / STRETCH))

    def reflect(self, column, k, m, tau):
        """Turn column[k:] onto its first element; v stays below it, τ is stored and returned."""
        x, fn = self.x, self.fn
        alpha = x.load(column, k)
        rest = fn.var(self.length(column, k + 1, m))
        shrink = fn.var(self.number(1.0))
        plain = rest.get() == 0
        if x.parts == 2:
            plain = plain & (alpha[1] == 0)
        cells = [fn.var(p) for p in x.zero()]

        def turn():
            self._stretch(column, k, m, rest, shrink)
            alpha = x.load(column, k)
            size = self.hypotenuse(alpha[0], rest.get())
            if x.parts == 2:
                size = self.hypotenuse(alpha[1], size)
            beta = -fn.intrinsic("copysign", size, alpha[0])
            cells[0].set((beta - alpha[0]) / beta)
            if x.parts == 2:
                cells[1].set((-alpha[1]) / beta)
            one = (self.number(1.0), *x.zero()[1:])
            scale = x.quotient(one, (alpha[0] - beta, *alpha[1:]))

            def step(i, w, mask):
                minus = tuple(-p for p in x.load(column, i, w, mask))
                value = x.minus_product(x.zero(w), minus, x.spread(scale, w))
                x.store(value, column, i, mask)

            x.along(k + 1, m, step)
            x.store((beta * shrink.get(), *x.zero()[1:]), column, k)

        with fn.when(~plain):
            turn()
        found = tuple(c.get() for c in cells)
        x.store(found, tau, k)
        return found

    def apply(self, v, k, m, target, factor):
        """target -= factor (vᴴ target) v, rows k and below."""
        x = self.x
        head = x.load(target, k)
        along = self.dot(v, target, k + 1, m)
        along = tuple(p + q for p, q in zip(head, along))
        scaled = x.minus_product(x.zero(), tuple(-p for p in factor), along)
        x.store(tuple(p - q for p, q in zip(head, scaled)), target, k)

        def step(i, w, mask):
            value = x.load(target, i, w, mask)
            value = x.minus_product(value, x.load(v, i, w, mask), x.spread(scaled, w))
            x.store(value, target, i, mask)

        x.along(k + 1, m, step)

    def factor(self, a, m, n, ld, tau):
        fn, x = self.fn, self.x
        with fn.loop(0, fn.min(m, n)) as k:
            column = x.at(a, k * ld)
            factor = x.conj(self.reflect(column, k, m, tau))
            with fn.loop(k + 1, n) as j:
                self.apply(column, k, m, x.at(a, j * ld), factor)


def build_geqrf(code):
    """Reflectors in place: (matrices, τ)."""
    kernel, fn, x, (matrices, taus), facts = _start("pp", code, descriptions.Reflectors)
    count, per_chunk, m, n, ld, stride, tau_stride = facts
    with _matrices(kernel, count, per_chunk) as number:
        a, tau = x.at(matrices, number * stride), x.at(taus, number * tau_stride)
        Reflectors(fn, x).factor(a, m, n, ld, tau)
    return kernel.text()


def build_qr(code):
    """Q and R of small matrices: (A, reflectors, τ, Q, R), all but A with columns side by side."""
    kernel, fn, x, (source, work, taus, q, r), facts = _start("ppppp", code, descriptions.Qr)
    count, per_chunk, m, n, wide, tall, row, column, stride = facts
    steps = Reflectors(fn, x)
    least = fn.min(m, n)
    one = (steps.number(1.0), *x.zero()[1:])
    with _matrices(kernel, count, per_chunk) as number:
        a, tau = x.at(work, number * m * n), x.at(taus, number * least)
        top = fn.gep(source, number * stride, "i8")
        with fn.loop(0, n) as j, fn.loop(0, m) as i:
            found = load_element(fn, fn.gep(top, i * row + j * column, "i8"), code, 1, "c")
            x.store(found if x.parts == 2 else (found,), a, j * m + i)
        steps.factor(a, m, n, m, tau)
        own_r, own_q = x.at(r, number * tall * n), x.at(q, number * m * wide)
        with fn.loop(0, n) as j:
            target, own = x.at(own_r, j * tall), x.at(a, j * m)
            x.along(fn.value(0, I64), tall, lambda i, w, mask: x.store(x.zero(w), target, i, mask))
            with fn.loop(0, fn.min(j + 1, least)) as i:
                x.store(x.load(own, i), target, i)
        x.along(fn.value(0, I64), m * wide, lambda i, w, mask: x.store(x.zero(w), own_q, i, mask))
        with fn.loop(0, wide) as j:
            x.store(one, own_q, j * (m + 1))
        with fn.loop(0, fn.select(wide == 0, fn.value(0, I64), least)) as step:
            k = least - 1 - step
            factor = x.load(tau, k)
            with fn.loop(k, wide) as j:
                steps.apply(x.at(a, k * m), k, m, x.at(own_q, j * m), factor)
    return kernel.text()
