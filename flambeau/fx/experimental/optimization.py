"""Graphs made faster for inference: batch norms folded into what is before them."""

import copy
from collections.abc import Iterable
from typing import Any

from flambeau import nn
from flambeau.fx._symbolic_trace import Tracer, symbolic_trace
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
]

_PATTERNS: list[tuple[tuple[type, type], Any]] = [
    ((nn.Conv1d, nn.BatchNorm1d), fuse_conv_bn_eval),
    ((nn.Conv2d, nn.BatchNorm2d), fuse_conv_bn_eval),
    ((nn.Conv3d, nn.BatchNorm3d), fuse_conv_bn_eval),
    ((nn.Linear, nn.BatchNorm1d), fuse_linear_bn_eval),
]


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Is a node a call of the second of two kinds of modules, on the result of the first?"""
    if not node.args or not isinstance(node.args[0], Node):
        return False
    for kind, called in zip(pattern, (node.args[0], node)):
        if called.op != "call_module" or type(modules.get(called.target)) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: nn.Module) -> None:
    """Let a node call another module."""
    above, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[above], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """The same model with batch norms folded into the layers before them; for inference.

    Example:
        >>> from flambeau import nn
        >>> from flambeau.fx.experimental.optimization import fuse
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
        >>> [type(m).__name__ for m in fuse(model).children()]
        ['Conv2d', 'ReLU']
    """
    if not inplace:
        model = copy.deepcopy(model)
    module: Any = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(module.named_modules())
    graph = copy.deepcopy(module.graph)
    for pattern, fused in _PATTERNS:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules):
                continue
            before = node.args[0]
            if len(before.users) > 1:  # its result is needed without the norm
                continue
            norm = modules[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(before, modules, fused(modules[before.target], norm))
            node.replace_all_uses_with(before)
            graph.erase_node(node)
    return GraphModule(module, graph)


def remove_dropout(model: nn.Module) -> nn.Module:
    """The same model without dropout."""
    traced = symbolic_trace(model)
    modules = dict(traced.named_modules())
    for node in traced.graph.nodes:
        if node.op == "call_module" and isinstance(modules[node.target], nn.Dropout):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    return GraphModule(traced, traced.graph)


def extract_subgraph(
    orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """A module of some nodes, with values that come in and go out."""
    graph, values = Graph(), {}
    for node in inputs:
        values[node] = graph.placeholder(node.name)
    for node in nodes:
        values[node] = graph.node_copy(node, lambda n: values[n])
    graph.output([values[n] for n in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(
    model: nn.Module, pass_config: dict[str, Any] | None = None, tracer: type = Tracer
) -> nn.Module:
    """The same model without dropout and with batch norms folded in."""
    chosen = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if chosen["remove_dropout"]:
        model = remove_dropout(model)
    if chosen["conv_bn_fuse"]:
        model = fuse(model)
    return model
