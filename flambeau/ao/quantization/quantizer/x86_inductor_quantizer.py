"""X86InductorQuantizer: unsigned bytes for what is read, signed ones for weights."""

from typing import Any

from flambeau.ao.quantization.fake_quantize import FusedMovingAvgObsFakeQuantize
from flambeau.ao.quantization.observer import (
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
)
from flambeau.ao.quantization.quantizer import QuantizationConfig, spec
from flambeau.ao.quantization.quantizer.patterns import PatternQuantizer

__all__ = ["X86InductorQuantizer", "get_default_x86_inductor_quantization_config"]


def get_default_x86_inductor_quantization_config(
    is_qat: bool = False, is_dynamic: bool = False, reduce_range: bool = False
) -> QuantizationConfig:
    """Bytes from 0 for activations (half of them with `reduce_range`), channels for weights."""
    if is_dynamic:
        raise NotImplementedError("programs with scales that are found while they run")
    words = f"uint8 0..{127 if reduce_range else 255} affine"
    if is_qat:
        activation = spec(
            FusedMovingAvgObsFakeQuantize, words, observer=MovingAverageMinMaxObserver
        )
        weight = spec(
            FusedMovingAvgObsFakeQuantize, "int8 -128..127 channels",
            observer=MovingAveragePerChannelMinMaxObserver,
        )  # fmt: skip
    else:
        activation = spec(HistogramObserver, words)
        weight = spec(PerChannelMinMaxObserver, "int8 -128..127 channels")
    return QuantizationConfig(activation, activation, weight, None, is_qat)


class X86InductorQuantizer(PatternQuantizer):
    """Only what layers read is quantized: results are rounded where another layer reads them."""

    quantizes_results = False

    def set_module_name_qconfig(self, module_name: str, quantization_config: Any) -> Any:
        return self._of_module(module_name, quantization_config)

    def set_module_type_qconfig(self, module_type: Any, quantization_config: Any) -> Any:
        return self._of_module_type(module_type, quantization_config)

    def set_function_type_qconfig(self, function_type: Any, quantization_config: Any) -> Any:
        """For a function, as `torch.nn.functional.linear`."""
        from flambeau.ao.quantization.quantizer.patterns import base

        name = function_type.__name__
        return self._rule(lambda node: base(node) == name, quantization_config)
