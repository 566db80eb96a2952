"""HistogramObserver: how often numbers passed, and the range that loses least by rounding.

The range is narrowed from both ends, a hundred-thousandth of the weight at a time, as long as the
mean square of what rounding to levels would change becomes smaller.
"""

import math
import struct
from bisect import bisect_left, bisect_right
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.ao.quantization.observer_base import RangeObserver
from flambeau.ao.quantization.utils import EPS, PER_TENSOR
from flambeau.eager.quantized import rows

_STEP = 1e-5  # of the weight, by which an end moves


class HistogramObserver(RangeObserver):
    """Counts in bins from the least number to the largest."""

    histogram: Tensor
    _schemes = PER_TENSOR
    _refusal = NotImplementedError(
        "{kind}'s qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine."
    )
    _always_static = True

    def __init__(
        self,
        bins: int = 2048,
        dtype: Any = torch.quint8,
        qscheme: Any = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        bounds = reduce_range, quant_min, quant_max, factory_kwargs
        super().__init__(dtype, qscheme, *bounds, eps, is_dynamic, **kwargs)
        self.register_buffer("histogram", torch.zeros(bins))
        self._start()
        self.bins, self.dst_nbins, self.upsample_rate = bins, 1 << 8 * dtype.itemsize, 16

    def forward(self, x_orig: Tensor) -> Tensor:
        """Look at a tensor."""
        x = x_orig.detach().to(self.min_val.dtype)
        if x.numel() and not all(math.isfinite(end) for end in torch.aminmax(x)):
            x = x[torch.isfinite(x)]
        if x.numel() == 0:
            return x_orig
        low, high = self._joined(*torch.aminmax(x))
        counts = torch.histc(x, self.bins, min=float(low), max=float(high))
        if self._has_seen:
            stays = torch.equal(low, self.min_val) and torch.equal(high, self.max_val)
            counts = self.histogram + counts if stays else self._combined(counts, low, high)
        for kept, now in ((self.histogram, counts), (self.min_val, low), (self.max_val, high)):
            kept.copy_(now)
        return x_orig

    def _combined(self, counts: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Counts over a wider range and those that were kept: each bin is cut into pieces, which
        go where their middles lie.
        """
        old_low, old_high = self.min_val, self.max_val
        if torch.equal(old_low, old_high):  # all numbers were one
            place = int((old_low - low) / (high - low) * self.bins)
            found = counts.clone()
            found[min(place, self.bins - 1)] += self.histogram.sum()
            return found
        pieces = self.bins * self.upsample_rate
        kept = self.histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        size = (old_high - old_low) / pieces
        there = kept.device
        starts = torch.linspace(float(old_low), float(old_high), pieces + 1, device=there)[:-1]
        middles = starts + 0.5 * size
        edges = torch.linspace(float(low), float(high), self.bins + 1, device=there)
        places = torch.bucketize(middles, edges, right=True) - 1
        places = places.clamp(0, self.bins - 1)
        return torch.bincount(places, weights=kept, minlength=self.bins).float() + counts

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scale, zero point)"""
        if not self._has_seen:
            return super().calculate_qparams()
        if self.bins != len(self.histogram):
            raise AssertionError(
                "The number of bins in histogram should be equal to the number of bins supplied "
                "while making this observer"
            )
        return self._calculate_qparams(*self._non_linear_param_search())

    def _non_linear_param_search(self) -> tuple[Tensor, Tensor]:
        """The ends of the range that rounding changes least."""
        width = (self.max_val - self.min_val) / self.bins
        first, last = _search(self.histogram, width, self.dst_nbins)
        return self.min_val + width * first, self.min_val + width * (last + 1)


def _search(counts: Tensor, width: Tensor, levels: int) -> tuple[int, int]:
    """(first, last) bin of the range that is best."""
    total, sums = counts.sum().item(), counts.cumsum(0).tolist()
    alpha, beta = 0.0, 1.0
    kept, best = (0, len(sums) - 1), math.inf
    places = torch.arange(len(sums), dtype=torch.float32, device=counts.device)
    while alpha < beta:
        first, last = kept
        # how far an end may move so that the weight outside stays below what is allowed
        left = bisect_left(sums, _product(alpha + _STEP, total), first, last)
        right = bisect_right(sums, _product(beta - _STEP, total), first + 1, last + 1) - 1
        if left - first > last - right:
            tried, alpha = (left, last), alpha + _STEP
        else:
            tried, beta = (first, right), beta - _STEP
        if tried != kept:
            error = _error(counts, places, width, *tried, levels)
            if error > best:
                break
            best, kept = error, tried
    return kept


def _product(share: float, total: float) -> float:
    """In float32, as tensors multiply."""
    (share,) = _FLOAT.unpack(_FLOAT.pack(share))
    return _FLOAT.unpack(_FLOAT.pack(share * total))[0]


_FLOAT = struct.Struct("f")


def _error(counts, places, width, first, last, levels):
    """What rounding to levels over a part of the bins changes, squared and weighed."""
    step = (width * (last - first + 1) / levels).item()
    if step == 0.0:
        return 0.0
    changes = rows.rounding_error(counts, places - first, width.item(), step, float(levels))
    return changes.sum().item()
