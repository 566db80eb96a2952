"""Pooling of contiguous rows with small windows: lanes run along a row of the output.

The number of columns of a window and the distance s between windows are part of the kernel: s
neighbouring registers are taken apart into every s-th column (and put together again on the way
back). Columns outside the input are masked, so borders and middles are one piece of code. What was
chosen is the number of the tap in its window (one byte), or the index in the plane. Windows of all
other kinds: `pooling.py`.
"""

from flambeau.codegen.llvm import load_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE
from flambeau.codegen.loops import I32, vector
from flambeau.codegen.templates.pooling import (
    Pool,
    at_element,
    beats,
    computed,
    flat,
    lanes,
    load,
    lowest,
    resized,
    store,
)
from flambeau.codegen.templates.tails import deliver


class Rows(Pool):
    """A pooling kernel whose lanes are neighbours in a row."""

    def __init__(self, kinds, code, taps, stride):
        super().__init__(kinds)
        self.code, self.width, self.columns, self.stride = code, lanes(code), taps, stride

    def narrow(self, value):
        return self.fn.convert("trunc", value, I32)

    def inside(self, first, end):
        """Which of first, first + 1, ... lie in 0 .. end."""
        fn = self.fn
        lane = fn.iota(vector(I32, self.width)) + fn.splat(self.narrow(first), self.width)
        return lane.below(fn.splat(self.narrow(end), self.width))

    def masks(self, column):
        """For the taps of windows that start at a column: the masks of what is loaded for them."""
        width, stride = self.width, self.stride
        return [
            [self.inside(column + q + width * k, self.sizes[2]) for k in range(stride)]
            for q in range(0, self.columns, stride)
        ]

    def taps_of(self, base, row, column, masks, fill):
        """Per tap the elements under it, for windows that start at a column."""
        fn, width, stride = self.fn, self.width, self.stride
        found = []
        for q, group in zip(range(0, self.columns, stride), masks):
            parts = []
            for k, mask in enumerate(group):
                at = at_element(fn, base, row + column + q + width * k, self.code)
                value = load_element(fn, at, self.code, width, "c", None, mask)
                if fill:
                    value = fn.select(mask, value, fn.value(fill, value.type))
                parts.append(value)
            needed = min(stride, self.columns - q)
            found += [self.every(parts, k) for k in range(needed)]
        return found

    def every(self, parts, first):
        """Lanes first, first + s, ... of s registers side by side."""
        fn, width, stride = self.fn, self.width, len(parts)
        found = parts[0]
        for k in range(1, stride):
            lanes_of = [first + stride * j for j in range(width)]
            order = [
                width + at - k * width if at >= k * width else (at if k == 1 else j)
                for j, at in enumerate(lanes_of)
            ]
            found = fn.shuffle(found, parts[k], [min(o, 2 * width - 1) for o in order])
        return found

    def woven(self, parts, k):
        """Register k of s registers whose lanes take turns: the converse of every."""
        fn, width, stride = self.fn, self.width, len(parts)
        found = parts[0]
        if all(p is found for p in parts):
            return fn.shuffle(found, None, [(k * width + p) // stride for p in range(width)])
        for r in range(1, stride):
            order = []
            for p in range(width):
                phase, lane = (k * width + p) % stride, (k * width + p) // stride
                order.append(width + lane if phase == r else lane if r == 1 else p)
            found = fn.shuffle(found, parts[r], order)
        return found

    def column_counts(self, first, mask):
        """The sizes of windows first, first + 1, ... along the row, as floats."""
        type = computed(self.code, self.width)
        return self.fn.convert("sitofp", self.sizes_of_columns(first, mask), type)


def build_largest_rows(code, taps, stride, index):
    """(out, chosen, x): the largest element, and which it is (index: None, u8 or i64)."""
    rows = Rows("ppp", code, taps, stride)
    fn, (out, chosen, x), width = rows.fn, rows.arguments, rows.width
    lane = vector(I32, width)
    with rows.each_piece() as piece:
        n, od, oh = rows.place(piece, rows.outs)
        depth, height = rows.window(0, od), rows.window(1, oh)
        with fn.loop(0, rows.outs[2], width) as ow:
            column = ow * stride - rows.paddings[2]
            masks = rows.masks(column)
            best = fn.var(fn.value(lowest(code), computed(code, width)))
            places = fn.iota(lane) * stride + fn.splat(rows.narrow(column), width)
            # what is chosen if nothing beats the lowest number: the first tap inside
            if index == "u8":
                first = (depth[1] * rows.taps[1] + height[1]) * taps
                skipped = fn.max(0 - places, fn.value(0, lane))
                where = fn.var(fn.splat(rows.narrow(first), width) + skipped)
            elif index:
                first = flat((depth[0] + depth[1], height[0] + height[1]), rows.sizes[:2])
                first = fn.splat(rows.narrow(first * rows.sizes[2]), width)
                where = fn.var(first + fn.max(places, fn.value(0, lane)))
            with rows.each_row(depth, height) as (tap, d, h):
                row = flat((d, h), rows.sizes[:2])
                base = n * rows.image + row * rows.sizes[2]
                here = tap * taps if index == "u8" else row * rows.sizes[2]
                here = fn.splat(rows.narrow(here), width)
                here = here if index == "u8" else here + places
                values = rows.taps_of(x, base, column, masks, lowest(code))
                for k, v in enumerate(values):
                    take = beats(v, best.get(), code)
                    best.set(fn.select(take, v, best.get()))
                    if index:
                        where.set(fn.select(take, here + k, where.get()))
            at = piece * rows.outs[2] + ow
            mask = rows.inside(ow, rows.outs[2])
            store(fn, best.get(), out, at, code, mask)
            if index:
                store(fn, resized(fn, where.get(), LLVM_TYPE[index]), chosen, at, index, mask)
    return rows.text()


def build_mean_rows(code, taps, stride):
    """(out, x)."""
    rows = Rows("pp", code, taps, stride)
    fn, (out, x), width = rows.fn, rows.arguments, rows.width
    type = computed(code, width)
    with rows.each_piece() as piece:
        n, od, oh = rows.place(piece, rows.outs)
        depth, height = rows.window(0, od), rows.window(1, oh)
        size = fn.convert("sitofp", depth[3] * height[3], LLVM_TYPE[COMPUTE_TYPE[code]])
        with fn.loop(0, rows.outs[2], width) as ow:
            column = ow * stride - rows.paddings[2]
            masks = rows.masks(column)
            total = fn.var(fn.value(0, type))
            with rows.each_row(depth, height) as (_, d, h):
                base = n * rows.image + flat((d, h), rows.sizes) * rows.sizes[2]
                for v in rows.taps_of(x, base, column, masks, None):
                    total.set(total.get() + v)
            mask = rows.inside(ow, rows.outs[2])
            sizes = rows.column_counts(ow, mask) * fn.splat(size, width)
            store(fn, total.get() / sizes, out, piece * rows.outs[2] + ow, code, mask)
    return rows.text()


def _build_rows_backward(code, taps, stride, index, tail):
    """Both ways back. Column + padding = stride * window + tap: lanes are windows.

    Each block of windows a, a + 1, ... owns the columns stride * a - padding and following; a
    window reaches them with its first taps, the windows before it with their later ones.
    """
    kinds = "ppp" if index else "pp"
    rows = Rows(kinds + (tail.kinds if tail else ""), code, taps, stride)
    own, rest = rows.arguments[: len(kinds)], rows.arguments[len(kinds) :]
    fn, (into, *chosen, g), width = rows.fn, own, rows.width
    type, lane = computed(code, width), vector(I32, width)
    earlier = range((taps - 1) // stride, -1, -1)  # windows before, in the order of the output
    with rows.each_piece() as piece:
        n, d, h = rows.place(piece, rows.sizes)
        blocks = (rows.sizes[2] + rows.paddings[2] + (stride - 1)) / stride
        with fn.loop(0, blocks, width) as a:
            # windows side by side: all columns of a window get the same
            phases = 1 if not index and taps == stride else stride
            totals = [fn.var(fn.value(0, type)) for _ in range(phases)]
            masks = {m: rows.inside(a - m, rows.outs[2]) for m in earlier}
            if not index:
                sizes = {m: rows.column_counts(a - m, masks[m]) for m in earlier}
            with rows.each_cover(d, h) as (od, oh):
                base = flat((n, od, oh), (None, *rows.outs)) * rows.outs[2] + a
                depth, height = rows.window(0, od), rows.window(1, oh)
                if index == "u8":
                    kd, kh = d - depth[0], h - height[0]
                    wanted = fn.splat(rows.narrow((kd * rows.taps[1] + kh) * taps), width)
                elif index:
                    here = flat((d, h), rows.sizes[:2]) * rows.sizes[2] + (
                        a * stride - rows.paddings[2]
                    )
                    wanted = fn.splat(rows.narrow(here), width) + fn.iota(lane) * stride
                else:
                    size = fn.convert("sitofp", depth[3] * height[3], LLVM_TYPE[COMPUTE_TYPE[code]])
                for m in earlier:
                    part = load(fn, g, base - m, code, width, masks[m])
                    if index:
                        which = load(fn, chosen[0], base - m, index, width, masks[m])
                        which = resized(fn, which, I32)
                    else:
                        part = part / (sizes[m] * fn.splat(size, width))
                    for r in range(phases):
                        tap = r + stride * m
                        if tap >= taps:
                            continue
                        mine = part
                        if index:
                            # a tap, or a column of this phase
                            target = wanted + (tap if index == "u8" else r)
                            mine = fn.select(which == target, part, fn.value(0, type))
                        totals[r].set(totals[r].get() + mine)
            column = a * stride - rows.paddings[2]
            parts = [t.get() for t in totals] * (stride // phases)
            for k in range(stride):
                value = rows.woven(parts, k)
                mask = rows.inside(column + k * width, rows.sizes[2])
                at = piece * rows.sizes[2] + column + k * width
                if tail is None:
                    store(fn, value, into, at, code, mask)
                    continue
                there = at_element(fn, into, at, code)
                deliver(tail, fn, value, there, mask, code, lambda: [into, *rest])
    return rows.text()


def build_largest_rows_backward(code, taps, stride, index, tail=None):
    """(grad of the input, chosen, grad), then the arguments of a tail (tails.py)."""
    return _build_rows_backward(code, taps, stride, index, tail)


def build_mean_rows_backward(code, taps, stride, tail=None):
    """(grad of the input, grad), then the arguments of a tail."""
    return _build_rows_backward(code, taps, stride, None, tail)
