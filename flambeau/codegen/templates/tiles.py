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
real parts and then one of imaginary parts. Sums (and packed panels) are of type `summed(code)`:
half types are widened to float32 and short integers to 32 bits by `load_parts`.

A `paired` tile is the bfloat16 form for hosts that multiply pairs (`pairs(code)`): panels keep
bfloat16, elements k and k + 1 side by side in a 32-bit word that takes the place of one element
above, and one instruction adds both products to a lane. An odd depth is padded with a zero. The
instruction takes denormals for zero. B must be packed; a strided A must have its k side by side.

accumulate(fn, tile, depth, a, b, ...) gives sums[row][vector], each a list of parts (one value, two
for complex). The code is inline: wrap it with `tile_function` for an internal function of its own,
whose epilogue is a callback: epilogue(fn, sums, columns_masks, *extra). `edge` runs a builder with
masks where columns may be missing, and without where masked access would be slow.
"""

from typing import NamedTuple

from flambeau.codegen.llvm import convert, load_element, masked_load, store_element
from flambeau.codegen.llvm_names import COMPUTE_TYPE, LLVM_TYPE, MEMORY_TYPE
from flambeau.codegen.loops import I1, I32, I64, PTR, V, bytes_of, is_float_type, vector, width_of
from flambeau.codegen.target import current

UNROLL = 4  # steps of k per turn of the loop
PIECE = 256  # products that are summed in one go in float32


class Tile(NamedTuple):
    """The shape of a register tile and how its operands are addressed."""

    code: str
    rows: int
    vectors: int
    a: str = "packed"
    b: str = "packed"
    unroll: int = UNROLL
    paired: bool = False

    @property
    def parts(self):
        return 2 if self.code[0] == "c" else 1

    @property
    def type(self):
        """The LLVM type of one part of a sum."""
        return LLVM_TYPE[summed(self.code)]

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
    def sum_item(self):
        """Bytes of a sum."""
        return bytes_of(self.type) * self.parts

    @property
    def packed_item(self):
        """Bytes of an element in a packed panel."""
        return self.item if self.paired else self.sum_item

    @property
    def grain(self):
        """Elements of k in one step."""
        return 2 if self.paired else 1

    def sums(self, fn, o, masks):
        """What a tile function computes; o: its Operands."""
        return accumulate(fn, self, o.depth, o.a, o.b, o.a_row, o.a_step, o.b_step, o.table, masks)


def summed(code):
    """The scalar type of sums; short integers wrap just as well when the sum is cut at the end."""
    return {"i8": "i32", "u8": "i32", "i16": "i32"}.get(code, COMPUTE_TYPE[code])


def lanes(code):
    """Elements per vector register."""
    return current().vector_bytes // bytes_of(LLVM_TYPE[summed(code)])


def pairs(code):
    """Can the host multiply pairs of elements of this dtype, and sum in float32?"""
    on = current().features.get
    return code == "bf16" and all(map(on, ("avx512bf16", "avx512bw", "avx512vl")))


def registers():
    """Vector registers of the host."""
    return 32 if current().vector_bytes == 64 or "aarch64" in current().triple else 16


IN_FLIGHT = 16  # rows of one vector: 8 to 10 multiplications are begun before the first ends


def tallest(code, vectors=2):
    """Rows of the tallest tile that leaves room for B's vectors and one spread element of A.

    With one vector each multiplication takes a spread element of its own: rows beyond what hides
    its latency save nothing, and every height is one more function.
    """
    parts = 2 if code[0] == "c" else 1
    most = (registers() - parts * vectors - 2 * parts) // (parts * vectors)
    return min(most, IN_FLIGHT) if vectors == 1 else most


def accumulate(fn, tile, depth, a, b, a_row=None, a_step=None, b_step=None, table=None, masks=None):
    """Sums of `depth` products: sums[row][vector] is a list of parts. See Note [Using a tile]."""
    walk = _Walk(fn, tile, a_row, a_step, b, b_step, masks)
    cursors = walk.start(a, b, table)
    if tile.code in ("f32", "c64"):
        sums = _in_pieces(fn, tile, walk, depth, cursors)
    else:
        sums, _ = walk.run(depth, cursors)
    p = tile.parts
    each = [sums[k : k + p] for k in range(0, len(sums), p)]
    return [each[k : k + tile.vectors] for k in range(0, len(each), tile.vectors)]


def _in_pieces(fn, tile, walk, depth, cursors):
    """Sums of at most PIECE products, then sums of those: long sums in float32 lose digits."""
    cells = [fn.var(c) for c in cursors]
    left, begun = fn.var(depth), fn.var(fn.value(0, I1))
    type = vector(tile.type, tile.width)
    held = fn.alloca(type, tile.rows * tile.vectors * tile.parts)
    again, more, after, next_piece, done = (
        fn.label(x) for x in ("piece", "more", "after", "next", "done")
    )
    fn.jump(again)
    fn.open(again)
    now = fn.min(left.get(), PIECE)
    sums, cursors = walk.run(now, [c.get() for c in cells])
    before = fn.block
    fn.branch(begun.get(), more, after)
    fn.open(more)
    with fn.scope():
        places = [fn.gep(held, k, type) for k in range(len(sums))]
        added = [x + fn.load(place, type) for x, place in zip(sums, places)]
    fn.jump(after)
    fn.open(after)
    sums = [
        fn.emit(f"phi {type} [{x.name}, %{before}], [{y.name}, %{more}]", type)
        for x, y in zip(sums, added)
    ]
    rest = left.get() - now
    fn.branch(rest > 0, next_piece, done)
    fn.open(next_piece)
    with fn.scope():
        for k, x in enumerate(sums):
            fn.store(x, fn.gep(held, k, type))
    for cell, cursor in zip([*cells, left, begun], [*cursors, rest, fn.value(1, I1)]):
        cell.set(cursor)
    fn.jump(again)
    fn.open(done)
    return sums


class _Walk:
    """Where the operands of a step are: cursors that move on with k."""

    def __init__(self, fn, tile, a_row, a_step, b, b_step, masks):
        self.fn, self.tile, self.a_row, self.a_step = fn, tile, a_row, a_step
        self.b, self.b_step = b, b_step
        self.masks = masks or [None] * tile.vectors
        self.word = I32 if tile.paired else tile.type

    def start(self, a, b, table):
        """The cursors before the first step: A's, then B's."""
        rows = [a]
        if self.tile.a == "strided":
            # one pointer per three rows: x86 addresses base, base + s and base + 2 s
            for _ in range(3, self.tile.rows, 3):
                rows.append(self.fn.gep(rows[-1], self.a_row * 3, "i8"))
        return [*rows, table if self.tile.b == "table" else b]

    def run(self, depth, cursors):
        """Sums of `depth` products and the cursors after them."""
        fn, tile, n = self.fn, self.tile, len(cursors)
        type = vector(tile.type, tile.width)
        half = None
        if tile.paired and tile.a == "strided":
            depth, half = depth >> 1, depth & 1
        elif tile.paired:
            depth = (depth + 1) >> 1
        zero = V(fn, type, "zeroinitializer") if tile.width > 1 else fn.value(0, type)
        values = [*cursors, *[zero] * (tile.rows * tile.vectors * tile.parts)]
        if tile.unroll > 1:
            turns = depth / tile.unroll
            values = fn.carry(turns, values, self.turn(tile.unroll, n))
            depth = depth - turns * tile.unroll
        values = fn.carry(depth, values, self.turn(1, n))
        if half is not None:
            values = fn.carry(half, values, self.turn(1, n, half=True))
        return values[n:], values[:n]

    def turn(self, steps, count, half=False):
        """The body of the loop: `steps` steps, then the cursors move.

        half: only the first element of a pair of A is there; B is padded.
        """

        def body(values):
            fn, tile = self.fn, self.tile
            (*a, b), sums = values[:count], values[count:]
            size = tile.packed_item * tile.grain
            for u in range(steps):
                columns = self.load_b(b, u)
                for r in range(tile.rows):
                    x = self.load_a(a, r, u, half)
                    for v in range(tile.vectors):
                        at = (r * tile.vectors + v) * tile.parts
                        held = sums[at : at + tile.parts]
                        if tile.paired:
                            sums[at] = add_pairs(fn, *held, *x, *columns[v])
                        else:
                            sums[at : at + tile.parts] = multiply_add(fn, held, x, columns[v])
                if tile.a == "strided" and not tile.paired:
                    a = [fn.gep(p, self.a_step, "i8") for p in a]
                if tile.b == "strided":
                    b = fn.gep(b, self.b_step, "i8")
            if tile.a == "strided" and tile.paired:
                a = [fn.gep(p, steps * size, "i8") for p in a]
            elif tile.a == "packed":
                a = [fn.gep(p, steps * tile.rows * size, "i8") for p in a]
            if tile.b == "packed":
                b = fn.gep(b, steps * tile.columns * size, "i8")
            elif tile.b == "table":
                b = fn.gep(b, steps * 4, "i8")
            return [*a, b, *sums]

        return body

    def load_a(self, cursors, r, u, half=False):
        """One element of A per part, in all lanes."""
        fn, tile = self.fn, self.tile
        if tile.a == "packed":
            at = (u * tile.rows + r) * tile.parts
            places = [fn.gep(cursors[0], at + p, self.word) for p in range(tile.parts)]
            return [fn.splat(fn.load(place, self.word), tile.width) for place in places]
        group, nth = divmod(r, 3)
        place = cursors[group] if nth == 0 else fn.gep(cursors[group], self.a_row * nth, "i8")
        if tile.paired:
            place = fn.gep(place, u * tile.item * 2, "i8")
            x = fn.load(place, "i16" if half else I32, tile.item)
            return [fn.splat(fn.convert("zext", x, I32), tile.width)]
        return load_parts(fn, place, tile.code, tile.width, "s")

    def load_b(self, cursor, u):
        """The vectors of B for one step."""
        fn, tile, w = self.fn, self.tile, self.tile.width
        if tile.b == "packed":
            type, first = vector(self.word, w), u * tile.columns * tile.parts
            return [
                [
                    fn.load(fn.gep(cursor, first + (v * tile.parts + p) * w, self.word), type)
                    for p in range(tile.parts)
                ]
                for v in range(tile.vectors)
            ]
        if tile.b == "table":
            offset = fn.load(fn.gep(cursor, u, "i32"), "i32")
            cursor = fn.gep(self.b, fn.convert("sext", offset, I64), "i8")
        return [
            load_parts(
                fn, fn.gep(cursor, v * w * tile.item, "i8"), tile.code, w, "c", None, self.masks[v]
            )
            for v in range(tile.vectors)
        ]


def load_parts(fn, place, code, width, access, stride=None, mask=None):
    """Elements of memory as a list of parts of the summed type; see llvm.load_element."""
    value = load_element(fn, place, code, width, access, stride, mask)
    if isinstance(value, tuple):
        return list(value)
    return [convert(fn, value, COMPUTE_TYPE[code], summed(code))]


def store_parts(fn, parts, place, code, width, access="c", stride=None, mask=None):
    """The converse of load_parts."""
    value = tuple(parts) if len(parts) == 2 else parts[0]
    if len(parts) == 1:
        value = convert(fn, value, summed(code), COMPUTE_TYPE[code])
    store_element(fn, value, place, code, width, access, stride, mask)


def multiply_add(fn, acc, a, b):
    """acc + a * b on lists of parts; floats round once."""
    if len(acc) == 2:
        re = _fused(fn, a[0], b[0], acc[0])
        im = _fused(fn, a[0], b[1], acc[1])
        return [_fused(fn, -a[1], b[1], re), _fused(fn, a[1], b[0], im)]
    return [_fused(fn, a[0], b[0], acc[0])]


def add_pairs(fn, acc, a, b):
    """acc + the products of both halves of 32-bit lanes, bfloat16 each."""
    w = width_of(acc.type)
    a, b = (fn.convert("bitcast", x, vector("bfloat", 2 * w)) for x in (a, b))
    return fn.call(f"llvm.x86.avx512bf16.dpbf16ps.{32 * w}", acc.type, acc, a, b)


def load_pairs(fn, place, width, mask=None):
    """`width` pairs of bfloat16 side by side, as 32-bit lanes; the mask counts elements."""
    raw = masked_load(fn, place, vector("i16", 2 * width), mask)
    return fn.convert("bitcast", raw, vector(I32, width))


def _fused(fn, a, b, c):
    if is_float_type(a.type):
        return fn.intrinsic("fma", a, b, c)
    return a * b + c


def masks_for(fn, tile, columns):
    """One mask per vector: lanes below `columns` (any number, negative too) are on."""
    w = tile.width
    return [prefix_mask(fn, w, columns - v * w) for v in range(tile.vectors)]


def prefix_mask(fn, width, count):
    """The first `count` lanes are on; count may be negative, or larger than the vector."""
    left = fn.splat(fn.convert("trunc", count, "i32"), width)
    return fn.pure(f"icmp slt {fn.iota(vector('i32', width))}, {left.name}", vector(I1, width))


def edge(fn, tile, columns, build):
    """build(masks) for a tile with `columns` columns left.

    AVX-512 masks for free, so there is one piece of code; elsewhere whole tiles get one without.
    """
    if tile.width == 1:
        build(None)
    elif current().vector_bytes == 64:
        build(masks_for(fn, tile, columns))
    else:
        fn.if_else(
            columns >= tile.columns,
            lambda: build(None),
            lambda: build(masks_for(fn, tile, columns)),
        )


class Operands(NamedTuple):
    """What every tile function takes first: values, in this order."""

    depth: V
    a: V
    a_row: V
    a_step: V
    b: V
    b_step: V
    table: V
    columns: V


PARAMETERS = tuple((PTR if x in ("a", "b", "table") else I64, x) for x in Operands._fields)


def tile_function(module, name, tile, extra, epilogue, internal=True):
    """A function around a Tile or Dots: PARAMETERS, then `extra` parameters for the epilogue.

    What an addressing mode does not use may be 0 (null). Call it with `call_tile`.
    epilogue(fn, tile, sums, masks, *extra) writes the sums somewhere.
    """
    fn = module.function(name, [*PARAMETERS, *extra], internal=internal)
    operands, rest = Operands(*fn.params[: len(PARAMETERS)]), fn.params[len(PARAMETERS) :]

    def build(masks):
        sums = tile.sums(fn, operands, masks)
        epilogue(fn, tile, sums, masks, *rest)

    edge(fn, tile, operands.columns, build)
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
