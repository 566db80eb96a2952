"""Image files made by hand or with Pillow: every kind of PNG, and what the other formats can do."""

import io
import struct
import zlib

import numpy as np

GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}
# x and y of the first pixel of each pass of an interlaced file, and the steps from there
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2)]
ADAM7 += [(0, 1, 1, 2)]


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(pixels, color, depth=8, interlaced=False, extra=b"", palette=None):
    """A PNG file of an array (height, width, channels); every row has another filter."""
    height, width, channels = pixels.shape
    assert channels == CHANNELS[color]
    passes = [pixels[y::dy, x::dx] for x, y, dx, dy in ADAM7] if interlaced else [pixels]
    size = max(channels * depth // 8, 1)
    rows = b"".join(_filtered(part, depth, size) for part in passes if part.size)
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra
    if palette is not None:
        start += chunk(b"PLTE", palette.tobytes())
    return start + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _filtered(pixels, depth, size):
    above = None
    result = b""
    for number, row in enumerate(pixels):
        line = _packed(row.reshape(-1), depth)
        above = np.zeros_like(line) if above is None else above
        left = np.concatenate([np.zeros(size, np.uint8), line])[: len(line)]
        corner = np.concatenate([np.zeros(size, np.uint8), above])[: len(line)]
        kind = number % 5
        guess = [
            np.zeros_like(line),
            left,
            above,
            _average(left, above),
            _paeth(left, above, corner),
        ]
        result += bytes((kind,)) + (line - guess[kind]).tobytes()
        above = line
    return result


def _packed(values, depth):
    if depth == 16:
        return np.frombuffer(values.astype(">u2").tobytes(), np.uint8)
    if depth == 8:
        return values.astype(np.uint8)
    bits = (values[:, None] >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bits.astype(np.uint8).reshape(-1))


def _average(left, above):
    return ((left.astype(int) + above) // 2).astype(np.uint8)


def _paeth(left, above, corner):
    a, b, c = left.astype(int), above.astype(int), corner.astype(int)
    to_a, to_b, to_c = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    first = (to_a <= to_b) & (to_a <= to_c)
    return np.where(first, a, np.where(to_b <= to_c, b, c)).astype(np.uint8)


def pixels(color, depth, height=11, width=13):
    rng = np.random.default_rng([color, depth])
    values = rng.integers(0, 2**depth, (height, width, CHANNELS[color]))
    if color in (RGB, RGBA):
        values[:3, :, 1] = values[:3, :, 2] = values[:3, :, 0]  # some gray among the colours
    return values


KINDS = [(GRAY, 1), (GRAY, 2), (GRAY, 4), (GRAY, 8), (GRAY, 16), (RGB, 8), (RGB, 16)]
KINDS += [(GRAY_ALPHA, 8), (GRAY_ALPHA, 16), (RGBA, 8), (RGBA, 16)]


def exif(orientation, order="<"):
    """An Exif block with two tags, the second of which is the orientation."""
    entries = struct.pack(order + "HHIHxx", 0x010F, 3, 1, 7)
    entries += struct.pack(order + "HHIHxx", 0x0112, 3, 1, orientation)
    start = {"<": b"II", ">": b"MM"}[order] + struct.pack(order + "HIH", 42, 8, 2)
    return start + entries + bytes(4)


def saved(array, format, mode=None, **options):
    from PIL import Image

    picture = array if hasattr(array, "save") else Image.fromarray(array)
    file = io.BytesIO()
    (picture.convert(mode) if mode else picture).save(file, format=format, **options)
    return file.getvalue()


def smooth(height=18, width=22, seed=0):
    """Colours that change slowly, as in photographs."""
    y, x = np.mgrid[:height, :width]
    phase = np.array([0, 2, 4]) + seed
    waves = np.sin(x[..., None] / 5 + phase) + np.cos(y[..., None] / 4 - phase)
    return ((waves + 2) * 63).astype(np.uint8)


def files():
    """Small files by name, for which answers of torchvision are recorded."""
    from PIL import Image

    made = {}
    for color, depth in KINDS:
        for interlaced in (False, True):
            name = f"png {color} {depth}" + " interlaced" * interlaced
            made[name] = png(pixels(color, depth), color, depth, interlaced)
    colours = np.random.default_rng(9).integers(0, 256, (256, 3), dtype=np.uint8)
    numbers = pixels(PALETTE, 8)
    alpha = chunk(b"tRNS", bytes(range(0, 250, 10)))
    made["png palette"] = png(numbers, PALETTE, palette=colours)
    plain = png(numbers, PALETTE, palette=colours)
    place = plain.index(b"IDAT") - 4
    made["png palette with alpha"] = plain[:place] + alpha + plain[place:]
    for gamma in (45455, 100000, 220000):
        extra = chunk(b"gAMA", struct.pack(">I", gamma))
        made[f"png gamma {gamma}"] = png(pixels(RGB, 8), RGB, extra=extra)
    made["png srgb"] = png(pixels(RGBA, 8), RGBA, extra=chunk(b"sRGB", b"\0"))
    for orientation in range(10):
        block = exif(orientation, "<>"[orientation % 2])
        made[f"png exif {orientation}"] = png(pixels(RGB, 8), RGB, extra=chunk(b"eXIf", block))
        made[f"jpeg exif {orientation}"] = saved(smooth(), "JPEG", exif=b"Exif\0\0" + block)
    for sampling in range(3):
        made[f"jpeg {sampling}"] = saved(smooth(), "JPEG", subsampling=sampling, quality=90)
    made["jpeg progressive"] = saved(smooth(), "JPEG", progressive=True)
    made["jpeg gray"] = saved(smooth(), "JPEG", "L")
    made["jpeg inks"] = saved(smooth(), "JPEG", "CMYK")
    made["webp"] = saved(smooth(), "WEBP", lossless=True)
    see_through = np.dstack([smooth(), smooth(seed=1)[..., :1]])
    made["webp with alpha"] = saved(see_through, "WEBP", lossless=True, exact=True)
    made["gif"] = saved(smooth(), "GIF", "P")
    made["gif interlaced"] = saved(smooth(), "GIF", "L", interlace=1)
    frames = [Image.fromarray(smooth(seed=seed)).quantize(8) for seed in range(3)]
    for disposal in range(4):
        made[f"gif moving {disposal}"] = saved(
            frames[0], "GIF", save_all=True, append_images=frames[1:], disposal=disposal
        )
        made[f"gif moving and transparent {disposal}"] = saved(
            _sprite(0), "GIF", save_all=True, append_images=[_sprite(1), _sprite(2)],
            disposal=disposal,
        )  # fmt: skip
    return made


def _sprite(step):
    from PIL import Image

    canvas = np.zeros((12, 16, 4), np.uint8)
    canvas[3 * step : 3 * step + 4, 4 * step : 4 * step + 6] = (255, 90 * step, 9, 255)
    return Image.fromarray(canvas)
