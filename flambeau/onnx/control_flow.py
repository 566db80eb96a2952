"""Conditions and loops of recorded programs: graphs inside of nodes (If, Loop, Scan)."""

from collections.abc import Mapping
from typing import Any

import flambeau as torch
from flambeau.onnx.building import Builder, Size, Value, elem_type
from flambeau.onnx.protobufs import onnx

__all__ = ["CONTROL", "described", "described_as", "value_info"]


def described(name: str, fake: Any) -> Value:
    return Value(name, fake.dtype, tuple(fake.shape))


def described_as(made: Any, fake: Any) -> Any:
    """What was made has the dtype and the shape that the program says."""
    if isinstance(made, (tuple, list)):
        fakes = fake if isinstance(fake, (tuple, list)) else [fake] * len(made)
        return tuple(described_as(value, one) for value, one in zip(made, fakes))
    if isinstance(made, Size) or made is None or not hasattr(fake, "dtype"):
        return made
    return described(made.name, fake)


def value_info(name: str, fake: Any, symbols: dict[str, str], axes: Any = None) -> Any:
    """Name, type and shape of an input or output."""
    own = axes if isinstance(axes, Mapping) else {}
    sizes = [
        size if isinstance(size, int) else own.get(axis, symbols.get(str(size), str(size)))
        for axis, size in enumerate(fake.shape)
    ]
    return onnx.helper.make_tensor_value_info(name, elem_type(fake.dtype), sizes)


def emitted(writer: Any, g: Builder, module: Any, operands: Any) -> list[tuple[Value, Any]]:
    """What a graph gives for some values, written where the builder is; each with its meta."""
    values: dict[Any, Any] = {}
    passed = iter(operands)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(passed)
    writer.emit(module, g, values)
    output = next(n for n in module.graph.nodes if n.op == "output")
    results = output.args[0]
    results = results if isinstance(results, (tuple, list)) else (results,)
    return [(values[node], node.meta["val"]) for node in results]


class Inside:
    """A graph inside of a node; what it reads from around it has no inputs of its own."""

    def __init__(self, g: Builder) -> None:
        self.g, self.builder = g, Builder(g.opset, parent=g)
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, dtype: Any, shape: Any) -> Value:
        value = Value(self.g.fresh("given"), dtype, tuple(shape))
        self.inputs.append(onnx.helper.make_tensor_value_info(
            value.name, elem_type(dtype), [n if isinstance(n, int) else None for n in shape]
        ))  # fmt: skip
        return value

    def output(self, value: Value, fake: Any) -> None:
        name = self.g.fresh("result")
        self.builder.nodes.append(onnx.helper.make_node("Identity", [value.name], [name]))
        self.outputs.append(value_info(name, fake, {}))

    def graph(self) -> Any:
        nodes, name = self.builder.nodes, self.g.fresh("inner_graph")
        return onnx.helper.make_graph(nodes, name, self.inputs, self.outputs)


def as_scalar(g: Builder, value: Value) -> Value:
    return value if value.shape == () else g.reshape(value, [])


def several(made: Any, fakes: Any) -> Any:
    made = made if isinstance(made, tuple) else (made,)
    return described_as(made, tuple(fakes))


def branches(
    writer: Any, g: Builder, fake: Any, pred: Any, then: Any, other: Any, operands: Any
) -> Any:
    """`torch.cond`."""
    fakes = fake if isinstance(fake, (tuple, list)) else (fake,)
    graphs = []
    for module in (then, other):
        inside = Inside(g)
        for value, meta in emitted(writer, inside.builder, module, operands):
            inside.output(value, meta)
        graphs.append(inside.graph())
    facts = {"then_branch": graphs[0], "else_branch": graphs[1]}
    return several(g.op("If", as_scalar(g, pred), outputs=len(fakes), **facts), fakes)


def loop(
    writer: Any, g: Builder, fake: Any, condition: Any, body: Any, carried: Any, additional: Any
) -> Any:
    """`while_loop`: the condition is asked before the first round, and at the end of each."""
    first = emitted(writer, g, condition, (*carried, *additional))[0][0]
    inside = Inside(g)
    inside.input(torch.int64, ())  # the number of the round
    inside.input(torch.bool, ())  # the condition that let it in
    given = [inside.input(value.dtype, value.shape) for value in carried]
    results = emitted(writer, inside.builder, body, (*given, *additional))
    values = [value for value, _ in results]
    again, _ = emitted(writer, inside.builder, condition, (*values, *additional))[0]
    inside.output(as_scalar(inside.builder, again), torch.empty((), dtype=torch.bool))
    for value, kind in results:
        inside.output(value, kind)
    made = g.op(
        "Loop", None, as_scalar(g, first), *carried, outputs=len(carried), body=inside.graph()
    )
    return several(made, fake)


def scan(
    writer: Any, g: Builder, fake: Any, body: Any, init: Any, xs: Any, additional: Any = ()
) -> Any:
    """`scan`: along the first dimension."""
    inside = Inside(g)
    given = [inside.input(value.dtype, value.shape) for value in init]
    parts = [inside.input(value.dtype, value.shape[1:]) for value in xs]
    for value, meta in emitted(writer, inside.builder, body, (*given, *parts, *additional)):
        inside.output(value, meta)
    facts = {"num_scan_inputs": len(xs), "body": inside.graph()}
    return several(g.op("Scan", *init, *xs, outputs=len(inside.outputs), **facts), fake)


def mapped(writer: Any, g: Builder, fake: Any, body: Any, xs: Any, additional: Any) -> Any:
    """`map`: a scan that carries nothing."""
    return scan(writer, g, fake, body, (), xs, additional)


CONTROL: dict[str, Any] = {"cond": branches, "while_loop": loop, "scan": scan, "map_impl": mapped}
