"""Factoring batches of matrices in place: LU, Cholesky, triangular systems, swaps of rows.

Small matrices are factored by one kernel call for the whole batch (codegen/templates/factoring.py).
Large ones are cut into blocks of columns: a kernel factors a block, the rest is matrix products.
Everything here works on plain tensors of three dimensions that autograd does not know; what users
call, and the checks, are in the launchers (linalg_solving.py).
"""

from math import prod

from flambeau import _dtype as d
from flambeau._layout import Size, make_layout
from flambeau._tensor import alias, empty_like_layout, empty_tensor
from flambeau.autograd.grad_mode import modes
from flambeau.codegen.descriptions_linalg import KERNELS, Places
from flambeau.eager.copying import copy_into, fill_into
from flambeau.eager.launching import launches
from flambeau.eager.products import product
from flambeau.eager.rows import chunks_of, is_computed, share_of
from flambeau.ops.table import public
from flambeau.runtime.cpu import packed

BLOCK = 64  # columns that a kernel factors at a time
WHOLE = 128  # matrices up to this size are left to a kernel altogether
STRIP = 192  # rows of a triangle that are updated at a time
WORK = 1 << 15  # multiplications per chunk
NEAR = 4096  # rows whose numbers fit into memory that threads share: codegen/gpu/swapping.py


def library_for(t):
    """What factors matrices by a library of the device of a tensor; None if there is none."""
    own = t._layout.device.runtime.decompositions
    return own if own is not None and own.does(t) else None


def launches_unrecorded(name):
    """Register a launcher that uses other ops, which autograd must not see."""

    def register(function):
        def launcher(*args):
            previous, modes.grad = modes.grad, False
            try:
                return function(*args)
            finally:
                modes.grad = previous

        launches(name)(launcher)
        return function

    return register


def launch(name, t, count, work, facts, *pointers):
    """Run a kernel for the dtype and device of t over `count` pieces of `work` multiplications."""
    file, words = KERNELS[name]
    layout = t._layout
    kernel = layout.device.runtime.kernel(name, f"{file}:build_{name}", layout.dtype.code)
    per_chunk = share_of(layout.device, max(1, WORK // max(1, work)))
    chunks = chunks_of(count, per_chunk)
    return kernel(packed(words(chunks, count, per_chunk, *facts)), *pointers)


def pointer(t, element=0):
    return t._storage.pointer + t._offset + element * t._layout.itemsize


def is_real_work(*tensors):
    """Is there something to compute (not on the meta device, not empty)?"""
    return all(map(is_computed, tensors))


# -- batches as three dimensions -------------------------------------------------------------------


def column_layout(shape, dtype, device):
    """Matrices whose columns lie side by side, as LAPACK and PyTorch keep them."""
    *batch, m, n = shape
    strides, step = [], max(1, m) * max(1, n)
    for size in reversed(batch):
        strides.append(step)
        step *= max(1, size)
    return make_layout(Size(shape), (*reversed(strides), 1, max(1, m)), dtype, device)


def empty_columns(shape, dtype, device):
    return empty_like_layout(column_layout(shape, dtype, device))


def unit_columns(shape, dtype, device):
    """Unit matrices (not always square) in fresh memory, columns side by side."""
    out = empty_columns(shape, dtype, device)
    if is_real_work(out):
        fill_into(out, 0)
        fill_into(out.diagonal(0, -2, -1), 1)
    return out


def columns_of(t, batch=None):
    """A copy of matrices (expanded to a batch shape) with columns side by side."""
    shape = t.shape if batch is None else (*batch, *t.shape[-2:])
    out = empty_columns(shape, t.dtype, t.device)
    if is_real_work(out):
        copy_into(out, t)
    return out


def rows_of(t, batch=None):
    """The same with rows side by side."""
    shape = t.shape if batch is None else Size((*batch, *t.shape[-2:]))
    out = empty_tensor(shape, t.dtype, t.device)
    if is_real_work(out):
        copy_into(out, t)
    return out


def stacked(t):
    """A dense batch as three dimensions, over the same memory."""
    *batch, m, n = t.shape
    s = t._layout.strides
    layout = make_layout(Size((prod(batch), m, n)), (m * n, *s[-2:]), t.dtype, t.device)
    return alias(t, layout, t._offset)


def turned(t):
    """The transposed matrices, over the same memory."""
    shape, s = t.shape, t._layout.strides
    layout = make_layout(
        Size((*shape[:-2], shape[-1], shape[-2])), (*s[:-2], s[-1], s[-2]), t.dtype, t.device
    )
    return alias(t, layout, t._offset)


def part(t, rows, columns):
    """t[:, rows, columns] for slices with both ends."""
    s = t._layout.strides
    shape = Size((t.shape[0], rows.stop - rows.start, columns.stop - columns.start))
    skip = rows.start * s[1] + columns.start * s[2]
    layout = make_layout(shape, s, t.dtype, t.device)
    return alias(t, layout, t._offset + skip * t._layout.itemsize)


def subtract_product(target, a, b):
    """target -= a @ b, all of three dimensions."""
    if is_real_work(target, a):
        target.sub_(product(a, b))


# -- LU ----------------------------------------------------------------------------------------


def lu_in_place(t, pivot=True):
    """Factor a dense batch whose columns lie side by side; gives (pivots, info)."""
    *batch, m, n = t.shape
    k = min(m, n)
    pivots = empty_tensor(Size((*batch, k)), d.int32, t.device)
    info = empty_tensor(Size(batch), d.int32, t.device)
    if not t.device.runtime.computes:
        return pivots, info
    if info._layout.numel:
        fill_into(info, 0)
    if not is_real_work(t):
        return pivots, info
    own = library_for(t)
    if own is not None:
        own.lu(t, pivots if pivot else None, info)
        if not pivot:
            copy_into(pivots, public("arange")(1, k + 1, dtype=d.int32, device=t.device))
        return pivots, info
    a = stacked(t)
    if k <= WHOLE:
        _lu_columns(a, 0, n, pivots, info)
        return pivots, info
    for first in range(0, k, BLOCK):
        last = min(first + BLOCK, k)
        _lu_columns(a, first, last, pivots, info)
        for low, high in ((0, first), (last, n)):
            if low < high:
                side = part(a, slice(0, m), slice(low, high))
                swap_rows(side, pivots, first, last)
        if last < n:
            corner = part(a, slice(first, last), slice(first, last))
            right = part(a, slice(first, last), slice(last, n))
            solved = rows_of(right)
            solve_lower_or_upper(corner, solved, False, True)
            copy_into(right, solved)
            if last < m:
                below = part(a, slice(last, m), slice(first, last))
                rest = part(a, slice(last, m), slice(last, n))
                # transposed, so that rows of the product lie as columns of the rest do
                subtract_product(turned(rest), turned(solved), turned(below))
    return pivots, info


def _lu_columns(a, first, last, pivots, info):
    """Factor columns first .. last below row first."""
    count, m, _ = a.shape
    stride, _, column = a._layout.strides
    rows, columns = m - first, last - first
    facts = [rows, columns, column, stride, pivots.shape[-1], first]
    launch(
        "lu", a, count, rows * columns * min(rows, columns), facts,
        pointer(a, first * (column + 1)), pointer(pivots, first), pointer(info),
    )  # fmt: skip


def swap_rows(a, pivots, first=0, last=None, backward=False, said=""):
    """Swap rows of a (columns side by side) as pivots first .. last say.

    said: what is wrong with pivots outside of the matrix, if not what lu_solve says.
    """
    last = pivots.shape[-1] if last is None else last
    count, m, n = a.shape
    stride, _, column = a._layout.strides
    facts = [m, n, column, stride, pivots.shape[-1], last - first, first, int(backward)]
    failed = launch(
        "swaps", a, count, n * (last - first), facts, pointer(a), pointer(pivots, first)
    )
    if failed:
        bound = "greater or equal to 1" if failed == 1 else "smaller or equal to LU.size(-2)"
        raise wrong_pivots(said or f"Pivots given to lu_solve must all be {bound}. ")


def swapped_places(pivots, rows, backward=False):
    """Numbers of rows on a GPU, swapped as pivots say: a column for each matrix."""
    *batch, many = pivots.shape
    if rows <= NEAR:
        out = empty_tensor(Size((*batch, rows, 1)), d.int64, pivots.device)
        kernel = pivots.device.runtime.kernel("swaps", "swapping:build_places")
        words = packed(Places(1, prod(batch), rows, many, int(backward)))
        kernel(words, pointer(out), pointer(pivots))
        return out
    places = public("arange")(rows, device=pivots.device).unsqueeze(-1)
    places = columns_of(places, batch)
    swap_rows(stacked(places), pivots, backward=backward)
    return places


def wrong_pivots(said):
    return RuntimeError(f"{said}Did you properly pass the result of lu_factor?")


def lu_solve(lu, pivots, b, adjoint):
    """A⁻¹ b, or A⁻ᴴ b, from the factors of A; dense batches of one shape, columns side by side."""
    own = library_for(lu)
    if own is not None and is_real_work(lu, b):
        return own.lu_solve(lu, pivots, b, adjoint)
    factors = stacked(lu)
    if adjoint:
        right = rows_of(b)
        factors = turned(factors)
        if lu.dtype.is_complex:
            factors = factors.conj().resolve_conj()
        solve_lower_or_upper(factors, stacked(right), False, False)
        solve_lower_or_upper(factors, stacked(right), True, True)
        out = columns_of(right)
        if is_real_work(out):
            swap_rows(stacked(out), pivots, backward=True)
        return out
    swapped = columns_of(b)
    if is_real_work(swapped):
        swap_rows(stacked(swapped), pivots)
    right = rows_of(swapped)
    solve_lower_or_upper(factors, stacked(right), False, True)
    solve_lower_or_upper(factors, stacked(right), True, False)
    return columns_of(right)


# -- triangular systems ------------------------------------------------------------------------


def solve_lower_or_upper(a, b, upper, unit):
    """Solve a x = b in place of b: a of any strides, rows of b side by side; both three dims."""
    n = a.shape[-1]
    if not is_real_work(b):
        return
    own = library_for(b)
    if own is not None:
        own.triangular(a, b, upper, unit)
        return
    if n <= WHOLE:
        _solve_block(a, b, upper, unit)
        return
    columns = slice(0, b.shape[-1])
    starts = range(0, n, BLOCK)
    for first in reversed(starts) if upper else starts:
        last = min(first + BLOCK, n)
        own = slice(first, last)
        known = part(b, own, columns)
        _solve_block(part(a, own, own), known, upper, unit)
        rest = slice(0, first) if upper else slice(last, n)
        if rest.start < rest.stop:
            subtract_product(part(b, rest, columns), part(a, rest, own), known)


def _solve_block(a, b, upper, unit):
    count, n, columns = b.shape
    stride, row, column = a._layout.strides
    b_stride, b_row, _ = b._layout.strides
    a_last = b_last = 0
    if upper:  # read backward
        a_last, b_last = (n - 1) * (row + column), (n - 1) * b_row
        row, column, b_row = -row, -column, -b_row
    groups = max(1, min(columns // 64, n * n * columns // WORK))
    per_group = -(-columns // groups)
    groups = -(-columns // per_group)
    facts = [groups, per_group, n, columns, row, column, stride, b_row, b_stride, int(unit)]
    launch(
        "triangular", b, count * groups, n * n * per_group, facts,
        pointer(a, a_last), pointer(b, b_last),
    )  # fmt: skip


# -- Cholesky ----------------------------------------------------------------------------------


def cholesky_in_place(t):
    """U of Uᴴ U in place of the upper triangle of a dense batch, rows side by side; gives info."""
    *batch, n, _ = t.shape
    info = empty_tensor(Size(batch), d.int32, t.device)
    if is_computed(info):
        fill_into(info, 0)
    if not is_real_work(t):
        return info
    a = stacked(t)
    if n <= WHOLE:
        _cholesky_block(a, 0, n, info)
        return info
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        _cholesky_block(a, first, last, info)
        if last == n:
            continue
        own, rest = slice(first, last), slice(last, n)
        corner = turned(part(a, own, own))
        if t.dtype.is_complex:
            corner = corner.conj().resolve_conj()
        right = part(a, own, rest)
        solve_lower_or_upper(corner, right, False, False)
        left = turned(right)
        left = left.conj().resolve_conj() if t.dtype.is_complex else left
        for top in range(last, n, STRIP):  # what is below the diagonal is not needed
            rows, beside = slice(top, min(top + STRIP, n)), slice(top, n)
            strip = slice(top - last, rows.stop - last)
            factors = part(left, strip, slice(0, last - first))
            known = part(right, slice(0, last - first), slice(top - last, n - last))
            subtract_product(part(a, rows, beside), factors, known)
        fill_into(part(a, rest, own), 0)
    return info


def _cholesky_block(a, first, last, info):
    count = a.shape[0]
    stride, row, _ = a._layout.strides
    n = last - first
    facts = [n, row, stride, first]
    launch(
        "cholesky", a, count, n * n * n // 3, facts,
        pointer(a, first * (row + 1)), pointer(info),
    )  # fmt: skip


def identity(n, batch, dtype, device):
    """Unit matrices in fresh memory, rows side by side."""
    out = empty_tensor(Size((*batch, n, n)), dtype, device)
    if is_real_work(out):
        fill_into(out, 0)
        fill_into(public("diagonal")(out, 0, -2, -1), 1)
    return out
