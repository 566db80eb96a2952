"""Sets of nodes become submodules."""

import itertools
import operator
from collections.abc import Iterable

from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg

__all__ = ["fuse_by_partitions", "topo_sort", "validate_partition"]


def topo_sort(nodes: Iterable[Node]) -> list[Node]:
    """Nodes in the order of their graph."""
    return sorted(nodes)


def validate_partition(partition: Iterable[Node]) -> bool:
    """Can these nodes be one? Not if something outside lies between them."""
    inside = set(partition)
    waiting = [user for node in inside for user in node.users if user not in inside]
    seen = set(waiting)
    while waiting:
        for user in waiting.pop().users:
            if user in inside:
                return False
            if user not in seen:
                seen.add(user)
                waiting.append(user)
    return True


def fuse_by_partitions(
    gm: GraphModule,
    partitions: list[dict[Node, int | None]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Put each set of nodes into a submodule; the graph is changed in place."""
    for number, partition in enumerate(partitions):
        nodes = topo_sort(partition)
        if not validate_partition(nodes):
            raise RuntimeError("Invalid partition, found dependency cycles")
        _fuse(gm, nodes, f"{prefix}{number}", always_return_tuple)
    _sort(gm.graph)
    gm.recompile()
    return gm


def _fuse(gm, nodes, name, always_tuple):
    mine = set(nodes)
    inner, values, given = Graph(), {}, []

    def look(node):
        if node not in values:
            values[node] = inner.placeholder(node.name, node.type)
            values[node].meta.update(node.meta)
            given.append(node)
        return values[node]

    for node in nodes:
        values[node] = inner.node_copy(node, look)
    results = [n for n in nodes if any(user not in mine for user in n.users)]
    found = tuple(values[n] for n in results)
    inner.output(found[0] if len(found) == 1 and not always_tuple else found)
    gm.add_submodule(name, GraphModule(gm, inner, name))
    with gm.graph.inserting_after(nodes[-1]):
        call = gm.graph.call_module(name, tuple(given))
    if len(results) == 1 and not always_tuple:
        results[0].replace_all_uses_with(call, lambda user: user not in mine)
    else:
        for k, node in reversed(list(enumerate(results))):
            with gm.graph.inserting_after(call):
                part = gm.graph.call_function(operator.getitem, (call, k))
            node.replace_all_uses_with(part, lambda user: user not in mine)
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def _sort(graph):
    """Put nodes after those they use, as a fused call may have come to stand too late."""
    placed: set[Node] = set()
    order: list[Node] = []

    def place(node):
        if node in placed:
            return
        placed.add(node)
        map_arg((node.args, node.kwargs), lambda n: place(n) or n)
        order.append(node)

    for node in list(graph.nodes):
        place(node)
    for before, node in itertools.pairwise(order):
        before.append(node)
