"""GIF files as arrays of (frames, height, width, 3).

The structure of the file is read here, block by block; each frame then goes to Pillow as a picture
of its own, for decompression only. Frames are laid over one another as torchvision does it.
"""

from __future__ import annotations

import io
import struct
from typing import Any, NamedTuple

from flambeau.vision.io.decoders import check_room, damage_reported, pixels_of
from flambeau.vision.pillow import pillow

_EXTENSION, _IMAGE, _END = 0x21, 0x2C, 0x3B
_GRAPHIC_CONTROL = 0xF9
_CODES = 3000  # pixels that a byte can stand for at most: codes of 12 bits for up to 4,096 pixels
# colour i is (i, i, i): pixels decoded with these are the numbers of the colours
_NUMBERS = bytes(value for number in range(256) for value in (number, number, number))


class _Frame(NamedTuple):
    left: int
    top: int
    width: int
    height: int
    interlaced: bool
    palette: bytes
    transparent: int  # -1 for none
    disposal: int
    data: bytes  # minimum code size and blocks, compressed


class _Reader:
    """Takes bytes off the front and notices the end."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place = content, 0

    def take(self, count: int) -> bytes:
        piece = self.content[self.place : self.place + count]
        if len(piece) != count:
            raise EOFError("the file ends too early")
        self.place += count
        return piece

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def blocks(self) -> bytes:
        """Blocks up to the empty one, each after a byte that counts it; as they are in the file."""
        start = self.place
        while size := self.take(1)[0]:
            self.take(size)
        return self.content[start : self.place]

    def palette(self, flags: int) -> bytes:
        return self.take(3 << (flags & 7) + 1) if flags & 0x80 else b""


def read_gif(content: bytes) -> Any:
    """All frames, each as it is seen."""
    with damage_reported("DGifSlurp() failed"):
        return _composed(content)


def _composed(content: bytes) -> Any:
    import numpy

    reader = _Reader(content)
    if reader.take(6) not in (b"GIF87a", b"GIF89a"):
        raise ValueError("it does not start like a GIF file")
    width, height, flags, background, _ = reader.unpack("<HHBBB")
    colors = reader.palette(flags)
    frames = _frames(reader, colors)
    if not frames:
        raise ValueError("GIF file should contain at least one image!")
    shape = max(height, frames[0].height), max(width, frames[0].width), 3
    check_room(content, len(frames) * shape[0] * shape[1], 8 * _CODES)
    for frame in frames:
        check_room(frame.data, frame.width * frame.height, _CODES)
    paper = numpy.zeros(shape, numpy.uint8)
    paper[:height, :width] = tuple(colors[3 * background : 3 * background + 3]) or (0, 0, 0)
    canvases = numpy.empty((len(frames), *shape), numpy.uint8)
    for index, frame in enumerate(frames):
        fresh = index == 0 or frame.disposal not in (0, 1, 3)
        canvases[index] = paper if fresh else canvases[index - 1]
        _paint(canvases[index], frame)
    return canvases


def _frames(reader: _Reader, colors: bytes) -> list[_Frame]:
    found = []
    transparent, disposal = -1, 0
    while (kind := reader.take(1)[0]) != _END:
        if kind == _EXTENSION:
            label = reader.take(1)[0]
            block = reader.blocks()
            if label == _GRAPHIC_CONTROL and block[:1] == b"\x04" and len(block) > 5:
                disposal = block[1] >> 2 & 7
                transparent = block[4] if block[1] & 1 else -1
        elif kind == _IMAGE:
            left, top, width, height, flags = reader.unpack("<HHHHB")
            palette = reader.palette(flags) or colors
            if not palette:
                raise ValueError("Global and local color maps are missing")
            data = reader.take(1) + reader.blocks()
            interlaced = bool(flags & 0x40)
            place = (left, top, width, height, interlaced)
            found.append(_Frame(*place, palette, transparent, disposal, data))
            transparent, disposal = -1, 0
        else:
            raise ValueError(f"a block of the unknown kind {kind}")
    return found


def _numbers(frame: _Frame) -> Any:
    """The colour numbers of a frame, decompressed by Pillow."""
    screen = struct.pack("<HHBBB", frame.width, frame.height, 0xF7, 0, 0)
    flags = 0x40 if frame.interlaced else 0
    place = struct.pack("<BHHHHB", _IMAGE, 0, 0, frame.width, frame.height, flags)
    alone = b"GIF87a" + screen + _NUMBERS + place + frame.data + bytes((_END,))
    return pixels_of(pillow().open(io.BytesIO(alone), formats=["GIF"]))[:, :, 0]


def _paint(canvas: Any, frame: _Frame) -> None:
    """Lay a frame over a canvas, except for what is transparent or lies outside."""
    import numpy

    numbers = _numbers(frame)
    height = min(frame.height, canvas.shape[0] - frame.top)
    width = min(frame.width, canvas.shape[1] - frame.left)
    if height <= 0 or width <= 0:
        return
    numbers = numbers[:height, :width]
    palette = numpy.zeros((256, 3), numpy.uint8)
    table = numpy.frombuffer(frame.palette, numpy.uint8).reshape(-1, 3)
    palette[: len(table)] = table
    place = canvas[frame.top : frame.top + height, frame.left : frame.left + width]
    seen = numbers != frame.transparent
    place[seen] = palette[numbers][seen]
