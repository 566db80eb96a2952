"""Launch descriptions of factoring, triangular systems and their kin (see descriptions.py).

All begin with the number of chunks, of matrices (or pieces of them) and of those per chunk. Strides
count elements unless said otherwise.
"""

from typing import NamedTuple

from flambeau.codegen.descriptions import Word

LANES = 4  # matrices up to this size share vectors


class Lu(NamedTuple):
    """LU of blocks of columns."""

    chunks: Word
    count: Word
    per_chunk: Word
    rows: Word
    columns: Word
    column_stride: Word
    stride: Word  # from matrix to matrix
    pivots: Word  # per matrix
    base: Word  # the number of the first column


class Swaps(NamedTuple):
    """Rows that are swapped as pivots say."""

    chunks: Word
    count: Word
    per_chunk: Word
    rows: Word
    columns: Word
    column_stride: Word
    stride: Word
    pivots: Word  # per matrix
    many: Word  # pivots that are used
    base: Word
    backward: Word


class Places(NamedTuple):
    """Numbers of rows that are swapped as pivots say."""

    chunks: Word
    count: Word  # matrices
    rows: Word
    many: Word  # pivots per matrix
    backward: Word


class Triangular(NamedTuple):
    """Triangular systems; a piece is a group of columns of one."""

    chunks: Word
    pieces: Word
    per_chunk: Word
    groups: Word
    per_group: Word
    n: Word
    columns: Word
    row: Word  # strides of the triangle
    column: Word
    stride: Word
    right_row: Word  # and of the right side
    right_stride: Word
    unit: Word


class Cholesky(NamedTuple):
    """Cholesky factors of blocks on the diagonal."""

    chunks: Word
    count: Word
    per_chunk: Word
    n: Word
    row_stride: Word
    stride: Word
    base: Word


class Ldl(NamedTuple):
    """Symmetric indefinite matrices."""

    chunks: Word
    count: Word
    per_chunk: Word
    n: Word
    column_stride: Word
    stride: Word


class LdlSystems(NamedTuple):
    """Their systems; a piece is one column."""

    chunks: Word
    pieces: Word
    per_chunk: Word
    n: Word
    columns: Word
    column_stride: Word
    stride: Word
    right_column: Word
    right_stride: Word


class Reflectors(NamedTuple):
    """QR of blocks of columns."""

    chunks: Word
    count: Word
    per_chunk: Word
    rows: Word
    columns: Word
    column_stride: Word
    stride: Word
    taus: Word  # per matrix


class Qr(NamedTuple):
    """QR all the way; strides in bytes."""

    chunks: Word
    count: Word
    per_chunk: Word
    rows: Word
    columns: Word
    wide: Word  # columns of Q, 0 for R alone
    tall: Word  # rows of R
    row: Word
    column: Word
    stride: Word


class Small(NamedTuple):
    """Small systems: strides of A and B in bytes."""

    chunks: Word
    count: Word
    per_chunk: Word
    n: Word
    columns: Word  # of B
    row: Word
    column: Word
    stride: Word
    right_row: Word = 0
    right_column: Word = 0
    right_stride: Word = 0


# What the kernel of each name is told, and the file of templates it is in.
KERNELS = {
    "lu": ("factoring", Lu),
    "swaps": ("factoring", Swaps),
    "triangular": ("factoring", Triangular),
    "cholesky": ("factoring", Cholesky),
    "ldl": ("ldl", Ldl),
    "ldl_hermitian": ("ldl", Ldl),
    "ldl_solve": ("ldl", LdlSystems),
    "ldl_solve_hermitian": ("ldl", LdlSystems),
    "geqrf": ("reflectors", Reflectors),
    "qr": ("reflectors", Qr),
}


class Rotations(NamedTuple):
    """Stacks of small matrices that are rotated until they are diagonal; strides count elements."""

    chunks: Word
    count: Word
    per_chunk: Word
    rows: Word
    columns: Word
    row: Word  # strides of the input
    column: Word
    stride: Word
    room: Word  # vectors of scratch per chunk
    left_row: Word  # strides of what columns become, divided by their lengths
    left_column: Word
    left_stride: Word
    right_row: Word  # and of the rotations
    right_column: Word
    right_stride: Word
