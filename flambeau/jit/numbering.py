"""dtypes, layouts and memory formats as the numbers that programs and archives have for them."""

from typing import Any

import flambeau
from flambeau import _memory_format

_NAMES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool "
    "- - - bfloat16 - - - - - - - float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz "
    "uint16 uint32 uint64"
).split()
DTYPES: dict[Any, int] = {
    getattr(flambeau, n): k for k, n in enumerate(_NAMES) if hasattr(flambeau, n)
}
BY_NUMBER = {number: dtype for dtype, number in DTYPES.items()}
LAYOUTS: dict[Any, int] = {flambeau.strided: 0}
for _k, _name in enumerate(
    "sparse_coo sparse_csr _mkldnn sparse_csc sparse_bsr sparse_bsc".split(), 1
):
    if isinstance(getattr(flambeau, _name, None), _memory_format.layout):
        LAYOUTS[getattr(flambeau, _name)] = _k
MEMORY_FORMATS: dict[Any, int] = {
    getattr(flambeau, name): number
    for number, name in enumerate(
        "contiguous_format preserve_format channels_last channels_last_3d".split()
    )
}
FORMATS_BY_NUMBER = {number: kept for kept, number in MEMORY_FORMATS.items()}


def number_of(found: Any) -> int:
    """The number of a dtype, a layout or a memory format."""
    for numbers in (DTYPES, LAYOUTS, MEMORY_FORMATS):
        if found in numbers:
            return numbers[found]
    raise TypeError(f"{found} has no number")
