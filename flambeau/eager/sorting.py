"""Launching sorts: sort, topk, kthvalue, median and mode along a dimension.

Kernels work on rows that lie side by side (`rows.py`); a long row is sorted by all threads
together, many short ones in parallel. The kernels are in `codegen/templates/sorting.py` and
`selection.py`, the rows of the table in `ops/sorting.py`; counting and searching in `counting.py`.
"""

import operator
from functools import reduce

from flambeau import _dtype as d
from flambeau import errors, return_types
from flambeau._layout import dense_layout, make_layout, wrap_dim
from flambeau._tensor import alias, empty_like_layout
from flambeau.codegen.descriptions_places import (
    BestItems,
    BestRows,
    Digits,
    RankedRows,
    SortedBlocks,
    SortedRows,
)
from flambeau.eager.copying import copy_into, filled
from flambeau.eager.launching import launches
from flambeau.eager.planned import idle, launch, planned
from flambeau.eager.rows import (
    address,
    as_rows,
    blocks,
    chunks_of,
    contiguous,
    dimension,
    from_rows,
    has_work,
    reduced_shape,
    row_shape,
    told_words,
    truths,
    vector_layout,
)
from flambeau.runtime.cpu import packed

LONG = 1 << 16  # rows of this length and more are sorted by several chunks together
SHORT = 64  # rows that selection ranks at once: it never pays to sort them first
DIGIT = 11
SLACK = 256  # kernels may read this much past the end


def _launch(runtime, name, dtype, description, *places, file="sorting"):
    runtime.kernel(name, f"{file}:build_{name}", dtype.code)(packed(description), *places)


def scratch(nbytes, device):
    """Memory for several launches; keep the tensor as long as they run."""
    return empty_like_layout(_room(nbytes, device))


def item_bytes(dtype):
    return 16 if dtype.itemsize == 8 else 8


def _results(layout, shape):
    """Layouts of values and indices."""
    return (
        dense_layout(shape, layout.dtype, layout.device),
        dense_layout(shape, d.int64, layout.device),
    )


def _room(nbytes, device):
    return vector_layout(nbytes + SLACK, d.uint8, device)


def _is_rows(layout, dim):
    return layout.is_contiguous and dim >= layout.ndim - 1


# -- sort ------------------------------------------------------------------------------------------


def _sort_apart(input, dim, descending, stable):
    """Rows that are long, or lie across memory."""
    dim = dimension(input, dim)
    on_device = input._layout.device.runtime.sorts is not None
    rows, n, source = as_rows(truths(input) if on_device else input, dim)
    values, indices = map(empty_like_layout, _results(input._layout, source._layout.sizes))
    sort_rows(values, indices, source, rows, n, descending)
    return return_types.sort((from_rows(values, dim), from_rows(indices, dim)))


@planned(
    "sort", "input: tensor, dim, descending, stable", "values, indices", room=True,
    otherwise=_sort_apart, gives="sort",
)  # fmt: skip
def sort(layout, dim, descending, stable):
    dim, results = wrap_dim(dim, layout.ndim), _results(layout, layout.sizes)
    if layout.dtype.is_complex:
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    n = layout.sizes[dim] if layout.ndim else 1
    if not has_work(layout):
        return *idle(*results), None
    if not _is_rows(layout, dim) or n >= LONG or layout.device.runtime.sorts is not None:
        return *results, None, None, None
    words, room = _describe_sort(layout.numel // n, n, layout.dtype, descending)
    found = launch(results, words, "sort_rows", "sorting:build_sort_rows", layout.dtype.code)
    return *found, _room(room, layout.device)


def _describe_sort(rows, n, dtype, descending):
    """(description of a launch that sorts rows, bytes it needs)."""
    per_chunk = -(-rows // min(rows, max(1, (rows * n) >> 14), max(2, (1 << 21) // n), 64))
    chunks = chunks_of(rows, per_chunk)
    description = SortedRows(chunks, rows, n, per_chunk, -1 if descending else 0)
    return description, chunks * 2 * n * item_bytes(dtype)


def sort_rows(values, indices, source, rows, n, descending):
    """Sort rows of one tensor into others."""
    dtype, device = source._layout.dtype, source._layout.device
    sorts = device.runtime.sorts
    if sorts is not None and sorts.sort(values, indices, source, rows, n, descending):
        return
    places = address(values), address(indices), address(source)
    if n < LONG:
        description, room = _describe_sort(rows, n, dtype, descending)
        room = scratch(room, device)
        _launch(device.runtime, "sort_rows", dtype, description, *places, address(room))
        return
    flip, steps = -1 if descending else 0, (dtype.itemsize * n, 8 * n, dtype.itemsize * n)
    for row in range(rows):
        _sort_long(*[p + s * row for p, s in zip(places, steps)], n, dtype, flip, device)


def _sort_long(values, indices, source, n, dtype, flip, device):
    room = scratch(2 * n * item_bytes(dtype), device)
    a = address(room)
    count, block = blocks(n, LONG // 2)
    description = SortedBlocks(count, n, block, flip)
    items = _sort_items(a, a + n * item_bytes(dtype), source, description, dtype, device)
    _launch(device.runtime, "write_items", dtype, description, values, indices, items, source)


def _sort_items(a, b, source, description, dtype, device):
    """Sorted items of one long row, in buffer a or b."""
    runtime, (count, n, block, _) = device.runtime, description
    at, differ = told_words(count, device)
    _launch(runtime, "items", dtype, description, a, source, at)
    varying = reduce(operator.or_, differ()) & ((1 << (8 * dtype.itemsize)) - 1)
    tables = scratch(count * 4 << DIGIT, device)
    for shift, bits in _digits(varying):
        digits = Digits(count, n, block, shift, 1 << bits, count)
        _launch(runtime, "count_digits", dtype, digits, address(tables), a)
        _launch(runtime, "send_digits", dtype, digits, address(tables), a, b)
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


# -- the k best ------------------------------------------------------------------------------------

_WIDE = (d.uint16, d.uint32, d.uint64)


def check_dtype(name, dtype, *refused):
    """Refuse dtypes that PyTorch has no kernel for."""
    if dtype.is_complex or dtype in _WIDE or dtype in refused:
        raise errors.not_implemented(name, dtype)


def _topk_apart(input, k, dim, largest, sorted):
    """Rows that are long, or lie across memory."""
    k, dim = k if input._layout.ndim else 1, dimension(input, dim)
    rows, n, source = as_rows(input, dim)
    shape = row_shape(input, dim, k)
    values, indices = map(empty_like_layout, _results(input._layout, shape))
    sorts = input._layout.device.runtime.sorts
    if sorts is not None and sorts.best(values, indices, source, rows, n, k, largest):
        pass
    elif (k * 8 > n and n > SHORT) or sorts is not None:
        _topk_by_sorting(values, indices, source, rows, n, k, largest)
    else:
        _best(values, indices, source, rows, n, k, largest)
    return return_types.topk((from_rows(values, dim), from_rows(indices, dim)))


@planned(
    "topk", "input: tensor, k, dim, largest, sorted", "values, indices", room=True,
    order="values indices 0 input room", otherwise=_topk_apart, gives="topk",
)  # fmt: skip
def topk(layout, k, dim, largest, sorted):
    dtype, shape = layout.dtype, layout.sizes
    dim = wrap_dim(dim, layout.ndim)
    n = shape[dim] if shape else 1
    if not 0 <= k <= n:
        raise RuntimeError("selected index k out of range")
    if dtype.is_complex:
        raise RuntimeError(" topk does not support complex dtypes on CPU")
    if dtype is d.bool_:
        raise RuntimeError("topk does not support bool dtypes on CPU")
    check_dtype("topk_cpu", dtype)
    # a lone number is its own best, whatever k says
    results = _results(layout, (*shape[:dim], k, *shape[dim + 1 :]) if shape else ())
    if not has_work(results[0]):
        return *idle(*results), None
    fits = n <= SHORT or k * 8 <= n < LONG
    if not _is_rows(layout, dim) or not fits or layout.device.runtime.sorts is not None:
        return *results, None, None, None
    words, room, _ = _describe_best(layout.numel // n, n, k or 1, dtype, largest)
    found = launch(results, words, "best_items", "selection:build_best_items", dtype.code)
    return *found, _room(room, layout.device)


def _topk_by_sorting(values, indices, source, rows, n, k, largest):
    whole = [empty_like_layout(layout) for layout in _results(source._layout, (rows, n))]
    sort_rows(*whole, source, rows, n, largest)
    for target, t in zip((values, indices), whole):
        dtype, device = t._layout.dtype, t._layout.device
        part = alias(t, make_layout((rows, k), (n, 1), dtype, device), 0)
        copy_into(alias(target, dense_layout((rows, k), dtype, device), 0), part)


def _describe_best(rows, n, k, dtype, largest):
    """(description of a launch, bytes it works in, bytes of its items)"""
    count, block = (1, n) if n < LONG else blocks(n, max(LONG // 2, 4 * k), 32)
    pieces = rows * count
    per_chunk = max(1, (1 << 15) // block, -(-pieces // 64))
    chunks = chunks_of(pieces, per_chunk)
    # room for what is wanted and as much again; small buffers are sorted fastest (by rank)
    capacity = max(2 * k, 48) + 16
    flip, size = -1 if largest else 0, item_bytes(dtype)
    description = BestItems(chunks, pieces, n, block, count, k, capacity, flip, per_chunk)
    return description, chunks * capacity * 2 * size, pieces * k * size if count > 1 else 0


def _best(values, indices, source, rows, n, k, largest):
    """The k best of each row, in order."""
    dtype, device = source._layout.dtype, source._layout.device
    description, room, spare = _describe_best(rows, n, k, dtype, largest)
    memory, runtime = scratch(room + 2 * spare, device), device.runtime
    at, file, source = address(memory), "selection", address(source)
    places = address(values), address(indices), at + room
    _launch(runtime, "best_items", dtype, description, *places, source, at, file=file)
    if description.blocks > 1:
        joined = BestRows(chunks_of(rows, 1), n, description.blocks, k, description.flip)
        _launch(runtime, "best_rows", dtype, joined, *places, at + room + spare, source, file=file)


# -- one of each row -------------------------------------------------------------------------------


def _per_row(name, input, dim, keepdim, *facts):
    """Run a kernel that gives one value and one index per row."""
    return _select(as_rows(input, dim)[2], name, input._layout, dim, keepdim, facts)


@planned(None, "rows: tensor, name, layout, dim, keepdim, facts", "values, indices", room=True)
def _select(rows, name, layout, dim, keepdim, facts):
    results = _results(layout, reduced_shape(layout, dim, keepdim))
    if not has_work(results[0]):
        return *idle(*results), None
    n = layout.sizes[dim] if layout.ndim else 1
    rows = layout.numel // n
    per_chunk = -(-rows // min(rows, max(1, (rows * n) >> 15), 64))
    words = RankedRows(-(-rows // per_chunk), rows, n, per_chunk, *facts)
    sorts, nbytes = layout.device.runtime.sorts, words.chunks * 2 * n * item_bytes(layout.dtype)
    if sorts is not None:
        picked, nbytes = sorts.pick(name, layout, words), 0
        if picked is not None:
            return *results, picked, packed(words), _room(nbytes, layout.device)
    found = launch(results, words, name, f"selection:build_{name}", layout.dtype.code)
    return *found, _room(nbytes, layout.device)


def _nonempty(name, input, dim):
    if input.ndim and input.shape[dim] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


@launches("kthvalue")
def kthvalue(input, k, dim, keepdim):
    dim = dimension(input, dim)
    _nonempty("kthvalue", input, dim)
    if not 1 <= k <= (input.shape[dim] if input.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}")
    if input.ndim:
        check_dtype("kthvalue_cpu", input.dtype, d.bool_)
    return return_types.kthvalue(_per_row("select_rows", input, dim, keepdim, k - 1, 0))


def _median(name, input, dim, keepdim, rule):
    dim = dimension(input, dim)
    _nonempty(name, input, dim)
    check_dtype("median_out", input.dtype, d.bool_)
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
    layout, dtype = input._layout, input._layout.dtype
    if layout.numel:
        check_dtype("median_cpu", dtype, d.bool_)
    if not has_work(layout):
        value = float("nan") if dtype.is_floating_point else -(1 << 8 * dtype.itemsize - 1)
        if dtype is d.uint8:
            value = 0
        return filled(dense_layout((), dtype, layout.device), value)
    source = contiguous(input)
    row = alias(source, vector_layout(layout.numel, dtype, layout.device), source._offset)
    return _per_row("select_rows", row, 0, False, (layout.numel - 1) // 2, rule)[0]


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
    if not input.ndim:
        place = filled(dense_layout((), d.int64, input.device), 0)
        return return_types.mode((input.clone(), place))
    check_dtype("mode_cpu", input.dtype)
    return return_types.mode(_per_row("mode_rows", truths(input), dim, keepdim, 0, 0))
