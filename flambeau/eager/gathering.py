"""Launching walks with an index per element: gather, scatter and their kin, take and put.

What they refuse is in `ops/indexing_checks.py`; the walks are planned in `index_plans.py`.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import dense_layout, wrap_dim
from flambeau._tensor import Tensor, make_tensor
from flambeau.autograd import views
from flambeau.eager.copying import copy_into, filled
from flambeau.eager.index_plans import (
    byte_strides,
    first_outside,
    layout64,
    out_of_bounds,
    plan_along,
    plan_walk,
    size_along,
    without_memory,
)
from flambeau.eager.planned import idle, planned
from flambeau.eager.plans import Plans
from flambeau.eager.rows import contiguous
from flambeau.eager.writing import number_tensor, writer
from flambeau.ops import indexing_checks as check
from flambeau.ops.support import refuse_complex32

# -- gather ----------------------------------------------------------------------------------------


def _outside(input, dim, index, *rest):
    dim = wrap_dim(dim, input._layout.ndim)
    return out_of_bounds(index, dim, size_along(input._layout, dim))


@planned(
    "gather", "input: tensor, dim, index: fitted, sparse_grad", order="input result index",
    fails=_outside, mixed=True,
)  # fmt: skip
def gather(input, dim, index, sparse_grad):
    dim, fitted = check.gather(input, dim, index), layout64(index)
    to = dense_layout(index.shape, input.dtype, input.device)
    if without_memory(input, index) or not index.numel:
        return *idle(to), fitted
    if index.numel:
        refuse_complex32("scatter_gather_tensor_cpu", input)
    shape, strides = index.sizes or (1,), byte_strides(fitted)
    return to, *plan_along("read", input, dim, shape, byte_strides(to), strides), fitted


# -- scatter ---------------------------------------------------------------------------------------


@planned(
    None, "mode, target: tensor, dim, index: fitted, src: tensor", "", order="target src index",
    mixed=True,
)  # fmt: skip
def scatter_walk(mode, target, dim, index, src):
    """Send src (0-d: one for all) into target along dim; something if an index is out of bounds."""
    fitted = layout64(index)
    if without_memory(target, index, src):
        return *idle(), fitted
    shape = index.sizes or (1,)
    items = byte_strides(src) if src.ndim else [0] * len(shape)
    return *plan_along(mode, target, dim, shape, items, byte_strides(fitted)), fitted


def _refuse(target, index, kernel):
    if index._layout.numel:
        refuse_complex32(f"scatter_gather_{kernel}", target)


FITTING = Plans(lambda key: check.scatter(*key), by_default=False, mixed=True)


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
    if scatter_walk(mode, target, dim, index, src) is not None:
        raise out_of_bounds(index, dim, size_along(target._layout, dim))


@writer("scatter")
def scatter(target, dim, index, src, value, reduce):
    if (src is None) == (value is None):
        more = ", Tensor, value=Number" if src is not None else ""
        raise TypeError(
            "scatter() received an invalid combination of arguments - got (Tensor, int, Tensor"
            f"{more})"
        )
    layout = target._layout
    wrap_dim(dim, layout.ndim)
    if reduce is not None and reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    number = value if src is None else src
    given = number._layout if isinstance(number, Tensor) else None
    dim = FITTING[layout, dim, index._layout, given]
    if given is None:
        _refuse(target, index, "scalar_cpu")
        number = number_tensor(number, layout.dtype, layout.device)
    _refuse(target, index, "tensor_cpu")
    mode = {None: "set", "add": "add", "multiply": "mul"}[reduce]
    scatter_along(mode, target, dim, index, number)


@writer("scatter_add")
def scatter_add(target, dim, index, src):
    dim = FITTING[target._layout, dim, index._layout, src._layout]
    _refuse(target, index, "tensor_cpu")
    scatter_along("add", target, dim, index, src)


_MODES = {"sum": "add", "prod": "mul", "mean": "add", "amax": "max", "amin": "min"}


@writer("scatter_reduce")
def scatter_reduce(target, dim, index, src, reduce, include_self):
    wrap_dim(dim, target._layout.ndim)
    if reduce not in _MODES:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    dim = FITTING[target._layout, dim, index._layout, src._layout]
    if not include_self:
        refuse_complex32("scatter_reduce_exclude_input_init", target)
    _refuse(target, index, f"tensor_cpu{'' if reduce in ('sum', 'prod') else '_reduce_' + reduce}")
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


def _plan_flat(mode, table, index, items):
    shape = index.sizes or (1,)
    rank, places = len(shape), [byte_strides(index)]
    sizes, steps, safe = [table.numel], [table.itemsize], [False] * rank
    return plan_walk(
        mode, table, shape, [0] * rank, byte_strides(items), places, sizes, steps, safe, True
    )


def _flat_outside(table, index, *rest):
    count = table._layout.numel
    value = first_outside(index, -count, count)
    return IndexError(
        f"out of range: tried to access index {value} on a tensor of {count} elements."
    )


@planned(
    "take", "input: dense, index: tensor", order="input result index", fails=_flat_outside,
    mixed=True,
)  # fmt: skip
def take(input, index):
    check.take(input, index)
    out = dense_layout(index.shape, input.dtype, input.device)
    if not index.numel or without_memory(input, index):
        return idle(out)
    refuse_complex32("take_cpu", input)
    return out, *_plan_flat("read", input, index, out)


@planned(
    None, "table: tensor, index: tensor, items: tensor, mode", "", order="table items index",
    fails=_flat_outside, mixed=True,
)  # fmt: skip
def _flat_write(table, index, items, mode):
    return _plan_flat(mode, table, index, items)


@writer("put", keep_order=True)
def put(target, index, source, accumulate):
    check.put(target._layout, index._layout, source._layout)
    if not index._layout.numel or without_memory(target._layout, index._layout):
        return
    refuse_complex32("take_put_cpu", target)
    if source._layout.sizes != index._layout.sizes:
        index, source = contiguous(index), contiguous(source)
        source = make_tensor(
            dense_layout(index.shape, source.dtype, source.device), source._storage, source._offset
        )
    whole = contiguous(target)
    _flat_write(whole, index, source, "add" if accumulate else "set")
    if whole is not target:
        copy_into(target, whole)
