"""A handler that writes the ops that run into a graph."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from flambeau import interposing
from flambeau._tensor import Tensor
from flambeau.aten.overloads import OpOverload, namespace, recorded_by
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node, map_aggregate
from flambeau.fx.passes.shape_prop import _extract_tensor_metadata
from flambeau.interposing.dispatching import _Below, _on_tensors
from flambeau.nn import Module, Parameter


class Recorder(_Below):
    """Knows which tensor is the value of which node, and makes nodes of calls."""

    def __init__(
        self, graph: Graph, root: Module, decompositions: Mapping[Any, Callable] | None = None
    ) -> None:
        self.graph, self.root, self.decompositions = graph, root, decompositions or {}
        self.nodes: dict[int, Node] = {}  # by id of a tensor,
        self.places: dict[tuple, Node] = {}  # by what it looks at,
        self.storages: dict[int, Node] = {}  # by its memory
        self.alive: list[Tensor] = []  # an id is a tensor's own as long as the tensor lives
        self.constants: dict[str, int] = {}

    def __enter__(self) -> "Recorder":
        interposing.push(self)
        interposing.push(_on_tensors)
        self._told = recorded_by(self)
        self._told.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._told.__exit__()
        interposing.pop(_on_tensors)
        interposing.pop(self)

    # -- nodes -------------------------------------------------------------------------------
    def write(self, target: Any, args: tuple, kwargs: dict, result: Any) -> Node:
        """A node for a call that has run."""
        given, named = self.argument(args), dict(self.argument(kwargs))
        short = target.__name__.partition(".")[0]
        node = self.graph.create_node("call_function", target, given, named, node_name(short))
        self.finish(node, result)
        self.track_result(result, node)
        return node

    def finish(self, node: Node, result: Any) -> None:
        """Note what there is to say about a new node."""

    def track(self, tensor: Tensor, node: Node) -> None:
        """Note that a tensor is the value of a node."""
        self.note(tensor, node)
        node.meta["val"] = self.remembered(tensor)
        node.meta["tensor_meta"] = _extract_tensor_metadata(tensor)

    def remembered(self, tensor: Tensor) -> Any:
        """What a node keeps of its value."""
        return tensor.detach()

    def track_result(self, result: Any, node: Node) -> None:
        """The same for all a call gives; parts of it have nodes of their own."""
        if isinstance(result, Tensor):
            self.track(result, node)
        elif isinstance(result, (tuple, list)):
            node.meta["val"] = tuple(
                self.remembered(item) if isinstance(item, Tensor) else item for item in result
            )
            for k, item in enumerate(result):
                if isinstance(item, Tensor):
                    part = self.graph.call_function(operator.getitem, (node, k))
                    self.finish(part, item)
                    self.track(item, part)

    # -- tensors -----------------------------------------------------------------------------
    def argument(self, value: Any) -> Any:
        """Values as arguments of nodes: tensors become nodes."""
        return map_aggregate(value, self.leaf)

    def leaf(self, value: Any) -> Any:
        """The node of a tensor; other values as they are."""
        if not isinstance(value, Tensor):
            return value
        found = self.nodes.get(id(value)) or self.places.get(_place(value))
        if found is not None:
            return found
        if id(value._storage) in self.storages:
            return self._view(value)
        return self.keep(value)

    def note(self, tensor: Tensor, node: Node) -> None:
        """Find the node again by its tensor, or by another tensor that looks at the same."""
        self.nodes[id(tensor)] = self.places[_place(tensor)] = node
        self.storages.setdefault(id(tensor._storage), node)
        self.alive.append(tensor)

    def is_known(self, tensor: Tensor) -> bool:
        """Is it the value of a node, or a look at one?"""
        return id(tensor) in self.nodes or id(tensor._storage) in self.storages

    def _view(self, tensor):
        """Another look at the memory of a value, such as one that was saved for backward."""
        target = namespace("aten").as_strided.default
        shape = (list(tensor.shape), list(tensor.stride()), tensor.storage_offset())
        node = self.graph.call_function(target, (self.storages[id(tensor._storage)], *shape))
        self.note(tensor, node)
        return node

    def keep(self, value: Tensor) -> Node:
        """A tensor that comes from elsewhere is a constant of the module."""
        prefix = "_param_constant" if isinstance(value, Parameter) else "_tensor_constant"
        number = self.constants[prefix] = self.constants.get(prefix, -1) + 1
        name = f"{prefix}{number}"
        setattr(self.root, name, value)
        node = self.graph.create_node("get_attr", name)
        self.nodes[id(value)] = node
        self.alive.append(value)
        node.meta["val"] = value
        return node


def node_name(short: str) -> str:
    """What nodes of an op are called: __and__ gives and_1."""
    from flambeau.fx.naming import _snake_case

    return _snake_case(short.strip("_") if short.startswith("__") else short)


def placeholder(graph: Graph, name: str) -> Node:
    """An input of exactly this name, even if it is that of a builtin such as `input`."""
    node = graph.placeholder(name)
    if node.name != name and all(other.name != name for other in graph.nodes):
        node.name = name
    node.target = node.name  # one name may be given twice
    return node


def _place(tensor):
    """Which memory a tensor looks at, and how."""
    return id(tensor._storage), tensor._offset, tensor._layout


class Again(_Below):
    """Records what the function does that takes an op apart, while its recorder handles the op."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder

    @property
    def kinds(self) -> frozenset:  # type: ignore[override]
        return self.recorder.kinds

    def wants(self, place: interposing.Place) -> bool:
        return self.recorder.wants(place)

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        return self.recorder.around(name, function, args, kwargs)


def overload(name: str) -> OpOverload:
    """An op of aten by its name, as in "add.Tensor"."""
    short, _, kind = name.partition(".")
    return getattr(namespace("aten").packet(short), kind or "default")
