"""What a model can do before it runs: constant parts are computed, unused ones are left out."""

from typing import Any

from flambeau.onnx import operators
from flambeau.onnx.operators.values import array_of, tensor_of
from flambeau.onnx.protobufs import onnx

__all__ = ["folded"]

# Cheap ops without attributes that hold graphs, whose results are not larger than what they read.
FOLDABLE = {
    "Add", "Cast", "Concat", "Div", "Gather", "Mul", "Neg", "Reciprocal", "Reshape", "Shape",
    "Slice", "Sqrt", "Squeeze", "Sub", "Transpose", "Unsqueeze",
}  # fmt: skip


def folded(proto: Any, weights: dict[str, Any], training: bool) -> None:
    """Both, in place. Weights that are to be trained stay as they are."""
    graph = proto.graph
    version = next(entry.version for entry in proto.opset_import if entry.domain == "")
    learnt = {name for name, value in weights.items() if not hasattr(value, "tobytes")}
    kept = []
    for node in graph.node:
        barred = learnt if training else set()
        if not fold(node, weights, barred, version):
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    drop_unused(graph, weights)


def fold(node: Any, weights: dict[str, Any], barred: set[str], version: int) -> bool:
    """Compute one node whose inputs are all known. Could it be?"""
    names = list(node.input)
    if node.op_type not in FOLDABLE or node.domain or len(node.output) != 1:
        return False
    if not names or any(name not in weights or name in barred for name in names if name):
        return False
    handler = operators.find("", node.op_type, version)
    if handler is None:
        return False
    inputs = [tensor_of(array_of(weights[name])) if name else None for name in names]
    options = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    value = handler.run(*inputs, **options)
    weights[node.output[0]] = value.contiguous()
    return True


def drop_unused(graph: Any, weights: dict[str, Any]) -> None:
    """Nodes and weights that no output needs."""
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if any(name in needed for name in node.output):
            kept.append(node)
            needed.update(node.input)
            needed.update(names_inside(node))
    del graph.node[:]
    graph.node.extend(reversed(kept))
    for name in [name for name in weights if name not in needed]:
        del weights[name]


def names_inside(node: Any) -> set[str]:
    """Names that graphs inside a node read."""
    found: set[str] = set()
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for inner in attribute.g.node:
                found |= {*inner.input, *names_inside(inner)}
    return found
