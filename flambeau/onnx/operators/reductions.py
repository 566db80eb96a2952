"""Operators that reduce dimensions, and those that look for places."""

from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import (
    array_of,
    computable,
    in_numpy,
    number,
    optional_ints,
    tensor_of,
)


def total(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return torch.sum(x, dims, keepdim=keep, dtype=x.dtype)


def average(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    if x.is_floating_point():
        return torch.mean(x, dims, keepdim=keep)
    return torch.mean(x.double(), dims, keepdim=keep).to(x.dtype)


def product(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    for axis in sorted((axis % max(1, x.dim()) for axis in dims), reverse=True):
        x = torch.prod(x, axis, keepdim=keep, dtype=x.dtype)
    return x


def extreme(function: Callable[..., Tensor], low: bool) -> Callable[..., Tensor]:
    """Largest or smallest element; over nothing, the bound of the dtype."""

    def reduce(x: Tensor, dims: list[int], keep: bool) -> Tensor:
        if x.numel() == 0:
            bound = -float("inf") if low else float("inf")
            if x.dtype is torch.bool:
                bound = not low
            elif not x.is_floating_point():
                bound = torch.iinfo(x.dtype).min if low else torch.iinfo(x.dtype).max
            return torch.full_like(torch.sum(x, dims, keepdim=keep), bound).to(x.dtype)
        return function(x, dims, keepdim=keep)

    return reduce


def root_of_squares(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return torch.sqrt(total(torch.square(x), dims, keep).float()).to(x.dtype)


def log_sum_exp(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    if x.is_floating_point():
        return torch.logsumexp(x, dims, keepdim=keep)
    return torch.logsumexp(x.double(), dims, keepdim=keep).to(x.dtype)


def log_sum(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return torch.log(total(x, dims, keep)).to(x.dtype)


def sum_of_magnitudes(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return total(torch.abs(x), dims, keep)


def sum_of_squares(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return total(torch.square(x), dims, keep)


def reduction(name: str, function: Callable[..., Tensor], with_arrays: Any, since: int) -> None:
    """Register a reduction: its axes are an input since a version, and an attribute before."""

    def reduce(
        x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        dims = optional_ints(axes)
        if not dims:
            if noop_with_empty_axes:
                return unreduced(x)
            dims = list(range(x.dim()))
        if x.dim() == 0:
            return unreduced(x)
        if not computable(x):
            return in_numpy(lambda a: with_arrays(a, axis=tuple(dims), keepdims=bool(keepdims)), x)
        return function(x, dims, bool(keepdims))

    def unreduced(x: Tensor) -> Tensor:
        """Over no dimension, what is done to each element still is."""
        return function(x.unsqueeze(-1), [-1], False)

    def legacy(x: Any, *, axes: list[int] | None = None, keepdims: int = 1) -> Any:
        return reduce(x, axes, keepdims=keepdims)

    for made, label in ((reduce, name), (legacy, f"{name}_legacy")):
        made.__name__ = made.__qualname__ = label
        globals()[label] = made
    op(name, since, static=(1,))(reduce)
    op(name, 1)(legacy)


reduction("ReduceSum", total, np.sum, 13)
reduction("ReduceMean", average, np.mean, 18)
reduction("ReduceProd", product, np.prod, 18)
reduction("ReduceMax", extreme(torch.amax, True), np.max, 18)
reduction("ReduceMin", extreme(torch.amin, False), np.min, 18)
reduction("ReduceL1", sum_of_magnitudes, np.sum, 18)
reduction("ReduceL2", root_of_squares, None, 18)
reduction("ReduceSumSquare", sum_of_squares, None, 18)
reduction("ReduceLogSum", log_sum, None, 18)
reduction("ReduceLogSumExp", log_sum_exp, None, 18)


@op("ArgMax")
def arg_max(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return place_of_extreme(torch.argmax, x, axis, bool(keepdims), bool(select_last_index))


@op("ArgMin")
def arg_min(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return place_of_extreme(torch.argmin, x, axis, bool(keepdims), bool(select_last_index))


def place_of_extreme(function: Any, x: Tensor, axis: int, keep: bool, last: bool) -> Tensor:
    if not last:
        return function(x, axis, keepdim=keep)
    return x.shape[axis] - 1 - function(torch.flip(x, [axis]), axis, keepdim=keep)


@op("TopK", 10, static=(1,))
def top_k(x: Any, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """Equal elements keep their order, so a stable sort stands behind it."""
    if not computable(x):
        array = array_of(x)
        keys = array if not largest else np.iinfo(array.dtype).max - array
        order = np.argsort(keys, axis=axis, kind="stable").take(range(int(number(k))), axis)
        return tensor_of(np.take_along_axis(array, order, axis)), tensor_of(order)
    values, places = torch.sort(x, stable=True, dim=axis, descending=bool(largest))
    count = number(k)
    return values.narrow(axis, 0, count), places.narrow(axis, 0, count)


@op("TopK", 1)
def top_k_legacy(x: Tensor, *, k: int, axis: int = -1) -> Any:
    return top_k(x, k, axis=axis)


@op("NonZero", 9)
def non_zero(x: Any) -> Tensor:
    if not isinstance(x, torch.Tensor):
        return tensor_of(np.array(np.nonzero(x), dtype=np.int64))
    return torch.nonzero(x).T if x.dim() else torch.nonzero(x.reshape(1)).T[:0]


@op("Unique", 11)
def unique(x: Any, *, axis: int | None = None, sorted: int = 1, n_outputs: int) -> Any:
    """Elements (or slices) that differ, with first places, the way back, and counts."""
    array = array_of(x)
    found, first, inverse, counts = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        rank = np.argsort(order)
        found = np.take(found, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    results = (found, *(part.astype(np.int64) for part in (first, inverse, counts)))
    values = tuple(tensor_of(part) for part in results[:n_outputs])
    return values if n_outputs > 1 else values[0]


@op("Hardmax", 13)
def hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    place = torch.argmax(x, axis, keepdim=True)
    return torch.zeros_like(x).scatter(axis, place, torch.ones_like(x))


@op("Hardmax", 1)
def hardmax_legacy(x: Tensor, *, axis: int = 1) -> Tensor:
    rows = x.reshape([int(np.prod(x.shape[:axis])), -1])
    return hardmax(rows, axis=1).reshape(x.shape)
