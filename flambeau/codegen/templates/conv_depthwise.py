"""Depthwise convolution: each channel with its own few weights, so nothing is worth packing.

A plane (or volume) of one channel is copied into scratch with its padding around it; every output
line is then a sum of shifted lines, four at a time in registers. Where patches step over columns,
the copy sorts columns by phase, so that loads stay side by side. `Depthwise` runs forward and,
with other tables, towards the input; `DepthwiseWeight` sums products of lines into one weight per
tap, all images of a channel in one chunk.
"""

from flambeau.codegen.llvm import masked_load, masked_store, masks_are_cheap
from flambeau.codegen.llvm_names import MEMORY_TYPE
from flambeau.codegen.loops import I64, V, vector
from flambeau.codegen.templates.conv_patches import PHASE, TAP, Patches
from flambeau.codegen.templates.tiles import multiply_add

LINES = 4  # output lines that are computed together
VECTORS = 2  # vectors of each
TAPS = 3  # taps whose weights are summed together


class _Planes(Patches):
    """Planes of x in scratch. Taps are offsets into the plane (bytes), in the field `d`."""

    def start(self, scratch, slots):
        fn = self.fn
        self.claim(scratch, slots)
        count = self.word("plane_bytes") / (self.size * self.width)
        with fn.loop(0, count) as k:
            fn.store(self.zero(), fn.gep(self.panel, k * self.width, self.type), self.size)

    def zero(self):
        fn = self.fn
        if self.width == 1:
            return fn.value(0, self.type)
        return V(fn, self.vector, "zeroinitializer")

    def copy_plane(self, x):
        """One channel of x, line by line, between its padding."""
        fn, w = self.fn, self.width
        x_d, x_h, x_w, step = (self.word(n) for n in ("x_d", "x_h", "x_w", "step_w"))
        in_w, low_w, part = self.word("in_w"), self.word("low_w"), self.word("part_w")
        raw = MEMORY_TYPE[self.code]
        in_d, in_h = self.word("in_d"), self.word("in_h")
        slab, row = self.word("slab_pitch"), self.word("row_pitch")
        corner = self.word("low_d") * slab + self.word("low_h") * row
        plane = fn.gep(self.panel, corner, "i8")

        def together():
            with fn.loop(0, in_w, w) as j:
                mask = self.below(in_w - j) if w > 1 else None
                column = fn.gep(plane, low_w + j, self.type)
                with fn.loop(0, in_d) as d, fn.loop(0, in_h) as h:
                    here = fn.gep(x, d * x_d + h * x_h + j * self.item, "i8")
                    found = masked_load(fn, here, vector(raw, w), mask)
                    there = fn.gep(column, d * slab + h * row, "i8")
                    # zeros behind the line: there is room for a vector, and nothing else in it
                    fn.store(self.widened(fn, found), there, self.size)

        def one_by_one():
            with fn.loop(0, in_d) as d, fn.loop(0, in_h) as h:
                here = fn.gep(x, d * x_d + h * x_h, "i8")
                line = fn.gep(plane, d * slab + h * row, "i8")
                with fn.loop(0, in_w) as j:
                    column = j + low_w
                    place = (column % step) * part + column / step
                    found = self.widened(fn, fn.load(fn.gep(here, j * x_w, "i8"), raw))
                    fn.store(found, fn.gep(line, place, self.type))

        fn.if_else((x_w == self.item) & (step == 1), together, one_by_one)

    def tiles(self, lines, tile):
        """tile(first line, lines) for all lines, four at a time, then one by one."""
        fn = self.fn
        whole = (lines / LINES) * LINES
        with fn.loop(0, whole, LINES) as h:
            tile(h, LINES)
        with fn.loop(whole, lines) as h:
            tile(h, 1)


class Depthwise(_Planes):
    """Arguments: y, x, weights, bias, scratch, number of slots."""

    def __init__(self, code):
        super().__init__(code, "pppppp" + "i", packs=False)
        fn = self.fn
        self.y, x, a, bias = (self.argument(k) for k in range(1, 5))
        self.start(self.argument(5), self.argument(6, "i"))
        channels, per_chunk = self.word("c"), self.word("per_chunk")
        low = self.chunk * per_chunk
        with fn.loop(low, fn.min(low + per_chunk, self.word("planes"))) as p:
            n, c = p / channels, p % channels
            self.copy_plane(fn.gep(x, n * self.word("x_n") + c * self.word("x_c"), "i8"))
            weights = fn.gep(a, c * self.word("a_group"), "i8")

            def given():
                return fn.load(fn.gep(bias, c, self.type), self.type)

            start = fn.if_else(self.word("has_bias") != 0, given, lambda: fn.value(0, self.type))
            out = fn.gep(self.y, n * self.word("y_n") + c * self.word("y_m"), "i8")
            with fn.loop(0, self.word("phases")) as k:
                phase = self.record("phase_table", PHASE, k)
                self.lines(phase, weights, fn.splat(start, self.width), out)
        self.release()

    def lines(self, phase, weights, start, out):
        fn, w = self.fn, self.width
        out = fn.gep(out, phase["y_base"], "i8")
        taps = fn.gep(self.description, self.word("tap_table") + phase["tap_first"] * len(TAP), I64)
        y_w, y_h, y_d = (self.word(n) for n in ("y_w", "y_h", "y_d"))
        down = self.word("step_h") * self.word("row_pitch")
        with fn.loop(0, phase["out_d"]) as d:
            slab = fn.gep(self.panel, d * self.word("step_d") * self.word("slab_pitch"), "i8")

            def tile(h, count):
                first = fn.gep(slab, h * down, "i8")
                there = fn.gep(out, d * y_d + h * y_h, "i8")

                def columns(j, vectors):
                    ats = [self.within(j + v * w, phase["out_w"]) for v in range(vectors)]
                    sums = self.sums_of(phase, taps, weights, start, first, down, ats, count)
                    for v, at in enumerate(ats):
                        places = [fn.gep(there, y_h * r + at * y_w, "i8") for r in range(count)]
                        self.put(sums[v::vectors], places, phase["out_w"] - at, y_w)

                # two vectors share what a tap costs; the second may be cut
                wide, step = phase["out_w"], VECTORS * w
                pairs = (wide + (step - w - 1)) / step * step
                with fn.loop(0, pairs, step) as j:
                    columns(j, VECTORS)
                with fn.loop(pairs, wide, w) as j:
                    columns(j, 1)

            self.tiles(phase["out_h"], tile)

    def within(self, column, wide):
        """Where masks are dear, a last vector that is cut begins earlier, and comes out twice."""
        if masks_are_cheap():
            return column
        fn = self.fn
        return fn.select(wide < self.width, column, fn.min(column, wide - self.width))

    def sums_of(self, phase, taps, weights, start, first, down, columns, count):
        """sums[line][vector], in one list; columns: where vectors begin."""
        fn, w = self.fn, self.width
        lines = [
            fn.gep(fn.gep(first, down * r, "i8"), column, self.type)
            for r in range(count)
            for column in columns
        ]

        def add(values):
            tap, *sums = values
            shift = fn.load(tap, I64, 8)
            at = fn.load(fn.gep(tap, TAP.index("a"), I64), I64, 8)
            weight = fn.splat(fn.load(fn.gep(weights, at, "i8"), self.type), w)
            for k, line in enumerate(lines):
                found = fn.load(fn.gep(line, shift, "i8"), self.vector)
                sums[k] = multiply_add(fn, [sums[k]], [weight], [found])[0]
            return [fn.gep(tap, len(TAP), I64), *sums]

        return fn.carry(phase["blocks_count"], [taps, *[start] * len(lines)], add)[1:]

    def put(self, values, places, left, y_w):
        fn, w = self.fn, self.width

        def together():
            mask = self.below(left) if w > 1 else None
            for value, place in zip(values, places):
                masked_store(fn, self.narrowed(fn, value), place, mask)

        def one_by_one():
            for value, place in zip(values, places):
                fn.store(value, self.sums, self.size)
                with fn.loop(0, fn.min(left, w)) as i:
                    x = self.narrowed(fn, fn.load(fn.gep(self.sums, i, self.type), self.type))
                    fn.store(x, fn.gep(place, i * y_w, "i8"))

        fn.if_else(y_w == self.item, together, one_by_one)


class DepthwiseWeight(_Planes):
    """Arguments: the gradient of the weights, x, y (the incoming gradient), scratch, slots."""

    def __init__(self, code):
        super().__init__(code, "ppppp" + "i", packs=False)
        fn = self.fn
        out, x, self.y = (self.argument(k) for k in range(1, 4))
        self.start(self.argument(4), self.argument(5, "i"))
        phase = self.record("phase_table", PHASE, fn.value(0, I64))
        taps, count = self.word("tap_table"), self.word("tap_count")
        per_chunk = self.word("per_chunk")
        low = self.chunk * per_chunk
        with fn.loop(low, fn.min(low + per_chunk, self.word("c"))) as c:
            with fn.loop(0, count + TAPS) as t:
                fn.store(self.zero(), fn.gep(self.sums, t * self.width, self.type), self.size)
            with fn.loop(0, self.word("planes")) as n:
                self.copy_plane(fn.gep(x, n * self.word("x_n") + c * self.word("x_c"), "i8"))
                y = fn.gep(self.y, n * self.word("y_n") + c * self.word("y_m"), "i8")
                with fn.loop(0, count, TAPS) as t:
                    # the last ones may be repeated; their sums are kept apart and forgotten
                    numbers = [fn.min(t + k, count - 1) for k in range(TAPS)]
                    records = [taps + number * len(TAP) for number in numbers]
                    shifts = [fn.load(fn.gep(self.description, r, I64), I64, 8) for r in records]
                    self.add_taps(phase, y, shifts, t)
            with fn.loop(0, count) as t:
                found = fn.load(fn.gep(self.sums, t * self.width, self.type), self.vector)
                place = fn.gep(out, c * count + t, MEMORY_TYPE[code])
                fn.store(self.narrowed(fn, self.across(found)), place)
        self.release()

    def across(self, value):
        fn, w = self.fn, self.width
        while w > 1:
            w //= 2
            if w > 1:
                value = fn.shuffle(value, None, range(w)) + fn.shuffle(value, None, range(w, 2 * w))
            else:
                value = fn.extract(value, 0) + fn.extract(value, 1)
        return value

    def add_taps(self, phase, y, shifts, t):
        """All lines of one image, for some taps."""
        fn, w = self.fn, self.width
        raw = vector(MEMORY_TYPE[self.code], w)
        y_h, y_d, out_w = self.word("y_h"), self.word("y_d"), phase["out_w"]
        down, deep = self.word("row_pitch"), self.word("slab_pitch")
        down, deep = self.word("step_h") * down, self.word("step_d") * deep
        places = [fn.gep(self.sums, (t + k) * w, self.type) for k in range(TAPS)]
        totals = [[fn.var(fn.load(p, self.vector)), fn.var(self.zero())] for p in places]
        panels = [fn.gep(self.panel, shift, "i8") for shift in shifts]

        def columns(j, mask, only=None):
            """only: lanes whose products count, where all are there."""

            def tile(d, h, count):
                for r in range(count):
                    here = fn.gep(y, d * y_d + (h + r) * y_h + j * self.item, "i8")
                    g = self.widened(fn, masked_load(fn, here, raw, mask))
                    at = d * deep + (h + r) * down + j * self.size
                    for panel, total in zip(panels, totals):
                        found = masked_load(fn, fn.gep(panel, at, "i8"), self.vector, mask)
                        before = total[r].get()
                        added = multiply_add(fn, [before], [g], [found])[0]
                        total[r].set(added if only is None else fn.select(only, added, before))

            with fn.loop(0, phase["out_d"]) as d:
                whole = (phase["out_h"] / 2) * 2
                with fn.loop(0, whole, 2) as h:
                    tile(d, h, 2)
                with fn.loop(whole, phase["out_h"]) as h:
                    tile(d, h, 1)

        whole = (out_w / w) * w
        with fn.loop(0, whole, w) as j:
            columns(j, None)
        if w > 1:
            with fn.when(whole < out_w):
                cut = ~self.below(whole + w - out_w)  # lanes of the last vector that are new

                def masked():
                    columns(whole, self.below(out_w - whole))

                if masks_are_cheap():
                    masked()
                else:
                    fn.if_else(out_w < w, masked, lambda: columns(out_w - w, None, cut))
        for place, (a, b) in zip(places, totals):
            fn.store(a.get() + b.get(), place, self.size)


def build(code):
    """IR of the kernel forward and towards the input."""
    return Depthwise(code).text()


def build_weight(code):
    """IR of the kernel towards the weights."""
    return DepthwiseWeight(code).text()
