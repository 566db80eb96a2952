"""Kernels that draw values with parameters of their own: poisson, gamma, binomial, multinomial.

Most of them reject and draw again, so how many words a value takes depends on the values before it
and on the last bit of every comparison: each formula keeps PyTorch's types and order of operations.
Inputs and outputs lie side by side. Plain fills are in `sampling.py`.
"""

from flambeau.codegen.llvm import convert, load_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR, V, vector
from flambeau.codegen.templates.mersenne import libm
from flambeau.codegen.templates.sampling import Kernel, narrowed, rounded_f32, store

TINY = {"f32": 2.0**-126, "f64": 2.0**-1022}


def _load(fn, base, i, dtype):
    return load_element(fn, fn.gep(base, i, MEMORY_TYPE[dtype]), dtype, 1, "c")


def _double(fn, value):
    return fn.convert("fpext", value, "double")


def _log(fn, x):
    return libm(fn, "log", x)


def _over(number, value):
    """number / value."""
    return value.fn.value(number, value.type) / value


class _Search:
    """Draw until something is accepted: `with search.trying(): ... search.accept_if(...)`."""

    def __init__(self, fn):
        self.fn = fn
        self.result, self.going = fn.var(fn.value(0.0, "double")), fn.var(fn.value(True, I1))

    def trying(self):
        return self.fn.while_(self.going.get)

    def accept_if(self, condition, value):
        with self.fn.when(condition & self.going.get()):
            self.result.set(value)
            self.going.set(False)


# -- poisson -------------------------------------------------------------------------------------


def build_poisson(dtype):
    """kernel(generator, out, rates, count); status 1 if a rate is negative or nan."""
    kernel = Kernel("pppi")
    fn, (_, out, rates, count) = kernel.fn, kernel.arguments
    with fn.loop(0, count) as i:
        rate = convert(fn, _load(fn, rates, i, dtype), COMPUTE_TYPE[dtype], "f64")
        kernel.fail(~(rate >= 0.0))
        value = fn.if_else(
            rate >= 10.0,
            lambda: _poisson_large(kernel, rate),
            lambda: fn.if_else(
                rate > 0.0, lambda: _poisson_small(kernel, rate), lambda: fn.value(0.0, "double")
            ),
        )
        store(fn, narrowed(fn, value, dtype), out, i, dtype)
    return kernel.text()


def _poisson_large(kernel, rate):
    """Transformed rejection (Hoermann 1993)."""
    fn = kernel.fn
    b = fn.intrinsic("sqrt", rate) * 2.53 + 0.931
    a = b * 0.02483 + -0.059
    inverse_alpha = _over(1.1328, b - 3.4) + 1.1239
    limit = 0.9277 - _over(3.6224, b - 2.0)
    log_rate = _log(fn, rate)
    search = _Search(fn)
    with search.trying():
        u = kernel.uniform() - 0.5
        v = kernel.uniform()
        us = 0.5 - fn.intrinsic("fabs", u)
        k = fn.intrinsic("floor", ((a * 2.0) / us + b) * u + rate + 0.43)
        search.accept_if((us >= 0.07) & (v <= limit), k)
        hopeless = (k < 0.0) | ((us < 0.013) & (v > us))
        with fn.when(search.going.get() & ~hopeless):
            left = _log(fn, v) + _log(fn, inverse_alpha) - _log(fn, a / (us * us) + b)
            right = (k * log_rate - rate) - libm(fn, "lgamma", k + 1.0)
            search.accept_if(left <= right, k)
    return search.result.get()


def _poisson_small(kernel, rate):
    """Count uniforms until their product falls below exp(-rate)."""
    fn = kernel.fn
    limit = libm(fn, "exp", -rate)
    product, number = fn.var(fn.value(1.0, "double")), fn.var(fn.value(-1.0, "double"))
    going = fn.var(fn.value(True, I1))
    with fn.while_(going.get):
        product.set(product.get() * kernel.uniform())
        number.set(number.get() + 1.0)
        going.set(product.get() > limit)
    return number.get()


# -- gamma and dirichlet ---------------------------------------------------------------------------


def _gamma(kernel, alpha):
    """A gamma variate of scale 1 in the type of its shape alpha (Marsaglia and Tsang 2000)."""
    fn, t = kernel.fn, alpha.type
    small = alpha < 1.0

    def boost():
        return libm(fn, "pow", 1.0 - kernel.uniform(), _double(fn, _over(1.0, alpha)))

    def draw():
        scale = fn.if_else(small, boost, lambda: fn.value(1.0, "double"))
        shape = fn.select(small, alpha + 1.0, alpha)
        d = _double(fn, shape - rounded_f32(1 / 3))
        c = _over(1.0, fn.intrinsic("sqrt", d * 9.0))
        search = _Search(fn)
        with search.trying():
            x, y = fn.var(fn.value(0.0, "double")), fn.var(fn.value(0.0, "double"))
            with fn.while_(lambda: y.get() <= 0.0):
                x.set(kernel.normal())
                y.set(c * x.get() + 1.0)
            y, x = y.get(), x.get()
            v = y * y * y
            u = 1.0 - kernel.uniform()
            square = x * x
            value = scale * d * v
            search.accept_if(u < 1.0 - square * rounded_f32(0.0331) * square, value)
            with fn.when(search.going.get()):
                search.accept_if(_log(fn, u) < square * 0.5 + d * (1.0 - v + _log(fn, v)), value)
        return fn.convert("fptrunc", search.result.get(), t)

    return fn.if_else(alpha == 0.0, lambda: fn.value(0.0, t), draw)


def build_gamma(dtype, result):
    """kernel(generator, out, shapes, count): the variates, computed in and stored as `result`."""
    kernel = Kernel("pppi")
    fn, (_, out, shapes, count) = kernel.fn, kernel.arguments
    with fn.loop(0, count) as i:
        alpha = convert(fn, _load(fn, shapes, i, dtype), dtype, result)
        value = _gamma(kernel, alpha)
        tiny = fn.value(TINY[result], value.type)
        store(fn, fn.select(value > tiny, value, tiny), out, i, result)
    return kernel.text()


def build_normalize(dtype):
    """kernel(generator, out, gammas, rows, columns): rows of doubles divided by their sums.

    The results stay inside (0, 1).
    """
    kernel = Kernel("pppii")
    fn, (_, out, gammas, rows, columns) = kernel.fn, kernel.arguments
    t = LLVM_TYPE[dtype]
    low, high = fn.value(TINY[dtype], t), fn.value(1.0 - 2.0 ** (-24 if dtype == "f32" else -53), t)
    with fn.loop(0, rows) as row:
        first = row * columns
        total = _row_sum(fn, fn.gep(gammas, first, "double"), columns)
        with fn.loop(first, first + columns) as i:
            value = fn.convert("fptrunc", fn.load(fn.gep(gammas, i, "double"), "double") / total, t)
            value = fn.select(low < value, value, low)
            store(fn, fn.select(value < high, value, high), out, i, dtype)
    return kernel.text()


def _row_sum(fn, row, count):
    """The sum of a row of doubles in PyTorch's order: vectors of 4, then what is left over."""

    def long():
        vectors = count / 4
        part = _cascade(fn, row, vectors, vector("double", 4))
        total = fn.var(fn.value(0.0, "double"))
        with fn.loop(vectors * 4, count) as i:
            total.set(total.get() + fn.load(fn.gep(row, i, "double"), "double"))
        for k in range(4):
            total.set(total.get() + fn.extract(part, k))
        return total.get()

    return fn.if_else(count >= 4, long, lambda: _cascade(fn, row, count, "double"))


def _cascade(fn, data, count, t):
    """Sum `count` items of type t: four interleaved sums, in levels, so that errors stay small."""
    zero = fn.value(0.0, t)
    levels = [[fn.var(zero) for _ in range(4)] for _ in range(4)]
    quads = count / 4
    bits = 64 - fn.call("llvm.ctlz.i64", I64, fn.max(quads - 1, 0), fn.value(False, I1))
    power = fn.max(bits / 4, 4)
    step = fn.value(1, I64) << power

    def add_quad(i):
        for k, cell in enumerate(levels[0]):
            cell.set(cell.get() + fn.load(fn.gep(data, i * 4 + k, t), t, 8))

    done = fn.var(fn.value(0, I64))
    with fn.while_(lambda: (done.get() + step) <= quads):
        begin = done.get()
        with fn.loop(begin, begin + step) as i:
            add_quad(i)
        end = begin + step
        done.set(end)
        carry = fn.var(fn.value(True, I1))
        for j in range(1, 4):
            with fn.when(carry.get()):
                for cell, below in zip(levels[j], levels[j - 1]):
                    cell.set(cell.get() + below.get())
                    below.set(zero)
                carry.set((end & ((step - 1) << (power * j))) == 0)
    with fn.loop(done.get(), quads) as i:
        add_quad(i)
    for j in range(1, 4):
        for cell, above in zip(levels[0], levels[j]):
            cell.set(cell.get() + above.get())
    first, *others = levels[0]
    with fn.loop(quads * 4, count) as i:
        first.set(first.get() + fn.load(fn.gep(data, i, t), t, 8))
    for cell in others:
        first.set(first.get() + cell.get())
    return first.get()


# -- binomial --------------------------------------------------------------------------------------

_STIRLING = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
)


def build_binomial(dtype):
    """kernel(generator, out, trials, probabilities, count); computed in dtype (f32 or f64)."""
    kernel = Kernel("ppppi")
    fn, (_, out, trials, chances, count) = kernel.fn, kernel.arguments
    t = LLVM_TYPE[dtype]
    one = fn.value(1.0, t)
    with fn.loop(0, count) as i:
        n, p = _load(fn, trials, i, dtype), _load(fn, chances, i, dtype)
        # the smaller of p and 1 - p is drawn; PyTorch rounds 1 - p from a double: the same number
        mirrored = p > 0.5
        q = fn.select(mirrored, one - p, p)

        def draw():
            hits = fn.if_else(
                n * q >= 10.0,
                lambda: _binomial_rejection(kernel, n, q),
                lambda: _binomial_inversion(kernel, n, q),
            )
            return fn.select(mirrored, n - hits, hits)

        trivial = fn.select((n <= 0.0) | (p <= 0.0), 0.0, fn.select(p >= 1.0, n, p))
        easy = (n <= 0.0) | ~((p > 0.0) & (p < 1.0))
        store(fn, fn.if_else(easy, lambda: trivial, draw), out, i, dtype)
    return kernel.text()


def _binomial_inversion(kernel, n, p):
    """Add up geometric waiting times until they exceed n."""
    fn, t = kernel.fn, n.type
    log_miss = _double(fn, libm(fn, "log1p" if t == "double" else "log1pf", -p))
    waited, hits = fn.var(fn.value(0.0, "double")), fn.var(fn.value(-1.0, t))
    with fn.while_(lambda: waited.get() <= _double(fn, n)):
        waited.set(waited.get() + fn.intrinsic("ceil", _log(fn, kernel.uniform()) / log_miss))
        hits.set(hits.get() + 1.0)
    return hits.get()


def _binomial_rejection(kernel, n, p):
    """Transformed rejection with squeeze (BTRS, Hoermann 1993); mixed types as in PyTorch."""
    fn, t = kernel.fn, n.type
    wide = lambda x: _double(fn, x)
    miss = 1.0 - p
    spread = wide(fn.intrinsic("sqrt", n * p * miss))
    b = spread * 2.53 + 1.15
    a = b * 0.0248 + -0.0873 + wide(p) * 0.01
    c = wide(n * p) + 0.5
    limit = 0.92 - _over(4.2, b)
    odds = wide(p / miss)
    alpha = (_over(5.1, b) + 2.83) * spread
    mode = wide(fn.intrinsic("floor", (n + 1.0) * p))
    search = _Search(fn)
    with search.trying():
        u = kernel.uniform() - 0.5
        v = kernel.uniform()
        us = 0.5 - fn.intrinsic("fabs", u)
        k = fn.convert("fptrunc", fn.intrinsic("floor", ((a * 2.0) / us + b) * u + c), t)
        possible = (k >= 0.0) & (k <= n)
        search.accept_if(possible & (us >= 0.07) & (v <= limit), wide(k))
        with fn.when(search.going.get() & possible):
            ratio = _log(fn, v * alpha / (a / (us * us) + b))
            rest, past = wide(n) - mode + 1.0, wide(n - k + 1.0)
            bound = (mode + 0.5) * _log(fn, (mode + 1.0) / (odds * rest))
            bound = bound + wide(n + 1.0) * _log(fn, rest / past)
            bound = bound + (wide(k) + 0.5) * _log(fn, odds * past / wide(k + 1.0))
            bound = bound + _stirling(fn, mode) + _stirling(fn, wide(n) - mode)
            bound = bound - _stirling(fn, wide(k)) - _stirling(fn, wide(n - k))
            search.accept_if(ratio <= bound, wide(k))
    return fn.convert("fptrunc", search.result.get(), t)


def _stirling(fn, k):
    """log k! minus Stirling's formula: from a table below 10, by the series above."""

    def looked_up():
        table = V(fn, PTR, fn.module.constant("double", _STIRLING))
        return fn.load(fn.gep(table, fn.convert("fptosi", k, I64), "double"), "double")

    def series():
        square = (k + 1.0) * (k + 1.0)
        inner = 1.0 / 360 - _over(1.0 / 1260, square)
        return (1.0 / 12 - inner / square) / (k + 1.0)

    return fn.if_else(k < 10.0, looked_up, series)


# -- randomised relu -------------------------------------------------------------------------------


def build_rrelu(dtype):
    """kernel(generator, out, noise, input, count, lower, upper); elements <= 0 draw a slope."""
    kernel = Kernel("ppppiff")
    fn, (_, out, noise, source, count, lower, upper) = kernel.fn, kernel.arguments
    acc = COMPUTE_TYPE[dtype]
    low, high = (convert(fn, convert(fn, x, "f64", acc), acc, "f64") for x in (lower, upper))
    with fn.loop(0, count) as i:
        x = _load(fn, source, i, dtype)
        draw = lambda: convert(fn, kernel.uniform() * (high - low) + low, "f64", acc)
        slope = fn.if_else(x <= 0.0, draw, lambda: fn.value(1.0, x.type))
        store(fn, x * slope, out, i, dtype)
        store(fn, slope, noise, i, dtype)
    return kernel.text()


# -- categories ------------------------------------------------------------------------------------


def build_multinomial(dtype):
    """kernel(generator, out, weights, sums, rows, categories, samples), with replacement.

    sums is room for one row of cumulated weights. Status 1: a negative weight, 2: inf or nan, 3:
    no weight.
    """
    kernel = Kernel("ppppiii")
    fn, (_, out, weights, sums, rows, categories, samples) = kernel.fn, kernel.arguments
    acc = COMPUTE_TYPE[dtype]
    t = LLVM_TYPE[acc]
    with fn.loop(0, rows) as row:
        total = fn.var(fn.value(0.0, t))
        with fn.loop(0, categories) as j:
            weight = _load(fn, weights, row * categories + j, dtype)
            kernel.fail(~(weight >= 0.0), 1)
            kernel.fail(~(fn.intrinsic("fabs", weight) < float("inf")), 2)
            total.set(total.get() + weight)
            fn.store(total.get(), fn.gep(sums, j, t))
        kernel.fail(~(total.get() > 0.0), 3)
        with fn.loop(0, categories) as j:
            place = fn.gep(sums, j, t)
            fn.store(fn.load(place, t) / total.get(), place)
        fn.store(fn.value(1.0, t), fn.gep(sums, categories - 1, t))
        with fn.when(fn.load(kernel.status, I64, 8) == 0), fn.loop(0, samples) as j:
            u = kernel.uniform()
            low, high = fn.var(fn.value(0, I64)), fn.var(categories)
            with fn.while_(lambda: low.get() < high.get()):
                middle = low.get() + (high.get() - low.get()) / 2
                below = convert(fn, fn.load(fn.gep(sums, middle, t), t), acc, "f64") < u
                low.set(fn.select(below, middle + 1, low.get()))
                high.set(fn.select(below, high.get(), middle))
            fn.store(low.get(), fn.gep(out, row * samples + j, I64))
    return kernel.text()
