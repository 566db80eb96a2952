"""A dynamic linear layer with its activation."""

from typing import Any

import flambeau as torch
from flambeau.ao.nn.quantized.dynamic.modules import linear


class LinearReLU(linear.Linear):
    _op, _name = "linear_relu_dynamic", "DynamicQuantizedLinearReLU"

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, dtype: Any = torch.qint8
    ) -> None:
        linear.Linear.__init__(self, in_features, out_features, bias, dtype)
