"""Forwards of layers as scripts, where those of the package itself do more than a script can say.

A class here stands for the layer of its name. Its methods are compiled from this source, never run;
__constants__ names attributes that never change.
"""

# mypy: ignore-errors

from typing import List, Optional  # noqa: UP035

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
