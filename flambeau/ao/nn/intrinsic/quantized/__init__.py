"""`torch.ao.nn.intrinsic.quantized`: fused modules on quantized tensors."""

from flambeau.ao.nn.intrinsic.quantized import dynamic
from flambeau.ao.nn.intrinsic.quantized.modules import (
    BNReLU2d,
    BNReLU3d,
    ConvAdd2d,
    ConvAddReLU2d,
    ConvReLU1d,
    ConvReLU2d,
    ConvReLU3d,
    LinearLeakyReLU,
    LinearReLU,
    LinearTanh,
)

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvReLU1d", "ConvReLU2d",
    "ConvReLU3d", "LinearLeakyReLU", "LinearReLU", "LinearTanh", "dynamic",
]  # fmt: skip
