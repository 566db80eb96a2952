"""Regions: calls whose nodes are taken out of the graph and become graphs of their own.

A call is read like any other. What it put into the graph is then found, and made a graph module
whose inputs are the tensors and numbers that it uses from around it. What was computed inside must
not be reached from outside other than as the result.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau._dynamo.exc import Break, SizesInside
from flambeau._dynamo.values import TensorValue
from flambeau._dynamo.varying import Step
from flambeau.autograd.grad_mode import modes
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.nn.modules.module import Module


class Gone(TensorValue):
    """A tensor of a region that has been read: nothing else may use it."""

    __slots__ = ()

    @property
    def node(self) -> Any:
        raise Break("a tensor that was computed inside of a function that became a graph")


class Region:
    """What is read from now on, up to `close`."""

    def __init__(self, reader: Any, what: str) -> None:
        self.reader, self.what = reader, what
        self.before = set(reader.graph.nodes)
        self.start = len(reader.log)
        self.known = set(map(id, reader.by_fake.values()))
        self.versions = [(v, v.fake._storage.version) for v in reader.by_fake.values()]
        self.written, self.wrote = set(reader.written), reader.writes
        self.mode, self.has_steps = modes.grad, reader.has_steps
        reader.writes = False
        self.nodes: list[Any] = []
        self.steps: list[Step] = []
        self.values: list[TensorValue] = []

    def close(self) -> None:
        """The end: what was put into the graph. Break if something around was changed."""
        reader = self.reader
        changed = reader.written != self.written or modes.grad is not self.mode
        changed |= any(v.fake._storage.version != old for v, old in self.versions)
        if changed or reader.has_steps is not self.has_steps:
            raise Break(f"{self.what} that changes something")
        reader.writes = self.wrote
        self.steps = reader.log[self.start :]
        numbers = {step.node for step in self.steps if step.seen is int or step.seen is float}
        found = [n for n in reader.graph.nodes if n not in self.before and n.op != "placeholder"]
        self.nodes = [n for n in found if n not in numbers]
        if any(n in numbers and not set(self.nodes).isdisjoint(n.all_input_nodes) for n in found):
            raise SizesInside(f"sizes of what is computed in {self.what}")
        self.values = [
            v for v in reader.by_fake.values() if id(v) not in self.known and v.number < 0
        ]

    def used(self, ends: list[Any], slots: Any = ()) -> list[Any]:
        """Nodes from around that the region uses, or gives back as they are.

        slots: nodes at its start that stand for its arguments.
        """
        made = set(self.nodes)
        given = [n for node in self.nodes if node not in slots for n in node.all_input_nodes]
        return list(dict.fromkeys(n for n in (*given, *ends) if n not in made))

    def erase(self) -> None:
        """Its nodes leave the graph, and its tensors can no longer be used."""
        for node in reversed(self.nodes):
            self.reader.graph.erase_node(node)
        for value in self.values:
            self.reader.by_fake.pop(id(value.fake), None)
            value.__class__ = Gone


def module_of(nodes: list[Any], inputs: list[Any], ends: list[Any], reader: Any) -> GraphModule:
    """Nodes as a function of others; it gives a tuple."""
    graph, copies, root = Graph(), {}, Module()
    for node in inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in nodes:
        if node.op == "get_attr":  # regions of a region
            setattr(root, node.target, reader.attributes[node.target])
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(None if end is None else copies[end] for end in ends))
    return GraphModule(root, graph, "GraphModule")


def reserved(reader: Any, *names: str) -> tuple[list[str], list[Any]]:
    """Attributes of the graph for modules that are still to be read, and their nodes.

    They come before anything is read, since inputs go before the first node.
    """
    number = sum(name.startswith(f"{names[0]}_") for name in reader.attributes)
    found = [f"{name}_{number}" for name in names]
    reader.attributes.update(dict.fromkeys(found))
    return found, [reader.added(reader.graph.get_attr(name)) for name in found]


@contextlib.contextmanager
def recording(reader: Any, mode: bool) -> Iterator[None]:
    """Recording of gradients as it will be where a region runs, without nodes that say so."""
    switch = flambeau._C._set_grad_enabled
    previous = modes.grad
    modes.grad = mode
    reader.log.append(Step(None, switch, (mode,), {}, None))
    yield
    modes.grad = previous
    reader.log.append(Step(None, switch, (previous,), {}, None))


def is_tensor(node: Any) -> bool:
    """Is the value of a node a tensor?"""
    return hasattr(node.meta.get("example_value"), "_storage")


def leaves_of(value: Any, what: str) -> list[TensorValue]:
    """The tensors of a result, which holds nothing else."""
    if isinstance(value, TensorValue):
        return [value]
    if type(value) in (tuple, list):
        return [leaf for item in value for leaf in leaves_of(item, what)]
    if type(value) is dict:
        return [leaf for item in value.values() for leaf in leaves_of(item, what)]
    raise Break(f"{what} that gives something else than tensors")


def filled(value: Any, results: Iterator[Any]) -> Any:
    """A result with other tensors in their places."""
    if isinstance(value, TensorValue):
        return next(results)
    if type(value) is dict:
        return {key: filled(item, results) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(filled(item, results) for item in value)
    return value
