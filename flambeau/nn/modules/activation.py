"""Activations: functions of one element each, and softmax and its kin.

One class per function of `nn.functional`; their formulas are in the op table. MultiheadAttention is
in attention.py and may be imported from here as well. What the classes are made of is told in
declaring.py.
"""

import warnings
from dataclasses import InitVar
from typing import Any

from flambeau._tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.modules.attention import MultiheadAttention
from flambeau.nn.modules.declaring import layer, told
from flambeau.nn.modules.filling import make_parameters
from flambeau.nn.modules.module import Module

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


# -- straight lines -------------------------------------------------------------------------------


@layer("threshold(input, threshold, value, inplace)")
class Threshold(Module):
    """input where it is above threshold, else value."""

    threshold: float
    value: float
    inplace: bool = False


@layer("relu(input, inplace)")
class ReLU(Module):
    """max(0, x)."""

    inplace: bool = False


@layer("rrelu(input, lower, upper, training, inplace)")
class RReLU(Module):
    """x where positive, else a x: a is drawn per element in training, the middle in evaluation."""

    lower: float = 1.0 / 8
    upper: float = 1.0 / 3
    inplace: bool = False


class Hardtanh(Module):
    """x, kept between min_val and max_val."""

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        bounds = {"min_val": min_val, "max_val": max_val}
        for name, old in (("min_val", min_value), ("max_val", max_value)):
            if old is not None:
                bounds[name] = old
                text = f"keyword argument `{name}ue` is deprecated and renamed to `{name}`"
                warnings.warn(text, FutureWarning, stacklevel=2)
        low, high = bounds.values()
        if not low < high:
            raise AssertionError(f"max_val ({high}) must be greater than min_val ({low})")
        self.min_val, self.max_val, self.inplace = low, high, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return told(self, "min_val", "max_val", *["inplace"] * self.inplace)


class ReLU6(Hardtanh):
    """min(max(0, x), 6)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


@layer("hardsigmoid(input, inplace)", shows="")
class Hardsigmoid(Module):
    """0 up to -3, 1 from 3 on, a straight line between."""

    inplace: bool = False


@layer("hardswish(input, inplace)", shows="")
class Hardswish(Module):
    """x times Hardsigmoid of x."""

    inplace: bool = False


@layer("leaky_relu(input, negative_slope, inplace)", constants="inplace negative_slope")
class LeakyReLU(Module):
    """x where positive, else negative_slope * x."""

    negative_slope: float = 1e-2
    inplace: bool = False


@layer(
    "prelu(input, weight)",
    takes="input: Tensor",
    shows="num_parameters",
    constants="num_parameters",
)
class PReLU(Module):
    """x where positive, else a x; a is learned, one number or one per channel."""

    num_parameters: int = 1
    init: float = 0.25
    device: InitVar[Any] = None
    dtype: InitVar[Any] = None

    def _settle(self, device, dtype):
        make_parameters(self, device, dtype, weight=(self.num_parameters,))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All equal to the argument init."""
        init.constant_(self.weight, self.init)


@layer()
class _Shrink(Module):
    lambd: float = 0.5

    def extra_repr(self) -> str:
        return str(self.lambd)


@layer("hardshrink(input, lambd)")
class Hardshrink(_Shrink):
    """x, but 0 between -lambd and lambd."""


@layer("softshrink(input, lambd)")
class Softshrink(_Shrink):
    """x moved towards zero by lambd."""


# -- curves ---------------------------------------------------------------------------------------


@layer("sigmoid(input)")
class Sigmoid(Module):
    """1 / (1 + exp(-x))."""


@layer("tanh(input)")
class Tanh(Module):
    """The hyperbolic tangent."""


@layer("silu(input, inplace)")
class SiLU(Module):
    """x times the sigmoid of x."""

    inplace: bool = False


@layer("mish(input, inplace)")
class Mish(Module):
    """x times tanh of the softplus of x."""

    inplace: bool = False


@layer("elu(input, alpha, inplace)")
class ELU(Module):
    """x where positive, else alpha * (exp(x) - 1)."""

    alpha: float = 1.0
    inplace: bool = False


@layer("celu(input, alpha, inplace)")
class CELU(Module):
    """x where positive, else alpha * (exp(x / alpha) - 1)."""

    alpha: float = 1.0
    inplace: bool = False


@layer("selu(input, inplace)")
class SELU(Module):
    """ELU with the two factors that keep mean zero and variance one from layer to layer."""

    inplace: bool = False


@layer("glu(input, dim)")
class GLU(Module):
    """One half of the input times the sigmoid of the other, along dim."""

    dim: int = -1


@layer("gelu(input, approximate=approximate)")
class GELU(Module):
    """x times the probability that a normal number is below x; approximate="tanh" is an older
    formula for it.
    """

    approximate: str = "none"


@layer("logsigmoid(input)")
class LogSigmoid(Module):
    """log(1 / (1 + exp(-x)))."""


@layer("softplus(input, beta, threshold)")
class Softplus(Module):
    """log(1 + exp(beta x)) / beta; x itself where beta x is above threshold."""

    beta: float = 1.0
    threshold: float = 20.0


@layer("softsign(input)")
class Softsign(Module):
    """x / (1 + |x|)."""


@layer("tanhshrink(input)")
class Tanhshrink(Module):
    """x - tanh(x)."""


# -- softmax --------------------------------------------------------------------------------------


@layer()
class _AlongDim(Module):
    """A function along one dimension; without one it is chosen by rank, with a warning."""

    dim: int | None = None

    def __setstate__(self, state):
        super().__setstate__({"dim": None, **state})  # pickles older than the argument


@layer("softmin(input, dim)")
class Softmin(_AlongDim):
    """Softmax of -x."""


@layer("softmax(input, dim)")
class Softmax(_AlongDim):
    """exp(x) / sum(exp(x)) along dim."""


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        rank = input.dim()
        if rank not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {rank}D instead")
        return F.softmax(input, -3)


@layer("log_softmax(input, dim)")
class LogSoftmax(_AlongDim):
    """The logarithm of Softmax."""
