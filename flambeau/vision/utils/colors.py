"""What drawing functions share: colours by name or triplet, images as bytes and back."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.vision.pillow import pillow

Color = str | tuple[int, int, int]
Colors = list[Color] | Color

# the k-th object of a picture gets k times this, modulo 255: neighbours look different
_STEP = (2**25 - 1, 2**15 - 1, 2**21 - 1)


def palette(count: int) -> list[tuple[int, ...]]:
    """Colours that tell `count` objects apart; the first is black."""
    return [tuple(index * step % 255 for step in _STEP) for index in range(count)]


def parse_colors(
    colors: Any, *, num_objects: int, dtype: torch.dtype = torch.uint8
) -> list[tuple[Any, ...]]:
    """One triplet per object, in [0, 255] or, for floating dtypes, in [0, 1].

    Args:
        colors: None for the palette, one colour for all objects, or a list of at least as many
            colours as objects. A colour is a triplet or a string that Pillow understands.
    """
    from_palette = colors is None
    if from_palette:
        colors = palette(num_objects)
    elif isinstance(colors, list):
        if len(colors) < num_objects:
            raise ValueError(
                "Number of colors must be equal or larger than the number of objects, but got "
                f"{len(colors)} < {num_objects}."
            )
    elif not isinstance(colors, (tuple, str)):
        raise ValueError(
            f"colors must be a tuple or a string, or a list thereof, but got {colors}."
        )
    elif isinstance(colors, tuple) and len(colors) != 3:
        raise ValueError(f"If passed as tuple, colors should be an RGB triplet, but got {colors}.")
    else:
        colors = [colors] * num_objects
    by_name = pillow("ImageColor").getrgb
    triplets = [by_name(color) if isinstance(color, str) else color for color in colors]
    if dtype.is_floating_point:
        # torchvision keeps its palette in tensors, so those colours have 24 bits in every dtype
        exact = (lambda value: (torch.tensor(value) / 255).item()) if from_palette else _share
        triplets = [tuple(exact(value) for value in triplet) for triplet in triplets]
    return triplets


def _share(value: float) -> float:
    return value / 255


def check_image(image: Any, channels: tuple[int, ...], messages: tuple[str, str]) -> None:
    """Refuse what cannot be drawn on: not a tensor, a wrong dtype, a batch, other channels."""
    what, wrong_channels = messages
    if not isinstance(image, Tensor):
        raise TypeError(f"{what}, got {type(image)}")
    if not (image.dtype == torch.uint8 or image.is_floating_point()):
        raise ValueError(f"The image dtype must be uint8 or float, got {image.dtype}")
    if image.dim() != 3:
        raise ValueError("Pass individual images, not batches")
    if image.size(0) not in channels:
        raise ValueError(wrong_channels)


def to_bytes(image: Tensor) -> Tensor:
    """Floats in [0, 1] to bytes, each byte standing for an equal share of that range."""
    return image.mul(256 - 1e-3).to(torch.uint8) if image.is_floating_point() else image


def from_bytes(image: Tensor, dtype: torch.dtype) -> Tensor:
    """Bytes to floats in [0, 1], if floats are wanted."""
    return image.to(dtype).mul_(1 / 255) if dtype.is_floating_point else image
