"""CSEPass: calls that were made before are not made again."""

import copy
from typing import Any

from flambeau.aten.overloads import OpOverload, OpOverloadPacket, namespace
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.fx.passes.infra.pass_base import PassBase, PassResult

__all__ = ["CSEPass", "get_CSE_banned_ops"]

_RANDOM = ("rand", "bernoulli", "normal", "dropout", "uniform", "multinomial", "empty")


def get_CSE_banned_ops() -> set[OpOverloadPacket]:
    """Ops of which two equal calls do not give equal results."""
    names = "rand randn randint randperm rand_like randn_like randint_like bernoulli normal dropout"
    aten = namespace("aten")
    return {aten.packet(name) for name in f"{names} multinomial poisson empty empty_like".split()}


class CSEPass(PassBase):
    """Lets equal calls be one; banned_ops stay as they are, and so does what draws or writes."""

    def __init__(self, banned_ops: Any = None) -> None:
        self.banned_ops = set() if banned_ops is None else set(banned_ops)

    def call(self, graph_module: GraphModule) -> PassResult:
        """A copy of the module in which later calls are earlier ones."""
        seen: dict[Any, Node] = {}
        changed = False
        graph = copy.deepcopy(graph_module.graph)
        for node in list(graph.nodes):
            if not self._is_pure(node):
                continue
            key = (node.op, node.target, _frozen(node.args), _frozen(node.kwargs))
            first = seen.setdefault(key, node)
            if first is not node:
                node.replace_all_uses_with(first)
                graph.erase_node(node)
                changed = True
        return PassResult(GraphModule(graph_module, graph), changed)

    def _is_pure(self, node):
        if node.op not in ("call_function", "call_method", "get_attr"):
            return False
        packet = getattr(node.target, "overloadpacket", None)
        if self.banned_ops & {node.target, packet} or node.is_impure():
            return False
        aten = isinstance(node.target, OpOverload) and node.target.namespace == "aten"
        if aten and node.target._schema.is_mutable:
            return False
        name = str(getattr(node.target, "__name__", node.target))
        return not name.endswith("_") and not any(word in name for word in _RANDOM)


def _frozen(args):
    """Arguments as something that can be compared: nodes by identity, numbers with their type."""
    return repr(map_arg(args, lambda node: f"%{id(node)}"))
