"""Many images in one: `make_grid`, and `save_image` that writes the grid to a file."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

import flambeau as torch
from flambeau import Tensor
from flambeau.vision.pillow import pillow


@torch.no_grad()
def make_grid(
    tensor: Tensor | list[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[int, int] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Lay images out in rows, with a border around each.

    Args:
        tensor: a batch (B, C, H, W), or a list of images of one size, or one image. Images of one
            channel become gray images of three.
        nrow: images per row.
        padding: width of the borders, in pixels.
        normalize: shift and scale the values to [0, 1].
        value_range: the (least, greatest) values that become 0 and 1; those of the batch if None.
        scale_each: take the extremes of each image instead of those of the batch.
        pad_value: the value of the borders.

    Example:
        >>> import flambeau as torch
        >>> make_grid(torch.rand(10, 3, 4, 4), nrow=5).shape
        torch.Size([3, 14, 32])
    """
    images = _as_batch(tensor)
    if normalize is True:
        images = images.clone()
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError(
                "value_range has to be a tuple (min, max) if specified. min and max are numbers"
            )
        for part in images if scale_each is True else [images]:
            _stretch(part, value_range)
    count, channels = images.shape[:2]
    if count == 1:
        return images.squeeze(0)

    columns = min(nrow, count)
    if columns == 0:
        raise ZeroDivisionError("float division by zero; the batch holds no image, or nrow is 0")
    rows = -(-count // columns)
    height, width = int(images.size(2) + padding), int(images.size(3) + padding)
    size = (channels, height * rows + padding, width * columns + padding)
    grid = images.new_full(size, pad_value)
    for index, image in enumerate(images):
        top = index // columns * height + padding
        left = index % columns * width + padding
        place = grid.narrow(1, top, height - padding).narrow(2, left, width - padding)
        place.copy_(image)
    return grid


def _as_batch(tensor: Any) -> Tensor:
    """Four dimensions, and at least three channels where there was one."""
    expected = "tensor or list of tensors expected, got"
    if isinstance(tensor, list):
        strange = [type(element) for element in tensor if not isinstance(element, Tensor)]
        if strange:
            raise TypeError(f"{expected} a list containing {strange[0]}")
        tensor = torch.stack(tensor)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{expected} {type(tensor)}")
    if tensor.ndim in (2, 3):  # one image, or only a plane of it
        tensor = tensor[(None,) * (4 - tensor.ndim)]
    is_gray = tensor.ndim == 4 and tensor.shape[1] == 1
    return tensor.repeat(1, 3, 1, 1) if is_gray else tensor


def _stretch(images: Tensor, value_range: tuple[float, float] | None) -> None:
    """Write (images - low) / (high - low) in place, after cutting what lies outside."""
    if value_range is None:
        low, high = float(images.min()), float(images.max())
    else:
        low, high = value_range[0], value_range[1]
    images.clamp_(min=low, max=high)
    images.sub_(low).div_(max(high - low, 1e-5))


@torch.no_grad()
def save_image(
    tensor: Tensor | list[Tensor],
    fp: str | os.PathLike[str] | BinaryIO,
    format: str | None = None,
    **kwargs: Any,
) -> None:
    """Write an image, or a grid of images, to a file.

    Args:
        tensor: values in [0, 1]; a batch becomes a grid.
        fp: a path or an open file.
        format: "png", "jpeg", ...; taken from the path's ending if None.
        **kwargs: what `make_grid` takes.
    """
    levels = make_grid(tensor, **kwargs) * 255
    # adding a half makes the cast to integers round to the nearest
    pixels = levels.add_(0.5).clamp_(0, 255).to("cpu", torch.uint8).movedim(0, -1)
    pillow().fromarray(pixels.numpy()).save(fp, format=format)
