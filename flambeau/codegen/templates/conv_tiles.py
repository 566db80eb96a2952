"""The register tile of convolutions, and the grid of tiles over a panel.

The left operand lies in one of two ways. "panels": strips of rows, k by k, as conv_panels.py lays
out weights; element (row, k) is k * rows + row elements after the start of its strip. "rows": each
row side by side, `a_row` bytes from one to the next. The right operand is a panel with `b_step`
bytes from k to k + 1; both may consist of words of two bfloat16, with k counting words. Sums stay
in a buffer of the compute type from one block of k to the next. (tiles.py knows the first way too,
but starts from zero and ends in an epilogue.)
"""

from flambeau.codegen.loops import I1, I32, I64, PTR, V, vector
from flambeau.codegen.templates.tiles import add_pairs, multiply_add, registers
from flambeau.codegen.templates.word_squares import SquareGrid

WIDE = 3  # vectors of a tile
PARAMETERS = (
    (I64, "depth"), (PTR, "a"), (I64, "a_row"), (PTR, "b"), (I64, "b_step"),
    (PTR, "sums"), (I64, "pitch"), (I1, "fresh"),
)  # fmt: skip


def strip_rows():
    """Rows of a strip of weights, and of the tallest tile."""
    return 8 if registers() == 32 else 4


def tile_function(module, name, type, width, rows, vectors, left, paired):
    """sums (+)= rows of a times a panel, `depth` products each, or products of pairs."""
    fn = module.function(name, PARAMETERS, internal=True)
    depth, a, a_row, b, b_step, sums, pitch, fresh = fn.params
    held = vector(type, width)
    lines = [fn.gep(a, r, type) if left == "panels" else fn.gep(a, a_row * r, "i8")
             for r in range(rows)]  # fmt: skip
    places = [
        fn.gep(fn.gep(sums, pitch * r, "i8"), v * width, type)
        for r in range(rows)
        for v in range(vectors)
    ]
    zero = V(fn, held, "zeroinitializer") if width > 1 else fn.value(0, type)
    cells = [fn.var(zero) for _ in places]
    with fn.when(fresh ^ True):
        for cell, place in zip(cells, places):
            cell.set(fn.load(place, held))
    start = [cell.get() for cell in cells]
    step_by = strip_rows() if left == "panels" else 1

    def step(values):
        k, panel, *acc = values
        cell = I32 if paired else type
        taken = vector(cell, width)
        columns = [fn.load(fn.gep(panel, v * width, cell), taken) for v in range(vectors)]
        for r in range(rows):
            x = fn.splat(fn.load(fn.gep(lines[r], k, cell), cell), width)
            for v in range(vectors):
                n = r * vectors + v
                if paired:
                    acc[n] = add_pairs(fn, acc[n], x, columns[v])
                else:
                    acc[n] = multiply_add(fn, [acc[n]], [x], [columns[v]])[0]
        return [k + step_by, fn.gep(panel, b_step, "i8"), *acc]

    _, _, *acc = fn.carry(depth, [fn.value(0, I64), b, *start], step)
    for value, place in zip(acc, places):
        fn.store(value, place)
    fn.ret()


def grid_for(patches, paired, left, covers):
    """The grid of a kernel; paired: "square" where matrix registers multiply pairs."""
    return SquareGrid(patches) if paired == "square" else Grid(patches, left, covers)


class Grid:
    """The tiles of one kernel: tall ones, and lower ones for the last rows.

    covers: may a tile be higher than there are rows? Its last sums are then garbage.
    """

    def __init__(self, patches, left, covers):
        self.p, self.left, self.covers = patches, left, covers
        self.heights = (4, 2, 1) if strip_rows() == 4 else (8, 4, 2, 1)
        self.tallest = self.heights[0]
        for rows in self.heights:
            for vectors in (2, WIDE) if rows == self.heights[0] else (WIDE,):
                name = f"tile{rows}x{vectors}"
                facts = patches.type, patches.width, rows, vectors, left, bool(patches.pairs)
                tile_function(patches.module, name, *facts)

    def begin(self):
        """What a chunk does before its first tile."""

    def end(self):
        """What it does after its last."""

    def run(
        self, rows, columns, depth, a, a_row, b, b_step, sums, pitch, fresh, keep=None, after=None
    ):
        """All tiles of rows x columns sums.

        after(first row, rows, sums, (first vector, last)) is written behind each tile: what it
        stores then goes to memory while the next tile multiplies. keep is 0 if strips may share the
        same memory for their sums, because nobody wants them later, else 1.
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

        def left_operand(first):
            if self.left == "rows":
                return fn.gep(a, first * a_row, "i8")
            tall = strip_rows()
            return fn.gep(a, (first / tall) * tall * depth + first % tall, p.type)

        def strip(first, height, rows=None):
            start = left_operand(first)
            line = fn.gep(sums, first * pitch if keep is None else first * pitch * keep, "i8")

            def call(vectors, column):
                panel = fn.gep(b, column * p.size, "i8")
                operands = [depth, start, a_row, panel, b_step]
                operands += [fn.gep(line, column * p.size, "i8"), pitch, fresh]
                text = ", ".join(map(repr, operands))
                fn.line(f"call void @tile{height}x{vectors}({text})")
                if after is not None:
                    low = column / p.width
                    there = (low, fn.min(low + vectors, count))
                    after(first, height if rows is None else rows, line, there)

            if height == self.heights[0]:
                with fn.loop(0, wide) as t:
                    call(WIDE, t * (WIDE * p.width))
                with fn.loop(0, pairs) as t:
                    call(2, wide * (WIDE * p.width) + t * (2 * p.width))
            else:
                with fn.loop(0, covering) as t:
                    call(WIDE, t * (WIDE * p.width))

        tall, *lower = self.heights
        done = (rows / tall) * tall
        with fn.loop(0, done, tall) as first:
            strip(first, tall)
        if not self.covers:
            for height in lower:
                end = done + ((rows - done) / height) * height
                with fn.loop(done, end, height) as first:
                    strip(first, height)
                done = end
            return
        # there is room for rows up to that of the tallest tile: one covers all that are left
        left = rows - done
        for height in self.heights:
            with fn.when((left > height // 2) & (left <= height)):
                strip(done, height, left)
