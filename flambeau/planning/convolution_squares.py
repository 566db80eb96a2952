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

LEAST_SQUARES = 96  # below that, spreading the weights costs more than it saves
LEAST_CHANNELS = 16
SQUARES = 112  # squares of a block, with a cache of a megabyte
WEIGHT_SQUARES = 208  # the same for weight gradients, whose sums are loaded and stored per block
WEIGHT_BYTES = 1 << 22  # of spread gradients
ROWS = 64  # rows of sums between products and gathering


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
    if threads:
        vectors, parts = alike(-(-squares // width), most // width, rows, few, threads, 1)
        block = vectors * width
        blocks = -(-squares // block)
    else:
        block = _block(squares, width, most, 4)
        blocks = -(-squares // block)
        parts = min(-(-4 // blocks), max(1, rows // ROWS)) if blocks < 4 else 1
    per_part = up(-(-rows // parts), 8)
    parts = -(-rows // per_part)
    at_spare, line = up((block + 2) * 8 * 8, 64), pitch(block, size)
    at_panel, panel_plane = at_spare + 4 * 64 + 64, depth * line + 64
    at_sums, sums_plane = at_panel + 16 * panel_plane + line, (ROWS + 8) * line + 64
    slot = up(at_sums + 16 * sums_plane + line, 4096) + 64
    a_plane = up(rows, 16) * depth * size + 64
    v = dict(
        chunks=blocks * parts, slot_bytes=slot, block=block, m_block=ROWS, m=rows, c=depth,
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
    return ProductPlan(describe(v), slot, packed(spread), 16 * a_plane)


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
    per_part = up(-(-channels // c_parts), 8)
    c_parts = -(-channels // per_part)
    parts = even(min(blocks // 2, FEW // c_parts))  # this one says what is added up in which order
    few, threads = enough(16 * squares * rows * channels)
    if threads:
        c_parts = max(c_parts, min(few // parts, channels // 16))
        per_part = up(-(-channels // c_parts), 8)
        c_parts = -(-channels // per_part)
    at_spare, spare = up((block + 2) * 8 * 8, 64), (2 * min(wide, block) + width) * 64
    line, row = pitch(block, size), up(rows * size, 64) + 192
    at_panel, panel_plane = at_spare + 4 * 64 + 2 * spare + 64, per_part * line + 64
    at_sums, sums_plane = at_panel + 16 * panel_plane + line, block * row + 64
    slot = up(at_sums + 16 * sums_plane + row, 4096) + 64
    share_plane = (channels + 8) * row + 64
    v = dict(
        chunks=c_parts * parts, slot_bytes=slot, block=block, m=rows, c=channels, c_parts=c_parts,
        c_per_part=per_part, pixel_parts=parts, tiles=squares, tiles_h=high, tiles_w=wide,
        out_h=out_h, out_w=out_w, pad_h=g.padding[1], pad_w=g.padding[2], at_spare=at_spare,
        spare_pitch=spare, at_panel=at_panel, panel_pitch=line, panel_plane=panel_plane,
        at_sums=at_sums, sums_pitch=row, sums_plane=sums_plane, group_bytes=share_plane,
        part_bytes=16 * share_plane,
    )  # fmt: skip
    put_images(v, g.x_shape, g.x_strides, (1, 1, 1), g.y_strides)
    per_chunk = max(1, -(-channels // few))
    gather = SquareGather(
        chunks=-(-channels // per_chunk), c=channels, m=rows, shares=parts, pitch=row,
        plane=share_plane, part_bytes=16 * share_plane, c_per_chunk=per_chunk,
    )  # fmt: skip
    return WeightPlan(describe(v), slot, packed(gather), parts * 16 * share_plane)
