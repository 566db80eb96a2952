"""Weights of 8 or 4 bits with float activations: for generation, which waits for memory.

`quantize_weights(model, bits=4, group_size=64)` exchanges the linear layers of a model. Each row
of a weight is cut into groups, which have a scale and a least value of their own.
"""

import copy
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.eager.weight_nibbles import FewBits

__all__ = ["Linear", "quantize_weights"]


class Linear(nn.Module):
    """A linear layer whose weight has few bits."""

    levels: Tensor
    scales: Tensor
    shifts: Tensor

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, bits: int = 4,
        group_size: int = 64,
    ) -> None:  # fmt: skip
        super().__init__()
        if bits not in (4, 8):
            raise ValueError(f"weights of {bits} bits: only 4 and 8 are there")
        if in_features % group_size or group_size % 8:
            raise ValueError(
                f"in_features ({in_features}) must be a multiple of group_size ({group_size}), "
                "which must be a multiple of 8"
            )
        self.in_features, self.out_features = in_features, out_features
        self.bits, self.group_size = bits, group_size
        groups = in_features // group_size
        stored = in_features * bits // 8
        self.register_buffer("levels", torch.zeros(out_features, stored, dtype=torch.uint8))
        self.register_buffer("scales", torch.zeros(out_features, groups))
        self.register_buffer("shifts", torch.zeros(out_features, groups))
        self.register_buffer("bias", torch.zeros(out_features) if bias else None)
        self._made: Any = None

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._made = None

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_made": None}

    def __deepcopy__(self, memo: dict) -> "Linear":
        found = Linear(
            self.in_features, self.out_features, self.bias is not None, self.bits, self.group_size
        )
        found.load_state_dict(self.state_dict())
        return found.train(self.training)

    @classmethod
    def from_float(cls, mod: nn.Linear, bits: int = 4, group_size: int = 64) -> "Linear":
        """From a float layer."""
        found = cls(mod.in_features, mod.out_features, mod.bias is not None, bits, group_size)
        rows, depth = mod.weight.shape
        weight = mod.weight.detach().float().reshape(rows, depth // group_size, group_size)
        low, high = weight.amin(-1), weight.amax(-1)
        scales = (high - low).clamp(min=1e-12) / (2**bits - 1)
        levels = ((weight - low[..., None]) / scales[..., None]).round().clamp(0, 2**bits - 1)
        levels = levels.to(torch.uint8).reshape(rows, depth)
        found.levels = levels if bits == 8 else levels[:, ::2] | (levels[:, 1::2] << 4)
        found.scales, found.shifts = scales, low
        if mod.bias is not None:
            found.bias = mod.bias.detach().clone()
        return found

    def _levels(self) -> Tensor:
        if self.bits == 8:
            return self.levels
        pairs = torch.stack([self.levels & 15, self.levels >> 4], -1)
        return pairs.reshape(self.out_features, self.in_features)

    def dequantized(self) -> Tensor:
        """The weight in floats."""
        shape = (self.out_features, -1, self.group_size)
        numbers = self._levels().float().reshape(shape) * self.scales[..., None]
        return (numbers + self.shifts[..., None]).reshape(self.out_features, self.in_features)

    def forward(self, input: Tensor) -> Tensor:
        if self._made is None:
            self._made = FewBits(self._levels(), self.scales, self.shifts, self.bias, self.bits)
        return self._made.product(input.detach())

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, bits={self.bits}, group_size={self.group_size}"
        )


def quantize_weights(
    model: nn.Module,
    bits: int = 4,
    group_size: int = 64,
    filter_fn: Callable[[nn.Module, str], bool] | None = None,
    inplace: bool = False,
) -> nn.Module:
    """A model whose linear layers have weights of few bits; filter_fn(module, name) says which.

    Layers whose size is no multiple of group_size stay as they are.
    """
    if not inplace:
        model = copy.deepcopy(model)
    for name, parent in list(model.named_modules()):
        for child, module in list(parent.named_children()):
            path = f"{name}.{child}" if name else child
            fits = type(module) is nn.Linear and module.in_features % group_size == 0
            if fits and (filter_fn is None or filter_fn(module, path)):
                setattr(parent, child, Linear.from_float(module, bits, group_size))
    return model.eval()
