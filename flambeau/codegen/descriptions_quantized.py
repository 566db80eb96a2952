"""The words of launch descriptions of quantized kernels (see descriptions.py)."""

from typing import NamedTuple

from flambeau.codegen.descriptions import Word


class ByteProduct(NamedTuple):
    """Products of bytes: patches of pictures, or rows of a matrix, with packed weights.

    A result pixel is at (picture, line, place); its patch is `taps` runs of bytes. Distances are in
    bytes. Everything is done for each of `groups` groups of channels.
    """

    chunks: Word
    pixels: Word  # of all pictures
    per_chunk: Word  # pixels
    pixel_chunks: Word  # per part of the columns
    strips: Word  # of columns, per group
    strips_per_chunk: Word
    strip_chunks: Word
    columns: Word  # per group
    width: Word  # of a line of results
    height: Word
    pixel_step: Word  # from pixel to pixel, in the input
    line_step: Word
    picture_step: Word
    taps: Word  # lines of taps
    taps_across: Word  # taps of such a line
    tap_down: Word  # from line to line
    tap_across: Word
    depth: Word  # words of four bytes in a run
    group_step: Word  # from group to group, in the input
    out_pixel: Word  # elements from pixel to pixel, in the result
    padded: Word  # columns of a group, whole strips
    low: Word  # least level of results
    high: Word
    out_zero: Word


class ByteRange(NamedTuple):
    """Numbers that become bytes by their own range."""

    chunks: Word
    count: Word
    high: Word  # the largest level


class Taps(NamedTuple):
    """A depthwise convolution of bytes; distances in bytes."""

    chunks: Word
    lines: Word  # of results
    per_chunk: Word
    width: Word
    height: Word
    channels: Word
    pixel_step: Word
    line_step: Word
    picture_step: Word
    taps: Word
    taps_across: Word
    tap_down: Word
    tap_across: Word
    padded: Word
    low: Word
    high: Word
    out_zero: Word


class Nibbles(NamedTuple):
    """Floats times weights of few bits; sizes in elements."""

    chunks: Word
    strips: Word
    per_chunk: Word
    columns: Word
    depth: Word
    group: Word  # steps of k with one scale
    groups: Word
    rows_step: Word  # from row to row of the input, after which sums of groups lie
