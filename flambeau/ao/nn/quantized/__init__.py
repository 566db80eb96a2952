"""`torch.ao.nn.quantized`: modules that work on quantized tensors."""

from flambeau.ao.nn.quantized import dynamic, functional, modules
from flambeau.ao.nn.quantized.modules import *  # noqa: F403
from flambeau.ao.nn.quantized.modules import __all__ as _names

__all__ = [*_names, "dynamic", "functional", "modules"]


def __getattr__(name: str) -> object:
    return getattr(modules, name)
