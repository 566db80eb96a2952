"""The register tile of matrix products: rows x vectors of sums that stay in registers.

`accumulate` writes the inner loop of every product: for each step of k it loads `vectors` vectors
of B, spreads one element of A per row over the lanes and adds the products to rows x vectors
accumulators. It does not know who packed the operands, who owns the result or what is done to it:
panels come from packing.py (or straight from memory), results go to an epilogue (epilogue.py), and
a schedule (gemm.py, convolution) walks the tiles.

Note [Using a tile]
A `Tile` says what one step looks like: `code` is the memory dtype (f32, bf16, c64, i32, ...),
`rows` and `vectors` its size in registers, `a` and `b` how the operands are addressed.

- a="packed": A is a panel of the compute type; element (r, k) lies at (k * rows + r) elements.
- a="strided": A lies as the user left it, in `code`: `a_row` bytes from row to row and `a_step`
  bytes from k to k + 1.
- b="packed": B is a strip of the compute type; column j of step k lies at k * columns + j, where
  columns = vectors * width.
- b="strided": columns side by side in `code`, `b_step` bytes from k to k + 1. Columns beyond the
  end are cut off by `masks` (one i1 vector per vector; None: whole vectors are readable).
- b="table": columns side by side in `code`, step k begins `table[k]` bytes after `b` (32-bit signed
  offsets): what an implicit matrix, as in convolutions, needs. Masks as above.

Complex numbers are pairs of accumulators: packed A holds (re, im) per element, packed B a vector of
real parts and then one of imaginary parts. Half types are widened to float32 by whoever reads
`code`, so packed panels of halves hold float32.

accumulate(fn, tile, depth, a, b, ...) gives sums[row][vector], each a list of parts (one value, two
for complex). The code is inline: wrap it with `tile_function` for an internal function of its own,
whose epilogue is a callback: epilogue(fn, sums, columns_masks, *extra). `edge` runs a builder with
masks where columns may be missing, and without where masked access would be slow.
"""

from typing import NamedTuple

from flambeau.codegen.llvm import load_element
from flambeau.codegen.llvm_cpu import host
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I64, PTR, V, bytes_of, is_float_type, vector

UNROLL = 4  # steps of k per turn of the loop


class Tile(NamedTuple):
    """The shape of a register tile and how its operands are addressed."""

    code: str
    rows: int
    vectors: int
    a: str = "packed"
    b: str = "packed"
    unroll: int = UNROLL

    @property
    def parts(self):
        return 2 if self.code[0] == "c" else 1

    @property
    def type(self):
        """The LLVM type of one part of a sum."""
        return LLVM_TYPE[COMPUTE_TYPE[self.code]]

    @property
    def width(self):
        return lanes(self.code)

    @property
    def columns(self):
        return self.vectors * self.width

    @property
    def item(self):
        """Bytes of an element in memory."""
        return bytes_of(MEMORY_TYPE[self.code]) * self.parts

    @property
    def packed_item(self):
        """Bytes of an element in a packed panel."""
        return bytes_of(self.type) * self.parts


def lanes(code):
    """Elements per vector register."""
    return host().vector_bytes // bytes_of(LLVM_TYPE[COMPUTE_TYPE[code]])


def registers():
    """Vector registers of the host."""
    return 32 if host().vector_bytes == 64 or "aarch64" in host().triple else 16


def tallest(code, vectors=2):
    """Rows of the tallest tile that leaves room for B's vectors and one spread element of A."""
    parts = 2 if code[0] == "c" else 1
    return (registers() - parts * vectors - 2 * parts) // (parts * vectors)


def accumulate(fn, tile, depth, a, b, a_row=None, a_step=None, b_step=None, table=None, masks=None):
    """Sums of `depth` products: sums[row][vector] is a list of parts. See Note [Using a tile]."""
    zero = V(fn, vector(tile.type, tile.width), "zeroinitializer")
    if tile.width == 1:
        zero = fn.value(0, tile.type)
    sums = [zero] * (tile.rows * tile.vectors * tile.parts)
    walk = _Walk(fn, tile, a_row, a_step, b, b_step, masks)
    cursors = walk.start(a, b, table)
    if tile.unroll > 1:
        turns = depth / tile.unroll
        found = fn.carry(turns, [*cursors, *sums], walk.turn(tile.unroll, len(cursors)))
        cursors, sums = found[: len(cursors)], found[len(cursors) :]
        depth = depth - turns * tile.unroll
    sums = fn.carry(depth, [*cursors, *sums], walk.turn(1, len(cursors)))[len(cursors) :]
    p = tile.parts
    each = [sums[k : k + p] for k in range(0, len(sums), p)]
    return [each[k : k + tile.vectors] for k in range(0, len(each), tile.vectors)]


class _Walk:
    """Where the operands of a step are: cursors that move on with k."""

    def __init__(self, fn, tile, a_row, a_step, b, b_step, masks):
        self.fn, self.tile, self.a_row, self.a_step = fn, tile, a_row, a_step
        self.b, self.b_step = b, b_step
        self.masks = masks or [None] * tile.vectors

    def start(self, a, b, table):
        """The cursors before the first step: A's, then B's."""
        rows = [a]
        if self.tile.a == "strided":
            # one pointer per three rows: x86 addresses base, base + s and base + 2 s
            for _ in range(3, self.tile.rows, 3):
                rows.append(self.fn.gep(rows[-1], self.a_row * 3, "i8"))
        return [*rows, table if self.tile.b == "table" else b]

    def turn(self, steps, count):
        """The body of the loop: `steps` steps, then the cursors move."""

        def body(values):
            fn, tile = self.fn, self.tile
            (*a, b), sums = values[:count], values[count:]
            for u in range(steps):
                columns = self.load_b(b, u)
                for r in range(tile.rows):
                    x = self.load_a(a, r, u)
                    for v in range(tile.vectors):
                        at = (r * tile.vectors + v) * tile.parts
                        sums[at : at + tile.parts] = multiply_add(
                            fn, sums[at : at + tile.parts], x, columns[v]
                        )
                if tile.a == "strided":
                    a = [fn.gep(p, self.a_step, "i8") for p in a]
                if tile.b == "strided":
                    b = fn.gep(b, self.b_step, "i8")
            if tile.a == "packed":
                a = [fn.gep(p, steps * tile.rows * tile.packed_item, "i8") for p in a]
            if tile.b == "packed":
                b = fn.gep(b, steps * tile.columns * tile.packed_item, "i8")
            elif tile.b == "table":
                b = fn.gep(b, steps * 4, "i8")
            return [*a, b, *sums]

        return body

    def load_a(self, cursors, r, u):
        """One element of A per part, in all lanes."""
        fn, tile = self.fn, self.tile
        if tile.a == "packed":
            at = (u * tile.rows + r) * tile.parts
            places = [fn.gep(cursors[0], at + p, tile.type) for p in range(tile.parts)]
            return [fn.splat(fn.load(place, tile.type), tile.width) for place in places]
        group, nth = divmod(r, 3)
        place = cursors[group] if nth == 0 else fn.gep(cursors[group], self.a_row * nth, "i8")
        return as_parts(load_element(fn, place, tile.code, tile.width, "s"))

    def load_b(self, cursor, u):
        """The vectors of B for one step."""
        fn, tile, w = self.fn, self.tile, self.tile.width
        if tile.b == "packed":
            type, first = vector(tile.type, w), u * tile.columns * tile.parts
            return [
                [
                    fn.load(fn.gep(cursor, first + (v * tile.parts + p) * w, tile.type), type)
                    for p in range(tile.parts)
                ]
                for v in range(tile.vectors)
            ]
        if tile.b == "table":
            offset = fn.load(fn.gep(cursor, u, "i32"), "i32")
            cursor = fn.gep(self.b, fn.convert("sext", offset, I64), "i8")
        return [
            as_parts(
                load_element(
                    fn,
                    fn.gep(cursor, v * w * tile.item, "i8"),
                    tile.code,
                    w,
                    "c",
                    mask=self.masks[v],
                )
            )
            for v in range(tile.vectors)
        ]


def as_parts(value):
    return list(value) if isinstance(value, tuple) else [value]


def multiply_add(fn, acc, a, b):
    """acc + a * b on lists of parts; floats round once."""
    if len(acc) == 2:
        re = _fused(fn, a[0], b[0], acc[0])
        im = _fused(fn, a[0], b[1], acc[1])
        return [_fused(fn, -a[1], b[1], re), _fused(fn, a[1], b[0], im)]
    return [_fused(fn, a[0], b[0], acc[0])]


def _fused(fn, a, b, c):
    if is_float_type(a.type):
        return fn.intrinsic("fma", a, b, c)
    return a * b + c


def masks_for(fn, tile, columns):
    """One mask per vector: lanes below `columns` (any number, negative too) are on."""
    w, found = tile.width, []
    for v in range(tile.vectors):
        left = fn.splat(fn.convert("trunc", columns - v * w, "i32"), w)
        lane = fn.iota(vector("i32", w))
        found.append(fn.pure(f"icmp slt {lane}, {left.name}", vector(I1, w)))
    return found


def edge(fn, tile, columns, build):
    """build(masks) for a tile with `columns` columns left.

    AVX-512 masks for free, so there is one piece of code; elsewhere whole tiles get one without.
    """
    if tile.width == 1:
        build(None)
    elif host().vector_bytes == 64:
        build(masks_for(fn, tile, columns))
    else:
        fn.if_else(
            columns >= tile.columns,
            lambda: build(None),
            lambda: build(masks_for(fn, tile, columns)),
        )


PARAMETERS = ((I64, "depth"), (PTR, "a"), (I64, "a_row"), (I64, "a_step"))
PARAMETERS += ((PTR, "b"), (I64, "b_step"), (PTR, "table"), (I64, "columns"))


def tile_function(module, name, tile, extra, epilogue, internal=True):
    """A function around a tile: PARAMETERS, then `extra` parameters for the epilogue.

    What an addressing mode does not use may be 0 (null). Call it with `call_tile`.
    epilogue(fn, tile, sums, masks, *extra) writes the sums somewhere.
    """
    fn = module.function(name, [*PARAMETERS, *extra], internal=internal)
    depth, a, a_row, a_step, b, b_step, table, columns, *rest = fn.params

    def build(masks):
        sums = accumulate(fn, tile, depth, a, b, a_row, a_step, b_step, table, masks)
        epilogue(fn, tile, sums, masks, *rest)

    edge(fn, tile, columns, build)
    fn.ret()
    return fn


def call_tile(
    fn, target, depth, a, b, columns, *extra, a_row=None, a_step=None, b_step=None, table=None
):
    """Call a tile function; target is its name, or its address as a value."""
    zero, null = V(fn, I64, "0"), V(fn, PTR, "null")
    operands = [depth, a, a_row or zero, a_step or zero, b, b_step or zero, table or null, columns]
    name = target.name if isinstance(target, V) else f"@{target}"
    fn.line(f"call void {name}({', '.join(map(repr, [*operands, *extra]))})")
