"""Linear on quantized tensors."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import (
    KeepsState,
    WeightedQuantizedModule,
    deployed,
    empty_weight,
    hide_packed_params_repr,
    observed_weight,
    scale_and_zero_point,
)

__all__ = ["LinearPackedParams", "Linear"]


def _blank(rows: int, columns: int, dtype: Any) -> Tensor:
    """A weight before it is set."""
    if dtype is torch.float16:
        return torch.zeros(rows, columns)
    if dtype is torch.qint8:
        return empty_weight(rows, columns)
    raise RuntimeError("Unsupported dtype specified for quantized Linear!")


class LinearPackedParams(KeepsState):
    """A packed weight and bias; saved as a pair of tensors and the dtype."""

    _version = 3
    _stated = ("dtype", "_packed_params")

    def __init__(self, dtype: Any = torch.qint8) -> None:
        nn.Module.__init__(self)
        self.dtype = dtype
        self.set_weight_bias(_blank(1, 1, dtype), None)

    def set_weight_bias(self, weight: Tensor, bias: Tensor | None) -> None:
        word = "linear_prepack" if self.dtype is torch.qint8 else "linear_prepack_fp16"
        self._packed_params = getattr(torch.ops.quantized, word)(weight, bias)

    def _weight_bias(self) -> tuple:
        return self._packed_params.unpack()

    def forward(self, x: Tensor) -> Tensor:
        return x

    def _to_save(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "_packed_params": self._weight_bias()}

    def _restore(self, dtype: Any, pair: Any) -> None:
        self.dtype = dtype
        if pair is not None:
            self.set_weight_bias(*pair)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: list, *rest: Any
    ) -> None:
        state_dict.setdefault(prefix + "dtype", torch.qint8)
        older = [state_dict.pop(prefix + name, None) for name in ("weight", "bias")]
        name = prefix + "_packed_params"
        if state_dict.setdefault(name, older if older[0] is not None else None) is None:
            missing.append(name)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *rest)

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """A linear layer on quantized tensors."""

    _version = 3
    _FLOAT_MODULE: Any = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)
    _op = "linear"
    _name = "QuantizedLinear"

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8
    ) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = in_features, out_features
        weight = _blank(out_features, in_features, dtype)
        self._packed_params = LinearPackedParams(dtype)
        self.set_weight_bias(weight, torch.zeros(out_features) if bias_ else None)

    def _get_name(self) -> str:
        return self._name

    def extra_repr(self) -> str:
        names = ("in_features", "out_features", "scale", "zero_point")
        facts = [f"{name}={getattr(self, name)}" for name in names]
        return ", ".join([*facts, f"qscheme={self.weight().qscheme()}"])

    def __repr__(self) -> str:
        return hide_packed_params_repr(self, LinearPackedParams)

    def forward(self, x: Tensor) -> Tensor:
        run = getattr(torch.ops.quantized, self._op)
        return run(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _weight_bias(self) -> tuple:
        return self._packed_params._weight_bias()

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float module that has observed, or one trained with fake quantization."""
        levels = scale_and_zero_point(mod)
        layer, weight, bias = deployed(mod)
        found = cls._like(layer, mod)
        found.set_weight_bias(observed_weight(layer, weight), bias)
        found._restore(*levels)
        return found

    @classmethod
    def _like(cls, layer: Any, mod: Any) -> Any:
        """A layer of the sizes of a float one, which is `mod` or in it."""
        return cls(layer.in_features, layer.out_features)
