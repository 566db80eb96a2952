"""The header of a safetensors file: written in one fixed order, read with distrust.

A file is the length of its header (64 bits), the header (JSON), then the bytes of all tensors one
after the other. The header says for each tensor its dtype, its shape and where its bytes are.
`parse` accepts a header only if those places cover the rest of the file without gaps and overlaps
and every tensor has as many bytes as its shape and dtype need. What is done with the bytes is in
`safetensors.py`.
"""

import json
import struct
from typing import Any, NamedTuple

from flambeau import _dtype

MOST_HEADER = 100_000_000
MOST_DIMS = 64
LARGEST = 2**63 - 1

# In the order of the format: tensors are written from the last of these dtypes to the first.
_TABLE = """
BOOL 8 bool, F4 4, F6_E2M3 6, F6_E3M2 6, U8 8 uint8, I8 8 int8, F8_E5M2 8, F8_E4M3 8, F8_E8M0 8,
F8_E4M3FNUZ 8, F8_E5M2FNUZ 8, I16 16 int16, U16 16 uint16, F16 16 float16, BF16 16 bfloat16,
I32 32 int32, U32 32 uint32, F32 32 float32, C64 64 complex64, F64 64 float64, I64 64 int64,
U64 64 uint64
"""
_ROWS = [row.split() for row in _TABLE.split(",")]
BITS = {row[0]: int(row[1]) for row in _ROWS}
RANK = {name: rank for rank, name in enumerate(BITS)}
DTYPES = {row[0]: _dtype.BY_NAME[row[2]] for row in _ROWS if len(row) > 2}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class SafetensorError(Exception):
    """A file that is not what it should be, or that cannot be written."""


class Entry(NamedTuple):
    """One tensor: begin and end count from the first byte after the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    entries: list[Entry]  # in the order of their bytes
    metadata: dict[str, str] | None
    length: int  # bytes of the file before the first tensor


def _bad(what):
    return SafetensorError(f"Error while deserializing header: {what}")


def _json(what):
    return _bad(f"invalid JSON in header: {what}")


def header_length(start, size):
    """How long the JSON is, from the first eight bytes and the size of a file."""
    if len(start) < 8:
        raise _bad("header too small")
    (length,) = struct.unpack("<Q", start)
    if length > MOST_HEADER:
        raise _bad(f"header too large ({length} bytes)")
    if length + 8 > size:
        raise _bad(f"invalid header length ({length} bytes in a file of {size})")
    return length


def _integer(text):
    if len(text) > 20:
        raise _json(f"a number of {len(text)} digits")
    return int(text)


def _constant(text):
    raise _json(f"{text} is not JSON")


def _fields(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _json(f"duplicate field `{twice:.100}`")
    return found


_decoder = json.JSONDecoder(
    object_pairs_hook=_fields, parse_int=_integer, parse_constant=_constant, strict=True
)


def _decoded(data):
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad(f"invalid UTF-8 in header: {error.reason} at byte {error.start}") from None
    try:
        found, end = _decoder.raw_decode(text.lstrip(" \t\r\n"))
        rest = text.lstrip(" \t\r\n")[end:]
    except RecursionError:
        raise _json("it is nested too deeply") from None
    except ValueError as error:
        raise _json(str(error)) from None
    if rest.strip(" \t\r\n"):
        raise _json("trailing characters")
    if not isinstance(found, dict):
        raise _json(f"a {type(found).__name__} in place of an object")
    return found


def _metadata(found) -> dict[str, str] | None:
    if found is None:
        return None
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise _json("__metadata__ must be an object of strings")
    return found


def _whole(values, name, field, most):
    ok = isinstance(values, list) and len(values) <= most
    if not ok or not all(type(v) is int and 0 <= v <= LARGEST for v in values):
        raise _json(f"`{field}` of tensor `{name:.100}` must be a list of whole numbers")
    return tuple(values)


def _entry(name: str, facts: Any) -> Entry:
    if not isinstance(facts, dict):
        raise _json(f"tensor `{name:.100}` must be an object")
    for field in ("dtype", "shape", "data_offsets"):
        if field not in facts:
            raise _json(f"missing field `{field}` of tensor `{name:.100}`")
    dtype = facts["dtype"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _json(f"unknown variant `{dtype!r:.100}`, expected one of {', '.join(BITS)}")
    shape = _whole(facts["shape"], name, "shape", MOST_DIMS)
    offsets = _whole(facts["data_offsets"], name, "data_offsets", 2)
    if len(offsets) != 2:
        raise _json(f"`data_offsets` of tensor `{name:.100}` must be two numbers")
    return Entry(name, dtype, shape, *offsets)


def _nbytes(entry):
    count = 1
    for size in entry.shape:
        count *= size
        if count * BITS[entry.dtype] > LARGEST:
            raise _bad("overflow computing buffer size from shape and/or element type")
    if count * BITS[entry.dtype] % 8:
        raise _bad(f"tensor `{entry.name:.100}` does not end at a byte boundary")
    return count * BITS[entry.dtype] // 8


def parse(data: bytes | bytearray, size: int) -> Header:
    """The header of a file of `size` bytes; `data` is the JSON alone."""
    found = _decoded(data)
    metadata = _metadata(found.pop("__metadata__", None))
    entries = [_entry(name, facts) for name, facts in found.items()]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    end = 0
    for entry in entries:
        if entry.begin != end or entry.end < entry.begin:
            raise _bad(f"invalid offset for tensor `{entry.name:.100}`")
        end = entry.end
        if _nbytes(entry) != entry.end - entry.begin:
            raise _bad(
                f"invalid shape, data type, or offset for tensor: `{entry.name:.100}` of dtype "
                f"{entry.dtype} and shape {list(entry.shape)} has {_nbytes(entry)} bytes, but the "
                f"file gives it {entry.end - entry.begin}"
            )
    length = 8 + len(data)
    if length + end != size:
        raise _bad(
            f"incomplete metadata, file not fully covered: its tensors take {end} bytes, but "
            f"{size - length} follow the header"
        )
    return Header(entries, metadata, length)


def write(tensors, metadata: dict[str, str] | None) -> tuple[bytes, list[str]]:
    """(length and header, names in the order of their bytes) of {name: (dtype, shape, nbytes)}."""
    order = sorted(tensors, key=lambda name: (-RANK[tensors[name][0]], name.encode()))
    found: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    place = 0
    for name in order:
        dtype, shape, nbytes = tensors[name]
        offsets = [place, place + nbytes]
        found[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        place += nbytes
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, order
