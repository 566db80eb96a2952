"""Pooling on a GPU, for the windows and descriptions of templates/pooling.py.

A thread per result, which goes through its window; where channels come last and are many, through
those of several channels side by side. Large windows in contiguous planes are left to a team of
threads each. On the way back a thread per input asks the windows over it, so nothing is added up by
several threads.
"""

from contextlib import contextmanager

from flambeau.codegen.descriptions import Windows
from flambeau.codegen.gpu.pointwise import divided as quotient
from flambeau.codegen.gpu.teams import Team, groups_of
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import Kernel, add_host_entry
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I32, I64, Module, bytes_of, is_float_type
from flambeau.codegen.templates import pooling as host
from flambeau.codegen.templates.pooling import (
    beats,
    computed,
    divided,
    flat,
    load,
    lowest,
    resized,
    store,
)

THREADS = 256
TAPS = 4  # of a window, that are worth a thread
LINE = 16  # bytes of channels that a thread takes at once
OUTS, SIZES = ("out_depth", "out_height", "out_width"), ("depth", "height", "width")


def wide(fn, number):
    return fn.convert("zext", number, I64)


def below(fn, a, b):
    """a / b of 32-bit numbers that are not negative."""
    return fn.pure(f"udiv {a}, {b.name}", I32)


def strided(fn, a, stride):
    """The same for strides, most of which are 1 or 2: a GPU divides by some twenty instructions."""

    def others():
        return fn.if_else(stride == 2, lambda: a >> 1, lambda: below(fn, a, stride))

    return fn.if_else(stride == 1, lambda: a, others)


class Pool(host.Pool):
    """A pooling kernel; `last`: do channels come last? columns: (taps, stride) along a row, where
    they are known.

    Places within an image are 32-bit numbers, which a GPU divides much faster than longer ones.
    """

    def __init__(self, kinds, code, kind="plain", last=False, columns=None):
        self.module, self.code, self.kind, self.last = Module(), code, kind, last
        words = len(Windows._fields)
        self.kernel = kernel = Kernel(self.module, "p" + kinds, THREADS, words=words)
        self.fn = fn = kernel.fn
        self.given = d = Windows(*[kernel.word(k) for k in range(words)])
        self.arguments = [kernel.argument(1 + k) for k in range(len(kinds))]
        short = Windows(*[fn.convert("trunc", word, I32) for word in d])
        self.short, self.image, self.pieces = short, d.image, d.pieces
        self.channels = short.channels if last else fn.value(1, I32)
        self.sizes, self.outs = list(short[3:6]), list(short[6:9])
        self.taps, self.strides, self.paddings = (list(short[k : k + 3]) for k in (11, 17, 20))
        if columns is not None:
            self.taps[2], self.strides[2] = (fn.value(n, I32) for n in columns)
        self.steps = list(short[14:17]) if kind == "dilated" else [fn.value(1, I32)] * 3
        self.width = LINE // bytes_of(MEMORY_TYPE[code]) if last else 1

    def window(self, dim, o):
        fn, n, out = self.fn, self.sizes[dim], self.outs[dim]
        if self.kind == "adaptive":
            start, end = o * n / out, ((o + 1) * n + (out - 1)) / out
            return start, fn.value(0, I32), end - start, end - start
        taps, step, padding = self.taps[dim], self.steps[dim], self.paddings[dim]
        start = o * self.strides[dim] - padding
        before, left = fn.max(0 - start, 0), n - start
        if self.kind == "dilated":
            before, left = (before + (step - 1)) / step, (left + (step - 1)) / step
        end = fn.min(taps, left)
        padded = fn.min(start + taps, n + padding) - start
        size = fn.select(self.short.counts_padding != 0, padded, end - before)
        divisor = self.short.divisor if dim == 2 else fn.value(1, I32)
        return start, before, end, fn.select(self.short.divisor != 0, divisor, size)

    def cover(self, dim, i):
        fn, n, out = self.fn, self.sizes[dim], self.outs[dim]
        if self.kind == "adaptive":
            return i * out / n, ((i + 1) * out + (n - 1)) / n
        stride, at = self.strides[dim], i + self.paddings[dim]
        reach = fn.max(at - (self.taps[dim] - 1) * self.steps[dim], 0)
        low = fn.min(strided(fn, reach + (stride - 1), stride), out)
        return low, fn.max(low, fn.min(strided(fn, at, stride) + 1, out))

    def image_at(self, n, step, place, channel):
        """The number of an element: of an image, and of a place in it."""
        return n * step + wide(self.fn, place * self.channels + channel)

    def whole(self, sizes):
        """Elements of an image of a size."""
        return wide(self.fn, sizes[0] * sizes[1] * sizes[2] * self.channels)

    def results(self, sizes, visit):
        """visit(image, (depth, row, column), channel, width) for all places of a size."""
        fn, kernel = self.fn, self.kernel

        def walk(width):
            per_pixel = self.channels / width
            each = sizes[0] * sizes[1] * sizes[2] * per_pixel
            total = self.pieces * wide(fn, sizes[2]) * wide(fn, per_pixel)
            first = kernel.group * THREADS + self.thread
            fn.vector_align = LINE if width > 1 else None
            with fn.loop(first, total, kernel.groups * THREADS) as at:
                n = quotient(fn, at, wide(fn, each))
                rest, channel = fn.convert("trunc", at - n * wide(fn, each), I32), fn.value(0, I32)
                if self.last:
                    pixel = below(fn, rest, per_pixel)
                    rest, channel = pixel, (rest - pixel * per_pixel) * width
                visit(n, self.place_of(rest, sizes), channel, width)
            fn.vector_align = None

        with kernel.threads(last=True) as self.thread:
            if self.width == 1:
                walk(1)
                return
            bits = fn.value(0, I64)
            for base in self.arguments:
                bits = bits | fn.pure(f"ptrtoint {base} to i64", I64)
            rest = wide(fn, self.channels % self.width)
            aligned = ((bits & (LINE - 1)) | rest) == 0
            fn.if_else(aligned, lambda: walk(self.width), lambda: walk(1))

    def place_of(self, number, sizes):
        """(depth, row, column) of a pixel."""
        row = below(self.fn, number, sizes[2])
        depth = below(self.fn, row, sizes[1])
        return [depth, row - depth * sizes[1], number - row * sizes[2]]

    def text_of(self, names):
        """Both texts of a kernel that visits results; names of the sizes that are visited."""
        self.kernel.done()
        fields = Windows._fields.index

        def groups(fn, word):
            count = word(fields("pieces")) * word(fields(names[2])) * word(fields("channels"))
            return (count / self.width + THREADS) / THREADS

        add_host_entry(self.module, self.kernel, groups)
        return module_text(self.module)

    def windows(self, place):
        return [self.window(k, o) for k, o in enumerate(place)]

    def tap_number(self, taps):
        """The number of a tap in its window."""
        return (taps[0] * self.taps[1] + taps[1]) * self.taps[2] + taps[2]

    @contextmanager
    def taps_inside(self, windows):
        """The elements of a window: (numbers of the tap, place)."""
        depth, height, columns = windows
        fn = self.fn
        with (
            fn.loop(depth[1], depth[2], type=I32) as kd,
            fn.loop(height[1], height[2], type=I32) as kh,
            fn.loop(columns[1], columns[2], type=I32) as kw,
        ):
            taps = kd, kh, kw
            yield taps, [w[0] + k * s for w, k, s in zip(windows, taps, self.steps)]

    @contextmanager
    def covers(self, place):
        """The windows over an input."""
        fn = self.fn
        with (
            fn.loop(*self.cover(0, place[0]), type=I32) as od,
            fn.loop(*self.cover(1, place[1]), type=I32) as oh,
            fn.loop(*self.cover(2, place[2]), type=I32) as ow,
        ):
            yield [od, oh, ow]


# -- the largest element ---------------------------------------------------------------------------


def largest(code, index, kind, last, columns=None):
    """(out, chosen, x); index: None, u8 (the number of the tap), i32 or i64."""
    pool = Pool("ppp", code, kind, last, columns)
    fn, (out, chosen, x) = pool.fn, pool.arguments

    def visit(n, place, channel, width):
        windows = pool.windows(place)
        firsts = [w[1] for w in windows]
        starts = [low + k * step for (low, *_), k, step in zip(windows, firsts, pool.steps)]
        first = pool.tap_number(firsts) if index == "u8" else flat(starts, pool.sizes)
        best = fn.var(fn.value(lowest(code), computed(code, width)))
        where = fn.var(fn.splat(first, width))
        with pool.taps_inside(windows) as (taps, at):
            here = flat(at, pool.sizes)
            value = load(fn, x, pool.image_at(n, pool.image, here, channel), code, width)
            take = beats(value, best.get(), code)
            best.set(fn.select(take, value, best.get()))
            if index:
                number = pool.tap_number(taps) if index == "u8" else here
                where.set(fn.select(take, fn.splat(number, width), where.get()))
        at = pool.image_at(n, pool.whole(pool.outs), flat(place, pool.outs), channel)
        store(fn, best.get(), out, at, code)
        if index:
            store(fn, resized(fn, where.get(), LLVM_TYPE[index]), chosen, at, index)

    pool.results(pool.outs, visit)
    return pool.text_of(OUTS)


def largest_backward(code, index, kind, last, columns=None):
    """(grad of the input, chosen, grad)."""
    pool = Pool("ppp", code, kind, last, columns)
    fn, (into, chosen, g) = pool.fn, pool.arguments

    def visit(n, place, channel, width):
        here = resized(fn, flat(place, pool.sizes), LLVM_TYPE[index])
        total = fn.var(fn.value(0, computed(code, width)))
        with pool.covers(place) as window:
            at = pool.image_at(n, pool.whole(pool.outs), flat(window, pool.outs), channel)
            wanted = here
            if index == "u8":
                starts = [
                    i + p - o * s for i, p, o, s in zip(place, pool.paddings, window, pool.strides)
                ]
                wanted = resized(fn, pool.tap_number(starts), LLVM_TYPE[index])
            mine = load(fn, chosen, at, index, width) == fn.splat(wanted, width)
            part = load(fn, g, at, code, width)
            total.set(total.get() + fn.select(mine, part, 0))
        at = pool.image_at(n, pool.whole(pool.sizes), flat(place, pool.sizes), channel)
        store(fn, total.get(), into, at, code)

    pool.results(pool.sizes, visit)
    return pool.text_of(SIZES)


# -- the mean --------------------------------------------------------------------------------------


def mean(code, kind, last, columns=None):
    """(out, x)."""
    pool = Pool("pp", code, kind, last, columns)
    fn, (out, x) = pool.fn, pool.arguments

    def visit(n, place, channel, width):
        windows = pool.windows(place)
        total = fn.var(fn.value(0, computed(code, width)))
        with pool.taps_inside(windows) as (_, at):
            here = pool.image_at(n, pool.image, flat(at, pool.sizes), channel)
            total.set(total.get() + load(fn, x, here, code, width))
        size = windows[0][3] * windows[1][3] * windows[2][3]
        at = pool.image_at(n, pool.whole(pool.outs), flat(place, pool.outs), channel)
        size = size if is_float_type(total.type) else wide(fn, size)
        store(fn, divided(fn, total.get(), size), out, at, code)

    pool.results(pool.outs, visit)
    return pool.text_of(OUTS)


def mean_backward(code, kind, last, columns=None):
    """(grad of the input, grad)."""
    pool = Pool("pp", code, kind, last, columns)
    fn, (into, g) = pool.fn, pool.arguments

    def visit(n, place, channel, width):
        total = fn.var(fn.value(0, computed(code, width)))
        with pool.covers(place) as window:
            at = pool.image_at(n, pool.whole(pool.outs), flat(window, pool.outs), channel)
            sizes = [w[3] for w in pool.windows(window)]
            part = load(fn, g, at, code, width)
            total.set(total.get() + divided(fn, part, sizes[0] * sizes[1] * sizes[2]))
        at = pool.image_at(n, pool.whole(pool.sizes), flat(place, pool.sizes), channel)
        store(fn, total.get(), into, at, code)

    pool.results(pool.sizes, visit)
    return pool.text_of(SIZES)


# -- large windows ---------------------------------------------------------------------------------


class Across(Pool):
    """A team of threads for each window of contiguous planes."""

    def run(self, cells, start, take, join, finish):
        """start(): values to begin with; take(cells, n, place of an element); finish(at, values)"""
        fn, kernel = self.fn, self.kernel
        d = self.given
        count = d.pieces * d.out_width
        team = Team(kernel, d.taps_d * d.taps_h * d.taps_w, TAPS, count)
        with team.items(count) as first:
            with kernel.threads(last=True) as thread:
                item, lane = team.mine(first, thread)
                for cell, value in zip(cells, start()):
                    cell.set(thread, value)
                with fn.when(item < count):
                    n, windows = self._windows_of(item)
                    self._elements_of(windows, lane, team.size, lambda at: take(thread, n, at))
            team.join(cells, join)
            with kernel.threads(last=True) as thread:
                item, lane = team.mine(first, thread)
                with fn.when((item < count) & (lane == 0)):
                    n, windows = self._windows_of(item)
                    finish(item, n, windows, [c.get(thread) for c in cells])
        kernel.done()
        add_host_entry(self.module, kernel, _team_groups)
        return module_text(self.module)

    def _windows_of(self, item):
        each = self.whole(self.outs)
        n = quotient(self.fn, item, each)
        place = self.place_of(self.fn.convert("trunc", item - n * each, I32), self.outs)
        return n, self.windows(place)

    def _elements_of(self, windows, lane, size, visit):
        fn = self.fn
        counts = [fn.max(w[2] - w[1], 0) for w in windows]
        lane, size = (fn.convert("trunc", v, I32) for v in (lane, size))
        with fn.loop(lane, counts[0] * counts[1] * counts[2], size, type=I32) as t:
            row = below(fn, t, fn.max(counts[2], 1))
            depth = below(fn, row, fn.max(counts[1], 1))
            taps = depth, row - depth * counts[1], t - row * counts[2]
            visit([w[0] + (w[1] + k) * s for w, k, s in zip(windows, taps, self.steps)])


def _team_groups(fn, word):
    d = Windows(*[word(k) for k in range(len(Windows._fields))])
    return groups_of(fn, d.taps_d * d.taps_h * d.taps_w, TAPS, d.pieces * d.out_width)


def largest_across(code, index, kind):
    """(out, chosen, x)."""
    pool = Across("ppp", code, kind)
    fn, (out, chosen, x), kernel = pool.fn, pool.arguments, pool.kernel
    cells = [kernel.private(LLVM_TYPE[COMPUTE_TYPE[code]]), kernel.private(I32)]

    def start():
        return fn.value(lowest(code), cells[0].type), fn.value(-1, I32)

    def better(value, here, best, where):
        """Larger, or the same and before; of nans the last."""
        take = beats(value, best, code) | (where < 0)
        tied = (value == best) & (here < where)
        if is_float_type(value.type):
            nan, was = value != value, best != best
            return fn.select(was, nan & (here > where), take | tied) & (here >= 0)
        return (take | tied) & (here >= 0)

    def take(thread, n, at):
        here = flat(at, pool.sizes)
        value = load(fn, x, pool.image_at(n, pool.image, here, 0), code, 1)
        best, where = (c.get(thread) for c in cells)
        chosen_now = better(value, here, best, where)
        cells[0].set(thread, fn.select(chosen_now, value, best))
        cells[1].set(thread, fn.select(chosen_now, here, where))

    def join(a, b):
        second = better(*b, *a)
        return [fn.select(second, y, x) for x, y in zip(a, b)]

    def finish(item, n, windows, found):
        store(fn, found[0], out, item, code)
        if index:
            starts = [w[0] + w[1] * s for w, s in zip(windows, pool.steps)]
            where = fn.select(found[1] < 0, flat(starts, pool.sizes), found[1])
            store(fn, resized(fn, where, LLVM_TYPE[index]), chosen, item, index)

    return pool.run(cells, start, take, join, finish)


def mean_across(code, kind):
    """(out, x)."""
    pool = Across("pp", code, kind)
    fn, (out, x), kernel = pool.fn, pool.arguments, pool.kernel
    cells = [kernel.private(LLVM_TYPE[COMPUTE_TYPE[code]])]

    def take(thread, n, at):
        value = load(fn, x, pool.image_at(n, pool.image, flat(at, pool.sizes), 0), code, 1)
        cells[0].set(thread, cells[0].get(thread) + value)

    def finish(item, n, windows, found):
        size = windows[0][3] * windows[1][3] * windows[2][3]
        store(fn, divided(fn, found[0], size), out, item, code)

    return pool.run(
        cells, lambda: [fn.value(0, cells[0].type)], take, lambda a, b: [a[0] + b[0]], finish
    )


# -- by the names of the host's templates ----------------------------------------------------------


def build_largest(code, channels, index, kind):
    """Both texts of windows of any kind."""
    return largest(code, index, kind, channels > 0)


def build_largest_across(code, index, kind):
    """Both texts of large windows."""
    return largest_across(code, index, kind)


def build_largest_backward(code, channels, index, kind):
    """Both texts of the way back."""
    return largest_backward(code, index, kind, channels > 0)


def build_unpool(code):
    """(out, indices, x): elements put where indices say, a thread each; out is zero elsewhere."""
    pool = Pool("ppp", code)
    fn, kernel, d, (out, indices, x) = pool.fn, pool.kernel, pool.given, pool.arguments
    count, given = d.out_depth * d.out_height * d.out_width, d.depth * d.height * d.width
    raw, each = MEMORY_TYPE[code], given * d.channels
    first, step = kernel.group * THREADS, kernel.groups * THREADS
    with (
        kernel.threads(last=True) as thread,
        fn.loop(first + thread, d.pieces * each, step) as at,
    ):
        image = quotient(fn, at, each)
        rest = at - image * each
        channel = rest % d.channels
        where = fn.load(fn.gep(indices, at, I64), I64)

        def put():
            to = (image * count + where) * d.channels + channel
            value = fn.load(fn.gep(x, image * d.image + rest, raw), raw)
            fn.store(value, fn.gep(out, to, raw))

        fn.if_else(where.below(count), put, lambda: fn.store(where * 2 + 1, kernel.status, 8))
    kernel.done()
    names = "pieces", "depth", "height", "width", "channels"

    def groups(fn, word):
        total = fn.value(1, I64)
        for name in names:
            total = total * word(Windows._fields.index(name))
        return (total + (THREADS - 1)) / THREADS

    add_host_entry(pool.module, kernel, groups)
    return module_text(pool.module)
