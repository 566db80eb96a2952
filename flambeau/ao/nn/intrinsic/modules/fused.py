"""Modules one after the other that are quantized as one."""

from typing import Any

from flambeau import Tensor, nn

__all__ = [
    "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d",
    "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU", "BNReLU2d", "BNReLU3d", "LinearBn1d",
    "LinearLeakyReLU", "LinearTanh", "ConvAdd2d", "ConvAddReLU2d",
]  # fmt: skip


class _FusedModule(nn.Sequential):
    """A sequence that is one step; subclasses say what it is made of."""

    _kinds: tuple = ()

    def __init__(self, *parts: nn.Module) -> None:
        for part, kind in zip(parts, self._kinds, strict=True):
            if type(part) is not kind and not isinstance(part, kind):
                names = ", ".join(type(p).__name__ for p in parts)
                raise AssertionError(f"Incorrect types for input modules {names}")
        super().__init__(*parts)


class ConvReLU1d(_FusedModule):
    _kinds = (nn.Conv1d, nn.ReLU)


class ConvReLU2d(_FusedModule):
    _kinds = (nn.Conv2d, nn.ReLU)


class ConvReLU3d(_FusedModule):
    _kinds = (nn.Conv3d, nn.ReLU)


class LinearReLU(_FusedModule):
    _kinds = (nn.Linear, nn.ReLU)


class ConvBn1d(_FusedModule):
    _kinds = (nn.Conv1d, nn.BatchNorm1d)


class ConvBn2d(_FusedModule):
    _kinds = (nn.Conv2d, nn.BatchNorm2d)


class ConvBn3d(_FusedModule):
    _kinds = (nn.Conv3d, nn.BatchNorm3d)


class ConvBnReLU1d(_FusedModule):
    _kinds = (nn.Conv1d, nn.BatchNorm1d, nn.ReLU)


class ConvBnReLU2d(_FusedModule):
    _kinds = (nn.Conv2d, nn.BatchNorm2d, nn.ReLU)


class ConvBnReLU3d(_FusedModule):
    _kinds = (nn.Conv3d, nn.BatchNorm3d, nn.ReLU)


class BNReLU2d(_FusedModule):
    _kinds = (nn.BatchNorm2d, nn.ReLU)


class BNReLU3d(_FusedModule):
    _kinds = (nn.BatchNorm3d, nn.ReLU)


class LinearBn1d(_FusedModule):
    _kinds = (nn.Linear, nn.BatchNorm1d)


class LinearLeakyReLU(_FusedModule):
    _kinds = (nn.Linear, nn.LeakyReLU)


class LinearTanh(_FusedModule):
    _kinds = (nn.Linear, nn.Tanh)


class ConvAdd2d(_FusedModule):
    """A convolution to which something else is added."""

    def __init__(self, conv: nn.Module, add: Any) -> None:
        nn.Sequential.__init__(self, conv)
        self.add = add

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """The same, and nothing below zero."""

    def __init__(self, conv: nn.Module, add: Any, relu: nn.Module) -> None:
        nn.Sequential.__init__(self, conv)
        self.add, self.relu = add, relu

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        return self.relu(self.add(self[0](x1), x2))
