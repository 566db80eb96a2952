"""cross_entropy and nll_loss: class numbers, class probabilities, weights, smoothed labels.

Rows of scores against class numbers are one kernel forward and one backward, without
log-probabilities in between; k-dimensional scores go through log_softmax and a kernel that picks.
The bodies of the backward rows say the same in other ops, for second derivatives. Other losses live
elsewhere.
"""

import math
import warnings

from flambeau import errors
from flambeau._dtype import int64, uint8
from flambeau.codegen import scalar as m
from flambeau.ops.softmax import _log_softmax
from flambeau.ops.support import refuse_gradient
from flambeau.ops.table import OptionalTensor, composite, public, template

_REDUCTIONS = frozenset(("none", "mean", "sum"))


def _kept_classes(target, weight, ignore_index, like):
    """(class numbers that can be used as such, weight of each, 0 where ignored)."""
    kept = target != ignore_index
    classes = m.where(kept, target, 0).long()
    weights = kept.to(like.dtype)
    return classes, weights if weight is None else weights * weight[classes]


def _spread(g, weights, reduction):
    """The gradient of each position's loss."""
    return g * weights / weights.sum() if reduction == "mean" else g * weights


@composite("cross_entropy_rows_backward", variants="")
def _cross_entropy_rows_backward(
    g, input, target, weight: OptionalTensor, statistics, ignore_index: int, reduction: str
):
    """Gradient of cross entropy: softmax less one at the class, scaled."""
    classes, weights = _kept_classes(target, weight, ignore_index, input)
    one_hot = public("zeros_like")(input.detach()).scatter(1, classes.unsqueeze(1), 1.0)
    return (input.softmax(1) - one_hot) * _spread(g, weights, reduction).unsqueeze(1)


@template(
    "cross_entropy_rows",
    variants="",
    outputs=2,
    node="NllLossBackward0",
    grad=lambda g, input, target, weight, out1, ignore_index, reduction: (
        _cross_entropy_rows_backward(g, input, target, weight, out1, ignore_index, reduction)
    ),
)
def _cross_entropy_rows(input, target, weight: OptionalTensor, ignore_index: int, reduction: str):
    """Cross entropy of scores (rows x classes), and the numbers that its backward wants."""


@composite("cross_entropy_wide_backward", variants="")
def _cross_entropy_wide_backward(
    g, input, target, weight: OptionalTensor, statistics, ignore_index: int, reduction: str
):
    """The same where the loss is in float32 and the scores are not."""
    given = g, input.to(g.dtype), target, weight, statistics, ignore_index, reduction
    return _cross_entropy_rows_backward(*given).to(input.dtype)


@template(
    "cross_entropy_wide",
    variants="",
    outputs=2,
    node="NllLossBackward0",
    grad=lambda g, input, target, weight, out1, ignore_index, reduction: (
        _cross_entropy_wide_backward(g, input, target, weight, out1, ignore_index, reduction)
    ),
)
def _cross_entropy_wide(input, target, weight: OptionalTensor, ignore_index: int, reduction: str):
    """Cross entropy of half scores in float32, as if they had been cast; on GPUs."""


def of_halves(input, target, ignore_index=-100, reduction="mean"):
    """cross_entropy(input.float(), target), without scores in float32 in memory; None if this is
    not for rows of scores and class numbers.
    """
    own, classes = input._layout, target._layout
    if own.ndim != 2 or classes.ndim != 1 or classes.dtype is not int64 or own.itemsize != 2:
        return None
    if reduction not in _REDUCTIONS or own.device.type != "cuda" or not own.numel:
        return None
    return _cross_entropy_wide(input, target, None, ignore_index, reduction)[0]


@composite("nll_loss_positions_backward", variants="")
def _nll_loss_backward(
    g, input, target, weight: OptionalTensor, statistics, ignore_index: int, reduction: str
):
    """Gradient of nll_loss: minus the weight, at the class."""
    classes, weights = _kept_classes(target, weight, ignore_index, input)
    slopes = -_spread(g, weights, reduction).unsqueeze(1)
    return public("zeros_like")(input.detach()).scatter(1, classes.unsqueeze(1), slopes)


def _picked_gradient(g, input, target, weight, out1, ignore_index, reduction):
    return _nll_loss_backward(g, input, target, weight, out1, ignore_index, reduction)


@template("nll_loss_positions", variants="", outputs=2, node="NllLossBackward0",
          grad=_picked_gradient, flat=True)  # fmt: skip
def _nll_loss(input, target, weight: OptionalTensor, ignore_index: int, reduction: str):
    """Minus the log-probability of each row's class, and the total weight."""


@template("nll_loss_positions", variants="", outputs=2, node="NllLoss2DBackward0",
          grad=_picked_gradient, flat=True)  # fmt: skip
def _nll_loss2d(input, target, weight: OptionalTensor, ignore_index: int, reduction: str):
    """The same for batch x classes x positions of any number of dimensions."""


def legacy_reduction(size_average, reduce):
    """The reduction that the old arguments mean."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    found = ("mean" if size_average else "sum") if reduce else "none"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{found}' instead.",
        stacklevel=4,
    )
    return found


def _check_reduction(reduction):
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")


# All but the choice of a reduction is in C++ there: the parser's complaints come first.
@composite(variants="", namespace="nn.functional", python=False)
def nll_loss(
    input,
    target,
    weight: OptionalTensor = None,
    size_average: object = None,
    ignore_index: int = -100,
    reduce: object = None,
    reduction: str = "mean",
):
    """Minus the log-probability (input: batch x classes x ...) of the target classes."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    _check_reduction(reduction)
    return _pick(input, target, weight, ignore_index, reduction)


def _check_constant(input, weight):
    if weight is not None:
        what = "nll_loss_forward" if input.ndim < 3 else "nll_loss2d_forward"
        refuse_gradient(what, weight=weight)


def _pick(input, target, weight, ignore_index, reduction):
    if input.ndim == 2 and target.ndim:
        if input.shape[0] == target.shape[0]:  # else that is what is complained about
            _check_constant(input, weight)
        return _nll_loss(input, target, weight, ignore_index, reduction)[0]
    if input.ndim < 2:
        if not input.ndim:
            raise ValueError("Expected 1 or more dimensions (got 0)")
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.numel() != 1:
            _check_classes(target)
            raise ValueError(
                f"For 1D input, 1D target must have size 1, but got target size: {target.numel()}"
            )
        _check_constant(input, weight)
        one, classes = input.unsqueeze(0), target.reshape(1)
        found = _nll_loss(one, classes, weight, ignore_index, reduction)[0]
        return found.squeeze(0) if reduction == "none" and not target.ndim else found
    if not target.ndim or input.shape[0] != target.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size "
            f"({target.shape[0] if target.ndim else 0})."
        )
    _check_constant(input, weight)
    if input.ndim != 4 and target.shape[1:] != input.shape[2:]:
        wanted = [input.shape[0], *input.shape[2:]]
        raise RuntimeError(f"Expected target size {wanted}, got {list(target.shape)}")
    found = _nll_loss2d(input, target, weight, ignore_index, reduction)[0]
    # PyTorch flattens positions that are not two-dimensional, and puts them back in the end
    return found.view(target.shape) if reduction == "none" and input.ndim != 4 else found


@composite(variants="", namespace="nn.functional", python=False)
def cross_entropy(
    input,
    target,
    weight: OptionalTensor = None,
    size_average: object = None,
    ignore_index: int = -100,
    reduce: object = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
):
    """Minus the log-softmax of scores (batch x classes x ...) at the target classes.

    target holds class numbers, or the probabilities of all classes in the shape of input.
    """
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    ndim = input._layout.ndim
    plain = ndim == 2 and target._layout.ndim == 1 and label_smoothing == 0.0
    if plain and reduction in _REDUCTIONS:
        if weight is not None and input.shape[0] == target.shape[0]:
            _check_constant(input, weight)
        return _cross_entropy_rows(input, target, weight, ignore_index, reduction)[0]
    _check_reduction(reduction)
    if input.shape == target.shape:
        return _of_probabilities(input, target, weight, ignore_index, reduction, label_smoothing)
    if label_smoothing > 0.0:
        return _smoothed(input, target, weight, ignore_index, reduction, label_smoothing)
    scores = _log_softmax(input, 0 if ndim == 1 else 1, False)
    return _pick(scores, target, weight, ignore_index, reduction)


def _check_smoothing(label_smoothing):
    if label_smoothing > 1.0:  # below 0, or nan: PyTorch takes it for none
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")


def _class_weights(weight, scores, dim):
    """Weights that multiply scores along the dimension of classes."""
    classes = scores.shape[dim]
    if weight.ndim != 1 or weight.shape[0] != classes:
        raise RuntimeError(
            "cross_entropy: weight tensor should be defined either for all "
            f"{classes} classes or no classes but got weight tensor of shape: {list(weight.shape)}"
        )
    return weight.view([classes if k == dim else 1 for k in range(scores.ndim)])


def _of_probabilities(input, target, weight, ignore_index, reduction, label_smoothing):
    dim = 0 if input.ndim == 1 else 1
    _check_smoothing(label_smoothing)
    if not target.dtype.is_floating_point:
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{target.dtype.scalar_name}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    scores = _log_softmax(input, dim, False)
    classes = input.shape[dim]
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    products = scores * target
    if weight is not None:
        products = products * _class_weights(weight, scores, dim)
    if reduction == "none":
        return -products.sum(dim)
    if reduction == "sum":
        return -products.sum()
    if not input.numel():
        return -products.sum() * math.nan
    return -products.sum() / (input.numel() // classes)


def _smoothed(input, target, weight, ignore_index, reduction, label_smoothing):
    dim = 0 if input.ndim == 1 else 1
    _check_smoothing(label_smoothing)
    scores = _log_softmax(input, dim, False)
    picked = _pick(scores, target, weight, ignore_index, reduction)
    spread = scores
    if weight is not None:
        spread = scores * _class_weights(weight, scores, dim)
    spread = -spread.sum(dim)
    kept = target != ignore_index
    spread = spread.masked_fill(~kept, 0.0)
    if reduction == "sum":
        spread = spread.sum()
    elif reduction == "mean":
        if weight is None:
            spread = spread.sum() / kept.sum()
        else:
            spread = spread.sum() / _kept_classes(target, weight, ignore_index, scores)[1].sum()
    return picked * (1 - label_smoothing) + spread * (label_smoothing / input.shape[dim])


def _check_classes(target):
    if target.dtype not in (int64, uint8):
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {target.dtype.scalar_name}"
        )


def check_layouts(name, input, target, weight):
    """Complain about layouts that do not fit together."""
    classes = input.sizes[1]
    if name != "nll_loss" and not input.dtype.is_floating_point:
        raise errors.not_implemented("log_softmax_lastdim_kernel_impl", input.dtype)
    if input.ndim == 2:
        if input.sizes[0] != target.sizes[0]:
            raise ValueError(
                f"Expected input batch_size ({input.shape[0]}) to match target batch_size "
                f"({target.shape[0]})."
            )
        if target.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if weight is not None and weight.shape != (classes,):
            raise RuntimeError(
                f"weight tensor should be defined either for all {classes} classes or no classes "
                f"but got weight tensor of shape: {list(weight.shape)}"
            )
    else:
        if target.ndim != input.ndim - 1:
            raise RuntimeError(
                "only batches of spatial targets supported (3D tensors) but got targets of "
                f"dimension: {target.ndim}"
            )
        if target.shape != (input.shape[0], *input.shape[2:]):
            raise RuntimeError(
                f"size mismatch (got input: {list(input.shape)} , target: {list(target.shape)}"
            )
        if weight is not None and weight.numel != classes:
            raise RuntimeError("weight tensor should be defined either for all or no classes")
    _check_classes(target)
    if not input.dtype.is_floating_point:
        kernel = "nll_loss_out_frame" if input.ndim == 2 else "nll_loss2d_forward_out_frame"
        raise errors.not_implemented(kernel, input.dtype)
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {weight.dtype.scalar_name}"
        )
