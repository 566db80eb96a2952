"""Singular values and eigenvalues of stacks of small matrices, by kernels of our own.

A plan is found by the layout: layouts of the results, a kernel, its description. What does not fit
(large or complex matrices, other devices) has none and goes to LAPACK (linalg_spectra.py), as does
a stack in which a matrix needs more than a kernel offers. Kernels: codegen/templates/rotations.py.
"""

from flambeau import _dtype as d
from flambeau._layout import collapse, dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions_linalg import Rotations
from flambeau.codegen.target import current
from flambeau.eager.kernels import pool
from flambeau.eager.linalg_factors import column_layout
from flambeau.eager.plans import Plans
from flambeau.eager.rows import vector_layout
from flambeau.runtime.cpu import packed
from flambeau.runtime.touching import told, touched

ALWAYS = 8  # rows up to which even one matrix is computed here,
SOME = 16  # up to which a few are, which take as long as a matrix for every lane,
# and, by lanes, where there is one for each; values alone take LAPACK less, so two thirds of it
MOST = {2: 12, 4: 24, 8: 32, 16: 48}
LONGEST = 64  # rows of tall matrices
WORK = 1 << 16  # multiplications of vectors per chunk
CHUNKS = 16  # at most, as each has scratch memory


def rotated_eigh(A, lower, with_vectors):
    """(values, vectors or None) of a stack of symmetric matrices, or None."""
    plan = PLANS["eigh", A._layout, lower, with_vectors]
    return None if plan is None else _run(plan, A)


def rotated_svd(A, with_vectors):
    """(values, U, Vh) of a stack of matrices, the latter None without vectors; or None."""
    plan = PLANS["svd", A._layout, False, with_vectors]
    return None if plan is None else _run(plan, A)


def _run(plan, A):
    if told:  # what the kernel answers decides what is done next
        touched()
    kernel, description, layouts, order, scratch = plan
    results = [None if layout is None else empty_like_layout(layout) for layout in layouts]
    places = [0 if t is None else t._storage.pointer for t in results]
    room = empty_like_layout(scratch)
    source = A._storage.pointer + A._offset
    failed = kernel(description, source, *[places[k] for k in order], room._storage.pointer)
    return None if failed is not None else results


def _plan(key):
    name, layout, lower, with_vectors = key
    *batch, m, n = layout.sizes
    small, long = min(m, n), max(m, n)
    if layout.dtype not in (d.float32, d.float64) or not layout.device.runtime.is_host:
        return None
    sizes, steps = collapse(tuple(batch), [layout.strides[:-2]]) if batch else ((), ((),))
    width = current().vector_bytes // layout.itemsize
    most = MOST[width] if with_vectors else MOST[width] * 2 // 3
    if len(sizes) > 1 or small > most or long > LONGEST:
        return None
    count = sizes[0] if sizes else 1
    if (small > ALWAYS and count < 3) or (small > SOME and count < width):
        return None
    row, column = layout.strides[-2:]
    turned = m < n
    if turned:  # the columns of a tall matrix are rotated
        m, n, row, column = n, m, column, row
    groups = -(-count // width)
    chunks = max(1, min(CHUNKS, groups, 8 * groups * m * n * n // WORK))
    per_chunk = -(-groups // chunks) * width
    chunks = -(-count // per_chunk)
    room = m * n + n * n + 2 * n
    left, right = (1, m, m * n), (n, 1, n * n)
    if turned:
        left, right = (n, 1, m * n), (1, n, n * n)
    stride = steps[0][0] if sizes else 0
    words = chunks, count, per_chunk, m, n, row, column, stride, room, *left, *right
    if name == "eigh":
        facts, order = (lower, with_vectors), (0, 1)
    else:
        facts, order = (with_vectors,), (0, 2, 1) if turned else (0, 1, 2)
    build = f"rotations:build_{name}"
    kernel = layout.device.runtime.kernel(f"rotated_{name}", build, layout.dtype.code, *facts)
    if chunks > 1:
        pool().ensure_workers()
    scratch = vector_layout(chunks * room * width, layout.dtype, layout.device)
    results = _results(name, layout, batch, small, with_vectors)
    return kernel, packed(Rotations(*words)), results, order, scratch


def _results(name, layout, batch, small, with_vectors):
    dtype, device, (m, n) = layout.dtype, layout.device, layout.sizes[-2:]
    values = dense_layout((*batch, small), dtype, device)
    shapes = [(*batch, n, n)] if name == "eigh" else [(*batch, m, small), (*batch, small, n)]
    if not with_vectors:
        return values, *[None for _ in shapes]
    return values, *[column_layout(shape, dtype, device) for shape in shapes]


PLANS = Plans(_plan, by_default=False)
