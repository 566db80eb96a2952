"""Loss curves: `plot_losses`, and the picture it gives.

A `Plot` is data and wishes; it becomes SVG or HTML without any other package (curve_picture.py),
and PNG through matplotlib.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from flambeau.viz import curve_picture
from flambeau.viz.histories import Series, read_history


class Style(NamedTuple):
    """How a plot looks."""

    title: str | None
    xlabel: str
    ylabel: str
    log: bool
    smoothing: float
    width: int
    height: int
    legend: bool


def plot_losses(
    history: Any,
    keys: Iterable[str] | None = None,
    *,
    smoothing: float = 0.0,
    log: bool = False,
    title: str | None = None,
    xlabel: str | None = None,
    ylabel: str = "loss",
    width: int = 720,
    height: int = 420,
    legend: bool | None = None,
    path: str | os.PathLike | None = None,
) -> Plot:
    """Curves of losses, or of other numbers, over the steps of training.

    The result shows itself in notebooks; `save` writes it as .svg, .html (values appear under the
    pointer) or .png.

    Args:
        history: numbers; a dictionary of lists; a list of dictionaries, one per step or epoch; or
            a file: .csv, .json, .jsonl, a folder of TensorBoard.
        keys: which series, in which order; all of them by default.
        smoothing: from 0 to 1, how much of the mean of earlier values there is in each point of
            the densest curve; the raw curves stay visible behind.
        log: a logarithmic axis of values.
        path: save it there at once.

    Example:
        >>> from flambeau import viz
        >>> plot = viz.plot_losses({"train": [2.0, 1.2, 0.9], "test": [2.1, 1.5, 1.3]})
        >>> plot.svg().startswith("<svg")
        True
    """
    if not 0.0 <= smoothing < 1.0:
        raise ValueError(f"plot_losses: smoothing must be in [0, 1), not {smoothing}")
    if width < 200 or height < 120:
        raise ValueError("plot_losses: a picture should be at least 200 wide and 120 high")
    series, step = read_history(history, keys)
    style = Style(
        title,
        step if xlabel is None else xlabel,
        ylabel,
        log,
        smoothing,
        width,
        height,
        len(series) > 1 if legend is None else legend,
    )
    found = Plot(series, style)
    if path is not None:
        found.save(path)
    return found


class Plot:
    """A plot: `svg()`, `html()`, `save(path)`; notebooks show it."""

    def __init__(self, series: list[Series], style: Style) -> None:
        self.series, self.style = series, style
        values = [v for s in series for v in s.y if math.isfinite(v) and (v > 0 or not style.log)]
        if not values:
            what = "positive numbers" if style.log else "finite numbers"
            raise ValueError(f"plot_losses: the history holds no {what}")
        most = max(density(s) for s in series)
        self.smoothed = [
            # a curve of one point per epoch is not smoothed like one of a point per batch
            smooth(s, style.smoothing ** (most / density(s)) if style.smoothing else 0.0)
            for s in series
        ]

    def svg(self) -> str:
        """The plot as a self-contained SVG."""
        return curve_picture.draw(self)

    def html(self) -> str:
        """The plot as a self-contained page with values under the pointer."""
        return curve_picture.page(self)

    def save(self, path: str | os.PathLike) -> str:
        """Write a file of the kind its ending names: .svg, .html or .png; returns the path."""
        kind = Path(path).suffix.lower()
        if kind == ".svg":
            Path(path).write_text(self.svg(), encoding="utf-8")
        elif kind in (".html", ".htm"):
            Path(path).write_text(self.html(), encoding="utf-8")
        elif kind == ".png":
            self._save_png(path)
        else:
            raise ValueError(
                f"a plot is saved as .svg, .html or .png, not as {kind or 'nothing'!r}"
            )
        return os.fspath(path)

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return curve_picture.fragment(self)

    def __repr__(self) -> str:
        names = ", ".join(f"{s.name} ({len(s.y)})" for s in self.series)
        return f"Plot({names})"

    def _save_png(self, path):
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError(
                "a .png picture of a plot needs the matplotlib package: pip install matplotlib; "
                ".svg and .html need nothing"
            ) from error
        style = self.style
        figure = Figure((style.width / 100, style.height / 100), dpi=200, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        colours = curve_picture.LIGHT
        for k, (raw, soft) in enumerate(zip(self.series, self.smoothed)):
            colour = colours[k % len(colours)]
            if style.smoothing:
                axes.plot(raw.x, raw.y, color=colour, alpha=0.25, linewidth=1)
            axes.plot(soft.x, soft.y, color=colour, linewidth=1.6, label=raw.name)
        if style.log:
            axes.set_yscale("log")
        axes.set_xlabel(style.xlabel)
        axes.set_ylabel(style.ylabel)
        axes.grid(color="#e6eaee")
        axes.spines[["top", "right"]].set_visible(False)
        if style.title:
            axes.set_title(style.title)
        if style.legend:
            axes.legend(frameon=False)
        figure.savefig(path)


def density(series: Series) -> float:
    """Points per step."""
    span = max(series.x) - min(series.x)
    return (len(series.x) - 1) / span if span > 0 else 1e-9


def smooth(series: Series, share: float) -> Series:
    """Each value mixed with the mean of those before it, without a bias towards the first."""
    if not share:
        return series
    total = weight = 0.0
    y = []
    for value in series.y:
        if math.isfinite(value):
            total = share * total + (1 - share) * value
            weight = share * weight + (1 - share)
            y.append(total / weight)
        else:
            y.append(value)
    return Series(series.name, series.x, y)
