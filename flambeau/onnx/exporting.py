"""From a recorded program to an ONNX model: `torch.onnx.export`."""

import contextlib
import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import flambeau as torch
from flambeau import nn
from flambeau.export import Dim, ExportedProgram
from flambeau.export import export as record
from flambeau.export.graph_signature import ConstantArgument, InputKind, OutputKind
from flambeau.onnx import state
from flambeau.onnx.building import Builder, Size, Value
from flambeau.onnx.control_flow import CONTROL, described, described_as, value_info
from flambeau.onnx.errors import OnnxExporterError, UnsupportedOperatorError
from flambeau.onnx.folding import folded, names_inside
from flambeau.onnx.program import ONNXProgram
from flambeau.onnx.protobufs import onnx
from flambeau.onnx.quantized_models import in_pairs, is_quantized_model
from flambeau.onnx.translations import find
from flambeau.onnx.translations.elementwise import size_arithmetic
from flambeau.utils import _pytree as pytree

__all__ = ["export"]

OLDEST, NEWEST, USUAL = 13, 23, 18
# The first version of the file format that has an op set.
IR_VERSIONS = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11}


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    custom_translation_table: Mapping[Callable, Callable] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: Any = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Any = None,
    training: Any = None,
    operator_export_type: Any = None,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: Any = False,
    autograd_inlining: bool = True,
) -> ONNXProgram | None:
    """Write a model in ONNX, checked by the format's own rules.

    The model runs once on the example and is recorded by `torch.export` (`dynamo=False` records in
    the same way and gives nothing back). Sizes may change where `dynamic_shapes` (or `dynamic_axes`
    with names) say so. With `f` the model is saved there, weights over 2 GB beside it.
    """
    opset = USUAL if opset_version is None else opset_version
    if not OLDEST <= opset <= NEWEST:
        raise ValueError(f"opset_version must be from {OLDEST} to {NEWEST}, got {opset}")
    args = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    names = list(input_names or ())
    shapes = dynamic_shapes
    if shapes is None and dynamic_axes:
        shapes = shapes_of_axes(model, args, kwargs or {}, names, dynamic_axes)
    program = captured(model, args, kwargs or {}, shapes, training)
    writer = Writer(program, opset, custom_translation_table or {}, custom_opsets or {})
    proto = writer.model(names, list(output_names or ()), dynamic_axes or {}, dynamic_shapes)
    if do_constant_folding and optimize:
        folded(proto, writer.builder.initializers, training=trains(training))
    result = ONNXProgram(proto, writer.builder.initializers, program)
    result.check()
    if verify:
        result.verify(args, kwargs or {})
    if f is not None:
        result.save(
            f,
            include_initializers=export_params,
            keep_initializers_as_inputs=keep_initializers_as_inputs,
            external_data=external_data and None,
        )
    return result if dynamo else None


def trains(training: Any) -> bool:
    return getattr(training, "value", training) == 2


def captured(model: Any, args: Any, kwargs: Any, shapes: Any, training: Any) -> ExportedProgram:
    """The program without writes in place; modes of the model are put back."""
    if isinstance(model, ExportedProgram):
        return model.run_decompositions({})
    if not isinstance(model, nn.Module):
        model = as_module(model)
    if is_quantized_model(model):
        model = in_pairs(model)
    modes = [(module, module.training) for module in model.modules()]
    mode = getattr(training, "value", training) or 0
    try:
        if mode != 1:  # PRESERVE
            with contextlib.suppress(NotImplementedError):  # exported programs have their mode
                model.train(mode == 2)
        state.exporting += 1
        with torch.no_grad(), scripted_branches():
            return record(model, args, kwargs, dynamic_shapes=shapes).run_decompositions({})
    except Exception as error:
        raise OnnxExporterError(f"the model could not be recorded: {error}") from error
    finally:
        state.exporting -= 1
        for module, was in modes:
            module.training = was


@contextlib.contextmanager
def scripted_branches() -> Iterator[None]:
    """Conditions and loops of scripted functions stay what they are."""
    scripts = sys.modules.get("flambeau.jit.state")
    if scripts is None:  # there are none
        yield
        return
    scripts.state.keeps_branches = True
    try:
        yield
    finally:
        scripts.state.keeps_branches = False


def as_module(function: Any) -> nn.Module:
    class Function(nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    return Function()


def shapes_of_axes(model: Any, args: Any, kwargs: Any, names: list[str], axes: Any) -> Any:
    """`dynamic_axes` name inputs; sizes that turn out to be fixed stay so, as they always did."""
    flat, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    wanted: list[Any] = []
    tensors = iter(names)
    for value in flat:
        name = next(tensors, None) if isinstance(value, torch.Tensor) else None
        said = axes.get(name) if name is not None else None
        if said is None:
            wanted.append(None)
        else:
            wanted.append(dict.fromkeys(said, Dim.AUTO))
    positional, named = pytree.tree_unflatten(wanted, spec)
    if not named:
        return positional
    bound = inspect.signature(getattr(model, "forward", model)).bind(*positional, **named)
    return dict(bound.arguments)


class Writer:
    """Writes one program."""

    def __init__(self, program: ExportedProgram, opset: int, custom: Any, domains: Any) -> None:
        self.program = program
        self.custom = dict(custom)
        self.builder = Builder(opset)
        self.builder.domains |= dict(domains)

    def model(self, input_names: list[str], output_names: list[str], axes: Any, shapes: Any) -> Any:
        """The model without its weights: they stay in `builder.initializers`."""
        signature, g = self.program.graph_signature, self.builder
        specs = {spec.arg.name: spec for spec in signature.input_specs if hasattr(spec.arg, "name")}
        values: dict[Any, Any] = {}
        inputs = []
        tensors = {**self.program.state_dict, **self.program.constants}
        # Names of users come first, so that nothing else takes them.
        given = iter(input_names)
        holders = [node for node in self.program.graph.nodes if node.op == "placeholder"]
        for node in holders:
            if specs[node.name].kind is InputKind.USER_INPUT:
                if isinstance(specs[node.name].arg, ConstantArgument) or not is_tensor(node):
                    values[node] = node.meta.get("val")
                    continue
                made = described(g.fresh(next(given, node.name)), node.meta["val"])
                values[node] = made
                inputs.append((made, node.meta["val"]))
        for name in output_names:
            g.fresh(name)
        for node in holders:
            spec = specs[node.name]
            if spec.kind is not InputKind.USER_INPUT and node.users:
                path = str(spec.target)
                values[node] = g.weight(tensors[path].detach(), path)
        self.emit(self.program.graph_module, g, values)
        results = self.results(values, output_names)
        symbols = self.symbol_names(inputs, shapes, axes)
        graph = onnx.helper.make_graph(
            g.nodes,
            "main_graph",
            [value_info(value.name, fake, symbols) for value, fake in inputs],
            [value_info(name, fake, symbols, axes.get(name)) for name, fake in results],
        )
        opsets = [onnx.helper.make_opsetid(d, v) for d, v in g.domains.items()]
        return onnx.helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=IR_VERSIONS[g.opset],
            producer_name="flambeau",
            producer_version=torch.__version__,
        )

    def results(self, values: Any, names: list[str]) -> list[tuple[str, Any]]:
        """Outputs under the names that were asked for."""
        signature, g = self.program.graph_signature, self.builder
        output = next(n for n in self.program.graph.nodes if n.op == "output")
        found: list[tuple[str, Any]] = []
        wanted = iter(names)
        for node, spec in zip(output.args[0], signature.output_specs):
            if spec.kind is not OutputKind.USER_OUTPUT or node is None:
                continue
            if not hasattr(node, "meta"):
                made, fake = g.number(node), torch.tensor(node)
            else:
                made, fake = values[node], node.meta["val"]
            name = next(wanted, None) or g.fresh(f"output_{len(found)}")
            if isinstance(made, Size):
                made = g.squeeze(made, [0])
                fake = torch.tensor(0)
            taken = {result for result, _ in found}
            if made.name in taken or not renamed(g.nodes, made.name, name):
                g.nodes.append(onnx.helper.make_node("Identity", [made.name], [name], name=name))
            elif hasattr(node, "meta"):
                made.name = name
            found.append((name, fake))
        return found

    def symbol_names(self, inputs: Any, shapes: Any, axes: Any) -> dict[str, str]:
        """What users call the sizes that may change."""
        names: dict[str, str] = {}
        flat = pytree.tree_leaves(shapes, is_leaf=lambda s: s is None or is_sizes(s))
        for (value, fake), said in zip(inputs, flat if len(flat) == len(inputs) else [None] * 99):
            said = axes.get(value.name, said) if isinstance(axes, Mapping) else said
            pairs = said.items() if isinstance(said, Mapping) else enumerate(said or ())
            for axis, name in pairs:
                name = name if isinstance(name, str) else getattr(name, "__name__", None)
                size = fake.shape[axis] if isinstance(axis, int) else 1
                if name and not isinstance(size, int):
                    names.setdefault(str(size), name)
        return names

    # Nodes.

    def emit(self, module: Any, g: Builder, values: dict[Any, Any]) -> None:
        for node in module.graph.nodes:
            if node.op == "get_attr":
                values[node] = attribute(module, node.target)
                if isinstance(values[node], torch.Tensor):
                    values[node] = g.weight(values[node].detach(), node.target)
            elif node.op == "call_function":
                with located(node):
                    values[node] = self.call(node, g, values)

    def call(self, node: Any, g: Builder, values: dict[Any, Any]) -> Any:
        args, kwargs = torch.fx.node.map_arg(
            (tuple(node.args), dict(node.kwargs)), lambda n: values[n]
        )
        target = node.target
        g.place = module_path(node)
        if target in self.custom or base_name(target) in self.custom:
            write = self.custom.get(target) or self.custom[base_name(target)]
            return described_as(write(g, *args, **kwargs), node.meta.get("val"))
        if target is operator.getitem:
            return args[0][args[1]]
        if base_name(target) in CONTROL:
            return CONTROL[base_name(target)](self, g, node.meta.get("val"), *args)
        if not any(isinstance(a, Value) for a in pytree.tree_leaves((args, kwargs))):
            plain = plain_result(target, args, node)
            if plain is not None:
                return plain
        if len(args) == 2:
            made = size_arithmetic(g, target, *args)
            if made is not None:
                return made
        write = find(base_name(target))
        if write is None:
            raise UnsupportedOperatorError(
                f"{target} has no translation to ONNX; give one with custom_translation_table"
            )
        if not node.users and node.meta.get("val") is None:
            return None
        return described_as(
            write(g, *args, out=node.meta.get("val"), **kwargs), node.meta.get("val")
        )


def renamed(nodes: list[Any], old: str, new: str) -> bool:
    """Another name for what a node gives. It cannot be done for inputs, weights and in branches."""
    maker = next((node for node in nodes if old in node.output), None)
    if maker is None or any(old in names_inside(node) for node in nodes):
        return False
    for node in nodes:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == old:
                    names[place] = new
    return True


def is_sizes(said: Any) -> bool:
    return isinstance(said, Mapping) and all(isinstance(key, int) for key in said)


def is_tensor(node: Any) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor) or hasattr(node.meta.get("val"), "dtype")


def attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def base_name(target: Any) -> str:
    """`aten.add.Tensor` is "add"; functions go by their name."""
    text = str(target)
    if text.startswith("aten."):
        return text.split(".")[1]
    return getattr(target, "__name__", text).split(".")[0]


def plain_result(target: Any, args: Any, node: Any) -> Any:
    """Arithmetic of numbers that are known needs no node."""
    module = getattr(target, "__module__", "")
    return target(*args) if module in ("_operator", "operator", "math") else None


def module_path(node: Any) -> str:
    """The submodule that a node comes from."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


class located:
    """Errors inside say which op, module and line they are about."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None or not isinstance(error, Exception) or hasattr(error, "onnx_place"):
            return
        stack = list((self.node.meta.get("nn_module_stack") or {}).values())
        where = (
            f"\n  in the module {stack[-1][0] or '(the whole)'!r}: {stack[-1][1]}" if stack else ""
        )
        lines = (self.node.meta.get("stack_trace") or "").rstrip()
        line = f"\n{lines}" if lines else ""
        label = type(error) if isinstance(error, OnnxExporterError) else UnsupportedOperatorError
        raised = label(f"{self.node.target}: {error}{where}{line}")
        raised.onnx_place = True  # type: ignore[attr-defined]
        raise raised from error
