"""FCOS: every place of a pyramid says how far the sides of its thing are (Tian et al. 2019)."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ...ops import boxes as box_ops
from ...ops.focal_loss import sigmoid_focal_loss
from ...ops.giou_loss import generalized_box_iou_loss
from ..published import published
from ..resnet import ResNet50_Weights
from . import _utils
from ._utils import start_convolutions
from .anchor_utils import AnchorGenerator
from .building import Start, detector
from .faster_rcnn import IMAGENET, NO_CHANNELS, pyramid
from .one_stage import OneStageDetector, anchors_per_level, best_of_level, per_place, surest
from .transform import GeneralizedRCNNTransform

__all__ = ["FCOS", "FCOS_ResNet50_FPN_Weights", "fcos_resnet50_fpn"]

Norm = Callable[..., nn.Module]


def _tower(channels: int, many: int | None, norm: Norm | None) -> nn.Sequential:
    """Convolutions in a row, each with normalization and relu."""
    normal = partial(nn.GroupNorm, 32) if norm is None else norm
    rows: list[nn.Module] = []
    for _ in range(many or 0):
        rows += [nn.Conv2d(channels, channels, 3, padding=1), normal(channels), nn.ReLU()]
    return nn.Sequential(*rows)


_start = partial(start_convolutions, partial(nn.init.normal_, std=0.01))


class FCOSClassificationHead(nn.Module):
    """Scores of classes for each place.

    Args:
        prior_probability: of a thing of any class, to start from.
    """

    def __init__(
        self,
        in_channels: int,
        num_anchors: int,
        num_classes: int,
        num_convs: int = 4,
        prior_probability: float = 0.01,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        self.num_classes, self.num_anchors = num_classes, num_anchors
        self.conv = _tower(in_channels, num_convs, norm_layer)
        _start(*self.conv)
        self.cls_logits = nn.Conv2d(in_channels, num_anchors * num_classes, 3, padding=1)
        _start(self.cls_logits)
        odds = (1 - prior_probability) / prior_probability
        nn.init.constant_(self.cls_logits.bias, -math.log(odds))

    def forward(self, x: list[Tensor]) -> Tensor:
        scores = [per_place(self.cls_logits(self.conv(each)), self.num_classes) for each in x]
        return flambeau.cat(scores, dim=1)


class FCOSRegressionHead(nn.Module):
    """Distances to the four sides, and how much in the middle a place is."""

    def __init__(
        self,
        in_channels: int,
        num_anchors: int,
        num_convs: int = 4,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        self.conv = _tower(in_channels, num_convs, norm_layer)
        self.bbox_reg = nn.Conv2d(in_channels, num_anchors * 4, 3, padding=1)
        self.bbox_ctrness = nn.Conv2d(in_channels, num_anchors, 3, padding=1)
        _start(self.bbox_reg, self.bbox_ctrness, *self.conv)

    def forward(self, x: list[Tensor]) -> tuple[Tensor, Tensor]:
        distances, middles = [], []
        for each in x:
            hidden = self.conv(each)
            distances.append(per_place(F.relu(self.bbox_reg(hidden)), 4))
            middles.append(per_place(self.bbox_ctrness(hidden), 1))
        return flambeau.cat(distances, dim=1), flambeau.cat(middles, dim=1)


class FCOSHead(nn.Module):
    """Scores, distances and middles for all places of all maps."""

    def __init__(
        self, in_channels: int, num_anchors: int, num_classes: int, num_convs: int | None = 4
    ) -> None:
        super().__init__()
        many: Any = num_convs
        self.box_coder = _utils.BoxLinearCoder(normalize_by_size=True)
        self.classification_head = FCOSClassificationHead(
            in_channels, num_anchors, num_classes, many
        )
        self.regression_head = FCOSRegressionHead(in_channels, num_anchors, many)

    def compute_loss(
        self,
        targets: list[dict[str, Tensor]],
        head_outputs: dict[str, Tensor],
        anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> dict[str, Tensor]:
        scores, distances = head_outputs["cls_logits"], head_outputs["bbox_regression"]
        labels, boxes = [], []
        for target, matches in zip(targets, matched_idxs, strict=True):
            label, true = target["labels"], target["boxes"]
            if len(label) == 0:
                label, true = label.new_zeros(1), true.new_zeros((1, 4))
            place = matches.clamp(min=0)
            labels.append(label[place].masked_fill(matches < 0, -1))
            boxes.append(true[place])
        label, true, own = map(flambeau.stack, (labels, boxes, anchors))
        things = label >= 0
        aim = flambeau.zeros_like(scores)
        aim[things, label[things]] = 1.0
        classing = sigmoid_focal_loss(scores, aim, reduction="sum")
        moved = self.box_coder.decode(distances, own)
        fitting = generalized_box_iou_loss(moved[things], true[things], reduction="sum")
        middle = head_outputs["bbox_ctrness"].squeeze(dim=2)[things]
        wanted = self._middles(self.box_coder.encode(own, true))[things]
        centring = F.binary_cross_entropy_with_logits(middle, wanted, reduction="sum")
        many = max(1, things.sum().item())
        return {
            "classification": classing / many,
            "bbox_regression": fitting / many,
            "bbox_ctrness": centring / many,
        }

    def _middles(self, distances: Tensor) -> Tensor:
        """1 in the middle of a box, 0 on its sides."""
        if len(distances) == 0:
            return distances.new_zeros(distances.shape[:-1])
        pairs = distances[..., [0, 2]], distances[..., [1, 3]]
        shares = [pair.amin(dim=-1) / pair.amax(dim=-1) for pair in pairs]
        return (shares[0] * shares[1]).sqrt()

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        scores = self.classification_head(x)
        distances, middles = self.regression_head(x)
        return {"cls_logits": scores, "bbox_regression": distances, "bbox_ctrness": middles}


class FCOS(OneStageDetector):
    """Finds things and their boxes from places, without boxes to start from.

    Args:
        backbone: gives a map or a dict of maps, all with `backbone.out_channels` channels.
        anchor_generator: one square per place; its side says which things belong to the map.
        center_sampling_radius: places up to so many cells from the middle of a thing belong to it.
    """

    def __init__(
        self,
        backbone: nn.Module,
        num_classes: int,
        min_size: int = 800,
        max_size: int = 1333,
        image_mean: list[float] | None = None,
        image_std: list[float] | None = None,
        anchor_generator: AnchorGenerator | None = None,
        head: nn.Module | None = None,
        center_sampling_radius: float = 1.5,
        score_thresh: float = 0.2,
        nms_thresh: float = 0.6,
        detections_per_img: int = 100,
        topk_candidates: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if not hasattr(backbone, "out_channels"):
            raise ValueError(NO_CHANNELS)
        if not isinstance(anchor_generator, (AnchorGenerator, type(None))):
            raise TypeError(
                "anchor_generator should be of type AnchorGenerator or None, instead  got "
                f"{type(anchor_generator)}"
            )
        self.backbone = backbone
        if anchor_generator is None:
            anchor_generator = AnchorGenerator(((8,), (16,), (32,), (64,), (128,)), ((1.0,),) * 5)
        self.anchor_generator = anchor_generator
        many = anchor_generator.num_anchors_per_location()[0]
        if many != 1:
            raise ValueError(
                f"anchor_generator.num_anchors_per_location()[0] should be 1 instead of {many}"
            )
        channels: Any = backbone.out_channels
        self.head = head or FCOSHead(channels, many, num_classes)
        self.box_coder = _utils.BoxLinearCoder(normalize_by_size=True)
        mean, std = image_mean or IMAGENET[0], image_std or IMAGENET[1]
        self.transform = GeneralizedRCNNTransform(min_size, max_size, mean, std, **kwargs)
        self.center_sampling_radius = center_sampling_radius
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates
        self._has_warned = False

    def compute_loss(
        self,
        targets: list[dict[str, Tensor]],
        head_outputs: dict[str, Tensor],
        anchors: list[Tensor],
        num_anchors_per_level: list[int],
    ) -> dict[str, Tensor]:
        matches = [
            self._matches(own, target["boxes"], num_anchors_per_level)
            for own, target in zip(anchors, targets, strict=True)
        ]
        return self.head.compute_loss(targets, head_outputs, anchors, matches)

    def _matches(self, anchors: Tensor, boxes: Tensor, counts: list[int]) -> Tensor:
        """The number of the thing that each place belongs to: the smallest around it, or -1."""
        if boxes.numel() == 0:
            return anchors.new_full((len(anchors),), -1, dtype=flambeau.int64)
        sides = anchors[:, 2] - anchors[:, 0]
        places = (anchors[:, :2] + anchors[:, 2:]) / 2
        middles = (boxes[:, :2] + boxes[:, 2:]) / 2
        away = (places[:, None] - middles).abs().amax(dim=2)
        fits = away < self.center_sampling_radius * sides[:, None]
        distances = flambeau.cat(
            [places[:, None] - boxes[:, :2], boxes[:, 2:] - places[:, None]], 2
        )
        fits &= distances.amin(dim=2) > 0
        # each map has things of its own size; the first all smaller, the last all larger ones
        least, most = sides * 4, sides * 8
        least[: counts[0]] = 0
        most[-counts[-1] :] = float("inf")
        farthest = distances.amax(dim=2)
        fits &= (farthest > least[:, None]) & (farthest < most[:, None])
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        quality, thing = (fits.to(flambeau.float32) * (1e8 - areas)).max(dim=1)
        thing[quality < 1e-5] = -1
        return thing

    def postprocess_detections(
        self,
        head_outputs: dict[str, list[Tensor]],
        anchors: list[list[Tensor]],
        image_shapes: list[tuple[int, int]],
    ) -> list[dict[str, Tensor]]:
        """Findings of each image, from predictions and anchors level by level."""
        result = []
        for number, shape in enumerate(image_shapes):
            found: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
            for scores, distances, middle, own in zip(
                head_outputs["cls_logits"],
                head_outputs["bbox_regression"],
                head_outputs["bbox_ctrness"],
                anchors[number],
                strict=True,
            ):
                chance = (scores[number].sigmoid() * middle[number].sigmoid()).sqrt()
                score, places, labels = best_of_level(
                    chance, self.score_thresh, self.topk_candidates
                )
                boxes = self.box_coder.decode(distances[number][places], own[places])
                boxes = box_ops.clip_boxes_to_image(boxes, shape)
                for kind, part in zip(found, (boxes, score, labels), strict=True):
                    kind.append(part)
            boxes, score, labels = map(flambeau.cat, found)
            result.append(surest(boxes, score, labels, self.nms_thresh, self.detections_per_img))
        return result

    def _losses(self, targets, predictions, anchors, maps) -> dict[str, Tensor]:
        counts = anchors_per_level(maps, predictions["cls_logits"])
        return self.compute_loss(targets, predictions, anchors, counts)

    def _findings(self, predictions, anchors, maps, shapes) -> list[dict[str, Tensor]]:
        counts = anchors_per_level(maps, predictions["cls_logits"])
        split = {name: list(each.split(counts, dim=1)) for name, each in predictions.items()}
        return self.postprocess_detections(split, [list(a.split(counts)) for a in anchors], shapes)


FCOS_ResNet50_FPN_Weights = published("FCOS_ResNet50_FPN_Weights", __name__)


@detector(FCOS_ResNet50_FPN_Weights, ResNet50_Weights)
def fcos_resnet50_fpn(start: Start, num_classes: int, **kwargs) -> FCOS:
    """FCOS on the last three rows of a ResNet-50."""
    return FCOS(pyramid(start, 256, 256), num_classes, **kwargs)
