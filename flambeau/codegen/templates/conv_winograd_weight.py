"""Weight gradients of 3 x 3 convolutions, by the squares of conv_winograd.py.

The gradient of a square (2 x 2) is spread to 16 planes too; the spread weights' gradient is then,
plane by plane, patches times gradients, summed over squares. A chunk takes a share of the squares,
some channels of x and some of y, and goes through its squares block by block, which changes no sum.
`SquareGathering` adds the shares in order and gathers 16 planes to 3 x 3
weights.
"""

from flambeau.codegen.descriptions import SquareGather
from flambeau.codegen.llvm import masked_load
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.llvm_names import LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I64, PTR, Module, bytes_of, vector
from flambeau.codegen.templates import tiles
from flambeau.codegen.templates.conv_mirror import call_mirror, mirror_function
from flambeau.codegen.templates.conv_patches import Patches
from flambeau.codegen.templates.conv_tiles import Grid
from flambeau.codegen.templates.conv_winograd import RUN, Squares


def spread_square(y):
    """The gradient of 2 x 2 results as the gradient of 16 planes."""

    def line(a, b):
        return [a, a + b, a - b, -b]

    columns = [line(y[0][k], y[1][k]) for k in range(2)]
    return [x for i in range(4) for x in line(columns[0][i], columns[1][i])]


def gather_weights(s, half):
    """The gradient of 16 planes as the gradient of 3 x 3 weights; half(x) is x / 2."""

    def line(a, b, c, e):
        both = half(b + c)
        return [a + both, half(b - c), both + e]

    columns = [line(*[s[4 * i + k] for i in range(4)]) for k in range(4)]
    return [x for i in range(3) for x in line(*[columns[k][i] for k in range(4)])]


class WinogradWeight(Squares):
    """Arguments: shares, x, y (the incoming gradient), scratch, number of slots."""

    def __init__(self, code):
        super().__init__(code, "ppppp" + "i")
        self.grid = Grid(self, "rows", False)
        mirror_function(self.module, self.type, self.width)
        fn = self.fn
        self.square = fn.alloca(self.type, self.width**2)
        shares, x, y = (self.argument(k) for k in range(1, 4))
        self.claim(self.argument(4), self.argument(5, "i"))
        self.no_lines()
        parts, m_parts = self.word("pixel_parts"), self.word("m_parts")
        part, rest = self.chunk % parts, self.chunk / parts
        size, tiles = self.word("share_squares"), self.word("tiles")
        count = (tiles + size - 1) / size
        first = part * count / parts * size
        last = fn.min((part + 1) * count / parts * size, tiles)
        c_first = rest / m_parts * self.word("c_per_part")
        channels = fn.min(self.word("c_per_part"), self.word("c") - c_first)
        m_first = rest % m_parts * self.word("m_per_part")
        rows = fn.min(self.word("m_per_part"), self.word("m") - m_first)
        x = fn.gep(x, c_first * self.word("x_c"), "i8")
        y = fn.gep(y, m_first * self.word("y_m"), "i8")
        pitch = self.word("share_pitch")
        shares = fn.gep(shares, part * self.word("part_bytes") + c_first * pitch, "i8")
        shares = fn.gep(shares, m_first, self.type)
        with fn.loop(first, last, self.word("block")) as start:
            count = fn.min(self.word("block"), last - start)
            self.walk_squares(start, count)
            self.spread(x, channels)
            self.spread_gradient(y, rows)
            v_plane, s_plane = self.word("panel_plane"), self.word("sums_plane")
            share_plane = self.word("group_bytes")
            with fn.loop(0, 16) as f:
                self.grid.run(
                    channels, rows, count, fn.gep(self.panel, f * v_plane, "i8"),
                    self.panel_pitch, fn.gep(self.sums, f * s_plane, "i8"),
                    self.sums_pitch, fn.gep(shares, f * share_plane, "i8"), pitch,
                    start == first,
                )  # fmt: skip
        self.release()

    def spread_gradient(self, y, rows):
        """sums[plane][square][channel] of some channels of y."""
        fn, w = self.fn, self.width
        raw = vector(MEMORY_TYPE[self.code], w)
        y_m, y_h = self.word("y_m"), self.word("y_h")
        plane = self.word("sums_plane")
        turned = fn.gep(self.spare, 4 * w, self.type)  # two lines of pixels, channels side by side
        second = fn.gep(turned, self.word("spare_pitch"), "i8")
        with fn.loop(0, self.runs) as r:
            pos, length, _, _, _, y_base, high, wide = (
                fn.load(fn.gep(self.slot, r * len(RUN) + k, I64), I64, 8) for k in range(len(RUN))
            )
            columns = fn.min(length * 2, wide)
            with fn.loop(0, rows, w) as m:
                with fn.loop(0, length * 2, w) as j:
                    for i, line in enumerate((turned, second)):
                        left = columns - j if i == 0 else fn.select(high > 1, columns - j, 0)
                        mask = self.below(left)
                        with fn.loop(0, w) as k:
                            row = fn.min(m + k, rows - 1)
                            at = y_base + row * y_m + y_h * i + j * self.item
                            found = masked_load(fn, fn.gep(y, at, "i8"), raw, mask)
                            place = fn.gep(self.square, k * w, self.type)
                            fn.store(self.widened(fn, found), place)
                        call_mirror(fn, self.square, fn.gep(line, j * w, self.type), self.size * w)
                with fn.loop(0, length) as t:
                    square = [
                        [
                            fn.load(fn.gep(line, (t * 2 + k) * w, self.type), self.vector)
                            for k in range(2)
                        ]
                        for line in (turned, second)
                    ]
                    there = fn.gep(self.sums, (pos + t) * self.sums_pitch, "i8")
                    there = fn.gep(there, m, self.type)
                    for f, value in enumerate(spread_square(square)):
                        fn.store(value, fn.gep(there, plane * f, "i8"), self.size)


# Words of the gathering; bytes of a row of channels, of a plane and of a share.
class SquareGathering:
    """Arguments: the gradient of the weights (m, c, 3, 3), shares."""

    def __init__(self, code):
        self.module = Module()
        self.code, self.type = code, LLVM_TYPE[tiles.summed(code)]
        self.width = w = tiles.lanes(code)
        held, item = vector(self.type, w), MEMORY_TYPE[code]
        fn = self.fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        block, chunk = fn.params
        description, out, shares = (argument_word(fn, block, k, "p") for k in range(3))
        words = {
            n: fn.load(fn.gep(description, k, I64), I64, 8)
            for k, n in enumerate(SquareGather._fields)
        }
        half = fn.value(0.5, held)
        turned = fn.alloca(f"[{9 * w} x {item}]")
        low = chunk * words["c_per_chunk"]
        high = fn.min(low + words["c_per_chunk"], words["c"])
        with fn.loop(low, high) as c, fn.loop(0, words["m"], w) as m:
            first = fn.gep(fn.gep(shares, c * words["pitch"], "i8"), m, self.type)

            def add(values):
                at, *totals = values
                found = [fn.load(fn.gep(at, words["plane"] * f, "i8"), held) for f in range(16)]
                return [
                    fn.gep(at, words["part_bytes"], "i8"),
                    *[a + b for a, b in zip(totals, found)],
                ]

            start = [fn.load(fn.gep(first, words["plane"] * f, "i8"), held) for f in range(16)]
            after = fn.gep(first, words["part_bytes"], "i8")
            planes = fn.carry(words["shares"] - 1, [after, *start], add)[1:]
            for t, value in enumerate(gather_weights(planes, lambda x: x * half)):
                place = fn.gep(turned, t * w, item)
                fn.store(Patches.narrowed(self, fn, value), place, bytes_of(item))
            with fn.loop(0, fn.min(words["m"] - m, w)) as k:
                there = fn.gep(out, ((m + k) * words["c"] + c) * 9, item)
                for t in range(9):
                    value = fn.load(fn.gep(fn.gep(turned, k, item), t * w, item), item)
                    fn.store(value, fn.gep(there, t, item))
        fn.ret()
        add_entry(self.module, "ppp")

    def text(self):
        return module_text(self.module)


def build(code):
    """IR of the kernel that makes shares."""
    return WinogradWeight(code).text()


def build_gathering(code):
    """IR of the kernel that adds them."""
    return SquareGathering(code).text()
