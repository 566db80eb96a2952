"""Forwards of layers as scripts, where those of the package itself do more than a script can say.

A class here stands for the layer of its name. Its methods are compiled from this source, never run;
__constants__ names attributes that never change.
"""

# mypy: ignore-errors

from typing import List, Optional, Tuple  # noqa: UP035

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import Tensor

# ruff: noqa: UP006, UP045, SIM102


class Sequential:
    def forward(self, input):
        for module in self:
            input = module(input)
        return input


class Conv1d:
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return F.conv1d(padded, weight, bias, self.stride, (0,), self.dilation, self.groups)
        return F.conv1d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    __constants__ = (
        "stride padding dilation groups padding_mode output_padding in_channels out_channels "
        "kernel_size _reversed_padding_repeated_twice"
    ).split()


class Conv2d:
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return F.conv2d(padded, weight, bias, self.stride, (0, 0), self.dilation, self.groups)
        return F.conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    __constants__ = Conv1d.__constants__


class Conv3d:
    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            none = (0, 0, 0)
            return F.conv3d(padded, weight, bias, self.stride, none, self.dilation, self.groups)
        return F.conv3d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    __constants__ = Conv1d.__constants__


class _ConvTransposeNd:
    def _output_padding(self, input: Tensor, output_size: Optional[List[int]]) -> List[int]:
        found = torch.jit.annotate(List[int], [])
        if output_size is None:
            for size in self.output_padding:
                found.append(size)
            return found
        dims = len(self.stride)
        wanted = output_size[len(output_size) - dims :]
        for k in range(dims):
            least = (input.size(input.dim() - dims + k) - 1) * list(self.stride)[k]
            least = least - 2 * list(self.padding)[k]
            least = least + list(self.dilation)[k] * (list(self.kernel_size)[k] - 1) + 1
            found.append(wanted[k] - least)
        return found

    __constants__ = Conv1d.__constants__


class ConvTranspose1d:
    def forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        return F.conv_transpose1d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    _output_padding = _ConvTransposeNd._output_padding
    __constants__ = Conv1d.__constants__


class ConvTranspose2d:
    def forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        return F.conv_transpose2d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    _output_padding = _ConvTransposeNd._output_padding
    __constants__ = Conv1d.__constants__


class ConvTranspose3d:
    def forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:
        extra = self._output_padding(input, output_size)
        return F.conv_transpose3d(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation,
        )  # fmt: skip

    _output_padding = _ConvTransposeNd._output_padding
    __constants__ = Conv1d.__constants__


class _BatchNorm:
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0
        if self.momentum is not None:
            factor = self.momentum
        if self.training and self.track_running_stats:
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
                if self.momentum is None:
                    factor = 1.0 / float(self.num_batches_tracked)
        mean, var = self.running_mean, self.running_var
        use_batch = self.training
        if not self.track_running_stats:
            use_batch = True
        return F.batch_norm(input, mean, var, self.weight, self.bias, use_batch, factor, self.eps)

    __constants__ = "track_running_stats momentum eps num_features affine".split()


class BatchNorm1d:
    forward = _BatchNorm.forward
    __constants__ = _BatchNorm.__constants__

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 2 and input.dim() != 3:
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class BatchNorm2d:
    forward = _BatchNorm.forward
    __constants__ = _BatchNorm.__constants__

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 4:
            raise ValueError(f"expected 4D input (got {input.dim()}D input)")


class BatchNorm3d:
    forward = _BatchNorm.forward
    __constants__ = _BatchNorm.__constants__

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 5:
            raise ValueError(f"expected 5D input (got {input.dim()}D input)")


class _InstanceNorm:
    def forward(self, input: Tensor) -> Tensor:
        use_input = self.training
        if not self.track_running_stats:
            use_input = True
        factor = 0.0
        if self.momentum is not None:
            factor = self.momentum
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, use_input, factor,
            self.eps,
        )  # fmt: skip

    __constants__ = _BatchNorm.__constants__


class GroupNorm:
    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    __constants__ = "num_groups num_channels eps affine".split()


class LayerNorm:
    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    __constants__ = "normalized_shape eps elementwise_affine".split()


class LocalResponseNorm:
    def forward(self, input: Tensor) -> Tensor:
        squares = input.mul(input)
        if input.dim() == 3:
            padded = F.pad(squares.unsqueeze(1), [0, 0, self.size // 2, (self.size - 1) // 2])
            mean = torch.ops.aten.avg_pool2d(padded, [self.size, 1], [1, 1]).squeeze(1)
        else:
            sizes = input.size()
            flat = squares.view(sizes[0], 1, sizes[1], sizes[2], -1)
            padded = F.pad(flat, [0, 0, 0, 0, self.size // 2, (self.size - 1) // 2])
            mean = torch.ops.aten.avg_pool3d(padded, [self.size, 1, 1], [1, 1, 1]).squeeze(1)
            mean = mean.view(sizes)
        return input / mean.mul(self.alpha).add(self.k).pow(self.beta)

    __constants__ = "size alpha beta k".split()


class Embedding:
    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    __constants__ = (
        "num_embeddings embedding_dim padding_idx max_norm norm_type scale_grad_by_freq sparse"
    ).split()


class Unflatten:
    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, list(self.unflattened_size))

    __constants__ = "dim unflattened_size".split()


class FeatureAlphaDropout:
    def forward(self, input: Tensor) -> Tensor:
        return torch.feature_alpha_dropout(input, self.p, self.training)

    __constants__ = ["p"]


class Upsample:
    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners)

    __constants__ = "size scale_factor mode align_corners recompute_scale_factor".split()


class CircularPad1d:
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "circular")

    __constants__ = ["padding"]


class CircularPad2d:
    forward = CircularPad1d.forward
    __constants__ = ["padding"]


class CircularPad3d:
    forward = CircularPad1d.forward
    __constants__ = ["padding"]


class Softmax2d:
    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 3 and input.dim() != 4:
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)


class EmbeddingBag:
    def forward(
        self,
        input: Tensor,
        offsets: Optional[Tensor] = None,
        per_sample_weights: Optional[Tensor] = None,
    ) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    __constants__ = (
        "num_embeddings embedding_dim max_norm norm_type scale_grad_by_freq mode sparse "
        "include_last_offset padding_idx"
    ).split()


class GaussianNLLLoss:
    def forward(self, input: Tensor, target: Tensor, var: Tensor) -> Tensor:
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )

    __constants__ = "full eps reduction".split()


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
