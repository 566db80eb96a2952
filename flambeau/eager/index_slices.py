"""Launching walks with one index per slice: index_select, index_add and their kin.

A vector of indices spread over the other dimensions makes each of them a gather or a scatter whose
innermost loop moves whole rows. What they refuse is in `ops/indexing_checks.py`.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import Size, dense_layout, make_layout, wrap_dim
from flambeau._tensor import Tensor, make_tensor
from flambeau.eager.gathering import reduce_along, scatter_along, scatter_walk
from flambeau.eager.index_plans import (
    byte_strides,
    index64,
    layout64,
    out_of_bounds,
    plan_along,
    plan_rows,
    size_along,
    without_memory,
)
from flambeau.eager.plan import NO_WORK
from flambeau.eager.planned import idle, planned
from flambeau.eager.plans import Plans
from flambeau.eager.writing import number_tensor, writer
from flambeau.ops import indexing_checks as check
from flambeau.ops.support import refuse_complex32


def spread(index, dim, shape):
    """An index vector seen as a tensor of the given shape, the same in all other dimensions."""
    index = index64(index)
    stride = index._layout.strides[0] if index._layout.ndim else 0
    strides = tuple(stride if k == dim else 0 for k in range(len(shape)))
    return make_tensor(
        make_layout(Size(shape), strides, d.int64, index.device), index._storage, index._offset
    )


def _steps_of(index, dim, rank):
    """Byte strides of an index vector (or a lone index) along dim of so many dimensions."""
    found = [0] * rank
    found[dim] = 8 * index.strides[0] if index.ndim else 0
    return found


def _outside(index, size):
    """The first index out of range, or None."""
    return next((i for i in index.reshape(-1).tolist() if not 0 <= i < size), None)


def _wrong_slice(input, dim, index):
    """What is wrong, in one of PyTorch's ways; indices of empty results may be right."""
    layout = input._layout
    dim = wrap_dim(dim, layout.ndim)
    size = size_along(layout, dim)
    found = _outside(index, size)
    if found is None:
        return None
    if layout.ndim > 1 and not size:
        return RuntimeError("index_select(): self indexing axis dim should be positive")
    if layout.ndim > 1 and (dim == 1 or not layout.numel):
        return RuntimeError(f"INDICES element is out of DATA bounds, id={found} axis_dim={size}")
    return IndexError("index out of range in self")


def _unread(*args):
    """The kernel of empty results: indices are still to be looked at."""
    return True


@planned(
    "index_select", "input: tensor, dim, index: fitted", order="input result index",
    fails=_wrong_slice, mixed=True,
)  # fmt: skip
def index_select(input, dim, index):
    dim, n = check.index_select(input, dim, index), index.numel
    own, fitted = input.sizes, layout64(index)
    shape = (*own[:dim], n, *own[dim + 1 :]) if own else ()
    to = dense_layout(shape, input.dtype, input.device)
    if without_memory(input, index):
        return *idle(to), fitted
    if n and not to.numel:
        return to, _unread, NO_WORK, fitted
    if dim == 0 and own and input.is_contiguous and fitted.is_contiguous:
        return to, *plan_rows(input, n, False), fitted
    steps = _steps_of(fitted, dim, len(shape) or 1)
    return to, *plan_along("read", input, dim, shape or (1,), byte_strides(to), steps), fitted


FITTING = Plans(lambda key: check.slices(*key), by_default=False, mixed=True)


def _checked(op, target, dim, index, source):
    return FITTING[op, target._layout, dim, index._layout, source._layout]


def _scatter(mode, target, dim, index, source):
    """A walk; what it refuses has one name here."""
    if scatter_walk(mode, target, dim, index, source) is not None:
        raise IndexError("index out of range in self")


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
            if index.dtype is d.int64 and index._layout.ndim:
                raise
            raise IndexError("index out of range in self") from error
    else:
        _scatter("add", target, dim, spreaded, source)


@writer("index_reduce")
def index_reduce(target, dim, index, source, reduce, include_self):
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    dim = _checked("index_reduce", target, dim, index, source)
    if not include_self:
        refuse_complex32("index_reduce_func_exclude_input_init", target)
    if target._layout.ndim < 2:
        refuse_complex32("index_func_", target)
    if target.dtype.is_complex and reduce in ("amax", "amin"):
        raise errors.not_implemented(
            "maximum_cpu" if reduce == "amax" else "minimum_cpu", target.dtype
        )
    empty = not source._layout.numel and target.device.runtime.computes
    if empty and _outside(index, size_along(target._layout, dim)) is not None:
        raise IndexError("index out of range in self")
    spreaded, source = _shapes(target, dim, index, source)
    reduce_along(target, dim, spreaded, source, reduce, include_self, _scatter)


@writer("index_copy")
def index_copy(target, dim, index, source):
    own, given = target._layout, source._layout
    dim = check.index_copy(own, dim, index._layout, given)
    if not given.numel or without_memory(target._layout, index._layout):
        return
    spreaded, source = _shapes(target, dim, index, source)
    if scatter_walk("set", target, dim, spreaded, source) is not None:
        size = size_along(own, dim)
        kind = IndexError if size else RuntimeError
        raise out_of_bounds(index, dim, size, kind=kind, start="index_copy_(): ")


@writer("index_fill", keep_order=True)
def index_fill(target, dim, index, value):
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
    if not index._layout.numel or without_memory(target._layout, index._layout):
        return
    if not layout.numel:
        others = (*layout.sizes[:dim], *layout.sizes[dim + 1 :])
        if 0 not in others:  # what is named is not there
            raise out_of_bounds(index, dim, 0, wraps=True)
        return
    if not isinstance(value, Tensor):
        value = number_tensor(value, layout.dtype, layout.device)
    _fill_slices(target, dim, index, value)


def _not_there(target, dim, index, value):
    size = size_along(target._layout, dim)
    return out_of_bounds(index, dim, size, wraps=True, kind=IndexError)


@planned(
    None, "target: tensor, dim, index: tensor, value: tensor", "", order="target value index",
    fails=_not_there, mixed=True,
)  # fmt: skip
def _fill_slices(target, dim, index, value):
    own = target.sizes
    shape = (*own[:dim], index.numel, *own[dim + 1 :]) if own else (1,)
    steps = [0] * len(shape), _steps_of(index, dim, len(shape))
    return plan_along("set", target, dim, shape, *steps, wraps=True)
