"""`torch.jit._get_trace_graph`: what a run computes as one flat graph, for tools that count.

Unlike the programs of `torch.jit.trace`, the graph has the module's tensors as inputs, its values
know the sizes they had, and convolutions of all kinds are the one op they come to.
"""

import functools
from collections.abc import Iterator
from typing import Any

from flambeau._tensor import Tensor
from flambeau.jit import types as T
from flambeau.jit.ir import Graph, Node, Value
from flambeau.jit.passes import inlined
from flambeau.jit.recording import Recorder
from flambeau.jit.tracing import _as_tuple, _record
from flambeau.nn import Module

# where the arguments of convolutions are: groups, dilation and output padding
_PLAIN = dict.fromkeys((f"aten::conv{n}d" for n in (1, 2, 3)), (6, 5, None))
_TRANSPOSED = {f"aten::conv_transpose{n}d": (6, 7, 5) for n in (1, 2, 3)}
_CONVOLUTIONS = _PLAIN | _TRANSPOSED
_FLAGS = (False, False, True, True)  # benchmark, deterministic, cuDNN, TF32


class _Sizing(Recorder):
    """Tells values the sizes of the tensors they stand for."""

    def _python(self, name, function, args, kwargs):
        return self._inside(function, args, kwargs)  # what ran, not the program it may be

    def track(self, tensor: Tensor, value: Value) -> None:
        value.type_ = T.SizedTensor(tensor)
        super().track(tensor, value)


def get_trace_graph(
    f: Any,
    args: Any = (),
    kwargs: dict | None = None,
    strict: bool = True,
    _force_outplace: bool = False,
    return_inputs: bool = False,
    _return_inputs_states: bool = False,
) -> tuple:
    """(graph, result) of a run of a module or a function, and its inputs if they are wanted."""
    inputs, results = _as_tuple(args), []
    root = f if isinstance(f, Module) else None

    @functools.wraps(root.forward if root else f)
    def function(*given: Any, **named: Any) -> Any:
        results.append(f(*given, **named))
        return results[0]

    recorder, _, _, value = _record(root, function, inputs, kwargs or {}, strict, _Sizing)
    graph = recorder.graph
    graph.outs.append(value)
    held = list(root.state_dict(keep_vars=True).values()) if root else []
    _hand_in(graph, {id(t): t for t in held if isinstance(t, Tensor)})
    graph = inlined(graph)
    graph.nodes_[:] = [made for node in graph.nodes_ for made in _with_convolution(graph, node)]
    return (graph, results[0], inputs) if return_inputs else (graph, results[0])


def _hand_in(graph: Graph, held: dict[int, Tensor]) -> None:
    """Make the module's tensors inputs; those that are not in its state are constants."""
    given = {}
    for key, tensor in held.items():
        given[key] = graph.param.add_output(T.SizedTensor(tensor))
    found: dict[Value, Value] = {}
    for node in graph.findAllNodes("prim::Held"):
        tensor = node.attributes.pop("_tensor")
        if id(tensor) in given:
            found[node.out] = given[id(tensor)]
        else:
            node.op, node.attributes["value"] = "prim::Constant", tensor
            node.out.type_ = T.SizedTensor(tensor)
    graph.nodes_[:] = [node for node in graph.nodes_ if node.op != "prim::Held"]
    for node in graph.all_nodes():
        node.ins[:] = [found.get(value, value) for value in node.ins]


def _with_convolution(graph: Graph, node: Node) -> Iterator[Node]:
    """The nodes in the place of a convolution: constants and the one op."""
    where = _CONVOLUTIONS.get(node.op)
    if where is None or node.ins[4].type_ == T.STR:
        yield node
        return
    groups, dilation, output_padding = where
    is_transposed = output_padding is not None
    constants = [_constant(graph, node, 0, T.INT)]
    constants += [_constant(graph, node, flag, T.BOOL) for flag in (is_transposed, *_FLAGS)]
    yield from constants
    zero, transposed, *flags = (made.out for made in constants)
    if output_padding is None:
        made = Node(graph, "prim::ListConstruct", [zero] * len(node.ins[3].node.ins))
        made.scope = node.scope
        padding = made.add_output(T.ListOf(T.INT))
        yield made
    else:
        padding = node.ins[output_padding]
    node.ins[5:] = [node.ins[dilation], transposed, padding, node.ins[groups], *flags]
    node.op, node.schema_ = "aten::_convolution", None
    yield node


def _constant(graph: Graph, beside: Node, value: Any, kind: T.Type) -> Node:
    made = Node(graph, "prim::Constant")
    made.attributes["value"], made.scope = value, beside.scope
    made.add_output(kind)
    return made
