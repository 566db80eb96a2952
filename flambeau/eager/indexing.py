"""Launching a[...] and a[...] = b with tensors between the brackets, on plain tensors.

What is between the brackets was taken apart in subscripts.py; masks of the tensor's own shape are a
matter of masking.py, other masks become coordinates. The rest are walks (see index_plans.py).
"""

import warnings

from flambeau import _dtype as d
from flambeau._layout import broadcast_shape, dense_layout, expanded_strides
from flambeau._tensor import empty_like_layout, make_tensor
from flambeau.autograd import views
from flambeau.eager.copying import clone
from flambeau.eager.index_plans import (
    byte_strides,
    first_outside,
    index64,
    out_of_bounds,
    plan_rows,
    plan_walk,
    without_memory,
)
from flambeau.eager.launching import LAUNCHERS, launches
from flambeau.eager.plan import NO_WORK
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, vector_layout
from flambeau.eager.writing import number_tensor as number_tensor
from flambeau.eager.writing import write_row as write_row
from flambeau.eager.writing import writer
from flambeau.runtime.base import nothing

# -- places ----------------------------------------------------------------------------------------


class Subscript:
    """Index tensors placed: the shape of the result and how the walk steps."""

    __slots__ = ("shape", "table", "indices", "sizes", "steps", "safe")

    def __init__(self, layout, indices):
        """indices: int64 layouts per dimension of the table, None where it stays."""
        own, strides = layout.sizes, byte_strides(layout)
        dims = [k for k, i in enumerate(indices) if i is not None]
        common = broadcast_indices([indices[k] for k in dims])
        adjacent = dims[-1] - dims[0] == len(dims) - 1
        first = dims[0] if adjacent else 0
        kept = [k for k in range(layout.ndim) if k not in dims]
        before, after, n = kept[:first], kept[first:], len(common)
        self.shape = (*[own[k] for k in before], *common, *[own[k] for k in after])
        self.table = [*[strides[k] for k in before], *[0] * n, *[strides[k] for k in after]]
        self.safe = [True] * len(before) + [False] * n + [True] * len(after)
        head, tail = [0] * len(before), [0] * len(after)
        self.indices = []
        for k in dims:
            i = indices[k]
            spread = i.strides if i.shape == common else expanded_strides(i, common)
            self.indices.append([*head, *[8 * s for s in spread], *tail])
        self.sizes, self.steps = [own[k] for k in dims], [strides[k] for k in dims]
        if 0 in self.sizes and 0 not in [indices[k].numel for k in dims]:
            raise _no_place()

    def plan(self, mode, layout, items):
        """(kernel, description) of a walk over the table."""
        facts = self.shape, self.table, items, self.indices
        if not self.shape:
            facts = (1,), [0], items or [0], [[0]] * len(self.indices)
        return plan_walk(
            mode, layout, *facts, self.sizes, self.steps, self.safe or [False], wraps=True
        )


def _no_place():
    return IndexError("index is out of bounds for dimension with size 0")


def broadcast_indices(layouts):
    if len(layouts) == 1:
        return tuple(layouts[0].shape)
    try:
        return tuple(broadcast_shape(*[i.shape for i in layouts]))
    except RuntimeError:
        shapes = ", ".join(str(list(i.shape)) for i in layouts)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None


def _check_count(layout, indices):
    if len(indices) > layout.ndim:
        raise IndexError(
            f"too many indices for tensor of dimension {layout.ndim} (got {len(indices)})"
        )


def index_tensors(input, indices):
    """Index tensors per dimension as int64 (or None), masks turned into coordinates."""
    found = []
    for t in indices:
        if t is None or t._layout.dtype is d.int64:
            found.append(t)
        elif t._layout.dtype in (d.bool_, d.uint8):
            if t._layout.dtype is d.uint8:
                warn_bytes(5)
            found.extend(_mask_columns(input, t, len(found)))
        elif t._layout.dtype is d.int32:
            found.append(index64(t))
        else:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    _check_count(input._layout, found)
    return tuple(found)


def beside(input, indices):
    """Index tensors on the device of what they index: those of the host may go anywhere."""
    device = input._layout.device
    return [i if i is None else _brought(i, device) for i in indices]


def _brought(index, device):
    own = index._layout.device
    if own is device or not (own.runtime.computes and device.runtime.computes):
        return index  # devices without memory take anything
    if not own.runtime.is_host:
        raise RuntimeError(
            "indices should be either on cpu or on the same device as the indexed tensor "
            f"({device})"
        )
    return views.detached(index).to(device)


def check_mask(input, mask, dim):
    shape, own = mask._layout.sizes, input._layout.sizes
    for k, size in enumerate(shape):
        if dim + k >= len(own) or own[dim + k] != size:
            raise IndexError(
                f"The shape of the mask {list(shape)} at index {k} does not match the shape of the "
                f"indexed tensor {list(own)} at index {dim + k}"
            )


def _mask_columns(input, mask, dim):
    check_mask(input, mask, dim)
    rows = LAUNCHERS["nonzero"](mask)
    count = rows._layout.sizes[0]
    layout = vector_layout(count, d.int64, rows.device)
    return [
        make_tensor(layout, rows._storage, rows._offset + 8 * count * k)
        for k in range(mask._layout.ndim)
    ]


def whole_mask(input, indices):
    """The mask, if indices are a single boolean mask of input's own shape."""
    if len(indices) == 1 and indices[0] is not None and indices[0]._layout.dtype is d.bool_:
        mask = indices[0]
        if mask._layout.sizes == input._layout.sizes and mask._layout.ndim:
            return mask
    return None


def _is_mask(indices):
    """Is there one mask and nothing else?"""
    tensors = [i for i in indices if i is not None]
    return len(tensors) == 1 and tensors[0]._layout.dtype is d.bool_


def _refuse(tensors, sizes):
    for k, (t, size) in enumerate(zip(tensors, sizes)):
        if first_outside(t, -size, size) is not None:
            # PyTorch counts the tensors, not the dimensions
            raise out_of_bounds(t, k, size, wraps=True, kind=IndexError)
    raise IndexError("index out of bounds")


# -- reading ---------------------------------------------------------------------------------------


@launches("index")
def index(input, indices):
    layouts = [None if i is None else i._layout for i in indices]
    found = INDEXED[(input._layout, *layouts)]
    if found is None:
        return _index_odd(input, indices)
    to, sizes, kernel, desc = found
    out = empty_like_layout(to)
    tensors = [i for i in indices if i is not None] if None in layouts else indices
    places = [i._storage.pointer + i._offset for i in tensors]
    at = input._storage.pointer + input._offset
    if kernel(desc, at, out._storage.pointer, *places) is not None:
        _refuse(tensors, sizes)
    return out


def _plan_index(key):
    """(layout of the result, bounds, kernel, description); None if not all indices are places."""
    layout, *indices = key
    given = [i for i in indices if i is not None]
    for i in given:
        if i.dtype is not d.int64 or (i.device is not layout.device and _both_compute(layout, i)):
            return None
    if not given:
        return None
    _check_count(layout, indices)
    if len(indices) == 1 and layout.is_contiguous and given[0].is_contiguous:
        return _plan_rows(layout, *given)
    subscript = Subscript(layout, indices)
    to = dense_layout(subscript.shape, layout.dtype, layout.device)
    if without_memory(layout, *given):
        return to, (), nothing, NO_WORK
    return to, subscript.sizes, *subscript.plan("read", layout, byte_strides(to))


def _plan_rows(layout, index):
    """One index in the first dimension, all side by side: rows that are chosen."""
    own = layout.sizes
    to = dense_layout((*index.sizes, *own[1:]), layout.dtype, layout.device)
    if not own[0] and index.numel:
        raise _no_place()
    if without_memory(layout, index):
        return to, (), nothing, NO_WORK
    return to, own[:1], *plan_rows(layout, index.numel, True)


def _both_compute(layout, other):
    return layout.device.runtime.computes and other.device.runtime.computes


INDEXED = Plans(_plan_index, mixed=True)


def _index_odd(input, indices):
    """Masks, bytes, narrow integers, and places that are told on the host."""
    if not indices:
        raise IndexError("at least one index must be provided")
    indices = beside(input, indices)
    mask = whole_mask(input, indices)
    if mask is not None and not without_memory(input._layout):
        return LAUNCHERS["masked_select"](input, mask)
    indices = index_tensors(input, indices)
    if all(i is None for i in indices):
        return clone(input, None)
    return index(input, indices)


# -- writing ---------------------------------------------------------------------------------------


def warn_bytes(stacklevel):
    warnings.warn(
        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
        stacklevel=stacklevel + 1,
    )


@writer("index_put", keep_order=True)
def index_put(target, indices, values, accumulate):
    layout, indices = target._layout, beside(target, indices)
    if values.device is not layout.device and _both_compute(layout, values._layout):
        values = values if values._layout.ndim else views.detached(values).to(layout.device)
    if (
        values.dtype is not layout.dtype
        and values._layout.numel == 1
        and _is_mask(indices)
        and not accumulate
    ):
        values = views.detached(values).to(layout.dtype)  # as masked_fill does
    mask = whole_mask(target, indices)
    if mask is not None and not accumulate and not without_memory(layout):
        if values._layout.numel == 1:
            views.detached(target).masked_fill_(mask, views.detached(values).reshape(()))
            return
        if values.dtype is layout.dtype and LAUNCHERS["masked_put"](target, mask, values):
            return
    indices = index_tensors(target, indices)
    if all(i is None for i in indices):
        raise RuntimeError("sym_strides() called on an undefined Tensor")
    tensors = [i for i in indices if i is not None]
    layouts = [None if i is None else i._layout for i in indices]
    sizes, kernel, desc = PUTS[(layout, accumulate, values._layout, *layouts)]
    if kernel(desc, address(target), address(values), *map(address, tensors)) is not None:
        _refuse(tensors, sizes)


def _plan_put(key):
    """(bounds, kernel, description)."""
    layout, accumulate, values, *indices = key
    subscript = Subscript(layout, indices)
    _check_values(values, subscript.shape)
    if values.dtype is not layout.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{layout.dtype.scalar_name} for the destination and {values.dtype.scalar_name} for "
            "the source."
        )
    if without_memory(layout, values, *[i for i in indices if i is not None]):
        return (), nothing, NO_WORK
    items = [s * layout.itemsize for s in expanded_strides(values, subscript.shape)]
    return subscript.sizes, *subscript.plan("add" if accumulate else "set", layout, items)


PUTS = Plans(_plan_put, mixed=True)


def _check_values(values, shape):
    missing = len(shape) - values.ndim
    if missing < 0 or any(v not in (1, s) for v, s in zip(values.shape, shape[missing:])):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}"
        )
