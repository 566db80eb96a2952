"""The loss of generalized_box_iou, pair by pair."""

import flambeau
from flambeau import Tensor

from ._utils import _loss_inter_union, _upcast_non_float, reduced


def hull_sides(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Sides of the smallest boxes around each pair."""
    low = flambeau.min(boxes1[..., :2], boxes2[..., :2])
    return flambeau.max(boxes1[..., 2:], boxes2[..., 2:]) - low


def generalized_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 - generalized_box_iou of each box of one tensor and its partner in the other."""
    boxes1, boxes2 = _upcast_non_float(boxes1), _upcast_non_float(boxes2)
    common, union = _loss_inter_union(boxes1, boxes2)
    area = hull_sides(boxes1, boxes2).prod(-1)
    loss = 1 - (common / (union + eps) - (area - union) / (area + eps))
    return reduced(loss, reduction, empty=True)
