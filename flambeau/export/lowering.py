"""run_decompositions: a program runs again, with ops taken apart and nothing written in place.

It runs on tensors of a functional level (func/functional_levels.py), above a recorder: ops that
write become those that give a new value there.
"""

import contextlib
import operator
from collections.abc import Mapping
from typing import Any

import flambeau
from flambeau import interposing
from flambeau._higher_order_ops.cond import cond_op
from flambeau._higher_order_ops.grad_mode import wrap_with_set_grad_enabled
from flambeau._higher_order_ops.map import map_impl
from flambeau._higher_order_ops.scan import scan_op
from flambeau._higher_order_ops.while_loop import while_loop_op
from flambeau._tensor import Tensor
from flambeau.aten.overloads import OpOverload, recorded_by
from flambeau.export.exported_program import ExportedProgram
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
from flambeau.func.functional_levels import FunctionalLevel
from flambeau.fx.experimental.expressions import Expr
from flambeau.fx.experimental.op_recorder import OpRecorder
from flambeau.fx.experimental.recorder import overload, placeholder
from flambeau.fx.experimental.symbolic_shapes import Retry, ShapeEnv, SymInt
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node, map_arg
from flambeau.nn import Module
from flambeau.utils import _pytree as pytree

_ATTEMPTS = 100


class _Recorder(OpRecorder):
    """Records ops of a program that runs again."""

    source: Node | None = None  # of the program that runs

    def finish(self, node: Node, result: Any) -> None:
        """A node comes from where that of the program came from."""
        if self.source is not None:
            for key in ("stack_trace", "nn_module_stack"):
                if key in self.source.meta:
                    node.meta[key] = self.source.meta[key]


# -- programs --------------------------------------------------------------------------------------


def env_of(program: ExportedProgram) -> ShapeEnv:
    """The sizes of a program, with the values of its example."""
    env = ShapeEnv()
    ranges = {str(k): v for k, v in program.range_constraints.items()}
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op != "placeholder" or not isinstance(value, Tensor):
            continue
        for dim, (size, hint) in enumerate(zip(value.shape, value._layout.shape)):
            if not isinstance(size, SymInt):
                continue
            for name in size.expr.symbols:
                limits = ranges[name]
                if name not in env.symbols:
                    value_of = hint if size.expr.is_symbol else size.hint_of(name)
                    env.add(name, value_of, limits.lower, limits.upper)
            if size.expr.is_symbol:
                env.symbols[str(size.expr)].sources.append((node.name, dim))
    env.constraints = [c for c in program._guards if set(c.left.symbols) <= set(env.symbols)]
    return env


def lowered(program: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    """A program in other ops."""
    env = env_of(program)
    for _ in range(_ATTEMPTS):
        env.draw()
        try:
            return _Lowering(program, env, table).run()
        except Retry as retry:
            env.narrow(retry.constraints)
    raise RuntimeError("sizes of this program could not be worked out")


class _Lowering:
    """A program that is being lowered."""

    def __init__(self, program: ExportedProgram, env: ShapeEnv, table: Mapping[Any, Any]) -> None:
        self.program, self.env = program, env
        self.recorder = _Recorder(Graph(), Module(), env)
        self.level = FunctionalLevel(table)
        self.values: dict[Node, Any] = {}
        self.originals: list[tuple[InputSpec, Tensor, Tensor]] = []
        given = pytree.tree_leaves(program.example_inputs)
        self.examples = [v.detach().clone() if isinstance(v, Tensor) else v for v in given]

    def run(self) -> ExportedProgram:
        """Run all nodes under the recorder."""
        random_state = flambeau.get_rng_state()
        places = [n for n in self.program.graph.nodes if n.op == "placeholder"]
        for node, spec in zip(places, self.program.graph_signature.input_specs):
            self._input(node, spec)
        self._sizes()
        try:
            with self.recorder, self.level, flambeau.no_grad():
                for node in self.program.graph.nodes:
                    if node.op == "call_function":
                        self._call(node)
                    elif node.op == "get_attr":
                        self.values[node] = getattr(self.program.graph_module, node.target)
                return self._finished()
        finally:
            flambeau.set_rng_state(random_state)

    def _input(self, node, spec):
        recorder = self.recorder
        mine = placeholder(recorder.graph, node.name)
        mine.meta.update(node.meta)
        if isinstance(spec.arg, ConstantArgument):
            self.values[node] = spec.arg.value
            if self.examples:
                self.examples.pop(0)
            return
        fake = node.meta["val"]
        if spec.kind is InputKind.USER_INPUT:
            value = self.examples.pop(0) if self.examples else _example_of(fake)
            if isinstance(fake.shape, tuple) and any(isinstance(s, SymInt) for s in fake.shape):
                exprs = [s.expr if isinstance(s, SymInt) else Expr.of(s) for s in fake.shape]
                others = [
                    flambeau.empty([e.value(s) for e in exprs], dtype=fake.dtype, device="meta")
                    for s in self.env.samples[1:]
                ]
                recorder.shadow(value, others)
        else:
            value = self.program._value_of(spec).detach().clone()
        recorder.track(value, mine)
        self.values[node] = self.level.lift(value)
        self.originals.append((spec, value, self.values[node]))

    def _sizes(self):
        nodes = {n.target: n for n in self.recorder.graph.nodes}
        for symbol in self.env.symbols.values():
            if symbol.sources and symbol.name not in self.env._solved()[0]:
                name, dim = symbol.sources[0]
                node = self.recorder.graph.create_node(
                    "call_function", overload("sym_size.int"), (nodes[name], dim), {},
                    "sym_size_int",
                )  # fmt: skip
                node.meta["val"] = SymInt(Expr.symbol(symbol.name), self.env, node)
                self.recorder.sizes_of[symbol.name] = node

    def _call(self, node):
        self.recorder.source = node
        args = map_arg(node.args, lambda n: self.values[n])
        kwargs = map_arg(node.kwargs, lambda n: self.values[n])
        target = node.target
        if target is operator.getitem:
            self.values[node] = args[0][args[1]]
        elif str(target).startswith("aten.sym_size"):
            self.values[node] = args[0].shape[args[1]]
        elif str(target) == "aten.detach_.default":  # nothing is differentiated
            self.values[node] = args[0]
        elif isinstance(target, OpOverload) and target.namespace == "aten":
            self.values[node] = self.level.call(target, *_unfrozen(args), **kwargs)
        elif target is cond_op:
            self._choose(node, *args)
        elif target in LOOPS:
            self._keep_loop(node, args)
        elif target is wrap_with_set_grad_enabled:
            self._inline(node, *args)
        else:
            self.values[node] = target(*args, **kwargs)

    def _inline(self, node, mode, module, *operands):
        """A region without gradients is like any other where nothing is differentiated."""
        places = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.values.update(zip(places, operands))
        for inner in module.graph.nodes:
            if inner.op == "call_function":
                self._call(inner)
        self.values[node] = [self.values[n] for n in module.graph.output_node().args[0]]

    def _choose(self, node, pred, yes, no, operands):
        """Branches stay as they are."""
        recorder = self.recorder
        pred, operands = self.level.values((pred, tuple(operands)))
        with self._unseen():
            found = recorder.run(yes if bool(pred) else no, operands, {})
            found = recorder.write_branches(cond_op, pred, (yes, no), operands, found)
        self.values[node] = self.level.lifted(found)

    def _samples(self, dtype, shape):
        """A tensor of a shape with symbols, for each sample but the first."""
        found = []
        for sample in self.recorder.env.samples[1:]:
            sizes = [s.expr.value(sample) if isinstance(s, SymInt) else s for s in shape]
            found.append(flambeau.empty(sizes, dtype=dtype, device="meta"))
        return found

    def _keep_loop(self, node, args):
        """Loops stay as they are, too."""
        recorder = self.recorder
        graphs = {
            a.target.rpartition("_")[0]: self.values[a] for a in node.args if isinstance(a, Node)
        }
        args = self.level.values(args)
        with self._unseen():
            found = tuple(node.target.function()(*args))
            for leaf, seen in zip(found, node.meta["val"]):
                if any(isinstance(size, SymInt) for size in seen.shape):
                    recorder.shadow(leaf, self._samples(leaf.dtype, seen.shape))
            groups = tuple(args[len(graphs) :])
            found = recorder.write_graph_op(node.target, graphs, groups, found)
        self.values[node] = self.level.lifted(found)

    def _unseen(self):
        """What runs in such a block is recorded by nobody."""
        stack = contextlib.ExitStack()
        for part in (self.level.off(), interposing.switched_off(self.recorder), recorded_by(None)):
            stack.enter_context(part)
        return stack

    def _finished(self):
        recorder, program = self.recorder, self.program
        graph = recorder.graph
        outputs: list[Any] = []
        specs: list[OutputSpec] = []
        for spec, original, tensor in self.originals:
            value = self.level.value(tensor)
            if value is not original:
                node, place = recorder.leaf(value), recorder.nodes[id(original)]
                kind = _MUTATIONS[spec.kind]
                target = place.name if spec.kind is InputKind.USER_INPUT else spec.target
                outputs.append(node)
                specs.append(OutputSpec(kind, TensorArgument(node.name), target))
        recorder.source = None
        old = program.graph.output_node().args[0]
        for spec, value in zip(program.graph_signature.output_specs, old):
            found = value
            if isinstance(value, Node):
                found = recorder.leaf(self.level.value(self.values[value]))
            outputs.append(found)
            specs.append(OutputSpec(spec.kind, _named(spec, found), spec.target))
        graph.output(tuple(outputs))
        _drop_unused(graph)
        inputs = [
            _input_spec(s, n) for s, n in zip(program.graph_signature.input_specs, graph.nodes)
        ]
        result = ExportedProgram(
            recorder.root, graph, ExportGraphSignature(inputs, specs), program.state_dict,
            self.env.ranges, program.module_call_graph, program.example_inputs, program.constants,
        )  # fmt: skip
        result._guards, result._dialect = list(self.env.constraints), "ATEN"
        self.env.recorder = None
        return result


LOOPS = (while_loop_op, map_impl, scan_op)
_MUTATIONS = {
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
    InputKind.CONSTANT_TENSOR: OutputKind.BUFFER_MUTATION,
}


def _unfrozen(args):
    """Lists of nodes are a class of their own; ops want plain ones."""
    return [list(arg) if isinstance(arg, list) else arg for arg in args]


def _example_of(fake):
    """A tensor like the one a program was recorded with."""
    if fake.dtype.is_floating_point or fake.dtype.is_complex:
        return flambeau.ones(fake._layout.shape, dtype=fake.dtype)
    return flambeau.zeros(fake._layout.shape, dtype=fake.dtype)


def _named(spec, found):
    if isinstance(found, Node):
        symbolic = isinstance(found.meta.get("val"), SymInt)
        return SymIntArgument(found.name) if symbolic else TensorArgument(found.name)
    return ConstantArgument("", found)


def _input_spec(spec, node):
    arg = spec.arg
    if isinstance(arg, TensorArgument):
        arg = TensorArgument(node.name)
    return InputSpec(spec.kind, arg, spec.target, spec.persistent)


def _drop_unused(graph):
    """Nodes that nobody needs, other than checks."""
    for node in reversed(list(graph.nodes)):
        if node.op != "call_function" or node.users:
            continue
        if isinstance(node.target, OpOverload):
            short = node.target.overloadpacket.__name__
            keeps = short.startswith("_assert") or (
                node.target.namespace == "aten" and node.target._schema.is_mutable
            )
            if keeps or (short.startswith(("rand", "bernoulli", "normal")) and not node.meta):
                continue
        graph.erase_node(node)
