"""What drawing functions share: colours by name or triplet, images as bytes and back."""

from __future__ import annotations

from collections.abc import Callable
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
    if colors is None:
        # torchvision keeps its palette in tensors, so those colours have 24 bits in every dtype
        return _scaled(palette(num_objects), dtype, lambda v: (torch.tensor(v) / 255).item())
    if isinstance(colors, list):
        several = colors
    elif isinstance(colors, str) or (isinstance(colors, tuple) and len(colors) == 3):
        several = [colors] * num_objects
    elif isinstance(colors, tuple):
        raise ValueError(f"If passed as tuple, colors should be an RGB triplet, but got {colors}.")
    else:
        raise ValueError(
            f"colors must be a tuple or a string, or a list thereof, but got {colors}."
        )
    if len(several) < num_objects:
        raise ValueError(
            "Number of colors must be equal or larger than the number of objects, but got "
            f"{len(several)} < {num_objects}."
        )
    by_name = pillow("ImageColor").getrgb
    triplets = [by_name(color) if isinstance(color, str) else color for color in several]
    return _scaled(triplets, dtype, _share)


def _scaled(
    triplets: list[tuple[Any, ...]], dtype: torch.dtype, share: Callable[[int], float]
) -> list[tuple[Any, ...]]:
    """Colours as images of this dtype have them; share: a byte as a part of white."""
    if not dtype.is_floating_point:
        return triplets
    return [tuple(map(share, triplet)) for triplet in triplets]


def _share(value: float) -> float:
    return value / 255


def check_image(image: Any, channels: tuple[int, ...], messages: tuple[str, str]) -> None:
    """Refuse what cannot be drawn on: not a tensor, a wrong dtype, a batch, other channels."""
    what, wrong_channels = messages
    if not isinstance(image, Tensor):
        raise TypeError(f"{what}, got {type(image)}")
    dtype, shape = image.dtype, image.shape
    if dtype != torch.uint8 and not dtype.is_floating_point:
        raise ValueError(f"The image dtype must be uint8 or float, got {dtype}")
    if len(shape) != 3:
        raise ValueError("Pass individual images, not batches")
    if shape[0] not in channels:
        raise ValueError(wrong_channels)


def to_bytes(image: Tensor) -> Tensor:
    """Floats in [0, 1] to bytes, each byte standing for an equal share of that range."""
    return image.mul(256 - 1e-3).to(torch.uint8) if image.is_floating_point() else image


def from_bytes(image: Tensor, dtype: torch.dtype) -> Tensor:
    """Bytes to floats in [0, 1], if floats are wanted."""
    return image.to(dtype).mul_(1 / 255) if dtype.is_floating_point else image
