"""Normalisation within a sample: over layers, groups of channels, neighbouring channels.

Batches are in batchnorm.py, single channels in instancenorm.py.
"""

import numbers
from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar
from typing import Any

from flambeau._tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.declaring import layer, told
from flambeau.nn.modules.filling import fill_neutral, make_parameters
from flambeau.nn.modules.module import Module
from flambeau.ops.table import public

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _Neighbours(Module):
    size: int

    def extra_repr(self) -> str:
        return f"{self.size}, {told(self, 'alpha', 'beta', 'k')}"


@layer("local_response_norm(input, size, alpha, beta, k)")
class LocalResponseNorm(_Neighbours):
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels) ^ beta."""

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0


@layer(constants="")
class CrossMapLRN2d(_Neighbours):
    """The same for (N, C, H, W), where an even `size` counts one channel less."""

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        side = (self.size - 1) // 2  # as many channels before as behind, also for an even size
        squares = F.pad(input.square(), (0, 0, 0, 0, side, side))
        summed = squares.unfold(1, 2 * side + 1, 1).sum(-1)
        # PyTorch's running sum never lets go of the first channel; weights were learned with it
        later = summed[:, side + 1 :] + input[:, :1].square()
        summed = public("cat")((summed[:, : side + 1], later), 1)
        return input * (self.k + summed * (self.alpha / self.size)).pow(-self.beta)


class _Affine(Module):
    """Weight and bias, if any, start as those that change nothing."""

    def reset_parameters(self) -> None:
        """Weights of one, biases of zero."""
        fill_neutral(self.weight, self._parameters.get("bias"))


def _learned(norm):
    """Bring normalized_shape into form; the shape of what is learned, None if nothing is."""
    shape = norm.normalized_shape
    alone = isinstance(shape, numbers.Integral)
    norm.normalized_shape = shape = (shape,) if alone else tuple(shape)
    return shape if norm.elementwise_affine else None


@layer("layer_norm(input, normalized_shape, weight, bias, eps)", takes="input: Tensor")
class LayerNorm(_Affine):
    """(x - mean) / sqrt(var + eps) * weight + bias, over the last dimensions.

    weight and bias have the shape normalized_shape.
    """

    normalized_shape: int | Sequence[int]
    eps: float = 1e-5
    elementwise_affine: bool = True
    bias: InitVar[bool] = True
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None

    def _settle(self, bias, device, dtype):
        shape = _learned(self)
        make_parameters(self, device, dtype, weight=shape, bias=shape if bias else None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        options = told(self, "eps", "elementwise_affine")
        return f"{self.normalized_shape}, {options}, bias={self.bias is not None}"


@layer("group_norm(input, num_groups, weight, bias, eps)", takes="input: Tensor")
class GroupNorm(_Affine):
    """(x - mean) / sqrt(var + eps), over groups of channels; weight and bias per channel."""

    num_groups: int
    num_channels: int
    eps: float = 1e-5
    affine: bool = True
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None
    _: KW_ONLY
    bias: InitVar[bool] = True

    def _settle(self, device, dtype, bias):
        channels, groups = self.num_channels, self.num_groups
        if channels % groups:
            raise ValueError(
                f"num_channels ({channels}) must be divisible by num_groups ({groups})"
            )
        per_channel = (channels,) if self.affine else None
        make_parameters(self, device, dtype, weight=per_channel, bias=per_channel if bias else None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        options = told(self, "eps", "affine")
        bias = self.bias is not None
        return f"{self.num_groups}, {self.num_channels}, {options}, bias={bias}"


@layer("rms_norm(x, normalized_shape, weight, eps)", takes="x: Tensor")
class RMSNorm(_Affine):
    """x / sqrt(mean(x^2) + eps) * weight, over the last dimensions.

    Without eps, the smallest step of the dtype is taken.
    """

    normalized_shape: int | Sequence[int]
    eps: float | None = None
    elementwise_affine: bool = True
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None

    def _settle(self, device, dtype):
        make_parameters(self, device, dtype, weight=_learned(self))
        self.reset_parameters()

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, {told(self, 'eps', 'elementwise_affine')}"
