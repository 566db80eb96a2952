"""Parts of a graph that depend on constants alone, computed once."""

import operator
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.fx._symbolic_trace import symbolic_trace
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_arg
from flambeau.nn import Module, Parameter

__all__ = [
    "FoldedGraphModule",
    "get_unique_attr_name_in_module",
    "split_const_subgraphs",
]


class FoldedGraphModule(GraphModule):
    """A module whose constant part runs once, before the first call."""

    def __init__(
        self,
        root: Module,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = (
            None if const_subgraph is None else GraphModule(root, const_subgraph)
        )
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute the constants."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        folded = self.const_subgraph_module()
        name = self.fx_const_folded_attrs_name
        self._buffers.pop(name, None)
        self._parameters.pop(name, None)
        if isinstance(folded, Tensor):
            setattr(self, name, _constant(folded))
        else:
            self.__dict__[name] = [_constant(value) for value in folded]


def _constant(tensor):
    if not tensor.is_floating_point():
        return tensor.detach()
    return Parameter(tensor.detach().clone(), requires_grad=tensor.requires_grad)


def get_unique_attr_name_in_module(mod_traced: Module, name: str) -> str:
    """A name like the wanted one that a module does not have yet."""
    found, number = name, 1
    while hasattr(mod_traced, found):
        found, number = f"{name}_{number}", number + 1
    return found


def split_const_subgraphs(
    module: Module | GraphModule,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """The same module, with what depends on constants alone taken out of its graph."""
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constant_nodes(traced, skip_folding_node_fn)
    results = [n for n in constant if n.op != "get_attr"
               and any(user not in constant for user in n.users)]  # fmt: skip
    if not results:
        return FoldedGraphModule(
            traced, traced.graph, device_for_folded_attrs=device_for_folded_attrs
        )
    name = get_unique_attr_name_in_module(traced, "_FX_CONST_FOLDED_ATTRS")
    setattr(traced, name, Parameter(flambeau.empty(0)))
    return FoldedGraphModule(
        traced,
        _rest(traced.graph, constant, results, name),
        _constants(traced.graph, constant, results),
        name,
        device_for_folded_attrs,
    )


def _constant_nodes(traced, skip):
    """Nodes whose inputs are all constant, and which do nothing else."""
    found: dict[Node, None] = {}
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op != "get_attr":
            inputs = node.all_input_nodes
            if not inputs or any(n not in found for n in inputs):
                continue
            if node.is_impure() or (skip is not None and skip(node)):
                continue
        found[node] = None
    return found


def _constants(graph, constant, results):
    new, values = Graph(), {}
    for node in graph.nodes:
        if node in constant:
            values[node] = new.node_copy(node, lambda n: values[n])
    outputs = tuple(values[n] for n in results)
    new.output(outputs[0] if len(outputs) == 1 else outputs)
    return new


def _rest(graph, constant, results, name):
    new, values, folded = Graph(), {}, None
    for node in graph.nodes:
        if node in constant and node not in results:
            if node.op == "get_attr" and any(user not in constant for user in node.users):
                values[node] = new.node_copy(node)
            continue
        if node in constant:
            folded = new.get_attr(name) if folded is None else folded
            place = results.index(node)
            one = len(results) == 1
            values[node] = folded if one else new.call_function(operator.getitem, (folded, place))
            values[node].meta = dict(node.meta)
            continue
        if node.op == "output":
            new.output(map_arg(node.args[0], lambda n: values[n]), node.type)
            continue
        values[node] = new.node_copy(node, lambda n: values[n])
    return new
