"""Launching sorts: sort, topk, kthvalue, median and mode along a dimension.

Kernels work on rows that lie side by side (`rows.py`); a long row is sorted by all threads together,
many short ones in parallel. The kernels are in `codegen/templates/sorting.py` and `selection.py`,
the rows of the table in `ops/sorting.py`; counting and searching in `counting.py`.
"""

import operator
from functools import reduce

from flambeau import _dtype as d
from flambeau import errors, return_types
from flambeau._device import cpu
from flambeau._layout import Size
from flambeau._tensor import empty_tensor
from flambeau.eager.binding import launches
from flambeau.eager.kernels import load_kernel
from flambeau.eager.rows import (
    address,
    as_rows,
    blocks,
    dimension,
    from_rows,
    is_computed,
    launch,
    reduced_shape,
    row_shape,
    without_dim,
)
from flambeau.runtime.cpu import words

_kernels: dict = {}
LONG = 1 << 16  # rows of this length and more are sorted by several chunks together
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
    return empty_tensor(Size((nbytes + SLACK,)), d.uint8, cpu)


def item_bytes(dtype):
    return 16 if dtype.itemsize == 8 else 8


# -- sort ------------------------------------------------------------------------------------------


@launches("sort")
def sort(input, dim, descending, stable):
    if input.dtype.is_complex:
        raise RuntimeError(" Sort does not support complex dtypes on CPU")
    dim = dimension(input, dim)
    if not is_computed(input):
        indices = empty_tensor(input.shape, d.int64, input.device)
        return return_types.sort((empty_tensor(input.shape, input.dtype, input.device), indices))
    rows, n, source = as_rows(input, dim)
    values = empty_tensor(source.shape, input.dtype, input.device)
    indices = empty_tensor(source.shape, d.int64, input.device)
    sort_rows(address(values), address(indices), address(source), rows, n, input.dtype, descending)
    return return_types.sort((from_rows(values, dim), from_rows(indices, dim)))


def sort_rows(values, indices, source, rows, n, dtype, descending):
    """Sort rows at one address into others."""
    flip = -1 if descending else 0
    if n >= LONG:
        for row in range(rows):
            at = row * n
            places = (values + at * dtype.itemsize, indices + at * 8, source + at * dtype.itemsize)
            _sort_long(*places, n, dtype, flip)
        return
    chunks = min(rows, max(1, (rows * n) >> 14), max(2, (1 << 21) // n), 64)
    per_chunk = -(-rows // chunks)
    chunks = -(-rows // per_chunk)
    room = scratch(chunks * 2 * n * item_bytes(dtype))
    run = kernel("sort_rows", dtype)
    launch(run, [chunks, rows, n, per_chunk, flip], values, indices, source, address(room))


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
