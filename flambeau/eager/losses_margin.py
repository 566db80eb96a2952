"""Launching multi_margin_loss: one kernel per direction (`codegen/templates/losses_margin.py`).

The gradient is a composite row whose body runs only where the call is recorded, so that it can be
differentiated again; everywhere else the kernel takes its place.
"""

from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions import Margins
from flambeau.eager.launching import launches, launches_kernel
from flambeau.eager.plans import Plans
from flambeau.eager.rows import (
    address,
    chunks_of,
    contiguous,
    dense_like,
    has_work,
    vector_layout,
)
from flambeau.ops.losses import reduce_tensor
from flambeau.ops.losses_rows import MEAN, NONE
from flambeau.runtime.base import nothing
from flambeau.runtime.cpu import packed

WORK = 1 << 16  # scores that are worth a chunk


def _plan(key):
    """(layout of the result, kernel, description) of a kernel; step: from gradient to gradient."""
    name, scores, p, weighted, step = key
    samples, classes = scores.shape
    if name == "multi_margin":
        layout = vector_layout(samples, scores.dtype, scores.device)
    else:
        layout = dense_like(scores)
    if not has_work(layout):
        return layout, nothing, b""
    per_chunk = max(1, WORK // max(1, classes))
    chunks = chunks_of(samples, per_chunk)
    facts = scores.dtype.code, p, weighted
    kernel = scores.device.runtime.kernel(name, "losses_margin:build_" + name, *facts)
    return layout, kernel, packed(Margins(chunks, samples, classes, per_chunk, step))


PLANS = Plans(_plan)


def _dense(*tensors):
    return [None if t is None else contiguous(t) for t in tensors]


def _addresses(tensors):
    return [0 if t is None else address(t) for t in tensors]


@launches("multi_margin")
def multi_margin(input, target, p, margin, weight, reduction):
    layout, run, described = PLANS["multi_margin", input._layout, p, weight is not None, 0]
    losses = empty_like_layout(layout)
    given = _dense(input, target, weight)
    if run(described, losses._storage.pointer, *_addresses(given), margin) is not None:
        raise RuntimeError("target out of range")
    return losses if reduction == NONE else reduce_tensor(losses, reduction)


@launches_kernel("multi_margin_gradient")
def _gradient(g, input, target, p, margin, weight, reduction):
    samples, classes = input._layout.shape
    step = g._layout.strides[0] if reduction == NONE else 0
    layout, run, described = PLANS[
        "multi_margin_gradient", input._layout, p, weight is not None, step
    ]
    out = empty_like_layout(layout)
    given = _dense(input, target, weight)
    share = 1 / ((classes * samples if reduction == MEAN else classes) or 1)
    run(described, out._storage.pointer, address(g), *_addresses(given), margin, share)
    return out
