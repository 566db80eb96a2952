"""HistogramObserver: how often numbers passed, and the range that loses least by rounding.

The range is narrowed from both ends, a hundred-thousandth of the weight at a time, as long as the
mean square of what rounding to levels would change becomes smaller.
"""

from typing import Any

import numpy as np

import flambeau as torch
from flambeau import Tensor
from flambeau.ao.quantization.observer_base import UniformQuantizationObserverBase
from flambeau.ao.quantization.utils import EPS, is_per_tensor

_STEP = 1e-5  # of the weight, by which an end moves


class HistogramObserver(UniformQuantizationObserverBase):
    """Counts in bins from the least number to the largest."""

    histogram: Tensor
    min_val: Tensor
    max_val: Tensor

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
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "HistogramObserver's qscheme only support torch.per_tensor_symmetric "
                "and torch.per_tensor_affine."
            )
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic,
            **kwargs,
        )  # fmt: skip
        self.bins = bins
        self.register_buffer("histogram", torch.zeros(bins))
        self.register_buffer("min_val", torch.tensor(float("inf")))
        self.register_buffer("max_val", torch.tensor(float("-inf")))
        self.dst_nbins = 2 ** (4 if dtype is torch.quint4x2 else 8 * dtype.itemsize)
        self.upsample_rate = 16

    def forward(self, x_orig: Tensor) -> Tensor:
        """Look at a tensor."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype)
        low, high = torch.aminmax(x)
        if not bool(torch.isfinite(low) & torch.isfinite(high)):
            x = x[torch.isfinite(x)]
            if x.numel() == 0:
                return x_orig
            low, high = torch.aminmax(x)
        old_low, old_high = self.min_val, self.max_val
        if old_low.item() == float("inf") and old_high.item() == float("-inf"):
            self._keep(torch.histc(x, self.bins, min=float(low), max=float(high)), low, high)
            return x_orig
        low, high = torch.min(low, old_low), torch.max(high, old_high)
        counts = torch.histc(x, self.bins, min=float(low), max=float(high))
        if torch.equal(low, old_low) and torch.equal(high, old_high):
            self._keep(self.histogram + counts, low, high)
        else:
            self._keep(self._combined(counts, low, high), low, high)
        return x_orig

    def _keep(self, counts: Tensor, low: Tensor, high: Tensor) -> None:
        self.histogram.copy_(counts)
        self.min_val.copy_(low)
        self.max_val.copy_(high)

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
        middles = torch.linspace(float(old_low), float(old_high), pieces + 1)[:-1] + 0.5 * size
        edges = torch.linspace(float(low), float(high), self.bins + 1)
        places = torch.bucketize(middles, edges, right=True) - 1
        places = places.clamp(0, self.bins - 1)
        return torch.bincount(places, weights=kept, minlength=self.bins).float() + counts

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scale, zero point)"""
        if self.min_val.item() == float("inf") and self.max_val.item() == float("-inf"):
            return self._calculate_qparams(self.min_val, self.max_val)
        if self.bins != len(self.histogram):
            raise AssertionError(
                "The number of bins in histogram should be equal to the number of bins supplied "
                "while making this observer"
            )
        return self._calculate_qparams(*self._non_linear_param_search())

    def _non_linear_param_search(self) -> tuple[Tensor, Tensor]:
        """The ends of the range that rounding changes least."""
        counts = self.histogram.numpy()
        low, high = np.float32(self.min_val.item()), np.float32(self.max_val.item())
        width = (high - low) / np.float32(self.bins)
        first, last = _search(counts, width, self.bins, self.dst_nbins)
        ends = low + width * np.float32(first), low + width * np.float32(last + 1)
        return torch.tensor(float(ends[0])), torch.tensor(float(ends[1]))

    def reset_min_max_vals(self) -> None:
        self.histogram.zero_()
        self.min_val.copy_(torch.tensor(float("inf")))
        self.max_val.copy_(torch.tensor(float("-inf")))

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


def _search(counts, width, bins, levels):
    """(first, last) bin of the range that is best."""
    total = counts.sum(dtype=np.float32)
    sums = np.cumsum(counts, dtype=np.float32)
    alpha, beta = 0.0, 1.0
    first, last, best = 0, bins - 1, np.inf
    while alpha < beta:
        further, nearer = alpha + _STEP, beta - _STEP
        left, right = _moved(sums, total, first, last, further, nearer)
        next_first, next_last = first, last
        if left - first > last - right:
            next_first, alpha = left, further
        else:
            next_last, beta = right, nearer
        if (next_first, next_last) == (first, last):
            continue
        error = _error(counts, width, next_first, next_last, levels)
        if error > best:
            break
        best, first, last = error, next_first, next_last
    return first, last


def _moved(sums, total, first, last, further, nearer):
    """How far the ends may move so that the weight outside stays below what is allowed."""
    left, right = first, last
    low, high = np.float32(further) * total, np.float32(nearer) * total
    while left < last and sums[left] < low:
        left += 1
    while right > first and sums[right] > high:
        right -= 1
    return left, right


def _error(counts, width, first, last, levels):
    """What rounding to levels over a part of the bins changes, squared and weighed."""
    step = width * np.float32(last - first + 1) / np.float32(levels)
    if step == 0.0:
        return 0.0
    bins = np.arange(len(counts), dtype=np.float32)
    begin = (bins - first) * width
    end = begin + width
    first_level = np.clip(np.floor(begin / step), 0, levels - 1)
    last_level = np.clip(np.floor(end / step), 0, levels - 1)
    density = counts / width
    half = step / np.float32(2)
    change = _cubed(begin - (first_level + np.float32(0.5)) * step, half, density)
    change = change + (last_level - first_level - 1) * _cubed(-half, half, density)
    change = change + _cubed(-half, end - (last_level * step + half), density)
    return change.sum(dtype=np.float32)


def _cubed(begin, end, density):
    """The integral of a square between two distances from a level."""
    return density * ((end * end * end - begin * begin * begin) / np.float32(3))
