"""XNNPACKQuantizer: signed bytes, for what is read and for what is computed."""

from typing import Any

from flambeau.ao.quantization.fake_quantize import FusedMovingAvgObsFakeQuantize
from flambeau.ao.quantization.observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    PerChannelMinMaxObserver,
)
from flambeau.ao.quantization.quantizer import QuantizationConfig, spec
from flambeau.ao.quantization.quantizer.patterns import PatternQuantizer

__all__ = ["XNNPACKQuantizer", "get_symmetric_quantization_config"]


def get_symmetric_quantization_config(
    is_per_channel: bool = False,
    is_qat: bool = False,
    is_dynamic: bool = False,
    act_qmin: int = -128,
    act_qmax: int = 127,
    weight_qmin: int = -127,
    weight_qmax: int = 127,
) -> QuantizationConfig:
    """Signed bytes; weights with zero in the middle, for all or for each channel."""
    if is_dynamic:
        raise NotImplementedError("programs with scales that are found while they run")
    whole, scheme = f"int8 {weight_qmin}..{weight_qmax} coarse", "symmetric"
    watcher: Any = MinMaxObserver
    if is_per_channel:
        watcher, scheme = PerChannelMinMaxObserver, "channels"
    of_input: Any = HistogramObserver
    more: list[dict] = [{}, {}]
    if is_qat:
        slow = MovingAveragePerChannelMinMaxObserver if is_per_channel else None
        more = [{"observer": MovingAverageMinMaxObserver}]
        more.append({"observer": slow or MovingAverageMinMaxObserver})
        of_input = watcher = FusedMovingAvgObsFakeQuantize
    activation = spec(of_input, f"int8 {act_qmin}..{act_qmax} affine coarse", **more[0])
    weight = spec(watcher, f"{whole} {scheme}", **more[1])
    return QuantizationConfig(activation, activation, weight, None, is_qat)


class XNNPACKQuantizer(PatternQuantizer):
    """All results of layers are quantized."""

    def set_operator_type(self, operator_type: Any, quantization_config: Any) -> Any:
        """For an op, as `torch.ops.aten.linear.default`."""
        return self._of_operator(operator_type, quantization_config)

    def set_module_type(self, module_type: Any, quantization_config: Any) -> Any:
        return self._of_module_type(module_type, quantization_config)

    def set_module_name(self, module_name: str, quantization_config: Any) -> Any:
        return self._of_module(module_name, quantization_config)
