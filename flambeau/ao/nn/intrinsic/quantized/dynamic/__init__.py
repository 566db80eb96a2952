"""`torch.ao.nn.intrinsic.quantized.dynamic`."""

from flambeau.ao.nn.intrinsic.quantized.dynamic.modules import LinearReLU

__all__ = ["LinearReLU"]
