"""Graph: a program as a list of nodes."""

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from flambeau.fx.codegen import CodeGen as CodeGen
from flambeau.fx.codegen import PythonCode as PythonCode
from flambeau.fx.codegen import TransformCodeFunc as TransformCodeFunc
from flambeau.fx.codegen import _format_target as _format_target
from flambeau.fx.codegen import _PyTreeCodeGen as _PyTreeCodeGen
from flambeau.fx.codegen import _PyTreeInfo as _PyTreeInfo
from flambeau.fx.codegen import inplace_methods as inplace_methods
from flambeau.fx.codegen import magic_methods as magic_methods
from flambeau.fx.codegen import reflectable_magic_methods as reflectable_magic_methods
from flambeau.fx.naming import _is_magic as _is_magic
from flambeau.fx.naming import _Namespace as _Namespace
from flambeau.fx.naming import _snake_case as _snake_case
from flambeau.fx.node import (
    Argument,
    Node,
    Target,
    map_aggregate,
    map_arg,
)  # fmt: skip
from flambeau.fx.node import (
    _get_qualified_name as _get_qualified_name,
)
from flambeau.fx.node import (
    _legal_ops as _legal_ops,
)
from flambeau.fx.node import (
    _type_repr as _type_repr,
)
from flambeau.fx.tables import table

if TYPE_CHECKING:
    from flambeau.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

_NOTHING: Any = object()


class _node_list:
    """The nodes of a graph, in order; graphs may change while they are gone through."""

    def __init__(self, graph: "Graph", direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> "_node_list":
        return _node_list(self.graph, "_prev" if self.direction == "_next" else "_next")


class _InsertPoint:
    """Where nodes are put; as a context, until it ends."""

    def __init__(self, graph: "Graph", new_insert: Callable[[Node], None]) -> None:
        self.graph, self.orig_insert = graph, graph._insert
        graph._insert = new_insert

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.graph._insert = self.orig_insert


class Graph:
    """A program: placeholders, calls, and an output, each a Node.

    Example:
        >>> from flambeau import fx
        >>> graph = fx.Graph()
        >>> x = graph.placeholder("x")
        >>> graph.output(graph.call_function(flambeau.relu, (x,)))
        output
        >>> print(graph)
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
            return relu
    """

    def __init__(
        self,
        owning_module: "GraphModule | None" = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._order: dict[Node, int] = {}  # positions, until nodes move
        self._len = 0
        self._graph_namespace = _Namespace()
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._owning_module = owning_module
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> "GraphModule | None":
        """The module that runs this graph."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: "GraphModule | None") -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in order; `reversed` goes the other way."""
        return _node_list(self)

    def _position(self, node: Node) -> int:
        if not self._order:
            self._order = {n: k for k, n in enumerate(self.nodes)}
        return self._order.get(node, -1)

    # -- making nodes ------------------------------------------------------------------------
    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Make a node and put it at the insertion point."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(candidate)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        for hook in getattr(self.owning_module, "_create_node_hooks", ()):
            hook(node)
        return node

    def _target_to_str(self, target: Target) -> str:
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        if callable(target) and _get_qualified_name(target).startswith("torch."):
            name = _get_qualified_name(target).rpartition(".")[2] if "." not in name else name
        return _snake_case(name[2:-2] if _is_magic(name) else name)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = _NOTHING) -> Node:
        """An argument of the program; *args and **kwargs are written with their stars."""
        args = () if default_value is _NOTHING or _is_empty(default_value) else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """An attribute of the module, by path."""
        if self.owning_module is not None:
            _warn_of_missing(self.owning_module, qualified_name)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a submodule, by path."""
        if self.owning_module is not None:
            self.owning_module.get_submodule(module_name)  # or tell that it is not there
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A call of a method of args[0]."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """What the program returns."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        """The size of a tensor along a dimension."""
        return self.call_method("size", (tensor_node, dim))

    # -- changing ----------------------------------------------------------------------------
    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """From now on, or in a `with`, nodes are put before a node; without one at the start."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """From now on, or in a `with`, nodes are put right after a node; without one at the end."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Take out a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs((), {})

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.users.clear()
            self.erase_node(node)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """A copy of a node of another graph; arg_transform finds its arguments here."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        result = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        result.meta = copy.copy(node.meta)
        return result

    def graph_copy(
        self, g: "Graph", val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Argument | None:
        """Copy the nodes of a graph into this one; gives what its output is here."""
        here = val_map.__getitem__
        for node in (n for n in g.nodes if n not in val_map):
            if node.op != "output":
                val_map[node] = self.node_copy(node, here)
                continue
            result = map_arg(node.args[0], here)
            return (result, node) if return_output_node else result
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> "Graph":
        memo = {} if memo is None else memo
        twin = Graph(tracer_cls=self._tracer_cls)
        val_map: dict[Node, Node] = {}
        found = twin.graph_copy(self, val_map, return_output_node=True)
        memo.update((id(old), new) for old, new in val_map.items())
        twin._codegen = copy.deepcopy(self._codegen, memo)
        if found is not None:
            value, old = found
            new = twin.output(value, type_expr=old.type)
            new.meta = copy.copy(old.meta)
            memo[id(old)] = new
        return twin

    def __reduce__(self) -> tuple:
        """Nodes one after another, arguments by number: graphs may be long."""
        numbers = {node: _Number(k) for k, node in enumerate(self.nodes)}
        find = numbers.__getitem__
        rows = [
            (n.op, n.target, map_arg(n.args, find), map_arg(n.kwargs, find), n.name, n.type, n.meta)
            for n in self.nodes
        ]
        return _rebuilt, (rows, self._codegen, self._tracer_cls, self.owning_module)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out nodes without users that do nothing else; was there one?"""
        self.lint()
        keeps = is_impure_node or Node.is_impure
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not keeps(node):
                self.erase_node(node)
        return self._len != before

    # -- asking ------------------------------------------------------------------------------
    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, with a target."""
        if op == "call_function" and target is None:
            raise AssertionError("target must not be None for call_function op")
        same = lambda node: target is None or node.target == target
        return [node for node in self.nodes if node.op == op and same(node)]

    def output_node(self) -> Node:
        """The last node, which is the output."""
        last = self._root._prev
        if last.op != "output":
            raise AssertionError(f"Expected output node, got op={last.op}")
        return last

    def lint(self) -> None:
        """Raise an error if something is wrong with the graph."""
        order = {node: k for k, node in enumerate(self.nodes)}
        first: dict[str, Node] = {}
        for node in order:
            first.setdefault(node.name, node)
            wrong = next(self._wrongs(node, order, first), None)
            if wrong is not None:
                raise RuntimeError(wrong)
        module = self.owning_module
        for node in order if module is not None else ():
            if node.op in ("get_attr", "call_module"):
                _check_path(module, node)

    def _wrongs(self, node, order, first):
        """What is wrong with a node; order: the place of each, first: who had a name first."""
        if node.op not in _legal_ops:
            yield f"Node {node} had unknown opcode {node.op}!"
        if node.graph is not self:
            yield f"Node '{node}' does not belong to this Graph!"
        if node not in self._graph_namespace._obj_to_name:
            yield f"Node '{node}' is not registered in the graph namespace!"
        for arg in node.all_input_nodes:
            told = f"Argument '{arg}' of Node '{node}'"
            if arg.graph is not self:
                yield (
                    f"{told} does not belong to this Graph, but was used as an argument! If you "
                    "are copying nodes from another graph, make sure to use ``arg_transform`` on "
                    f"node_copy() to remap values\n{self}"
                )
            if order.get(arg, len(order)) >= order[node]:
                yield (
                    f"{told} was used before it has been defined! Please check that Nodes in the "
                    f"graph are topologically ordered\n{self}"
                )
        if first[node.name] is not node:
            yield f"Node redefined name {node.name}!"

    # -- text and code -----------------------------------------------------------------------
    def __str__(self) -> str:
        names: list[str] = []
        kind = [""]
        lines = [node.format_node(names, kind) for node in self.nodes]
        return "graph():" + "".join(f"\n    {line}" for line in lines)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        print(table(rows, ["opcode", "name", "target", "args", "kwargs"]))

    def python_code(self, root_module: str, *, verbose: bool = False, **options: Any) -> PythonCode:
        """The program as the text of a function; root_module is how it calls its module."""
        return self._codegen.generate(self.nodes, root_module, verbose=verbose, **options)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Let something else write the code."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the module as values of its placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """The value of the output as the module returns it."""
        return self._codegen.process_outputs(out)

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Let a function change the lines of generated code; as a context, until it ends."""
        old = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(old)

        @contextlib.contextmanager
        def restoring() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = old

        return restoring()


class _Number(int):
    """Stands for a node in a pickle."""


def _rebuilt(rows, codegen, tracer_cls, owner):
    graph, nodes = Graph(owner, tracer_cls), []
    find = lambda leaf: nodes[leaf] if isinstance(leaf, _Number) else leaf
    for op, target, args, kwargs, name, kind, meta in rows:
        args, kwargs = map_aggregate(args, find), map_aggregate(kwargs, find)
        node = graph.create_node(op, target, args, kwargs, name, kind)
        node.meta = meta
        nodes.append(node)
    graph._codegen = codegen
    return graph


def _is_empty(value):
    """Is it what signatures say where there is no default?"""
    return isinstance(value, type) and value.__qualname__ == "_empty"


def _has_path(module, path):
    for name in path.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True


def _warn_of_missing(module, path):
    if not _has_path(module, path):
        warnings.warn(
            "Attempted to insert a get_attr Node with no underlying reference in the owning "
            "GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
            "GraphModule.add_parameter to add the necessary Parameter, or "
            "nn.Module.register_buffer to add the necessary buffer",
            stacklevel=3,
        )


def _check_path(module, node):
    above: list[str] = []
    for name in node.target.split("."):
        if not hasattr(module, name):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {name} of "
                f"{'.'.join(above)}"
            )
        module = getattr(module, name)
        above.append(name)
