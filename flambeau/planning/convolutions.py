"""How a convolution is cut into work: geometry in, description words out.

`Geometry` is a convolution of an image x with weights to a map y, three-dimensional whatever the
user's number of dimensions. The convolution, its input gradient (which is also the transposed
convolution) and its weight gradient are three ways to walk the same geometry. Blocks are chosen by
sizes alone, so results do not depend on threads. The kernels are in codegen/templates/conv*.py.
"""

import itertools
from functools import lru_cache
from math import prod
from typing import NamedTuple

from flambeau._natively import natively
from flambeau.codegen.descriptions import (
    Convolution,
    ConvolutionPhase,
    Gather,
    blank_of,
    filled,
)
from flambeau.codegen.llvm_names import COMPUTE_TYPE
from flambeau.codegen.scalar import BITS
from flambeau.runtime.cpu import packed
from flambeau.runtime.processor import matrices_allowed, second_level
from flambeau.runtime.stacks import alone
from flambeau.runtime.threads import MANY, planned

# The panel of patches has to stay in the second-level cache, beside sums and the next weights: it
# gets 27/64 of it. For a cache of S elements, passes over sums and over weights cost least at
# sqrt(2 S) rows; fewer are nearly as good, and leave more columns to each tile.
PANEL = 288  # rows of a panel
PIXELS = 384  # columns, with a cache of a megabyte
FEW = 8  # chunks that are enough to keep some threads busy
WEIGHT_PIXELS = 288  # the same for weight gradients, which have their other operand there, too
PACKING = 12  # rows that take as long as packing a block does
READING = 3  # vectors of a block that take as long as reading the weights does
LAST = 3  # quarters of a piece that threads wait for at the end
BEYOND = 16  # rows of weights that a tile may read behind the last one
WORDS = len(Convolution._fields)
BLANK = blank_of(Convolution)


class Geometry(NamedTuple):
    """Sizes and byte strides of x (n, c, d, h, w) and y (n, m, d, h, w), and how they relate."""

    x_shape: tuple
    x_strides: tuple
    y_shape: tuple
    y_strides: tuple
    kernel: tuple
    stride: tuple
    padding: tuple
    dilation: tuple
    groups: int


def volume(shape, strides, item):
    """Sizes and byte strides with depth and height added where they are missing."""
    if len(shape) == 4:
        (n, c, h, w), (by_n, by_c, by_h, by_w) = shape, strides
        return (n, c, 1, h, w), (by_n * item, by_c * item, 0, by_h * item, by_w * item)
    missing = 5 - len(shape)
    sizes = (*shape[:2], *(1,) * missing, *shape[2:])
    steps = [s * item for s in strides]
    return sizes, (*steps[:2], *(0,) * missing, *steps[2:])


def summed_size(code):
    """Bytes of a number while it is summed."""
    return max(4, BITS[COMPUTE_TYPE[code]] // 8)


@lru_cache
def registers(code):
    """(elements per vector register while they are summed, rows of a chunk of strips)."""
    return alone(_registers, code)


def _registers(code):
    from flambeau.codegen.templates import conv_panels, tiles  # with llvmlite, on first need

    return tiles.lanes(code), conv_panels.chunk_rows()


@lru_cache
def multiplies_pairs(code):
    """Can products of this dtype be summed two at a time, without widening it before?

    "square" where matrix registers do it.
    """
    return alone(_multiplies_pairs, code)


def _multiplies_pairs(code):
    from flambeau.codegen.templates import squares, tiles

    if code == "bf16" and squares.available() and matrices_allowed():
        return "square"
    return tiles.pairs(code)


def fitted(columns):
    """Columns of a panel that suit a megabyte of cache, for the cache that there is.

    Larger caches leave room for other things: there are chunks enough for many cores then.
    """
    return max(48, columns * min(second_level(), 1 << 20) >> 20)


def enough(work):
    """(chunks that keep all threads busy, threads to cut for or 0 where there are few of them).

    work: multiplications. Only cuts that change no sum may follow the number of threads.
    """
    threads = planned()
    if threads <= MANY:
        return FEW, 0
    return max(FEW, min(3 * threads, work >> 20)), threads


def cut(count, most):
    """The size of equal pieces of at most `most`."""
    pieces = -(-count // max(1, most))
    return -(-count // pieces)


def even(parts):
    """A number of parts that two threads share equally, where there are several."""
    return max(1, parts if parts < 3 else parts & -2)


@natively
def up(value, multiple):
    return -(-value // multiple) * multiple


def pitch(count, size):
    """Bytes of a row with room for a tile that reaches beyond its end; an odd number of lines."""
    nbytes = up(count * size, 64) + 192
    return nbytes if nbytes % 128 else nbytes + 64


def _blocks(channels, taps):
    """Blocks of (channel, tap) rows: (first channel, channels, first tap, taps)."""
    if taps == 0:
        return [(0, 0, 0, 0)]  # pixels that nothing reaches: a block of no products stores zeros
    if taps > 2 * PANEL:
        size = cut(taps, PANEL)
        return [
            (c, 1, t, min(size, taps - t)) for c in range(channels) for t in range(0, taps, size)
        ]
    size = cut(channels, max(1, PANEL // taps))
    return [(c, min(size, channels - c), 0, taps) for c in range(0, channels, size)]


@natively
def _lines(block, width, columns):
    """The most vectors that a block of pixels is cut into, at lines of so many columns."""
    return block // width + -(-block // max(1, columns)) * (-(-columns // width)) + 2


def describe(words, phases=(), taps=b"", blocks=b""):
    """A description: words by name, then tables (two are packed), whose places are words, too."""
    tap_table = WORDS + len(phases)
    words["phases"], words["phase_table"] = len(phases) // len(ConvolutionPhase._fields), WORDS
    words["tap_table"], words["block_table"] = tap_table, tap_table + len(taps) // 8
    return packed(filled(BLANK, words)) + packed(phases) + taps + blocks


def _common(size, block, depth, taps, vectors):
    """Words that every kernel on patches wants: depth, taps and vectors of the largest panel.

    size: bytes of a panel's elements.
    """
    at_lanes = up((block + 2) * 6 * 8, 64)
    at_moves = at_lanes + up(3 * (block + 16) * 8, 64)  # lanes, ways of vectors, lines, columns
    at_panel = at_moves + up((2 * taps + 1) * (vectors + 2) * 8 + 64, 64)
    line = pitch(block, size)
    return {
        "block": block, "at_lanes": at_lanes, "at_moves": at_moves, "move_pitch": vectors + 2,
        "at_panel": at_panel, "panel_pitch": line,
        "at_sums": at_panel + up((depth + 1) * line, 4096) + 64,
    }  # fmt: skip


def put_images(v, shape, strides, steps, y_strides):
    """Words of the image that patches are taken from, and of the other one."""
    _, _, v["in_d"], v["in_h"], v["in_w"] = shape
    v["x_n"], v["x_c"], v["x_d"], v["x_h"], v["x_w"] = strides
    v["step_d"], v["step_h"], v["step_w"] = steps
    v["y_n"], v["y_m"], v["y_d"], v["y_h"], v["y_w"] = y_strides


class Phase(NamedTuple):
    """Pixels that see the same taps: where the first lies, and where taps and blocks are listed."""

    first: tuple
    taps: list  # (depth, height, width, bytes of the weight)
    tap_first: int
    blocks_first: int
    blocks_count: int
    strips: int

    def record(self, first_chunk, d, h, w, base, pixels):
        """Words of this phase, whose pixels are d x h x w."""
        lists = self.tap_first, self.blocks_first, self.blocks_count
        return ConvolutionPhase(first_chunk, d, h, w, base, *lists, pixels, self.strips)


class Pattern(NamedTuple):
    """What of a convolution does not depend on the sizes of its images."""

    size: int  # bytes of a sum
    rows: int  # of a product, and what it sums over
    inner: int
    weights: dict  # words of the strides of weights
    phases: list
    depth: int
    most_taps: int
    taps: bytes  # tables
    blocks: bytes
    strip_bytes: int
    pixels: int  # of a block, at most
    work: int  # products of a pixel, in a group
    channels: int  # that are summed over: twice `inner` where those are pairs, or one less


@lru_cache(512)
def pattern_of(code, channels, rows, kernel, stride, padding, dilation, groups, paired, backward):
    """paired: weights stay bfloat16, and channels are summed over two at a time."""
    size = summed_size(code)
    item = 2 if paired else size
    c, m = channels // groups, rows // groups
    every = list(itertools.product(*map(range, kernel)))
    total = len(every)
    weights = {"a_m": c * total * item, "a_c": total * item, "a_group": m * c * total * item}
    rows, inner = m, c
    firsts, found = [(0, 0, 0)], []
    if backward:
        rows, inner, firsts = c, m, list(itertools.product(*map(range, stride)))
        weights["a_m"], weights["a_c"] = weights["a_c"], weights["a_m"]
    weights["in_order"], summed = not backward, inner
    if paired:
        weights["in_order"] = not backward and total == 1 and c % 2 == 0
        weights["a_pair"], inner = weights["a_c"], -(-inner // 2)
        weights["a_c"] *= 2
    all_taps, all_blocks, strips, depth, most = [], [], 0, 0, 0
    for first in firsts:
        taps = _taps_back(first, every, stride, padding, dilation, item) if backward else [
            (*[k * d - p for k, d, p in zip(tap, dilation, padding)], t * item)
            for t, tap in enumerate(every)
        ]  # fmt: skip
        blocks = _blocks(inner, len(taps))
        places = len(all_taps) // 4, len(all_blocks) // 5
        found.append(Phase(first, taps, *places, len(blocks), strips))
        strips += up(rows, 8) * inner * len(taps) * size
        k_first = 0
        for tap in taps:
            all_taps += tap
        for block in blocks:
            all_blocks += (*block, k_first)
            k_first += block[1] * block[3]
            depth, most = max(depth, block[1] * block[3]), max(most, block[3])
    tables = packed(all_taps), packed(all_blocks)
    step = 3 * registers(code)[0]
    pixels = fitted(PIXELS) * PANEL // max(PANEL, depth) * 4 // size // step * step
    work = rows * inner * total
    return Pattern(
        size, rows, inner, weights, found, depth, most, *tables, strips, max(step, pixels), work,
        summed,
    )  # fmt: skip


def _taps_back(first, every, stride, padding, dilation, size):
    """Taps that reach the pixels of x at `first` and whole strides from it."""
    taps = []
    for t, tap in enumerate(every):
        reach = [f + p - k * d for f, p, k, d in zip(first, padding, tap, dilation)]
        if not any(r % s for r, s in zip(reach, stride)):
            taps.append((*[r // s for r, s in zip(reach, stride)], t * size))
    return taps


def _lattices(g, pattern, backward):
    """For each phase its sizes and where it begins; then steps of patches and strides of results.

    Towards the input, the pixels of x that are congruent modulo the stride see the same taps.
    """
    if not backward:
        return [(*g.y_shape[2:], 0)], g.stride, g.y_strides
    n, c, by_d, by_h, by_w = g.x_strides
    (_, _, deep, high, wide), (sd, sh, sw) = g.x_shape, g.stride
    found = []
    for phase in pattern.phases:
        fd, fh, fw = phase.first
        sizes = -(-(deep - fd) // sd), -(-(high - fh) // sh), -(-(wide - fw) // sw)
        sizes = sizes if min(sizes) > 0 else (0, 0, 0)
        found.append((*sizes, fd * by_d + fh * by_h + fw * by_w))
    return found, (1, 1, 1), (n, c, by_d * sd, by_h * sh, by_w * sw)


# -- frames: descriptions but for the words that sizes and strides of images change ----------------

FIELDS = Convolution._fields
IMAGES = "x_n x_c x_d x_h x_w in_d in_h in_w step_d step_h step_w y_n y_m y_d y_h y_w".split()
AT = FIELDS.index("x_n")
assert list(FIELDS[AT : AT + len(IMAGES)]) == IMAGES and FIELDS[0] == "chunks"


class Frame(NamedTuple):
    """The words of a description before and after those of images, and its last tables."""

    before: bytes
    after: bytes
    tables: bytes
    slot_bytes: int
    first_description: bytes | None  # of strips, or of the sum of shares
    first_bytes: int

    def describe(self, chunks, images, phases):
        """images: strides and sizes of x, steps, strides of y; phases: words of their table."""
        parts = packed((chunks,)), self.before, packed(images), self.after, packed(phases)
        return b"".join((*parts, self.tables))


def _framed(words, pattern, phases, slot_bytes, first, first_bytes):
    tap_table = WORDS + phases * len(ConvolutionPhase._fields)
    words |= {"phases": phases, "phase_table": WORDS, "tap_table": tap_table, "chunks": 0}
    words |= {"block_table": tap_table + len(pattern.taps) // 8, "slot_bytes": slot_bytes}
    found, tables = filled(BLANK, words), pattern.taps + pattern.blocks
    before, after = packed(found[1:AT]), packed(found[AT + len(IMAGES) :])
    return Frame(before, after, tables, slot_bytes, first, first_bytes)


class ProductPlan(NamedTuple):
    """Description of a product, bytes of a slot; description and bytes of the weights as kernels
    want them, if they are laid out before."""

    description: bytes
    slot_bytes: int
    first_description: bytes | None
    first_bytes: int
    shared_bytes: int = 0  # of scratch, before slots


def product_plan(g, code, backward, biased, paired=False):
    """A convolution (x to y), or the way back (y to x)."""
    key = code, g.x_shape[1], g.y_shape[1], *g[4:], paired, backward
    pattern, n = pattern_of(*key), g.x_shape[0]
    lattices, steps, y_strides = _lattices(g, pattern, backward)
    (_, _, *sizes), strides = (g.y_shape, g.y_strides) if backward else (g.x_shape, g.x_strides)
    block, lines, per_part, together, own, each = _cut_pixels(
        tuple(itertools.chain(*lattices)), n, g.groups, registers(code)[0], pattern.pixels,
        pattern.work, pattern.rows, *enough(pattern.work * prod(g.y_shape) // g.y_shape[1]),
    )  # fmt: skip
    first, records = 0, []
    for phase, (d, h, w, base) in zip(pattern.phases, lattices):
        many = n * d * h * w
        if many:
            records += phase.record(first, d, h, w, base, many)
            first += -(-many // block) * each
    phases = len(records) // len(ConvolutionPhase._fields)
    frame = _product_frame(key, biased, block, lines, per_part, together, bool(own), phases)
    found = frame.describe(first, (*strides, *sizes, *steps, *y_strides), records)
    return ProductPlan(found, frame.slot_bytes, frame.first_description, frame.first_bytes)


@natively
def _turns(pieces, threads):
    """How many pieces' time it takes, times 8 threads.

    If all cores were alike, as many as the busiest thread takes. But they differ, and who is done
    helps the others: then all work is shared, and most wait for part of a last piece. The truth
    lies between the two.
    """
    return 4 * threads * -(-pieces // threads) + 4 * pieces + LAST * threads


@natively
def alike(vectors, most, rows, few, threads, times):
    """(vectors of a block, parts of the rows): pieces that keep many threads busy alike.

    A piece packs a block, which costs as much as some rows do, then its rows, whose weights come
    from beyond the cache. most: vectors that a block may have; times: how often all this is done;
    few: pieces that there is work for.
    """
    fewest = -(-vectors // most)
    block = min(vectors, most)
    parts = 1
    least = 1 << 62
    for b in range(fewest, min(vectors, max(few, fewest + threads)) + 1):
        long = -(-vectors // b)
        count = -(-vectors // long)
        for p in range(1, max(1, min(few, rows // 16)) + 1):
            tall = -(-rows // (8 * p)) * 8
            pieces = count * -(-rows // tall) * times
            cost = _turns(pieces, threads) * (long + READING) * (tall + PACKING)
            if cost < least:
                least = cost
                block = long
                parts = p
    return block, parts


@natively
def _cut_pixels(lattices: tuple, n, groups, width, most, work, rows, few, threads):
    """(pixels of a block, vectors of it, rows of a part, groups of a chunk, are weights used once?,
    chunks of a block). lattices: depth, height, width and base of each; threads: 0 for few of them.
    """
    largest = total = 0
    for k in range(0, len(lattices), 4):
        pixels = n * lattices[k] * lattices[k + 1] * lattices[k + 2]
        total += pixels
        largest = max(largest, pixels)
    block = most if largest > most else up(largest, 3 * width)
    # small groups share a chunk; tall products of few pixels are cut by rows
    together = sharing = 1
    if groups > 1:
        together = max(1, min(groups, (1 << 20) // max(1, work * block)))
        sharing = -(-groups // together)
    parts = 1
    if threads:
        times = sharing * -(-total // max(1, largest))
        vectors, parts = alike(-(-largest // width), most // width, rows, few, threads, times)
        block = vectors * width
    chunks = lines = 0
    for k in range(0, len(lattices), 4):
        pixels = n * lattices[k] * lattices[k + 1] * lattices[k + 2]
        chunks += -(-pixels // block) * sharing
        if pixels:
            lines = max(lines, _lines(block, width, lattices[k + 2]))
    if threads == 0 and chunks < few:
        parts = min(-(-few // chunks), max(1, rows // 128))
    per_part = up(-(-rows // parts), 8)
    each = -(-rows // per_part) * sharing
    # weights that are used once: nobody else would want the strips
    return block, lines, per_part, together, largest <= block, each


@lru_cache(512)
def _product_frame(facts, biased, block, lines, per_part, together, own, phases):
    pattern, groups, (_, strip_chunk) = pattern_of(*facts), facts[7], registers(facts[0])
    rows, depth, size = pattern.rows, pattern.depth, pattern.size
    v = _common(size, block, depth, pattern.most_taps, lines) | pattern.weights
    v["sums_pitch"] = line = v["panel_pitch"]
    v["at_strips"] = at = up(v["at_sums"] + (per_part + 8) * line, 64)
    v["m"], v["c"], v["groups_per_chunk"] = rows, pattern.channels, together
    v["group_count"] = groups
    v["m_parts"], v["m_per_part"], v["has_bias"] = -(-rows // per_part), per_part, biased
    v["strip_group"] = pattern.strip_bytes
    slot = up(at + own * (per_part + BEYOND) * depth * size, 4096) + 64
    frame = _framed(v, pattern, phases, slot, None, 0)
    if own:
        return frame
    # making strips needs nothing of images
    records = [w for phase in pattern.phases for w in phase.record(0, 0, 0, 0, 0, 0)]
    whole = frame if len(records) == phases * len(ConvolutionPhase._fields) else None
    whole = whole or _framed(v, pattern, len(pattern.phases), slot, None, 0)
    room = groups * pattern.strip_bytes + BEYOND * depth * size
    strips = whole.describe(groups * -(-rows // strip_chunk), [0] * len(IMAGES), records)
    return frame._replace(first_description=strips, first_bytes=room)


class WeightPlan(NamedTuple):
    """What a weight gradient needs: words of both kernels, bytes of a slot and of the shares."""

    description: bytes
    slot_bytes: int
    gather: bytes
    share_bytes: int


def weight_plan(g, code, biased, paired=False):
    """The gradient of the weights, and of the bias if asked for; paired: pixels go by twos."""
    key = code, g.x_shape[1], g.y_shape[1], *g[4:], False, False
    pattern, (width, _) = pattern_of(*key), registers(code)
    (phase,), groups, (n, _, out_d, out_h, out_w) = pattern.phases, g.groups, g.y_shape
    pixels = n * out_d * out_h * out_w
    item = 2 if paired else pattern.size
    block = min(up(fitted(WEIGHT_PIXELS) * 4 // item, width), up(pixels, width))
    k_parts = max(1, min(phase.blocks_count, FEW, pattern.inner * len(phase.taps) // 512))
    k_parts = max(1, min(k_parts, -(-FEW // groups)))
    pixel_parts = even(min(-(-pixels // block) // 2, -(-_shares(pattern) // (k_parts * groups))))
    few, threads = enough(pattern.work * pixels)
    k_parts = max(k_parts, min(phase.blocks_count, few // (pixel_parts * groups)))
    if threads:
        k_parts = even_turns(phase.blocks_count, k_parts, pixel_parts * groups, threads)
    others = k_parts * pixel_parts * groups
    m_parts, per_part = 1, pattern.rows
    if threads and not paired:
        # whole tiles of the widest kind, which may not reach into what another chunk sums
        per_part = up(-(-pattern.rows // max(1, few // others)), 3 * width)
        m_parts = -(-pattern.rows // per_part)
    lines = _lines(block, width, out_w)
    frame = _weight_frame(key, biased, block, lines, k_parts, pixel_parts, item, m_parts, per_part)
    images = *g.x_strides, *g.x_shape[2:], *g.stride, *g.y_strides
    record = phase.record(0, out_d, out_h, out_w, 0, pixels)
    found = frame.describe(others * m_parts, images, record)
    return WeightPlan(found, frame.slot_bytes, frame.first_description, frame.first_bytes)


@natively
def even_turns(blocks, parts, times, threads):
    """How many parts `blocks` are cut into, at least so many, for threads to end together."""
    best = parts
    least = 1 << 62
    for p in range(parts, min(blocks, 4 * parts + threads) + 1):
        cost = _turns(p * times, threads) * -(-blocks // p)
        if cost < least:
            least = cost
            best = p
    return best


def _shares(pattern):
    """Shares of the pixels that are summed apart: more of them where the weights are small."""
    return 2 * FEW if pattern.work <= 1 << 15 else FEW


@lru_cache(512)
def _weight_frame(facts, biased, block, lines, k_parts, pixel_parts, item, m_parts, per_part):
    pattern, groups, (width, _) = pattern_of(*facts), facts[7], registers(facts[0])
    rows, inner, size = pattern.rows, pattern.inner, pattern.size
    k_total = inner * len(pattern.phases[0].taps)
    v = _common(item, block, pattern.depth, pattern.most_taps, lines)
    v["sums_pitch"] = line = up(rows * size, 64) + 192
    v["m"], v["c"], v["group_count"], v["has_bias"] = rows, inner, groups, biased
    v["k_parts"], v["pixel_parts"], v["k_total"] = k_parts, pixel_parts, k_total
    v["m_parts"], v["m_per_part"] = m_parts, per_part
    v["group_bytes"] = group_bytes = (k_total + 8) * line
    v["part_bytes"] = part_bytes = groups * group_bytes
    slot = up(v["at_sums"] + (block + width) * line, 4096) + 64
    per_chunk = up(max(width, min(k_total, (1 << 16) // max(1, rows * pixel_parts))), width)
    per_group = -(-k_total // per_chunk)
    gather = Gather(
        chunks=groups * per_group, k_per_chunk=per_chunk, k=k_total, m=rows, shares=pixel_parts,
        part_bytes=part_bytes, group_bytes=group_bytes, pitch=line, group_chunks=per_group,
        has_bias=biased,
    )  # fmt: skip
    return _framed(v, pattern, 1, slot, packed(gather), pixel_parts * part_bytes)


# -- depthwise ------------------------------------------------------------------------------------

LARGEST_PLANE = 1 << 21  # bytes of a padded plane; larger ones are left to the general kernel


def _planes(g, code, backward):
    """(words, tables) for padded planes of the source; None if they would be too large."""
    pattern = pattern_of(code, g.x_shape[1], g.y_shape[1], *g[4:], False, backward)
    source, strides = g.x_shape, g.x_strides
    if backward:
        source, strides = g.y_shape, g.y_strides
    lattices, steps, y_strides = _lattices(g, pattern, backward)
    size = pattern.size
    low, sizes = [], []
    for k in range(3):
        reach = [tap[k] for phase in pattern.phases for tap in phase.taps] or [0]
        low.append(max(0, -min(reach)))
        far = [
            (p[k] - 1) * steps[k] + tap[k]
            for p, phase in zip(lattices, pattern.phases)
            if p[k]
            for tap in phase.taps
        ]
        sizes.append(max([source[2 + k], *[f + 1 for f in far]]) + low[k])
    part = -(-sizes[2] // steps[2])
    row = (part * steps[2] + 64 // size) * size
    slab = row * sizes[1]
    plane = up(slab * sizes[0] + 256, 64)
    if plane > LARGEST_PLANE:
        return None
    v = {"part_w": part, "row_pitch": row, "slab_pitch": slab, "plane_bytes": plane, "at_panel": 64}
    put_images(v, source, strides, steps, y_strides)
    v["low_d"], v["low_h"], v["low_w"] = low
    v["at_sums"] = 128 + plane
    moved, records, pixels = [], [], 0
    for (d, h, w, base), phase in zip(lattices, pattern.phases):
        if not d * h * w:
            continue
        pixels += d * h * w
        records += ConvolutionPhase(
            first_chunk=0, out_d=d, out_h=h, out_w=w, y_base=base, tap_first=len(moved) // 4,
            blocks_first=0, blocks_count=len(phase.taps), pixels=0,
        )  # fmt: skip
        for dd, dh, dw, a in phase.taps:
            column = dw + low[2]
            at = (dd + low[0]) * slab + (dh + low[1]) * row
            moved += (at + (column % steps[2] * part + column // steps[2]) * size, 0, 0, a)
    v["tap_count"] = len(moved) // 4
    v["slot_bytes"] = up(v["at_sums"] + (v["tap_count"] + 4) * 64, 4096) + 64
    return v, (records, packed(moved)), pixels


def depthwise_plan(g, code, backward, biased):
    """One channel after the other; None where the general kernel should do it."""
    found = _planes(g, code, backward)
    if found is None:
        return None
    v, tables, pixels = found
    v["c"], v["planes"], v["has_bias"] = g.groups, g.x_shape[0] * g.groups, biased
    kernel = g.kernel[0] * g.kernel[1] * g.kernel[2]
    v["a_group"] = kernel * summed_size(code)
    v["per_chunk"] = per_chunk = max(1, (1 << 15) // max(1, pixels + v["in_h"] * v["in_w"]))
    v["chunks"] = -(-v["planes"] // per_chunk)
    return ProductPlan(describe(v, *tables), v["slot_bytes"], None, 0)


def depthwise_weight_plan(g, code):
    """The weights of one channel after the other, or None."""
    found = _planes(g, code, False)
    if found is None:
        return None
    v, tables, _ = found
    v["c"], v["planes"] = g.groups, g.x_shape[0]
    pixels = g.x_shape[0] * v["in_h"] * v["in_w"] * v["in_d"]
    v["per_chunk"] = per_chunk = max(1, (1 << 15) // max(1, pixels))
    v["chunks"] = -(-g.groups // per_chunk)
    return WeightPlan(describe(v, *tables), v["slot_bytes"], b"", 0)
