"""Launching losses: rows whose values are added up in the kernel that computes them.

A row with the option `family="total"` is a pointwise row in every other respect: it is planned
by layouts, recorded and run backward as those are (`call.py`, `variants.py`), but its result has
no dimensions. The kernel is in `codegen/templates/losses.py`; rows are in `ops/losses.py`.
"""

from typing import Any

from flambeau._layout import Size, broadcast_shape, dense_layout
from flambeau.eager.call import Family
from flambeau.eager.kernels import load_kernel, pool
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

SHARES = 30  # chunks at most, roughly: the kernel has room for twice as many

_kernels: dict = {}


def plan_total(key, trace, inputs, scalars, out_dtypes, outs=None, shape=None):
    """As plan_nest: (output layouts, kernel, description)."""
    shape = broadcast_shape(*[i.shape for i in inputs])
    device = inputs[0].device
    out = dense_layout(Size(()), out_dtypes[0], device)
    if not device.runtime.computes:
        return (out,), nothing, NO_WORK
    sizes, strides = walk_order(shape, inputs, True)
    accesses = [access_of(sizes, st, i, False) for i, st in zip(inputs, strides)]
    if not sizes:
        sizes, strides = [1], [[i.itemsize] for i in inputs]
        accesses = ["c"] * len(inputs)
    pattern = tuple((i.dtype.code, a) for i, a in zip(inputs, accesses))
    kernel, work = _kernel(key, trace, out_dtypes[0], pattern, scalars, len(sizes) - 1)
    elements = 1
    for s in sizes:
        elements *= s
    if elements:
        chunk = max(chunk_elements(work), -(-elements // SHARES))
        description = describe_launch(sizes, [[0] * len(sizes), *strides], chunk)
    else:
        description = [0]  # no chunks: the total of nothing
    if description[0] > 1:
        pool().ensure_workers()
    return (out,), kernel, packed(description)


def _kernel(key, trace, out, pattern, scalars, rank):
    full = (key, out.code, pattern, scalars, rank)
    found = _kernels.get(full)
    if found is None:
        from flambeau.codegen import build  # with llvmlite, on first need
        from flambeau.codegen.templates.losses import build_total

        (value,) = trace(*build.arguments_for(pattern, scalars))
        value = cast_value(value, out.code)
        nest = build.Pointwise(pattern, ((out.code, "s"),), scalars, (value,), rank)
        name = key
        while isinstance(name, tuple):
            name = name[0]
        found = _kernels[full] = load_kernel(build_total(nest), name), cost([value])
    return found


class TotalFamily(Family):
    """Kernels of one total for one pattern of arguments."""

    plan_nest: Any = staticmethod(plan_total)
    elementwise = False


FAMILIES["total"] = TotalFamily
