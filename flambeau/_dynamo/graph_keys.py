"""Graphs that are the same: what was compiled for one serves for another that differs in sizes."""

from typing import Any

from flambeau.fx.graph import Graph
from flambeau.fx.node import Node


def graph_key(graph: Graph, attributes: dict[str, Any]) -> tuple | None:
    """Equal for graphs that do the same with their inputs; None if that cannot be told."""
    numbers: dict[Node, int] = {}
    rows: list[tuple] = [(name, id(held), _parameters(held)) for name, held in attributes.items()]
    for number, node in enumerate(graph.nodes):
        numbers[node] = number
        target = None if node.op == "placeholder" else node.target
        rows.append((node.op, target, _frozen(node.args, numbers), _frozen(node.kwargs, numbers)))
    key = tuple(rows)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _parameters(held: Any) -> tuple:
    """The parameters of an optimizer: with others it does other things to gradients."""
    groups = getattr(held, "param_groups", ())
    return tuple(id(p) for group in groups for p in group["params"])


def _frozen(value: Any, numbers: dict[Node, int]) -> Any:
    """Arguments as something that compares: 1, 1.0 and True differ, and so do zeros of any sign."""
    if isinstance(value, Node):
        return "node", numbers[value]
    if isinstance(value, (tuple, list)):
        return type(value).__name__, *[_frozen(v, numbers) for v in value]
    if isinstance(value, dict):
        return "dict", *[(k, _frozen(v, numbers)) for k, v in value.items()]
    if isinstance(value, slice):
        return "slice", *[_frozen(v, numbers) for v in (value.start, value.stop, value.step)]
    if isinstance(value, (float, complex)):
        return type(value), repr(value)
    return type(value), value
