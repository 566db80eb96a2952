"""Weights as strips for the register tile: a few rows together, k by k.

Strips follow each other in the order in which conv.py walks them: groups, phases, blocks of
(channel, tap), strips. The order of k within a block is that of the panel of patches. Rows beyond
the last repeat it; their sums are never looked at.
"""

from flambeau.codegen.loops import I64, vector
from flambeau.codegen.templates.conv_mirror import call_mirror, mirror_function
from flambeau.codegen.templates.conv_patches import BLOCK, PHASE, TAP, Patches
from flambeau.codegen.templates.conv_tiles import strip_rows

TOGETHER = 8  # strips of a chunk


class Strips(Patches):
    """Kernels that make strips: of the rows of `weights`, `m` of them."""

    def prepare_strips(self):
        tall = strip_rows()
        mirror_function(self.module, self.type, tall)
        self.square = self.fn.alloca(self.type, tall * tall)

    def lines(self, strip):
        """Where the rows of a strip start."""
        fn, tall = self.fn, strip_rows()
        a_m = self.word("a_m")
        places = [fn.min(strip * tall + r, self.m - 1) * a_m for r in range(tall)]
        return [fn.gep(self.weights, place, "i8") for place in places]

    def strips(self, phase, block, first, last, out):
        """Strips first..last of one block; out is where strip 0 would be."""
        fn, tall = self.fn, strip_rows()
        at = self.word("tap_table") + (phase["tap_first"] + block["t_first"]) * len(TAP)
        taps = fn.gep(self.description, at, I64)
        a_c = self.word("a_c")
        depth = block["c_count"] * block["t_count"]
        held = vector(self.type, tall)

        def place(strip, k):
            return fn.gep(out, strip * tall * depth + k * tall, self.type)

        def turned(lines, count, strip, first_k):
            """Weights of a row side by side: squares are turned around."""
            whole = (count / tall) * tall
            with fn.loop(0, whole, tall) as k:
                for r, line in enumerate(lines):
                    found = fn.load(fn.gep(line, k, self.type), held)
                    fn.store(found, fn.gep(self.square, r * tall, self.type))
                call_mirror(fn, self.square, place(strip, first_k + k), tall * self.size)
            with fn.loop(whole, count) as k:
                self.row(lines, k * self.size, place(strip, first_k + k))

        def tap_of(t):
            return fn.load(fn.gep(taps, t * len(TAP) + TAP.index("a"), I64), I64, 8)

        def in_order():
            start = block["c_first"] * a_c + tap_of(fn.value(0, I64))
            with fn.loop(first, last) as strip:
                lines = [fn.gep(line, start, "i8") for line in self.lines(strip)]
                turned(lines, depth, strip, fn.value(0, I64))

        def by_channels():
            # several strips for each channel, because their weights are neighbours in memory
            count = block["t_count"]
            neighbours = tap_of(count - 1) - tap_of(fn.value(0, I64)) == (count - 1) * self.size
            with fn.loop(0, block["c_count"]) as c, fn.loop(first, last) as strip:
                start = (block["c_first"] + c) * a_c
                lines = [fn.gep(line, start, "i8") for line in self.lines(strip)]

                def together():
                    tap = tap_of(fn.value(0, I64))
                    moved = [fn.gep(line, tap, "i8") for line in lines]
                    turned(moved, count, strip, c * count)

                def by_table():
                    with fn.loop(0, count) as t:
                        self.row(lines, tap_of(t), place(strip, c * count + t))

                fn.if_else(neighbours, together, by_table)

        fn.if_else(self.word("in_order") != 0, in_order, by_channels)

    def row(self, lines, offset, place):
        fn = self.fn
        for r, line in enumerate(lines):
            value = fn.load(fn.gep(line, offset, "i8"), self.type)
            fn.store(value, fn.gep(place, r, self.type))


class WeightPanels(Strips):
    """Arguments: strips, weights (both of the summed type). A chunk is some strips of one group."""

    def __init__(self, code):
        super().__init__(code, "ppp", packs=False)
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


def build(code):
    """IR of the kernel for a memory dtype."""
    return WeightPanels(code).text()
