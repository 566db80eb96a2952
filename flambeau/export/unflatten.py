"""unflatten: a program as a module with the submodules it was exported from.

Nodes say in which modules they were recorded. Those of one call of a module become a graph of its
own, with parameters and buffers held where they were, so parts can be looked at and exchanged.
"""

import operator
from typing import Any

from flambeau._tensor import Tensor
from flambeau.export.exported_program import ExportedProgram
from flambeau.export.graph_signature import InputKind, OutputKind
from flambeau.fx.experimental.recorder import placeholder
from flambeau.fx.graph import Graph
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_arg
from flambeau.nn import Module, Parameter
from flambeau.utils import _pytree as pytree

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]


class FlatArgsAdapter:
    """Brings arguments of another structure into that of the program."""

    def adapt(
        self,
        target_spec: pytree.TreeSpec,
        input_spec: pytree.TreeSpec,
        input_args: list[Any],
        metadata: dict[str, Any] | None = None,
        obj: Any | None = None,
    ) -> list[Any]:
        raise NotImplementedError


class InterpreterModule(Module):
    """A part of a program: runs its graph."""

    def __init__(self, graph: Graph | None = None, ty: str | None = None) -> None:
        super().__init__()
        self.graph = Graph() if graph is None else graph
        self._ty = ty

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph node by node."""
        return Interpreter(self, graph=self.graph).run(*args, **kwargs)

    def type_name(self) -> str | None:
        """The class of the module it was recorded from."""
        return self._ty


class UnflattenedModule(InterpreterModule):
    """A program with its submodules."""

    def __init__(self, program: ExportedProgram, adapter: FlatArgsAdapter | None = None) -> None:
        super().__init__()
        self.graph_signature, self.adapter = program.graph_signature, adapter
        signature = program.module_call_graph[0].signature
        if signature is None:
            raise ValueError("the program does not say how it is called")
        self.in_spec, self.out_spec = signature.in_spec, signature.out_spec
        for spec in program.graph_signature.input_specs:
            if spec.kind is not InputKind.USER_INPUT:
                _hold(self, str(spec.target), program._value_of(spec), spec.persistent)
        _Building(self, program).build()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self.in_spec:
            if self.adapter is None:
                raise TypeError(
                    f"There is no flat args adapter specified. Are you sure you are calling this "
                    f"with the right arguments? Input treespec:  {spec} Exported treespec:  "
                    f"{self.in_spec}"
                )
            leaves = self.adapter.adapt(self.in_spec, spec, leaves)
        return pytree.tree_unflatten(super().forward(*leaves), self.out_spec)


def _hold(root: Module, path: str, value: Any, lasting: Any) -> None:
    *above, name = path.split(".")
    owner = root
    for part in above:
        if part not in owner._modules:
            owner.add_module(part, InterpreterModule())
        owner = getattr(owner, part)
    if isinstance(value, Parameter):
        owner.register_parameter(name, value)
    elif isinstance(value, Tensor):
        owner.register_buffer(name, value, persistent=bool(lasting))


class _Building:
    """Graphs of submodules, made from that of the program."""

    def __init__(self, root: UnflattenedModule, program: ExportedProgram) -> None:
        self.root, self.program = root, program
        nodes = list(program.graph.nodes)
        places = [node for node in nodes if node.op == "placeholder"]
        self.state = {
            node: spec.target
            for node, spec in zip(places, program.graph_signature.input_specs)
            if spec.kind is not InputKind.USER_INPUT
        }
        self.inputs = [node for node in places if node not in self.state]
        self.calls = [node for node in nodes if node.op not in ("placeholder", "output")]
        self.output = nodes[-1]

    def build(self) -> None:
        """Fill the root and all below it."""
        graph, values = self.root.graph, {}
        for node in self.inputs:
            values[node] = placeholder(graph, node.name)
        self._fill(self.root, "", "L__self__", self.calls, values)
        results = []
        for spec, value in zip(self.program.graph_signature.output_specs, self.output.args[0]):
            if spec.kind is OutputKind.USER_OUTPUT:
                results.append(self._value(graph, values, "", value))
        graph.output(tuple(results))

    def _value(self, graph, values, path, value):
        """A value in the graph of a module: parameters are read from where they are."""
        if not isinstance(value, Node):
            return value
        if value not in values:
            target = self.state[value]
            inside = path == "" or target.startswith(path + ".")
            if not inside:
                raise KeyError(value)
            place = target[len(path) + 1 :] if path else target
            values[value] = graph.create_node("get_attr", place)
        return values[value]

    def _fill(self, module, path, key, nodes, values):
        """Nodes of one call of a module; those of submodules become calls."""
        k = 0
        while k < len(nodes):
            below = _child(nodes[k], key)
            if below is None:
                self._copy(module.graph, path, nodes[k], values)
                k += 1
                continue
            stop = k
            while stop < len(nodes) and _child(nodes[stop], key) == below:
                stop += 1
            self._call(module, path, below, nodes[k:stop], values)
            k = stop

    def _copy(self, graph, path, node, values):
        def look(n):
            return self._value(graph, values, path, n)

        values[node] = graph.node_copy(node, look)

    def _call(self, module, path, below, nodes, values):
        """A call of a submodule."""
        child_key, (child_path, kind) = below
        child = _descend(self.root, child_path)
        mine = set(nodes)
        given = self._given(child_path, nodes, mine)
        results = [n for n in nodes if any(user not in mine for user in n.users)]
        name = child_path[len(path) + 1 :] if path else child_path
        first = not len(child.graph.nodes)
        if not first:  # called again: the same graph, unless it does something else
            child = InterpreterModule(ty=kind)
        child._ty = kind
        inner: dict[Node, Node] = {n: placeholder(child.graph, n.name) for n in given}
        try:
            self._fill(child, child_path, child_key, nodes, inner)
        except KeyError:  # it uses state of others: its nodes stay with the caller
            child.graph = Graph()
            for node in nodes:
                self._copy(module.graph, path, node, values)
            return
        found = tuple(inner[n] for n in results)
        child.graph.output(found[0] if len(found) == 1 else found)
        if not first and _shape(child.graph) != _shape(_descend(self.root, child_path).graph):
            name = f"{name}@{child_key.rpartition('@')[2]}"
            module.add_module(name, child)
            for key, tensor in _descend(self.root, child_path).named_parameters():
                _hold(child, key, tensor, True)
        args = tuple(self._value(module.graph, values, path, n) for n in given)
        node = module.graph.create_node("call_module", name, args, {}, name.replace(".", "_"))
        if len(results) == 1:
            values[results[0]] = node
            return
        for k, part in enumerate(results):
            values[part] = module.graph.call_function(operator.getitem, (node, k))

    def _given(self, path, nodes, mine):
        """Values from outside that some nodes use, other than what their module holds."""
        found: dict[Node, None] = {}
        for node in nodes:

            def note(n):
                own = n in self.state and self.state[n].startswith(path + ".")
                if n not in mine and not own:
                    found[n] = None
                return n

            map_arg((node.args, node.kwargs), note)
        return list(found)


def _child(node, key):
    """The submodule of a module that a node was recorded in: (key, (path, class))."""
    entries = list(node.meta.get("nn_module_stack", {}).items())
    keys = [entry[0] for entry in entries]
    if key not in keys or keys.index(key) + 1 >= len(keys):
        return None
    return entries[keys.index(key) + 1]


def _descend(root, path):
    for part in path.split("."):
        if part not in root._modules:
            root.add_module(part, InterpreterModule())
        root = getattr(root, part)
    return root


def _shape(graph):
    """What a graph does, without the names of its values."""
    number = {node: k for k, node in enumerate(graph.nodes)}
    rows = []
    for node in graph.nodes:
        target = "" if node.op == "placeholder" else str(node.target)
        args = map_arg((node.args, node.kwargs), lambda n: f"%{number[n]}")
        rows.append((node.op, target, str(args)))
    return rows


def unflatten(
    module: ExportedProgram, flat_args_adapter: FlatArgsAdapter | None = None
) -> UnflattenedModule:
    """A program as a module with the submodules it was exported from."""
    return UnflattenedModule(module, flat_args_adapter)
