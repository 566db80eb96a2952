"""Activations on quantized tensors whose results have levels of their own."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import (
    as_buffers,
    observed_weight,
    scale_and_zero_point,
)

__all__ = ["ReLU6", "Hardswish", "ELU", "LeakyReLU", "Sigmoid", "Softmax", "PReLU"]


class ReLU6(nn.ReLU):
    """Numbers between 0 and 6."""

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.relu6(input, self.inplace)

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> "ReLU6":
        return ReLU6(mod.inplace)


class Hardswish(nn.Hardswish):
    def __init__(
        self, scale: float, zero_point: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        as_buffers(self, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.hardswish(input, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedHardswish"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> "Hardswish":
        return Hardswish(*scale_and_zero_point(mod))


class ELU(nn.ELU):
    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(alpha)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self) -> str:
        return "QuantizedELU"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> "ELU":
        return ELU(*scale_and_zero_point(mod), mod.alpha)


class LeakyReLU(nn.LeakyReLU):
    def __init__(
        self, scale: float, zero_point: int, negative_slope: float = 0.01, inplace: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(negative_slope, inplace)
        as_buffers(self, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.leaky_relu(
            input, self.negative_slope, self.inplace, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedLeakyReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> "LeakyReLU":
        return cls(*scale_and_zero_point(mod), mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> "Sigmoid":
        return cls(*scale_and_zero_point(mod))


class Softmax(nn.Softmax):
    def __init__(self, dim: int | None = None, scale: float = 1.0, zero_point: int = 0) -> None:
        super().__init__()
        self.dim, self.scale, self.zero_point = dim, scale, zero_point

    def forward(self, input: Tensor) -> Tensor:
        dim = (0 if input.dim() in (0, 1, 3) else 1) if self.dim is None else self.dim
        return torch.ops.quantized.softmax(input, dim, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedSoftmax"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> "Softmax":
        return Softmax(mod.dim, *scale_and_zero_point(mod))


class PReLU(nn.Module):
    """Slopes below zero are quantized, too."""

    def __init__(
        self, output_scale: float, output_zero_point: int, num_parameters: int = 1
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.scale, self.zero_point = output_scale, output_zero_point
        self.set_weight(torch.quantize_per_tensor(torch.rand(num_parameters), 1.0, 0, torch.quint8))

    def set_weight(self, w: Tensor) -> None:
        self.weight = w

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.prelu(input, self.weight, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return "QuantizedPReLU"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> "PReLU":
        found = cls(*scale_and_zero_point(mod), mod.num_parameters)
        found.set_weight(observed_weight(mod))
        return found
