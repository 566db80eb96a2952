"""The gradient of the weights: panels of patches times gradients, summed over pixels.

A chunk takes some blocks of (channel, tap) rows, some blocks of pixels and, where there are many
threads, some channels of the gradient. The gradient of a block
of pixels is turned around, so that channels lie side by side; each row of the panel then gathers
sums for all of them, in a buffer that belongs to the chunk's share of pixels. `Gathering` adds the
shares in their order, which makes the sums independent of threads, and turns them around again.
"""

from flambeau.codegen.descriptions import Gather
from flambeau.codegen.llvm import masked_load, masked_store
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I32, I64, PTR, Module, V, bytes_of, vector
from flambeau.codegen.templates import tiles
from flambeau.codegen.templates.conv_mirror import call_mirror, mirror_function
from flambeau.codegen.templates.conv_patches import (
    BLOCK,
    CUT,
    PHASE,
    TAP,
    Patches,
    pair_at,
    zipped,
)
from flambeau.codegen.templates.conv_tiles import grid_for
from flambeau.codegen.templates.tiles import load_pairs, prefix_mask


class WeightGradient(Patches):
    """Arguments: shares, x, y (the incoming gradient), scratch, number of slots."""

    def __init__(self, code, paired):
        super().__init__(code, "ppppp" + "i", pairs="pixels" if paired else "")
        self.grid = grid_for(self, paired, "rows", False)
        self.turned = I32 if paired else self.type  # what a pixel, or two, hold of a channel
        mirror_function(self.module, self.turned, self.width)
        fn = self.fn
        self.square = fn.alloca(self.turned, self.width**2)
        self.shares, self.x, self.y = (self.argument(k) for k in range(1, 4))
        self.claim(self.argument(4), self.argument(5, "i"))
        self.grid.begin()
        phase = self.record("phase_table", PHASE, fn.value(0, I64))
        k_parts, pixel_parts = self.word("k_parts"), self.word("pixel_parts")
        part, rest = self.chunk % pixel_parts, self.chunk / pixel_parts
        k_part, rest = rest % k_parts, rest / k_parts
        m_parts, per_part = self.word("m_parts"), self.word("m_per_part")
        m_first, group = rest % m_parts * per_part, rest / m_parts
        self.m = fn.min(per_part, self.word("m") - m_first)
        size = self.word("block")
        blocks = (phase["pixels"] + size - 1) / size
        first, last = part * blocks / pixel_parts, (part + 1) * blocks / pixel_parts
        count = phase["blocks_count"]
        ks = k_part * count / k_parts, (k_part + 1) * count / k_parts
        x = fn.gep(self.x, group * self.word("c") * self.word("x_c"), "i8")
        y = fn.gep(self.y, (group * self.word("m") + m_first) * self.word("y_m"), "i8")
        at = part * self.word("part_bytes") + group * self.word("group_bytes")
        shares = fn.gep(fn.gep(self.shares, at, "i8"), m_first, self.type)
        with fn.loop(first, last) as b:
            start = b * size
            self.count = fn.min(size, phase["pixels"] - start)
            self.walk_pixels(phase, start, self.count)
            self.turn(y)
            with fn.when((k_part == 0) & (self.word("has_bias") != 0)):
                self.add_pixels(shares, b == first)
            with fn.loop(*ks) as k:
                block = self.record("block_table", BLOCK, phase["blocks_first"] + k)
                self.multiply(x, block, shares, b == first)
        self.grid.end()
        self.release()

    def multiply(self, x, block, shares, fresh):
        fn = self.fn
        taps = fn.gep(self.description, self.word("tap_table") + block["t_first"] * len(TAP), I64)
        self.pack(x, taps, block)
        row = block["c_first"] * self.word("k_total") / self.word("c") + block["t_first"]
        depth = (self.count + 1) >> 1 if self.pairs else self.count
        self.grid.run(
            block["c_count"] * block["t_count"], self.m, depth, self.panel, self.panel_pitch,
            self.sums, self.sums_pitch,
            fn.gep(shares, row * self.sums_pitch, "i8"), self.sums_pitch, fresh,
        )  # fmt: skip

    def add_pixels(self, shares, fresh):
        """The gradient of the bias is one more row of sums: all pixels, with weight one."""
        fn, w = self.fn, self.width
        held, count = vector(self.turned, w), self.count
        if self.pairs:
            count = (count + 1) >> 1

        def of_place(at):
            found = fn.load(at, held)
            if not self.pairs:
                return found
            halves = found << 16, found & -(1 << 16)
            low, high = [fn.convert("bitcast", x, self.vector) for x in halves]
            return low + high

        row = fn.gep(shares, self.word("k_total") * self.sums_pitch, "i8")
        zero = V(fn, self.vector, "zeroinitializer") if w > 1 else fn.value(0, self.type)
        with fn.loop(0, self.m, w) as m:

            def add(values):
                at, total = values
                return [fn.gep(at, self.sums_pitch, "i8"), total + of_place(at)]

            total = fn.carry(count, [fn.gep(self.sums, m, self.type), zero], add)[1]
            place = fn.gep(row, m, self.type)
            fn.store(total + fn.select(fresh, zero, fn.load(place, self.vector)), place)

    def turn(self, y):
        """Gradients of the block as rows of channels: sums[pixel][channel]."""
        if self.pairs:
            return self.turn_pairs(y)
        fn, w, y_m = self.fn, self.width, self.word("y_m")
        raw = vector(MEMORY_TYPE[self.code], w)

        def put(value, pixel, m):
            line = fn.gep(self.sums, pixel * self.sums_pitch, "i8")
            fn.store(self.widened(fn, value), fn.gep(line, m, self.type), self.size)

        def channels_last():
            with fn.loop(0, self.count) as i:
                where = fn.load(fn.gep(self.lanes, i, I64), I64, 8)
                here = fn.gep(y, where, "i8")
                with fn.loop(0, self.m, w) as m:
                    mask = self.below(self.m - m) if w > 1 else None
                    put(masked_load(fn, fn.gep(here, m * self.item, "i8"), raw, mask), i, m)

        def channels_first():
            # along lines first: that is how memory likes to be read
            vectors = (self.count + w - 1) / w
            with fn.loop(0, self.m, w) as m, fn.loop(0, vectors) as v:
                where, way = self.lanes_of(fn, self.lanes, self.ways, v)

                def square():
                    mask = self.below(self.count - v * w)
                    with fn.loop(0, w) as k:
                        # rows beyond the last repeat it: their sums are never read
                        row = fn.min(m + k, self.m - 1)
                        found = masked_load(fn, fn.gep(y, row * y_m + where, "i8"), raw, mask)
                        place = fn.gep(self.square, k * w, self.type)
                        fn.store(self.widened(fn, found), place)
                    line = fn.gep(self.sums, v * w * self.sums_pitch, "i8")
                    call_mirror(fn, self.square, fn.gep(line, m, self.type), self.sums_pitch)

                def one_by_one():
                    low, high = v * w, fn.min(self.count, v * w + w)
                    with fn.loop(low, high) as i, fn.loop(m, fn.min(m + w, self.m)) as row:
                        at = fn.load(fn.gep(self.lanes, i, I64), I64, 8)
                        here = fn.gep(y, at + row * y_m, "i8")
                        put(fn.load(here, MEMORY_TYPE[self.code]), i, row)

                fn.if_else(way >= CUT, square, one_by_one)

        fn.if_else(y_m == self.item, channels_last, channels_first)

    def turn_pairs(self, y):
        """The same with two pixels to a row: sums[pixel / 2][channel], words of both."""
        fn, w, y_m = self.fn, self.width, self.word("y_m")

        def lane(i):
            return fn.load(fn.gep(self.lanes, i, I64), I64, 8)

        def place(pair, m):
            return fn.gep(fn.gep(self.sums, pair * self.sums_pitch, "i8"), m, I32)

        def channels_last():
            with fn.loop(0, self.count, 2) as i:
                lines = [fn.gep(y, lane(i + k), "i8") for k in range(2)]
                both = i + 1 < self.count
                with fn.loop(0, self.m, w) as m:
                    masks = self.below(self.m - m), self.below(fn.select(both, self.m - m, 0))
                    halves = [
                        masked_load(fn, fn.gep(line, m * self.item, "i8"), vector("i16", w), mask)
                        for line, mask in zip(lines, masks)
                    ]
                    fn.store(zipped(fn, *halves), place(i >> 1, m), 4)

        def channels_first():
            with fn.loop(0, self.m, w) as m, fn.loop(0, self.count, 2 * w) as i:
                where, way = self.lanes_of(fn, self.lanes, self.ways, i / w)
                there, second = self.lanes_of(fn, self.lanes, self.ways, i / w + 1)
                follows = (second >= CUT) & (there == where + w * self.item)
                left = self.count - i

                def square():
                    mask = prefix_mask(fn, 2 * w, left)
                    with fn.loop(0, w) as k:
                        row = fn.min(m + k, self.m - 1)
                        found = load_pairs(fn, fn.gep(y, row * y_m + where, "i8"), w, mask)
                        fn.store(found, fn.gep(self.square, k * w, I32))
                    call_mirror(fn, self.square, place(i >> 1, m), self.sums_pitch)

                def one_by_one():
                    end = fn.min(self.count, i + 2 * w)
                    with fn.loop(i, end, 2) as p, fn.loop(m, fn.min(m + w, self.m)) as row:
                        here = fn.gep(y, lane(p) + row * y_m, "i8")
                        word = pair_at(fn, here, lane(p + 1) - lane(p), p + 1 < self.count)
                        fn.store(word, place(p >> 1, row))

                is_beside = (way >= CUT) & (follows | (left <= w))
                fn.if_else(is_beside, square, one_by_one)

        fn.if_else(y_m == self.item, channels_last, channels_first)


# Words of the gathering: chunks, rows per chunk, k, m, shares, bytes of a share, bytes of a group
# within it, bytes of a row, chunks per group, whether a row of the bias follows.
class Gathering:
    """Arguments: the gradient, shares, the gradient of the bias. Adds shares, stores row by row."""

    def __init__(self, code):
        self.module = Module()
        self.code, self.type = code, LLVM_TYPE[tiles.summed(code)]
        self.width = w = tiles.lanes(code)
        fn = self.fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        block, chunk = fn.params
        description, out, shares, bias = (argument_word(fn, block, k, "p") for k in range(4))
        words = {
            n: fn.load(fn.gep(description, k, I64), I64, 8) for k, n in enumerate(Gather._fields)
        }
        self.words = words
        mirror_function(self.module, self.type, w)
        square = fn.alloca(self.type, w * w)
        group, part = chunk / words["group_chunks"], chunk % words["group_chunks"]
        k_total, m_total = words["k"], words["m"]
        out = fn.gep(out, group * k_total * m_total, MEMORY_TYPE[code])
        shares = fn.gep(shares, group * words["group_bytes"], "i8")
        low = part * words["k_per_chunk"]
        high = fn.min(low + words["k_per_chunk"], k_total)
        with fn.loop(low, high, w) as k, fn.loop(0, m_total, w) as m:
            with fn.loop(0, w) as i:
                total = self.total(shares, fn.min(k + i, k_total - 1), m)
                fn.store(total, fn.gep(square, i * w, self.type))
            call_mirror(fn, square, square, bytes_of(self.type) * w)
            mask = Patches.below(self, high - k) if w > 1 else None
            with fn.loop(0, fn.min(m_total - m, w)) as i:
                row = fn.load(fn.gep(square, i * w, self.type), vector(self.type, w))
                place = fn.gep(out, (m + i) * k_total + k, MEMORY_TYPE[code])
                masked_store(fn, Patches.narrowed(self, fn, row), place, mask)
        with fn.when((part == 0) & (words["has_bias"] != 0)), fn.loop(0, m_total, w) as m:
            mask = Patches.below(self, m_total - m) if w > 1 else None
            total = Patches.narrowed(self, fn, self.total(shares, k_total, m))
            masked_store(fn, total, fn.gep(bias, group * m_total + m, MEMORY_TYPE[code]), mask)
        fn.ret()
        add_entry(self.module, "pppp")

    def total(self, shares, k, m):
        fn, held = self.fn, vector(self.type, self.width)
        first = fn.gep(fn.gep(shares, k * self.words["pitch"], "i8"), m, self.type)
        step = self.words["part_bytes"]

        def add(values):
            at, total = values
            return [fn.gep(at, step, "i8"), total + fn.load(at, held)]

        start = [fn.gep(first, step, "i8"), fn.load(first, held)]
        return fn.carry(self.words["shares"] - 1, start, add)[1]

    def text(self):
        return module_text(self.module)


def build(code, paired):
    """IR of the kernel that makes shares."""
    return WeightGradient(code, paired).text()


def build_gathering(code):
    """IR of the kernel that adds them."""
    return Gathering(code).text()
