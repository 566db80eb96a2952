"""Parts of a graph that look like a pattern, replaced by something else."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from flambeau.fx._symbolic_trace import symbolic_trace
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule, _copy_attr
from flambeau.fx.node import Node
from flambeau.nn import Module

if TYPE_CHECKING:
    from flambeau.fx.passes.utils.matcher_utils import InternalMatch

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """Where a pattern was found: its last node in the graph, and which node is which."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """The same, with the nodes that came instead."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable | GraphModule, replacement: Callable | GraphModule
) -> list[Match]:
    """Replace what looks like one function by what another does; gives what was found.

    Example:
        >>> from flambeau import fx
        >>> gm = fx.symbolic_trace(lambda x: flambeau.relu(x) + 1)
        >>> _ = fx.replace_pattern(gm, lambda x: flambeau.relu(x), lambda x: flambeau.sigmoid(x))
        >>> print(gm.code.strip())
        def forward(self, x):
            sigmoid = torch.sigmoid(x);  x = None
            add = sigmoid + 1;  sigmoid = None
            return add
    """
    return [Match(m.anchor, m.nodes_map) for m in _replace_pattern(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable | Graph | GraphModule,
    replacement: Callable | Graph | GraphModule | None = None,
    match_filters: list[Callable[["InternalMatch", Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    *,
    replacement_callback: Callable[["InternalMatch", Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """The same where all filters agree; a callback may choose the replacement of each place."""
    return _replace_pattern(
        gm, pattern, replacement, match_filters, ignore_literals, replacement_callback,
        node_name_match,
    )  # fmt: skip


def _graph_of(what):
    if isinstance(what, GraphModule):
        return what.graph
    return what if isinstance(what, Graph) else symbolic_trace(what).graph


def _replace_pattern(
    gm, pattern, replacement, filters=None, ignore_literals=False, callback=None, name_match=""
):
    from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher

    graph, wanted = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(wanted, ignore_literals=ignore_literals)
    found = matcher.match(graph, node_name_match=name_match)
    agree = lambda match: all(keep(match, graph, wanted) for keep in filters or ())
    found = [match for match in found if agree(match)]
    if replacement is None and callback is None:
        raise AssertionError("Must provide either replacement or replacement_callback")
    fixed = None if replacement is None else _graph_of(replacement)
    results, changed = [], {}
    for match in found:
        new = callback(match, graph, wanted) if callback else fixed
        results.append(_replace(gm, match, wanted, new, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_attributes(gm, replacement)
    return results


def _replace(gm, match, wanted, new, changed):
    """Put a copy of a graph in the place of a match."""
    graph = gm.graph
    given = [n for n in new.nodes if n.op == "placeholder"]
    if len(given) != len(match.placeholder_nodes):
        raise AssertionError(
            f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(given)}"
        )
    values = {}
    for node, value in zip(given, match.placeholder_nodes):
        values[node] = changed.get(value, value) if isinstance(value, Node) else value
    for node, value in list(match.nodes_map.items()):
        if isinstance(value, Node):
            match.nodes_map[node] = changed.get(value, value)
    before = set(graph.nodes)
    with graph.inserting_before(_place(match)):
        results = graph.graph_copy(new, values)
    replacements = [n for n in graph.nodes if n not in before]
    results = results if isinstance(results, (tuple, list)) else (results,)
    if len(results) != len(match.returning_nodes):
        raise AssertionError(
            f"Expected {len(match.returning_nodes)} results, the replacement has {len(results)}"
        )
    for old, result in zip(match.returning_nodes, results):
        old.replace_all_uses_with(result)
        changed[old] = result
    anchor = match.anchors[0]
    named = dict(match.nodes_map)
    for node in reversed(wanted.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(anchor, named, replacements)


def _place(match):
    """The first node that uses a result, before which the replacement goes."""
    users = [user for node in match.returning_nodes for user in node.users]
    return min(users) if users else max(match.returning_nodes).next


def _take_attributes(gm, replacement):
    """Modules and parameters of the replacement move in, unused ones go."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        held = node.op in ("call_module", "get_attr")
        if held and not _holds(gm, node.target) and _holds(replacement, node.target):
            _copy_attr(replacement, gm, node.target)
    gm.graph.lint()


def _holds(module, path):
    value: Any = module
    for name in path.split("."):
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return True
