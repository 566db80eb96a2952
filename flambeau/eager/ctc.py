"""Launching ctc_loss: sums over alignments, and their gradient.

Kernels (`codegen/templates/ctc.py`) take a few samples per chunk and keep a row of states for every
time step, which backward reads again. Checks are in `ops/ctc.py`.
"""

from array import array
from typing import NamedTuple

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import dense_layout
from flambeau._tensor import empty_like_layout
from flambeau.codegen.descriptions import FRONT, Alignments
from flambeau.eager.launching import launches
from flambeau.eager.plans import Plans
from flambeau.eager.rows import address, chunks_of, contiguous, dense_like, vector_layout
from flambeau.runtime.cpu import packed, place_of
from flambeau.storage import brought

WORK = 1 << 15  # states and classes that are worth a chunk


def _side_by_side(t):
    """Log probabilities whose classes lie side by side."""
    return t if t._layout.strides[2] == 1 or t._layout.shape[2] == 1 else contiguous(t)


class Plan(NamedTuple):
    """A launch for a layout and lengths; both kernels share it."""

    losses: object  # layouts
    sums: object
    labels: object
    scratch: object
    forward: object  # kernel; backward has one for each way to treat infinities
    described: tuple  # by how far the gradients of losses lie apart: 0 (one of all) or 1
    lengths: bytes


def _plan(key):
    log_probs, target, lengths, blank = key
    (times, samples, classes), dtype, device = log_probs.shape, log_probs.dtype, log_probs.device
    states = 2 * max(lengths[1::3]) + 1
    losses = vector_layout(samples, dtype, device)
    if not device.runtime.computes:
        sums = dense_layout((samples, times, states), dtype, device)
        return Plan(losses, sums, None, None, None, (), b"")
    if dtype not in (d.float32, d.float64):
        raise errors.not_implemented("ctc_loss_cpu", dtype)
    lanes = device.runtime.target().vector_bytes // dtype.itemsize
    row = FRONT + (-(-states // lanes) + 1) * lanes  # whole vectors, and room behind
    per_chunk = max(1, WORK // max(1, times * (4 * states + classes)))
    time_stride, sample_stride = [s * log_probs.itemsize for s in log_probs.strides[:2]]
    chunks = chunks_of(samples, per_chunk)
    words = Alignments(
        chunks, samples, per_chunk, times, classes, row, time_stride, sample_stride, blank, 0
    )
    return Plan(
        losses,
        dense_layout((samples, times, row), dtype, device),
        vector_layout(samples * row, d.int32, device),
        vector_layout(samples * 3 * row, dtype, device),
        device.runtime.kernel("ctc_forward", "ctc:build_forward", dtype.code, target.code),
        (packed(words), packed(words._replace(step=1))),
        array("q", lengths).tobytes(),
    )


PLANS = Plans(_plan, room=128)


def _lengths(plan, like):
    """Where kernels find the lengths: in place, or in memory of the device of some tensor."""
    if like.device.runtime.is_host:
        return place_of(plan.lengths)
    memory = brought(place_of(plan.lengths), len(plan.lengths), like.device)
    return memory.pointer  # work that is asked for next comes after this kernel


@launches("ctc")
def ctc(log_probs, targets, lengths, blank, zero_infinity):
    log_probs, targets = _side_by_side(log_probs), contiguous(targets)
    plan = PLANS[log_probs._layout, targets._layout.dtype, lengths, blank]
    losses, sums = empty_like_layout(plan.losses), empty_like_layout(plan.sums)
    if plan.forward is not None:
        labels = empty_like_layout(plan.labels)
        pointers = [address(t) for t in (losses, sums, log_probs)]
        rest = _lengths(plan, losses), address(targets), address(labels)
        if plan.forward(plan.described[1], *pointers, *rest) is not None:
            raise RuntimeError(f"ctc_loss: targets must be in [0, {log_probs.shape[2]})")
    return losses, sums


@launches("ctc_gradient")
def ctc_gradient(g, log_probs, targets, lengths, blank, zero_infinity, losses, sums):
    out = empty_like_layout(dense_like(log_probs._layout))
    log_probs, targets = _side_by_side(log_probs), contiguous(targets)
    code = targets._layout.dtype
    plan = PLANS[log_probs._layout, code, lengths, blank]
    if plan.forward is None:
        return out
    step = g._layout.strides[0]
    if step not in (0, 1):
        g, step = contiguous(g), 1
    labels, scratch = map(empty_like_layout, (plan.labels, plan.scratch))
    facts = log_probs.dtype.code, code.code, zero_infinity
    run = g.device.runtime.kernel("ctc_backward", "ctc:build_backward", *facts)
    pointers = [address(t) for t in (out, g, losses, sums, log_probs)]
    rest = [address(t) for t in (targets, labels, scratch)]
    run(plan.described[step], *pointers, _lengths(plan, out), *rest)
    return out
