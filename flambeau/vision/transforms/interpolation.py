"""InterpolationMode: how values between pixels are found, and Pillow's numbers for the same."""

from enum import Enum
from typing import Any


class InterpolationMode(Enum):
    """How resizing and warping find values between pixels.

    Tensors know NEAREST, NEAREST_EXACT, BILINEAR and BICUBIC; PIL images all of them.
    """

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    # only Pillow has these
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


# Pillow counts its modes from 0; the nearest pixel it always finds exactly
_from_number = dict(
    enumerate(
        InterpolationMode(name)
        for name in ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
    )
)
pil_modes_mapping = {mode: number for number, mode in _from_number.items()}
pil_modes_mapping[InterpolationMode.NEAREST_EXACT] = 0


def _interpolation_modes_from_int(i: int) -> InterpolationMode:
    return _from_number[i]


def as_mode(interpolation: Any) -> InterpolationMode:
    """The mode itself, or the one that Pillow has this number for."""
    if isinstance(interpolation, int):
        return _from_number[interpolation]
    if not isinstance(interpolation, InterpolationMode):
        raise TypeError(
            "Argument interpolation should be a InterpolationMode or a corresponding Pillow "
            "integer constant"
        )
    return interpolation


def mode_or_given(interpolation: Any) -> Any:
    """What constructors keep: numbers become modes, anything else is judged when it is used."""
    return _from_number[interpolation] if isinstance(interpolation, int) else interpolation
