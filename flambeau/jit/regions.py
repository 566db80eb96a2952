"""From a recording to functions: each call of a module becomes a method of its type."""

from typing import Any

from flambeau.jit import types as T
from flambeau.jit.annotating import qualified
from flambeau.jit.compiling import Function
from flambeau.jit.ir import Graph, Node, Value
from flambeau.jit.module_types import ModuleType
from flambeau.jit.passes import cleaned
from flambeau.jit.recording import Recorder, Region
from flambeau.jit.schemas import Argument, Schema
from flambeau.jit.units import unit


class Lifting:
    """Makes graphs of the regions of a recording, the outermost last."""

    def __init__(self, recorder: Recorder, types: dict[str, ModuleType]) -> None:
        self.recorder, self.types = recorder, types
        self.uses: dict[Value, list[Any]] = {}  # value -> regions that read it
        self._note_uses(recorder.root)

    def _note_uses(self, region):
        for item in region.items:
            if isinstance(item, Region):
                self._note_uses(item)
            else:
                for value in item.ins:
                    self.uses.setdefault(value, []).append(region)

    def function(self, region: Region, name: str, arguments: list[Argument], results: list[Value],
                 parameters: list[Value]) -> Function:  # fmt: skip
        """The function of a region: what it is given are `parameters`, what it gives `results`."""
        own = self.types.get(region.path) if region.module is not None else None
        is_method = own is not None and hasattr(region.module, "_parameters")
        owner = own if is_method else None
        space = owner.name if owner is not None else "__torch__"
        function = Function(name, f"{space}.{name}", owner)
        graph = function.graph
        values: dict[Value, Value] = {}
        if owner is not None:
            self_value = graph.param.add_output(owner, "self")
        else:
            self_value = None
        for value, argument in zip(parameters, arguments):
            values[value] = graph.param.add_output(value.type_, argument.name)
        held: dict[str, Value] = {}
        self._copy(region, graph, values, self_value, held)
        outs = [values[v] for v in results]
        if len(outs) == 1:
            result = outs[0]
        else:
            node = graph.add("prim::TupleConstruct", outs)
            result = node.add_output(T.TupleOf(*[v.type_ for v in outs]))
        graph.outs.append(result)
        first = [Argument("self", owner)] if owner is not None else []
        function.schema = Schema(name, "", (*first, *arguments), (result.type_,))
        cleaned(graph)
        return function

    def _copy(self, region, graph, values, self_value, held):
        for item in region.items:
            if isinstance(item, Region):
                self._call(item, graph, values, self_value, held)
            elif item.op == "prim::Held":
                self._held(item, region, graph, values, self_value, held)
            elif item.op == "prim::HeldModule":
                path = _below(region.path, item.attributes["_path"])
                values[item.out] = self._walk(path, graph, self_value, held)
            else:
                self._copy_node(item, graph, values)

    def _copy_node(self, node: Node, graph: Graph, values: dict[Value, Value]) -> None:
        made = graph.add(node.op, [values[v] for v in node.ins])
        made.attributes, made.schema_ = dict(node.attributes), node.schema_
        for value in node.outs:
            values[value] = made.add_output(value.type_, value.name)

    def _held(self, node, region, graph, values, self_value, held):
        """A parameter or buffer: an attribute, if it is below this module."""
        path = self._path_in(region, node.attributes["_tensor"])
        if path is not None and self_value is not None:
            values[node.out] = self._walk(_below(region.path, path), graph, self_value, held)

    def _path_in(self, region, tensor):
        """Where a tensor is, if it is below a region's module."""
        for path in self.recorder.held[id(tensor)]:
            if not region.path or path.startswith(region.path + "."):
                return path
        return None

    def _walk(self, path, graph, self_value, held):
        """self.a.b.c"""
        value, walked = self_value, ""
        for part in path.split("."):
            walked = f"{walked}.{part}" if walked else part
            if walked not in held:
                node = graph.add("prim::GetAttr", [value])
                node.attributes["name"] = part
                name = part if not part.isdigit() else "_" + part
                held[walked] = node.add_output(value.type_.attributes[part], name)
            value = held[walked]
        return value

    def _call(self, region, graph, values, self_value, held):
        """A call of a module: a method that is given what it reads from outside."""
        inside: set[Value] = set()
        outside: list[Value] = []
        self._survey(region, inside, outside, region)
        results = [v for v in self._made_in(region) if self._is_read_outside(v, region)]
        if not results and not any(_has_effect(n) for n in _nodes(region)):
            return
        kind = self.types[region.path]
        name = "forward"
        count = 0
        while name in kind.methods:
            count += 1
            name = f"forward{count}"
        arguments = [Argument(f"input{k if k else ''}", v.type_) for k, v in enumerate(outside)]
        method = self.function(region, name, arguments, results, outside)
        kind.methods[name] = method
        owner = self._walk(_below_path(self, region), graph, self_value, held)
        for value in outside:
            if value not in values:  # a parameter of another module
                path = self.recorder.held[id(value.node.attributes["_tensor"])][0]
                values[value] = self._walk(path, graph, self_value, held)
        call = graph.add("prim::CallMethod", [owner, *[values[v] for v in outside]])
        call.attributes["name"] = name
        assert method.schema is not None
        made = call.add_output(method.schema.returns[0])
        if len(results) == 1:
            values[results[0]] = made
        elif results:
            unpack = graph.add("prim::TupleUnpack", [made])
            for value in results:
                values[value] = unpack.add_output(value.type_)

    def _survey(self, region, inside, outside, top):
        """Which values a region reads that are made elsewhere."""
        for item in region.items:
            if isinstance(item, Region):
                self._survey(item, inside, outside, top)
                continue
            if item.op == "prim::Held" and self._path_in(top, item.attributes["_tensor"]) is None:
                outside.append(item.out)
            for value in item.ins:
                if value not in inside and value not in outside:
                    outside.append(value)
            inside.update(v for v in item.outs if v not in outside)

    def _made_in(self, region):
        for node in _nodes(region):
            if node.op not in ("prim::Held", "prim::HeldModule"):
                yield from node.outs

    def _is_read_outside(self, value, region):
        if value in self.final:
            return True
        return any(not _is_within(r, region) for r in self.uses.get(value, ()))

    final: frozenset = frozenset()


def _below_path(lifting, region):
    return _below(region.parent.path, region.path)


def _below(base, path):
    return path[len(base) + 1 :] if base and path.startswith(base + ".") else path


def _is_within(region, other):
    while region is not None:
        if region is other:
            return True
        region = region.parent
    return False


def _nodes(region):
    for item in region.items:
        if isinstance(item, Region):
            yield from _nodes(item)
        else:
            yield item


def _has_effect(node):
    return node.schema_ is not None and node.schema_.writes


def traced_types(root: Any) -> dict[str, ModuleType]:
    """A type for each module below one, with what it holds and no methods yet."""
    types: dict[str, Any] = {}
    made: dict[int, ModuleType] = {}

    def describe(module, path):
        own = getattr(module, "_type", None)
        if own is not None:
            types[path] = own
            return own
        kind = made.get(id(module))
        fresh = kind is None
        if kind is None:
            kind = made[id(module)] = ModuleType(unit.unique_name(qualified(type(module))), object)
            kind.is_traced = True
        types[path] = kind
        for name, inner in module._modules.items():
            if inner is not None:
                kind.attributes[name] = describe(inner, f"{path}.{name}" if path else name)
        if fresh:
            _describe(kind, module)
        return kind

    describe(root, "")
    return types


def _describe(kind, module):
    modules = dict(kind.attributes)
    kind.attributes.clear()
    for names, held in ((kind.parameters, module._parameters), (kind.buffers, module._buffers)):
        for name, tensor in held.items():
            kind.attributes[name] = T.NONE if tensor is None else T.TENSOR
            if tensor is not None:
                names.append(name)
    kind.attributes["training"] = T.BOOL
    kind.attributes["_is_full_backward_hook"] = T.OptionalOf(T.BOOL)
    kind.attributes.update(modules)
