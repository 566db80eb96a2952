"""What flows between operators, and how it changes its kind.

A value is a tensor; an array of NumPy where no tensor can hold it (strings, and numbers of 8 bits
and less that are no integers of C); a list (a sequence); or None (an optional that is empty).
Sizes may also be plain integers and lists of integers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as torch
from flambeau.onnx.protobufs import ml_dtypes, onnx

__all__ = [
    "ARRAY_ONLY",
    "DTYPES",
    "array_of",
    "computable",
    "dtype_of",
    "elem_type_of",
    "in_numpy",
    "ints",
    "number",
    "optional_ints",
    "tensor_of",
]

T = onnx.TensorProto

# The dtypes that tensors have, by their number in ONNX.
DTYPES: dict[int, torch.dtype] = {
    T.FLOAT: torch.float32,
    T.UINT8: torch.uint8,
    T.INT8: torch.int8,
    T.UINT16: torch.uint16,
    T.INT16: torch.int16,
    T.INT32: torch.int32,
    T.INT64: torch.int64,
    T.BOOL: torch.bool,
    T.FLOAT16: torch.float16,
    T.DOUBLE: torch.float64,
    T.UINT32: torch.uint32,
    T.UINT64: torch.uint64,
    T.COMPLEX64: torch.complex64,
    T.COMPLEX128: torch.complex128,
    T.BFLOAT16: torch.bfloat16,
}
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
# Tensors can hold these, but most ops cannot compute with them.
UNSIGNED = {torch.uint16, torch.uint32, torch.uint64}
# No tensor holds these; NumPy does, with the types that come with onnx.
ARRAY_ONLY = {
    getattr(T, name)
    for name in (
        "STRING FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ FLOAT8E8M0 FLOAT4E2M1 "
        "UINT4 INT4 UINT2 INT2"
    ).split()
    if hasattr(T, name)
}


def dtype_of(elem_type: int) -> torch.dtype:
    """The dtype of a tensor with this number in ONNX."""
    try:
        return DTYPES[elem_type]
    except KeyError:
        raise TypeError(f"no tensor can hold elements of the ONNX type {elem_type}") from None


def elem_type_of(value: Any) -> int:
    """The number in ONNX of a tensor's or an array's elements."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OUS":
            return T.STRING
        return onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    return NUMBERS[value.dtype]


def array_of(value: Any) -> np.ndarray:
    """A value as an array; tensors of bfloat16 become arrays of that type."""
    if isinstance(value, np.ndarray):
        return value
    value = torch.as_tensor(value).detach().cpu().resolve_conj().resolve_neg()
    if value.dtype is torch.bfloat16:
        return value.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy()


def tensor_of(array: Any) -> Any:
    """An array as a tensor with memory of its own, or itself where no tensor can hold it."""
    array = np.asarray(array)
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    if array.dtype.kind in "OUS":
        return array.astype(object)
    if onnx.helper.np_dtype_to_tensor_dtype(array.dtype) not in DTYPES:
        return array
    return torch.from_numpy(np.array(array, order="C", dtype=array.dtype.newbyteorder("=")))


def computable(value: Any) -> bool:
    """Is it a tensor of a dtype that ops compute with?"""
    return not isinstance(value, np.ndarray) and value.dtype not in UNSIGNED


def in_numpy(function: Callable[..., Any], *values: Any) -> Any:
    """A function of NumPy on values that tensors cannot compute with."""
    with np.errstate(all="ignore"):
        return tensor_of(function(*map(array_of, values)))


def ints(value: Any) -> list[Any]:
    """A tensor of integers, or sizes, as a list."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (torch.Tensor, np.ndarray)):
        value = value.tolist()
    return value if isinstance(value, list) else [value]


def optional_ints(value: Any) -> list[Any] | None:
    """The same, where the input may be left out."""
    return None if value is None else ints(value)


def number(value: Any) -> Any:
    """A tensor of one element, or a size, as a number."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value.item()
    return value[0] if isinstance(value, (list, tuple)) else value
