"""histogramdd: points counted in boxes. Histograms of numbers are in `counting.py`."""

import math

from flambeau import errors
from flambeau import return_types as named
from flambeau.ops.counting import (
    bin_edges,
    check_bins,
    check_counted,
    check_range,
    collected,
    searchsorted,
    wrong_range,
)
from flambeau.ops.table import OptionalTensor, composite


def _check(input, bins, weight):
    if not input.ndim:
        raise errors.no_dimensions(-1)
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    if len(bins) != input.shape[-1]:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    if input.numel():
        check_counted(input)
    for k, given in enumerate(bins):
        if type(given) is int:
            check_bins(given, k)
    if weight is None:
        return check_counted(input)
    if tuple(weight.shape) != tuple(input.shape[:-1]):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as "
            "the input tensor excluding its innermost dimension, but got input with shape "
            f"{list(input.shape)} and weight with shape {list(weight.shape)}"
        )
    if weight.dtype is not input.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
            f"should have the same dtype, but got input({input.dtype.cpp_name}), and "
            f"weight({weight.dtype.cpp_name})"
        )
    check_counted(input)


@composite(variants="function")
def histogramdd(
    input,
    bins: object,
    range: object = None,
    weight: OptionalTensor = None,
    density: bool = False,
):
    """Counts (or sums of weights) of points in boxes, and the edges of the boxes per dimension."""
    check_range("histogramdd", bins, range)
    input = input.detach()
    n = input.shape[-1] if input.ndim else 0
    bins = [bins] * n if type(bins) is int else list(bins)
    _check(input, bins, weight)
    if range is not None and len(range) != 2 * n:
        raise wrong_range(n, range)
    points = input.reshape(-1, n) if n else input.new_zeros(0, 1)
    place = points.new_zeros(len(points)).long()
    inside = place == 0
    edges, counts = [], []
    for k, given in enumerate(bins):
        x = points.select(1, k).contiguous()
        edge = bin_edges(x, given, None if range is None else range[2 * k : 2 * k + 2], k)
        count = edge.numel() - 1
        # the last bin includes its upper edge
        at = (searchsorted(edge, x, right=True) - 1).clamp(0, count - 1)
        inside = inside & (x >= edge[0]) & (x <= edge[-1])
        place = place * count + at
        edges.append(edge)
        counts.append(count)
    weight = None if weight is None else weight.detach().flatten()
    hist = collected(place, inside, weight, math.prod(counts), input).reshape(counts)
    if density:
        hist = hist / hist.sum()
        for k, edge in enumerate(edges):
            hist = hist / edge.diff().reshape(-1, *[1] * (n - 1 - k))
    return named.histogramdd((hist, tuple(edges)))
