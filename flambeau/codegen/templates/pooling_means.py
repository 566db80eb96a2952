"""Means of windows, and the way back: lanes over channels, or over the columns of a window.

Windows, their words and what both kinds of pooling share are in `pooling.py`; the quick forms for
small windows in contiguous rows are in `pooling_rows.py`.
"""

import operator

from flambeau.codegen.llvm import load_element, masked_load
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE
from flambeau.codegen.loops import I64, PTR, vector
from flambeau.codegen.templates.pooling import (
    Pool,
    at_element,
    below,
    computed,
    divided,
    flat,
    folded,
    lanes,
    load,
    store,
    zero,
)

SHARES = 512  # windows along a row whose shares of a gradient are held at a time
COLUMNS = 4096  # columns of a row about which it is noted which windows lie over them


def build_mean(code, channels, kind):
    """(out, x): lanes over channels."""
    pool, width = Pool("pp", kind), lanes(code) if channels else 1
    fn, (out, x) = pool.fn, pool.arguments
    with pool.each_piece() as piece:
        n, od, oh = pool.place(piece, pool.outs)
        depth, height = pool.window(0, od), pool.window(1, oh)
        with (
            pool.each_column() as (ow, columns),
            pool.each_channel(width, channels) as blocks,
        ):
            totals = [fn.var(fn.value(0, computed(code, width))) for _ in blocks]
            with pool.each_tap(depth, height, columns) as place:
                at = n * pool.image + flat(place, pool.sizes) * pool.channels
                for (c, mask), total in zip(blocks, totals):
                    total.set(total.get() + load(fn, x, at + c, code, width, mask))
            size = depth[3] * height[3] * columns[3]
            at = flat((n, od, oh, ow), (None, *pool.outs)) * pool.channels
            for (c, mask), total in zip(blocks, totals):
                store(fn, divided(fn, total.get(), size), out, at + c, code, mask)
    return pool.text()


def build_mean_across(code, kind):
    """(out, x) of contiguous planes: lanes over the columns of a window."""
    pool = Pool("pp", kind)
    fn, (out, x) = pool.fn, pool.arguments
    width = lanes(code)
    with pool.each_piece() as piece:
        n, od, oh = pool.place(piece, pool.outs)
        depth, height = pool.window(0, od), pool.window(1, oh)
        with pool.each_column() as (ow, columns):
            total = fn.var(fn.value(0, computed(code, width)))
            with pool.each_row(depth, height) as (_, d, h):
                row = n * pool.image + flat((d, h), pool.sizes) * pool.sizes[2] + columns[0]
                with fn.loop(columns[1], columns[2], width) as k:
                    mask = below(fn, k, columns[2], width)
                    total.set(total.get() + load(fn, x, row + k, code, width, mask))
            size = depth[3] * height[3] * columns[3]
            mean = divided(fn, folded(fn, total.get(), operator.add), size)
            store(fn, mean, out, flat((n, od, oh, ow), (None, *pool.outs)), code)
    return pool.text()


def build_mean_backward(code, channels, kind):
    """(grad of the input, grad): each input sums over the windows over it; lanes over channels."""
    pool, width = Pool("pp", kind), lanes(code) if channels else 1
    fn, (into, g) = pool.fn, pool.arguments
    with pool.each_piece() as piece:
        n, d, h = pool.place(piece, pool.sizes)
        with fn.loop(0, pool.sizes[2]) as w, pool.each_channel(width, channels) as blocks:
            totals = [fn.var(fn.value(0, computed(code, width))) for _ in blocks]
            with pool.each_cover(d, h) as (od, oh):
                size = pool.window(0, od)[3] * pool.window(1, oh)[3]
                with fn.loop(*pool.cover(2, w)) as ow:
                    at = flat((n, od, oh, ow), (None, *pool.outs)) * pool.channels
                    share = size * pool.window(2, ow)[3]
                    for (c, mask), total in zip(blocks, totals):
                        part = load(fn, g, at + c, code, width, mask)
                        total.set(total.get() + divided(fn, part, share))
            at = flat((n, d, h, w), (None, *pool.sizes)) * pool.channels
            for (c, mask), total in zip(blocks, totals):
                store(fn, total.get(), into, at + c, code, mask)
    return pool.text()


def _column_covers(pool):
    """A table on the stack: for each column the first window over it and one past the last."""
    fn = pool.fn
    table = fn.emit(f"alloca i64, {pool.sizes[2] * 2}, align 64", PTR)
    with fn.loop(0, pool.sizes[2]) as w:
        for k, window in enumerate(pool.cover(2, w)):
            fn.store(window, fn.gep(table, w * 2 + k, I64), 8)
    return table


def build_mean_backward_across(code, kind):
    """(grad of the input, grad) of contiguous planes, for rows of at most SHARES windows
    and COLUMNS columns.

    First the share of every window over a row, with lanes over windows; then each column sums
    shares, or, where windows are wide and share no column, each window fills its columns. Where
    windows lie along a row is worked out once per chunk.
    """
    pool, width = Pool("pp", kind), lanes(code)
    fn, (into, g) = pool.fn, pool.arguments
    shares = fn.alloca(LLVM_TYPE[COMPUTE_TYPE[code]], SHARES)
    starts, ends, sizes = (fn.alloca(I64, SHARES) for _ in range(3))
    held = COMPUTE_TYPE[code]

    def known(table, ow):
        return fn.load(fn.gep(table, ow, I64), I64, 8)

    with pool.each_column() as (ow, (start, first, end, size)):
        for table, value in ((starts, start + first), (ends, start + end), (sizes, size)):
            fn.store(value, fn.gep(table, ow, I64), 8)
    covers = _column_covers(pool)
    with pool.each_piece() as piece:
        n, d, h = pool.place(piece, pool.sizes)
        row = piece * pool.sizes[2]
        with fn.loop(0, pool.outs[2], width) as ow:
            mask = below(fn, ow, pool.outs[2], width)
            columns = masked_load(fn, fn.gep(sizes, ow, I64), vector(I64, width), mask)
            columns = fn.select(mask, columns, 1)
            total = fn.var(fn.value(0, computed(code, width)))
            with pool.each_cover(d, h) as (od, oh):
                at = flat((n, od, oh), (None, *pool.outs)) * pool.outs[2] + ow
                size = fn.splat(pool.window(0, od)[3] * pool.window(1, oh)[3], width) * columns
                total.set(total.get() + divided(fn, load(fn, g, at, code, width, mask), size))
            store(fn, total.get(), shares, ow, held)

        def by_columns():
            with fn.loop(0, pool.sizes[2]) as w:
                total = fn.var(fn.value(0, computed(code, 1)))
                with fn.loop(known(covers, w * 2), known(covers, w * 2 + 1)) as ow:
                    total.set(total.get() + load(fn, shares, ow, held, 1))
                store(fn, total.get(), into, row + w, code)

        def by_windows():
            zero(fn, into, row, pool.sizes[2], code)
            with fn.loop(0, pool.outs[2]) as ow:
                share = load_element(fn, at_element(fn, shares, ow, held), held, width, "s")
                end = known(ends, ow)
                with fn.loop(known(starts, ow), end, width) as k:
                    store(fn, share, into, row + k, code, below(fn, k, end, width))

        fn.if_else(pool.by_columns != 0, by_columns, by_windows)
    return pool.text()
