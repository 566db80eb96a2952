"""torchvision.tv_tensors: tensors that say what they are: images, videos, masks, boxes, points.

They are tensors like others, and operations on them give plain tensors; only `clone`, `to`,
`detach` and `requires_grad_` keep what they are. The transforms of v2 look at the kind of each
tensor in a sample, and wrap their results again.
"""

from typing import Any

from flambeau.vision.tv_tensors.base import TVTensor, set_return_type
from flambeau.vision.tv_tensors.boxes import (
    BoundingBoxes,
    BoundingBoxFormat,
    is_rotated_bounding_format,
)
from flambeau.vision.tv_tensors.pictures import Image, Mask, Video
from flambeau.vision.tv_tensors.points import KeyPoints

__all__ = [
    "BoundingBoxFormat",
    "BoundingBoxes",
    "Image",
    "KeyPoints",
    "Mask",
    "TVTensor",
    "Video",
    "is_rotated_bounding_format",
    "set_return_type",
    "wrap",
]


def wrap(wrappee: Any, *, like: Any, **kwargs: Any) -> Any:
    """A tensor as the same kind as another; keywords replace what that says, as canvas_size."""
    method = getattr(type(like), "wrap", None)
    return wrappee.as_subclass(type(like)) if method is None else method(wrappee, like, **kwargs)
