"""Launching ctc_loss: sums over alignments, and their gradient.

Kernels (`codegen/templates/ctc.py`) take a few samples per chunk and keep a row of states for every
time step, which backward reads again. Checks are in `ops/ctc.py`.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import Size, dense_layout
from flambeau._tensor import empty_like_layout, empty_tensor
from flambeau.eager.launching import launches
from flambeau.eager.kernels import load_kernel, pool
from flambeau.eager.rows import address, contiguous
from flambeau.runtime.cpu import words

WORK = 1 << 15  # states and classes that are worth a chunk

MOST_PLANS = 256

_kernels: dict = {}
_plans: dict = {}


def _templates():
    from flambeau.codegen.templates import ctc  # with llvmlite, on first need

    return ctc


def _kernel(name, *facts):
    found = _kernels.get((name, *facts))
    if found is None:
        ir = getattr(_templates(), "build_" + name)(*facts)
        found = _kernels[name, *facts] = load_kernel(ir, "ctc_" + name)
    return found


def _side_by_side(t):
    """Log probabilities whose classes lie side by side."""
    return t if t._layout.strides[2] == 1 or t._layout.shape[2] == 1 else contiguous(t)


class _Plan:
    """A launch for given layouts and lengths; both kernels share it."""

    __slots__ = ("description", "labels", "lengths", "losses", "owners", "row", "scratch", "sums")

    def __init__(self, log_probs, lengths, blank):
        times, samples, classes = log_probs.shape
        dtype, device = log_probs.dtype, log_probs.device
        states = 2 * max(lengths[1::3]) + 1
        self.row = row = _templates().row_length(states, dtype.code)
        per_chunk = max(1, WORK // max(1, times * (4 * states + classes)))
        strides = [s * log_probs.itemsize for s in log_probs.strides[:2]]
        chunks = -(-samples // per_chunk)
        # the last word is how far the gradients of losses lie apart: 1, or 0 for one of all
        facts = [chunks, samples, per_chunk, times, classes, row, *strides, blank]
        dense, expanded, words_of_lengths = words([*facts, 1]), words([*facts, 0]), words(lengths)
        self.description = expanded[1], dense[1]
        self.lengths = words_of_lengths[1]
        self.owners = dense, expanded, words_of_lengths
        self.losses = dense_layout(Size((samples,)), dtype, device)
        self.sums = dense_layout(Size((samples, times, row)), dtype, device)
        self.labels = dense_layout(Size((samples * row,)), d.int32, device)
        self.scratch = dense_layout(Size((samples * 3 * row,)), dtype, device)
        if chunks > 1:
            pool().ensure_workers()


def _plan(log_probs, lengths, blank):
    key = (log_probs._layout, lengths, blank)
    found = _plans.get(key)
    if found is None:
        if len(_plans) > MOST_PLANS:
            _plans.clear()
        found = _plans[key] = _Plan(*key)
    return found


@launches("ctc")
def ctc(log_probs, targets, lengths, blank, zero_infinity):
    layout = log_probs._layout
    if layout.device.type != "cpu":
        (times, samples, _), states = layout.shape, 2 * max(lengths[1::3]) + 1
        shapes = Size((samples,)), Size((samples, times, states))
        return tuple(empty_tensor(s, layout.dtype, layout.device) for s in shapes)
    if layout.dtype not in (d.float32, d.float64):
        raise errors.not_implemented("ctc_loss_cpu", layout.dtype)
    log_probs, targets = _side_by_side(log_probs), contiguous(targets)
    plan = _plan(log_probs, lengths, blank)
    losses, sums, labels = map(empty_like_layout, (plan.losses, plan.sums, plan.labels))
    run = _kernel("forward", layout.dtype.code, targets._layout.dtype.code)
    pointers = [address(t) for t in (losses, sums, log_probs)]
    rest = plan.lengths, address(targets), address(labels)
    if run(plan.description[1], *pointers, *rest) is not None:
        raise RuntimeError(f"ctc_loss: targets must be in [0, {layout.shape[2]})")
    return losses, sums


@launches("ctc_gradient")
def ctc_gradient(g, log_probs, targets, lengths, blank, zero_infinity, losses, sums):
    layout = log_probs._layout
    out = empty_tensor(layout.shape, layout.dtype, layout.device)
    if layout.device.type != "cpu":
        return out
    log_probs, targets = _side_by_side(log_probs), contiguous(targets)
    plan = _plan(log_probs, lengths, blank)
    step = g._layout.strides[0]
    if step not in (0, 1):
        g, step = contiguous(g), 1
    labels, scratch = map(empty_like_layout, (plan.labels, plan.scratch))
    run = _kernel("backward", layout.dtype.code, targets._layout.dtype.code, zero_infinity)
    pointers = [address(t) for t in (out, g, losses, sums, log_probs)]
    rest = [address(t) for t in (targets, labels, scratch)]
    run(plan.description[step], *pointers, plan.lengths, *rest)
    return out
