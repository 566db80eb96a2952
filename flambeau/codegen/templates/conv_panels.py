"""Weights as strips for the register tile: a few rows together, k by k.

Strips follow each other in the order in which conv.py walks them: groups, phases, blocks of
(channel, tap), strips. The order of k within a block is that of the panel of patches. Rows beyond
the last repeat it; their sums are never looked at.
"""

from flambeau.codegen.loops import I64, vector
from flambeau.codegen.templates.conv_patches import BLOCK, PHASE, TAP, Patches, transpose
from flambeau.codegen.templates.conv_tiles import strip_rows


class WeightPanels(Patches):
    """Arguments: strips, weights (both of the summed type). A chunk is a strip of one group."""

    def __init__(self, code):
        super().__init__(code, "ppp", packs=False)
        fn, tall = self.fn, strip_rows()
        strips, weights = self.argument(1), self.argument(2)
        rows = self.word("m")
        count = (rows + tall - 1) / tall
        group, strip = self.chunk / count, self.chunk % count
        weights = fn.gep(weights, group * self.word("a_group"), "i8")
        strips = fn.gep(strips, group * self.word("strip_group"), "i8")
        a_m = self.word("a_m")
        lines = [fn.gep(weights, fn.min(strip * tall + r, rows - 1) * a_m, "i8")
                 for r in range(tall)]  # fmt: skip
        with fn.loop(0, self.word("phases")) as p:
            phase = self.record("phase_table", PHASE, p)
            start = fn.gep(strips, phase["strips"], "i8")
            with fn.loop(0, phase["blocks_count"]) as b:
                block = self.record("block_table", BLOCK, phase["blocks_first"] + b)
                depth = block["c_count"] * block["t_count"]
                first = block["k_first"] * count * tall + strip * tall * depth
                self.strip(phase, block, depth, lines, fn.gep(start, first, self.type))

    def strip(self, phase, block, depth, lines, out):
        fn, tall = self.fn, len(lines)
        at = self.word("tap_table") + (phase["tap_first"] + block["t_first"]) * len(TAP)
        taps = fn.gep(self.description, at, I64)
        a_c = self.word("a_c")
        held = vector(self.type, tall)

        def in_order():
            """Weights of a row side by side: squares are turned around."""
            tap = fn.load(fn.gep(taps, TAP.index("a"), I64), I64, 8)
            first = block["c_first"] * a_c + tap
            whole = (depth / tall) * tall
            with fn.loop(0, whole, tall) as k:
                found = [fn.load(fn.gep(fn.gep(x, first, "i8"), k, self.type), held) for x in lines]
                for i, value in enumerate(transpose(fn, found)):
                    fn.store(value, fn.gep(out, (k + i) * tall, self.type))
            with fn.loop(whole, depth) as k:
                self.row(lines, first + k * self.size, fn.gep(out, k * tall, self.type))

        def by_table():
            with fn.loop(0, block["c_count"]) as c, fn.loop(0, block["t_count"]) as t:
                tap = fn.load(fn.gep(taps, t * len(TAP) + TAP.index("a"), I64), I64, 8)
                k = c * block["t_count"] + t
                offset = (block["c_first"] + c) * a_c + tap
                self.row(lines, offset, fn.gep(out, k * tall, self.type))

        fn.if_else(self.word("in_order") != 0, in_order, by_table)

    def row(self, lines, offset, place):
        fn = self.fn
        for r, line in enumerate(lines):
            value = fn.load(fn.gep(line, offset, "i8"), self.type)
            fn.store(value, fn.gep(place, r, self.type))


def build(code):
    """IR of the kernel for a memory dtype."""
    return WeightPanels(code).text()
