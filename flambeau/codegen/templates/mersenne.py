"""The Mersenne Twister in generated code: PyTorch's CPU stream of random words.

A generator is one block of memory (its layout is named below) that kernels advance in place.
`Words` writes into a module the internal functions every sampling kernel draws from: `twist` makes
the next 624 words, `fill_words` hands out many tempered words at once, `next_word`, `uniform` and
`normal` one value at a time. What is made of the words lives in `sampling.py` and `rejection.py`;
seeds and the public `Generator` in `flambeau/random.py`.
"""

import math

from flambeau.codegen.llvm import masked_load, masked_store
from flambeau.codegen.loops import I1, I32, I64, PTR, vector, width_of
from flambeau.codegen.target import current

# The block of a generator, in 64-bit words. CHUNKS is 1 and never changes: it lets the block
# double as the launch description of a kernel, and says that drawing is serial. LEFT and NEXT are
# PyTorch's: LEFT words remain in the state, the one to come included (1: twist first), NEXT is its
# position; -1 means that the state has yet to be made of the seed. The state (624 words of 32 bits)
# follows from word STATE on.
CHUNKS, SEED, LEFT, NEXT, HAS_NORMAL, NORMAL, HAS_FLOAT_NORMAL, FLOAT_NORMAL, STATE = range(9)
STATE_WORDS, SHIFT = 624, 397

BUFFER = 2048  # words drawn at a time by the vector kernels; they stay in the first-level cache
SLACK = 64  # readable words past the end of that buffer, so that a last vector needs no mask


class Words:
    """The drawing functions of one module; each is written when first asked for."""

    def __init__(self, module):
        self.module, self.width, self.written = module, current().vector_bytes // 4, set()

    def _function(self, name, params, result, write):
        if name not in self.written:
            self.written.add(name)
            fn = self.module.function(name, params, result, internal=True)
            write(fn, *fn.params)
        return name

    def fill_words(self, fn, generator, target, count):
        """Store `count` tempered words at target."""
        params = [(PTR, "generator"), (PTR, "target"), (I64, "count")]
        name = self._function("fill_words", params, "void", self._write_fill_words)
        fn.call(name, "void", generator, target, count)

    def next_word(self, fn, generator):
        name = self._function("next_word", [(PTR, "generator")], I32, self._write_next_word)
        return fn.call(name, I32, generator, pure=False)

    def next_wide(self, fn, generator):
        """64 bits: the first word is the upper half."""
        high = fn.convert("zext", self.next_word(fn, generator), I64)
        low = fn.convert("zext", self.next_word(fn, generator), I64)
        return (high << 32) | low

    def uniform(self, fn, generator):
        """A double in [0, 1) with 53 random bits."""
        name = self._function("uniform", [(PTR, "generator")], "double", self._write_uniform)
        return fn.call(name, "double", generator, pure=False)

    def normal(self, fn, generator):
        """A standard normal double; they come in pairs, the second waits in the generator."""
        name = self._function("normal", [(PTR, "generator")], "double", self._write_normal)
        return fn.call(name, "double", generator, pure=False)

    def seed(self, fn, generator):
        """Make the state of the seed, unless that is done."""
        name = self._function("seed", [(PTR, "generator")], "void", self._write_seed)
        fn.call(name, "void", generator)

    # -- the functions themselves --------------------------------------------------------------
    def _write_next_word(self, fn, generator):
        self._refill(fn, generator)
        left, position = _word(fn, generator, LEFT), _word(fn, generator, NEXT)
        at = fn.load(position, I64)
        word = fn.load(fn.gep(_state(fn, generator), at, I32), I32)
        fn.store(at + 1, position)
        fn.store(fn.load(left, I64) - 1, left)
        fn.ret(_temper(word))

    def _write_uniform(self, fn, generator):
        fn.ret(uniform64(fn, self.next_wide(fn, generator)))

    def _write_normal(self, fn, generator):
        has, second = _word(fn, generator, HAS_NORMAL), _word(fn, generator, NORMAL)

        def waiting():
            value = fn.load(second, "double")
            fn.store(fn.value(0, I64), has)
            fn.store(fn.value(0.0, "double"), second)
            return value

        def pair():
            angle = self.uniform(fn, generator) * (2 * math.pi)
            radius = fn.intrinsic("sqrt", libm(fn, "log1p", -self.uniform(fn, generator)) * -2.0)
            fn.store(radius * libm(fn, "sin", angle), second)
            fn.store(fn.value(1, I64), has)
            return radius * libm(fn, "cos", angle)

        fn.ret(fn.if_else(fn.load(has, I64) != 0, waiting, pair))

    def _write_fill_words(self, fn, generator, target, count):
        left, position = _word(fn, generator, LEFT), _word(fn, generator, NEXT)
        done, w = fn.var(fn.value(0, I64)), self.width
        with fn.while_(lambda: done.get() < count):
            self._refill(fn, generator)
            have, at, begin = fn.load(left, I64), fn.load(position, I64), done.get()
            take = fn.min(have - 1, count - begin)
            source = fn.gep(_state(fn, generator), at, I32)
            goal = fn.gep(target, begin, I32)

            def temper(i, mask):
                words = masked_load(fn, fn.gep(source, i, I32), vector(I32, w), mask)
                masked_store(fn, _temper(words), fn.gep(goal, i, I32), mask)

            vectors(fn, take, w, temper)
            fn.store(at + take, position)
            fn.store(have - take, left)
            done.set(begin + take)
        fn.ret()

    def _refill(self, fn, generator):
        """Twist if the state is used up; afterwards at least one word is there."""
        name = self._function("twist", [(PTR, "generator")], "void", self._write_twist)
        left = _word(fn, generator, LEFT)
        with fn.when(fn.load(left, I64) == 1):
            self.seed(fn, generator)
            fn.call(name, "void", generator)
            fn.store(fn.value(STATE_WORDS + 1, I64), left)
            fn.store(fn.value(0, I64), _word(fn, generator, NEXT))

    def _write_seed(self, fn, generator):
        """Knuth's recurrence on the low 32 bits of the seed."""
        position, state = _word(fn, generator, NEXT), _state(fn, generator)
        with fn.when(fn.load(position, I64) < 0):
            cell = fn.var(fn.convert("trunc", fn.load(_word(fn, generator, SEED), I64), I32))
            fn.store(cell.get(), state)
            with fn.loop(1, STATE_WORDS) as i:
                word = cell.get()
                word = (word ^ (word >> 30)) * 1812433253 + fn.convert("trunc", i, I32)
                cell.set(word)
                fn.store(word, fn.gep(state, i, I32))
            fn.store(fn.value(0, I64), position)
        fn.ret()

    def _write_twist(self, fn, generator):
        state, w = _state(fn, generator), self.width

        def mix(u, v):
            upper_lower = (u & -(2**31)) | (v & (2**31 - 1))
            return (upper_lower >> 1) ^ fn.select((v & 1) != 0, fn.value(-0x66F74F21, v.type), 0)

        def span(begin, end, offset):
            """state[i] = state[i + offset], state[i] and state[i + 1] mixed; in place."""

            def step(i, mask):
                parts = [fn.gep(state, i + (begin + k), I32) for k in (0, 1, offset)]
                u, v, far = (masked_load(fn, p, vector(I32, w), mask) for p in parts)
                masked_store(fn, far ^ mix(u, v), parts[0], mask)

            vectors(fn, fn.value(end - begin, I64), w, step)

        span(0, STATE_WORDS - SHIFT, SHIFT)
        span(STATE_WORDS - SHIFT, STATE_WORDS - 1, SHIFT - STATE_WORDS)
        last, first, far = (fn.gep(state, k, I32) for k in (STATE_WORDS - 1, 0, SHIFT - 1))
        u, v, far = (fn.load(p, I32) for p in (last, first, far))
        fn.store(far ^ mix(u, v), last)
        fn.ret()


def _word(fn, generator, index):
    return fn.gep(generator, index, I64)


def _state(fn, generator):
    return fn.gep(generator, STATE, I64)


def _temper(y):
    y = y ^ (y >> 11)
    y = y ^ ((y << 7) & -0x62D3A980)
    y = y ^ ((y << 15) & -0x103A0000)
    return y ^ (y >> 18)


def uniform64(fn, bits):
    """[0, 1) from the lower 53 of 64 bits."""
    t = vector("double", width_of(bits.type))
    return fn.convert("sitofp", bits & (2**53 - 1), t) * 2.0**-53


def uniform32(fn, bits):
    """[0, 1) from the lower 24 of 32 bits."""
    t = vector("float", width_of(bits.type))
    return fn.convert("sitofp", bits & (2**24 - 1), t) * 2.0**-24


def libm(fn, name, *args):
    """The C library's function: PyTorch calls it here, so only it has the same last bit."""
    return fn.call(name, args[0].type, *args)


def vectors(fn, count, width, body):
    """body(i, None) for every whole vector from 0 to count, then body(i, mask) for the rest."""
    whole = (count / width) * width
    with fn.loop(0, whole, width) as i:
        body(i, None)
    if width == 1:
        return
    with fn.when(whole < count):
        left = fn.splat(fn.convert("trunc", count - whole, I32), width)
        lanes = fn.iota(vector(I32, width))
        body(whole, fn.pure(f"icmp ult {lanes}, {left.name}", vector(I1, width)))
