"""Small systems without detours: one kernel call factors and solves a whole batch.

A plan is found by the layouts of the operands: output layouts, a kernel and its description. What
does not fit (large matrices, batches that are not evenly spaced) has no plan and goes the general
way of linalg_factors.py. Kernels: codegen/templates/small_systems.py.
"""

from typing import NamedTuple

from flambeau import _dtype as d
from flambeau._layout import Size, broadcast_shape, collapse, dense_layout, expanded_strides
from flambeau._tensor import empty_like_layout
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.linalg_factors import WORK, column_layout
from flambeau.eager.plan import MAX_PLANS
from flambeau.runtime.cpu import words

SMALL = 64  # rows
_plans: dict = {}
_kernels: dict = {}


class Plan(NamedTuple):
    kernel: object
    description: int
    owner: object  # keeps the description alive
    lu: object
    pivots: object
    info: object
    solution: object
    determinants: object


class Found(NamedTuple):
    lu: object
    pivots: object
    info: object
    solution: object
    determinants: object


def small_system(purpose, A, B=None):
    """Results for a purpose (solve, inverse, det) on a batch of square matrices, or None."""
    key = (purpose, A._layout, None if B is None else B._layout)
    plan = _plans.get(key, 0)
    if plan == 0:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        plan = _plans[key] = _plan(*key)
    if plan is None:
        return None
    kernel, description, _, *layouts = plan
    tensors = [None if layout is None else empty_like_layout(layout) for layout in layouts]
    kernel(
        description,
        A._storage.pointer + A._offset,
        0 if B is None else B._storage.pointer + B._offset,
        *[0 if t is None else t._storage.pointer for t in tensors],
    )
    return Found(*tensors)


def _plan(purpose, a, b):
    *batch, n, _ = a.shape
    if not a.device.runtime.computes or not a.numel or n > SMALL:
        return None
    columns = n
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
    steps = [s[0] if s else 0 for s in steps]
    facts = [n, columns]
    for matrix, step in zip(strides, steps):
        facts += [*matrix[-2:], step]
    facts += [0] * (8 - len(facts))
    per_chunk = max(64, WORK // (n * n * (n + columns)) & -64) if n <= 8 else max(1, WORK // n**3)
    chunks = -(-count // per_chunk)
    if chunks > 1:
        pool().ensure_workers()
    owner, description = words([chunks, count, per_chunk, *facts])
    device = a.device
    shape = Size(batch)
    solution = determinants = None
    if purpose == "det":
        determinants = dense_layout(shape, a.dtype, device)
    else:
        solution = column_layout((*batch, n, columns), a.dtype, device)
    return Plan(
        _kernel(purpose, a.dtype.code, n),
        description,
        owner,
        column_layout(a.shape, a.dtype, device),
        dense_layout(Size((*batch, n)), d.int32, device),
        dense_layout(shape, d.int32, device),
        solution,
        determinants,
    )


def _kernel(purpose, code, n):
    from flambeau.codegen.templates import small_systems  # with llvmlite, on first need

    lanes = n if n <= small_systems.LANES else 0
    found = _kernels.get((purpose, code, lanes))
    if found is None:
        if purpose == "cholesky":
            build = small_systems.build_cholesky_lanes, small_systems.build_cholesky_whole
            text = build[0](code, lanes) if lanes else build[1](code)
        elif lanes:
            text = small_systems.build_lanes(code, lanes, purpose)
        else:
            text = small_systems.build_whole(code, purpose)
        found = _kernels[purpose, code, lanes] = load_kernel(text, f"small_{purpose}")
    return found


def small_cholesky(A):
    """(L, info) of a batch of small matrices, or None."""
    key = ("cholesky", A._layout)
    plan = _plans.get(key, 0)
    if plan == 0:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        plan = _plans[key] = _plan_cholesky(A._layout)
    if plan is None:
        return None
    kernel, description, _, factor, info = plan
    factor, info = empty_like_layout(factor), empty_like_layout(info)
    pointers = A._storage.pointer + A._offset, factor._storage.pointer, info._storage.pointer
    kernel(description, *pointers)
    return factor, info


def _plan_cholesky(a):
    *batch, n, _ = a.shape
    if not a.device.runtime.computes or not a.numel or n > SMALL:
        return None
    strides = [s * a.itemsize for s in a.strides]
    sizes, steps = collapse(batch, [strides[:-2]])
    if len(sizes) > 1:
        return None
    count, step = (sizes[0], steps[0][0]) if sizes else (1, 0)
    per_chunk = max(64, WORK // n**3 & -64) if n <= 8 else max(1, WORK // n**3)
    chunks = -(-count // per_chunk)
    if chunks > 1:
        pool().ensure_workers()
    owner, description = words([chunks, count, per_chunk, n, *strides[-2:], step])
    kernel = _kernel("cholesky", a.dtype.code, n)
    info = dense_layout(Size(batch), d.int32, a.device)
    return kernel, description, owner, column_layout(a.shape, a.dtype, a.device), info
