"""Batch norm on quantized tensors, with fixed statistics."""

from typing import Any

import flambeau as torch
from flambeau import Tensor, nn
from flambeau.ao.nn.quantized.modules.utils import as_buffers, scale_and_zero_point

__all__ = ["BatchNorm2d", "BatchNorm3d"]


class _BatchNorm(nn.modules.batchnorm._BatchNorm):
    _dims = 2
    _ending = ""

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
        return run(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps,
            self.scale, self.zero_point,
        )  # fmt: skip

    def _get_name(self) -> str:
        return f"QuantizedBatchNorm{self._dims}d"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float module that has observed, alone or before a relu."""
        scale, zero_point = scale_and_zero_point(mod)
        source = mod[0] if isinstance(mod, nn.Sequential) else mod
        found = cls(source.num_features, source.eps)
        found.weight, found.bias = source.weight, source.bias
        found.running_mean, found.running_var = source.running_mean, source.running_var
        found.scale, found.zero_point = torch.tensor(scale), torch.tensor(zero_point)
        return found


class BatchNorm2d(_BatchNorm):
    _dims = 2


class BatchNorm3d(_BatchNorm):
    _dims = 3
