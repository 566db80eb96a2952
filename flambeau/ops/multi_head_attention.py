"""Attention with projections around it: multi_head_attention_forward.

Sequences come first: query is (L, batch, embedding), or (L, embedding) without a batch. Projected
queries, keys and values are views (batch, head, position, width) of what the projections gave, so
nothing is copied on the way to scaled_dot_product_attention and back. Where weights are wanted,
they are computed by plain ops.
"""

import math
import warnings

from flambeau.ops.attention import scaled_dot_product_attention
from flambeau.ops.table import TABLE, OptionalTensor, composite, public

# -- checks, in PyTorch's words and order ---------------------------------------------------------


def _require(condition, message):
    if not condition:
        raise AssertionError(message)


def _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Is there a batch? All arguments have to agree on it."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.ndim}-D query tensor"
        )
    batched = query.ndim == 3
    kind, rank = ("batched (3-D)", 3) if batched else ("unbatched (2-D)", 2)
    _require(
        key.ndim == value.ndim == rank,
        f"For {kind} `query`, expected `key` and `value` to be {rank}-D but found {key.ndim}-D and "
        f"{value.ndim}-D tensors respectively",
    )
    if key_padding_mask is not None:
        _require(
            key_padding_mask.ndim == rank - 1,
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but "
            f"found {key_padding_mask.ndim}-D tensor instead",
        )
    if attn_mask is not None:
        _require(
            attn_mask.ndim in (2, 3),
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{attn_mask.ndim}-D tensor instead",
        )
        if not batched and attn_mask.ndim == 3:
            wanted = (num_heads, query.shape[0], key.shape[0])
            _require(
                attn_mask.shape == wanted,
                f"Expected `attn_mask` shape to be {wanted} but got {_size(attn_mask)}",
            )
    return batched


def _size(t):
    return f"torch.Size({list(t.shape)})"


def _check_mask(mask, name):
    if mask is not None and mask.dtype.category != 0 and not mask.dtype.is_floating_point:
        raise AssertionError(f"only bool and floating types of {name} are supported")


def _check_masks(key_padding_mask, attn_mask):
    _check_mask(key_padding_mask, "key_padding_mask")
    if key_padding_mask is None or attn_mask is None:
        return
    if key_padding_mask.dtype is not attn_mask.dtype:
        warnings.warn(
            "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type "
            "for both instead.",
            stacklevel=4,
        )


def _check_projections(key, value, weights, embedding):
    """Weights of their own for query, key and value."""
    _require(
        key.shape[:2] == value.shape[:2],
        f"key's sequence and batch dims {_size_of(key.shape[:2])} do not match value's "
        f"{_size_of(value.shape[:2])}",
    )
    widths = (embedding, key.shape[-1], value.shape[-1])
    for name, weight in zip("qkv", weights):
        _require(
            weight is not None,
            f"use_separate_proj_weight is True but {name}_proj_weight is None",
        )
    for name, weight, width in zip(("query", "key", "value"), weights, widths):
        _require(
            weight.shape == (embedding, width),
            f"expecting {name} weights shape of {(embedding, width)}, but got {_size(weight)}",
        )


def _size_of(shape):
    return f"torch.Size({list(shape)})"


def _check_attn_mask(mask, batch, heads, length, source):
    if mask.ndim == 2:
        wanted = (length, source)
    elif mask.ndim == 3:
        wanted = (batch * heads, length, source)
    else:
        raise RuntimeError(f"attn_mask's dimension {mask.ndim} is not supported")
    if mask.shape != wanted:
        raise RuntimeError(
            f"The shape of the {mask.ndim}D attn_mask is {_size(mask)}, but should be {wanted}."
        )


def _check_static(t, name, heads, width):
    for dim, wanted in ((0, heads), (2, width)):
        _require(
            t.shape[dim] == wanted,
            f"expecting {name}.size({dim}) of {wanted}, but got {t.shape[dim]}",
        )


# -- parts ----------------------------------------------------------------------------------------


def _linear(input, weight, bias):
    """input @ weight.T + bias, by the row of that name where the table has one."""
    if "linear" in TABLE:
        return public("linear")(input, weight, bias)
    rows = input.reshape(-1, input.shape[-1])
    found = rows.mm(weight.t())
    found = found if bias is None else found + bias
    return found.view(*input.shape[:-1], found.shape[1])


def _projected(query, key, value, weight, bias):
    """Queries, keys and values by one weight of three parts; equal inputs share a product."""
    embedding = query.shape[-1]
    if key is value:
        if query is key:
            return _linear(query, weight, bias).chunk(3, -1)
        parts, cuts = [query, key], [embedding, 2 * embedding]
    else:
        parts, cuts = [query, key, value], [embedding] * 3
    weights = weight.split(cuts)
    biases = [None] * len(cuts) if bias is None else bias.split(cuts)
    found = [_linear(*each) for each in zip(parts, weights, biases)]
    return found if len(found) == 3 else (found[0], *found[1].chunk(2, -1))


def _padded(mask, columns):
    """A mask with columns for keys that were added: always seen."""
    return None if mask is None else public("pad")(mask, (0, columns))


def _additive(mask, dtype):
    """True (hidden) becomes -inf; other masks are as they are."""
    if mask is None or mask.dtype.category != 0:
        return mask
    return mask.new_zeros(mask.shape, dtype=dtype).masked_fill_(mask, -math.inf)


def _joined_mask(attn_mask, key_padding_mask, batch, heads, dtype):
    """One mask that broadcasts against (batch, heads, L, S), or None; boolean ones say what is
    hidden."""
    if attn_mask is not None and attn_mask.ndim == 3:
        attn_mask = attn_mask.reshape(batch, heads, *attn_mask.shape[1:])
    if key_padding_mask is None:
        return attn_mask
    key_padding_mask = key_padding_mask.reshape(batch, 1, 1, key_padding_mask.shape[-1])
    if attn_mask is None:
        return key_padding_mask
    if attn_mask.dtype.category == 0 and key_padding_mask.dtype.category == 0:
        return attn_mask | key_padding_mask
    return _additive(attn_mask, dtype) + _additive(key_padding_mask, dtype)


def _heads(t, batch, heads):
    """(length, batch, embedding) as (batch, heads, length, width), a view."""
    width = t.shape[-1] // heads
    if t.shape[1] != batch:
        t.reshape(t.shape[0], batch * heads, width)  # for its complaint
    return t.unflatten(-1, (heads, width)).permute(1, 2, 0, 3)


def _weighted(query, key, value, mask, dropout_p):
    """Attention and its weights, by plain ops."""
    batch, heads, length, width = query.shape
    source = key.shape[2]
    query, key, value = (t.reshape(batch * heads, *t.shape[2:]) for t in (query, key, value))
    scores = (query * math.sqrt(1 / width)).bmm(key.transpose(1, 2))
    if mask is not None:
        mask = _additive(mask, query.dtype)
        if mask.dtype is not scores.dtype:
            names = mask.dtype.cpp_name, scores.dtype.cpp_name
            raise RuntimeError(
                f"Input dtypes must be the same, got: input {names[0]}, batch1: {names[1]}, "
                f"batch2: {names[1]}"
            )
        scores = (scores.view(batch, heads, length, source) + mask).view(scores.shape)
    weights = scores.softmax(-1)
    if dropout_p > 0:
        weights = public("dropout")(weights, dropout_p, True)
    out = weights.bmm(value).view(batch, heads, length, width)
    return out, weights.view(batch, heads, length, source)


def _inputs(query, key, value, in_proj_weight, in_proj_bias, own_weights):
    """Queries, keys and values, projected: by one weight for all, or by weights of their own."""
    if own_weights is not None:
        _check_projections(key, value, own_weights, query.shape[-1])
        biases = [None] * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        return [_linear(*each) for each in zip((query, key, value), own_weights, biases)]
    _require(
        key.shape == value.shape,
        f"key shape {_size(key)} does not match value shape {_size(value)}",
    )
    _require(
        in_proj_weight is not None,
        "use_separate_proj_weight is False but in_proj_weight is None",
    )
    return _projected(query, key, value, in_proj_weight, in_proj_bias)


def _check_further(bias_k, bias_v, static_k, static_v):
    """May a key and a value be added?"""
    if bias_k is not None and bias_v is not None:
        _require(static_k is None, "bias cannot be added to static key.")
        _require(static_v is None, "bias cannot be added to static value.")
        return True
    _require(bias_k is None, "bias_k is set but bias_v is None")
    _require(bias_v is None, "bias_v is set but bias_k is None")
    return False


def _check_padding(mask, batch, source):
    for dim, wanted in ((0, batch), (1, source)):
        _require(
            mask is None or mask.shape[dim] == wanted,
            f"Expected key_padded_mask.shape[{dim}] to be {wanted}, but got "
            f"{mask is not None and mask.shape[dim]}",
        )


@composite(variants="", namespace="nn.functional")
def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: OptionalTensor,
    in_proj_bias: OptionalTensor,
    bias_k: OptionalTensor,
    bias_v: OptionalTensor,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight,
    out_proj_bias: OptionalTensor,
    training: bool = True,
    key_padding_mask: OptionalTensor = None,
    need_weights: bool = True,
    attn_mask: OptionalTensor = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: OptionalTensor = None,
    k_proj_weight: OptionalTensor = None,
    v_proj_weight: OptionalTensor = None,
    static_k: OptionalTensor = None,
    static_v: OptionalTensor = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
):
    """Projections of query, key and value, attention in several heads, a projection of the result.

    Gives the result and, if wanted, the weights (averaged over heads, or one set per head). Masks
    hide where they are True, or are added to the scores; `is_causal` says that `attn_mask` is the
    causal one, so that it need not be looked at. `bias_k` and `bias_v` are one more key and value
    for every sequence, `add_zero_attn` one of zeros; `static_k` and `static_v` replace projections.
    """
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        # equal inputs stay equal: they share a projection
        lone = {id(t): t.unsqueeze(1) for t in (query, key, value)}
        query, key, value = (lone[id(t)] for t in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, batch, embedding = query.shape
    _check_masks(key_padding_mask, attn_mask)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    _require(
        embedding == embed_dim_to_check,
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {embedding}",
    )
    _require(
        num_heads > 0 and embedding % num_heads == 0,
        f"embed_dim {embedding} not divisible by num_heads {num_heads}",
    )
    own_weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    own_weights = own_weights if use_separate_proj_weight else None
    q, k, v = _inputs(query, key, value, in_proj_weight, in_proj_bias, own_weights)
    hinted = is_causal and key_padding_mask is None and not need_weights
    if hinted:
        attn_mask = None  # of any shape: nobody looks at it
    if attn_mask is not None:
        _check_mask(attn_mask, "attn_mask")
        _check_attn_mask(attn_mask, batch, num_heads, length, k.shape[0])
    added = 0
    if _check_further(bias_k, bias_v, static_k, static_v):
        k, v = (public("cat")((t, b.expand(1, batch, -1))) for t, b in ((k, bias_k), (v, bias_v)))
        added += 1
    width = embedding // num_heads
    q, k, v = (
        _heads(t, batch, num_heads)
        if static is None
        else _given(static, name, batch, num_heads, width)
        for t, static, name in ((q, None, ""), (k, static_k, "static_k"), (v, static_v, "static_v"))
    )
    if add_zero_attn:
        zeros = k.new_zeros((batch, num_heads, 1, width))
        k, v = (public("cat")((t, zeros), -2) for t in (k, v))
        added += 1
    if added:
        attn_mask, key_padding_mask = _padded(attn_mask, added), _padded(key_padding_mask, added)
    _check_padding(key_padding_mask, batch, k.shape[2])
    mask = _joined_mask(attn_mask, key_padding_mask, batch, num_heads, q.dtype)
    dropout_p, weights = dropout_p if training else 0.0, None
    if need_weights:
        out, weights = _weighted(q, k, v, mask, dropout_p)
        if average_attn_weights:
            weights = weights.mean(1)
    else:
        if mask is not None and mask.dtype.category == 0:
            mask = ~mask
        out = scaled_dot_product_attention(q, k, v, mask, dropout_p, hinted)
    out = out.permute(2, 0, 1, 3).reshape(length * batch, embedding)
    out = _linear(out, out_proj_weight, out_proj_bias)
    out = out.view(length, batch, out.shape[1])
    if not batched:
        return out.squeeze(1), weights if weights is None else weights.squeeze(0)
    return out, weights


def _given(t, name, batch, heads, width):
    """Keys or values that need no projection: (batch * heads, length, width)."""
    _check_static(t, name, batch * heads, width)
    return t.reshape(batch, heads, t.shape[1], width)
