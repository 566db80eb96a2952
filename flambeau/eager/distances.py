"""Launching cdist and pdist: distances of pairs of rows and their gradients.

Kernels are in codegen/templates/distances.py, what a distance is in ops/distances.py. Gradients are
composite rows whose bodies run only where the call is recorded; here are their kernels.
"""

from math import prod

from flambeau import errors
from flambeau._layout import dense_layout
from flambeau.codegen.descriptions import Pairs
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.planned import constant, launch, planned
from flambeau.eager.rows import dense_like, has_work, share_of
from flambeau.ops.distances import kind_of, slope, term, total
from flambeau.ops.support import group_of

WORK = 1 << 16  # coordinates of pairs that are worth a chunk


def _plan(layout, x1, x2, kind, own, turned, name, *functions):
    """own: pairs of the rows of one; turned: are distances transposed?"""
    *batch, rows, size = x1.shape
    others = x2.sizes[-2]
    if not has_work(layout) or not size or not others:
        return constant(0, (layout,))
    every = prod(batch) * rows
    per_chunk = share_of(layout.device, max(1, WORK // max(1, others * size)))
    by_row, by_column = (1, rows) if turned else (others, 1)
    words = Pairs(
        chunks=-(-every // per_chunk), per_chunk=per_chunk, all=every, rows=rows, others=others,
        size=size, by_matrix=rows * others, by_row=by_row, by_column=by_column,
    )  # fmt: skip
    facts = x1.dtype.code, kind, own, *functions
    return launch(layout, words, "distances", "distances:build_" + name, *facts)


@planned(None, "x1: dense, x2: dense, kind, own, p: number")
def _distances(x1, x2, kind, own):
    *batch, rows, _ = x1.sizes
    shape = (rows * (rows - 1) // 2,) if own else (*batch, rows, x2.sizes[-2])
    layout = dense_layout(shape, x1.dtype, x1.device)
    return _plan(layout, x1, x2, kind, own, False, "forward", term, total)


@planned(None, "g: dense, x1: dense, x2: dense, distance: dense, kind, own, turned, p: number")
def _gradient(g, x1, x2, distance, kind, own, turned):
    """Of x1."""
    return _plan(dense_like(x1), x1, x2, kind, own, turned, "gradient", slope)


@launches("pair_distances")
def pair_distances(x1, x2, p):
    return _distances(x1, x2, kind_of(p), False, p)


@launches_kernel("cdist_gradient")
def _pair_gradient(g, x1, x2, distance, p):
    # distances come as they were stored, or transposed: both operands share their strides
    turned = not distance._layout.is_contiguous and distance._layout.strides[-2] == 1
    if turned:
        g, distance = g.detach().mT, distance.detach().mT
    return _gradient(g, x1, x2, distance, kind_of(p), False, turned, p)


@launches("self_distances")
def self_distances(input, p):
    return _distances(input, input, kind_of(p), True, p)


@launches_kernel("pdist_gradient")
def _self_gradient(g, input, distance, p):
    if group_of(input) == "half":
        raise errors.not_implemented("pdist_backward", input.dtype)
    return _gradient(g, input, input, distance, kind_of(p), True, False, p)
