"""Planning matrix products.

`plan` takes sizes and strides; what it gives holds a kernel of codegen/templates/gemm.py and its
description, which planning/products.py works out. products.py and linear.py plan from the layouts
of their operands; any launcher that has plain tensors to multiply calls `multiply_into`.
"""

from itertools import chain, product
from math import prod
from typing import NamedTuple

from flambeau._dtype import BY_CODE
from flambeau._layout import Size, collapse, dense_layout, expanded_strides, make_layout
from flambeau._tensor import alias, empty_like_layout
from flambeau.codegen.descriptions import Product
from flambeau.codegen.target import current
from flambeau.eager.copying import copy_into
from flambeau.eager.kernels import load_functions, pool, sources
from flambeau.eager.plans import Plans
from flambeau.planning import products as schedules
from flambeau.planning.products import BLOCKED, MODES, PANELS
from flambeau.runtime.cpu import packed, words_of
from flambeau.runtime.processor import matrices_allowed, near, second_level
from flambeau.runtime.stacks import alone
from flambeau.runtime.threads import MANY, planned

SMALL = 1 << 29  # multiplications, times bytes, up to which packing both operands does not pay
HELD = 1 << 22  # packed elements of B that are kept at once
BLOCK = {2: 1024, 4: 768, 8: 384}  # steps of k per block, by bytes of a packed element
ALONE = 1 << 22  # elements of A that many threads may pack for themselves
STEPS = 8  # in which a piece of a large product is done where many threads share it
HELD_ROWS = 560  # of 1024 bytes of the second-level cache may be packed rows
MOST_SLOTS = 64
TALLEST = 32  # rows of a tile
WIDEST = 8  # vectors of a strip, for one row


class Registers(NamedTuple):
    """What the host's vector registers do for a dtype."""

    host: tuple  # lanes, products of pairs (1) or matrices (2), bytes of an element, is it float16
    tallest: tuple  # rows of a tile, by its vectors
    widths: tuple  # vectors of a strip, widest first


def _registers(dtype):
    from flambeau.codegen.templates import squares, tiles  # with llvmlite, on first need

    code = dtype.code
    tallest = (0, *[tiles.tallest(code, v) for v in range(1, 9)])
    widths = tuple([v for v in (4, 3, 2, 1) if tallest[v] >= 4])
    pairs = int(tiles.pairs(code))
    if code == "bf16" and squares.available() and matrices_allowed():
        pairs = 2
    host = tiles.lanes(code), pairs, dtype.itemsize, code == "f16"
    return Registers(host, tallest, widths)


REGISTERS = Plans(lambda code: alone(_registers, code), by_default=False, cuts=False)


class Schedule:
    """A kernel, the facts of its tile, and the addresses of tile functions by their heights."""

    def __init__(self, key):
        from flambeau.codegen.templates import gemm, tiles  # with llvmlite, on first need

        runtime, number, dtype, vectors, *rest = key
        _, addends, *_ = rest
        code, mode = dtype.code, MODES[number]
        _, pairs, _, _ = REGISTERS[dtype].host
        paired = pairs > 0 and mode != "direct"
        if pairs == 2 and mode in ("panels", "blocked", "straight"):
            paired = "square"
        self.key = mode, code, vectors, paired, *rest
        self.kernel = runtime.kernel("gemm", "gemm:build", *self.key)
        tile = gemm.tile_for(mode, code, 1, vectors, paired)
        tallest = max(1, REGISTERS[dtype].tallest[vectors])
        if paired == "square":
            tallest = TALLEST
        elif mode == "dots":
            sums = 24 if tiles.registers() == 32 else 12  # that leave room for operands
            tallest = max(1, min(6, sums // vectors) // tile.parts)
        self.facts = (
            number, min(tallest, TALLEST), tile.columns, tile.item, tile.sum_item,
            tile.packed_item, tile.grain, BLOCK.get(tile.packed_item // tile.parts, 1), STEPS,
            tile.item != tile.sum_item or addends != "", second_level() * HELD_ROWS >> 10,
        )  # fmt: skip
        self.tiles = (0,) * (TALLEST + 1)

    def described(self, *sizes, threads=None):
        """(chunks, shared bytes, bytes per slot, description), after missing tiles are compiled."""
        threads = planned() if threads is None else threads
        while True:
            missing, *found = schedules.described(self.facts, self.tiles, *sizes, threads)
            if not missing:
                return found
            self.compile(missing)

    def compile(self, height):
        """The tile function of a height, when it is first met."""
        alone(self._compile, height)

    def _compile(self, height):
        from flambeau.codegen.templates.gemm import build_tile

        key = height, *self.key[:-1]
        found = load_functions(build_tile(*key), ("tile",))["tile"]
        sources[found] = build_tile, key, current()
        self.tiles = (*self.tiles[:height], found, *self.tiles[height + 1 :])


SCHEDULES = Plans(lambda key: alone(Schedule, key), by_default=False, cuts=False)


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
    sizes, steps = tuple(sizes), tuple(chain(*steps))
    c, a, b, *extra = (st[-2:] for st in strides)
    return plan(out, m, n, k, c, a, b, scaled, activation, extra, sizes, steps)


PLANS = Plans(_plan_layouts, by_default=False)


def plan(like, m, n, k, c, a, b, scaled=False, activation="", addends=(), sizes=(), steps=()):
    """The Plan of a product of matrices, or a function that does it in another way.

    like: any layout with dtype and device of the operands. c, a, b, addends: strides of rows and
    columns; sizes: those of the batch; steps: strides along it, of c, a, b and each addend.
    """
    runtime = like.device.runtime
    if runtime.multiplies is not None:
        return runtime.multiplies(
            like, m, n, k, c, a, b, scaled, activation, addends, tuple(sizes), tuple(steps)
        )
    swapped = _transposed_is_better(m, n, c)
    if swapped:
        m, n = n, m
        c, a, b = c[::-1], b[::-1], a[::-1]
        addends = [st[::-1] for st in addends]
        if steps:
            r = len(sizes)
            steps = steps[:r] + steps[2 * r : 3 * r] + steps[r : 2 * r] + steps[3 * r :]
    if n > 1 and c[1] != 1:
        return _through_dense
    a_row, a_k = _unit(a, m, k)
    b_k, b_column = _unit(b, k, n)
    batch, dtype = prod(sizes), like.dtype
    mode, vectors = schedules.chosen(
        m, n, k, a_k, b_k, b_column, batch, SMALL, near(), *REGISTERS[dtype]
    )
    if m == 1 and vectors == WIDEST and planned() > MANY:
        vectors = WIDEST // 2  # narrower strips, for more threads
    if mode == BLOCKED and planned() > MANY and REGISTERS[dtype].host[1] == 2:
        # packed for all, rows and columns would travel from core to core; sums are the same
        mode = PANELS if k <= BLOCK[2] and m * k <= ALONE else BLOCKED
    if mode >= BLOCKED and (batch > 1 or k * n > max(HELD, 64 * k)):
        return _piecewise
    access = "".join(["s" if n == 1 else _ACCESS.get(st[1], "n") for st in addends])
    schedule = SCHEDULES[runtime, mode, dtype, vectors, scaled, access, activation, len(sizes)]
    strides = (*steps, *chain(*addends)) if addends else steps
    chunks, shared, slot, desc = schedule.described(
        m, n, k, a_row, a_k, b_k, b_column, c[0], batch, sizes, strides
    )
    if chunks > 1:
        pool().ensure_workers()
    return Plan(schedule.kernel, desc, chunks, shared, slot, swapped, runtime.pool_for)


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


# -- columns that are packed once ------------------------------------------------------------------

FAR = 4096  # rows of A so many bytes apart fall on the same places of the first-level cache


class Kept(NamedTuple):
    """A product whose columns are packed by a kernel of its own, once for many runs.

    pack(pack_desc, place, b) fills `nbytes`; kernel(desc, c, a, place, scratch, slots, ...) is the
    product, with `shared` bytes of scratch and `slot` more for each slot. shifts: does it pack
    rows, too, as the original does not?
    """

    pack: object
    pack_desc: bytes
    nbytes: int
    kernel: object
    desc: bytes
    shared: int
    slot: int
    shifts: bool


def with_kept_columns(runtime, key, desc):
    """The Kept of a product that packs its columns, None for others.

    key: what its kernel was built for; desc: its description. Sums are added in the same order.
    """
    mode, code, vectors, paired, *rest = key
    if mode not in ("columns", "panels", "blocked", "straight") or rest[-1]:
        return None
    count = len(Product._fields)
    given = words_of(desc)
    words, more = Product(*given[:count]), given[count:]
    shifts = mode == "columns" and words.a_row % FAR == 0 and words.panels > 1
    mode = "panels" if shifts else mode
    dtype = BY_CODE[code]
    schedule = SCHEDULES[runtime, MODES.index(mode), dtype, vectors, *rest]
    item = dtype.itemsize
    steps = [w // item for w in (words.a_row, words.a_k, words.b_k, words.b_column, words.c_row)]
    chunks, shared, slot, again = schedule.described(
        words.m, words.n, words.k, *steps, 1, (), tuple([w // item for w in more]), threads=0
    )
    again = Product(*words_of(again)[:count])
    columns, packed_item, grain = schedule.facts[2], schedule.facts[5], schedule.facts[6]
    in_blocks = mode in ("blocked", "straight")
    blocks, depth = (words.blocks, words.depth) if in_blocks else (1, words.k)
    pack_chunks = max(1, min(16, words.k * words.n >> 16))
    pack = again._replace(chunks=pack_chunks, pack_chunks=pack_chunks, blocks=blocks, depth=depth)
    product = again._replace(chunks=chunks - again.pack_chunks, pack_chunks=0)
    if mode == "columns":
        slot = 0
    if chunks > 1 or pack_chunks > 1:
        pool().ensure_workers()
    return Kept(
        runtime.kernel("gemm_keeping", "gemm:build_keeping", code, vectors, paired),
        packed(pack),
        -(-words.k // grain) * grain * words.strips * columns * packed_item,
        runtime.kernel("gemm", "gemm:build", mode, code, vectors, paired, *rest, True),
        packed((*product, *more)),
        shared,
        slot,
        shifts,
    )


def with_tail(runtime, key, desc, tail):
    """(kernel, description) of a product that goes on with its results.

    key: what its kernel was built for; desc: its description; tail: of codegen/templates/tails.py.
    Scratch and its slots stay as they are.
    """
    mode, code, vectors, _, scaled, addends, _, rank = key
    dtype, count = BY_CODE[code], len(Product._fields)
    given = words_of(desc)
    words, sizes, more = Product(*given[:count]), given[count : count + rank], given[count + rank :]
    schedule = SCHEDULES[runtime, MODES.index(mode), dtype, vectors, scaled, addends, tail, rank]
    item = dtype.itemsize
    steps = [w // item for w in (words.a_row, words.a_k, words.b_k, words.b_column, words.c_row)]
    strides = tuple([w // item for w in more])
    facts = words.m, words.n, words.k, *steps, prod(sizes), tuple(sizes), strides
    return schedule.kernel, schedule.described(*facts)[-1]


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
