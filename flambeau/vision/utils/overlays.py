"""Masks and keypoints drawn over an image."""

from __future__ import annotations

import warnings

import flambeau as torch
from flambeau import Tensor
from flambeau.vision.pillow import pillow
from flambeau.vision.utils.colors import Colors, check_image, from_bytes, parse_colors, to_bytes

_PROBLEMS = (
    "The image must be a tensor",
    "Pass an RGB image. Other Image formats are not supported",
)


@torch.no_grad()
def draw_segmentation_masks(
    image: Tensor,
    masks: Tensor,
    alpha: float = 0.8,
    colors: Colors | None = None,
) -> Tensor:
    """Lay coloured masks over an image; where masks overlap, the overlay is black.

    Args:
        image: (3, H, W), bytes or floats in [0, 1].
        masks: (N, H, W) or (H, W), of dtype bool.
        alpha: how much of the result is mask: 0 shows none of it, 1 nothing else.
        colors: one colour, or one per mask; a palette if None.
    """
    check_image(image, (3,), _PROBLEMS)
    masks = _checked_masks(masks, image)
    count = len(masks)
    if not count:
        warnings.warn("masks doesn't contain any mask. No mask was drawn", stacklevel=2)
        return image

    overlay = image.detach().clone()
    for mask, color in zip(masks, parse_colors(colors, num_objects=count, dtype=image.dtype)):
        shade = torch.tensor(color, dtype=image.dtype, device=image.device)
        overlay = torch.where(mask, shade[:, None, None], overlay)
    overlay.masked_fill_(masks.sum(dim=0) > 1, 0)
    return (image * (1 - alpha) + overlay * alpha).to(image.dtype)


def _checked_masks(masks: Tensor, image: Tensor) -> Tensor:
    """Masks as a batch, of the size of the image."""
    shape = masks.shape
    if not 2 <= len(shape) <= 3:
        raise ValueError("masks must be of shape (H, W) or (batch_size, H, W)")
    if masks.dtype is not torch.bool:
        raise ValueError(f"The masks must be of dtype bool. Got {masks.dtype}")
    if shape[-2:] != image.shape[-2:]:
        raise ValueError("The image and the masks must have the same height and width")
    return masks if len(shape) == 3 else masks.unsqueeze(0)


@torch.no_grad()
def draw_keypoints(
    image: Tensor,
    keypoints: Tensor,
    connectivity: list[tuple[int, int]] | None = None,
    colors: str | tuple[int, int, int] | None = None,
    radius: int = 2,
    width: int = 3,
    visibility: Tensor | None = None,
) -> Tensor:
    """Draw points, and lines between those that belong together.

    Args:
        image: (3, H, W), bytes or floats in [0, 1].
        keypoints: (instances, K, 2): x and y of K points for each instance.
        connectivity: pairs of point numbers to join by lines.
        colors: the colour of the points.
        radius: radius of the points.
        width: width of the lines.
        visibility: (instances, K); points that are not visible are left out, with their lines.
    """
    check_image(image, (3,), _PROBLEMS)
    seen = _visible(keypoints, visibility)

    pixels = to_bytes(image).permute(1, 2, 0).contiguous()
    picture = pillow().fromarray(pixels.numpy())
    draw = pillow("ImageDraw").Draw(picture)
    for points, visible in zip(keypoints.to(torch.int64).tolist(), seen):
        for (x, y, *_), shown in zip(points, visible):
            if shown:
                around = [x - radius, y - radius, x + radius, y + radius]
                draw.ellipse(around, fill=colors, outline=None, width=0)
        for first, second in connectivity or ():
            if visible[first] and visible[second]:
                draw.line((tuple(points[first][:2]), tuple(points[second][:2])), width=width)

    import numpy

    result = torch.from_numpy(numpy.array(picture)).permute(2, 0, 1)
    return from_bytes(result, image.dtype)


def _visible(keypoints: Tensor, visibility: Tensor | None) -> list[list[bool]]:
    """Which points of each instance are to be drawn."""
    *expected, _ = shape = keypoints.shape
    if len(shape) != 3:
        raise ValueError("keypoints must be of shape (num_instances, K, 2)")
    if visibility is None:
        return [[True] * expected[1]] * expected[0]
    # a third dimension is what pred.split([2, 1], dim=-1) gives
    visibility = visibility.squeeze(-1) if visibility.ndim == 3 else visibility
    dimensions = visibility.ndim
    if dimensions != 2:
        raise ValueError(f"visibility must be of shape (num_instances, K). Got ndim={dimensions}")
    if list(visibility.shape) != expected:
        raise ValueError(
            "keypoints and visibility must have the same dimensionality for num_instances and K. "
            f"Got {visibility.shape=} and {keypoints.shape=}"
        )
    return visibility.bool().tolist()
