"""Operators that pick and place elements by index."""

from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import array_of, ints, number


def positive(indices: Tensor, size: Any) -> Tensor:
    """Indices from the end, counted from the start."""
    indices = indices.long()
    return torch.where(indices < 0, indices + size, indices)


@op("Gather", static=(1,))
def gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    """Rows along a dimension, in the shape of the indices."""
    if isinstance(x, np.ndarray):
        return np.take(x, array_of(indices), axis)
    if isinstance(indices, int):
        return x.select(axis, indices)
    if isinstance(indices, (list, tuple)):
        indices = torch.tensor(indices, dtype=torch.int64)
    axis %= x.dim()
    flat = positive(indices.reshape(-1), x.shape[axis])
    picked = x.index_select(axis, flat)
    if indices.dim() == 1:
        return picked
    return picked.reshape(list(x.shape[:axis]) + list(indices.shape) + list(x.shape[axis + 1 :]))


@op("GatherElements", 11)
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return torch.gather(x, axis, positive(indices, x.shape[axis]))


@op("GatherND", 11)
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """The last dimension of the indices addresses the dimensions after the batch."""
    index: list[Tensor] = []
    rank = indices.dim() - 1
    for axis in range(batch_dims):
        index.append(torch.arange(x.shape[axis]).reshape([-1] + [1] * (rank - axis - 1)))
    for axis in range(indices.shape[-1]):
        index.append(positive(indices[..., axis], x.shape[batch_dims + axis]))
    return x[tuple(index)]


REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@op("Scatter", 9)
@op("ScatterElements", 11)
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    places = positive(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, REDUCTIONS[reduction], include_self=True)


@op("ScatterND", 11)
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Rows addressed by the last dimension of the indices are put in place."""
    depth = indices.shape[-1]
    rows = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for axis in range(depth):
        rows = rows * x.shape[axis] + positive(indices[..., axis], x.shape[axis])
    inner = list(x.shape[depth:])
    flat = x.reshape([int(np.prod(x.shape[:depth])), -1])
    places = rows.reshape(-1, 1).expand(-1, flat.shape[1])
    news = updates.reshape(places.shape)
    if reduction == "none":
        flat = flat.scatter(0, places, news)
    else:
        flat = flat.scatter_reduce(0, places, news, REDUCTIONS[reduction], include_self=True)
    return flat.reshape(list(x.shape[:depth]) + inner)


@op("TensorScatter", 24)
def tensor_scatter(
    past: Tensor, update: Tensor, starts: Any = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    """New entries of a cache, from a start of its own in each entry of the batch."""
    axis %= past.dim()
    length = update.shape[axis]
    batch = past.shape[0]
    first = torch.zeros([batch], dtype=torch.int64) if starts is None else starts.long()
    places = first.reshape(-1, 1) + torch.arange(length)
    if mode == "circular":
        places = places % past.shape[axis]
    shape = [batch] + [1] * (past.dim() - 1)
    shape[axis] = length
    return past.scatter(axis, places.reshape(shape).expand(update.shape), update)


@op("OneHot", 9, static=(1,))
def one_hot(indices: Tensor, depth: Any, values: Tensor, *, axis: int = -1) -> Tensor:
    """Indices out of range give a row of the off value."""
    count = int(number(depth))
    places = indices.long()
    places = torch.where(places < 0, places + count, places)
    axis = axis + indices.dim() + 1 if axis < 0 else axis
    shape = [1] * (indices.dim() + 1)
    shape[axis] = count
    hit = places.unsqueeze(axis) == torch.arange(count).reshape(shape)
    return torch.where(hit, values[1], values[0])


@op("Compress", 9)
def compress(x: Any, condition: Tensor, *, axis: int | None = None) -> Any:
    kept = torch.nonzero(condition).reshape(-1)
    if isinstance(x, np.ndarray):
        return np.compress(array_of(condition), x, axis)
    if axis is None:
        return x.reshape(-1).index_select(0, kept)
    return x.index_select(axis, kept)


@op("NonMaxSuppression", 10, static=(2,))
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    most: Any = None,
    overlap: Any = None,
    least: Any = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """Best boxes of each class that do not cover each other: (batch, class, box)."""
    limit = 0 if most is None else int(number(most))
    covered = 0.0 if overlap is None else float(number(overlap))
    floor = None if least is None else float(number(least))
    corners = box_corners(array_of(boxes).astype(np.float64), bool(center_point_box))
    points = array_of(scores)
    found: list[list[int]] = []
    for batch in range(points.shape[0]):
        for kind in range(points.shape[1]):
            kept = best_boxes(corners[batch], points[batch, kind], limit, covered, floor)
            found.extend([batch, kind, box] for box in kept)
    return torch.tensor(found, dtype=torch.int64).reshape(-1, 3)


def box_corners(boxes: np.ndarray, centers: bool) -> np.ndarray:
    """Low and high corner of each box, whichever way it was written."""
    if centers:
        x, y, width, height = np.moveaxis(boxes, -1, 0)
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], -1)
    low = np.minimum(boxes[..., :2], boxes[..., 2:])
    high = np.maximum(boxes[..., :2], boxes[..., 2:])
    return np.concatenate([low, high], -1)


def best_boxes(
    corners: np.ndarray, scores: np.ndarray, limit: int, overlap: float, floor: float | None
) -> list[int]:
    areas = (corners[:, 2:] - corners[:, :2]).prod(-1)
    kept: list[int] = []
    for box in np.argsort(-scores, kind="stable"):
        if len(kept) >= limit or (floor is not None and scores[box] <= floor):
            break
        low = np.maximum(corners[kept, :2], corners[box, :2])
        high = np.minimum(corners[kept, 2:], corners[box, 2:])
        shared = np.clip(high - low, 0, None).prod(-1)
        union = areas[kept] + areas[box] - shared
        if not (shared > overlap * union).any():
            kept.append(int(box))
    return kept


@op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(x: Any, indices: Tensor) -> Any:
    """Columns of the last dimension."""
    return gather(x, ints(indices), axis=-1).reshape([-1, indices.numel()])
