"""Conversions between the formats of boxes, each one step; `box_convert` puts steps together.

Formats: corners (xyxy), corner and size (xywh), centre and size (cxcywh); the last two with an
angle in degrees, counter-clockwise (xywhr, cxcywhr); four corners (xyxyxyxy).
"""

from collections.abc import Callable

import flambeau
from flambeau import Tensor


def _box_cxcywh_to_xyxy(boxes: Tensor) -> Tensor:
    cx, cy, w, h = boxes.unbind(-1)
    return _stacked(cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h)


def _box_xyxy_to_cxcywh(boxes: Tensor) -> Tensor:
    x1, y1, x2, y2 = boxes.unbind(-1)
    return _stacked((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1)


def _box_xywh_to_xyxy(boxes: Tensor) -> Tensor:
    x, y, w, h = boxes.unbind(-1)
    return _stacked(x, y, x + w, y + h)


def _box_xyxy_to_xywh(boxes: Tensor) -> Tensor:
    x1, y1, x2, y2 = boxes.unbind(-1)
    return _stacked(x1, y1, x2 - x1, y2 - y1)


def _stacked(*parts: Tensor) -> Tensor:
    return flambeau.stack(parts, dim=-1)


def _rounded(step: Callable[..., tuple[Tensor, ...]]) -> Callable[[Tensor], Tensor]:
    """A step with angles: integers go through floats and are rounded back."""

    def convert(boxes: Tensor) -> Tensor:
        found = _stacked(*step(*boxes.unbind(-1)))
        return found if boxes.is_floating_point() else found.round_().to(boxes.dtype)

    return convert


def _turn(r: Tensor) -> tuple[Tensor, Tensor]:
    radians = r * flambeau.pi / 180.0
    return flambeau.cos(radians), flambeau.sin(radians)


@_rounded
def _box_cxcywhr_to_xywhr(cx, cy, w, h, r):
    cos, sin = _turn(r)
    return cx - w / 2 * cos - h / 2 * sin, cy - h / 2 * cos + w / 2 * sin, w, h, r


@_rounded
def _box_xywhr_to_cxcywhr(x, y, w, h, r):
    cos, sin = _turn(r)
    return x + w / 2 * cos + h / 2 * sin, y - w / 2 * sin + h / 2 * cos, w, h, r


@_rounded
def _box_xywhr_to_xyxyxyxy(x, y, w, h, r):
    cos, sin = _turn(r)
    x2, y2 = x + w * cos, y - w * sin
    return x, y, x2, y2, x2 + h * sin, y2 + h * cos, x + h * sin, y + h * cos


@_rounded
def _box_xyxyxyxy_to_xywhr(x1, y1, x2, y2, x3, y3, x4, y4):
    right, up = x2 - x1, y1 - y2
    r = flambeau.atan2(up, right) * 180 / flambeau.pi
    return x1, y1, _length(right, up), _length(x3 - x2, y3 - y2), r


def _length(x, y):
    return (x**2 + y**2).sqrt()


# the steps from one format to another
STEPS: dict[tuple[str, str], list[Callable[[Tensor], Tensor]]] = {
    ("xywh", "xyxy"): [_box_xywh_to_xyxy],
    ("cxcywh", "xyxy"): [_box_cxcywh_to_xyxy],
    ("xyxy", "xywh"): [_box_xyxy_to_xywh],
    ("xyxy", "cxcywh"): [_box_xyxy_to_cxcywh],
    ("xywh", "cxcywh"): [_box_xywh_to_xyxy, _box_xyxy_to_cxcywh],
    ("cxcywh", "xywh"): [_box_cxcywh_to_xyxy, _box_xyxy_to_xywh],
    ("cxcywhr", "xywhr"): [_box_cxcywhr_to_xywhr],
    ("xywhr", "cxcywhr"): [_box_xywhr_to_cxcywhr],
    ("cxcywhr", "xyxyxyxy"): [_box_cxcywhr_to_xywhr, _box_xywhr_to_xyxyxyxy],
    ("xyxyxyxy", "cxcywhr"): [_box_xyxyxyxy_to_xywhr, _box_xywhr_to_cxcywhr],
    ("xywhr", "xyxyxyxy"): [_box_xywhr_to_xyxyxyxy],
    ("xyxyxyxy", "xywhr"): [_box_xyxyxyxy_to_xywhr],
}
