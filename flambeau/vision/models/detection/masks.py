"""Masks of things: square ones as heads predict them, targets of that form, and whole images."""

import flambeau
from flambeau import Tensor
from flambeau.nn import functional as F

from ...ops.roi_align import roi_align


def maskrcnn_inference(x: Tensor, labels: list[Tensor]) -> list[Tensor]:
    """Per image, the probabilities of the pixels of each thing, from the channel of its class."""
    classes = flambeau.cat(labels)
    own = x.sigmoid()[flambeau.arange(len(classes), device=x.device), classes]
    return list(own[:, None].split([len(each) for each in labels]))


def project_masks_on_boxes(gt_masks: Tensor, boxes: Tensor, matched_idxs: Tensor, M: int) -> Tensor:
    """What an M x M mask should be, for boxes and the true mask that each belongs to."""
    regions = flambeau.cat([matched_idxs.to(boxes)[:, None], boxes], dim=1)
    return roi_align(gt_masks[:, None].to(regions), regions, (M, M), 1.0)[:, 0]


def maskrcnn_loss(
    mask_logits: Tensor,
    proposals: list[Tensor],
    gt_masks: list[Tensor],
    gt_labels: list[Tensor],
    mask_matched_idxs: list[Tensor],
) -> Tensor:
    """Binary cross entropy of the pixels in the channel of the true class."""
    side = mask_logits.shape[-1]
    classes, aims = [], []
    for boxes, masks, labels, places in zip(
        proposals, gt_masks, gt_labels, mask_matched_idxs, strict=True
    ):
        classes.append(labels[places])
        aims.append(project_masks_on_boxes(masks, boxes, places, side))
    aim, label = flambeau.cat(aims), flambeau.cat(classes)
    if aim.numel() == 0:  # the mean of nothing would be nan
        return mask_logits.sum() * 0
    own = mask_logits[flambeau.arange(len(label), device=label.device), label]
    return F.binary_cross_entropy_with_logits(own, aim)


# -- pasting ---------------------------------------------------------------------------------------


def expand_boxes(boxes: Tensor, scale: float) -> Tensor:
    """Boxes with the same middle and sides that are `scale` times as long."""
    low, high = boxes[:, :2], boxes[:, 2:]
    middle, reach = (low + high) * 0.5, (high - low) * 0.5 * scale
    return flambeau.cat([middle - reach, middle + reach], dim=1)


def expand_masks(mask: Tensor, padding: int) -> tuple[Tensor, float]:
    """Masks with a rim of zeros, and how much longer their sides have become."""
    side = mask.shape[-1]
    return F.pad(mask, (padding,) * 4), float(side + 2 * padding) / side


def paste_mask_in_image(mask: Tensor, box: Tensor, im_h: int, im_w: int) -> Tensor:
    """A square mask stretched over its box of whole pixels, in an image of zeros."""
    left, top, right, bottom = (int(value) for value in box.tolist())
    width, height = max(right - left + 1, 1), max(bottom - top + 1, 1)
    size = (height, width)
    stretched = F.interpolate(mask[None, None], size=size, mode="bilinear", align_corners=False)
    image = mask.new_zeros((im_h, im_w))
    x0, x1 = max(left, 0), min(right + 1, im_w)
    y0, y1 = max(top, 0), min(bottom + 1, im_h)
    image[y0:y1, x0:x1] = stretched[0, 0, y0 - top : y1 - top, x0 - left : x1 - left]
    return image


def paste_masks_in_image(
    masks: Tensor, boxes: Tensor, img_shape: tuple[int, int], padding: int = 1
) -> Tensor:
    """Masks (N, 1, M, M) as images (N, 1, height, width)."""
    height, width = img_shape
    wider, scale = expand_masks(masks, padding)
    corners = expand_boxes(boxes, scale).to(flambeau.int64)
    pasted = [
        paste_mask_in_image(mask[0], box, height, width)
        for mask, box in zip(wider, corners, strict=True)
    ]
    if not pasted:
        return masks.new_empty((0, 1, height, width))
    return flambeau.stack(pasted)[:, None]
