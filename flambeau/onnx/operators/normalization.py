"""Operators that normalise, and the softmax family with its losses."""

import math
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import dtype_of


@op("BatchNormalization", 14)
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    n_outputs: int,
) -> Any:
    if not training_mode:
        if scale.dtype == x.dtype == mean.dtype:
            return F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon)
        shape = [-1] + [1] * (x.dim() - 2)
        ratio = scale.to(mean.dtype) / torch.sqrt(var + epsilon)
        shift = bias.to(mean.dtype) - mean * ratio
        return (x.to(mean.dtype) * ratio.reshape(shape) + shift.reshape(shape)).to(x.dtype)
    dims = [0, *range(2, x.dim())]
    now, spread = x.mean(dims), x.var(dims, correction=0)
    result = F.batch_norm(x, now, spread, scale, bias, False, 0.0, epsilon)
    if n_outputs == 1:
        return result
    kept = mean * momentum + now * (1 - momentum), var * momentum + spread * (1 - momentum)
    return (result, *kept)


@op("BatchNormalization", 1)
def batch_normalization_legacy(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    is_test: int = 1,
    n_outputs: int,
) -> Any:
    """Older files do not say whether they train, but only then have more than one output."""
    result = F.batch_norm(x, mean, var, scale, bias, False, 0.0, epsilon)
    return result if n_outputs == 1 else (result, mean, var, mean, var)[:n_outputs]


@op("InstanceNormalization")
def instance_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5
) -> Tensor:
    return F.instance_norm(x, None, None, scale, bias, True, 0.0, epsilon)


@op("LayerNormalization", 17)
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    n_outputs: int,
) -> Any:
    axis %= x.dim()
    shape = list(x.shape[axis:])
    if (
        n_outputs == 1
        and list(scale.shape) == shape
        and (bias is None or list(bias.shape) == shape)
    ):
        return F.layer_norm(x, shape, scale, bias, epsilon)
    dims = list(range(axis, x.dim()))
    wide = x.to(dtype_of(stash_type))
    mean = wide.mean(dims, keepdim=True)
    inverse = torch.rsqrt(wide.var(dims, correction=0, keepdim=True) + epsilon)
    result = ((wide - mean) * inverse).to(x.dtype) * scale
    result = result if bias is None else result + bias
    return (result, mean, inverse)[:n_outputs] if n_outputs > 1 else result


@op("RMSNormalization", 23)
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    dims = list(range(axis % x.dim(), x.dim()))
    wide = x.to(dtype_of(stash_type))
    inverse = torch.rsqrt(torch.mean(wide * wide, dims, keepdim=True) + epsilon)
    return ((wide * inverse).to(x.dtype) * scale).to(x.dtype)


@op("GroupNormalization", 21)
def group_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@op("GroupNormalization", 18)
def group_normalization_by_group(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5
) -> Tensor:
    """At first, scale and bias were given per group."""
    inner = x.shape[1] // num_groups
    each = scale.repeat_interleave(inner), bias.repeat_interleave(inner)
    return F.group_norm(x, num_groups, *each, epsilon)


@op("MeanVarianceNormalization", 9)
def mean_variance_normalization(x: Tensor, *, axes: list[int] | None = None) -> Tensor:
    dims = [0, 2, 3] if axes is None else axes
    centred = x - x.mean(dims, keepdim=True)
    return centred / (torch.sqrt((centred * centred).mean(dims, keepdim=True)) + 1e-9)


@op("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    norm = torch.linalg.vector_norm(x, p, axis, keepdim=True)
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


@op("LRN")
def lrn(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = F.pad(torch.square(x).movedim(1, -1), [before, after])
    near = squares.unfold(-1, size, 1).sum(-1).movedim(-1, 1)
    return x / (bias + alpha / size * near).pow(beta)


@op("Softmax", 13)
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return torch.softmax(x, axis)


@op("LogSoftmax", 13)
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return torch.log_softmax(x, axis)


def as_rows(x: Tensor, axis: int) -> Tensor:
    """Before version 13, everything from `axis` on was one dimension."""
    return x.reshape([math.prod(x.shape[: axis % x.dim()]), -1])


@op("Softmax", 1)
def softmax_legacy(x: Tensor, *, axis: int = 1) -> Tensor:
    return torch.softmax(as_rows(x, axis), 1).reshape(x.shape)


@op("LogSoftmax", 1)
def log_softmax_legacy(x: Tensor, *, axis: int = 1) -> Tensor:
    return torch.log_softmax(as_rows(x, axis), 1).reshape(x.shape)


@op("NegativeLogLikelihoodLoss", 12)
def nll_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    ignored = -100 if ignore_index is None else ignore_index
    return F.nll_loss(x, target.long(), weight, ignore_index=ignored, reduction=reduction)


@op("SoftmaxCrossEntropyLoss", 12)
def softmax_cross_entropy(
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    n_outputs: int,
) -> Any:
    logs = torch.log_softmax(scores, 1)
    loss = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction=reduction)
    return (loss, logs) if n_outputs > 1 else loss
