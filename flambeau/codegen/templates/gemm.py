"""The schedule of matrix products: C = epilogue(A @ B), batched, in panels, strips and chunks.

Rows are cut into panels of nearly equal height (two heights, hence two tile functions, whose
addresses are words of the description) and columns into strips as wide as a tile. Seven ways to
feed the tiles (tiles.py, dots.py), all with the same loops around them:

- direct: A and B straight from memory, for small products and few rows (columns of B side by side);
- dots: the same with tiles of dot products, for few results from operands with k side by side;
- columns: each item of work packs its columns of B first, for small products with other strides;
- panels: the same, and packs its rows of A before, for small products in pairs (`paired` tiles);
- rows: each item packs its rows of A, and reads B straight from memory, once, a few lines of k
  after the other along all its columns, as memory likes to be read: for few rows;
- blocked: chunks that pack all of B come first; when they are done, chunks of rows go through k
  block by block, pack their rows of A and multiply. For everything large. Where A is not very large
  it is packed by the first chunks as well, so that work can be cut by rows and columns;
- straight: the same with rows of A as they lie, which matrix registers can load.

Columns that are multiplied many times over (weights of a compiled program) may be packed once and
for all: `build_keeping` does it, and a product that is built as `kept` reads them from there in
place of packing them. Its sums are the same.

Scratch comes from the launcher in `slots`: a chunk takes a free one and gives it back, so there are
never more than threads at work. What a chunk computes depends on sizes only.
"""

from flambeau.codegen.descriptions import Product
from flambeau.codegen.llvm_cpu import add_entry, argument_word, module_text
from flambeau.codegen.loops import I64, PTR, Module
from flambeau.codegen.templates import epilogue as ending
from flambeau.codegen.templates import slots, squares
from flambeau.codegen.templates.dots import Dots
from flambeau.codegen.templates.packing import call_pack, pack_columns, pack_rows
from flambeau.codegen.templates.tiles import Tile, call_tile, tallest, tile_function

WORDS = Product._fields
IN_BLOCKS = ("blocked", "straight")
WAITING = (*IN_BLOCKS, "rows")  # whose sums wait for the next block of k
HEADER = len(WORDS)


def tile_for(mode, code, rows, vectors, paired):
    """The tile a mode works with; dots count columns where the others count vectors.

    paired: multiply pairs, which the host must be able to; all modes but direct can. As "square":
    multiply matrices of them, where both operands are packed.
    """
    if paired == "square":
        return squares.Square(code, rows, a="strided" if mode == "straight" else "packed")
    if mode == "dots":
        return Dots(code, rows, vectors, paired=paired)
    a = "packed" if mode in ("panels", "rows", "blocked") else "strided"
    b = "strided" if mode in ("direct", "rows") else "packed"
    return Tile(code, rows, vectors, a, b, 2 if a == "strided" else 4, paired)


def build_tile(rows, mode, code, vectors, paired, *ends):
    """IR of one tile function, named `tile`; ends: the fields of an Epilogue."""
    module, blocked, epilogue = Module(), mode in WAITING, ending.Epilogue(*ends)
    tile_function(
        module,
        "tile",
        tile_for(mode, code, rows, vectors, paired),
        ending.parameters(epilogue, blocked),
        ending.writer(epilogue, blocked),
        internal=False,
    )
    return module_text(module)


class _Gemm:
    def __init__(self, mode, code, vectors, paired, epilogue, batch, kept=False):
        self.mode, self.code, self.epilogue, self.batch = mode, code, epilogue, batch
        self.module, self.kept = Module(), kept
        self.square = paired == "square"
        self.in_blocks = mode in IN_BLOCKS
        self.packs = mode in ("panels", "rows", *IN_BLOCKS) or (mode == "columns" and not kept)
        self.tile = tile = tile_for(mode, code, 1, vectors, paired)
        self.item, self.packed_item, self.sum_item = tile.item, tile.packed_item, tile.sum_item
        self.strip = tile.columns
        if self.packs and not kept and mode != "rows":
            pack_columns(self.module, code, tile.columns, tile.paired, tile.grain)
        if mode == "straight":
            pass
        elif paired == "square":
            squares.pack_rows(self.module)
        elif mode in ("panels", "rows", "blocked"):
            pack_rows(self.module, code, tallest(code, vectors), tile.paired)
        self.fn = self.module.function("body", [(PTR, "block"), (I64, "chunk")], internal=True)
        self.kinds = "pppppi" + epilogue.kinds(code)

    def word(self, k):
        return self.fn.load(self.fn.gep(self.description, k, I64), I64, 8)

    def text(self):
        fn = self.fn
        self.block, chunk = fn.params
        names = ("description", "c", "a", "b", "scratch")
        for k, name in enumerate(names):
            setattr(self, name, argument_word(fn, self.block, k, "p"))
        self.slots = argument_word(fn, self.block, 5, "i")
        for k, name in enumerate(WORDS):
            setattr(self, name, self.word(k))
        self.terms = fn.alloca(I64, max(1, self.epilogue.words(self.code)), 8)
        if self.in_blocks and not self.kept:
            fn.if_else(
                chunk < self.pack_chunks,
                lambda: self.pack_shared(chunk),
                lambda: self.compute(chunk - self.pack_chunks),
            )
        else:
            self.compute(chunk)
        fn.ret()
        packs = self.in_blocks and not self.kept
        ends = (WORDS.index("pack_chunks"),) if packs else ()
        add_entry(self.module, self.kinds, spare=1, ends=ends)
        return module_text(self.module)

    # -- work items ------------------------------------------------------------------------------
    def compute(self, chunk):
        """All items of a chunk, with a slot of scratch if one is needed."""
        fn = self.fn
        slot, count = None, self.chunks - self.pack_chunks
        if self.packs:
            slot = slots.take(fn, self.spare(), self.slots, chunk, count)
        room = slot and fn.gep(self.scratch, self.slots_at + slot * self.slot_bytes, "i8")
        first = chunk * self.per_chunk
        if self.square:
            squares.begin(fn)
        with fn.loop(first, fn.min(first + self.per_chunk, self.items)) as item:
            self.item_of(item, room)
        if self.square:
            squares.end(fn)
        if slot is not None:
            slots.give(fn, self.spare(), slot)

    def item_of(self, item, room):
        groups = self.row_groups * self.column_groups
        if self.in_blocks:  # one matrix, whose pieces are done in steps
            group, step = item / self.steps, item % self.steps
            bases = self.at_batch(self.fn.value(0, I64))
        else:
            rest, group = item / groups, item % groups
            bases = self.at_batch(rest)
        row_group, column_group = group / self.column_groups, group % self.column_groups
        panels = self.share(self.panels, row_group, self.row_groups)
        strips = self.share(self.strips, column_group, self.column_groups)
        if self.in_blocks:
            low, high = strips
            strips = [low + x for x in self.share(high - low, step, self.steps)]
        ways = {"columns": self.columns, "panels": self.columns, "rows": self.rows}
        ways |= dict.fromkeys(IN_BLOCKS, self.blocked)
        ways.get(self.mode, self.direct)(bases, panels, strips, room)

    def share(self, total, nth, count):
        return total * nth / count, total * (nth + 1) / count

    def at_batch(self, rest):
        """Addresses of C, A, B in one batch item; the addends' go to terms."""
        fn, batch = self.fn, self.batch
        count = len(self.epilogue.addends)
        offsets = [fn.value(0, I64)] * (3 + count)
        for d in range(batch - 1, -1, -1):
            size = self.word(HEADER + d)
            coordinate = rest % size if d else rest
            rest = rest / size
            for t in range(3 + count):
                stride = self.word(HEADER + batch * (1 + t) + d)
                offsets[t] = offsets[t] + coordinate * stride
        self.fill_terms(offsets[3:], HEADER + batch * (4 + count))
        return [fn.gep(p, o, "i8") for p, o in zip((self.c, self.a, self.b), offsets)]

    def fill_terms(self, offsets, strides_at):
        """Alpha, then address, row stride, column stride and factor of each addend."""
        fn, code = self.fn, self.code
        parts = 2 if code[0] == "c" else 1
        source, target = 6, 0

        def put(value):
            nonlocal target
            fn.store(value, fn.gep(self.terms, target, I64), 8)
            target += 1

        def copy():
            nonlocal source
            for _ in range(parts):
                put(argument_word(fn, self.block, source, "i"))
                source += 1

        if self.epilogue.scaled:
            copy()
        for t, offset in enumerate(offsets):
            base = argument_word(fn, self.block, source, "p")
            source += 1
            put(fn.gep(base, offset, "i8"))
            put(self.word(strides_at + 2 * t))
            put(self.word(strides_at + 2 * t + 1))
            copy()
        if self.epilogue.tail:
            put(self.c)
            for _ in self.epilogue.tail.kinds:
                put(argument_word(fn, self.block, source, "i"))
                source += 1

    # -- panels and strips -----------------------------------------------------------------------
    def panel(self, p):
        """First row, height and tile of a panel."""
        fn = self.fn
        is_tall = p < self.tall
        height = fn.select(is_tall, self.height, self.height - 1)
        first = p * (self.height - 1) + fn.min(p, self.tall)
        return first, height, fn.select(is_tall, self.tall_tile, self.short_tile)

    def multiply(self, tile, depth, a, b, row, column, c, blocked=(), **steps):
        fn = self.fn
        target = fn.pure(f"inttoptr {tile} to ptr", PTR)
        place = fn.gep(c, row * self.c_row + column * self.item, "i8")
        extra = [place, self.c_row, *blocked]
        if not self.epilogue.plain:
            extra += [row, column, self.terms]
        call_tile(fn, target, depth, a, b, self.n - column, *extra, **steps)

    def direct(self, bases, panels, strips, room):
        """Down the rows while a strip of B stays close, or along them if all of B does."""
        fn = self.fn

        def down():
            with fn.loop(*strips) as s, fn.loop(*panels) as p:
                self.one_tile(bases, p, s)

        def along():
            with fn.loop(*panels) as p, fn.loop(*strips) as s:
                self.one_tile(bases, p, s)

        fn.if_else(self.along != 0, along, down)

    def one_tile(self, bases, p, s):
        fn = self.fn
        c, a, b = bases
        row, _, tile = self.panel(p)
        column = s * self.strip
        self.multiply(
            tile,
            self.k,
            fn.gep(a, row * self.a_row, "i8"),
            fn.gep(b, column * self.b_column, "i8"),
            row,
            column,
            c,
            a_row=self.a_row,
            a_step=self.a_k,
            b_step=self.b_column if self.mode == "dots" else self.b_k,
        )

    def columns(self, bases, panels, strips, room):
        """A strip of B is packed, then goes down the rows; those may have been packed before."""
        fn = self.fn
        c, a, b = bases
        zero = fn.value(0, I64)
        packed = self.mode == "panels"
        top, _, _ = self.panel(panels[0])
        if packed:
            apart = fn.gep(room, self.partial_at, "i8")
            self.pack_panels(a, panels, top, zero, self.k, apart)
        with fn.loop(*strips) as s:
            column = s * self.strip
            strip = room
            if self.kept:
                strip = fn.gep(b, s * self.padded(self.k) * self.strip_bytes(), "i8")
            else:
                self.pack_strip(b, s, zero, self.k, room)
            with fn.loop(*panels) as p:
                row, _, tile = self.panel(p)
                if packed:
                    place, steps = fn.gep(apart, self.panel_at(row - top, self.k), "i8"), {}
                else:
                    place = fn.gep(a, row * self.a_row, "i8")
                    steps = {"a_row": self.a_row, "a_step": self.a_k}
                self.multiply(tile, self.k, place, strip, row, column, c, **steps)

    def rows(self, bases, panels, strips, room):
        """Packed rows of all k, then blocks of it against columns as they lie."""
        fn = self.fn
        c, a, b = bases
        top, _, _ = self.panel(panels[0])
        partial = fn.gep(room, self.partial_at, "i8")
        self.pack_panels(a, panels, top, fn.value(0, I64), self.k, room)
        with fn.loop(0, self.blocks) as block:
            first = block * self.depth
            depth, stage = fn.min(self.depth, self.k - first), self.stage(block)
            with fn.loop(*strips) as s, fn.loop(*panels) as p:
                row, height, tile = self.panel(p)
                column = s * self.strip
                at = self.panel_at(row - top, self.k) + first * height * self.packed_item
                where, step = self.waiting_place(c, partial, row, top, column)
                self.multiply(
                    tile, depth, fn.gep(room, at, "i8"),
                    fn.gep(b, column * self.b_column + first * self.b_k, "i8"), row, column, c,
                    blocked=(stage, where, step), b_step=self.b_k,
                )  # fmt: skip

    def stage(self, block):
        """Bits that say whether this is the first block, and the last."""
        fn = self.fn
        more = fn.select(block > 0, fn.value(ending.MORE, I64), fn.value(0, I64))
        last = fn.value(ending.LAST, I64)
        return more | fn.select(block == self.blocks - 1, last, fn.value(0, I64))

    def pack_panels(self, a, panels, top, first, depth, out):
        fn = self.fn
        with fn.loop(*panels) as p:
            row, _, _ = self.panel(p)
            self.pack_panel(a, p, first, depth, fn.gep(out, self.panel_at(row - top, depth), "i8"))

    def pack_panel(self, a, p, first, depth, out):
        fn = self.fn
        row, height, _ = self.panel(p)
        source = fn.gep(a, row * self.a_row + first * self.a_k, "i8")
        call_pack(fn, "pack_rows", height, depth, source, self.a_row, self.a_k, out)

    def shared_panel(self, unit):
        """Where a panel lies that all chunks share; unit: its number, over all blocks."""
        return self.fn.gep(self.scratch, self.rows_at + unit * self.panel_bytes, "i8")

    def rows_are_packed(self):
        """Has the kernel packed rows of A that all chunks share?"""
        return self.mode == "blocked" and not self.kept

    def panel_at(self, rows, depth):
        """Bytes of packed panels before a row."""
        return rows * self.padded(depth) * self.packed_item

    def padded(self, depth):
        grain = self.tile.grain
        return (depth + (grain - 1)) & -grain if grain > 1 else depth

    def pack_strip(self, b, s, first, depth, out):
        fn = self.fn
        column = s * self.strip
        count = fn.min(self.strip, self.n - column)
        source = fn.gep(b, column * self.b_column + first * self.b_k, "i8")
        call_pack(fn, "pack_columns", count, depth, source, self.b_column, self.b_k, out)

    # -- the blocked mode ------------------------------------------------------------------------
    def block_of(self, nth):
        """First k and depth of a block, and where its strips are."""
        fn = self.fn
        first = nth * self.depth
        depth = fn.min(self.depth, self.k - first)
        base = self.b if self.kept else self.scratch
        return first, depth, fn.gep(base, first * self.strips * self.strip_bytes(), "i8")

    def strip_bytes(self):
        """Bytes of one step of k in a packed strip."""
        return self.strip * self.packed_item

    def pack_shared(self, chunk):
        fn = self.fn
        strips = self.blocks * self.strips
        panels = fn.select(self.rows_at != 0, self.blocks * self.panels, fn.value(0, I64))
        low, high = self.share(strips + panels, chunk, self.pack_chunks)
        with fn.loop(low, fn.min(high, strips)) as unit:
            block, s = unit / self.strips, unit % self.strips
            first, depth, place = self.block_of(block)
            out = fn.gep(place, s * self.padded(depth) * self.strip_bytes(), "i8")
            self.pack_strip(self.b, s, first, depth, out)
        if self.rows_are_packed():
            with fn.loop(fn.max(low, strips), high) as unit:
                unit = unit - strips
                block, p = unit / self.panels, unit % self.panels
                first, depth, _ = self.block_of(block)
                self.pack_panel(self.a, p, first, depth, self.shared_panel(unit))

    def spare(self):
        """A word that says which slots are taken."""
        return self.fn.gep(self.block, len(self.kinds) + 1, I64)

    def blocked(self, bases, panels, strips, room):
        fn = self.fn
        c, a, _ = bases
        top, _, _ = self.panel(panels[0])
        partial = fn.gep(room, self.partial_at, "i8")
        with fn.loop(0, self.blocks) as block:
            first, depth, packed = self.block_of(block)
            stage = self.stage(block)
            straight = self.mode == "straight"
            if not straight:
                apart = self.rows_at == 0
                with fn.when(apart):
                    self.pack_panels(a, panels, top, first, depth, room)
            with fn.loop(*strips) as s:
                column = s * self.strip
                strip = fn.gep(packed, s * self.padded(depth) * self.strip_bytes(), "i8")
                with fn.loop(*panels) as p:
                    row, _, tile = self.panel(p)
                    if straight:
                        panel = fn.gep(a, row * self.a_row + first * self.a_k, "i8")
                    else:
                        mine = fn.gep(room, self.panel_at(row - top, depth), "i8")
                        panel = fn.select(apart, mine, self.shared_panel(block * self.panels + p))
                    where, step = self.waiting_place(c, partial, row, top, column)
                    self.multiply(
                        tile, depth, panel, strip, row, column, c, blocked=(stage, where, step),
                        a_row=self.a_row,
                    )  # fmt: skip

    def waiting_place(self, c, partial, row, top, column):
        """Where unfinished sums wait: in C itself, or in scratch.

        That is if C is too narrow for them, or may be an addend, which is read at the end.
        """
        fn = self.fn
        if self.item == self.sum_item and not self.epilogue.addends:
            return fn.gep(c, row * self.c_row + column * self.item, "i8"), self.c_row
        apart = (row - top) * self.partial_row + column * self.sum_item
        return fn.gep(partial, apart, "i8"), self.partial_row


def build(mode, code, vectors, paired, scaled, addends, activation, batch, kept=False):
    """IR of a product kernel: its arguments are the description, C, A, B, scratch and its slots.

    kept: B was packed by the kernel of `build_keeping`.
    """
    epilogue = ending.Epilogue(scaled, addends, activation)
    return _Gemm(mode, code, vectors, paired, epilogue, batch, kept).text()


class _Keeping(_Gemm):
    """Packs all of B: arguments are a description with packing chunks only, the place, and B."""

    def __init__(self, code, vectors, paired):
        super().__init__("blocked", code, vectors, paired, ending.PLAIN, 0)
        self.kinds = "ppp"

    def rows_are_packed(self):
        return False

    def text(self):
        fn = self.fn
        self.block, chunk = fn.params
        for k, name in enumerate(("description", "scratch", "b")):
            setattr(self, name, argument_word(fn, self.block, k, "p"))
        for k, name in enumerate(WORDS):
            setattr(self, name, self.word(k))
        self.pack_shared(chunk)
        fn.ret()
        add_entry(self.module, self.kinds, spare=1)
        return module_text(self.module)


def build_keeping(code, vectors, paired):
    """IR of a kernel that packs columns for products that are built as `kept`."""
    return _Keeping(code, vectors, paired).text()
