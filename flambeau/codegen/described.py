"""Words of launch descriptions of reductions and pointwise kernels, by name."""

from typing import Any, NamedTuple

Word = Any  # a number when launched, a value while a kernel is written


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
