"""`with torch.no_grad()` in a program: those nodes become a graph that runs without gradients."""

import operator
from typing import Any

from flambeau._higher_order_ops.grad_mode import wrap_with_set_grad_enabled
from flambeau.fx.experimental.recorder import placeholder
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.nn import Module


def wrap_regions(graph: Graph, root: Module, ambient: bool) -> None:
    """Put nodes that were recorded in another mode than the program's into graphs of their own."""
    regions: list[list[Node]] = []
    open_region = False
    for node in graph.nodes:
        if node.op not in ("call_function", "get_attr"):
            open_region = False
            continue
        mode = node.meta.pop("grad_enabled", ambient)
        if node.target is operator.getitem and open_region and node.args[0] in regions[-1]:
            mode = not ambient
        if mode is ambient:
            open_region = False
            continue
        if not open_region:
            regions.append([])
        regions[-1].append(node)
        open_region = True
    for number, nodes in enumerate(regions):
        _wrap(graph, root, nodes, not ambient, f"submod_{2 * number + 1}")


def _wrap(graph, root, nodes, mode, name):
    mine = set(nodes)
    given: dict[Node, None] = {}
    for node in nodes:
        map_arg((node.args, node.kwargs), lambda n: given.setdefault(n) if n not in mine else n)
    results = [n for n in nodes if any(user not in mine for user in n.users)]
    inner = Graph()
    values: dict[Node, Any] = {}
    for node in given:
        values[node] = placeholder(inner, node.name)
        values[node].meta.update(node.meta)
    for node in nodes:
        values[node] = inner.node_copy(node, lambda n: values[n])
    inner.output(tuple(values[n] for n in results))
    root.add_module(name, GraphModule(root, inner))
    with graph.inserting_after(nodes[-1]):
        module = graph.create_node("get_attr", name)
    with graph.inserting_after(module):
        call = graph.create_node(
            "call_function", wrap_with_set_grad_enabled, (mode, module, *given), {}, nodes[-1].name
        )
    call.meta["val"] = tuple(n.meta["val"] for n in results)
    _share_place(call, nodes[-1])
    last = call
    for k, node in enumerate(results):
        with graph.inserting_after(last):
            last = part = graph.call_function(operator.getitem, (call, k))
        part.meta["val"] = node.meta["val"]
        _share_place(part, node)
        for user in list(node.users):
            if user not in mine:
                user.replace_input_with(node, part)
    for node in reversed(nodes):
        graph.erase_node(node)


def _share_place(node, other):
    for key in ("stack_trace", "nn_module_stack"):
        if key in other.meta:
            node.meta[key] = other.meta[key]
