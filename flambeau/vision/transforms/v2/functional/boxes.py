"""Functions of v2 on boxes and points alone: formats, clamping to the canvas, dropping bad ones.

Formats are described in `tv_tensors/boxes.py`. Clamping turned boxes, which takes more, is in
`rotated_boxes.py`.
"""

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.vision import tv_tensors
from flambeau.vision.transforms.v2.functional import rotated_boxes
from flambeau.vision.transforms.v2.functional.dispatch import is_pure_tensor
from flambeau.vision.tv_tensors import (
    BoundingBoxes,
    BoundingBoxFormat,
    KeyPoints,
    is_rotated_bounding_format,
)

XYXY, XYWH, CXCYWH = BoundingBoxFormat.XYXY, BoundingBoxFormat.XYWH, BoundingBoxFormat.CXCYWH
XYWHR, CXCYWHR = BoundingBoxFormat.XYWHR, BoundingBoxFormat.CXCYWHR
XYXYXYXY = BoundingBoxFormat.XYXYXYXY


# -- formats ---------------------------------------------------------------------------------------


def _half(values: Tensor) -> Tensor:
    return values.div(2, rounding_mode=None if values.is_floating_point() else "floor")


def _joined(first: Tensor, second: Tensor) -> Tensor:
    return flambeau.cat((first, second), dim=-1)


def _xywh_to_xyxy(boxes):
    corner, size = boxes[..., :2], boxes[..., 2:]
    return _joined(corner, corner + size)


def _xyxy_to_xywh(boxes):
    first, second = boxes[..., :2], boxes[..., 2:]
    return _joined(first, second - first)


def _xywh_to_cxcywh(boxes):
    corner, size = boxes[..., :2], boxes[..., 2:]
    return _joined(corner + _half(size), size)


def _xyxy_to_cxcywh(boxes):
    first, size = boxes[..., :2], boxes[..., 2:] - boxes[..., :2]
    return _joined(_half(first * 2 + size), size)


def _cxcywh_corners(boxes):
    """Both corners, as floats where boxes are integers."""
    floats = boxes if boxes.is_floating_point() else boxes.float()
    middle, size = floats[..., :2], floats[..., 2:]
    first = middle - size / 2
    return first, size + first


def _cxcywh_to_xyxy(boxes):
    return _joined(*_cxcywh_corners(boxes)).to(boxes.dtype)


def _cxcywh_to_xywh(boxes):
    first, second = (corner.to(boxes.dtype) for corner in _cxcywh_corners(boxes))
    size = boxes[..., 2:] if boxes.is_floating_point() else second - first
    return _joined(first, size)


_DIRECT = {
    (XYWH, CXCYWH): _xywh_to_cxcywh,
    (CXCYWH, XYWH): _cxcywh_to_xywh,
    (XYWH, XYXY): _xywh_to_xyxy,
    (CXCYWH, XYXY): _cxcywh_to_xyxy,
    (XYXY, XYWH): _xyxy_to_xywh,
    (XYXY, CXCYWH): _xyxy_to_cxcywh,
    (CXCYWHR, XYWHR): rotated_boxes.cxcywhr_to_xywhr,
    (XYWHR, CXCYWHR): rotated_boxes.xywhr_to_cxcywhr,
    (XYWHR, XYXYXYXY): rotated_boxes.xywhr_to_xyxyxyxy,
    (XYXYXYXY, XYWHR): rotated_boxes.xyxyxyxy_to_xywhr,
}


def converted(boxes: Tensor, old: BoundingBoxFormat, new: BoundingBoxFormat) -> Tensor:
    """Boxes of a plain tensor in another format; those of the same format are not copied."""
    if new == old:
        return boxes
    if is_rotated_bounding_format(old) ^ is_rotated_bounding_format(new):
        raise ValueError("Cannot convert between rotated and unrotated bounding boxes.")
    if (old, new) in _DIRECT:
        return _DIRECT[old, new](boxes)
    between = XYWHR if is_rotated_bounding_format(old) else XYXY
    return converted(converted(boxes, old, between), between, new)


def _as_format(format: Any) -> Any:
    return BoundingBoxFormat[format.upper()] if isinstance(format, str) else format


def convert_bounding_box_format(
    inpt: Tensor,
    old_format: BoundingBoxFormat | str | None = None,
    new_format: BoundingBoxFormat | str | None = None,
    inplace: bool = False,
) -> Tensor:
    """Boxes in another format. Plain tensors need the old one, too."""
    if new_format is None:
        raise TypeError("convert_bounding_box_format() missing 1 required argument: 'new_format'")
    old, new = _as_format(old_format), _as_format(new_format)
    if is_pure_tensor(inpt):
        if old is None:
            raise ValueError("For pure tensor inputs, `old_format` has to be passed.")
        return _converted_in_place(inpt, old, new) if inplace else converted(inpt, old, new)
    if not isinstance(inpt, BoundingBoxes):
        raise TypeError(
            "Input can either be a plain tensor or a bounding box tv_tensor, "
            f"but got {type(inpt)} instead."
        )
    if old is not None:
        raise ValueError("For bounding box tv_tensor inputs, `old_format` must not be passed.")
    plain = inpt.as_subclass(Tensor)
    change = _converted_in_place if inplace else converted
    return tv_tensors.wrap(change(plain, inpt.format, new), like=inpt, format=new)


def _converted_in_place(boxes, old, new):
    out = converted(boxes, old, new)
    return boxes.copy_(out) if out is not boxes and out.shape == boxes.shape else out


# -- clamping --------------------------------------------------------------------------------------


def clamped(
    boxes: Tensor, format: BoundingBoxFormat, canvas_size: Any, clamping_mode: str | None
) -> Tensor:
    """Boxes of a plain tensor, cut at the edges of the canvas."""
    if clamping_mode is None:
        return boxes.clone()
    if is_rotated_bounding_format(format):
        corners = converted(boxes, format, XYXYXYXY).reshape(-1, 8)
        corners = rotated_boxes.clamped_corners(corners, canvas_size, clamping_mode)
        return converted(corners, XYXYXYXY, format).reshape(boxes.shape)
    floats = boxes if boxes.is_floating_point() else boxes.float()
    x1, y1, x2, y2 = converted(floats, format, XYXY).unbind(-1)
    height, width = canvas_size
    x1, x2 = x1.clamp(min=0, max=width), x2.clamp(min=0, max=width)
    y1, y2 = y1.clamp(min=0, max=height), y2.clamp(min=0, max=height)
    out = flambeau.stack((x1, y1, x2, y2), dim=-1)
    return converted(out, XYXY, format).to(boxes.dtype)


def clamp_bounding_boxes(
    inpt: Tensor,
    format: BoundingBoxFormat | None = None,
    canvas_size: tuple[int, int] | None = None,
    clamping_mode: str | None = "auto",
) -> Tensor:
    """Boxes cut at the edges of the canvas; "auto": as the boxes themselves say."""
    if clamping_mode is not None and clamping_mode not in ("soft", "hard", "auto"):
        raise ValueError(f"clamping_mode must be soft, hard, auto or None, got {clamping_mode}")
    if is_pure_tensor(inpt):
        if format is None or canvas_size is None or clamping_mode == "auto":
            raise ValueError(
                "For pure tensor inputs, `format`, `canvas_size` and `clamping_mode` have to be "
                "passed."
            )
        return clamped(inpt, format, canvas_size, clamping_mode)
    if not isinstance(inpt, BoundingBoxes):
        raise TypeError(
            "Input can either be a plain tensor or a bounding box tv_tensor, "
            f"but got {type(inpt)} instead."
        )
    if format is not None or canvas_size is not None:
        raise ValueError(
            "For bounding box tv_tensor inputs, `format` and `canvas_size` must not be passed."
        )
    mode = inpt.clamping_mode if clamping_mode == "auto" else clamping_mode
    out = clamped(inpt.as_subclass(Tensor), inpt.format, inpt.canvas_size, mode)
    return tv_tensors.wrap(out, like=inpt)


def _clamped_points(points: Tensor, canvas_size: Any) -> Tensor:
    floats = points if points.is_floating_point() else points.float()
    x = floats[..., 0].clamp(min=0, max=canvas_size[1] - 1)
    y = floats[..., 1].clamp(min=0, max=canvas_size[0] - 1)
    return flambeau.stack((x, y), dim=-1).to(points.dtype)


def clamp_keypoints(inpt: Tensor, canvas_size: tuple[int, int] | None = None) -> Tensor:
    """Points moved to the nearest place on the canvas."""
    if is_pure_tensor(inpt):
        if canvas_size is None:
            raise ValueError("For pure tensor inputs, `canvas_size` has to be passed.")
        return _clamped_points(inpt, canvas_size)
    if not isinstance(inpt, KeyPoints):
        raise TypeError(
            "Input can either be a plain tensor or a keypoints tv_tensor, "
            f"but got {type(inpt)} instead."
        )
    if canvas_size is not None:
        raise ValueError("For keypoints tv_tensor inputs, `canvas_size` must not be passed.")
    out = _clamped_points(inpt.as_subclass(Tensor), inpt.canvas_size)
    return tv_tensors.wrap(out, like=inpt)


# -- dropping --------------------------------------------------------------------------------------


def valid_boxes(
    boxes: Tensor, format: Any, canvas_size: Any, min_size: float, min_area: float
) -> Tensor:
    """Which boxes lie on the canvas and are large enough."""
    boxes = boxes.as_subclass(Tensor)
    height, width = canvas_size
    if is_rotated_bounding_format(format):
        boxes = converted(boxes, format, XYXYXYXY)
        widths = (boxes[..., 0] - boxes[..., 2]).pow(2) + (boxes[..., 1] - boxes[..., 3]).pow(2)
        heights = (boxes[..., 3] - boxes[..., 5]).pow(2) + (boxes[..., 4] - boxes[..., 6]).pow(2)
        widths, heights = widths.sqrt(), heights.sqrt()
    else:
        boxes = converted(boxes, format, XYXY)
        widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    valid = (widths >= min_size) & (heights >= min_size) & (boxes >= 0).all(dim=-1)
    valid = valid & (widths * heights >= min_area)
    return valid & (boxes[:, 0::2] <= width).all(-1) & (boxes[:, 1::2] <= height).all(-1)


def sanitize_bounding_boxes(
    bounding_boxes: Tensor,
    format: BoundingBoxFormat | str | None = None,
    canvas_size: tuple[int, int] | None = None,
    min_size: float = 1.0,
    min_area: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Boxes that lie on the canvas and are large enough, and which these are."""
    if is_pure_tensor(bounding_boxes):
        if format is None or canvas_size is None:
            raise ValueError(
                "format and canvas_size cannot be None if bounding_boxes is a pure tensor. "
                f"Got format={format} and canvas_size={canvas_size}."
                "Set those to appropriate values or pass bounding_boxes as a "
                "tv_tensors.BoundingBoxes object."
            )
        valid = valid_boxes(bounding_boxes, _as_format(format), canvas_size, min_size, min_area)
        return bounding_boxes[valid], valid
    if not isinstance(bounding_boxes, BoundingBoxes):
        raise ValueError(
            "bounding_boxes must be a tv_tensors.BoundingBoxes instance or a pure tensor."
        )
    if format is not None or canvas_size is not None:
        raise ValueError(
            "format and canvas_size must be None when bounding_boxes is a "
            f"tv_tensors.BoundingBoxes instance. Got format={format} and "
            f"canvas_size={canvas_size}. "
            "Leave those to None or pass bounding_boxes as a pure tensor."
        )
    boxes = bounding_boxes
    valid = valid_boxes(boxes, boxes.format, boxes.canvas_size, min_size, min_area)
    return tv_tensors.wrap(boxes[valid], like=boxes), valid


def valid_points(points: Tensor, canvas_size: Any) -> Tensor:
    """Which points lie on the canvas; of groups, those of which all points do."""
    points = points.as_subclass(Tensor)
    height, width = canvas_size
    x, y = points[..., 0], points[..., 1]
    valid = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    return valid.flatten(start_dim=1).all(dim=1) if valid.ndim > 1 else valid


def sanitize_keypoints(
    key_points: Tensor, canvas_size: tuple[int, int] | None = None
) -> tuple[Tensor, Tensor]:
    """Points that lie on the canvas, and which these are."""
    if is_pure_tensor(key_points):
        if canvas_size is None:
            raise ValueError(
                "canvas_size cannot be None if key_points is a pure tensor. "
                "Set it to an appropriate value or pass key_points as a tv_tensors.KeyPoints "
                "object."
            )
        valid = valid_points(key_points, canvas_size)
        return key_points[valid], valid
    if not isinstance(key_points, KeyPoints):
        raise ValueError("key_points must be a tv_tensors.KeyPoints instance or a pure tensor.")
    if canvas_size is not None:
        raise ValueError(
            "canvas_size must be None when key_points is a tv_tensors.KeyPoints instance. "
            f"Got canvas_size={canvas_size}. "
            "Leave it to None or pass key_points as a pure tensor."
        )
    valid = valid_points(key_points, key_points.canvas_size)
    return tv_tensors.wrap(key_points[valid], like=key_points), valid
