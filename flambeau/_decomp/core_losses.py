"""Losses and attention on the way to core aten."""

import math
from typing import Any

import flambeau
from flambeau._decomp.composites import _reduced, _scalar
from flambeau._decomp.core import _full, _triangle, dropout, log_sigmoid_forward, transpose
from flambeau._decomp.registry import core
from flambeau._tensor import Tensor
from flambeau.aten.overloads import namespace

aten: Any = namespace("aten")


@core("mse_loss")
def mse_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return _reduced(aten.pow.Tensor_Scalar(aten.sub.Tensor(self, target), 2), reduction)


@core("smooth_l1_loss")
def smooth_l1_loss(self: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    distance = aten.abs.default(aten.sub.Tensor(self, target))
    near = aten.lt.Scalar(distance, beta)
    square = aten.mul.Tensor(aten.pow.Tensor_Scalar(distance, 2), 0.5)
    curved = aten.div.Tensor(square, beta)
    return _reduced(aten.where.self(near, curved, aten.sub.Tensor(distance, 0.5 * beta)), reduction)


@core("huber_loss")
def huber_loss(self: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    distance = aten.abs.default(aten.sub.Tensor(self, target))
    near = aten.lt.Scalar(distance, delta)
    curved = aten.mul.Tensor(aten.mul.Tensor(distance, 0.5), distance)
    straight = aten.mul.Tensor(aten.sub.Tensor(distance, 0.5 * delta), delta)
    return _reduced(aten.where.self(near, curved, straight), reduction)


@core("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    self: Tensor, target: Tensor, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Tensor:
    wrong = aten.mul.Tensor(aten.sub.Tensor(1, target), self)
    logs = log_sigmoid_forward(self)[0]
    if pos_weight is not None:
        more = aten.mul.Tensor(aten.sub.Tensor(pos_weight, 1), target)
        logs = aten.mul.Tensor(aten.add.Tensor(more, 1), logs)
    loss = aten.sub.Tensor(wrong, logs)
    return _reduced(loss if weight is None else aten.mul.Tensor(loss, weight), reduction)


@core("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    dim = 1 if self.ndim > 1 else 0
    factors = None
    if weight is not None:
        shape = [-1 if k == dim else 1 for k in range(self.ndim)]
        factors = weight if self.ndim == 1 else aten.view.default(weight, shape)
        self = aten.mul.Tensor(self, factors)
    safe = aten.where.self(aten.ne.Scalar(target, ignore_index), target, _scalar(0, target))
    places = aten.unsqueeze.default(safe, dim)
    chosen = aten.squeeze.dims(aten.gather.default(self, dim, places), [dim])
    losses = aten.neg.default(chosen)
    kept = aten.ne.Scalar(target, ignore_index)
    losses = aten.where.self(kept, losses, _scalar(0, losses))
    if reduction == 0:
        return losses, _full([], 0.0, self.dtype, self.device)
    if factors is not None:
        spread = aten.expand.default(factors, list(self.shape))
        counted = aten.squeeze.dims(aten.gather.default(spread, dim, places), [dim])
        counted = aten.where.self(kept, counted, _scalar(0, counted))
        total = aten.sum.default(counted)
    else:
        count = aten.sum.default(aten.ne.Scalar(target, ignore_index))
        total = aten._to_copy.default(count, dtype=self.dtype, device=self.device)
    result = aten.sum.default(losses)
    return (result if reduction == 2 else aten.div.Tensor(result, total)), total


# -- attention -------------------------------------------------------------------------------------


@core("scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    factor = math.sqrt(1 / query.shape[-1] ** 0.5 if scale is None else scale)
    left = aten.mul.Scalar(query, factor)
    if is_causal:
        seen = _full([query.shape[-2], key.shape[-2]], True, flambeau.bool, query.device)
        kept = _triangle("le")(seen)
        blocked = aten.scalar_tensor.default(-math.inf, dtype=query.dtype, device=query.device)
        attn_mask = aten.where.self(kept, _scalar(0.0, query), blocked)
    elif attn_mask is not None and attn_mask.dtype == flambeau.bool:
        attn_mask = aten.where.self(attn_mask, _scalar(0.0, query), _scalar(-math.inf, query))
    right = aten.mul.Scalar(transpose(key, -2, -1), factor)
    scores = aten.matmul.default(left, right)
    if attn_mask is not None:
        scores = aten.add.Tensor(scores, attn_mask)
    parts = safe_softmax(scores, -1)
    if dropout_p > 0:
        parts = dropout(parts, dropout_p, True)
    result = aten.matmul.default(parts, value)
    if result.ndim != 4:
        return result
    laid = aten.clone.default(
        aten.permute.default(result, [2, 0, 1, 3]), memory_format=flambeau.contiguous_format
    )
    return aten.permute.default(laid, [1, 2, 0, 3])


@core("_safe_softmax")
def safe_softmax(self: Tensor, dim: int, dtype: Any = None) -> Tensor:
    found = aten._softmax.default(self, dim, False)
    blocked = aten.logical_not.default(aten.eq.Scalar(self, -math.inf))
    blocked = aten.logical_not.default(aten.any.dim(blocked, dim, True))
    zeros_like = aten.full_like.default(
        found, 0, pin_memory=False, memory_format=flambeau.preserve_format
    )
    return aten.where.self(blocked, zeros_like, found)
