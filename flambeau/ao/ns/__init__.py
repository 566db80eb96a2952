"""`torch.ao.ns`: comparing float models with quantized ones."""

from flambeau.ao.ns import _numeric_suite

__all__ = ["_numeric_suite"]
