"""`torch.ao.nn.qat.dynamic`."""

from flambeau.ao.nn.qat.modules import Linear

__all__ = ["Linear"]
