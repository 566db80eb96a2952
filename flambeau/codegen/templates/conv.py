"""Convolution as an implicit product: weights times panels of patches, block by block.

One kernel serves the convolution itself, its gradient with respect to the input and the transposed
convolution: they differ in the tables only. A convolution with strides, seen from its input, is
several convolutions with step 1, one for each phase of the stride; each writes its own lattice of
pixels. A chunk is a block of pixels of one phase, for some groups and some of the rows. Panels are
packed by conv_patches.py, multiplied by conv_tiles.py, and finished (bias, dtype, memory order)
here. The gradient of the weights is in conv_weight.py, direct forms are in conv_depthwise.py.
"""

from flambeau.codegen.llvm import masked_store
from flambeau.codegen.loops import I64
from flambeau.codegen.templates.conv_patches import BLOCK, PHASE, TAP, Patches
from flambeau.codegen.templates.conv_tiles import Grid


class Convolution(Patches):
    """Arguments: y, x, weights (of the summed type), bias, scratch, number of slots."""

    def __init__(self, code):
        super().__init__(code, "pppppp" + "i")
        self.grid = Grid(self)
        fn = self.fn
        self.y, self.x, self.a, self.bias = (self.argument(k) for k in range(1, 5))
        self.claim(self.argument(5), self.argument(6, "i"))
        self.m = self.word("m")
        phase, rest = self.find_phase()
        blocks = (phase["pixels"] + self.word("block") - 1) / self.word("block")
        block, rest = rest % blocks, rest / blocks
        m_parts, per_part = self.word("m_parts"), self.word("m_per_part")
        part, rest = rest % m_parts, rest / m_parts
        first = block * self.word("block")
        self.count = fn.min(self.word("block"), phase["pixels"] - first)
        self.walk_pixels(phase, first, self.count)
        low = part * per_part
        rows = fn.min(per_part, self.m - low)
        per_chunk = self.word("groups_per_chunk")
        group = rest * per_chunk
        with fn.loop(group, fn.min(group + per_chunk, self.word("group_count"))) as g:
            self.products(phase, g, low, rows)
            self.finish(g, low, rows)
        self.release()

    def find_phase(self):
        """The phase of this chunk, and the chunk's number within it."""
        fn = self.fn
        last = self.word("phases") - 1
        k = fn.var(last)

        def later():
            return self.chunk < self.record("phase_table", PHASE, k.get())["first_chunk"]

        with fn.while_(later):
            k.set(k.get() - 1)
        phase = self.record("phase_table", PHASE, k.get())
        return phase, self.chunk - phase["first_chunk"]

    def products(self, phase, g, low, rows):
        """All blocks of k; their sums wait in the slot."""
        fn = self.fn
        x = fn.gep(self.x, g * self.word("c") * self.word("x_c"), "i8")
        a = fn.gep(self.a, g * self.word("a_group") + low * self.word("a_m"), "i8")
        a_c = self.word("a_c")
        with fn.loop(0, phase["blocks_count"]) as k:
            block = self.record("block_table", BLOCK, phase["blocks_first"] + k)
            first = self.word("tap_table") + (phase["tap_first"] + block["t_first"]) * len(TAP)
            taps = fn.gep(self.description, first, I64)
            self.offsets(taps, block, a_c)
            self.pack(x, taps, block)
            depth = block["c_count"] * block["t_count"]
            left = fn.gep(a, block["c_first"] * a_c, "i8")
            self.grid.run(
                rows, self.count, depth, left, self.word("a_m"), self.table, self.panel,
                self.panel_pitch, self.sums, self.sums_pitch, k == 0,
            )  # fmt: skip

    def offsets(self, taps, block, a_c):
        """Where the weight of each row of the panel lies, from the start of a row of weights."""
        fn, count = self.fn, block["t_count"]
        with fn.loop(0, block["c_count"]) as c, fn.loop(0, count) as t:
            tap = fn.load(fn.gep(taps, t * len(TAP) + 3, I64), I64, 8)
            fn.store(c * a_c + tap, fn.gep(self.table, c * count + t, I64), 8)

    def finish(self, g, low, rows):
        """Sums plus bias, rounded, to where the pixels lie."""
        fn, w = self.fn, self.width
        first_row = g * self.m + low
        y = fn.gep(self.y, first_row * self.word("y_m"), "i8")
        bias = fn.gep(self.bias, first_row, self.type)
        biased, y_m = self.word("has_bias"), self.word("y_m")
        with fn.loop(0, (self.count + w - 1) / w) as v:
            where, dense = self.lanes_of(v)
            left = fn.min(self.count - v * w, w)
            mask = self.below(left) if w > 1 else None

            def value(r):
                line = fn.gep(fn.gep(self.sums, r * self.sums_pitch, "i8"), v * w, self.type)

                def add():
                    b = fn.load(fn.gep(bias, r, self.type), self.type)
                    return fn.load(line, self.vector) + fn.splat(b, w)

                return fn.if_else(biased != 0, add, lambda: fn.load(line, self.vector)), line

            def together():
                with fn.loop(0, rows) as r:
                    there = fn.gep(y, r * y_m + where, "i8")
                    masked_store(fn, self.narrowed(fn, value(r)[0]), there, mask)

            def one_by_one():
                with fn.loop(0, rows) as r:
                    found, line = value(r)
                    fn.store(found, line)
                    there = fn.gep(y, r * y_m, "i8")
                    with fn.loop(0, left) as i:
                        x = self.narrowed(fn, fn.load(fn.gep(line, i, self.type), self.type))
                        at = fn.load(fn.gep(self.lanes, v * w + i, I64), I64, 8)
                        fn.store(x, fn.gep(there, at, "i8"))

            fn.if_else(dense, together, one_by_one)


def build(code):
    """IR of the kernel for a memory dtype."""
    return Convolution(code).text()
