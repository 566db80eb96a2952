"""Losses that compare two tensors element by element: errors, cross entropies, likelihoods.

The functions here check what they are given, choose a row of `losses_rows.py` and reduce in it.
Losses over rows of scores, embeddings and triplets are in `losses_margin.py`; cross entropy over
classes has a file of its own. Rows called functional_... are functions of nn.functional that have
another signature in torch.
"""

import math
import sys
import warnings

from flambeau import _dtype as d
from flambeau import errors
from flambeau._layout import broadcast_shape
from flambeau.codegen import scalar as m
from flambeau.ops.losses_rows import MEAN, NONE, SUM, reduced
from flambeau.ops.support import refuse_gradient
from flambeau.ops.table import OptionalTensor, composite, public

NN = "nn.functional"


# -- arguments -------------------------------------------------------------------------------------


def warn_caller(text):
    """A warning that points at the line of the user's code that led here."""
    level, frame = 1, sys._getframe(0)
    while frame is not None and frame.f_globals.get("__name__", "flambeau").startswith("flambeau"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


_NUMBERS = {"none": NONE, "mean": MEAN, "sum": SUM}


def reduction_number(reduction, size_average=None, reduce=None):
    """PyTorch's number of a reduction, given by name or in the old way."""
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    found = _NUMBERS.get(reduction)
    if found is not None:
        return found
    if reduction == "elementwise_mean":
        warn_caller(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead."
        )
        return MEAN
    raise ValueError(f"{reduction} is not a valid value for reduction")


def old_reduction(size_average, reduce):
    """The name of what size_average and reduce ask for."""
    size_average = True if size_average is None else size_average
    name = "none" if not (reduce or reduce is None) else "mean" if size_average else "sum"
    warn_caller(
        f"size_average and reduce args will be deprecated, please use reduction='{name}' instead."
    )
    return name


def same_shape(input, target, warn=False):
    """Both tensors in their common shape."""
    if input.shape == target.shape:
        return input, target
    if warn:
        warn_caller(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )
    shape = broadcast_shape(input.shape, target.shape)
    return input.expand(shape), target.expand(shape)


def _check_weight(input, weight):
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")


def _weighted(name, input, target, weight, reduction, by_weight=True, **options):
    """A loss with a weight per element; the mean is by weight, or by elements."""
    if reduction not in _NUMBERS:
        raise ValueError(
            f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'."
        )
    number, own = _NUMBERS[reduction], weight
    if weight.shape != target.shape:
        weight = weight.expand(target.shape)
    if weight.dtype is not input.dtype or target.dtype is not input.dtype:
        value = reduced(name.removeprefix("weighted_"), NONE, input, target, **options) * weight
        by_elements = number != MEAN or not by_weight
        return reduce_tensor(value, number) if by_elements else value.sum() / own.sum()
    if number == MEAN and by_weight:  # each weight counts once, however often it was repeated
        return reduced(name, SUM, input, target, weight, **options) / own.sum()
    return reduced(name, number, input, target, weight, **options)


def fit(shape, whole):
    """Complain if a tensor of the common shape would not go into one of the given shape."""
    if shape != whole:
        raise RuntimeError(
            f"output with shape {list(shape)} doesn't match the broadcast shape {list(whole)}"
        )


# -- public functions ------------------------------------------------------------------------------


@composite(namespace=NN, variants="")
def mse_loss(
    input,
    target,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
    weight: OptionalTensor = None,
):
    """Mean of the squared differences; with a weight, the mean by weight."""
    if weight is not None and not _are_alike(input, target, weight):
        return _by_ops("square", input, target, size_average, reduce, reduction, weight)
    return _error("squared_error", input, target, size_average, reduce, reduction, weight)


@composite(namespace=NN, variants="")
def l1_loss(
    input,
    target,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
    weight: OptionalTensor = None,
):
    """Mean of the absolute differences; with a weight, the mean by weight."""
    if not _are_alike(input, target, input if weight is None else weight):
        return _by_ops("abs", input, target, size_average, reduce, reduction, weight)
    try:
        return _error("absolute_error", input, target, size_average, reduce, reduction, weight)
    except RuntimeError as error:
        if not is_unsaved(error):
            raise
        return _by_ops("abs", input, target, size_average, reduce, reduction, weight)


def _are_alike(input, target, weight):
    return input.dtype.is_floating_point and input.dtype is target.dtype is weight.dtype


def _error(name, input, target, size_average, reduce, reduction, weight):
    given = input
    if input.shape != target.shape:
        input, target = same_shape(input, target, warn=True)
    if weight is None:
        return reduced(name, reduction_number(reduction, size_average, reduce), input, target)
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    _check_weight(given, weight)
    return _weighted("weighted_" + name, input, target, weight, reduction)


def _by_ops(name, input, target, size_average, reduce, reduction, weight):
    """Integers, complex numbers and mixtures, by ordinary ops."""
    given = input
    if input.shape != target.shape:
        input, target = same_shape(input, target, warn=True)
    number = reduction_number(reduction, size_average, reduce)
    if weight is not None:
        _check_weight(given, weight)
    value = public(name)(input - target)
    if weight is not None:
        value = value * weight
        if number == MEAN:
            return value.sum() / weight.sum()
    return reduce_tensor(value, number)


def reduce_tensor(value, number):
    """A reduction of a tensor that exists already."""
    if number == MEAN:
        return value.mean()
    return value.sum() if number == SUM else value


@composite(namespace=NN, variants="")
def smooth_l1_loss(
    input,
    target,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
    beta: float = 1.0,
):
    """Absolute differences with a parabola of width beta at the bottom."""
    if input.shape != target.shape:
        input, target = same_shape(input, target, warn=True)
    number = reduction_number(reduction, size_average, reduce)
    if beta == 0:
        return l1_loss(input, target, None, None, ("none", "mean", "sum")[number])
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return reduced("smooth_absolute_error", number, input, target, beta=float(beta))


@composite(namespace=NN, variants="")
def huber_loss(
    input, target, reduction: str = "mean", delta: float = 1.0, weight: OptionalTensor = None
):
    """Half the squared differences, with lines beyond delta."""
    given = input
    if input.shape != target.shape:
        input, target = same_shape(input, target, warn=True)
    if weight is not None:
        _check_weight(given, weight)
    number = reduction_number(reduction) if weight is None else None
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    if input.dtype.is_complex and target.dtype.is_complex:
        raise errors.not_implemented("huber_cpu", input.dtype)
    if weight is None:
        return reduced("huber_error", number, input, target, delta=float(delta))
    return _weighted(
        "weighted_huber_error", input, target, weight, reduction, False, delta=float(delta)
    )


@composite(namespace=NN, variants="")
def binary_cross_entropy(
    input,
    target,
    weight: OptionalTensor = None,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
):
    """Cross entropy of targets with probabilities."""
    number = reduction_number(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    if weight is None:
        _one_dtype(input, target)
        _check_entropy(input)
        return _probable("binary_entropy", number, input, target)
    weight = weight.expand(_weight_shape(target.shape, weight.shape))
    refuse_gradient("binary_cross_entropy", weight=weight)
    _one_dtype(input, target)
    _check_entropy(input)
    fit(input.shape, weight.shape)
    if weight.dtype is input.dtype:
        return _probable("weighted_binary_entropy", number, input, target, weight)
    if weight.dtype.is_complex:
        kinds = weight.dtype.scalar_name, input.dtype.scalar_name
        raise RuntimeError(
            f"result type {kinds[0]} can't be cast to the desired output type {kinds[1]}"
        )
    value = _probable("binary_entropy", NONE, input, target) * weight
    return reduce_tensor(value.to(input.dtype), number)


def is_unsaved(error):
    """Is this about a tensor of inference mode, which a fused row would have to save?"""
    return type(error).__name__ == "SavedInferenceTensorError"


def _check_entropy(input):
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("binary_cross_entropy", input.dtype)


def _probable(name, number, input, target, *weight):
    """A row that checks input and target at once; what was wrong is asked only if it fails."""
    try:
        return reduced(name, number, input, target, *weight)
    except RuntimeError as error:
        if is_unsaved(error):
            raise
        plain = input.detach()
        if bool(((plain >= 0) & (plain <= 1)).all()):
            raise RuntimeError("all elements of target should be between 0 and 1") from None
        raise


def _one_dtype(input, *others):
    for t in others:
        if t.dtype is not input.dtype:
            raise RuntimeError(
                f"Found dtype {t.dtype.scalar_name} but expected {input.dtype.scalar_name}"
            )


def _weight_shape(target, weight):
    """The common shape of a target and its weight."""
    try:
        return broadcast_shape(target, weight)
    except RuntimeError:
        pass
    for k in range(1, min(len(target), len(weight)) + 1):
        if target[-k] != weight[-k] and 1 not in (target[-k], weight[-k]):
            raise RuntimeError(
                f"Attempting to broadcast a dimension of length {weight[-k]} at {-k}! Mismatching "
                f"argument at index 1 had {weight}; but expected shape should be broadcastable to "
                f"{list(target)}"
            )


def logit_loss(input, target, weight, pos_weight, number):
    """Cross entropy with logits, with PyTorch's checks."""
    if target.dtype.is_complex and input.dtype.is_floating_point:
        return _complex_logit_loss(input, target, weight, pos_weight, number)
    if weight is None and pos_weight is None:
        _target_dtype(input, target)
        return reduced("logit_entropy", number, input, target)
    for k, (name, given) in enumerate((("weight", weight), ("pos_weight", pos_weight)), 3):
        if not (given is None or hasattr(given, "_layout")):
            raise TypeError(
                f"binary_cross_entropy_with_logits(): argument '{name}' (position {k}) must be "
                f"Tensor, not {errors.kind_name(given)}"
            )
    refuse_gradient("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("log_sigmoid_cpu", input.dtype)
    shape = broadcast_shape(input.shape, target.shape)
    if pos_weight is not None:
        fit(shape, broadcast_shape(pos_weight.shape, shape))
    if weight is not None:
        fit(shape, broadcast_shape(shape, weight.shape))
    one = input.new_ones(())
    weight, pos_weight = ((one if t is None else t).expand(shape) for t in (weight, pos_weight))
    _target_dtype(input, target)
    return reduced("weighted_logit_entropy", number, input, target, weight, pos_weight)


def _complex_logit_loss(input, target, weight, pos_weight, number):
    """The same where targets are complex, which PyTorch does not forbid."""
    if pos_weight is not None:
        raise errors.cannot_cast(target.dtype, input.dtype)
    value = (1 - target) * input - public("logsigmoid")(input)
    return reduce_tensor(value if weight is None else value * weight, number)


def _target_dtype(input, target):
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("log_sigmoid_cpu", input.dtype)
    if input.dtype.category == d.FLOATING and target.dtype.category < d.FLOATING:
        raise errors.cannot_cast(input.dtype, target.dtype)


def _check_written(input, target, pos_weight):
    """PyTorch writes products over 1 - target and over log_sigmoid(input)."""
    if pos_weight is not None:
        fit(input, broadcast_shape(input, broadcast_shape(pos_weight.shape, target)))
    fit(target, broadcast_shape(target, input))


@composite(variants="function")
def binary_cross_entropy_with_logits(
    input,
    target,
    weight: OptionalTensor = None,
    pos_weight: OptionalTensor = None,
    reduction: int = 0,
):
    """Cross entropy of targets with probabilities that are given as logits."""
    refuse_gradient("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    if not input.dtype.is_floating_point:
        raise errors.not_implemented("log_sigmoid_cpu", input.dtype)
    if input.shape != target.shape:
        _check_written(input.shape, target.shape, pos_weight)
        input, target = same_shape(input, target)
    return logit_loss(input, target, weight, pos_weight, reduction if reduction in (1, 2) else 0)


@composite(namespace=NN, variants="")
def functional_binary_cross_entropy_with_logits(
    input,
    target,
    weight: OptionalTensor = None,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
    pos_weight: OptionalTensor = None,
):
    """Cross entropy of targets with probabilities that are given as logits."""
    number = reduction_number(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    return logit_loss(input, target, weight, pos_weight, number)


def _kl(input, target, number, log_target):
    for t in (input, target):
        if t.dtype.is_complex:
            raise RuntimeError("kl_div: Complex inputs not supported.")
    for t in (input, target):
        if not t.dtype.is_floating_point:
            raise RuntimeError("kl_div: Integral inputs not supported.")
    if input.dtype is not target.dtype:  # PyTorch rounds each step to a dtype of its own
        if log_target:
            return reduce_tensor(target.exp() * (target - input), number)
        terms = m.where(target == 0, target * 0, target * target.log())
        return reduce_tensor(terms - target * input, number)
    target, input = same_shape(target, input)
    return reduced("log_divergence" if log_target else "divergence", number, input, target)


@composite(variants="function")
def kl_div(input, target, reduction: int = 0, *, log_target: bool = False):
    """target * (log(target) - input), where input holds logarithms."""
    return _kl(input, target, reduction if reduction in (1, 2) else 0, log_target)


@composite(namespace=NN, variants="", python=False)
def functional_kl_div(
    input,
    target,
    size_average: object = None,
    reduce: object = None,
    reduction: str = "mean",
    log_target: bool = False,
):
    """The Kullback-Leibler divergence, from logarithms of probabilities to targets."""
    if size_average is not None or reduce is not None:
        number = reduction_number(reduction, size_average, reduce)
    elif reduction == "batchmean":
        number = SUM
    else:
        if reduction == "mean":
            warn_caller(
                "reduction: 'mean' divides the total loss by both the batch size and the support "
                "size.'batchmean' divides only by the batch size, and aligns with the KL div math "
                "definition.'mean' will be changed to behave the same as 'batchmean' in the next "
                "major release."
            )
        number = reduction_number(reduction)
    value = _kl(input, target, number, log_target)
    return value / input.shape[0] if reduction == "batchmean" and input.ndim else value


def _poisson(input, target, log_input, full, eps, number):
    if input.dtype is target.dtype and input.dtype.is_floating_point:
        if input.shape != target.shape:
            target, input = same_shape(target, input)
        options = dict(log_input=log_input, full=full, eps=float(eps))
        return reduced("poisson_likelihood", number, input, target, **options)
    value = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + (target * (2 * math.pi)).log() * 0.5
        value = value + m.where(target <= 1, 0.0, stirling)
    return reduce_tensor(value, number)


@composite(variants="function")
def poisson_nll_loss(input, target, log_input: bool, full: bool, eps: float, reduction: int):
    """Minus the log likelihood of counts."""
    return _poisson(input, target, log_input, full, eps, reduction if reduction in (1, 2) else 0)


@composite(namespace=NN, variants="", python=False)
def functional_poisson_nll_loss(
    input,
    target,
    log_input: bool = True,
    full: bool = False,
    size_average: object = None,
    eps: float = 1e-8,
    reduce: object = None,
    reduction: object = "mean",
):
    """Minus the log likelihood of counts with the rates input (or exp(input))."""
    if size_average is None and reduce is None and not isinstance(reduction, str):
        raise ValueError(reduction + " is not a valid value for reduction")
    number = reduction_number(reduction, size_average, reduce)
    return _poisson(input, target, log_input, full, eps, number)


@composite(namespace=NN, variants="", numbers=True)
def gaussian_nll_loss(
    input,
    target: object,
    var: object,
    full: bool = False,
    eps: float = 1e-6,
    reduction: object = "mean",
):
    """Minus the log likelihood of targets around input, with the variances var."""
    if isinstance(var, float):
        var = public("ones_like")(input) * var
    elif not hasattr(var, "shape"):
        public("any")(var < 0)  # for the complaint of one or the other
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not _one_per_row(input.shape, var.shape):
            if var.device.runtime.computes and bool((var < 0).any()):
                raise ValueError("var has negative entry/entries")
            raise ValueError("var is of incorrect size")
    if reduction not in _NUMBERS:
        raise ValueError(reduction + " is not valid")
    number = _NUMBERS[reduction]
    if var.dtype.is_complex:
        raise errors.not_implemented("lt_cpu", var.dtype)
    dtypes = {getattr(t, "dtype", None) for t in (input, target, var)}
    if len(dtypes) > 1 or not input.dtype.is_floating_point or eps != eps:
        v = var.clone()
        v.detach().clamp_(min=eps)  # gradients do not notice
        value = (v.log() + (input - target) ** 2 / v) * 0.5
        return reduce_tensor(value + 0.5 * math.log(2 * math.pi) if full else value, number)
    shape = broadcast_shape(broadcast_shape(input.shape, target.shape), var.shape)
    tensors = [t if t.shape == shape else t.expand(shape) for t in (input, target, var)]
    options = dict(full=full, eps=float(eps))
    return reduced("gaussian_likelihood", number, *tensors, **options)


def _one_per_row(shape, var):
    """Do two shapes agree but for one dimension of size one?"""
    if len(shape) != len(var):
        return False
    return sum(v for s, v in zip(shape, var) if s != v) == 1


@composite(namespace=NN, variants="")
def linear_cross_entropy(
    input,
    linear_weight,
    target,
    *,
    linear_bias: OptionalTensor = None,
    weight: OptionalTensor = None,
    reduction: str = "mean",
    ignore_index: object = None,
    label_smoothing: float = 0.0,
    options: object = None,
):
    """Cross entropy of target with the logits of a linear layer.

    Args:
        options: accepted; how PyTorch cuts the work changes no value.
    """
    if not 1 <= input.ndim <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.ndim}")
    if linear_weight.ndim < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    classes = tuple(linear_weight.shape[:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != classes:
        raise RuntimeError(f"expected linear_bias shape {classes}, got {tuple(linear_bias.shape)}")
    if len(classes) > 1 and input.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {input.shape[-1]}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    shape = (*input.shape[:-1], *classes)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    logits = input.matmul(linear_weight.reshape(-1, linear_weight.shape[-1]).t())
    if linear_bias is not None:
        logits = logits + linear_bias.reshape(-1)
    return public("cross_entropy")(
        logits.reshape(shape),
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


for _row in (
    functional_binary_cross_entropy_with_logits,
    functional_kl_div,
    functional_poisson_nll_loss,
):
    _row.name = _row.name.removeprefix("functional_")  # what messages call them
