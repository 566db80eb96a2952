"""Pooling over windows: the largest element of each, and the way back; unpooling.

A window is a product of ranges, one per dimension, and the ranges are words of the description:
plain, padded, dilated and adaptive windows differ in those words only. Tensors are images x depth x
height x width x channels; where the planes of a contiguous tensor are the images there is one
channel. Lanes run over channels, or (`across`) over the columns of one window. Means are in
`pooling_means.py`, quick forms for small windows in contiguous rows in `pooling_rows.py`.
"""

import math
from contextlib import contextmanager

from flambeau.codegen.llvm import load_element, masked_load, store_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I32, I64, V, bytes_of, element, is_float_type, vector, width_of
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel

# Words: 0 chunks  1 pieces per chunk  2 pieces  3-5 input sizes  6-8 output sizes  9 channels
# 10-12 taps of a window  13-15 distance of taps  16 columns padded on the left
# 17 do windows share columns, or have so few that it is better to go by columns?
# Then per output depth, height and column: where its window starts (maybe before the input), its
# first tap inside, one past the last, and the size to divide by; then the sizes of columns again,
# side by side; then per input depth, height and column the first window over it and one past the
# last.
HEADER = 18
FIELDS = 4


class Pool(Kernel):
    """A pooling kernel under construction, with the words of its description."""

    def __init__(self, kinds):
        super().__init__(kinds)
        words = self.words(HEADER - 1)
        self.per_chunk, self.pieces = words[:2]
        self.sizes, self.outs, self.channels = words[2:5], words[5:8], words[8]
        self.taps, self.steps = words[9:12], words[12:15]
        self.padding, self.overlap = words[15:17]
        od, oh, ow = self.outs
        d, h, _ = self.sizes
        self.windows = [self._at(n) for n in (0, od * FIELDS, (od + oh) * FIELDS)]
        columns = (od + oh + ow) * FIELDS
        self.column_sizes = self._at(columns)
        covers = columns + ow
        self.covers = [self._at(n) for n in (covers, covers + d * 2, covers + (d + h) * 2)]

    def _at(self, words):
        return self.fn.gep(self.description, words + HEADER, I64)

    @contextmanager
    def each_piece(self):
        first = self.chunk * self.per_chunk
        with self.fn.loop(first, self.fn.min(first + self.per_chunk, self.pieces)) as piece:
            yield piece

    def place(self, piece, sizes):
        """A piece as (image, depth, row)."""
        depth, height, _ = sizes
        rest = piece / height
        return rest / depth, rest % depth, piece % height

    def window(self, dim, o):
        """(start, first tap, end of taps, size) of window o along a dimension."""
        fn = self.fn
        at = o * FIELDS
        return [fn.load(fn.gep(self.windows[dim], at + k, I64), I64, 8) for k in range(FIELDS)]

    def sizes_of_columns(self, first, mask):
        """What windows first, first + 1, ... count for along the row; 1 where there are none."""
        fn, width = self.fn, width_of(mask.type)
        sizes = masked_load(fn, fn.gep(self.column_sizes, first, I64), vector(I64, width), mask)
        return fn.select(mask, sizes, 1)

    def cover(self, dim, i):
        """(first window over input i along a dimension, one past the last)."""
        fn = self.fn
        return [fn.load(fn.gep(self.covers[dim], i * 2 + k, I64), I64, 8) for k in range(2)]

    @contextmanager
    def each_row(self, depth, height):
        """The rows of a window: (number of its tap, depth, row)."""
        fn = self.fn
        with fn.loop(depth[1], depth[2]) as kd:
            d = depth[0] + kd * self.steps[0]
            with fn.loop(height[1], height[2]) as kh:
                yield kd * self.taps[1] + kh, d, height[0] + kh * self.steps[1]

    @contextmanager
    def each_tap(self, depth, height, columns):
        """The elements of a window, as (depth, row, column)."""
        with (
            self.each_row(depth, height) as (_, d, h),
            self.fn.loop(columns[1], columns[2]) as kw,
        ):
            yield d, h, columns[0] + kw * self.steps[2]

    @contextmanager
    def each_cover(self, d, h):
        """The windows over a row of the input: (depth, row) of the output."""
        fn = self.fn
        with fn.loop(*self.cover(0, d)) as od, fn.loop(*self.cover(1, h)) as oh:
            yield od, oh

    @contextmanager
    def each_channel(self, width, registers):
        """Blocks of channels, per register: (first one, mask of those that exist)."""
        fn = self.fn
        if width == 1:
            with fn.loop(0, self.channels) as c:
                yield [(c, None)]
        else:
            with fn.loop(0, self.channels, width * registers) as c:
                firsts = [c + k * width for k in range(registers)]
                yield [(first, below(fn, first, self.channels, width)) for first in firsts]


def flat(place, sizes):
    """The number of an element, from places and sizes (the first size does not count)."""
    at = place[0]
    for p, n in zip(place[1:], sizes[1:]):
        at = at * n + p
    return at


def below(fn, first, end, width):
    """Which of first, first + 1, ... are below end."""
    left = fn.convert("trunc", fn.min(fn.max(end - first, 0), width), I32)
    return fn.iota(vector(I32, width)) < fn.splat(left, width)


def lanes(code):
    """Lanes of kernels that compute with a dtype: indices of 32 bits must fit beside it."""
    return current().vector_bytes // max(4, bytes_of(LLVM_TYPE[COMPUTE_TYPE[code]]))


def computed(code, width):
    return vector(LLVM_TYPE[COMPUTE_TYPE[code]], width)


def at_element(fn, base, at, code):
    return fn.gep(base, at, MEMORY_TYPE[code])


def load(fn, base, at, code, width, mask=None):
    return load_element(fn, at_element(fn, base, at, code), code, width, "c", None, mask)


def store(fn, value, base, at, code, mask=None):
    width = width_of(value.type)
    store_element(fn, value, at_element(fn, base, at, code), code, width, "c", None, mask)


def lowest(code):
    """What every element is at least."""
    type = COMPUTE_TYPE[code]
    if type[0] == "f":
        return -math.inf
    return 0 if type[0] == "u" else -(1 << int(type[1:]) - 1)


def beats(value, best, code):
    """Is a later element to be taken? Ties keep the first one, nan always wins."""
    if is_float_type(value.type):
        return (value > best) | (value != value)
    return best.below(value) if COMPUTE_TYPE[code][0] == "u" else value > best


def resized(fn, index, type):
    """An index in another integer type."""
    target = vector(type, width_of(index.type))
    shrink = bytes_of(element(index.type)) > bytes_of(type)
    return fn.convert("trunc" if shrink else "zext", index, target)


def divided(fn, total, size):
    """A sum over a size (an integer, or lanes of them)."""
    if width_of(size.type) != width_of(total.type):
        size = fn.splat(size, width_of(total.type))
    return total / (fn.convert("sitofp", size, total.type) if is_float_type(total.type) else size)


# -- the largest element ---------------------------------------------------------------------------


def build_largest(code, channels, index):
    """(out, chosen, x): the largest element, and which it is (index: None, i32 or i64).

    channels: how many registers of them are held at a time; 0 if there is one channel only.
    """
    pool, width = Pool("ppp"), lanes(code) if channels else 1
    fn, (out, chosen, x) = pool.fn, pool.arguments
    held = I32 if width > 1 else I64
    with pool.each_piece() as piece:
        n, od, oh = pool.place(piece, pool.outs)
        depth, height = pool.window(0, od), pool.window(1, oh)
        with fn.loop(0, pool.outs[2]) as ow:
            columns = pool.window(2, ow)
            start = _first_tap(pool, depth, height, columns)
            with pool.each_channel(width, channels) as blocks:
                best = [fn.var(fn.value(lowest(code), computed(code, width))) for _ in blocks]
                where = [fn.var(fn.splat(resized(fn, start, held), width)) for _ in blocks]
                with pool.each_tap(depth, height, columns) as place:
                    here = flat(place, pool.sizes)
                    at = n * (pool.sizes[0] * pool.sizes[1] * pool.sizes[2]) + here
                    here = fn.splat(resized(fn, here, held), width)
                    for (c, mask), top, which in zip(blocks, best, where):
                        v = load(fn, x, at * pool.channels + c, code, width, mask)
                        take = beats(v, top.get(), code)
                        top.set(fn.select(take, v, top.get()))
                        if index:
                            which.set(fn.select(take, here, which.get()))
                at = flat((n, od, oh, ow), (None, *pool.outs)) * pool.channels
                for (c, mask), top, which in zip(blocks, best, where):
                    store(fn, top.get(), out, at + c, code, mask)
                    if index:
                        store(fn, resized(fn, which.get(), index), chosen, at + c, index, mask)
    return pool.text()


def _first_tap(pool, *bounds):
    """Index of the first element of a window that is inside the input."""
    places = [low + first * step for (low, first, *_), step in zip(bounds, pool.steps)]
    return flat(places, pool.sizes)


def build_largest_across(code, index):
    """(out, chosen, x) of contiguous planes: lanes over the columns of a window."""
    pool, width = Pool("ppp"), lanes(code)
    fn, (out, chosen, x) = pool.fn, pool.arguments
    lane = fn.iota(vector(I32, width))
    with pool.each_piece() as piece:
        n, od, oh = pool.place(piece, pool.outs)
        depth, height = pool.window(0, od), pool.window(1, oh)
        plane = n * (pool.sizes[0] * pool.sizes[1] * pool.sizes[2])
        with fn.loop(0, pool.outs[2]) as ow:
            columns = pool.window(2, ow)
            start = fn.convert("trunc", _first_tap(pool, depth, height, columns), I32)
            best = fn.var(fn.value(lowest(code), computed(code, width)))
            where = fn.var(fn.splat(start, width) + lane)
            with pool.each_row(depth, height) as (_, d, h):
                row = flat((d, h), pool.sizes[:2]) * pool.sizes[2] + columns[0]
                with fn.loop(columns[1], columns[2], width) as k:
                    mask = below(fn, k, columns[2], width)
                    v = load(fn, x, plane + row + k, code, width, mask)
                    take = beats(v, best.get(), code) & mask
                    best.set(fn.select(take, v, best.get()))
                    here = fn.splat(fn.convert("trunc", row + k, I32), width) + lane
                    where.set(fn.select(take, here, where.get()))
            found = fn.convert("zext", _first_best(fn, best.get(), where.get(), code), I64)
            at = flat((n, od, oh, ow), (None, *pool.outs))
            store(fn, load(fn, x, plane + found, code, 1), out, at, code)
            if index:
                store(fn, resized(fn, found, index), chosen, at, index)
    return pool.text()


def _first_best(fn, best, where, code):
    """The index of the largest lane: the lowest of equal ones, the last of nan."""
    unsigned = COMPUTE_TYPE[code][0] == "u"
    top = folded(fn, best, lambda a, b: fn.select(b.below(a) if unsigned else a > b, a, b))
    tied = fn.select(best == fn.splat(top, width_of(best.type)), where, (1 << 31) - 1)
    found = folded(fn, tied, fn.min)
    if not is_float_type(best.type):
        return found
    nan = best != best
    return fn.if_else(
        fn.any(nan), lambda: folded(fn, fn.select(nan, where, -1), fn.max), lambda: found
    )


def folded(fn, value, combine):
    """The lanes of a register, combined by halves."""
    w = width_of(value.type)
    while w > 2:
        w //= 2
        low, high = (fn.shuffle(value, None, range(k, k + w)) for k in (0, w))
        value = combine(low, high)
    return combine(fn.extract(value, 0), fn.extract(value, 1))


def build_largest_backward(code, channels, index):
    """(grad of the input, chosen, grad): each input asks the windows over it."""
    pool, width = Pool("ppp"), lanes(code) if channels else 1
    fn, (into, chosen, g) = pool.fn, pool.arguments
    with pool.each_piece() as piece:
        n, d, h = pool.place(piece, pool.sizes)
        with fn.loop(0, pool.sizes[2]) as w, pool.each_channel(width, channels) as blocks:
            here = resized(fn, flat((d, h, w), pool.sizes), LLVM_TYPE[index])
            totals = [fn.var(fn.value(0, computed(code, width))) for _ in blocks]
            with pool.each_cover(d, h) as (od, oh), fn.loop(*pool.cover(2, w)) as ow:
                at = flat((n, od, oh, ow), (None, *pool.outs)) * pool.channels
                for (c, mask), total in zip(blocks, totals):
                    mine = load(fn, chosen, at + c, index, width, mask) == fn.splat(here, width)
                    part = load(fn, g, at + c, code, width, mask)
                    total.set(total.get() + fn.select(mine, part, 0))
            at = flat((n, d, h, w), (None, *pool.sizes)) * pool.channels
            for (c, mask), total in zip(blocks, totals):
                store(fn, total.get(), into, at + c, code, mask)
    return pool.text()


def zero(fn, base, first, count, code):
    """Zeros at base[first], ... with whole registers."""
    width = current().vector_bytes // bytes_of(MEMORY_TYPE[code])
    nothing = V(fn, vector(MEMORY_TYPE[code], width), "zeroinitializer")
    whole = count - count % width
    with fn.loop(0, whole, width) as i:
        fn.store(nothing, at_element(fn, base, first + i, code))
    with fn.loop(whole, count) as i:
        fn.store(fn.value(0, MEMORY_TYPE[code]), at_element(fn, base, first + i, code))


def build_scatter(code, index):
    """(grad of the input, chosen, grad) of contiguous planes: clear one, add what goes into it."""
    pool = Pool("ppp")
    fn, (into, chosen, g) = pool.fn, pool.arguments
    count = pool.sizes[0] * pool.sizes[1] * pool.sizes[2]
    found = pool.outs[0] * pool.outs[1] * pool.outs[2]
    with pool.each_piece() as plane:
        zero(fn, into, plane * count, count, code)
        with fn.loop(plane * found, (plane + 1) * found) as at:
            where = resized(fn, load(fn, chosen, at, index, 1), I64)
            to = plane * count + where
            store(fn, load(fn, into, to, code, 1) + load(fn, g, at, code, 1), into, to, code)
    return pool.text()


def build_unpool(code):
    """(out, indices, x): elements put where indices say, zeros elsewhere.

    A bad index i gives the status 2 i + 1.
    """
    pool = Pool("ppp")
    fn, (out, indices, x) = pool.fn, pool.arguments
    count = pool.outs[0] * pool.outs[1] * pool.outs[2]
    given = pool.sizes[0] * pool.sizes[1] * pool.sizes[2]
    status = fn.gep(pool.block, len(pool.kinds), I64)
    with pool.each_piece() as image:
        zero(fn, out, image * count * pool.channels, count * pool.channels, code)
        with fn.loop(0, given) as i, fn.loop(0, pool.channels) as c:
            at = (image * given + i) * pool.channels + c
            where = load(fn, indices, at, "i64", 1)

            def put():
                to = (image * count + where) * pool.channels + c
                raw = fn.load(at_element(fn, x, at, code), MEMORY_TYPE[code])
                fn.store(raw, at_element(fn, out, to, code))

            fn.if_else(where.below(count), put, lambda: fn.store(where * 2 + 1, status, 8))
    return pool.text()
