"""BoundingBoxes: rectangles in an image, in one of several formats, upright or turned."""

from enum import Enum
from typing import Any, Self

import flambeau
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
    XYWHR = "XYWHR"
    CXCYWHR = "CXCYWHR"
    XYXYXYXY = "XYXYXYXY"


_ROTATED = (BoundingBoxFormat.XYWHR, BoundingBoxFormat.CXCYWHR, BoundingBoxFormat.XYXYXYXY)


def is_rotated_bounding_format(format: BoundingBoxFormat | str) -> bool:
    """Whether boxes of this format may be turned."""
    if isinstance(format, BoundingBoxFormat):
        return format in _ROTATED
    if isinstance(format, str):
        return format in ("XYWHR", "CXCYWHR", "XYXYXYXY")
    raise ValueError(f"format should be str or BoundingBoxFormat, got {type(format)}")


class BoundingBoxes(TVTensor):
    """Boxes, (N, 4), (N, 5) or (N, 8), on a canvas of (height, width).

    clamping_mode: what happens to boxes that leave the canvas: "soft", "hard" (these differ for
    turned boxes only) or None.
    """

    format: BoundingBoxFormat
    canvas_size: tuple[int, int]
    clamping_mode: str | None

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
        if check_dims:
            if tensor.ndim == 1:
                tensor = tensor.unsqueeze(0)
            elif tensor.ndim != 2:
                raise ValueError(f"Expected a 1D or 2D tensor, got {tensor.ndim}D")
        if clamping_mode is not None and clamping_mode not in ("hard", "soft"):
            raise ValueError(f"clamping_mode must be None, hard or soft, got {clamping_mode}.")
        out = tensor.as_subclass(cls)
        out.format = BoundingBoxFormat[format.upper()] if isinstance(format, str) else format
        out.canvas_size = canvas_size
        out.clamping_mode = clamping_mode
        return out

    @classmethod
    def wrap(cls, tensor: Any, like: Any, **kwargs: Any) -> Self:
        """A tensor as boxes like others."""
        facts = {name: getattr(like, name) for name in ("format", "canvas_size", "clamping_mode")}
        return cls._wrap(tensor, **{**facts, **kwargs})

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
        if not flambeau.is_floating_point(tensor) and is_rotated_bounding_format(format):
            raise ValueError(
                f"Rotated bounding boxes should be floating point tensors, got {tensor.dtype}."
            )
        return cls._wrap(
            tensor, format=format, canvas_size=canvas_size, clamping_mode=clamping_mode
        )

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return self._make_repr(
            format=self.format, canvas_size=self.canvas_size, clamping_mode=self.clamping_mode
        )
