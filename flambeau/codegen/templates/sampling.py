"""Kernels that fill memory with random values: uniform, normal, integers, coins, permutations.

A fill is `kernel(generator, out, count, *parameters)` over `count` values side by side; which word
of the stream becomes which value, and in which precision, is PyTorch's, bit for bit, multiply-adds
included. Fills whose value is a few arithmetic steps draw a buffer of words and work in vectors;
those that need the C library's functions go one value at a time. Kernels with tensor inputs or
rejection are in `rejection.py`.
"""

import math

from flambeau.codegen.llvm import (
    convert,
    from_memory,
    load_element,
    store_element,
    to_memory,
)
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import (
    I1,
    I32,
    I64,
    PTR,
    Module,
    bytes_of,
    rounded_f32,
    vector,
    width_of,
)
from flambeau.codegen.target import current
from flambeau.codegen.templates.mersenne import (
    BUFFER,
    SLACK,
    Words,
    libm,
    uniform32,
    uniform64,
    vectors,
)


class Kernel:
    """A serial kernel under construction: its function, its arguments, its source of words."""

    def __init__(self, kinds):
        self.kinds, self.module = kinds, Module()
        self.words = Words(self.module)
        self.fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        block = self.fn.params[0]
        self.arguments = [argument_word(self.fn, block, k, kind) for k, kind in enumerate(kinds)]
        self.generator = self.arguments[0]
        self.status = self.fn.gep(block, len(kinds), I64)

    def fail(self, condition, code=1):
        """Report `code` to the caller if condition holds; the first report stays."""
        fn = self.fn
        with fn.when(condition & (fn.load(self.status, I64, 8) == 0)):
            fn.store(fn.value(code, I64), self.status, 8)

    def uniform(self):
        return self.words.uniform(self.fn, self.generator)

    def normal(self):
        return self.words.normal(self.fn, self.generator)

    def text(self):
        self.fn.ret()
        add_entry(self.module, self.kinds)
        return module_text(self.module)

    def in_buffers(self, count, words_each, width, step):
        """Draw the words of `count` values buffer by buffer; step(i, words, mask) uses them."""
        fn, each = self.fn, BUFFER // words_each
        buffer = fn.alloca(I32, BUFFER + SLACK)
        word = I32 if words_each == 1 else I64
        with fn.loop(0, count, each) as begin:
            now = fn.min(count - begin, each)
            self.words.fill_words(fn, self.generator, buffer, now * words_each)

            def one(i, mask):
                bits = fn.load(fn.gep(buffer, i, word), vector(word, width))
                if word == I64:  # the first word is the upper half
                    bits = (bits << 32) | (bits >> 32)
                step(begin + i, bits, mask)

            vectors(fn, now, width, one)


def store(fn, value, out, i, dtype, mask=None):
    """value(s) of the compute type at out[i]."""
    pointer = fn.gep(out, i, MEMORY_TYPE[dtype])
    store_element(fn, value, pointer, dtype, width_of(value.type), "c", None, mask)


def lanes(dtype):
    """How many values of the compute type fill a register."""
    return current().vector_bytes // bytes_of(LLVM_TYPE[COMPUTE_TYPE[dtype]])


def narrowed(fn, value, dtype):
    """A double in dtype's compute type; half types pass through float32, as in PyTorch."""
    return convert(fn, value, "f64", COMPUTE_TYPE[dtype])


def rounded(fn, value, dtype):
    """A compute value as it would come back from memory."""
    return (
        from_memory(fn, to_memory(fn, value, dtype), dtype) if dtype in ("f16", "bf16") else value
    )


# -- fills in vectors ----------------------------------------------------------------------------


def build_uniform(dtype):
    """low + u * (high - low); a value that rounds to high becomes low."""
    kernel = Kernel("ppiff")
    fn, (_, out, count, low, high) = kernel.fn, kernel.arguments
    low, high = narrowed(fn, low, dtype), narrowed(fn, high, dtype)
    span, limit = high - low, rounded(fn, high, dtype)
    wide, width = dtype == "f64", lanes(dtype)
    t = vector(low.type, width)

    def step(i, bits, mask):
        u = uniform64(fn, bits) if wide else uniform32(fn, bits)
        value = fn.intrinsic("fma", u, fn.value(span, t), fn.value(low, t))
        value = rounded(fn, value, dtype)
        value = fn.select(value == fn.value(limit, t), fn.value(low, t), value)
        store(fn, value, out, i, dtype, mask)

    kernel.in_buffers(count, 2 if wide else 1, width, step)
    return kernel.text()


def build_bernoulli(dtype):
    """One with probability p: 53 random bits, as an integer, below p * 2^53."""
    kernel = Kernel("ppif")
    fn, (_, out, count, p) = kernel.fn, kernel.arguments
    width = current().vector_bytes // 8
    limit = fn.convert("fptosi", fn.intrinsic("ceil", p * 2.0**53), I64)

    def step(i, bits, mask):
        hit = (bits & (2**53 - 1)) < limit
        store(fn, convert(fn, hit, "bool", COMPUTE_TYPE[dtype]), out, i, dtype, mask)

    kernel.in_buffers(count, 2, width, step)
    return kernel.text()


def build_bernoulli_from(dtype, probability):
    """One with the probability of its own element; uniforms are float64 only if those are."""
    kernel = Kernel("pppi")
    fn, (_, out, p, count) = kernel.fn, kernel.arguments
    wide, width = probability == "f64", lanes(probability)
    good = fn.var(fn.value(True, I1))

    def step(i, bits, mask):
        pointer = fn.gep(p, i, MEMORY_TYPE[probability])
        chance = load_element(fn, pointer, probability, width, "c", None, mask)
        u = uniform64(fn, bits) if wide else uniform32(fn, bits)
        good.set(good.get() & ~fn.any(~((chance >= 0.0) & (chance <= 1.0))))
        store(fn, convert(fn, u < chance, "bool", COMPUTE_TYPE[dtype]), out, i, dtype, mask)

    kernel.in_buffers(count, 2 if wide else 1, width, step)
    kernel.fail(~good.get())
    return kernel.text()


def build_random(dtype, wide):
    """base + bits % range; a wide range takes 64 bits a value, and 0 then stands for 2^64."""
    kernel = Kernel("ppiii")
    fn, (_, out, count, limit, base) = kernel.fn, kernel.arguments
    if wide:
        divisor = fn.select(limit == 0, 1, limit)

        def step(i, bits, mask):
            rest = fn.select(limit == 0, bits, fn.pure(f"urem {bits}, {divisor.name}", I64))
            store(fn, convert(fn, rest + base, "i64", COMPUTE_TYPE[dtype]), out, i, dtype)

        kernel.in_buffers(count, 2, 1, step)
        return kernel.text()
    width = lanes(dtype) if bytes_of(MEMORY_TYPE[dtype]) > 2 else lanes("f32")
    remainder = _remainder(fn, limit, width)

    def step(i, bits, mask):
        value = fn.convert("zext", remainder(bits), vector(I64, width)) + fn.splat(base, width)
        store(fn, convert(fn, value, "i64", COMPUTE_TYPE[dtype]), out, i, dtype, mask)

    kernel.in_buffers(count, 1, width, step)
    return kernel.text()


def _remainder(fn, divisor, width):
    """A function for x % divisor on vectors of 32-bit words, without dividing.

    Division by an invariant (Granlund and Montgomery 1994, figure 4.1): the quotient is the upper
    half of a product, corrected by shifts.
    """
    log = 64 - fn.call("llvm.ctlz.i64", I64, divisor - 1, fn.value(False, I1))
    gap = (fn.value(1, I64) << log) - divisor
    magic = fn.pure(f"udiv {gap << 32}, {divisor.name}", I64) + 1
    t, wide = vector(I32, width), vector(I64, width)
    magic = fn.splat(magic & (2**32 - 1), width)
    first, second = (
        fn.splat(fn.convert("trunc", s, I32), width) for s in (fn.min(log, 1), fn.max(log - 1, 0))
    )
    divisor = fn.splat(fn.convert("trunc", divisor, I32), width)

    def remainder(x):
        high = fn.convert("trunc", (fn.convert("zext", x, wide) * magic) >> 32, t)
        quotient = (high + ((x - high) >> first)) >> second
        return x - quotient * divisor

    return remainder


def build_seed():
    """The state of a generator that has only its seed."""
    kernel = Kernel("p")
    kernel.words.seed(kernel.fn, kernel.generator)
    return kernel.text()


def build_randperm(dtype):
    """0 .. count - 1 shuffled: element i changes places with one at or after it."""
    kernel = Kernel("ppi")
    fn, (_, out, count) = kernel.fn, kernel.arguments
    raw = MEMORY_TYPE[dtype]
    with fn.loop(0, count) as i:
        store(fn, convert(fn, i, "i64", COMPUTE_TYPE[dtype]), out, i, dtype)
    with fn.loop(0, count - 1) as i:
        word = fn.convert("zext", kernel.words.next_word(fn, kernel.generator), I64)
        here = fn.gep(out, i, raw)
        there = fn.gep(out, i + fn.pure(f"urem {word}, {(count - i).name}", I64), raw)
        a, b = fn.load(here, raw), fn.load(there, raw)
        fn.store(b, here)
        fn.store(a, there)
    return kernel.text()


# -- normal, sixteen at a time -------------------------------------------------------------------


def build_normal(dtype):
    """Box-Muller on blocks of 16 uniforms, for 16 values and more.

    Lanes 0-7 of a block give radii, 8-15 angles; cosines replace the first half, sines the second.
    A rest shorter than a block draws the last 16 values anew (float32 and float64 have drawn it
    once before).
    """
    kernel = Kernel("ppiff")
    fn, (_, out, count, mean, std) = kernel.fn, kernel.arguments
    mean, std = narrowed(fn, mean, dtype), narrowed(fn, std, dtype)
    wide = dtype == "f64"
    buffer = fn.alloca(I32, BUFFER + SLACK)
    each = 2 if wide else 1
    block = _double_block if wide else _float_block
    whole = (count / 16) * 16
    with fn.loop(0, whole, BUFFER // each) as begin:
        now = fn.min(whole - begin, BUFFER // each)
        kernel.words.fill_words(fn, kernel.generator, buffer, now * each)
        with fn.loop(0, now, 16) as i:
            block(fn, fn.gep(buffer, i * each, I32), out, begin + i, mean, std, dtype)
    with fn.when(whole < count):
        if dtype in ("f32", "f64"):
            kernel.words.fill_words(fn, kernel.generator, buffer, (count - whole) * each)
        kernel.words.fill_words(fn, kernel.generator, buffer, fn.value(16 * each, I64))
        block(fn, buffer, out, count - 16, mean, std, dtype)
    return kernel.text()


def _float_block(fn, words, out, i, mean, std, dtype):
    half = vector("float", 8)
    u = uniform32(fn, fn.load(words, vector(I32, 16)))
    radius = fn.intrinsic("sqrt", _log(fn, 1.0 - fn.shuffle(u, None, range(8))) * -2.0)
    sine, cosine = _sincos(fn, fn.shuffle(u, None, range(8, 16)) * rounded_f32(2 * math.pi))
    mean, std = fn.value(mean, half), fn.value(std, half)
    for k, part in enumerate((cosine, sine)):
        store(fn, fn.intrinsic("fma", radius * part, std, mean), out, i + 8 * k, dtype)


def _double_block(fn, words, out, i, mean, std, dtype):
    with fn.loop(0, 8) as j:
        pair = [fn.load(fn.gep(words, j + 8 * k, I64), I64) for k in (0, 1)]
        u1, u2 = (uniform64(fn, (bits << 32) | (bits >> 32)) for bits in pair)
        radius = fn.intrinsic("sqrt", libm(fn, "log", 1.0 - u1) * -2.0)
        angle = u2 * (2 * math.pi)
        for k, name in enumerate(("cos", "sin")):
            value = fn.intrinsic("fma", radius * libm(fn, name, angle), std, mean)
            store(fn, value, out, i + j + 8 * k, dtype)


# The float32 logarithm, sine and cosine of Cephes (S. Moshier), as PyTorch's normal fill evaluates
# them: the order of operations and the fused multiply-adds decide the last bit, so they are
# spelled out here and are not those of mathlib.
_LOG = (
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)


def _fma(fn, a, b, c):
    return fn.intrinsic("fma", *(fn.value(x, a.type) for x in (a, b, c)))


def _polynomial(fn, x, coefficients):
    y = fn.value(rounded_f32(coefficients[0]), x.type)
    for c in coefficients[1:]:
        y = _fma(fn, y, x, rounded_f32(c))
    return y


def _log(fn, x):
    """log of x in [2^-24, 1]: exponent and mantissa in [sqrt(1/2), sqrt(2)), then a polynomial."""
    ints = vector(I32, width_of(x.type))
    bits = fn.convert("bitcast", x, ints)
    mantissa = fn.convert("bitcast", (bits & -0x7F800001) | 0x3F000000, x.type)
    exponent = fn.convert("sitofp", (bits >> 23) - 126, x.type)
    small = mantissa < rounded_f32(math.sqrt(0.5))
    exponent = fn.select(small, exponent - 1.0, exponent)
    x = fn.select(small, mantissa - 1.0 + mantissa, mantissa - 1.0)
    square = x * x
    y = _polynomial(fn, x, _LOG) * x
    y = _fma(fn, y, square, exponent * rounded_f32(-2.12194440e-4))
    y = _fma(fn, square, -0.5, y)
    return _fma(fn, exponent, 0.693359375, x + y)


def _sincos(fn, x):
    """sin and cos of x in [0, 2 pi): distance to an even multiple of pi/4, then two polynomials."""
    ints = vector(I32, width_of(x.type))
    octant = (fn.convert("fptosi", x * rounded_f32(1.27323954473516), ints) + 1) & -2
    multiple = fn.convert("sitofp", octant, x.type)
    for part in _QUARTER_PI:
        x = _fma(fn, multiple, rounded_f32(part), x)
    z = x * x
    cosine = _fma(fn, _polynomial(fn, z, _COS) * z, z, -(z * 0.5)) + 1.0
    sine = _fma(fn, _polynomial(fn, z, _SIN) * z, x, x)
    straight = (octant & 2) == 0
    flip_sine = (octant & 4) << 29
    flip_cosine = (~(octant - 2) & 4) << 29

    def signed(value, flip):
        return fn.convert("bitcast", fn.convert("bitcast", value, ints) ^ flip, value.type)

    return (
        signed(fn.select(straight, sine, cosine), flip_sine),
        signed(fn.select(straight, cosine, sine), flip_cosine),
    )


# -- fills through the C library -------------------------------------------------------------------


def _one_by_one(parameters, dtype, value):
    """value(kernel, *parameters) gives a double; it is stored as dtype."""
    kernel = Kernel("ppi" + "f" * parameters)
    fn, (_, out, count, *rest) = kernel.fn, kernel.arguments
    with fn.loop(0, count) as i:
        store(fn, narrowed(fn, value(kernel, *rest), dtype), out, i, dtype)
    return kernel.text()


def _scaled_normal(kernel, mean, std):
    return kernel.fn.intrinsic("fma", kernel.normal(), std, mean)


def _log_normal(kernel, mean, std):
    return libm(kernel.fn, "exp", _scaled_normal(kernel, mean, std))


def _cauchy(kernel, median, sigma):
    tangent = libm(kernel.fn, "tan", (kernel.uniform() - 0.5) * math.pi)
    return kernel.fn.intrinsic("fma", sigma, tangent, median)


def _exponential(kernel, rate):
    return (kernel.fn.value(-1.0, "double") / rate) * libm(kernel.fn, "log1p", -kernel.uniform())


def _geometric(kernel, p):
    fn = kernel.fn
    return fn.intrinsic("ceil", libm(fn, "log", kernel.uniform()) / libm(fn, "log1p", -p))


_VALUES = {
    "normal_pairs": (2, _scaled_normal),
    "log_normal": (2, _log_normal),
    "cauchy": (2, _cauchy),
    "exponential": (1, _exponential),
    "geometric": (1, _geometric),
}


def build_fill(kind, dtype):
    """The IR of one of the fills through the C library."""
    parameters, value = _VALUES[kind]
    return _one_by_one(parameters, dtype, value)
