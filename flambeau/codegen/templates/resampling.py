"""Resampling: every output is a weighted sum of a few inputs along each spatial dimension.

Tables say which inputs, and how much of each; the gradient is the same kernel with tables turned
around, so both directions only gather and no two chunks write the same place. With the width last
in memory a row is made in two steps: input rows are summed into a buffer, then the buffer is read
by columns, a register permutation per tap where the columns of one register lie close together.
With channels last a pixel is a line of channels, and lines are summed. The tables are computed in
`resampling_tables.py`, here and in `eager/`.
"""

from contextlib import contextmanager

from flambeau.codegen import descriptions_images as descriptions
from flambeau.codegen.llvm import convert, gather, load_element, store_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR, V, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel

STRAIGHT = 4  # up to so many rows are summed in registers, without going through the buffer
LINES = 4  # registers of channels that are summed together

_PERMUTE = {
    ("near", 64, "float"): "llvm.x86.avx512.permvar.sf.512",
    ("near", 64, "double"): "llvm.x86.avx512.permvar.df.512",
    ("far", 64, "float"): "llvm.x86.avx512.vpermi2var.ps.512",
    ("far", 64, "double"): "llvm.x86.avx512.vpermi2var.pd.512",
    ("near", 32, "float"): "llvm.x86.avx2.permps",
}


def compute_type(code):
    """The scalar type of weights and sums; those of bytes are exact in double."""
    return "f64" if code in ("f64", "u8") else "f32"


def lanes(code):
    return current().vector_bytes // (8 if compute_type(code) == "f64" else 4)


def reach(code):
    """How far apart (in columns) the lanes of a register may read: {way of reading: columns}."""
    e, size = LLVM_TYPE[compute_type(code)], current().vector_bytes
    factor = {"near": 1, "far": 2}
    return {way: factor[way] * lanes(code) for way in factor if (way, size, e) in _PERMUTE}


class _Resampling:
    """A kernel under construction, with loads and stores of its dtype."""

    def __init__(self, code):
        self.kernel = Kernel("ppp")
        self.fn = self.kernel.fn
        self.code, self.type = code, compute_type(code)
        self.scalar = LLVM_TYPE[self.type]
        self.width = lanes(code)
        self.memory = MEMORY_TYPE[code]

    def tables(self, words):
        """(pointers, indices, weights) of depth, of height and of width."""
        found = [self.fn.convert("inttoptr", word, PTR) for word in words[-9:]]
        return found[:3], found[3:6], found[6:]

    def load(self, pointer, mask=None):
        fn = self.fn
        x = load_element(fn, pointer, self.code, self.width, "c", None, mask)
        return convert(fn, x, COMPUTE_TYPE[self.code], self.type)

    def store(self, value, pointer, mask=None):
        fn = self.fn
        if self.code == "u8":
            value = fn.intrinsic("floor", value + 0.5)
            value = fn.select(value < 0.0, fn.value(0.0, value.type), value)
            value = fn.select(value > 255.0, fn.value(255.0, value.type), value)
            value = convert(fn, value, self.type, "u8")
        store_element(fn, value, pointer, self.code, self.width, "c", None, mask)

    def mask(self, left):
        """The lanes below a count."""
        fn = self.fn
        left = fn.splat(left, self.width)
        return fn.pure(f"icmp slt {fn.iota(left.type)}, {left.name}", vector(I1, self.width))

    def across(self, count, step, registers=1):
        """step(column, registers, mask) over columns, whole groups of registers first."""
        fn, w = self.fn, self.width
        done = V(fn, I64, "0")
        for group in (registers, 1) if registers > 1 else (1,):
            whole = done + ((count - done) / (group * w)) * (group * w)
            with fn.loop(done, whole, group * w) as column:
                step(column, group, None)
            done = whole
        with fn.when(done < count):
            step(done, 1, self.mask(count - done))

    def taps(self, pointers, at):
        """(first, end) of the taps of an output place."""
        fn = self.fn
        return tuple(fn.load(fn.gep(pointers, at + k, I64), I64) for k in (0, 1))

    def tap(self, indices, weights, t):
        fn = self.fn
        index = fn.load(fn.gep(indices, t, I64), I64)
        return index, fn.load(fn.gep(weights, t, self.scalar), self.scalar)


# -- width last ------------------------------------------------------------------------------------


class Regular:
    """Neighbours of places at equal distances.

    kind: nearest, nearest_exact or linear. Positions are rounded to float32 unless they are exact,
    as in PyTorch, because the neighbour of a tie and the weights of large images depend on it.
    """

    def __init__(self, fn, kind, aligned, exact, step, last):
        self.fn, self.kind, self.aligned, self.exact = fn, kind, aligned, exact
        self.step, self.last = step, last

    def single(self, x):
        return self.fn.convert("fpext", self.fn.convert("fptrunc", x, "float"), "double")

    def rounded(self, x):
        return x if self.exact else self.single(x)

    def number(self, k):
        return self.fn.convert("sitofp", k, "double")

    def nearest(self, k):
        """The one neighbour of output k."""
        fn = self.fn
        # rounded down as a float32, whatever it was computed in
        half = 0.5 if self.kind == "nearest_exact" else 0.0
        place = self.single((self.number(k) + half) * self.step)
        return fn.min(fn.convert("fptosi", fn.intrinsic("floor", place), I64), self.last)

    def linear(self, k):
        """(first neighbour, its weight, is there a second?, its weight)."""
        fn, step = self.fn, self.step
        one, zero = (fn.value(x, "double") for x in (1.0, 0.0))
        place = step * self.number(k) if self.aligned else step * (self.number(k) + 0.5) - 0.5
        place = fn.max(self.rounded(place), zero)
        low = fn.min(fn.convert("fptosi", place, I64), self.last)
        part = fn.min(fn.max(self.rounded(place - self.number(low)), zero), one)
        rest = self.rounded(one - part)
        inside = low < self.last
        return low, fn.select(inside, rest, rest + part), inside, part


def build_rows(code, taps, way, ragged, regular=None):
    """Resample planes of rows: (out, input, scratch).

    taps: columns per output, or 0 if only run time tells; way: near, far (register permutations)
    or gather; ragged: some outputs have fewer taps, marked by zero weights. regular: (kind,
    aligned, exact) of rows that need no table; the bits of their step stand in its place.
    """
    r = _Resampling(code)
    kernel, fn = r.kernel, r.fn
    out, x, scratch = kernel.arguments
    words = kernel.described(descriptions.Resampling)
    _, rows, per_chunk, depth, height, width, _, in_height, in_width, step, room, *_ = words
    deep, high, wide = r.tables(words)
    count = taps or words.count
    buffer = fn.gep(scratch, kernel.chunk * room, r.scalar)
    first = kernel.chunk * per_chunk
    end = fn.min(first + per_chunk, rows)
    with _rows(fn, first, end, height, depth) as (row, y, z, plane):
        d_low, d_high = r.taps(deep[0], z)
        d_index, d_weight = r.tap(*deep[1:], d_low)
        source = fn.gep(x, plane * step, r.memory)
        base = fn.gep(source, d_index * in_height * in_width, r.memory)
        line = r, buffer, base, d_weight, in_width
        if regular:
            pace = fn.convert("bitcast", words.high_pointers, "double")
            _regular_rows(line, Regular(fn, *regular, pace, in_height - 1), y)
        else:
            h_range = r.taps(high[0], y)
            n, single = h_range[1] - h_range[0], (d_high - d_low) == 1
            straight = single & (n >= 1) & (n <= STRAIGHT)
            for k in range(1, STRAIGHT + 1):
                with fn.when(single & (n == k)):
                    _sum_rows(*line, [r.tap(*high[1:], h_range[0] + j) for j in range(k)])
            with fn.when(~straight):
                sizes = in_height, in_width
                _gather_rows(r, buffer, source, deep, (d_low, d_high), high, h_range, sizes)
        _read_columns(
            r, fn.gep(out, row * width, r.memory), buffer, width, wide, count, way, ragged
        )
    return kernel.text()


@contextmanager
def _rows(fn, first, end, height, depth):
    """(row, its place in a picture, the picture's in a volume, the volume's): counted, since to
    divide for every row takes as long as to fill a short one.
    """
    rest = first / height
    y, z, plane = (fn.var(value) for value in (first % height, rest % depth, rest / depth))
    with fn.loop(first, end) as row:
        yield row, y.get(), z.get(), plane.get()
        y.set(y.get() + 1)
        with fn.when(y.get() == height):
            y.set(fn.value(0, I64))
            z.set(z.get() + 1)
            with fn.when(z.get() == depth):
                z.set(fn.value(0, I64))
                plane.set(plane.get() + 1)


def _regular_rows(line, places, y):
    """The neighbours of row y, summed."""
    r, fn = line[0], line[0].fn

    def narrow(weight):
        return fn.convert("fptrunc", weight, r.scalar)

    if places.kind != "linear":
        _sum_rows(*line, [(places.nearest(y), fn.value(1.0, r.scalar))])
        return
    low, first, inside, second = places.linear(y)
    one = low, narrow(first)
    two = low + 1, narrow(second)
    fn.if_else(inside, lambda: _sum_rows(*line, [one, two]), lambda: _sum_rows(*line, [one]))


def _sum_rows(r, buffer, base, d_weight, in_width, taps):
    """buffer = the sum of a few weighted input rows; taps: (row, weight)."""
    fn, w = r.fn, r.width
    lines = [(fn.gep(base, i * in_width, r.memory), fn.splat(v * d_weight, w)) for i, v in taps]

    def step(column, group, mask):
        total = None
        for line, weight in lines:
            v = r.load(fn.gep(line, column, r.memory), mask)
            total = v * weight if total is None else fn.intrinsic("fma", v, weight, total)
        fn.store(total, fn.gep(buffer, column, r.scalar), 4)

    r.across(in_width, step)


def _gather_rows(r, buffer, source, deep, d_range, high, h_range, sizes):
    """buffer = the sum of any number of weighted input rows, one after the other."""
    fn, w = r.fn, r.width
    in_height, in_width = sizes

    def clear(column, group, mask):
        zero = fn.value(0.0, vector(r.scalar, w))
        fn.store(zero, fn.gep(buffer, column, r.scalar), 4)

    r.across(in_width, clear)
    with fn.loop(*d_range) as d:
        z, d_weight = r.tap(*deep[1:], d)
        with fn.loop(*h_range) as h:
            y, h_weight = r.tap(*high[1:], h)
            at = (z * in_height + y) * in_width
            line, weight = fn.gep(source, at, r.memory), fn.splat(d_weight * h_weight, w)

            def step(column, group, mask):
                v = r.load(fn.gep(line, column, r.memory), mask)
                place = fn.gep(buffer, column, r.scalar)
                total = fn.load(place, vector(r.scalar, w), 4)
                fn.store(fn.intrinsic("fma", v, weight, total), place, 4)

            r.across(in_width, step)


def _read_columns(r, target, buffer, width, wide, count, way, ragged):
    """A row of the output from the buffer."""
    fn, w = r.fn, r.width
    bases, indices, weights = wide
    e = r.scalar
    integer = f"i{8 * bytes_of(e)}"

    def tap(slot, total):
        lanes = fn.load(fn.gep(indices, slot * w, integer), vector(integer, w))
        weight = fn.load(fn.gep(weights, slot * w, e), vector(e, w))
        if way == "gather":
            lanes = fn.convert("sext", lanes, vector(I64, w))
            pointers = fn.pure(f"getelementptr {e}, {buffer}, {lanes}", vector(PTR, w))
            v = gather(fn, pointers, e, None)
        else:
            at = fn.gep(buffer, fn.load(fn.gep(bases, slot, I64), I64), e)
            v = fn.load(at, vector(e, w), 4)
            name = _PERMUTE[way, current().vector_bytes, e]
            if way == "near":
                v = fn.call(name, v.type, v, lanes)
            else:
                more = fn.load(fn.gep(at, w, e), v.type, 4)
                v = fn.call(name, v.type, v, lanes, more)
        if total is None:
            total = fn.value(0.0, v.type)
            return fn.select(weight != 0.0, v * weight, total) if ragged else v * weight
        sum = fn.intrinsic("fma", v, weight, total)
        # a missing tap must not turn an infinite neighbour into nan
        return fn.select(weight != 0.0, sum, total) if ragged else sum

    def block(column, group, mask):
        slot = (column / w) * count
        if isinstance(count, int):
            total = None
            for k in range(count):
                total = tap(slot + k, total)
        else:
            cell = fn.var(fn.value(0.0, vector(e, w)))
            with fn.loop(slot, slot + count) as k:
                cell.set(tap(k, cell.get()))
            total = cell.get()
        r.store(total, fn.gep(target, column, r.memory), mask)

    r.across(width, block)


# -- channels last ---------------------------------------------------------------------------------


def build_pixels(code):
    """Resample images whose channels lie side by side: (out, input, nothing)."""
    r = _Resampling(code)
    kernel, fn, w = r.kernel, r.fn, r.width
    out, x, _ = kernel.arguments
    words = kernel.described(descriptions.Resampling)
    _, rows, per_chunk, depth, height, width, _, in_height, in_width, step, channels, *_ = words
    deep, high, wide = r.tables(words)
    first = kernel.chunk * per_chunk
    end = fn.min(first + per_chunk, rows)
    with _rows(fn, first, end, height, depth) as (row, y, z, image):
        source = fn.gep(x, image * step, r.memory)
        d_range, h_range = r.taps(deep[0], z), r.taps(high[0], y)
        with fn.loop(0, width) as column:
            w_range = r.taps(wide[0], column)
            target = fn.gep(out, (row * width + column) * channels, r.memory)

            def step(channel, group, mask):
                totals = [fn.var(fn.value(0.0, vector(r.scalar, w))) for _ in range(group)]
                with fn.loop(*d_range) as d:
                    k, d_weight = r.tap(*deep[1:], d)
                    with fn.loop(*h_range) as h:
                        i, h_weight = r.tap(*high[1:], h)
                        line = (k * in_height + i) * in_width
                        with fn.loop(*w_range) as t:
                            j, weight = r.tap(*wide[1:], t)
                            weight = fn.splat(weight * h_weight * d_weight, w)
                            at = fn.gep(source, (line + j) * channels + channel, r.memory)
                            for n, total in enumerate(totals):
                                v = r.load(fn.gep(at, n * w, r.memory), mask)
                                total.set(fn.intrinsic("fma", v, weight, total.get()))
                for n, total in enumerate(totals):
                    r.store(total.get(), fn.gep(target, channel + n * w, r.memory), mask)

            r.across(channels, step, LINES)
    return kernel.text()
