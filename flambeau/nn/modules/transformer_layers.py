"""Layers of transformers, and the masks that they and their stacks take.

A layer is attention and a small network, each with a residual and a normalisation, after it or
(norm_first) before it (Vaswani et al., "Attention is all you need"). MultiheadAttention is in
attention.py; the stacks are in transformer.py.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.eager import creation
from flambeau.nn import functional as F
from flambeau.nn.modules.activation import GELU, ReLU
from flambeau.nn.modules.attention import MultiheadAttention
from flambeau.nn.modules.dropout import Dropout
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


# -- masks ---------------------------------------------------------------------------------------


def _generate_square_subsequent_mask(sz, device=None, dtype=None):
    """-inf above the diagonal, 0 elsewhere: nothing looks at what comes later."""
    return creation.full((sz, sz), -math.inf, dtype=dtype, device=device).triu(1)


def _additive(mask, name, dtype):
    """A mask as numbers that are added to scores."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype.category != 0:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    zeros = creation.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill_(mask, -math.inf)


def additive_pair(mask, mask_name, padding, dtype):
    """Both masks of an encoder, and a word where they are of different kinds."""
    if padding is not None and mask is not None and mask.dtype is not padding.dtype:
        warnings.warn(
            f"Support for mismatched src_key_padding_mask and {mask_name} is deprecated. Use same "
            "type for both instead.",
            stacklevel=5,
        )
    return _additive(mask, mask_name, dtype), _additive(padding, "src_key_padding_mask", dtype)


def detect_causal(mask, said, length):
    """As said; where nothing is said, whether the mask is the causal one."""
    if said is not None:
        return said
    if mask is None or mask.shape != (length, length):
        return False
    wanted = _generate_square_subsequent_mask(length, mask.device, mask.dtype)
    return (mask == wanted).all().item()


def sequence_length(t, batch_first):
    if t.is_nested:
        return None
    return t.shape[1 if batch_first and t.ndim == 3 else 0]


def is_left_aligned(held):
    """Does padding only follow what is held, in every sequence?"""
    return not (held[:, 1:] & ~held[:, :-1]).any().item()


# -- parts ---------------------------------------------------------------------------------------


def _get_activation_fn(activation):
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


class _Layer(Module):
    """What layers of both kinds share: self-attention and the network of two linear maps."""

    __constants__ = ["norm_first"]
    _parts = 0  # residuals, each with a normalisation and a dropout
    activation: Callable[[Tensor], Tensor]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}

        def attention():
            return MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **place
            )

        self.self_attn = attention()
        if self._parts == 3:
            self.multihead_attn = attention()
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        for k in range(1, self._parts + 1):
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            setattr(self, f"norm{k}", norm)
        for k in range(1, self._parts + 1):
            setattr(self, f"dropout{k}", Dropout(dropout))
        self.activation = (
            _get_activation_fn(activation) if isinstance(activation, str) else activation
        )

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "activation"):  # pickles older than the choice
            self.activation = F.relu

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        found = self.self_attn(
            x,
            x,
            x,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            attn_mask=attn_mask,
            is_causal=is_causal,
        )
        return self.dropout1(found[0])

    def _network(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a network of two linear maps: src (S, N, E) gives the same shape."""

    _parts = 2

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip
        chosen = self.activation
        if chosen is F.relu or isinstance(chosen, ReLU):
            self.activation_relu_or_gelu = 1
        elif chosen is F.gelu or isinstance(chosen, GELU):
            self.activation_relu_or_gelu = 2
        else:
            self.activation_relu_or_gelu = 0

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        mask, padding = additive_pair(src_mask, "src_mask", src_key_padding_mask, src.dtype)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _ff_block(self, x):
        return self.dropout2(self._network(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to memory, then a network: tgt (T, N, E), memory (S, N, E)."""

    _parts = 3

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x, first = tgt, self.norm_first
        for norm, block, told in (
            (self.norm1, self._sa_block, own),
            (self.norm2, self._mha_block, other),
            (self.norm3, self._ff_block, ()),
        ):
            x = x + block(norm(x), *told) if first else norm(x + block(x, *told))
        return x

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        found = self.multihead_attn(
            x,
            mem,
            mem,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            attn_mask=attn_mask,
            is_causal=is_causal,
        )
        return self.dropout2(found[0])

    def _ff_block(self, x):
        return self.dropout3(self._network(x))
