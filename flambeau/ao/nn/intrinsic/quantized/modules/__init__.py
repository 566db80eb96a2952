"""Quantized layers with their activation."""

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


class LinearReLU(linear.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_relu(
            x, self._packed_params._packed_params, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedLinearReLU"


class LinearLeakyReLU(linear.Linear):
    negative_slope = 0.01

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_leaky_relu(
            x, self._packed_params._packed_params, self.scale, self.zero_point, self.negative_slope
        )

    def _get_name(self) -> str:
        return "QuantizedLinearLeakyReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        found = super().from_float(mod)
        found.negative_slope = mod[1].negative_slope
        return found


class LinearTanh(linear.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_tanh(
            x, self._packed_params._packed_params, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedLinearTanh"


class BNReLU2d(batchnorm.BatchNorm2d):
    _ending = "_relu"

    def _get_name(self) -> str:
        return "QuantizedBNReLU2d"


class BNReLU3d(batchnorm.BatchNorm3d):
    _ending = "_relu"

    def _get_name(self) -> str:
        return "QuantizedBNReLU3d"
