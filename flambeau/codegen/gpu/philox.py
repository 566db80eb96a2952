"""Random numbers on a GPU: Philox 4x32 with ten rounds, drawn as PyTorch draws them.

A thread has a stream of its own: its number is the upper half of the counter, the generator's
offset the lower one, the seed the key. Four words come at a time. Which thread draws which element
is part of the numbers: in a fill, words of one draw go to elements that lie as far apart as there
are threads; in `dropout` and coins of given probabilities they lie side by side.

The description is (1, count, seed, seed's upper half, offset, address, groups): if there is an
address, seed and offset are read there and `offset` is added, which is how captured graphs draw
other numbers each time.
"""

from flambeau.codegen import scalar as m
from flambeau.codegen.llvm import Emitter, convert, load_element, store_element
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry, as_global
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I32, I64, PTR, Module, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sampling import rounded, rounded_f32, store

THREADS = 256
COUNT, SEED, UPPER, OFFSET, STATE, GROUPS = range(1, 7)
WORDS = 7
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
STEPS = 0x9E3779B9, 0xBB67AE85
TURN = 6.2831855  # 2 pi, as float32


class Draws:
    """A kernel that draws: `four(call)` gives the words of one draw of a thread."""

    def __init__(self, kinds):
        self.module = Module()
        self.kernel = Kernel(self.module, kinds, THREADS, words=WORDS)
        self.fn = fn = self.kernel.fn
        word = self.kernel.word
        self.count, self.groups = word(COUNT), word(GROUPS)
        seed = fn.var(word(SEED) | (word(UPPER) << 32))
        offset = fn.var(word(OFFSET))
        place = word(STATE)
        with fn.when(place != 0):
            there = as_global(fn, fn.pure(f"inttoptr {place} to ptr", PTR))
            seed.set(fn.load(there, I64, 8))
            offset.set(offset.get() + fn.load(fn.gep(there, 1, I64), I64, 8))
        self.seed, self.first = seed.get(), offset.get() >> 2

    def four(self, thread, call):
        """The four words of a draw."""
        x, y = self._halves(self.first + call)
        z, w = self._halves(thread)
        key, upper = self._halves(self.seed)
        for turn in range(10):
            if turn:
                key, upper = key + _signed(STEPS[0]), upper + _signed(STEPS[1])
            high0, low0 = self._product(x, MULTIPLIERS[0])
            high1, low1 = self._product(z, MULTIPLIERS[1])
            x, y, z, w = high1 ^ y ^ key, low1, high0 ^ w ^ upper, low0
        return [x, y, z, w]

    def _halves(self, value):
        fn = self.fn
        return fn.convert("trunc", value, I32), fn.convert("trunc", value >> 32, I32)

    def _product(self, a, constant):
        wide = self.fn.convert("zext", a, I64) * constant
        high, low = self._halves(wide)[::-1]
        return high, low

    def spread(self, each, values, use):
        """A fill: values(words) are `each` numbers, use(place, number) takes them."""
        fn, kernel = self.fn, self.kernel
        threads = self.groups * THREADS
        turns = (self.count - 1) / (threads * each) + 1
        with kernel.threads(last=True) as thread:
            index = kernel.group * THREADS + thread
            with fn.loop(0, turns) as turn:
                found = values(self.four(index, turn))
                for k in range(each):
                    place = index + (turn * each + k) * threads
                    with fn.when(place < self.count):
                        use(place, found[k])

    def beside(self, each, use):
        """use(place, word): `each` elements of a thread lie side by side."""
        fn = self.fn

        def take(start, words):
            for k, word in enumerate(words):
                with fn.when(start + k < self.count):
                    use(start + k, word)

        self.vectors(each, take)

    def vectors(self, each, take):
        """take(place, words): a thread's elements from place on, `each` at a time."""
        fn, kernel = self.fn, self.kernel
        threads = self.groups * THREADS
        calls = max(each // 4, 1)
        turns = (self.count - 1) / (threads * each) + 1
        with kernel.threads(last=True) as thread:
            index = kernel.group * THREADS + thread
            with fn.loop(0, turns) as turn:
                words = []
                for call in range(calls):
                    words += self.four(index, turn * calls + call)[:each]
                take((turn * threads + index) * each, words)

    def text(self):
        self.kernel.done()
        add_host_entry(self.module, self.kernel, lambda fn, word: word(GROUPS))
        return module_text(self.module)


def _signed(word):
    return word - (1 << 32) if word >> 31 else word


# -- numbers from words ----------------------------------------------------------------------------


def _float(fn, word, scale=1.0):
    """A number of (0, scale]."""
    unit = rounded_f32(scale) * 2.0**-32
    x = fn.convert("uitofp", word, "float")
    return fn.intrinsic("fma", x, fn.value(unit, "float"), fn.value(unit / 2, "float"))


def _double(fn, a, b, scale=1.0):
    """The same of 53 bits."""
    bits = fn.convert("zext", a, I64) ^ (fn.convert("zext", b, I64) << 21)
    x = fn.convert("uitofp", bits, "double")
    unit = scale * 2.0**-53
    return fn.intrinsic("fma", x, fn.value(unit, "double"), fn.value(unit / 2, "double"))


def _word_of(fn, name, x):
    """A word of the scalar language, of one number."""
    type = "f64" if x.type == "double" else "f32"
    return Emitter(fn, 1, [x]).emit(getattr(m, name)(m.argument(0, type)))


def _quick(fn, name, x):
    """What the GPU has an instruction for, where PyTorch takes it."""
    if x.type == "double" or current().gpu != "ptx":
        return _word_of(fn, name, x)
    if name == "log":
        return fn.call("llvm.nvvm.lg2.approx.f", "float", x) * rounded_f32(0.6931471805599453)
    if name == "exp":
        return fn.call("llvm.nvvm.ex2.approx.f", "float", x * rounded_f32(1.4426950408889634))
    if name == "tan":
        return _quick(fn, "sin", x) / _quick(fn, "cos", x)
    return fn.call(f"llvm.nvvm.{name}.approx.f", "float", x)


def _constant(fn, value, type):
    return fn.value(value if type == "double" else rounded_f32(value), type)


def _uniforms(fn, wide):
    def values(words):
        if wide:
            return [_double(fn, *words[:2]), _double(fn, *words[2:])]
        return [_float(fn, w) for w in words]

    return values


def _normals(fn, wide):
    """Box and Muller's pairs: sine first."""

    def pair(radius, angle):
        length = fn.intrinsic("sqrt", _word_of(fn, "log", radius) * -2.0)
        return [_quick(fn, name, angle) * length for name in ("sin", "cos")]

    def values(words):
        a, b, c, d = words
        if wide:
            half_turns = _double(fn, c, d, 2.0)
            return pair(_double(fn, a, b), half_turns * 3.141592653589793)
        return pair(_float(fn, a), _float(fn, b, TURN)) + pair(_float(fn, c), _float(fn, d, TURN))

    return values


def _integers(fn, wide):
    def values(words):
        if not wide:
            return [fn.convert("zext", w, I64) for w in words]
        a, b, c, d = [fn.convert("zext", w, I64) for w in words]
        return [(a << 32) | b, (c << 32) | d]

    return values


# -- fills -----------------------------------------------------------------------------------------


def build_fill(kind, dtype):
    """kernel(description, out, a, b) of a distribution with one or two parameters."""
    draws = Draws("ppff")
    fn, kernel = draws.fn, draws.kernel
    wide = dtype == "f64"
    out, (a, b) = kernel.argument(1), [kernel.argument(k) for k in (2, 3)]
    computed = "f64" if wide else "f32"
    a, b = convert(fn, a, "f64", computed), convert(fn, b, "f64", computed)
    number = _DISTRIBUTIONS[kind](fn, a, b, dtype)
    source = _normals if kind in ("normal", "log_normal") else _uniforms

    def use(place, value):
        value = number(value)
        if kind == "bernoulli":
            value = convert(fn, value, "bool", COMPUTE_TYPE[dtype])
        elif COMPUTE_TYPE[dtype] != computed:
            value = convert(fn, value, computed, COMPUTE_TYPE[dtype])
        store(fn, value, out, place, dtype)

    draws.spread(2 if wide else 4, source(fn, wide), use)
    return draws.text()


def _uniform(fn, low, high, dtype):
    low, high = rounded(fn, low, dtype), rounded(fn, high, dtype)
    span = high - low

    def number(u):
        value = rounded(fn, fn.intrinsic("fma", u, span, low), dtype)
        return fn.select(value == high, low, value)

    return number


def _normal(fn, mean, std, dtype):
    return lambda x: fn.intrinsic("fma", x, std, mean)


def _log_normal(fn, mean, std, dtype):
    return lambda x: _quick(fn, "exp", fn.intrinsic("fma", x, std, mean))


def _exponential(fn, rate, _, dtype):
    epsilon = 2.0**-52 if dtype == "f64" else 2.0**-23
    factor = fn.value(-1.0, rate.type) / rate

    def number(u):
        small = _constant(fn, -epsilon / 2, u.type)
        log = fn.select(u >= _constant(fn, 1 - epsilon / 2, u.type), small, _quick(fn, "log", u))
        return factor * log

    return number


def _cauchy(fn, median, sigma, dtype):
    epsilon = 2.0**-52 if dtype == "f64" else 2.0**-23

    def number(u):
        u = fn.min(fn.max(u, fn.value(epsilon, u.type)), fn.value(1 - epsilon, u.type))
        return median + sigma * _quick(
            fn, "tan", (u - 0.5) * _constant(fn, 3.141592653589793, u.type)
        )

    return number


def _geometric(fn, p, _, dtype):
    down = _word_of(fn, "log1p", -p)
    return lambda u: fn.intrinsic("ceil", _quick(fn, "log", u) / down)


def _bernoulli(fn, p, _, dtype):
    return lambda u: u < p


_DISTRIBUTIONS = {
    "uniform": _uniform,
    "normal": _normal,
    "log_normal": _log_normal,
    "exponential": _exponential,
    "cauchy": _cauchy,
    "geometric": _geometric,
    "bernoulli": _bernoulli,
}


def build_random(dtype, wide):
    """kernel(description, out, span, base): base + word % span; a span of 0 means all 64 bits."""
    draws = Draws("ppii")
    fn, kernel = draws.fn, draws.kernel
    out, span, base = [kernel.argument(k) for k in (1, 2, 3)]
    divisor = fn.select(span == 0, fn.value(1, I64), span)

    def use(place, bits):
        rest = fn.pure(f"urem {bits}, {divisor.name}", I64)
        value = fn.select(span == 0, bits, rest) + base
        if dtype == "bool":
            value = convert(fn, value, "i64", "bool")
        elif COMPUTE_TYPE[dtype] != "i64":
            value = convert(fn, value, "i64", COMPUTE_TYPE[dtype])
        store(fn, value, out, place, dtype)

    draws.spread(2 if wide else 4, _integers(fn, wide), use)
    return draws.text()


# -- coins -----------------------------------------------------------------------------------------


def build_bernoulli_from(dtype, probability):
    """kernel(description, out, p): an element is one with the probability that p has for it."""
    draws = Draws("ppp")
    fn, kernel = draws.fn, draws.kernel
    out, given = kernel.argument(1), kernel.argument(2)

    def use(place, word):
        at = fn.gep(given, place, MEMORY_TYPE[probability])
        p = load_element(fn, at, probability, 1, "c", None, None)
        u = convert(fn, _float(fn, word), "f32", COMPUTE_TYPE[probability])
        wrong = ~((p >= 0.0) & (p <= 1.0))
        with fn.when(wrong):
            fn.store(fn.value(1, I64), kernel.status, 8)
        store(fn, convert(fn, u <= p, "bool", COMPUTE_TYPE[dtype]), out, place, dtype)

    draws.beside(4, use)
    return draws.text()


def build_dropout(dtype, each, masked):
    """kernel(description, out, mask, input, keep, factor)."""
    draws = Draws("ppppff")
    fn, kernel = draws.fn, draws.kernel
    out, mask, source = [kernel.argument(k) for k in (1, 2, 3)]
    keep, factor = [convert(fn, kernel.argument(k), "f64", "f32") for k in (4, 5)]
    type = LLVM_TYPE[COMPUTE_TYPE[dtype]]
    if type == "double":
        factor = fn.convert("fpext", factor, type)

    def use(place, number):
        hit = number if number.type == I1 else _float(fn, number) < keep
        value = load_element(fn, fn.gep(source, place, MEMORY_TYPE[dtype]), dtype, 1, "c")
        coin = fn.select(hit, fn.value(1.0, type), fn.value(0.0, type))
        store(fn, value * coin * factor, out, place, dtype)
        if masked:
            store(fn, hit, mask, place, "bool")

    if each == 1:
        draws.spread(4, lambda words: words, use)
        return draws.text()
    bits = fn.pure(f"ptrtoint {out} to i64", I64) | fn.pure(f"ptrtoint {source} to i64", I64)
    item = bytes_of(MEMORY_TYPE[dtype])
    aligned = (bits & (each * item - 1)) == 0  # (masks are new, and always are)

    def together(start, words):
        """All elements of a draw; their number divides the count."""
        fn.vector_align = 16
        coins = fn.value(0, vector(I1, each))
        for k, word in enumerate(words):
            coins = fn.insert(coins, _float(fn, word) < keep, k)
        place = fn.gep(source, start, MEMORY_TYPE[dtype])
        value = load_element(fn, place, dtype, each, "c")
        one, zero = (fn.value(x, value.type) for x in (1.0, 0.0))
        value = value * fn.select(coins, one, zero) * fn.splat(factor, each)
        store_element(fn, value, fn.gep(out, start, MEMORY_TYPE[dtype]), dtype, each, "c")
        if masked:
            store_element(fn, coins, fn.gep(mask, start, "i8"), "bool", each, "c")
        fn.vector_align = None

    def singly(start, words):
        for k, word in enumerate(words):
            use(start + k, word)

    def take(start, words):
        with fn.when(start < draws.count):
            fn.if_else(aligned, lambda: together(start, words), lambda: singly(start, words))

    draws.vectors(each, take)
    return draws.text()


def build_first(dtype):
    """kernel(description, out): of every thread, the first number of its first draw."""
    draws = Draws("pp")
    fn, out = draws.fn, draws.kernel.argument(1)

    def use(place, word):
        value = _float(fn, word)
        store(fn, convert(fn, value, "f32", COMPUTE_TYPE[dtype]), out, place, dtype)

    draws.beside(1, use)
    return draws.text()
