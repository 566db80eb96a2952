"""What passes share: kinds of nodes, and nodes in an order in which they can run."""

import heapq

from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.fx.passes.operator_support import (
    CALLABLE_NODE_OPS,
    get_node_target,
    is_node_output_tensor,
)

__all__ = [
    "CALLABLE_NODE_OPS",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]


def legalize_graph(gm: GraphModule) -> GraphModule:
    """The same nodes, each behind those that it needs; a cycle is an error."""
    return _sorted(gm, by_place=False)


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """The same, and nodes stay where they are as far as that is possible."""
    return _sorted(gm, by_place=True)


def _sorted(gm, by_place):
    nodes = list(gm.graph.nodes)
    place = {node: k for k, node in enumerate(nodes)}
    missing = {node: len(node.all_input_nodes) for node in nodes}
    ready = [(_rank(node, place[node], by_place), node) for node in nodes if not missing[node]]
    heapq.heapify(ready)
    graph, made, count = Graph(), {}, 0
    while ready:
        _, node = heapq.heappop(ready)
        made[node] = graph.node_copy(node, made.__getitem__)
        for user in node.users:
            missing[user] -= 1
            if not missing[user]:
                count += 1
                order = place[user] if by_place else len(nodes) + count
                heapq.heappush(ready, (_rank(user, order, by_place), user))
    if len(made) < len(nodes):
        left = [node for node in nodes if node not in made]
        raise RuntimeError(f"Input graph has cycles, unable to add {left}")
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


def _rank(node: Node, order: int, by_place: bool) -> tuple[bool, bool, int]:
    """Inputs come first, the output last; others by order."""
    return node.op == "output", not by_place and node.op not in ("placeholder", "get_attr"), order
