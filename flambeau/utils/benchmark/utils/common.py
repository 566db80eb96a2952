"""What was measured, what it was about, and how times are written.

A `Measurement` is a few times of a number of runs each; its statistics are those of one run.
"""

import contextlib
import dataclasses
import math
import statistics
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import flambeau

__all__ = ["Measurement", "TaskSpec", "select_unit", "trim_sigfig", "unit_to_english"]

_MAX_SIGNIFICANT_FIGURES = 4
_MIN_CONFIDENCE_INTERVAL = 25e-9  # seconds; clocks tell no more
_IQR_WARN_THRESHOLD = 0.1
_IQR_GROSS_WARN_THRESHOLD = 0.25
_Z = 1.645  # 90 % of a normal distribution lie within so many deviations
_UNITS = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What is measured: the statement and the words that tables name it by."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement where there is none."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        name = f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}"
        return f"{name}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """The setup, if there is any."""
        if not self.setup or self.setup == "pass":
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup, each on its own lines."""
        parts = [part for part in (self.title, self.description, self.setup_str()) if part]
        return "\n".join(f"{p}\n" if p.startswith(("stmt:\n", "setup:\n")) else p for p in parts)


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """Times of a task: each of raw_times is that of number_per_run runs, in seconds."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds of one run, as they were measured."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The distance of the quartiles."""
        low, high = self._quartiles()
        return high - low

    def _quartiles(self) -> tuple[float, float]:
        ordered = sorted(self.times)
        return _quantile(ordered, 0.25), _quantile(ordered, 0.75)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median may be believed, from the times between the quartiles."""
        ordered = sorted(self.times)
        count = len(ordered)
        inner = ordered[count // 4 : math.ceil(3 * count / 4)]
        deviation = statistics.pstdev(inner)
        interval = max(_Z * deviation / math.sqrt(len(inner)), _MIN_CONFIDENCE_INTERVAL)
        believed = -math.log10(interval / self.median)
        return max(1, min(math.floor(believed), _MAX_SIGNIFICANT_FIGURES))

    @property
    def has_warnings(self) -> bool:
        return self.iqr / self.median > _IQR_WARN_THRESHOLD

    def meets_confidence(self, threshold: float = _IQR_WARN_THRESHOLD) -> bool:
        """Do the quartiles lie close together, compared to the median?"""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def env(self) -> str | None:
        return self.task_spec.env

    @property
    def as_row_name(self) -> str:
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        lines = [object.__repr__(self).replace("flambeau.", "torch."), self.task_spec.summarize()]
        return "\n".join(lines + self._told())

    def _told(self) -> list[str]:
        unit, scale = select_unit(self.median)
        count, threads = len(self.raw_times), self.task_spec.num_threads
        many = "s" if count > 1 else ""
        lines = [f"  {'Median: ' if many else ''}{self.median / scale:.2f} {unit}"]
        if count > 3:
            low, high = (q / scale for q in self._quartiles())
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        lines.append(
            f"  {count} measurement{many}, {self.number_per_run} runs "
            f"{'per measurement' if many else ''}, {threads} thread{'s' if threads > 1 else ''}"
        )
        share = self.iqr / self.median
        if share > _IQR_WARN_THRESHOLD:
            gross = share > _IQR_GROSS_WARN_THRESHOLD
            cause = "suggests significant environmental influence"
            lines += [
                f"  WARNING: Interquartile range is {share * 100:.1f}% of the median measurement.",
                f"           This {cause if gross else 'could indicate system fluctuation'}.",
            ]
        return lines

    @staticmethod
    def merge(measurements: Iterable["Measurement"]) -> list["Measurement"]:
        """One measurement for each task, of single runs."""
        by_task: dict[TaskSpec, list[float]] = {}
        for m in measurements:
            by_task.setdefault(m.task_spec, []).extend(m.times)
        return [Measurement(1, times, task, None) for task, times in by_task.items()]


def _quantile(ordered: list[float], q: float) -> float:
    """A quantile, between its two neighbours by distance."""
    place = q * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time is written, and its length in seconds."""
    power = math.floor(math.log10(t) / 3 + 1e-9)
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(power, "s")
    return unit, {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def unit_to_english(u: str) -> str:
    """The name of a unit."""
    return _UNITS[u]


def trim_sigfig(x: float, n: int) -> float:
    """x with n digits that count."""
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    if x == 0:
        return 0.0
    scale = 10.0 ** (math.ceil(math.log10(abs(x))) - n)
    return round(x / scale) * scale


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Elements without those that came before."""
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Compute with so many threads."""
    before = flambeau.get_num_threads()
    try:
        flambeau.set_num_threads(n)
        yield
    finally:
        flambeau.set_num_threads(before)
