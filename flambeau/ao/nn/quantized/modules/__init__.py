"""Quantized modules; Quantize and DeQuantize are here."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.activation import (
    ELU,
    Hardswish,
    LeakyReLU,
    PReLU,
    ReLU6,
    Sigmoid,
    Softmax,
)
from flambeau.ao.nn.quantized.modules.batchnorm import BatchNorm2d, BatchNorm3d
from flambeau.ao.nn.quantized.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from flambeau.ao.nn.quantized.modules.dropout import Dropout
from flambeau.ao.nn.quantized.modules.embedding_ops import Embedding, EmbeddingBag
from flambeau.ao.nn.quantized.modules.functional_modules import (
    FloatFunctional,
    FXFloatFunctional,
    QFunctional,
)
from flambeau.ao.nn.quantized.modules.linear import Linear
from flambeau.ao.nn.quantized.modules.normalization import (
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
)

__all__ = [
    "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
    "ConvTranspose2d", "ConvTranspose3d", "DeQuantize", "ELU", "Embedding", "EmbeddingBag",
    "GroupNorm", "Hardswish", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LayerNorm",
    "LeakyReLU", "Linear", "Quantize", "ReLU6", "Sigmoid", "Softmax", "Dropout", "PReLU",
    "FloatFunctional", "FXFloatFunctional", "MaxPool2d", "QFunctional",
]  # fmt: skip

MaxPool2d = nn.MaxPool2d  # takes quantized tensors as they are


class Quantize(nn.Module):
    """Numbers become quantized."""

    scale: Tensor
    zero_point: Tensor

    def __init__(self, scale: Any, zero_point: Any, dtype: Any, factory_kwargs: Any = None) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor([float(scale)]))
        self.register_buffer("zero_point", torch.tensor([int(zero_point)], dtype=torch.long))
        self.dtype = dtype

    def forward(self, X: Tensor) -> Tensor:
        return torch.quantize_per_tensor(X, self.scale, self.zero_point, self.dtype)

    @staticmethod
    def from_float(mod: nn.Module, use_precomputed_fake_quant: bool = False) -> "Quantize":
        """From a stub that has observed."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(scale, zero_point, mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(nn.Module):
    """Quantized numbers become floats."""

    def forward(self, Xq: Tensor) -> Tensor:
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: nn.Module, use_precomputed_fake_quant: bool = False) -> "DeQuantize":
        return DeQuantize()


def __getattr__(name: str) -> Any:
    if name in ("LSTM", "MultiheadAttention"):  # made of modules that are made of those above
        from flambeau.ao.nn.quantized.modules import whole

        return getattr(whole, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
