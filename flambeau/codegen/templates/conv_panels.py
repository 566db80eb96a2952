"""Weights as strips for the register tile: a few rows together, k by k.

Strips follow each other in the order in which conv.py walks them: groups, phases, blocks of
(channel, tap), strips. The order of k within a block is that of the panel of patches. Rows beyond
the last repeat it; their sums are never looked at. Strips of pairs hold words of two weights, those
of channels c and c + 1.
"""

from flambeau.codegen.loops import I1, I64, PTR, vector
from flambeau.codegen.templates.conv_mirror import call_mirror, mirror_function
from flambeau.codegen.templates.conv_patches import BLOCK, PHASE, TAP, Patches, pair_at, zipped
from flambeau.codegen.templates.conv_tiles import strip_rows

TOGETHER = 8  # strips of a chunk


class Strips(Patches):
    """Kernels that make strips: of the rows of `weights`, `m` of them."""

    def prepare_strips(self):
        """Write strip(line, a_m, rows, count, pair, both, out): `count` cells of each row.

        A cell is a weight, or two of them, `pair` bytes from each other, if there are both. The
        cells of a row follow each other in memory, or their first halves do.
        """
        tall, module = strip_rows(), self.module
        mirror_function(module, self.cell, tall)
        names = ((PTR, "line"), (I64, "a_m"), (I64, "rows"), (I64, "count"), (I64, "pair"))
        names += ((I1, "both"), (PTR, "out"))
        fn = module.function("strip", names, internal=True)
        line, a_m, rows, count, pair, both, out = fn.params
        square = fn.alloca(self.cell, tall * tall)
        beside, step = pair == self.item, self.size
        if self.pairs:
            step = fn.select(beside, fn.value(2 * self.item, I64), self.item)

        def weight(r, k):
            return fn.gep(fn.gep(line, fn.min(r, rows - 1) * a_m, "i8"), k * step, "i8")

        def words(place):
            return fn.load(place, vector(self.cell, tall), self.item)

        def from_both(place):
            halves = vector("i16", tall)
            other = fn.gep(place, fn.select(both, pair, fn.value(0, I64)), "i8")
            second = fn.select(both, fn.load(other, halves), fn.value(0, halves))
            return zipped(fn, fn.load(place, halves), second)

        def cells(place):
            if not self.pairs:
                return fn.load(place, vector(self.cell, tall))
            return fn.if_else(beside, lambda: words(place), lambda: from_both(place))

        whole = (count / tall) * tall
        with fn.loop(0, whole, tall) as k:
            with fn.loop(0, tall) as r:
                fn.store(cells(weight(r, k)), fn.gep(square, r * tall, self.cell))
            call_mirror(fn, square, fn.gep(out, k * tall, self.cell), tall * self.size)
        with fn.loop(whole, count) as k, fn.loop(0, tall) as r:
            place = weight(r, k)
            cell = pair_at(fn, place, pair, both) if self.pairs else fn.load(place, self.cell)
            fn.store(cell, fn.gep(out, k * tall + r, self.cell))
        fn.ret()

    def strips(self, phase, block, first, last, out):
        """Strips first..last of one block; out is where strip 0 would be."""
        fn, tall = self.fn, strip_rows()
        at = self.word("tap_table") + (phase["tap_first"] + block["t_first"]) * len(TAP)
        taps = fn.gep(self.description, at, I64)
        a_c, a_m, count = self.word("a_c"), self.word("a_m"), block["t_count"]
        depth, pair = block["c_count"] * count, self.word("a_pair")
        item = self.item if self.pairs else self.size

        def tap_of(t):
            return fn.load(fn.gep(taps, t * len(TAP) + TAP.index("a"), I64), I64, 8)

        def call(strip, offset, k, length, both=True):
            row = strip * tall
            there = fn.gep(out, row * depth + k * tall, self.type)
            operands = [fn.gep(self.weights, row * a_m + offset, "i8"), a_m, self.m - row]
            operands += [fn.value(length, I64), pair, fn.value(both, I1), there]
            fn.line(f"call void @strip({', '.join(map(repr, operands))})")

        def in_order():
            """Weights of a row follow each other in the order of k."""
            with fn.loop(first, last) as strip:
                offset = block["c_first"] * a_c + tap_of(fn.value(0, I64))
                call(strip, offset, fn.value(0, I64), depth)

        def by_channels():
            # several strips for each channel, because their weights are neighbours in memory
            far = tap_of(count - 1) - tap_of(fn.value(0, I64))
            length = fn.select(far == (count - 1) * item, count, 1)
            with fn.loop(0, block["c_count"]) as c, fn.loop(first, last) as strip:
                channel = block["c_first"] + c
                start, both = channel * a_c, channel * 2 + 1 < self.word("c")
                with fn.loop(0, count, length) as t:
                    call(strip, start + tap_of(t), c * count + t, length, both)

        with fn.when(depth > 0):
            fn.if_else(self.word("in_order") != 0, in_order, by_channels)


class WeightPanels(Strips):
    """Arguments: strips, weights (of the summed type, or pairs). A chunk is some strips of one group.
    """

    def __init__(self, code, paired):
        super().__init__(code, "ppp", packs=False, pairs="channels" if paired else "")
        self.prepare_strips()
        fn, tall = self.fn, strip_rows()
        strips, weights = self.argument(1), self.argument(2)
        self.m = self.word("m")
        self.count = (self.m + tall - 1) / tall
        chunks = (self.count + TOGETHER - 1) / TOGETHER
        group, first = self.chunk / chunks, self.chunk % chunks * TOGETHER
        self.weights = fn.gep(weights, group * self.word("a_group"), "i8")
        strips = fn.gep(strips, group * self.word("strip_group"), "i8")
        last = fn.min(first + TOGETHER, self.count)
        with fn.loop(0, self.word("phases")) as p:
            phase = self.record("phase_table", PHASE, p)
            start = fn.gep(strips, phase["strips"], "i8")
            with fn.loop(0, phase["blocks_count"]) as b:
                block = self.record("block_table", BLOCK, phase["blocks_first"] + b)
                out = fn.gep(start, block["k_first"] * self.count * tall, self.type)
                self.strips(phase, block, first, last, out)


def chunk_rows():
    """Rows of weights that a chunk takes."""
    return TOGETHER * strip_rows()


def build(code, paired):
    """IR of the kernel for a memory dtype."""
    return WeightPanels(code, paired).text()
