"""Attention and the embedding of positions, as op set 23 has them."""

import math
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import dtype_of


def heads_apart(x: Tensor, heads: int | None) -> Tensor:
    """(batch, length, heads * size) as (batch, heads, length, size)."""
    if x.dim() == 4:
        return x
    if not heads:
        raise ValueError("Attention on three dimensions must say how many heads there are")
    return x.unflatten(-1, [heads, -1]).transpose(1, 2)


def window_bias(
    rows: int, columns: int, past: Any, left: int, right: int, dtype: torch.dtype
) -> Tensor:
    """Minus infinity for keys too far from the query; `past` keys came before all queries.

    A negative reach is none at all.
    """
    if isinstance(past, torch.Tensor):
        past = past.reshape(-1, 1, 1, 1)
    distance = torch.arange(columns) - (torch.arange(rows).reshape(-1, 1) + past)
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if left >= 0:
        hidden = hidden | (distance < -left)
    if right >= 0:
        hidden = hidden | (distance > right)
    return torch.zeros(hidden.shape, dtype=dtype).masked_fill(hidden, -math.inf)


def mask_as_bias(mask: Tensor, columns: int, dtype: torch.dtype) -> Tensor:
    """A mask of bools, or numbers to add; columns that it does not have are hidden."""
    if mask.dtype is torch.bool:
        mask = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -math.inf)
    missing = columns - mask.shape[-1]
    if missing > 0:
        mask = torch.nn.functional.pad(mask, [0, missing], value=-math.inf)
    return mask.to(dtype)


@op("Attention", 23)
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    n_outputs: int,
) -> Any:
    """Scaled dot products with cache, mask, soft cap and shared keys."""
    flat = q.dim() == 3
    q, k, v = (
        heads_apart(q, q_num_heads),
        heads_apart(k, kv_num_heads),
        heads_apart(v, kv_num_heads),
    )
    dtype = q.dtype
    past: Any = 0
    if past_key is not None:
        past = past_key.shape[2]
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)  # type: ignore[list-item]
    present = k, v
    if q.shape[1] != k.shape[1]:
        repeats = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    rows, columns = q.shape[2], k.shape[2]
    factor = math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = torch.matmul(q * factor, (k * factor).transpose(-1, -2))
    raw = scores
    bias = None if mask is None else mask_as_bias(mask, columns, dtype)
    if lengths is not None:
        past = lengths - rows
        ended = torch.arange(columns) >= lengths.reshape(-1, 1, 1, 1)
        padded = torch.zeros(ended.shape, dtype=dtype).masked_fill(ended, -math.inf)
        bias = padded if bias is None else bias + padded
    right = 0 if is_causal else right_window_size
    if left_window_size >= 0 or right >= 0:
        hidden = window_bias(rows, columns, past, left_window_size, right, dtype)
        bias = hidden if bias is None else bias + hidden
    capped = scores if not softcap else softcap * torch.tanh(scores / softcap)
    scores = capped if bias is None else capped + bias
    wide = scores if softmax_precision is None else scores.to(dtype_of(softmax_precision))
    weights = torch.softmax(wide, -1).to(dtype)
    if bias is not None:
        weights = torch.nan_to_num(weights, nan=0.0)  # a row whose keys are all hidden
    y = torch.matmul(weights, v)
    if flat:
        y = y.transpose(1, 2).flatten(2)
    results = (y, *present, (raw, capped, scores, weights)[qk_matmul_output_mode])
    return results[:n_outputs] if n_outputs > 1 else y


@op("RotaryEmbedding", 23)
def rotary_embedding(
    x: Tensor,
    cosines: Tensor,
    sines: Tensor,
    positions: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of each head's elements are turned by an angle that depends on the position."""
    flat = x.dim() == 3
    if flat:
        x = x.unflatten(-1, [num_heads, -1])
    else:
        x = x.transpose(1, 2)
    turned = rotary_embedding_dim or x.shape[-1]
    head, rest = x[..., :turned], x[..., turned:]
    if positions is not None:
        cosines, sines = cosines[positions.long()], sines[positions.long()]
    c, s = (t[..., : turned // 2].unsqueeze(2) for t in (cosines, sines))
    if interleaved:
        a, b = head[..., 0::2], head[..., 1::2]
        head = torch.stack([c * a - s * b, s * a + c * b], -1).flatten(-2)
    else:
        a, b = head.chunk(2, -1)
        head = torch.cat([c * a - s * b, s * a + c * b], -1)
    result = torch.cat([head, rest], -1) if rest.shape[-1] else head
    return result.flatten(2) if flat else result.transpose(1, 2)
