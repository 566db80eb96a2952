"""Weights as strips for the register tile: a few rows together, k by k.

Strips follow each other in the order in which conv.py walks them: groups, phases, blocks of
(channel, tap), strips. The order of k within a block is that of the panel of patches. Rows beyond
the last repeat it; their sums are never looked at.
"""

from flambeau.codegen.loops import I64, vector
from flambeau.codegen.templates.conv_patches import BLOCK, PHASE, TAP, Patches, transpose
from flambeau.codegen.templates.conv_tiles import strip_rows

TOGETHER = 8  # strips of a chunk


class WeightPanels(Patches):
    """Arguments: strips, weights (both of the summed type). A chunk is some strips of one group."""

    def __init__(self, code):
        super().__init__(code, "ppp", packs=False)
        fn, tall = self.fn, strip_rows()
        strips, weights = self.argument(1), self.argument(2)
        self.rows = self.word("m")
        self.count = (self.rows + tall - 1) / tall
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

    def lines(self, strip):
        """Where the rows of a strip start."""
        fn, tall = self.fn, strip_rows()
        a_m = self.word("a_m")
        places = [fn.min(strip * tall + r, self.rows - 1) * a_m for r in range(tall)]
        return [fn.gep(self.weights, place, "i8") for place in places]

    def strips(self, phase, block, first, last, out):
        fn, tall = self.fn, strip_rows()
        at = self.word("tap_table") + (phase["tap_first"] + block["t_first"]) * len(TAP)
        taps = fn.gep(self.description, at, I64)
        a_c = self.word("a_c")
        depth = block["c_count"] * block["t_count"]
        held = vector(self.type, tall)

        def place(strip, k):
            return fn.gep(out, strip * tall * depth + k * tall, self.type)

        def in_order():
            """Weights of a row side by side: squares are turned around."""
            tap = fn.load(fn.gep(taps, TAP.index("a"), I64), I64, 8)
            start = block["c_first"] * a_c + tap
            whole = (depth / tall) * tall
            with fn.loop(first, last) as strip:
                lines = [fn.gep(line, start, "i8") for line in self.lines(strip)]
                with fn.loop(0, whole, tall) as k:
                    found = [fn.load(fn.gep(line, k, self.type), held) for line in lines]
                    for i, value in enumerate(transpose(fn, found)):
                        fn.store(value, place(strip, k + i))
                with fn.loop(whole, depth) as k:
                    self.row(lines, k * self.size, place(strip, k))

        def by_table():
            # several strips for each channel, because their weights are neighbours in memory
            with fn.loop(0, block["c_count"]) as c, fn.loop(first, last) as strip:
                lines = [
                    fn.gep(line, (block["c_first"] + c) * a_c, "i8") for line in self.lines(strip)
                ]
                with fn.loop(0, block["t_count"]) as t:
                    tap = fn.load(fn.gep(taps, t * len(TAP) + TAP.index("a"), I64), I64, 8)
                    self.row(lines, tap, place(strip, c * block["t_count"] + t))

        fn.if_else(self.word("in_order") != 0, in_order, by_table)

    def row(self, lines, offset, place):
        fn = self.fn
        for r, line in enumerate(lines):
            value = fn.load(fn.gep(line, offset, "i8"), self.type)
            fn.store(value, fn.gep(place, r, self.type))


def chunk_rows():
    """Rows of weights that a chunk takes."""
    return TOGETHER * strip_rows()


def build(code):
    """IR of the kernel for a memory dtype."""
    return WeightPanels(code).text()
