"""Weight normalisation by a hook: the older way, kept for programs and files that use it.

The hook computes `weight` from `weight_g` and `weight_v` before every forward. The newer way, which
computes it when it is read, is `parametrizations.weight_norm`.
"""

import warnings
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.forward_hooks import refuse_lazy, refuse_second, take_off

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def scaled_to(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """v with each slice along dim (-1: all of it) scaled to the length that g says."""
    if v.is_complex():
        return v * (g / flambeau.norm_except_dim(v, 2, dim))
    return flambeau._weight_norm(v, g, dim)


class WeightNorm:
    """The hook."""

    name: str
    dim: int

    def __init__(self, name: str, dim: int) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight, from its lengths and directions."""
        v, g = getattr(module, self.name + "_v"), getattr(module, self.name + "_g")
        return scaled_to(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int) -> "WeightNorm":
        """Split a parameter and register the hook."""
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of "
            "`torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        refuse_second(module, WeightNorm, name, "weight_norm")
        weight = getattr(module, name)
        refuse_lazy(weight, WeightNorm, "weight")
        made = WeightNorm(name, dim)
        lengths = flambeau.norm_except_dim(weight, 2, made.dim)
        del module._parameters[name]
        for end, tensor in (("_g", lengths), ("_v", weight)):
            module.register_parameter(name + end, Parameter(tensor.data))
        made(module, None)  # something to read before the first forward
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Module) -> None:
        """Make the weight an ordinary parameter again."""
        weight = self.compute_weight(module).data
        for end in ("", "_g", "_v"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module, name: str = "weight", dim: int = 0):
    """Write a weight as g * v / |v|, each slice along dim by itself (dim=None: all together)."""
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module, name: str = "weight"):
    """Undo weight_norm; the weight keeps its value."""
    take_off(module, WeightNorm, name, "weight_norm")
    return module
