"""Padding: rows of a tensor with more elements around them.

For each dimension a map says which input an output is; -1 stands for the constant. Along rows only
the two ends have a map, the middle is copied. Elements move as integers of their size.
"""

from flambeau.codegen.llvm import masked_load, masked_store
from flambeau.codegen.loops import I64, PTR, V, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.folding import across
from flambeau.codegen.templates.sorting import Kernel


def build_pad(integer):
    """Pad up to three dimensions: (out, input, constant).

    Words: rows, rows per chunk, output depth, height, width, input depth, height, width, elements
    mapped at the left, start and length of the middle, maps of depth, height and ends.
    """
    kernel = Kernel("ppi")
    fn, (out, x, constant) = kernel.fn, kernel.arguments
    words = kernel.words(14)
    rows, per_chunk, depth, height, width, in_depth, in_height, in_width = words[:8]
    left, start, length = words[8:11]
    deep, high, ends = (fn.convert("inttoptr", word, PTR) for word in words[11:])
    w = current().vector_bytes // bytes_of(integer)
    lanes = vector(integer, w)
    constant = fn.convert("trunc", constant, integer)
    constants = fn.splat(constant, w)
    zero = V(fn, I64, "0")
    first = kernel.chunk * per_chunk
    with fn.loop(first, fn.min(first + per_chunk, rows)) as row:
        y, rest = row % height, row / height
        z, plane = rest % depth, rest / depth
        to = fn.gep(out, row * width, integer)
        source_z = fn.load(fn.gep(deep, z, I64), I64)
        source_y = fn.load(fn.gep(high, y, I64), I64)

        def fill(at, mask):
            masked_store(fn, constants, fn.gep(to, at, integer), mask)

        def copy():
            line = (plane * in_depth + source_z) * in_height + source_y
            source = fn.gep(x, line * in_width, integer)
            mapped(source, zero, left, ends)
            end = left + length
            middle, target = fn.gep(source, start, integer), fn.gep(to, left, integer)

            def move(at, mask):
                v = masked_load(fn, fn.gep(middle, at, integer), lanes, mask)
                masked_store(fn, v, fn.gep(target, at, integer), mask)

            across(fn, zero, length, w, move)
            mapped(source, end, width, fn.gep(ends, -length, I64))

        def mapped(source, low, high, map):
            with fn.loop(low, high) as at:
                index = fn.load(fn.gep(map, at, I64), I64)

                def read():
                    return fn.load(fn.gep(source, index, integer), integer)

                v = fn.if_else(index >= 0, read, lambda: constant)
                fn.store(v, fn.gep(to, at, integer))

        inside = (source_z >= 0) & (source_y >= 0)
        fn.if_else(inside, copy, lambda: across(fn, zero, width, w, fill))
    return kernel.text()
