"""Matrix registers (AMX) on words where they lie: the tile of convolutions and attention.

Both operands consist of words of two bfloat16, k and k + 1. A has its rows side by side, `a_row`
bytes from one to the next, B its lines of columns, `b_step` bytes from a word of k to the next:
that is how a matrix register reads them, so nothing is packed for it (squares.py, the tile of
products, has panels of its own). Sums stay in memory from one block of k to the next.

A register holds 16 rows, 16 words or 16 columns. Words beyond the last whole sixteen are copied
beside zeros; rows of sums beyond the last are not touched; columns are filled up to sixteen, for
which there must be room. Rows of A may be read up to the next multiple of sixteen.
"""

from flambeau.codegen.llvm import masked_load
from flambeau.codegen.loops import I1, I8, I32, I64, PTR, vector
from flambeau.codegen.templates.squares import (
    COLUMNS,
    LINE,
    ROWS,
    SIDE,
    SUMS,
    add_words,
    begin,
    end,
    matrices,
)
from flambeau.codegen.templates.tiles import prefix_mask

PARAMETERS = (
    (I64, "depth"), (PTR, "a"), (I64, "a_row"), (PTR, "b"), (I64, "b_step"),
    (PTR, "sums"), (I64, "pitch"), (I1, "fresh"), (I64, "rows"),
)  # fmt: skip
WORDS = vector(I32, SIDE)


def square_function(module, name, down, across):
    """sums (+)= rows of a times lines of b, up to 16 * down rows and 16 * across columns."""
    fn = module.function(name, PARAMETERS, internal=True)
    _Square(fn, down, across).write()
    fn.ret()


class _Square:
    def __init__(self, fn, down, across):
        self.fn, self.down, self.across = fn, down, across
        self.depth, self.a, self.a_row, self.b, self.b_step, *self.target = fn.params
        self.registers = matrices(fn, "bf16", add_words)

    def write(self):
        fn, across = self.fn, self.across
        sums, pitch, fresh, rows = self.target
        held = fn.alloca(I32, self.down * SIDE * across * SIDE)
        cut = rows < self.down * SIDE
        place = fn.select(cut, held, sums)
        step = fn.select(cut, fn.value(across * LINE, I64), pitch)

        def clear():
            for i, j in self.all():
                self.registers.clear(SUMS + 2 * i + j)

        def load():
            with fn.when(cut):
                self.copy_sums(sums, pitch, held, across * LINE, rows)
            for i, j in self.all():
                at = fn.gep(place, step * (i * SIDE) + j * LINE, I8)
                self.registers.load(SUMS + 2 * i + j, at, step)

        fn.if_else(fresh, clear, load)
        self.multiply()
        for i, j in self.all():
            at = fn.gep(place, step * (i * SIDE) + j * LINE, I8)
            self.registers.store(SUMS + 2 * i + j, at, step)
        with fn.when(cut):
            self.copy_sums(held, across * LINE, sums, pitch, rows)

    def all(self):
        return [(i, j) for i in range(self.down) for j in range(self.across)]

    def copy_sums(self, source, by, target, to, rows):
        fn = self.fn
        with fn.loop(0, rows) as r:
            for j in range(self.across):
                found = fn.load(fn.gep(source, r * by + j * LINE, I8), WORDS, 4)
                fn.store(found, fn.gep(target, r * to + j * LINE, I8), 4)

    def multiply(self):
        """Sixteen words of k at a time."""
        fn = self.fn

        def step(cursors):
            a, b = cursors
            self.step(a, self.a_row, b, self.b_step)
            return [fn.gep(a, LINE, I8), fn.gep(b, self.b_step * SIDE, I8)]

        a, b = fn.carry(self.depth / SIDE, [self.a, self.b], step)
        left = self.depth & (SIDE - 1)
        with fn.when(left > 0):
            self.last(a, b, left)

    def step(self, a, a_row, b, b_step):
        registers, fn = self.registers, self.fn
        for j in range(self.across):
            registers.load(COLUMNS + j, fn.gep(b, j * LINE, I8), b_step)
        for i in range(self.down):
            registers.load(ROWS + i, fn.gep(a, a_row * (i * SIDE), I8), a_row)
            for j in range(self.across):
                registers.multiply(SUMS + 2 * i + j, ROWS + i, COLUMNS + j)

    def last(self, a, b, left):
        """Fewer than sixteen words of k, copied beside zeros: nan and infinity are not for all."""
        fn, mask = self.fn, prefix_mask(self.fn, SIDE, left)
        rows = fn.alloca(I32, self.down * SIDE * SIDE)
        lines = fn.alloca(I32, SIDE * self.across * SIDE)
        with fn.loop(0, self.down * SIDE) as r:
            found = masked_load(fn, fn.gep(a, r * self.a_row, I8), WORDS, mask)
            fn.store(found, fn.gep(rows, r * SIDE, I32), 4)
        zero = fn.value(0, WORDS)
        for j in range(self.across):
            with fn.loop(0, left) as k:
                found = fn.load(fn.gep(b, k * self.b_step + j * LINE, I8), WORDS, 4)
                fn.store(found, fn.gep(lines, k * (self.across * SIDE) + j * SIDE, I32), 4)
            with fn.loop(left, SIDE) as k:
                fn.store(zero, fn.gep(lines, k * (self.across * SIDE) + j * SIDE, I32), 4)
        line = fn.value(LINE, I64)
        self.step(rows, line, lines, line * self.across)


class SquareGrid:
    """All tiles over a panel, as conv_tiles.Grid has them, in matrix registers."""

    tallest = 2 * SIDE

    def __init__(self, patches):
        self.p = patches
        for down in (1, 2):
            for across in (1, 2):
                square_function(patches.module, f"square{down}x{across}", down, across)

    def begin(self):
        begin(self.p.fn)

    def end(self):
        end(self.p.fn)

    def run(
        self, rows, columns, depth, a, a_row, b, b_step, sums, pitch, fresh, keep=None, after=None
    ):
        """As Grid.run says."""
        fn, size = self.p.fn, self.p.size
        count = (columns + (SIDE - 1)) / SIDE

        def strip(first, height, down):
            start = fn.gep(a, first * a_row, I8)
            line = fn.gep(sums, first * pitch if keep is None else first * pitch * keep, I8)

            def call(across, vector):
                at = vector * (SIDE * size)
                operands = [depth, start, fn.value(a_row, I64), fn.gep(b, at, I8), b_step]
                operands += [fn.gep(line, at, I8), pitch, fresh, fn.value(height, I64)]
                text = ", ".join(map(repr, operands))
                fn.line(f"call void @square{down}x{across}({text})")
                if after is not None:
                    after(first, height, line, (vector, fn.min(vector + across, count)))

            with fn.loop(0, count / 2) as pair:
                call(2, pair * 2)
            with fn.when((count & 1) != 0):
                call(1, count - 1)

        tall = self.tallest
        done = rows / tall * tall
        with fn.loop(0, done, tall) as first:
            strip(first, tall, 2)
        left = rows - done
        with fn.when(left > SIDE):
            strip(done, left, 2)
        with fn.when((left > 0) & (left <= SIDE)):
            strip(done, left, 1)
