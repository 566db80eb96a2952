"""Batch norm on quantized tensors, with fixed statistics."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import as_buffers

__all__ = ["BatchNorm2d", "BatchNorm3d"]


class _BatchNorm(nn.modules.batchnorm._BatchNorm):
    _dims = 2
    _ending = ""
    _names = "QuantizedBatchNorm{}d"

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, True, True)
        as_buffers(self, 1.0, 0)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != self._dims + 2:
            raise ValueError(f"Input shape must be `(N, C, {'D, ' * (self._dims - 2)}H, W)`!")

    def forward(self, input: Tensor) -> Tensor:
        run = getattr(torch.ops.quantized, f"batch_norm{self._dims}d{self._ending}")
        statistics = self.running_mean, self.running_var, self.eps
        return run(input, self.weight, self.bias, *statistics, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return self._names.format(self._dims)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float module that has observed, alone or before a relu."""
        layer = mod[0] if isinstance(mod, nn.Sequential) else mod
        found = cls(layer.num_features, layer.eps)
        for name in ("weight", "bias", "running_mean", "running_var"):
            setattr(found, name, getattr(layer, name))
        found.scale, found.zero_point = mod.activation_post_process.calculate_qparams()
        return found


class BatchNorm2d(_BatchNorm):
    _dims = 2


class BatchNorm3d(_BatchNorm):
    _dims = 3
