"""Detectors in one step: predictions for anchors of all maps are the findings.

What RetinaNet, FCOS and SSD share: images in, losses or findings out.
"""

from collections import OrderedDict
from typing import Any

import flambeau
from flambeau import Tensor, nn

from ...ops import boxes as box_ops
from ._utils import _topk_min, checked_targets, original_sizes, refuse_empty_boxes

Target = dict[str, Tensor]
Shape = tuple[int, int]


def per_place(prediction: Tensor, values: int) -> Tensor:
    """(N, A * values, H, W) as (N, H * W * A, values): the order of anchors."""
    count, _, height, width = prediction.shape
    split = prediction.reshape(count, -1, values, height, width).permute(0, 3, 4, 1, 2)
    return split.reshape(count, -1, values)


class OneStageDetector(nn.Module):
    """Images through a backbone and a head; subclasses have losses, and choose findings.

    A subclass has `transform`, `backbone`, `anchor_generator` and `head`, and the methods
    `_losses` and `_findings`.
    """

    backbone: nn.Module
    anchor_generator: nn.Module
    head: nn.Module
    transform: Any

    def eager_outputs(self, losses: dict[str, Tensor], detections: list[Target]) -> Any:
        return losses if self.training else detections

    def forward(self, images: list[Tensor], targets: list[Target] | None = None) -> Any:
        """Losses by name while learning, otherwise a dict of findings per image."""
        if self.training:
            targets = checked_targets(targets)
        sizes = original_sizes(images)
        batch, targets = self.transform(images, targets)
        refuse_empty_boxes(targets)
        features = self.backbone(batch.tensors)
        if isinstance(features, Tensor):
            features = OrderedDict([("0", features)])
        maps = list(features.values())
        predictions = self.head(maps)
        anchors = self.anchor_generator(batch, maps)
        losses: dict[str, Tensor] = {}
        found: list[Target] = []
        if self.training:
            assert targets is not None
            losses = self._losses(targets, predictions, anchors, maps)
        else:
            found = self._findings(predictions, anchors, maps, batch.image_sizes)
            found = self.transform.postprocess(found, batch.image_sizes, sizes)
        return self.eager_outputs(losses, found)

    def _losses(self, targets, predictions, anchors, maps) -> dict[str, Tensor]:
        raise NotImplementedError

    def _findings(self, predictions, anchors, maps, shapes) -> list[Target]:
        raise NotImplementedError


def anchors_per_level(maps: list[Tensor], predictions: Tensor) -> list[int]:
    """How many of the predictions (N, places, ...) belong to each map."""
    cells = [each.shape[-2] * each.shape[-1] for each in maps]
    each = predictions.shape[1] // sum(cells)
    return [count * each for count in cells]


def best_of_level(scores: Tensor, threshold: float, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best scores (places, classes) above a threshold: scores, places and classes."""
    classes = scores.shape[-1]
    flat = scores.flatten()
    above = flambeau.where(flat > threshold)[0]
    flat = flat[above]
    score, order = flat.topk(_topk_min(above, most, 0))
    chosen = above[order]
    return score, flambeau.div(chosen, classes, rounding_mode="floor"), chosen % classes


def surest(boxes: Tensor, scores: Tensor, labels: Tensor, overlap: float, most: int) -> Target:
    """Findings of one image without those that cover better ones of their class."""
    keep = box_ops.batched_nms(boxes, scores, labels, overlap)[:most]
    return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}
