"""Activations on quantized tensors whose results have levels of their own."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import OfLevels, as_buffers, observed_weight

__all__ = ["ReLU6", "Hardswish", "ELU", "LeakyReLU", "Sigmoid", "Softmax", "PReLU"]


class ReLU6(OfLevels, nn.ReLU):
    """Numbers between 0 and 6; levels stay."""

    _told, _levels = ("inplace",), ()

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.relu6(input, self.inplace)


class Hardswish(OfLevels, nn.Hardswish):
    def __init__(
        self, scale: float, zero_point: int, device: Any = None, dtype: Any = None
    ) -> None:
        nn.Hardswish.__init__(self)
        as_buffers(self, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.hardswish(input, self.scale, self.zero_point)


class ELU(OfLevels, nn.ELU):
    _told = ("alpha",)

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        nn.ELU.__init__(self, alpha)
        vars(self).update(scale=scale, zero_point=zero_point)

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.elu(input, self.scale, self.zero_point, self.alpha)


class LeakyReLU(OfLevels, nn.LeakyReLU):
    _told = ("negative_slope", "inplace")

    def __init__(
        self, scale: float, zero_point: int, negative_slope: float = 0.01, inplace: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        nn.LeakyReLU.__init__(self, negative_slope, inplace)
        as_buffers(self, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        run = torch.ops.quantized.leaky_relu
        return run(input, self.negative_slope, self.inplace, self.scale, self.zero_point)


class Sigmoid(OfLevels, nn.Sigmoid):
    _levels = ("output_scale", "output_zero_point")

    def __init__(self, output_scale: float, output_zero_point: int) -> None:
        nn.Sigmoid.__init__(self)
        vars(self).update(output_scale=output_scale, output_zero_point=output_zero_point)

    def _get_name(self) -> str:
        return "Sigmoid"

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.sigmoid(input, self.output_scale, self.output_zero_point)


class Softmax(OfLevels, nn.Softmax):
    _told = ("dim",)

    def __init__(self, dim: int | None = None, scale: float = 1.0, zero_point: int = 0) -> None:
        nn.Softmax.__init__(self, dim)
        vars(self).update(scale=scale, zero_point=zero_point)

    def forward(self, input: Tensor) -> Tensor:
        dim = (0 if input.dim() in (0, 1, 3) else 1) if self.dim is None else self.dim
        return torch.ops.quantized.softmax(input, dim, self.scale, self.zero_point)


class PReLU(OfLevels, nn.Module):
    """Slopes below zero are quantized, too."""

    _told = ("num_parameters",)
    _levels = ("output_scale", "output_zero_point")

    def __init__(
        self, output_scale: float, output_zero_point: int, num_parameters: int = 1
    ) -> None:
        nn.Module.__init__(self)
        self.num_parameters = num_parameters
        self.scale, self.zero_point = output_scale, output_zero_point
        self.set_weight(torch.quantize_per_tensor(torch.rand(num_parameters), 1.0, 0, torch.quint8))

    def set_weight(self, w: Tensor) -> None:
        self.weight = w

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.prelu(input, self.weight, self.scale, self.zero_point)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> "PReLU":
        found = super().from_float(mod)
        found.set_weight(observed_weight(mod))
        return found
