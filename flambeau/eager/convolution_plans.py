"""How a convolution is cut into work: geometry in, description words out.

`Geometry` is a convolution of an image x with weights to a map y, three-dimensional whatever the
user's number of dimensions. The convolution, its input gradient (which is also the transposed
convolution) and its weight gradient are three ways to walk the same geometry. Blocks are chosen by
sizes alone, so results do not depend on threads. The kernels are in codegen/templates/conv*.py.
"""

import itertools
from typing import NamedTuple

from flambeau.codegen.llvm_names import COMPUTE_TYPE
from flambeau.codegen.scalar import BITS

PANEL = 288  # rows of a panel: long sums keep the register tiles busy
PIXELS = 384  # columns of a panel, so that it stays in the second-level cache
FEW = 8  # chunks that are enough to keep some threads busy
WEIGHT_PIXELS = 288  # the same for weight gradients


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

    @property
    def taps(self):
        return list(itertools.product(*map(range, self.kernel)))


def volume(shape, strides, item):
    """Sizes and byte strides with depth and height added where they are missing."""
    missing = 5 - len(shape)
    sizes = (*shape[:2], *(1,) * missing, *shape[2:])
    steps = [s * item for s in strides]
    return sizes, (*steps[:2], *(0,) * missing, *steps[2:])


def summed_size(code):
    """Bytes of a number while it is summed."""
    return max(4, BITS[COMPUTE_TYPE[code]] // 8)


def lanes(code):
    """Elements per vector register while they are summed."""
    from flambeau.codegen.templates import tiles  # with llvmlite, on first need

    return tiles.lanes(code)


def cut(count, most):
    """The size of equal pieces of at most `most`."""
    pieces = -(-count // max(1, most))
    return -(-count // pieces)


def even(parts):
    """A number of parts that two threads share equally, where there are several."""
    return max(1, parts if parts < 3 else parts & -2)


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


def _lines(block, width, columns):
    """The most vectors that a block of pixels is cut into, at lines of so many columns."""
    return block // width + -(-block // max(1, columns)) * (-(-columns // width)) + 2


class Description:
    """Named words, then tables."""

    def __init__(self, names):
        self.values = dict.fromkeys(names, 0)
        self.tables = []

    def table(self, name, rows):
        self.values[name] = len(self.values) + len(self.tables)
        for row in rows:
            self.tables.extend(row)

    def list(self):
        return [*self.values.values(), *self.tables]


def _common(names, size, block, depth, taps, vectors):
    """Words that every kernel on patches wants: depth, taps and vectors of the largest panel."""
    d = Description(names)
    v = d.values
    v["block"] = block
    at = up((block + 2) * 6 * 8, 64)
    v["at_lanes"] = at
    at += up((block + 16) * 8, 64)
    v["at_moves"], v["move_pitch"] = at, vectors + 2
    at += up((2 * taps + 1) * v["move_pitch"] * 8 + 64, 64)
    v["at_panel"], v["panel_pitch"] = at, pitch(block, size)
    at += up((depth + 1) * v["panel_pitch"], 4096) + 64
    v["at_sums"] = at
    return d


def put_x(v, shape, strides, steps):
    v["in_d"], v["in_h"], v["in_w"] = shape[2:]
    v["x_n"], v["x_c"], v["x_d"], v["x_h"], v["x_w"] = strides
    v["step_d"], v["step_h"], v["step_w"] = steps


def _forward_phases(g, item):
    """The convolution itself: one phase, taps as they are."""
    taps = [
        (*[k * d - p for k, d, p in zip(tap, g.dilation, g.padding)], t * item)
        for t, tap in enumerate(g.taps)
    ]
    return [((*g.y_shape[2:], 0), taps)], g.stride, g.y_strides


def _backward_phases(g, item):
    """Towards the input: the pixels of x that are congruent modulo the stride see the same taps."""
    phases = []
    for first in itertools.product(*map(range, g.stride)):
        sizes = [max(0, -(-(n - f) // s)) for n, f, s in zip(g.x_shape[2:], first, g.stride)]
        taps = []
        for t, tap in enumerate(g.taps):
            reach = [f + p - k * d for f, p, k, d in zip(first, g.padding, tap, g.dilation)]
            if not any(r % s for r, s in zip(reach, g.stride)):
                taps.append((*[r // s for r, s in zip(reach, g.stride)], t * item))
        base = sum(f * s for f, s in zip(first, g.x_strides[2:]))
        phases.append(((*sizes, base), taps))
    strides = [st * s for st, s in zip(g.x_strides[2:], g.stride)]
    return phases, (1, 1, 1), (*g.x_strides[:2], *strides)


class ProductPlan(NamedTuple):
    """Words of a product, bytes of a slot; words and bytes of the weights as kernels want them."""

    words: list
    slot_bytes: int
    strip_words: list
    strip_bytes: int


def product_words(names, g, code, backward, biased, strip_chunk):
    """Words for a convolution (x to y), or the way back (y to x)."""
    size = summed_size(code)
    width = lanes(code)
    taps_total = len(g.taps)
    c_group, m_group = g.x_shape[1] // g.groups, g.y_shape[1] // g.groups
    if backward:
        phases, steps, y_strides = _backward_phases(g, size)
        source, strides = g.y_shape, g.y_strides
        rows, inner = c_group, m_group
        a_m, a_c, a_group = taps_total * size, c_group * taps_total * size, 0
        a_group = m_group * a_c
    else:
        phases, steps, y_strides = _forward_phases(g, size)
        source, strides = g.x_shape, g.x_strides
        rows, inner = m_group, c_group
        a_m, a_c = c_group * taps_total * size, taps_total * size
        a_group = m_group * a_m
    n = g.x_shape[0]
    pixels = [n * p[0][0] * p[0][1] * p[0][2] for p in phases]
    cuts = [_blocks(inner, len(taps)) for _, taps in phases]
    depth = max((c * t for blocks in cuts for _, c, _, t in blocks), default=1)
    step = 3 * width
    most = max(step, PIXELS * PANEL // max(PANEL, depth) * 4 // size // step * step)
    block = min(most, up(cut(max(pixels), most), step))
    counts = [-(-p // block) for p in pixels]
    # small groups share a chunk; tall products of few pixels are cut by rows
    together = max(1, min(g.groups, (1 << 20) // max(1, rows * inner * taps_total * block)))
    chunks = sum(counts) * -(-g.groups // together)
    parts = 1
    if chunks < FEW:
        parts = min(-(-FEW // chunks), max(1, rows // 128))
    per_part = up(-(-rows // parts), 8)
    parts = -(-rows // per_part)
    taps = max(t for blocks in cuts for *_, t in blocks)
    lines = max(_lines(block, width, p[2]) for (p, _), many in zip(phases, pixels) if many)
    d = _common(names, size, block, depth, taps, lines)
    v = d.values
    v["sums_pitch"] = v["panel_pitch"]
    v["at_strips"] = at = up(v["at_sums"] + (per_part + 8) * v["sums_pitch"], 64)
    own = max(counts) == 1
    v["slot_bytes"] = up(at + own * (per_part + 8) * depth * size, 4096) + 64
    put_x(v, source, strides, steps)
    v["y_n"], v["y_m"], v["y_d"], v["y_h"], v["y_w"] = y_strides
    v["m"], v["c"], v["group_count"], v["groups_per_chunk"] = rows, inner, g.groups, together
    v["m_parts"], v["m_per_part"] = parts, per_part
    v["a_group"], v["a_m"], v["a_c"], v["has_bias"] = a_group, a_m, a_c, int(biased)
    first_chunk = first_tap = first_block = strips = 0
    v["in_order"] = int(not backward)
    records, all_taps, all_blocks = [], [], []
    for ((*sizes, base), taps), count, many, blocks in zip(phases, counts, pixels, cuts):
        if many == 0:
            continue
        records.append(
            (first_chunk, *sizes, base, first_tap, first_block, len(blocks), many, strips)
        )
        strips += up(rows, 8) * inner * len(taps) * size
        first_chunk += count * parts * -(-g.groups // together)
        first_tap += len(taps)
        first_block += len(blocks)
        all_taps += taps
        firsts = itertools.accumulate((c * t for _, c, _, t in blocks), initial=0)
        all_blocks += [(*b, f) for b, f in zip(blocks, firsts)]
    v["chunks"], v["phases"], v["strip_group"] = first_chunk, len(records), strips
    d.table("phase_table", records)
    d.table("tap_table", all_taps)
    d.table("block_table", all_blocks)
    described = d.list()
    strip_words = [g.groups * -(-rows // strip_chunk), *described[1:]]
    if own:  # weights are used once: nobody else would want the strips
        return ProductPlan(described, v["slot_bytes"], None, 0)
    return ProductPlan(described, v["slot_bytes"], strip_words, g.groups * strips)


class WeightPlan(NamedTuple):
    """What a weight gradient needs: words of both kernels, bytes of a slot and of the shares."""

    words: list
    slot_bytes: int
    gather_words: list
    share_bytes: int


def weight_words(names, g, code, biased):
    """Words for the gradient of the weights, and of the bias if asked for."""
    size = summed_size(code)
    width = lanes(code)
    phases, steps, y_strides = _forward_phases(g, size)
    (place, taps), n = phases[0], g.x_shape[0]
    c_group, m_group = g.x_shape[1] // g.groups, g.y_shape[1] // g.groups
    pixels = n * place[0] * place[1] * place[2]
    blocks = _blocks(c_group, len(taps))
    depth = max(c * t for _, c, _, t in blocks)
    most = WEIGHT_PIXELS * 4 // size
    block = min(most, up(pixels, width))
    count = -(-pixels // block)
    k_parts = max(1, min(len(blocks), FEW, c_group * len(taps) // 512))
    k_parts = max(1, min(k_parts, -(-FEW // g.groups)))
    pixel_parts = even(min(count // 2, -(-FEW // (k_parts * g.groups))))
    most_taps = max(t for *_, t in blocks)
    d = _common(names, size, block, depth, most_taps, _lines(block, width, place[2]))
    v = d.values
    v["sums_pitch"] = line = up(m_group * size, 64) + 192
    v["slot_bytes"] = up(v["at_sums"] + (block + width) * line, 4096) + 64
    put_x(v, g.x_shape, g.x_strides, steps)
    v["y_n"], v["y_m"], v["y_d"], v["y_h"], v["y_w"] = y_strides
    v["m"], v["c"], v["group_count"] = m_group, c_group, g.groups
    v["k_parts"], v["pixel_parts"] = k_parts, pixel_parts
    v["has_bias"] = int(biased)
    k_total = v["k_total"] = c_group * len(taps)
    v["group_bytes"] = (k_total + 8) * line
    v["part_bytes"] = part_bytes = g.groups * v["group_bytes"]
    v["chunks"], v["phases"] = k_parts * pixel_parts * g.groups, 1
    d.table("phase_table", [(0, *place, 0, 0, len(blocks), pixels, 0)])
    d.table("tap_table", taps)
    d.table("block_table", [(*b, 0) for b in blocks])
    per_chunk = up(max(width, min(k_total, (1 << 16) // max(1, m_group * pixel_parts))), width)
    per_group = -(-k_total // per_chunk)
    gather = [g.groups * per_group, per_chunk, k_total, m_group, pixel_parts, part_bytes]
    gather += [v["group_bytes"], line, per_group, int(biased)]
    return WeightPlan(d.list(), v["slot_bytes"], gather, pixel_parts * part_bytes)


# -- depthwise ------------------------------------------------------------------------------------

LARGEST_PLANE = 1 << 21  # bytes of a padded plane; larger ones are left to the general kernel


def _planes(names, source, strides, phases, steps, size):
    """Words and tables for padded planes of the source; None if they would be too large."""
    reach = [[tap[k] for _, taps in phases for tap in taps] or [0] for k in range(3)]
    low = [max(0, -min(r)) for r in reach]
    sizes = []
    for k in range(3):
        far = [(p[k] - 1) * steps[k] + tap[k] for p, taps in phases if p[k] for tap in taps]
        sizes.append(max([source[2 + k], *[f + 1 for f in far]]) + low[k])
    part = -(-sizes[2] // steps[2])
    row = (part * steps[2] + 64 // size) * size
    slab = row * sizes[1]
    plane = up(slab * sizes[0] + 256, 64)
    if plane > LARGEST_PLANE:
        return None
    d = Description(names)
    v = d.values
    put_x(v, source, strides, steps)
    v["low_d"], v["low_h"], v["low_w"] = low
    v["part_w"], v["row_pitch"], v["slab_pitch"], v["plane_bytes"] = part, row, slab, plane
    v["at_panel"], v["at_sums"] = 64, 128 + plane
    moved, records = [], []
    for (*grid, base), taps in phases:
        if 0 in grid:
            continue
        records.append((0, *grid, base, len(moved), 0, len(taps), 0, 0))
        for dd, dh, dw, a in taps:
            column = dw + low[2]
            at = (dd + low[0]) * slab + (dh + low[1]) * row
            at += (column % steps[2] * part + column // steps[2]) * size
            moved.append((at, 0, 0, a))
    d.table("phase_table", records)
    d.table("tap_table", moved)
    v["phases"], v["tap_count"] = len(records), len(moved)
    v["slot_bytes"] = up(v["at_sums"] + (len(moved) + 4) * 64, 4096) + 64
    return d


def depthwise_words(names, g, code, backward, biased):
    """Words for one channel after the other; None where the general kernel should do it."""
    size = summed_size(code)
    if backward:
        phases, steps, y_strides = _backward_phases(g, size)
        source, strides = g.y_shape, g.y_strides
    else:
        phases, steps, y_strides = _forward_phases(g, size)
        source, strides = g.x_shape, g.x_strides
    d = _planes(names, source, strides, phases, steps, size)
    if d is None:
        return None
    v = d.values
    v["c"], v["planes"] = g.groups, g.x_shape[0] * g.groups
    v["y_n"], v["y_m"], v["y_d"], v["y_h"], v["y_w"] = y_strides
    v["a_group"], v["has_bias"] = len(g.taps) * size, int(biased)
    pixels = sum(p[0] * p[1] * p[2] for p, _ in phases) + v["in_h"] * v["in_w"]
    v["per_chunk"] = per_chunk = max(1, (1 << 15) // max(1, pixels))
    v["chunks"] = -(-v["planes"] // per_chunk)
    return d.list(), v["slot_bytes"]


def depthwise_weight_words(names, g, code):
    """Words for the weights of one channel after the other, or None."""
    size = summed_size(code)
    phases, steps, y_strides = _forward_phases(g, size)
    d = _planes(names, g.x_shape, g.x_strides, phases, steps, size)
    if d is None:
        return None
    v = d.values
    v["c"], v["planes"] = g.groups, g.x_shape[0]
    v["y_n"], v["y_m"], v["y_d"], v["y_h"], v["y_w"] = y_strides
    pixels = g.x_shape[0] * v["in_h"] * v["in_w"] * v["in_d"]
    v["per_chunk"] = per_chunk = max(1, (1 << 15) // max(1, pixels))
    v["chunks"] = -(-g.groups // per_chunk)
    return d.list(), v["slot_bytes"]
