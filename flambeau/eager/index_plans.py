"""Plans of indexed walks: from strides and sizes to a kernel and its launch description.

A walk is described dimension by dimension: how far the table, the list and each index step. Writes
may hit one element twice; so that the result never depends on threads, work is split only along
*safe* dimensions, those in which different coordinates reach different elements of the table. The
kernels are written by `codegen/templates/indexing.py`.
"""

import math

from flambeau.eager.kernels import load_kernel, pool
from flambeau.runtime.cpu import words

_kernels: dict = {}
CHUNK = 1 << 14  # elements worth a thread's while


def kernel(name, *facts):
    """The kernel that `build_<name>(*facts)` of the templates describes."""
    found = _kernels.get((name, facts))
    if found is None:
        from flambeau.codegen.templates import compaction, indexing  # with llvmlite, on first need

        build = getattr(indexing, "build_" + name, None) or getattr(compaction, "build_" + name)
        found = _kernels[name, facts] = load_kernel(build(*facts), name)
    return found


def walk_kernel(*facts):
    found = _kernels.get(facts)
    if found is None:
        from flambeau.codegen.templates import indexing  # with llvmlite, on first need

        found = _kernels[facts] = load_kernel(
            indexing.build_walk(indexing.Walk(*facts)), "indexed_" + facts[0]
        )
    return found


def plan_walk(mode, dtype, shape, table, items, indices, sizes, steps, safe=None, wraps=False):
    """(kernel, description address, owner of the description).

    shape: the iteration space; table, items and indices: byte strides in it; sizes and steps: per
    index its bound and its byte stride in the table; safe: per dimension, may work be split there?
    (None for reads: everywhere).
    """
    writes = mode != "read"
    safe = list(safe) if writes else [True] * len(shape)
    dims = [d for d in range(len(shape)) if shape[d] != 1]
    strides = [[st[d] for d in dims] for st in (table, items, *indices)]
    lengths, strides, safe = _collapse([shape[d] for d in dims], strides, [safe[d] for d in dims])
    if not lengths:
        lengths, strides, safe = [1], [[0] for _ in strides], [False]
    itemsize = dtype.itemsize
    inner = [st[-1] for st in strides]
    if not any(inner[2:]):
        access = "s"
        rows = {itemsize: "c", 0: "s" if writes else "n"}.get(inner[1], "n")
        rows = rows if inner[0] == itemsize else "n"
    else:
        access = "c" if all(s == 8 for s in inner[2:]) else "n"
        rows = "c" if inner[1] == itemsize else "n"
    code = f"b{itemsize}" if mode in ("read", "set") else dtype.code
    run = walk_kernel(mode, code, len(indices), access, rows, wraps)
    description = _describe(lengths, strides, safe, itemsize, sizes, steps)
    owner, address = words(description)
    if owner[0] > 1:
        pool().ensure_workers()
    return run, address, owner


def _collapse(shape, strides, safe):
    """Merge dimensions that every operand walks in one run, if both are safe or neither is."""
    sizes, steps, kinds = [], [[] for _ in strides], []
    for d, size in enumerate(shape):
        if (
            sizes
            and kinds[-1] == safe[d]
            and all(st[-1] == s[d] * size for st, s in zip(steps, strides))
        ):
            sizes[-1] *= size
            for st, s in zip(steps, strides):
                st[-1] = s[d]
        else:
            sizes.append(size)
            kinds.append(safe[d])
            for st, s in zip(steps, strides):
                st.append(s[d])
    return sizes, steps, kinds


def _describe(lengths, strides, safe, itemsize, sizes, steps):
    length = lengths[-1]
    middle = lengths[-2] if len(lengths) > 1 else 1
    outer = lengths[:-2]
    rows = middle * math.prod(outer)
    # rows must stay together below the first dimension that is not safe
    together = 1
    for k in range(len(lengths) - 1):
        if not safe[k]:
            together = math.prod(lengths[k:-1])
            break
    piece, per_chunk = length, max(1, CHUNK // max(1, length * together)) * together
    if safe[-1]:
        work = length * min(together, rows)
        if work > CHUNK:
            # pieces of whole cache lines, long enough that finding a row's place costs little
            line = max(1, 64 // itemsize)
            piece = min(
                length,
                max(16 * line, -(-length // 16 // line) * line, CHUNK // together // line * line),
            )
    per_chunk = min(per_chunk, rows)
    pieces = -(-length // piece)
    chunks = pieces * -(-rows // per_chunk)
    found = [chunks, pieces, piece, per_chunk, rows, length, middle, len(outer), *sizes, *steps]
    for st in strides:
        found += [st[-1], st[-2] if len(st) > 1 else 0]
    for d, size in enumerate(outer):
        found += [size, *(st[d] for st in strides)]
    return found
