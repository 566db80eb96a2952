"""Operators on quantized numbers: they say how to go to integers and back."""

from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.onnx.operators.casting import NARROW_FLOATS, cast, narrowed
from flambeau.onnx.operators.products import conv
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import array_of, elem_type_of, tensor_of
from flambeau.onnx.protobufs import ml_dtypes, onnx

T = onnx.TensorProto
BOUNDS = {
    T.UINT8: (0, 255),
    T.INT8: (-128, 127),
    T.UINT16: (0, 65535),
    T.INT16: (-32768, 32767),
    T.UINT4: (0, 15),
    T.INT4: (-8, 7),
    T.UINT2: (0, 3),
    T.INT2: (-2, 1),
}


def spread(param: np.ndarray, shape: Any, axis: int, block: int) -> np.ndarray:
    """Scales or zero points in a shape that meets the tensor's: one, per slice, or per block."""
    if param.size == 1:
        return param.reshape(())
    if block:
        repeated = np.repeat(param, block, axis)
        return np.take(repeated, range(shape[axis]), axis)
    wide = [1] * len(shape)
    wide[axis] = -1
    return param.reshape(wide)


@op("QuantizeLinear", 10)
def quantize_linear(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    """Divided, rounded to even, moved by the zero point, held in range."""
    kind = elem_type_of(zero_point) if zero_point is not None else output_dtype or T.UINT8
    array = array_of(x)
    computed = onnx.helper.tensor_dtype_to_np_dtype(precision) if precision else np.float32
    shape = array.shape
    steps = spread(array_of(scale), shape, axis, block_size).astype(computed)
    with np.errstate(all="ignore"):
        whole = (array.astype(computed) / steps).astype(np.float32)
        if kind in NARROW_FLOATS:
            target = onnx.helper.tensor_dtype_to_np_dtype(kind)
            return narrowed(whole, target, bool(saturate))
        whole = np.rint(whole)
        if zero_point is not None:
            whole = whole + spread(array_of(zero_point).astype(np.int32), shape, axis, block_size)
    low, high = BOUNDS[kind]
    target = onnx.helper.tensor_dtype_to_np_dtype(kind)
    return tensor_of(np.clip(whole, low, high).astype(np.int32).astype(target))


@op("DequantizeLinear", 10)
def dequantize_linear(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Any:
    """Less the zero point, times the scale. Gradients reach the scale."""
    plain = isinstance(x, torch.Tensor) and isinstance(scale, torch.Tensor) and not block_size
    if plain:
        wide = x.to(torch.int32)
        shape = [1] * x.dim()
        if scale.numel() > 1:
            shape[axis] = -1
        else:
            shape = []
        if zero_point is not None:
            wide = wide - zero_point.to(torch.int32).reshape(shape)
        result = wide.to(scale.dtype) * scale.reshape(shape)
    else:
        array, steps = array_of(x), array_of(scale)
        wide_array = array.astype(np.float32)
        if zero_point is not None:
            zeros = array_of(zero_point).astype(np.float32)
            wide_array = wide_array - spread(zeros, array.shape, axis, block_size)
        steps = spread(steps, array.shape, axis, block_size).astype(np.float32)
        kind = array_of(scale).dtype
        if output_dtype:
            kind = onnx.helper.tensor_dtype_to_np_dtype(output_dtype)
        elif kind == ml_dtypes.float8_e8m0fnu:
            kind = np.dtype(np.float32)
        return tensor_of((wide_array * steps).astype(kind))
    return cast(result, to=output_dtype) if output_dtype else result


@op("DynamicQuantizeLinear", 11)
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """To uint8, with a range that holds zero."""
    low = torch.clamp(x.amin(), max=0.0)
    high = torch.clamp(x.amax(), min=0.0)
    scale = (high - low) / 255
    zero = torch.clamp(torch.round(-low / scale), 0, 255)
    y = torch.clamp(torch.round(x / scale) + zero, 0, 255)
    return y.to(torch.uint8), scale, zero.to(torch.uint8)


def moved(x: Tensor, zero_point: Tensor | None, axis: int | None = None) -> Tensor:
    """Integers with their zero point taken off."""
    wide = x.to(torch.int32)
    if zero_point is None:
        return wide
    zero = zero_point.to(torch.int32)
    if axis is not None and zero.numel() > 1 and zero.dim() == 1:
        shape = [1] * x.dim()
        shape[axis] = -1
        zero = zero.reshape(shape)
    return wide - zero


@op("MatMulInteger", 10)
def matmul_integer(
    a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    left = moved(a, a_zero, -2 if a.dim() > 1 else None)
    return torch.matmul(left, moved(b, b_zero))


def exact_conv(x: Tensor, w: Tensor, options: Any) -> Tensor:
    """A convolution of integers, exact in double precision."""
    return conv(x.double(), w.double(), None, **options).to(torch.int32)


@op("ConvInteger", 10)
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero: Tensor | None = None,
    w_zero: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    options = dict(auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    return exact_conv(moved(x, x_zero), moved(w, w_zero, 0), options)


def requantized(total: Tensor, ratio: Tensor, scale: Tensor, zero: Tensor) -> Any:
    """Integers of a product in the scale of the result."""
    return quantize_linear(total.float() * ratio, scale.float(), zero)


@op("QLinearConv", 10)
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Any:
    options = dict(auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    total = exact_conv(moved(x, x_zero), moved(w, w_zero, 0), options)
    channel = [-1] + [1] * (x.dim() - 2)
    if bias is not None:
        total = total + bias.reshape(channel)
    ratio = x_scale * w_scale
    return requantized(
        total, ratio.reshape(channel) if ratio.numel() > 1 else ratio, y_scale, y_zero
    )


@op("QLinearMatMul", 10)
def qlinear_matmul(
    a: Any,
    a_scale: Tensor,
    a_zero: Any,
    b: Any,
    b_scale: Tensor,
    b_zero: Any,
    y_scale: Tensor,
    y_zero: Any,
) -> Any:
    """Rows of `a` and columns of `b` may have scales of their own."""
    total = torch.matmul(moved(a, a_zero, -2 if a.dim() > 1 else None), moved(b, b_zero))
    rows = a_scale.reshape([-1, 1]) if a_scale.dim() == 1 and a_scale.numel() > 1 else a_scale
    return requantized(total, rows.float() * b_scale.float(), y_scale, y_zero)
