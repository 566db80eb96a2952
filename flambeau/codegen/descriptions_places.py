"""Launch descriptions of joins, indices, masks, sorts, scans, counts, pads and folds.

See descriptions.py.
"""

from typing import NamedTuple

from flambeau.codegen.descriptions import Word


class Join(NamedTuple):
    """Rows of bytes, each with a run of every piece; the words of the pieces follow."""

    chunks: Word
    per_chunk: Word
    total: Word
    row: Word  # bytes
    pieces: Word


class Run(NamedTuple):
    """The only row of a piece, in bytes."""

    width: Word


class Piece(NamedTuple):
    """A piece of a join, in bytes."""

    width: Word  # in a row
    step: Word  # from row to row


class PaddedPiece(NamedTuple):
    """A piece of which only a part comes from memory; the rest is filled. Counted through rows."""

    width: Word
    step: Word
    begin: Word
    end: Word


class Triangle(NamedTuple):
    """The places of a triangle in a matrix."""

    chunks: Word
    first: Word  # row that has any
    rows: Word
    columns: Word
    offset: Word
    lower: Word
    count: Word


class ScanRows(NamedTuple):
    """Rows in blocks; pieces are rows times blocks."""

    chunks: Word
    pieces: Word
    length: Word  # of a row
    block: Word
    blocks: Word
    per_chunk: Word  # pieces


class ScanColumns(NamedTuple):
    """Columns side by side, in groups."""

    chunks: Word
    length: Word
    inner: Word  # columns
    groups: Word
    per_group: Word


class SortedRows(NamedTuple):
    """Rows to sort or to select from. flip: 0, or -1 for descending order."""

    chunks: Word
    rows: Word
    length: Word
    per_chunk: Word
    flip: Word


class RadixRows(NamedTuple):
    """Long rows on a GPU, sorted by one digit after the other; turn: which."""

    chunks: Word
    rows: Word
    length: Word
    tiles: Word  # of a row
    flip: Word
    passes: Word
    turn: Word
    share: Word  # elements that a group counts the digits of


class RankedRows(NamedTuple):
    """Rows of which one element is wanted. rule: what nan means (0 largest, 1 wins, 2 no part)."""

    chunks: Word
    rows: Word
    length: Word
    per_chunk: Word
    rank: Word
    rule: Word


class SortedBlocks(NamedTuple):
    """One long row in blocks, a chunk each."""

    chunks: Word
    length: Word
    block: Word
    flip: Word


class Digits(NamedTuple):
    """One long row in blocks, by a digit."""

    chunks: Word
    length: Word
    block: Word
    shift: Word
    digits: Word
    blocks: Word


class BestItems(NamedTuple):
    """The k best of blocks of rows; pieces are rows times blocks."""

    chunks: Word
    pieces: Word
    length: Word
    block: Word
    blocks: Word
    k: Word
    capacity: Word  # of a buffer, in items
    flip: Word
    per_chunk: Word


class BestRows(NamedTuple):
    """The k best of rows from those of their blocks; a chunk is a row."""

    chunks: Word
    length: Word
    blocks: Word
    k: Word
    flip: Word


class BestParts(NamedTuple):
    """The k best of parts of long rows, on a GPU."""

    chunks: Word
    rows: Word
    length: Word
    parts: Word  # of a row
    part: Word  # elements; the last part has what is left
    k: Word
    flip: Word


class Counted(NamedTuple):
    """Values one after the other."""

    chunks: Word
    count: Word


class Lines(NamedTuple):
    """Lines of values (or, for indices, of what they must stay in)."""

    chunks: Word
    count: Word
    length: Word


class Search(NamedTuple):
    """Values to find among boundaries."""

    chunks: Word
    count: Word
    block: Word
    length: Word  # boundaries of a row
    per_row: Word  # values


class Pad(NamedTuple):
    """Rows that are padded; a PaddedSide each for depth, height and width follows."""

    chunks: Word
    rows: Word
    per_chunk: Word


class PaddedSide(NamedTuple):
    """One dimension that is padded."""

    out: Word  # its size in the result
    size: Word
    low: Word  # elements before it
    kept: Word  # what is left of size after cutting


class FoldedBlocks(NamedTuple):
    """Blocks of an image, taken apart or added up."""

    chunks: Word
    rows: Word
    per_chunk: Word
    height: Word
    width: Word
    blocks_high: Word
    blocks_wide: Word
    kernel_high: Word
    kernel_wide: Word
    stride_high: Word
    stride_wide: Word
    pad_high: Word
    pad_wide: Word
    dilation_high: Word
    dilation_wide: Word
    room: Word  # elements of scratch memory per chunk


class PixelLines(NamedTuple):
    """Lines of pixels, and the channels they are made of."""

    chunks: Word
    lines: Word
    per_chunk: Word
    height: Word  # of the channels
    width: Word
    factor: Word


class IndexedWalk(NamedTuple):
    """A walk through indices: rows in pieces, a middle dimension and `rank` outer ones.

    There follow the size and step of each index; per operand its inner and middle stride; per outer
    dimension its size and a stride per operand.
    """

    chunks: Word
    pieces: Word  # of a row
    piece: Word
    per_chunk: Word  # rows
    rows: Word
    length: Word
    middle: Word
    rank: Word


class Compaction(NamedTuple):
    """What a mask keeps. The rank and the sizes follow."""

    chunks: Word
    per_chunk: Word
    total: Word
