"""Transformers: stacks of encoder and decoder layers, and both together.

Sequences come first, (T, N, E), unless batch_first; N may be left out. Masks are True where nothing
may be looked at, or numbers that are added to the scores. The layers are in transformer_layers.py.
"""

import copy
import warnings
from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import is_grad_enabled
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.container import ModuleList
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.normalization import LayerNorm
from flambeau.nn.modules.transformer_layers import (
    Activation,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    _generate_square_subsequent_mask,
    additive_pair,
    detect_causal,
    is_left_aligned,
    sequence_length,
)
from flambeau.nn.modules.transformer_layers import _get_activation_fn as _get_activation_fn

__all__ = [
    "Transformer",
    "TransformerEncoder",
    "TransformerDecoder",
    "TransformerEncoderLayer",
    "TransformerDecoderLayer",
]


def _get_clones(module, N):
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _why_not_nested(layer):
    """Why PyTorch would not leave padding out of its computation, or None."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = (
        (layer.norm_first, "norm_first was True"),
        (
            not attention.batch_first,
            "self_attn.batch_first was not True(use batch_first for better inference performance)",
        ),
        (not attention._qkv_same_embed_dim, "self_attn._qkv_same_embed_dim was not True"),
        (attention.in_proj_bias is None, "self_attn was passed bias=False"),
        (not layer.activation_relu_or_gelu, "activation_relu_or_gelu was not True"),
        (
            layer.norm1.eps != layer.norm2.eps,
            "norm1.eps was not equal to encoder_layer.norm2.eps",
        ),
        (attention.num_heads % 2 == 1, "self_attn.num_heads is odd"),
    )
    return next((f"encoder_layer.{text}" for true, text in reasons if true), None)


class TransformerEncoder(Module):
    """A stack of copies of an encoder layer, and a normalisation at the end.

    enable_nested_tensor: in inference without gradients, positions that src_key_padding_mask hides
    give zeros (before `norm`), as PyTorch does by leaving them out.
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.num_layers, self.layers = num_layers, _get_clones(encoder_layer, num_layers)
        self.norm, self.mask_check = norm, mask_check
        why_not = _why_not_nested(encoder_layer) if enable_nested_tensor else None
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor and not why_not
        if why_not:
            warnings.warn(
                "enable_nested_tensor is True, but self.use_nested_tensor is False because "
                + why_not,
                stacklevel=2,
            )

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        mask, padding = additive_pair(mask, "mask", src_key_padding_mask, src.dtype)
        first = self.layers[0]
        is_causal = detect_causal(
            mask, is_causal, sequence_length(src, first.self_attn.batch_first)
        )
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        if padding is not None and mask is None and self._empties_padding(first, src, padding):
            x = x.masked_fill((padding != 0).unsqueeze(2), 0.0)
        return x if self.norm is None else self.norm(x)

    def _empties_padding(self, first, src, padding):
        if not getattr(self, "use_nested_tensor", False) or first.training or src.ndim != 3:
            return False
        if is_grad_enabled() and (
            src.requires_grad or any(p.requires_grad for p in first.parameters())
        ):
            return False
        return not getattr(self, "mask_check", True) or is_left_aligned(padding == 0)


def _about(name, mask, padding, is_causal=None):
    """What a decoder is told about one of its two sequences, by keyword."""
    return {
        f"{name}_mask": mask,
        f"{name}_key_padding_mask": padding,
        f"{name}_is_causal": is_causal,
    }


class TransformerDecoder(Module):
    """A stack of copies of a decoder layer, and a normalisation at the end."""

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.num_layers, self.layers = num_layers, _get_clones(decoder_layer, num_layers)
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        length = sequence_length(tgt, self.layers[0].self_attn.batch_first)
        own = _about("tgt", tgt_mask, tgt_key_padding_mask)
        own["tgt_is_causal"] = detect_causal(tgt_mask, tgt_is_causal, length)
        other = _about("memory", memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        for layer in self.layers:
            x = layer(x, memory, **own, **other)
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder of src and a decoder of tgt that looks at it: (S, N, E), (T, N, E) -> (T, N, E).

    Args:
        custom_encoder, custom_decoder: modules in place of the usual stacks.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip

        def norm():
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            layer = TransformerEncoderLayer(*options)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(
                TransformerDecoderLayer(*options), num_decoder_layers, norm()
            )
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and tgt.shape[batch] != src.shape[batch]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if {src.shape[-1], tgt.shape[-1]} != {self.d_model}:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        padding = {"src_key_padding_mask": src_key_padding_mask}
        memory = self.encoder(src, mask=src_mask, is_causal=src_is_causal, **padding)
        own = _about("tgt", tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = _about("memory", memory_mask, memory_key_padding_mask, memory_is_causal)
        return self.decoder(tgt, memory, **own, **other)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The mask of a sequence where nothing looks at what comes later."""
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self):
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)
