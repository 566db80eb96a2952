"""Linear whose input is quantized by its own range."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules import linear
from flambeau.ao.nn.quantized.modules.utils import observed_weight

__all__ = ["Linear"]


class Linear(linear.Linear):
    """Floats in, floats out; the weight is quantized."""

    _version = 4

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8
    ) -> None:
        super().__init__(in_features, out_features, bias_, dtype=dtype)
        self.version = self._version

    def forward(self, x: Tensor) -> Tensor:
        packed, ops = self._packed_params, torch.ops.quantized
        if packed.dtype is torch.qint8:
            return ops.linear_dynamic(x, packed._packed_params, True).to(x.dtype)
        return ops.linear_dynamic_fp16(x, packed._packed_params).to(x.dtype)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinear"

    def extra_repr(self) -> str:
        text = (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"dtype={self._packed_params.dtype}"
        )
        if self._packed_params.dtype is torch.qint8:
            text += f", qscheme={self.weight().qscheme()}"
        return text

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float module with a QConfig."""
        source = mod[0] if isinstance(mod, nn.Sequential) else mod
        if source is not mod:
            source.qconfig = mod.qconfig
        qconfig = getattr(mod, "qconfig", None)
        if qconfig is None or qconfig.weight is None:
            from flambeau.ao.quantization.qconfig import default_dynamic_qconfig

            source.qconfig = qconfig = default_dynamic_qconfig
        dtype = qconfig.weight().dtype
        if dtype not in (torch.qint8, torch.float16):
            raise RuntimeError("Unsupported dtype specified for dynamic quantized Linear!")
        found = cls(source.in_features, source.out_features, dtype=dtype)
        weight = observed_weight(source) if dtype is torch.qint8 else source.weight.float()
        found.set_weight_bias(weight, source.bias)
        return found
