"""A dynamic linear layer with its activation."""

import flambeau as torch
from flambeau import Tensor
from flambeau.ao.nn.quantized.dynamic.modules import linear


class LinearReLU(linear.Linear):
    def forward(self, x: Tensor) -> Tensor:
        packed, ops = self._packed_params, torch.ops.quantized
        if packed.dtype is torch.qint8:
            return ops.linear_relu_dynamic(x, packed._packed_params, True)
        return ops.linear_relu_dynamic_fp16(x, packed._packed_params)

    def _get_name(self) -> str:
        return "DynamicQuantizedLinearReLU"
