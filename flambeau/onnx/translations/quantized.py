"""Fake quantization as QuantizeLinear and DequantizeLinear, which runtimes fuse into int8."""

from typing import Any

import numpy as np

import flambeau as torch
from flambeau.onnx.building import Value
from flambeau.onnx.translations.elementwise import operand
from flambeau.onnx.translations.table import translates

KINDS = {(0, 255): torch.uint8, (-128, 127): torch.int8}


def there_and_back(
    g: Any, x: Value, scale: Value, zero: Value, low: int, high: int, axis: int | None
) -> Value:
    """A narrower range of the same integers is a bound on what is quantized."""
    kind = KINDS[(0, 255) if low >= 0 else (-128, 127)]
    zero = g.cast(zero, kind)
    whole = g.op("QuantizeLinear", x, scale, zero, axis=axis, dtype=kind)
    if (low, high) not in KINDS:
        bounds = [g.constant(np.array(n, np.uint8 if low >= 0 else np.int8)) for n in (low, high)]
        whole = g.op("Clip", whole, *bounds)
    return g.op("DequantizeLinear", whole, scale, zero, axis=axis, dtype=x.dtype)


@translates("fake_quantize_per_tensor_affine")
def per_tensor(g: Any, x: Value, scale: Any, zero: Any, low: int, high: int, *, out: Any) -> Value:
    step = g.cast(operand(g, scale, torch.float32), x.dtype)
    step = g.reshape(step, []) if isinstance(scale, Value) and scale.shape != () else step
    start = operand(g, zero, torch.int32)
    start = g.reshape(start, []) if isinstance(zero, Value) and zero.shape != () else start
    return there_and_back(g, x, step, start, low, high, None)


@translates("fake_quantize_per_channel_affine")
def per_channel(
    g: Any, x: Value, scale: Value, zero: Value, axis: int, low: int, high: int, *, out: Any
) -> Value:
    return there_and_back(g, x, scale, zero, low, high, axis)


@translates("fused_moving_avg_obs_fake_quant")
def with_observer(
    g: Any,
    x: Value,
    observer_on: Value,
    fake_quant_on: Value,
    running_min: Value,
    running_max: Value,
    scale: Value,
    zero: Value,
    averaging: float,
    low: int,
    high: int,
    axis: int,
    per_row: bool = False,
    symmetric: bool = False,
    *,
    out: Any,
) -> Value:
    """With the scale that was learnt; a model that is deployed watches no more."""
    switch = g.home.initializers.get(fake_quant_on.name)
    if switch is not None and not bool(switch.any()):
        return x
    if per_row:
        return there_and_back(g, x, scale, zero, low, high, axis)
    return per_tensor(g, x, scale, zero, low, high, out=out)


def _facts(g: Any, scale: Any, zero: Any, dtype: Any) -> tuple[Value, Value]:
    """Scale and zero point as they are given to ONNX: one number, or one for each channel."""
    if isinstance(scale, Value):
        return scale, g.cast(zero, dtype)
    kind = {torch.uint8: np.uint8, torch.int8: np.int8, torch.int32: np.int32}[dtype]
    return g.constant(np.array(scale, np.float32)), g.constant(np.array(zero, kind))


def _to_integers(
    g: Any, x: Value, scale: Any, zero: Any, axis: Any, low: int, high: int, dtype: Any
) -> Value:
    scale, zero = _facts(g, scale, zero, dtype)
    whole = g.op("QuantizeLinear", x, scale, zero, axis=axis, dtype=dtype)
    if (low, high) in KINDS:
        return whole
    kind = np.uint8 if dtype is torch.uint8 else np.int8
    return g.op("Clip", whole, *(g.constant(np.array(n, kind)) for n in (low, high)))


@translates("quantize_per_tensor")
def to_integers(
    g: Any, x: Value, scale: float, zero: int, low: int, high: int, dtype: Any, *, out: Any
) -> Value:
    return _to_integers(g, x, scale, zero, None, low, high, dtype)


@translates("quantize_per_channel")
def channels_to_integers(
    g: Any, x: Value, scale: Value, zero: Value, axis: int, low: int, high: int, dtype: Any, *,
    out: Any,
) -> Value:  # fmt: skip
    return _to_integers(g, x, scale, zero, axis, low, high, dtype)


@translates("dequantize_per_tensor")
def to_numbers(
    g: Any, x: Value, scale: float, zero: int, low: int, high: int, dtype: Any, *, out: Any
) -> Value:
    return g.op("DequantizeLinear", x, *_facts(g, scale, zero, dtype), dtype=torch.float32)


@translates("dequantize_per_channel")
def channels_to_numbers(
    g: Any, x: Value, scale: Value, zero: Value, axis: int, low: int, high: int, dtype: Any, *,
    out: Any,
) -> Value:  # fmt: skip
    facts = _facts(g, scale, zero, dtype)
    return g.op("DequantizeLinear", x, *facts, axis=axis, dtype=torch.float32)
