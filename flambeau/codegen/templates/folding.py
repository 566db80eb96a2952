"""Sliding blocks: taking an image apart into columns of blocks, and adding blocks up.

Both walk rows. A row of unfold is one element of the block for all blocks in a line: a piece of an
image row, with zeros where the block hangs over the edge. A row of fold is an image row, gathered
in a buffer from all blocks that touch it, and rounded once. Chunks own rows of what they write.
"""

from flambeau.codegen.descriptions_places import FoldedBlocks, PixelLines
from flambeau.codegen.llvm import (
    gather,
    load_element,
    masked_load,
    masked_store,
    store_element,
)
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR, V, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.sorting import Kernel


class _Blocks:
    """A kernel under construction: where blocks meet an image."""

    def __init__(self, kinds):
        self.kernel = Kernel(kinds)
        self.fn = self.kernel.fn
        for name, word in self.kernel.described(FoldedBlocks)._asdict().items():
            setattr(self, name, word)

    def rows_of_chunk(self):
        first = self.kernel.chunk * self.per_chunk
        return self.fn.loop(first, self.fn.min(first + self.per_chunk, self.rows))

    def inside(self, column):
        """The blocks (first, end) of a line whose element in this column is inside the image."""
        fn, zero = self.fn, V(self.fn, I64, "0")
        shift = self.pad_wide - column * self.dilation_wide  # of block 0, to the left of the image

        def first_at(place):
            """The first block that reaches a place: division that rounds up."""
            n = fn.max(place + shift, zero)
            return fn.min((n + self.stride_wide - 1) / self.stride_wide, self.blocks_wide)

        return first_at(zero), first_at(self.width), -shift


def across(fn, low, high, width, step):
    """step(place, mask) over low .. high, whole registers first."""
    whole = low + ((high - low) / width) * width
    with fn.loop(low, whole, width) as at:
        step(at, None)
    with fn.when(whole < high):
        left = fn.splat(high - whole, width)
        step(whole, fn.pure(f"icmp slt {fn.iota(left.type)}, {left.name}", vector(I1, width)))


def build_unfold(bits):
    """Columns of blocks: (out, input), elements as integers of the same size.

    Rows are (plane, row of the block, column of the block).
    """
    b, integer = _Blocks("pp"), f"i{bits}"
    fn, (out, x) = b.fn, b.kernel.arguments
    w = current().vector_bytes // bytes_of(integer)
    lanes = vector(integer, w)
    zero = V(fn, lanes, "zeroinitializer")
    with b.rows_of_chunk() as row:
        column, rest = row % b.kernel_wide, row / b.kernel_wide
        line, plane = rest % b.kernel_high, rest / b.kernel_high
        low, high, start = b.inside(column)
        target = fn.gep(out, row * b.blocks_high * b.blocks_wide, integer)
        with fn.loop(0, b.blocks_high) as block:
            y = block * b.stride_high - b.pad_high + line * b.dilation_high
            to = fn.gep(target, block * b.blocks_wide, integer)

            def clear(at, mask):
                masked_store(fn, zero, fn.gep(to, at, integer), mask)

            def copy():
                source = fn.gep(x, (plane * b.height + y) * b.width + start, integer)
                across(fn, V(fn, I64, "0"), low, w, clear)
                fn.if_else(b.stride_wide == 1, lambda: side_by_side(source), lambda: apart(source))
                across(fn, high, b.blocks_wide, w, clear)

            def side_by_side(source):
                def step(at, mask):
                    v = masked_load(fn, fn.gep(source, at, integer), lanes, mask)
                    masked_store(fn, v, fn.gep(to, at, integer), mask)

                across(fn, low, high, w, step)

            def apart(source):
                if integer in ("i32", "i64"):

                    def step(at, mask):
                        numbers = fn.splat(at, w) + fn.iota(vector(I64, w))
                        places = numbers * fn.splat(b.stride_wide, w)
                        pointers = fn.pure(
                            f"getelementptr {integer}, {source}, {places}", vector(PTR, w)
                        )
                        v = gather(fn, pointers, integer, mask)
                        masked_store(fn, v, fn.gep(to, at, integer), mask)

                    across(fn, low, high, w, step)
                else:
                    with fn.loop(low, high) as at:
                        v = fn.load(fn.gep(source, at * b.stride_wide, integer), integer)
                        fn.store(v, fn.gep(to, at, integer))

            inside = (y >= 0) & (y < b.height)
            nothing = V(fn, I64, "0")
            fn.if_else(inside, copy, lambda: across(fn, nothing, b.blocks_wide, w, clear))
    return b.kernel.text()


def build_fold(code):
    """Sums of blocks: (out, columns, scratch). Rows are (plane, image row)."""
    b = _Blocks("ppp")
    fn, (out, x, scratch) = b.fn, b.kernel.arguments
    type = COMPUTE_TYPE[code]
    e, memory = LLVM_TYPE[type], MEMORY_TYPE[code]
    w = current().vector_bytes // bytes_of(e)
    lanes = vector(e, w)
    buffer = fn.gep(scratch, b.kernel.chunk * b.room, e)
    size = b.blocks_high * b.blocks_wide
    with b.rows_of_chunk() as row:
        y, plane = row % b.height, row / b.height
        zero = V(fn, I64, "0")

        def clear(at, mask):
            masked_store(fn, fn.value(0.0, lanes), fn.gep(buffer, at, e), mask)

        across(fn, zero, b.width, w, clear)
        with fn.loop(0, b.kernel_high) as line:
            place = y + b.pad_high - line * b.dilation_high
            block = place / b.stride_high
            met = (place >= 0) & (place % b.stride_high == 0) & (block < b.blocks_high)
            with fn.when(met), fn.loop(0, b.kernel_wide) as column:
                low, high, start = b.inside(column)
                number = (plane * b.kernel_high + line) * b.kernel_wide + column
                source = fn.gep(x, number * size + block * b.blocks_wide, memory)
                to = fn.gep(buffer, start, e)

                def side_by_side(low=low, high=high, source=source, to=to):
                    def step(at, mask):
                        v = load_element(fn, fn.gep(source, at, memory), code, w, "c", None, mask)
                        there = fn.gep(to, at, e)
                        masked_store(fn, masked_load(fn, there, lanes, mask) + v, there, mask)

                    across(fn, low, high, w, step)

                def apart(low=low, high=high, source=source, to=to):
                    with fn.loop(low, high) as at:
                        v = load_element(fn, fn.gep(source, at, memory), code, 1, "c")
                        there = fn.gep(to, at * b.stride_wide, e)
                        fn.store(fn.load(there, e) + v, there)

                fn.if_else(b.stride_wide == 1, side_by_side, apart)

        target = fn.gep(out, row * b.width, memory)

        def write(at, mask):
            v = masked_load(fn, fn.gep(buffer, at, e), lanes, mask)
            store_element(fn, v, fn.gep(target, at, memory), code, w, "c", None, mask)

        across(fn, zero, b.width, w, write)
    return b.kernel.text()


# -- shuffles of pixels ----------------------------------------------------------------------------


def build_pixels(bits, factor, apart):
    """Lines of factor² channels to lines of pixels, or (apart) back: (out, input).

    With factor 0 only run time tells it, else lines are interleaved in registers.
    """
    kernel, integer = Kernel("pp"), f"i{bits}"
    fn, (out, x) = kernel.fn, kernel.arguments
    _, lines, per_chunk, height, width, r = kernel.described(PixelLines)
    pixels, channels = (x, out) if apart else (out, x)
    first = kernel.chunk * per_chunk
    with fn.loop(first, fn.min(first + per_chunk, lines)) as line:
        i, rest = line % r, line / r
        y, plane = rest % height, rest / height
        wide = fn.gep(pixels, line * width * r, integer)
        base = fn.gep(channels, (((plane * r + i) * r) * height + y) * width, integer)

        def one(place, j):
            pair = (
                fn.gep(wide, place * r + j, integer),
                fn.gep(base, j * height * width + place, integer),
            )
            to, source = reversed(pair) if apart else pair
            fn.store(fn.load(source, integer), to)

        done = V(fn, I64, "0")
        if factor:
            w = min(16, current().vector_bytes // bytes_of(integer))
            done = (width / w) * w
            with fn.loop(0, done, w) as place:
                there = [fn.gep(base, height * width * j + place, integer) for j in range(factor)]
                here = fn.gep(wide, place * factor, integer)
                (_split if apart else _interleave)(fn, integer, w, here, there)
        with fn.loop(done, width) as place, fn.loop(0, r) as j:
            one(place, j)
    return kernel.text()


def _interleave(fn, integer, w, here, there):
    """One long line from the lanes of several, in turn."""
    count = len(there)
    joined = fn.load(there[0], vector(integer, w))
    for k, pointer in enumerate(there[1:], 1):
        more = fn.load(pointer, vector(integer, w))
        if k > 1:  # both sides of a shuffle have the same length
            more = fn.shuffle(more, None, [n if n < w else 0 for n in range(k * w)])
        joined = fn.shuffle(joined, more, range((k + 1) * w))
    fn.store(fn.shuffle(joined, None, [n % count * w + n // count for n in range(count * w)]), here)


def _split(fn, integer, w, here, there):
    """Several lines from one long line, an element each in turn."""
    count = len(there)
    joined = fn.load(here, vector(integer, count * w))
    for k, pointer in enumerate(there):
        fn.store(fn.shuffle(joined, None, range(k, count * w, count)), pointer)
