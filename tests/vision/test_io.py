"""torchvision.io: recorded answers of torchvision, files made by hand, damage, errors."""

import base64
import hashlib
import inspect
import json
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision import io as image_io
from flambeau.vision.io import ImageReadMode
from tests.vision.image_files import (
    GRAY,
    KINDS,
    PALETTE,
    RGB,
    RGBA,
    chunk,
    exif,
    files,
    pixels,
    png,
    saved,
    smooth,
)

pytest.importorskip("PIL")
GOLDEN = json.loads((Path(__file__).parent.parent / "golden/vision_io.json").read_text())


def tensor(content):
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def decode(content, mode="UNCHANGED", orientation=False):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Webp does not support grayscale")
        return image_io.decode_image(tensor(content), mode, orientation)


# -- against torchvision ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOLDEN)
def test_pixels_are_those_recorded_from_torchvision(name):
    content = base64.b64decode(GOLDEN[name]["file"])
    for options, expected in GOLDEN[name]["answers"].items():
        mode, _, turned = options.partition(" ")
        if expected == "RuntimeError":
            with pytest.raises(RuntimeError):
                decode(content, mode, bool(turned))
            continue
        image = decode(content, mode, bool(turned)).numpy()
        digest = hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest()[:16]
        assert [str(image.dtype), list(image.shape), digest] == expected, options


@pytest.mark.oracle
def test_pixels_are_those_of_torchvision():
    theirs = pytest.importorskip("torch"), pytest.importorskip("torchvision")
    if not theirs[1].io.image._has_image_ops():
        pytest.skip("the image extension of torchvision does not load")
    for name, content in files().items():
        data = theirs[0].frombuffer(bytearray(content), dtype=theirs[0].uint8)
        for mode in ("UNCHANGED", "RGB"):
            if not (name.startswith("png 0") and mode != "UNCHANGED"):
                expected = theirs[1].io.decode_image(data, mode).numpy()
                assert np.array_equal(decode(content, mode).numpy(), expected), (name, mode)


@pytest.mark.oracle
def test_signatures_are_those_of_torchvision():
    pytest.importorskip("torch")
    theirs = pytest.importorskip("torchvision").io

    def shape(function):
        parameters = inspect.signature(function).parameters.values()
        return [(each.name, str(each.default), each.kind) for each in parameters]

    assert image_io.__all__ == theirs.__all__
    for name in theirs.__all__:
        if name != "ImageReadMode":
            assert shape(getattr(image_io, name)) == shape(getattr(theirs, name)), name
    assert [(m.name, m.value) for m in ImageReadMode] == [
        (m.name, m.value) for m in theirs.ImageReadMode
    ]


# -- against what was written ----------------------------------------------------------------------


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("color, depth", KINDS)
def test_png_files_hold_what_was_put_there(color, depth, interlaced):
    written = pixels(color, depth)
    image = decode(png(written, color, depth, interlaced))
    assert image.dtype == (torch.uint16 if depth == 16 else torch.uint8)
    expected = written if depth >= 8 else written * (255 // (2**depth - 1))
    assert np.array_equal(image.numpy(), expected.transpose(2, 0, 1))


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_palettes_are_numbers_or_colours(depth):
    colours = np.random.default_rng(9).integers(0, 256, (2**depth, 3), dtype=np.uint8)
    numbers = pixels(PALETTE, depth)
    content = png(numbers, PALETTE, depth, palette=colours)
    assert np.array_equal(decode(content).numpy()[0], numbers[..., 0])
    expected = colours[numbers[..., 0]].transpose(2, 0, 1)
    assert np.array_equal(decode(content, "RGB").numpy(), expected)
    opaque = decode(content, "RGBA").numpy()
    assert np.array_equal(opaque[:3], expected) and (opaque[3] == 255).all()


@pytest.mark.parametrize("depth", [8, 16])
def test_png_modes_add_and_drop_channels(depth):
    gray, colours = pixels(GRAY, depth), pixels(RGBA, depth)
    most = 2**depth - 1
    from_gray = decode(png(gray, GRAY, depth), "RGB_ALPHA").numpy()
    assert (from_gray[:3] == gray[..., 0]).all() and (from_gray[3] == most).all()
    content = png(colours, RGBA, depth)
    assert np.array_equal(decode(content, "RGB").numpy(), colours[..., :3].transpose(2, 0, 1))
    two = decode(content, "GRAY_ALPHA").numpy()
    assert np.array_equal(two[1], colours[..., 3])
    difference = np.abs(two[0] - colours[..., :3] @ [0.2989, 0.587, 0.1141]).max()
    assert difference <= 1 + most / 2**15  # weights have 15 bits
    assert (decode(png(gray, GRAY, depth), "GRAY_ALPHA").numpy()[1] == most).all()


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_as_exif_says(orientation, order):
    written = pixels(RGB, 8)
    expected = {
        1: written,
        2: written[:, ::-1],
        3: written[::-1, ::-1],
        4: written[::-1],
        5: written.transpose(1, 0, 2),
        6: written.transpose(1, 0, 2)[:, ::-1],
        7: written[::-1, ::-1].transpose(1, 0, 2),
        8: written.transpose(1, 0, 2)[::-1],
    }[orientation]
    content = png(written, RGB, extra=chunk(b"eXIf", exif(orientation, order)))
    turned = decode(content, orientation=True)
    assert np.array_equal(turned.numpy(), expected.transpose(2, 0, 1))
    assert np.array_equal(decode(content).numpy(), written.transpose(2, 0, 1))


@pytest.mark.parametrize(
    "block", [b"", b"II", b"II*\0", b"XX*\0\x08\0\0\0", exif(6)[:20], b"MM\0+"]
)
def test_a_broken_exif_block_turns_nothing(block):
    content = png(pixels(RGB, 8), RGB, extra=chunk(b"eXIf", block))
    assert decode(content, orientation=True).equal(decode(content))


def test_jpeg_brightness_is_that_of_the_file():
    gray = decode(saved(smooth(), "JPEG", quality=95), "GRAY")
    expected = smooth() @ [0.299, 0.587, 0.114]
    assert gray.shape == (1, 18, 22) and np.abs(gray.numpy()[0] - expected).max() < 6


def test_moving_gifs_have_a_frame_dimension():
    one, many = decode(saved(smooth(), "GIF", "P")), GOLDEN["gif moving 1"]["file"]
    assert one.shape == (3, 18, 22) and decode(base64.b64decode(many)).shape == (3, 3, 18, 22)


# -- the other way ---------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("level", [0, 6, 9])
def test_png_files_read_back(tmp_path, channels, level):
    image = torch.from_numpy(smooth()).permute(2, 0, 1)[:channels]
    image_io.write_png(image, tmp_path / "a.png", level)
    for read in (image_io.read_image, image_io.decode_image):
        assert read(str(tmp_path / "a.png")).equal(image)
    assert image_io.encode_png(image, level).equal(image_io.read_file(tmp_path / "a.png"))


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_files_read_back_nearly(tmp_path, channels):
    image = torch.from_numpy(smooth()).permute(2, 0, 1)[:channels]
    image_io.write_jpeg(image, tmp_path / "a.jpg", quality=95)
    read = image_io.read_image(tmp_path / "a.jpg")
    assert read.shape == image.shape and (read.int() - image.int()).abs().float().mean() < 3
    small, large = (image_io.encode_jpeg(image, quality).numel() for quality in (5, 95))
    assert small < large
    several = image_io.encode_jpeg([image, image.flip(-1)])
    assert [decoded.shape for decoded in image_io.decode_jpeg(several)] == [image.shape] * 2


def test_bytes_are_written_and_read(tmp_path):
    data = torch.arange(200, dtype=torch.uint8)
    image_io.write_file(tmp_path / "a", data)
    assert image_io.read_file(str(tmp_path / "a")).equal(data)


def test_modes_have_names():
    content = saved(smooth(), "PNG")
    for mode in (ImageReadMode.RGBA, ImageReadMode.RGB_ALPHA, "rgba", "RGB_ALPHA"):
        assert decode(content, mode).shape == (4, 18, 22)
    with pytest.raises(KeyError):
        decode(content, "CMYK")


def test_gray_webp_is_warned_of():
    with pytest.warns(UserWarning, match="Webp does not support grayscale conversions"):
        image = image_io.decode_webp(tensor(saved(smooth(), "WEBP")), "GRAY")
    assert image.shape[0] == 3


def test_avif_where_pillow_has_it():
    if not image_io.image._has_avif():
        with pytest.raises(RuntimeError, match="AVIF"):
            image_io.decode_avif(tensor(b"x"))
        return
    content = saved(smooth(), "AVIF", quality=90)
    image = image_io.decode_avif(tensor(content))
    assert (
        image.shape == (3, 18, 22) and image_io.decode_avif(tensor(content), "RGBA").shape[0] == 4
    )
    assert np.abs(image.numpy().transpose(1, 2, 0).astype(int) - smooth()).mean() < 10


# -- what is refused -------------------------------------------------------------------------------

IMAGE = torch.zeros(3, 4, 5, dtype=torch.uint8)
BYTES = torch.zeros(8, dtype=torch.uint8)
REFUSED = [
    (image_io.decode_png, (BYTES[:3],), "Content is too small for png!"),
    (image_io.decode_png, (BYTES,), "Content is not png!"),
    (image_io.decode_png, (BYTES[::2],), "Input tensor must be contiguous."),
    (image_io.decode_png, (BYTES.int(),), "Input tensor must have uint8 data type, got Int"),
    (image_io.decode_gif, (BYTES[:0],), "Input tensor must be 1-dimensional and non-empty, got 1 "),
    (image_io.decode_gif, (BYTES,), "DGifSlurp() failed"),
    (image_io.decode_webp, (BYTES,), "WebPDecodeRGB[A] failed."),
    (image_io.decode_jpeg, (BYTES,), "Image is incomplete or truncated"),
    (image_io.decode_image, (BYTES,), "Unsupported image file. Only jpeg, png, webp and gif are"),
    (image_io.decode_image, (BYTES.float(),), "Expected a torch.uint8 tensor"),
    (image_io.decode_image, (IMAGE,), "Expected a non empty 1-dimensional tensor"),
    (image_io.decode_jpeg, (BYTES, "RGBA"), "The provided mode is not supported for JPEG files"),
    (image_io.decode_heic, (BYTES,), "HEIC images cannot be decoded"),
    (image_io.encode_png, (IMAGE, 10), "Compression level should be between 0 and 9"),
    (image_io.encode_png, (IMAGE.float(),), "Input tensor dtype should be uint8"),
    (image_io.encode_png, (IMAGE[0],), "Input data should be a 3-dimensional tensor"),
    (image_io.encode_png, (IMAGE[:2],), "The number of channels should be 1 or 3, got: 2"),
    (image_io.encode_jpeg, (IMAGE[:2],), "The number of channels should be 1 or 3, got: 2"),
    (
        image_io.read_file,
        ("/no/such/file",),
        "[Errno 2] No such file or directory: '/no/such/file'",
    ),
    (image_io.write_file, ("/no/such/file", BYTES), "Error opening output file"),
    (image_io.write_file, ("unwritten", IMAGE), "Input data should be a 1-dimensional tensor"),
    (image_io.write_file, ("unwritten", BYTES.int()), "Input tensor dtype should be uint8"),
]


@pytest.mark.parametrize("function, arguments, message", REFUSED)
def test_bad_input_is_refused_in_torchvisions_words(function, arguments, message):
    with pytest.raises(RuntimeError) as error:
        function(*arguments)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "function, arguments, message",
    [
        (image_io.encode_jpeg, (IMAGE, 0), "Image quality should be a positive number between 1"),
        (image_io.encode_jpeg, (IMAGE, 101), "Image quality should be a positive number between 1"),
        (image_io.encode_jpeg, ([],), "encode_jpeg requires at least one input tensor when a list"),
        (image_io.decode_jpeg, ([],), "Input list must contain at least one element"),
        (image_io.decode_jpeg, ([1],), "All elements of the input list must be tensors"),
    ],
)
def test_bad_values_are_refused_in_torchvisions_words(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "a.png").touch()
    with pytest.raises(RuntimeError, match="Expected a non empty file"):
        image_io.read_image(tmp_path / "a.png")


def test_animated_webp_is_refused():
    from PIL import Image

    frames = [Image.fromarray(smooth(seed=seed)) for seed in range(2)]
    content = saved(frames[0], "WEBP", save_all=True, append_images=frames[1:])
    with pytest.raises(RuntimeError, match="Animated webp files are not supported"):
        decode(content)


@pytest.mark.parametrize(
    "name", ["read_video", "read_video_timestamps", "write_video", "VideoReader"]
)
def test_videos_are_not_read_and_that_is_said(name):
    with pytest.raises(ImportError, match="reads and writes no videos"):
        getattr(image_io, name)("a.mp4")


SAMPLES = [
    "png 2 8",
    "png 2 16",
    "png 4 16 interlaced",
    "jpeg 2",
    "gif moving 1",
    "webp with alpha",
]


@pytest.mark.parametrize("name", SAMPLES)
def test_files_that_are_cut_short_are_noticed(name):
    content = base64.b64decode(GOLDEN[name]["file"])
    for size in (len(content) * 3 // 4, len(content) // 2, 40, 20, 8):
        with pytest.raises(RuntimeError):
            decode(content[:size])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SAMPLES)
def test_no_change_of_a_file_does_worse_than_an_error(name, rng):
    content = base64.b64decode(GOLDEN[name]["file"])
    refused = 0
    for _ in range(300):
        changed = bytearray(content)
        for _ in range(rng.integers(1, 5)):
            changed[rng.integers(len(changed))] = rng.integers(256)
        try:
            image = decode(changed, "RGB")
            assert image.numel() < 1 << 28
        except RuntimeError:
            refused += 1
    assert refused


def test_enormous_sizes_ask_for_no_memory():
    header = struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 16, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"x")
    with pytest.raises(RuntimeError):
        decode(content + chunk(b"IEND", b""))
    for width in (2**27, 10_000):  # more than Pillow allows, and less
        header = struct.pack(">IIBBBBB", width, 10_000, 8, 2, 0, 0, 0)
        content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"x")
        with pytest.raises(RuntimeError, match=r"bytes cannot hold \d+ pixels"):
            decode(content)
    jpeg = bytearray(saved(smooth(), "JPEG"))
    place = jpeg.index(b"\xff\xc0") + 5
    jpeg[place : place + 4] = struct.pack(">HH", 9_000, 9_000)
    with pytest.raises(RuntimeError, match="bytes cannot hold 81000000 pixels"):
        decode(jpeg)
    gif = b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0x80, 0, 0) + bytes(6)
    frame = struct.pack("<BHHHHB", 0x2C, 0, 0, 65535, 65535, 0) + b"\x02\x01\x00\x00"
    with pytest.raises(RuntimeError, match="bytes cannot hold 85896724500 pixels"):
        decode(gif + frame * 20 + b";")
