"""make_fx: a function runs on tensors, and the ops it comes down to are recorded.

Unlike `symbolic_trace` this sees values, so branches are taken as they fall, and what is recorded
are calls of `torch.ops.aten`: the ops of backward as well, if it runs.
"""

import inspect
import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

from flambeau._tensor import Tensor
from flambeau.eager import interposing
from flambeau.eager.dispatching import _Below, _on_tensors
from flambeau.eager.overloads import OpOverload, namespace, overload_of
from flambeau.fx.codegen import _PyTreeCodeGen, _PyTreeInfo
from flambeau.fx.experimental.op_calls import as_aten, index_steps
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, map_aggregate
from flambeau.fx.passes.shape_prop import _extract_tensor_metadata
from flambeau.nn import Module, Parameter
from flambeau.utils import _pytree as pytree

__all__ = ["ProxyTorchDispatchMode", "get_proxy_mode", "make_fx"]

_OURS = __file__.removesuffix("fx/experimental/proxy_tensor.py")  # files of this package
# an index may be anything, which ops of aten say in many ways
_OPERATORS = {"__getitem__": operator.getitem, "__setitem__": operator.setitem}
_READERS = frozenset({"aten::item", "aten::is_nonzero"})
_NO_VALUES = (
    "It appears that you're trying to get value out of a tracing tensor with {} - erroring out! "
    "It's likely that this is caused by data-dependent control flow or similar.  It may be "
    "possible to trace this with dynamic shapes; try setting tracing_mode='symbolic' in your "
    "make_fx call."
)


class ProxyTorchDispatchMode(_Below):
    """Records ops; knows which tensor is the value of which node."""

    def __init__(self, graph: Graph, root: Module, decompositions: Mapping[Any, Callable]) -> None:
        self.graph, self.root, self.decompositions = graph, root, decompositions
        self.nodes: dict[int, Node] = {}  # by id of a tensor,
        self.places: dict[tuple, Node] = {}  # by what it looks at,
        self.storages: dict[int, Node] = {}  # by its memory
        self.alive: list[Tensor] = []  # an id is a tensor's own as long as the tensor lives
        self.constants: dict[str, int] = {}

    def __enter__(self) -> "ProxyTorchDispatchMode":
        interposing.push(self)
        interposing.push(_on_tensors)
        return self

    def __exit__(self, *error: Any) -> None:
        interposing.pop(_on_tensors)
        interposing.pop(self)

    def track(self, tensor: Tensor, node: Node) -> None:
        """Note that a tensor is the value of a node."""
        self._note(tensor, node)
        node.meta["val"] = tensor.detach()
        node.meta["tensor_meta"] = _extract_tensor_metadata(tensor)

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        target = _target(name, args, kwargs)
        if target in self.decompositions:
            with interposing.handling(_Again(self)):
                return self.decompositions[target](*args, **kwargs)
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        known = any(self._is_known(t) for t in tensors)
        if name in _READERS and known and not _is_ours(sys._getframe(1)):
            raise RuntimeError(_NO_VALUES.format("aten._local_scalar_dense.default"))
        short = target.__name__.partition(".")[0]
        result = function(*args, **kwargs)
        if known or not tensors or _draws(short):  # else it is a constant of constants
            self._record(name, target, args, kwargs, result)
        return result

    def _record(self, name, target, args, kwargs, result):
        short = target.__name__.partition(".")[0]
        if target is operator.getitem and self._record_index(args, result):
            return
        if isinstance(target, OpOverload):
            args, kwargs = as_aten(name, short, args, kwargs)
        given, named = self.argument(args), dict(self.argument(kwargs))
        node = self.graph.create_node("call_function", target, given, named, short)
        self._track_result(result, node)

    def _record_index(self, args, result):
        """An index that is made of ops of aten; False if it is not."""
        tensor, index = args
        steps = index_steps(tensor.ndim, index)
        if not steps:
            return False
        node = self._leaf(tensor)
        for op, rest in steps:
            short, _, overload = op.partition(".")
            target = getattr(getattr(namespace("aten"), short), overload)
            node = self.graph.create_node("call_function", target, (node, *rest), {}, short)
        self.track(result, node)
        return True

    def _track_result(self, result, node):
        if isinstance(result, Tensor):
            self.track(result, node)
        elif isinstance(result, (tuple, list)):
            for k, item in enumerate(result):
                if isinstance(item, Tensor):
                    part = self.graph.call_function(operator.getitem, (node, k))
                    self.track(item, part)

    def argument(self, value: Any) -> Any:
        """Values as arguments of nodes: tensors become nodes."""
        return map_aggregate(value, self._leaf)

    def _leaf(self, value):
        if not isinstance(value, Tensor):
            return value
        found = self.nodes.get(id(value)) or self.places.get(_place(value))
        if found is not None:
            return found
        if id(value._storage) in self.storages:
            return self._view(value)
        self._keep(value)
        return self.nodes[id(value)]

    def _note(self, tensor, node):
        self.nodes[id(tensor)] = self.places[_place(tensor)] = node
        self.storages.setdefault(id(tensor._storage), node)
        self.alive.append(tensor)

    def _is_known(self, tensor):
        return id(tensor) in self.nodes or id(tensor._storage) in self.storages

    def _view(self, tensor):
        """Another look at the memory of a value, such as one that was saved for backward."""
        target = namespace("aten").as_strided.default
        shape = (list(tensor.shape), list(tensor.stride()), tensor.storage_offset())
        node = self.graph.call_function(target, (self.storages[id(tensor._storage)], *shape))
        self._note(tensor, node)
        return node

    def _keep(self, value):
        """A tensor that comes from elsewhere is a constant of the module."""
        prefix = "_param_constant" if isinstance(value, Parameter) else "_tensor_constant"
        number = self.constants[prefix] = self.constants.get(prefix, -1) + 1
        name = f"{prefix}{number}"
        setattr(self.root, name, value)
        node = self.graph.create_node("get_attr", name)
        self.nodes[id(value)] = node
        self.alive.append(value)
        node.meta["val"] = value


def _place(tensor):
    """Which memory a tensor looks at, and how."""
    return id(tensor._storage), tensor._offset, tensor._layout


def _is_ours(frame):
    """Is a value asked for by code of this package, as checks in linear algebra do?"""
    while frame is not None and "interposing" in frame.f_code.co_filename:
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename.startswith("<flambeau"):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_OURS)


class _Again(_Below):
    """Records what the function does that takes an op apart, while its mode handles the op."""

    def __init__(self, mode: ProxyTorchDispatchMode) -> None:
        self.mode = mode

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        return self.mode.around(name, function, args, kwargs)


def _target(name, args, kwargs):
    """What is called: an op of aten, or the function itself where PyTorch has no such op."""
    if name.place.key in _OPERATORS:
        return _OPERATORS[name.place.key]
    overload = overload_of(name, args, kwargs)
    is_op = overload.namespace == "aten" and overload.overloadpacket.function() is not None
    return overload if is_op else name.function


def _draws(name):
    """Does an op give something new at each call?"""
    return name.startswith(("rand", "empty", "normal", "bernoulli"))


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The mode that records now."""
    found = [h for h in interposing.handlers() if isinstance(h, ProxyTorchDispatchMode)]
    return found[-1] if found else None


def _names(function, args):
    """What the arguments are called."""
    plain = function.forward if isinstance(function, Module) else inspect.unwrap(function)
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

    def wrapped(*args: Any) -> GraphModule:
        graph, root = Graph(), Module()
        mode = ProxyTorchDispatchMode(graph, root, decomposition_table or {})
        names = _names(f, args)
        given = [_placeholders(graph, mode, name, value) for name, value in zip(names, args)]
        spec = pytree.tree_flatten(list(args))[1]
        flat = all(child.is_leaf() for child in spec.children())
        with mode:
            result = f(*given)
        _finish(graph, mode, result, None if flat else (names, spec))
        name = type(f).__name__ if isinstance(f, Module) else getattr(f, "__name__", "")
        return GraphModule(root, graph, name or "GraphModule")

    return wrapped


def _placeholders(graph, mode, name, tree):
    """Placeholders for the leaves of an argument; tensors are taken anew, as names for them."""
    count = 0

    def leaf(value):
        nonlocal count
        count += 1
        node = graph.placeholder(f"{name}_{count}")
        if isinstance(value, Tensor):
            mode.track(value, node)
        else:
            node.meta["val"] = value
        return value

    return pytree.tree_map(leaf, tree)


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
