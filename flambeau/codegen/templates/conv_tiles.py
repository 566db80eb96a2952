"""The register tile of convolutions: rows of weights (by a table of offsets) times a panel.

It differs from tiles.py in one thing: element (row, k) of the left operand lies at `table[k]` bytes
from the start of its row, because the weights of one tap, or of every second tap, do not lie at
equal distances. `Grid` walks the tiles of a panel; sums stay in a buffer of the compute type from
one block of k to the next.
"""

from flambeau.codegen.llvm import masked_load
from flambeau.codegen.loops import I1, I64, PTR, vector
from flambeau.codegen.templates.tiles import multiply_add

WIDE = 3  # vectors of a tile
PARAMETERS = ((I64, "depth"), (PTR, "a"), (I64, "a_row"), (PTR, "table"), (PTR, "b"))
PARAMETERS += ((I64, "b_step"), (PTR, "sums"), (I64, "pitch"), (I1, "fresh"))


def tile_function(module, name, type, width, rows, vectors):
    """sums (+)= rows of a times a panel, `depth` products each."""
    fn = module.function(name, PARAMETERS, internal=True)
    depth, a, a_row, table, b, b_step, sums, pitch, fresh = fn.params
    held = vector(type, width)
    lines = [fn.gep(a, a_row * r, "i8") for r in range(rows)]
    places = [
        fn.gep(fn.gep(sums, pitch * r, "i8"), v * width, type)
        for r in range(rows)
        for v in range(vectors)
    ]
    if width > 1:  # a load without lanes does not wait for memory
        mask = fn.splat(fresh ^ True, width)
        start = [masked_load(fn, place, held, mask) for place in places]
    else:
        start = [fn.select(fresh, fn.value(0, type), fn.load(place, held)) for place in places]

    def step(values):
        at, panel, *acc = values
        offset = fn.load(at, I64, 8)
        columns = [fn.load(fn.gep(panel, v * width, type), held) for v in range(vectors)]
        for r in range(rows):
            x = fn.splat(fn.load(fn.gep(lines[r], offset, "i8"), type), width)
            for v in range(vectors):
                k = r * vectors + v
                acc[k] = multiply_add(fn, [acc[k]], [x], [columns[v]])[0]
        return [fn.gep(at, 8, "i8"), fn.gep(panel, b_step, "i8"), *acc]

    _, _, *acc = fn.carry(depth, [table, b, *start], step)
    for value, place in zip(acc, places):
        fn.store(value, place)
    fn.ret()


class Grid:
    """The tiles of one kernel: tall ones, and lower ones for the last rows."""

    def __init__(self, patches):
        self.p = patches
        self.heights = (patches.rows, 1) if patches.rows < 8 else (8, 4, 1)
        for rows in self.heights:
            for vectors in (2, WIDE) if rows == self.heights[0] else (WIDE,):
                tile_function(
                    patches.module, f"tile{rows}x{vectors}", patches.type, patches.width, rows,
                    vectors,
                )  # fmt: skip

    def run(
        self, rows, columns, depth, a, a_row, table, b, b_step, sums, pitch, fresh,
        keep=None, after=None,
    ):  # fmt: skip
        """All tiles of rows x columns sums.

        after(first row, rows, sums) is written behind each strip of tiles. keep is 0 if strips may
        share the same memory for their sums, because nobody wants them later, else 1.
        """
        fn, p = self.p.fn, self.p
        count = (columns + p.width - 1) / p.width
        # 3 + 3 + ... + 2 + 2: no tile of one vector, whose sums would wait for each other
        whole = count / WIDE
        left = count - whole * WIDE
        lone = (left == 1) & (whole > 0)
        wide = fn.select(lone, whole - 1, whole)
        pairs = fn.select(lone, fn.value(2, I64), fn.select(left > 0, fn.value(1, I64), 0))
        covering = (count + WIDE - 1) / WIDE

        def strip(first, height):
            left_operand = fn.gep(a, first * a_row, "i8")
            line = fn.gep(sums, first * pitch if keep is None else first * pitch * keep, "i8")

            def call(vectors, column):
                there = fn.gep(b, column * p.size, "i8")
                operands = [depth, left_operand, a_row, table, there, b_step]
                operands += [fn.gep(line, column * p.size, "i8"), pitch, fresh]
                text = ", ".join(map(repr, operands))
                fn.line(f"call void @tile{height}x{vectors}({text})")

            if height == self.heights[0]:
                with fn.loop(0, wide) as t:
                    call(WIDE, t * (WIDE * p.width))
                with fn.loop(0, pairs) as t:
                    call(2, wide * (WIDE * p.width) + t * (2 * p.width))
            else:
                with fn.loop(0, covering) as t:
                    call(WIDE, t * (WIDE * p.width))
            if after is not None:
                after(first, height, line)

        done = fn.value(0, I64)
        for height in self.heights:
            end = done + ((rows - done) / height) * height
            with fn.loop(done, end, height) as first:
                strip(first, height)
            done = end
