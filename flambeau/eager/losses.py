"""Launching losses: rows whose values are added up in the kernel that computes them.

A row with the option `family="total"` is a pointwise row in every other respect: it is planned
by layouts, recorded and run backward as those are (`call.py`, `variants.py`), but its result has
no dimensions. The kernel is in `codegen/templates/losses.py`; rows are in `ops/losses.py`.
"""

import math
from itertools import chain
from typing import Any

from flambeau import _dtype
from flambeau._layout import broadcast_sizes, expanded_strides, make_layout
from flambeau._natively import natively
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions import MOST_GROUPS, ONE_GROUP, PER_GROUP
from flambeau.eager.call import Family
from flambeau.eager.cuda_sampling import is_cuda
from flambeau.eager.kernels import pool
from flambeau.eager.plan import (
    NO_WORK,
    cast_value,
    chunk_elements,
    cost,
    facts_of,
    pattern_of,
)
from flambeau.eager.rows import vector_layout
from flambeau.eager.variants import FAMILIES
from flambeau.planning import nests
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed
from flambeau.runtime.stacks import alone

GPU_NO_WORK = packed((1,) + (0,) * 63)
SHARES = 30  # chunks at most, roughly: the kernel has room for twice as many


def plan_total(key, trace, inputs, scalars, out_dtypes, outs=None, shape=None, device=None):
    """As plan_nest: (output layouts, kernel, description)."""
    device = device or inputs[0].device
    runtime = device.runtime
    out = make_layout((), (), out_dtypes[0], device)
    mark, sizes, steps = _walk(inputs)
    if not runtime.computes:
        return (out,), nothing, NO_WORK
    pattern, rank = pattern_of(mark, inputs)
    kernel, work = _kernel(runtime, key, trace, out_dtypes[0], pattern, scalars, rank)
    elements = math.prod(sizes)
    if not elements:  # the total of nothing: no chunks, but a GPU must be asked all the same
        return (out,), kernel, GPU_NO_WORK if is_cuda(device) else NO_WORK
    if is_cuda(device):
        _, desc = nests.described(sizes, with_result(steps, len(sizes)), elements)
        return (out,), *_on_gpu(runtime, kernel, desc, out, elements, len(inputs) + len(scalars))
    chunk = max(chunk_elements(work), -(-elements // SHARES))
    chunks, desc = nests.described(sizes, with_result(steps, len(sizes)), chunk)
    if chunks > 1:
        pool().ensure_workers()
    return (out,), kernel, desc


def _on_gpu(runtime, kernel, desc, out, elements, count):
    """(kernel, description): where several groups of threads share the work, they leave totals in
    memory of the device, and a second kernel joins them. count: operands; the last is the divisor.
    """
    groups = 1 if elements <= ONE_GROUP else min(-(-elements // PER_GROUP), MOST_GROUPS)
    if groups == 1:
        return kernel, desc
    join = runtime.kernel("total", "losses:build_total_join", out.dtype.code)
    room, words = vector_layout(groups, _dtype.float64, out.device), packed((1, groups))

    def run(description, result, *operands):
        states = empty_like_layout(room)
        place = states._storage.pointer
        kernel(description, place, *operands)
        join(words, result, place, operands[count - 1])

    return run, desc


def _walk(inputs):
    """The walk over all elements, as `nests.walked` gives it."""
    first, (items, complexes) = inputs[0].sizes, facts_of([i.dtype for i in inputs])
    for i in inputs:
        if not i.is_dense or i.sizes != first:
            break
    else:
        mark, _ = nests.marked((inputs[0].numel,), items, items, 0, complexes)
        return mark, (inputs[0].numel,), items
    sizes = broadcast_sizes([i.sizes for i in inputs])
    spread = tuple(chain(*[expanded_strides(i, sizes) for i in inputs]))
    return nests.walked(sizes, spread, items, 0, complexes)


@natively
def with_result(steps: tuple, rank):
    """Steps of operands with those of a total before them, which stays where it is."""
    count = len(steps) // rank
    found = []
    for k in range(rank):
        found.append(0)
        for t in range(count):
            found.append(steps[k * count + t])
    return tuple(found)


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
