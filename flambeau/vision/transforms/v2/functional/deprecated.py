"""Functions that v2 keeps for older programs, with a warning."""

import warnings
from typing import Any

from flambeau import Tensor
from flambeau.vision.transforms import functional as F


def to_tensor(inpt: Any) -> Tensor:
    """A PIL image or an array as floats; `to_image` and `to_dtype` are the newer way."""
    warnings.warn(
        "The function `to_tensor(...)` is deprecated and will be removed in a future release. "
        "Instead, please use `to_image(...)` followed by `to_dtype(..., dtype=torch.float32, "
        "scale=True)`.",
        stacklevel=2,
    )
    return F.to_tensor(inpt)


def get_image_size(inpt: Any) -> list[int]:
    """Width and height; `get_size` is the newer way, which gives height and width."""
    warnings.warn(
        "The function `get_image_size(...)` is deprecated and will be removed in a future release. "
        "Instead, please use `get_size(...)` which returns `[h, w]` instead of `[w, h]`.",
        stacklevel=2,
    )
    return F.get_image_size(inpt)
