"""Images, boxes on them, figures and videos, as PNG and GIF.

Arrays of any arrangement become (height, width, channels) of uint8: uint8 is taken as it is,
everything else is meant to lie between 0 and 1. Several images become one, side by side.
"""

import io
import math
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary

from flambeau.utils.tensorboard._convert_np import make_np


def _pillow():
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise ImportError(
            "images for TensorBoard need the package pillow; "
            "install it with `pip install flambeau[vision]`"
        ) from error
    return Image, ImageDraw, ImageFont


# -- arrays ---------------------------------------------------------------------------------------


def make_grid(I: np.ndarray, ncols: int = 8) -> np.ndarray:
    """Images (N, 1 or 3, H, W) side by side in rows of ncols: (3, rows * H, columns * W)."""
    if not isinstance(I, np.ndarray):
        raise AssertionError("plugin error, should pass numpy array here")
    if I.ndim != 4 or I.shape[1] not in (1, 3):
        raise AssertionError(
            f"Input should be a 4D numpy array with 3 channels, but its shape is {I.shape}"
        )
    number, _, height, width = I.shape
    columns = min(number, ncols)
    rows = math.ceil(number / columns) if columns else 0
    places = np.zeros((rows * columns, 3, height, width), dtype=I.dtype)
    places[:number] = I
    places = places.reshape(rows, columns, 3, height, width)
    return places.transpose(2, 0, 3, 1, 4).reshape(3, rows * height, columns * width)


def convert_to_HWC(tensor: np.ndarray, input_format: str) -> np.ndarray:
    """An array arranged as input_format says, as (height, width, channels)."""
    if len(set(input_format)) != len(input_format):
        raise AssertionError(
            f"You can not use the same dimension shorthand twice. input_format: {input_format}"
        )
    if tensor.ndim != len(input_format):
        raise AssertionError(
            "size of input tensor and input format are different. "
            f"tensor shape: {tensor.shape}, input_format: {input_format}"
        )
    given = input_format.upper()
    wanted = {4: "NCHW", 3: "HWC", 2: "HW"}.get(len(given), "")
    if sorted(given) != sorted(wanted):
        raise ValueError(
            f"an image has dimensions NCHW, CHW or HW, in any order, but got {input_format!r}"
        )
    array = tensor.transpose([given.index(letter) for letter in wanted])
    if wanted == "NCHW":
        return make_grid(array).transpose(1, 2, 0)
    if wanted == "HW":
        array = array[:, :, None]
    return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array


def _calc_scale_factor(tensor: Any) -> int:
    """What values are multiplied with to be pixels."""
    return 1 if make_np(tensor).dtype == np.uint8 else 255


def as_pixels(array: np.ndarray) -> np.ndarray:
    """Values as uint8: those of uint8 as they are, others times 255; beyond is cut off."""
    if _calc_scale_factor(array) == 1:
        return array
    return (array.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)


# -- images ---------------------------------------------------------------------------------------


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Summary:
    """One image, or several in a grid."""
    pixels = as_pixels(convert_to_HWC(make_np(tensor), dataformats))
    return Summary(value=[Summary.Value(tag=tag, image=make_image(pixels, rescale=rescale))])


def image_boxes(
    tag: str,
    tensor_image: Any,
    tensor_boxes: Any,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: Any = None,
) -> Summary:
    """One image with a red frame around each box (left, top, right, bottom)."""
    pixels = as_pixels(convert_to_HWC(make_np(tensor_image), dataformats))
    proto = make_image(pixels, rescale=rescale, rois=make_np(tensor_boxes), labels=labels)
    return Summary(value=[Summary.Value(tag=tag, image=proto)])


def make_image(
    tensor: np.ndarray, rescale: float = 1, rois: np.ndarray | None = None, labels: Any = None
) -> Summary.Image:
    """Pixels (height, width, channels) as PNG; the proto tells their size before scaling."""
    Image, _, _ = _pillow()
    height, width, channels = tensor.shape
    picture = Image.fromarray(np.ascontiguousarray(tensor))
    if rois is not None:
        picture = draw_boxes(picture, rois, labels=labels)
    size = int(width * rescale), int(height * rescale)
    if size != picture.size:
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
    )


def draw_boxes(disp_image: Any, boxes: np.ndarray, labels: Any = None) -> Any:
    """Frames, each with its label on a red ground in the lower left corner."""
    for k, (left, top, right, bottom) in enumerate(boxes[:, :4].tolist()):
        _draw_box(disp_image, left, top, right, bottom, None if labels is None else labels[k])
    return disp_image


def _draw_box(picture, left, top, right, bottom, label, color="Red", thickness=2):
    _, ImageDraw, ImageFont = _pillow()
    pen = ImageDraw.Draw(picture)
    around = [left, top, left, bottom, right, bottom, right, top, left, top]
    pen.line(around, fill=color, width=thickness)
    if label:
        font = ImageFont.load_default()
        x, y, *end = font.getbbox(label)
        width, height = end[0] - x, end[1] - y
        margin = math.ceil(0.05 * height)
        start = bottom - height - margin
        pen.rectangle([left, start - margin, left + width, bottom], fill=color)
        pen.text((left + margin, start), label, font=font, fill="black")


# -- figures --------------------------------------------------------------------------------------


def figure_to_image(figures: Any, close: bool = True) -> np.ndarray:
    """A figure of matplotlib as (3, H, W); a list of figures as (N, 3, H, W)."""
    if isinstance(figures, list):
        return np.stack([figure_to_image(figure, close) for figure in figures])
    try:
        import matplotlib.pyplot as plt
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise ImportError(
            "figures for TensorBoard need the package matplotlib; "
            "install it with `pip install matplotlib`"
        ) from error
    canvas = FigureCanvasAgg(figures)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[:, :, :3].transpose(2, 0, 1)
    if close:
        plt.close(figures)
    return pixels


# -- videos ---------------------------------------------------------------------------------------


def _frames(videos):
    """Videos (N, T, C, H, W) as one: (T, rows * H, columns * W, C), filled up with black ones."""
    if videos.ndim != 5:
        raise ValueError(f"a video has dimensions (N, T, C, H, W), but its shape is {videos.shape}")
    number, times, channels, height, width = videos.shape
    rows = 2 ** ((number.bit_length() - 1) // 2)
    places = 1 << (number - 1).bit_length()
    columns = places // rows
    padded = np.zeros((places, *videos.shape[1:]), dtype=videos.dtype)
    padded[:number] = videos
    grid = padded.reshape(rows, columns, times, channels, height, width)
    return grid.transpose(2, 0, 4, 1, 5, 3).reshape(times, rows * height, columns * width, channels)


def video(tag: str, tensor: Any, fps: float = 4) -> Summary:
    """Videos (N, T, C, H, W), side by side, as an animated GIF."""
    frames = as_pixels(_frames(make_np(tensor)))
    return Summary(value=[Summary.Value(tag=tag, image=make_video(frames, fps))])


def make_video(tensor: np.ndarray, fps: float) -> Summary.Image:
    """Frames (T, height, width, channels) of uint8 as an animated GIF."""
    Image, _, _ = _pillow()
    _, height, width, channels = tensor.shape
    frames = [
        Image.fromarray(np.ascontiguousarray(frame if channels > 1 else frame[:, :, 0]))
        for frame in tensor
    ]
    file = io.BytesIO()
    # GIF counts in hundredths of a second. Equal frames may not be joined: they last as well.
    frames[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=max(10, round(100 / fps) * 10),
        loop=0,
    )
    return Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
    )
