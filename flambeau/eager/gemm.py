"""Planning matrix products: which schedule, how many panels, strips, blocks and chunks.

A plan belongs to the layouts of one product; it holds a kernel of codegen/templates/gemm.py and its
description. Choices follow sizes and strides only, never the number of threads, so a product has
the same bits on any machine with the same vector width. products.py checks operands and calls
`multiply_into`; so may any launcher that has plain tensors to multiply.
"""

from itertools import product
from math import prod
from typing import NamedTuple

from flambeau._layout import Size, collapse, dense_layout, expanded_strides, make_layout
from flambeau._tensor import alias, empty_like_layout
from flambeau.eager.copying import copy_into
from flambeau.eager.kernels import load_functions, load_kernel, pool
from flambeau.eager.plan import MAX_PLANS
from flambeau.runtime.allocator import host_allocator
from flambeau.runtime.cpu import words

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

_kernels: dict = {}
_tiles: dict = {}
_plans: dict = {}


def _template():
    from flambeau.codegen.templates import gemm  # with llvmlite, on first need

    return gemm


def _kernel(*key):
    found = _kernels.get(key)
    if found is None:
        found = _kernels[key] = load_kernel(_template().build(*key), "gemm")
    return found


def _tile(*key):
    """The address of a tile function; each height is compiled when it is first met."""
    found = _tiles.get(key)
    if found is None:
        found = _tiles[key] = load_functions(_template().build_tile(*key), ("tile",))["tile"]
    return found


class Plan:
    """A kernel, its description, and the scratch it needs: shared bytes and bytes per slot."""

    __slots__ = ("kernel", "desc", "owner", "chunks", "shared", "slot", "swapped", "pools")

    def run(self, c, a, b, *more):
        """Addresses of C, A and B, then alpha and (address, factor) of each addend."""
        if self.swapped:
            a, b = b, a
        if not self.slot:
            self.kernel(self.desc, c, a, b, 0, 0, *more)
            return
        slots = min(self.chunks, pool().get_num_threads(), 64)
        memory = self.pools.get(slots)
        if memory is None:
            memory = host_allocator.pool_for(self.shared + slots * self.slot)
            self.pools[slots] = memory
        try:
            place = memory.pop()
        except IndexError:
            place = memory.grow()
        try:
            self.kernel(self.desc, c, a, b, place, slots, *more)
        finally:
            memory.give(place)


def multiply_into(out, a, b, *, alpha=1, addends=(), activation=""):
    """out = activation(alpha * (a @ b) + factor * addend + ...) on plain tensors of one dtype.

    a, b: matrices or batches of them, any strides; batches broadcast to out's. addends: pairs
    (tensor that broadcasts to out, factor). activation: a name in epilogue.ACTIVATIONS. out may
    have any strides and may itself be an addend, but must not overlap a or b.
    """
    if out._layout.numel == 0:
        return out
    plan = plan_for(
        out._layout, a._layout, b._layout, alpha != 1, activation, *[t._layout for t, _ in addends]
    )
    if plan.__class__ is not Plan:
        return plan(out, a, b, alpha=alpha, addends=addends, activation=activation)
    more = []
    if alpha != 1:
        more += _number(alpha, out.dtype)
    for t, factor in addends:
        more.append(t._storage.pointer + t._offset)
        more += _number(factor, out.dtype)
    plan.run(
        out._storage.pointer + out._offset,
        a._storage.pointer + a._offset,
        b._storage.pointer + b._offset,
        *more,
    )
    return out


def plan_for(out, a, b, scaled=False, activation="", *addends):
    """The Plan for some layouts, or a function that does it in another way."""
    key = (out, a, b, scaled, activation, *addends)
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        plan = _plans[key] = _planned(out, a, b, scaled, activation, addends)
    return plan


def _number(x, dtype):
    """A factor as the kernel takes it."""
    if dtype.is_complex:
        x = complex(x)
        return x.real, x.imag
    return (float(x),) if dtype.is_floating_point else (int(x),)


class Shape(NamedTuple):
    """One matrix of the batch: sizes, and strides in elements (row, column)."""

    m: int
    n: int
    k: int
    a: tuple
    b: tuple
    c: tuple


def _planned(out, a, b, scaled, activation, addends):
    batch = out.shape[:-2]
    m, k = a.shape[-2:]
    n = b.shape[-1]
    strides = [expanded_strides(t, (*batch, *t.shape[-2:])) for t in (out, a, b)]
    strides += [expanded_strides(t, out.shape) for t in addends]
    (cs, as_, bs), extra = (st[-2:] for st in strides[:3]), [st[-2:] for st in strides[3:]]
    swapped = _transposed_is_better(m, n, cs)
    if swapped:
        m, n = n, m
        cs, as_, bs = cs[::-1], bs[::-1], as_[::-1]
        extra = [st[::-1] for st in extra]
        strides[1], strides[2] = strides[2], strides[1]
    if n > 1 and cs[1] != 1:
        return _through_dense
    shape = Shape(m, n, k, _unit(as_, m, k), _unit(bs, k, n), cs)
    sizes, steps = collapse(batch, [st[:-2] for st in strides])
    mode, vectors = _mode(shape, prod(sizes), out.dtype)
    if mode == "blocked" and (prod(sizes) > 1 or k * n > max(HELD, 64 * k)):
        return _piecewise
    epilogue = _epilogue(scaled, activation, extra, n)
    plan = _described(mode, vectors, epilogue, shape, extra, sizes, steps, out.dtype)
    plan.swapped = swapped
    return plan


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


def _epilogue(scaled, activation, addends, n):
    from flambeau.codegen.templates.epilogue import Epilogue

    access = {0: "s", 1: "c"}
    return Epilogue(
        scaled, tuple(access.get(st[1], "n") if n > 1 else "s" for st in addends), activation
    )


def _mode(s, batch, dtype):
    """The schedule, and the width of a strip: in vectors, or in columns for dots."""
    from flambeau.codegen.templates.tiles import lanes, pairs, tallest

    w = lanes(dtype.code)
    columns_beside, k_beside = s.b[1] == 1, s.a[1] == 1 and s.b[0] == 1
    work, tall = s.m * s.n * s.k * dtype.itemsize, tallest(dtype.code)
    few_rows, few_columns = s.m <= 2 * tall, s.n < w
    along_k = k_beside and s.k >= 2 * w and (not columns_beside or s.n * 2 <= w)
    in_pairs = pairs(dtype.code)
    few = s.m <= 16 or few_columns
    if in_pairs:  # adding up the lanes at the end weighs more
        few = 24 * s.m <= min(s.k, 1536) or (few_columns and 10 * s.n <= s.k)
    if along_k and few:
        return "dots", min(w, 4)
    vectors = _vectors(s, dtype, w)
    if s.k == 0:
        return "direct", vectors
    if dtype.code == "f16" and not (few_rows or few_columns) and s.m * s.n * s.k >= CONVERTED:
        # each element is converted once: that takes longer than to multiply it once or twice
        return ("panels", 2) if batch > 1 and work <= SMALL // 2 else ("blocked", BLOCKED_VECTORS)
    if in_pairs:
        return _mode_in_pairs(s, batch, vectors, few_rows or few_columns)
    if columns_beside and (work <= SMALL or few_rows):
        return "direct", vectors
    if work <= SMALL or few_rows or few_columns:
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


def _vectors(s, dtype, w):
    """The width of a strip that wastes the fewest lanes; few rows leave registers for more."""
    from flambeau.codegen.templates.tiles import pairs, tallest

    code, needed = dtype.code, -(-s.n // w)
    widths = [v for v in (4, 3, 2, 1) if tallest(code, v) >= 4]
    widest = widths[0]
    if s.m <= 3 and s.n >= 2 * widest * w and tallest(code, 2 * widest) >= s.m:
        return 2 * widest
    packed = pairs(code) or s.b[1] != 1
    long = s.k * widest * w * dtype.itemsize > NEAREST
    if packed and long and needed > widest and s.m > 2 * tallest(code):
        # a wide strip would not stay in the first-level cache from panel to panel
        widths.sort(key=lambda v: (v - 2) % 4)
    return min(widths, key=lambda v: (-(-needed // v) * v, v == 1))


def _heights(m, tallest):
    """Panels of nearly equal height: (panels, how many are tall, their height)."""
    panels = -(-m // tallest)
    height = -(-m // panels)
    return panels, m - panels * (height - 1), height


def _described(mode, vectors, epilogue, s, addends, sizes, steps, dtype):
    from flambeau.codegen.templates import tiles

    code, size = dtype.code, dtype.itemsize
    tile = _template().tile_for(mode, code, 1, vectors)
    tallest = min(6, 24 // vectors) if mode == "dots" else tiles.tallest(code, vectors)
    if mode == "dots" and tile.parts == 2:
        tallest = max(1, tallest // 2)
    panels, tall, height = _heights(s.m, min(tallest, 14))
    strips = -(-s.n // tile.columns)
    batch = prod(sizes)
    plan = Plan()
    plan.pools = {}
    blocks, depth, pack_chunks, partial_at, partial_row = 1, s.k, 0, 0, 0
    padded = -(-s.k // tile.grain) * tile.grain
    if mode == "blocked":
        rows, columns = _blocked_groups(panels, strips, s)
        longest = BLOCK[tile.packed_item // tile.parts]
        blocks = -(-s.k // longest)
        depth = -(-s.k // (4 * blocks)) * 4
        blocks = -(-s.k // depth)
        pack_chunks = max(1, min(16, s.k * s.n >> 16))
        plan.shared = _lines(padded * strips * tile.columns * tile.packed_item)
        partial_at = _lines(-(-panels // rows) * height * depth * tile.packed_item + 256)
        plan.slot = partial_at
        if tile.item != tile.sum_item and blocks > 1:
            partial_row = strips * tile.columns * tile.sum_item
            plan.slot += _lines(-(-panels // rows) * height * partial_row)
    else:
        rows, columns = _groups(mode, panels, strips, s, batch)
        plan.shared = 0
        plan.slot = 0
        if mode in ("columns", "panels"):
            plan.slot = partial_at = _lines(padded * tile.columns * tile.packed_item)
        if mode == "panels":
            most = -(-panels // rows) * height
            plan.slot += _lines(most * padded * tile.packed_item + 256)
    items = batch * rows * columns
    each = max(1, s.m * s.n * s.k // (rows * columns))
    per_chunk = max(1, (GRAIN // 2) // each)
    plan.chunks = -(-items // per_chunk) + pack_chunks
    tiles_at = [_tile(mode, code, height, vectors, epilogue)]
    tiles_at.append(_tile(mode, code, height - 1, vectors, epilogue) if tall < panels else 0)
    described = [plan.chunks, per_chunk, items, s.m, s.n, s.k]
    described += [x * size for x in (*s.a, *s.b, s.c[0])]
    described += [panels, tall, height, *tiles_at, rows, columns, tile.columns, strips]
    described += [size, tile.packed_item, blocks, depth, pack_chunks, plan.slot, plan.shared]
    along = s.k * s.n * tile.item <= CLOSE
    described += [partial_at, partial_row, int(along), tile.sum_item, *sizes]
    described += [x * size for st in steps for x in st]
    described += [x * size for st in addends for x in st]
    plan.owner, plan.desc = words(described)
    plan.kernel = _kernel(mode, code, vectors, epilogue, len(sizes))
    if plan.chunks > 1:
        pool().ensure_workers()
    return plan


def _lines(nbytes):
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
