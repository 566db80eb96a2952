"""Sizes of the values of a graph; one kind of call exchanged for another."""

from typing import Any, NamedTuple

from flambeau._tensor import Tensor
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, Target
from flambeau.fx.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = [
    "get_size_of_all_nodes",
    "get_size_of_node",
    "get_tensor_meta",
    "replace_target_nodes_with",
    "size_bytes",
]


class size_bytes(NamedTuple):
    """Bytes of the result, and with parameters."""

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Exchange all nodes of one kind and target for another kind and target."""
    exchanged = Graph()
    here: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        here[node] = twin = exchanged.node_copy(node, here.__getitem__)
        if (twin.op, twin.target) == (old_op, old_target):
            twin.op, twin.target, twin.meta = new_op, new_target, {}
    fx_module.graph = exchanged


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Tensor] | None = None) -> None:
    """Note with every node how many bytes it takes; run the module first if there are arguments."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)  # type: ignore[attr-defined]


def get_tensor_meta(node: Node) -> Any:
    """What ShapeProp noted."""
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation "
            "has run."
        )
    return meta


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """Bytes of a node's result, and together with the parameters of its module."""
    total = 0
    if node.op == "call_module":
        module = fx_module.get_submodule(node.target)
        total += sum(p.numel() * p.element_size() for p in module.parameters())
        total += sum(b.numel() * b.element_size() for b in module.buffers())
    meta = get_tensor_meta(node)
    own = _bytes(meta) if isinstance(meta, TensorMetadata) else sum(map(_bytes, meta))
    return size_bytes(own, total + own)


def _bytes(meta):
    return meta.shape.numel() * meta.dtype.itemsize
