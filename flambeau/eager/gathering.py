"""Launching walks with an index per element: gather, scatter and their kin, take and put.

Each launcher checks its arguments in PyTorch's order and words and runs a walk (index_plans.py).
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import dense_layout, wrap_dim
from flambeau._tensor import Tensor, empty_like_layout, empty_tensor, make_tensor
from flambeau.autograd import views
from flambeau.eager.copying import copy_into, filled
from flambeau.eager.index_plans import (
    byte_strides,
    first_outside,
    index64,
    layout64,
    out_of_bounds,
    plan_along,
    plan_walk,
    size_along,
    tensor_argument,
    without_memory,
)
from flambeau.eager.launching import launches
from flambeau.eager.plan import NO_WORK
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, contiguous
from flambeau.eager.writing import number_tensor, writer
from flambeau.runtime.base import nothing

# -- gather ----------------------------------------------------------------------------------------


@launches("gather")
def gather(input, dim, index, sparse_grad):
    try:
        to, kernel, desc = GATHERS[input._layout, index._layout, dim]
    except AttributeError:
        tensor_argument("gather", "index", 3, index)
        raise
    out = empty_like_layout(to)
    if index._layout.dtype is not d.int64:
        index = index64(index)
    at = input._storage.pointer + input._offset
    if kernel(desc, at, out._storage.pointer, index._storage.pointer + index._offset) is not None:
        dim = wrap_dim(dim, input._layout.ndim)
        raise out_of_bounds(index, dim, size_along(input._layout, dim))
    return out


def _plan_gather(key):
    """(layout of the result, kernel, description)."""
    layout, index, dim = key
    dim = wrap_dim(dim, layout.ndim)
    to = dense_layout(index.shape, layout.dtype, layout.device)
    if index.numel:
        if index.dtype not in (d.int64, d.int32):
            raise RuntimeError("gather(): Expected dtype int32/int64 for index")
        _check_gather(layout, dim, index)
    if without_memory(layout, index):
        return to, nothing, NO_WORK
    strides = byte_strides(layout64(index))
    shape = index.sizes or (1,)
    return to, *plan_along("read", layout, dim, shape, byte_strides(to), strides)


GATHERS = Plans(_plan_gather, mixed=True)


def _check_gather(layout, dim, index):
    if max(layout.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for k in range(layout.ndim if index.ndim else 0):
        if k != dim and index.sizes[k] > layout.sizes[k]:
            raise RuntimeError(
                f"Size does not match at dimension {k} expected index {list(index.shape)} to be no "
                f"larger than self {list(layout.sizes)} apart from dimension {dim}"
            )


# -- scatter ---------------------------------------------------------------------------------------


def scatter_walk(mode, target, dim, index, src):
    """Send src (0-d: one for all) into target along dim; True if an index was out of bounds."""
    index = index64(index)
    kernel, desc = SCATTERS[mode, target._layout, dim, index._layout, src._layout]
    return kernel(desc, address(target), address(src), address(index)) is not None


def _plan_scatter(key):
    mode, layout, dim, index, src = key
    if without_memory(layout, index, src):
        return nothing, NO_WORK
    shape = index.sizes or (1,)
    items = byte_strides(src) if src.ndim else [0] * len(shape)
    return plan_along(mode, layout, dim, shape, items, byte_strides(index))


SCATTERS = Plans(_plan_scatter, mixed=True)


def _check_scatter(key):
    """The dimension, counted from the front, if layouts fit. src is None for a number."""
    layout, dim, index, src = key
    dim = wrap_dim(dim, layout.ndim)
    if index.dtype not in (d.int64, d.int32) and index.numel:
        raise RuntimeError("scatter(): Expected dtype int32/int64 for index")
    if src is not None and src.dtype is not layout.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if not index.numel:
        return dim
    ndim = max(layout.ndim, 1)
    if ndim != max(index.ndim, 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    sizes = index.sizes or (1,)
    own = layout.sizes or (1,)
    given = None if src is None else src.sizes or (1,)
    if given is not None and src.ndim and len(given) < ndim:
        wrap_dim(len(given), len(given))  # the complaint PyTorch stumbles into
    fits = all(k == dim or sizes[k] <= own[k] for k in range(ndim))
    if given is not None and ndim != len(given):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if not fits or (given is not None and any(a > b for a, b in zip(sizes, given))):
        tail = "" if src is None else f" and to be no larger size than src {list(src.shape)}"
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(layout.sizes)} "
            f"apart from dimension {dim}{tail}"
        )
    return dim


FITTING = Plans(_check_scatter, mixed=True)


def scatter_along(mode, target, dim, index, src):
    """Checked arguments in, target written."""
    if not index._layout.numel:
        return
    if mode != "set" and target.dtype in (d.float16, d.bfloat16):
        # many small additions in half precision would lose most of them; PyTorch widens too
        wide = views.detached(target).to(d.float32)
        scatter_along(mode, wide, dim, index, views.detached(src).to(d.float32))
        copy_into(target, wide)
        return
    if scatter_walk(mode, target, dim, index, src):
        raise out_of_bounds(index, dim, size_along(target._layout, dim))


@writer("scatter")
def scatter(target, dim, index, src, value, reduce):
    tensor_argument("scatter", "index", 3, index)
    if src is None and value is None:
        raise TypeError(
            "scatter() received an invalid combination of arguments - got (Tensor, int, Tensor)"
        )
    layout = target._layout
    wrap_dim(dim, layout.ndim)
    if reduce is not None and reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    number = value if src is None else src
    given = number._layout if isinstance(number, Tensor) else None
    dim = FITTING[layout, dim, index._layout, given]
    if given is None:
        number = number_tensor(number, layout.dtype, layout.device)
    mode = {None: "set", "add": "add", "multiply": "mul"}[reduce]
    scatter_along(mode, target, dim, index, number)


@writer("scatter_add")
def scatter_add(target, dim, index, src):
    tensor_argument("scatter_add", "index", 3, index)
    tensor_argument("scatter_add", "src", 4, src)
    dim = FITTING[target._layout, dim, index._layout, src._layout]
    scatter_along("add", target, dim, index, src)


_MODES = {"sum": "add", "prod": "mul", "mean": "add", "amax": "max", "amin": "min"}


@writer("scatter_reduce")
def scatter_reduce(target, dim, index, src, reduce, include_self):
    tensor_argument("scatter_reduce", "index", 3, index)
    tensor_argument("scatter_reduce", "src", 4, src)
    wrap_dim(dim, target._layout.ndim)
    if reduce not in _MODES:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    dim = FITTING[target._layout, dim, index._layout, src._layout]
    if target.dtype.is_complex and reduce in ("amax", "amin"):
        raise errors.not_implemented(f"scatter_gather_tensor_cpu_reduce_{reduce}", target.dtype)
    reduce_along(target, dim, index, src, reduce, include_self, scatter_along)


def reduce_along(target, dim, index, src, reduce, include_self, run):
    """scatter_reduce with checked arguments; run(mode, target, dim, index, src) writes."""
    if not index._layout.numel or without_memory(target._layout, index._layout):
        return
    if not include_self:
        start = number_tensor(_identity(reduce, target.dtype), target.dtype, target.device)
        run("set", target, dim, index, start)
    run(_MODES[reduce], target, dim, index, src)
    if reduce == "mean":
        plain = views.detached(target)
        layout = dense_layout(target.shape, target.dtype, target.device)
        count = filled(layout, 1 if include_self else 0)
        run("add", count, dim, index, number_tensor(1, target.dtype, target.device))
        count.masked_fill_(count == 0, 1)
        if target.dtype.category < d.FLOATING:
            plain.div_(count, rounding_mode="floor")
        else:
            plain.div_(count)


def _identity(reduce, dtype):
    """What a reduction starts from."""
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype.category == d.FLOATING:
        return float("-inf") if reduce == "amax" else float("inf")
    if dtype is d.bool_:
        return reduce == "amin"
    limits = d.iinfo(dtype)
    value = limits.min if reduce == "amax" else limits.max
    return value - 2**64 if value >= 2**63 else value


# -- the tensor as if it were flat -----------------------------------------------------------------


def _flat_walk(mode, table, index, items):
    kernel, desc = FLAT[mode, table._layout, index._layout, items._layout]
    if kernel(desc, address(table), address(items), address(index)) is not None:
        count = table._layout.numel
        value = first_outside(index, -count, count)
        raise IndexError(
            f"out of range: tried to access index {value} on a tensor of {count} elements."
        )


def _plan_flat(key):
    mode, layout, index, items = key
    shape = index.sizes or (1,)
    rank, places = len(shape), [byte_strides(index)]
    sizes, steps, safe = [layout.numel], [layout.itemsize], [False] * rank
    return plan_walk(
        mode, layout, shape, [0] * rank, byte_strides(items), places, sizes, steps, safe, True
    )


FLAT = Plans(_plan_flat, mixed=True)


@launches("take")
def take(input, index):
    tensor_argument("take", "index", 2, index)
    if index.dtype is not d.int64:
        raise RuntimeError(
            f"take(): Expected a long tensor for index, but got {index.dtype.scalar_name}"
        )
    if not input._layout.numel and index._layout.numel:
        raise IndexError("take(): tried to take from an empty tensor")
    out = empty_tensor(index.shape, input.dtype, input.device)
    if index._layout.numel and not without_memory(input._layout, index._layout):
        _flat_walk("read", contiguous(input), index, out)
    return out


@writer("put", keep_order=True)
def put(target, index, source, accumulate):
    tensor_argument("put", "index", 2, index)
    tensor_argument("put", "source", 3, source)
    if index.dtype is not d.int64:
        raise RuntimeError(
            f"put_(): Expected a long tensor for index, but got {index.dtype.scalar_name}"
        )
    if target.dtype is not source.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{target.dtype.scalar_name} and source.dtype = {source.dtype.scalar_name}"
        )
    if source._layout.numel != index._layout.numel:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source._layout.numel}, index.numel() = {index._layout.numel}"
        )
    if not target._layout.numel and index._layout.numel:
        raise IndexError("put_(): Tried to put elements into an empty tensor")
    if not index._layout.numel or without_memory(target._layout, index._layout):
        return
    if source._layout.sizes != index._layout.sizes:
        index, source = contiguous(index), contiguous(source)
        source = make_tensor(
            dense_layout(index.shape, source.dtype, source.device), source._storage, source._offset
        )
    whole = contiguous(target)
    _flat_walk("add" if accumulate else "set", whole, index, source)
    if whole is not target:
        copy_into(target, whole)
