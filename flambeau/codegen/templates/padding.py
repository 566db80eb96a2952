"""Padding: rows of a tensor with more elements around them.

Up to three dimensions are padded. The mode says which input a place outside is, or that it is the
constant (-1). Of every row the middle is copied at once, the ends one by one. Elements move as
integers of their size.
"""

from flambeau.codegen.descriptions_places import Pad, PaddedSide
from flambeau.codegen.llvm import masked_load, masked_store
from flambeau.codegen.loops import I64, V, bytes_of, vector
from flambeau.codegen.target import current
from flambeau.codegen.templates.folding import across
from flambeau.codegen.templates.sorting import Kernel


def _source(fn, place, side, mode):
    """Which input the output at a place is along a side; -1 for the constant."""
    k, last, zero = place - side.low, side.size - 1, fn.value(0, place.type)
    if mode == "constant":
        return fn.select((k >= 0) & (k < side.size), k, fn.value(-1, place.type))
    if mode == "replicate":
        return fn.max(fn.min(k, last), zero)
    if mode == "reflect":
        return last - _distance(fn, last - _distance(fn, k))
    # circular: what is left after cutting, over and over; any element, if nothing is left
    start, kept = fn.min(fn.max(-side.low, zero), last), fn.max(side.kept, 1)
    rest = (k - start) % kept
    return start + fn.select(rest < 0, rest + kept, rest)


def _distance(fn, k):
    return fn.max(k, -k)


def build_pad(bits, mode):
    """Pad rows: (out, input, constant)."""
    kernel, integer = Kernel("ppi"), f"i{bits}"
    fn, (out, x, constant) = kernel.fn, kernel.arguments
    d, size = kernel.described(Pad), len(PaddedSide._fields)
    deep, high, wide = (
        PaddedSide(*[kernel.word(len(Pad._fields) + side * size + n) for n in range(size)])
        for side in range(3)
    )
    w = current().vector_bytes // bytes_of(integer)
    lanes = vector(integer, w)
    constant = fn.convert("trunc", constant, integer)
    constants = fn.splat(constant, w)
    zero = V(fn, I64, "0")
    left = fn.min(fn.max(wide.low, zero), wide.out)
    length = fn.max(wide.kept, zero)
    first = kernel.chunk * d.per_chunk
    with fn.loop(first, fn.min(first + d.per_chunk, d.rows)) as row:
        rest, y = row / high.out, row % high.out
        plane, z = rest / deep.out, rest % deep.out
        to = fn.gep(out, row * wide.out, integer)
        source_z, source_y = _source(fn, z, deep, mode), _source(fn, y, high, mode)

        def fill(at, mask):
            masked_store(fn, constants, fn.gep(to, at, integer), mask)

        def copy():
            line = (plane * deep.size + source_z) * high.size + source_y
            source = fn.gep(x, line * wide.size, integer)
            mapped(source, zero, left)
            middle = fn.gep(source, fn.max(-wide.low, zero), integer)
            target = fn.gep(to, left, integer)

            def move(at, mask):
                v = masked_load(fn, fn.gep(middle, at, integer), lanes, mask)
                masked_store(fn, v, fn.gep(target, at, integer), mask)

            across(fn, zero, length, w, move)
            mapped(source, left + length, wide.out)

        def mapped(source, low, high):
            with fn.loop(low, high) as at:
                index = _source(fn, at, wide, mode)

                def read():
                    return fn.load(fn.gep(source, index, integer), integer)

                v = fn.if_else(index >= 0, read, lambda: constant)
                fn.store(v, fn.gep(to, at, integer))

        inside = (source_z >= 0) & (source_y >= 0)
        fn.if_else(inside, copy, lambda: across(fn, zero, wide.out, w, fill))
    return kernel.text()
