"""3 x 3 convolutions with step 1 by Winograd's minimal filtering: 16 products instead of 36.

Four outputs that touch each other in a square depend on a patch of 4 x 4 inputs. Spread by fixed
sums and differences to 16 "planes", patch, weights and result are related by plain products, plane
by plane: result = weights * patch, summed over channels. So a convolution is 16 matrix products of
(rows x channels) by (channels x squares) between a spreading of the input and a gathering of the
result, which only add. Squares along a line of the image lie in the lanes of a vector.

The spreading has small coefficients (0, 1, -1, and 1/2 for weights), so float32 loses no more than
about two bits against the direct sum. See Lavin and Gray, "Fast Algorithms for Convolutional Neural
Networks" (2016). Weight gradients by the same idea are in conv_winograd_weight.py.
"""

from flambeau.codegen.descriptions import SquareSpread
from flambeau.codegen.llvm import gather, masked_load
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR, Module, V, vector
from flambeau.codegen.templates import tiles
from flambeau.codegen.templates.conv_patches import Patches
from flambeau.codegen.templates.conv_tiles import Grid, strip_rows
from flambeau.codegen.templates.tails import LINE, expect

RUN = "pos length base h w y_base rows columns".split()
AHEAD = 6  # channels: planes of an image lie too far apart for what the processor foresees


def spread_patch(d):
    """4 x 4 inputs to 16 planes."""

    def line(a, b, c, e):
        return [a - c, b + c, c - b, b - e]

    columns = [line(*[d[i][k] for i in range(4)]) for k in range(4)]
    return [x for i in range(4) for x in line(*[columns[k][i] for k in range(4)])]


def gather_square(s):
    """16 planes to 2 x 2 results."""

    def line(a, b, c, e):
        return [a + b + c, b - c - e]

    columns = [line(*[s[4 * i + k] for i in range(4)]) for k in range(4)]
    return [line(*[columns[k][i] for k in range(4)]) for i in range(2)]


def spread_weights(g, half):
    """3 x 3 weights to 16 planes; half(x) is x / 2."""

    def line(a, b, c):
        outer = a + c
        return [a, half(outer + b), half(outer - b), c]

    columns = [line(*[g[i][k] for i in range(3)]) for k in range(3)]
    return [x for i in range(4) for x in line(*[columns[k][i] for k in range(3)])]


class Squares(Patches):
    """Blocks of squares (2 x 2 results) as runs along lines, and the spreading of patches."""

    def __init__(self, code, kinds):
        super().__init__(code, kinds, packs=False)
        self.spread_function()

    def walk_squares(self, first, count):
        """Runs of squares; unlike runs of pixels they start where the image's lines start."""
        fn = self.fn
        wide, high = self.word("tiles_w"), self.word("tiles_h")
        line = first / wide
        column, row, n = fn.var(first % wide), fn.var(line % high), fn.var(line / high)
        done, runs = fn.var(V(fn, I64, "0")), fn.var(V(fn, I64, "0"))
        x_n, y_n, y_h = self.word("x_n"), self.word("y_n"), self.word("y_h")
        pad_h, pad_w = self.word("pad_h"), self.word("pad_w")
        out_h, out_w = self.word("out_h"), self.word("out_w")
        with fn.while_(lambda: done.get() < count):
            pos, w, h = done.get(), column.get() * 2, row.get() * 2
            length = fn.min(wide - column.get(), count - pos)
            run = fn.gep(self.slot, runs.get() * len(RUN), I64)
            y_base = n.get() * y_n + h * y_h + w * self.item
            facts = [pos, length, n.get() * x_n, h - pad_h, w - pad_w, y_base, out_h - h, out_w - w]
            for k, value in enumerate(facts):
                fn.store(value, fn.gep(run, k, I64), 8)
            done.set(pos + length)
            runs.set(runs.get() + 1)
            column.set(0)
            row.set(row.get() + 1)
            with fn.when(row.get() == high):
                row.set(0)
                n.set(n.get() + 1)
        self.runs = runs.get()

    def no_lines(self):
        """Zeros that stand in for lines of padding."""
        fn = self.fn
        self.spare = fn.gep(self.slot, self.word("at_spare"), "i8")
        for k in range(4):
            zero = (
                V(fn, self.vector, "zeroinitializer") if self.width > 1 else fn.value(0, self.type)
            )
            fn.store(zero, fn.gep(self.spare, k * self.width, self.type), self.size)

    def spread(self, x, channels):
        fn = self.fn
        operands = [self.description, x, self.slot, self.runs, channels, self.panel]
        operands += [self.panel_pitch, self.word("panel_plane"), self.spare]
        fn.line(f"call void @spread({', '.join(map(repr, operands))})")

    def spread_function(self):
        names = ((PTR, "description"), (PTR, "x"), (PTR, "runs"), (I64, "run_count"))
        names += ((I64, "channels"), (PTR, "panel"), (I64, "pitch"), (I64, "plane"))
        names += ((PTR, "zeros"),)
        fn, w = self.module.function("spread", names, internal=True), self.width
        description, x, runs, run_count, channels, panel, pitch, plane, zeros = fn.params
        x_c, x_h, in_h, in_w = (
            self.word(n, fn, description) for n in ("x_c", "x_h", "in_h", "in_w")
        )
        raw, none = vector(MEMORY_TYPE[self.code], w), V(fn, I64, "0")
        lane = fn.iota(vector(I64, w))
        with fn.loop(0, run_count) as r:
            pos, length, base, h, first = (
                fn.load(fn.gep(runs, r * len(RUN) + k, I64), I64, 8) for k in range(5)
            )
            with fn.loop(0, length, w) as j:
                column = first + j * 2
                masks = []
                # a vector of squares sees two vectors of columns, and the same two columns later
                for shift in (0, w, 2, w + 2):
                    low, high = 0 - column - shift, in_w - column - shift
                    masks.append((lane >= fn.splat(low, w)) & (lane < fn.splat(high, w)))
                lines = []
                for i in range(4):
                    inside = (h + i).below(in_h)
                    here = fn.gep(x, base + (h + i) * x_h + column * self.item, "i8")
                    lines.append((fn.select(inside, here, zeros), fn.select(inside, x_c, none)))
                target = fn.gep(panel, pos + j, self.type)
                with fn.loop(0, channels) as c:
                    patch = []
                    for here, step in lines:
                        place = fn.gep(here, c * step, "i8")
                        expect(fn, fn.gep(place, step * AHEAD, "i8"), 2 * w * self.item // LINE)
                        found = [
                            self.widened(
                                fn,
                                masked_load(fn, fn.gep(place, s * self.item, "i8"), raw, mask),
                            )
                            for s, mask in zip((0, w, 2, w + 2), masks)
                        ]
                        patch.append(
                            [
                                fn.shuffle(found[k], found[k + 1], range(odd, 2 * w, 2))
                                for k in (0, 2)
                                for odd in (0, 1)
                            ]
                        )
                    there = fn.gep(target, c * pitch, "i8")
                    for f, value in enumerate(spread_patch(patch)):
                        fn.store(value, fn.gep(there, plane * f, "i8"), self.size)
        fn.ret()


class Winograd(Squares):
    """Arguments: y, x, spread weights, bias, scratch, number of slots.

    A chunk spreads a block of squares and multiplies some rows by it. Where that would spread most
    blocks several times, because there are more threads than blocks, planes are shared: chunks of
    channels spread all squares, then chunks of planes multiply, then chunks of rows gather. Sums
    are the same: each goes through all channels in order.
    """

    ends = ("spread_end", "product_end")

    def __init__(self, code, tail=None):
        super().__init__(code, "pppppp" + "i" + (tail.kinds if tail else ""))
        self.tail = tail
        self.grid = Grid(self, "panels", False)
        self.finish_function()
        self.y, self.x, self.a, self.bias = (self.argument(k) for k in range(1, 5))
        self.a_row, self.a_plane = self.word("a_m"), self.word("a_plane")
        self.v_plane, self.s_plane = self.word("panel_plane"), self.word("sums_plane")
        self.fn.if_else(self.word("product_end") != 0, self.shared, self.fused)

    def fused(self):
        fn = self.fn
        self.claim(self.argument(5), self.argument(6, "i"))
        self.no_lines()
        m_parts, per_part = self.word("m_parts"), self.word("m_per_part")
        block, part = self.chunk / m_parts, self.chunk % m_parts
        squares, blocks = self.word("tiles"), self.word("pixel_parts")
        vectors = (squares + self.width - 1) / self.width
        first = block * vectors / blocks * self.width
        last = (block + 1) * vectors / blocks * self.width
        count = fn.min(last, squares) - first
        self.walk_squares(first, count)
        self.spread(self.x, self.word("c"))
        low = part * per_part
        high = fn.min(low + per_part, self.word("m"))
        with fn.loop(low, high, self.word("m_block")) as m:
            rows = fn.min(self.word("m_block"), high - m)
            with fn.loop(0, 16) as f:
                self.multiply(f, m, rows, count, fn.value(0, I64))
            self.finish(m, rows, fn.value(0, I64))
        self.release()

    def multiply(self, f, m, rows, count, first):
        """Some rows of plane f; first: the row of sums they begin at."""
        fn = self.fn
        sums = fn.gep(self.sums, f * self.s_plane + first * self.sums_pitch, "i8")
        self.grid.run(
            rows, count, self.word("c"), fn.gep(self.a, f * self.a_plane + m * self.a_row, "i8"),
            self.a_row, fn.gep(self.panel, f * self.v_plane, "i8"), self.panel_pitch, sums,
            self.sums_pitch, V(fn, I1, "true"),
        )  # fmt: skip

    def finish(self, m, rows, first):
        fn, y_m = self.fn, self.word("y_m")
        sums = fn.gep(self.sums, first * self.sums_pitch, "i8")
        operands = [self.slot, self.runs, rows, sums, self.sums_pitch, self.s_plane]
        operands += [fn.gep(self.y, m * y_m, "i8"), self.word("y_h"), y_m]
        operands += [fn.gep(self.bias, m, self.type), self.word("has_bias"), self.block]
        fn.line(f"call void @finish({', '.join(map(repr, operands))})")

    def shared(self):
        fn, squares = self.fn, self.word("tiles")
        scratch = self.argument(5)
        spread_end, product_end = self.word("spread_end"), self.word("product_end")
        self.claim(fn.gep(scratch, self.word("slots_at"), "i8"), self.argument(6, "i"))
        panel = self.panel = fn.gep(scratch, self.word("at_panel"), "i8")
        self.sums = fn.gep(scratch, self.word("at_sums"), "i8")

        def begin():
            self.no_lines()
            self.walk_squares(fn.value(0, I64), squares)

        def share(total, nth, count):
            low = total * nth / count
            return low, total * (nth + 1) / count - low

        def spread():
            begin()
            first, count = share(self.word("c"), self.chunk, spread_end)
            self.panel = fn.gep(panel, first * self.panel_pitch, "i8")
            self.spread(fn.gep(self.x, first * self.word("x_c"), "i8"), count)
            self.panel = panel

        def multiply():
            nth, m_parts = self.chunk - spread_end, self.word("m_parts")
            low = nth % m_parts * self.word("m_per_part")
            rows = fn.min(self.word("m_per_part"), self.word("m") - low)
            self.multiply(nth / m_parts, low, rows, squares, low)

        def gather():
            begin()
            count = self.word("chunks") - product_end
            low, rows = share(self.word("m"), self.chunk - product_end, count)
            self.finish(low, rows, low)

        fn.if_else(
            self.chunk < spread_end,
            spread,
            lambda: fn.if_else(self.chunk < product_end, multiply, gather),
        )
        self.release()

    def finish_function(self):
        """16 planes of sums to lines of results."""
        names = ((PTR, "runs"), (I64, "run_count"), (I64, "rows"), (PTR, "sums"), (I64, "pitch"))
        names += ((I64, "plane"), (PTR, "y"), (I64, "y_h"), (I64, "y_m"), (PTR, "bias"))
        names += ((I64, "has_bias"), (PTR, "block"))
        fn, w = self.module.function("finish", names, internal=True), self.width
        runs, run_count, rows, sums, pitch, plane, y, y_h, y_m, bias, biased, block = fn.params
        with fn.loop(0, run_count) as r:
            pos, length, _, _, _, y_base, high, wide = (
                fn.load(fn.gep(runs, r * len(RUN) + k, I64), I64, 8) for k in range(len(RUN))
            )
            with fn.loop(0, length, w) as j:
                left = fn.min(length * 2, wide) - j * 2
                masks = [self.below(left - k * w, fn) for k in (0, 1)]
                both = high > 1
                here = fn.gep(sums, pos + j, self.type)
                there = fn.gep(y, y_base + j * (2 * self.item), "i8")
                with fn.loop(0, rows) as m:

                    def given():
                        return fn.load(fn.gep(bias, m, self.type), self.type)

                    b = fn.if_else(biased != 0, given, lambda: fn.value(0, self.type))
                    b = fn.splat(b, w)
                    for i in range(2):
                        soon = fn.gep(there, (m + AHEAD) * y_m + y_h * i, "i8")
                        self.expect_put(fn, block, soon, 2 * w * self.item // LINE)
                    line = fn.gep(here, m * pitch, "i8")
                    planes = [
                        fn.load(fn.gep(line, plane * f, "i8"), self.vector) for f in range(16)
                    ]
                    square = gather_square(planes)

                    def put(i):
                        even, odd = (self.narrowed(fn, v + b) for v in square[i])
                        place = fn.gep(there, m * y_m + y_h * i, "i8")
                        for k, mask in enumerate(masks):
                            lanes = [(k * w + n) // 2 + (n % 2) * w for n in range(w)]
                            value = fn.shuffle(even, odd, lanes)
                            here = fn.gep(place, k * w * self.item, "i8")
                            self.put(fn, block, value, here, mask)

                    put(0)
                    with fn.when(both):
                        put(1)
        fn.ret()


# Words of the spreading of weights; strides in bytes. A flipped kernel has a negative tap.
class WeightSpread:
    """Arguments: strips of spread weights, weights (both of the summed type).

    A chunk is a vector of rows: some strips, or part of one.
    """

    def __init__(self, code):
        self.module = Module()
        self.code, self.type = code, LLVM_TYPE[tiles.summed(code)]
        self.width = w = tiles.lanes(code)
        fn = self.fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        block, chunk = fn.params
        description, out, weights = (argument_word(fn, block, k, "p") for k in range(3))
        words = {
            n: fn.load(fn.gep(description, k, I64), I64, 8)
            for k, n in enumerate(SquareSpread._fields)
        }
        half = fn.value(0.5, vector(self.type, w))
        tall, depth = strip_rows(), words["depth"]
        first = chunk * w
        mask = Patches.below(self, words["rows"] - first)
        weights = fn.gep(weights, words["first"] + first * words["row"], "i8")
        lanes = fn.iota(vector(I64, w)) * fn.splat(words["row"], w)
        out = fn.gep(out, (first / tall) * tall * depth + first % tall, self.type)
        with fn.loop(0, depth) as k:
            here = fn.gep(weights, k * words["step"], "i8")
            pointers = fn.pure(f"getelementptr i8, {here}, {lanes}", vector(PTR, w))
            g = []
            for t in range(9):
                shift = fn.splat(words["tap"] * t, w)
                at = fn.pure(f"getelementptr i8, {pointers}, {shift}", vector(PTR, w))
                g.append(gather(fn, at, self.type, mask))
            for f, value in enumerate(spread_weights([g[0:3], g[3:6], g[6:9]], lambda x: x * half)):
                there = fn.gep(fn.gep(out, words["plane"] * f, "i8"), k * tall, self.type)
                for s in range(max(1, w // tall)):
                    part = fn.shuffle(value, None, range(s * tall, min(w, (s + 1) * tall)))
                    fn.store(part, fn.gep(there, depth * (s * tall), self.type))
        fn.ret()
        add_entry(self.module, "ppp")

    def text(self):
        return module_text(self.module)


def build(code, tail=None):
    """IR of the convolution; tail: of tails.py."""
    return Winograd(code, tail).text()


def build_spread(code):
    """IR of the spreading of weights."""
    return WeightSpread(code).text()
