"""Axes: where ticks go, what they say, and how values become places on paper."""

from __future__ import annotations

import math
from collections.abc import Callable


def nice_step(span: float, count: int) -> float:
    """The step of 1, 2 or 5 times a power of ten that gives about `count` ticks.

    >>> nice_step(1.0, 5)
    0.2
    """
    if not span > 0:
        return 1.0
    raw = span / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    for factor in (1, 2, 5, 10):
        if raw <= factor * power * 1.0000001:
            step = factor * power
            # 0.1 and the like are nicer as the numbers people write
            return float(f"{step:.6g}")
    return 10 * power


def linear_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers between two values, both ends included where they are round.

    >>> linear_ticks(0, 1, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    step = nice_step(high - low, count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def log_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Powers of ten between two positive values, with 2 and 5 times them if there is room."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    every = max(1, (last - first) // count)
    powers = [10.0**k for k in range(first, last + 1) if (k - first) % every == 0]
    factors = (1, 2, 5) if last - first <= count // 2 else (1,)
    found = [p * f for p in powers for f in factors]
    inside = [float(f"{v:.12g}") for v in found if low * 0.999999 <= v <= high * 1.000001]
    return inside if len(inside) > 1 else linear_ticks(low, high, count)


def tick_text(value: float, step: float | None = None) -> str:
    """A tick as text: as many digits as the step asks for, large numbers with a unit.

    >>> [tick_text(v, 0.05) for v in (0.1, 0.15)]
    ['0.10', '0.15']
    >>> tick_text(25000, 5000)
    '25k'
    """
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e15 or size < 1e-4:
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    if step is None:
        return f"{value:.6g}"
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= 10 * scale and step >= scale / 1000:
            digits = max(0, -math.floor(math.log10(step / scale) + 1e-9))
            return f"{value / scale:.{digits}f}{unit}"
    return f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


class Scale:
    """Values of one axis and their places, from `start` to `end`."""

    def __init__(
        self, low: float, high: float, start: float, end: float, log: bool = False, count: int = 6
    ) -> None:
        if log:
            if not low > 0:
                raise ValueError("a logarithmic axis needs positive values")
            if low == high:
                low, high = low / 2, high * 2
        elif low == high:
            margin = abs(low) * 0.1 or 0.5
            low, high = low - margin, high + margin
        self.low, self.high, self.start, self.end, self.log = low, high, start, end, log
        self.ticks = log_ticks(low, high, count) if log else linear_ticks(low, high, count)
        step = None if log or len(self.ticks) < 2 else self.ticks[1] - self.ticks[0]
        self.labels = [tick_text(v, float(f"{step:.6g}") if step else None) for v in self.ticks]

    def place(self, value: float) -> float:
        f: Callable[[float], float] = math.log if self.log else float
        share = (f(value) - f(self.low)) / (f(self.high) - f(self.low))
        return self.start + share * (self.end - self.start)


def padded(low: float, high: float, log: bool, share: float = 0.05) -> tuple[float, float]:
    """A little more room around a range."""
    if low == high:
        return low, high
    if log:
        factor = (high / low) ** share
        return low / factor, high * factor
    room = (high - low) * share
    # an axis of losses should not begin below zero because of a margin
    return (0.0 if 0 <= low < 3 * room else low - room), high + room
