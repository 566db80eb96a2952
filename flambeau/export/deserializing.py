"""A program from JSON. Everything in it is checked: names are looked up, nothing is run."""

import math
import operator
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._higher_order_ops.cond import cond_op
from flambeau._higher_order_ops.grad_mode import wrap_with_set_grad_enabled
from flambeau._higher_order_ops.map import map_impl
from flambeau._higher_order_ops.scan import scan_op
from flambeau._higher_order_ops.while_loop import while_loop_op
from flambeau._subclasses.fake_tensor import FakeTensor
from flambeau._tensor import Tensor
from flambeau.aten.overloads import OpOverloadPacket, namespace
from flambeau.aten.schemas import schemas_of
from flambeau.export import expression_texts
from flambeau.export.exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
)
from flambeau.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from flambeau.export.numbers_of_types import DTYPE_OF, FORMAT_OF
from flambeau.fx.experimental.recorder import placeholder
from flambeau.fx.experimental.sym_numbers import SymInt
from flambeau.fx.experimental.symbolic_shapes import ShapeEnv, ValueRanges
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.nn import Module
from flambeau.utils import _pytree as pytree

_OF_GRAPHS = {
    f"torch.ops.{op}": op
    for op in (cond_op, while_loop_op, map_impl, scan_op, wrap_with_set_grad_enabled)
}
_OPERATORS = "mul add sub floordiv mod truediv pow neg".split()


class DamagedFile(RuntimeError):
    """The file does not hold a program."""


def program_of_json(
    found: dict[str, Any], state: dict[str, Tensor], constants: dict[str, Tensor], examples: Any
) -> ExportedProgram:
    """The program that a file describes."""
    try:
        return _Reading(found, state, constants, examples).program()
    except DamagedFile:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, StopIteration) as error:
        raise DamagedFile(
            f"the file does not hold a program that can be read: {type(error).__name__}: {error}"
        ) from error


class _Reading:
    """A program that is being read."""

    def __init__(self, found: Any, state: Any, constants: Any, examples: Any) -> None:
        self.found, self.state, self.constants, self.examples = found, state, constants, examples
        self.module, self.graph, self.root = found["graph_module"], Graph(), Module()
        self.text = self.module["graph"]
        self.nodes: dict[str, Any] = {}
        self.env = ShapeEnv()
        self.env.samples = [{}]

    def program(self) -> ExportedProgram:
        """Read all of it."""
        version = self.found.get("schema_version", {}).get("major")
        if version != 8:
            raise DamagedFile(f"this is version {version} of the format; 8 is what can be read")
        self._ranges()
        specs = [_input_spec(spec) for spec in self.module["signature"]["input_specs"]]
        self._inputs(specs)
        for call in self.text["nodes"]:
            self._call(call)
        outputs = tuple(self.argument(item) for item in self.text["outputs"])
        self.graph.output(outputs)
        results = [_output_spec(spec) for spec in self.module["signature"]["output_specs"]]
        calls = [_call_entry(entry) for entry in self.module["module_call_graph"]]
        if not calls or calls[0].signature is None:
            raise DamagedFile("the file does not say how the program is called")
        ranges = self.env.ranges
        program = ExportedProgram(
            self.root, self.graph, ExportGraphSignature(specs, results), self.state, ranges, calls,
            self.examples, self.constants,
        )  # fmt: skip
        program._dialect = str(self.found.get("verifiers", ["TRAINING"])[0])
        return program

    # -- sizes -------------------------------------------------------------------------------
    def _ranges(self):
        for name, limits in self.found["range_constraints"].items():
            high = math.inf if limits["max_val"] is None else int(limits["max_val"])
            self.env.add(str(name), 2, int(limits["min_val"] or 0), high)

    def _size(self, found):
        if "as_int" in found:
            return _whole(found["as_int"])
        text = found["as_expr"]["expr_str"]
        expr = self.env.simplified(expression_texts.read(text))
        hint = (found["as_expr"].get("hint") or {"as_int": 2})["as_int"]
        for name in expr.symbols:
            if name not in self.env.symbols:
                raise DamagedFile(f"size {text!r} has a symbol without a range")
        if expr.is_symbol:
            self.env.samples[0][str(expr)] = self.env.symbols[str(expr)].hint = _whole(hint)
        return SymInt(expr, self.env)

    def fake(self, name: str) -> FakeTensor:
        """What is known of a tensor."""
        meta = self.text["tensor_values"][name]
        sizes = [self._size(size) for size in meta["sizes"]]
        steps = [_hint(self._size(step)) for step in meta["strides"]]
        dtype = _looked_up(DTYPE_OF, meta["dtype"], "dtype")
        empty = flambeau.empty_strided([_hint(s) for s in sizes], steps, dtype=dtype, device="meta")
        if meta["requires_grad"]:
            empty.requires_grad_()
        symbolic = any(isinstance(size, SymInt) for size in sizes)
        device = flambeau.device(_device(meta["device"]))
        return FakeTensor.of(empty, sizes if symbolic else None, device)

    # -- nodes -------------------------------------------------------------------------------
    def _inputs(self, specs):
        if len(specs) != len(self.text["inputs"]):
            raise DamagedFile("the file has inputs that its signature does not mention")
        for spec, item in zip(specs, self.text["inputs"]):
            name = _name(spec.arg.name)
            node = placeholder(self.graph, name)
            if isinstance(spec.arg, ConstantArgument):
                node.meta["val"] = spec.arg.value
            else:
                if item["as_tensor"]["name"] != name:
                    raise DamagedFile(f"input {name} is {item} in the graph")
                node.meta["val"] = self.fake(name)
            self._known(name, node)

    def _known(self, name, node):
        if name in self.nodes:
            raise DamagedFile(f"there are two values called {name}")
        self.nodes[name] = node

    def _call(self, call):
        target = _target(call["target"])
        args, kwargs = [], {}
        for item in call["inputs"]:
            value = self.argument(item["arg"])
            if item["kind"] == 1:
                args.append(value)
            else:
                kwargs[_name(item["name"])] = value
        if target in (cond_op, scan_op):
            args[-1] = tuple(args[-1])
        if target is while_loop_op:
            args[-2:] = map(tuple, args[-2:])
        outputs = call["outputs"]
        whole = "as_tensors" not in outputs[0] if len(outputs) == 1 else False
        single = whole and not isinstance(target, OpOverloadPacket)
        names = [o for out in outputs for o in _names(out)]
        name = names[0] if single else _name(call.get("name") or "call")
        node = self.graph.create_node("call_function", target, tuple(args), kwargs, name)
        _add_metadata(node, call.get("metadata") or {})
        if single:
            self._value(node, name, outputs[0])
            return
        node.meta["val"] = tuple(self.fake(n) for n in names) if names else None
        for k, part in enumerate(names):
            if "_unused_" in part:
                continue
            item = self.graph.create_node("call_function", operator.getitem, (node, k), {}, part)
            item.meta["val"] = self.fake(part)
            _add_metadata(item, call.get("metadata") or {})
            self._known(part, item)

    def _value(self, node, name, output):
        if "as_sym_int" in output:
            found = self._size(self.text["sym_int_values"][name])
            if isinstance(found, SymInt):
                found.fx_node = node
            node.meta["val"] = found
        elif "as_sym_float" in output:
            node.meta["val"] = None
        else:
            node.meta["val"] = self.fake(name)
        self._known(name, node)

    def argument(self, found: dict[str, Any]) -> Any:
        """The value of a tagged argument."""
        ((tag, value),) = found.items()
        reader = _READERS.get(tag)
        if reader is None:
            raise DamagedFile(f"arguments of kind {tag} cannot be read")
        return reader(self, value)

    def inner(self, found: dict[str, Any]) -> Node:
        """A graph within this one, as an attribute."""
        name = _name(found["name"])
        reading = _Reading(
            {"graph_module": {"graph": found["graph"]}}, self.state, self.constants, None
        )
        reading.env = self.env
        for item in reading.text["inputs"]:
            place = _name(item["as_tensor"]["name"])
            node = placeholder(reading.graph, place)
            node.meta["val"] = reading.fake(place)
            reading._known(place, node)
        for call in reading.text["nodes"]:
            reading._call(call)
        outputs = tuple(reading.argument(item) for item in reading.text["outputs"])
        single = reading.text.get("is_single_tensor_return") is True and len(outputs) == 1
        reading.graph.output(outputs[0] if single else outputs)
        self.root.add_module(name, GraphModule(reading.root, reading.graph))
        return self.graph.create_node("get_attr", name)

    def node(self, name: Any) -> Node:
        """A node that was read before."""
        if name not in self.nodes:
            raise DamagedFile(f"{name!r} is used before it is computed")
        return self.nodes[name]

    def sized(self, item: dict[str, Any]) -> Any:
        """A size: a node or a number."""
        return self.node(item["as_name"]) if "as_name" in item else _whole(item["as_int"])


def _floating(value):
    return float(value.replace("Infinity", "inf")) if isinstance(value, str) else float(value)


_READERS: dict[str, Callable[[_Reading, Any], Any]] = {
    "as_none": lambda r, v: None,
    "as_tensor": lambda r, v: r.node(v["name"]),
    "as_tensors": lambda r, v: [r.node(item["name"]) for item in v],
    "as_optional_tensor": lambda r, v: r.argument(v),
    "as_optional_tensors": lambda r, v: [r.argument(item) for item in v],
    "as_sym_int": lambda r, v: r.sized(v),
    "as_sym_ints": lambda r, v: [r.sized(item) for item in v],
    "as_sym_float": lambda r, v: r.node(v["as_name"]) if "as_name" in v else float(v["as_float"]),
    "as_int": lambda r, v: _whole(v),
    "as_ints": lambda r, v: [_whole(item) for item in v],
    "as_float": lambda r, v: _floating(v),
    "as_floats": lambda r, v: [_floating(item) for item in v],
    "as_bool": lambda r, v: bool(v),
    "as_bools": lambda r, v: [bool(item) for item in v],
    "as_string": lambda r, v: str(v),
    "as_strings": lambda r, v: [str(item) for item in v],
    "as_complex": lambda r, v: complex(v["real"], v["imag"]),
    "as_scalar_type": lambda r, v: _looked_up(DTYPE_OF, v, "dtype"),
    "as_memory_format": lambda r, v: _looked_up(FORMAT_OF, v, "memory format"),
    "as_layout": lambda r, v: flambeau.strided,
    "as_graph": lambda r, v: r.inner(v),
    "as_device": lambda r, v: flambeau.device(_device(v)),
}


def _whole(value):
    if type(value) is not int:
        raise DamagedFile(f"{value!r} is not a whole number")
    return value


def _hint(size):
    return size.expr.value(size.env.samples[0]) if isinstance(size, SymInt) else size


def _looked_up(table, key, what):
    if key not in table:
        raise DamagedFile(f"there is no {what} of number {key!r}")
    return table[key]


def _device(found):
    kind, index = str(found["type"]), found.get("index")
    return kind if index is None else f"{kind}:{_whole(index)}"


def _name(value):
    if not isinstance(value, str) or not value.replace(".", "_").isidentifier():
        raise DamagedFile(f"{value!r} is not a name")
    return value


def _names(output):
    """Names of what a call gives."""
    ((tag, value),) = output.items()
    if tag == "as_tensors":
        return [_name(item["name"]) for item in value]
    return [_name(value.get("name") or value.get("as_name"))]


_LEVELS = frozenset(
    f"{word}quantize_per_{of}.default" for word in ("", "de") for of in ("tensor", "channel")
)


def _target(text):
    """What is called: an op of aten or arithmetic, by name."""
    space, _, rest = str(text).rpartition("torch.ops.aten.")
    if not space and rest != text:
        short, _, kind = rest.partition(".")
        if (kind or "default") in schemas_of(short):
            return getattr(namespace("aten").packet(short), kind or "default")
    space, _, rest = str(text).rpartition("torch.ops.quantized_decomposed.")
    if not space and rest in _LEVELS:
        return getattr(flambeau.ops.quantized_decomposed, rest.partition(".")[0]).default
    if text in _OF_GRAPHS:
        return _OF_GRAPHS[text]
    if text == "torch.sym_float":
        return flambeau.sym_float
    if str(text).startswith("_operator.") and text[10:] in _OPERATORS:
        return getattr(operator, text[10:])
    raise DamagedFile(f"{text!r} is no op that can be called")


def _input_spec(found):
    ((kind, value),) = found.items()
    if kind == "parameter":
        return InputSpec(InputKind.PARAMETER, _tensor(value), str(value["parameter_name"]))
    if kind == "buffer":
        lasting = bool(value.get("persistent", True))
        return InputSpec(InputKind.BUFFER, _tensor(value), str(value["buffer_name"]), lasting)
    if kind == "tensor_constant":
        name = str(value["tensor_constant_name"])
        return InputSpec(InputKind.CONSTANT_TENSOR, _tensor(value), name)
    if kind == "constant_input":
        ((_, plain),) = value["value"].items()
        plain = None if "as_none" in value["value"] else plain
        return InputSpec(InputKind.USER_INPUT, ConstantArgument(_name(value["name"]), plain), None)
    if kind == "user_input" and "as_tensor" in value["arg"]:
        name = _name(value["arg"]["as_tensor"]["name"])
        return InputSpec(InputKind.USER_INPUT, TensorArgument(name), None)
    raise DamagedFile(f"inputs of kind {kind} cannot be read")


def _tensor(value):
    return TensorArgument(_name(value["arg"]["name"]))


_WRITES = {
    "buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
    "parameter_mutation": (OutputKind.PARAMETER_MUTATION, "parameter_name"),
    "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
}


def _output_spec(found):
    ((kind, value),) = found.items()
    if kind in _WRITES:
        meaning, key = _WRITES[kind]
        return OutputSpec(meaning, _tensor(value), str(value[key]))
    if kind != "user_output":
        raise DamagedFile(f"outputs of kind {kind} cannot be read")
    ((tag, item),) = value["arg"].items()
    if tag == "as_tensor":
        arg: Any = TensorArgument(_name(item["name"]))
    elif tag == "as_sym_int":
        arg = SymIntArgument(str(item.get("as_name", "")))
    else:
        arg = ConstantArgument("", None if tag == "as_none" else item)
    return OutputSpec(OutputKind.USER_OUTPUT, arg, None)


def _call_entry(found):
    signature = found["signature"]
    if signature is None:
        return ModuleCallEntry(str(found["fqn"]))
    read = ModuleCallSignature(
        [], [],
        pytree.treespec_loads(signature["in_spec"]),
        pytree.treespec_loads(signature["out_spec"]),
        signature.get("forward_arg_names"),
    )  # fmt: skip
    return ModuleCallEntry(str(found["fqn"]), read)


def _add_metadata(node, found):
    if isinstance(found.get("stack_trace"), str):
        node.meta["stack_trace"] = found["stack_trace"]
    stack = {}
    for part in str(found.get("nn_module_stack") or "").split(";"):
        key, _, rest = part.partition(",")
        path, _, kind = rest.partition(",")
        if key:
            stack[key] = (path, kind)
    if stack:
        node.meta["nn_module_stack"] = stack


def range_of(found: dict[str, Any]) -> ValueRanges:
    """A range as files write it."""
    high = found["max_val"]
    return ValueRanges(int(found["min_val"]), math.inf if high is None else int(high))
