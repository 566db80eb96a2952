"""Histograms: how many values lie between which limits."""

from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary

from flambeau._tensor import Tensor
from flambeau.utils.tensorboard._convert_np import make_list, make_np


def default_bins() -> list[float]:
    """Limits that grow by a tenth from 1e-12 to 1e20, on both sides of zero."""
    limits, limit = [], 1e-12
    while limit < 1e20:
        limits.append(limit)
        limit *= 1.1
    return [-limit for limit in reversed(limits)] + [0] + limits


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: int,
    sum: float,
    sum_squares: float,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Summary:
    """A histogram that somebody else has counted."""
    proto = HistogramProto(
        min=float(min),
        max=float(max),
        num=float(num),
        sum=float(sum),
        sum_squares=float(sum_squares),
        bucket_limit=make_list(bucket_limits),
        bucket=make_list(bucket_counts),
    )
    return _summary(name, proto)


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Summary:
    """The histogram of all values; bins as for numpy.histogram."""
    numbers = make_np(values).astype(float)
    return _summary(name, make_histogram(numbers, bins, max_bins))


def _summary(name, proto):
    return Summary(value=[Summary.Value(tag=name, histo=proto)])


def make_histogram(values: np.ndarray, bins: Any, max_bins: int | None = None) -> HistogramProto:
    """The histogram of an array of float64, without the empty bins at both ends.

    A proto holds upper limits only, so one empty bin stays in front to tell the lowest limit.
    """
    if not values.size:
        raise ValueError("The input has no element.")
    bins = make_np(bins) if isinstance(bins, Tensor) else bins
    values = values.ravel()
    counts, limits = np.histogram(values, bins)
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = _coarser(counts, limits, len(counts) // max_bins)
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError(
            "The histogram is empty, please file a bug report. (No value lies in any bin.)"
        )
    first, end = int(filled[0]), int(filled[-1]) + 1
    # If an empty bin lies before the first one, it is that one; it holds nothing either way.
    buckets = {"bucket_limit": limits[first : end + 1].tolist()}
    buckets["bucket"] = [0, *counts[first:end].tolist()]
    moments = {"num": values.size, "sum": values.sum(), "sum_squares": values @ values}
    return HistogramProto(min=values.min(), max=values.max(), **moments, **buckets)


def _coarser(counts, limits, together):
    """Neighbouring bins, so many at a time, as one."""
    starts = np.arange(0, len(counts), together)
    return np.add.reduceat(counts, starts), np.append(limits[starts], limits[-1])
