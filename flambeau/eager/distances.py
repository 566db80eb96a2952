"""Launching cdist and pdist: distances of pairs of rows and their gradients.

Kernels are in codegen/templates/distances.py, what a distance is in ops/distances.py. Gradients are
composite rows whose bodies run only where the call is recorded; here are their kernels.
"""

from math import prod

from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions import Pairs
from flambeau.eager.copying import fill_into
from flambeau.eager.kernels import pool
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, contiguous, dense_like, has_work
from flambeau.ops.distances import kind_of, slope, term, total
from flambeau.runtime.cpu import packed

WORK = 1 << 16  # coordinates of pairs that are worth a chunk


def _plan(key):
    """(layout of the result, kernel and description, or two times None where it is zero or empty).

    back: the gradient of x1; turned: are distances transposed? x2 is None for the pairs of one.
    """
    x1, x2, kind, back, turned = key
    *batch, rows, size = x1.shape
    others, triangle = rows if x2 is None else x2.shape[-2], x2 is None
    if back:
        layout = dense_like(x1)
    else:
        shape = (rows * (rows - 1) // 2,) if triangle else (*batch, rows, others)
        layout = dense_layout(shape, x1.dtype, x1.device)
    if not has_work(layout) or not size or not others:
        return layout, None, None
    every = prod(batch) * rows
    per_chunk = max(1, WORK // max(1, others * size))
    by_row, by_column = (1, rows) if turned else (others, 1)
    words = Pairs(
        chunks=-(-every // per_chunk), per_chunk=per_chunk, all=every, rows=rows, others=others,
        size=size, by_matrix=rows * others, by_row=by_row, by_column=by_column,
    )  # fmt: skip
    if words.chunks > 1:
        pool().ensure_workers()
    pattern = x1.dtype.code, kind, triangle
    load = x1.device.runtime.kernel
    if back:
        kernel = load("distances", "distances:build_gradient", *pattern, slope)
    else:
        kernel = load("distances", "distances:build_forward", *pattern, term, total)
    return layout, kernel, packed(words)


PLANS = Plans(_plan, by_default=False)


def _run(x1, x2, p, *given, turned=False):
    """given: the gradient of distances and those, on the way back."""
    layouts = x1._layout, None if x2 is None else x2._layout
    layout, kernel, description = PLANS[*layouts, kind_of(p), bool(given), turned]
    out = empty_like_layout(layout)
    if kernel is None:
        return fill_into(out, 0) if has_work(layout) else out
    x1 = contiguous(x1)
    g, distance = map(contiguous, given) if given else (None, None)
    operands = [x1, x1 if x2 is None else contiguous(x2)]
    operands = [g, *operands, distance] if given else operands
    kernel(description, out._storage.pointer, *map(address, operands), p)
    return out


@launches("pair_distances")
def pair_distances(x1, x2, p):
    return _run(x1, x2, p)


@launches_kernel("cdist_gradient")
def _pair_gradient(g, x1, x2, distance, p):
    # distances come as they were stored, or transposed: both operands share their strides
    turned = not distance._layout.is_contiguous and distance._layout.strides[-2] == 1
    if turned:
        g, distance = g.detach().mT, distance.detach().mT
    return _run(x1, x2, p, g, distance, turned=turned)


@launches("self_distances")
def self_distances(input, p):
    return _run(input, None, p)


@launches_kernel("pdist_gradient")
def _self_gradient(g, input, distance, p):
    return _run(input, None, p, g, distance)
