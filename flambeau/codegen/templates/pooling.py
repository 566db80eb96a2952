"""Pooling over windows: the largest element of each, and the way back; unpooling.

A window is a product of ranges, one per dimension, which follow from a few words of the description
(`descriptions.Windows`): see `Pool.window` and, for the way back, `Pool.cover`. Tensors are images
x depth x height x width x channels; where the planes of a contiguous tensor are the images there is
one channel. Lanes run over channels, or (`across`) over the columns of one window. Means are in
`pooling_means.py`, quick forms for small windows in contiguous rows in `pooling_rows.py`.
"""

import math
from contextlib import contextmanager

from flambeau.codegen.descriptions import Windows
from flambeau.codegen.llvm import load_element, store_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I32, I64, V, bytes_of, element, is_float_type, vector, width_of
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel


class Pool(Kernel):
    """A pooling kernel under construction, with the words of its description.

    kind: of windows: "plain", "dilated" (plain, with distances between taps) or "adaptive".
    """

    def __init__(self, kinds, kind="plain"):
        super().__init__(kinds)
        self.kind, self.given = kind, self.described(Windows)
        (
            _, self.per_chunk, self.pieces, d, h, w, out_d, out_h, out_w, self.channels, self.image,
            *rest, _, _, self.by_columns,
        ) = self.given  # fmt: skip
        self.sizes, self.outs = [d, h, w], [out_d, out_h, out_w]
        self.taps, self.steps, self.strides, self.paddings = (rest[k : k + 3] for k in (0, 3, 6, 9))

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
        """(start, first tap, end of taps, size) of window o along a dimension.

        The start may lie before the input; the size is what sums are divided by.
        """
        fn, n, out = self.fn, self.sizes[dim], self.outs[dim]
        if self.kind == "adaptive":
            start, end = o * n / out, ((o + 1) * n + (out - 1)) / out
            return start, fn.value(0, I64), end - start, end - start
        taps, step, padding = self.taps[dim], self.steps[dim], self.paddings[dim]
        zero, start = fn.value(0, I64), o * self.strides[dim] - padding
        before, left = 0 - start, n - start
        if self.kind == "dilated":  # divisions at the borders only
            before = fn.if_else(before > 0, lambda: (before + (step - 1)) / step, lambda: zero)
            whole = left > (taps - 1) * step
            end = fn.if_else(whole, lambda: taps, lambda: (left + (step - 1)) / step)
        else:
            before, end = fn.max(before, zero), fn.min(taps, left)
        padded = fn.min(start + taps, n + padding) - start
        size = fn.select(self.given.counts_padding != 0, padded, end - before)
        divisor = self.given.divisor if dim == 2 else fn.value(1, I64)
        return start, before, end, fn.select(self.given.divisor != 0, divisor, size)

    @contextmanager
    def each_column(self):
        """All windows along a row: (which, its window). Adaptive ones go on without divisions."""
        fn, n, out = self.fn, self.sizes[2], self.outs[2]
        if self.kind != "adaptive":
            with fn.loop(0, out) as ow:
                yield ow, self.window(2, ow)
            return
        step, rest = n / out, n % out
        place, over = fn.var(fn.value(0, I64)), fn.var(fn.value(0, I64))
        with fn.loop(0, out) as ow:
            start, left = place.get(), over.get() + rest
            more = left >= out
            left = fn.select(more, left - out, left)
            following = start + step + fn.convert("zext", more, I64)
            width = following - start + fn.convert("zext", left > 0, I64)
            place.set(following)
            over.set(left)
            yield ow, (start, fn.value(0, I64), width, width)

    def sizes_of_columns(self, first, mask):
        """What plain windows first, first + 1, ... count for along a row; 1 if there are none."""
        fn, width = self.fn, width_of(mask.type)
        many = vector(I64, width)
        taps, n, padding, stride, divisor = (
            fn.splat(x, width)
            for x in (
                self.taps[2], self.sizes[2], self.paddings[2], self.strides[2], self.given.divisor
            )
        )  # fmt: skip
        start = (fn.iota(many) + fn.splat(first, width)) * stride - padding
        padded = fn.min(start + taps, n + padding) - start
        inside = fn.min(start + taps, n) - fn.max(start, fn.value(0, many))
        sizes = fn.select(self.given.counts_padding != 0, padded, inside)
        sizes = fn.select(self.given.divisor != 0, divisor, sizes)
        return fn.select(mask, sizes, 1)

    def cover(self, dim, i):
        """(first window over input i along a dimension, one past the last).

        Windows count with what they have outside the input: with distances between taps, the first
        tap inside may come later in an earlier window.
        """
        fn, n, out = self.fn, self.sizes[dim], self.outs[dim]
        if self.kind == "adaptive":
            return i * out / n, ((i + 1) * out + (n - 1)) / n
        stride, at = self.strides[dim], i + self.paddings[dim]
        reach = fn.max(at - (self.taps[dim] - 1) * self.steps[dim], fn.value(0, I64))
        low = fn.min((reach + (stride - 1)) / stride, out)
        return low, fn.max(low, fn.min(at / stride + 1, out))

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


def build_largest(code, channels, index, kind):
    """(out, chosen, x): the largest element, and which it is (index: None, i32 or i64).

    channels: how many registers of them are held at a time; 0 if there is one channel only.
    """
    pool, width = Pool("ppp", kind), lanes(code) if channels else 1
    fn, (out, chosen, x) = pool.fn, pool.arguments
    held = I32 if width > 1 else I64
    with pool.each_piece() as piece:
        n, od, oh = pool.place(piece, pool.outs)
        depth, height = pool.window(0, od), pool.window(1, oh)
        with pool.each_column() as (ow, columns):
            start = _first_tap(pool, depth, height, columns)
            with pool.each_channel(width, channels) as blocks:
                best = [fn.var(fn.value(lowest(code), computed(code, width))) for _ in blocks]
                where = [fn.var(fn.splat(resized(fn, start, held), width)) for _ in blocks]
                with pool.each_tap(depth, height, columns) as place:
                    here = flat(place, pool.sizes)
                    at = n * pool.image + here * pool.channels
                    here = fn.splat(resized(fn, here, held), width)
                    for (c, mask), top, which in zip(blocks, best, where):
                        v = load(fn, x, at + c, code, width, mask)
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


def build_largest_across(code, index, kind):
    """(out, chosen, x) of contiguous planes: lanes over the columns of a window."""
    pool, width = Pool("ppp", kind), lanes(code)
    fn, (out, chosen, x) = pool.fn, pool.arguments
    lane = fn.iota(vector(I32, width))
    with pool.each_piece() as piece:
        n, od, oh = pool.place(piece, pool.outs)
        depth, height = pool.window(0, od), pool.window(1, oh)
        plane = n * pool.image
        with pool.each_column() as (ow, columns):
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


def build_largest_backward(code, channels, index, kind):
    """(grad of the input, chosen, grad): each input asks the windows over it."""
    pool, width = Pool("ppp", kind), lanes(code) if channels else 1
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
            # a window whose every place is padding chose one behind the plane, as in PyTorch
            with fn.when(where.below(count)):
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
                mine = image * pool.image + i * pool.channels + c
                raw = fn.load(at_element(fn, x, mine, code), MEMORY_TYPE[code])
                fn.store(raw, at_element(fn, out, to, code))

            fn.if_else(where.below(count), put, lambda: fn.store(where * 2 + 1, status, 8))
    return pool.text()
