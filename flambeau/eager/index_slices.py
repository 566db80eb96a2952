"""Launching walks with one index per slice: index_select, index_add and their kin.

A vector of indices spread over the other dimensions makes each of them a gather or a scatter whose
innermost loop moves whole rows; what is said here is what PyTorch asks of the arguments.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import Size, dense_layout, make_layout, wrap_dim
from flambeau._tensor import Tensor, empty_like_layout, make_tensor
from flambeau.eager.gathering import reduce_along, scatter_along, scatter_walk
from flambeau.eager.index_plans import (
    byte_strides,
    index64,
    layout64,
    out_of_bounds,
    plan_along,
    plan_rows,
    size_along,
    tensor_argument,
    without_memory,
)
from flambeau.eager.launching import launches
from flambeau.eager.plan import NO_WORK
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address
from flambeau.eager.writing import number_tensor, writer
from flambeau.runtime.base import nothing


def spread(index, dim, shape):
    """An index vector seen as a tensor of the given shape, the same in all other dimensions."""
    index = index64(index)
    stride = index._layout.strides[0] if index._layout.ndim else 0
    strides = tuple(stride if k == dim else 0 for k in range(len(shape)))
    return make_tensor(
        make_layout(Size(shape), strides, d.int64, index.device), index._storage, index._offset
    )


def count_of(index):
    return index._layout.numel


def _steps_of(index, dim, rank):
    """Byte strides of an index vector (or a lone index) along dim of so many dimensions."""
    found = [0] * rank
    found[dim] = 8 * index.strides[0] if index.ndim else 0
    return found


@launches("index_select")
def index_select(input, dim, index):
    try:
        to, kernel, desc = SELECTED[input._layout, index._layout, dim]
    except AttributeError:
        tensor_argument("index_select", "index", 3, index)
        raise
    out = empty_like_layout(to)
    if index._layout.dtype is not d.int64:
        index = index64(index)
    at = input._storage.pointer + input._offset
    if kernel(desc, at, out._storage.pointer, index._storage.pointer + index._offset) is not None:
        _check_selected(input._layout, dim, index, to)
    return out


def _unread(*args):
    """The kernel of empty results: indices are still to be looked at."""
    return True


def _outside(index, size):
    """The first index out of range, or None."""
    return next((i for i in index.reshape(-1).tolist() if not 0 <= i < size), None)


def _check_selected(layout, dim, index, to):
    """Complain about indices, in one of PyTorch's ways; those of empty results may be right."""
    dim = wrap_dim(dim, layout.ndim)
    size = size_along(layout, dim)
    found = _outside(index, size)
    if found is None:
        return
    if layout.ndim > 1 and not size:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    if layout.ndim > 1 and (dim == 1 or not to.numel):
        raise RuntimeError(f"INDICES element is out of DATA bounds, id={found} axis_dim={size}")
    raise IndexError("index out of range in self")


def _plan_select(key):
    """(layout of the result, kernel, description)."""
    layout, index, dim = key
    dim, n = wrap_dim(dim, layout.ndim), index.numel
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype not in (d.int64, d.int32):
        raise RuntimeError("index_select(): Expected dtype int32 or int64 for index")
    if not layout.ndim and n != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {n} value(s)"
        )
    own = layout.sizes
    shape = (*own[:dim], n, *own[dim + 1 :]) if own else ()
    to = dense_layout(shape, layout.dtype, layout.device)
    if without_memory(layout, index):
        return to, nothing, NO_WORK
    if n and not to.numel:
        return to, _unread, NO_WORK
    index = layout64(index)
    if dim == 0 and own and layout.is_contiguous and index.is_contiguous:
        return to, *plan_rows(layout, n, False)
    steps = _steps_of(index, dim, len(shape) or 1)
    return to, *plan_along("read", layout, dim, shape or (1,), byte_strides(to), steps)


SELECTED = Plans(_plan_select, mixed=True)


def _check_slices(key):
    """The dimension, counted from the front, if layouts are what index_add_ and its kin ask for."""
    op, target, dim, index, source = key
    dim, n = wrap_dim(dim, target.ndim), index.numel
    if index.ndim > 1:
        raise IndexError(
            f"{op}_(): Index is supposed to be a vector, but got dim: {index.ndim} with "
            f"type: {index.dtype.scalar_name} and size: {list(index.sizes)}"
        )
    if index.dtype not in (d.int64, d.int32):
        raise RuntimeError(
            f"{op}_(): Expected dtype int32/int64 for index but got: {index.dtype.scalar_name}"
        )
    if target.dtype is not source.dtype:
        raise RuntimeError(
            f"{op}_(): self ({target.dtype.scalar_name}) and source ({source.dtype.scalar_name}) "
            "must have the same scalar type"
        )
    if source.ndim:
        wrap_dim(dim, source.ndim)
    elif n != 1:
        raise errors.no_dimensions(dim)
    length = source.sizes[dim] if source.ndim else 1
    if n != length:
        raise RuntimeError(
            f"{op}_(): Number of indices ({n}) should be equal to source.size(dim): ({length}), "
            f"for dim: {dim}"
        )
    own, given = target.sizes, source.sizes
    if own and given:
        own, given = (*own[:dim], *own[dim + 1 :]), (*given[:dim], *given[dim + 1 :])
    if own != given:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(target.sizes)} source.shape = {list(source.sizes)}"
        )
    return dim


FITTING = Plans(_check_slices, mixed=True)


def _checked(op, target, dim, index, source):
    tensor_argument(op, "index", 3, index)
    tensor_argument(op, "source", 4, source)
    return FITTING[op, target._layout, dim, index._layout, source._layout]


def _shapes(target, dim, index, source):
    """Index and source in the number of dimensions of target (a 0-d side counts as one element)."""
    shape = source.shape if source._layout.ndim else Size((1,) * max(target._layout.ndim, 1))
    if not source._layout.ndim and target._layout.ndim:
        source = make_tensor(
            dense_layout(shape, source.dtype, source.device), source._storage, source._offset
        )
    return spread(index, dim, shape), source


@writer("index_add")
def index_add(target, dim, index, source, alpha):
    dim = _checked("index_add", target, dim, index, source)
    nothing = not source._layout.numel or (target._layout.ndim > 1 and not target._layout.numel)
    if nothing or without_memory(target._layout, index._layout):
        return
    if alpha != 1:
        if type(alpha) is float and target.dtype.category < d.FLOATING:
            alpha = int(alpha)
        source = source.detach() * alpha
    spreaded, source = _shapes(target, dim, index, source)
    if target._layout.ndim > 1:
        try:
            scatter_along("add", target, dim, spreaded, source)
        except RuntimeError as error:
            if index.dtype is d.int64:
                raise
            raise IndexError("index out of range in self") from error
    elif scatter_walk("add", target, dim, spreaded, source):
        raise IndexError("index out of range in self")


@writer("index_reduce")
def index_reduce(target, dim, index, source, reduce, include_self):
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    dim = _checked("index_reduce", target, dim, index, source)
    if target.dtype.is_complex and reduce in ("amax", "amin"):
        raise errors.not_implemented(
            "maximum_cpu" if reduce == "amax" else "minimum_cpu", target.dtype
        )
    empty = not source._layout.numel and target.device.runtime.computes
    if empty and _outside(index, size_along(target._layout, dim)) is not None:
        raise IndexError("index out of range in self")
    spreaded, source = _shapes(target, dim, index, source)

    def run(mode, written, dim, index, given):
        if scatter_walk(mode, written, dim, index, given):
            raise IndexError("index out of range in self")

    reduce_along(target, dim, spreaded, source, reduce, include_self, run)


@writer("index_copy")
def index_copy(target, dim, index, source):
    tensor_argument("index_copy", "index", 3, index)
    tensor_argument("index_copy", "source", 4, source)
    own, given, n = target._layout, source._layout, count_of(index)
    dim = wrap_dim(dim, own.ndim)
    start = "index_copy_(): "
    if index._layout.ndim > 1:
        raise IndexError(f"{start}Index should have dimension 1 or 0 (got {index._layout.ndim})")
    if not given.ndim and n != 1:
        raise IndexError(f"{start}When source is scalar, index should have one element (got {n})")
    if given.ndim != own.ndim and given.ndim and own.ndim:
        raise IndexError(
            f"{start}When source and destination are not scalars, their dimensionality must match. "
            f"Source dimensionality ({given.ndim}), destination dimensionality ({own.ndim})"
        )
    if index.dtype is not d.int64:
        raise RuntimeError(
            f"{start}Expected a long tensor for index, but got {index.dtype.scalar_name}"
        )
    if own.dtype is not given.dtype:
        raise RuntimeError(
            f"{start}self and source expected to have the same dtype, but got (self) "
            f"{own.dtype.scalar_name} and (source) {given.dtype.scalar_name}"
        )
    a, b = list(own.shape), list(given.shape)
    if a:
        a.pop(dim)
    if b:
        b.pop(dim)
    if a != b:
        raise RuntimeError(
            f"{start}Source/destination tensor must have same slice shapes. Destination slice "
            f"shape: {' '.join(map(str, a))} at dimension {dim} and source slice shape: "
            f"{' '.join(map(str, b))} at dimension 0."
        )
    if given.ndim and n != given.sizes[dim]:
        raise IndexError(
            f"{start}Number of indices ({n}) should be equal to source.size(dim) "
            f"({given.sizes[dim]})"
        )
    if not given.numel or without_memory(target._layout, index._layout):
        return
    spreaded, source = _shapes(target, dim, index, source)
    if scatter_walk("set", target, dim, spreaded, source):
        size = size_along(own, dim)
        kind = IndexError if size else RuntimeError
        raise out_of_bounds(index, dim, size, kind=kind, start=start)


@writer("index_fill", keep_order=True)
def index_fill(target, dim, index, value):
    tensor_argument("index_fill", "index", 3, index)
    layout = target._layout
    if isinstance(value, Tensor):
        if value._layout.ndim:
            raise RuntimeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value._layout.ndim} dimension(s)."
            )
        if value.dtype.is_complex and not layout.dtype.is_complex:
            value = 1j
        elif value.dtype is not layout.dtype:
            value = value.detach().to(layout.dtype)
    if index.dtype is not d.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if type(value) is complex and not layout.dtype.is_complex:
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )
    dim = wrap_dim(dim, layout.ndim)
    if index._layout.ndim > 1:
        raise RuntimeError("Index has to be a vector/scalar")
    if not isinstance(value, Tensor):
        d.check_fits(value, layout.dtype)
    if not count_of(index) or without_memory(target._layout, index._layout):
        return
    if not layout.numel:
        others = (*layout.sizes[:dim], *layout.sizes[dim + 1 :])
        if 0 not in others:  # what is named is not there
            raise out_of_bounds(index, dim, 0, wraps=True)
        return
    if not isinstance(value, Tensor):
        value = number_tensor(value, layout.dtype, layout.device)
    kernel, desc = FILLED[layout, index._layout, dim]
    if kernel(desc, address(target), address(value), address(index)) is not None:
        raise out_of_bounds(index, dim, size_along(layout, dim), wraps=True, kind=IndexError)


def _plan_fill(key):
    layout, index, dim = key
    own = layout.sizes
    shape = (*own[:dim], index.numel, *own[dim + 1 :]) if own else (1,)
    rank = len(shape)
    return plan_along(
        "set", layout, dim, shape, [0] * rank, _steps_of(index, dim, rank), wraps=True
    )


FILLED = Plans(_plan_fill, mixed=True)
