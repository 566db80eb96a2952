"""BoundingBoxes: rectangles in an image, in one of several formats, upright or turned."""

from enum import Enum
from typing import Any, Self

from flambeau import Tensor
from flambeau.vision.tv_tensors.base import TVTensor


class BoundingBoxFormat(Enum):
    """What the numbers of a box are.

    XYXY: two opposite corners. XYWH: the corner at the top left, width and height. CXCYWH: the
    middle, width and height. With R: the same and an angle in degrees. XYXYXYXY: four corners.
    """

    XYXY = "XYXY"
    XYWH = "XYWH"
    CXCYWH = "CXCYWH"
    # these may be turned
    XYWHR = "XYWHR"
    CXCYWHR = "CXCYWHR"
    XYXYXYXY = "XYXYXYXY"


_ROTATED = ("XYWHR", "CXCYWHR", "XYXYXYXY")


def is_rotated_bounding_format(format: BoundingBoxFormat | str) -> bool:
    """Whether boxes of this format may be turned."""
    name = format.value if isinstance(format, BoundingBoxFormat) else format
    if not isinstance(name, str):
        raise ValueError(f"format should be str or BoundingBoxFormat, got {type(format)}")
    return name in _ROTATED


class BoundingBoxes(TVTensor):
    """Boxes, (N, 4), (N, 5) or (N, 8), on a canvas of (height, width).

    clamping_mode: what happens to boxes that leave the canvas: "soft", "hard" (these differ for
    turned boxes only) or None.
    """

    format: BoundingBoxFormat
    canvas_size: tuple[int, int]
    clamping_mode: str | None
    _says = ("format", "canvas_size", "clamping_mode")

    @classmethod
    def _wrap(
        cls,
        tensor: Tensor,
        *,
        format: BoundingBoxFormat | str,
        canvas_size: tuple[int, int],
        clamping_mode: str | None = "soft",
        check_dims: bool = True,
    ) -> Self:
        if check_dims and tensor.ndim != 2:
            if tensor.ndim != 1:
                raise ValueError(f"Expected a 1D or 2D tensor, got {tensor.ndim}D")
            tensor = tensor.unsqueeze(0)
        if clamping_mode not in ("soft", "hard", None):
            raise ValueError(f"clamping_mode must be None, hard or soft, got {clamping_mode}.")
        known = BoundingBoxFormat[format.upper()] if isinstance(format, str) else format
        boxes = tensor.as_subclass(cls)
        return boxes._saying(format=known, canvas_size=canvas_size, clamping_mode=clamping_mode)

    def __new__(
        cls,
        data: Any,
        *,
        format: BoundingBoxFormat | str,
        canvas_size: tuple[int, int],
        clamping_mode: str | None = "soft",
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool | None = None,
    ) -> Self:
        tensor = cls._to_tensor(data, dtype, device, requires_grad)
        is_whole = not tensor.dtype.is_floating_point
        if is_whole and is_rotated_bounding_format(format):
            raise ValueError(
                f"Rotated bounding boxes should be floating point tensors, got {tensor.dtype}."
            )
        return cls._wrap(
            tensor, format=format, canvas_size=canvas_size, clamping_mode=clamping_mode
        )
