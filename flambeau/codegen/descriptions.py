"""The words of launch descriptions, by name, for launchers and kernels alike.

A launcher packs such a tuple of numbers; a kernel under construction reads the same tuple as values
(`Kernel.described` in templates/sorting.py). So there is no counting of words on either side. The
first word is always the number of chunks. Nothing here needs the compiler.
"""

from typing import Any, NamedTuple

ITEM_BYTES = {  # of an element in memory, by dtype code
    "bool": 1, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "f16": 2, "bf16": 2, "u32": 4, "i32": 4,
    "f32": 4, "u64": 8, "i64": 8, "f64": 8, "c32": 4, "c64": 8, "c128": 16,
}  # fmt: skip

Word = Any  # a number when launched, a value while a kernel is written


def blank_of(kind):
    """The words of a kind of description, none of them filled in, but for those with defaults."""
    return {name: kind._field_defaults.get(name) for name in kind._fields}


def filled(blank, words):
    """Words by name in the order of a description: quicker than a call with many keywords."""
    found = [*(blank | words).values()]
    if len(found) != len(blank):
        raise TypeError(f"no such words: {[name for name in words if name not in blank]}")
    return found


class Walk(NamedTuple):
    """A pointwise nest: rows are cut into pieces, chunks take some rows or a piece of one.

    Sizes of the outer dimensions follow, then per operand its inner stride and its outer ones.
    """

    chunks: Word
    pieces: Word
    piece: Word
    per_chunk: Word  # rows
    rows: Word
    length: Word


class Reducing(NamedTuple):
    """A reduction, along rows or down columns.

    Sizes, strides and output positions of kept dimensions follow, then those of reduced ones.
    """

    chunks: Word
    per_chunk: Word  # rows, or columns of a block
    rows: Word
    pieces: Word  # into which what is reduced is cut
    piece: Word
    length: Word  # of the dimension that vectors run along
    stride: Word  # of that, in bytes
    count: Word  # reduced elements of a result, in all
    out_stride: Word  # of the vector dimension, down columns
    states: Word  # per component


class Rows(NamedTuple):
    """Rows side by side in memory."""

    chunks: Word
    rows: Word
    length: Word
    per_chunk: Word


class Product(NamedTuple):
    """A matrix product; strides, sizes and offsets are in bytes.

    Then come batch sizes; batch strides of C, A, B and each addend; row and column of each addend.
    """

    chunks: Word
    per_chunk: Word
    items: Word
    m: Word
    n: Word
    k: Word
    a_row: Word
    a_k: Word
    b_k: Word
    b_column: Word
    c_row: Word
    panels: Word
    tall: Word
    height: Word
    tall_tile: Word
    short_tile: Word
    row_groups: Word
    column_groups: Word
    strips: Word
    along: Word  # does all of B stay close?
    # of modes that pack, or go through k in blocks
    blocks: Word = 0
    depth: Word = 0
    pack_chunks: Word = 0
    slot_bytes: Word = 0
    slots_at: Word = 0
    partial_at: Word = 0
    partial_row: Word = 0
    rows_at: Word = 0  # where rows that all chunks share are packed, if they are
    panel_bytes: Word = 0  # of such a panel
    steps: Word = 1  # into which a piece is cut by columns, so that others can help with it


class DeviceProduct(NamedTuple):
    """A matrix product on a GPU; strides are in bytes.

    Then come batch sizes; batch strides of C, A, B and each addend; row and column of each addend.
    """

    chunks: Word
    batch: Word  # matrices
    m: Word
    n: Word
    k: Word
    c_row: Word
    c_column: Word
    a_row: Word
    a_k: Word
    b_k: Word
    b_column: Word


class LibraryProduct(NamedTuple):
    """A matrix product that cuBLASLt does: what was described to it, all of them addresses."""

    matmul: Word  # functions of the library
    set_attribute: Word
    otherwise: Word  # a function of Python for what was not foreseen
    handle: Word
    operation: Word
    a: Word  # layouts
    b: Word
    c: Word
    d: Word
    algorithm: Word
    workspace: Word
    room: Word  # bytes of it
    tf32: Word  # was it allowed?


class DeviceConvolution(NamedTuple):
    """A convolution on a GPU.

    Then come three numbers each: sizes of pictures, of results and of weights, stride, padding,
    dilation; then five strides in bytes each, of pictures, results and weights.
    """

    chunks: Word
    results: Word
    images: Word
    ins: Word  # channels
    outs: Word
    ins_per_group: Word
    outs_per_group: Word
    bias_step: Word


class Windows(NamedTuple):
    """Pooling: images x depth x height x width x channels; three numbers of everything.

    Where windows lie follows from taps, strides, paddings and dilations; adaptive ones share the
    input out. They count what they hold of the input, or of its padding too, or a given divisor.
    """

    chunks: Word
    per_chunk: Word
    pieces: Word
    depth: Word
    height: Word
    width: Word
    out_depth: Word
    out_height: Word
    out_width: Word
    channels: Word
    image: Word  # elements from image to image of what is read
    taps_d: Word
    taps_h: Word
    taps_w: Word
    dilation_d: Word = 1
    dilation_h: Word = 1
    dilation_w: Word = 1
    stride_d: Word = 1
    stride_h: Word = 1
    stride_w: Word = 1
    padding_d: Word = 0
    padding_h: Word = 0
    padding_w: Word = 0
    counts_padding: Word = 1
    divisor: Word = 0  # if there is one
    by_columns: Word = (
        0  # do windows share columns, or have so few that it is better to go by those?
    )


class Convolution(NamedTuple):
    """Convolutions of all kinds; tables of phases, taps and blocks of k follow.

    x is what patches are taken from, y what is written (or, for weights, multiplied with them), a
    the weights. step_*: how far a patch moves from pixel to pixel; at_*: places within a slot of
    scratch; *_pitch: bytes from row to row. Strides are in bytes. No kernel uses all of them.
    """

    # how the work is cut
    chunks: Word
    slot_bytes: Word = 0
    block: Word = 0
    m: Word = 0
    c: Word = 0
    group_count: Word = 0
    groups_per_chunk: Word = 0
    m_parts: Word = 0
    m_per_part: Word = 0
    k_parts: Word = 0
    pixel_parts: Word = 0
    part_bytes: Word = 0
    group_bytes: Word = 0
    k_total: Word = 0
    # images and weights
    x_n: Word = 0
    x_c: Word = 0
    x_d: Word = 0
    x_h: Word = 0
    x_w: Word = 0
    in_d: Word = 0
    in_h: Word = 0
    in_w: Word = 0
    step_d: Word = 0
    step_h: Word = 0
    step_w: Word = 0
    y_n: Word = 0
    y_m: Word = 0
    y_d: Word = 0
    y_h: Word = 0
    y_w: Word = 0
    a_group: Word = 0
    a_m: Word = 0
    a_c: Word = 0
    a_pair: Word = 0  # bytes between the two weights of a word
    has_bias: Word = 0
    in_order: Word = 0
    # scratch and tables
    at_lanes: Word = 0
    at_moves: Word = 0
    move_pitch: Word = 0
    at_panel: Word = 0
    panel_pitch: Word = 0
    at_sums: Word = 0
    sums_pitch: Word = 0
    at_strips: Word = 0
    strip_group: Word = 0
    phases: Word = 0
    phase_table: Word = 0
    tap_table: Word = 0
    block_table: Word = 0
    # depthwise: a padded plane
    planes: Word = 0
    per_chunk: Word = 0
    plane_bytes: Word = 0
    row_pitch: Word = 0
    slab_pitch: Word = 0
    low_d: Word = 0
    low_h: Word = 0
    low_w: Word = 0
    part_w: Word = 0
    tap_count: Word = 0
    # squares: planes of products
    tiles: Word = 0
    tiles_h: Word = 0
    tiles_w: Word = 0
    out_h: Word = 0
    out_w: Word = 0
    pad_h: Word = 0
    pad_w: Word = 0
    m_block: Word = 0
    a_plane: Word = 0
    panel_plane: Word = 0
    sums_plane: Word = 0
    at_spare: Word = 0
    spare_pitch: Word = 0
    c_parts: Word = 0
    spread_end: Word = 0  # chunks that spread patches for all, where planes are shared
    product_end: Word = 0  # and those that multiply
    slots_at: Word = 0
    share_squares: Word = 0  # whole numbers of these make a share of the squares
    share_pitch: Word = 0
    c_per_part: Word = 0


class ConvolutionPhase(NamedTuple):
    """Pixels that see the same taps; one of a table."""

    first_chunk: Word
    out_d: Word
    out_h: Word
    out_w: Word
    y_base: Word
    tap_first: Word
    blocks_first: Word
    blocks_count: Word
    pixels: Word
    strips: Word = 0


class Gather(NamedTuple):
    """Shares of a gradient of weights that are added up."""

    chunks: Word
    k_per_chunk: Word
    k: Word
    m: Word
    shares: Word
    part_bytes: Word
    group_bytes: Word
    pitch: Word
    group_chunks: Word
    has_bias: Word


class SquareSpread(NamedTuple):
    """Weights that are spread for squares of results; strides in bytes."""

    chunks: Word
    rows: Word
    depth: Word
    row: Word
    step: Word
    tap: Word
    first: Word
    plane: Word


class SquareGather(NamedTuple):
    """Shares of a gradient of such weights."""

    chunks: Word
    c: Word
    m: Word
    shares: Word
    pitch: Word
    plane: Word
    part_bytes: Word
    c_per_chunk: Word


class Pairs(NamedTuple):
    """Distances of all pairs of rows of two matrices; strides of distances in elements."""

    chunks: Word
    per_chunk: Word
    all: Word  # rows of the first operand in all matrices
    rows: Word
    others: Word
    size: Word  # coordinates
    by_matrix: Word = 0
    by_row: Word = 0
    by_column: Word = 0


class Columns(NamedTuple):
    """Rows that run across memory: outer x groups chunks.

    height is the sum of all lengths, so that the last may be shorter.
    """

    chunks: Word
    height: Word
    length: Word
    inner: Word
    groups: Word
    per_group: Word


class Planes(NamedTuple):
    """Rows in segments; items are rows times pieces."""

    chunks: Word
    rows: Word
    length: Word  # of a segment
    segments: Word
    segment_step: Word
    row_step: Word
    pieces: Word
    run: Word  # segments per piece
    part: Word  # elements of a segment per piece
    period: Word  # of weights, in rows
    per_chunk: Word  # items


class Tallies(NamedTuple):
    """Sums over the chunks that tallied."""

    chunks: Word
    pieces: Word
    positions: Word
    per_chunk: Word


class Pieces(NamedTuple):
    """Statistics of pieces that are joined."""

    chunks: Word
    rows: Word
    pieces: Word


class Scores(NamedTuple):
    """Rows of scores, a class number for each."""

    chunks: Word
    rows: Word
    classes: Word
    per_chunk: Word
    step: Word  # elements from gradient to gradient: 1, or 0 for one of all


class Positions(NamedTuple):
    """Log-probabilities, outer x classes x inner; a class number for each of outer x inner."""

    chunks: Word
    positions: Word
    classes: Word
    inner: Word
    per_chunk: Word
    step: Word


# Totals on a GPU: elements that one group of threads adds up alone, elements of each of several
# groups, and how many there are at most.
ONE_GROUP, PER_GROUP, MOST_GROUPS = 1 << 15, 1 << 12, 1 << 10


class Totals(NamedTuple):
    """Totals of chunks that are joined."""

    chunks: Word
    count: Word


class Margins(NamedTuple):
    """Rows of scores whose margins are summed."""

    chunks: Word
    samples: Word
    classes: Word
    per_chunk: Word
    step: Word  # elements from gradient to gradient


class Lookup(NamedTuple):
    """Rows of a table by number; sizes in bytes."""

    chunks: Word
    places: Word
    length: Word
    stride: Word  # from row to row of the table
    rows: Word
    per_chunk: Word


class Links(NamedTuple):
    """Chains of the places that use a row."""

    chunks: Word
    places: Word
    rows: Word
    padding: Word  # a row to leave out, or -1


class LinkedSums(NamedTuple):
    """Rows of sums along links; bytes from row to row and from column to column of the gradient."""

    chunks: Word
    rows: Word
    columns: Word
    per_chunk: Word
    stride: Word
    step: Word


class SortedSums(NamedTuple):
    """Rows of sums over runs of sorted places; bytes as in LinkedSums."""

    chunks: Word
    rows: Word
    columns: Word
    places: Word
    stride: Word
    step: Word


class Bags(NamedTuple):
    """Bags of rows of a table."""

    chunks: Word
    bags: Word
    places: Word
    columns: Word
    per_chunk: Word
    stride: Word  # bytes from row to row
    rows: Word
    padding: Word
    listed: Word  # how many offsets there are, or how long every bag is if there are none


class RowsProduct(NamedTuple):
    """A sparse matrix by rows, times a dense one."""

    chunks: Word
    rows: Word
    places: Word
    columns: Word
    per_chunk: Word
    stride: Word  # bytes from row to row of the dense matrix
    high: Word  # rows of the dense matrix


class BagDots(NamedTuple):
    """Products of rows of a table with the gradients of their bags."""

    chunks: Word
    places: Word
    columns: Word
    per_chunk: Word
    stride: Word
    padding: Word


class Attention(NamedTuple):
    """Attention in four dimensions; strides in bytes of the tensors in STRIDES follow.

    An item is a block of queries of a head (forward), a piece of the keys of a head that some heads
    of the query share (backward), or the same for all its queries (where there are few of them).
    """

    chunks: Word
    items: Word
    per_chunk: Word  # items
    blocks: Word  # of queries
    pieces: Word  # that the keys are cut into
    per_piece: Word  # keys
    heads: Word  # of the query
    sharing: Word  # heads that share a key
    length: Word  # queries
    source_length: Word  # keys
    width: Word  # of query and key
    value_width: Word
    by_piece: Word  # bytes from one part of the query's gradient to the next


# Tensors of attention and how many strides each has: of batch, head, row and, for a mask, key.
STRIDES = {"query": 3, "key": 3, "value": 3, "out": 3, "mask": 4}
STRIDES |= {"grad": 3, "grad_query": 3, "grad_key": 3, "grad_value": 3}


class Alignments(NamedTuple):
    """Samples whose alignments are summed; strides in bytes."""

    chunks: Word
    samples: Word
    per_chunk: Word
    times: Word
    classes: Word
    row: Word  # elements of a row of states
    time_stride: Word
    sample_stride: Word
    blank: Word
    step: Word  # elements from gradient to gradient of the losses: 1, or 0 for one of all


FRONT = 2  # states before the first, in every row of states


class Fourier(NamedTuple):
    """Fourier transforms of lines, in groups; steps in bytes."""

    chunks: Word
    groups: Word
    per_chunk: Word
    n: Word
    lines: Word  # of one outer index
    blocks: Word  # of lines, for one outer index
    in_step: Word  # from element to element, from line to line
    in_line: Word
    out_step: Word
    out_line: Word
    passes: Word
    swap: Word  # parts: backward
    turn_row: Word  # elements per row of the turns
    kept: Word  # elements of a spectrum


PASSES = 24  # words of radices that follow
