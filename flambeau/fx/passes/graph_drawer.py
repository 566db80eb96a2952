"""FxGraphDrawer: a graph as boxes and arrows, in the DOT language."""

from typing import Any

from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, _format_arg
from flambeau.viz.dot import Digraph

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "AliceBlue",
    "call_module": "LemonChiffon1",
    "get_attr": "LightGrey",
    "output": "PowderBlue",
}
_SHADES = [
    "CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1",
    "LavenderBlush1", "LightSkyBlue", "MistyRose1", "MistyRose2", "PaleTurquoise2",
    "PeachPuff1", "Salmon", "Thistle1", "Thistle3", "Wheat1",
]  # fmt: skip


class Drawing(Digraph):
    """A graph in DOT, with the names that pydot's graphs have."""

    def to_string(self) -> str:
        """The text."""
        return self.source

    def create_svg(self) -> bytes:
        """A picture."""
        return self._repr_svg_().encode()

    def write_svg(self, path: Any) -> bool:
        """Write the picture."""
        with open(path, "wb") as file:
            file.write(self.create_svg())
        return True

    def write(self, path: Any) -> bool:
        """Write the text."""
        with open(path, "w") as file:
            file.write(self.source)
        return True

    write_raw = write_dot = write


class FxGraphDrawer:
    """Draws a graph module, and graph modules within it.

    Example:
        >>> from flambeau import fx
        >>> from flambeau.fx.passes.graph_drawer import FxGraphDrawer
        >>> gm = fx.symbolic_trace(lambda x: x + 1)
        >>> "operator.add" in FxGraphDrawer(gm, "small").get_dot_graph().to_string()
        True
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        self._name = name
        self.dot_graph_shape = dot_graph_shape or "record"
        self.normalize_args = normalize_args
        self.ignore_getattr = ignore_getattr or ignore_parameters_and_buffers
        self.skips_names, self.shows_places = skip_node_names_in_args, parse_stack_trace
        self._dot_graphs = {name: self._draw(graph_module, name)}
        for child, module in graph_module.named_children():
            if isinstance(module, GraphModule):
                below = f"{name}_{child}"
                inner = FxGraphDrawer(module, below, ignore_getattr)
                self._dot_graphs.update(inner._dot_graphs)

    def get_dot_graph(self, submod_name: str | None = None) -> Drawing:
        """The drawing of the module, or of one within it."""
        return self._dot_graphs[self._name if submod_name is None else submod_name]

    def get_main_dot_graph(self) -> Drawing:
        """The drawing of the module."""
        return self._dot_graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> Drawing:
        """The drawing of a module within it."""
        return self._dot_graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Drawing]:
        """All of them, by name."""
        return self._dot_graphs

    def _draw(self, module, name):
        drawing = Drawing(name)
        for node in module.graph.nodes:
            if self.ignore_getattr and node.op == "get_attr":
                continue
            style = {"shape": self.dot_graph_shape, "style": "filled", "fillcolor": _color(node)}
            drawing.node(node.name, self._label(module, node), **style)
            for used in node.all_input_nodes:
                if not (self.ignore_getattr and used.op == "get_attr"):
                    drawing.edge(used.name, node.name)
        return drawing

    def _label(self, module, node):
        lines = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            called = module.get_submodule(node.target)
            lines.append(type(called).__module__ + "." + type(called).__name__)
            lines += [f"{k}: {getattr(called, k)}" for k in getattr(called, "__constants__", ())
                      if hasattr(called, k)]  # fmt: skip
        else:
            lines.append(f"target={node._pretty_print_target(node.target)}")
            if node.args and not self.skips_names:
                lines.append(f"args={_format_arg(node.args, 10)}")
            if node.kwargs:
                lines.append(f"kwargs={_format_arg(node.kwargs)}")
        lines.append(f"num_users={len(node.users)}")
        meta = node.meta.get("tensor_meta")
        if hasattr(meta, "memory_format"):
            lines += [f"dtype={meta.dtype}", f"shape={tuple(meta.shape)}",
                      f"requires_grad={meta.requires_grad}", f"stride={meta.stride}"]  # fmt: skip
        if self.shows_places and node.stack_trace:
            lines.append(node.stack_trace.strip().split("\n")[-1].strip())
        return "\n".join(lines)


def _color(node: Node) -> str:
    if node.op in _COLORS:
        return _COLORS[node.op]
    # the same function always has the same colour
    number = sum(map(ord, node._pretty_print_target(node.target)))
    return _SHADES[number % len(_SHADES)]
