"""Launching sorts: sort, topk, kthvalue, median and mode along a dimension.

Kernels work on rows that lie side by side (`rows.py`); a long row is sorted by all threads
together, many short ones in parallel. The kernels are in `codegen/templates/sorting.py` and
`selection.py`, the rows of the table in `ops/sorting.py`; counting and searching in `counting.py`.
"""

import operator
from functools import reduce

from flambeau import _dtype as d
from flambeau import errors, return_types
from flambeau._device import cpu
from flambeau._layout import Size, dense_layout, make_layout
from flambeau._tensor import alias, empty_like_layout, empty_tensor
from flambeau.eager import outs
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.copying import copy_into, filled
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.plan import MAX_PLANS
from flambeau.eager.rows import (
    address,
    as_rows,
    blocks,
    contiguous,
    dimension,
    from_rows,
    is_computed,
    launch,
    reduced_shape,
    row_shape,
)
from flambeau.runtime.cpu import words

_kernels: dict = {}
_plans: dict = {}
LONG = 1 << 16  # rows of this length and more are sorted by several chunks together
SHORT = 64  # rows that selection ranks at once: it never pays to sort them first
DIGIT = 11
SLACK = 256  # kernels may read this much past the end


def kernel(name, dtype):
    """The kernel that `build_<name>(dtype)` of the templates describes."""
    found = _kernels.get((name, dtype))
    if found is None:
        from flambeau.codegen.templates import selection, sorting  # with llvmlite, on first need

        build = getattr(sorting, "build_" + name, None) or getattr(selection, "build_" + name)
        found = _kernels[name, dtype] = load_kernel(build(dtype.code), name)
    return found


def scratch(nbytes):
    """Memory for a launch; keep the tensor as long as the kernel runs."""
    return empty_like_layout(_room(nbytes))


def _room(nbytes):
    return dense_layout(Size((nbytes + SLACK,)), d.uint8, cpu)


def item_bytes(dtype):
    return 16 if dtype.itemsize == 8 else 8


def outputs(input, shape):
    return (
        empty_tensor(shape, input.dtype, input.device),
        empty_tensor(shape, d.int64, input.device),
    )


# -- sort ------------------------------------------------------------------------------------------


@launches("sort")
def sort(input, dim, descending, stable):
    layout = input._layout
    plan = _plans.get((layout, dim, descending))
    if plan is not None:
        # rows side by side that one launch sorts
        run, description, _, indices, room = plan
        values, indices, room = map(empty_like_layout, (layout, indices, room))
        source = input._storage.pointer + input._offset
        places = values._storage.pointer, indices._storage.pointer, source, room._storage.pointer
        run(description, *places)
        return return_types.sort((values, indices))
    if input.dtype.is_complex:
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    given, dim = dim, dimension(input, dim)
    if not is_computed(input):
        return return_types.sort(outputs(input, input.shape))
    rows, n, source = as_rows(input, dim)
    if source is input and n < LONG:
        if len(_plans) > MAX_PLANS:
            _plans.clear()
        _plans[layout, given, descending] = _plan_sort(layout, rows, n, descending)
        return sort(input, given, descending, stable)
    values, indices = outputs(input, source.shape)
    sort_rows(address(values), address(indices), address(source), rows, n, input.dtype, descending)
    return return_types.sort((from_rows(values, dim), from_rows(indices, dim)))


def _plan_sort(layout, rows, n, descending):
    description, room = _describe_sort(rows, n, layout.dtype, descending)
    owner, at = words(description)
    if owner[0] > 1:
        pool().ensure_workers()
    indices = dense_layout(layout.shape, d.int64, layout.device)
    return kernel("sort_rows", layout.dtype), at, owner, indices, _room(room)


def _describe_sort(rows, n, dtype, descending):
    """(description of a launch that sorts rows, bytes it needs)."""
    chunks = min(rows, max(1, (rows * n) >> 14), max(2, (1 << 21) // n), 64)
    per_chunk = -(-rows // chunks)
    chunks = -(-rows // per_chunk)
    flip = -1 if descending else 0
    return [chunks, rows, n, per_chunk, flip], chunks * 2 * n * item_bytes(dtype)


def sort_rows(values, indices, source, rows, n, dtype, descending):
    """Sort rows at one address into others."""
    if n >= LONG:
        for row in range(rows):
            at = row * n
            places = (values + at * dtype.itemsize, indices + at * 8, source + at * dtype.itemsize)
            _sort_long(*places, n, dtype, -1 if descending else 0)
        return
    description, room = _describe_sort(rows, n, dtype, descending)
    room = scratch(room)
    launch(kernel("sort_rows", dtype), description, values, indices, source, address(room))


def _sort_long(values, indices, source, n, dtype, flip):
    room = scratch(2 * n * item_bytes(dtype))
    a = address(room)
    items = sort_items(a, a + n * item_bytes(dtype), source, n, dtype, flip)
    count, block = blocks(n, LONG // 2)
    launch(kernel("write_items", dtype), [count, n, block, flip], values, indices, items, source)


def sort_items(a, b, source, n, dtype, flip):
    """Sorted items of one long row, in buffer a or b."""
    count, block = blocks(n, LONG // 2)
    differ, at = words([0] * count)
    launch(kernel("items", dtype), [count, n, block, flip], a, source, at)
    varying = reduce(operator.or_, differ) & ((1 << (8 * dtype.itemsize)) - 1)
    tables = scratch(count * 4 << DIGIT)
    for shift, bits in _digits(varying):
        description = [count, n, block, shift, 1 << bits, count]
        launch(kernel("count_digits", dtype), description, address(tables), a)
        launch(kernel("send_digits", dtype), description, address(tables), a, b)
        a, b = b, a
    return a


def _digits(varying):
    """(shift, bits) of the digits that hold all varying bits, least significant first."""
    found, shift = [], 0
    while varying >> shift:
        shift += (varying >> shift & -(varying >> shift)).bit_length() - 1
        left = (varying >> shift).bit_length()
        bits = min(DIGIT, -(-left // -(-left // DIGIT)))
        found.append((shift, bits))
        shift += bits
    return found


# -- selection -------------------------------------------------------------------------------------

_WIDE = (d.uint16, d.uint32, d.uint64)


def check_dtype(name, dtype, *refused):
    """Refuse dtypes that PyTorch has no kernel for."""
    if dtype.is_complex or dtype in _WIDE or dtype in refused:
        raise errors.not_implemented(name, dtype)


@launches("topk")
def topk(input, k, dim, largest, sorted):
    plan = _plans.get((input._layout, k, dim, largest))
    if plan is not None:
        run, description, _, values, indices, room, spare = plan
        values, indices, room = map(empty_like_layout, (values, indices, room))
        at = room._storage.pointer
        source = input._storage.pointer + input._offset
        places = values._storage.pointer, indices._storage.pointer, at + spare, source, at
        run(description, *places)
        return return_types.topk((values, indices))
    given, dim = dim, dimension(input, dim)
    n = input.shape[dim] if input.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError("selected index k out of range")
    if input.dtype.is_complex:
        raise RuntimeError(" topk does not support complex dtypes on CPU")
    if input.dtype is d.bool_:
        raise RuntimeError("topk does not support bool dtypes on CPU")
    check_dtype("topk_cpu", input.dtype)
    if not input.ndim:
        k = 1  # a lone number is its own best, whatever k says
    values, indices = outputs(input, row_shape(input, dim, k))
    if is_computed(values):
        rows, n, source = as_rows(input, dim)
        if source is input and (n <= SHORT or k * 8 <= n < LONG):
            if len(_plans) > MAX_PLANS:
                _plans.clear()
            plan = _plan_best(input._layout, values, indices, rows, n, k, largest)
            _plans[input._layout, k, given, largest] = plan
            return topk(input, k, given, largest, sorted)
        if k * 8 > n and n > SHORT:
            _topk_by_sorting(values, indices, source, rows, n, k, largest)
        else:
            best(
                address(values), address(indices), address(source), rows, n, k, input.dtype, largest
            )
    return return_types.topk((from_rows(values, dim), from_rows(indices, dim)))


def _topk_by_sorting(values, indices, source, rows, n, k, largest):
    shape = Size((rows, n))
    all_values, all_indices = outputs(source, shape)
    sort_rows(
        address(all_values), address(all_indices), address(source), rows, n, source.dtype, largest
    )
    for target, whole in ((values, all_values), (indices, all_indices)):
        part = alias(whole, make_layout(Size((rows, k)), (n, 1), whole.dtype, cpu), 0)
        copy_into(alias(target, dense_layout(Size((rows, k)), whole.dtype, cpu), 0), part)


def _plan_best(layout, values, indices, rows, n, k, largest):
    """For rows side by side, none of them long: one launch."""
    description, room, spare, _ = _describe_best(rows, n, k, layout.dtype, largest)
    owner, at = words(description)
    if owner[0] > 1:
        pool().ensure_workers()
    run = kernel("best_items", layout.dtype)
    return run, at, owner, values._layout, indices._layout, _room(room + 2 * spare), room


def _describe_best(rows, n, k, dtype, largest):
    """(description of a launch, bytes it works in, bytes of its items, blocks per row)"""
    flip = -1 if largest else 0
    count, block = (1, n) if n < LONG else blocks(n, max(LONG // 2, 4 * k), 32)
    pieces = rows * count
    per_chunk = max(1, (1 << 15) // block, -(-pieces // 64))
    chunks = -(-pieces // per_chunk)
    # room for what is wanted and as much again; small buffers are sorted fastest (by rank)
    capacity = max(2 * k, 48) + 16
    size = item_bytes(dtype)
    room, spare = chunks * capacity * 2 * size, pieces * k * size if count > 1 else 0
    description = [chunks, pieces, n, block, count, k, capacity, flip, per_chunk]
    return description, room, spare, count


def best(values, indices, source, rows, n, k, dtype, largest):
    """The k best of each row at an address, in order."""
    description, room, spare, count = _describe_best(rows, n, k, dtype, largest)
    memory = scratch(room + 2 * spare)
    at = address(memory)
    launch(kernel("best_items", dtype), description, values, indices, at + room, source, at)
    if count > 1:
        description = [rows, rows, n, count, k, -1 if largest else 0]
        places = values, indices, at + room, at + room + spare, source
        launch(kernel("best_rows", dtype), description, *places)


def _nonempty(name, input, dim):
    if input.ndim and input.shape[dim] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


def _per_row(name, input, dim, keepdim, *facts):
    """Run a kernel that gives one value and one index per row."""
    shape = reduced_shape(input, dim, keepdim)
    values, indices = outputs(input, shape)
    if is_computed(values):
        rows, n, source = as_rows(input, dim)
        chunks = min(rows, max(1, (rows * n) >> 15), 64)
        per_chunk = -(-rows // chunks)
        chunks = -(-rows // per_chunk)
        room = scratch(chunks * 2 * n * item_bytes(input.dtype))
        places = (address(values), address(indices), address(source), address(room))
        launch(kernel(name, input.dtype), [chunks, rows, n, per_chunk, *facts], *places)
    return values, indices


@launches("kthvalue")
def kthvalue(input, k, dim, keepdim):
    dim = dimension(input, dim)
    _nonempty("kthvalue", input, dim)
    if not 1 <= k <= (input.shape[dim] if input.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    check_dtype("kthvalue_cpu", input.dtype, d.bool_)
    return return_types.kthvalue(_per_row("select_rows", input, dim, keepdim, k - 1, 0))


def _median(name, input, dim, keepdim, rule):
    dim = dimension(input, dim)
    _nonempty(name, input, dim)
    check_dtype("median_cpu", input.dtype, d.bool_)
    n = input.shape[dim] if input.ndim else 1
    result = _per_row("select_rows", input, dim, keepdim, (n - 1) // 2, rule)
    return getattr(return_types, name)(result)


@launches("median_dim")
def median_dim(input, dim, keepdim):
    return _median("median", input, dim, keepdim, 1)


@launches("nanmedian_dim")
def nanmedian_dim(input, dim, keepdim):
    return _median("nanmedian", input, dim, keepdim, 2)


def _median_of_all(input, rule):
    check_dtype("median_cpu", input.dtype, d.bool_)
    if not is_computed(input):
        value = float("nan") if input.dtype.is_floating_point else -(1 << 8 * input.itemsize - 1)
        if input.dtype is d.uint8:
            value = 0
        return filled(dense_layout(Size(()), input.dtype, input.device), value)
    source = contiguous(input)
    row = alias(source, dense_layout(Size((input.numel(),)), input.dtype, cpu), source._offset)
    return _per_row("select_rows", row, 0, False, (input.numel() - 1) // 2, rule)[0]


@launches("median_all")
def median_all(input):
    return _median_of_all(input, 1)


@launches("nanmedian_all")
def nanmedian_all(input):
    return _median_of_all(input, 2)


@launches("mode")
def mode(input, dim, keepdim):
    dim = dimension(input, dim)
    _nonempty("mode", input, dim)
    check_dtype("mode_cpu", input.dtype)
    return return_types.mode(_per_row("mode_rows", input, dim, keepdim))


def _kthvalue_out(wanted, got, name):
    kind = "same type as input" if name == "values" else "scalar type Long"
    return RuntimeError(f"output {name} must be of {kind}")


def _mode_out(wanted, got, name):
    return RuntimeError(
        f"expected scalar type '{wanted.scalar_name}' but got '{got.scalar_name}' for {name} output"
    )


FRONTS |= {"sort": outs.exact(outs.not_exact), "topk": outs.exact(outs.not_exact)}
FRONTS |= {"kthvalue": outs.exact(_kthvalue_out), "mode": outs.exact(_mode_out)}
