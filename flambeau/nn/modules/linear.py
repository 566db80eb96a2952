"""Layers that multiply by a matrix: Linear and Bilinear, and Identity, which does nothing."""

import math
from dataclasses import InitVar
from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import no_grad
from flambeau.nn import init
from flambeau.nn.modules.declaring import layer, told
from flambeau.nn.modules.filling import fill_by_inputs, make_parameters
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import UninitializedParameter

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear"]


class Identity(Module):
    """Returns its input. Takes any arguments, so that it can stand for any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


@layer("linear(input, weight, bias)", takes="input: Tensor")
class Linear(Module):
    """y = x A' + b.

    input (*, in_features), output (*, out_features), weight (out_features, in_features).
    """

    in_features: int
    out_features: int
    bias: InitVar[bool] = True
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None

    def _settle(self, bias, device, dtype):
        outputs = self.out_features
        shapes = {"weight": (outputs, self.in_features), "bias": (outputs,) if bias else None}
        make_parameters(self, device, dtype, **shapes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform numbers up to 1 / sqrt(in_features), for both."""
        fill_by_inputs(self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{told(self, 'in_features', 'out_features')}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """Linear, inside modules that read its weight themselves: quantization leaves it alone."""


@layer("bilinear(input1, input2, weight, bias)", takes="input1: Tensor, input2: Tensor")
class Bilinear(Module):
    """y = x1' A x2 + b for each output feature.

    inputs (*, in1_features) and (*, in2_features), output (*, out_features), weight (out_features,
    in1_features, in2_features).
    """

    in1_features: int
    in2_features: int
    out_features: int
    bias: InitVar[bool] = True
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None

    def _settle(self, bias, device, dtype):
        first, outputs = self.in1_features, self.out_features
        if first <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={first})")
        shapes = {"weight": (outputs, first, self.in2_features)}
        shapes["bias"] = (outputs,) if bias else None
        make_parameters(self, device, dtype, **shapes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform numbers up to 1 / sqrt(in1_features), for both."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self.parameters(recurse=False):
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        sizes = told(self, "in1_features", "in2_features", "out_features")
        return f"{sizes}, bias={self.bias is not None}"


class LazyLinear(LazyModuleMixin, Linear):
    """Linear whose in_features is the last size of its first input."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        # sizes of zero and no bias: nothing is made that would be thrown away
        super().__init__(0, 0, False, device, dtype)
        self.out_features = out_features
        for name in ("weight", "bias") if bias else ("weight",):
            setattr(self, name, UninitializedParameter(device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        if self.in_features != 0 and not self.has_uninitialized_params():
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        waiting = self.has_uninitialized_params()
        if self.in_features == 0:  # or shapes came from a state_dict
            self.in_features = input.shape[-1] if waiting else self.weight.shape[-1]
        if waiting:
            shape = (self.out_features, self.in_features)
            with no_grad():
                for tensor, sizes in ((self.weight, shape), (self.bias, shape[:1])):
                    if tensor is not None:
                        tensor.materialize(sizes)
                self.reset_parameters()
