"""Region proposals: which anchors hold something, and how they fit it better (Ren et al. 2015)."""

from functools import partial
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ...ops import boxes as box_ops
from ...ops.misc import Conv2dNormActivation
from . import _utils
from ._utils import start_convolutions
from .anchor_utils import AnchorGenerator
from .image_list import ImageList


class RPNHead(nn.Module):
    """For every anchor, whether something is in it, and its move.

    Args:
        conv_depth: how many convolutions come first.
    """

    _version = 2

    def __init__(self, in_channels: int, num_anchors: int, conv_depth: int = 1) -> None:
        super().__init__()
        convolutions = [
            Conv2dNormActivation(in_channels, in_channels, 3, norm_layer=None)
            for _ in range(conv_depth)
        ]
        self.conv = nn.Sequential(*convolutions)
        self.cls_logits = nn.Conv2d(in_channels, num_anchors, 1)
        self.bbox_pred = nn.Conv2d(in_channels, num_anchors * 4, 1)
        start_convolutions(partial(nn.init.normal_, std=0.01), self)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        if local_metadata.get("version", 1) < 2:  # there used to be one convolution
            for kind in ("weight", "bias"):
                old = f"{prefix}conv.{kind}"
                if old in state_dict:
                    state_dict[f"{prefix}conv.0.0.{kind}"] = state_dict.pop(old)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def forward(self, x: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        hidden = [self.conv(each) for each in x]
        return [self.cls_logits(t) for t in hidden], [self.bbox_pred(t) for t in hidden]


def permute_and_flatten(layer: Tensor, N: int, A: int, C: int, H: int, W: int) -> Tensor:
    """(N, A * C, H, W) as (N, H * W * A, C): the order of anchors."""
    return layer.reshape(N, -1, C, H, W).permute(0, 3, 4, 1, 2).reshape(N, -1, C)


def concat_box_prediction_layers(
    box_cls: list[Tensor], box_regression: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Predictions of all maps, image by image in the order of anchors, as two tables."""
    scores, moves = [], []
    for score, move in zip(box_cls, box_regression, strict=True):
        count, both, height, width = score.shape
        anchors = move.shape[1] // 4
        grid = height, width
        scores.append(permute_and_flatten(score, count, anchors, both // anchors, *grid))
        moves.append(permute_and_flatten(move, count, anchors, 4, *grid))
    return flambeau.cat(scores, dim=1).flatten(0, -2), flambeau.cat(moves, dim=1).reshape(-1, 4)


class RegionProposalNetwork(nn.Module):
    """The best anchors of each image, moved, and the losses of both predictions.

    Args:
        fg_iou_thresh, bg_iou_thresh: overlaps from which, and below which, an anchor holds a
            thing and holds nothing.
        batch_size_per_image, positive_fraction: what losses are taken over.
        pre_nms_top_n, post_nms_top_n: how many are kept before and after overlapping ones go;
            dicts with the keys "training" and "testing".
    """

    def __init__(
        self,
        anchor_generator: AnchorGenerator,
        head: nn.Module,
        fg_iou_thresh: float,
        bg_iou_thresh: float,
        batch_size_per_image: int,
        positive_fraction: float,
        pre_nms_top_n: dict[str, int],
        post_nms_top_n: dict[str, int],
        nms_thresh: float,
        score_thresh: float = 0.0,
    ) -> None:
        super().__init__()
        self.anchor_generator, self.head = anchor_generator, head
        self.box_coder = _utils.BoxCoder((1.0, 1.0, 1.0, 1.0))
        self.box_similarity = box_ops.box_iou
        self.proposal_matcher = _utils.Matcher(fg_iou_thresh, bg_iou_thresh, True)
        self.fg_bg_sampler = _utils.BalancedPositiveNegativeSampler(
            batch_size_per_image, positive_fraction
        )
        self._pre_nms_top_n, self._post_nms_top_n = pre_nms_top_n, post_nms_top_n
        self.nms_thresh, self.score_thresh, self.min_size = nms_thresh, score_thresh, 1e-3

    def pre_nms_top_n(self) -> int:
        return self._pre_nms_top_n["training" if self.training else "testing"]

    def post_nms_top_n(self) -> int:
        return self._post_nms_top_n["training" if self.training else "testing"]

    def assign_targets_to_anchors(
        self, anchors: list[Tensor], targets: list[dict[str, Tensor]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Per image: 1 for anchors that hold a thing, 0 for nothing, -1 for neither; the boxes."""
        labels, boxes = [], []
        for own, target in zip(anchors, targets, strict=True):
            true = target["boxes"]
            if true.numel() == 0:
                boxes.append(flambeau.zeros_like(own))
                labels.append(own.new_zeros(len(own), dtype=flambeau.float32))
                continue
            matches = self.proposal_matcher(self.box_similarity(true, own))
            boxes.append(true[matches.clamp(min=0)])
            label = (matches >= 0).to(dtype=flambeau.float32)
            label[matches.eq(self.proposal_matcher.BETWEEN_THRESHOLDS)] = -1.0
            labels.append(label)
        return labels, boxes

    def _get_top_n_idx(self, objectness: Tensor, num_anchors_per_level: list[int]) -> Tensor:
        """The numbers of the best anchors of each level."""
        found, first = [], 0
        for scores in objectness.split(num_anchors_per_level, 1):
            many = _utils._topk_min(scores, self.pre_nms_top_n(), 1)
            found.append(scores.topk(many, dim=1).indices + first)
            first += scores.shape[1]
        return flambeau.cat(found, dim=1)

    def filter_proposals(
        self,
        proposals: Tensor,
        objectness: Tensor,
        image_shapes: list[tuple[int, int]],
        num_anchors_per_level: list[int],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The proposals of each image that stay, the best first, and their scores."""
        count, device = len(proposals), proposals.device
        scores = objectness.detach().reshape(count, -1)
        levels = flambeau.cat(
            [
                flambeau.full((many,), level, dtype=flambeau.int64, device=device)
                for level, many in enumerate(num_anchors_per_level)
            ]
        )
        best = self._get_top_n_idx(scores, num_anchors_per_level)
        kept_boxes, kept_scores = [], []
        for boxes, score, order, shape in zip(proposals, scores, best, image_shapes, strict=True):
            boxes, level = box_ops.clip_boxes_to_image(boxes[order], shape), levels[order]
            score = score[order].sigmoid()
            for keep in (
                lambda b, s, _: box_ops.remove_small_boxes(b, self.min_size),
                lambda b, s, _: flambeau.where(s >= self.score_thresh)[0],
                lambda b, s, m: box_ops.batched_nms(b, s, m, self.nms_thresh)[
                    : self.post_nms_top_n()
                ],
            ):
                places = keep(boxes, score, level)
                boxes, score, level = boxes[places], score[places], level[places]
            kept_boxes.append(boxes)
            kept_scores.append(score)
        return kept_boxes, kept_scores

    def compute_loss(
        self,
        objectness: Tensor,
        pred_bbox_deltas: Tensor,
        labels: list[Tensor],
        regression_targets: list[Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Losses of scores and of moves, over the anchors that are drawn."""
        masks = self.fg_bg_sampler(labels)
        positive, negative = (flambeau.where(flambeau.cat(mask))[0] for mask in masks)
        drawn = flambeau.cat([positive, negative])
        aim, label = flambeau.cat(regression_targets), flambeau.cat(labels)
        moves = F.smooth_l1_loss(
            pred_bbox_deltas[positive], aim[positive], beta=1 / 9, reduction="sum"
        )
        scores = F.binary_cross_entropy_with_logits(objectness.flatten()[drawn], label[drawn])
        return scores, moves / drawn.numel()

    def forward(
        self,
        images: ImageList,
        features: dict[str, Tensor],
        targets: list[dict[str, Tensor]] | None = None,
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        maps = list(features.values())
        objectness, moves = self.head(maps)
        anchors = self.anchor_generator(images, maps)
        per_level = [each[0].numel() for each in objectness]
        objectness, moves = concat_box_prediction_layers(objectness, moves)
        moved = self.box_coder.decode(moves.detach(), anchors).reshape(len(anchors), -1, 4)
        boxes, _ = self.filter_proposals(moved, objectness, images.image_sizes, per_level)
        if not self.training:
            return boxes, {}
        if targets is None:
            raise ValueError("targets should not be None")
        labels, matched = self.assign_targets_to_anchors(anchors, targets)
        aims = self.box_coder.encode(matched, anchors)
        scores_loss, moves_loss = self.compute_loss(objectness, moves, labels, aims)
        return boxes, {"loss_objectness": scores_loss, "loss_rpn_box_reg": moves_loss}
