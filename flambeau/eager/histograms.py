"""histogramdd: points in bins of several dimensions."""

from builtins import range as builtin_range

from flambeau import _dtype, return_types
from flambeau.eager import creation
from flambeau.ops import counting
from flambeau.ops.table import public


def _lists(input, bins, range):
    """(bins, range) for each dimension."""
    dims = input.shape[-1]
    bins = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(bins) != dims:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    for k, count in enumerate(bins):
        if isinstance(count, int) and count <= 0:
            raise RuntimeError(
                f"torch.histogram(): bins must be > 0, but got {count} for dimension {k}"
            )
    if range is None:
        return bins, [None] * dims
    if len(range) != 2 * dims:
        raise RuntimeError(
            f"torch.histogramdd: for a {dims}-dimensional histogram range should have {2 * dims} "
            f"elements, but got {len(range)}"
        )
    return bins, [tuple(range[2 * k : 2 * k + 2]) for k in builtin_range(dims)]


def histogramdd(input, bins, *, range=None, weight=None, density=False, out=None):
    """Counts (or sums of weights) of points by bin, and the edges of the bins of each dimension.

    Example:
        >>> torch.histogramdd(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=[2, 2]).hist
        tensor([[0., 1.],
                [1., 0.]])
    """
    if input.ndim < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    input = input.detach()
    bins, ranges = _lists(input, bins, range)
    if weight is not None and weight.shape != input.shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"{list(input.shape)} and weight with shape {list(weight.shape)}"
        )
    points = input.reshape(-1, input.shape[-1])
    weight = None if weight is None else weight.detach().reshape(-1)
    counting.check_histogram(points[:, 0], weight)
    edges = [counting.edges_of(x, b, r) for x, b, r in zip(points.t(), bins, ranges)]
    place, inside = 0, creation.ones(points.shape[0], dtype=_dtype.bool_, device=input.device)
    for x, edge in zip(points.t(), edges):
        count = edge.numel() - 1
        inside = inside & (x >= edge[0]) & (x <= edge[-1])
        at = (public("searchsorted")(edge, x.contiguous(), right=True) - 1).clamp(0, count - 1)
        place = place * count + at
    sizes = [edge.numel() - 1 for edge in edges]
    total = 1
    for size in sizes:
        total *= size
    hist = counting.collected(place, inside, weight, total, input).reshape(sizes)
    if density:
        hist = hist / hist.sum()
        for k, edge in enumerate(edges):
            widths = edge.diff()
            hist = hist / widths.reshape([-1 if j == k else 1 for j in builtin_range(len(edges))])
    return return_types.histogramdd((hist, tuple(edges)))
