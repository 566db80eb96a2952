"""`draw_bounding_boxes`: rectangles, upright or turned, with labels."""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.vision.pillow import pillow
from flambeau.vision.utils.colors import Colors, check_image, from_bytes, parse_colors, to_bytes

_DASH = 5  # pixels of a dash, and of the gap after it
_TEXT_MARGIN = 1


@torch.no_grad()
def draw_bounding_boxes(
    image: Tensor,
    boxes: Tensor,
    labels: list[str] | None = None,
    colors: Colors | None = None,
    fill: bool | None = False,
    width: int = 1,
    font: str | None = None,
    font_size: int | None = None,
    label_colors: Colors | None = None,
    label_background_colors: Colors | None = None,
    fill_labels: bool = False,
) -> Tensor:
    """Draw boxes on a copy of an image; labels go inside their upper left corners.

    Args:
        image: (1 or 3, H, W), bytes or floats in [0, 1].
        boxes: (N, 4) as xmin, ymin, xmax, ymax, or (N, 8) as four corners x, y; the side between
            the first two corners is dashed.
        labels: a text or None for each box.
        colors: one colour, or one per box; a palette if None.
        fill: fill the boxes too, half transparent.
        width: width of the lines.
        font: a TrueType file; Pillow's own font if None.
        font_size: size in points, for a font of yours.
        label_colors: colours of the texts; those of the boxes if None (black on filled labels).
        label_background_colors: colours behind the texts, with `fill_labels`.
        fill_labels: paint a rectangle behind each text.

    Returns:
        An image of three channels and the dtype of `image`.
    """
    problems = "Tensor expected", "Only grayscale and RGB images are supported"
    check_image(image, (1, 3), problems)
    if boxes.shape[-1] == 4 and bool((boxes[:, :2] > boxes[:, 2:]).any()):
        raise ValueError(
            "Boxes need to be in (xmin, ymin, xmax, ymax) format. "
            "Use torchvision.ops.box_convert to convert them"
        )
    count = boxes.shape[0]
    if count == 0:
        warnings.warn("boxes doesn't contain any box. No box was drawn", stacklevel=2)
        return image
    if labels is not None and len(labels) != count:
        raise ValueError(
            f"Number of boxes ({count}) and labels ({len(labels)}) mismatch. "
            "Please specify labels for each box."
        )

    lines = parse_colors(colors, num_objects=count)
    texts = backgrounds = lines
    if label_colors or fill_labels:
        texts = parse_colors(label_colors or "black", num_objects=count)
    if fill_labels and label_background_colors:
        backgrounds = parse_colors(label_background_colors, num_objects=count)
    text_font = _font(font, font_size)

    dtype = image.dtype
    pixels = to_bytes(image.expand(3, -1, -1))
    picture = pillow().fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    draw = pillow("ImageDraw").ImageDraw(picture, "RGBA" if fill else None)
    for index, box in enumerate(boxes.to(torch.int64).tolist()):
        inside = (*lines[index], 100) if fill else None
        shape = _oriented_rectangle if len(box) > 4 else type(draw).rectangle
        shape(draw, box, fill=inside, outline=lines[index], width=width)
        label = labels[index] if labels is not None else None
        if label is not None:
            corner = tuple(coordinate + width + _TEXT_MARGIN for coordinate in box[:2])
            if fill_labels:
                left, top, right, bottom = draw.textbbox(corner, label, font=text_font)
                around = (left - 1, top - 1, right + 1, bottom + 1)
                draw.rectangle(around, fill=backgrounds[index])
            draw.text(corner, label, fill=texts[index], font=text_font)
    return from_bytes(_as_tensor(picture), dtype)


def _font(font: str | None, size: int | None) -> Any:
    if font is not None:
        return pillow("ImageFont").truetype(font=font, size=size or 10)
    if size is not None:
        warnings.warn("Argument 'font_size' will be ignored since 'font' is not set.", stacklevel=3)
    return _own_font()


@cache
def _own_font() -> Any:
    return pillow("ImageFont").load_default()


def _as_tensor(picture: Any) -> Tensor:
    import numpy

    return torch.from_numpy(numpy.array(picture)).permute(2, 0, 1)


def _oriented_rectangle(draw: Any, xy: list[int], fill: Any, outline: Any, width: int) -> None:
    """A polygon through the corners, whose first side is dashed: it shows where the box begins."""
    corners = list(zip(xy[::2], xy[1::2]))
    _dashed_line(draw, corners[0], corners[1], outline, width)
    for start, end in zip(corners[1:], corners[2:] + corners[:1]):
        draw.line((start, end), width=width, fill=outline)
    draw.polygon(xy, fill=fill, outline=None, width=0)


def _dashed_line(
    draw: Any, start: tuple[float, float], end: tuple[float, float], fill: Any, width: int
) -> None:
    """Dashes and gaps by turns; each starts where the one before really ended."""
    (x, y), (end_x, end_y) = start, end
    left = ((end_x - x) ** 2 + (end_y - y) ** 2) ** 0.5  # hypot rounds otherwise: other dashes
    visible = True
    while left > 0:
        length = min(left, _DASH)
        angle = math.atan2(end_y - y, end_x - x)
        next_x, next_y = x + math.cos(angle) * length, y + math.sin(angle) * length
        if visible:
            draw.line([(x, y), (next_x, next_y)], fill, width, None)
        left -= length
        x, y = next_x, next_y
        visible = not visible
