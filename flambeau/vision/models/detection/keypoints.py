"""Keypoints: as one pixel of a heat map, and back with the precision of the image."""

import flambeau
from flambeau import Tensor
from flambeau.nn import functional as F


def keypoints_to_heatmap(
    keypoints: Tensor, rois: Tensor, heatmap_size: int
) -> tuple[Tensor, Tensor]:
    """For points (N, K, 3) the number of the pixel that holds each, and whether there is one."""
    low, high = rois[:, None, :2], rois[:, None, 2:]
    places = keypoints[..., :2]
    pixels = ((places - low) * (heatmap_size / (high - low))).floor().long()
    # what lies on the far side of a box belongs to its last pixel
    pixels = flambeau.where(places == high, heatmap_size - 1, pixels)
    inside = ((pixels >= 0) & (pixels < heatmap_size)).all(-1)
    valid = (inside & (keypoints[..., 2] > 0)).long()
    return (pixels[..., 1] * heatmap_size + pixels[..., 0]) * valid, valid


def keypointrcnn_loss(
    keypoint_logits: Tensor,
    proposals: list[Tensor],
    gt_keypoints: list[Tensor],
    keypoint_matched_idxs: list[Tensor],
) -> Tensor:
    """Cross entropy over the pixels of each map whose point is in its box."""
    count, points, side, width = keypoint_logits.shape
    if side != width:
        raise ValueError(
            "keypoint_logits height and width (last two elements of shape) should be equal. "
            f"Instead got H = {side} and W = {width}"
        )
    heat, valid = [], []
    for boxes, keypoints, places in zip(
        proposals, gt_keypoints, keypoint_matched_idxs, strict=True
    ):
        pixel, known = keypoints_to_heatmap(keypoints[places], boxes, side)
        heat.append(pixel.reshape(-1))
        valid.append(known.reshape(-1))
    aim = flambeau.cat(heat)
    chosen = flambeau.where(flambeau.cat(valid).to(flambeau.uint8))[0]
    if aim.numel() == 0 or len(chosen) == 0:  # the mean of nothing would be nan
        return keypoint_logits.sum() * 0
    logits = keypoint_logits.reshape(count * points, side * width)
    return F.cross_entropy(logits[chosen], aim[chosen])


def heatmaps_to_keypoints(maps: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    """The hottest place of each map in its box: (N, K, 3) with ones at the end, and its heat."""
    sides = (rois[:, 2:] - rois[:, :2]).clamp(min=1)
    points = maps.shape[1]
    numbers = flambeau.arange(points, device=maps.device)
    found = maps.new_ones((len(rois), points, 3))
    heat = maps.new_zeros((len(rois), points))
    for number, (side, box) in enumerate(zip(sides, rois, strict=True)):
        width, height = (int(n) for n in side.ceil().tolist())
        size = (height, width)
        grown = F.interpolate(maps[number][:, None], size=size, mode="bicubic")[:, 0]
        hottest = grown.reshape(points, -1).argmax(dim=1)
        x, y = hottest % width, hottest // width
        found[number, :, 0] = (x.float() + 0.5) * (side[0] / width) + box[0]
        found[number, :, 1] = (y.float() + 0.5) * (side[1] / height) + box[1]
        heat[number] = grown[numbers, y, x]
    return found, heat


def keypointrcnn_inference(x: Tensor, boxes: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Points and their scores, image by image."""
    places, scores = [], []
    for maps, own in zip(x.split([len(each) for each in boxes]), boxes, strict=True):
        place, score = heatmaps_to_keypoints(maps, own)
        places.append(place)
        scores.append(score)
    return places, scores
