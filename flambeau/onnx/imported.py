"""The module that a file becomes."""

from typing import Any, NamedTuple

from flambeau import fx, nn
from flambeau.fx.node import map_arg

__all__ = ["ImportedModule"]


# Of what a module holds, what belongs into a pickle beside its public attributes.
KEPT = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


class Reference(NamedTuple):
    """Stands for a node in a pickle."""

    name: str


class ImportedModule(fx.GraphModule):
    """A graph of operators of ONNX.

    `meta["onnx"]` has the names of inputs and outputs and the version of the op set. A pickle holds
    the graph itself: operators are not functions that fx could record anew.
    """

    def __init__(self, root: Any, graph: fx.Graph, class_name: str = "ImportedModule") -> None:
        super().__init__(root, graph, class_name)

    def __reduce__(self) -> tuple:
        def refer(arguments: Any) -> Any:
            return map_arg(arguments, lambda node: Reference(node.name))

        nodes = [
            (node.op, node.name, node.target, refer(node.args), refer(node.kwargs))
            for node in self.graph.nodes
        ]
        state = {
            name: value
            for name, value in self.__dict__.items()
            if name in KEPT or not name.startswith("_")
        }
        return rebuilt, (state, nodes)


def rebuilt(state: dict[str, Any], nodes: list[tuple[Any, ...]]) -> ImportedModule:
    """A module from what its pickle holds."""
    graph = fx.Graph()
    made: dict[str, fx.Node] = {}

    def resolve(value: Any) -> Any:
        if isinstance(value, Reference):
            return made[value.name]
        if isinstance(value, (list, tuple)):
            return type(value)(resolve(entry) for entry in value)
        if isinstance(value, dict):
            return {key: resolve(entry) for key, entry in value.items()}
        return value

    for op, name, target, args, kwargs in nodes:
        made[name] = graph.create_node(op, target, resolve(args), resolve(kwargs), name)
    root = nn.Module()
    root.__dict__.update(state)
    return ImportedModule(root, graph)
