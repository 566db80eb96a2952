"""Linear on quantized tensors."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import (
    WeightedQuantizedModule,
    hide_packed_params_repr,
    observed_weight,
    scale_and_zero_point,
)

__all__ = ["LinearPackedParams", "Linear"]


class LinearPackedParams(nn.Module):
    """A packed weight and bias; saved as a pair of tensors and the dtype."""

    _version = 3

    def __init__(self, dtype: Any = torch.qint8) -> None:
        super().__init__()
        self.dtype = dtype
        if dtype is torch.qint8:
            weight = torch._empty_affine_quantized([1, 1], scale=1, zero_point=0, dtype=torch.qint8)
        elif dtype is torch.float16:
            weight = torch.zeros([1, 1], dtype=torch.float)
        self.set_weight_bias(weight, None)

    def set_weight_bias(self, weight: Tensor, bias: Tensor | None) -> None:
        ops = torch.ops.quantized
        pack = ops.linear_prepack if self.dtype is torch.qint8 else ops.linear_prepack_fp16
        self._packed_params = pack(weight, bias)

    def _weight_bias(self) -> tuple:
        return self._packed_params.unpack()

    def forward(self, x: Tensor) -> Tensor:
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list,
        unexpected_keys: list, error_msgs: list,
    ) -> None:  # fmt: skip
        self.dtype = state_dict.pop(prefix + "dtype", torch.qint8)
        pair = state_dict.pop(prefix + "_packed_params", None)
        if pair is None and prefix + "weight" in state_dict:  # the older form
            pair = state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias")
        if pair is None:
            missing_keys.append(prefix + "_packed_params")
        else:
            self.set_weight_bias(*pair)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """A linear layer on quantized tensors."""

    _version = 3
    _FLOAT_MODULE: Any = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bias = torch.zeros(out_features) if bias_ else None
        if dtype is torch.qint8:
            weight = torch._empty_affine_quantized(
                [out_features, in_features], scale=1, zero_point=0, dtype=torch.qint8
            )
        elif dtype is torch.float16:
            weight = torch.zeros([out_features, in_features], dtype=torch.float)
        else:
            raise RuntimeError("Unsupported dtype specified for quantized Linear!")
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, bias)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self) -> str:
        return "QuantizedLinear"

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"scale={self.scale}, zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return hide_packed_params_repr(self, LinearPackedParams)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear(
            x, self._packed_params._packed_params, self.scale, self.zero_point
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list,
        unexpected_keys: list, error_msgs: list,
    ) -> None:  # fmt: skip
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _weight_bias(self) -> tuple:
        return self._packed_params._weight_bias()

    def weight(self) -> Tensor:
        return self._weight_bias()[0]

    def bias(self) -> Tensor | None:
        return self._weight_bias()[1]

    def set_weight_bias(self, w: Tensor, b: Tensor | None) -> None:
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float module that has observed, or one trained with fake quantization."""
        source, scale, zero_point = mod, *scale_and_zero_point(mod)
        weight, bias = mod.weight if hasattr(mod, "weight") else None, None
        if hasattr(mod, "bn"):  # a batch norm that is folded in now
            weight, bias = nn.utils.fusion.fuse_linear_bn_weights(
                mod.weight, mod.bias, mod.bn.running_mean, mod.bn.running_var, mod.bn.eps,
                mod.bn.weight, mod.bn.bias,
            )  # fmt: skip
            source = mod
        elif isinstance(mod, nn.Sequential):  # linear and its activation
            source = mod[0]
            source.qconfig = mod.qconfig
            weight, bias = source.weight, source.bias
        else:
            bias = mod.bias
        found = cls(source.in_features, source.out_features)
        found.set_weight_bias(observed_weight(source, weight), bias)
        found.scale, found.zero_point = scale, zero_point
        return found
