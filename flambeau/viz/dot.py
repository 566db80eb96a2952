"""A directed graph in the DOT language, for where the graphviz package is not installed.

`Digraph` answers to the part of `graphviz.Digraph` that users of torchviz call, writes the same
text, and draws through `picture.py` instead of the `dot` program.
"""

from __future__ import annotations

import os
import pathlib
import re

from flambeau.viz.picture import Arrow, Box, Graph, draw

# The colours of torchviz, and how a line of each kind is written.
FILL = {
    "leaf": "lightblue",
    "saved": "orange",
    "output": "darkolivegreen1",
    "base": "darkolivegreen3",
}
LINE: dict[str, dict[str, str]] = {
    "flow": {},
    "saved": {"dir": "none"},
    "view": {"style": "dotted"},
}
_KIND = {colour: kind for kind, colour in FILL.items()}

# Names and numbers stand as they are in DOT, and so do <...> labels; the rest needs quotes.
_BARE = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*|-?(\.[0-9]+|[0-9]+(\.[0-9]*)?))\Z")
_RESERVED = {"node", "edge", "graph", "digraph", "subgraph", "strict"}


def _quote(text: str) -> str:
    if _BARE.match(text) and text.lower() not in _RESERVED:
        return text
    return '"' + re.sub(r'(?<!\\)((?:\\\\)*)"', r"\1\\" + '"', text) + '"'


def _attributes(label, options) -> str:
    pairs = [] if label is None else [f"label={_quote(label)}"]
    pairs += [f"{_quote(key)}={_quote(value)}" for key, value in sorted(options.items())]
    return f" [{' '.join(pairs)}]" if pairs else ""


class Digraph:
    """A directed graph in the DOT language: the part of `graphviz.Digraph` that people use here.

    `source` and `save` give the text; `render` and notebooks draw an SVG with our own layout.
    """

    def __init__(self, name=None, comment=None, filename=None, directory=None, format="svg",
                 graph_attr=None, node_attr=None, edge_attr=None):  # fmt: skip
        self.name, self.comment = name, comment
        self.filename = filename or f"{name or 'Digraph'}.gv"
        self.directory, self.format = directory or "", format
        self.graph_attr = dict(graph_attr or {})
        self.node_attr = dict(node_attr or {})
        self.edge_attr = dict(edge_attr or {})
        self.body: list[str] = []
        self._graph = Graph()

    def node(self, name: str, label: str | None = None, **attrs: str) -> None:
        """Add a box, or change one."""
        self.body.append(f"\t{_quote(name)}{_attributes(label, attrs)}\n")
        text = name if label is None else label
        self._graph.boxes[name] = Box(text, _KIND.get(attrs.get("fillcolor", ""), "op"))

    def edge(self, tail_name: str, head_name: str, label: str | None = None, **attrs: str) -> None:
        """Add an arrow; its ends become boxes if they are not yet."""
        ends = f"{_quote(tail_name)} -> {_quote(head_name)}"
        self.body.append(f"\t{ends}{_attributes(label, attrs)}\n")
        for end in (tail_name, head_name):
            self._graph.boxes.setdefault(end, Box(end, "op"))
        kind = "saved" if attrs.get("dir") == "none" else "flow"
        kind = "view" if attrs.get("style") == "dotted" else kind
        self._graph.arrows.append(Arrow(tail_name, head_name, kind))

    def attr(self, kw: str | None = None, **attrs: str) -> None:
        """Set attributes of the graph, or of every node or edge."""
        vars(self)[f"{kw or 'graph'}_attr"].update(attrs)

    @property
    def source(self) -> str:
        """The text in the DOT language."""
        name = f"{_quote(self.name)} " if self.name else ""
        lines = [f"// {self.comment}\n"] if self.comment else []
        lines.append(f"digraph {name}{{\n")
        for kind in ("graph", "node", "edge"):
            options = vars(self)[f"{kind}_attr"]
            if options:
                lines.append(f"\t{kind}{_attributes(None, options)}\n")
        return "".join([*lines, *self.body, "}\n"])

    def __str__(self) -> str:
        return self.source

    def _path(self, filename, directory) -> pathlib.Path:
        path = pathlib.Path(directory or self.directory, filename or self.filename)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def save(self, filename=None, directory=None) -> str:
        """Write the DOT text; returns the path."""
        path = self._path(filename, directory)
        path.write_text(self.source, encoding="utf-8")
        return os.fspath(path)

    def render(self, filename=None, directory=None, view=False, cleanup=False, format=None) -> str:
        """Write the DOT text and beside it the picture as SVG; returns the path of the picture."""
        if (format or self.format) != "svg":
            raise ValueError(
                f"cannot render {format or self.format!r} here: without the graphviz package "
                "pictures are drawn as 'svg'"
            )
        text = pathlib.Path(self.save(filename, directory))
        picture = text.with_name(text.name + ".svg")
        picture.write_text(draw(self._graph), encoding="utf-8")
        if cleanup:
            text.unlink()
        return os.fspath(picture)

    def _repr_svg_(self) -> str:
        return draw(self._graph)
