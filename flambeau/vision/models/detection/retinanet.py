"""RetinaNet: all anchors of a pyramid, learned with a loss for rare things (Lin et al. 2017)."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import flambeau
from flambeau import Tensor, nn

from ...ops import boxes as box_ops
from ...ops.focal_loss import sigmoid_focal_loss
from ...ops.misc import Conv2dNormActivation
from ..published import published
from ..resnet import ResNet50_Weights
from . import _utils
from ._utils import start_convolutions
from .anchor_utils import AnchorGenerator
from .building import Start, detector
from .faster_rcnn import IMAGENET, NO_CHANNELS, pyramid, require
from .one_stage import OneStageDetector, anchors_per_level, best_of_level, per_place, surest
from .transform import GeneralizedRCNNTransform

__all__ = [
    "RetinaNet",
    "RetinaNet_ResNet50_FPN_V2_Weights",
    "RetinaNet_ResNet50_FPN_Weights",
    "retinanet_resnet50_fpn",
    "retinanet_resnet50_fpn_v2",
]

Norm = Callable[..., nn.Module]
_SIZES = (32, 64, 128, 256, 512)


def _default_anchorgen() -> AnchorGenerator:
    """Three sizes per map, a third of an octave apart."""
    sizes = tuple((s, int(s * 2 ** (1 / 3)), int(s * 2 ** (2 / 3))) for s in _SIZES)
    return AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * len(sizes))


class _Tower(nn.Module):
    """Four convolutions in a row, and what comes after; of both halves of the head."""

    _version = 2

    def __init__(self, in_channels: int, norm_layer: Norm | None) -> None:
        super().__init__()
        rows = [
            Conv2dNormActivation(in_channels, in_channels, norm_layer=norm_layer) for _ in range(4)
        ]
        self.conv = nn.Sequential(*rows)

    def _start_tower(self) -> None:
        start_convolutions(partial(nn.init.normal_, std=0.01), self.conv)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if local_metadata.get("version", 1) < 2:
            _v1_to_v2_weights(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def _v1_to_v2_weights(state_dict: Any, prefix: str) -> None:
    """Convolutions and their activations used to be one after the other in one row."""
    for number in range(4):
        for kind in ("weight", "bias"):
            old = f"{prefix}conv.{2 * number}.{kind}"
            if old in state_dict:
                state_dict[f"{prefix}conv.{number}.0.{kind}"] = state_dict.pop(old)


class RetinaNetClassificationHead(_Tower):
    """Scores of classes for each anchor.

    Args:
        prior_probability: of a thing of any class, to start from.
    """

    def __init__(
        self,
        in_channels: int,
        num_anchors: int,
        num_classes: int,
        prior_probability: float = 0.01,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__(in_channels, norm_layer)
        self._start_tower()
        self.cls_logits = nn.Conv2d(in_channels, num_anchors * num_classes, 3, padding=1)
        nn.init.normal_(self.cls_logits.weight, std=0.01)
        odds = (1 - prior_probability) / prior_probability
        nn.init.constant_(self.cls_logits.bias, -math.log(odds))
        self.num_classes, self.num_anchors = num_classes, num_anchors
        self.BETWEEN_THRESHOLDS = _utils.Matcher.BETWEEN_THRESHOLDS

    def compute_loss(
        self,
        targets: list[dict[str, Tensor]],
        head_outputs: dict[str, Tensor],
        matched_idxs: list[Tensor],
    ) -> Tensor:
        losses = []
        for target, scores, matches in zip(
            targets, head_outputs["cls_logits"], matched_idxs, strict=True
        ):
            things = matches >= 0
            aim = flambeau.zeros_like(scores)
            aim[things, target["labels"][matches[things]]] = 1.0
            sure = matches.ne(self.BETWEEN_THRESHOLDS)
            loss = sigmoid_focal_loss(scores[sure], aim[sure], reduction="sum")
            losses.append(loss / max(1, things.sum()))
        return sum(losses[1:], losses[0]) / len(targets)

    def forward(self, x: list[Tensor]) -> Tensor:
        scores = [per_place(self.cls_logits(self.conv(each)), self.num_classes) for each in x]
        return flambeau.cat(scores, dim=1)


class RetinaNetRegressionHead(_Tower):
    """A move for each anchor."""

    def __init__(self, in_channels: int, num_anchors: int, norm_layer: Norm | None = None) -> None:
        super().__init__(in_channels, norm_layer)
        self.bbox_reg = nn.Conv2d(in_channels, num_anchors * 4, 3, padding=1)
        nn.init.normal_(self.bbox_reg.weight, std=0.01)
        nn.init.zeros_(self.bbox_reg.bias)
        self._start_tower()
        self.box_coder = _utils.BoxCoder((1.0, 1.0, 1.0, 1.0))
        self._loss_type = "l1"

    def compute_loss(
        self,
        targets: list[dict[str, Tensor]],
        head_outputs: dict[str, Tensor],
        anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> Tensor:
        losses = []
        for target, moves, own, matches in zip(
            targets, head_outputs["bbox_regression"], anchors, matched_idxs, strict=True
        ):
            things = flambeau.where(matches >= 0)[0]
            boxes = target["boxes"][matches[things]]
            loss = _utils._box_loss(
                self._loss_type, self.box_coder, own[things], boxes, moves[things]
            )
            losses.append(loss / max(1, things.numel()))
        return sum(losses[1:], losses[0]) / max(1, len(targets))

    def forward(self, x: list[Tensor]) -> Tensor:
        return flambeau.cat([per_place(self.bbox_reg(self.conv(each)), 4) for each in x], dim=1)


class RetinaNetHead(nn.Module):
    """Scores and moves for all anchors of all maps."""

    def __init__(
        self, in_channels: int, num_anchors: int, num_classes: int, norm_layer: Norm | None = None
    ) -> None:
        super().__init__()
        self.classification_head = RetinaNetClassificationHead(
            in_channels, num_anchors, num_classes, norm_layer=norm_layer
        )
        self.regression_head = RetinaNetRegressionHead(
            in_channels, num_anchors, norm_layer=norm_layer
        )

    def compute_loss(self, targets, head_outputs, anchors, matched_idxs) -> dict[str, Tensor]:
        scores, moves = self.classification_head, self.regression_head
        return {
            "classification": scores.compute_loss(targets, head_outputs, matched_idxs),
            "bbox_regression": moves.compute_loss(targets, head_outputs, anchors, matched_idxs),
        }

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        return {
            "cls_logits": self.classification_head(x),
            "bbox_regression": self.regression_head(x),
        }


class RetinaNet(OneStageDetector):
    """Finds things and their boxes in one step.

    Args:
        backbone: gives a map or a dict of maps, all with `backbone.out_channels` channels.
        fg_iou_thresh, bg_iou_thresh: overlaps from which, and below which, an anchor holds a thing
            and holds nothing.
        topk_candidates: how many anchors of each map may become findings.
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
        proposal_matcher: _utils.Matcher | None = None,
        score_thresh: float = 0.05,
        nms_thresh: float = 0.5,
        detections_per_img: int = 300,
        fg_iou_thresh: float = 0.5,
        bg_iou_thresh: float = 0.4,
        topk_candidates: int = 1000,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if not hasattr(backbone, "out_channels"):
            raise ValueError(NO_CHANNELS)
        require("anchor_generator", anchor_generator, AnchorGenerator)
        self.backbone = backbone
        self.anchor_generator = anchor_generator or _default_anchorgen()
        channels: Any = backbone.out_channels
        many = self.anchor_generator.num_anchors_per_location()[0]
        self.head = head or RetinaNetHead(channels, many, num_classes)
        self.proposal_matcher = proposal_matcher or _utils.Matcher(
            fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=True
        )
        self.box_coder = _utils.BoxCoder((1.0, 1.0, 1.0, 1.0))
        mean, std = image_mean or IMAGENET[0], image_std or IMAGENET[1]
        self.transform = GeneralizedRCNNTransform(min_size, max_size, mean, std, **kwargs)
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates
        self._has_warned = False

    def compute_loss(self, targets, head_outputs, anchors) -> dict[str, Tensor]:
        matches = []
        for own, target in zip(anchors, targets, strict=True):
            boxes = target["boxes"]
            if boxes.numel() == 0:
                matches.append(own.new_full((len(own),), -1, dtype=flambeau.int64))
            else:
                matches.append(self.proposal_matcher(box_ops.box_iou(boxes, own)))
        return self.head.compute_loss(targets, head_outputs, anchors, matches)

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
            for scores, moves, own in zip(
                head_outputs["cls_logits"], head_outputs["bbox_regression"], anchors[number],
                strict=True,
            ):  # fmt: skip
                score, places, labels = best_of_level(
                    scores[number].sigmoid(), self.score_thresh, self.topk_candidates
                )
                boxes = self.box_coder.decode_single(moves[number][places], own[places])
                boxes = box_ops.clip_boxes_to_image(boxes, shape)
                for kind, part in zip(found, (boxes, score, labels), strict=True):
                    kind.append(part)
            boxes, score, labels = map(flambeau.cat, found)
            result.append(surest(boxes, score, labels, self.nms_thresh, self.detections_per_img))
        return result

    def _losses(self, targets, predictions, anchors, maps) -> dict[str, Tensor]:
        return self.compute_loss(targets, predictions, anchors)

    def _findings(self, predictions, anchors, maps, shapes) -> list[dict[str, Tensor]]:
        counts = anchors_per_level(maps, predictions["cls_logits"])
        split = {name: list(each.split(counts, dim=1)) for name, each in predictions.items()}
        return self.postprocess_detections(split, [list(a.split(counts)) for a in anchors], shapes)


RetinaNet_ResNet50_FPN_Weights = published("RetinaNet_ResNet50_FPN_Weights", __name__)
RetinaNet_ResNet50_FPN_V2_Weights = published("RetinaNet_ResNet50_FPN_V2_Weights", __name__)


@detector(RetinaNet_ResNet50_FPN_Weights, ResNet50_Weights, exact=("COCO_V1",))
def retinanet_resnet50_fpn(start: Start, num_classes: int, **kwargs) -> RetinaNet:
    """RetinaNet on the last three rows of a ResNet-50."""
    return RetinaNet(pyramid(start, 256, 256), num_classes, **kwargs)


@detector(RetinaNet_ResNet50_FPN_V2_Weights, ResNet50_Weights, backbone=None)
def retinanet_resnet50_fpn_v2(start: Start, num_classes: int, **kwargs) -> RetinaNet:
    """The same with normalization in its head and a loss of overlaps (Zhang et al. 2020)."""
    backbone = pyramid(start, 2048, 256, normalized=True)
    anchors = _default_anchorgen()
    channels: Any = backbone.out_channels
    many = anchors.num_anchors_per_location()[0]
    head = RetinaNetHead(channels, many, num_classes, norm_layer=partial(nn.GroupNorm, 32))
    head.regression_head._loss_type = "giou"
    return RetinaNet(backbone, num_classes, anchor_generator=anchors, head=head, **kwargs)
