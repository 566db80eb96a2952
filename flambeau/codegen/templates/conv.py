"""Convolution as an implicit product: weights times panels of patches, block by block.

One kernel serves the convolution itself, its gradient with respect to the input and the transposed
convolution: they differ in the tables only. A convolution with strides, seen from its input, is
several convolutions with step 1, one for each phase of the stride; each writes its own lattice of
pixels. A chunk is a block of pixels of one phase, for some groups and some of the rows. Panels are
packed by conv_patches.py, multiplied by conv_tiles.py, and finished (bias, dtype, memory order)
here. The gradient of the weights is in conv_weight.py, direct forms are in conv_depthwise.py.
"""

from flambeau.codegen.llvm import masks_are_cheap
from flambeau.codegen.loops import I1, I64, PTR, V, vector
from flambeau.codegen.templates.conv_panels import Strips
from flambeau.codegen.templates.conv_patches import (
    ANYWHERE,
    BLOCK,
    CUT,
    EVERY_SECOND,
    PHASE,
    TAP,
    WHOLE,
)
from flambeau.codegen.templates.conv_tiles import grid_for, strip_rows


class Convolution(Strips):
    """Arguments: y, x, strips of weights (or weights), bias, scratch, number of slots.

    own: strips are made by the chunk that needs them, where no other chunk would use them again.
    """

    def __init__(self, code, own, paired, tail=None):
        kinds = "pppppp" + "i" + (tail.kinds if tail else "")
        super().__init__(code, kinds, pairs="channels" if paired else "")
        self.tail = tail
        self.own, self.grid = own, grid_for(self, paired, "rows" if paired else "panels", True)
        self.finish_function()
        fn = self.fn
        self.y, self.x, self.a, self.bias = (self.argument(k) for k in range(1, 5))
        self.claim(self.argument(5), self.argument(6, "i"))
        self.m = self.word("m")
        self.grid.begin()
        phase, rest = self.find_phase()
        blocks = (phase["pixels"] + self.word("block") - 1) / self.word("block")
        vectors = (phase["pixels"] + self.width - 1) / self.width
        block, rest = rest % blocks, rest / blocks
        m_parts, per_part = self.word("m_parts"), self.word("m_per_part")
        part, rest = rest % m_parts, rest / m_parts
        # blocks of nearly equal size: the last one keeps no thread waiting
        first = block * vectors / blocks * self.width
        last = (block + 1) * vectors / blocks * self.width
        self.count = fn.min(last, phase["pixels"]) - first
        self.walk_pixels(phase, first, self.count)
        low = part * per_part
        rows = fn.min(per_part, self.m - low)
        per_chunk = self.word("groups_per_chunk")
        group = rest * per_chunk
        with fn.loop(group, fn.min(group + per_chunk, self.word("group_count"))) as g:
            self.products(phase, g, low, rows)
        self.grid.end()
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
        if self.own:
            self.prepare_strips()
            self.weights = fn.gep(self.a, g * self.word("a_group"), "i8")
        with fn.loop(0, phase["blocks_count"]) as k:
            block = self.record("block_table", BLOCK, phase["blocks_first"] + k)
            first = self.word("tap_table") + (phase["tap_first"] + block["t_first"]) * len(TAP)
            taps = fn.gep(self.description, first, I64)
            self.pack(x, taps, block)
            depth = block["c_count"] * block["t_count"]
            left = self.left_operand(phase, block, g, low, rows, depth)
            last = k == phase["blocks_count"] - 1

            def finish(first, height, sums, vectors):
                with fn.when(last):
                    self.call_finish(g, low + first, height, sums, vectors)

            keep = fn.select(phase["blocks_count"] > 1, fn.value(1, I64), 0)
            self.grid.run(
                rows, self.count, depth, left, depth * self.size, self.panel,
                self.panel_pitch, self.sums, self.sums_pitch, k == 0, keep, finish,
            )  # fmt: skip

    def left_operand(self, phase, block, g, low, rows, depth):
        """Strips of this chunk's rows and this block of k; pairs lie row by row."""
        fn, tall = self.fn, strip_rows()
        if not self.own:
            padded = (self.m + tall - 1) / tall * tall
            start = fn.gep(self.a, g * self.word("strip_group") + phase["strips"], "i8")
            return fn.gep(start, block["k_first"] * padded + low * depth, self.type)
        here = fn.gep(self.slot, self.word("at_strips"), "i8")
        first, last = low / tall, (low + rows + tall - 1) / tall
        self.strips(phase, block, first, last, fn.gep(here, 0 - low * depth, self.type))
        return here

    def call_finish(self, g, row, rows, sums, vectors):
        fn = self.fn
        first = g * self.m + row
        y_m = self.word("y_m")
        operands = [
            fn.value(rows, I64),
            *vectors,
            self.count,
            self.lanes,
            self.ways,
            sums,
            self.sums_pitch,
        ]
        operands += [fn.gep(self.y, first * y_m, "i8"), y_m]
        operands += [fn.gep(self.bias, first, self.type), self.word("has_bias"), self.block]
        fn.line(f"call void @finish({', '.join(map(repr, operands))})")

    def finish_function(self):
        """Sums plus bias, rounded, to where the pixels lie."""
        names = ((I64, "rows"), (I64, "low"), (I64, "high"), (I64, "count"))
        names += ((PTR, "lanes"), (PTR, "ways"), (PTR, "sums"), (I64, "pitch"))
        names += ((PTR, "y"), (I64, "y_m"), (PTR, "bias"), (I64, "has_bias"), (PTR, "block"))
        fn, w = self.module.function("finish", names, internal=True), self.width
        rows, low, high, count, lanes, ways, sums, pitch, y, y_m, bias, biased, block = fn.params
        shift = fn.alloca(self.type, self.grid.tallest)
        with fn.loop(0, rows) as r:

            def given():
                return fn.load(fn.gep(bias, r, self.type), self.type)

            b = fn.if_else(biased != 0, given, lambda: fn.value(0, self.type))
            fn.store(b, fn.gep(shift, r, self.type))
        with fn.loop(low, high) as v:
            where, way = self.lanes_of(fn, lanes, ways, v)
            left = fn.min(count - v * w, w)

            def value(r):
                line = fn.gep(fn.gep(sums, r * pitch, "i8"), v * w, self.type)
                b = fn.load(fn.gep(shift, r, self.type), self.type)
                return fn.load(line, self.vector) + fn.splat(b, w), line

            def together(whole=False):
                mask = self.below(left, fn) if w > 1 and not whole else None
                with fn.loop(0, rows) as r:
                    there = fn.gep(y, r * y_m + where, "i8")
                    self.put(fn, block, self.narrowed(fn, value(r)[0]), there, mask)

            def every_second():
                if not masks_are_cheap():
                    return fn.if_else(left < w, one_by_one, apart)
                # each element twice, and masks that leave the other phase alone
                masks = []
                for k in (0, 1):
                    alternate = [f"i1 {str(i % 2 == 0).lower()}" for i in range(w)]
                    held = vector(I1, w)
                    even = V(fn, held, "<" + ", ".join(alternate) + ">")
                    masks.append(self.below(left * 2 - k * w, fn) & even)
                with fn.loop(0, rows) as r:
                    found = self.narrowed(fn, value(r)[0])
                    there = fn.gep(y, r * y_m + where, "i8")
                    for k, mask in enumerate(masks):
                        half = fn.shuffle(found, None, [(k * w + i) // 2 for i in range(w)])
                        place = fn.gep(there, k * w * self.item, "i8")
                        self.put(fn, block, half, place, mask)

            def apart():
                """A store for each element costs less than masked ones would."""
                with fn.loop(0, rows) as r:
                    found = self.narrowed(fn, value(r)[0])
                    there = fn.gep(y, r * y_m + where, "i8")
                    for i in range(w):
                        place = fn.gep(there, 2 * i * self.item, "i8")
                        self.put(fn, block, fn.extract(found, i), place, None)

            def one_by_one():
                with fn.loop(0, rows) as r:
                    found, line = value(r)
                    fn.store(found, line)
                    there = fn.gep(y, r * y_m, "i8")
                    with fn.loop(0, left) as i:
                        x = self.narrowed(fn, fn.load(fn.gep(line, i, self.type), self.type))
                        at = fn.load(fn.gep(lanes, v * w + i, I64), I64, 8)
                        self.put(fn, block, x, fn.gep(there, at, "i8"), None)

            def otherwise():
                with fn.when(way == EVERY_SECOND):
                    every_second()
                with fn.when(way == ANYWHERE):
                    one_by_one()

            def beside():
                if masks_are_cheap():
                    return together()
                fn.if_else(way == WHOLE, lambda: together(True), together)

            fn.if_else(way >= CUT, beside, otherwise)
        fn.ret()


def build(code, own, paired, tail=None):
    """IR of the kernel for a memory dtype; own: see Convolution; tail: of tails.py."""
    return Convolution(code, own, paired, tail).text()
