"""Planning matrix products: which schedule, how many panels, strips, blocks and chunks.

`plan` takes sizes and strides; what it gives holds a kernel of codegen/templates/gemm.py and its
description. Choices follow sizes and strides only, never the number of threads, so a product has
the same bits on any machine with the same vector width. products.py and linear.py plan from the
layouts of their operands; any launcher that has plain tensors to multiply calls `multiply_into`.
"""

from itertools import product
from math import prod
from typing import NamedTuple

from flambeau._layout import Size, collapse, dense_layout, expanded_strides, make_layout
from flambeau._tensor import alias, empty_like_layout
from flambeau.codegen.descriptions import Product, blank_of, filled
from flambeau.eager.copying import copy_into
from flambeau.eager.kernels import load_functions, pool
from flambeau.eager.plans import Plans
from flambeau.runtime.cpu import packed
from flambeau.runtime.stacks import alone

SMALL = 1 << 29  # multiplications, times bytes, up to which packing both operands does not pay
FEW = 1 << 16  # multiplications up to which a product in pairs is not worth its scratch
FEW_PANELS = 1 << 21  # multiplications up to which both operands are packed as they are needed
GRAIN = 1 << 20  # multiplications that are worth a chunk of their own
HELD = 1 << 22  # packed elements of B that are kept at once
PANELS = 12  # panels of a block of rows: they stay in the second-level cache
BLOCK = {2: 1024, 4: 768, 8: 384}  # steps of k per block, by bytes of a packed element
BLOCKED_VECTORS = 2
NEAREST = 24 << 10  # bytes of a packed strip that stay in the first-level cache
CONVERTED = 1 << 19  # multiplications from which float16 is converted once, while it is packed
CLOSE = 1 << 17  # bytes of B that stay in the second-level cache beside everything else
MOST_SLOTS = 64
BLANK = blank_of(Product)
NO_WORDS: dict = {}


class Registers(NamedTuple):
    """What the host's vector registers do for a dtype; tallest: rows of a tile, by its vectors."""

    lanes: int
    pairs: bool
    tallest: tuple
    widths: tuple  # vectors of a strip, widest first
    narrower: tuple  # the same, for strips that must stay in the first-level cache


def _registers(code):
    from flambeau.codegen.templates import tiles  # with llvmlite, on first need

    tallest = (0, *[tiles.tallest(code, v) for v in range(1, 9)])
    widths = tuple([v for v in (4, 3, 2, 1) if tallest[v] >= 4])
    narrower = tuple(sorted(widths, key=lambda v: (v - 2) % 4))
    return Registers(tiles.lanes(code), tiles.pairs(code), tallest, widths, narrower)


REGISTERS = Plans(lambda code: alone(_registers, code), by_default=False)


class Schedule:
    """A kernel, the facts of its tile, and the addresses of tile functions by their heights."""

    def __init__(self, runtime, *key):
        from flambeau.codegen.templates import gemm  # with llvmlite, on first need

        mode, code, vectors, paired = key[:4]
        self.key, self.tiles = key, {}
        self.kernel = runtime.kernel("gemm", "gemm:build", *key)
        tile = gemm.tile_for(mode, code, 1, vectors, paired)
        self.columns, self.grain = tile.columns, tile.grain
        self.item, self.sum_item, self.packed_item = tile.item, tile.sum_item, tile.packed_item
        self.block = BLOCK[tile.packed_item // tile.parts] if mode == "blocked" else 0
        tallest = REGISTERS[code].tallest[vectors]
        if mode == "dots":
            tallest = max(1, min(6, 24 // vectors) // tile.parts)
        self.tallest = min(tallest, 14)

    def tile(self, height):
        """The address of a tile function; each height is compiled when it is first met."""
        found = self.tiles.get(height)
        if found is None:
            found = self.tiles[height] = alone(self._new_tile, height)
        return found

    def _new_tile(self, height):
        from flambeau.codegen.templates.gemm import build_tile

        return load_functions(build_tile(height, *self.key[:-1]), ("tile",))["tile"]


SCHEDULES = Plans(lambda key: alone(Schedule, *key), by_default=False)


class Plan:
    """A kernel, its description, and the scratch it needs: shared bytes and bytes per slot."""

    __slots__ = ("kernel", "desc", "chunks", "shared", "slot", "swapped", "pool_for", "memory")

    def __init__(self, kernel, desc, chunks, shared, slot, swapped, pool_for):
        self.kernel, self.desc, self.chunks, self.pool_for = kernel, desc, chunks, pool_for
        self.shared, self.slot, self.swapped = shared, slot, swapped
        # one chunk needs one slot, however many threads there are
        self.memory = pool_for(shared + slot) if slot and chunks == 1 else None

    def run(self, c, a, b, *more):
        """Addresses of C, A and B, then alpha and (address, factor) of each addend."""
        if self.swapped:
            a, b = b, a
        if not self.slot:
            self.kernel(self.desc, c, a, b, 0, 0, *more)
            return
        slots, memory = 1, self.memory
        if memory is None:
            slots = min(self.chunks, pool().get_num_threads(), MOST_SLOTS)
            memory = self.pool_for(self.shared + slots * self.slot)
        try:
            place = memory.pop()
        except IndexError:
            place = memory.grow()
        try:
            self.kernel(self.desc, c, a, b, place, slots, *more)
        finally:
            memory.give(place)

    def multiply(self, out, a, b):
        """The same on tensors."""
        x, y = a._storage.pointer + a._offset, b._storage.pointer + b._offset
        self.run(out._storage.pointer, x, y)
        return out


def multiply_into(out, a, b, *, alpha=1, addends=(), activation=""):
    """out = activation(alpha * (a @ b) + factor * addend + ...) on plain tensors of one dtype.

    a, b: matrices or batches of them, any strides; batches broadcast to out's. addends: pairs
    (tensor that broadcasts to out, factor). activation: a name in epilogue.ACTIVATIONS. out may
    have any strides and may itself be an addend, but must not overlap a or b.
    """
    if out._layout.numel == 0:
        return out
    added = [t._layout for t, _ in addends]
    found = PLANS[out._layout, a._layout, b._layout, alpha != 1, activation, *added]
    if found.__class__ is not Plan:
        return found(out, a, b, alpha=alpha, addends=addends, activation=activation)
    more = []
    if alpha != 1:
        more += number(alpha, out.dtype)
    for t, factor in addends:
        more.append(t._storage.pointer + t._offset)
        more += number(factor, out.dtype)
    found.run(
        out._storage.pointer + out._offset,
        a._storage.pointer + a._offset,
        b._storage.pointer + b._offset,
        *more,
    )
    return out


def number(x, dtype):
    """A factor as the kernel takes it."""
    if dtype.is_complex:
        x = complex(x)
        return x.real, x.imag
    return (float(x),) if dtype.is_floating_point else (int(x),)


def _plan_layouts(key):
    """The Plan for some layouts, or a function that does it in another way."""
    out, a, b, scaled, activation, *addends = key
    m, k = tuple(a.shape)[-2:]
    n = tuple(b.shape)[-1]
    if out.ndim == a.ndim == b.ndim == 2 and not addends:
        return plan(out, m, n, k, out.strides, a.strides, b.strides, scaled, activation)
    batch = tuple(out.shape)[:-2]
    strides = [expanded_strides(t, (*batch, *tuple(t.shape)[-2:])) for t in (out, a, b)]
    strides += [expanded_strides(t, out.shape) for t in addends]
    sizes, steps = collapse(batch, [st[:-2] for st in strides]) if batch else ((), ())
    c, a, b, *extra = (st[-2:] for st in strides)
    return plan(out, m, n, k, c, a, b, scaled, activation, extra, sizes, steps)


PLANS = Plans(_plan_layouts, by_default=False)


class Shape(NamedTuple):
    """One matrix of the batch: sizes, and strides in elements (row, column)."""

    m: int
    n: int
    k: int
    a: tuple
    b: tuple
    c: tuple


def plan(like, m, n, k, c, a, b, scaled=False, activation="", addends=(), sizes=(), steps=()):
    """The Plan of a product of matrices, or a function that does it in another way.

    like: any layout with dtype and device of the operands. c, a, b, addends: strides of rows and
    columns; sizes: those of the batch; steps: strides of c, a, b and each addend along the batch.
    """
    swapped = _transposed_is_better(m, n, c)
    if swapped:
        m, n = n, m
        c, a, b = c[::-1], b[::-1], a[::-1]
        addends = [st[::-1] for st in addends]
        if steps:
            steps = [steps[0], steps[2], steps[1], *steps[3:]]
    if n > 1 and c[1] != 1:
        return _through_dense
    shape = Shape(m, n, k, _unit(a, m, k), _unit(b, k, n), c)
    batch = prod(sizes)
    mode, vectors = _mode(shape, batch, like.dtype)
    if mode == "blocked" and (batch > 1 or k * n > max(HELD, 64 * k)):
        return _piecewise
    code = like.dtype.code
    access = "".join(["s" if n == 1 else _ACCESS.get(st[1], "n") for st in addends])
    paired = REGISTERS[code].pairs and mode != "direct"
    runtime = like.device.runtime
    key = mode, code, vectors, paired, scaled, access, activation, len(sizes)
    schedule = SCHEDULES[runtime, *key]
    return _described(schedule, mode, shape, batch, runtime, swapped, addends, sizes, steps)


_ACCESS = {0: "s", 1: "c"}


def _unit(strides, rows, columns):
    """Strides of one-element dimensions do not matter: call them whatever helps."""
    row, column = strides
    if columns == 1:
        column = 1
    if rows == 1:
        row = 1 if column != 1 else columns
    return row, column


def _transposed_is_better(m, n, c):
    """Compute C.T = B.T @ A.T: where C's rows lie side by side, and for a single column."""
    if n == 1:
        return m > 1 and c[0] == 1
    return c[1] != 1 and (c[0] == 1 or m == 1)


def _mode(s, batch, dtype):
    """The schedule, and the width of a strip: in vectors, or in columns for dots."""
    w, in_pairs, tallest, _, _ = REGISTERS[dtype.code]
    m, n, k, a, b, _ = s
    work = m * n * k
    few_rows, few_columns = m <= 2 * tallest[2], n < w
    if a[1] == 1 and b[0] == 1 and k >= 2 * w and (b[1] != 1 or n * 2 <= w):  # along k
        few = m <= 16 or few_columns
        if in_pairs:  # adding up the lanes at the end weighs more
            few = 24 * m <= min(k, 1536) or (few_columns and 10 * n <= k)
        if few:
            return "dots", min(w, 4)
    vectors = _vectors(s, dtype)
    if k == 0:
        return "direct", vectors
    small = work * dtype.itemsize <= SMALL
    if dtype.code == "f16" and not (few_rows or few_columns) and work >= CONVERTED:
        # each element is converted once: that takes longer than to multiply it once or twice
        small = work * dtype.itemsize <= SMALL // 2
        return ("panels", 2) if batch > 1 and small else ("blocked", BLOCKED_VECTORS)
    if in_pairs:
        return _mode_in_pairs(s, batch, vectors, few_rows or few_columns)
    if b[1] == 1 and (small or few_rows):
        return "direct", vectors
    if small or few_rows or few_columns:
        return "columns", vectors
    return "blocked", BLOCKED_VECTORS


def _mode_in_pairs(s, batch, vectors, narrow):
    """The same where the host multiplies pairs, which lie side by side in packed panels only."""
    work = s.m * s.n * s.k
    if s.b[1] == 1 and (s.m <= 4 or work * batch <= FEW):
        return "direct", vectors  # widened: B is not worth packing
    small = work <= SMALL // 2
    # rows of A that are far apart would share few lines of the cache
    if s.a[1] == 1 and (narrow or (small and (s.k <= 1024 or s.m <= 64 or batch > 1))):
        return "columns", vectors
    if work <= FEW_PANELS or narrow or (batch > 1 and small):
        return "panels", 2 if vectors == 4 else vectors
    return "blocked", BLOCKED_VECTORS


def _vectors(s, dtype):
    """The width of a strip that wastes the fewest lanes; few rows leave registers for more."""
    w, in_pairs, tallest, widths, narrower = REGISTERS[dtype.code]
    widest, needed = widths[0], -(-s.n // w)
    if s.m <= 3 and s.n >= 2 * widest * w and tallest[2 * widest] >= s.m:
        return 2 * widest
    long = s.k * widest * w * dtype.itemsize > NEAREST
    if long and needed > widest and s.m > 2 * tallest[2] and (in_pairs or s.b[1] != 1):
        # a wide strip would not stay in the first-level cache from panel to panel
        widths = narrower
    best, least = 0, 1 << 62
    for v in widths:
        columns = -(-needed // v) * v
        if columns < least:
            best, least = v, columns
    return best


def _described(schedule, mode, s, batch, runtime, swapped, addends, sizes, steps):
    """The Plan of a product that a schedule computes."""
    m, n, k, (a_row, a_k), (b_k, b_column), (c_row, _) = s
    panels = -(-m // schedule.tallest)
    height = -(-m // panels)  # nearly equal heights: some panels are tall, the others one less
    tall = m - panels * (height - 1)
    columns, item, packed_item = schedule.columns, schedule.item, schedule.packed_item
    strips = -(-n // columns)
    pack_chunks = shared = slot = 0
    if mode == "blocked":
        row_groups, column_groups = _blocked_groups(panels, strips, s)
        more = _blocks(schedule, s, strips, -(-panels // row_groups) * height)
        pack_chunks, shared, slot = more["pack_chunks"], more["slots_at"], more["slot_bytes"]
    else:
        row_groups, column_groups = _groups(mode, panels, strips, s, batch)
        more = NO_WORDS
        if mode == "columns" or mode == "panels":
            padded = -(-k // schedule.grain) * schedule.grain
            slot = partial_at = _pages(padded * columns * packed_item)
            if mode == "panels":
                most = -(-panels // row_groups) * height
                slot += _pages(most * padded * packed_item + 256)
            more = {"slot_bytes": slot, "partial_at": partial_at}
    groups = row_groups * column_groups
    items = batch * groups
    per_chunk = max(1, (GRAIN // 2) // max(1, m * n * k // groups))
    chunks = -(-items // per_chunk) + pack_chunks
    words = filled(BLANK, {
        "chunks": chunks, "per_chunk": per_chunk, "items": items, "m": m, "n": n, "k": k,
        "a_row": a_row * item, "a_k": a_k * item, "b_k": b_k * item, "b_column": b_column * item,
        "c_row": c_row * item, "panels": panels, "tall": tall, "height": height,
        "tall_tile": schedule.tile(height),
        "short_tile": schedule.tile(height - 1) if tall < panels else 0,
        "row_groups": row_groups, "column_groups": column_groups, "strips": strips,
        "along": k * n * item <= CLOSE, **more,
    })  # fmt: skip
    if sizes or addends:
        words += sizes
        for strides in (*steps, *addends):
            words += [x * item for x in strides]
    if chunks > 1:
        pool().ensure_workers()
    desc = packed(words)
    return Plan(schedule.kernel, desc, chunks, shared, slot, swapped, runtime.pool_for)


def _blocks(schedule, s, strips, rows):
    """Words of products that go through k in blocks; rows: of A that a chunk packs at most."""
    n, k = s.n, s.k
    columns, packed_item = schedule.columns, schedule.packed_item
    blocks = -(-k // schedule.block)
    depth = -(-k // (4 * blocks)) * 4
    blocks = -(-k // depth)
    padded = -(-k // schedule.grain) * schedule.grain
    slot = partial_at = _pages(rows * depth * packed_item + 256)
    partial_row = 0
    if schedule.item != schedule.sum_item and blocks > 1:
        partial_row = strips * columns * schedule.sum_item
        slot += _pages(rows * partial_row)
    return {
        "blocks": blocks, "depth": depth, "pack_chunks": max(1, min(16, k * n >> 16)),
        "slot_bytes": slot, "slots_at": _pages(padded * strips * columns * packed_item),
        "partial_at": partial_at, "partial_row": partial_row,
    }  # fmt: skip


def _pages(nbytes):
    """Whole pages, so that slots do not share cache lines."""
    return (nbytes + 4095) & -4096


def _groups(mode, panels, strips, s, batch):
    """How a small product is cut: enough pieces, each of several panels."""
    wanted = s.m * s.n * s.k // GRAIN
    if s.m <= 4:  # reading B is the work
        wanted = s.k * s.n // (GRAIN // 4)
    wanted = min(8, wanted)
    if wanted < 2 or batch >= 32:
        return 1, 1
    wanted += wanted & 1
    if mode == "columns" and strips >= wanted:  # by columns, so that each is packed once
        return 1, wanted
    rows = max(1, min(wanted, panels // 4))
    return rows, max(1, min(-(-wanted // rows), strips))


def _blocked_groups(panels, strips, s):
    rows = -(-panels // PANELS)
    if 1 < rows < 8:
        rows += rows & 1
    wanted = min(16, s.m * s.n * s.k // (4 * GRAIN))
    columns = 1
    while rows * columns < min(wanted, 4) and columns * 8 <= strips:
        columns *= 2
    return rows, columns


# -- products that take more than one kernel ------------------------------------------------------


def _through_dense(out, a, b, *, alpha, addends, activation):
    """Neither rows nor columns of out lie side by side: compute apart and copy."""
    apart = empty_like_layout(dense_layout(out.shape, out.dtype, out.device))
    multiply_into(apart, a, b, alpha=alpha, addends=addends, activation=activation)
    copy_into(out, apart)
    return out


def _piecewise(out, a, b, *, alpha, addends, activation):
    """Large products one after another: by batch, and by columns where B is very large."""
    *batch, m, n = out.shape
    k = a.shape[-1]
    by_rows = _transposed_is_better(m, n, out._layout.strides[-2:])
    length = m if by_rows else n
    pieces = max(1, -(-k * length // HELD))
    step = max(64, -(-length // (64 * pieces)) * 64)
    for at in product(*map(range, batch)):
        for low in range(0, length, step):
            span = slice(low, min(low + step, length))
            rows, columns = (span, slice(0, n)) if by_rows else (slice(0, m), span)
            whole = slice(0, k)
            multiply_into(
                _part(out, out.shape, at, rows, columns),
                _part(a, (*batch, m, k), at, rows, whole),
                _part(b, (*batch, k, n), at, whole, columns),
                alpha=alpha,
                addends=[(_part(t, out.shape, at, rows, columns), f) for t, f in addends],
                activation=activation,
            )
    return out


def _part(t, full, at, rows, columns):
    """A block of one matrix of t, which broadcasts to the shape `full`."""
    *outer, row, column = expanded_strides(t._layout, full)
    skip = sum(x * y for x, y in zip(at, outer)) + rows.start * row + columns.start * column
    shape = Size((rows.stop - rows.start, columns.stop - columns.start))
    layout = make_layout(shape, (row, column), t.dtype, t.device)
    return alias(t, layout, t._offset + skip * t._layout.itemsize)
