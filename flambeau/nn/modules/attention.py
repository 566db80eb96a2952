"""MultiheadAttention: queries look at keys and take values, in several heads side by side."""

from typing import Any

from flambeau._tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.filling import make_parameters
from flambeau.nn.modules.linear import NonDynamicallyQuantizableLinear
from flambeau.nn.modules.module import Module

__all__ = ["MultiheadAttention"]

_SEPARATE = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
_ADDED = ("bias_k", "bias_v")


class MultiheadAttention(Module):
    """softmax(Q K' / sqrt(d)) V for each head, with projections before and after.

    query (L, N, E), key (S, N, kdim), value (S, N, vdim); with batch_first N comes first; N may be
    left out. Returns the output, shaped like query, and the weights (N, L, S) or None.
    """

    __constants__ = ["batch_first"]
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        super().__init__()
        self.head_dim, rest = divmod(embed_dim, num_heads)
        if rest:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn
        self.kdim, self.vdim = (embed_dim if d is None else d for d in (kdim, vdim))
        widths = (embed_dim, self.kdim, self.vdim)
        same = self._qkv_same_embed_dim = len({*widths}) == 1
        shapes: dict[str, Any]
        if same:  # one matrix, one product
            shapes = {"in_proj_weight": (3 * embed_dim, embed_dim), **dict.fromkeys(_SEPARATE)}
        else:
            shapes = {name: (embed_dim, width) for name, width in zip(_SEPARATE, widths)}
            shapes["in_proj_weight"] = None
        shapes["in_proj_bias"] = (3 * embed_dim,) if bias else None
        make_parameters(self, device, dtype, **shapes)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        if add_bias_kv:
            make_parameters(self, device, dtype, **dict.fromkeys(_ADDED, (1, 1, embed_dim)))
        else:
            self.bias_k = self.bias_v = None
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight",) if self._qkv_same_embed_dim else _SEPARATE:
            init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for name in _ADDED:
            if getattr(self, name) is not None:
                init.xavier_normal_(getattr(self, name))

    def __setstate__(self, state):
        state.setdefault("_qkv_same_embed_dim", True)  # pickles older than kdim and vdim
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """key_padding_mask (N, S) says which keys to leave out, attn_mask (L, S) or
        (N * num_heads, L, S) which for which query; numbers are added to the scores.
        """
        if query.is_nested or key.is_nested or value.is_nested:
            from flambeau.nn.modules.nested_attention import attend  # rare

            masks = (key_padding_mask, attn_mask)
            return attend(self, query, key, value, masks, need_weights, average_attn_weights)
        swap = self.batch_first and query.dim() == 3
        if swap:  # the same tensor stays the same tensor: projections are then one product
            same_key, same_value = key is query, value is key
            query = query.transpose(1, 0)
            key = query if same_key else key.transpose(1, 0)
            value = key if same_value else value.transpose(1, 0)
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            not self._qkv_same_embed_dim,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            None,
            None,
            average_attn_weights,
            is_causal,
        )
        return (out.transpose(1, 0) if swap else out), weights

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """Both masks as one of shape (N, num_heads, L, S), and its kind: 2. With
        key_padding_mask alone, that mask as it is and 1; with neither, None and None.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        n, length = query.shape[:2]
        whole = (n, self.num_heads, length, length)
        per_sample = attn_mask.dim() == 3
        merged = attn_mask.view(n if per_sample else 1, -1, length, length).expand(whole)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(n, 1, 1, length)
        return merged, 2
