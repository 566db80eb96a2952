"""What detectors share: boxes as numbers to predict, matching, sampling, losses of boxes."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import flambeau
from flambeau import Tensor, nn
from flambeau.nn import functional as F

from ...ops.ciou_loss import complete_box_iou_loss
from ...ops.diou_loss import distance_box_iou_loss
from ...ops.giou_loss import generalized_box_iou_loss
from ...ops.misc import FrozenBatchNorm2d

fan_out = partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="relu")


def start_convolutions(draw: Callable[[Tensor], Any], *modules: nn.Module) -> None:
    """Draw the weights of all convolutions in some modules; their biases start at zero."""
    convolutions = (m for module in modules for m in module.modules() if isinstance(m, nn.Conv2d))
    for convolution in convolutions:
        draw(convolution.weight)
        if convolution.bias is not None:
            nn.init.zeros_(convolution.bias)


class BalancedPositiveNegativeSampler:
    """Draws places of each image: a share that match something, the rest that match nothing.

    Args:
        batch_size_per_image: how many.
        positive_fraction: at most this share is positive.
    """

    def __init__(self, batch_size_per_image: int, positive_fraction: float) -> None:
        self.batch_size_per_image = batch_size_per_image
        self.positive_fraction = positive_fraction

    def __call__(self, matched_idxs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """From labels (negative ones are left out) to masks of the drawn ones of both kinds."""
        masks: tuple[list[Tensor], list[Tensor]] = ([], [])
        for labels in matched_idxs:
            kinds = flambeau.where(labels >= 1)[0], flambeau.where(labels.eq(0))[0]
            most = int(self.batch_size_per_image * self.positive_fraction)
            positive = min(kinds[0].numel(), most)
            counts = positive, min(kinds[1].numel(), self.batch_size_per_image - positive)
            orders = [flambeau.randperm(len(kind), device=kind.device) for kind in kinds]
            for mask, kind, order, count in zip(masks, kinds, orders, counts, strict=True):
                chosen = flambeau.zeros_like(labels, dtype=flambeau.uint8)
                chosen[kind[order[:count]]] = 1
                mask.append(chosen)
        return masks


# -- boxes as numbers ------------------------------------------------------------------------------


def _middles_and_sides(boxes: Tensor) -> tuple[Tensor, Tensor]:
    sides = boxes[..., 2:] - boxes[..., :2]
    return boxes[..., :2] + 0.5 * sides, sides


def encode_boxes(reference_boxes: Tensor, proposals: Tensor, weights: Tensor) -> Tensor:
    """How proposals have to move and grow to become the reference boxes, weighted."""
    start, start_sides = _middles_and_sides(proposals)
    aim, aim_sides = _middles_and_sides(reference_boxes)
    moves = weights[:2] * (aim - start) / start_sides
    return flambeau.cat([moves, weights[2:] * (aim_sides / start_sides).log()], dim=1)


class BoxCoder:
    """Boxes as moves of their middles, in units of their sides, and logarithms of growth.

    Args:
        weights: factors of (dx, dy, dw, dh).
        bbox_xform_clip: logarithms beyond this are cut off, so that nothing overflows.
    """

    def __init__(
        self,
        weights: tuple[float, float, float, float],
        bbox_xform_clip: float = math.log(1000.0 / 16),
    ) -> None:
        self.weights, self.bbox_xform_clip = weights, bbox_xform_clip

    def encode(self, reference_boxes: list[Tensor], proposals: list[Tensor]) -> list[Tensor]:
        counts = [len(boxes) for boxes in reference_boxes]
        whole = self.encode_single(flambeau.cat(reference_boxes), flambeau.cat(proposals))
        return list(whole.split(counts))

    def encode_single(self, reference_boxes: Tensor, proposals: Tensor) -> Tensor:
        weights = flambeau.as_tensor(
            self.weights, dtype=reference_boxes.dtype, device=reference_boxes.device
        )
        return encode_boxes(reference_boxes, proposals, weights)

    def decode(self, rel_codes: Tensor, boxes: list[Tensor]) -> Tensor:
        """Boxes (count, kinds, 4) from codes of one or more kinds per box."""
        whole = flambeau.cat(boxes)
        codes = rel_codes.reshape(len(whole), -1) if len(whole) else rel_codes
        found = self.decode_single(codes, whole)
        return found.reshape(len(whole), -1, 4) if len(whole) else found

    def decode_single(self, rel_codes: Tensor, boxes: Tensor) -> Tensor:
        boxes = boxes.to(rel_codes.dtype)
        middles, sides = (part[:, None] for part in _middles_and_sides(boxes))
        codes = rel_codes.reshape(len(rel_codes), -1, 4)
        weights = flambeau.tensor(self.weights, dtype=codes.dtype, device=codes.device)
        codes = codes / weights
        middle = codes[..., :2] * sides + middles
        half = 0.5 * (codes[..., 2:].clamp(max=self.bbox_xform_clip).exp() * sides)
        return flambeau.cat([middle - half, middle + half], dim=-1).flatten(1)


class BoxLinearCoder:
    """Boxes as distances of their four sides from a middle (FCOS).

    Args:
        normalize_by_size: distances are in units of the sides of the box that they start from.
    """

    def __init__(self, normalize_by_size: bool = True) -> None:
        self.normalize_by_size = normalize_by_size

    def _start(self, boxes: Tensor, dtype: Any) -> tuple[Tensor, Tensor | float]:
        boxes = boxes.to(dtype=dtype)
        middle = 0.5 * (boxes[..., :2] + boxes[..., 2:])
        if not self.normalize_by_size:
            return middle, 1.0
        sides = boxes[..., 2:] - boxes[..., :2]
        return middle, flambeau.cat([sides, sides], dim=-1)

    def encode(self, reference_boxes: Tensor, proposals: Tensor) -> Tensor:
        middle, sides = self._start(reference_boxes, reference_boxes.dtype)
        low, high = proposals[..., :2], proposals[..., 2:]
        return flambeau.cat([middle - low, high - middle], dim=-1) / sides

    def decode(self, rel_codes: Tensor, boxes: Tensor) -> Tensor:
        middle, sides = self._start(boxes, rel_codes.dtype)
        reach = rel_codes * sides
        return flambeau.cat([middle - reach[..., :2], middle + reach[..., 2:]], dim=-1)


# -- which box belongs to which thing --------------------------------------------------------------


class Matcher:
    """For each prediction, the true box with the best quality, if that is good enough.

    Args:
        high_threshold: from here on, a match.
        low_threshold: below, no match; in between, neither.
        allow_low_quality_matches: the best predictions of each true box match in any case.
    """

    BELOW_LOW_THRESHOLD = -1
    BETWEEN_THRESHOLDS = -2

    def __init__(
        self,
        high_threshold: float,
        low_threshold: float,
        allow_low_quality_matches: bool = False,
    ) -> None:
        if low_threshold > high_threshold:
            raise AssertionError("low_threshold should be <= high_threshold")
        self.high_threshold, self.low_threshold = high_threshold, low_threshold
        self.allow_low_quality_matches = allow_low_quality_matches

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        """From qualities (true boxes, predictions) to the number of a true box, or -1 or -2."""
        if match_quality_matrix.numel() == 0:
            missing = "proposal" if match_quality_matrix.shape[0] else "ground-truth"
            raise ValueError(f"No {missing} boxes available for one of the images during training")
        quality, best = match_quality_matrix.max(dim=0)
        matches = best.clone()
        matches[quality < self.high_threshold] = self.BETWEEN_THRESHOLDS
        matches[quality < self.low_threshold] = self.BELOW_LOW_THRESHOLD
        if self.allow_low_quality_matches:
            self.set_low_quality_matches_(matches, best, match_quality_matrix)
        return matches

    def set_low_quality_matches_(
        self, matches: Tensor, all_matches: Tensor, match_quality_matrix: Tensor
    ) -> None:
        """Give predictions that are the best (or equally good) for some true box their match."""
        highest = match_quality_matrix.amax(dim=1, keepdim=True)
        needed = flambeau.where(match_quality_matrix == highest)[1]
        matches[needed] = all_matches[needed]


class SSDMatcher(Matcher):
    """One threshold, and the best prediction of each true box belongs to that box."""

    def __init__(self, threshold: float) -> None:
        super().__init__(threshold, threshold, allow_low_quality_matches=False)

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        matches = super().__call__(match_quality_matrix)
        best = match_quality_matrix.max(dim=1).indices
        matches[best] = flambeau.arange(len(best), dtype=flambeau.int64, device=best.device)
        return matches


# -- losses ----------------------------------------------------------------------------------------

_OVERLAPS = {
    "ciou": complete_box_iou_loss,
    "diou": distance_box_iou_loss,
    "giou": generalized_box_iou_loss,
}


def _box_loss(
    type: str,
    box_coder: BoxCoder,
    anchors_per_image: Tensor,
    matched_gt_boxes_per_image: Tensor,
    bbox_regression_per_image: Tensor,
    cnf: dict[str, float] | None = None,
) -> Tensor:
    """How far codes are from true boxes, summed: in codes ("l1", "smooth_l1") or in overlap."""
    settings = cnf or {}
    if type in _OVERLAPS:
        boxes = box_coder.decode_single(bbox_regression_per_image, anchors_per_image)
        eps = settings.get("eps", 1e-7)
        return _OVERLAPS[type](boxes, matched_gt_boxes_per_image, reduction="sum", eps=eps)
    if type not in ("l1", "smooth_l1"):
        raise ValueError(f"Unsupported loss: {type}")
    aim = box_coder.encode_single(matched_gt_boxes_per_image, anchors_per_image)
    if type == "l1":
        return F.l1_loss(bbox_regression_per_image, aim, reduction="sum")
    beta = settings.get("beta", 1.0)
    return F.smooth_l1_loss(bbox_regression_per_image, aim, reduction="sum", beta=beta)


# -- models ----------------------------------------------------------------------------------------


def overwrite_eps(model: nn.Module, eps: float) -> None:
    """Change what frozen normalizations add; weights of 2019 learned without it."""
    for module in model.modules():
        if isinstance(module, FrozenBatchNorm2d):
            module.eps = eps


def retrieve_out_channels(model: nn.Module, size: tuple[int, int]) -> list[int]:
    """The channels of all maps that a backbone makes of images of this size."""
    learning = model.training
    model.eval()
    with flambeau.no_grad():
        device = next(model.parameters()).device
        maps = model(flambeau.zeros((1, 3, size[1], size[0]), device=device))
    model.train(learning)
    if isinstance(maps, Tensor):
        return [maps.shape[1]]
    return [each.shape[1] for each in maps.values()]


def _topk_min(input: Tensor, orig_kval: int, axis: int) -> int:
    """How many there are to choose, at most."""
    return min(orig_kval, input.shape[axis])


def checked_targets(targets: list[dict[str, Tensor]] | None) -> list[dict[str, Tensor]]:
    """Targets whose boxes are boxes."""
    if targets is None:
        raise AssertionError("targets should not be none when in training mode")
    for target in targets:
        boxes = target["boxes"]
        if not isinstance(boxes, Tensor):
            raise AssertionError(f"Expected target boxes to be of type Tensor, got {type(boxes)}.")
        if boxes.dim() != 2 or boxes.shape[-1] != 4:
            raise AssertionError(
                f"Expected target boxes to be a tensor of shape [N, 4], got {boxes.shape}."
            )
    return targets


def refuse_empty_boxes(targets: list[dict[str, Tensor]] | None) -> None:
    """Boxes of targets, in the size in which the network sees them, have an area."""
    for number, target in enumerate(targets or ()):
        boxes = target["boxes"]
        empty = (boxes[:, 2:] <= boxes[:, :2]).any(dim=1)
        if empty.any():
            box = boxes[flambeau.where(empty)[0][0]].tolist()
            raise AssertionError(
                "All bounding boxes should have positive height and width. Found invalid box "
                f"{box} for target at index {number}."
            )


def original_sizes(images: list[Tensor]) -> list[tuple[int, int]]:
    """Heights and widths before anything was done."""
    for image in images:
        if image.dim() < 2:
            raise AssertionError(
                "expecting the last two dimensions of the Tensor to be H and W instead got "
                f"{image.shape[-2:]}"
            )
    return [(image.shape[-2], image.shape[-1]) for image in images]
