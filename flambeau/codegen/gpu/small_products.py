"""Small products of half types on a GPU, by tensor cores: a launch costs the host a third of what a
call of a library does, and small products are waited for by nobody but the host.

A group of 8 warps makes 64 x 32 results. Warps share k: each goes through blocks of 32 that lie
8 blocks apart, straight from memory into registers, and the sums of warps are added up, in order,
through shared memory. Both operands must lie along k. Arguments are those of gemm.py.
"""

from flambeau.codegen.gpu.gemm import Element, _Gemm
from flambeau.codegen.gpu.teams import WARP
from flambeau.codegen.gpu.together import on_gpu
from flambeau.codegen.llvm import load_element
from flambeau.codegen.llvm_cpu import module_text
from flambeau.codegen.llvm_gpu import add_host_entry
from flambeau.codegen.loops import I32, I64, bytes_of, vector
from flambeau.codegen.templates.epilogue import Epilogue, _Finish

ROWS, COLUMNS, THREADS = 64, 32, 256
WARPS, DEPTH = THREADS // WARP, 32
DOWN, ACROSS = ROWS // 16, COLUMNS // 8  # tiles of an instruction
TOGETHER = 4  # warps that have room in shared memory at a time
PITCH = COLUMNS + 8  # floats from row to row there, so that threads do not meet in a bank
EACH = ROWS * COLUMNS // THREADS
RAW = vector(I32, 4)


def build_small(code, scaled, addends, activation):
    """Both texts of products of a dtype; addends: how many."""
    return _Small(code, Epilogue(scaled, "n" * addends, activation), 0).text()


class _Small(_Gemm):
    def text(self):
        fn, kernel = self.fn, self.kernel
        d = self.describe()
        self.shelf = kernel.shared("float", TOGETHER * ROWS * PITCH)
        self.sums = kernel.private("float", EACH)
        self.parts_of_warps = kernel.private("float", DOWN * ACROSS * 4)
        across = (d.n + (COLUMNS - 1)) / COLUMNS
        with fn.loop(kernel.group, across * ((d.m + (ROWS - 1)) / ROWS), kernel.groups) as item:
            self.row, self.column = (item / across) * ROWS, (item % across) * COLUMNS
            self.c, self.a, self.b = self._bases(fn.value(0, I64))
            if on_gpu():
                self._multiply_tiles()
                self._add_up()
            else:
                self._multiply_plainly()
            with kernel.threads() as thread:
                self._finish(thread)
        kernel.done()
        add_host_entry(self.module, kernel, _groups)
        return module_text(self.module)

    def place(self, thread, k):
        """Row and column, in the tile, of a result that a thread finishes."""
        at = thread + k * THREADS
        return at / COLUMNS, at % COLUMNS

    # -- tensor cores ------------------------------------------------------------------------------

    def _multiply_tiles(self):
        fn, d = self.fn, self.d
        bits = d.a_row | d.b_column
        for base in (self.a, self.b):
            bits = bits | fn.pure(f"ptrtoint {base} to i64", I64)
        with self.kernel.threads(last=True) as thread:
            sums = [fn.var(fn.value(0.0, "float")) for _ in range(DOWN * ACROSS * 4)]

            def go(is_aligned):
                def write():
                    self._walk(thread, sums, is_aligned)

                return write

            fn.if_else((bits & 15) == 0, go(True), go(False))
            for k, value in enumerate(sums):
                self.parts_of_warps.set(thread, value.get(), k)

    def _walk(self, thread, sums, is_aligned):
        """All blocks of a warp, two at a time."""
        fn, warp = self.fn, thread / WARP
        count = (self.d.k / DEPTH - warp + (WARPS - 1)) / WARPS

        def at(number):
            return (warp + number * WARPS) * DEPTH

        with fn.loop(0, count / 2) as pair:
            loaded = [self._loaded(thread, at(pair * 2 + k), is_aligned) for k in range(2)]
            for block in loaded:
                self._block(block, sums)
        with fn.when((count & 1) != 0):
            self._block(self._loaded(thread, at(count - 1), is_aligned), sums)

    def _loaded(self, thread, k, is_aligned):
        """Eight elements of each of a thread's rows of A and columns of B.

        Which of them an instruction takes for its k-th is the same for both, and all that matters.
        """
        d, lane = self.d, thread % WARP
        first, k = lane / 4, k + (lane % 4) * 8
        left = [
            self._eight(self.a, self.row + first + 8 * r, d.m, d.a_row, k, is_aligned)
            for r in range(ROWS // 8)
        ]
        right = [
            self._eight(self.b, self.column + first + 8 * c, d.n, d.b_column, k, is_aligned)
            for c in range(ACROSS)
        ]
        return left, right

    def _eight(self, base, row, size, stride, k, is_aligned):
        """Words of eight elements; rows beyond the end are the last one again."""
        fn = self.fn
        start = fn.gep(base, fn.min(row, size - 1) * stride + k * 2, "i8")
        if is_aligned:
            found = fn.load(start, RAW, 16)
        else:
            found = fn.value(0, vector("i16", 8))
            for j in range(8):
                found = fn.insert(found, fn.load(fn.gep(start, j, "i16"), "i16"), j)
            found = fn.convert("bitcast", found, RAW)
        return [fn.extract(found, j) for j in range(4)]

    def _block(self, loaded, sums):
        left, right = loaded
        for half in (0, 2):
            for r in range(DOWN):
                upper, lower = left[2 * r], left[2 * r + 1]
                a = upper[half], lower[half], upper[half + 1], lower[half + 1]
                for c in range(ACROSS):
                    at = (r * ACROSS + c) * 4
                    cells = sums[at : at + 4]
                    found = self._instruction(a, right[c][half : half + 2], cells)
                    for cell, value in zip(cells, found):
                        cell.set(value)

    def _instruction(self, a, b, cells):
        """16 x 8 sums and products of 16."""
        fn, four = self.fn, "{ float, float, float, float }"
        given = ", ".join(map(repr, (*a, *b, *[cell.get() for cell in cells])))
        text = (
            f"mma.sync.aligned.m16n8k16.row.col.f32.{self.code}.{self.code}.f32 "
            "{$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};"
        )
        kinds = "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f"
        found = fn.emit(f'call {four} asm sideeffect "{text}", "{kinds}"({given})', four)
        return [fn.emit(f"extractvalue {found}, {k}", "float") for k in range(4)]

    def _add_up(self):
        """What warps have found, a few of them at a time."""
        fn, kernel = self.fn, self.kernel
        for turn in range(WARPS // TOGETHER):
            with kernel.threads() as thread:
                warp = thread / WARP - turn * TOGETHER
                with fn.when((warp >= 0) & (warp < TOGETHER)):
                    self._put(thread, fn.gep(self.shelf, warp * (ROWS * PITCH), "float"))
            with kernel.threads() as thread:
                for k in range(EACH):
                    row, column = self.place(thread, k)
                    sum = self.sums.get(thread, k) if turn else fn.value(0.0, "float")
                    for w in range(TOGETHER):
                        at = (row + w * ROWS) * PITCH + column
                        sum = sum + fn.load(fn.gep(self.shelf, at, "float"), "float")
                    self.sums.set(thread, sum, k)

    def _put(self, thread, shelf):
        fn, lane = self.fn, thread % WARP
        for r in range(DOWN):
            for c in range(ACROSS):
                for k in range(4):
                    row = lane / 4 + (r * 16 + 8 * (k // 2))
                    at = row * PITCH + (c * 8 + k % 2) + (lane % 4) * 2
                    value = self.parts_of_warps.get(thread, (r * ACROSS + c) * 4 + k)
                    fn.store(value, fn.gep(shelf, at, "float"))

    # -- the host in place of a GPU ----------------------------------------------------------------

    def _multiply_plainly(self):
        fn, d = self.fn, self.d
        with self.kernel.threads() as thread:
            for k in range(EACH):
                row, column = self.place(thread, k)
                left = fn.gep(self.a, fn.min(self.row + row, d.m - 1) * d.a_row, "i8")
                right = fn.gep(self.b, fn.min(self.column + column, d.n - 1) * d.b_column, "i8")
                sum = fn.var(fn.value(0.0, "float"))
                with fn.loop(0, d.k) as at:
                    a, b = (
                        load_element(fn, fn.gep(p, at, "i16"), self.code, 1, "c")
                        for p in (left, right)
                    )
                    sum.set(sum.get() + a * b)
                self.sums.set(thread, sum.get(), k)

    # ----------------------------------------------------------------------------------------------

    def _finish(self, thread):
        fn, d = self.fn, self.d
        tile = Element(self.code, 1, self.type, self.item, bytes_of(self.type))
        for k in range(EACH):
            row, column = self.place(thread, k)
            row, column = self.row + row, self.column + column
            with fn.when((row < d.m) & (column < d.n)):
                place = fn.gep(self.c, row * d.c_row + column * d.c_column, "i8")
                rest = [] if self.epilogue.plain else [row, column, self.terms]
                zero = fn.value(0, I64)
                sums = [self.sums.get(thread, k)]
                _Finish(fn, tile, self.epilogue, None, place, zero, rest).put([sums], zero)


def _groups(fn, word):
    """A group per tile of results."""
    m, n = word(2), word(3)
    return ((m + (ROWS - 1)) / ROWS) * ((n + (COLUMNS - 1)) / COLUMNS)
