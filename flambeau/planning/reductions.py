"""How a reduction walks its input: sizes and strides in, description words out.

Everything here is arithmetic on integers that runs natively. What is kept comes first: its sizes,
strides in bytes and places in the result; then sizes and strides of what is reduced.
"""

from flambeau._layout import contiguous_strides, merged
from flambeau._natively import natively
from flambeau.codegen.descriptions import Reducing
from flambeau.runtime.cpu import packed
from flambeau.runtime.threads import MANY

PIECE = 1 << 17  # elements per piece when a row is cut
CHUNK = 1 << 15  # elements per chunk
LONG = 1 << 13  # elements of a run that is read as several streams
FEW = 64  # results that count as few

# On a GPU: groups of threads that keep it busy, elements that one should have at least, columns
# that one takes, and rows of them that it should have at least.
GROUPS, LEAST, COLUMNS, SHARE = 1 << 10, 1 << 14, 128, 128


@natively
def cut(sizes: tuple, strides: tuple, dims: tuple, item, numel, indexed):
    """(do vectors run across what is reduced?, then the five lists of the walk).

    indexed: does the place of an element count? Then what is reduced is walked in its order.
    """
    rank = len(sizes)
    gone = [0 for _ in sizes]
    for d in dims:
        gone[d] = 1
    places = [0 for _ in sizes]
    step = 1
    for d in range(rank - 1, -1, -1):
        if not gone[d]:
            places[d] = step
            step *= max(sizes[d], 1)
    order = list(range(rank))  # by strides, the largest first
    for i in range(1, rank):
        k = i
        while k > 0 and abs(strides[order[k - 1]]) < abs(strides[order[k]]):
            order[k - 1], order[k] = order[k], order[k - 1]
            k -= 1
    kept = [d for d in order if not gone[d]]
    reduced = [d for d in order if gone[d]]
    if indexed:
        reduced = [d for d in range(rank) if gone[d]]
    steps = [*[strides[d] * item for d in kept], *[places[d] for d in kept]]
    ks, both = merged([sizes[d] for d in kept], steps, 2)
    kst = [both[2 * k] for k in range(len(ks))]
    kout = [both[2 * k + 1] for k in range(len(ks))]
    runs, along = merged([sizes[d] for d in reduced], [strides[d] * item for d in reduced], 1)
    rs = list(runs)
    rst = list(along)
    is_empty = False
    for n in rs:
        is_empty = is_empty or n == 0
    if len(rs) == 0 or is_empty:  # nothing to walk, however many rows of nothing there are
        rs = [0 if is_empty or (numel == 0 and len(dims) > 0) else 1]
        rst = [item]
    columns = False
    if len(ks) > 0 and ks[-1] > 1 and abs(kst[-1]) < abs(rst[-1]):
        columns = ks[-1] >= 8 or kst[-1] == item
    return columns, tuple(ks), tuple(kst), tuple(kout), tuple(rs), tuple(rst)


@natively
def along_rows(ks: tuple, kst: tuple, kout: tuple, rs: tuple, rst: tuple, item, count, on_gpu):
    """(pieces of a row, rows, are runs long?, do they lie side by side?, chunks, description)."""
    length = rs[-1]
    rows = _product(ks)
    runs = _product(rs[:-1])
    nested = len(rs) > 1
    pieces = 1
    piece = runs if nested else max(length, 1)
    if on_gpu and rows < GROUPS // 2 and length * runs > 2 * LEAST:
        share = max(LEAST, length * runs * max(rows, 1) // GROUPS)
        piece = max(1, share // max(length, 1)) if nested else (share + 1023) & -1024
        pieces = -(-(runs if nested else length) // piece)
    elif not on_gpu and rows < FEW and length * runs > 2 * PIECE:
        # by elements of a run, or by whole runs
        piece = max(1, PIECE // max(length, 1)) if nested else PIECE
        pieces = -(-(runs if nested else length) // piece)
    per_chunk = 1 if pieces > 1 else max(1, CHUNK // max(length * runs, 1))
    long = length >= LONG if nested else min(length, piece) >= LONG
    chunks = pieces * -(-rows // per_chunk)
    head = [*Reducing(chunks, per_chunk, rows, pieces, piece, length, rst[-1], count, 1, 0)]
    words = [*head, *ks, *kst, *kout, *rs[:-1], *rst[:-1]]
    return pieces, rows, long, rst[-1] == item, chunks, packed(words)


@natively
def down_columns(ks: tuple, kst: tuple, kout: tuple, rs: tuple, rst: tuple, item, count, threads):
    """(pieces of a column, columns, do they lie side by side?, chunks, description).

    threads: to cut columns for, which changes no result; 0 for a GPU.
    """
    length = ks[-1]
    rows = _product(ks[:-1])
    runs = _product(rs)
    results = rows * length
    pieces = 1
    piece = max(runs, 1)
    on_gpu = threads == 0
    groups = rows * -(-length // COLUMNS)
    if on_gpu and groups < GROUPS // 2 and runs >= 2 * SHARE:
        piece = max(SHARE, -(-runs * groups // GROUPS))
        pieces = -(-runs // piece)
    elif not on_gpu and results < 16 * FEW and runs * results > 4 * PIECE and runs >= 512:
        piece = max(128, 2 * PIECE // length)
        pieces = -(-runs // piece)
    block = length
    if rows * pieces * length * min(runs, piece) > CHUNK:
        # enough columns that a row of them is worth a trip to memory, and a share for everybody
        shares = 1 if rows * pieces > 7 else 4
        least = 512
        if threads > MANY:
            shares = max(1, 2 * threads // (rows * pieces))
            least = 128
        block = min(length, max(least, (-(-length // shares) + 127) & -128))
    chunks = rows * pieces * -(-length // block)
    head = [*Reducing(chunks, block, rows, pieces, piece, length, kst[-1], count, kout[-1], 0)]
    words = [*head, *ks[:-1], *kst[:-1], *kout[:-1], *rs, *rst]
    return pieces, results, kst[-1] == item, chunks, packed(words)


@natively
def joined(ks: tuple, kout: tuple, pieces, results, count):
    """The description of the second launch: states lie as [piece][result], rows are pieces.

    Strides of states differ in bytes per component: see JoinProgram, which scales them itself.
    """
    length = ks[-1] if ks else 1
    out_stride = kout[-1] if ks else 1
    rows = results // length
    outer = list(ks)
    outs = list(kout)
    if ks:
        outer = list(ks[:-1])
        outs = list(kout[:-1])
    head = [*Reducing(rows, max(length, 1), rows, 1, pieces, length, 0, count, out_stride, results)]
    steps = [s * length for s in contiguous_strides(outer)]
    return packed([*head, *outer, *steps, *outs, pieces, results])


@natively
def _product(numbers: tuple):
    found = 1
    for n in numbers:
        found *= n
    return found
