"""Quantized layers with their activation, or with a sum."""

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.ao.nn.quantized.modules import batchnorm, conv, linear


class ConvReLU1d(conv.Conv1d):
    _ending, _names = "_relu", "QuantizedConvReLU{}d"


class ConvReLU2d(conv.Conv2d):
    _ending, _names = "_relu", "QuantizedConvReLU{}d"


class ConvReLU3d(conv.Conv3d):
    _ending, _names = "_relu", "QuantizedConvReLU{}d"


class ConvAdd2d(conv.Conv2d):
    """A convolution to which something else is added before it is rounded."""

    _ending, _names = "_add", "QuantizedConvAdd{}d"

    def forward(self, input: Tensor, extra_input: Tensor) -> Tensor:  # type: ignore[override]
        run = getattr(torch.ops.quantized, "conv2d" + self._ending)
        return run(self._padded(input), extra_input, self._packed_params, *self._levels())


class ConvAddReLU2d(ConvAdd2d):
    _ending, _names = "_add_relu", "QuantizedConvAddReLU{}d"


class _Activated(linear.Linear):
    """A linear layer and an activation; `_name` says which."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: Any = torch.qint8
    ) -> None:
        linear.Linear.__init__(self, in_features, out_features, bias, dtype)


class LinearReLU(_Activated):
    _op, _name = "linear_relu", "QuantizedLinearReLU"


class LinearTanh(_Activated):
    _op, _name = "linear_tanh", "QuantizedLinearTanh"


class LinearLeakyReLU(linear.Linear):
    _name = "QuantizedLinearLeakyReLU"

    def __init__(
        self, in_features: int, out_features: int, negative_slope: float, bias: bool = True,
        dtype: Any = torch.qint8,
    ) -> None:  # fmt: skip
        linear.Linear.__init__(self, in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        packed, slope = self._packed_params._packed_params, self.negative_slope
        run = torch.ops.quantized.linear_leaky_relu
        return run(x, packed, self.scale, self.zero_point, slope)

    @classmethod
    def _like(cls, layer: Any, mod: Any) -> Any:
        return cls(layer.in_features, layer.out_features, mod[1].negative_slope)


class BNReLU2d(batchnorm.BatchNorm2d):
    _ending, _names = "_relu", "QuantizedBNReLU{}d"


class BNReLU3d(batchnorm.BatchNorm3d):
    _ending, _names = "_relu", "QuantizedBNReLU{}d"
