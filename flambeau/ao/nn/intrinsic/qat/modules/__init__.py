"""Convolutions (and linear layers) with a batch norm, a relu or both, for training.

The weight that is rounded is the one that will be deployed: with the batch norm folded in by its
running statistics. Results are scaled back before the batch norm, so that it trains as usual.
"""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.qat import modules as qat

_NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


class _WithNorm(qat.Rounded):
    """What layers with a batch norm share."""

    _names_what_it_got = False
    bn: Any
    training: bool

    def _set_up(self, norm: Any, freeze_bn: bool, qconfig: Any) -> None:
        self.bn = norm
        self._round(qconfig)
        self._freeze(freeze_bn or not self.training)

    def _freeze(self, frozen: bool) -> Any:
        self.freeze_bn, self.bn.training = frozen, not frozen
        return self

    def update_bn_stats(self) -> Any:
        return self._freeze(False)

    def freeze_bn_stats(self) -> Any:
        return self._freeze(True)

    def train(self, mode: bool = True) -> Any:
        """As of other modules, but frozen statistics stay frozen."""
        if not self.freeze_bn:
            return super().train(mode)  # type: ignore[misc]
        self.training = mode
        return self

    def _folded(self) -> tuple[Tensor, Tensor]:
        """(weight with the batch norm folded in, what it was multiplied by)"""
        factor = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        shape = [-1, *[1] * (self.weight.dim() - 1)]
        return self.weight_fake_quant(self.weight * factor.reshape(shape)), factor

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a fused float module with a QConfig."""
        cls._check_source(mod)
        layer, norm = mod[0], mod[1]
        facts = {name: getattr(layer, name) for name in cls._facts}
        facts |= {"bias": layer.bias is not None, "eps": norm.eps, "momentum": norm.momentum}
        found: Any = cls(**facts, qconfig=mod.qconfig)  # type: ignore[call-arg]
        found.weight, found.bias = layer.weight, layer.bias
        for name in (*norm._parameters, *norm._buffers):
            setattr(found.bn, name, getattr(norm, name))
        return found


class _ConvBnNd(_WithNorm):
    _dims = 2
    _relu = False
    _facts = qat.RoundedConv._facts

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
        norm = _NORMS[self._dims](out_channels, eps, momentum)
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


class _ReLU:
    """A layer whose results pass a relu."""

    def forward(self: Any, input: Tensor) -> Tensor:
        return nn.functional.relu(super().forward(input))  # type: ignore[misc]


class ConvReLU1d(_ReLU, qat.Conv1d):
    """A convolution of sequences, rounded, and a relu."""


class ConvReLU2d(_ReLU, qat.Conv2d):
    """A convolution of pictures, rounded, and a relu."""


class ConvReLU3d(_ReLU, qat.Conv3d):
    """A convolution of volumes, rounded, and a relu."""


class LinearReLU(_ReLU, qat.Linear):
    """A linear layer, rounded, and a relu."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None
    ) -> None:
        qat.Linear.__init__(self, in_features, out_features, bias, qconfig)


class LinearBn1d(_WithNorm, nn.Linear):
    """A linear layer and its batch norm."""

    _facts = qat.Linear._facts

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, eps: float = 1e-05,
        momentum: float = 0.1, freeze_bn: bool = False, qconfig: Any = None,
    ) -> None:  # fmt: skip
        nn.Linear.__init__(self, in_features, out_features, bias)
        self._set_up(nn.BatchNorm1d(out_features, eps, momentum), freeze_bn, qconfig)

    def forward(self, input: Tensor) -> Tensor:
        weight, factor = self._folded()
        out = nn.functional.linear(input, weight) / factor.reshape(1, -1)
        return self.bn(out if self.bias is None else out + self.bias)


def update_bn_stats(mod: Any) -> None:
    """For `model.apply`: statistics follow what passes."""
    if isinstance(mod, _WithNorm):
        mod.update_bn_stats()


def freeze_bn_stats(mod: Any) -> None:
    """For `model.apply`: statistics stay as they are."""
    if isinstance(mod, _WithNorm):
        mod.freeze_bn_stats()
