"""Losses with a margin: rankings, hinges, triplets, scores per class.

Those of single elements are rows marked `@loss` (see `losses_rows.py`) and summed in the kernel
that computes them; those that compare the scores of a row with each other work on whole tensors,
with derivatives of their own, so that what a row of comparisons needs is gone when it is done.
"""

import numbers

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import broadcast_shape
from flambeau.codegen import scalar as m
from flambeau.ops.losses import (
    fit,
    logit_loss,
    old_reduction,
    reduce_tensor,
    reduction_number,
    same_shape,
)
from flambeau.ops.losses_rows import MEAN, NONE, SUM, first_dtype, loss, reduced
from flambeau.ops.rules import promoted
from flambeau.ops.support import refuse_gradient
from flambeau.ops.table import OptionalTensor, composite, public, template

NN = "nn.functional"
TINY = 1e-12  # keeps the cosine of vectors of zeros away from a division by zero


# -- single elements -------------------------------------------------------------------------------


def _soft_slope(input, target):
    return -target * m.sigmoid(-target * input)


@loss(
    dtype=first_dtype,
    node="SoftMarginLossBackward0",
    grad={"input": lambda g, input, target: _soft_slope(input, target) * g},
)
def soft_margin(input, target):
    """log(1 + exp(-target * input))."""
    return m.log1p(m.exp(-target * input))


@composite(namespace=NN, variants="", python=False)
def soft_margin_loss(
    input, target, size_average: object = None, reduce: object = None, reduction: str = "mean"
):
    """log(1 + exp(-target * input)) for targets of 1 and -1."""
    number = reduction_number(reduction, size_average, reduce)
    refuse_gradient("soft_margin_loss", target=target)
    if input.dtype.name == "bool":
        input.neg()  # for its complaint
    if target.dtype.category > input.dtype.category or input.dtype.category < 2:
        wide = target.dtype if target.dtype.category >= 2 else input.new_empty(0).exp().dtype
        raise errors.cannot_cast(wide, input.dtype)
    if input.shape != target.shape:
        fit(input.shape, broadcast_shape(input.shape, target.shape))
        target = target.expand(input.shape)
    if input.dtype.is_complex:
        return reduce_tensor((-target * input).exp().log1p().to(input.dtype), number)
    return reduced("soft_margin", number, input, target)


def _hinge_slope(input, target, margin):
    one = m.where(input == input, 1, input)  # in the dtype of input, and nan of nan
    repel = (target != 1) & (margin - input >= 0)
    return m.where(target == -1, 0, one) - m.where(repel, one, 0)


@loss(
    dtype=first_dtype,
    node="AddBackward0",
    total_node="MeanBackward0",
    grad={"input": lambda g, input, target, margin: _hinge_slope(input, target, margin) * g},
)
def hinge(input, target, margin: float):
    """input where the target is 1; what is missing to the margin where it is -1."""
    near = m.where(target == -1, 0.0, input)
    return near + m.where(target == 1, 0.0, m.maximum(margin - input, 0.0))


def _hinges(input, target, margin, number):
    if input.dtype.is_floating_point and target.dtype.is_floating_point:
        if input.shape != target.shape:
            target, input = same_shape(target, input)
        d.check_fits(margin, input.dtype)
        return reduced("hinge", number, input, target, margin=float(margin))
    if input.dtype.category == d.INTEGER:  # so is the margin, and what is missing wraps around
        margin = int(d.check_fits(margin, input.dtype))
    short = (margin - input).clamp(min=0)
    value = m.where(target == -1, 0, input) + m.where(target == 1, 0, short)
    return reduce_tensor(value.to(input.dtype), number)


@composite(variants="function")
def hinge_embedding_loss(input, target, margin: float = 1.0, reduction: int = 0):
    """Distances where the target is 1, what they lack to the margin where it is -1."""
    return _hinges(input, target, margin, reduction if reduction in (1, 2) else 0)


@composite(namespace=NN, variants="", python=False)
def functional_hinge_embedding_loss(
    input,
    target,
    margin: float = 1.0,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
):
    """Distances where the target is 1, what they lack to the margin where it is -1."""
    return _hinges(input, target, margin, reduction_number(reduction, size_average, reduce))


def _is_late(input1, input2, target, margin):
    return (input2 - input1) * target + margin >= 0


def _ranking_slope(sign):
    def slope(g, input1, input2, target, margin):
        return m.where(_is_late(input1, input2, target, margin), target * sign * g, target * 0)

    return slope


@loss(
    dtype=promoted,
    node="ClampMinBackward0",
    total_node="MeanBackward0",
    grad=dict(
        input1=_ranking_slope(-1.0),
        input2=_ranking_slope(1.0),
        target=lambda g, input1, input2, target, margin: m.where(
            _is_late(input1, input2, target, margin), (input2 - input1) * g, target * 0
        ),
    ),
)
def ranking(input1, input2, target, margin: float):
    """How far input1 is from being target times larger than input2 by a margin."""
    return m.maximum((input2 - input1) * target + margin, 0.0)


def _rankings(input1, input2, target, margin, number):
    tensors = (input1, input2, target)
    dtypes = {t.dtype for t in tensors}
    if len(dtypes) > 1 or not input1.dtype.is_floating_point:
        value = ((input1 - input2) * -target + float(margin)).clamp(min=0)
        return reduce_tensor(value, number)
    shape = broadcast_shape(broadcast_shape(input1.shape, input2.shape), target.shape)
    tensors = [t if t.shape == shape else t.expand(shape) for t in tensors]
    return reduced("ranking", number, *tensors, margin=float(margin))


@composite(variants="function")
def margin_ranking_loss(input1, input2, target, margin: float = 0.0, reduction: int = 0):
    """How far pairs are from the order that the target (1 or -1) asks for."""
    number = reduction if reduction in (MEAN, SUM) else NONE
    return _rankings(input1, input2, target, margin, number)


@composite(namespace=NN, variants="")
def functional_margin_ranking_loss(
    input1,
    input2,
    target,
    margin: float = 0.0,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
):
    """How far pairs are from the order that the target (1 or -1) asks for."""
    number = reduction_number(reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return _rankings(input1, input2, target, margin, number)


# -- vectors ---------------------------------------------------------------------------------------


def _cosines(input1, input2, target, margin, number):
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not input1.ndim == input2.ndim == target.ndim + 1:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found "
            f"inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    product = (input1 * input2).sum(-1)
    squares = ((input1 * input1).sum(-1) + TINY) * ((input2 * input2).sum(-1) + TINY)
    cosine = product / squares.sqrt()
    apart = m.where(target == -1, (cosine - float(margin)).clamp(min=0), 0.0)
    return reduce_tensor(m.where(target == 1, 1 - cosine, 0.0) + apart, number)


@composite(variants="function")
def cosine_embedding_loss(input1, input2, target, margin: float = 0.0, reduction: int = 0):
    """1 - cosine of pairs with target 1, cosine above the margin of pairs with target -1."""
    number = reduction if reduction in (MEAN, SUM) else NONE
    return _cosines(input1, input2, target, margin, number)


@composite(namespace=NN, variants="", python=False)
def functional_cosine_embedding_loss(
    input1,
    input2,
    target,
    margin: float = 0.0,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
):
    """1 - cosine of pairs with target 1, cosine above the margin of pairs with target -1."""
    number = reduction_number(reduction, size_average, reduce)
    return _cosines(input1, input2, target, margin, number)


def _check_triplet(anchor, positive, negative):
    a, p, n = anchor.ndim, positive.ndim, negative.ndim
    if not a == p == n:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {a}D, positive {p}D, and negative {n}D inputs"
        )


def _triplets(distance, anchor, positive, negative, margin, swap, number):
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = public("minimum")(far, distance(positive, negative))
    return reduce_tensor((near - far + margin).clamp(min=0), number)


def _norm_distance(p, eps):
    return lambda a, b: (a - b + eps).norm(p, -1)


@composite(variants="function")
def triplet_margin_loss(
    anchor,
    positive,
    negative,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
):
    """How much nearer the positive is to the anchor than the negative, short of a margin."""
    _check_triplet(anchor, positive, negative)
    distance = _norm_distance(p, eps)
    return _triplets(distance, anchor, positive, negative, margin, swap, reduction)


@composite(namespace=NN, variants="")
def functional_triplet_margin_loss(
    anchor,
    positive,
    negative,
    margin: object = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
):
    """How much nearer the positive is to the anchor than the negative, short of a margin."""
    number = reduction_number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    given = anchor, positive, negative, margin, p, eps, swap
    return public("triplet_margin_loss")(*given, number)


@composite(namespace=NN, variants="")
def triplet_margin_with_distance_loss(
    anchor,
    positive,
    negative,
    *,
    distance_function: object = None,
    margin: object = 1.0,
    swap: object = False,
    reduction: str = "mean",
):
    """triplet_margin_loss with a distance of one's own."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    _check_triplet(anchor, positive, negative)
    distance = distance_function
    if distance is None:
        distance = _norm_distance(2.0, 1e-6)
    number = reduction_number(reduction)
    return _triplets(distance, anchor, positive, negative, margin, swap, number)


# -- scores per class ------------------------------------------------------------------------------


def _spread(g, shape, reduction):
    """The gradient of a reduced loss as one per sample; shape is (samples, classes)."""
    samples, classes = shape
    g = g.reshape(-1, 1) if reduction == NONE else g
    return g / (classes * samples if reduction == MEAN else classes)


def _multi_margin_parts(input, target, p, margin, weight):
    """What is missing to the margin, per class, and the weight of each sample."""
    own = input.gather(1, target)
    short = (margin - own + input).clamp(min=0).scatter(1, target, 0)
    return short, None if weight is None else weight[target]


@composite("multi_margin_gradient", variants="")
def multi_margin_gradient(
    g, input, target, p: int, margin: float, weight: OptionalTensor, reduction: int
):
    """The gradient of multi_margin with respect to input."""
    short, factor = _multi_margin_parts(input, target, p, margin, weight)
    slope = (short > 0).to(input.dtype) if p == 1 else short * 2
    slope = slope if factor is None else slope * factor
    # the derivative of the own score is minus that of all others together
    slope = slope.scatter(1, target, -slope.sum(1, keepdim=True))
    return slope * _spread(g, input.shape, reduction)


@template(
    "multi_margin",
    variants="",
    node="MultiMarginLossBackward0",
    grad={
        "input": lambda g, input, target, p, margin, weight, reduction: multi_margin_gradient(
            g, input, target, p, margin, weight, reduction
        )
    },
    flat=True,
)
def multi_margin(input, target, p: int, margin: float, weight: OptionalTensor, reduction: int):
    """What scores lack to be a margin below the score of the target; target is a column."""


def _check_scores(input):
    if input.ndim > 2 or (input.ndim and not input.shape[-1]):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )


def _check_types(function, input, target, weight=None):
    if input.dtype.name not in ("float32", "float64"):
        raise errors.not_implemented(function, input.dtype)
    if target.dtype.name != "int64":
        raise RuntimeError(f"expected scalar type Long but found {target.dtype.scalar_name}")
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {weight.dtype.scalar_name}"
        )


@composite(namespace=NN, variants="")
def multi_margin_loss(
    input,
    target,
    p: object = 1,
    margin: float = 1.0,
    weight: OptionalTensor = None,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
):
    """What scores lack to be a margin below the score of the target class, to the power p."""
    number = reduction_number(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    if not hasattr(target, "_layout"):
        raise TypeError(
            "multi_margin_loss(): argument 'target' (position 2) must be Tensor, not "
            f"{errors.kind_name(target)}"
        )
    if not isinstance(margin, numbers.Number):
        raise TypeError(
            "multi_margin_loss(): argument 'margin' (position 4) must be Number, not "
            f"{errors.kind_name(margin)}"
        )
    _check_scores(input)
    samples = input.shape[0] if input.ndim == 2 else 1
    if target.ndim > 1 or target.numel() != samples:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{samples}], but got "
            f"{list(target.shape)}. Input has shape {list(input.shape)}."
        )
    classes = input.shape[-1] if input.ndim else 1
    if weight is not None and weight.shape[0] != classes:
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    _check_types("multi_margin_loss_cpu_kernel", input, target, weight)
    refuse_gradient("multi_margin_loss", weight=weight)
    scores = input if input.ndim == 2 else input.reshape(samples, classes)
    found = multi_margin(scores, target.reshape(-1, 1), int(p), float(margin), weight, number)
    return found if number != NONE or target.ndim else found.reshape(())


def _is_outside(target, low, high):
    """Is any target below low, or not below high?"""
    if not target.device.runtime.computes or not target.numel():
        return False
    least, most = target.aminmax()
    return least.item() < low or most.item() >= high


def _labels(target, classes, dtype):
    """(is a class no target?, is a place before the first -1?), as numbers of dtype."""
    valid = (target >= 0).to(dtype).cumprod(1)
    marks = valid.new_zeros((target.shape[0], classes))
    marks = marks.scatter_add(1, target.clamp(min=0), valid)
    return (marks == 0).to(dtype), valid


def _comparisons(input, target):
    """(place, own scores, what the others are above them less the margin) for each target."""
    others, valid = _labels(target, input.shape[1], input.dtype)
    longest = int(valid.sum(1).max().item()) if target.numel() else 0
    for k in range(longest):
        place = target[:, k : k + 1].clamp(min=0)
        short = (1 - input.gather(1, place) + input).clamp(min=0)
        yield place, m.where((others * valid[:, k : k + 1]) != 0, short, 0)


def _multilabel_gradient(g, input, target, reduction):
    total = input.new_zeros(input.shape)
    for place, short in _comparisons(input.detach(), target):
        hit = (short > 0).to(input.dtype)
        total = (total + hit).scatter_add(1, place, -hit.sum(1, keepdim=True))
    return total * _spread(g, input.shape, reduction)


@composite(
    variants="",
    node="MultilabelMarginLossBackward0",
    grad={"input": _multilabel_gradient},
    flat=True,
)
def multilabel_margin(input, target, reduction: int):
    """What the scores of other classes lack to be 1 below those of the targets."""
    total = input.new_zeros(input.shape[0])
    for _, short in _comparisons(input, target):
        total = total + short.sum(1)
    return reduce_tensor(total / input.shape[1], reduction)


@composite(namespace=NN, variants="", python=False)
def multilabel_margin_loss(
    input, target, size_average: object = None, reduce: object = None, reduction: str = "mean"
):
    """What the scores of other classes lack to be 1 below those of the targets.

    Args:
        target: the numbers of the target classes, up to the first -1.
    """
    number = reduction_number(reduction, size_average, reduce)
    _check_scores(input)
    if target.shape != input.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    classes = input.shape[-1] if input.ndim else 1
    if target.dtype.is_complex:
        raise errors.not_implemented("min_all", target.dtype)
    if _is_outside(target, -1, classes):
        raise RuntimeError("argument #2 'target' is out of range")
    _check_types("multilabel_margin_loss_forward_out_frame", input, target)
    shape = (-1 if input.numel() else 0, classes)
    found = multilabel_margin(input.reshape(shape), target.reshape(shape), number)
    return found if number != NONE or input.ndim == 2 else found.reshape(())


@composite(namespace=NN, variants="", numbers=True)
def multilabel_soft_margin_loss(
    input,
    target: object,
    weight: OptionalTensor = None,
    size_average: object = None,
    reduce: object = None,
    reduction: object = "mean",
):
    """Cross entropy of each class with its own sigmoid, averaged over classes."""
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("log_sigmoid_cpu", input.dtype)
    if not input.ndim:
        raise errors.no_dimensions(-1)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    classes = input.shape[-1]
    alike = hasattr(target, "dtype") and (input.dtype, input.shape) == (target.dtype, target.shape)
    if alike and weight is None and reduction == "mean":
        return logit_loss(input, target, None, None, MEAN)
    if alike and weight is None and reduction == "sum":
        return logit_loss(input, target, None, None, SUM) / classes
    if alike:
        value = logit_loss(input, target, None, None, NONE)
    else:
        near, far = public("logsigmoid")(input), public("logsigmoid")(-input)
        value = -(target * near + (1 - target) * far)
    value = value if weight is None else value * weight
    # broadcast or not: over the dimension that has this number in the input
    return reduce_tensor(value.sum(input.ndim - 1) / classes, reduction_number(reduction))


for _row in (
    functional_hinge_embedding_loss,
    functional_margin_ranking_loss,
    functional_cosine_embedding_loss,
    functional_triplet_margin_loss,
):
    _row.name = _row.name.removeprefix("functional_")  # what messages call them
