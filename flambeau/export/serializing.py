"""A program as JSON, in the schema of PyTorch's .pt2 files."""

import math
import operator
from typing import Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.aten.overloads import OpOverload, OpOverloadPacket
from flambeau.export.expression_texts import written
from flambeau.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymIntArgument,
)
from flambeau.export.numbers_of_types import DTYPES, FORMATS, STRIDED
from flambeau.fx.experimental.sym_numbers import SymFloat, SymInt
from flambeau.fx.node import Node
from flambeau.utils import _pytree as pytree
from flambeau.version import __version__

_OPERATORS = {"getitem", "mul", "add", "sub", "floordiv", "mod", "truediv", "pow", "neg"}


def program_as_json(program: Any) -> dict[str, Any]:
    """Everything about a program but its tensors."""
    ranges = {
        str(k): {"min_val": v.lower, "max_val": None if v.upper == math.inf else int(v.upper)}
        for k, v in program.range_constraints.items()
    }
    graph = _Graph(program.graph, program.graph_module)
    return {
        "graph_module": {
            "graph": graph.written(),
            "signature": {
                "input_specs": [_input(spec) for spec in program.graph_signature.input_specs],
                "output_specs": [_output(spec) for spec in program.graph_signature.output_specs],
            },
            "module_call_graph": [_call(entry) for entry in program.module_call_graph],
            "metadata": {},
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": 10},
        "range_constraints": ranges,
        "schema_version": {"major": 8, "minor": 20},
        "verifiers": [program.dialect],
        "torch_version": f"flambeau {__version__}",
        "guards_code": [],
    }


def tensor_meta(value: Tensor) -> dict[str, Any]:
    """What is known of a tensor without its values."""
    index = value.device.index
    return {
        "dtype": DTYPES[value.dtype],
        "sizes": [_size(size) for size in value.shape],
        "requires_grad": bool(value.requires_grad),
        "device": {"type": value.device.type, "index": index},
        "strides": [_size(step) for step in value.stride()],
        "storage_offset": {"as_int": 0},
        "layout": STRIDED,
    }


def _size(size):
    if isinstance(size, SymInt):
        return {"as_expr": {"expr_str": written(size.expr), "hint": {"as_int": size.hint}}}
    return {"as_int": int(size)}


class _Graph:
    """A graph that is being written."""

    def __init__(self, graph: Any, module: Any = None) -> None:
        self.graph, self.module = graph, module
        self.tensors: dict[str, Any] = {}
        self.sizes: dict[str, Any] = {}
        self.floats: dict[str, Any] = {}

    def written(self) -> dict[str, Any]:
        """The graph as JSON."""
        nodes = list(self.graph.nodes)
        inputs = [self._place(node) for node in nodes if node.op == "placeholder"]
        calls = [self._call(node) for node in nodes if self._is_written(node)]
        result = nodes[-1].args[0]
        single = isinstance(result, Node)  # the condition of a loop
        outputs = [self.argument(value) for value in ((result,) if single else result)]
        return {
            "inputs": inputs,
            "outputs": outputs,
            "nodes": calls,
            "tensor_values": self.tensors,
            "sym_int_values": self.sizes,
            "sym_bool_values": {},
            "is_single_tensor_return": single,
            "custom_obj_values": {},
            "sym_float_values": self.floats,
        }

    def _is_written(self, node):
        """Parts of results are outputs of the call they are parts of."""
        return node.op == "call_function" and node.target is not operator.getitem

    def _place(self, node):
        value = node.meta.get("val")
        if isinstance(value, Tensor):
            return self.argument(node)
        return self.argument(value)

    def _call(self, node):
        schema = node.target._schema if _is_aten(node.target) else None
        names = [a.name for a in schema.arguments] if schema else _names_of(node.target)
        within = isinstance(node.target, OpOverloadPacket)  # an op of graphs
        if within:
            names = [""] * len(node.args)
        inputs = [
            {"name": name, "arg": self.argument(arg, _kind(schema, name)), "kind": 1}
            for name, arg in zip(names, node.args)
        ]
        inputs += [
            {"name": key, "arg": self.argument(arg, _kind(schema, key)), "kind": 2}
            for key, arg in node.kwargs.items()
        ]
        return {
            "target": _target(node.target),
            "inputs": inputs,
            "outputs": self._outputs(node, schema),
            "metadata": _metadata(node),
            "is_hop_single_tensor_return": False if within else None,
            "name": node.name,
        }

    def _outputs(self, node, schema):
        value = node.meta.get("val")
        if (schema is not None and schema.returns == []) or value is None:
            return []
        if not isinstance(value, (tuple, list)):
            return [self.argument(node)]
        parts = {user.args[1]: user for user in node.users if user.target is operator.getitem}
        found = []
        for k, item in enumerate(value):
            if k in parts:
                found.append(self.argument(parts[k]))
            else:  # nobody uses it; PyTorch wants a name all the same
                name = f"{node.name}_unused_{k}"
                self.tensors[name] = tensor_meta(item)
                found.append({"as_tensor": {"name": name}})
        if schema is not None and schema.returns[0].type == "Tensor[]":
            return [{"as_tensors": [item["as_tensor"] for item in found]}]
        return found

    def argument(self, arg: Any, kind: str = "") -> dict[str, Any]:
        """A value of an argument with a tag that says what it is."""
        if isinstance(arg, Node):
            if arg.op == "get_attr":
                inner = getattr(self.module, arg.target)
                text = _Graph(inner.graph, inner).written()
                return {"as_graph": {"name": arg.target, "graph": text}}
            return self._node(arg)
        if arg is None:
            return {"as_none": True}
        if isinstance(arg, (list, tuple)):
            return self._list(list(arg), kind)
        for test, tag, write in _PLAIN:
            if test(arg):
                return {tag: write(arg)}
        raise ValueError(f"{arg!r} cannot be written to a file")

    def _node(self, node):
        value = node.meta.get("val")
        if isinstance(value, SymInt):
            self.sizes[node.name] = _size(value)
            return {"as_sym_int": {"as_name": node.name}}
        if isinstance(value, SymFloat):
            self.floats[node.name] = {"as_float": float(value.hint)}
            return {"as_sym_float": {"as_name": node.name}}
        if isinstance(value, Tensor):
            self.tensors[node.name] = tensor_meta(value)
            return {"as_tensor": {"name": node.name}}
        if isinstance(value, (int, float, str)):
            return self.argument(value)
        raise ValueError(f"{node} holds {type(value)}, which cannot be written to a file")

    def _list(self, items, kind):
        if any(isinstance(item, Node) for item in items):
            sizes = [isinstance(i.meta.get("val"), SymInt) for i in items if isinstance(i, Node)]
            if all(sizes):
                return {"as_sym_ints": [self._size_item(item) for item in items]}
            if "?" in kind or any(item is None for item in items):
                return {"as_optional_tensors": [self.argument(item) for item in items]}
            return {"as_tensors": [self.argument(item)["as_tensor"] for item in items]}
        if all(type(item) is bool for item in items) and items:
            return {"as_bools": items}
        if all(type(item) is int for item in items):
            return {"as_ints": items} if items or "int" in kind.lower() else {"as_tensors": []}
        if all(isinstance(item, (int, float)) for item in items):
            return {"as_floats": [float(item) for item in items]}
        if all(isinstance(item, str) for item in items):
            return {"as_strings": items}
        raise ValueError(f"{items!r} cannot be written to a file")

    def _size_item(self, item):
        return {"as_int": item} if type(item) is int else self._node(item)["as_sym_int"]


def _number(value):
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


_PLAIN: list[tuple] = [
    (lambda v: type(v) is bool, "as_bool", bool),
    (lambda v: type(v) is int, "as_int", int),
    (lambda v: type(v) is float, "as_float", _number),
    (lambda v: type(v) is str, "as_string", str),
    (lambda v: type(v) is complex, "as_complex", lambda v: {"real": v.real, "imag": v.imag}),
    (lambda v: isinstance(v, flambeau.dtype), "as_scalar_type", lambda v: DTYPES[v]),
    (lambda v: isinstance(v, flambeau.device), "as_device",
     lambda v: {"type": v.type, "index": v.index}),
    (lambda v: v in FORMATS, "as_memory_format", lambda v: FORMATS[v]),
    (lambda v: v is flambeau.strided, "as_layout", lambda v: STRIDED),
    (lambda v: isinstance(v, SymInt), "as_int", lambda v: v.hint),
]  # fmt: skip


def _is_aten(target):
    return isinstance(target, OpOverload) and target.namespace == "aten"


def _names_of(target):
    """Names of the arguments of a custom op; arithmetic has letters."""
    if not isinstance(target, OpOverload):
        return ["a", "b", "c"]
    return [argument.name for argument in target._schema.arguments]


def _kind(schema, name):
    return schema.named[name].type if schema is not None and name in schema.named else ""


def _target(target):
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{target}"
    if getattr(target, "__module__", "") == "_operator" and target.__name__ in _OPERATORS:
        return f"_operator.{target.__name__}"
    if target is flambeau.sym_float:
        return "torch.sym_float"
    raise ValueError(f"calls of {target} cannot be written to a file")


def _metadata(node):
    found = {}
    if node.meta.get("stack_trace"):
        found["stack_trace"] = node.meta["stack_trace"]
    stack = node.meta.get("nn_module_stack")
    if stack:
        found["nn_module_stack"] = ";".join(
            f"{key},{path},{kind}" for key, (path, kind) in stack.items()
        )
    return found


def _input(spec):
    name = {"name": spec.arg.name}
    if spec.kind is InputKind.PARAMETER:
        return {"parameter": {"arg": name, "parameter_name": spec.target}}
    if spec.kind is InputKind.BUFFER:
        return {"buffer": {"arg": name, "buffer_name": spec.target, "persistent": spec.persistent}}
    if spec.kind is InputKind.CONSTANT_TENSOR:
        return {"tensor_constant": {"arg": name, "tensor_constant_name": spec.target}}
    if isinstance(spec.arg, ConstantArgument):
        value = _Graph(None).argument(spec.arg.value)
        return {"constant_input": {"name": spec.arg.name, "value": value}}
    return {"user_input": {"arg": {"as_tensor": name}}}


def _output(spec):
    name = {"name": spec.arg.name}
    if spec.kind is OutputKind.BUFFER_MUTATION:
        return {"buffer_mutation": {"arg": name, "buffer_name": spec.target}}
    if spec.kind is OutputKind.PARAMETER_MUTATION:
        return {"parameter_mutation": {"arg": name, "parameter_name": spec.target}}
    if spec.kind is OutputKind.USER_INPUT_MUTATION:
        return {"user_input_mutation": {"arg": name, "user_input_name": spec.target}}
    if isinstance(spec.arg, ConstantArgument):
        return {"user_output": {"arg": _Graph(None).argument(spec.arg.value)}}
    if isinstance(spec.arg, SymIntArgument):
        return {"user_output": {"arg": {"as_sym_int": {"as_name": spec.arg.name}}}}
    return {"user_output": {"arg": {"as_tensor": name}}}


def _call(entry):
    signature = entry.signature
    if signature is None:
        return {"fqn": entry.fqn, "signature": None}
    return {
        "fqn": entry.fqn,
        "signature": {
            "inputs": [],
            "outputs": [],
            "in_spec": pytree.treespec_dumps(signature.in_spec),
            "out_spec": pytree.treespec_dumps(signature.out_spec),
            "forward_arg_names": signature.forward_arg_names,
        },
    }
