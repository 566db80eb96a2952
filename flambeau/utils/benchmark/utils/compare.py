"""Compare: measurements as a table, a column for each description."""

import enum
import math
from collections.abc import Iterable
from typing import NamedTuple

from flambeau.utils.benchmark.utils import common

__all__ = ["Colorize", "Compare"]

BEST, GOOD, BAD, VERY_BAD = "\033[92m", "\033[34m", "\033[2m\033[91m", "\033[31m"
BOLD, TERMINATE = "\033[1m", "\033[0m"
# how many times the best a time may be, and how it is shown then
_SHADES = ((1.001, BEST + BOLD), (1.1, GOOD + BOLD), (2, ""), (5 - 1e-9, BAD))
_VARIANCE = (
    "(! XX%) Measurement has high variance, where XX is the IQR / median * 100."
)  # fmt: skip


class Colorize(enum.Enum):
    """Whether the best of a column, or of a row, are shown."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class _Row(NamedTuple):
    threads: int
    env: str | None
    name: str


class Compare:
    """A table of measurements: one for each label, rows by sub_label, columns by description.

    Example:
        >>> from flambeau.utils.benchmark import Compare, Measurement, TaskSpec
        >>> task = TaskSpec("x", "pass", label="L", sub_label="row", description="col")
        >>> print(Compare([Measurement(1, [2e-3], task)]))
        [------ L ------]
                   | col
        1 threads: ------
              row  | 2.0
        <BLANKLINE>
        Times are in milliseconds (ms).
        <BLANKLINE>
    """

    def __init__(self, results: list[common.Measurement]) -> None:
        self._results: list[common.Measurement] = []
        self.extend_results(results)
        self._trim, self._warn, self._colorize = False, False, Colorize.NONE

    def extend_results(self, results: Iterable[common.Measurement]) -> None:
        """Take more measurements in."""
        results = list(results)
        for result in results:
            if not isinstance(result, common.Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(result)} instead."
                )
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show only digits that may be believed."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Show which are the best, down columns or along rows."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Tell of measurements that vary much."""
        self._warn = True

    def print(self) -> None:
        print(str(self))

    def __str__(self) -> str:
        merged = common.Measurement.merge(self._results)
        labels = common.ordered_unique(m.label for m in merged)
        return "\n".join(
            self._table(label or "", [m for m in merged if m.label == label]) for label in labels
        )

    def _table(self, label: str, results: list[common.Measurement]) -> str:
        unit, scale = common.select_unit(min(m.median for m in results))
        rows = common.ordered_unique(_row_of(m) for m in results)
        rows.sort(key=lambda row: (row.threads, row.env or ""))
        columns = common.ordered_unique(m.description for m in results)
        found = {(_row_of(m), m.description): m for m in results}
        texts = {}
        for column in columns:
            texts.update(
                self._column(column, {row: found.get((row, column)) for row in rows}, scale)
            )
        names = _names(rows)
        width = max(len(name) for name in names)
        head = [" " * width, *((column or "").center(texts[column]) for column in columns)]
        lines = [_joined(head)]
        for k, (row, name) in enumerate(zip(rows, names)):
            if not k or row.threads != rows[k - 1].threads:
                lines.append(f"{row.threads} threads: ".ljust(len(lines[0]), "-"))
            cells = []
            for column in columns:
                text = texts[row, column].center(texts[column])
                cells.append(self._shaded(text, found.get((row, column)), row, column, results))
            lines.append(_joined([name.ljust(width), *cells]))
        title = f" {label} ".center(len(lines[0]) - 2, "-")
        foot = ["", f"Times are in {common.unit_to_english(unit)}s ({unit})."]
        if self._warn and any(m.has_warnings for m in results):
            foot.append(_VARIANCE)
        return "\n".join([f"[{title}]", *lines, *foot, ""])

    def _column(self, column, cells, scale) -> dict:
        """(row, column) -> text, and column -> its width."""
        numbers = {row: m.median / scale for row, m in cells.items() if m is not None}
        places = 1
        if self._trim:
            figures = {row: cells[row].significant_figures for row in numbers}
            left = [figures[row] - math.ceil(math.log10(x)) for row, x in numbers.items()]
            numbers = {row: common.trim_sigfig(x, figures[row]) for row, x in numbers.items()}
            places = max([0, *left])
        texts = {row: f"{x:.{places}f}" for row, x in numbers.items()}
        wide = max(map(len, texts.values()))
        notes = {row: self._note(cells[row]) for row in texts}
        longest = max(map(len, notes.values()))
        texts = {row: text.rjust(wide) + notes[row].ljust(longest) for row, text in texts.items()}
        result: dict = {(row, column): texts.get(row, "") for row in cells}
        result[column] = max(len(column or ""), wide + longest)
        return result

    def _note(self, m: common.Measurement) -> str:
        if not self._warn or not m.has_warnings:
            return ""
        return f" (! {m.iqr / m.median * 100:.0f}%)"

    def _shaded(self, text, m, row, column, results) -> str:
        if m is None or self._colorize is Colorize.NONE:
            return text
        if self._colorize is Colorize.ROWWISE:
            others = [o for o in results if _row_of(o) == row]
        else:
            others = [
                o for o in results if o.description == column and o.num_threads == row.threads
            ]
        times = m.median / min(o.median for o in others)
        shade = next((shade for most, shade in _SHADES if times <= most), VERY_BAD + BOLD)
        return f"{shade}{text}{TERMINATE}{TERMINATE}" if shade else text


def _row_of(m: common.Measurement) -> _Row:
    return _Row(m.num_threads, m.task_spec.env, m.as_row_name)


def _names(rows: list[_Row]) -> list[str]:
    """Names of rows, behind their environment where that is a new one."""
    envs = ["" if row.env is None else f"({row.env})" for row in rows]
    wide = max(map(len, envs)) or 2
    names = []
    for k, row in enumerate(rows):
        same = k and rows[k - 1][:2] == row[:2]
        names.append(f"  {('' if same else envs[k]).ljust(wide)}  {row.name}")
    return names


def _joined(cells: list[str]) -> str:
    return "  |  ".join(cells)
