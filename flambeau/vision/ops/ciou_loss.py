"""The loss of complete_box_iou, pair by pair."""

import flambeau
from flambeau import Tensor

from ._utils import _upcast_non_float, reduced
from .diou_loss import _diou_iou_loss


def complete_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 - complete_box_iou of each box of one tensor and its partner in the other."""
    boxes1, boxes2 = _upcast_non_float(boxes1), _upcast_non_float(boxes2)
    distance, iou = _diou_iou_loss(boxes1, boxes2)
    sides1, sides2 = (b[..., 2:] - b[..., :2] for b in (boxes1, boxes2))
    lean1, lean2 = (flambeau.atan(sides[..., 0] / sides[..., 1]) for sides in (sides1, sides2))
    v = 4 / flambeau.pi**2 * flambeau.pow(lean2 - lean1, 2)
    with flambeau.no_grad():
        alpha = v / (1 - iou + v + eps)
    return reduced(distance + alpha * v, reduction, empty=True)
