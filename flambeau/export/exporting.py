"""export: a module runs on its example under a recorder, and becomes a program."""

import math
from collections.abc import Mapping
from typing import Any

import flambeau
from flambeau import interposing
from flambeau._tensor import Tensor
from flambeau.export.dynamic_shapes import (
    Dim,
    UserError,
    UserErrorType,
    _DimHint,
    _DimHintType,
    combined,
    per_leaf,
)
from flambeau.export.exported_program import (
    ExportedProgram,
    ModuleCallEntry,
    ModuleCallSignature,
)
from flambeau.export.grad_regions import wrap_regions
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
from flambeau.export.violations import check_promises
from flambeau.fx.experimental.expressions import Expr
from flambeau.fx.experimental.op_recorder import OpRecorder
from flambeau.fx.experimental.program_places import Modules, watch_modules
from flambeau.fx.experimental.recorder import overload, placeholder
from flambeau.fx.experimental.symbolic_shapes import Retry, ShapeEnv, SymInt
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node
from flambeau.nn import Module
from flambeau.utils import _pytree as pytree

_ATTEMPTS = 200


def export(
    mod: Module,
    args: tuple,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Record a module as a program of ops of aten that holds for other values and sizes.

    dynamic_shapes says which sizes may change: a tree like the inputs, with `{dimension: Dim}` or
    one entry per dimension for each tensor; sizes that are not mentioned stay as they are.

    Example:
        >>> from flambeau.export import Dim, export
        >>> program = export(
        ...     flambeau.nn.Linear(3, 2),
        ...     (flambeau.ones(4, 3),),
        ...     dynamic_shapes=({0: Dim("batch")},),
        ... )
        >>> program.module()(flambeau.ones(7, 3)).shape
        torch.Size([7, 2])
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(
            UserErrorType.INVALID_INPUT,
            "Expecting `args` to be a tuple of example positional inputs, got "
            f"{_shown(type(args))}",
        )
    return _Export(mod, args, dict(kwargs or {}), dynamic_shapes).program()


export_for_training = export  # what export records is meant for training, too


def draft_export(
    mod: Module,
    args: tuple,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    preserve_module_call_signature: tuple[str, ...] = (),
    strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """export that gives way: sizes that the program does not keep free are fixed."""
    try:
        return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes)
    except UserError as error:
        if error.error_type is not UserErrorType.CONSTRAINT_VIOLATION:
            raise
        return _Export(mod, args, dict(kwargs or {}), dynamic_shapes).program(strictly=False)


def _shown(kind):
    return str(kind).replace("flambeau.", "torch.")


class _Export:
    """One module that is being exported."""

    def __init__(self, mod: Module, args: tuple, kwargs: dict[str, Any], shapes: Any) -> None:
        self.mod, self.args, self.kwargs = mod, args, kwargs
        self.leaves, self.in_spec = pytree.tree_flatten((args, kwargs))
        self.inputs = combined(mod, args, kwargs)
        self.names = _input_names(self.inputs)
        self.env = ShapeEnv()
        self.symbolic = self._symbols(per_leaf(shapes, self.inputs))
        self.parameters = dict(mod.named_parameters(remove_duplicate=False))
        self.buffers = dict(mod.named_buffers(remove_duplicate=False))
        self.attributes = _tensor_attributes(mod)

    # -- sizes -------------------------------------------------------------------------------
    def _symbols(self, said):
        """Input -> its shape with symbols, for those that have some."""
        found: dict[int, list[Any]] = {}
        roots: dict[str, Expr] = {}
        self.dims: dict[str, Dim] = {}
        for k, (leaf, dims) in enumerate(zip(self.leaves, said)):
            if not isinstance(dims, dict) or not isinstance(leaf, Tensor):
                continue
            shape: list[Any] = [Expr.of(size) for size in leaf.shape]
            for dim, item in sorted(dims.items()):
                expr = self._symbol(item, leaf.shape[dim], roots, self.names[k])
                if expr is not None:
                    shape[dim] = expr
                    if expr.is_symbol:
                        self.env.symbols[str(expr)].sources.append((self.names[k], dim))
            if not all(expr.is_number for expr in shape):
                found[k] = shape
        return found

    def _symbol(self, item, size, roots, name):
        if item is None or type(item) is int:
            return None
        if isinstance(item, _DimHint):
            if item.type is _DimHintType.STATIC or size < 2:
                return None
            low = 2 if item.min is None else item.min
            high = math.inf if item.max is None else item.max
            return self.env.create(size, low, high, "DYNAMIC" if item.type is
                                   _DimHintType.DYNAMIC else "")  # fmt: skip
        low, high = item.min, item.max
        if not low <= size <= high:
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f"Constraints violated ({item.__name__})! For more information, run with "
                f'TORCH_LOGS="+dynamic".\n  - Received user input with size {size}, which is not '
                f"in the specified range [{low}, {'oo' if high == math.inf else high}] of "
                f"{item.__name__}.",
            )
        root = item.root
        value = item.example(size)
        if root.__name__ not in roots:
            if value is None:
                raise UserError(
                    UserErrorType.CONSTRAINT_VIOLATION,
                    f"Expected input {name} to have a size that is {item.__name__}, got {size}",
                )
            roots[root.__name__] = self.env.create(value, root.min, root.max, root.__name__)
            self.dims[root.__name__] = root
        symbol = self.env.symbols[str(roots[root.__name__])]
        if value != symbol.hint:
            raise UserError(
                UserErrorType.CONSTRAINT_VIOLATION,
                f"Constraints violated ({item.__name__})! For more information, run with "
                f'TORCH_LOGS="+dynamic".\n  - The values of {item.__name__} = '
                f"{item.of(Expr.of(symbol.hint))} and {name}.size() = {size} must always be equal.",
            )
        return item.of(roots[root.__name__])

    # -- attempts ----------------------------------------------------------------------------
    def program(self, strictly: bool = True) -> ExportedProgram:
        """Record, and record again as long as sizes turn out to be less free."""
        for _ in range(_ATTEMPTS):
            self.env.draw()
            try:
                recorded = self._attempt()
                break
            except Retry as retry:
                self.env.narrow(retry.constraints)
        else:
            raise RuntimeError("sizes of this program could not be worked out")
        self.env.recorder = None
        if strictly:
            check_promises(self.env, self.dims)
        return recorded

    def _attempt(self):
        graph, root = Graph(), Module()
        self.recorder = recorder = OpRecorder(graph, root, self.env, constants=self.attributes)
        inputs: list[Node] = []
        for names, prefix in ((self.parameters, "p"), (self.buffers, "b")):
            for path in names:
                inputs.append(placeholder(graph, _identifier(f"{prefix}_{path}")))
        state = _State(self.mod, self.buffers)
        for node, tensor in zip(inputs, [*self.parameters.values(), *state.clones.values()]):
            recorder.track(tensor, node)
        given = [self._input(recorder, k) for k in range(len(self.leaves))]
        args, kwargs = pytree.tree_unflatten(given, self.in_spec)
        result = self._run(recorder, state, args, kwargs)
        return self._finish(recorder, result)

    def _input(self, recorder, k):
        """A placeholder, and what the module is given for it."""
        leaf = self.leaves[k]
        node = placeholder(recorder.graph, self.names[k])
        if not isinstance(leaf, Tensor):
            node.meta["val"] = leaf
            return leaf
        twin = leaf.detach().clone()
        if leaf.requires_grad:
            twin.requires_grad_()
        shape = self.symbolic.get(k)
        if shape is not None:
            samples = self.env.samples[1:]
            others = [
                flambeau.empty([e.value(s) for e in shape], dtype=leaf.dtype, device="meta")
                for s in samples
            ]
            recorder.shadow(twin, others)
        recorder.track(twin, node)
        return twin

    def _size_nodes(self, recorder):
        """Sizes of inputs are read at the beginning."""
        nodes = {n.target: n for n in recorder.graph.nodes if n.op == "placeholder"}
        fixed, _ = self.env._solved()
        for symbol in self.env.symbols.values():
            if symbol.is_unbacked or symbol.name in fixed or not symbol.sources:
                continue
            name, dim = symbol.sources[0]
            node = recorder.graph.create_node(
                "call_function", overload("sym_size.int"), (nodes[name], dim), {}, "sym_size_int"
            )
            node.meta["val"] = SymInt(Expr.symbol(symbol.name), self.env, node)
            recorder.sizes_of[symbol.name] = node

    def _run(self, recorder, state, args, kwargs):
        self._size_nodes(recorder)
        watch_modules()
        random_state = flambeau.get_rng_state()
        try:
            with state, recorder, interposing.handling(Modules(recorder, self.mod)):
                result = self.mod(*args, **kwargs)
                self._write_back(recorder, state)
            return result
        finally:
            flambeau.set_rng_state(random_state)

    def _write_back(self, recorder, state):
        """Buffers that were given another tensor are written to."""
        for path, clone in state.clones.items():
            owner, name = _owner(self.mod, path)
            value = owner._buffers.get(name)
            if value is not None and value is not clone:
                with interposing.switched_off(recorder):
                    recorder.call("copy_.default", clone, value)

    # -- the program -------------------------------------------------------------------------
    def _finish(self, recorder, result):
        graph = recorder.graph
        leaves, out_spec = pytree.tree_flatten(result)
        for leaf in leaves:
            if not (leaf is None or isinstance(leaf, (Tensor, int, float, str, SymInt))):
                raise UserError(
                    UserErrorType.INVALID_OUTPUT,
                    f"It looks like one of the outputs with type `{type(leaf)}` is not supported "
                    "or pytree-flattenable. \nExported graphs outputs can only contain the "
                    "following types: Tensors, numbers, strings, None and sizes.",
                )
        outputs = tuple(recorder.argument(leaf) for leaf in leaves)
        graph.output(outputs)
        places = len(self.parameters) + len(self.buffers)
        constants = _lifted(recorder, self.attributes, list(graph.nodes)[places])
        outputs = graph.output_node().args[0]
        _drop_unused_sizes(graph)
        wrap_regions(graph, recorder.root, flambeau.is_grad_enabled())
        outputs = graph.output_node().args[0]
        specs = self._input_specs(graph, constants)
        signature = ExportGraphSignature(specs, [_output_spec(value) for value in outputs])
        call = ModuleCallSignature([], [], self.in_spec, out_spec, list(self.inputs))
        calls = [ModuleCallEntry("", call)]
        calls += [ModuleCallEntry(path) for path in recorder_paths(graph)]
        passing = _non_persistent(self.mod)
        state = {**self.parameters, **{k: v for k, v in self.buffers.items() if k not in passing}}
        kept = {k: v for k, v in self.buffers.items() if k in passing} | constants
        program = ExportedProgram(
            recorder.root, graph, signature, state, self.env.ranges, calls,
            (self.args, self.kwargs), kept,
        )  # fmt: skip
        program._guards = list(self.env.constraints)
        return program

    def _input_specs(self, graph, constants):
        passing = _non_persistent(self.mod)
        specs = []
        paths = [(InputKind.PARAMETER, p) for p in self.parameters]
        paths += [(InputKind.BUFFER, p) for p in self.buffers]
        paths += [(InputKind.CONSTANT_TENSOR, p) for p in constants]
        nodes = [node for node in graph.nodes if node.op == "placeholder"]
        for (kind, path), node in zip(paths, nodes):
            lasting = path not in passing if kind is InputKind.BUFFER else None
            specs.append(InputSpec(kind, TensorArgument(node.name), path, lasting))
        for node, leaf in zip(nodes[len(paths) :], self.leaves):
            arg: Any = TensorArgument(node.name)
            if not isinstance(leaf, Tensor):
                arg = ConstantArgument(node.name, leaf)
            specs.append(InputSpec(InputKind.USER_INPUT, arg, None))
        return specs


def recorder_paths(graph: Graph) -> list[str]:
    """Modules that nodes come from, in order."""
    found: dict[str, None] = {}
    for node in graph.nodes:
        for path, _ in node.meta.get("nn_module_stack", {}).values():
            if path:
                found[path] = None
    return list(found)


def _output_spec(value):
    if isinstance(value, Node):
        kind = SymIntArgument if isinstance(value.meta.get("val"), SymInt) else TensorArgument
        return OutputSpec(OutputKind.USER_OUTPUT, kind(value.name), None)
    return OutputSpec(OutputKind.USER_OUTPUT, ConstantArgument("", value), None)


class _State:
    """Buffers of a module are exchanged for copies while it is recorded."""

    def __init__(self, mod: Module, buffers: Mapping[str, Tensor]) -> None:
        self.mod, self.buffers = mod, buffers
        twins = {id(tensor): tensor.detach().clone() for tensor in buffers.values()}
        self.clones = {path: twins[id(tensor)] for path, tensor in buffers.items()}

    def _put(self, tensors):
        twins = {id(self.buffers[path]): tensor for path, tensor in tensors.items()}
        for module in self.mod.modules():
            for name, value in list(module._buffers.items()):
                if id(value) in twins:
                    module._buffers[name] = twins[id(value)]

    def __enter__(self) -> "_State":
        self.saved = [(m, dict(m._buffers), dict(m.__dict__)) for m in self.mod.modules()]
        self._put(self.clones)
        return self

    def __exit__(self, *error: Any) -> None:
        for module, buffers, attributes in self.saved:
            module._buffers.clear()
            module._buffers.update(buffers)
            gone = [name for name in module.__dict__ if name not in attributes]
            for name in gone:
                del module.__dict__[name]
            module.__dict__.update(attributes)


def _owner(mod, path):
    above, _, name = path.rpartition(".")
    return mod.get_submodule(above), name


def _non_persistent(mod):
    found = set()
    for path, module in mod.named_modules():
        found |= {f"{path}.{n}" if path else n for n in module._non_persistent_buffers_set}
    return found


def _tensor_attributes(mod):
    """Tensors that modules hold as plain attributes: id -> path."""
    found: dict[int, str] = {}
    for path, module in mod.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                found.setdefault(id(value), f"{path}.{name}" if path else name)
    return found


def _input_names(inputs):
    """What leaves of inputs are called: x, y_a, y_b_0."""
    found = []
    for name, value in inputs.items():
        for path, _ in pytree.tree_flatten_with_path(value)[0]:
            found.append("_".join([name, *(str(_key(step)) for step in path)]))
    taken: dict[str, int] = {}
    for k, name in enumerate(found):
        clean = _identifier(name)
        count = taken[clean] = taken.get(clean, -1) + 1
        found[k] = f"{clean}_{count}" if count else clean
    return found


def _identifier(path):
    """A path as a name: what may not stand in one becomes an underscore."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in path)


def _key(step):
    for attribute in ("key", "idx", "name"):
        if hasattr(step, attribute):
            return getattr(step, attribute)
    return step


def _lifted(recorder, attributes, first):
    """Constants become inputs, in front of those of the user."""
    graph = recorder.graph
    found: dict[str, Tensor] = {}
    made: dict[str, Node] = {}
    by_path = {path: ident for ident, path in attributes.items()}
    for node in [n for n in graph.nodes if n.op == "get_attr" and "val" in n.meta]:
        path = node.target
        if path not in made:
            found[path] = _constant(recorder, path, by_path)
            with graph.inserting_before(first):
                made[path] = placeholder(graph, _identifier(f"c_{path}"))
            made[path].meta["val"] = node.meta["val"]
        node.replace_all_uses_with(made[path])
        graph.erase_node(node)
    for path in found:
        if hasattr(recorder.root, path):
            delattr(recorder.root, path)
    return found


def _constant(recorder, path, by_path):
    if path in by_path:
        return next(t for t in recorder.alive if id(t) == by_path[path])
    return getattr(recorder.root, path)


def _drop_unused_sizes(graph):
    """Arithmetic with sizes that nobody used."""
    for node in reversed(list(graph.nodes)):
        pure = node.op == "call_function" and (
            (
                getattr(node.target, "__module__", "") == "_operator"
                and node.target.__name__ != "getitem"
            )
            or str(node.target).startswith("aten.sym_size")
            or getattr(node.target, "__name__", "") == "sym_float"
        )
        if pure and not node.users:
            graph.erase_node(node)
