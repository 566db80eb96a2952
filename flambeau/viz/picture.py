"""Boxes and arrows as values, and their picture, one SVG.

Nothing is loaded from elsewhere and no program is called; `layout.py` finds the places. What the
boxes stand for is decided in `graph.py`, here they are text with a kind that has a colour. Pages
around pictures are in `page.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

from flambeau.viz.layout import layered


class Box(NamedTuple):
    """A box of the graph: what it says and what it stands for."""

    label: str
    kind: str = "op"  # or "leaf", "saved", "output", "base", "module"
    detail: str = ""  # more about it, for who asks


class Arrow(NamedTuple):
    """An arrow between two boxes, by their keys."""

    tail: str
    head: str
    kind: str = "flow"  # or "saved", which has no head; or "view", dotted


@dataclass
class Graph:
    """Boxes by key, arrows, and the objects whose ids the keys are."""

    boxes: dict[str, Box] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)
    # An id is free for reuse once its object is gone; saved tensors are often made on demand.
    alive: list[Any] = field(default_factory=list)

    def key(self, thing) -> str:
        """A key for an object, which stays alive as long as the graph."""
        self.alive.append(thing)
        return str(id(thing))


_FONT = 12
_CHARACTER = 0.602 * _FONT  # the width of one in the usual monospaced fonts
_LINE = 1.35 * _FONT
_PADDING = (12, 7)

# kind: (fill, border, text) by light and by dark, and what the legend says
COLOURS = {
    "leaf": (("#d9edfb", "#5a9fd4", "#123a5a"), ("#17364d", "#4a8fc4", "#cfe7fb"), "leaf"),
    "op": (("#eef0f2", "#a3adb8", "#2b333b"), ("#262c32", "#5a6570", "#dde3e9"), "operation"),
    "module": (("#ece6f7", "#9c86c9", "#38265f"), ("#32284a", "#8a74b8", "#e4daf8"), "module"),
    "saved": (
        ("#ffe6c4", "#e8a13a", "#5a3a08"),
        ("#4a3413", "#c98a2c", "#ffe3b8"),
        "kept for backward",
    ),
    "base": (("#c3dfa8", "#5f8f3a", "#24400f"), ("#2c431b", "#6fa346", "#dcf0c8"), "viewed tensor"),
    "output": (("#dcf3c8", "#7ab648", "#24400f"), ("#2a4217", "#7ab648", "#dff5cc"), "output"),
}


def _kinds(which):
    return "".join(
        f".fb-{kind} rect {{ fill: {colours[which][0]}; stroke: {colours[which][1]}; }} "
        f".fb-{kind} {{ fill: {colours[which][2]}; }}\n"
        for kind, colours in COLOURS.items()
    )


_STYLE = f"""
.fb-paper {{ fill: #ffffff; }}
.fb-text {{ font: {_FONT}px "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
.fb-name {{ font-weight: 600; }}
.fb-edge {{ fill: none; stroke: #8793a0; stroke-width: 1.3; }}
.fb-to-saved {{ stroke: #e8a13a; stroke-dasharray: 5 3; }}
.fb-to-view {{ stroke-dasharray: 1.5 3.5; stroke-linecap: round; }}
{_kinds(0)}@media (prefers-color-scheme: dark) {{
.fb-paper {{ fill: #15191d; }}
{_kinds(1)}}}
"""


def _lines(box: Box) -> list[str]:
    """The lines of a label; a tensor without a name is its shape alone."""
    return [line.rstrip() for line in box.label.split("\n") if line.strip()] or [""]


def _size(box: Box) -> tuple[float, float]:
    lines = _lines(box)
    across, down = _PADDING
    width = max(len(line) for line in lines) * _CHARACTER + 2 * across
    return max(width, 44.0), len(lines) * _LINE + 2 * down


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _pair(point) -> str:
    return " ".join(map(_number, point))


def _slope(before: float, after: float) -> float:
    """Where two steps meet: their harmonic mean, which the gentler one decides; 0 at a turn."""
    # So a bend starts only after the edge has passed the boxes beside the point.
    return 2 * before * after / (before + after) if before * after > 0 else 0.0


def _curve(points) -> str:
    """A smooth SVG path through the points from top to bottom, vertical at both ends."""
    steps = [(x1 - x0) / (y1 - y0) for (x0, y0), (x1, y1) in pairwise(points)]
    slopes = [0.0, *(_slope(a, b) for a, b in pairwise(steps)), 0.0]
    parts = ["M" + _pair(points[0])]
    for i, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        reach = (y1 - y0) * 0.45
        first = (x0 + reach * slopes[i], y0 + reach)
        second = (x1 - reach * slopes[i + 1], y1 - reach)
        parts.append(f"C{_pair(first)} {_pair(second)} {_pair((x1, y1))}")
    return "".join(parts)


def _box_svg(key, box, place) -> str:
    lines = _lines(box)
    left, top = place.x - place.width / 2, place.y - place.height / 2
    table = len(lines) > 2
    x = left + _PADDING[0] if table else place.x
    anchor = "" if table else ' text-anchor="middle"'
    texts = []
    for i, line in enumerate(lines):
        y = top + _PADDING[1] + (i + 0.76) * _LINE
        name = " fb-name" if i == 0 and len(lines) > 1 else ""
        # Runs of blanks line up the columns of a table; SVG would fold them into one.
        text = escape(line if table else line.strip()).replace(" ", "\u00a0")
        texts.append(
            f'<text class="fb-text{name}" x="{_number(x)}" y="{_number(y)}"{anchor}>{text}</text>'
        )
    more = f' data-detail="{escape(box.detail)}"' if box.detail else ""
    return (
        f'<g class="fb-{box.kind}" data-key="{escape(key)}"{more}>'
        f'<rect x="{_number(left)}" y="{_number(top)}" width="{_number(place.width)}" '
        f'height="{_number(place.height)}" rx="5"/>{"".join(texts)}</g>'
    )


def _arrow_svg(arrow, points, name) -> str:
    kind = "" if arrow.kind == "flow" else f" fb-to-{arrow.kind}"
    head = "" if arrow.kind == "saved" else f' marker-end="url(#{name}-head)"'
    return (
        f'<path class="fb-edge{kind}" d="{_curve(points)}"{head} '
        f'data-tail="{escape(arrow.tail)}" data-head="{escape(arrow.head)}"/>'
    )


def draw(graph: Graph, name: str = "fb") -> str:
    """The graph as a self-contained SVG; pictures of one page need different names."""
    sizes = {key: _size(box) for key, box in graph.boxes.items()}
    flow = [arrow for arrow in graph.arrows if arrow.kind != "saved"]
    saved = [arrow for arrow in graph.arrows if arrow.kind == "saved"]
    found = layered(
        sizes,
        [(arrow.tail, arrow.head) for arrow in flow],
        [(arrow.tail, arrow.head) for arrow in saved],
    )
    width, height = _number(found.width), _number(found.height)
    arrows = zip([*flow, *saved], found.routes, strict=True)
    body = [
        *(_arrow_svg(arrow, points, name) for arrow, points in arrows),
        *(_box_svg(key, box, found.places[key]) for key, box in graph.boxes.items()),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="autograd graph">\n'
        f"<style>{_STYLE}</style>\n"
        f'<defs><marker id="{name}-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0.8 8 4 0 7.2z" fill="#8793a0"/>'
        "</marker></defs>\n"
        f'<rect class="fb-paper" width="{width}" height="{height}"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )
