"""Launching what masks ask for: masked_select, masked_scatter, nonzero, counting, repetition.

Two passes over fixed chunks (see codegen/templates/compaction.py): how many elements each chunk
keeps, then, once the starting places are known, the writing.
"""

from itertools import accumulate

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import broadcast_shape, dense_layout, expanded_strides, make_layout
from flambeau._tensor import empty_like_layout, empty_tensor, make_tensor
from flambeau.autograd import views
from flambeau.codegen.descriptions_places import Compaction
from flambeau.eager.copying import copy_into
from flambeau.eager.index_plans import index64, without_memory
from flambeau.eager.launching import LAUNCHERS, launches
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, chunks_of, contiguous, told_words, vector_layout
from flambeau.eager.writing import number_tensor, writer
from flambeau.ops.support import refuse_complex32
from flambeau.runtime.cpu import packed

PIECE = 1 << 15
ON_DEVICE = 1 << 12  # where a piece is a group of threads


def _plan_count(key):
    """(chunks, description, kernels) of a first pass over a contiguous layout."""
    layout, name, *facts = key
    piece = PIECE if layout.device.runtime.is_host else ON_DEVICE
    chunks = chunks_of(layout.numel, piece) or 1
    words = *Compaction(chunks, piece, layout.numel), layout.ndim, *layout.sizes
    running = None
    if name == "count" and chunks > 1 and layout.device.runtime.adds_up:
        name, running = "counts", kernel_of(layout, "running")
    return chunks if layout.numel else 0, packed(words), kernel_of(layout, name, *facts), running


COUNTS = Plans(_plan_count)


def kernel_of(layout, name, *facts):
    return layout.device.runtime.kernel(name, f"compaction:build_{name}", *facts)


def counted(t, name, *facts):
    """(description, total, starting places: one per chunk and the total) of a first pass.

    The places are bytes, or a tensor of the device (see _given).
    """
    chunks, desc, kernel, running = COUNTS[(t._layout, name, *facts)]
    if not chunks:
        return desc, 0, None
    at = t._storage.pointer + t._offset
    if chunks == 1:  # it starts at the start: nothing to accumulate
        total = kernel(desc, at, 0) or 0
        return desc, total, packed((0, total))
    if running is not None:
        starts = empty_like_layout(vector_layout(chunks + 1, d.int64, t.device))
        kernel(desc, at, starts._storage.pointer)
        running(desc, starts._storage.pointer)
        return desc, starts[chunks].item(), starts
    place, counts = told_words(chunks, t.device)
    kernel(desc, at, place)
    starts = list(accumulate(counts(), initial=0))
    return desc, starts[-1], packed(starts) if starts[-1] >= 0 else None


def _given(starts):
    """Starting places as kernels take them."""
    return starts if type(starts) is bytes else starts._storage.pointer


def counts_of(t):
    """The same for the elements of a contiguous tensor that are not zero."""
    return counted(t, "count", t._layout.dtype.code)


def spread(t, shape):
    """A contiguous tensor with the values of t broadcast to a shape."""
    layout = t._layout
    if layout.sizes == shape:
        return contiguous(t)
    layout = make_layout(shape, expanded_strides(layout, shape), layout.dtype, layout.device)
    return contiguous(make_tensor(layout, t._storage, t._offset))


def no_meta(name, *layouts):
    if without_memory(*layouts):
        raise NotImplementedError(
            f"The register_meta function for torch.{name}() raises unimplemented by default, as a "
            "correct data-independent implementation does not exist."
        )


@launches("masked_select")
def masked_select(input, mask):
    try:
        shape, kernel = SELECTIONS[input._layout, mask._layout]
    except AttributeError:
        raise
    if shape is not None:
        mask, input = spread(mask, shape), spread(input, shape)
    desc, total, starts = counts_of(mask)
    layout = input._layout
    out = empty_like_layout(vector_layout(total, layout.dtype, layout.device))
    if total:
        at = mask._storage.pointer + mask._offset
        kernel(
            desc, input._storage.pointer + input._offset, at, _given(starts), out._storage.pointer
        )
    return out


def _plan_select(key):
    """(shape that both must be spread over, or None if they are ready, kernel)."""
    layout, mask = key
    if mask.dtype is not d.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    no_meta("masked_select", layout, mask)
    kernel = kernel_of(layout, "select", layout.itemsize)
    if mask.shape == layout.sizes and mask.is_contiguous and layout.is_contiguous:
        return None, kernel
    return broadcast_shape(mask.shape, layout.sizes), kernel


SELECTIONS = Plans(_plan_select, mixed=True)


def masked_put(target, mask, values):
    """target[mask] = values for a vector of as many values; False if they are not that."""
    if values._layout.ndim != 1 or mask.dtype is not d.bool_:
        return False
    mask = contiguous(mask)
    desc, total, starts = counts_of(mask)
    if values._layout.numel != total:
        return False
    _write(desc, target, mask, starts, values)
    return True


LAUNCHERS["masked_put"] = masked_put


def _write(desc, target, mask, starts, source):
    whole, source = contiguous(target), contiguous(source)
    scatter = kernel_of(target._layout, "scatter", target._layout.itemsize)
    scatter(desc, address(whole), address(mask), _given(starts), address(source))
    if whole is not target:
        copy_into(target, whole)


def masked_scatter_(target, mask, source):
    """Write target under the mask; all arguments checked but for their number."""
    mask = spread(mask, target._layout.sizes)
    if without_memory(target._layout, mask._layout, source._layout):
        return
    desc, total, starts = counts_of(mask)
    if source._layout.numel < total:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    if total:
        _write(desc, target, mask, starts, source)


@writer("masked_scatter")
def masked_scatter(target, mask, source):
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
    refuse_complex32("masked_scatter", target)


@launches("masked_scatter")
def masked_scatter_copy(input, mask, source):
    """Out of place both sides broadcast."""
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
    no_meta("nonzero", input._layout)
    layout, source = input._layout, contiguous(input)
    desc, total, starts = counts_of(source)
    # columns lie side by side, as in PyTorch
    shape, strides = (total, layout.ndim), (1, max(total, 1))
    out = empty_like_layout(make_layout(shape, strides, d.int64, layout.device))
    if total and layout.ndim:
        write = kernel_of(layout, "nonzero", layout.dtype.code)
        write(desc, address(source), _given(starts), out._storage.pointer)
    return out


def numbered(mask, places, inverse):
    """(where a mask of a vector keeps elements, and as many more as there are: one).

    inverse[i], or inverse[places[i]], is the number of the last kept element up to i.
    """
    desc, total, starts = counts_of(mask)
    layout, given = mask._layout, _given(starts)
    found = empty_like_layout(vector_layout(total + 1, d.int64, layout.device))
    at, where = address(mask), 0 if places is None else address(places)
    kernel_of(layout, "nonzero", layout.dtype.code)(desc, at, given, address(found))
    if inverse is not None:
        number = kernel_of(layout, "numbers", places is not None)
        number(desc, at, given, where, address(inverse))
    return found


@launches("count_nonzero")
def count_nonzero(input):
    if without_memory(input._layout):
        return empty_tensor((), d.int64, input.device)
    return number_tensor(counts_of(contiguous(input))[1], d.int64, input.device)


@launches("repeated_positions")
def repeated_positions(repeats, output_size):
    if repeats.dtype not in (d.int64, d.int32):
        raise errors.not_implemented("repeat_interleave_cpu", repeats.dtype)
    if repeats._layout.ndim != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if without_memory(repeats._layout):
        if output_size is None:
            no_meta("repeat_interleave", repeats._layout)
        return empty_tensor((output_size,), repeats.dtype, repeats.device)
    dtype, repeats = repeats.dtype, contiguous(index64(repeats))
    desc, total, starts = counted(repeats, "sum_repeats")
    if total < 0:
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and output_size != total:
        raise RuntimeError("allocated size does not match required size")
    out = empty_tensor((total,), d.int64, repeats.device)
    if total:
        kernel_of(repeats._layout, "repeats")(desc, address(repeats), starts, out._storage.pointer)
    return out if dtype is d.int64 else views.detached(out).to(dtype)
