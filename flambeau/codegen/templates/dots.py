"""The tile of dot products: a few rows of A times a few columns of B, both with k side by side.

Vectors run along k, so nothing is packed or spread over lanes; what it costs is adding up the lanes
of every sum at the end. A `Dots` stands where a Tile does: in tile functions, and before an
epilogue. The other tiles, and the words they share, are in tiles.py.
"""

from typing import NamedTuple

from flambeau.codegen.loops import I64, V, vector, width_of
from flambeau.codegen.templates.tiles import (
    Tile,
    add_pairs,
    lanes,
    load_pairs,
    load_parts,
    multiply_add,
    prefix_mask,
)


class Dots(NamedTuple):
    """A tile of dot products, for operands whose k lies side by side: rows x `width` columns.

    Vectors run along k, so each of the sums is a vector until the end, where its lanes are added;
    then a row of sums is one short vector, and the tile looks to an epilogue like any other. In a
    tile function `a_row` and `b_step` are the bytes from row to row of A and from column to column
    of B.
    """

    code: str
    rows: int
    width: int
    vectors: int = 1
    paired: bool = False

    parts, type, columns, item = Tile.parts, Tile.type, Tile.columns, Tile.item  # type: ignore[misc]
    sum_item, packed_item, grain = Tile.sum_item, Tile.packed_item, Tile.grain  # type: ignore[misc]

    def sums(self, fn, o, masks):
        """What a tile function computes; o: its Operands."""
        return dot_products(fn, self, o.depth, o.a, o.b, o.a_row, o.b_step, o.columns)


def dot_products(fn, tile, depth, a, b, a_row, b_column, columns):
    """sums[row][0] of a Dots tile; columns beyond the last repeat it."""
    w, rows, wide = lanes(tile.code), tile.rows, tile.width
    long = w * tile.grain  # elements of k per step
    zero = V(fn, vector(tile.type, w), "zeroinitializer" if w > 1 else "0.0")
    xs = [fn.gep(a, a_row * r, "i8") for r in range(rows)]
    ys = [fn.gep(b, b_column * fn.min(columns - 1, c), "i8") for c in range(wide)]

    def step(k, sums, mask):
        def load(place):
            place = fn.gep(place, k, "i8")
            if tile.paired:
                return load_pairs(fn, place, w, mask)
            return load_parts(fn, place, tile.code, w, "c", None, mask)

        left, sums = [load(x) for x in xs], list(sums)
        for c, y in enumerate(ys):
            right = load(y)
            for r in range(rows):
                at = (r * wide + c) * tile.parts
                if tile.paired:
                    sums[at] = add_pairs(fn, sums[at], left[r], right)
                    continue
                sums[at : at + tile.parts] = multiply_add(
                    fn, sums[at : at + tile.parts], left[r], right
                )
        return sums

    def turn(values):
        k, *sums = values
        return [k + long * tile.item, *step(k, sums, None)]

    turns = depth / long
    k, *sums = fn.carry(turns, [fn.value(0, I64), *[zero] * (rows * wide * tile.parts)], turn)
    if w > 1:
        mask = prefix_mask(fn, long, depth - turns * long)
        sums = fn.carry(
            fn.convert("zext", turns * long < depth, I64), sums, lambda held: step(k, held, mask)
        )
    found = []
    for r in range(rows):
        of_row = [sums[(r * wide + c) * tile.parts :][: tile.parts] for c in range(wide)]
        found.append([[_across(fn, list(part)) for part in zip(*of_row)]])
    return found


def _across(fn, vectors):
    """The sums of the lanes of each vector, as one vector; their number is a power of two."""
    w, segments = width_of(vectors[0].type), 1
    while segments < w:
        size = w // segments
        low = [s * size + k for s in range(segments) for k in range(size // 2)]
        if len(vectors) > 1:  # two vectors, folded, beside each other
            low += [w + k for k in low]
            pairs = list(zip(vectors[::2], vectors[1::2]))
            segments *= 2
        else:
            pairs = [(vectors[0], None)]
            w //= 2
        high = [k + size // 2 for k in low]
        if w == 1:
            return fn.extract(vectors[0], 0) + fn.extract(vectors[0], 1)
        vectors = [fn.shuffle(a, b, low) + fn.shuffle(a, b, high) for a, b in pairs]
    return vectors[0]
