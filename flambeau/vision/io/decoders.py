"""JPEG, WebP and AVIF files as arrays of (height, width, channels), and what Exif says of them."""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
from collections.abc import Iterator
from typing import Any

from flambeau.vision.pillow import pillow

_ORIENTATION = 0x0112
_JPEG_PIXELS = 4096  # that a byte can stand for at most: a block of 64 takes more than a bit
_SMALL = 1 << 22
_EXIF = b"Exif\0\0"


@contextlib.contextmanager
def damage_reported(sentence: str) -> Iterator[None]:
    """Turn whatever a broken file leads Pillow to into a RuntimeError."""
    try:
        yield
    except (ImportError, RuntimeError):
        raise
    except Exception as error:
        unknown = type(error).__name__ == "UnidentifiedImageError"
        why = "it does not start like such an image" if unknown else str(error)
        raise RuntimeError(f"{sentence} ({type(error).__name__}: {why})") from error


def check_room(content: bytes, pixels: int, per_byte: int) -> None:
    """Refuse sizes that so few bytes cannot fill, before memory is taken for them."""
    if pixels > max(_SMALL, per_byte * len(content)):
        raise ValueError(f"{len(content)} bytes cannot hold {pixels} pixels")


def pixels_of(picture: Any, mode: str | None = None) -> Any:
    """An array of its own of an image, with a last dimension for channels even if there is one."""
    import numpy

    if mode is not None and picture.mode != mode:
        picture = picture.convert(mode)
    array = numpy.array(picture)
    return array.reshape(*array.shape, 1) if array.ndim == 2 else array


def read_jpeg(content: bytes, mode: str) -> tuple[Any, bytes | None]:
    """Pixels in this mode, and the Exif block."""
    if mode not in ("UNCHANGED", "GRAY", "RGB"):
        raise RuntimeError("The provided mode is not supported for JPEG files")
    with damage_reported("Image is incomplete or truncated"):
        picture = pillow().open(io.BytesIO(content), formats=["JPEG"])
        check_room(content, picture.width * picture.height, _JPEG_PIXELS)
        exif = picture.info.get("exif")
        if picture.mode == "CMYK":
            if mode == "UNCHANGED":
                return 255 - pixels_of(picture), exif  # Pillow turns the inks around
            picture = picture.convert("RGB")
        elif mode == "GRAY":
            picture.draft("L", None)  # takes the brightness that the file holds
        return pixels_of(picture, {"GRAY": "L", "RGB": "RGB"}.get(mode)), exif


def read_webp(content: bytes, mode: str) -> Any:
    """Pixels in three channels or four; gray is not something that WebP knows."""
    if mode in ("GRAY", "GRAY_ALPHA"):
        warnings.warn(
            "Webp does not support grayscale conversions. "
            "The returned tensor will be in the colorspace of the original image.",
            stacklevel=4,
        )
    with damage_reported("WebPDecodeRGB[A] failed."):
        picture = pillow().open(io.BytesIO(content), formats=["WEBP"])
        if getattr(picture, "n_frames", 1) > 1:
            raise RuntimeError("Animated webp files are not supported.")
        return _with_or_without_alpha(picture, mode)


def read_avif(content: bytes, mode: str) -> Any:
    """Pixels in three channels or four."""
    with damage_reported("The AVIF image cannot be decoded"):
        return _with_or_without_alpha(pillow().open(io.BytesIO(content), formats=["AVIF"]), mode)


def _with_or_without_alpha(picture: Any, mode: str) -> Any:
    as_it_is = "RGBA" if picture.mode in ("RGBA", "LA", "PA") else "RGB"
    return pixels_of(picture, {"RGB": "RGB", "RGB_ALPHA": "RGBA"}.get(mode, as_it_is))


def exif_orientation(exif: bytes) -> int:
    """The orientation that an Exif block names, 1 to 8; -1 if it names none."""
    tiff = exif.removeprefix(_EXIF)
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    if order is None:
        return -1
    try:
        mark, start = struct.unpack_from(order + "HI", tiff, 2)
        if mark != 42:
            return -1
        (count,) = struct.unpack_from(order + "H", tiff, start)
        for entry in range(count):
            place = start + 2 + 12 * entry
            tag, _, _, value = struct.unpack_from(order + "HHIH", tiff, place)
            if tag == _ORIENTATION:
                return value
    except struct.error:  # the block ends before the list does
        pass
    return -1
