"""Attention of linear layers that can be quantized; the softmax stays in floats."""

import math
from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.functional_modules import FloatFunctional
from flambeau.ao.quantization.stubs import DeQuantStub, QuantStub

__all__ = ["MultiheadAttention"]


class MultiheadAttention(nn.MultiheadAttention):
    """Queries, keys and values have layers of their own, whose results are observed."""

    _FLOAT_MODULE = nn.MultiheadAttention

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        nn.MultiheadAttention.__init__(
            self, embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim,
            batch_first,
        )  # fmt: skip
        for letter, size in zip("QKV", (embed_dim, self.kdim, self.vdim)):
            self.add_module(f"linear_{letter}", nn.Linear(size, embed_dim, bias))
        # the plain class: the one inside of attention is not to be quantized by its range
        self.out_proj: Any = nn.Linear(embed_dim, embed_dim, bias)
        self.q_scaling_product = FloatFunctional()
        self.quant_attn_output, self.quant_attn_output_weights = QuantStub(), QuantStub()
        for letter in "qkv":
            self.add_module(f"dequant_{letter}", DeQuantStub())

    def _get_name(self) -> str:
        return "QuantizableMultiheadAttention"

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """(output, weights), as of the layer of floats."""
        if attn_mask is not None and is_causal:
            raise AssertionError("Only allow causal mask or attn_mask")
        if self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        q, k, v = self._heads(query, key, value)
        bias = self._masked(attn_mask, key_padding_mask, is_causal, q, k)
        scores = q @ k.transpose(-2, -1)
        weights = (scores if bias is None else scores + bias).softmax(-1)
        weights = nn.functional.dropout(weights, self.dropout, self.training)
        length, batch = query.shape[:2]
        mixed = (weights @ v).permute(2, 0, 1, 3).reshape(length, batch, self.embed_dim)
        out = self.out_proj(self.quant_attn_output(mixed))
        shown = self.quant_attn_output_weights(weights)
        if self.batch_first:
            out = out.transpose(0, 1)
        if not need_weights:
            return out, None
        return out, shown.mean(1) if average_attn_weights else shown

    def _heads(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Queries, keys and values as floats, [batch, heads, length, size]."""
        scale = 1 / math.sqrt(self.head_dim)
        parts = [self.linear_Q(query), self.linear_K(key), self.linear_V(value)]
        parts[0] = self.q_scaling_product.mul_scalar(parts[0], scale)
        found = [getattr(self, f"dequant_{n}")(t) for n, t in zip("qkv", parts)]
        for place, extra in ((1, self.bias_k), (2, self.bias_v)):
            if extra is not None:
                row = extra.expand(1, found[place].shape[1], self.embed_dim)
                found[place] = torch.cat([found[place], row])
        if self.add_zero_attn:
            found[1:] = [torch.cat([t, torch.zeros_like(t[:1])]) for t in found[1:]]
        sizes = (self.num_heads, self.head_dim)
        return [t.reshape(*t.shape[:2], *sizes).permute(1, 2, 0, 3) for t in found]

    def _masked(
        self, attn_mask: Any, padding: Any, is_causal: bool, q: Tensor, k: Tensor
    ) -> Tensor | None:
        """What is added to the scores: minus infinity where nothing is to be seen."""
        rows, columns = q.shape[2], k.shape[2]
        found = None
        if is_causal:
            attn_mask = torch.ones(rows, columns, dtype=torch.bool).triu(1)
        if attn_mask is not None:
            found = _as_numbers(attn_mask)
            if found.dim() == 3:
                found = found.reshape(-1, self.num_heads, rows, found.shape[-1])
            found = nn.functional.pad(found, (0, columns - found.shape[-1]))
        if padding is not None:
            hidden = _as_numbers(padding)[:, None, None, :]
            hidden = nn.functional.pad(hidden, (0, columns - hidden.shape[-1]))
            found = hidden if found is None else found + hidden
        return found

    @classmethod
    def from_float(cls, other: Any) -> Any:
        """From attention with a QConfig; observers are put in at once."""
        from flambeau.ao.quantization.quantize import prepare, prepare_qat

        found = cls(
            other.embed_dim, other.num_heads, other.dropout, other.in_proj_bias is not None,
            other.bias_k is not None, other.add_zero_attn, other.kdim, other.vdim,
            other.batch_first,
        )  # fmt: skip
        found.bias_k, found.bias_v = other.bias_k, other.bias_v
        found.qconfig = other.qconfig
        found._take(found.out_proj, other.out_proj.weight, other.out_proj.bias)
        biases = [None] * 3 if other.in_proj_bias is None else other.in_proj_bias.chunk(3)
        for letter, bias, weight in zip("QKV", biases, _projections(other)):
            found._take(getattr(found, f"linear_{letter}"), weight, bias)
        if other.training:
            return prepare_qat(found.train(), inplace=True)
        return prepare(found.eval(), inplace=True)

    def _take(self, layer: Any, weight: Tensor, bias: Tensor | None) -> None:
        layer.weight = nn.Parameter(weight.detach())
        if bias is not None:
            layer.bias = nn.Parameter(bias.detach())

    @torch.no_grad()
    def dequantize(self) -> nn.MultiheadAttention:
        """The layer of floats again, with the weights that the quantized one computes with."""
        has_bias = _parts(self.linear_Q)[1] is not None
        found = nn.MultiheadAttention(
            self.embed_dim, self.num_heads, self.dropout, has_bias, self.bias_k is not None,
            self.add_zero_attn, self.kdim, self.vdim, self.batch_first,
        )  # fmt: skip
        found.bias_k, found.bias_v = self.bias_k, self.bias_v
        self._take(found.out_proj, *_parts(self.out_proj))
        weights, biases = zip(*(_parts(getattr(self, f"linear_{n}")) for n in "QKV"))
        for whole, weight in zip(_projections(found), weights):
            whole.copy_(weight)
        if has_bias:
            found.in_proj_bias.copy_(torch.cat(biases))
        return found

    @classmethod
    def from_observed(cls, other: Any) -> Any:
        raise NotImplementedError(
            "It looks like you are trying to prepare an MHA module. Please, see the examples on "
            "quantizable MHAs."
        )


def _projections(attention: nn.MultiheadAttention) -> Any:
    """The weights for queries, keys and values."""
    if attention._qkv_same_embed_dim:
        return attention.in_proj_weight.chunk(3)
    return [getattr(attention, f"{n}_proj_weight") for n in "qkv"]


def _parts(layer: Any) -> tuple[Tensor, Tensor | None]:
    """(weight, bias) as floats of a linear layer, quantized or not."""
    if isinstance(layer, nn.Linear):
        return layer.weight.detach(), layer.bias
    weight, bias = layer._weight_bias()
    return weight.dequantize(), bias


def _as_numbers(mask: Tensor) -> Tensor:
    if mask.dtype is not torch.bool:
        return mask
    return torch.zeros(mask.shape).masked_fill(mask, -torch.inf)
