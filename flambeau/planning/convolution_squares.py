"""How 3 x 3 convolutions are cut into squares of results; the kernels are conv_winograd*.py.

The spread weights are one temporary, 16/9 of the weights; everything else stays in slots of scratch
that do not grow with the images.
"""

from flambeau.codegen.descriptions import SquareGather, SquareSpread
from flambeau.planning.convolutions import (
    FEW,
    ProductPlan,
    WeightPlan,
    alike,
    cut,
    describe,
    enough,
    even,
    fitted,
    pitch,
    put_images,
    registers,
    summed_size,
    up,
)
from flambeau.runtime.cpu import packed
from flambeau.runtime.processor import second_level

LEAST_SQUARES = 96  # below that, spreading the weights costs more than it saves
LEAST_CHANNELS = 16
SQUARES = 112  # squares of a block, with a cache of a megabyte
WEIGHT_SQUARES = 208  # the same for weight gradients, whose sums are loaded and stored per block
WEIGHT_BYTES = 1 << 22  # of spread gradients
ROWS = 64  # rows of sums between products and gathering
SHARED_PLANE = 3 << 18  # bytes of a plane of all squares that many threads may share


ITEMS = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}


def fits(g, code):
    """Is this a convolution for squares? Lines of both images must lie side by side."""
    n, rows, _, high, wide = g.y_shape
    if g.kernel != (1, 3, 3) or min(g.x_shape[1], rows) < LEAST_CHANNELS or g.groups != 1:
        return False
    if g.stride != (1, 1, 1) or g.dilation != (1, 1, 1) or g.padding[0] or max(g.padding) > 2:
        return False
    item = g.x_strides[4]
    if item != ITEMS.get(code) or g.y_strides[4] != item or g.x_shape[2] != 1:
        return False
    return n * -(-high // 2) * -(-wide // 2) >= LEAST_SQUARES


def _block(squares, width, most, least):
    """Squares of a block: whole vectors, equal blocks, enough of them for some threads.

    A few blocks are an even number, which two threads share alike.
    """
    vectors = -(-squares // width)
    count = max(-(-vectors * width // most), min(least, vectors))
    each = cut(vectors, -(-vectors // count))
    for less in range(max(2, each - 2), each + 1):
        if -(-vectors // less) % 2 == 0 and -(-vectors // each) % 2 and vectors < 16 * each:
            each = less
    return each * width


def square_plan(g, code, backward, biased):
    """A convolution (x to y), or the way back with turned weights."""
    size, (width, _) = summed_size(code), registers(code)
    _, pad_h, pad_w = g.padding
    if backward:
        source, strides, out, out_strides = g.y_shape, g.y_strides, g.x_shape, g.x_strides
        pad_h, pad_w = 2 - pad_h, 2 - pad_w
    else:
        source, strides, out, out_strides = g.x_shape, g.x_strides, g.y_shape, g.y_strides
    (n, rows, _, out_h, out_w), depth = out, source[1]
    high, wide = -(-out_h // 2), -(-out_w // 2)
    squares = n * high * wide
    few, threads = enough(16 * squares * rows * depth)
    most = fitted(SQUARES) * 4 // size
    shared = False
    if threads:
        vectors, parts = alike(-(-squares // width), most // width, rows, few, threads, 1)
        block = vectors * width
        # blocks that several chunks would spread are spread once, for all of them
        shared = parts > 1 and depth * pitch(squares, size) <= SHARED_PLANE
        if shared:
            block, parts = squares, min(-(-rows // ROWS), max(1, rows * squares * depth >> 21))
    else:
        block = _block(squares, width, most, 4)
        parts = -(-squares // block)
        parts = min(-(-4 // parts), max(1, rows // ROWS)) if parts < 4 else 1
    blocks = -(-squares // block)
    per_part = up(-(-rows // parts), 8)
    parts = -(-rows // per_part)
    at_spare, line = up((block + 2) * 8 * 8, 64), pitch(block, size)
    at_panel, panel_plane = at_spare + 4 * 64 + 64, depth * line + 64
    slot, room, ends = up(at_panel, 4096), 0, (0, 0)
    chunks, held_rows = blocks * parts, ROWS
    if shared:
        at_panel, held_rows = 0, rows
    at_sums, sums_plane = at_panel + 16 * panel_plane + line, (held_rows + 8) * line + 64
    whole = up(at_sums + 16 * sums_plane + line, 4096) + 64
    if shared:
        room = up(whole, 4096)
        first = min(few, -(-depth // 4))
        ends = first, first + 16 * parts
        chunks = ends[1] + min(few, -(-rows // 4))
    else:
        slot = whole
    a_plane = up(rows, 16) * depth * size + 64
    v = dict(
        chunks=chunks, slot_bytes=slot, block=block, m_block=ROWS, m=rows, c=depth,
        spread_end=ends[0], product_end=ends[1], slots_at=room,
        pixel_parts=blocks, m_parts=parts, m_per_part=per_part, has_bias=biased, tiles=squares,
        tiles_h=high, tiles_w=wide, out_h=out_h, out_w=out_w, pad_h=pad_h, pad_w=pad_w,
        at_spare=at_spare, at_panel=at_panel, panel_pitch=line, panel_plane=panel_plane,
        at_sums=at_sums, sums_pitch=line, sums_plane=sums_plane, a_m=depth * size, a_plane=a_plane,
    )  # fmt: skip
    put_images(v, source, strides, (1, 1, 1), out_strides)
    taps = 9 * size
    spread = SquareSpread(
        chunks=-(-rows // width), rows=rows, depth=depth, row=depth * taps, step=taps, tap=size,
        first=0, plane=a_plane,
    )  # fmt: skip
    if backward:  # rows are channels of x, depth those of y, taps from the last to the first
        spread = spread._replace(row=taps, step=rows * taps, tap=-size, first=8 * size)
    return ProductPlan(describe(v), slot, packed(spread), 16 * a_plane, room)


def _halves(channels, rows, wanted):
    """(parts of the channels, parts of the rows): about `wanted` pieces, as square as they can be.

    A piece spreads its channels and its rows and multiplies all of one by all of the other.
    """
    c_parts = m_parts = 1
    if channels % 8:  # low tiles are wide ones, and would reach into the next part of the rows
        return max(1, min(wanted, channels // 16)), 1
    while c_parts * m_parts < wanted:
        tall, wide = channels // c_parts, rows // m_parts
        if tall >= wide and tall >= 32:
            c_parts *= 2
        elif wide >= 64:
            m_parts *= 2
        elif tall >= 32:
            c_parts *= 2
        else:
            break
    return c_parts, m_parts


def square_weight_plan(g, code):
    """The gradient of the weights."""
    size, (width, _) = summed_size(code), registers(code)
    n, rows, _, out_h, out_w = g.y_shape
    high, wide, channels = -(-out_h // 2), -(-out_w // 2), g.x_shape[1]
    squares = n * high * wide
    most = max(2 * width, min(WEIGHT_SQUARES, WEIGHT_BYTES // (16 * size * max(rows, 64))))
    block = min(cut(squares, most), squares)
    blocks = -(-squares // block)
    c_parts = max(1, min(4, channels // 64))
    parts = even(min(blocks // 2, FEW // c_parts))  # this one says what is added up in which order
    share, m_parts = block, 1
    few, threads = enough(16 * squares * rows * channels)
    if threads:
        c_parts, m_parts = _halves(channels, rows, min(few, 2 * threads) // parts)
    per_part, m_per_part = up(-(-channels // c_parts), 8), up(-(-rows // m_parts), width)
    c_parts, m_parts = -(-channels // per_part), -(-rows // m_per_part)
    if threads:
        each = 16 * size * (per_part + m_per_part)
        block = min(share, cut(squares, max(2 * width, (second_level() * 5 >> 3) // each)))
    at_spare, spare = up((block + 2) * 8 * 8, 64), (2 * min(wide, block) + width) * 64
    line, row, share_row = pitch(block, size), pitch(m_per_part, size), up(rows * size, 64) + 192
    at_panel, panel_plane = at_spare + 4 * 64 + 2 * spare + 64, per_part * line + 64
    at_sums, sums_plane = at_panel + 16 * panel_plane + line, block * row + 64
    slot = up(at_sums + 16 * sums_plane + row, 4096) + 64
    share_plane = (channels + 8) * share_row + 64
    v = dict(
        chunks=c_parts * m_parts * parts, slot_bytes=slot, block=block, m=rows, c=channels,
        c_parts=c_parts, c_per_part=per_part, m_parts=m_parts, m_per_part=m_per_part,
        share_squares=share, share_pitch=share_row, pixel_parts=parts, tiles=squares,
        tiles_h=high, tiles_w=wide, out_h=out_h, out_w=out_w, pad_h=g.padding[1],
        pad_w=g.padding[2], at_spare=at_spare, spare_pitch=spare, at_panel=at_panel,
        panel_pitch=line, panel_plane=panel_plane,
        at_sums=at_sums, sums_pitch=row, sums_plane=sums_plane, group_bytes=share_plane,
        part_bytes=16 * share_plane,
    )  # fmt: skip
    put_images(v, g.x_shape, g.x_strides, (1, 1, 1), g.y_strides)
    per_chunk = max(1, -(-channels // few))
    gather = SquareGather(
        chunks=-(-channels // per_chunk), c=channels, m=rows, shares=parts, pitch=share_row,
        plane=share_plane, part_bytes=16 * share_plane, c_per_chunk=per_chunk,
    )  # fmt: skip
    return WeightPlan(describe(v), slot, packed(gather), parts * 16 * share_plane)
