"""Launching cdist and pdist: distances of pairs of rows and their gradients.

Kernels are in codegen/templates/distances.py, what a distance is in ops/distances.py. Gradients are
composite rows whose bodies run only where the call is recorded; here are their kernels.
"""

from math import prod

from flambeau._layout import Size
from flambeau._tensor import empty_tensor
from flambeau.eager.launching import FRONTS, launches
from flambeau.eager.copying import fill_into
from flambeau.eager.fronts import kernel_unless_recorded
from flambeau.eager.kernels import load_kernel
from flambeau.eager.rows import address, contiguous, is_computed, launch
from flambeau.ops.distances import kind_of, slope, term, total

WORK = 1 << 16  # coordinates of pairs that are worth a chunk

_kernels: dict = {}


def _kernel(direction, code, kind, triangle):
    key = (direction, code, kind, triangle)
    found = _kernels.get(key)
    if found is None:
        from flambeau.codegen.templates import distances  # with llvmlite, on first need

        if direction == "forward":
            ir = distances.build_forward(code, kind, triangle, term, total)
        else:
            ir = distances.build_gradient(code, kind, triangle, slope)
        found = _kernels[key] = load_kernel(ir, "distances")
    return found


def _description(x1, others, strides=(0, 0, 0)):
    *batch, rows, size = x1.shape
    every = prod(batch) * rows
    per_chunk = max(1, WORK // max(1, others * size))
    return [-(-every // per_chunk), per_chunk, every, rows, others, size, *strides]


@launches("pair_distances")
def pair_distances(x1, x2, p):
    rows, others = x1.shape[-2], x2.shape[-2]
    out = empty_tensor(Size((*x1.shape[:-1], others)), x1.dtype, x1.device)
    if not is_computed(out):
        return out
    if not x1.shape[-1]:
        return fill_into(out, 0)
    x1, x2 = contiguous(x1), contiguous(x2)
    run = _kernel("forward", x1.dtype.code, kind_of(p), False)
    strides = (rows * others, others, 1)
    launch(run, _description(x1, others, strides), *map(address, (out, x1, x2)), p)
    return out


def _pair_gradient(g, x1, x2, distance, p):
    out = empty_tensor(x1.shape, x1.dtype, x1.device)
    if not is_computed(out):
        return out
    if not x2.shape[-2]:
        return fill_into(out, 0)
    x1, x2 = contiguous(x1), contiguous(x2)
    # distances come as they were stored, or transposed: both operands share their strides
    flipped = not distance._layout.is_contiguous and distance._layout.strides[-2] == 1
    rows, others = x1.shape[-2], x2.shape[-2]
    if flipped:
        g, distance = contiguous(g.detach().mT), contiguous(distance.detach().mT)
    else:
        g, distance = contiguous(g), contiguous(distance)
    strides = (rows * others, 1, rows) if flipped else (rows * others, others, 1)
    run = _kernel("gradient", x1.dtype.code, kind_of(p), False)
    launch(
        run,
        _description(x1, others, strides),
        *map(address, (out, g, x1, x2, distance)),
        p,
    )
    return out


@launches("self_distances")
def self_distances(input, p):
    n, size = input.shape
    out = empty_tensor(Size((n * (n - 1) // 2,)), input.dtype, input.device)
    if not is_computed(out):
        return out
    if not size:
        return fill_into(out, 0)
    input = contiguous(input)
    run = _kernel("forward", input.dtype.code, kind_of(p), True)
    launch(run, _description(input, n), *map(address, (out, input, input)), p)
    return out


def _self_gradient(g, input, distance, p):
    out = empty_tensor(input.shape, input.dtype, input.device)
    if not is_computed(out):
        return out
    input, g, distance = contiguous(input), contiguous(g), contiguous(distance)
    run = _kernel("gradient", input.dtype.code, kind_of(p), True)
    n = input.shape[0]
    launch(run, _description(input, n), *map(address, (out, g, input, input, distance)), p)
    return out


FRONTS["cdist_gradient"] = kernel_unless_recorded(_pair_gradient)
FRONTS["pdist_gradient"] = kernel_unless_recorded(_self_gradient)
