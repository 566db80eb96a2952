"""The graph that backward will follow, as boxes and arrows: `make_dot`, in the manner of torchviz.

`backward_graph` walks from the outputs along `grad_fn.next_functions` and returns plain values;
`make_dot` writes them into a `graphviz.Digraph`, or into that of `dot.py` where the package is
missing; `graph_svg` and `graph_html` hand them to `picture.py`, which needs no other program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import flambeau
from flambeau.viz import dot as dot_language
from flambeau.viz.page import page
from flambeau.viz.picture import Arrow, Box, Graph, draw

__all__ = ["graph_html", "graph_svg", "make_dot"]

_SAVED = "_saved_"


# Reading nodes.


def _saved_of(node):
    """(name, value) of what a node keeps for its backward, under the names PyTorch gives them."""
    found = []
    for name in dir(node):
        if name.startswith(_SAVED):
            try:
                value = getattr(node, name)
            except RuntimeError:
                value = "[freed]"
            if not callable(value):
                name = name.removeprefix(_SAVED)
                plain = not str(node.name()).startswith(_WITH_INPUT)
                found.append((_NAMES.get(name, name) if plain else name, value))
    return sorted(found, key=lambda pair: pair[0])


_NAMES = {"input": "self", "out": "result"}
# formulas of layers call their first argument input there, too
_WITH_INPUT = ("Convolution", "Native", "Cudnn", "Embedding", "Linear", "Addmm", "Rnn")


def _is_tensor(value) -> bool:
    return isinstance(value, flambeau.Tensor)


def _saved_tensors(node, named: bool):
    """(name, tensor) for each tensor a node keeps; without names those of custom Functions."""
    kept = list(_saved_of(node))
    if not kept:
        try:
            yield from (("", t) for t in getattr(node, "saved_tensors", ()))
        except RuntimeError:
            return  # backward has freed them
    for name, value in kept if named else ():
        if _is_tensor(value):
            yield name, value
        elif isinstance(value, tuple | list):
            yield from ((f"{name}[{i}]", t) for i, t in enumerate(value) if _is_tensor(t))


def _attribute_text(value) -> str:
    if _is_tensor(value):
        return "[saved tensor]"
    if isinstance(value, tuple | list) and any(map(_is_tensor, value)):
        return "[saved tensors]"
    return str(value)


def _node_name(node) -> str:
    return str(node.name()).rsplit("::", 1)[-1]


def _node_label(node, show_attrs: bool, max_attr_chars: int) -> str:
    """The name of a node, over a table of its attributes if they are wanted."""
    name = _node_name(node)
    rows = [(key, _attribute_text(value)) for key, value in _saved_of(node)] if show_attrs else []
    if not rows:
        return name
    keys = max(len(key) for key, _ in rows)
    values = min(max(len(value) for _, value in rows), max(max_attr_chars, 3))
    lines = [name, "-" * max(keys + values + 2, len(name))]
    for key, value in rows:
        shown = value if len(value) <= values else value[: values - 3] + "..."
        lines.append(f"{key:<{keys}}: {shown:>{values}}")
    return "\n".join(lines)


def _node_detail(node) -> str:
    """What a node keeps, one line each."""
    lines = []
    for name, value in _saved_of(node):
        if _is_tensor(value):
            value = f"tensor {tuple(value.size())} {value.dtype}"
        text = str(value)
        lines.append(f"{name}: {text if len(text) <= 200 else text[:197] + '...'}")
    return "\n".join(lines)


def _tensor_label(name: str, t) -> str:
    return f"{name}\n ({', '.join(map(str, t.size()))})"


# Walking.


class _Walk:
    """Fills a Graph from outputs upwards. A loop with its own stack: graphs can be very deep."""

    def __init__(self, params, show_attrs, show_saved, max_attr_chars, details=False):
        named = dict(params or {})
        if not all(map(_is_tensor, named.values())):
            raise TypeError("params must map names to tensors, as dict(model.named_parameters())")
        self.names = {id(t): name for name, t in named.items()}
        self.graph = Graph()
        self.show_saved = show_saved
        self.style, self.details = (show_attrs, max_attr_chars), details
        self.leaves: dict = {}

    def output(self, t, kind="output"):
        """An output, the graph above it, and the tensor it is a view of."""
        while True:
            key = self.graph.key(t)
            if key in self.graph.boxes:
                return
            self.graph.boxes[key] = Box(_tensor_label(self.names.get(id(t), ""), t), kind)
            if t.grad_fn is not None:
                self.nodes(t.grad_fn)
                self.graph.arrows.append(Arrow(self.graph.key(t.grad_fn), key))
            if not t._is_view() or t._base is None:
                return
            t, kind = t._base, "base"
            self.graph.arrows.append(Arrow(self.graph.key(t), key, "view"))

    def nodes(self, start):
        """A node and everything above it, in the order of the arguments."""
        stack, visited = [start], []
        while stack:
            node = stack.pop()
            key = self.graph.key(node)
            if key in self.graph.boxes:
                continue
            detail = _node_detail(node) if self.details else ""
            self.graph.boxes[key] = Box(_node_label(node, *self.style), "op", detail)
            visited.append(node)
            leaf = getattr(node, "variable", None)
            if leaf is not None:
                self.leaf(leaf, key)
            above = [up for up, _ in getattr(node, "next_functions", ()) if up is not None]
            self.graph.arrows += (Arrow(self.graph.key(up), key) for up in above)
            stack.extend(reversed(above))
        for node in visited:
            self.saved(node)

    def leaf(self, t, node_key):
        key = self.graph.key(t)
        self.graph.boxes[key] = Box(_tensor_label(self.names.get(id(t), ""), t), "leaf")
        self.graph.arrows.append(Arrow(key, node_key))
        self.leaves[self.memory(t)] = key

    def memory(self, t):
        """What two tensors share when they show the same elements."""
        where = 0 if t.is_meta or t.numel() == 0 else t.data_ptr()
        return (where, t.dtype, tuple(t.size()), tuple(t.stride())) if where else id(t)

    def saved(self, node):
        """The tensors a node keeps: always those of a custom Function, the rest if wanted."""
        for name, t in _saved_tensors(node, self.show_saved):
            memory = self.memory(t)
            key = self.leaves.get(memory)
            if key is None:
                key = self.leaves[memory] = self.graph.key(t)
                self.graph.boxes[key] = Box(_tensor_label(name, t), "saved")
            self.graph.arrows.append(Arrow(self.graph.key(node), key, "saved"))


def backward_graph(
    var,
    params: Mapping | Iterable | None = None,
    show_attrs: bool = False,
    show_saved: bool = False,
    max_attr_chars: int = 50,
    details: bool = False,
) -> Graph:
    """The boxes and arrows of the graph behind `var`; arguments as for `make_dot`."""
    walk = _Walk(params, show_attrs, show_saved, max_attr_chars, details)
    for t in var if isinstance(var, tuple | list) else (var,):
        walk.output(t)
    return walk.graph


def _digraph(**options):
    """A graph of the graphviz package if it is there: it knows other formats and layouts."""
    try:
        return import_module("graphviz").Digraph(**options)
    except ImportError:
        return dot_language.Digraph(**options)


def _size(statements: int) -> str:
    """torchviz lets the page grow with the graph: 0.15 inches a statement, 12 at least."""
    side = max(12, statements * 0.15)
    return f"{side},{side}"


def make_dot(
    var,
    params: Mapping | Iterable | None = None,
    show_attrs: bool = False,
    show_saved: bool = False,
    max_attr_chars: int = 50,
):
    """The autograd graph behind `var` as a `graphviz.Digraph` (or our own without graphviz).

    Leaves are blue, operations grey, outputs green, tensors kept for backward orange.

    Args:
        var: a tensor, or several in a tuple.
        params: names for leaves, e.g. ``dict(model.named_parameters())``.
        show_attrs: list what each operation keeps besides tensors.
        show_saved: show the tensors that each operation keeps.
        max_attr_chars: cut attribute values to this many characters.

    Example:
        >>> import flambeau as torch
        >>> x = torch.ones(3, requires_grad=True)
        >>> print("MulBackward0" in make_dot((x * x).sum(), {"x": x}).source)
        True
    """
    graph = backward_graph(var, params, show_attrs, show_saved, max_attr_chars)
    node_attr = {
        "style": "filled",
        "shape": "box",
        "align": "left",
        "fontsize": "10",
        "ranksep": "0.1",
        "height": "0.2",
        "fontname": "monospace",
    }
    dot = _digraph(node_attr=node_attr)
    for key, box in graph.boxes.items():
        fill = {"fillcolor": dot_language.FILL[box.kind]} if box.kind in dot_language.FILL else {}
        dot.node(key, box.label, **fill)
    for arrow in graph.arrows:
        dot.edge(arrow.tail, arrow.head, **dot_language.LINE[arrow.kind])
    dot.graph_attr["size"] = _size(len(dot.body))
    return dot


# Our own pictures.


def _without_accumulators(graph: Graph) -> Graph:
    """The graph with each leaf joined to the operations that use it, past its AccumulateGrad."""
    leaf_of = {
        arrow.head: arrow.tail
        for arrow in graph.arrows
        if arrow.kind == "flow" and graph.boxes[arrow.tail].kind == "leaf"
    }
    boxes = {key: box for key, box in graph.boxes.items() if key not in leaf_of}
    arrows = [
        arrow._replace(tail=leaf_of.get(arrow.tail, arrow.tail))
        for arrow in graph.arrows
        if arrow.head not in leaf_of
    ]
    return Graph(boxes, arrows, graph.alive)


def graph_svg(var, params: Mapping | Iterable | None = None, **options: Any) -> str:
    """The autograd graph behind `var` as a self-contained SVG, drawn without other programs.

    Arguments as for `make_dot`; a leaf is joined to the operations that use it.

    Example:
        >>> import flambeau as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> graph_svg((w * 3).sum(), params={"w": w})[:4]
        '<svg'
    """
    return draw(_without_accumulators(backward_graph(var, params, **options)))


def graph_html(
    var, params: Mapping | Iterable | None = None, *, title: str = "autograd graph", **options: Any
) -> str:
    """The picture of `graph_svg` in a self-contained page: zoom, search, details on a click.

    If parameters have names such as `layer1.0.weight`, operations can be gathered by module.

    Example:
        >>> import flambeau as torch
        >>> w = torch.ones(2, requires_grad=True)
        >>> "fb-op" in graph_html((w * 3).sum(), params={"w": w}, title="a product")
        True
    """
    graph = backward_graph(var, params, **options, details=True)
    return page(_without_accumulators(graph), title)
