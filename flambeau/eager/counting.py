"""Launching counts and searches: unique, searchsorted, bucketize, bincount.

Kernels are in `codegen/templates/counting.py`, the rows of the table in `ops/counting.py`. unique
sorts (`sorting.py`) and then walks over runs of equal values.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import dense_layout, wrap_dim
from flambeau._memory_format import contiguous_format
from flambeau._tensor import Tensor, alias, empty_like_layout, empty_tensor
from flambeau.codegen.descriptions_places import Counted, Lines, Search
from flambeau.eager.copying import copy_into, filled, to_copy
from flambeau.eager.launching import launches
from flambeau.eager.masking import numbered
from flambeau.eager.planned import idle, launch, planned
from flambeau.eager.ranges import arange
from flambeau.eager.rows import (
    address,
    as_rows,
    blocks,
    contiguous,
    from_rows,
    has_work,
    truths,
    vector_layout,
)
from flambeau.eager.sorting import sort_rows
from flambeau.runtime.cpu import packed

BINS = 4096  # that a group of threads of a GPU counts by itself


def _launch(t, name, key, description, *places):
    """Run a kernel on the device of a tensor; what it reports, or 0."""
    kernel = t._layout.device.runtime.kernel(name, f"counting:build_{name}", *key)
    return kernel(packed(description), *places) or 0


def _integers(n, device):
    return empty_like_layout(vector_layout(n, d.int64, device))


def _front(t, n):
    """A copy of the first n elements, so that a long buffer is not kept alive."""
    out = empty_tensor((n, *t.shape[1:]), t.dtype, t.device)
    if n:
        copy_into(out, alias(t, out._layout, t._offset))
    return out


def _lengths(starts, runs):
    """Differences of run starts."""
    out = _integers(runs, starts.device)
    if runs:
        after = alias(starts, out._layout, starts._offset + 8)
        copy_into(out, after - alias(starts, out._layout, starts._offset))
    return out


def _no_meta(name, input):
    if not input.device.runtime.computes:
        raise NotImplementedError(
            f"aten::{name}: attempted to run this operator with Meta tensors, but there was no "
            "fake impl or Meta kernel registered for this operator"
        )
    if input.dtype.is_complex:
        raise errors.not_implemented("unique", input.dtype)


@launches("unique_all")
def unique_all(input, sorted, return_inverse, return_counts):
    _no_meta("_unique2", input)
    values, inverse, counts = _runs(input, True, return_inverse)
    none = _integers(0, input.device)
    return values, inverse if return_inverse else none, counts if return_counts else none.clone()


@launches("unique_consecutive_all")
def unique_consecutive_all(input):
    _no_meta("unique_consecutive", input)
    return _runs(input, False)


def _runs(input, sorting, numbers=True):
    """(values, inverse, counts) of all elements, sorted first or as they come."""
    n, dtype, device = input.numel(), input.dtype, input.device
    is_asked = numbers or not device.runtime.adds_up
    inverse = empty_tensor(input.shape, d.int64, device) if is_asked else None
    if not n:
        return empty_tensor((0,), dtype, device), inverse, _integers(0, device)
    values, places = contiguous(input), None
    if sorting:
        source, values = values, empty_tensor((n,), dtype, device)
        places = _sort(values, source, n, is_asked)
    if device.runtime.adds_up:
        return _numbered_runs(values, places, inverse, numbers)
    found, starts = empty_tensor((n,), dtype, device), _integers(n + 1, device)
    pointers = [address(t) for t in (found, inverse, starts, values)]
    where = address(places) if sorting else 0
    runs = _launch(input, "runs", (dtype.code, sorting), Counted(1, n), *pointers, where)
    return _front(found, runs), inverse, _lengths(starts, runs)


def _sort(values, source, n, numbers):
    """Sort a vector into another one; gives where elements came from, if anybody asks."""
    device, sorts = source.device, source.device.runtime.sorts
    if not numbers and sorts is not None:
        if sorts.keys_alone(n, source.dtype):
            given = address(values), 0, address(source), 1, n, source.dtype, device
            if sorts.run(*given, narrow=None):
                return None
        room = empty_like_layout(vector_layout(n, d.int32, device))
        given = address(values), address(room), address(source), 1, n, source.dtype, device
        if sorts.run(*given, narrow=True):
            return None
    places = _integers(n, device)
    sort_rows(values, places, source, 1, n, False)
    return places


def _numbered_runs(values, places, inverse, numbers):
    """The same from a mask of where runs begin; numbers: is the inverse wanted?"""
    n, device = values.numel(), values.device
    values = alias(values, vector_layout(n, values.dtype, device), values._offset)
    begins = empty_tensor((n,), d.bool_, device)
    begins[:1].fill_(True)
    begins[1:] = values[1:] != values[:-1]
    starts = numbered(begins, places, inverse if numbers else None)
    runs = starts.numel() - 1
    starts[runs:].fill_(n)
    return values.index_select(0, starts[:runs]), inverse, _lengths(starts, runs)


@launches("unique_lines")
def unique_lines(input, dim, sorting):
    """unique and unique_consecutive of the slices along dim."""
    _no_meta("unique_dim" if sorting else "unique_consecutive", input)
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = wrap_dim(dim, input.ndim)
    n = input.shape[dim]
    if not input.numel():
        if any(s == 0 for k, s in enumerate(input.shape) if k != dim):
            raise RuntimeError(
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be "
                "applied"
            )
        none = _integers(0, input.device)
        return empty_tensor(input.shape, input.dtype, input.device), none, none.clone()
    m, key = input.numel() // n, (input.dtype.code,)
    # lines are slices: turn the tensor so that dim comes first
    _, _, columns = as_rows(truths(input), dim)
    lines = _turned(columns, m, n)
    order, spare = (_integers(n, input.device) for _ in range(2))
    if sorting:
        places = address(order), address(spare), address(lines)
        if _launch(input, "sort_lines", key, Lines(1, n, m), *places):
            order = spare
    else:
        copy_into(order, arange(n))
    inverse, starts = _integers(n, input.device), _integers(n + 1, input.device)
    places = [address(t) for t in (inverse, starts, lines, order)]
    runs = _launch(input, "line_runs", key, Lines(1, n, m), *places)
    chosen = order.index_select(0, _front(starts, runs))
    return input.index_select(dim, chosen), inverse, _lengths(starts, runs)


def _turned(rows, m, n):
    """An m x n block as n x m."""
    view = alias(rows, dense_layout((m, n), rows.dtype, rows.device), rows._offset)
    return from_rows(view, 0) if m > 1 else view


# -- search ----------------------------------------------------------------------------------------

_NO_SEARCH = (d.bool_, d.uint16, d.uint32, d.uint64)


def _check_search(boundaries, values, right, side, sorter):
    """All three are layouts; values None for a number, sorter where there is none."""
    name = "torch.searchsorted(): "
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"{name}side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            f"{name}side and right can't be set to opposites, got side of left while right was True"
        )
    shape = () if values is None else values.shape
    if shape and not boundaries.ndim:
        raise RuntimeError(
            f"{name}boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if not shape and boundaries.ndim != 1:
        raise RuntimeError(
            f"{name}input value can be a scalar only when boundaries tensor dimension is 1, but we "
            f"got boundaries tensor dim({boundaries.ndim}) and input value's dim(0) numel(1)"
        )
    if boundaries.ndim != 1 and boundaries.sizes[:-1] != shape[:-1]:
        raise RuntimeError(
            f"{name}boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            "boundaries tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(boundaries.shape)} and input value tensor {list(shape)}"
        )
    if sorter is not None:
        if sorter.shape != boundaries.shape:
            raise RuntimeError(
                f"{name}boundary and sorter must have the same size, but got boundary tensor "
                f"{list(boundaries.shape)}and got sorter tensor {list(sorter.shape)}"
            )
        if sorter.dtype is not d.int64:
            raise RuntimeError(
                f"{name}sorter must be a tensor of long dtype but got dtype "
                f"{sorter.dtype.scalar_name}"
            )


def _cast(t, dtype):
    return contiguous(t) if t.dtype is dtype else to_copy(t, dtype, None, contiguous_format)


@launches("searchsorted")
def searchsorted(sorted_sequence, input, out_int32, right, side, sorter):
    boundaries = sorted_sequence._layout
    if not isinstance(input, Tensor):
        order = None if sorter is None else sorter._layout
        _check_search(boundaries, None, right, side, order)
        layout = dense_layout((), d.scalar_dtype(type(input)), boundaries.device)
        if layout.dtype.category <= boundaries.dtype.category:
            layout = dense_layout((), boundaries.dtype, boundaries.device)
        input = filled(layout, input)
    return _search(sorted_sequence, input, sorter, out_int32, right, side)


@planned(
    None, "boundaries: fitted, values: fitted, sorter: dense?, narrow, right, side",
    fails=lambda *given: RuntimeError("torch.searchsorted(): sorter index out of range"),
)  # fmt: skip
def _search(boundaries, values, sorter, narrow, right, side):
    _check_search(boundaries, values, right, side, sorter)
    if values.device is not boundaries.device:
        raise errors.different_devices(boundaries.device, values.device)
    dtype = d.promote_types(boundaries.dtype, values.dtype)
    if (dtype.is_complex or dtype in _NO_SEARCH) and values.numel:
        raise errors.not_implemented("searchsorted_out_cpu", dtype)
    to = dense_layout(values.shape, d.int32 if narrow else d.int64, values.device)
    if not has_work(to):
        return *idle(to), boundaries, values
    in_rows = boundaries.ndim > 1
    count, block = blocks(to.numel, 1 << 12)
    facts = bool(right or side == "right"), in_rows, sorter is not None
    per_row, length = to.sizes[-1] if in_rows else 1, boundaries.sizes[-1]
    words = Search(count, to.numel, block, length, per_row)
    codes = dtype.code, to.dtype.code
    *_, kernel, desc = launch(to, words, "search", "counting:build_search", *codes, *facts)
    if sorter is not None:
        look = to.device.runtime.kernel("sorter_check", "counting:build_sorter_check")
        kernel, desc = _checked_search, (look, packed(Lines(1, sorter.numel, length)), kernel, desc)
    fitted = [
        t if t.dtype is dtype and t.is_contiguous else dense_layout(t.sizes, dtype, t.device)
        for t in (boundaries, values)
    ]
    return to, kernel, desc, *fitted


def _checked_search(plan, out, boundaries, values, sorter):
    """The kernel of a search through a sorter, which is looked at first."""
    look, lines, kernel, desc = plan
    return look(lines, sorter) or kernel(desc, out, boundaries, values, sorter)


@launches("bucketize")
def bucketize(input, boundaries, out_int32, right):
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32, right, None, None)


# -- occurrences -----------------------------------------------------------------------------------


@launches("bincount")
def bincount(input, weights, minlength):
    if not input.device.runtime.computes:
        _no_meta("bincount", input)
    if input.dtype.category != d.INTEGER or input.dtype in _NO_SEARCH:
        raise errors.not_implemented("bincount_cpu", input.dtype)
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    n = input.numel()
    if input.ndim != 1 or (n and input.dtype.is_signed and input.amin().item() < 0):
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != input.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if not n:
        return filled(vector_layout(minlength, d.int64, input.device), 0)
    bins = max(input.amax().item() + 1, minlength)
    kind, where = None, 0
    if weights is not None:
        kind = d.float32 if weights.dtype is d.float32 else d.float64
        weights = _cast(weights, kind)
        where = address(weights)
    counts = filled(vector_layout(bins, kind or d.int64, input.device), 0)
    if weights is not None and input.device.runtime.walks is not None:
        return counts.index_add_(0, input.to(d.int64), weights)  # in order
    source, key = contiguous(input), (input.dtype.code, kind and kind.code)
    if bins <= BINS and input.device.runtime.adds_up:
        _launch(input, "few_bins", key[:1], Lines(1, n, bins), address(counts), address(source))
        return counts
    _launch(input, "bincount", key, Counted(1, n), address(counts), address(source), where)
    return counts
