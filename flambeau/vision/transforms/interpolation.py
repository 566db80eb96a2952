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


pil_modes_mapping = {
    InterpolationMode.NEAREST: 0,
    InterpolationMode.BILINEAR: 2,
    InterpolationMode.BICUBIC: 3,
    InterpolationMode.NEAREST_EXACT: 0,
    InterpolationMode.BOX: 4,
    InterpolationMode.HAMMING: 5,
    InterpolationMode.LANCZOS: 1,
}
_from_number = {
    0: InterpolationMode.NEAREST,
    1: InterpolationMode.LANCZOS,
    2: InterpolationMode.BILINEAR,
    3: InterpolationMode.BICUBIC,
    4: InterpolationMode.BOX,
    5: InterpolationMode.HAMMING,
}


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
