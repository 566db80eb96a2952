"""make_fx: a function runs on tensors, and the ops it comes down to are recorded.

Unlike `symbolic_trace` this sees values, so branches are taken as they fall, and what is recorded
are calls of `torch.ops.aten`: the ops of backward as well, if it runs.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import flambeau
from flambeau import interposing
from flambeau._decomp import composite_decompositions
from flambeau._decomp.composites import names as composite_names
from flambeau._tensor import Tensor
from flambeau.aten.overloads import namespace
from flambeau.eager import methods
from flambeau.fx.codegen import _PyTreeCodeGen, _PyTreeInfo
from flambeau.fx.experimental.op_recorder import OpRecorder
from flambeau.fx.experimental.recorder import overload
from flambeau.fx.experimental.symbolic_shapes import Retry, ShapeEnv
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.interposing.dispatching import _Below
from flambeau.nn import Module
from flambeau.transforms.levels import running
from flambeau.utils import _pytree as pytree

__all__ = ["ProxyTorchDispatchMode", "get_proxy_mode", "make_fx"]

_NO_VALUES = (
    "It appears that you're trying to get value out of a tracing tensor with {} - erroring out! "
    "It's likely that this is caused by data-dependent control flow or similar.  It may be "
    "possible to trace this with dynamic shapes; try setting tracing_mode='symbolic' in your "
    "make_fx call."
)
# functions here that PyTorch's dispatcher is not asked about as a whole
_SEEN_WHOLE = frozenset("__getitem__ __setitem__".split())
# ops whose result is kept for backward, which PyTorch records
_KEEP_RESULT = frozenset(
    "_softmax _log_softmax relu relu_ sigmoid sigmoid_ tanh tanh_ exp exp_ sqrt rsqrt reciprocal "
    "log_sigmoid_forward selu elu".split()
)


class ProxyTorchDispatchMode(OpRecorder):
    """Records ops that are not made of others; knows which tensor is the value of which node."""

    def __init__(
        self,
        graph: Graph,
        root: Module,
        decompositions: Mapping[Any, Callable],
        env: ShapeEnv | None = None,
        fake: bool = False,
        pre_dispatch: bool = False,
    ) -> None:
        apart = dict(decompositions)
        if not pre_dispatch:
            apart = {**composite_decompositions(), **apart}
        if env is None:
            env = ShapeEnv()
            env.draw()
        super().__init__(graph, root, env, decompositions=apart)
        self.fake, self.pre_dispatch = fake, pre_dispatch
        self.composites = composite_names()
        self.kept: dict[int, str] = {}  # constants, and what they are called

    def wants(self, place: interposing.Place) -> bool:
        if self.pre_dispatch or place.kind != "op":
            return bool(super().wants(place))
        if place.key in _SEEN_WHOLE or _Below.wants(self, place):
            return True
        name = str(place.naming).partition("::")[2] if isinstance(place.naming, str) else ""
        return super().wants(place) and (name in self.composites or place.key in self.composites)

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        if name.kind == "op":
            leaves = pytree.tree_leaves((args, kwargs))
            tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
            short = name.partition("::")[2]
            changes = short.endswith("_") or _draws(short)
            if tensors and not any(map(self.is_known, tensors)) and not changes:
                return function(*args, **kwargs)  # a constant of constants
        return super().around(name, function, args, kwargs)

    def write(self, target: Any, args: tuple, kwargs: dict, result: Any) -> Node:
        node = super().write(target, args, kwargs, result)
        short = node.target.__name__.partition(".")[0]
        kept = short in _KEEP_RESULT and isinstance(result, Tensor) and not running.tapes
        if kept and result.requires_grad:
            target = namespace("aten").detach.default
            self.graph.create_node("call_function", target, (node,), {}, "detach")
        return node

    def keep(self, value: Tensor) -> Node:
        """A constant is read anew wherever it is used."""
        name = self.kept.get(id(value))
        if name is not None:
            node = self.graph.create_node("get_attr", name)
            node.meta["val"] = value
            return node
        node = super().keep(value)
        if self.nodes.get(id(value)) is node:
            self.kept[id(value)] = str(node.target)
            del self.nodes[id(value)]
        return node

    def leaf(self, value: Any) -> Any:
        if id(value) in self.kept and id(value) not in self.nodes:
            return self.keep(value)
        return super().leaf(value)

    def is_known(self, tensor: Tensor) -> bool:
        return id(tensor) in self.kept or super().is_known(tensor)

    def finish(self, node: Node, result: Any) -> None:
        """Nodes say nothing about the program they come from."""

    def remembered(self, tensor: Tensor) -> Any:
        if self.fake:
            return super().remembered(tensor)
        with interposing.switched_off(self, *self.agains):
            return tensor.detach()

    def lift_fresh(self, tensor: Tensor, detached: bool) -> Tensor:
        with interposing.switched_off(self, *self.agains):
            kept = tensor.clone()
        self.alive.append(kept)
        self.write(overload("lift_fresh_copy.default"), (kept,), {}, tensor)
        return tensor

    def _read(self, key, function, tensor):
        if not self.is_known(tensor) or self._from_inside():
            return function(tensor)
        raise RuntimeError(_NO_VALUES.format("aten._local_scalar_dense.default"))


def _draws(name):
    """Does an op give something new at each call?"""
    return name.startswith(("rand", "empty", "normal", "bernoulli"))


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The mode that records now."""
    found = [h for h in interposing.handlers() if isinstance(h, ProxyTorchDispatchMode)]
    return found[-1] if found else None


def _is_builtin(function):
    """Is it a function of which PyTorch's says nothing of its parameters?"""
    module = getattr(function, "__module__", "")  # None once a function has been looked up
    return module in ("flambeau", None) and methods.is_function(function.__name__)


def _names(function, args):
    """What the arguments are called."""
    plain = function.forward if isinstance(function, Module) else inspect.unwrap(function)
    if plain is not function and _is_builtin(plain):
        return [f"arg{k}" for k in range(len(args))]
    try:
        found = list(inspect.signature(plain).parameters.values())
    except (TypeError, ValueError):
        found = []
    variable = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found)
    if isinstance(function, Module) or variable or len(found) < len(args):
        return [f"arg{k}" for k in range(len(args))]
    return [p.name for p in found[: len(args)]]


def make_fx(
    f: Callable,
    decomposition_table: Mapping[Any, Callable] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
) -> Callable[..., GraphModule]:
    """A function that runs f on its arguments and gives a module of the ops that ran.

    Example:
        >>> from flambeau.fx.experimental.proxy_tensor import make_fx
        >>> gm = make_fx(lambda x: flambeau.relu(x) * 2)(flambeau.ones(3))
        >>> print(gm.code.strip())
        def forward(self, x_1):
            relu = torch.ops.aten.relu.default(x_1);  x_1 = None
            mul = torch.ops.aten.mul.Tensor(relu, 2);  relu = None
            return mul
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"Unexpected tracing type: {tracing_mode}")
    table = decomposition_table or {}

    def wrapped(*args: Any) -> GraphModule:
        env = ShapeEnv()
        if tracing_mode == "symbolic":
            _add_symbols(env, args)
        for _ in range(_ATTEMPTS):
            env.draw()
            try:
                return _attempt(f, args, env, table, tracing_mode != "real", pre_dispatch)
            except Retry as retry:
                env.narrow(retry.constraints)
        raise RuntimeError("sizes of this program could not be worked out")

    return wrapped


_ATTEMPTS = 100


def _add_symbols(env, args):
    """One symbol for sizes of inputs that are equal; those of length 0 and 1 stay as they are."""
    seen: dict[int, Any] = {}
    for leaf in pytree.tree_leaves(args):
        for size in leaf.shape if isinstance(leaf, Tensor) else ():
            if size > 1 and size not in seen:
                seen[size] = env.create(size, 2, math.inf)


def _attempt(f, args, env, table, fake, pre_dispatch):
    graph, root = Graph(), Module()
    mode = ProxyTorchDispatchMode(graph, root, table, env, fake, pre_dispatch)
    names = _names(f, args)
    given = [_placeholders(graph, mode, name, value) for name, value in zip(names, args)]
    spec = pytree.tree_flatten(list(args))[1]
    flat = all(child.is_leaf() for child in spec.children())
    with mode:
        result = f(*given)
    _finish(graph, mode, result, None if flat else (names, spec))
    env.recorder = None
    name = type(f).__name__ if isinstance(f, Module) else getattr(f, "__name__", "")
    return GraphModule(root, graph, name or "GraphModule")


def _placeholders(graph, mode, name, tree):
    """Placeholders for the leaves of an argument; tensors are taken anew, as names for them."""
    count = 0

    def leaf(value):
        nonlocal count
        count += 1
        node = graph.placeholder(f"{name}_{count}")
        if isinstance(value, Tensor):
            _give_symbols(mode, value)
            mode.track(value, node)
        else:
            node.meta["val"] = value
        return value

    return pytree.tree_map(leaf, tree)


def _give_symbols(mode, tensor):
    """Sizes of an input that stand for others as well."""
    env = mode.env
    by_hint = {symbol.hint: name for name, symbol in env.symbols.items()}
    if any(size in by_hint for size in tensor.shape):
        shapes = [[s[by_hint[n]] if n in by_hint else n for n in tensor.shape]
                  for s in env.samples[1:]]  # fmt: skip
        mode.shadow(
            tensor, [flambeau.empty(shape, dtype=tensor.dtype, device="meta") for shape in shapes]
        )


def _finish(graph, mode, result, shape):
    if shape is None:
        graph.output(mode.argument(_plain(result)))
        return
    names, spec = shape
    leaves, out = pytree.tree_flatten(result)
    graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, spec, out)))
    graph.output(mode.argument(leaves))


def _plain(result):
    """Named results of ops as tuples."""
    if isinstance(result, tuple):
        return tuple(map(_plain, result))
    if isinstance(result, list):
        return list(map(_plain, result))
    if isinstance(result, dict):
        return {key: _plain(value) for key, value in result.items()}
    return result


def disable_proxy_modes_tracing() -> Any:
    """A context in which nothing is recorded."""
    mode = get_proxy_mode()
    return interposing.switched_off(*([] if mode is None else [mode]))
