"""Discrete Fourier transforms along one dimension, many lines at a time.

A vector register holds the same element of as many lines as it has lanes, so every step is plain
arithmetic on whole registers. A chunk loads its lines into scratch (turning them in squares where
the elements of a line lie side by side), runs Stockham's passes, one per factor of the length, from
one half of the scratch to the other, and stores the result. Going backward is going forward with
real and imaginary parts swapped. Real lines travel in pairs, one as the real and one as the
imaginary part; their spectra are told apart by symmetry.

A group is a block of lines of one outer index. The description goes on with radices (as many words
as PASSES says), sizes of outer dimensions, and their strides in the output and in the input.
Launched by eager/fourier.py.
"""

import math

from flambeau.codegen import scalar
from flambeau.codegen.build import transpose
from flambeau.codegen.descriptions import PASSES, Fourier
from flambeau.codegen.llvm import load_element, store_element
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.loops import I1, I64, PTR, Module, bytes_of, vector
from flambeau.codegen.templates.tiles import registers

RADIX = len(Fourier._fields)  # the word of the first one
HEADER = RADIX + PASSES
RADICES = (8, 5, 4, 3, 2, 7)  # with code of their own; other primes share one


class _Transform:
    def __init__(self, kind, code, rank, width):
        self.kind, self.rank = kind, rank  # c2c, r2c or c2r
        self.code = code  # of the complex side
        self.real = "f32" if code == "c64" else "f64"
        self.type = "float" if code == "c64" else "double"
        self.size = bytes_of(self.type)
        self.width = width
        self.wide = vector(self.type, self.width)
        self.module = Module()
        names = ("block", "chunk")
        self.fn = self.module.function("body", [(PTR, names[0]), (I64, names[1])], internal=True)
        self.block, self.chunk = self.fn.params

    def text(self):
        fn = self.fn
        self.description = argument_word(fn, self.block, 0, "p")
        out, source, scratch, self.table, self.turns = (
            argument_word(fn, self.block, k, "p") for k in range(1, 6)
        )
        words = Fourier(*[self.word(k) for k in range(RADIX)])
        self.n, self.lines, self.passes, self.swap = words.n, words.lines, words.passes, words.swap
        self.in_step, self.in_line = words.in_step, words.in_line
        self.out_step, self.out_line = words.out_step, words.out_line
        self.turn_row, self.kept = words.turn_row, words.kept
        self.scale = argument_word(fn, self.block, 6, "f")
        if self.type == "float":
            self.scale = fn.convert("fptrunc", self.scale, "float")
        bytes_apart = self.n * (self.width * self.size)
        mine = fn.gep(scratch, self.chunk * (bytes_apart * 4), "i8")
        self.halves = [fn.gep(mine, bytes_apart * k, "i8") for k in range(4)]
        per_group = self.width * (1 if self.kind == "c2c" else 2)
        low = self.chunk * words.per_chunk
        with fn.loop(low, fn.min(low + words.per_chunk, words.groups)) as group:
            row, first = group / words.blocks, (group % words.blocks) * per_group
            to, at = self.bases(row, out, source)
            at = fn.gep(at, first * self.in_line, "i8")
            to = fn.gep(to, first * self.out_line, "i8")
            left = self.lines - first
            # backward: what is loaded as the real part is the imaginary one
            re = fn.select(self.swap != 0, self.halves[1], self.halves[0])
            im = fn.select(self.swap != 0, self.halves[0], self.halves[1])
            getattr(self, "load_" + self.kind)(at, left, re, im)
            flip = self.run_passes()
            re, im = (fn.select(flip, self.halves[2 + k], self.halves[k]) for k in (0, 1))
            swapped = self.swap != 0
            re, im = fn.select(swapped, im, re), fn.select(swapped, re, im)
            getattr(self, "store_" + self.kind)(to, left, re, im, first)
        fn.ret()
        add_entry(self.module, "ppppppf")
        return module_text(self.module)

    def word(self, k):
        return self.fn.load(self.fn.gep(self.description, k, I64), I64, 8)

    def bases(self, row, out, source):
        fn, rest = self.fn, row
        for d in range(self.rank - 1, -1, -1):
            size = self.word(HEADER + d)
            place = rest % size
            rest = rest / size
            out = fn.gep(out, place * self.word(HEADER + self.rank + d), "i8")
            source = fn.gep(source, place * self.word(HEADER + 2 * self.rank + d), "i8")
        return out, source

    # -- loading and storing ---------------------------------------------------------------------
    def mask(self, left):
        fn, w = self.fn, self.width
        if w == 1:
            return None
        left = fn.max(fn.min(left, w), 0)
        lanes = fn.iota(vector("i32", w))
        count = fn.splat(fn.convert("trunc", left, "i32"), w)
        return fn.pure(f"icmp ult {lanes}, {count.name}", vector(I1, w))

    def cell(self, base, i):
        return self.fn.gep(base, i * self.width, self.type)

    def read(self, base, i):
        return self.fn.load(self.cell(base, i), self.wide, 64 if self.width > 1 else None)

    def write(self, value, base, i):
        self.fn.store(value, self.cell(base, i), 64 if self.width > 1 else None)

    def load_lines(self, at, left, code, count, put):
        """Elements 0 .. count of a block of lines: put(i, value or pair of values)."""
        fn, w = self.fn, self.width
        item = self.size * (2 if code[0] == "c" else 1)
        mask = self.mask(left)

        def one(i, access):
            place = fn.gep(at, i * self.in_step, "i8")
            put(i, load_element(fn, place, code, w, access, self.in_line, mask))

        def side_by_side():
            with fn.loop(0, count) as i:
                one(i, "c")

        def squares():
            per = max(1, w * self.size // item)  # elements in a register
            whole = (count / per) * per
            with fn.loop(0, whole, per) as i:
                base = fn.gep(at, i * item, "i8")
                rows = [
                    fn.load(fn.gep(base, self.in_line * k, "i8"), self.wide, self.size)
                    for k in range(w)
                ]
                turned = transpose(fn, rows)
                for k in range(per):
                    put(i + k, turned[2 * k : 2 * k + 2] if code[0] == "c" else turned[k])
            with fn.loop(whole, count) as i:
                one(i, "n")

        def apart():
            with fn.loop(0, count) as i:
                one(i, "n")

        if w == 1:
            return apart()
        turn = (self.in_step == item) & (left >= w)
        fn.if_else(self.in_line == item, side_by_side, lambda: fn.if_else(turn, squares, apart))
        return None

    def store_lines(self, to, left, code, count, get):
        """The converse: get(i) gives the value, or the pair, of element i."""
        fn, w = self.fn, self.width
        item = self.size * (2 if code[0] == "c" else 1)
        mask = self.mask(left)

        def one(i, access):
            place = fn.gep(to, i * self.out_step, "i8")
            store_element(fn, get(i), place, code, w, access, self.out_line, mask)

        def side_by_side():
            with fn.loop(0, count) as i:
                one(i, "c")

        def squares():
            per = max(1, w * self.size // item)
            whole = (count / per) * per
            with fn.loop(0, whole, per) as i:
                rows = []
                for k in range(per):
                    value = get(i + k)
                    rows += value if code[0] == "c" else [value]
                base = fn.gep(to, i * item, "i8")
                for k, row in enumerate(transpose(fn, rows)):
                    fn.store(row, fn.gep(base, self.out_line * k, "i8"), self.size)
            with fn.loop(whole, count) as i:
                one(i, "n")

        def apart():
            with fn.loop(0, count) as i:
                one(i, "n")

        if w == 1:
            return apart()
        turn = (self.out_step == item) & (left >= w)
        fn.if_else(self.out_line == item, side_by_side, lambda: fn.if_else(turn, squares, apart))
        return None

    def load_c2c(self, at, left, re, im):
        def put(i, pair):
            self.write(pair[0], re, i)
            self.write(pair[1], im, i)

        self.load_lines(at, left, self.code, self.n, put)

    def both(self, base, line, left):
        """The two blocks of lines that travel together: (which, address, lines left)."""
        fn = self.fn
        with fn.loop(0, 2) as half:
            yield half, fn.gep(base, half * line * self.width, "i8"), left - half * self.width

    def load_r2c(self, at, left, re, im):
        for half, base, count in self.both(at, self.in_line, left):
            part = self.fn.select(half == 0, re, im)
            self.load_lines(
                base, count, self.real, self.n, lambda i, v, p=part: self.write(v, p, i)
            )

    def load_c2r(self, at, left, re, im):
        """Half spectra of two lines, a + i b, completed by symmetry."""
        fn = self.fn
        zero = fn.value(0.0, self.wide)
        for half, base, count in self.both(at, self.in_line, left):
            second = half == 1

            def put(i, pair, second=second):
                # the imaginary part of the first and, without a partner, of the middle is left out
                lonely = (i == 0) | (i * 2 == self.n)
                b, bi = pair[0], fn.select(lonely, zero, pair[1])
                a = fn.select(second, self.read(re, i), zero)
                ai = fn.select(second, self.read(im, i), zero)
                u, ui = fn.select(second, -bi, b), fn.select(second, b, bi)  # b, or i b
                self.write(a + u, re, i)
                self.write(ai + ui, im, i)
                with fn.when(second & (i > 0) & (i * 2 < self.n)):
                    self.write(a + bi, re, self.n - i)
                    self.write(b - ai, im, self.n - i)

            self.load_lines(base, count, self.code, self.kept, put)

    def scaled(self, value):
        return value * self.fn.splat(self.scale, self.width)

    def store_c2c(self, to, left, re, im, first):
        fn = self.fn
        with fn.when(self.turn_row != 0), fn.loop(0, self.n) as i:
            # a step of a longer transform: turned by the angle of element and line
            a, b = self.read(re, i), self.read(im, i)
            place = fn.gep(self.turns, (i * self.turn_row + first) * (2 * self.size), "i8")
            c, d = load_element(fn, place, self.code, self.width, "c", None, self.mask(left))
            d = fn.select(self.swap != 0, -d, d)
            x, y = self.turned((a, b), c, d)
            self.write(x, re, i)
            self.write(y, im, i)
        self.store_lines(
            to,
            left,
            self.code,
            self.n,
            lambda i: (self.scaled(self.read(re, i)), self.scaled(self.read(im, i))),
        )

    def store_r2c(self, to, left, re, im, first):
        """The spectra of two real lines from that of one complex line."""
        fn = self.fn
        half_number = fn.value(0.5, self.wide)
        for half, base, count in self.both(to, self.out_line, left):

            def get(i, half=half):
                other = fn.select(i == 0, fn.value(0, I64), self.n - i)
                a, b = self.read(re, i), self.read(im, i)
                c, d = self.read(re, other), self.read(im, other)
                mine = half == 0
                u, v = fn.select(mine, a + c, b + d), fn.select(mine, b - d, c - a)
                return self.scaled(u * half_number), self.scaled(v * half_number)

            self.store_lines(base, count, self.code, self.kept, get)

    def store_c2r(self, to, left, re, im, first):
        for half, base, count in self.both(to, self.out_line, left):
            part = self.fn.select(half == 0, re, im)
            self.store_lines(
                base, count, self.real, self.n, lambda i, p=part: self.scaled(self.read(p, i))
            )

    # -- passes ----------------------------------------------------------------------------------
    def run_passes(self):
        """All passes; is the result in the second half of the scratch?"""
        fn = self.fn
        stride = fn.var(fn.value(1, I64))
        flip = fn.var(fn.value(False, I1))
        with fn.loop(0, self.passes) as k:
            radix = self.word(k + RADIX)
            turned = flip.get()
            source = [fn.select(turned, self.halves[2 + j], self.halves[j]) for j in (0, 1)]
            target = [fn.select(turned, self.halves[j], self.halves[2 + j]) for j in (0, 1)]
            s = stride.get()
            self.choose(radix, source, target, s)
            stride.set(s * radix)
            flip.set(~turned)
        return flip.get()

    def choose(self, radix, source, target, s):
        def arm(k):
            if k == len(RADICES):
                return lambda: self.general_pass(radix, source, target, s)
            return lambda: self.fn.if_else(
                radix == RADICES[k],
                lambda: self.pass_of(RADICES[k], source, target, s),
                arm(k + 1),
            )

        arm(0)()

    def factor(self, index):
        """exp(-2 pi i index / n), the same for all lanes."""
        fn = self.fn
        place = fn.gep(self.table, index * 2, self.type)
        re, im = fn.load(place, self.type), fn.load(fn.gep(place, 1, self.type), self.type)
        return fn.splat(re, self.width), fn.splat(im, self.width)

    def turned(self, x, c, d):
        """The product of a complex number with c + i d."""
        (a, b), fma = x, self.fn.intrinsic
        return fma("fma", a, c, -(b * d)), fma("fma", a, d, b * c)

    def pass_of(self, r, source, target, s):
        """x[q + s (p + m j)] over j gives y[q + s (r p + k)], turned by p k s / n of a circle."""
        fn = self.fn
        m = self.n / (s * r)
        with fn.loop(0, m) as p:
            turns = [self.factor(p * s * k) for k in range(1, r)]
            with fn.loop(0, s) as q:
                x = [
                    tuple(self.read(part, q + s * (p + m * j)) for part in source) for j in range(r)
                ]
                y = BUTTERFLIES[r](self, x)
                for k in range(r):
                    re, im = y[k]
                    if k:
                        re, im = self.turned((re, im), *turns[k - 1])
                    self.write(re, target[0], q + s * (p * r + k))
                    self.write(im, target[1], q + s * (p * r + k))

    def general_pass(self, r, source, target, s):
        """The same for any odd radix, from the definition, by elements that mirror each other.

        Sums and differences of those take the places of the elements, which nobody reads again:
        half as many terms, and real factors for complex numbers.
        """
        fn = self.fn
        m = self.n / (s * r)
        half, unit = (r + 1) / 2, self.n / r
        many = 4 if registers() == 32 else 2  # outputs at a time: four sums each
        with fn.loop(0, m) as p, fn.loop(0, s) as q:
            here = q + s * p

            def at(j, here=here):
                return here + s * (m * j)

            def put(k, value, p=p, q=q):
                c, d = self.factor(p * s * k)
                re, im = self.turned(value, c, d)
                self.write(re, target[0], q + s * (p * r + k))
                self.write(im, target[1], q + s * (p * r + k))

            first = [self.read(part, here) for part in source]
            total = [fn.var(x) for x in first]
            with fn.loop(1, half) as j:
                for part, sum in zip(source, total):
                    x, y = self.read(part, at(j)), self.read(part, at(r - j))
                    sum.set(sum.get() + (x + y))
                    self.write(x + y, part, at(j))
                    self.write(x - y, part, at(r - j))
            put(fn.value(0, I64), [sum.get() for sum in total])
            whole = (half - 1) / many * many + 1
            with fn.loop(1, whole, many) as k:
                self.mirrored([k + i for i in range(many)], r, half, unit, source, at, first, put)
            with fn.loop(whole, half) as k:
                self.mirrored([k], r, half, unit, source, at, first, put)

    def mirrored(self, ks, r, half, unit, source, at, first, put):
        """Outputs k and r - k of some k, from sums and differences."""
        fn = self.fn
        zero = fn.value(0.0, self.wide)
        sums = [[fn.var(x) for x in (*first, zero, zero)] for _ in ks]
        turns = [fn.var(fn.value(0, I64)) for _ in ks]  # j k modulo r, in steps of the table
        with fn.loop(1, half) as j:
            terms = [self.read(part, at(i)) for i in (j, r - j) for part in source]
            for k, turn, four in zip(ks, turns, sums):
                ahead = turn.get() + k * unit
                index = fn.select(ahead >= self.n, ahead - self.n, ahead)
                turn.set(index)
                c, d = self.factor(index)
                for sum, term, factor in zip(four, terms, (c, c, d, d)):
                    sum.set(fn.intrinsic("fma", term, factor, sum.get()))
        for k, four in zip(ks, sums):
            u, ui, v, vi = [sum.get() for sum in four]
            # the table has minus the sine
            put(k, (u - vi, ui + v))
            put(r - k, (u + vi, ui - v))

    # -- butterflies: the transform of r numbers ---------------------------------------------------
    def number(self, x):
        return self.fn.value(scalar.const(x, self.real).data, self.wide)

    def two(self, x):
        (a, b), (c, d) = x
        return [(a + c, b + d), (a - c, b - d)]

    def odd(self, x):
        """Any odd count: sums and differences of the elements that mirror each other."""
        r, (a, b) = len(x), x[0]
        half = range(1, r // 2 + 1)
        sums = {j: (x[j][0] + x[r - j][0], x[j][1] + x[r - j][1]) for j in half}
        gaps = {j: (x[j][0] - x[r - j][0], x[j][1] - x[r - j][1]) for j in half}
        found = [(a, b)] * r
        for re, im in sums.values():
            found[0] = found[0][0] + re, found[0][1] + im
        for k in half:
            u, ui, v, vi = a, b, None, None
            for j in half:
                angle = 2 * math.pi * (j * k % r) / r
                c, d = self.number(math.cos(angle)), self.number(math.sin(angle))
                u, ui = u + sums[j][0] * c, ui + sums[j][1] * c
                step, step_i = gaps[j][0] * d, gaps[j][1] * d
                v, vi = (step, step_i) if v is None else (v + step, vi + step_i)
            found[k], found[r - k] = (u + vi, ui - v), (u - vi, ui + v)
        return found

    def four(self, x):
        (a, b), (c, d), (e, f), (g, h) = x
        p, pi, m, mi = a + e, b + f, a - e, b - f
        q, qi, o, oi = c + g, d + h, c - g, d - h
        return [(p + q, pi + qi), (m + oi, mi - o), (p - q, pi - qi), (m - oi, mi + o)]

    def eight(self, x):
        even, odd = self.four(x[0::2]), self.four(x[1::2])
        root = self.number(math.sqrt(0.5))
        (a, b), (c, d), (e, f), (g, h) = odd
        odd = [(a, b), ((c + d) * root, (d - c) * root), (f, -e), ((h - g) * root, -(g + h) * root)]
        low = [(p + q, pi + qi) for (p, pi), (q, qi) in zip(even, odd)]
        high = [(p - q, pi - qi) for (p, pi), (q, qi) in zip(even, odd)]
        return low + high


BUTTERFLIES = dict.fromkeys((3, 5, 7), _Transform.odd)
BUTTERFLIES |= {2: _Transform.two, 4: _Transform.four, 8: _Transform.eight}


def build(kind, code, rank, width):
    """IR of a transform (c2c, r2c or c2r) of a complex dtype with `rank` outer dimensions.

    width: lines that are transformed side by side.
    """
    return _Transform(kind, code, rank, width).text()
