"""MultiheadAttention of nested tensors: inference of self-attention, piece by piece."""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.autograd.grad_mode import is_grad_enabled
from flambeau.nn import functional as F


def _why_not(module: Any, query: Any, key: Any, value: Any, masks: tuple) -> str | None:
    """Why PyTorch does not compute attention of nested tensors, in its words."""
    weights = (
        query, module.in_proj_weight, module.in_proj_bias, module.out_proj.weight,
        module.out_proj.bias,
    )  # fmt: skip
    reasons = (
        (
            query is not key or key is not value,
            "non-self attention was used (query, key, and value are not the same Tensor)",
        ),
        (
            query.dim() != 3,
            f"input not batched; expected query.dim() of 3 but got {query.dim()}",
        ),
        (module.in_proj_weight is None, "in_proj_weight was None"),
        (not module.batch_first, "batch_first was not True"),
        (module.bias_k is not None, "self.bias_k was not None"),
        (module.add_zero_attn, "add_zero_attn was enabled"),
        (module.training, "training is enabled"),
        (module.num_heads % 2 == 1, "self.num_heads is not even"),
        (module.in_proj_bias is None, ""),
        (
            any(mask is not None for mask in masks),
            "supplying both src_key_padding_mask and src_mask at the same time"
            "                                  is not supported with NestedTensor input",
        ),
        (flambeau.is_autocast_enabled(), "autocast is enabled"),
        (query.layout is flambeau.jagged, "some Tensor argument has_torch_function"),
        (
            is_grad_enabled() and any(t is not None and t.requires_grad for t in weights),
            "grad is enabled and at least one of query or the input/output projection weights or "
            "biases requires_grad",
        ),
    )
    return next((words for true, words in reasons if true), None)


def attend(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    masks: tuple,
    need_weights: bool,
    average_attn_weights: bool,
) -> tuple[Any, Tensor | None]:
    """Self-attention of each piece; weights are filled up with zeros."""
    why_not = _why_not(module, query, key, value, masks)
    if why_not is not None:
        raise AssertionError(
            "MultiheadAttention does not support NestedTensor outside of its fast path. The fast "
            f"path was not hit because {why_not}"
        )
    found = [
        F.multi_head_attention_forward(
            t,
            t,
            t,
            module.embed_dim,
            module.num_heads,
            module.in_proj_weight,
            module.in_proj_bias,
            None,
            None,
            False,
            0.0,
            module.out_proj.weight,
            module.out_proj.bias,
            False,
            None,
            need_weights,
            average_attn_weights=average_attn_weights,
        )
        for t in query.unbind()
    ]
    out = flambeau.nested.as_nested_tensor([t for t, _ in found])
    if not need_weights:
        return out, None
    weights: list = [w for _, w in found]
    return out, flambeau.nested.as_nested_tensor(weights).to_padded_tensor(0.0)
