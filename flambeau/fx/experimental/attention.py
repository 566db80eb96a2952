"""multi_head_attention_forward in the steps that PyTorch takes, for recording."""

import math
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.nn import functional as F

Values = dict[str, Any]
_UNUSUAL = ("bias_k bias_v key_padding_mask attn_mask q_proj_weight static_k static_v").split()


def is_plain(values: Values) -> bool:
    """Is it attention of sequences in batches, without masks and other additions?"""
    plain = all(values.get(name) is None for name in _UNUSUAL) and not values["add_zero_attn"]
    given = values.get("in_proj_weight") is not None and not values["is_causal"]
    return plain and given and values["query"].ndim == 3


def attend(values: Values) -> tuple[Tensor, Tensor | None]:
    """The result and, if they are wanted, the weights."""
    query, key, heads = values["query"], values["key"], values["num_heads"]
    length, batch, width = query.shape
    depth = width // heads
    q, k, v = _projected(values, width)
    q = q.view(length, batch * heads, depth).transpose(0, 1)
    k = k.view(k.shape[0], batch * heads, depth).transpose(0, 1)
    v = v.view(v.shape[0], batch * heads, depth).transpose(0, 1)
    dropout = values["dropout_p"] if values["training"] else 0.0
    seen = key.shape[0]
    if not values["need_weights"]:
        shapes = [(batch, heads, size, depth) for size in (length, seen, seen)]
        q, k, v = (t.view(*shape) for t, shape in zip((q, k, v), shapes))
        mixed = F.scaled_dot_product_attention(q, k, v, None, dropout, False)
        flat = mixed.permute(2, 0, 1, 3).reshape(batch * length, width)
        return _out(values, flat, (length, batch)), None
    scores = flambeau.bmm(q * math.sqrt(1.0 / float(depth)), k.transpose(-2, -1))
    weights = F.softmax(scores, dim=-1)
    if dropout > 0.0:
        weights = F.dropout(weights, p=dropout)
    flat = flambeau.bmm(weights, v).transpose(0, 1).reshape(length * batch, width)
    result = _out(values, flat, (length, batch))
    shown = weights.view(batch, heads, length, seen)
    return result, shown.mean(dim=1) if values["average_attn_weights"] else shown


def _out(values, flat, sizes):
    result = F.linear(flat, values["out_proj_weight"], values["out_proj_bias"])
    return result.view(*sizes, result.size(1))


def _projected(values, width):
    """Query, key and value from one matrix of weights."""
    q, k, v = values["query"], values["key"], values["value"]
    weight, bias = values["in_proj_weight"], values["in_proj_bias"]
    if k is not v:
        weights = weight.chunk(3)
        shifts = bias.chunk(3) if bias is not None else [None] * 3
        return [F.linear(t, w, b) for t, w, b in zip((q, k, v), weights, shifts)]
    if q is k:
        return _parts(F.linear(q, weight, bias), 3, width)
    first, rest = weight.split([width, width * 2])
    one, two = bias.split([width, width * 2]) if bias is not None else (None, None)
    mine = F.linear(q, first, one)
    return [mine, *_parts(F.linear(k, rest, two), 2, width)]


def _parts(joined, count, width):
    apart = joined.unflatten(-1, (count, width)).unsqueeze(0).transpose(0, -2)
    apart = apart.squeeze(-2).contiguous()
    return [apart[n] for n in range(count)]
