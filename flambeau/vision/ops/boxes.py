"""Boxes: areas, overlaps, suppression of doubles, formats.

Boxes are (..., 4) tensors, by default x1, y1, x2, y2 with x1 <= x2 and y1 <= y2. nms is a kernel
(`ops/regions.py` of flambeau); everything else is arithmetic on tensors. Losses of overlaps are in
the files `*_loss.py`, boxes with angles in `_rotated_boxes`.
"""

import flambeau
from flambeau import Tensor
from flambeau.eager import regions as _launchers  # registers the kernels
from flambeau.ops import regions

from ._box_convert import STEPS
from ._rotated_boxes import rotated_iou
from ._utils import _upcast, rectangle

_REGISTERED = _launchers
_FORMATS = ("xyxy", "xywh", "cxcywh", "xywhr", "cxcywhr", "xyxyxyxy")
_UPRIGHT = ("xyxy", "xywh", "cxcywh")
_ROTATED = ("cxcywhr", "xywhr", "xyxyxyxy")


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Non-maximum suppression: places of the boxes that no better box overlaps too much.

    Args:
        boxes: (N, 4), x1, y1, x2, y2.
        scores: (N,); a box is better if its score is higher, or the same and it comes first.
        iou_threshold: boxes whose intersection over union with a better, kept one is larger go.

    Returns:
        int64 places, the best first.
    """
    return regions.nms(boxes, scores, iou_threshold)


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """nms within each class; `idxs` names the class of each box."""
    if boxes.numel() == 0:
        return flambeau.empty((0,), dtype=flambeau.int64, device=boxes.device)
    if boxes.numel() <= 4000:
        # classes are moved so far apart that their boxes cannot meet
        away = idxs.to(boxes) * (boxes.max() + flambeau.tensor(1).to(boxes))
        return nms(boxes + away[:, None], scores, iou_threshold)
    kept = flambeau.zeros_like(scores, dtype=flambeau.bool)
    for kind in flambeau.unique(idxs):
        places = flambeau.where(idxs == kind)[0]
        kept[places[nms(boxes[places], scores[places], iou_threshold)]] = True
    found = flambeau.where(kept)[0]
    return found[scores[found].sort(descending=True)[1]]


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """Places of the boxes whose sides are both at least `min_size` long."""
    wide = boxes[..., 2] - boxes[..., 0] >= min_size
    high = boxes[..., 3] - boxes[..., 1] >= min_size
    return flambeau.where(wide & high)[0]


def clip_boxes_to_image(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes cut off at the edges of an image of (height, width)."""
    height, width = size
    x = boxes[..., 0::2].clamp(min=0, max=width)
    y = boxes[..., 1::2].clamp(min=0, max=height)
    return flambeau.stack((x, y), dim=boxes.dim()).reshape(boxes.shape)


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes in another format: xyxy, xywh, cxcywh; with angles xywhr, cxcywhr, xyxyxyxy."""
    if in_fmt not in _FORMATS or out_fmt not in _FORMATS:
        raise ValueError(
            f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}"
        )
    if in_fmt == out_fmt:
        return boxes.clone()
    if (in_fmt, out_fmt) not in STEPS:
        raise NotImplementedError(
            f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}"
        )
    for step in STEPS[in_fmt, out_fmt]:
        boxes = step(boxes)
    return boxes


def box_area(boxes: Tensor, fmt: str = "xyxy") -> Tensor:
    """Areas of boxes; formats xyxy, xywh and cxcywh."""
    if fmt not in _UPRIGHT:
        raise ValueError(f"Unsupported Bounding Box area for given format {fmt}")
    first, second = _upcast(boxes).split(2, -1)
    return rectangle(second - first if fmt == "xyxy" else second)


def _corners(boxes: Tensor, fmt: str) -> tuple[Tensor, Tensor]:
    """Top left and bottom right."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if fmt == "xywh":
        return first, first + second
    if fmt == "cxcywh":
        return first - second / 2, first + second / 2
    return first, second


def _box_inter_union(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> tuple[Tensor, Tensor]:
    """Areas of intersection and union of every box with every other: (..., N, M)."""
    area1, area2 = box_area(boxes1, fmt), box_area(boxes2, fmt)
    (low1, high1), (low2, high2) = _corners(boxes1, fmt), _corners(boxes2, fmt)
    sides = flambeau.min(*_crossed(high1, high2)) - flambeau.max(*_crossed(low1, low2))
    common = rectangle(_upcast(sides).clamp(min=0))
    return common, area1.unsqueeze(-1) + area2.unsqueeze(-2) - common


def _crossed(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """(..., N, 2) and (..., M, 2) for operations of each with each."""
    return first.unsqueeze(-2), second.unsqueeze(-3)


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """Intersection over union of every box with every other: (..., N, M)."""
    if fmt not in _UPRIGHT + _ROTATED:
        raise ValueError(
            f"Unsupported format '{fmt}'. Supported axis-aligned formats: {_UPRIGHT}. Supported "
            f"rotated formats: {_ROTATED}."
        )
    if fmt in _ROTATED:
        turned = "cxcywhr"
        both = [b if fmt == turned else box_convert(b, fmt, turned) for b in (boxes1, boxes2)]
        return rotated_iou(*both)
    common, union = _box_inter_union(boxes1, boxes2, fmt)
    return common / union


def _hull(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Sides of the smallest boxes around every pair: (..., N, M, 2)."""
    (low1, high1), (low2, high2) = _corners(boxes1, "xyxy"), _corners(boxes2, "xyxy")
    sides = flambeau.max(*_crossed(high1, high2)) - flambeau.min(*_crossed(low1, low2))
    return _upcast(sides).clamp(min=0)


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """IoU less the empty share of the smallest box around both (Rezatofighi et al. 2019)."""
    common, union = _box_inter_union(boxes1, boxes2)
    area = rectangle(_hull(boxes1, boxes2))
    return common / union - (area - union) / area


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """IoU less the squared distance of centres over the squared diagonal around both."""
    return _box_diou_iou(_upcast(boxes1), _upcast(boxes2), eps)[0]


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """distance_box_iou less a term for unlike proportions (Zheng et al. 2020)."""
    boxes1, boxes2 = _upcast(boxes1), _upcast(boxes2)
    diou, iou = _box_diou_iou(boxes1, boxes2, eps)
    sides1, sides2 = boxes1[..., 2:] - boxes1[..., :2], boxes2[..., 2:] - boxes2[..., :2]
    lean1 = flambeau.atan(sides1[..., 0] / sides1[..., 1])
    lean2 = flambeau.atan(sides2[..., 0] / sides2[..., 1])
    unlike = (lean1.unsqueeze(-1) - lean2.unsqueeze(-2)) ** 2 * (4 / flambeau.pi**2)
    with flambeau.no_grad():
        weight = unlike / (1 - iou + unlike + eps)
    return diou - weight * unlike


def _box_diou_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> tuple[Tensor, Tensor]:
    iou = box_iou(boxes1, boxes2)
    sides = _hull(boxes1, boxes2)
    diagonal = sides[..., 0] ** 2 + sides[..., 1] ** 2 + eps
    centre1 = (boxes1[..., :2] + boxes1[..., 2:]) / 2
    centre2 = (boxes2[..., :2] + boxes2[..., 2:]) / 2
    away = _upcast(centre1[..., None, :] - centre2[..., None, :, :]) ** 2
    return iou - (away[..., 0] + away[..., 1]) / diagonal, iou


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The boxes around what masks (N, H, W) hold: float32 (N, 4), zeros for empty masks."""
    if masks.numel() == 0:
        return flambeau.zeros((0, 4), device=masks.device, dtype=flambeau.float)
    masks = masks.bool()
    sides = []
    for dim, size in ((1, masks.shape[2]), (2, masks.shape[1])):
        held = masks.any(dim=dim).float()
        sides.append((held.argmax(dim=1), size - 1 - held.flip(dims=[1]).argmax(dim=1)))
    (x1, x2), (y1, y2) = sides
    found = flambeau.stack([x1, y1, x2, y2], dim=1).float()
    found[~masks.flatten(1).any(dim=1)] = 0
    return found
