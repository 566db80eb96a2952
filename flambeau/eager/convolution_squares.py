"""How 3 x 3 convolutions are cut into squares of results; the kernels are conv_winograd*.py.

The spread weights are one temporary, 16/9 of the weights; everything else stays in slots of scratch
that do not grow with the images.
"""

from flambeau.eager.convolution_plans import (
    FEW,
    Description,
    ProductPlan,
    WeightPlan,
    cut,
    even,
    lanes,
    pitch,
    put_x,
    summed_size,
    up,
)

LEAST_SQUARES = 96  # below that, spreading the weights costs more than it saves
LEAST_CHANNELS = 16
SQUARES = 112  # squares of a block
WEIGHT_SQUARES = 208  # the same for weight gradients, whose sums are loaded and stored per block
WEIGHT_BYTES = 1 << 22  # of spread gradients
ROWS = 64  # rows of sums between products and gathering


def fits(g, code):
    """Is this a convolution for squares? Lines of both images must lie side by side."""
    item = g.x_strides[4]
    narrow = min(g.x_shape[1], g.y_shape[1]) < LEAST_CHANNELS
    if g.kernel != (1, 3, 3) or g.stride != (1, 1, 1) or g.groups != 1 or narrow:
        return False
    if g.dilation != (1, 1, 1) or g.padding[0] or max(g.padding) > 2 or g.x_shape[2] != 1:
        return False
    sizes = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2}
    if item != sizes.get(code) or g.y_strides[4] != item:
        return False
    squares = g.y_shape[0] * -(-g.y_shape[3] // 2) * -(-g.y_shape[4] // 2)
    return squares >= LEAST_SQUARES


def _block(squares, width, most):
    """Squares of a block: whole vectors, equal blocks, enough of them for some threads."""
    vectors = -(-squares // width)
    count = max(-(-vectors * width // most), min(4, vectors))
    return cut(vectors, -(-vectors // count)) * width


def square_words(names, g, code, backward, biased):
    """Words for a convolution (x to y), or for the way back with turned weights."""
    size = summed_size(code)
    width = lanes(code)
    if backward:
        source, strides, out, out_strides = g.y_shape, g.y_strides, g.x_shape, g.x_strides
        padding = [2 - p for p in g.padding[1:]]
    else:
        source, strides, out, out_strides = g.x_shape, g.x_strides, g.y_shape, g.y_strides
        padding = g.padding[1:]
    rows, depth = out[1], source[1]
    high, wide = -(-out[3] // 2), -(-out[4] // 2)
    squares = out[0] * high * wide
    block = _block(squares, width, SQUARES * 4 // size)
    d = Description(names)
    v = d.values
    put_x(v, source, strides, (1, 1, 1))
    v["y_n"], v["y_m"], v["y_d"], v["y_h"], v["y_w"] = out_strides
    v["tiles"], v["tiles_h"], v["tiles_w"] = squares, high, wide
    v["out_h"], v["out_w"], (v["pad_h"], v["pad_w"]) = out[3], out[4], padding
    v["m"], v["c"], v["has_bias"] = rows, depth, int(biased)
    v["pixel_parts"] = blocks = -(-squares // block)
    parts = 1 if blocks >= 4 else min(-(-4 // blocks), max(1, rows // ROWS))
    v["m_per_part"] = per_part = up(-(-rows // parts), 8)
    v["m_parts"] = parts = -(-rows // per_part)
    v["block"], v["m_block"], v["chunks"] = block, ROWS, blocks * parts
    at = up((block + 2) * 8 * 8, 64)
    v["at_spare"] = at
    at += 4 * 64 + 64
    v["panel_pitch"] = v["sums_pitch"] = line = pitch(block, size)
    v["at_panel"], v["panel_plane"] = at, depth * line + 64
    at += 16 * v["panel_plane"] + line
    v["at_sums"], v["sums_plane"] = at, (ROWS + 8) * line + 64
    v["slot_bytes"] = up(at + 16 * v["sums_plane"] + line, 4096) + 64
    v["a_m"], v["a_plane"] = depth * size, up(rows, 16) * depth * size + 64
    taps = len(g.taps) * size
    if backward:  # rows are channels of x, depth those of y, taps from the last to the first
        spread = [rows, depth, taps, rows * taps, -size, 8 * size]
    else:
        spread = [rows, depth, depth * taps, taps, size, 0]
    spread = [-(-rows // width), *spread, v["a_plane"]]
    return ProductPlan(d.list(), v["slot_bytes"], spread, 16 * v["a_plane"])


def square_weight_words(names, g, code):
    """Words for the gradient of the weights."""
    size = summed_size(code)
    width = lanes(code)
    high, wide = -(-g.y_shape[3] // 2), -(-g.y_shape[4] // 2)
    squares = g.y_shape[0] * high * wide
    channels, rows = g.x_shape[1], g.y_shape[1]
    most = max(2 * width, min(WEIGHT_SQUARES, WEIGHT_BYTES // (16 * size * max(rows, 64))))
    block = min(cut(squares, most), squares)
    blocks = -(-squares // block)
    c_parts = max(1, min(4, channels // 64))
    per_part = up(-(-channels // c_parts), 8)
    c_parts = -(-channels // per_part)
    parts = even(min(blocks // 2, FEW // c_parts))
    d = Description(names)
    v = d.values
    put_x(v, g.x_shape, g.x_strides, (1, 1, 1))
    v["y_n"], v["y_m"], v["y_d"], v["y_h"], v["y_w"] = g.y_strides
    v["tiles"], v["tiles_h"], v["tiles_w"] = squares, high, wide
    v["out_h"], v["out_w"] = g.y_shape[3:]
    v["pad_h"], v["pad_w"] = g.padding[1:]
    v["m"], v["c"], v["block"] = rows, channels, block
    v["c_parts"], v["c_per_part"], v["pixel_parts"] = c_parts, per_part, parts
    v["chunks"] = c_parts * parts
    at = up((block + 2) * 8 * 8, 64)
    v["at_spare"], v["spare_pitch"] = at, (2 * min(wide, block) + width) * 64
    at += 4 * 64 + 2 * v["spare_pitch"] + 64
    v["panel_pitch"] = line = pitch(block, size)
    v["at_panel"], v["panel_plane"] = at, per_part * line + 64
    at += 16 * v["panel_plane"] + line
    v["sums_pitch"] = row = up(rows * size, 64) + 192
    v["at_sums"], v["sums_plane"] = at, block * row + 64
    v["slot_bytes"] = up(at + 16 * v["sums_plane"] + row, 4096) + 64
    v["group_bytes"] = share_plane = (channels + 8) * row + 64
    v["part_bytes"] = part_bytes = 16 * share_plane
    per_chunk = max(1, -(-channels // FEW))
    gather = [-(-channels // per_chunk), channels, rows, parts, row, share_plane, part_bytes]
    return WeightPlan(d.list(), v["slot_bytes"], [*gather, per_chunk], parts * part_bytes)
