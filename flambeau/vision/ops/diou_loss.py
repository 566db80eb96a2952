"""The loss of distance_box_iou, pair by pair."""

from flambeau import Tensor

from ._utils import _loss_inter_union, _upcast_non_float, reduced
from .giou_loss import hull_sides


def distance_box_iou_loss(
    boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7
) -> Tensor:
    """1 - distance_box_iou of each box of one tensor and its partner in the other."""
    loss, _ = _diou_iou_loss(_upcast_non_float(boxes1), _upcast_non_float(boxes2), eps)
    return reduced(loss, reduction, empty=True)


def _diou_iou_loss(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> tuple[Tensor, Tensor]:
    common, union = _loss_inter_union(boxes1, boxes2)
    iou = common / (union + eps)
    diagonal = (hull_sides(boxes1, boxes2) ** 2).sum(-1) + eps
    centre1, centre2 = ((b[..., :2] + b[..., 2:]) / 2 for b in (boxes1, boxes2))
    return 1 - iou + ((centre1 - centre2) ** 2).sum(-1) / diagonal, iou
