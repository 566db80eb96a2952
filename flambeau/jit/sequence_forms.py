"""Forwards of recurrent and attention layers as scripts; see layer_forms.py."""

# mypy: ignore-errors

from typing import Optional, Tuple  # noqa: UP035

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import Tensor

# ruff: noqa: UP006, UP045


class LSTM:
    def forward(
        self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None
    ) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        is_batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not is_batched:
            input = input.unsqueeze(batch_dim)
        if hx is None:
            layers = self.num_layers * (2 if self.bidirectional else 1)
            width = self.proj_size if self.proj_size > 0 else self.hidden_size
            batch = input.size(batch_dim)
            h = torch.zeros([layers, batch, width], dtype=input.dtype, device=input.device)
            c = torch.zeros(
                [layers, batch, self.hidden_size], dtype=input.dtype, device=input.device
            )
        else:
            h, c = hx[0], hx[1]
            if not is_batched:
                h, c = h.unsqueeze(1), c.unsqueeze(1)
        out, hn, cn = torch.lstm(
            input, [h, c], self._flat_weights, self.bias, self.num_layers, self.dropout,
            self.training, self.bidirectional, self.batch_first,
        )  # fmt: skip
        if not is_batched:
            out, hn, cn = out.squeeze(batch_dim), hn.squeeze(1), cn.squeeze(1)
        return out, (hn, cn)

    __constants__ = (
        "mode input_size hidden_size num_layers bias batch_first dropout bidirectional proj_size "
        "_flat_weights_names"
    ).split()


class GRU:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        is_batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not is_batched:
            input = input.unsqueeze(batch_dim)
        if hx is None:
            layers = self.num_layers * (2 if self.bidirectional else 1)
            sizes = [layers, input.size(batch_dim), self.hidden_size]
            h = torch.zeros(sizes, dtype=input.dtype, device=input.device)
        else:
            h = hx
            if not is_batched:
                h = h.unsqueeze(1)
        out, hn = torch.gru(
            input, h, self._flat_weights, self.bias, self.num_layers, self.dropout, self.training,
            self.bidirectional, self.batch_first,
        )  # fmt: skip
        if not is_batched:
            out, hn = out.squeeze(batch_dim), hn.squeeze(1)
        return out, hn

    __constants__ = LSTM.__constants__


class RNN:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        is_batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not is_batched:
            input = input.unsqueeze(batch_dim)
        if hx is None:
            layers = self.num_layers * (2 if self.bidirectional else 1)
            sizes = [layers, input.size(batch_dim), self.hidden_size]
            h = torch.zeros(sizes, dtype=input.dtype, device=input.device)
        else:
            h = hx
            if not is_batched:
                h = h.unsqueeze(1)
        if self.mode == "RNN_TANH":
            out, hn = torch.rnn_tanh(
                input, h, self._flat_weights, self.bias, self.num_layers, self.dropout,
                self.training, self.bidirectional, self.batch_first,
            )  # fmt: skip
        else:
            out, hn = torch.rnn_relu(
                input, h, self._flat_weights, self.bias, self.num_layers, self.dropout,
                self.training, self.bidirectional, self.batch_first,
            )  # fmt: skip
        if not is_batched:
            out, hn = out.squeeze(batch_dim), hn.squeeze(1)
        return out, hn

    __constants__ = LSTM.__constants__


class LSTMCell:
    def forward(
        self, input: Tensor, hx: Optional[Tuple[Tensor, Tensor]] = None
    ) -> Tuple[Tensor, Tensor]:
        is_batched = input.dim() == 2
        if not is_batched:
            input = input.unsqueeze(0)
        if hx is None:
            sizes = [input.size(0), self.hidden_size]
            h = torch.zeros(sizes, dtype=input.dtype, device=input.device)
            c = h
        else:
            h, c = hx[0], hx[1]
            if not is_batched:
                h, c = h.unsqueeze(0), c.unsqueeze(0)
        h, c = torch.lstm_cell(
            input, [h, c], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        if not is_batched:
            h, c = h.squeeze(0), c.squeeze(0)
        return h, c

    __constants__ = "input_size hidden_size bias".split()


class GRUCell:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        is_batched = input.dim() == 2
        if not is_batched:
            input = input.unsqueeze(0)
        if hx is None:
            sizes = [input.size(0), self.hidden_size]
            h = torch.zeros(sizes, dtype=input.dtype, device=input.device)
        else:
            h = hx
            if not is_batched:
                h = h.unsqueeze(0)
        out = torch.gru_cell(input, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        if not is_batched:
            out = out.squeeze(0)
        return out

    __constants__ = LSTMCell.__constants__


class RNNCell:
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        is_batched = input.dim() == 2
        if not is_batched:
            input = input.unsqueeze(0)
        if hx is None:
            sizes = [input.size(0), self.hidden_size]
            h = torch.zeros(sizes, dtype=input.dtype, device=input.device)
        else:
            h = hx
            if not is_batched:
                h = h.unsqueeze(0)
        if self.nonlinearity == "tanh":
            out = torch.rnn_tanh_cell(
                input, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
            )
        else:
            out = torch.rnn_relu_cell(
                input, h, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
            )
        if not is_batched:
            out = out.squeeze(0)
        return out

    __constants__ = "input_size hidden_size bias nonlinearity".split()


class MultiheadAttention:
    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        need_weights: bool = True,
        attn_mask: Optional[Tensor] = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        turned = self.batch_first and query.dim() == 3
        if turned:
            query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask,
            need_weights, attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, average_attn_weights, is_causal,
        )  # fmt: skip
        if turned:
            out = out.transpose(1, 0)
        return out, weights

    __constants__ = (
        "embed_dim num_heads dropout batch_first add_zero_attn kdim vdim _qkv_same_embed_dim "
        "head_dim q_proj_weight k_proj_weight v_proj_weight in_proj_weight bias_k bias_v "
        "in_proj_bias"
    ).split()


class TransformerEncoderLayer:
    def forward(
        self,
        src: Tensor,
        src_mask: Optional[Tensor] = None,
        src_key_padding_mask: Optional[Tensor] = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            x = x + self._ff_block(self.norm2(x))
        else:
            x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
            x = self.norm2(x + self._ff_block(x))
        return x

    def _sa_block(
        self, x: Tensor, mask: Optional[Tensor], padding: Optional[Tensor], is_causal: bool = False
    ) -> Tensor:
        x = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False,
            is_causal=is_causal,
        )[0]  # fmt: skip
        return self.dropout1(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout2(x)

    __constants__ = ["norm_first"]


class TransformerEncoder:
    def forward(
        self,
        src: Tensor,
        mask: Optional[Tensor] = None,
        src_key_padding_mask: Optional[Tensor] = None,
        is_causal: Optional[bool] = None,
    ) -> Tensor:
        output = src
        for layer in self.layers:
            output = layer(output, mask, src_key_padding_mask, False)
        if self.norm is not None:
            output = self.norm(output)
        return output

    __constants__ = ["num_layers", "norm"]


class TransformerDecoderLayer:
    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Optional[Tensor] = None,
        memory_mask: Optional[Tensor] = None,
        tgt_key_padding_mask: Optional[Tensor] = None,
        memory_key_padding_mask: Optional[Tensor] = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), tgt_mask, tgt_key_padding_mask)
            x = x + self._mha_block(self.norm2(x), memory, memory_mask, memory_key_padding_mask)
            x = x + self._ff_block(self.norm3(x))
        else:
            x = self.norm1(x + self._sa_block(x, tgt_mask, tgt_key_padding_mask))
            x = self.norm2(x + self._mha_block(x, memory, memory_mask, memory_key_padding_mask))
            x = self.norm3(x + self._ff_block(x))
        return x

    def _sa_block(self, x: Tensor, mask: Optional[Tensor], padding: Optional[Tensor]) -> Tensor:
        x = self.self_attn(x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False)[0]
        return self.dropout1(x)

    def _mha_block(
        self, x: Tensor, memory: Tensor, mask: Optional[Tensor], padding: Optional[Tensor]
    ) -> Tensor:
        x = self.multihead_attn(
            x, memory, memory, attn_mask=mask, key_padding_mask=padding, need_weights=False
        )[0]
        return self.dropout2(x)

    def _ff_block(self, x: Tensor) -> Tensor:
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return self.dropout3(x)

    __constants__ = ["norm_first"]


class TransformerDecoder:
    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Optional[Tensor] = None,
        memory_mask: Optional[Tensor] = None,
        tgt_key_padding_mask: Optional[Tensor] = None,
        memory_key_padding_mask: Optional[Tensor] = None,
        tgt_is_causal: Optional[bool] = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        output = tgt
        for layer in self.layers:
            output = layer(
                output, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                memory_key_padding_mask, False, memory_is_causal,
            )  # fmt: skip
        if self.norm is not None:
            output = self.norm(output)
        return output

    __constants__ = ["num_layers", "norm"]


class Transformer:
    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Optional[Tensor] = None,
        tgt_mask: Optional[Tensor] = None,
        memory_mask: Optional[Tensor] = None,
        src_key_padding_mask: Optional[Tensor] = None,
        tgt_key_padding_mask: Optional[Tensor] = None,
        memory_key_padding_mask: Optional[Tensor] = None,
        src_is_causal: Optional[bool] = None,
        tgt_is_causal: Optional[bool] = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        )
