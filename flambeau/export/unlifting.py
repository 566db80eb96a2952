"""An exported program as a module again: state is held, arguments are trees, sizes are checked."""

from collections.abc import Callable
from typing import Any

from flambeau._tensor import Tensor
from flambeau.export.graph_signature import ConstantArgument, InputKind, OutputKind
from flambeau.fx.codegen import _PyTreeCodeGen, _PyTreeInfo
from flambeau.fx.experimental.recorder import overload, placeholder
from flambeau.fx.experimental.symbolic_shapes import SymInt
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule, _assign_attr
from flambeau.fx.node import Node
from flambeau.nn import Module, Parameter
from flambeau.utils import _pytree as pytree


def unlifted(program: Any, check_guards: bool) -> GraphModule:
    """A module that runs a program."""
    root, graph = Module(), Graph()
    values: dict[Node, Any] = {}
    users: list[Node] = []
    places = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(places, program.graph_signature.input_specs):
        if spec.kind is InputKind.USER_INPUT:
            values[node] = placeholder(graph, node.target)
            values[node].meta.update(node.meta)
            users.append(values[node])
    for node, spec in zip(places, program.graph_signature.input_specs):
        if spec.kind is not InputKind.USER_INPUT:
            value = program._value_of(spec)
            _hold(root, spec, value)
            values[node] = graph.create_node(
                "get_attr", spec.target, name=spec.target.replace(".", "_").replace("-", "_")
            )
            values[node].meta.update(node.meta)
    if check_guards:
        root.add_module("_guards_fn", GuardsFn(program))
        graph.create_node("call_module", "_guards_fn", tuple(users), {}, "_guards_fn")
    _copy(program, graph, values)
    signature = program.module_call_graph[0].signature
    names = _argument_names(signature)
    graph.set_codegen(_ModuleCodeGen(_PyTreeInfo(names, signature.in_spec, signature.out_spec)))
    for path, inner in program.graph_module.named_children():  # branches of conditions
        root.add_module(path, inner)
    module = GraphModule(root, graph)
    for name in ("train", "eval"):
        setattr(type(module), name, _refusing(name))
    return module


def _hold(root, spec, value):
    lasting = spec.kind is InputKind.PARAMETER or spec.persistent
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        *above, name = spec.target.split(".")
        owner = root
        for part in above:
            if not hasattr(owner, part):
                owner.add_module(part, Module())
            owner = getattr(owner, part)
        owner.register_buffer(name, value, persistent=bool(lasting))
    else:
        _assign_attr(value, root, spec.target)


def _copy(program, graph, values):
    """Nodes of the program; what is to be written back to the state is written at the end."""
    for node in program.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op != "output":
            values[node] = graph.node_copy(node, lambda n: values[n])
            continue
        results = []
        for spec, value in zip(program.graph_signature.output_specs, node.args[0]):
            if spec.kind is OutputKind.USER_OUTPUT or spec.kind is OutputKind.LOSS_OUTPUT:
                results.append(values[value] if isinstance(value, Node) else value)
            else:
                _write(program, graph, values, spec, values[value])
        graph.output(tuple(results))


def _write(program, graph, values, spec, value):
    place = next(
        node for node, s in zip(program.graph.nodes, program.graph_signature.input_specs)
        if spec.target in (s.target, s.arg.name)
    )  # fmt: skip
    graph.create_node(
        "call_function", overload("copy_.default"), (values[place], value), {}, "copy_"
    )


def _argument_names(signature):
    """Names of arguments: those by position, then those by name."""
    args, kwargs = signature.in_spec.children()
    names = list(signature.forward_arg_names or [])
    count = args.num_children
    if len(names) != count + kwargs.num_children:
        names = [f"args_{k}" for k in range(count)] + list(kwargs.context or ())
    return names


class _ModuleCodeGen(_PyTreeCodeGen):
    """Code of modules that take arguments by position and by name."""

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        names, spec = self.pytree_info.orig_args, self.pytree_info.in_spec
        count = spec.children()[0].num_children
        given, named = names[:count], names[count:]
        shown = ["self", *given, *(["*", *named] if named else [])]
        first = f"def {self._func_name}({', '.join(shown)}){maybe_return_annotation}:"
        leaves = [name.partition(" ")[0] for name in free_vars if name != "self"]
        if not leaves:
            return first
        by_name = ", ".join(f"{name!r}:{name}" for name in named)
        apart = f"fx_pytree.tree_flatten_spec(([{', '.join(given)}], {{{by_name}}}), self._in_spec)"
        return f"{first}\n    {', '.join(leaves)}, = {apart}"

    def process_inputs(self, *args: Any) -> Any:
        return pytree.tree_leaves(args)


def _refusing(name: str) -> Callable:
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f"Calling {name}() is not supported yet.")

    return refuse


class GuardsFn(Module):
    """Checks that inputs are as the program was recorded for."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        self.checks = _checks(program)

    def forward(self, *args: Any) -> None:
        """Raise an error if an input does not fit."""
        env: dict[str, int] = {}
        for check in self.checks:
            text = check(args, env)
            if text is not None:
                raise AssertionError(f"Guard failed: {text}")


def _checks(program):
    """Functions of (inputs, symbols) that say what is wrong, or None."""
    specs = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    checks: list[Callable] = []
    later: list[Callable] = []
    ranges = {str(k): v for k, v in program.range_constraints.items()}
    seen: dict[str, str] = {}
    for k, spec in enumerate(specs):
        if isinstance(spec.arg, ConstantArgument):
            checks.append(_same(k, spec.arg.name, spec.arg.value))
            continue
        value = nodes[spec.arg.name].meta.get("val")
        if not isinstance(value, Tensor):
            continue
        shape = value.shape
        checks.append(_rank(k, spec.arg.name, len(shape)))
        for dim, size in enumerate(shape):
            shown = f"{spec.arg.name}.size()[{dim}]"
            if not isinstance(size, SymInt):
                checks.append(_fixed(k, dim, size, shown))
            elif size.expr.is_symbol and str(size.expr) not in seen:
                seen[str(size.expr)] = shown
                checks.append(_ranged(k, dim, str(size.expr), shown, ranges[str(size.expr)]))
            else:
                later.append(_equal(k, dim, size.expr, shown, seen))
    for constraint in program._guards:
        if set(constraint.left.symbols) <= set(seen) and constraint.left.linear() is None:
            later.append(_kept(constraint))
    return checks + later


def _same(k, name, value):
    if value is None or isinstance(value, (int, float, str)):
        return lambda args, env: None if args[k] == value else f"{name} == {value!r}"
    return lambda args, env: None


def _rank(k, name, ndim):
    def check(args, env):
        if not isinstance(args[k], Tensor):
            return f"{name} is a tensor"
        return None if args[k].ndim == ndim else f"{name}.ndim == {ndim}"

    return check


def _fixed(k, dim, size, shown):
    size = int(size)
    return lambda args, env: None if args[k].shape[dim] == size else f"{shown} == {size}"


def _ranged(k, dim, name, shown, limits):
    low = limits.lower if limits.lower > 2 else 0

    def check(args, env):
        size = env[name] = args[k].shape[dim]
        if size < low:
            return f"{shown} >= {low}"
        return f"{shown} <= {int(limits.upper)}" if size > limits.upper else None

    return check


def _equal(k, dim, expr, shown, seen):
    def check(args, env):
        if not all(name in env for name in expr.symbols):
            return None
        if args[k].shape[dim] == expr.value(env):
            return None
        text = str(expr)
        return f"{shown} == {seen.get(text, text)}"

    return check


def _kept(constraint):
    return lambda args, env: None if constraint.holds(env) else str(constraint)
