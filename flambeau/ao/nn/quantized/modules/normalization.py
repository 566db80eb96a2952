"""Layer, group and instance norms on quantized tensors."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import as_buffers, scale_and_zero_point

__all__ = ["LayerNorm", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class LayerNorm(nn.LayerNorm):
    def __init__(
        self, normalized_shape: Any, weight: Any, bias: Any, scale: float, zero_point: int,
        eps: float = 1e-5, elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)
        self.weight, self.bias = weight, bias
        as_buffers(self, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.layer_norm(
            input, self.normalized_shape, self.weight, self.bias, self.eps, self.scale,
            self.zero_point,
        )  # fmt: skip

    def _get_name(self) -> str:
        return "QuantizedLayerNorm"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> "LayerNorm":
        ends = scale_and_zero_point(mod)
        return cls(
            mod.normalized_shape, mod.weight, mod.bias, *ends, mod.eps, mod.elementwise_affine
        )


class GroupNorm(nn.GroupNorm):
    def __init__(
        self, num_groups: int, num_channels: int, weight: Any, bias: Any, scale: float,
        zero_point: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_groups, num_channels, eps, affine)
        self.weight, self.bias = weight, bias
        as_buffers(self, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.group_norm(
            input, self.num_groups, self.weight, self.bias, self.eps, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return "QuantizedGroupNorm"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> "GroupNorm":
        ends = scale_and_zero_point(mod)
        return cls(
            mod.num_groups, mod.num_channels, mod.weight, mod.bias, *ends, mod.eps, mod.affine
        )


class _InstanceNorm(nn.modules.instancenorm._InstanceNorm):
    _dims = 1

    def __init__(
        self, num_features: int, weight: Any, bias: Any, scale: float, zero_point: int,
        eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.weight, self.bias = weight, bias
        as_buffers(self, scale, zero_point)

    def forward(self, input: Tensor) -> Tensor:
        return torch.ops.quantized.instance_norm(
            input, self.weight, self.bias, self.eps, self.scale, self.zero_point
        )

    def _get_name(self) -> str:
        return f"QuantizedInstanceNorm{self._dims}d"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        ends = scale_and_zero_point(mod)
        return cls(mod.num_features, mod.weight, mod.bias, *ends, mod.eps, affine=mod.affine)


class InstanceNorm1d(_InstanceNorm):
    _dims = 1


class InstanceNorm2d(_InstanceNorm):
    _dims = 2


class InstanceNorm3d(_InstanceNorm):
    _dims = 3
