"""Changes of dtype, also to and from those that only NumPy can hold."""

from typing import Any

import numpy as np

import flambeau as torch
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import (
    DTYPES,
    array_of,
    elem_type_of,
    tensor_of,
)
from flambeau.onnx.protobufs import ml_dtypes, onnx

T = onnx.TensorProto
NARROW_FLOATS = {
    getattr(T, name)
    for name in "FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ FLOAT4E2M1".split()
}


@op("Cast", 6)
def cast(x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    if isinstance(x, torch.Tensor) and to in DTYPES:
        return x.to(DTYPES[to])
    return tensor_of(cast_array(array_of(x), to, bool(saturate), round_mode))


@op("Cast", 1)
def cast_legacy(x: Any, *, to: str) -> Any:
    return cast(x, to=T.DataType.Value(to))


@op("CastLike", 15)
def cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    return cast(x, to=elem_type_of(like), saturate=saturate, round_mode=round_mode)


def cast_array(array: np.ndarray, to: int, saturate: bool, round_mode: str) -> np.ndarray:
    """Where strings or narrow types take part."""
    if to == T.STRING:
        return array_as_text(array)
    target = onnx.helper.tensor_dtype_to_np_dtype(to)
    if array.dtype.kind in "OUS":
        array = text_as_array(array)
    with np.errstate(all="ignore"):
        if to == T.FLOAT8E8M0:
            return as_powers_of_two(array, saturate, round_mode)
        if to in NARROW_FLOATS:
            return narrowed(array.astype(np.float32), target, saturate)
        if to in (T.UINT4, T.INT4, T.UINT2, T.INT2):
            bits = 4 if to in (T.UINT4, T.INT4) else 2
            return wrapped(array, bits, to in (T.INT4, T.INT2)).astype(target)
        if target == np.bool_:
            return array.astype(np.float32) != 0
        if array.dtype.name not in np.sctypeDict and np.dtype(target).kind in "iu":
            return array.astype(np.float32).astype(target)
        return array.astype(target)


def array_as_text(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "OUS":
        return array
    shown = array.astype(np.float32) if array.dtype.kind == "V" else array
    return np.array([str(v) for v in shown.reshape(-1)], dtype=object).reshape(array.shape)


def text_as_array(array: np.ndarray) -> np.ndarray:
    texts = [t.decode() if isinstance(t, bytes) else t for t in array.reshape(-1)]
    return np.array([float(t) for t in texts]).reshape(array.shape)


def wrapped(array: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    """The lowest bits, as integers of that width have them."""
    whole = array.astype(np.float32).astype(np.int64) & ((1 << bits) - 1)
    if signed:
        whole = np.where(whole >= 1 << (bits - 1), whole - (1 << bits), whole)
    return whole.astype(np.int8 if signed else np.uint8)


def narrowed(array: np.ndarray, target: Any, saturate: bool) -> np.ndarray:
    """Rounded to even; what is too large becomes the largest number, or what the type has."""
    if target == ml_dtypes.float4_e2m1fn:
        saturate = True
    if not saturate:
        return array.astype(target)
    top = float(ml_dtypes.finfo(target).max)
    return np.where(np.isnan(array), array, np.clip(array, -top, top)).astype(target)


def as_powers_of_two(array: np.ndarray, saturate: bool, round_mode: str) -> np.ndarray:
    """The exponent alone, rounded up, down or to the nearest."""
    values = array.astype(np.float32)
    bits = values.view(np.uint32)
    exponent = ((bits >> 23) & 0xFF).astype(np.int64)
    fraction = bits & 0x7FFFFF
    if round_mode == "up":
        exponent += (fraction > 0).astype(np.int64)
    elif round_mode == "nearest":
        exponent += (fraction >= 0x400000).astype(np.int64)
    if saturate:
        exponent = np.minimum(exponent, 254)
    exponent = np.where(np.isnan(values), 255, np.clip(exponent, 0, 255))
    return exponent.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
