"""What dtypes, layouts and memory formats are called in files: numbers of PyTorch's schema."""

from typing import Any

import flambeau

DTYPES: dict[Any, int] = {
    flambeau.uint8: 1,
    flambeau.int8: 2,
    flambeau.int16: 3,
    flambeau.int32: 4,
    flambeau.int64: 5,
    flambeau.float16: 6,
    flambeau.float32: 7,
    flambeau.float64: 8,
    flambeau.complex32: 9,
    flambeau.complex64: 10,
    flambeau.complex128: 11,
    flambeau.bool: 12,
    flambeau.bfloat16: 13,
    flambeau.uint16: 28,
}
STRIDED = 7
FORMATS: dict[Any, int] = {
    flambeau.contiguous_format: 1,
    flambeau.channels_last: 2,
    flambeau.channels_last_3d: 3,
    flambeau.preserve_format: 4,
}
DTYPE_OF = {number: dtype for dtype, number in DTYPES.items()}
FORMAT_OF = {number: kind for kind, number in FORMATS.items()}
