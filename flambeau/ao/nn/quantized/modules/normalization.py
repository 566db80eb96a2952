"""Layer, group and instance norms on quantized tensors."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import OfLevels, as_buffers

__all__ = ["LayerNorm", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _Norm(OfLevels):
    """What the norms share; `_sizes` names what the op is told besides the weights."""

    _op = ""
    _sizes: tuple[str, ...] = ()

    def _set_up(self, weight: Any, bias: Any, scale: float, zero_point: int) -> None:
        for name, value in (("weight", weight), ("bias", bias)):
            setattr(self, name, value)
        as_buffers(self, scale, zero_point)  # type: ignore[arg-type]

    def forward(self, input: Tensor) -> Tensor:
        told = [getattr(self, n) for n in (*self._sizes, "weight", "bias", "eps", *self._levels)]
        return getattr(torch.ops.quantized, self._op)(input, *told)


class LayerNorm(_Norm, nn.LayerNorm):
    _op, _sizes = "layer_norm", ("normalized_shape",)
    _told = ("normalized_shape", "weight", "bias", "eps", "elementwise_affine")

    def __init__(
        self, normalized_shape: Any, weight: Any, bias: Any, scale: float, zero_point: int,
        eps: float = 1e-5, elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        nn.LayerNorm.__init__(self, normalized_shape, eps, elementwise_affine)
        self._set_up(weight, bias, scale, zero_point)


class GroupNorm(_Norm, nn.GroupNorm):
    _op, _sizes = "group_norm", ("num_groups",)
    _told = ("num_groups", "num_channels", "weight", "bias", "eps", "affine")

    def __init__(
        self, num_groups: int, num_channels: int, weight: Any, bias: Any, scale: float,
        zero_point: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        nn.GroupNorm.__init__(self, num_groups, num_channels, eps, affine)
        self._set_up(weight, bias, scale, zero_point)


class _InstanceNorm(_Norm, nn.modules.instancenorm._InstanceNorm):
    _op = "instance_norm"
    _told = ("num_features", "weight", "bias", "eps", "affine")

    def __init__(
        self, num_features: int, weight: Any, bias: Any, scale: float, zero_point: int,
        eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        plain = nn.modules.instancenorm._InstanceNorm
        plain.__init__(self, num_features, eps, momentum, affine, track_running_stats)
        self._set_up(weight, bias, scale, zero_point)


class InstanceNorm1d(_InstanceNorm):
    """Of channels of sequences."""


class InstanceNorm2d(_InstanceNorm):
    """Of channels of pictures."""


class InstanceNorm3d(_InstanceNorm):
    """Of channels of volumes."""
