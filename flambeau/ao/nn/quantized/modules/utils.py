"""What quantized modules share."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.quantization.utils import quantized_weight


class WeightedQuantizedModule(nn.Module):
    """A module with a packed weight."""

    @classmethod
    def from_reference(cls, ref_module: Any, output_scale: Any, output_zero_point: Any) -> Any:
        raise NotImplementedError(f"{cls.__name__}.from_reference")


def observed_weight(mod: nn.Module, weight: Tensor | None = None) -> Tensor:
    """The weight of a module, quantized as its observer (or its QConfig) says."""
    weight = mod.weight if weight is None else weight
    observer = getattr(mod, "weight_fake_quant", None)
    if observer is None:
        observer = mod.qconfig.weight()
        observer(weight)
    elif not observer.training or not hasattr(observer, "activation_post_process"):
        observer(weight.detach())
    return quantized_weight(weight, observer)


def scale_and_zero_point(mod: nn.Module) -> tuple[float, int]:
    """Those that the observer of a module's results has found."""
    process = getattr(mod, "activation_post_process", None)
    if process is None or not hasattr(process, "calculate_qparams"):
        return 1.0, 0
    scale, zero_point = process.calculate_qparams()
    return float(scale), int(zero_point)


def hide_packed_params_repr(self: nn.Module, params: Any) -> str:
    """The text of a module without its packed parameters."""
    shown = {name: m for name, m in self._modules.items() if not isinstance(m, params)}
    lines = [self.extra_repr()] if self.extra_repr() else []
    if not shown:
        return f"{self._get_name()}({', '.join(lines)})"
    more = [f"({name}): {m!r}".replace("\n", "\n  ") for name, m in shown.items()]
    return f"{self._get_name()}(\n  " + "\n  ".join([*lines, *more]) + "\n)"


def as_buffers(mod: nn.Module, scale: float, zero_point: int) -> None:
    """Scale and zero point as they are saved by layers that keep them as tensors."""
    mod.register_buffer("scale", torch.tensor(scale))
    mod.register_buffer("zero_point", torch.tensor(zero_point))
