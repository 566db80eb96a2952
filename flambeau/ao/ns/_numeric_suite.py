"""Where a quantized model leaves its float model: weights and outputs, module by module."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.quantization.quantization_mappings import get_default_compare_output_module_list

__all__ = [
    "compare_weights", "get_logger_dict", "Logger", "OutputLogger", "prepare_model_outputs",
    "get_matching_activations", "compare_model_outputs",
]  # fmt: skip


def _matching(name: str, names: Any) -> str | None:
    """The longest of some names that this one ends with, up to the names of fused parts."""
    for end in (name, name.removesuffix("._packed_params"), name.removesuffix(".0")):
        if end in names:
            return end
    return None


def compare_weights(float_dict: dict, quantized_dict: dict) -> dict[str, dict]:
    """Weights of the same name: {"fc.weight": {"float": ..., "quantized": ...}}."""
    found = {}
    floats = {key.removesuffix(".weight"): value for key, value in float_dict.items()
              if key.endswith("weight")}  # fmt: skip
    for key, value in quantized_dict.items():
        stem, _, last = key.rpartition(".")
        if last not in ("weight", "_packed_params"):
            continue
        quantized = value[0] if isinstance(value, tuple) else value
        name = _matching(stem, floats) or _matching(stem + ".0", floats)
        if name is not None and isinstance(quantized, Tensor):
            found[stem.removesuffix("._packed_params") + ".weight"] = {
                "float": floats[name], "quantized": quantized,
            }  # fmt: skip
    return found


class Logger(nn.Module):
    """Keeps what passes in `stats`."""

    def __init__(self) -> None:
        super().__init__()
        self.stats: dict[str, Any] = {}
        self.dtype = torch.quint8

    def forward(self, x: Tensor) -> Tensor:
        return x


class OutputLogger(Logger):
    """Keeps the outputs of a module."""

    def __init__(self) -> None:
        super().__init__()
        self.stats["tensor_val"] = []

    def forward(self, x: Tensor) -> Tensor:
        self.stats["tensor_val"].append(x)
        return x


def _log(module: Any, input: Any, output: Any) -> Any:
    return module.activation_post_process(output)


def prepare_model_outputs(
    float_module: nn.Module, q_module: nn.Module, logger_cls: Any = OutputLogger,
    allow_list: Any = None,
) -> None:  # fmt: skip
    """Loggers behind the modules of both."""
    kinds = tuple(get_default_compare_output_module_list() if allow_list is None else allow_list)
    for model in (float_module, q_module):
        for module in list(model.modules()):
            if type(module) in kinds and not hasattr(module, "activation_post_process"):
                module.add_module("activation_post_process", logger_cls())
                module.register_forward_hook(_log)


def get_logger_dict(mod: nn.Module, prefix: str = "") -> dict[str, dict]:
    """{"conv.stats": {"tensor_val": [...]}}"""
    found = {}
    for name, module in mod.named_modules():
        if isinstance(module, Logger):
            place = name.removesuffix(".activation_post_process")
            found[prefix + place + ".stats"] = module.stats
    return found


def get_matching_activations(float_module: nn.Module, q_module: nn.Module) -> dict[str, dict]:
    """What both have logged under the same names."""
    floats, quantized = get_logger_dict(float_module), get_logger_dict(q_module)
    found = {}
    for key, stats in quantized.items():
        other = key if key in floats else key.replace(".stats", ".0.stats")
        if other in floats:
            found[key] = {
                "float": floats[other]["tensor_val"], "quantized": stats["tensor_val"],
            }  # fmt: skip
    return found


def compare_model_outputs(
    float_model: nn.Module, q_model: nn.Module, *data: Any, logger_cls: Any = OutputLogger,
    allow_list: Any = None,
) -> dict[str, dict]:  # fmt: skip
    """Outputs of the modules of both for the same data."""
    prepare_model_outputs(float_model, q_model, logger_cls, allow_list)
    float_model(*data)
    q_model(*data)
    return get_matching_activations(float_model, q_model)
