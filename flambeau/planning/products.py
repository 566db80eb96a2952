"""Which schedule a matrix product takes, and how it is cut: sizes in, description words out.

Everything here is arithmetic on integers that runs natively. The order in which products are added
up follows sizes, strides, vectors and caches only; the number of threads says into how many pieces
the result is cut, which changes no bit of it.
Modes are numbers, as `MODES` counts them.
"""

from flambeau._natively import natively
from flambeau.codegen.descriptions import Product
from flambeau.runtime.cpu import packed
from flambeau.runtime.threads import MANY

MODES = ("direct", "dots", "columns", "panels", "rows", "blocked", "straight")
DIRECT, DOTS, COLUMNS, PANELS, ROWS, BLOCKED, STRAIGHT = range(7)
FEW = 1 << 16  # multiplications up to which a product in pairs is not worth its scratch
FEW_PANELS = 1 << 21  # multiplications up to which both operands are packed as they are needed
GRAIN = 1 << 20  # multiplications of a chunk of a large product; small ones are cut finer
READ = 1 << 16  # elements of B that are worth a chunk where few rows are multiplied with it
BLOCKED_VECTORS = 2
LEAST_SQUARES = 1 << 15  # multiplications from which matrix registers pay
FEW_SQUARES = 1 << 20  # bytes of columns beyond which few rows are not worth packing all of them
SHARED = 16 << 20  # bytes of packed rows that may wait in memory until all chunks have read them
NEAREST = 24 << 10  # bytes of a packed strip that stay in the first-level cache
CONVERTED = 1 << 19  # multiplications from which float16 is converted once, while it is packed
SPILL = 2048  # bytes that a tile may touch behind the last panel of rows
SHORT = 64  # steps of k that few rows go through before they go on along B
CLOSE = 1 << 17  # bytes of B that stay in the second-level cache beside everything else


@natively
def chosen(
    m, n, k, a_k, b_k, b_column, batch, most, near, host: tuple, tallest: tuple, widths: tuple
):  # fmt: skip
    """(mode, width of a strip: in vectors, or in columns for dots).

    host: lanes, are there products of pairs (2: of matrices), bytes of an element, is it float16.
    tallest: rows of a tile, by its vectors. widths: vectors of a strip, widest first. most:
    multiplications, times bytes, up to which packing both operands does not pay. near: bytes that
    are read fast in any order (runtime/processor.py).
    """
    w, in_pairs, itemsize, is_half = host
    work = m * n * k
    few_rows = m <= 2 * tallest[2]
    few_columns = n < w
    if in_pairs == 2 and _in_squares(m, n, k):
        if batch > 1 or (m <= 256 and k * n * itemsize > FEW_SQUARES):
            return PANELS, 2
        if a_k == 1 and m % 32 == 0 and k % 32 == 0:
            return STRAIGHT, BLOCKED_VECTORS
        return BLOCKED, BLOCKED_VECTORS
    if a_k == 1 and b_k == 1 and k >= 2 * w and (b_column != 1 or n * 2 <= w):  # along k
        few = m <= 16 or few_columns
        if in_pairs:  # adding up the lanes at the end weighs more
            few = 24 * m <= min(k, 1536) or (few_columns and 10 * n <= k)
        if few:
            return DOTS, min(w, 4)
    vectors = _vectors(m, n, k, b_column, host, tallest, widths)
    if k == 0:
        return DIRECT, vectors
    small = work * itemsize <= most
    if is_half and not (few_rows or few_columns) and work >= CONVERTED:
        # each element is converted once: that takes longer than to multiply it once or twice
        if batch > 1 and work * itemsize <= most // 2:
            return PANELS, 2
        return BLOCKED, BLOCKED_VECTORS
    if in_pairs:
        mode = _mode_in_pairs(m, n, k, a_k, b_column, batch, most, few_rows or few_columns)
        if mode == BLOCKED or (mode == PANELS and vectors == 4):
            return mode, BLOCKED_VECTORS
        return mode, vectors
    far = k * n * itemsize
    if m > 4 and (far > near or (2 * far > near and m > 256)):  # B comes from far: pack it first
        if m <= tallest[1] and b_column == 1 and batch == 1:  # or read each vector of it once
            return ROWS, 2 if m <= tallest[2] else 1
        if m <= 128 or batch > 1:
            return COLUMNS, vectors
        return BLOCKED, BLOCKED_VECTORS
    if b_column == 1 and (small or few_rows):
        return DIRECT, vectors
    if small or few_rows or few_columns:
        return COLUMNS, vectors
    return BLOCKED, BLOCKED_VECTORS


@natively
def _in_squares(m, n, k):
    """Is a product worth matrix registers? They take 16 rows and columns and 32 steps at once."""
    return m >= 8 and n >= 16 and k >= 32 and m * n * k >= LEAST_SQUARES


@natively
def _mode_in_pairs(m, n, k, a_k, b_column, batch, most, narrow):
    """The mode where the host multiplies pairs, which lie side by side in packed panels only."""
    work = m * n * k
    if b_column == 1 and (m <= 4 or work * batch <= FEW):
        return DIRECT  # widened: B is not worth packing
    small = work <= most // 2
    # rows of A that are far apart would share few lines of the cache
    if a_k == 1 and (narrow or (small and (k <= 1024 or m <= 64 or batch > 1))):
        return COLUMNS
    if work <= FEW_PANELS or narrow or (batch > 1 and small):
        return PANELS
    return BLOCKED


@natively
def _vectors(m, n, k, b_column, host: tuple, tallest: tuple, widths: tuple):
    """The width of a strip that wastes the fewest lanes; few rows leave registers for more."""
    w, in_pairs, itemsize, _ = host
    widest = widths[0]
    needed = -(-n // w)
    if m == 1 and n >= 8 * w:  # each vector of B is used once, straight from memory
        return 8
    if m <= 3 and n >= 2 * widest * w and tallest[2 * widest] >= m:
        return 2 * widest
    # a wide strip may not stay in the first-level cache from panel to panel: then two vectors first
    long = k * widest * w * itemsize > NEAREST and needed > widest
    narrow = long and m > 2 * tallest[2] and (in_pairs or b_column != 1)
    best = 0
    least = 1 << 62
    for v in widths:
        columns = -(-needed // v) * v
        order = (v - 2) % 4 if narrow else 0
        if columns * 8 + order < least:
            best = v
            least = columns * 8 + order
    return best


@natively
def described(
    facts: tuple,
    tiles: tuple,
    m,
    n,
    k,
    a_row,
    a_k,
    b_k,
    b_column,
    c_row,
    batch,
    sizes: tuple,
    strides: tuple,
    threads,
):
    """(a height whose tile is missing or 0, chunks, shared bytes, bytes per slot, description).

    facts: those of a `Schedule`; tiles: addresses by height, 0 where there is none yet; sizes and
    strides: of the batch, then of addends; threads: to cut for, 0 where chunks pack their own rows.
    """
    mode, tallest, columns, item, sum_item, packed_item, grain, block, finest, apart, near_bytes = (
        facts
    )
    panels = -(-m // tallest)
    height = -(-m // panels)  # nearly equal heights: some panels are tall, the others one less
    tall = m - panels * (height - 1)
    short = height - 1 if tall < panels else 0
    missing = 0
    if tiles[height] == 0:
        missing = height
    elif short and tiles[short] == 0:
        missing = short
    strips = -(-n // columns)
    padded = -(-k // grain) * grain
    pack_chunks = shared = slot = partial_at = partial_row = blocks = depth = 0
    rows_at = panel_bytes = 0
    steps = 1
    if mode >= BLOCKED:
        together = threads > MANY and (m * k * packed_item <= SHARED or mode == STRAIGHT)
        held = max(2, near_bytes // max(1, height * min(k, block) * packed_item))
        row_groups, column_groups = _blocked_groups(panels, strips, m * n * k, threads, held)
        if together:
            wanted = max(1, min(4 * threads, m * n * k // GRAIN))
            row_groups, column_groups = alike(panels, strips, wanted, threads, held, 0, 0)
            wide = -(-strips // column_groups)
            steps = max(1, min(finest, wide, m * n * k // (row_groups * column_groups * GRAIN)))
        blocks = -(-k // block)
        whole = max(4, grain)
        depth = -(-k // (whole * blocks)) * whole
        blocks = -(-k // depth)
        rows = -(-panels // row_groups) * height  # of A that a chunk packs at most
        own = 0 if together or mode == STRAIGHT else rows * depth * packed_item + SPILL
        slot = partial_at = max(4096, _pages(own))
        if apart and blocks > 1:
            partial_row = strips * columns * sum_item
            slot += _pages(rows * partial_row)
        packing = k * n
        shared = _pages(padded * strips * columns * packed_item)
        if together and mode == BLOCKED:
            packing += m * k
            rows_at = shared
            panel_bytes = _lines(height * depth * packed_item + SPILL)
            shared += _pages(blocks * panels * panel_bytes)
        pack_chunks = max(1, min(16, packing >> 16))
        if threads > MANY:
            pack_chunks = max(1, min(8 * threads, packing >> 13))
    else:
        wide = strips * columns
        row_groups, column_groups = _groups(mode, panels, strips, m, wide, k, batch, threads)
        if mode in (COLUMNS, PANELS):
            slot = partial_at = _pages(padded * columns * packed_item)
        if mode == PANELS:
            most = -(-panels // row_groups) * height
            slot += _pages(most * padded * packed_item + SPILL)
        if mode == ROWS:
            row_groups = 1
            column_groups = max(1, min(strips, 2 * max(threads, 1), m * n * k >> 17))
            blocks = -(-k // SHORT)
            depth = -(-k // blocks)
            slot = partial_at = _pages(m * padded * packed_item + SPILL)
            partial_row = strips * columns * sum_item
            if apart:
                slot += _pages(m * partial_row)
    groups = row_groups * column_groups * steps
    items = batch * groups
    each = max(1, m * strips * columns * k // groups)  # with the lanes that go unused
    per_chunk = max(1, (GRAIN // (8 if threads > MANY else 4)) // each)
    if m <= 4:  # reading B is the work
        per_chunk = max(1, READ // max(1, n * k)) if groups == 1 else 1
    chunks = -(-items // per_chunk) + pack_chunks
    words = [
        *Product(
            chunks=chunks, per_chunk=per_chunk, items=items, m=m, n=n, k=k,
            a_row=a_row * item, a_k=a_k * item, b_k=b_k * item, b_column=b_column * item,
            c_row=c_row * item, panels=panels, tall=tall, height=height,
            tall_tile=tiles[height], short_tile=tiles[short], row_groups=row_groups,
            column_groups=column_groups, strips=strips, along=k * n * item <= CLOSE,
            blocks=blocks, depth=depth, pack_chunks=pack_chunks, slot_bytes=slot,
            slots_at=shared, partial_at=partial_at, partial_row=partial_row,
            rows_at=rows_at, panel_bytes=panel_bytes, steps=steps,
        ),
        *sizes,
        *[x * item for x in strides],
    ]  # fmt: skip
    return missing, chunks, shared, slot, packed(words)


@natively
def _pages(nbytes):
    """Whole pages, so that slots do not share cache lines."""
    return (nbytes + 4095) & -4096


@natively
def _groups(mode, panels, strips, m, n, k, batch, threads):
    """How a small product is cut: enough pieces, each of several panels."""
    most = 8
    grain = GRAIN // 4
    if threads > MANY:
        most = 2 * threads
        grain = GRAIN // 4 if m * n * k < GRAIN else GRAIN // 8
    wanted = m * n * k // grain
    if m <= 4:  # reading B is the work
        wanted = k * n // (grain // 4 if threads > MANY else GRAIN // 4)
    wanted = min(most, wanted)
    if wanted < 2 or batch >= max(32, 2 * threads):
        return 1, 1
    if threads > MANY and m > 4 and batch == 1:
        by_columns = 1 if mode in (COLUMNS, PANELS) else 0
        by_rows = 1 if mode == PANELS else 0
        alike_rows, alike_columns = alike(
            panels, strips, wanted, threads, panels, by_columns, by_rows
        )
        return alike_rows, alike_columns
    wanted += wanted & 1
    if mode == COLUMNS and strips >= wanted:  # by columns, so that each is packed once
        return 1, wanted
    rows = max(1, min(wanted, panels // 4))
    return rows, max(1, min(-(-wanted // rows), strips))


@natively
def _lines(nbytes):
    """Whole cache lines, an odd number, so that panels fall on different places of a cache."""
    return ((nbytes + 63) & -64) | 64


@natively
def _blocked_groups(panels, strips, work, threads, held):
    """Pieces of a product whose chunks pack their rows: cut by columns these are packed twice.

    held: panels that stay in the second-level cache.
    """
    rows = -(-panels // held)
    if threads > MANY:
        rows = max(rows, min(2 * threads, panels // 2))
    if 1 < rows < 8:
        rows += rows & 1
    wanted = min(16, work // (4 * GRAIN))
    columns = 1
    while rows * columns < min(wanted, 4) and columns * 8 <= strips:
        columns *= 2
    if rows * columns == 1 and wanted > 0:  # few rows and columns, many steps
        rows = min(2, panels)
    return rows, columns


@natively
def alike(panels, strips, wanted, threads, most, by_columns, by_rows):
    """(groups of rows, groups of columns): up to `wanted` pieces that keep all threads busy alike.

    All pieces take as long as the largest one, and threads take them in turns. A piece multiplies
    its panels by its strips, and reads them from beyond its cache first: a strip, which is about
    twice as wide as a panel is high, takes half as long as to multiply it by a panel where a core
    reads 11 GB/s and multiplies 42 billion times a second, and half of that is hidden. most:
    panels of a piece; by_columns: pieces pack their columns, which counts as three more panels;
    by_rows: and their rows, as three more strips.
    """
    rows = columns = 1
    least = 1 << 62
    for r in range(-(-panels // most), min(panels, max(wanted, -(-panels // most))) + 1):
        tall = -(-panels // r)
        for c in range(1, min(strips, max(1, wanted // r)) + 1):
            wide = -(-strips // c)
            turns = -(-r * c // threads)
            work = (tall + 3 * by_columns) * wide + 3 * by_rows * tall
            cost = turns * (4 * work + tall + 2 * wide)
            if cost < least:
                least = cost
                rows = r
                columns = c
    return rows, columns
