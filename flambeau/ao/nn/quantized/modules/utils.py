"""What quantized modules share."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.quantization.utils import quantized_weight
from flambeau.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights


class KeepsState(nn.Module):
    """A module whose state has values that are no parameters: packed weights, scales, dtypes.

    `_stated` names them; `_to_save` gives them to be saved, `_restore` takes them back.
    """

    _stated: tuple[str, ...] = ("scale", "zero_point")

    def _to_save(self) -> dict[str, Any]:
        return {name: torch.tensor(getattr(self, name)) for name in self._stated}

    def _restore(self, scale: Any, zero_point: Any) -> None:
        self.scale, self.zero_point = float(scale), int(zero_point)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        nn.Module._save_to_state_dict(self, destination, prefix, keep_vars)
        destination.update({prefix + name: value for name, value in self._to_save().items()})

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *complaints: Any
    ) -> None:
        self._restore(*(state_dict.pop(prefix + name) for name in self._stated))
        # what was taken back is no parameter, so that a strict look would miss it
        nn.Module._load_from_state_dict(
            self, state_dict, prefix, local_metadata, False, *complaints
        )  # fmt: skip


class WeightedQuantizedModule(KeepsState):
    """A module with a packed weight."""

    scale, zero_point = 1.0, 0

    def _weight_bias(self) -> tuple:
        return self._packed_params.unpack()

    def weight(self) -> Tensor:
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        return self._weight_bias()[1]

    @classmethod
    def from_reference(cls, ref_module: Any, output_scale: Any, output_zero_point: Any) -> Any:
        raise NotImplementedError(f"{cls.__name__}.from_reference")


class OfLevels:
    """Layers whose results have levels of their own, found by the observer of a float layer.

    `_told` names what else a class is told about the float layer, `_levels` how it calls the
    scale and the zero point.
    """

    _told: tuple[str, ...] = ()
    _levels: tuple[str, ...] = ("scale", "zero_point")

    def _get_name(self) -> str:
        return "Quantized" + type(self).__name__

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float layer that has observed."""
        facts = {name: getattr(mod, name) for name in cls._told}
        return cls(**dict(zip(cls._levels, scale_and_zero_point(mod))), **facts)


def deployed(mod: Any) -> tuple[Any, Tensor, Tensor | None]:
    """(layer, weight, bias) of a module that may have an activation or a batch norm behind it,
    which is folded in.
    """
    layer = mod
    if isinstance(mod, nn.Sequential):
        layer = mod[0]
        layer.qconfig = mod.qconfig
    norm = getattr(mod, "bn", None)
    if norm is None:
        return layer, layer.weight, layer.bias
    fold = fuse_linear_bn_weights if isinstance(layer, nn.Linear) else fuse_conv_bn_weights
    statistics = norm.running_mean, norm.running_var, norm.eps
    return layer, *fold(layer.weight, layer.bias, *statistics, norm.weight, norm.bias)


def observed_weight(mod: nn.Module, weight: Tensor | None = None) -> Tensor:
    """The weight of a module, quantized as its observer (or its QConfig) says."""
    weight = mod.weight if weight is None else weight
    observer = getattr(mod, "weight_fake_quant", None)
    if observer is None:
        if getattr(mod, "qconfig", None) is None:
            raise AssertionError("Input float module must have qconfig defined.")
        observer = mod.qconfig.weight()
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


def empty_weight(*shape: int) -> Tensor:
    """A weight of bytes before it is set."""
    return torch._empty_affine_quantized(shape, scale=1, zero_point=0, dtype=torch.qint8)
