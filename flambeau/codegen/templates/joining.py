"""Kernels of joins: pieces side by side in rows, and the places of a triangle.

The output of a join is rows of bytes. A row holds a run of every piece, one after the other: for
cat along the first dimension there is one row, for cat along the last there are many. Everything
else that rearranges tensors is done with strided copies (eager/rearranging.py).
"""

from flambeau.codegen.descriptions_places import Join, PaddedPiece, Run, Triangle
from flambeau.codegen.llvm import masked_store
from flambeau.codegen.loops import I8, I32, I64, PTR, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.indexing import copy_bytes
from flambeau.codegen.templates.sorting import Kernel


def build_join(kind):
    """Pieces into one block: (out, places of the pieces, eight bytes that gaps are filled with).

    The words of the Join are followed by those of each piece: a Run, a Piece or a PaddedPiece.
    """
    kernel = Kernel("pbi")
    fn, (out, sources, value) = kernel.fn, kernel.arguments
    d = kernel.described(Join)
    low = kernel.chunk * d.per_chunk
    high = fn.min(low + d.per_chunk, d.total)
    first, last = low / d.row, (high + d.row - 1) / d.row
    start = fn.var(fn.value(0, I64))  # of the piece, in its row
    with fn.loop(0, d.pieces) as k:
        at, size = len(Join._fields), len(kind._fields)
        piece = kind(*[kernel.word(k * size + at + n) for n in range(size)])
        source = fn.load(fn.gep(sources, k, I64), PTR, 8)
        here = start.get()
        with fn.loop(first, last) as row:
            place = row * d.row + here
            from_ = fn.max(low, place)
            until = fn.min(high, place + piece.width)
            # from bytes of the output to those of the piece
            shift = -place if kind is Run else row * piece.step - place
            if kind is PaddedPiece:
                begin, end = piece.begin - shift, piece.end - shift
                shift = shift - piece.begin
                left = fn.max(from_, fn.min(begin, until))
                right = fn.min(until, fn.max(end, left))
                fill_bytes(fn, out, from_, left, value)
                fill_bytes(fn, out, right, until, value)
                from_, until = left, right
            with fn.when(from_ < until):
                target, there = fn.gep(out, from_, "i8"), fn.gep(source, from_ + shift, "i8")
                count = until - from_
                fn.if_else(
                    count <= SHORT,
                    lambda: _copy_short(fn, target, there, count),
                    lambda: copy_bytes(fn, target, there, count),
                )
        start.set(here + piece.width)
    return kernel.text()


SHORT = 16


def _copy_short(fn, target, source, count):
    """Copy 1 to SHORT bytes: two loads that overlap, then two stores."""
    for least, type in ((8, I64), (4, I32), (2, "i16"), (1, I8)):
        with fn.when((count >= least) & (count < 2 * least + (least == 8))):
            last = count - least
            first, second = fn.load(source, type, 1), fn.load(fn.gep(source, last, I8), type, 1)
            fn.store(first, target, 1)
            fn.store(second, fn.gep(target, last, I8), 1)


def fill_bytes(fn, out, low, high, value):
    """out[low:high] filled with eight bytes over and over."""
    w = current().vector_bytes
    words, t = fn.splat(value, w // 8), vector("i8", w)
    lanes = fn.convert("bitcast", words, t)
    whole = low + ((high - low) / w) * w
    with fn.loop(low, whole, w) as i:
        fn.store(lanes, fn.gep(out, i, "i8"), 1)
    with fn.when(whole < high):
        left = fn.splat(fn.convert("trunc", high - whole, "i8"), w)
        masked_store(fn, lanes, fn.gep(out, whole, "i8"), fn.iota(t).below(left))


def build_triangle(type):
    """Row numbers of a triangle, then its column numbers, as integers of a type: (out).

    Runs of numbers one after the other, so it is a short serial loop.
    """
    kernel = Kernel("p")
    fn, (out,) = kernel.fn, kernel.arguments
    d = kernel.described(Triangle)
    size, zero = 8 if type == I64 else 4, fn.value(0, I64)
    place = fn.var(zero)
    with fn.loop(d.first, d.rows) as row:
        edge = fn.max(fn.min(row + d.offset + d.lower, d.columns), zero)
        below = d.lower != 0
        begin, end = fn.select(below, zero, edge), fn.select(below, edge, d.columns)
        first = place.get() - begin
        with fn.loop(begin, end) as column:
            for number, at in ((row, first + column), (column, first + column + d.count)):
                number = number if type == I64 else fn.convert("trunc", number, type)
                fn.store(number, fn.gep(out, at, type), size)
        place.set(first + end)
    return kernel.text()
