"""`torch.ops.quantized_decomposed`: numbers to integers and back, as ops of recorded programs.

Integers are plain tensors here; scale, zero point and bounds are arguments. Programs with these ops
can be run, saved, and written as ONNX.
"""

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.library import custom_op


def _levels(numbers: Tensor, shift: Any, low: int, high: int, dtype: torch.dtype) -> Tensor:
    return torch.clamp(torch.round(numbers) + shift, low, high).to(dtype)


def _along(t: Tensor, like: Tensor, axis: int) -> Tensor:
    return t.reshape([-1 if k == axis % like.ndim else 1 for k in range(like.ndim)])


@custom_op("quantized_decomposed::quantize_per_tensor", mutates_args=())
def quantize_per_tensor(
    input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """Integers for numbers."""
    return _levels(input * (1.0 / scale), zero_point, quant_min, quant_max, dtype)


@custom_op("quantized_decomposed::dequantize_per_tensor", mutates_args=())
def dequantize_per_tensor(
    input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """The numbers that integers stand for."""
    return (input.to(torch.float32) - zero_point) * scale


@custom_op("quantized_decomposed::quantize_per_channel", mutates_args=())
def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """Integers for numbers, with a scale for each channel."""
    inverse, shift = _along(1.0 / scales, input, axis), _along(zero_points, input, axis)
    return _levels(input * inverse, shift, quant_min, quant_max, dtype)


@custom_op("quantized_decomposed::dequantize_per_channel", mutates_args=())
def dequantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """The numbers that integers stand for, with a scale for each channel."""
    shift = _along(zero_points, input, axis)
    return (input.to(torch.float32) - shift) * _along(scales, input, axis).float()


def _like(input: Tensor, *rest: Any) -> Tensor:
    return torch.empty_like(input, dtype=rest[-1])


def _numbers(input: Tensor, *rest: Any) -> Tensor:
    return torch.empty_like(input, dtype=torch.float32)


for _op, _fake in (
    (quantize_per_tensor, _like),
    (quantize_per_channel, _like),
    (dequantize_per_tensor, _numbers),
    (dequantize_per_channel, _numbers),
):
    _op.register_fake(_fake)
