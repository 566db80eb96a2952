"""SSD: boxes of several maps in one step, with the hardest mistakes to learn from (Liu 2015)."""

import warnings
from collections import OrderedDict
from functools import partial
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ...ops import boxes as box_ops
from ..published import published
from ..vgg import VGG16_Weights, vgg16
from . import _utils
from ._utils import start_convolutions
from .anchor_utils import DefaultBoxGenerator
from .backbone_utils import freeze_before
from .building import Start, detector
from .faster_rcnn import IMAGENET
from .one_stage import OneStageDetector, best_of_level, per_place, surest
from .transform import GeneralizedRCNNTransform

__all__ = ["SSD300_VGG16_Weights", "ssd300_vgg16"]


_xavier_init = partial(start_convolutions, nn.init.xavier_uniform_)


class SSDScoringHead(nn.Module):
    """One convolution per map, with so many values per box."""

    def __init__(self, module_list: nn.ModuleList, num_columns: int) -> None:
        super().__init__()
        self.module_list, self.num_columns = module_list, num_columns

    def _get_result_from_module_list(self, x: Tensor, idx: int) -> Tensor:
        return self.module_list[idx](x)

    def forward(self, x: list[Tensor]) -> Tensor:
        found = [
            per_place(self._get_result_from_module_list(each, number), self.num_columns)
            for number, each in enumerate(x)
        ]
        return flambeau.cat(found, dim=1)


def _convolutions(channels: list[int], anchors: list[int], values: int) -> nn.ModuleList:
    pairs = zip(channels, anchors, strict=True)
    layers = nn.ModuleList([nn.Conv2d(c, values * many, 3, padding=1) for c, many in pairs])
    _xavier_init(layers)
    return layers


class SSDClassificationHead(SSDScoringHead):
    """Scores of classes for each box."""

    def __init__(self, in_channels: list[int], num_anchors: list[int], num_classes: int) -> None:
        super().__init__(_convolutions(in_channels, num_anchors, num_classes), num_classes)


class SSDRegressionHead(SSDScoringHead):
    """A move for each box."""

    def __init__(self, in_channels: list[int], num_anchors: list[int]) -> None:
        super().__init__(_convolutions(in_channels, num_anchors, 4), 4)


class SSDHead(nn.Module):
    """Scores and moves for all boxes of all maps."""

    def __init__(self, in_channels: list[int], num_anchors: list[int], num_classes: int) -> None:
        super().__init__()
        self.classification_head = SSDClassificationHead(in_channels, num_anchors, num_classes)
        self.regression_head = SSDRegressionHead(in_channels, num_anchors)

    def forward(self, x: list[Tensor]) -> dict[str, Tensor]:
        return {
            "bbox_regression": self.regression_head(x),
            "cls_logits": self.classification_head(x),
        }


class SSD(OneStageDetector):
    """Finds things and their boxes in one step.

    Args:
        backbone: gives a dict of maps.
        size: (width, height) to which all images are scaled.
        num_classes: with the background, which is class 0.
        positive_fraction: of the boxes that are learned from; the rest are the worst mistakes.
        topk_candidates: how many boxes of each class may become findings.
    """

    def __init__(
        self,
        backbone: nn.Module,
        anchor_generator: DefaultBoxGenerator,
        size: tuple[int, int],
        num_classes: int,
        image_mean: list[float] | None = None,
        image_std: list[float] | None = None,
        head: nn.Module | None = None,
        score_thresh: float = 0.01,
        nms_thresh: float = 0.45,
        detections_per_img: int = 200,
        iou_thresh: float = 0.5,
        topk_candidates: int = 400,
        positive_fraction: float = 0.25,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.backbone, self.anchor_generator = backbone, anchor_generator
        self.box_coder = _utils.BoxCoder((10.0, 10.0, 5.0, 5.0))
        if head is None:
            channels: Any = getattr(backbone, "out_channels", None)
            channels = channels or _utils.retrieve_out_channels(backbone, size)
            anchors = anchor_generator.num_anchors_per_location()
            if len(channels) != len(anchors):
                raise ValueError(
                    f"The length of the output channels from the backbone ({len(channels)}) do not "
                    f"match the length of the anchor generator aspect ratios ({len(anchors)})"
                )
            head = SSDHead(channels, anchors, num_classes)
        self.head = head
        self.proposal_matcher = _utils.SSDMatcher(iou_thresh)
        mean, std = image_mean or IMAGENET[0], image_std or IMAGENET[1]
        self.transform = GeneralizedRCNNTransform(
            min(size), max(size), mean, std, size_divisible=1, fixed_size=size, **kwargs
        )
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates
        self.neg_to_pos_ratio = (1.0 - positive_fraction) / positive_fraction
        self._has_warned = False

    def compute_loss(
        self,
        targets: list[dict[str, Tensor]],
        head_outputs: dict[str, Tensor],
        anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> dict[str, Tensor]:
        moves, scores = head_outputs["bbox_regression"], head_outputs["cls_logits"]
        moving, labels, many = [], [], 0
        for target, move, score, own, matches in zip(
            targets, moves, scores, anchors, matched_idxs, strict=True
        ):
            things = flambeau.where(matches >= 0)[0]
            place = matches[things]
            many += place.numel()
            aim = self.box_coder.encode_single(target["boxes"][place], own[things])
            moving.append(F.smooth_l1_loss(move[things], aim, reduction="sum"))
            label = score.new_zeros(len(score), dtype=target["labels"].dtype)
            label[things] = target["labels"][place]
            labels.append(label)
        label = flambeau.stack(labels)
        flat = F.cross_entropy(scores.flatten(0, 1), label.flatten(), reduction="none")
        loss = flat.reshape(label.shape)
        things = label > 0
        worst = loss.clone()
        worst[things] = -float("inf")  # these are in anyway
        rank = worst.sort(1, descending=True).indices.sort(1).indices
        mistakes = rank < self.neg_to_pos_ratio * things.sum(1, keepdim=True)
        many = max(1, many)
        return {
            "bbox_regression": flambeau.stack(moving).sum() / many,
            "classification": (loss[things].sum() + loss[mistakes].sum()) / many,
        }

    def _losses(self, targets, predictions, anchors, maps) -> dict[str, Tensor]:
        matches = []
        for own, target in zip(anchors, targets, strict=True):
            boxes = target["boxes"]
            if boxes.numel() == 0:
                matches.append(own.new_full((len(own),), -1, dtype=flambeau.int64))
            else:
                matches.append(self.proposal_matcher(box_ops.box_iou(boxes, own)))
        return self.compute_loss(targets, predictions, anchors, matches)

    def _findings(self, predictions, anchors, maps, shapes) -> list[dict[str, Tensor]]:
        return self.postprocess_detections(predictions, anchors, shapes)

    def postprocess_detections(
        self,
        head_outputs: dict[str, Tensor],
        image_anchors: list[Tensor],
        image_shapes: list[tuple[int, int]],
    ) -> list[dict[str, Tensor]]:
        """Findings of each image: the best boxes of each class, without those that cover others."""
        moves = head_outputs["bbox_regression"]
        chances = head_outputs["cls_logits"].softmax(dim=-1)
        result = []
        for move, chance, own, shape in zip(
            moves, chances, image_anchors, image_shapes, strict=True
        ):
            moved = box_ops.clip_boxes_to_image(self.box_coder.decode_single(move, own), shape)
            found: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
            for number in range(1, chance.shape[-1]):
                score, places, _ = best_of_level(
                    chance[:, number : number + 1], self.score_thresh, self.topk_candidates
                )
                label = flambeau.full_like(score, number, dtype=flambeau.int64)
                for kind, part in zip(found, (moved[places], score, label), strict=True):
                    kind.append(part)
            boxes, score, label = map(flambeau.cat, found)
            result.append(surest(boxes, score, label, self.nms_thresh, self.detections_per_img))
        return result


class SSDFeatureExtractorVGG(nn.Module):
    """Maps of a VGG, and of more convolutions after it.

    Args:
        backbone: the features of a VGG.
        highres: one map more, for images of 512 pixels.
    """

    def __init__(self, backbone: nn.Sequential, highres: bool) -> None:
        super().__init__()
        layers = list(backbone)
        pools = [n for n, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
        third, fourth = pools[2], pools[3]
        layers[third].ceil_mode = True  # maps of 38 places, as in the paper
        self.scale_weight = nn.Parameter(flambeau.ones(512) * 20)
        self.features = nn.Sequential(*layers[:fourth])
        rows = [
            _row((1024, 256, 1), (256, 512, 3, 2, 1)),
            _row((512, 128, 1), (128, 256, 3, 2, 1)),
            _row((256, 128, 1), (128, 256, 3)),
            _row((256, 128, 1), (128, 256, 3)),
        ]
        if highres:
            rows.append(_row((256, 128, 1), (128, 256, 4)))
        extra = nn.ModuleList(rows)
        _xavier_init(extra)
        # the linear layers of a VGG as convolutions
        joined = nn.Sequential(
            nn.MaxPool2d(3, stride=1, padding=1, ceil_mode=False),
            nn.Conv2d(512, 1024, 3, padding=6, dilation=6),
            nn.ReLU(inplace=True),
            nn.Conv2d(1024, 1024, 1),
            nn.ReLU(inplace=True),
        )
        _xavier_init(joined)
        extra.insert(0, nn.Sequential(*layers[fourth:-1], joined))
        self.extra = extra

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = self.features(x)
        maps = [self.scale_weight.reshape(1, -1, 1, 1) * F.normalize(x)]
        for row in self.extra:
            x = row(x)
            maps.append(x)
        return OrderedDict((str(number), each) for number, each in enumerate(maps))


def _row(*shapes: Any) -> nn.Sequential:
    """Convolutions, each with a relu."""
    layers: list[nn.Module] = []
    for shape in shapes:
        layers += [nn.Conv2d(*shape), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def _vgg_extractor(backbone: Any, highres: bool, trainable_layers: int) -> nn.Module:
    features = backbone.features
    pools = [n for n, layer in enumerate(features) if isinstance(layer, nn.MaxPool2d)]
    places = [0, *pools[:-1]]
    if not 0 <= trainable_layers <= len(places):
        raise ValueError(
            f"trainable_layers should be in the range [0, {len(places)}]. Instead got "
            f"{trainable_layers}"
        )
    freeze_before(features, places, trainable_layers)
    return SSDFeatureExtractorVGG(features, highres)


def warn_of_size(kwargs: dict[str, Any]) -> None:
    if "size" in kwargs:
        warnings.warn(
            "The size of the model is already fixed; ignoring the parameter.", stacklevel=4
        )


SSD300_VGG16_Weights = published("SSD300_VGG16_Weights", __name__)


@detector(
    SSD300_VGG16_Weights,
    VGG16_Weights,
    backbone="IMAGENET1K_FEATURES",
    old_backbone="IMAGENET1K_FEATURES",
    layers=(4, 5),
)
def ssd300_vgg16(start: Start, num_classes: int, **kwargs) -> SSD:
    """SSD on a VGG-16, for images of 300 x 300 pixels."""
    warn_of_size(kwargs)
    maps = _vgg_extractor(vgg16(weights=start.weights, progress=True), False, start.layers)
    boxes = DefaultBoxGenerator(
        [[2], [2, 3], [2, 3], [2, 3], [2], [2]],
        scales=[0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05],
        steps=[8, 16, 32, 64, 100, 300],
    )
    # colours as the weights of the backbone know them: from 0 to 255, without a deviation
    defaults = {"image_mean": [0.48235, 0.45882, 0.40784], "image_std": [1.0 / 255.0] * 3}
    return SSD(maps, boxes, (300, 300), num_classes, **(defaults | kwargs))
