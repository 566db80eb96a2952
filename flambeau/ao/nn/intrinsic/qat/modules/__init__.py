"""Convolutions (and linear layers) with a batch norm, a relu or both, for training.

The weight that is rounded is the one that will be deployed: with the batch norm folded in by its
running statistics. Results are scaled back before the batch norm, so that it trains as usual.
"""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.qat import modules as qat
from flambeau.ao.nn.qat.modules import weight_fake_quant

_NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


class _WithNorm:
    """What layers with a batch norm share."""

    bn: Any
    weight: Any

    def _set_up(self, norm: Any, freeze_bn: bool, qconfig: Any) -> None:
        self.qconfig = qconfig
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = norm
        self.weight_fake_quant = weight_fake_quant(qconfig)
        if self.training:
            (self.freeze_bn_stats if freeze_bn else self.update_bn_stats)()
        else:
            self.freeze_bn_stats()

    def update_bn_stats(self) -> Any:
        self.freeze_bn, self.bn.training = False, True
        return self

    def freeze_bn_stats(self) -> Any:
        self.freeze_bn, self.bn.training = True, False
        return self

    def train(self, mode: bool = True) -> Any:
        """As of other modules, but frozen statistics stay frozen."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():  # type: ignore[attr-defined]
                module.train(mode)
        return self

    def _folded(self) -> tuple[Tensor, Tensor]:
        """(weight with the batch norm folded in, what it was multiplied by)"""
        factor = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        shape = [-1, *[1] * (self.weight.dim() - 1)]
        return self.weight_fake_quant(self.weight * factor.reshape(shape)), factor


class _ConvBnNd(_WithNorm):
    _dims = 2
    _relu = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: Any = None,
        padding_mode: str = "zeros", eps: float = 1e-05, momentum: float = 0.1,
        freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(  # type: ignore[call-arg]
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bool(bias),
            padding_mode,
        )  # fmt: skip
        norm = _NORMS[self._dims](out_channels, eps, momentum, True, True)
        self._set_up(norm, freeze_bn, qconfig)

    def forward(self, input: Tensor) -> Tensor:
        weight, factor = self._folded()
        zeros = torch.zeros_like(factor)
        out = self._conv_forward(input, weight, zeros)  # type: ignore[attr-defined]
        shape = [1, -1, *[1] * self._dims]
        out = out / factor.reshape(shape)
        if self.bias is not None:  # type: ignore[attr-defined]
            out = out + self.bias.reshape(shape)  # type: ignore[attr-defined]
        out = self.bn(out)
        return nn.functional.relu(out) if self._relu else out

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a fused float module with a QConfig."""
        conv, norm = mod[0], mod[1]
        found: Any = cls(
            conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding,
            conv.dilation, conv.groups, conv.bias is not None, conv.padding_mode, norm.eps,
            norm.momentum, False, mod.qconfig,
        )  # fmt: skip
        found.weight, found.bias = conv.weight, conv.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(found.bn, name, getattr(norm, name))
        return found


class ConvBn1d(_ConvBnNd, nn.Conv1d):
    _dims = 1


class ConvBn2d(_ConvBnNd, nn.Conv2d):
    _dims = 2


class ConvBn3d(_ConvBnNd, nn.Conv3d):
    _dims = 3


class ConvBnReLU1d(ConvBn1d):
    _relu = True


class ConvBnReLU2d(ConvBn2d):
    _relu = True


class ConvBnReLU3d(ConvBn3d):
    _relu = True


class ConvReLU1d(qat.Conv1d):
    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.relu(super().forward(input))


class ConvReLU2d(qat.Conv2d):
    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.relu(super().forward(input))


class ConvReLU3d(qat.Conv3d):
    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.relu(super().forward(input))


class LinearReLU(qat.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.relu(super().forward(input))


class LinearBn1d(_WithNorm, nn.Linear):
    """A linear layer and its batch norm."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, eps: float = 1e-05,
        momentum: float = 0.1, freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias)
        self._set_up(nn.BatchNorm1d(out_features, eps, momentum, True, True), freeze_bn, qconfig)

    def forward(self, input: Tensor) -> Tensor:
        weight, factor = self._folded()
        out = nn.functional.linear(input, weight) / factor.reshape(1, -1)
        return self.bn(out if self.bias is None else out + self.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        linear, norm = mod[0], mod[1]
        found: Any = cls(
            linear.in_features, linear.out_features, linear.bias is not None, norm.eps,
            norm.momentum, False, mod.qconfig,
        )  # fmt: skip
        found.weight, found.bias = linear.weight, linear.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(found.bn, name, getattr(norm, name))
        return found


def update_bn_stats(mod: Any) -> None:
    """For `model.apply`: statistics follow what passes."""
    if isinstance(mod, _WithNorm):
        mod.update_bn_stats()


def freeze_bn_stats(mod: Any) -> None:
    """For `model.apply`: statistics stay as they are."""
    if isinstance(mod, _WithNorm):
        mod.freeze_bn_stats()
