"""What is in a region: its class, a better box, and where wanted a mask and keypoints.

Masks and keypoints have files of their own; their names are here too, where programs look for them.
"""

from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ...ops import boxes as box_ops
from . import _utils
from .keypoints import heatmaps_to_keypoints as heatmaps_to_keypoints
from .keypoints import keypointrcnn_inference, keypointrcnn_loss
from .keypoints import keypoints_to_heatmap as keypoints_to_heatmap
from .masks import expand_boxes as expand_boxes
from .masks import expand_masks as expand_masks
from .masks import maskrcnn_inference, maskrcnn_loss
from .masks import paste_mask_in_image as paste_mask_in_image
from .masks import paste_masks_in_image as paste_masks_in_image
from .masks import project_masks_on_boxes as project_masks_on_boxes


def fastrcnn_loss(
    class_logits: Tensor,
    box_regression: Tensor,
    labels: list[Tensor],
    regression_targets: list[Tensor],
) -> tuple[Tensor, Tensor]:
    """Losses of classes, and of the moves for the true class of regions that hold something."""
    label, aim = flambeau.cat(labels), flambeau.cat(regression_targets)
    things = flambeau.where(label > 0)[0]
    moves = box_regression.reshape(len(class_logits), -1, 4)[things, label[things]]
    moving = F.smooth_l1_loss(moves, aim[things], beta=1 / 9, reduction="sum")
    return F.cross_entropy(class_logits, label), moving / label.numel()


class RoIHeads(nn.Module):
    """Heads that look at regions of feature maps.

    Args:
        box_roi_pool, box_head, box_predictor: from maps and boxes to features, from these to
            vectors, from these to scores of classes and moves for each.
        fg_iou_thresh, bg_iou_thresh: overlaps from which, and below which, a region holds a thing
            and holds nothing.
        mask_..., keypoint_...: the same for masks and keypoints; None for none.
    """

    def __init__(
        self,
        box_roi_pool: Any,
        box_head: Any,
        box_predictor: Any,
        fg_iou_thresh: float,
        bg_iou_thresh: float,
        batch_size_per_image: int,
        positive_fraction: float,
        bbox_reg_weights: tuple[float, float, float, float] | None,
        score_thresh: float,
        nms_thresh: float,
        detections_per_img: int,
        mask_roi_pool: Any = None,
        mask_head: Any = None,
        mask_predictor: Any = None,
        keypoint_roi_pool: Any = None,
        keypoint_head: Any = None,
        keypoint_predictor: Any = None,
    ) -> None:
        super().__init__()
        self.box_similarity = box_ops.box_iou
        self.proposal_matcher = _utils.Matcher(fg_iou_thresh, bg_iou_thresh, False)
        self.fg_bg_sampler = _utils.BalancedPositiveNegativeSampler(
            batch_size_per_image, positive_fraction
        )
        self.box_coder = _utils.BoxCoder(bbox_reg_weights or (10.0, 10.0, 5.0, 5.0))
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img = detections_per_img
        self.box_roi_pool, self.box_head, self.box_predictor = (
            box_roi_pool,
            box_head,
            box_predictor,
        )
        self.mask_roi_pool, self.mask_head, self.mask_predictor = (
            mask_roi_pool,
            mask_head,
            mask_predictor,
        )
        self.keypoint_roi_pool, self.keypoint_head, self.keypoint_predictor = (
            keypoint_roi_pool,
            keypoint_head,
            keypoint_predictor,
        )

    def has_mask(self) -> bool:
        parts = self.mask_roi_pool, self.mask_head, self.mask_predictor
        return all(part is not None for part in parts)

    def has_keypoint(self) -> bool:
        parts = self.keypoint_roi_pool, self.keypoint_head, self.keypoint_predictor
        return all(part is not None for part in parts)

    # -- samples to learn from ---------------------------------------------------------------------

    def assign_targets_to_proposals(
        self, proposals: list[Tensor], gt_boxes: list[Tensor], gt_labels: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Per image: which true box each region belongs to, and its class; 0 nothing, -1 unsure."""
        places, classes = [], []
        for own, boxes, labels in zip(proposals, gt_boxes, gt_labels, strict=True):
            if boxes.numel() == 0:
                places.append(own.new_zeros(len(own), dtype=flambeau.int64))
                classes.append(places[-1].clone())
                continue
            matches = self.proposal_matcher(self.box_similarity(boxes, own))
            place = matches.clamp(min=0)
            label = labels[place].to(dtype=flambeau.int64)
            label[matches.eq(self.proposal_matcher.BELOW_LOW_THRESHOLD)] = 0
            label[matches.eq(self.proposal_matcher.BETWEEN_THRESHOLDS)] = -1
            places.append(place)
            classes.append(label)
        return places, classes

    def subsample(self, labels: list[Tensor]) -> list[Tensor]:
        """The places of the regions that are drawn."""
        positive, negative = self.fg_bg_sampler(labels)
        pairs = zip(positive, negative, strict=True)
        return [flambeau.where(one | other)[0] for one, other in pairs]

    def add_gt_proposals(self, proposals: list[Tensor], gt_boxes: list[Tensor]) -> list[Tensor]:
        """True boxes are regions too, or there would be little to learn from at first."""
        return [flambeau.cat(pair) for pair in zip(proposals, gt_boxes, strict=True)]

    def check_targets(self, targets: list[dict[str, Tensor]] | None) -> None:
        needed = ["boxes", "labels"] + (["masks"] if self.has_mask() else [])
        for key in needed if targets is not None else ():
            if not all(key in target for target in targets or ()):
                raise ValueError(f"Every element of targets should have the key {key!r}")
        if targets is None:
            raise ValueError("targets should not be None")

    def select_training_samples(
        self, proposals: list[Tensor], targets: list[dict[str, Tensor]] | None
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
        """Regions, the true boxes they belong to, their classes, and the moves to these boxes."""
        self.check_targets(targets)
        assert targets is not None
        dtype = proposals[0].dtype
        true = [target["boxes"].to(dtype) for target in targets]
        proposals = self.add_gt_proposals(proposals, true)
        names = [target["labels"] for target in targets]
        places, labels = self.assign_targets_to_proposals(proposals, true, names)
        chosen = self.subsample(labels)
        proposals, labels, places = (
            [each[keep] for each, keep in zip(given, chosen, strict=True)]
            for given in (proposals, labels, places)
        )
        aims = [
            (boxes if boxes.numel() else boxes.new_zeros((1, 4)))[place]
            for boxes, place in zip(true, places, strict=True)
        ]
        return proposals, places, labels, self.box_coder.encode(aims, proposals)

    # -- findings ----------------------------------------------------------------------------------

    def postprocess_detections(
        self,
        class_logits: Tensor,
        box_regression: Tensor,
        proposals: list[Tensor],
        image_shapes: list[tuple[int, int]],
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Boxes, scores and classes of what each image shows, the surest first."""
        classes = class_logits.shape[-1]
        counts = [len(boxes) for boxes in proposals]
        moved = self.box_coder.decode(box_regression, proposals).split(counts)
        scores = class_logits.softmax(-1).split(counts)
        names = flambeau.arange(1, classes, device=class_logits.device)
        found: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
        for boxes, score, shape in zip(moved, scores, image_shapes, strict=True):
            boxes = box_ops.clip_boxes_to_image(boxes, shape)[:, 1:].reshape(-1, 4)
            score, label = score[:, 1:], names.expand(len(score), -1).reshape(-1)
            score = score.reshape(-1)
            for keep in (
                lambda b, s, _: flambeau.where(s > self.score_thresh)[0],
                lambda b, s, _: box_ops.remove_small_boxes(b, min_size=1e-2),
                lambda b, s, n: box_ops.batched_nms(b, s, n, self.nms_thresh)[
                    : self.detections_per_img
                ],
            ):
                places = keep(boxes, score, label)
                boxes, score, label = boxes[places], score[places], label[places]
            for kind, own in zip(found, (boxes, score, label), strict=True):
                kind.append(own)
        return found

    def forward(
        self,
        features: dict[str, Tensor],
        proposals: list[Tensor],
        image_shapes: list[tuple[int, int]],
        targets: list[dict[str, Tensor]] | None = None,
    ) -> tuple[list[dict[str, Tensor]], dict[str, Tensor]]:
        self._check_types(targets)
        places = labels = aims = None
        if self.training:
            proposals, places, labels, aims = self.select_training_samples(proposals, targets)
        vectors = self.box_head(self.box_roi_pool(features, proposals, image_shapes))
        scores, moves = self.box_predictor(vectors)
        result: list[dict[str, Tensor]] = []
        losses: dict[str, Tensor] = {}
        regions = proposals
        if self.training:
            if labels is None or aims is None or places is None or targets is None:
                raise ValueError("labels, regression_targets and targets should not be None")
            classing, moving = fastrcnn_loss(scores, moves, labels, aims)
            losses = {"loss_classifier": classing, "loss_box_reg": moving}
            things = [flambeau.where(label > 0)[0] for label in labels]
            regions, places = (
                [each[thing] for each, thing in zip(given, things, strict=True)]
                for given in (proposals, places)
            )
        else:
            boxes, sure, names = self.postprocess_detections(scores, moves, proposals, image_shapes)
            result = [
                {"boxes": b, "labels": n, "scores": s}
                for b, s, n in zip(boxes, sure, names, strict=True)
            ]
            regions = boxes
        if self.has_mask():
            self._masks(features, regions, image_shapes, places, targets, result, losses)
        if self.has_keypoint():
            self._keypoints(features, regions, image_shapes, places, targets, result, losses)
        return result, losses

    def _check_types(self, targets: list[dict[str, Tensor]] | None) -> None:
        for target in targets or ():
            boxes, labels = target["boxes"], target["labels"]
            if boxes.dtype not in (flambeau.float32, flambeau.float64, flambeau.float16):
                raise TypeError(f"target boxes must of float type, instead got {boxes.dtype}")
            if labels.dtype != flambeau.int64:
                raise TypeError(f"target labels must of int64 type, instead got {labels.dtype}")
            if self.has_keypoint() and target["keypoints"].dtype != flambeau.float32:
                raise TypeError(
                    f"target keypoints must of float type, instead got {target['keypoints'].dtype}"
                )

    def _masks(self, features, regions, shapes, places, targets, result, losses) -> None:
        """Adds masks to findings, or their loss."""
        logits = self.mask_predictor(self.mask_head(self.mask_roi_pool(features, regions, shapes)))
        if self.training:
            true, names = ([target[key] for target in targets] for key in ("masks", "labels"))
            losses["loss_mask"] = maskrcnn_loss(logits, regions, true, names, places)
            return
        masks = maskrcnn_inference(logits, [found["labels"] for found in result])
        for found, own in zip(result, masks, strict=True):
            found["masks"] = own

    def _keypoints(self, features, regions, shapes, places, targets, result, losses) -> None:
        """Adds keypoints and their scores to findings, or their loss."""
        logits = self.keypoint_predictor(
            self.keypoint_head(self.keypoint_roi_pool(features, regions, shapes))
        )
        if self.training:
            true = [target["keypoints"] for target in targets]
            losses["loss_keypoint"] = keypointrcnn_loss(logits, regions, true, places)
            return
        points, scores = keypointrcnn_inference(logits, regions)
        for found, own, score in zip(result, points, scores, strict=True):
            found["keypoints"], found["keypoints_scores"] = own, score
