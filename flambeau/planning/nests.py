"""The walk of a pointwise kernel over its operands: sizes and strides in, description words out.

Everything here is arithmetic on integers that runs natively. Strides of several operands come one
after the other (`spread`), and leave by dimensions (`steps`): those of all operands along the first
dimension, then along the next. A `mark` is one number for the kinds of access of all operands and
the number of dimensions: what a kernel is found by.
"""

from itertools import accumulate

from flambeau._layout import broadcast_sizes, memory_order, merged, ordered_strides
from flambeau._natively import natively
from flambeau.codegen.descriptions import Walk
from flambeau.runtime.cpu import packed, words_of

ACCESSES = "cnsrt"  # how a kernel reads an operand along its rows: see codegen/build.py
SIDE_BY_SIDE, STEPS, SAME, REVERSED, TURNED = range(5)
BITS = 3  # of a kind of access in a mark
TILE = 16  # both sides must have this many elements for tiles to pay
BLOCK = 4096  # elements of a row that is walked across short ones


def accesses_of(mark, count):
    """(kinds of access of so many operands as letters, number of dimensions)."""
    letters = [ACCESSES[mark >> BITS * k & 7] for k in range(count - 1, -1, -1)]
    return letters, mark >> BITS * count


@natively
def result_strides(sizes: tuple, spread: tuple):
    """Strides of a fresh result: dense, in the order of dimensions that the inputs suggest."""
    return tuple(ordered_strides(sizes, memory_order(sizes, spread)))


@natively
def broadcast(sizes: tuple, strides: tuple, ranks: tuple):
    """(common sizes, strides of all operands over them, strides of a fresh result).

    sizes, strides: of all operands, one after the other; ranks: how many each has.
    """
    rank = 0
    for r in ranks:
        rank = max(rank, r)
    whole = [1 for _ in range(rank)]
    first = 0
    for r in ranks:
        for k in range(r):
            size = sizes[first + k]
            if whole[rank - r + k] == 1:
                whole[rank - r + k] = size
            elif size not in (1, whole[rank - r + k]):
                raise _mismatch(sizes, ranks)
        first += r
    spread = []
    first = 0
    for r in ranks:
        for at in range(rank):
            k = at - (rank - r)
            repeats = k < 0 or (sizes[first + k] == 1 and whole[at] != 1)
            spread.append(0 if repeats else strides[first + k])
        first += r
    return tuple(whole), tuple(spread), tuple(result_strides(tuple(whole), tuple(spread)))


def _mismatch(sizes, ranks):
    """Complain about sizes in the words of those who look at them two by two."""
    ends = list(accumulate(ranks))
    return broadcast_sizes([sizes[end - r : end] for end, r in zip(ends, ranks)])


@natively
def walked(sizes: tuple, spread: tuple, items: tuple, outputs, complexes):
    """(mark, sizes, steps in bytes): dimensions in the order of memory, merged.

    items: bytes of an element of each operand; outputs come first; complexes: bits of operands
    whose elements are two numbers.
    """
    rank = len(sizes)
    count = len(items)
    order = memory_order(sizes, spread)
    turned = [sizes[d] for d in order]
    moved = []
    for t in range(count):
        for d in order:
            moved.append(spread[t * rank + d] * items[t])
    run, along = merged(turned, moved, count)
    lengths = list(run)
    steps = list(along)
    if len(lengths) == 0:
        lengths.append(1)
        for item in items:
            steps.append(item)
    mark, in_steps = marked(lengths, steps, items, outputs, complexes)
    # rows that would be very short: what lay side by side is written in steps, by full vectors
    if in_steps and len(lengths) > 1 and lengths[-1] < TILE and lengths[-2] >= 2 * TILE:
        length = _block(lengths[-2])
        pieces = lengths[-2] // length
        last = len(steps) - count
        lengths[-2] = lengths[-1]
        lengths[-1] = length
        for t in range(count):
            steps[last - count + t], steps[last + t] = steps[last + t], steps[last - count + t]
        if pieces > 1:
            lengths.append(length)
            lengths[-2] = lengths[-3]
            lengths[-3] = pieces
            for t in range(count):
                steps.append(steps[last + t])
                steps[last + t] = steps[last - count + t]
                steps[last - count + t] = steps[last + count + t] * length
        mark, in_steps = marked(lengths, steps, items, outputs, complexes)
    return mark, tuple(lengths), tuple(steps)


@natively
def spread_out(sizes: tuple, strides: tuple, ranks: tuple, items: tuple, outputs, complexes):
    """(common sizes, strides of a fresh result, mark, sizes of the walk, its steps in bytes) of
    operands that have to be broadcast: `broadcast`, then `walked`.
    """
    whole, spread, fresh = broadcast(sizes, strides, ranks)
    every = []
    for _ in range(outputs):
        for s in fresh:
            every.append(s)
    for s in spread:
        every.append(s)
    mark, lengths, steps = walked(tuple(whole), tuple(every), items, outputs, complexes)
    return tuple(whole), tuple(fresh), mark, tuple(lengths), tuple(steps)


@natively
def marked(sizes: tuple, steps: tuple, items: tuple, outputs, complexes):
    """(mark, is any operand read in steps?)"""
    count = len(items)
    mark = len(sizes)
    any_steps = False
    for t in range(count):
        access = _access(t, sizes, steps, items[t], count, t < outputs, complexes >> t & 1)
        any_steps = any_steps or access == STEPS
        mark = (mark << BITS) + access
    return mark, any_steps


@natively
def _access(t, sizes: tuple, steps: tuple, item, count, is_output, is_complex):
    """The kind of access of operand t."""
    step = steps[len(steps) - count + t]
    if step == item:
        return SIDE_BY_SIDE
    if is_output:
        return STEPS
    if step == 0:
        return SAME
    if is_complex:
        return STEPS
    if step == -item:
        return REVERSED
    if len(sizes) > 1 and steps[len(steps) - 2 * count + t] == item:
        return TURNED if min(sizes[-1], sizes[-2]) >= TILE else STEPS
    return STEPS


@natively
def _block(n):
    """A divisor of n that is no longer than a block and not much shorter; else n itself.

    Rows that became very long are cut by it, so that a line of the cache is not left before all of
    it is written.
    """
    least = -(-n // BLOCK)
    for pieces in range(least, 8 * least + 1):
        if n % pieces == 0 and n >= 2 * TILE * pieces:
            return n // pieces
    return n


@natively
def described(sizes: tuple, steps: tuple, chunk):
    """(chunks, description) of a walk; see codegen/build.py for the words.

    Work is cut into equal chunks of about `chunk` elements, so that two threads have the same to
    do; several chunks are always an even number.
    """
    rank = len(sizes)
    count = len(steps) // rank
    length = sizes[-1]
    rows = 1
    for s in sizes[:-1]:
        rows *= s
    wanted = -(-length * rows // chunk)
    wanted += wanted % 2 if wanted > 1 else 0
    piece = length
    per_chunk = 1
    if length >= chunk or rank == 1:
        if wanted > 1:
            piece = max(64, (-(-length // -(-wanted // rows)) + 63) & -64)
    else:
        per_chunk = max(1, -(-rows // wanted))
        if per_chunk > TILE:
            per_chunk = (per_chunk + TILE - 1) & -TILE
    pieces = -(-length // piece)
    chunks = pieces * -(-rows // per_chunk)
    words = [*Walk(chunks, pieces, piece, per_chunk, rows, length), *sizes[:-1]]
    for t in range(count):
        words.append(steps[len(steps) - count + t])
        for k in range(rank - 1):
            words.append(steps[k * count + t])
    return chunks, packed(words)


def walk_of(nest, description, total):
    """(sizes, steps in bytes of each operand) of a launch, outermost dimension first.

    None if there is nothing to do. total: the last argument of the launch, which is the number of
    elements where they all lie side by side.
    """
    words, head = words_of(description), len(Walk._fields)
    if not words[0]:
        return None if len(words) == 1 else ((total,), [(step,) for step in words[2:]])
    rest, each = words[head + nest.rank :], nest.rank + 1
    steps = [(*rest[k + 1 : k + each], rest[k]) for k in range(0, len(rest), each)]
    return (*words[head : head + nest.rank], words[Walk._fields.index("length")]), steps
