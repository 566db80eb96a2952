"""Launching ctc_loss: sums over alignments, and their gradient.

Kernels (`codegen/templates/ctc.py`) take a few samples per chunk and keep a row of states for every
time step, which backward reads again. Checks are in `ops/ctc.py`.
"""

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import Size
from flambeau._tensor import empty_tensor
from flambeau.eager.binding import launches
from flambeau.eager.kernels import load_kernel
from flambeau.eager.rows import address, contiguous, launch
from flambeau.runtime.cpu import words

WORK = 1 << 15  # states and classes that are worth a chunk

_kernels: dict = {}


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


def _description(log_probs, lengths, blank):
    """(words of a launch, elements of a row of states)."""
    times, samples, classes = log_probs._layout.shape
    states = 2 * max(lengths[1::3]) + 1
    row = _templates().row_length(states, log_probs._layout.dtype.code)
    per_chunk = max(1, WORK // max(1, times * (4 * states + classes)))
    strides = [s * log_probs.itemsize for s in log_probs._layout.strides[:2]]
    chunks = -(-samples // per_chunk)
    return [chunks, samples, per_chunk, times, classes, row, *strides, blank], row


@launches("ctc")
def ctc(log_probs, targets, lengths, blank, zero_infinity):
    dtype, device = log_probs.dtype, log_probs.device
    times, samples, _ = log_probs.shape
    losses = empty_tensor(Size((samples,)), dtype, device)
    if device.type != "cpu":
        states = 2 * max(lengths[1::3]) + 1
        return losses, empty_tensor(Size((samples, times, states)), dtype, device)
    if dtype not in (d.float32, d.float64):
        raise errors.not_implemented("ctc_loss_cpu", dtype)
    log_probs, targets = _side_by_side(log_probs), contiguous(targets)
    description, row = _description(log_probs, lengths, blank)
    sums = empty_tensor(Size((samples, times, row)), dtype, device)
    labels = empty_tensor(Size((samples * row,)), d.int32, device)
    _owner, at = words(lengths)
    run = _kernel("forward", dtype.code, targets.dtype.code)
    pointers = [address(t) for t in (losses, sums, log_probs)]
    status, _ = launch(run, description, *pointers, at, address(targets), address(labels))
    if status is not None:
        raise RuntimeError(f"ctc_loss: targets must be in [0, {log_probs.shape[2]})")
    return losses, sums


@launches("ctc_gradient")
def ctc_gradient(g, log_probs, targets, lengths, blank, zero_infinity, losses, sums):
    dtype, device = log_probs.dtype, log_probs.device
    out = empty_tensor(log_probs.shape, dtype, device)
    if device.type != "cpu":
        return out
    log_probs, targets = _side_by_side(log_probs), contiguous(targets)
    description, row = _description(log_probs, lengths, blank)
    samples = log_probs.shape[1]
    labels = empty_tensor(Size((samples * row,)), d.int32, device)
    scratch = empty_tensor(Size((samples * 3 * row,)), dtype, device)
    _owner, at = words(lengths)
    run = _kernel("backward", dtype.code, targets.dtype.code, zero_infinity)
    pointers = [address(t) for t in (out, g, losses, sums, log_probs)]
    rest = [address(t) for t in (targets, labels, scratch)]
    launch(run, [*description, g._layout.strides[0]], *pointers, at, *rest)
    return out
