"""Operators that sample images and volumes between their elements."""

import math
from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.onnx.operators.table import op
from flambeau.onnx.operators.values import array_of, ints

LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def source_places(
    rule: str, size: int, target: int, scale: float, start: float, end: float
) -> np.ndarray:
    """For each element of the result, its place in the input."""
    x = np.arange(target, dtype=np.float64)
    if rule == "asymmetric":
        return x / scale
    if rule == "align_corners":
        # The length counts as the scale says, also where the number of elements is less.
        length = scale * size
        return x * (size - 1) / (length - 1) if target > 1 else np.zeros(target)
    if rule == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if target > 1 else np.zeros(target)
    if rule == "half_pixel_symmetric":
        exact = scale * size
        centre = size / 2 * (1 - target / exact)
        return centre + (x + 0.5) / scale - 0.5
    if rule == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if rule == "tf_crop_and_resize":
        if target > 1:
            return start * (size - 1) + x * (end - start) * (size - 1) / (target - 1)
        return np.full(target, 0.5 * (start + end) * (size - 1))
    if rule != "half_pixel":
        raise ValueError(f"Resize has no coordinate transformation {rule!r}")
    return (x + 0.5) / scale - 0.5


def nearest(places: np.ndarray, mode: str) -> np.ndarray:
    if mode == "round_prefer_ceil":
        return np.floor(places + 0.5)
    if mode == "floor":
        return np.floor(places)
    if mode == "ceil":
        return np.ceil(places)
    return np.ceil(places - 0.5)


def cubic_weight(distance: np.ndarray, a: float) -> np.ndarray:
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def linear_weight(distance: np.ndarray, a: float) -> np.ndarray:
    return np.clip(1 - np.abs(distance), 0, None)


def sampling_matrix(
    places: np.ndarray, size: int, mode: str, a: float, exclude: bool, antialias: float
) -> np.ndarray:
    """Rows of weights, one per element of the result: resizing is a product with this matrix."""
    weight = cubic_weight if mode == "cubic" else linear_weight
    reach = (2 if mode == "cubic" else 1) / antialias
    first = np.floor(places - reach).astype(int) + 1
    taps = first[:, None] + np.arange(math.ceil(2 * reach) + 1)
    weights = weight((taps - places[:, None]) * antialias, a)
    inside = (taps >= 0) & (taps < size)
    if exclude:
        weights = np.where(inside, weights, 0)
    if exclude or antialias != 1:
        weights = weights / weights.sum(-1, keepdims=True)
    matrix = np.zeros([len(places), size])
    np.add.at(matrix, (np.arange(len(places))[:, None], np.clip(taps, 0, size - 1)), weights)
    return matrix


@op("Resize", 11, static=(3,))
def resize(
    x: Tensor,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    antialias: int = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """One dimension after the other: picked, or multiplied with a matrix of weights."""
    dims = list(range(x.dim())) if axes is None else [axis % x.dim() for axis in axes]
    targets, factors = wanted_sizes(x, dims, scales, sizes, keep_aspect_ratio_policy)
    rule = coordinate_transformation_mode
    common = by_interpolate(x, dims, targets, factors, rule, mode, nearest_mode, antialias)
    if common is not None:
        return common
    region = [0.0] * len(dims) + [1.0] * len(dims)
    if rule == "tf_crop_and_resize" and roi is not None:
        region = [float(v) for v in ints(roi)]
    outside = np.zeros([1] * x.dim(), dtype=bool)
    dtype = x.dtype
    for k, axis in enumerate(dims):
        size, target = x.shape[axis], targets[k]
        start, end = region[k], region[k + len(dims)]
        if target == size and factors[k] == 1 and rule != "tf_crop_and_resize":
            continue
        places = source_places(rule, size, target, factors[k], start, end)
        if mode == "nearest":
            picked = np.clip(nearest(places, nearest_mode), 0, size - 1)
            x = x.index_select(axis, torch.from_numpy(picked.astype(np.int64)))
        else:
            smaller = min(1.0, factors[k]) if antialias else 1.0
            matrix = sampling_matrix(
                places, size, mode, cubic_coeff_a, bool(exclude_outside), smaller
            )
            weights = torch.from_numpy(matrix).to(x.dtype if x.is_floating_point() else torch.float)
            x = torch.matmul(x.to(weights.dtype).movedim(axis, -1), weights.T).movedim(-1, axis)
        shape = [1] * x.dim()
        shape[axis] = -1
        outside = outside | ((places < 0) | (places > size - 1)).reshape(shape)
    if rule == "tf_crop_and_resize" and outside.any():
        x = torch.where(torch.from_numpy(outside), torch.full_like(x, extrapolation_value), x)
    if not dtype.is_floating_point and x.is_floating_point():
        x = torch.round(x)
    return x.to(dtype)


def wanted_sizes(
    x: Tensor, dims: list[int], scales: Any, sizes: Any, policy: str
) -> tuple[list[int], list[float]]:
    """The sizes of the result, and by which factors they differ."""
    have = [x.shape[axis] for axis in dims]
    if sizes is None or len(ints(sizes)) == 0:
        factors = [float(v) for v in (scales.tolist() if isinstance(scales, Tensor) else scales)]
        return [math.floor(n * f) for n, f in zip(have, factors)], factors
    wanted = ints(sizes)
    factors = [w / n for w, n in zip(wanted, have)]
    if policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        factors = [factor] * len(have)
        wanted = [int(n * factor + 0.5) for n in have]
    return wanted, factors


def by_interpolate(
    x: Tensor,
    dims: list[int],
    targets: list[Any],
    factors: list[float],
    rule: str,
    mode: str,
    nearest_mode: str,
    antialias: int,
) -> Tensor | None:
    """What exporters write for `interpolate`, given back to it: one kernel, and its gradient."""
    rank = x.dim() - 2
    inner = dict(zip(dims, targets))
    if (
        antialias
        or rank not in (1, 2, 3)
        or any(axis < 2 and inner[axis] != x.shape[axis] for axis in dims)
    ):
        return None
    size = [inner.get(axis, x.shape[axis]) for axis in range(2, x.dim())]
    exact = all(
        target == factor * x.shape[axis] for axis, target, factor in zip(dims, targets, factors)
    )
    if not exact or not x.is_floating_point() or min(size) < 2:
        return None
    if mode == "nearest" and rule == "asymmetric" and nearest_mode == "floor":
        return F.interpolate(x, size, mode="nearest")
    if mode == "linear" and rule in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        return F.interpolate(x, size, mode=LINEAR[rank], align_corners=rule == "align_corners")
    return None


@op("Resize", 10)
@op("Upsample", 9)
def resize_legacy(x: Tensor, scales: Any, *, mode: str = "nearest") -> Tensor:
    return resize(
        x,
        None,
        scales,
        coordinate_transformation_mode="asymmetric",
        mode="nearest" if mode == "nearest" else "linear",
        nearest_mode="floor",
    )


@op("Upsample", 7)
def upsample_first(x: Tensor, *, scales: list[float], mode: str = "nearest") -> Tensor:
    return resize_legacy(x, scales, mode=mode)


@op("GridSample", 16)
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    names = {"linear": "bilinear", "cubic": "bicubic"}
    kind = names.get(mode, mode)
    return F.grid_sample(x, grid, kind, padding_mode, bool(align_corners))


@op("AffineGrid", 20, static=(1,))
def affine_grid(theta: Tensor, size: Any, *, align_corners: int = 0) -> Tensor:
    return F.affine_grid(theta, ints(size), bool(align_corners))


@op("RoiAlign", 10)
def roi_align(
    x: Tensor,
    regions: Tensor,
    batches: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Each region as a grid of cells, each cell from a few samples between elements."""
    shift = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    results = []
    for region, batch in zip(array_of(regions), ints(batches)):
        left, top, right, bottom = (float(v) * spatial_scale - shift for v in region)
        height, width = bottom - top, right - left
        if not shift:
            height, width = max(height, 1.0), max(width, 1.0)
        y = cell_samples(top, height, output_height, sampling_ratio)
        z = cell_samples(left, width, output_width, sampling_ratio)
        # Corners of the four elements around each sample, weighted; then the summary of a cell.
        values = four_corners(x[batch], y, z)
        rows, columns = y.shape[1], z.shape[1]
        cells = values.reshape([x.shape[1], 4, output_height, rows, output_width, columns])
        if mode == "max":
            results.append(cells.amax((1, 3, 5)))
        else:
            results.append(cells.sum(1).mean((2, 4)))
    return torch.stack(results)


def cell_samples(start: float, length: float, cells: int, ratio: int) -> np.ndarray:
    """Places of the samples of each cell, in one dimension."""
    count = ratio if ratio > 0 else max(1, math.ceil(length / cells))
    return start + (np.arange(cells)[:, None] + (np.arange(count) + 0.5) / count) * length / cells


def four_corners(image: Tensor, y: np.ndarray, z: np.ndarray) -> Tensor:
    """(channels, 4, y, z): elements around each sample, times their share."""
    low_y, high_y, share_y, inside_y = around(y.reshape(-1), image.shape[1])
    low_z, high_z, share_z, inside_z = around(z.reshape(-1), image.shape[2])
    inside = inside_y[:, None] & inside_z
    parts = []
    for rows, part_y in ((low_y, 1 - share_y), (high_y, share_y)):
        for columns, part_z in ((low_z, 1 - share_z), (high_z, share_z)):
            weight = torch.from_numpy(part_y[:, None] * part_z * inside).to(image.dtype)
            picked = image.index_select(1, torch.from_numpy(rows))
            parts.append(picked.index_select(2, torch.from_numpy(columns)) * weight)
    return torch.stack(parts, 1)


def around(places: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Neighbours of a place, the share of the upper one, and whether it is near the image."""
    inside = (places >= -1) & (places <= size)
    held = np.clip(places, 0, size - 1)
    low = np.floor(held).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    return low, high, held - low, inside
