"""Weights of bfloat16 as words of two channels, for convolutions by products of pairs.

Each row of a block lies side by side, channel pair by channel pair and tap by tap within one, as
the rows of the panel of patches follow each other. Nothing is turned around: a tile reads one word
of each of its rows, and a row is short enough for all of them to stay in the first-level cache.
"""

from flambeau.codegen.llvm import masked_load, masked_store
from flambeau.codegen.loops import I32, I64, vector
from flambeau.codegen.templates.conv_patches import TAP, pair_at, zipped
from flambeau.codegen.templates.tiles import prefix_mask


def lay_out_pairs(p, phase, block, low, high, out):
    """Rows low..high of one block of p.weights; out is where row 0 would be."""
    fn = p.fn
    first = p.word("tap_table") + (phase["tap_first"] + block["t_first"]) * len(TAP)
    taps, count = fn.gep(p.description, first, I64), block["t_count"]
    depth = block["c_count"] * count
    a_m, a_c, pair = p.word("a_m"), p.word("a_c"), p.word("a_pair")
    lanes = p.width

    def tap_of(t):
        return fn.load(fn.gep(taps, t * len(TAP) + TAP.index("a"), I64), I64, 8)

    def places(row, c):
        channel = block["c_first"] + c
        source = fn.gep(p.weights, row * a_m + channel * a_c, "i8")
        both = channel * 2 + 1 < p.word("c")
        return source, both, fn.gep(out, row * depth + c * count, I32)

    def beside():
        """One tap, and an even number of channels: memory holds the words already."""
        with fn.loop(low, high) as row:
            source, _, target = places(row, fn.value(0, I64))
            with fn.loop(0, depth, lanes) as k:
                mask = prefix_mask(fn, lanes, depth - k)
                found = masked_load(fn, fn.gep(source, k, I32), vector(I32, lanes), mask)
                masked_store(fn, found, fn.gep(target, k, I32), mask)

    def near():
        """All taps of a channel are in one vector: the ones wanted are picked out of it."""
        there, wanted = prefix_mask(fn, lanes, span), prefix_mask(fn, lanes, count)
        order = fn.load(numbers, vector(I32, lanes))
        halves = vector("i16", lanes)

        def one(row, c):
            source, both, target = places(row, c)
            second = prefix_mask(fn, lanes, fn.select(both, span, 0))
            words = zipped(
                fn,
                masked_load(fn, source, halves, there),
                masked_load(fn, fn.gep(source, pair, "i8"), halves, second),
            )
            masked_store(fn, picked(fn, words, order), target, wanted)

        def row_by_row():
            with fn.loop(low, high) as row, fn.loop(0, block["c_count"]) as c:
                one(row, c)

        def channel_by_channel():
            with fn.loop(0, block["c_count"]) as c, fn.loop(low, high) as row:
                one(row, c)

        fn.if_else(a_m < a_c, channel_by_channel, row_by_row)  # as memory lies

    def far():
        with fn.loop(0, block["c_count"]) as c, fn.loop(low, high) as row:
            source, both, target = places(row, c)
            with fn.loop(0, count) as t:
                word = pair_at(fn, fn.gep(source, tap_of(t), "i8"), pair, both)
                fn.store(word, fn.gep(target, t, I32))

    with fn.when(depth > 0):
        numbers = fn.alloca(I32, lanes)
        furthest = fn.var(fn.value(0, I64))
        with fn.loop(0, fn.min(count, lanes)) as t:
            number = tap_of(t) / p.item
            furthest.set(fn.max(furthest.get(), number))
            fn.store(fn.convert("trunc", number, I32), fn.gep(numbers, t, I32))
        span = furthest.get() + 1
        fits = (count <= lanes) & (span <= lanes)
        fn.if_else(p.word("in_order") != 0, beside, lambda: fn.if_else(fits, near, far))


def picked(fn, words, order):
    """Lane i of the result is lane order[i] of the words."""
    name = f"llvm.x86.avx512.permvar.si.{32 * 16}"
    return fn.call(name, words.type, words, order)
