"""IDX files, in which MNIST and its relatives are kept: a short header, then numbers.

Two zero bytes, a code for the dtype, the number of dimensions, each size in four bytes, then the
elements, the highest byte first. What the header says is compared with the length of the file
before memory is taken for it. Files that are compressed are read as they are.
"""

from __future__ import annotations

import contextlib
import gzip
import lzma
import math
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from typing import IO, Any

import flambeau as torch
from flambeau import Tensor

# dtypes by the number in the header: with the letters of NumPy, and as public names
_LETTERS = {8: "u1", 9: "i1", 11: "i2", 12: "i4", 13: "f4", 14: "f8"}
_DTYPES = torch.uint8, torch.int8, torch.int16, torch.int32, torch.float32, torch.float64
SN3_PASCALVINCENT_TYPEMAP = dict(zip(_LETTERS, _DTYPES, strict=True))
_MOST_DIMS = 3
_PIECE = 1 << 24


def get_int(b: bytes) -> int:
    """A number from its bytes, the highest first."""
    return int.from_bytes(b, "big")


def read_sn3_pascalvincent_tensor(path: Any, strict: bool = True) -> Tensor:
    """The tensor that an IDX file holds.

    Args:
        path: a path, of a .gz or .xz file too, or an open file.
        strict: kept for torchvision's sake; files of a wrong length are always refused.
    """
    with _opened(path) as (file, name, length):
        code, shape = _header(file, name)
        count = math.prod(shape)
        size = count * int(_LETTERS[code][1])
        start = 4 + 4 * len(shape)
        if length is not None and length != start + size:
            raise _wrong(name, f"{shape} takes {start + size} bytes, and the file has {length}")
        data = _read(file, size)
        if len(data) != size or file.read(1):
            more = "more" if len(data) == size else f"only {len(data)}"
            raise _wrong(name, f"{shape} takes {size} bytes of data, and there are {more}")
    if not count:
        return torch.empty(shape, dtype=SN3_PASCALVINCENT_TYPEMAP[code])
    return _tensor(data, code).view(shape)


def read_tensor(
    path: Any, dims: int, dtype: Any = None, name: str = "x", unit: str = "dimension"
) -> Tensor:
    """The tensor in a file that must have so many dimensions, and perhaps this dtype."""
    tensor = read_sn3_pascalvincent_tensor(path, strict=False)
    if dtype not in (None, tensor.dtype):
        raise TypeError(f"{name} should be of dtype {dtype} instead of {tensor.dtype}")
    if tensor.dim() != dims:
        raise ValueError(f"{name} should have {dims} {unit} instead of {tensor.dim()}")
    return tensor


def read_label_file(path: Any) -> Tensor:
    """Labels, as int64, from an IDX file of bytes in one dimension."""
    return read_tensor(path, 1, torch.uint8).long()


def read_image_file(path: Any) -> Tensor:
    """Images from an IDX file of bytes in three dimensions: count, height, width."""
    return read_tensor(path, 3, torch.uint8)


def _wrong(name: str, why: str) -> RuntimeError:
    return RuntimeError(f"{name} is not a whole IDX file: {why}; delete it and fetch it again")


@contextlib.contextmanager
def _opened(path: Any) -> Iterator[tuple[IO[bytes], str, int | None]]:
    """A file, its name for messages, and its length where that is known beforehand."""
    if hasattr(path, "read"):
        yield path, str(getattr(path, "name", "the file")), None
        return
    name = os.fspath(path)
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(os.path.splitext(name)[1], open)
    try:
        with opener(name, "rb") as file:
            yield file, name, os.fstat(file.fileno()).st_size if opener is open else None
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise _wrong(name, f"it is cut short or damaged ({error})") from None


def _header(file: IO[bytes], name: str) -> tuple[int, tuple[int, ...]]:
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _LETTERS:
        raise _wrong(name, f"it starts with {start!r}")
    if not 1 <= start[3] <= _MOST_DIMS:
        raise _wrong(name, f"it speaks of {start[3]} dimensions; 1 to {_MOST_DIMS} are possible")
    sizes = file.read(4 * start[3])
    if len(sizes) < 4 * start[3]:
        raise _wrong(name, "it ends within its header")
    return start[2], struct.unpack(f">{start[3]}I", sizes)


def _read(file: IO[bytes], size: int) -> bytearray:
    """Up to so many bytes, in pieces: a header that lies must not ask for memory."""
    data = bytearray()
    while len(data) < size and (piece := file.read(min(size - len(data), _PIECE))):
        data += piece
    return data


def _tensor(data: bytearray, code: int) -> Tensor:
    if _LETTERS[code][1] == "1" or sys.byteorder == "big":
        return torch.frombuffer(data, dtype=SN3_PASCALVINCENT_TYPEMAP[code])
    import numpy

    letters = _LETTERS[code]
    return torch.from_numpy(numpy.frombuffer(data, ">" + letters).astype(letters))
