"""Image files to tensors and back, through Pillow: the functions that programs call.

Tensors are bytes of shape (channels, height, width), or uint16 for PNG files of 16 bits. How each
format becomes an array of (height, width, channels) is in `decoders.py`, `png.py` and `gif.py`.
"""

from __future__ import annotations

import io
import os
import warnings
from enum import Enum
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.vision.io import decoders
from flambeau.vision.io.gif import read_gif
from flambeau.vision.io.png import read_png
from flambeau.vision.pillow import pillow

Path = str | os.PathLike[str]


class ImageReadMode(Enum):
    """What an image becomes while it is decoded; the names work too, as in mode="RGB".

    UNCHANGED leaves it as it is, GRAY makes one channel, GRAY_ALPHA adds transparency, RGB makes
    three channels, RGB_ALPHA or RGBA four.
    """

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4
    RGBA = RGB_ALPHA


UNCHANGED = ImageReadMode.UNCHANGED
Mode = ImageReadMode | str


def _mode(mode: Any) -> str:
    return (ImageReadMode[mode.upper()] if isinstance(mode, str) else mode).name


# -- bytes -----------------------------------------------------------------------------------------


def read_file(path: Path) -> Tensor:
    """The bytes of a file, as a tensor of one dimension."""
    import numpy

    try:
        content = numpy.fromfile(path, dtype=numpy.uint8)
    except OSError as error:
        raise RuntimeError(f"[Errno {error.errno}] {error.strerror}: '{path}'") from None
    if not content.size:
        raise RuntimeError(f"Expected a non empty file, but '{path}' is empty")
    return torch.from_numpy(content)


def write_file(filename: Path, data: Tensor) -> None:
    """Write a tensor of bytes, of one dimension, to a file."""
    if data.dtype != torch.uint8:
        raise RuntimeError("Input tensor dtype should be uint8")
    if data.dim() != 1:
        raise RuntimeError("Input data should be a 1-dimensional tensor")
    try:
        with open(filename, "wb") as file:
            file.write(data.numpy().tobytes())
    except OSError as error:
        raise RuntimeError(f"Error opening output file: {error}") from None


def _content(input: Tensor) -> bytes:
    """The bytes in a tensor that is to be decoded."""
    if not input.is_contiguous():
        raise RuntimeError("Input tensor must be contiguous.")
    if input.dtype != torch.uint8:
        raise RuntimeError(f"Input tensor must have uint8 data type, got {input.dtype.scalar_name}")
    if input.dim() != 1 or input.numel() == 0:
        raise RuntimeError(
            "Input tensor must be 1-dimensional and non-empty, got "
            f"{input.dim()} dims  and {input.numel()} numels."
        )
    return input.numpy().tobytes()


def _planes(pixels: Any) -> Tensor:
    """(..., H, W, C) to (..., C, H, W), over the same memory."""
    return torch.from_numpy(pixels).movedim(-1, -3)


# -- any format ------------------------------------------------------------------------------------


def decode_image(
    input: Tensor | Path, mode: Mode = UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """Decode a JPEG, PNG, GIF or WebP image, from its bytes or from a path.

    Args:
        input: a tensor of bytes, or a path.
        mode: what to convert to; see `ImageReadMode`.
        apply_exif_orientation: turn the image as its camera says; for JPEG and PNG.
    """
    if not isinstance(input, Tensor):
        input = read_file(input)
    if input.dtype != torch.uint8:
        raise RuntimeError("Expected a torch.uint8 tensor")
    if input.dim() != 1 or input.numel() == 0:
        raise RuntimeError("Expected a non empty 1-dimensional tensor")
    start = input[:15].numpy().tobytes()
    if start.startswith(b"\xff\xd8\xff"):
        return _one_jpeg(input, _mode(mode), apply_exif_orientation)
    if start.startswith(b"\x89PNG"):
        return decode_png(input, mode, apply_exif_orientation)
    if start.startswith((b"GIF89a", b"GIF87a")):
        return decode_gif(input)
    if start.startswith(b"RIFF") and start[8:] == b"WEBPVP8":
        return decode_webp(input, mode)
    raise RuntimeError(
        "Unsupported image file. Only jpeg, png, webp and gif are currently supported. For avif "
        "and heic format, please rely on `decode_avif` and `decode_heic` directly."
    )


def read_image(path: Path, mode: Mode = UNCHANGED, apply_exif_orientation: bool = False) -> Tensor:
    """Decode an image file; `decode_image` does the same and takes bytes too."""
    return decode_image(read_file(path), mode, apply_exif_orientation)


# -- one format ------------------------------------------------------------------------------------


def decode_png(
    input: Tensor, mode: Mode = UNCHANGED, apply_exif_orientation: bool = False
) -> Tensor:
    """Decode a PNG image: bytes, or uint16 if it has 16 bits per channel.

    Palettes become colours in all modes but UNCHANGED, which gives the numbers of the colours.
    """
    content = _content(input)
    pixels, exif = read_png(content, _mode(mode))
    return _turned(_planes(pixels), exif if apply_exif_orientation else None)


def decode_jpeg(
    input: Tensor | list[Tensor],
    mode: Mode = UNCHANGED,
    device: str | torch.device = "cpu",
    apply_exif_orientation: bool = False,
) -> Tensor | list[Tensor]:
    """Decode a JPEG image, or a list of them; the modes with transparency are refused."""
    where: Any = torch.device(device)
    if where.type != "cpu":
        raise RuntimeError(f"decode_jpeg decodes on the CPU here, not on {where}")
    name = _mode(mode)
    if isinstance(input, list):
        if len(input) == 0:
            raise ValueError("Input list must contain at least one element")
        if not all(isinstance(element, Tensor) for element in input):
            raise ValueError("All elements of the input list must be tensors.")
        return [_one_jpeg(element, name, apply_exif_orientation) for element in input]
    return _one_jpeg(input, name, apply_exif_orientation)


def _one_jpeg(input: Tensor, mode: str, apply_exif_orientation: bool) -> Tensor:
    pixels, exif = decoders.read_jpeg(_content(input), mode)
    return _turned(_planes(pixels), exif if apply_exif_orientation else None)


def decode_gif(input: Tensor) -> Tensor:
    """Decode a GIF image: (3, H, W), or (frames, 3, H, W) if it moves."""
    frames = _planes(read_gif(_content(input)))
    return frames.squeeze(0)


def decode_webp(input: Tensor, mode: Mode = UNCHANGED) -> Tensor:
    """Decode a WebP image that does not move, to three channels or four."""
    return _planes(decoders.read_webp(_content(input), _mode(mode)))


def decode_avif(input: Tensor, mode: Mode = UNCHANGED) -> Tensor:
    """Decode an AVIF image to three channels or four, where Pillow can (from 11.3 on)."""
    if not _has_avif():
        raise RuntimeError(
            "In order to enable the AVIF decoding capabilities, a Pillow with AVIF is needed: "
            "pip install 'pillow>=11.3'"
        )
    return _planes(decoders.read_avif(_content(input), _mode(mode)))


def _has_avif() -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old versions of Pillow warn that they know no such thing
        return bool(pillow("features").check("avif"))


def decode_heic(input: Tensor, mode: Mode = UNCHANGED) -> Tensor:
    """Not available: Pillow has no decoder for HEIC."""
    raise RuntimeError(
        "HEIC images cannot be decoded here; the package pillow-heif opens them as PIL images"
    )


# -- the other way ---------------------------------------------------------------------------------


def _picture(input: Tensor) -> Any:
    """A tensor of bytes (1 or 3, H, W) as a PIL image."""
    if input.dtype != torch.uint8:
        raise RuntimeError("Input tensor dtype should be uint8")
    if input.dim() != 3:
        raise RuntimeError("Input data should be a 3-dimensional tensor")
    if input.size(0) not in (1, 3):
        raise RuntimeError(f"The number of channels should be 1 or 3, got: {input.size(0)}")
    pixels = input[0] if input.size(0) == 1 else input.permute(1, 2, 0)
    return pillow().fromarray(pixels.contiguous().numpy())


def _encoded(picture: Any, **options: Any) -> Tensor:
    file = io.BytesIO()
    picture.save(file, **options)
    return torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """The bytes of a PNG file; compression levels go from 0 (none) to 9 (smallest)."""
    if not 0 <= compression_level <= 9:
        raise RuntimeError("Compression level should be between 0 and 9")
    return _encoded(_picture(input), format="PNG", compress_level=compression_level)


def write_png(input: Tensor, filename: Path, compression_level: int = 6) -> None:
    """Write a tensor of bytes (1 or 3, H, W) to a PNG file."""
    write_file(filename, encode_png(input, compression_level))


def encode_jpeg(input: Tensor | list[Tensor], quality: int = 75) -> Tensor | list[Tensor]:
    """The bytes of a JPEG file, or of several; qualities go from 1 to 100."""
    if not 1 <= quality <= 100:
        raise ValueError("Image quality should be a positive number between 1 and 100")
    if isinstance(input, list):
        if not input:
            raise ValueError("encode_jpeg requires at least one input tensor when a list is passed")
        return [_encoded(_picture(image), format="JPEG", quality=quality) for image in input]
    return _encoded(_picture(input), format="JPEG", quality=quality)


def write_jpeg(input: Tensor, filename: Path, quality: int = 75) -> None:
    """Write a tensor of bytes (1 or 3, H, W) to a JPEG file."""
    encoded = encode_jpeg(input, quality)
    assert isinstance(encoded, Tensor)
    write_file(filename, encoded)


# -- orientation -----------------------------------------------------------------------------------


def _turned(image: Tensor, exif: bytes | None) -> Tensor:
    """The image as it should be seen: cameras store it as it fell on the sensor."""
    orientation = decoders.exif_orientation(exif) if exif else 1
    if not 2 <= orientation <= 8:
        return image
    if orientation >= 5:
        image = image.transpose(-1, -2)
    dims = {2: [-1], 3: [-2, -1], 4: [-2], 5: [], 6: [-1], 7: [-2, -1], 8: [-2]}[orientation]
    return image.flip(dims) if dims else image
