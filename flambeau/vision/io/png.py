"""PNG files as arrays of (height, width, channels), with all of their 16 bits.

Pillow keeps only the higher byte of colours of 16 bits. Its decoder can be asked for either byte,
so such files are decoded twice and the halves put together.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

from flambeau.vision.io.decoders import check_room, damage_reported, pixels_of
from flambeau.vision.pillow import pillow

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GRAY, _RGB, _PALETTE, _GRAY_ALPHA, _RGBA = 0, 2, 3, 4, 6
_HEADER_END = 33  # signature, length, "IHDR", thirteen bytes, checksum
# weights of red, green and blue in gray, as libpng has them for 0.2989 and 0.587, in 1/32768
_WEIGHTS = (9794, 19234, 3740)
_SRGB_GAMMA = 45455
_DEFLATE = 1032  # bytes that one byte can stand for at most
_SIGNIFICANT = 5000  # gammas this near to 1, in 1/100000, count as 1


def read_png(content: bytes, mode: str) -> tuple[Any, bytes | None]:
    """Pixels in this mode, bytes or uint16, and the Exif block."""
    if len(content) < 8:
        raise RuntimeError("Content is too small for png!")
    if not content.startswith(_SIGNATURE):
        raise RuntimeError("Content is not png!")
    with damage_reported("Out of bound read in decode_png. Probably, the input image is corrupted"):
        if content[12:16] != b"IHDR":
            raise ValueError("no header")
        width, height, depth, color = struct.unpack_from(">IIBB", content, 16)
        check_room(content, width * height, _DEFLATE * 8 // (depth or 1))
        if depth == 16:
            pixels, exif = _read_16_bits(content, color)
        else:
            picture = _open(content)
            if color == _PALETTE and mode != "UNCHANGED":
                pixels = pixels_of(picture, "RGBA")
            else:
                pixels = pixels_of(picture, "L" if picture.mode == "1" else None)
            exif = picture.info.get("exif")
        return _converted(pixels, mode, _gamma(content) if mode.startswith("GRAY") else 0), exif


def _open(content: bytes) -> Any:
    return pillow().open(io.BytesIO(content), formats=["PNG"])


def _converted(pixels: Any, mode: str, gamma: int) -> Any:
    """Another number of channels; what is missing is opaque."""
    import numpy

    if mode == "UNCHANGED":
        return pixels
    has_alpha = pixels.shape[-1] in (2, 4)
    colors, alpha = (pixels[..., :-1], pixels[..., -1:]) if has_alpha else (pixels, None)
    if mode.startswith("GRAY") and colors.shape[-1] == 3:
        colors = _gray(colors, gamma)
    elif mode.startswith("RGB") and colors.shape[-1] == 1:
        colors = numpy.repeat(colors, 3, axis=-1)
    if mode in ("GRAY", "RGB"):
        return numpy.ascontiguousarray(colors)
    if alpha is None:
        alpha = numpy.full_like(colors[..., :1], numpy.iinfo(colors.dtype).max)
    return numpy.concatenate([colors, alpha], axis=-1)


def _gray(colors: Any, gamma: int) -> Any:
    """The brightness of colours, rounded as libpng does it; gray stays what it is.

    A file that says how its numbers stand to light has its colours added as light.
    """
    import numpy

    bits = 8 * colors.dtype.itemsize
    by_light = bits == 8 and abs(gamma - 100000) >= _SIGNIFICANT and gamma > 0
    parts = [colors[..., channel] for channel in range(3)]
    red, green, blue = parts
    if by_light:
        parts = [_table(10_000_000_000 / gamma)[part] for part in parts]
    rounding = 1 << 14 if by_light or bits == 16 else 0
    weighted = (weight * part.astype(numpy.uint32) for weight, part in zip(_WEIGHTS, parts))
    gray = (sum(weighted) + rounding) >> 15
    if by_light:
        gray = _table(gamma)[gray]
    mixed = (red != green) | (red != blue)
    gray = numpy.where(mixed, gray, red).astype(colors.dtype)
    return gray.reshape(*gray.shape, 1)


def _table(gamma: float) -> Any:
    """Bytes raised to a power that is given in 1/100000."""
    import numpy

    steps = numpy.arange(256) / 255.0
    return numpy.floor(255 * steps ** (round(gamma) * 1e-5) + 0.5).astype(numpy.uint8)


def _gamma(content: bytes) -> int:
    """How the numbers of a file stand to light, in 1/100000; 0 if it does not say."""
    place, gamma = 8, 0
    while place + 12 <= len(content):
        size, name = struct.unpack_from(">I4s", content, place)
        if name == b"IDAT":
            break
        if name == b"sRGB":
            return _SRGB_GAMMA
        if name == b"gAMA" and size == 4:
            gamma = struct.unpack_from(">I", content, place + 8)[0]
        place += 12 + size
    return gamma


# -- 16 bits ---------------------------------------------------------------------------------------


def _read_16_bits(content: bytes, color: int) -> tuple[Any, bytes | None]:
    """Pixels as uint16."""
    import numpy

    if color in (_RGB, _RGBA):
        name = "RGB" if color == _RGB else "RGBA"
        high, exif = _one_byte_of_two(content, f"{name};16B")
        low, _ = _one_byte_of_two(content, f"{name};16L")
    else:
        # two bytes of gray are laid out like a byte of gray and one of alpha, and so on: under
        # another header the decoder gives the bytes as they are
        picture = _open(_with_header(content, {_GRAY: _GRAY_ALPHA, _GRAY_ALPHA: _RGBA}[color]))
        pixels, exif = pixels_of(picture), picture.info.get("exif")
        high, low = pixels[..., ::2], pixels[..., 1::2]
    return high.astype(numpy.uint16) << 8 | low, exif


def _one_byte_of_two(content: bytes, raw_mode: str) -> tuple[Any, bytes | None]:
    """The byte that this raw mode takes for the higher one: 16B the first, 16L the second."""
    picture = _open(content)
    picture.tile = [(*tile[:3], raw_mode) for tile in picture.tile]
    return pixels_of(picture), picture.info.get("exif")


def _with_header(content: bytes, color: int) -> bytes:
    """The same file, said to have eight bits per channel and this kind of colours."""
    header = content[12:24] + bytes((8, color)) + content[26:29]
    checksum = struct.pack(">I", zlib.crc32(header))
    return content[:12] + header + checksum + content[_HEADER_END:]
