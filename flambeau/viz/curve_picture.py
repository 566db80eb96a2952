"""A plot as SVG, and as HTML with values under the pointer. Nothing is loaded from elsewhere.

Colours follow the reader's choice of light or dark. Curves of many points are thinned to what can
be seen: the first, last, lowest and highest point of each column of pixels.
"""

from __future__ import annotations

import itertools
import json
import math
from html import escape
from typing import Any

from flambeau.viz.axes import Scale, padded, tick_text
from flambeau.viz.histories import Series

LIGHT = ["#2f6fb3", "#d5622b", "#2a9161", "#8a5bb5", "#b8860b", "#c23b6b", "#3a8fa8", "#6b7280"]
DARK = ["#6fb1f0", "#f59a66", "#5fcf9b", "#bd94e8", "#e3b74a", "#f07fa8", "#6fc6de", "#a7b0bb"]
_COUNTER = itertools.count(1)

# In pictures colours are written out, as not every program knows variables; pages have both.
_PAPER = (
    {"paper": "#ffffff", "ink": "#2b333b", "soft": "#66717d", "grid": "#e6eaee", "line": "#a3adb8"},
    {"paper": "#15191d", "ink": "#e3e8ed", "soft": "#98a3ae", "grid": "#2a3138", "line": "#5a6570"},
)
_RULES = """
#ID text { font:12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill:SOFT; }
#ID .paper { fill:PAPER; } #ID .name { fill:INK; }
#ID .title { font-size:15px; font-weight:600; fill:INK; }
#ID .grid { stroke:GRID; stroke-width:1; } #ID .axis { stroke:LINE; stroke-width:1; }
"""
_SHAPES = """
#ID .curve { fill:none; stroke-width:1.8; stroke-linejoin:round; stroke-linecap:round; }
#ID .raw { stroke-width:1; opacity:0.28; }
"""


class _Frame:
    """Where things are: margins, scales, the legend."""

    def __init__(self, plot: Any) -> None:
        style = plot.style
        shown = [*plot.series, *plot.smoothed]
        values = [v for s in shown for v in s.y if _is_shown(v, style.log)]
        places = [x for s in plot.series for x in s.x]
        low, high = padded(min(values), max(values), style.log)
        top = 16 + (26 if style.title else 0)
        legend = self._legend(plot) if style.legend else []
        rows = 1 + max([row for _, row, _ in legend], default=-1)
        self.legend, self.legend_top = legend, top
        self.top, self.bottom = top + 20 * rows + (4 if rows else 0), style.height - 44
        self.y = Scale(low, high, self.bottom, self.top, style.log, max(3, style.height // 70))
        self.left = 34 + 7 * max(len(label) for label in self.y.labels)
        self.right = style.width - 18
        first, last = min(places), max(places)
        self.x = Scale(first, last, self.left, self.right, count=max(3, style.width // 90))

    @staticmethod
    def _legend(plot):
        """(x, row, name) of each entry, as many in a row as fit."""
        found, x, row = [], 0.0, 0
        for series in plot.series:
            name = series.name if len(series.name) <= 40 else series.name[:37] + "..."
            width = 30 + 7 * len(name) + 14
            if found and x + width > plot.style.width - 90:
                x, row = 0.0, row + 1
            found.append((x, row, name))
            x += width
        return found


def _is_shown(value, log):
    return math.isfinite(value) and (value > 0 or not log)


def _points(series: Series, frame: _Frame, log: bool) -> list[list[tuple[float, float]]]:
    """Runs of points on paper; values that cannot be shown make a gap."""
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(series.x, series.y):
        if _is_shown(y, log):
            runs[-1].append((frame.x.place(x), frame.y.place(y)))
        elif runs[-1]:
            runs.append([])
    return [_thinned(run) for run in runs if run]


def _thinned(run):
    """No more than four points for each column of pixels."""
    if len(run) < 3000:
        return run
    found = []
    for _, group in itertools.groupby(run, key=lambda point: int(point[0])):
        column = list(group)
        keep = {0, len(column) - 1}
        keep |= {f(range(len(column)), key=lambda k: column[k][1]) for f in (min, max)}
        found += [column[k] for k in sorted(keep)]
    return found


def _path(run):
    if len(run) == 1:  # a point alone is a dot: a line of no length with a round cap
        (x, y) = run[0]
        return f"M{x:.1f} {y:.1f}h0.01"
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in run)


def _rules(name: str, count: int, which: int) -> str:
    colours = (LIGHT, DARK)[which]
    text = _RULES.replace("#ID", "#" + name)
    for word, colour in _PAPER[which].items():
        text = text.replace(word.upper(), colour)
    return text + "\n".join(
        f"#{name} .s{k} {{ stroke:{colours[k % len(colours)]}; }}" for k in range(count)
    )


def _style(name: str, count: int) -> str:
    dark = f"@media (prefers-color-scheme: dark) {{{_rules(name, count, 1)}\n}}"
    return _rules(name, count, 0) + _SHAPES.replace("#ID", "#" + name) + dark


def _variables(name: str, count: int) -> str:
    """The same colours for the parts of a page that are not in the picture."""
    found = []
    for paper, colours in zip(_PAPER, (LIGHT, DARK)):
        words = [f"--{word}:{colour};" for word, colour in paper.items()]
        words += [f"--c{k}:{colours[k % len(colours)]};" for k in range(count)]
        found.append(f"#{name} {{ {' '.join(words)} }}")
    return f"{found[0]}\n@media (prefers-color-scheme: dark) {{ {found[1]} }}\n"


def draw(plot: Any, name: str | None = None) -> str:
    """The plot as SVG."""
    style, frame = plot.style, _Frame(plot)
    name = name or f"fb-plot-{next(_COUNTER)}"
    w, h = style.width, style.height
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" id="{name}" width="{w}" height="{h}" '
        f'viewBox="0 0 {w} {h}" role="img" aria-label="{escape(style.title or style.ylabel)}">',
        f"<style>{_style(name, len(plot.series))}</style>",
        f'<rect width="{w}" height="{h}" class="paper"/>',
    ]
    if style.title:
        parts.append(f'<text class="title" x="{frame.left}" y="26">{escape(style.title)}</text>')
    parts += _axes(frame, style)
    for k, (raw, soft) in enumerate(zip(plot.series, plot.smoothed)):
        lines = [(soft, "curve")]
        if style.smoothing:
            lines.insert(0, (raw, "curve raw"))
        for series, kind in lines:
            d = "".join(_path(run) for run in _points(series, frame, style.log))
            parts.append(f'<path class="{kind} s{k}" data-series="{k}" d="{d}"/>')
    for k, (x, row, text) in enumerate(frame.legend):
        at, y = frame.left + x, frame.legend_top + 20 * row + 6
        parts.append(
            f'<g class="key" data-series="{k}"><rect x="{at:.0f}" y="{y - 9}" height="18" '
            f'width="{30 + 7 * len(text)}" fill-opacity="0"/><path class="curve s{k}" '
            f'd="M{at:.0f} {y}h18"/><text class="name" x="{at + 25:.0f}" y="{y + 4}">'
            f"{escape(text)}</text></g>"
        )
    return "\n".join([*parts, "</svg>\n"])


def _axes(frame, style):
    for value, label in zip(frame.y.ticks, frame.y.labels):
        y = frame.y.place(value)
        yield f'<path class="grid" d="M{frame.left} {y:.1f}H{frame.right}"/>'
        yield f'<text x="{frame.left - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    for value, label in zip(frame.x.ticks, frame.x.labels):
        x = frame.x.place(value)
        yield f'<path class="axis" d="M{x:.1f} {frame.bottom}v4"/>'
        yield (f'<text x="{x:.1f}" y="{frame.bottom + 18}" text-anchor="middle">{label}</text>')
    yield f'<path class="axis" d="M{frame.left} {frame.bottom}H{frame.right}"/>'
    middle = (frame.left + frame.right) / 2
    yield (
        f'<text x="{middle:.0f}" y="{style.height - 8}" text-anchor="middle">'
        f"{escape(style.xlabel)}</text>"
    )
    up = (frame.top + frame.bottom) / 2
    yield (
        f'<text transform="translate(14 {up:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(style.ylabel)}</text>"
    )


# -- HTML ------------------------------------------------------------------------------------------

_MOST = 4000  # points of a curve that can be pointed at


def _data(plot: Any) -> str:
    """What the script needs, as JSON that cannot end the script it stands in."""
    frame, log = _Frame(plot), plot.style.log
    series = []
    for raw, soft in zip(plot.series, plot.smoothed):
        every = max(1, math.ceil(len(raw.x) / _MOST))
        rows = [
            [round(frame.x.place(x), 1), round(frame.y.place(s), 1), tick_text(x), f"{y:.6g}"]
            for x, y, s in itertools.islice(zip(raw.x, raw.y, soft.y), 0, None, every)
            if _is_shown(y, log) and _is_shown(s, log)
        ]
        series.append({"name": raw.name, "points": rows})
    facts = {"left": frame.left, "right": frame.right, "top": frame.top, "bottom": frame.bottom}
    text = json.dumps({"series": series, "step": plot.style.xlabel, **facts})
    return text.replace("</", "<\\/").replace("<!--", "<\\!--")


_SCRIPT = """
(() => {
const root = document.getElementById("ID"), svg = root.querySelector("svg"), data = DATA;
const tip = root.querySelector(".fb-tip"), hidden = new Set(), space = svg.namespaceURI;
const rule = svg.appendChild(document.createElementNS(space, "path"));
rule.setAttribute("class", "axis");
const dots = data.series.map((_, k) => {
  const dot = svg.appendChild(document.createElementNS(space, "circle"));
  dot.setAttribute("r", 4); dot.style.fill = `var(--c${k})`; dot.style.stroke = "var(--paper)";
  dot.style.display = "none"; return dot;
});
const nearest = (points, x) => {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle + 1; else high = middle;
  }
  if (low > 0 && x - points[low - 1][0] < points[low][0] - x) low--;
  return points[low];
};
const leave = () => {
  tip.style.display = "none"; rule.removeAttribute("d");
  for (const dot of dots) dot.style.display = "none";
};
svg.addEventListener("pointermove", e => {
  const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
  const x = (e.clientX - box.left) / scale, y = (e.clientY - box.top) / scale;
  if (x < data.left - 8 || x > data.right + 8 || y < data.top - 8 || y > data.bottom + 8)
    return leave();
  const rows = []; let at = null;
  data.series.forEach((one, k) => {
    const point = hidden.has(k) || !one.points.length ? null : nearest(one.points, x);
    dots[k].style.display = point ? "" : "none";
    if (!point) return;
    dots[k].setAttribute("cx", point[0]); dots[k].setAttribute("cy", point[1]);
    if (at === null || Math.abs(point[0] - x) < Math.abs(at[0] - x)) at = point;
    rows.push([k, one.name, point[3]]);
  });
  if (at === null) return leave();
  rule.setAttribute("d", `M${at[0]} ${data.top}V${data.bottom}`);
  tip.replaceChildren();
  const head = tip.appendChild(document.createElement("div"));
  head.textContent = `${data.step} ${at[2]}`;
  for (const [k, name, value] of rows) {
    const row = tip.appendChild(document.createElement("div"));
    const mark = row.appendChild(document.createElement("i"));
    mark.style.background = `var(--c${k})`;
    row.append(`${name} `); const b = document.createElement("b");
    b.textContent = value; row.append(b);
  }
  tip.style.display = "block";
  const right = at[0] > (data.left + data.right) / 2;
  tip.style.left = right ? "" : `${at[0] * scale + 14}px`;
  tip.style.right = right ? `${box.width - at[0] * scale + 14}px` : "";
  tip.style.top = `${data.top * scale}px`;
});
svg.addEventListener("pointerleave", leave);
for (const key of svg.querySelectorAll(".key")) {
  key.addEventListener("click", () => {
    const k = +key.dataset.series, off = !hidden.has(k);
    if (off) hidden.add(k); else hidden.delete(k);
    key.style.opacity = off ? 0.35 : "";
    for (const path of svg.querySelectorAll(`path.curve[data-series="${k}"]`))
      path.style.display = off ? "none" : "";
    leave();
  });
}
})();
"""

_TIP = """
#ID { position:relative; display:inline-block; max-width:100%; line-height:0; }
#ID svg { max-width:100%; height:auto; } #ID .key { cursor:pointer; }
#ID .fb-tip { display:none; position:absolute; pointer-events:none; line-height:1.5;
  font:12px system-ui, sans-serif; padding:6px 10px; border-radius:6px; white-space:nowrap;
  background:var(--paper); color:var(--ink); border:1px solid var(--line); }
#ID .fb-tip div:first-child { color:var(--soft); }
#ID .fb-tip i { display:inline-block; width:9px; height:9px; border-radius:5px;
  margin-right:6px; }
#ID .fb-tip b { font-variant-numeric:tabular-nums; }
"""


def fragment(plot: Any) -> str:
    """The plot as a piece of a page, with its script."""
    name = f"fb-curves-{next(_COUNTER)}"
    style = _variables(name, len(plot.series)) + _TIP.replace("#ID", "#" + name)
    script = _SCRIPT.replace('"ID"', f'"{name}"').replace("DATA", _data(plot), 1)
    return (
        f'<div id="{name}"><style>{style}</style>\n{draw(plot, name + "-svg")}'
        f'<div class="fb-tip"></div><script>{script}</script></div>\n'
    )


def page(plot: Any) -> str:
    """The plot as a page of its own."""
    title = escape(plot.style.title or plot.style.ylabel)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>body {{ margin:24px; background:#ffffff; }}"
        "@media (prefers-color-scheme: dark) { body { background:#15191d; } }</style></head>\n"
        f"<body>\n{fragment(plot)}</body></html>\n"
    )
