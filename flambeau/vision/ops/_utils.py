"""What several ops share: dtypes to compute in, regions as one tensor, reductions of losses."""

from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor, nn

Boxes = Tensor | Sequence[Tensor]
_NORMALIZATIONS = (
    *(nn.LayerNorm, nn.GroupNorm, nn.LocalResponseNorm),
    *(nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm),
)


class Settled(nn.Module):
    """The module of a function; what is the same for all calls are attributes, and printed."""

    shown: tuple[str, ...]  # names of attributes

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        for name, value in settings.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)}" for name in self.shown)
        return f"{type(self).__name__}({values})"


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """(value, value), or the two values that are given."""
    if isinstance(value, int):
        return value, value
    first, second = value
    return int(first), int(second)


def convert_boxes_to_roi_format(boxes: Sequence[Tensor]) -> Tensor:
    """Boxes of several images as one tensor whose first column is the number of the image."""
    numbers = [flambeau.full_like(each[:, :1], place) for place, each in enumerate(boxes)]
    return flambeau.cat([flambeau.cat(numbers), flambeau.cat(list(boxes))], dim=1)


def check_roi_boxes_shape(boxes: Boxes) -> None:
    """Refuse what are no regions."""
    if isinstance(boxes, (list, tuple)):
        if any(each.size(1) != 4 for each in boxes):
            raise AssertionError(
                "The shape of the tensor in the boxes list is not correct as List[Tensor[L, 4]]"
            )
    elif isinstance(boxes, Tensor):
        if boxes.size(1) != 5:
            raise AssertionError("The boxes tensor shape is not correct as Tensor[K, 5]")
    else:
        raise AssertionError("boxes is expected to be a Tensor[L, 5] or a List[Tensor[K, 4]]")


def as_rois(boxes: Boxes) -> Tensor:
    """Regions as (K, 5): image, x1, y1, x2, y2."""
    check_roi_boxes_shape(boxes)
    return boxes if isinstance(boxes, Tensor) else convert_boxes_to_roi_format(boxes)


def split_normalization_params(
    model: nn.Module, norm_classes: list[type] | None = None
) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Parameters of normalizations, and all others; for optimizers that treat them apart."""
    kinds = tuple(norm_classes or _NORMALIZATIONS)
    for kind in kinds:
        if not issubclass(kind, nn.Module):
            raise ValueError(f"Class {kind} is not a subclass of nn.Module.")
    norms: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for module in model.modules():
        inner = any(True for _ in module.children())
        found = norms if not inner and isinstance(module, kinds) else others
        found += [p for p in module.parameters(recurse=not inner) if p.requires_grad]
    return norms, others


def _upcast(t: Tensor) -> Tensor:
    """Products of small types overflow; compute them in larger ones."""
    if t.is_floating_point():
        return t if t.dtype in (flambeau.float32, flambeau.float64) else t.float()
    return t if t.dtype in (flambeau.int32, flambeau.int64) else t.int()


def _upcast_non_float(t: Tensor) -> Tensor:
    return t if t.dtype in (flambeau.float32, flambeau.float64) else t.float()


def _loss_inter_union(boxes1: Tensor, boxes2: Tensor) -> tuple[Tensor, Tensor]:
    """Areas of intersections and unions, pair by pair."""
    (low1, high1), (low2, high2) = boxes1.split(2, -1), boxes2.split(2, -1)
    sides = flambeau.min(high1, high2) - flambeau.max(low1, low2)
    product = rectangle(sides)
    common = flambeau.where((sides > 0).all(-1), product, flambeau.zeros_like(product))
    return common, rectangle(high1 - low1) + rectangle(high2 - low2) - common


def rectangle(sides: Tensor) -> Tensor:
    """Areas from widths and heights, which lie in the last dimension."""
    width, height = sides.unbind(-1)
    return width * height


def reduced(loss: Tensor, reduction: str, empty: bool = False) -> Tensor:
    """The loss, its mean or its sum; with `empty`, the mean of nothing is 0 and not nan."""
    if reduction == "none":
        return loss
    if reduction == "mean":
        return 0.0 * loss.sum() if empty and loss.numel() == 0 else loss.mean()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(
        f"Invalid Value for arg 'reduction': '{reduction} \n Supported reduction modes: 'none', "
        "'mean', 'sum'"
    )


def _cat(tensors: list[Tensor], dim: int = 0) -> Any:
    return tensors[0] if len(tensors) == 1 else flambeau.cat(tensors, dim)
