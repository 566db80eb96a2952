"""Operators that work on each element."""

import keyword
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import (
    array_of,
    computable,
    in_numpy,
    number,
    tensor_of,
)
from flambeau.onnx.protobufs import onnx

# Ops that are a function of ours, for every dtype that they are defined for.
for _name, _function in {
    "Sqrt": torch.sqrt,
    "Exp": torch.exp,
    "Log": torch.log,
    "Sin": torch.sin,
    "Cos": torch.cos,
    "Tan": torch.tan,
    "Asin": torch.asin,
    "Acos": torch.acos,
    "Atan": torch.atan,
    "Sinh": torch.sinh,
    "Cosh": torch.cosh,
    "Asinh": torch.asinh,
    "Acosh": torch.acosh,
    "Atanh": torch.atanh,
    "Tanh": torch.tanh,
    "Sigmoid": torch.sigmoid,
    "Reciprocal": torch.reciprocal,
    "Floor": torch.floor,
    "Ceil": torch.ceil,
    "Round": torch.round,
    "Erf": torch.erf,
    "Neg": torch.neg,
    "IsNaN": torch.isnan,
    "Not": torch.logical_not,
    "Softsign": F.softsign,
    "Softplus": F.softplus,
    "Mish": F.mish,
    "HardSwish": F.hardswish,
}.items():
    op(_name, 1)(_function)  # type: ignore[arg-type]


def legacy_operand(a: Tensor, b: Tensor, axis: int | None) -> Tensor:
    """Before version 7, `b` was aligned with the dimensions of `a` from `axis` on."""
    if axis is None or b.dim() == 0:
        return b
    axis %= a.dim()
    return b.reshape(list(b.shape) + [1] * (a.dim() - axis - b.dim()))


def arithmetic(name: str, with_tensors: Callable[..., Any], with_arrays: Any) -> None:
    """Register a binary op with broadcasting, and what it was before version 7."""

    def compute(a: Any, b: Any) -> Any:
        if computable(a):
            return with_tensors(a, b)
        return in_numpy(with_arrays, a, b)

    def legacy(a: Any, b: Any, *, broadcast: int = 0, axis: int | None = None) -> Any:
        return compute(a, legacy_operand(a, b, axis) if broadcast else b)

    label = f"{name.lower()}_" if keyword.iskeyword(name.lower()) else name.lower()
    publish(compute, label)
    publish(legacy, f"{label}legacy" if label.endswith("_") else f"{label}_legacy")
    op(name, 7)(compute)
    op(name, 1)(legacy)


def publish(function: Callable[..., Any], name: str) -> None:
    """Graphs name functions by their module and name, so functions made here are put there."""
    function.__name__ = function.__qualname__ = name
    globals()[name] = function


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """Integers are divided towards zero."""
    if a.is_floating_point() or a.is_complex():
        return torch.div(a, b)
    return torch.div(a, b, rounding_mode="trunc")


arithmetic("Add", torch.add, np.add)
arithmetic("Sub", torch.sub, np.subtract)
arithmetic("Mul", torch.mul, np.multiply)
arithmetic("Div", quotient, np.floor_divide)
arithmetic("And", torch.logical_and, np.logical_and)
arithmetic("Or", torch.logical_or, np.logical_or)
arithmetic("Xor", torch.logical_xor, np.logical_xor)
arithmetic("Less", torch.lt, np.less)
arithmetic("Greater", torch.gt, np.greater)
arithmetic("LessOrEqual", torch.le, np.less_equal)
arithmetic("GreaterOrEqual", torch.ge, np.greater_equal)
arithmetic("Equal", torch.eq, operator.eq)
arithmetic("BitwiseAnd", torch.bitwise_and, np.bitwise_and)
arithmetic("BitwiseOr", torch.bitwise_or, np.bitwise_or)
arithmetic("BitwiseXor", torch.bitwise_xor, np.bitwise_xor)


@op("Abs")
def absolute(x: Any) -> Any:
    return torch.abs(x) if computable(x) else x


@op("Sign")
def sign(x: Any) -> Any:
    return torch.sign(x) if computable(x) else in_numpy(np.sign, x)


@op("BitwiseNot")
def bitwise_not(x: Any) -> Any:
    return torch.bitwise_not(x) if computable(x) else in_numpy(np.bitwise_not, x)


@op("Pow", 7)
def power(base: Any, exponent: Any) -> Any:
    """The result has the type of the base."""
    if computable(base) and computable(exponent):
        return torch.pow(base, exponent).to(base.dtype)
    dtype = array_of(base).dtype
    return in_numpy(lambda a, b: np.power(a, b).astype(dtype), base, exponent)


@op("Pow", 1)
def power_legacy(
    base: Tensor, exponent: Tensor, *, broadcast: int = 0, axis: int | None = None
) -> Tensor:
    return torch.pow(base, legacy_operand(base, exponent, axis) if broadcast else exponent)


@op("Mod", 10)
def modulo(a: Any, b: Any, *, fmod: int = 0) -> Any:
    """The sign is the divisor's, or the dividend's with fmod=1."""
    if not computable(a):
        return in_numpy(np.fmod if fmod else np.mod, a, b)
    return torch.fmod(a, b) if fmod else torch.remainder(a, b)


@op("BitShift", 11)
def bit_shift(a: Any, b: Any, *, direction: str) -> Any:
    shift = np.left_shift if direction == "LEFT" else np.right_shift
    if computable(a) and a.dtype is torch.uint8:
        return (torch.bitwise_left_shift if direction == "LEFT" else torch.bitwise_right_shift)(
            a, b
        )
    return in_numpy(shift, a, b)


def folded(tensors: tuple[Any, ...], with_tensors: Any, with_arrays: Any) -> Any:
    """A function of two operands over any number of them."""
    first, *others = tensors
    for other in others:
        if computable(first):
            first = with_tensors(first, other)
        else:
            first = in_numpy(with_arrays, first, other)
    return first


@op("Max")
def maximum(*tensors: Any) -> Any:
    return folded(tensors, torch.maximum, np.maximum)


@op("Min")
def minimum(*tensors: Any) -> Any:
    return folded(tensors, torch.minimum, np.minimum)


@op("Sum")
def summed(*tensors: Any) -> Any:
    return folded(tensors, torch.add, np.add)


@op("Mean")
def averaged(*tensors: Any) -> Any:
    return folded(tensors, torch.add, np.add) / len(tensors)


@op("Where", 9)
def where(condition: Tensor, a: Any, b: Any) -> Any:
    if computable(a) and computable(b):
        return torch.where(condition, a, b)
    return in_numpy(np.where, condition, a, b)


@op("IsInf", 10)
def is_infinite(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if detect_negative and detect_positive:
        return torch.isinf(x)
    if not detect_negative and not detect_positive:
        return torch.zeros(x.shape, dtype=torch.bool)
    return torch.isposinf(x) if detect_positive else torch.isneginf(x)


@op("Clip", 11)
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    """A lower bound above the upper one gives the upper one."""
    if not computable(x):
        if low is not None:
            x = in_numpy(np.maximum, x, low)
        return x if high is None else in_numpy(np.minimum, x, high)
    if low is not None:
        x = torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


@op("Clip", 1)
def clip_legacy(x: Tensor, *, min: float | None = None, max: float | None = None) -> Tensor:
    return x if min is None and max is None else torch.clamp(x, min, max)


@op("Relu")
def relu(x: Tensor) -> Tensor:
    return torch.relu(x)


@op("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return F.leaky_relu(x, alpha)


@op("PRelu", 9)
def prelu(x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x < 0, x * slope, x)


@op("PRelu", 1)
def prelu_legacy(x: Tensor, slope: Tensor) -> Tensor:
    """One slope per channel."""
    if slope.numel() > 1 and slope.dim() == 1 and x.dim() > 2:
        slope = slope.reshape([-1] + [1] * (x.dim() - 2))
    return torch.where(x < 0, x * slope, x)


@op("Elu")
def elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.elu(x, alpha)


@op("Celu", 12)
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.celu(x, alpha)


@op("Selu")
def selu(
    x: Tensor,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> Tensor:
    return torch.where(x > 0, gamma * x, gamma * (alpha * torch.exp(x) - alpha))


@op("Gelu", 20)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate=approximate)


@op("Swish", 24)
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.silu(x) if alpha == 1.0 else x * torch.sigmoid(alpha * x)


@op("HardSigmoid")
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return torch.clamp(alpha * x + beta, 0, 1)


@op("ThresholdedRelu", 10)
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return torch.where(x > alpha, x, torch.zeros_like(x))


@op("Shrink", 9)
def shrink(x: Any, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    if not computable(x):
        return in_numpy(lambda a: np.where(a > lambd, a - bias, 0).astype(a.dtype), x)
    zero = torch.zeros_like(x)
    low = torch.where(x < -lambd, (x + bias).to(x.dtype), zero)
    return torch.where(x > lambd, (x - bias).to(x.dtype), low)


@op("Dropout", 12)
def dropout(
    x: Tensor, ratio: Any = None, training: Any = None, *, seed: int | None = None, n_outputs: int
) -> Any:
    """Acts only where the file asks for it: a mask comes with the result if it is wanted."""
    rate = 0.5 if ratio is None else float(number(ratio))
    if training is None or not bool(number(training)) or rate == 0:
        return (x, torch.ones_like(x, dtype=torch.bool)) if n_outputs > 1 else x
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    mask = torch.rand(x.shape, generator=generator) >= rate
    result = torch.where(mask, x / (1 - rate), torch.zeros_like(x))
    return (result, mask) if n_outputs > 1 else result


@op("Dropout", 1)
def dropout_legacy(x: Tensor, *, ratio: float = 0.5, is_test: int = 1, n_outputs: int) -> Any:
    return (x, torch.ones_like(x, dtype=torch.bool)) if n_outputs > 1 else x


@op("Identity")
def identity(x: Any) -> Any:
    return x


@op("CumSum", 11, static=(1,))
def cumulative_sum(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return cumulative(torch.cumsum, x, int(number(axis)), 0, exclusive, reverse)


@op("CumProd", 26, static=(1,))
def cumulative_product(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return cumulative(torch.cumprod, x, int(number(axis)), 1, exclusive, reverse)


def cumulative(
    function: Any, x: Tensor, axis: int, start: int, exclusive: int, reverse: int
) -> Tensor:
    if reverse:
        x = torch.flip(x, [axis])
    dtype = x.dtype
    result = function(x, axis).to(dtype)
    if exclusive:
        first = torch.full_like(x.narrow(axis, 0, 1), start)
        result = torch.cat([first, result.narrow(axis, 0, x.shape[axis] - 1)], axis)
    return torch.flip(result, [axis]) if reverse else result


@op("BitCast", 26)
def bit_cast(x: Any, *, to: int) -> Any:
    array = np.array(array_of(x), order="C")
    return tensor_of(array.view(onnx.helper.tensor_dtype_to_np_dtype(to)))
