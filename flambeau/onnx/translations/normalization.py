"""Normalisation, softmax and losses."""

import math
from typing import Any

import numpy as np

import flambeau as torch
from flambeau.onnx.building import Value
from flambeau.onnx.translations.table import translates


@translates("batch_norm")
def batch_norm(
    g: Any,
    x: Value,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn: bool = False,
    *,
    out: Any,
) -> Value:
    channels = x.size(1)
    ones = g.constant(np.ones(channels, dtype=np.float32))
    zeros = g.constant(np.zeros(channels, dtype=np.float32))
    if training:
        made = g.op(
            "BatchNormalization",
            x,
            weight or ones,
            bias or zeros,
            mean or zeros,
            var or ones,
            epsilon=eps,
            momentum=1 - momentum,
            training_mode=1 if g.opset >= 14 else None,
            outputs=3,
        )
        return made[0]
    return g.op("BatchNormalization", x, weight or ones, bias or zeros, mean, var, epsilon=eps)


@translates("layer_norm")
def layer_norm(
    g: Any,
    x: Value,
    shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn: bool = True,
    *,
    out: Any,
) -> Value:
    axes = list(range(-len(shape), 0))
    if g.opset >= 17:
        if weight is None:
            weight = g.cast(g.constant(np.ones([int(n) for n in shape], np.float32)), x.dtype)
        return g.op("LayerNormalization", x, weight, bias, axis=-len(shape), epsilon=eps)
    centred = g.op("Sub", x, g.reduce("ReduceMean", x, axes, True))
    variance = g.reduce("ReduceMean", g.op("Mul", centred, centred), axes, True)
    made = g.op("Div", centred, g.op("Sqrt", g.op("Add", variance, eps)))
    made = made if weight is None else g.op("Mul", made, weight)
    return made if bias is None else g.op("Add", made, bias)


@translates("rms_norm")
def rms_norm(
    g: Any, x: Value, shape: Any, weight: Any = None, eps: Any = None, *, out: Any
) -> Value:
    axes = list(range(-len(shape), 0))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    mean = g.reduce("ReduceMean", g.op("Mul", x, x), axes, True)
    made = g.op("Div", x, g.op("Sqrt", g.op("Add", mean, eps)))
    return made if weight is None else g.op("Mul", made, weight)


@translates("group_norm")
def group_norm(
    g: Any,
    x: Value,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn: bool = True,
    *,
    out: Any,
) -> Value:
    """Each group as one channel of an instance normalisation."""
    batch = g.sizes(x)[0]
    flat = g.reshape(x, [batch, groups, -1])
    ones = g.cast(g.constant(np.ones(groups, np.float32)), x.dtype)
    zeros = g.cast(g.constant(np.zeros(groups, np.float32)), x.dtype)
    made = g.op("InstanceNormalization", flat, ones, zeros, epsilon=eps)
    made = g.reshape(made, g.sizes(x))
    inner = list(range(1, x.rank - 1))
    if weight is not None:
        made = g.op("Mul", made, g.unsqueeze(weight, inner) if inner else weight)
    if bias is not None:
        made = g.op("Add", made, g.unsqueeze(bias, inner) if inner else bias)
    return made


@translates("instance_norm")
def instance_norm(
    g: Any,
    x: Value,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn: bool = True,
    *,
    out: Any,
) -> Value:
    channels = x.size(1)
    weight = weight or g.constant(np.ones(channels, dtype=np.float32))
    bias = bias or g.constant(np.zeros(channels, dtype=np.float32))
    if use_input_stats:
        return g.op("InstanceNormalization", x, weight, bias, epsilon=eps)
    return g.op("BatchNormalization", x, weight, bias, mean, var, epsilon=eps)


@translates("softmax", "_softmax")
def softmax(g: Any, x: Value, dim: int, dtype: Any = None, *, out: Any) -> Value:
    return g.op("Softmax", g.cast(x, out.dtype), axis=dim)


@translates("log_softmax", "_log_softmax")
def log_softmax(g: Any, x: Value, dim: int, dtype: Any = None, *, out: Any) -> Value:
    return g.op("LogSoftmax", g.cast(x, out.dtype), axis=dim)


REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


@translates("nll_loss", "nll_loss_nd", "nll_loss2d")
def nll_loss(
    g: Any,
    x: Value,
    target: Value,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    *,
    out: Any,
) -> Value:
    return g.op(
        "NegativeLogLikelihoodLoss",
        x,
        target,
        weight,
        reduction=REDUCTIONS[reduction],
        ignore_index=ignore_index,
    )


@translates("cross_entropy_loss")
def cross_entropy(
    g: Any,
    x: Value,
    target: Value,
    weight: Any = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    *,
    out: Any,
) -> Value:
    if target.dtype.is_floating_point:
        return soft_cross_entropy(g, x, target, weight, reduction, label_smoothing)
    if label_smoothing:
        return smoothed(g, x, target, weight, reduction, ignore_index, label_smoothing)
    return g.op(
        "SoftmaxCrossEntropyLoss",
        x,
        target,
        weight,
        reduction=REDUCTIONS[reduction],
        ignore_index=ignore_index,
    )


def over_classes(g: Any, x: Value, weight: Any, target: Any = None) -> Value:
    """Minus the sum over classes of logarithms of likelihoods, weighed."""
    axis = 1 if x.rank > 1 else 0
    logs = g.op("LogSoftmax", x, axis=axis)
    if weight is not None:
        logs = g.op("Mul", logs, g.reshape(weight, [-1, *[1] * (x.rank - axis - 1)]))
    if target is not None:
        logs = g.op("Mul", logs, target)
    return g.op("Neg", g.reduce("ReduceSum", logs, [axis], False))


def soft_cross_entropy(
    g: Any, x: Value, target: Value, weight: Any, reduction: int, smoothing: float
) -> Value:
    """Targets are likelihoods of classes."""
    if smoothing:
        target = g.op("Add", g.op("Mul", target, 1 - smoothing), smoothing / x.size(x.rank > 1))
    return reduced(g, over_classes(g, x, weight, target), reduction)


def smoothed(
    g: Any, x: Value, target: Value, weight: Any, reduction: int, ignore_index: int, share: float
) -> Value:
    """A share of each target is spread evenly over all classes."""
    logs = g.op("LogSoftmax", x, axis=1 if x.rank > 1 else 0)
    facts = {"reduction": "none", "ignore_index": ignore_index}
    hard = g.op("NegativeLogLikelihoodLoss", logs, target, weight, **facts)
    counted = g.op("Not", g.op("Equal", target, g.number(ignore_index, target.dtype)))
    there = g.cast(counted, x.dtype)
    evenly = g.op("Mul", over_classes(g, x, weight), there)
    total = g.op("Mul", hard, 1 - share)
    spread = g.op("Mul", evenly, share / x.size(x.rank > 1))
    loss = g.op("Add", total, spread)
    if reduction != 1:
        return reduced(g, loss, reduction)
    if weight is not None:  # a mean by the weights of the targets
        inside = g.op("Where", counted, target, g.number(0, target.dtype))
        there = g.op("Mul", there, g.op("Gather", weight, inside, axis=0))
    whole = [g.op("ReduceSum", t, keepdims=0) for t in (loss, there)]
    return g.op("Div", *whole)


def reduced(g: Any, x: Value, reduction: int) -> Value:
    if reduction == 0:
        return x
    return g.op("ReduceMean" if reduction == 1 else "ReduceSum", x, keepdims=0)


@translates("mse_loss")
def mse_loss(g: Any, x: Value, target: Value, reduction: int = 1, *, out: Any) -> Value:
    gap = g.op("Sub", x, target)
    return reduced(g, g.op("Mul", gap, gap), reduction)


@translates("l1_loss")
def l1_loss(g: Any, x: Value, target: Value, reduction: int = 1, *, out: Any) -> Value:
    return reduced(g, g.op("Abs", g.op("Sub", x, target)), reduction)


@translates("binary_cross_entropy_with_logits")
def bce_with_logits(
    g: Any,
    x: Value,
    target: Value,
    weight: Any = None,
    pos_weight: Any = None,
    reduction: int = 1,
    *,
    out: Any,
) -> Value:
    if weight is not None or pos_weight is not None:
        raise NotImplementedError("binary_cross_entropy_with_logits with weights")
    loss = g.op("Sub", g.op("Softplus", x), g.op("Mul", x, target))
    return reduced(g, loss, reduction)


@translates("linalg_vector_norm")
def vector_norm(
    g: Any,
    x: Value,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any,
) -> Value:
    axes = [dim] if isinstance(dim, int) else dim
    kinds = {1: "ReduceL1", 2: "ReduceL2"}
    if ord in kinds:
        return g.reduce(kinds[ord], x, axes, keepdim)
    size = g.op("Abs", x)
    if ord == math.inf:
        return g.reduce("ReduceMax", size, axes, keepdim)
    total = g.reduce("ReduceSum", g.op("Pow", size, float(ord)), axes, keepdim)
    return g.op("Pow", total, 1 / float(ord))


@translates("norm")
def norm(
    g: Any, x: Value, p: Any = 2, dim: Any = None, keepdim: bool = False, *, out: Any
) -> Value:
    return vector_norm(g, x, p or 2, dim, keepdim, out=out)
