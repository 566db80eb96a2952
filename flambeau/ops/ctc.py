"""Connectionist temporal classification: the loss of sequences without alignment.

`ctc_loss` here is torch's (the reduction is a number), that of nn.functional is below it. The sums
over alignments and their gradient are rows with kernels of their own (`eager/ctc.py`).
"""

import itertools

from flambeau.codegen import scalar as m
from flambeau.ops.losses import reduction_number
from flambeau.ops.losses_rows import MEAN, SUM
from flambeau.ops.support import not_implemented_derivative
from flambeau.ops.table import composite, public, remembered, template


@template(
    "ctc",
    variants="",
    outputs=2,
    node="CtcLossBackward0",
    grad={
        "log_probs": lambda g, log_probs, targets, lengths, blank, zero_infinity, out0, out1: (
            alignment_gradient(g, log_probs, targets, lengths, blank, zero_infinity, out0, out1)
        )
    },
)
def alignments(log_probs, targets, lengths: object, blank: int, zero_infinity: bool):
    """Losses per sample, and the log sums they came from.

    lengths: input length, target length and place of the target, per sample, in a tuple.
    """


@template(
    "ctc_gradient",
    variants="",
    node="CtcLossBackwardBackward0",
    grad={
        "g": not_implemented_derivative("_ctc_loss_backward"),
        "log_probs": not_implemented_derivative("_ctc_loss_backward"),
    },
)
def alignment_gradient(
    g, log_probs, targets, lengths: object, blank: int, zero_infinity: bool, losses, sums
):
    """The gradient of log probabilities; as in PyTorch, as if they came from log_softmax."""


def _integers(*lengths):
    """Two sets of lengths as tuples, from sequences or from tensors."""
    if isinstance(lengths[0], (tuple, list)) and isinstance(lengths[1], (tuple, list)):
        return map(tuple, lengths)
    if not all(hasattr(x, "dtype") for x in lengths):
        kinds = ", ".join(type(x).__name__ for x in lengths)
        raise TypeError(
            "ctc_loss() received an invalid combination of arguments - got lengths of types "
            f"({kinds}), but expected two tuples of ints or two Tensors"
        )
    for x, name in zip(lengths, ("input", "target")):
        if x.dtype.category != 1:
            raise RuntimeError(f"{name}_lengths must be integral")
    return (tuple(x.reshape(-1).tolist()) for x in lengths)


_WHERE = "(while checking arguments for ctc_loss_allocate_outputs)"


def _check(log_probs, targets, inputs, labels, blank):
    """Complain as PyTorch does; gives the place of each sample's target."""
    if log_probs.numel == 0:
        raise RuntimeError("log_probs tensor must not be empty")
    if log_probs.ndim != 3:
        raise RuntimeError(
            f"Expected 3-dimensional tensor, but got {log_probs.ndim}-dimensional tensor for "
            f"argument #1 'log_probs' {_WHERE}"
        )
    times, samples, classes = log_probs.shape
    if not 1 <= targets.ndim <= 2:
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for argument "
            f"#2 'targets' {_WHERE}"
        )
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for lengths, name in ((inputs, "input"), (labels, "target")):
        if len(lengths) != samples:
            raise RuntimeError(f"{name}_lengths must be of size batch_size")
    for length in labels:
        if length < 0:
            raise RuntimeError(
                f"Expected target_lengths to have value at least 0, but got value {length} {_WHERE}"
            )
    longest = max(labels)
    if targets.ndim == 1:
        _check_size(targets, 0, sum(labels), "")
        places = [0, *itertools.accumulate(labels)][:-1]
    else:
        _check_size(targets, 0, samples, "")
        _check_size(targets, 1, longest, "at least ")
        places = [k * targets.shape[1] for k in range(samples)]
    for length in inputs:
        if not 0 <= length <= times:
            bound = "at least 0" if length < 0 else f"at most {times}"
            raise RuntimeError(
                f"Expected input_lengths to have value {bound}, but got value {length} {_WHERE}"
            )
    return places


def _check_size(targets, dim, size, least):
    found = targets.shape[dim]
    if found != size and not (least and found > size):
        raise RuntimeError(
            f"Expected tensor to have size {least}{size} at dimension {dim}, but got size {found} "
            f"for argument #2 'targets' {_WHERE}"
        )


@remembered
def _work_out(log_probs, targets, inputs, labels, blank, device):
    """(lengths and places in one tuple, what the mean divides by) for layouts and lengths."""
    places = _check(log_probs, targets, inputs, labels, blank)
    counts = [max(x, 1) for x in labels]
    counts = public("tensor")(counts, dtype=log_probs.dtype, device=device)
    return tuple(x for facts in zip(inputs, labels, places) for x in facts), counts


def _loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity):
    inputs, labels = _integers(input_lengths, target_lengths)
    batched = log_probs.ndim == 3
    if not batched:
        log_probs = log_probs.unsqueeze(1)
    if targets.dtype.name not in ("int64", "int32"):
        targets = targets.long()
    layouts = log_probs._layout, targets._layout
    lengths, counts = _work_out(*layouts, inputs, labels, blank, log_probs.device)
    loss = alignments(log_probs, targets, lengths, blank, zero_infinity)[0]
    if zero_infinity:
        loss = m.where(loss == float("inf"), 0.0, loss)
    if reduction == MEAN:
        return (loss / counts).mean()
    if reduction == SUM:
        return loss.sum()
    return loss if batched else loss.squeeze(0)


@composite(variants="function")
def ctc_loss(
    log_probs,
    targets,
    input_lengths: object,
    target_lengths: object,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
):
    """Minus the log probability of targets, over all their alignments with the input."""
    return _loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)


@composite(namespace="nn.functional", variants="")
def functional_ctc_loss(
    log_probs,
    targets,
    input_lengths: object,
    target_lengths: object,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
):
    """Minus the log probability of targets, over all their alignments with the input.

    Args:
        log_probs: (T, N, C) or (T, C), as log_softmax gives them.
        targets: (N, S), or all targets one after the other.
        zero_infinity: losses of targets that do not fit count as zero?
    """
    number = reduction_number(reduction)
    return _loss(log_probs, targets, input_lengths, target_lengths, blank, number, zero_infinity)


functional_ctc_loss.name = "ctc_loss"  # what messages call it
