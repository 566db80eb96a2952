"""split_module cuts a graph into submodules."""

import operator
from collections.abc import Callable
from typing import Any

from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.nn import Module

__all__ = ["Partition", "split_module"]

_OUTSIDE = ("placeholder", "get_attr", "output")


class Partition:
    """One part: its nodes, what comes in, what goes out."""

    def __init__(self, name: str) -> None:
        self.name, self.submod_name = name, f"submod_{name}"
        self.node_names: list[str] = []
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {list(self.inputs)},\n "
            f"outputs: {list(self.outputs)},\n partitions dependent on: "
            f"{list(self.dependencies)},\n partition dependents: {list(self.dependents)}"
        )


def split_module(
    m: GraphModule,
    root_m: Module | None,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module that calls one submodule per part; the callback says which part a node is in.

    Example:
        >>> from flambeau import fx
        >>> from flambeau.fx.passes.split_module import split_module
        >>> gm = fx.symbolic_trace(lambda x: flambeau.relu(x + 1))
        >>> parts = split_module(gm, None, lambda n: 0 if n.name == "add" else 1)
        >>> print(parts.code.strip())
        def forward(self, x):
            submod_0 = self.submod_0(x);  x = None
            submod_1 = self.submod_1(submod_0);  submod_0 = None
            return submod_1
    """
    splitter = _Splitter(m, split_callback, partition_affix, keep_original_node_name)
    order = list(splitter.parts) if keep_original_order else splitter.sorted_parts()
    for part in splitter.parts.values():
        splitter.fill(part, qualname_map, tuple_return)
    return splitter.together(order, tuple_return)


class _Splitter:
    def __init__(self, module, callback, affix, keeps_names):
        self.module, self.affix, self.keeps_names = module, affix, keeps_names
        self.parts: dict[str, Partition] = {}
        self.part_of: dict[Node, Partition] = {}
        for node in module.graph.nodes:
            if node.op not in _OUTSIDE:
                self._assign(node, str(callback(node)))
        for node in module.graph.nodes:
            for used in node.all_input_nodes:
                self._note_use(used, node)

    def _assign(self, node, name):
        if self.affix is not None:
            name = f"{self.affix}_{name}"
        part = self.parts.setdefault(name, Partition(name))
        part.nodes.append(node)
        part.node_names.append(node.name)
        self.part_of[node] = part

    def _note_use(self, used, user):
        """A value that crosses from one part to another, or in, or out."""
        giver, taker = self.part_of.get(used), self.part_of.get(user)
        if giver is taker:
            return
        if giver is not None:
            giver.outputs.setdefault(used)
        if taker is not None:
            taker.inputs.setdefault(used)
        if giver is not None and taker is not None:
            taker.dependencies.setdefault(giver.name)
            giver.dependents.setdefault(taker.name)

    def sorted_parts(self) -> list[str]:
        """Parts after those they depend on."""
        open_ends = {name: len(part.dependencies) for name, part in self.parts.items()}
        ready = [name for name, count in open_ends.items() if count == 0]
        order: list[str] = []
        while ready:
            name = ready.pop(0)
            order.append(name)
            for below in self.parts[name].dependents:
                open_ends[below] -= 1
                if open_ends[below] == 0:
                    ready.append(below)
        if len(order) != len(self.parts):
            raise RuntimeError("cycle exists between partitions!")
        return order

    def fill(self, part, qualname_map, tuple_return):
        """The graph of a part."""
        for value in part.inputs:
            made = part.graph.placeholder(value.name, value.type)
            made.meta = dict(value.meta)
            part.environment[value] = made
        for node in part.nodes:
            self._copy(node, part, qualname_map)
        outputs = tuple(part.environment[n] for n in part.outputs)
        if outputs:
            part.graph.output(outputs if len(outputs) > 1 or tuple_return else outputs[0])

    def _copy(self, node, part, qualname_map):
        find = lambda n: part.environment[n]
        args, kwargs = map_arg(node.args, find), map_arg(node.kwargs, find)
        target = node.target
        if node.op == "call_module":
            target = node.target.replace(".", "_")
            part.targets[target] = self.module.get_submodule(node.target)
            if qualname_map is not None:
                qualname_map[f"{part.submod_name}.{target}"] = node.target
        name = node.name if self.keeps_names else None
        made = part.graph.create_node(node.op, target, args, kwargs, name, node.type)
        made.meta = dict(node.meta)
        part.environment[node] = made

    def together(self, order, tuple_return):
        """The module that calls the parts."""
        graph, values = Graph(), {}
        held: dict[str, Any] = {}
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                values[node] = graph.placeholder(node.target, node.type, *node.args)
                values[node].meta = dict(node.meta)
            elif node.op == "get_attr":
                values[node] = graph.get_attr(node.target, node.type)
                values[node].meta = dict(node.meta)
                held[node.target] = _held(self.module, node.target)
        for name in order:
            part = self.parts[name]
            held[part.submod_name] = GraphModule(part.targets, part.graph)
            called = graph.call_module(part.submod_name, tuple(values[n] for n in part.inputs))
            outputs = list(part.outputs)
            if len(outputs) == 1 and not tuple_return:
                values[outputs[0]] = called
                continue
            for k, node in enumerate(outputs):
                values[node] = graph.call_function(operator.getitem, (called, k))
        for node in self.module.graph.nodes:
            if node.op == "output":
                result = graph.output(map_arg(node.args[0], lambda n: values[n]), node.type)
                result.meta = dict(node.meta)
        return GraphModule(held, graph)


def _held(module, path):
    for name in path.split("."):
        module = getattr(module, name)
    return module
