"""A graph as one self-contained HTML page: zoom, move, search, details, levels of modules.

Every level of detail (grouping.py) is a picture of its own, laid out here; the page shows one at a
time. The script asks nothing of any other place.
"""

from __future__ import annotations

from html import escape

from flambeau.viz.grouping import levels
from flambeau.viz.picture import COLOURS, Graph, draw

_READABLE = 160  # boxes: larger graphs are first shown by modules

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%(title)s</title>
<style>
:root { --paper: #ffffff; --ink: #2b333b; --soft: #7a8591; --line: #dde2e7; --found: #d5622b;
  --panel: #f7f8fa; %(light)s }
@media (prefers-color-scheme: dark) { :root { --paper: #15191d; --ink: #e3e8ed; --soft: #98a3ae;
  --line: #333b43; --found: #f59a66; --panel: #1c2126; %(dark)s } }
html, body { height: 100%%; margin: 0; background: var(--paper); color: var(--ink);
  font: 14px system-ui, sans-serif; }
body { display: flex; flex-direction: column; }
header { display: flex; flex-wrap: wrap; gap: 6px 16px; align-items: center;
  padding: 8px 16px; border-bottom: 1px solid var(--line); }
h1 { font-size: 15px; margin: 0 6px 0 0; }
.swatch { display: inline-block; width: 12px; height: 12px; margin-right: 6px;
  border: 1px solid; border-radius: 3px; vertical-align: -1px; }
.tools { margin-left: auto; display: flex; gap: 8px; align-items: center; color: var(--soft); }
input, select, button { font: inherit; color: var(--ink); background: var(--panel);
  border: 1px solid var(--line); border-radius: 6px; padding: 3px 8px; }
input { width: 12em; } button { cursor: pointer; min-width: 2.2em; }
#count { min-width: 4em; font-variant-numeric: tabular-nums; }
section { flex: 1; display: flex; min-height: 0; }
main { flex: 1; overflow: hidden; cursor: grab; touch-action: none; min-width: 0; }
main svg { transform-origin: 0 0; overflow: visible; position: absolute; display: none; }
main svg.shown { display: block; }
main { position: relative; }
main g[data-key] { cursor: pointer; }
.far { opacity: 0.2; }
main g.found rect { stroke: var(--found); stroke-width: 3; }
main g.chosen rect { stroke: var(--ink); stroke-width: 2.5; }
aside { width: 300px; overflow: auto; border-left: 1px solid var(--line);
  background: var(--panel); padding: 12px 16px; display: none; }
aside.shown { display: block; }
aside h2 { font-size: 14px; margin: 0 0 4px; overflow-wrap: anywhere; }
aside h3 { font-size: 12px; margin: 12px 0 2px; color: var(--soft); font-weight: 600; }
aside pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere;
  font: 12px ui-monospace, Menlo, Consolas, monospace; }
aside a { display: block; color: inherit; cursor: pointer; overflow-wrap: anywhere;
  font: 12px ui-monospace, Menlo, Consolas, monospace; padding: 1px 0; }
aside a:hover { text-decoration: underline; }
</style>
</head>
<body>
<header><h1>%(title)s</h1>%(legend)s
<div class="tools">%(choice)s<input id="search" type="search" placeholder="search"
 aria-label="search"><span id="count"></span><button id="out" title="smaller">&minus;</button>
<button id="in" title="larger">+</button><button id="fit" title="see all of it">fit</button></div>
</header>
<section><main>
%(svgs)s</main><aside></aside></section>
<script>
"use strict";
const main = document.querySelector("main"), aside = document.querySelector("aside");
const views = [...main.querySelectorAll("svg")].map(svg => ({
  svg, size: [svg.width.baseVal.value, svg.height.baseVal.value], at: null,
  boxes: new Map([...svg.querySelectorAll("g[data-key]")].map(b => [b.dataset.key, b])),
  paths: [...svg.querySelectorAll(".fb-edge")],
}));
let view = views[0], scale = 1, x = 0, y = 0;
const place = () => {
  view.svg.style.transform = `translate(${x}px,${y}px) scale(${scale})`; view.at = [scale, x, y];
};
const whole = () => {
  scale = Math.min(1, main.clientWidth / view.size[0], main.clientHeight / view.size[1]);
  x = (main.clientWidth - view.size[0] * scale) / 2;
  y = Math.max(0, (main.clientHeight - view.size[1] * scale) / 2); place();
};
const readable = () => {
  scale = Math.min(1, Math.max(main.clientWidth / view.size[0], 0.45));
  x = (main.clientWidth - view.size[0] * scale) / 2; y = 0; place();
};
const zoom = (by, cx, cy) => {
  by = Math.min(Math.max(scale * by, 0.02), 8) / scale;
  x = cx - (cx - x) * by; y = cy - (cy - y) * by; scale *= by; place();
};
const show = number => {
  view.svg.classList.remove("shown"); view = views[number]; view.svg.classList.add("shown");
  aside.classList.remove("shown");
  if (view.at) { [scale, x, y] = view.at; place(); } else readable();
  search.dispatchEvent(new Event("input"));
};
main.addEventListener("wheel", e => {
  const box = main.getBoundingClientRect();
  zoom(Math.exp(-e.deltaY * 0.0015), e.clientX - box.left, e.clientY - box.top);
  e.preventDefault();
}, { passive: false });
let moved = 0;
main.addEventListener("pointerdown", () => { moved = 0; });
main.addEventListener("pointermove", e => {
  if (e.buttons) {
    moved += Math.abs(e.movementX) + Math.abs(e.movementY);
    x += e.movementX; y += e.movementY; place();
  }
});
main.addEventListener("dblclick", whole);
document.getElementById("fit").onclick = whole;
const centre = () => [main.clientWidth / 2, main.clientHeight / 2];
document.getElementById("in").onclick = () => zoom(1.3, ...centre());
document.getElementById("out").onclick = () => zoom(1 / 1.3, ...centre());
const go = key => {
  const rect = view.boxes.get(key).querySelector("rect"), of = n => rect[n].baseVal.value;
  scale = Math.max(scale, 0.8);
  x = main.clientWidth / 2 - (of("x") + of("width") / 2) * scale;
  y = main.clientHeight / 2 - (of("y") + of("height") / 2) * scale; place();
};
const text = box => [...box.querySelectorAll("text")].map(t => t.textContent).join("\\n")
  .replaceAll("\\u00a0", " ");
const dim = near => {
  for (const [key, box] of view.boxes) box.classList.toggle("far", near && !near.has(key));
};
const choose = key => {
  for (const box of view.boxes.values()) box.classList.remove("chosen");
  const box = view.boxes.get(key); box.classList.add("chosen");
  aside.replaceChildren(); aside.classList.add("shown");
  const lines = text(box).split("\\n"), add = (tag, words) => {
    const element = aside.appendChild(document.createElement(tag));
    element.textContent = words; return element;
  };
  add("h2", lines[0]);
  if (lines.length > 1) add("pre", lines.slice(1).join("\\n"));
  if (box.dataset.detail) {
    add("h3", box.classList.contains("fb-module") ? "holds" : "keeps");
    add("pre", box.dataset.detail);
  }
  for (const [title, here, there] of [["from", "head", "tail"], ["to", "tail", "head"]]) {
    const links = view.paths.filter(p => p.dataset[here] === key).map(p => p.dataset[there]);
    if (links.length) add("h3", title);
    for (const other of new Set(links)) {
      const link = add("a", text(view.boxes.get(other)).split("\\n").slice(0, 2).join(" "));
      link.onclick = () => { choose(other); go(other); };
    }
  }
};
for (const one of views) {
  for (const [key, box] of one.boxes) {
    box.addEventListener("pointerenter", () => {
      const near = new Set([key]);
      for (const { dataset: d } of one.paths) {
        if (d.tail === key) near.add(d.head);
        if (d.head === key) near.add(d.tail);
      }
      dim(near);
      for (const p of one.paths)
        p.classList.toggle("far", p.dataset.tail !== key && p.dataset.head !== key);
    });
    box.addEventListener("pointerleave", () => {
      dim(null); for (const p of one.paths) p.classList.remove("far");
    });
    box.addEventListener("click", () => { if (moved < 5) choose(key); });
  }
}
const search = document.getElementById("search"), count = document.getElementById("count");
let hits = [], hit = -1;
search.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  hits = []; hit = -1;
  for (const [key, box] of view.boxes) {
    const yes = wanted && text(box).toLowerCase().includes(wanted);
    box.classList.toggle("found", Boolean(yes)); if (yes) hits.push(key);
  }
  const high = key => view.boxes.get(key).querySelector("rect").y.baseVal.value;
  hits.sort((a, b) => high(a) - high(b));
  count.textContent = wanted ? `${hits.length} found` : "";
});
search.addEventListener("keydown", e => {
  if (e.key === "Enter" && hits.length) {
    hit = (hit + (e.shiftKey ? hits.length - 1 : 1)) %% hits.length;
    choose(hits[hit]); go(hits[hit]); count.textContent = `${hit + 1} of ${hits.length}`;
  }
  if (e.key === "Escape") { search.value = ""; search.dispatchEvent(new Event("input")); }
});
const level = document.getElementById("level");
if (level) level.onchange = () => show(+level.value);
show(%(first)d);
</script>
</body>
</html>
"""


def page(graph: Graph, title: str) -> str:
    """The graph as a page; large ones are first shown by modules."""
    shown = levels(graph)
    few = [k for k, (_, level) in enumerate(shown) if len(level.boxes) <= _READABLE]
    first = max(few) if few else 0
    kinds = {box.kind for _, level in shown for box in level.boxes.values()}
    legend = "".join(
        f'<span><i class="swatch" style="background:var(--{kind});border-color:var(--{kind}-line)">'
        f"</i>{colours[2]}</span>"
        for kind, colours in COLOURS.items()
        if kind in kinds
    )
    choice = ""
    if len(shown) > 1:
        entries = "".join(
            f'<option value="{k}"{" selected" * (k == first)}>{escape(name)} '
            f"({len(level.boxes)})</option>"
            for k, (name, level) in enumerate(shown)
        )
        choice = f'<select id="level" aria-label="level of detail">{entries}</select>'
    light, dark = (
        " ".join(
            f"--{kind}: {colours[which][0]}; --{kind}-line: {colours[which][1]};"
            for kind, colours in COLOURS.items()
        )
        for which in (0, 1)
    )
    return _PAGE % {
        "title": escape(title),
        "legend": legend,
        "choice": choice,
        "svgs": "".join(draw(level, f"fb{k}") for k, (_, level) in enumerate(shown)),
        "first": first,
        "light": light,
        "dark": dark,
    }
