"""Launching what masks ask for: masked_select, masked_scatter, nonzero, counting, repetition.

Two passes over fixed chunks (see codegen/templates/compaction.py): how many elements each chunk
keeps, then, once the starting places are known, the writing.
"""

from itertools import accumulate

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import Size, broadcast_shape, dense_layout, expanded_strides, make_layout
from flambeau._tensor import empty_like_layout, empty_tensor, make_tensor
from flambeau.autograd import views
from flambeau.eager.launching import LAUNCHERS, launches
from flambeau.eager.copying import copy_into
from flambeau.eager.index_plans import kernel
from flambeau.eager.indexing import (
    address,
    index64,
    is_meta,
    number_tensor,
    side_by_side,
    tensor_argument,
    writer,
)
from flambeau.eager.kernels import pool
from flambeau.eager.plan import MAX_PLANS
from flambeau.runtime.cpu import words

PIECE = 1 << 15
_descriptions: dict = {}


def description(numel, *more):
    """Words that split numel elements into chunks."""
    found = _descriptions.get((numel, more))
    if found is None:
        chunks = max(1, -(-numel // PIECE))
        if chunks > 1:
            pool().ensure_workers()
        if len(_descriptions) > MAX_PLANS:
            _descriptions.clear()
        found = _descriptions[numel, more] = words([chunks, PIECE, numel, *more])
    return found


def counted(name, t, *facts):
    """(status, starting places per chunk, then the total) of the first pass."""
    owner, at = description(t._layout.numel)
    counts, place = words(bytes(8 * owner[0]))
    status = kernel(name, *facts)(at, address(t), place)
    return status, words(list(accumulate(counts, initial=0)))


def counts_of(t):
    """Starting places for the elements of a contiguous tensor that are not zero."""
    numel = t._layout.numel
    if not numel:
        return words([0, 0])
    if numel <= PIECE:  # one chunk, which starts at the start: nothing to accumulate
        starts, place = words((0, 0))
        kernel("count", t._layout.dtype.code)(description(numel)[1], address(t), place + 8)
        return starts, place
    return counted("count", t, t.dtype.code)[1]


def spread(t, shape):
    """A contiguous tensor with the values of t broadcast to a shape."""
    if t._layout.shape == shape:
        return side_by_side(t)
    layout = make_layout(shape, expanded_strides(t._layout, shape), t.dtype, t.device)
    out = empty_tensor(shape, t.dtype, t.device)
    copy_into(out, make_tensor(layout, t._storage, t._offset))
    return out


def no_meta(name, *tensors):
    if is_meta(*tensors):
        raise NotImplementedError(
            f"The register_meta function for torch.{name}() raises unimplemented by default, as a "
            "correct data-independent implementation does not exist."
        )


@launches("masked_select")
def masked_select(input, mask):
    tensor_argument("masked_select", "mask", 2, mask)
    if mask.dtype is not d.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    no_meta("masked_select", input, mask)
    shape = mask._layout.shape
    if shape != input._layout.shape:
        shape = broadcast_shape(shape, input._layout.shape)
    mask, source = spread(mask, shape), spread(input, shape)
    starts, place = counts_of(mask)
    out = empty_tensor((starts[-1],), input.dtype, input.device)
    if starts[-1]:
        owner, at = description(mask._layout.numel)
        kernel("select", f"b{input._layout.itemsize}")(
            at, address(source), address(mask), place, address(out)
        )
        del owner
    return out


def masked_put(target, mask, values):
    """target[mask] = values for a vector of as many values; False if they are not that."""
    if values._layout.ndim != 1 or mask.dtype is not d.bool_:
        return False
    mask = side_by_side(mask)
    starts, place = counts_of(mask)
    if values._layout.numel != starts[-1]:
        return False
    _write(target, mask, place, values)
    return True


LAUNCHERS["masked_put"] = masked_put


def _write(target, mask, place, source):
    whole, source = side_by_side(target), side_by_side(source)
    owner, at = description(mask._layout.numel)
    kernel("scatter", f"b{target._layout.itemsize}")(
        at, address(whole), address(mask), place, address(source)
    )
    del owner
    if whole is not target:
        copy_into(target, whole)


def masked_scatter_(target, mask, source):
    """Write target under the mask; all arguments checked but for their number."""
    mask = spread(mask, target._layout.shape)
    if is_meta(target, mask, source):
        return
    starts, place = counts_of(mask)
    if source._layout.numel < starts[-1]:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    if starts[-1]:
        _write(target, mask, place, source)


@writer("masked_scatter")
def masked_scatter(target, mask, source):
    tensor_argument("masked_scatter", "mask", 2, mask)
    tensor_argument("masked_scatter", "source", 3, source)
    _check_scatter(target, mask, source)
    if mask._layout.ndim > target._layout.ndim:
        raise RuntimeError(
            f"expand(CPUBoolType{{{list(mask.shape)}}}, size={list(target.shape)}): the number of "
            f"sizes provided ({target._layout.ndim}) must be greater or equal to the number of "
            f"dimensions in the tensor ({mask._layout.ndim})"
        )
    if broadcast_shape(target.shape, mask.shape) != target.shape:
        raise RuntimeError(
            f"The expanded size of the tensor must match the existing size {list(mask.shape)}"
        )
    masked_scatter_(target, mask, source)


def _check_scatter(target, mask, source):
    if target.dtype is not source.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{target.dtype.scalar_name} and {source.dtype.scalar_name}"
        )
    if mask.dtype is not d.bool_:
        raise RuntimeError(
            "masked_scatter_ only supports boolean masks, but got mask with dtype "
            f"{mask.dtype.scalar_name}"
        )


@launches("masked_scatter")
def masked_scatter_copy(input, mask, source):
    """Out of place both sides broadcast."""
    tensor_argument("masked_scatter", "mask", 2, mask)
    tensor_argument("masked_scatter", "source", 3, source)
    shape = broadcast_shape(mask.shape, input.shape)
    _check_scatter(input, mask, source)
    out = spread(input, shape)
    if out is input:
        out = empty_like_layout(dense_layout(shape, input.dtype, input.device))
        copy_into(out, input)
    masked_scatter_(out, mask, source)
    return out


@launches("nonzero")
def nonzero(input):
    no_meta("nonzero", input)
    layout = input._layout
    source = side_by_side(input)
    starts, place = counts_of(source)
    total, rank = starts[-1], layout.ndim
    # columns lie side by side, as in PyTorch
    out = empty_like_layout(
        make_layout(Size((total, rank)), (1, max(total, 1)), d.int64, input.device)
    )
    if total and rank:
        owner, at = description(layout.numel, rank, *layout.shape)
        kernel("nonzero", input.dtype.code)(at, address(source), place, address(out))
        del owner
    return out


@launches("count_nonzero")
def count_nonzero(input):
    if is_meta(input):
        return empty_tensor(Size(()), d.int64, input.device)
    starts, _ = counts_of(side_by_side(input))
    return number_tensor(starts[-1], d.int64, input.device)


@launches("repeated_positions")
def repeated_positions(repeats, output_size):
    if repeats.dtype not in (d.int64, d.int32):
        raise errors.not_implemented("repeat_interleave_cpu", repeats.dtype)
    if repeats._layout.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if is_meta(repeats):
        if output_size is None:
            no_meta("repeat_interleave", repeats)
        return empty_tensor(Size((output_size,)), repeats.dtype, repeats.device)
    dtype, repeats = repeats.dtype, side_by_side(index64(repeats))
    status, (starts, place) = (
        counted("sum_repeats", repeats) if repeats._layout.numel else (None, words([0, 0]))
    )
    if status is not None:
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and output_size != starts[-1]:
        raise RuntimeError("allocated size does not match required size")
    out = empty_tensor(Size((starts[-1],)), d.int64, repeats.device)
    if starts[-1]:
        owner, at = description(repeats._layout.numel)
        kernel("repeats")(at, address(repeats), place, address(out))
        del owner
    return out if dtype is d.int64 else views.detached(out).to(dtype)
