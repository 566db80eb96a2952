"""Products of bytes: unsigned activations times signed weights, summed in 32 bits.

One kernel serves linear layers and convolutions. Weights are packed when a layer is made: strips of
`vectors` vectors of columns, four steps of k side by side in each lane. Activations are read as
they lie, four bytes at a time, spread over the lanes. A step of a tile adds four products to every
lane: one instruction where the processor has `vpdpbusd`; elsewhere bytes become 16-bit pairs whose
products cannot overflow (the instruction that multiplies bytes directly saturates, and would give
other results).

Processors with matrix registers (AMX; squares.py says what these are) take 16 rows, all vectors of
a strip and 64 steps of k at a time. Strips lie as they want them; rows are gathered, since pixels
of a convolution do not lie at equal distances everywhere.

A convolution reads pictures with channels last, padded beforehand: a patch is a few runs of bytes
that lie at the same distances for every pixel. A matrix is a picture of one line.

Results: sums lose what the zero point of the input adds (it times the sum of a column's weights),
then become levels of the output (`u8`, `i8`) or numbers (`f32`). The table of a layer holds sums
of weights, multipliers and biases, padded to whole strips; `facts` the zero point and the scale of
the input, which another kernel may just have written.
"""

from flambeau.codegen.descriptions_quantized import ByteProduct
from flambeau.codegen.llvm import masked_load, masked_store
from flambeau.codegen.loops import I1, I8, I32, I64, PTR, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates import squares
from flambeau.codegen.templates.sorting import Kernel
from flambeau.codegen.templates.tiles import prefix_mask

MATRIX_ROWS = squares.SIDE  # rows of a tile in matrix registers
MATRIX_WORDS = 16  # words of a run that it takes at once
TALLEST = {1: 12, 2: 12, 3: 8, 4: 6}  # rows of a tile by its vectors, with 32 registers
SHORT = {1: 6, 2: 5, 3: 3, 4: 2}  # with 16


def lanes():
    """Sums in a vector."""
    return current().vector_bytes // 4


def heights(vectors):
    """Rows of tiles, tallest first; every number of rows is a sum of these."""
    tallest = (TALLEST if current().vector_bytes == 64 else SHORT)[vectors]
    return [
        h for h in (12, 8, 6, 5, 4, 3, 2, 1) if h <= tallest and (h == tallest or h in (1, 2, 4))
    ]


def has_dots():
    """Does the processor add products of four bytes to a lane in one instruction?"""
    on, size = current().features.get, current().vector_bytes
    return bool(on("avx512vnni") and size == 64) or bool(on("avxvnni") and size == 32)


def dot(fn, sums, activations, weights):
    """sums + four products of bytes per lane; activations unsigned, weights signed, both as i32."""
    w = lanes()
    if has_dots():
        name = f"llvm.x86.avx512.vpdpbusd.{32 * w}"
        return fn.call(name, sums.type, sums, activations, weights)
    halves = vector("i16", 2 * w)
    a, b = (fn.convert("bitcast", x, halves) for x in (activations, weights))
    eight = fn.value(8, halves)
    even = fn.pure(f"ashr {fn.pure(f'shl {b}, {eight.name}', halves)}, {eight.name}", halves)
    odd = fn.pure(f"ashr {b}, {eight.name}", halves)
    sums = sums + _pairs(fn, a & 255, even)
    return sums + _pairs(fn, a >> 8, odd)


def _pairs(fn, a, b):
    """Products of 16-bit integers, added up in pairs."""
    w = lanes()
    name = {8: "llvm.x86.avx2.pmadd.wd", 4: "llvm.x86.sse2.pmadd.wd"}.get(w)
    if name and current().features.get("avx2" if w == 8 else "sse2"):
        return fn.call(name, vector(I32, w), a, b)
    wide = vector(I32, 2 * w)
    product = fn.convert("sext", a, wide) * fn.convert("sext", b, wide)
    even, odd = (fn.shuffle(product, None, range(k, 2 * w, 2)) for k in (0, 1))
    return even + odd


class Place:
    """Where pixels lie: the offset of the next one, and how far it is to the ends."""

    def __init__(self, fn, d, first):
        self.fn, self.d = fn, d
        area = d.width * d.height
        picture, inside = first / area, first % area
        line, place = inside / d.width, inside % d.width
        self.offset = fn.var(picture * d.picture_step + line * d.line_step + place * d.pixel_step)
        self.place, self.line = fn.var(place), fn.var(line)
        self.to_line = d.line_step - d.width * d.pixel_step
        self.to_picture = d.picture_step - d.height * d.line_step

    def next(self):
        """The offset of a pixel; the one after it is next."""
        fn, d = self.fn, self.d
        found = self.offset.get()
        place = self.place.get() + 1
        ends = place == d.width
        line = fn.select(ends, self.line.get() + 1, self.line.get())
        last = line == d.height
        zero = fn.value(0, I64)
        self.place.set(fn.select(ends, zero, place))
        self.line.set(fn.select(last, zero, line))
        step = d.pixel_step + fn.select(ends, self.to_line, zero)
        self.offset.set(found + step + fn.select(last, self.to_picture, zero))
        return found


def build_product(result, vectors, matrices=False):
    """(out, activations, packed weights, table, facts) for results of a kind.

    matrices: multiply in matrix registers where there are enough rows. Behind the weights there
    must then be `MATRIX_WORDS` more lines.
    """
    kernel = Kernel("ppppb")
    fn, (out, a, weights, table, facts) = kernel.fn, kernel.arguments
    d = kernel.described(ByteProduct)
    zero = fn.splat(fn.load(facts, I32, 4), lanes())
    scale = fn.splat(fn.load(fn.gep(facts, 1, "float"), "float", 4), lanes())
    words = (d.low, d.high, d.out_zero)
    ends = (zero, scale, *[fn.splat(fn.convert("trunc", word, I32), lanes()) for word in words])
    parts = d.pixel_chunks * d.strip_chunks
    group, part = kernel.chunk / parts, kernel.chunk % parts
    columns, pixels = part % d.strip_chunks, part / d.strip_chunks
    first = pixels * d.per_chunk
    last = fn.min(first + d.per_chunk, d.pixels)
    begin = columns * d.strips_per_chunk
    runs = d.taps * d.taps_across * d.depth
    strip_bytes = runs * (vectors * current().vector_bytes)
    size = 4 if result == "f32" else 1
    if matrices:
        squares.begin(fn, "int8")
    with fn.loop(begin, fn.min(begin + d.strips_per_chunk, d.strips)) as strip:
        column = strip * (vectors * lanes())
        facts_at = fn.gep(table, group * d.padded * 3 + column, I32)
        strip_at = fn.gep(weights, (group * d.strips + strip) * strip_bytes, I8)
        goal = fn.gep(out, (first * d.out_pixel + group * d.columns + column) * size, I8)
        tile = _Tiles(fn, d, result, vectors, a, group, strip_at, facts_at, column, ends)
        tall = [MATRIX_ROWS] if matrices else []
        _walk(fn, d, tile, Place(fn, d, first), goal, last - first, size, tall)
    if matrices:
        squares.end(fn, "int8")
    return kernel.text()


def _walk(fn, d, tile, place, goal, count, size, tall):
    """All pixels of a chunk: tall tiles while there are enough rows, then lower ones."""
    done = fn.var(fn.value(0, I64))
    for height in [*tall, *heights(tile.vectors)]:
        with fn.while_(lambda height=height: done.get() + height <= count):
            offsets = [place.next() for _ in range(height)]
            at = fn.gep(goal, done.get() * d.out_pixel * size, I8)
            tile.write(offsets, at)
            done.set(done.get() + height)


class _Tiles:
    """Tiles of one strip of columns."""

    def __init__(self, fn, d, result, vectors, a, group, strip, table, column, ends):
        self.fn, self.d, self.result, self.vectors = fn, d, result, vectors
        self.a = fn.gep(a, group * d.group_step, I8)
        self.strip, self.table, self.column = strip, table, column
        self.zero, self.scale, self.low, self.high, self.out_zero = ends

    def write(self, offsets, goal):
        """Results of some pixels, one after the other in the output."""
        fn = self.fn
        rows = [fn.gep(self.a, offset, I8) for offset in offsets]
        sums = self._in_matrices(rows) if len(rows) == MATRIX_ROWS else self._sums(rows)
        left = self.d.columns - self.column
        whole = left >= self.vectors * lanes()
        fn.if_else(
            whole, lambda: self._store(sums, goal, None), lambda: self._store(sums, goal, left)
        )

    def _sums(self, rows):
        """Sums of all products: over lines of taps, taps, and words of a run."""
        fn, d = self.fn, self.d
        zero = fn.value(0, vector(I32, lanes()))
        sums = [zero] * (len(rows) * self.vectors)
        down = fn.value(0, I64)
        *sums, _, _ = fn.carry(
            d.taps, [*sums, self.strip, down], lambda held: self._line(rows, held)
        )
        return sums

    def _in_matrices(self, rows):
        """The same sums in matrix registers: one of rows, one of columns, the others of sums."""
        fn, d, step = self.fn, self.d, self.vectors * squares.LINE
        registers = squares.matrices(fn, "int8", dot)
        a, b = squares.ROWS, squares.COLUMNS
        for v in range(self.vectors):
            registers.clear(squares.SUMS + v)
        lines = fn.alloca(I32, MATRIX_ROWS * MATRIX_WORDS)
        with (
            fn.loop(0, d.taps) as down,
            fn.loop(0, d.taps_across) as across,
            fn.loop(0, d.depth, MATRIX_WORDS) as word,
        ):
            at = down * d.tap_down + across * d.tap_across + word * 4
            there = prefix_mask(fn, MATRIX_WORDS, d.depth - word)
            for r, row in enumerate(rows):
                found = masked_load(fn, fn.gep(row, at, I8), vector(I32, MATRIX_WORDS), there)
                fn.store(found, fn.gep(lines, r * MATRIX_WORDS, I32), 4)
            registers.load(a, lines, squares.LINE)
            done = (down * d.taps_across + across) * d.depth + word
            strip = fn.gep(self.strip, done * step, I8)
            for v in range(self.vectors):
                registers.load(b, fn.gep(strip, v * squares.LINE, I8), step)
                registers.multiply(squares.SUMS + v, a, b)
        held = fn.alloca(I32, MATRIX_ROWS * self.vectors * squares.SIDE)
        for v in range(self.vectors):
            registers.store(squares.SUMS + v, fn.gep(held, v * squares.SIDE, I32), step)
        return _Held(fn, held, MATRIX_ROWS * self.vectors)

    def _line(self, rows, held):
        *sums, strip, down = held
        *sums, strip, _ = self.fn.carry(
            self.d.taps_across, [*sums, strip, down], lambda more: self._run(rows, more)
        )
        return [*sums, strip, self.fn.emit(f"add {down}, {self.d.tap_down.name}", I64)]

    def _run(self, rows, held):
        *sums, strip, tap = held
        fn = self.fn
        *sums, strip, _ = fn.carry(
            self.d.depth, [*sums, strip, tap], lambda more: self._step(rows, more)
        )
        return [*sums, strip, fn.emit(f"add {tap}, {self.d.tap_across.name}", I64)]

    def _step(self, rows, held):
        *sums, strip, at = held
        fn, w, size = self.fn, lanes(), current().vector_bytes
        loaded = [
            fn.load(fn.gep(strip, v * size, I8), vector(I32, w), 1) for v in range(self.vectors)
        ]
        after = []
        for r, row in enumerate(rows):
            four = fn.splat(fn.load(fn.gep(row, at, I8), I32, 1), w)
            mine = sums[r * self.vectors : (r + 1) * self.vectors]
            after += [dot(fn, s, four, b) for s, b in zip(mine, loaded)]
        strip = fn.emit(f"getelementptr i8, {strip}, i64 {self.vectors * size}", PTR)
        return [*after, strip, fn.emit(f"add {at}, 4", I64)]

    def _store(self, sums, goal, left):
        """Results of a tile; left: how many columns there are, if not all."""
        fn, d, w = self.fn, self.d, lanes()
        rows = len(sums) // self.vectors
        for v in range(self.vectors):
            weight_sums, factor, bias = (
                fn.load(fn.gep(self.table, d.padded * k + v * w, I32), vector(type, w), 4)
                for k, type in enumerate((I32, "float", "float"))
            )
            mask = None
            if left is not None:
                rest = fn.splat(fn.convert("trunc", left - v * w, I32), w)
                mask = fn.pure(f"icmp slt {fn.iota(rest.type)}, {rest.name}", vector(I1, w))
            for r in range(rows):
                total = sums[r * self.vectors + v] - self.zero * weight_sums
                value = self._result(fn.convert("sitofp", total, factor.type), factor, bias)
                size = 4 if self.result == "f32" else 1
                at = fn.gep(goal, (d.out_pixel * r + v * w) * size, I8)
                masked_store(fn, value, at, mask)

    def _result(self, total, factor, bias):
        fn, w = self.fn, lanes()
        if self.result == "f32":
            value = fn.intrinsic("fma", total, factor * self.scale, bias)
            floor = fn.pure(f"sitofp {self.low} to {value.type}", value.type)
            return fn.select(self.low == 0, fn.max(value, floor), value)
        level = fn.intrinsic("rint", (total + bias) * factor)
        number = _whole(fn, level, w) + self.out_zero
        number = fn.max(fn.min(number, self.high), self.low)
        return fn.convert("trunc", number, vector(I8, w))


class _Held:
    """Sums in memory, loaded when they are asked for."""

    def __init__(self, fn, place, count):
        self.fn, self.place, self.count = fn, place, count

    def __len__(self):
        return self.count

    def __getitem__(self, k):
        w = lanes()
        return self.fn.load(self.fn.gep(self.place, k * w, I32), vector(I32, w), 4)


def _whole(fn, level, w):
    """A rounded float as an integer; far beyond any level it does not matter which."""
    near = fn.max(fn.min(level, fn.value(1e9, level.type)), fn.value(-1e9, level.type))
    return fn.convert("fptosi", near, vector(I32, w))
