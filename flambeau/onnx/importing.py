"""From a checked model to a module: a graph of fx whose nodes call the operators of the table.

Weights become parameters and buffers under the names that they have in the file. Functions are
put in place of the nodes that call them. Branches and bodies of loops are modules of their own;
what they read from outside is handed to them.
"""

import inspect
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

import flambeau as torch
from flambeau import fx, nn
from flambeau.onnx import operators
from flambeau.onnx.errors import OnnxLoadError
from flambeau.onnx.imported import ImportedModule
from flambeau.onnx.operators import sizes as size_ops
from flambeau.onnx.operators.shapes import constant
from flambeau.onnx.operators.values import array_of, tensor_of
from flambeau.onnx.protobufs import onnx
from flambeau.onnx.reading import Source, array_from, checked, dense_array, read_model

__all__ = ["load"]

A = onnx.AttributeProto
MOST_NODES = 200_000  # functions that call functions can grow without bound
MOST_STATIC = 1024  # elements of a tensor that may be written into the graph as numbers
DEEPEST = 32  # functions within functions
BODIES = {"If", "Loop", "Scan", "SequenceMap"}
# Inputs that hold what was measured, not what is learnt.
MEASURED = {"BatchNormalization": (3, 4), "QuantizeLinear": (1,), "DequantizeLinear": (1,)}


def load(model: Any, *, trainable: bool = True) -> ImportedModule:
    """A module that computes what an ONNX file says.

    `model` is a path, bytes, an open file or a ModelProto. Weights of floating point with at least
    one dimension are parameters, all else is a buffer; with `trainable=False` all are buffers. A
    file that cannot be read raises `OnnxLoadError`; reading runs nothing that is in the file.
    """
    parsed, source = read_model(model)
    importer = None
    try:
        proto, weights = checked(parsed, source)
        importer = Importer(proto, source)
        return importer.module(weights, trainable)
    except OnnxLoadError:
        raise
    except RecursionError:
        raise OnnxLoadError("the graphs of the model are nested too deeply") from None
    except Exception as error:
        place = importer.place if importer is not None else ""
        raise OnnxLoadError(f"{place}{type(error).__name__}: {error}") from error


class Value:
    """What a name of the file stands for."""

    __slots__ = ("array", "holder", "node", "rank", "sizes")

    def __init__(
        self, node: Any = None, array: np.ndarray | None = None, rank: int | None = None
    ) -> None:
        self.node = node  # a node that gives a tensor, or None until somebody wants it
        self.array = array  # the value, where the file holds it
        self.rank = rank  # 0 or 1 if `sizes` is a node that gives a number or a list of them
        self.sizes = node if rank is not None else None
        self.holder: str | None = None  # the attribute that keeps the array
        if rank is not None:
            self.node = None


ABSENT = Value()


class Scope:
    """One fx graph under construction, and the names that mean something in it."""

    def __init__(self, root: nn.Module) -> None:
        self.graph = fx.Graph()
        self.root = root
        self.values: dict[str, Value] = {}


class Importer:
    def __init__(self, proto: Any, source: Source) -> None:
        self.proto = proto
        self.source = source
        self.versions = {domain_of(entry): entry.version for entry in proto.opset_import}
        self.functions = {
            (domain_of(function), function.name, function.overload): function
            for function in proto.functions
        }
        self.budget = MOST_NODES
        self.depth = 0
        self.count = 0
        self.place = ""  # the node that is being read, for messages
        self.known_types: dict[str, Any] | None = None

    # The whole.

    def module(self, weights: dict[str, np.ndarray], trainable: bool) -> ImportedModule:
        graph = self.proto.graph
        root = nn.Module()
        scope = Scope(root)
        measured = measured_names(graph.node)
        for name, array in weights.items():
            value = Value(array=array)
            learnt = trainable and name not in measured
            value.holder = hold(root, name, array, learnt)
            scope.values[name] = value
        inputs = [value.name for value in graph.input if value.name not in weights]
        for name in inputs:
            scope.values[name] = Value(scope.graph.placeholder(identifier(name)))
        self.emit(graph.node, scope, self.versions)
        results = [self.tensor(scope, self.lookup(scope, out.name)) for out in graph.output]
        scope.graph.output(results[0] if len(results) == 1 else tuple(results))
        module = ImportedModule(root, scope.graph)
        module.meta["onnx"] = {
            "inputs": inputs,
            "outputs": [out.name for out in graph.output],
            "opset": self.versions.get("", 1),
        }
        return module

    def body(self, graph: Any, outside: list[str], scope: Scope, versions: Any) -> str:
        """A graph inside a node, as a module of the root; it takes what it reads from outside."""
        inner = Scope(nn.Module())
        for value in graph.input:
            inner.values[value.name] = Value(inner.graph.placeholder(identifier(value.name)))
        for name in outside:
            node = inner.graph.placeholder(identifier(name))
            inner.values[name] = Value(node, scope.values[name].array)
        for tensor in graph.initializer:
            self.declare_constant(inner, tensor.name, array_from(tensor, self.source))
        for sparse in graph.sparse_initializer:
            self.declare_constant(inner, sparse.values.name, dense_array(sparse, self.source))
        self.emit(graph.node, inner, versions)
        results = [self.tensor(inner, self.lookup(inner, out.name)) for out in graph.output]
        inner.graph.output(tuple(results))
        self.count += 1
        name = f"body_{self.count}"
        scope.root.add_module(name, ImportedModule(inner.root, inner.graph))
        return name

    # Values.

    def lookup(self, scope: Scope, name: str) -> Value:
        if name == "":
            return ABSENT
        try:
            return scope.values[name]
        except KeyError:
            raise OnnxLoadError(f"{self.place}nothing gives the value {name!r}") from None

    def declare_constant(self, scope: Scope, name: str, array: np.ndarray) -> None:
        value = Value(array=array)
        self.count += 1
        value.holder = hold(scope.root, f"constant_{self.count}", array, False, persistent=False)
        scope.values[name] = value

    def tensor(self, scope: Scope, value: Value) -> Any:
        """A node that gives the value as a tensor; None for what is left out."""
        if value.node is None and value.holder is not None:
            value.node = scope.graph.get_attr(value.holder)
        elif value.node is None and value.sizes is not None:
            value.node = scope.graph.call_function(size_ops.sizes_as_tensor, (value.sizes,))
        return value.node

    def static(self, value: Value, scalar_only: bool = False) -> Any:
        """The value as numbers, or a node that gives numbers, or None if it has to be a tensor."""
        if value.sizes is not None:
            return value.sizes
        array = value.array
        if array is None or array.dtype != np.int64 or array.size > MOST_STATIC:
            return None
        if array.ndim > (0 if scalar_only else 1):
            return None
        return array.tolist()

    # Nodes.

    def emit(
        self, nodes: Iterable[Any], scope: Scope, versions: Any, attributes: Any = None
    ) -> None:
        for node in nodes:
            self.budget -= 1
            if self.budget < 0:
                raise OnnxLoadError(f"the model grows beyond {MOST_NODES} nodes")
            title = f"{node.op_type} {node.name!r}" if node.name else node.op_type
            self.place = f"node {title}: "
            self.emit_node(node, scope, versions, attributes or {})

    def emit_node(self, node: Any, scope: Scope, versions: Any, outer: Any) -> None:
        domain = domain_of(node)
        given = self.bound_attributes(node, outer)
        function = self.functions.get((domain, node.op_type, node.overload))
        if function is not None:
            self.inline(function, node, given, scope)
            return
        if domain not in versions:
            raise OnnxLoadError(f"{self.place}the model does not import the domain {domain!r}")
        version = versions[domain]
        if domain == "" and self.emit_special(node, given, scope, versions):
            return
        handler = operators.find(domain, node.op_type, version)
        if handler is None:
            self.inline_schema(node, domain, version, given, scope)
            return
        inputs = []
        for position, name in enumerate(node.input):
            value = self.lookup(scope, name)
            number = None
            if position in handler.static:
                number = self.static(value, node.op_type == "Gather")
            inputs.append(self.tensor(scope, value) if number is None else number)
        keywords = self.keywords(node, given, handler, scope, versions, inputs)
        self.check_call(handler, inputs, keywords)
        self.define(node, scope.graph.call_function(handler.run, tuple(inputs), keywords), scope)

    def define(self, node: Any, result: Any, scope: Scope) -> None:
        """Names for the outputs of a node."""
        if len(node.output) == 1:
            scope.values[node.output[0]] = Value(result)
            return
        for position, name in enumerate(node.output):
            if name:
                scope.values[name] = Value(
                    scope.graph.call_function(_getitem, (result, position), {})
                )

    def emit_special(self, node: Any, given: Any, scope: Scope, versions: Any) -> bool:
        """Constants, and ops on sizes. Was it one?"""
        kind = node.op_type
        if kind == "Constant":
            options = {name: self.constant_option(value) for name, value in given.items()}
            self.declare_constant(scope, node.output[0], array_of(constant(**options)))
            return True
        if kind in ("Shape", "Size"):
            source = self.lookup(scope, node.input[0])
            function = size_ops.shape_sizes if kind == "Shape" else size_ops.number_of_elements
            options = {name: value.i for name, value in given.items()}
            if source.array is not None and source.holder is not None:
                array = np.array(function(source.array, **options), dtype=np.int64)
                self.declare_constant(scope, node.output[0], array)
                return True
            made = scope.graph.call_function(function, (self.tensor(scope, source),), options)
            scope.values[node.output[0]] = Value(made, rank=1 if kind == "Shape" else 0)
            return True
        return self.emit_on_sizes(node, given, scope)

    def emit_on_sizes(self, node: Any, given: Any, scope: Scope) -> bool:
        rule = operators.sizes_rule(node.op_type)
        if rule is None or len(node.output) != 1:
            return False
        values = [self.lookup(scope, name) for name in node.input]
        if not any(value.sizes is not None for value in values):
            return False
        numbers = [None if value is ABSENT else self.static(value) for value in values]
        if any(n is None and value is not ABSENT for n, value in zip(numbers, values)):
            return False
        ranks = [value.rank if value.rank is not None else rank_of(value) for value in values]
        options = {name: decoded(value) for name, value in given.items()}
        rank = rule.rank(ranks, options, numbers)
        if rank is None:
            return False
        kept = {name: v for name, v in options.items() if name in rule.options}
        made = scope.graph.call_function(rule.run, tuple(numbers), kept)
        scope.values[node.output[0]] = Value(made, rank=rank)
        return True

    def keywords(
        self, node: Any, given: Any, handler: Any, scope: Scope, versions: Any, inputs: list[Any]
    ) -> dict[str, Any]:
        """Attributes as arguments; graphs become modules, what they capture joins the inputs."""
        graphs = {name: value.g for name, value in given.items() if value.type == A.GRAPH}
        result: dict[str, Any] = {}
        if node.op_type in BODIES and "n_carried" in handler.options:
            behind = given["num_scan_inputs"].i if node.op_type == "Scan" else 2
            result["n_carried"] = len(node.input) - behind - (handler.version == 8)
        if graphs:
            outside = free_names(graphs.values(), scope.values)
            for name, graph in graphs.items():
                holder = self.body(graph, outside, scope, versions)
                result[name] = scope.graph.get_attr(holder)
            inputs += [self.tensor(scope, scope.values[name]) for name in outside]
        for name, value in given.items():
            if name in graphs or name == "consumed_inputs":
                continue
            if name not in handler.options:
                raise OnnxLoadError(f"{self.place}it has no attribute {name!r}")
            if value.type in (A.TENSOR, A.SPARSE_TENSOR):
                self.declare_constant(scope, f"\0{self.count}", self.constant_option(value))
                result[name] = self.tensor(scope, scope.values.popitem()[1])
            else:
                result[name] = decoded(value)
        if handler.counts:
            result["n_outputs"] = len(node.output)
        return result

    def check_call(self, handler: Any, inputs: list[Any], keywords: dict[str, Any]) -> None:
        try:
            inspect.signature(handler.run).bind(*inputs, **keywords)
        except TypeError as error:
            raise OnnxLoadError(f"{self.place}{error}") from None

    def constant_option(self, value: Any) -> Any:
        if value.type == A.TENSOR:
            return array_from(value.t, self.source)
        if value.type == A.SPARSE_TENSOR:
            return dense_array(value.sparse_tensor, self.source)
        return decoded(value)

    def bound_attributes(self, node: Any, outer: Any) -> dict[str, Any]:
        """Attributes of a node, those that refer to the caller of a function replaced."""
        found = {}
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                found[attribute.name] = attribute
            elif attribute.ref_attr_name in outer:
                found[attribute.name] = outer[attribute.ref_attr_name]
        return found

    # Functions.

    def inline(self, function: Any, node: Any, given: Any, scope: Scope) -> None:
        """The nodes of a function in place of the one that calls it."""
        if self.depth >= DEEPEST:
            raise OnnxLoadError(f"{self.place}functions call each other without end")
        options = {default.name: default for default in function.attribute_proto} | given
        inner = Scope(scope.root)
        inner.graph = scope.graph
        for position, name in enumerate(function.input):
            passed = node.input[position] if position < len(node.input) else ""
            value = self.lookup(scope, passed)
            inner.values[name] = value
        versions = self.versions | {
            domain_of(entry): entry.version for entry in function.opset_import
        }
        self.depth += 1
        self.emit(function.node, inner, versions, options)
        self.depth -= 1
        for name, inside in zip(node.output, function.output):
            if name:
                scope.values[name] = self.lookup(inner, inside)

    def inline_schema(self, node: Any, domain: str, version: int, given: Any, scope: Scope) -> None:
        """An op that the format itself defines by others."""
        try:
            schema = onnx.defs.get_schema(node.op_type, version, domain)
        except onnx.defs.SchemaError:
            schema = None
        function = None
        if schema is not None and schema.has_function:
            function = schema.function_body
        elif schema is not None and schema.has_context_dependent_function:
            types = [self.type_of(name) for name in node.input]
            plain = onnx.NodeProto()
            plain.CopyFrom(node)
            del plain.attribute[:]
            plain.attribute.extend(given.values())
            text = schema.get_context_dependent_function(plain.SerializeToString(), types)
            function = onnx.FunctionProto()
            function.ParseFromString(text)
        if function is None or not function.node:
            known = f"{domain or 'ai.onnx'} version {version}"
            raise OnnxLoadError(f"{self.place}the op is not known ({known})")
        defaults = {
            name: attribute.default_value
            for name, attribute in (schema.attributes if schema else {}).items()
            if attribute.default_value.name
        }
        self.inline(function, node, defaults | given, scope)

    def type_of(self, name: str) -> bytes:
        """The type of a value as the format infers it."""
        if self.known_types is None:
            graph = onnx.shape_inference.infer_shapes(self.proto).graph
            values = (*graph.input, *graph.value_info, *graph.output)
            self.known_types = {value.name: value.type for value in values}
        kind = self.known_types.get(name)
        return onnx.TypeProto().SerializeToString() if kind is None else kind.SerializeToString()


def _getitem(values: Any, position: int) -> Any:
    return values[position]


def domain_of(entry: Any) -> str:
    return "" if entry.domain == "ai.onnx" else entry.domain


def rank_of(value: Value) -> int | None:
    return None if value.array is None else value.array.ndim


def decoded(attribute: Any) -> Any:
    """An attribute as a number, a text, or a list of them."""
    kind = attribute.type
    if kind == A.FLOAT:
        return attribute.f
    if kind == A.INT:
        return attribute.i
    if kind == A.STRING:
        return attribute.s.decode()
    if kind == A.FLOATS:
        return list(attribute.floats)
    if kind == A.INTS:
        return list(attribute.ints)
    if kind == A.STRINGS:
        return [text.decode() for text in attribute.strings]
    if kind == A.TYPE_PROTO:
        return None
    raise OnnxLoadError(f"the attribute {attribute.name!r} has a type that no op takes")


def free_names(graphs: Iterable[Any], outer: Any) -> list[str]:
    """Names that graphs read from outside, in the order in which they occur."""
    found: dict[str, None] = {}
    for graph in graphs:
        own = {value.name for value in graph.input} | {t.name for t in graph.initializer}
        own |= {sparse.values.name for sparse in graph.sparse_initializer}
        for node in graph.node:
            inner = [a.g for a in node.attribute if a.type == A.GRAPH]
            inner += [g for a in node.attribute if a.type == A.GRAPHS for g in a.graphs]
            for name in (*node.input, *free_names(inner, outer)):
                if name and name not in own and name in outer:
                    found[name] = None
            own.update(node.output)
        for value in graph.output:
            if value.name not in own and value.name in outer:
                found[value.name] = None
    return list(found)


def measured_names(nodes: Iterable[Any]) -> set[str]:
    return {
        node.input[position]
        for node in nodes
        for position in MEASURED.get(node.op_type, ())
        if position < len(node.input)
    }


def identifier(name: str) -> str:
    """A name of the file as a name of Python."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "value"
    return f"_{word}" if word[0].isdigit() else word


def hold(
    root: nn.Module, name: str, array: np.ndarray, learnt: bool, persistent: bool = True
) -> str:
    """Keep an array in the module under its name, dots being levels; the place is given back."""
    parts = [re.sub(r"\W", "_", part, flags=re.ASCII) or "_" for part in name.split(".")]
    module = root
    for depth, part in enumerate(parts[:-1]):
        child = module._modules.get(part)
        if child is None:
            if hasattr(module, part):
                # The name is taken by something else: the rest stays in one piece.
                parts = [*parts[:depth], "_".join(parts[depth:])]
                break
            child = nn.Module()
            module.add_module(part, child)
        module = child
    last = parts[-1]
    while hasattr(module, last):
        last += "_"
    value = tensor_of(array)
    if not isinstance(value, torch.Tensor):
        setattr(module, last, value)
    elif learnt and value.is_floating_point() and value.dim():
        module.register_parameter(last, nn.Parameter(value))
    else:
        module.register_buffer(last, value, persistent=persistent)
    return ".".join([*parts[:-1], last])
