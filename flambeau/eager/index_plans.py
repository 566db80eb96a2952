"""Plans of indexed walks: from strides and sizes to a kernel and its launch description.

A walk is described dimension by dimension: how far the table, the list and each index step. Writes
may hit one element twice; so that the result never depends on threads, work is split only along
*safe* dimensions, those in which different coordinates reach different elements of the table. The
kernels are written by `codegen/templates/indexing.py`. Indices are int64 before a kernel sees them;
what it refuses is looked up again, to name the offending index.
"""

from math import prod

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import dense_layout
from flambeau._tensor import empty_tensor
from flambeau.codegen.descriptions_places import IndexedWalk
from flambeau.eager.copying import copy_into
from flambeau.eager.plan import NO_WORK
from flambeau.eager.rows import address, chunks_of, contiguous
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed, read_bytes

CHUNK = 1 << 14  # elements worth a thread's while


# -- arguments -------------------------------------------------------------------------------------


def index64(index):
    """The index as int64, whatever its strides."""
    if index._layout.dtype is d.int64:
        return index
    out = empty_tensor(index._layout.sizes, d.int64, index._layout.device)
    copy_into(out, index)
    return out


def layout64(layout):
    """The layout of what index64 gives."""
    if layout.dtype is d.int64:
        return layout
    return dense_layout(layout.sizes, d.int64, layout.device)


def first_outside(index, low, high):
    """The first index outside [low, high)."""
    index = contiguous(index64(index))
    find = index.device.runtime.kernel("find", "indexing:build_find")
    position = find(packed((1,)), address(index), index._layout.numel, low, high)
    if position is None:
        return None
    return int.from_bytes(read_bytes(address(index) + 8 * (position - 1), 8), "little", signed=True)


def out_of_bounds(index, dim, size, wraps=False, kind=RuntimeError, start=""):
    """The complaint about the first index that is out of bounds."""
    value = first_outside(index, -size if wraps else 0, size)
    return kind(f"{start}index {value} is out of bounds for dimension {dim} with size {size}")


def byte_strides(layout):
    size = layout.itemsize
    return [s * size for s in layout.strides] if layout.ndim else [0]


def size_along(layout, dim):
    return layout.sizes[dim] if layout.ndim else 1


def without_memory(first, *others):
    """Is one of these layouts on a device that computes nothing? If not, all must be on one."""
    if not first.device.runtime.computes:
        return True
    for layout in others:
        if layout.device is not first.device:
            if layout.device.runtime.computes:
                raise errors.different_devices(first.device, layout.device)
            return True
    return False


# -- walks -----------------------------------------------------------------------------------------


def plan_rows(layout, count, wraps):
    """(kernel, description) that reads so many rows of a contiguous table, by indices in a row."""
    runtime, size, (first, *rest) = layout.device.runtime, layout.itemsize, layout.sizes
    inner = prod(rest)
    if not count or not inner or not runtime.computes:
        return nothing, NO_WORK
    if inner == 1:
        access, lengths, strides = "c", [count], [[0], [size], [8]]
    else:
        access, lengths, strides = "s", [count, inner], [[0, size], [inner * size, size], [8, 0]]
    kernel = runtime.kernel(
        "indexed_read", "indexing:build_walk", "read", f"b{size}", 1, access, "c", wraps
    )
    return kernel, describe(lengths, strides, [True, True], size, [first], [inner * size])


def plan_along(mode, layout, dim, shape, items, index, wraps=False):
    """(kernel, description) of a walk with one index, along one dimension of the table.

    layout: of the table; items and index: byte strides in the iteration space.
    """
    table = byte_strides(layout)
    step, table[dim] = table[dim], 0
    safe = [True] * len(shape)
    safe[dim] = False
    return plan_walk(
        mode, layout, shape, table, items, [index], [size_along(layout, dim)], [step], safe, wraps
    )


def plan_walk(mode, layout, shape, table, items, indices, sizes, steps, safe, wraps=False):
    """(kernel, description) of a walk.

    shape: the iteration space; table, items and indices: byte strides in it; sizes and steps: per
    index its bound and its byte stride in the table; safe: per dimension, may writes be split
    there? (Reads may be everywhere.)
    """
    runtime = layout.device.runtime
    if 0 in shape or not runtime.computes:
        return nothing, NO_WORK
    if mode == "read":
        safe = [True] * len(shape)
    lengths, strides, safe = _collapse(shape, [table, items, *indices], safe)
    if mode != "read" and runtime.walks is not None:
        return runtime.walks.plan(mode, layout, lengths, strides, safe, sizes, steps, wraps)
    facts = facts_of(mode, layout, strides, wraps)
    kernel = runtime.kernel("indexed_" + mode, "indexing:build_walk", *facts)
    return kernel, describe(lengths, strides, safe, layout.itemsize, sizes, steps)


def facts_of(mode, layout, strides, wraps):
    """What the machine code of a walk depends on (a Walk of codegen/templates/indexing.py)."""
    itemsize, along, across = layout.itemsize, strides[0][-1], strides[1][-1]
    inner = [s[-1] for s in strides[2:]]
    if any(inner):
        access = "c" if inner == [8] * len(inner) else "n"
        rows = "c" if across == itemsize else "n"
    else:
        access, rows = "s", "n"
        if along == itemsize:
            rows = "c" if across == itemsize else "s" if not across and mode != "read" else "n"
    code = f"b{itemsize}" if mode in ("read", "set") else layout.dtype.code
    return mode, code, len(inner), access, rows, wraps


def _collapse(shape, strides, safe):
    """Merge dimensions that every operand walks in one run, if both are safe or neither is."""
    if len(shape) == 1:
        return list(shape), strides, safe
    sizes, steps, kinds = [], [[] for _ in strides], []
    for k, size in enumerate(shape):
        if size == 1:
            continue
        merges = bool(sizes) and kinds[-1] == safe[k]
        if merges:
            for st, s in zip(steps, strides):
                if st[-1] != s[k] * size:
                    merges = False
                    break
        if merges:
            sizes[-1] *= size
            for st, s in zip(steps, strides):
                st[-1] = s[k]
        else:
            sizes.append(size)
            kinds.append(safe[k])
            for st, s in zip(steps, strides):
                st.append(s[k])
    if not sizes:
        return [1], [[0] for _ in strides], [False]
    return sizes, steps, kinds


def describe(lengths, strides, safe, itemsize, sizes, steps):
    length = lengths[-1]
    middle = lengths[-2] if len(lengths) > 1 else 1
    outer = lengths[:-2]
    rows = middle * prod(outer)
    chunks, pieces, piece, per_chunk = 1, 1, length, rows
    if rows * length > CHUNK:
        chunks, pieces, piece, per_chunk = _cut(lengths, rows, safe, itemsize)
    walk = IndexedWalk(chunks, pieces, piece, per_chunk, rows, length, middle, len(outer))
    found = [*walk, *sizes, *steps]
    for st in strides:
        found += (st[-1], st[-2] if len(st) > 1 else 0)
    for k, size in enumerate(outer):
        found += (size, *[st[k] for st in strides])
    return packed(found)


def _cut(lengths, rows, safe, itemsize):
    """(chunks, pieces of a row, length of a piece, rows per chunk)."""
    length, together = lengths[-1], 1
    if False in safe[:-1]:  # rows must stay together below the first dimension that is not safe
        together = prod(lengths[safe.index(False) : -1])
    piece, per_chunk = length, max(1, CHUNK // (length * together)) * together
    if safe[-1] and length * min(together, rows) > CHUNK:
        # pieces of whole cache lines, long enough that finding a row's place costs little
        line = max(1, 64 // itemsize)
        piece = min(length, max(16, -(-length // 16 // line), CHUNK // together // line) * line)
    per_chunk = min(per_chunk, rows)
    pieces = -(-length // piece)
    return chunks_of(pieces * -(-rows // per_chunk), 1), pieces, piece, per_chunk
