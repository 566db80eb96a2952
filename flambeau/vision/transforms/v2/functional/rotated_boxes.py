"""Turned boxes: their formats, the box around a parallelogram, and cutting them at the canvas.

A turned box is given by a corner or its middle, width, height and angle (counter-clockwise, in
degrees), or by its four corners. Cutting moves the edges of a box towards its inside until no
corner lies outside, one side of the canvas after the other: the box is turned by a quarter between.
"""

import math
from typing import Any

import flambeau
from flambeau import Tensor


def _direction(boxes: Tensor) -> tuple[Tensor, Tensor]:
    radians = boxes[..., 4].mul(math.pi).div(180.0)
    return radians.cos(), radians.sin()


def _to_middle(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """From the first corner to the middle, along x and y."""
    half = boxes[..., 2:-1].div(2)
    cos, sin = _direction(boxes)
    width, height = half[..., 0], half[..., 1]
    return width * cos + height * sin, height * cos - width * sin


def _moved(boxes: Tensor, sign: int) -> Tensor:
    dx, dy = _to_middle(boxes)
    moved = flambeau.stack((boxes[..., 0] + sign * dx, boxes[..., 1] + sign * dy), dim=-1)
    return flambeau.cat((moved, boxes[..., 2:]), dim=-1)


def cxcywhr_to_xywhr(boxes: Tensor) -> Tensor:
    return _moved(boxes, -1)


def xywhr_to_cxcywhr(boxes: Tensor) -> Tensor:
    return _moved(boxes, 1)


def xywhr_to_xyxyxyxy(boxes: Tensor) -> Tensor:
    x, y, width, height, _ = boxes.unbind(-1)
    cos, sin = _direction(boxes)
    across, up = width * cos, width * sin  # along the width
    right, down = height * sin, height * cos  # along the height
    corners = (x, y, x + across, y - up, x + (across + right), y - (up - down), x + right, y + down)
    return flambeau.stack(corners, dim=-1)


def xyxyxyxy_to_xywhr(boxes: Tensor) -> Tensor:
    floats = boxes if boxes.dtype in (flambeau.float32, flambeau.float64) else boxes.float()
    x1, y1, x2, y2, x3, y3, _, _ = floats.unbind(-1)
    angle = flambeau.atan2(y1 - y2, x2 - x1).div(math.pi).mul(180.0)
    width = ((x2 - x1).pow(2) + (y2 - y1).pow(2)).sqrt()
    height = ((x3 - x2).pow(2) + (y3 - y2).pow(2)).sqrt()
    return flambeau.stack((x1, y1, width, height, angle), dim=-1).to(boxes.dtype)


def around_parallelograms(corners: Tensor) -> Tensor:
    """The smallest turned box around each parallelogram, along its longer side: (..., 8)."""
    floats = corners if corners.dtype in (flambeau.float32, flambeau.float64) else corners.float()
    x1, y1, x2, y2, x3, y3, x4, y4 = floats.unbind(-1)
    middle_x, middle_y = (x1 + x3) / 2, (y1 + y3) / 2
    first = ((x2 - x1).pow(2) + (y2 - y1).pow(2)).sqrt()
    second = ((x4 - x1).pow(2) + (y4 - y1).pow(2)).sqrt()
    first_angle = flambeau.atan2(y1 - y2, x2 - x1)
    second_angle = flambeau.atan2(y1 - y4, x4 - x1)
    between = first_angle - second_angle
    sign = flambeau.where(between > math.pi / 2, -1, 1)
    cos, sin = between.cos(), between.sin()
    width = flambeau.where(first < second, first * sin, first + second * cos * sign)
    height = flambeau.where(first > second, second * sin, second + first * cos * sign)
    angle = flambeau.where(second > first, second_angle + math.pi / 2, first_angle)
    cos, sin = angle.cos(), angle.sin()
    half_width, half_height = width / 2, height / 2
    sides = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    places = []
    for along, down in sides:
        places.append(middle_x + along * (half_width * cos) + down * (half_height * sin))
        places.append(middle_y + down * (half_height * cos) - along * (half_width * sin))
    return flambeau.stack(places, dim=-1).to(corners.dtype)


# -- cutting ---------------------------------------------------------------------------------------


def _leftmost_first(corners: Tensor) -> Tensor:
    """Where numbers must come from so that the leftmost corner (of equal ones, the upper) leads."""
    x, y = corners[..., 0::2], corners[..., 1::2]
    most_x, most_y = (v.abs().amax(dim=1, keepdim=True) for v in (x, y))
    start = (y / most_y + x / most_x * 100).argmin(dim=1, keepdim=True) * 2
    return (start + flambeau.arange(8, device=corners.device)).remainder(8)


def _lines(corners: Tensor) -> tuple[Tensor, Tensor]:
    """Slopes and intercepts of the four edges, each from a corner to the next."""
    x, y = corners[..., 0::2], corners[..., 1::2]
    slopes = (y.roll(-1, -1) - y) / (x.roll(-1, -1) - x)
    return slopes, y - slopes * x


def _crossings(slopes: Tensor, intercepts: Tensor) -> Tensor:
    """Corners: where each edge meets the one before."""
    x = -(intercepts - intercepts.roll(1, -1)) / (slopes - slopes.roll(1, -1))
    return flambeau.stack((x, slopes * x + intercepts), dim=-1).flatten(start_dim=-2)


def _cut_intercepts(corners: Tensor, original: Tensor, canvas_size: Any, mode: str) -> Tensor:
    height, width = canvas_size
    a1, a2, a3, a4 = _lines(corners)[0].unbind(-1)
    b1, b2, b3, b4 = _lines(corners)[1].unbind(-1)
    low1, low2, high3, high4 = _lines(original)[1].unbind(-1)
    b1 = b2.clamp(b1, b3).clamp(0, height)
    b4 = b3.clamp(b2, b4).clamp(0, height)
    if mode == "hard":
        b1 = b4 = (b1 + b4) / 2
        above = (
            b1 * a2 / a1,
            b3 * a2 / a3,
            (a1 - a2) * width + b1,
            (a3 - a2) * width + b3,
        )
        b2 = flambeau.stack(above, dim=1).amax(dim=1).clamp(max=b2)
        below = (
            height * (1 - a3 / a4) + b4 * a3 / a4,
            height * (1 - a3 / a2) + b2 * a3 / a2,
            (a2 - a3) * width + b2,
            (a4 - a3) * width + b4,
        )
        b3 = flambeau.stack(below, dim=1).amin(dim=1).clamp(min=b3)
    b1, b3 = b1.clamp(low1, high3), b3.clamp(low1, high3)
    b2, b4 = b2.clamp(low2, high4), b4.clamp(low2, high4)
    return flambeau.stack((b1, b2, b3, b4), dim=-1)


def _cut_at_left(corners: Tensor, original: Tensor, canvas_size: Any, mode: str) -> Tensor:
    """Boxes whose leftmost corner comes first, cut at x = 0."""
    x, y = corners[..., 0::2], corners[..., 1::2]
    slopes, _ = _lines(corners)
    turned = _crossings(slopes, _cut_intercepts(corners, original, canvas_size, mode))
    upright = flambeau.cat((x[..., :1].clamp(0), corners[..., 1:]), dim=-1)
    upright[..., 6].clamp_(0)
    # which edges run along x: from the first corner to the second, and so on around
    first_edge, second_edge, third_edge, last_edge = (
        y[..., [0, 1, 2, 0]].isclose(y[..., [1, 2, 3, 3]]).unbind(-1)
    )
    is_upright = first_edge | third_edge
    is_thin = is_upright & x[..., 0].isclose(x[..., 1])
    is_gone = (x <= 0).all(-1) | second_edge | last_edge | is_thin
    is_cut = (x[..., 0] < 0) & ~turned.isnan().any(-1)
    out = corners
    for holds, boxes in ((is_cut, turned), (is_upright, upright), (is_gone, 0.0)):
        out = flambeau.where(holds.unsqueeze(-1), boxes, out)
    return out


def _quarter_turned(corners: Tensor, width: float) -> Tensor:
    x, y = corners[:, 0::2], corners[:, 1::2]
    return flambeau.stack((y, width - x), dim=-1).flatten(start_dim=-2)


def clamped_corners(corners: Tensor, canvas_size: Any, mode: str) -> Tensor:
    """Boxes as four corners, (N, 8), cut at all sides of the canvas."""
    height, width = canvas_size
    original = corners
    for _ in range(4):
        order = _leftmost_first(corners)
        corners, original = corners.gather(1, order), original.gather(1, order)
        corners = _cut_at_left(corners, original, (height, width), mode)
        # corners lead in the order they were found in, as torchvision has it
        corners, original = corners.gather(1, order), original.gather(1, order)
        corners, original = _quarter_turned(corners, width), _quarter_turned(original, width)
        height, width = width, height
    return corners
