"""Weights as strips for the register tile: a few rows together, k by k.

Strips follow each other in the order in which conv.py walks them: groups, phases, blocks of
(channel, tap), strips. The order of k within a block is that of the panel of patches. Rows beyond
the last repeat it; their sums are never looked at.

Pairs of bfloat16 (conv_pairs.py) lie otherwise: row by row, words of two channels.
"""

from flambeau.codegen.loops import I64, PTR, vector
from flambeau.codegen.templates.conv_mirror import call_mirror, mirror_function
from flambeau.codegen.templates.conv_pairs import lay_out_pairs
from flambeau.codegen.templates.conv_patches import BLOCK, PHASE, TAP, Patches
from flambeau.codegen.templates.conv_tiles import strip_rows

TOGETHER = 8  # strips of a chunk


class Strips(Patches):
    """Kernels that make strips: of the rows of `weights`, `m` of them."""

    def prepare_strips(self):
        if not self.pairs:
            self.strip_function()

    def strip_function(self):
        """Write strip(line, a_m, rows, count, out): `count` weights of each row of a strip."""
        tall, module = strip_rows(), self.module
        mirror_function(module, self.type, tall)
        names = ((PTR, "line"), (I64, "a_m"), (I64, "rows"), (I64, "count"), (PTR, "out"))
        fn, held = module.function("strip", names, internal=True), vector(self.type, tall)
        line, a_m, rows, count, out = fn.params
        square = fn.alloca(self.type, tall * tall)

        def weight(r, k):
            return fn.gep(fn.gep(line, fn.min(r, rows - 1) * a_m, "i8"), k, self.type)

        whole = (count / tall) * tall
        with fn.loop(0, whole, tall) as k:
            with fn.loop(0, tall) as r:
                fn.store(fn.load(weight(r, k), held), fn.gep(square, r * tall, self.type))
            call_mirror(fn, square, fn.gep(out, k * tall, self.type), tall * self.size)
        with fn.loop(whole, count) as k, fn.loop(0, tall) as r:
            fn.store(fn.load(weight(r, k), self.type), fn.gep(out, k * tall + r, self.type))
        fn.ret()

    def strips(self, phase, block, first, last, out):
        """Strips first..last of one block; out is where strip 0 would be."""
        fn, tall = self.fn, strip_rows()
        if self.pairs:
            rows = first * tall, fn.min(last * tall, self.m)
            return lay_out_pairs(self, phase, block, *rows, out)
        at = self.word("tap_table") + (phase["tap_first"] + block["t_first"]) * len(TAP)
        taps = fn.gep(self.description, at, I64)
        a_c, a_m, count = self.word("a_c"), self.word("a_m"), block["t_count"]
        depth = block["c_count"] * count

        def tap_of(t):
            return fn.load(fn.gep(taps, t * len(TAP) + TAP.index("a"), I64), I64, 8)

        def call(strip, offset, k, length):
            row = strip * tall
            there = fn.gep(out, row * depth + k * tall, self.type)
            operands = [fn.gep(self.weights, row * a_m + offset, "i8"), a_m, self.m - row]
            operands += [fn.value(length, I64), there]
            fn.line(f"call void @strip({', '.join(map(repr, operands))})")

        def in_order():
            """Weights of a row follow each other in the order of k."""
            with fn.loop(first, last) as strip:
                offset = block["c_first"] * a_c + tap_of(fn.value(0, I64))
                call(strip, offset, fn.value(0, I64), depth)

        def by_channels():
            # several strips for each channel, because their weights are neighbours in memory
            far = tap_of(count - 1) - tap_of(fn.value(0, I64))
            length = fn.select(far == (count - 1) * self.size, count, 1)
            with fn.loop(0, block["c_count"]) as c, fn.loop(first, last) as strip:
                start = (block["c_first"] + c) * a_c
                with fn.loop(0, count, length) as t:
                    call(strip, start + tap_of(t), c * count + t, length)

        with fn.when(depth > 0):
            fn.if_else(self.word("in_order") != 0, in_order, by_channels)


class WeightPanels(Strips):
    """Arguments: strips, weights (of the summed type, or bfloat16 in pairs).

    A chunk is some strips of one group.
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
