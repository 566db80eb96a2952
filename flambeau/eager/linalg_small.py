"""Small systems without detours: one kernel call factors and solves a whole batch.

A plan is found by the layouts of the operands: output layouts, a kernel and its description. What
does not fit (large matrices, batches that are not evenly spaced) has no plan and goes the general
way of linalg_factors.py. Kernels: codegen/templates/small_systems.py.
"""

from typing import NamedTuple

from flambeau import _dtype as d
from flambeau._layout import broadcast_shape, collapse, dense_layout, expanded_strides
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions_linalg import LANES, Small
from flambeau.eager.linalg_factors import WORK, column_layout
from flambeau.eager.plans import Plans
from flambeau.eager.rows import chunks_of, has_work, share_of
from flambeau.runtime.cpu import packed

SMALL = 64  # rows
SMALL_BESIDE = 4  # the same where there is a library: matrices of a thread's own


class Found(NamedTuple):
    """Results of a system, or their layouts."""

    lu: object
    pivots: object
    info: object
    solution: object
    determinants: object


def small_system(purpose, A, B=None):
    """Results for a purpose (solve, inverse, det) on a batch of square matrices, or None."""
    plan = PLANS[purpose, A._layout, None if B is None else B._layout]
    if plan is None:
        return None
    kernel, description, layouts = plan
    tensors = [None if layout is None else empty_like_layout(layout) for layout in layouts]
    kernel(
        description,
        A._storage.pointer + A._offset,
        0 if B is None else B._storage.pointer + B._offset,
        *[0 if t is None else t._storage.pointer for t in tensors],
    )
    return Found(*tensors)


def small_cholesky(A):
    """(L, info) of a batch of small matrices, or None."""
    plan = PLANS["cholesky", A._layout, None]
    if plan is None:
        return None
    kernel, description, layouts = plan
    factor, info = empty_like_layout(layouts.lu), empty_like_layout(layouts.info)
    pointers = A._storage.pointer + A._offset, factor._storage.pointer, info._storage.pointer
    kernel(description, *pointers)
    return factor, info


def _plan(key):
    """(kernel, description, layouts of the results), or None if this is not for small systems."""
    purpose, a, b = key
    *batch, n, _ = a.shape
    own = a.device.runtime.decompositions
    small = SMALL if own is None or own.library() is None else SMALL_BESIDE
    if not has_work(a) or n > small:
        return None
    columns = 0 if purpose == "cholesky" else n
    strides = [[s * a.itemsize for s in a.strides]]
    if purpose == "solve":
        repeated = broadcast_shape(batch, b.shape[:-2]) != tuple(batch)
        # many columns are solved faster side by side
        if repeated or not b.numel or (n > 4 and b.shape[-1] > 8):
            return None
        expanded = expanded_strides(b, (*batch, *b.shape[-2:]))
        strides.append([s * b.itemsize for s in expanded])
        columns = b.shape[-1]
    sizes, steps = collapse(batch, [s[:-2] for s in strides])
    if len(sizes) > 1:
        return None
    count = sizes[0] if sizes else 1
    facts = [x for s, step in zip(strides, steps) for x in (*s[-2:], step[0] if step else 0)]
    many = WORK // (n * n * (n + columns)) & -64 if n <= 8 else WORK // n**3
    per_chunk = share_of(a.device, max(64 if n <= 8 else 1, many), LANES)
    words = Small(chunks_of(count, per_chunk), count, per_chunk, n, columns, *facts)
    key = purpose, a.dtype.code, n if n <= LANES else 0
    kernel = a.device.runtime.kernel(f"small_{purpose}", "small_systems:build", *key)
    return kernel, packed(words), _layouts(purpose, a, batch, columns)


def _layouts(purpose, a, batch, columns):
    dtype, device, n = a.dtype, a.device, a.shape[-1]
    solution = determinants = None
    if purpose == "det":
        determinants = dense_layout(tuple(batch), dtype, device)
    elif purpose != "cholesky":
        solution = column_layout((*batch, n, columns), dtype, device)
    return Found(
        column_layout(a.shape, dtype, device),
        dense_layout((*batch, n), d.int32, device),
        dense_layout(tuple(batch), d.int32, device),
        solution,
        determinants,
    )


PLANS = Plans(_plan)
