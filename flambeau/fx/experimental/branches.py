"""Branches of a program as graphs of their own."""

from collections.abc import Callable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.fx.experimental.recorder import placeholder
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.nn import Module
from flambeau.utils import _pytree as pytree


def record_branch(
    recorder: Any,
    function: Callable,
    operands: tuple,
    free: list[Tensor],
    sources: tuple | None = None,
) -> tuple[GraphModule, Any]:
    """The graph of a branch, and what it gives for the example.

    free: tensors from around the branch that it uses, which become operands; more are added.
    sources: what operands are the first slices of, where they are not operands themselves.
    """
    graph, root = Graph(), Module()
    inner = recorder.for_branch(graph, root)
    given = []
    for operand, source in zip(operands, sources or operands):
        node = placeholder(graph, recorder.leaf(source).name)
        twin = operand.detach().clone()
        if source is operand:
            inner.adopt(twin, operand, recorder)
        elif id(source) in recorder.shadows:
            inner.shadow(twin, [other[0] for other in recorder.shadows[id(source)]])
        inner.track(twin, node)
        given.append(twin)
    inner.outside, inner.free = recorder, free
    for tensor in list(free):
        inner.borrow(tensor)
    with inner:
        result = function(*given)
    leaves = pytree.tree_leaves(result)
    if not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise RuntimeError("branches of cond must give tensors")
    graph.output(tuple(inner.leaf(leaf) for leaf in leaves))
    for leaf in leaves:
        recorder.adopt(leaf, leaf, inner)
    return GraphModule(root, graph), result


def same_kind(first: Any, second: Any) -> None:
    """Both branches must give the same structure of tensors of the same shapes."""
    one, spec = pytree.tree_flatten(first)
    two, other = pytree.tree_flatten(second)
    if spec != other:
        raise RuntimeError(
            f"Expected the branches of cond to give the same structure, got {spec} and {other}"
        )
    for a, b in zip(one, two):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise RuntimeError(
                "Expected each tensor of both branches of cond to have the same shape and dtype, "
                f"got {list(a.shape)} of {a.dtype} and {list(b.shape)} of {b.dtype}"
            )


def place_for(graph: Graph, name: str) -> Node:
    """A placeholder behind the others."""
    places = [node for node in graph.nodes if node.op == "placeholder"]
    if places:
        with graph.inserting_after(places[-1]):
            return placeholder(graph, name)
    with graph.inserting_before(next(iter(graph.nodes), graph._root)):
        return placeholder(graph, name)
