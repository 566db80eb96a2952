"""Node: one step of a graph, and functions that walk through arguments."""

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau._tensor import Tensor
from flambeau.aten.overloads import OpOverload
from flambeau.fx.immutable_collections import immutable_dict, immutable_list
from flambeau.fx.naming import _get_qualified_name as _get_qualified_name
from flambeau.fx.naming import _type_repr as _type_repr
from flambeau.fx.naming import pretty_target

if TYPE_CHECKING:
    from flambeau.fx.graph import Graph

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

Argument = Any
Target = Callable | str
BaseArgumentTypes = (
    str | int | float | bool | complex | flambeau.dtype | Tensor | flambeau.device
    | flambeau.memory_format | flambeau.layout | OpOverload
)  # fmt: skip
base_types = BaseArgumentTypes.__args__

_legal_ops = frozenset(
    "placeholder call_method call_module call_function get_attr output root".split()
)

_side_effectful_functions: set[Callable] = {
    flambeau._assert,
    operator.setitem,
    setattr,
}
_RANDOM = frozenset(
    "bernoulli dropout multinomial normal poisson rand rand_like randint randint_like randn "
    "randn_like randperm".split()
)


def has_side_effect(fn: Callable) -> Callable:
    """Marks a function whose calls are never dead code; it comes back as it is."""
    _side_effectful_functions.add(fn)
    return fn


# -- walking through arguments ---------------------------------------------------------------------


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """The same structure with fn applied to every leaf of tuples, lists, dictionaries, slices."""
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[["Node"], Argument]) -> Argument:
    """The same structure with fn applied to every node in it."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _format_arg(arg: object, max_list_len: float = float("inf")) -> str:
    """An argument in the text of a graph: nodes with %."""
    if isinstance(arg, Node):
        return "%" + arg.name
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, (list, tuple)):
        return _format_items(arg, max_list_len)
    if isinstance(arg, dict):
        items = (f"{key}: {_format_arg(value)}" for key, value in arg.items())
        return "{" + ", ".join(items) + "}"
    return str(arg)


def _format_items(items, max_list_len):
    shown = [_format_arg(item) for k, item in enumerate(items) if k < max_list_len]
    if len(items) > max_list_len:
        shown.append(f"...[total_len={len(items)}]")
    if isinstance(items, list):
        return "[" + ", ".join(shown) + "]"
    return "(" + ", ".join(shown) + (",)" if len(items) == 1 else ")")


# -- nodes -----------------------------------------------------------------------------------------


class Node:
    """One step of a graph; `op` says of which kind.

    placeholder: an argument called `target`; args holds its default, if any. get_attr: an attribute
    of the module, by path. call_function: `target` is the function. call_module: `target` is the
    path of a submodule. call_method: `target` is the method's name, args[0] the object. output:
    args[0] is returned.
    """

    graph: "Graph"
    name: str
    op: str
    target: Any
    users: dict["Node", None]
    type: Any
    meta: dict[str, Any]

    def __init__(
        self,
        graph: "Graph",
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any = None,
    ) -> None:
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if op == "call_function":
            if not callable(target):
                raise ValueError(_wrong_target(graph, name, target, "a Callable"))
        elif not isinstance(target, str):
            raise ValueError(_wrong_target(graph, name, target, "a str"))
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type, self.users, self.meta = return_type, {}, {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple = ()
        self._kwargs: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._update_args_kwargs(args, kwargs)

    # -- the list ----------------------------------------------------------------------------
    @property
    def next(self) -> "Node":
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> "Node":
        """The node before this one."""
        return self._prev

    def prepend(self, x: "Node") -> None:
        """Put a node of the same graph before this one, wherever it was."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._order.clear()

    def append(self, x: "Node") -> None:
        """Put a node of the same graph after this one."""
        if self is not x:
            self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev
        self.graph._order.clear()

    @property
    def _sort_key(self) -> tuple[int, ...]:
        return (self.graph._position(self),)

    def __lt__(self, other: "Node") -> bool:
        return self._sort_key < other._sort_key

    def __le__(self, other: "Node") -> bool:
        return self._sort_key <= other._sort_key

    def __gt__(self, other: "Node") -> bool:
        return self._sort_key > other._sort_key

    def __ge__(self, other: "Node") -> bool:
        return self._sort_key >= other._sort_key

    # -- arguments ---------------------------------------------------------------------------
    @property
    def args(self) -> tuple[Argument, ...]:
        """Arguments by position; users of nodes follow when they are assigned."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._update_args_kwargs(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """Arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._update_args_kwargs(self._args, k)

    @property
    def all_input_nodes(self) -> list["Node"]:
        """Nodes among the arguments, each once."""
        return list(self._input_nodes)

    def _update_args_kwargs(self, args, kwargs):
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def use(node):
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args, self._kwargs = map_arg(args, use), map_arg(kwargs, use)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Exchange the argument at a position."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put an argument in front of the one at a position."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError(
                f"insert_args index must be between 0 and len(self.args), got {idx}"
            )
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Exchange or add an argument by name."""
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: "Node", new_input: "Node") -> None:
        """Take another node wherever one is an argument of this one."""
        self._told_of_replacement(old_input, new_input)
        exchange = lambda node: new_input if node is old_input else node
        self._update_args_kwargs(map_arg(self.args, exchange), map_arg(self.kwargs, exchange))

    def replace_all_uses_with(
        self,
        replace_with: "Node",
        delete_user_cb: Callable[["Node"], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list["Node"]:
        """Let the users of this node use another one; gives those that do."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                    "replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [u for u in self.users if delete_user_cb is None or delete_user_cb(u)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def _told_of_replacement(self, old, new):
        module = self.graph.owning_module
        for hook in getattr(module, "_replace_hooks", ()):
            hook(old=old, new=new.name if isinstance(new, Node) else new, user=self)

    # -- what it means -----------------------------------------------------------------------
    @property
    def stack_trace(self) -> str | None:
        """Where the call was made, innermost frame last, if the tracer kept it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Does it do more than compute a value, so that it stays without users?"""
        if self.op in ("placeholder", "output") or self.meta.get("writes"):
            return True
        if self.op == "call_function":
            if self.target in _side_effectful_functions or _writes(self.target):
                return True
            return impure_random and getattr(self.target, "__name__", "") in _RANDOM
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            return getattr(owner.get_submodule(self.target), "_is_impure", False)
        return False

    def normalized_arguments(
        self,
        root: Any,
        arg_types: tuple[Any] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Any:
        """Arguments matched with the signature of what is called, defaults included; or None."""
        from flambeau.fx.operator_schemas import normalize_function, normalize_module

        if self.op == "call_function":
            return normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types,
                normalize_to_only_use_kwargs,
            )  # fmt: skip
        if self.op == "call_module":
            return normalize_module(
                root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs
            )
        return None

    # -- text --------------------------------------------------------------------------------
    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    @staticmethod
    def _pretty_print_target(target: object) -> str:
        return pretty_target(target)

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate)
            self.graph._graph_namespace._rename_object(self, self.name)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """A line about this node; a graph collects placeholders and the result's type."""
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        kind = f"{_type_repr(self.type)} " if self.type else ""
        begin = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        begin += f"[target={self._pretty_print_target(self.target)}]"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.target + (f": {kind.strip()}" if kind else ""))
            return begin + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return begin
        return f"{begin}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"

    # -- pickling ----------------------------------------------------------------------------
    def __reduce__(self) -> tuple:
        return _node_at, (self.graph, self.graph._position(self))


def _node_at(graph, place):
    return list(graph.nodes)[place]


def _wrong_target(graph, name, target, wanted):
    return (
        f"Node [graph = {graph}, name = '{name}'] target {target} has type "
        f"{flambeau.typename(target)} but {wanted} is expected"
    )


def _writes(target):
    """Does a recorded op of aten change one of its arguments?"""
    packet = getattr(target, "overloadpacket", None)
    name = getattr(packet, "__name__", "")
    return name.endswith("_") and not name.endswith("__")
