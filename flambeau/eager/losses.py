"""Launching losses: rows whose values are added up in the kernel that computes them.

A row with the option `family="total"` is a pointwise row in every other respect: it is planned
by layouts, recorded and run backward as those are (`call.py`, `variants.py`), but its result has
no dimensions. The kernel is in `codegen/templates/losses.py`; rows are in `ops/losses.py`.
"""

import math
from typing import Any

from flambeau._layout import broadcast_shape, make_layout
from flambeau.eager.call import Family
from flambeau.eager.kernels import pool
from flambeau.eager.plan import (
    NO_WORK,
    access_of,
    cast_value,
    chunk_elements,
    cost,
    describe_launch,
    walk_order,
)
from flambeau.eager.variants import FAMILIES
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed
from flambeau.runtime.stacks import alone

SHARES = 30  # chunks at most, roughly: the kernel has room for twice as many


def plan_total(key, trace, inputs, scalars, out_dtypes, outs=None, shape=None, device=None):
    """As plan_nest: (output layouts, kernel, description)."""
    device = device or inputs[0].device
    runtime = device.runtime
    out = make_layout((), (), out_dtypes[0], device)
    sizes, strides, accesses = _walk(inputs)
    if not runtime.computes:
        return (out,), nothing, NO_WORK
    pattern = tuple([(i.dtype.code, a) for i, a in zip(inputs, accesses)])
    rank = len(sizes) - 1
    kernel, work = _kernel(runtime, key, trace, out_dtypes[0], pattern, scalars, rank)
    elements = math.prod(sizes)
    if not elements:
        return (out,), kernel, NO_WORK  # no chunks: the total of nothing
    chunk = max(chunk_elements(work), -(-elements // SHARES))
    words = describe_launch(sizes, [[0] * len(sizes), *strides], chunk)
    if words[0] > 1:
        pool().ensure_workers()
    return (out,), kernel, packed(words)


def _walk(inputs):
    """(sizes, byte strides and access of each operand) of the walk over all elements."""
    first = inputs[0].shape
    for i in inputs:
        if not i.is_dense or i.shape != first:
            break
    else:
        return [inputs[0].numel], [[i.itemsize] for i in inputs], ["c"] * len(inputs)
    shape = broadcast_shape(*[i.shape for i in inputs])
    sizes, strides = walk_order(shape, inputs, True)
    if not sizes:
        return [1], [[i.itemsize] for i in inputs], ["c"] * len(inputs)
    return sizes, strides, [access_of(sizes, st, i, False) for i, st in zip(inputs, strides)]


def _kernel(runtime, key, trace, out, pattern, scalars, rank):
    """(kernel, its cost per element): as `nest_kernel`, whose keys it resembles."""
    full = ("total", key, out.code, pattern, scalars, rank)
    found = runtime.kernels.get(full)
    if found is None:
        made = alone(_new_kernel, runtime, key, trace, out, pattern, scalars, rank)
        found = runtime.kernels[full] = made
    return found


def _new_kernel(runtime, key, trace, out, pattern, scalars, rank):
    from flambeau.codegen import build  # with llvmlite, on first need
    from flambeau.codegen.templates.losses import build_total

    (value,) = trace(*build.arguments_for(pattern, scalars))
    value = cast_value(value, out.code)
    nest = build.Pointwise(pattern, ((out.code, "s"),), scalars, (value,), rank)
    name = key
    while isinstance(name, tuple):
        name = name[0]
    return runtime.load(name, build_total, (nest,)), cost([value])


class TotalFamily(Family):
    """Kernels of one total for one pattern of arguments."""

    plan_nest: Any = staticmethod(plan_total)
    elementwise = False


FAMILIES["total"] = TotalFamily
