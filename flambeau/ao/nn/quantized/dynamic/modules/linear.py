"""Linear whose input is quantized by its own range."""

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.ao.nn.quantized.modules import linear
from flambeau.ao.nn.quantized.modules.utils import deployed, observed_weight

__all__ = ["Linear"]


class Linear(linear.Linear):
    """Floats in, floats out; the weight is quantized."""

    _version = 4
    _op, _name = "linear_dynamic", "DynamicQuantizedLinear"

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8
    ) -> None:
        linear.Linear.__init__(self, in_features, out_features, bias_, dtype)
        self.version = self._version

    def forward(self, x: Tensor) -> Tensor:
        params = self._packed_params
        if params.dtype is torch.qint8:
            return getattr(torch.ops.quantized, self._op)(x, params._packed_params, True)
        out = getattr(torch.ops.quantized, self._op + "_fp16")(x, params._packed_params)
        return out.to(x.dtype)

    def extra_repr(self) -> str:
        facts = {"in_features": self.in_features, "out_features": self.out_features}
        facts["dtype"] = self._packed_params.dtype
        if self._packed_params.dtype is torch.qint8:
            facts["qscheme"] = self.weight().qscheme()
        return ", ".join(f"{name}={value}" for name, value in facts.items())

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float module with a QConfig."""
        layer, weight, bias = deployed(mod)
        qconfig = getattr(mod, "qconfig", None)
        if qconfig is None or qconfig.weight is None:
            from flambeau.ao.quantization.qconfig import default_dynamic_qconfig

            layer.qconfig = qconfig = default_dynamic_qconfig
        dtype = qconfig.weight().dtype
        if dtype not in (torch.qint8, torch.float16):
            raise RuntimeError("Unsupported dtype specified for dynamic quantized Linear!")
        found = cls(layer.in_features, layer.out_features, dtype=dtype)
        found.set_weight_bias(
            observed_weight(layer, weight) if dtype is torch.qint8 else weight.float(), bias
        )
        return found
