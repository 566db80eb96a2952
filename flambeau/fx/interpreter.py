"""Interpreter runs a graph node by node; Transformer runs it to make another."""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Argument, Node, Target, map_aggregate, map_arg
from flambeau.fx.proxy import Proxy, answer_outside
from flambeau.fx.traceback import preserve_node_meta, set_current_meta
from flambeau.nn import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph, one method per kind of node; subclasses change what nodes do.

    Example:
        >>> from flambeau import fx
        >>> class Loud(fx.Interpreter):
        ...     def run_node(self, n):
        ...         print(n.name)
        ...         return super().run_node(n)
        >>> Loud(fx.symbolic_trace(lambda x: x.relu() + 1)).run(flambeau.ones(1))
        x
        relu
        add
        output
        tensor([2.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        if garbage_collect_values:
            self.user_to_last_uses = self._last_uses()

    def _last_uses(self):
        """Node -> nodes whose values are not needed after it."""
        seen: set[Node] = set()
        ended: dict[Node, list[Node]] = {}
        for user in reversed(self.graph.nodes):
            for node in user.all_input_nodes:
                if node not in seen:
                    seen.add(node)
                    ended.setdefault(user, []).append(node)
        return ended

    # -- running -----------------------------------------------------------------------------
    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Run the graph; nodes with a value in initial_env are not run."""
        self.env = {} if initial_env is None else dict(initial_env)
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        return self._run_all(enable_io_processing)

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph with arguments from a list, which is emptied."""
        nodes = [n for n in self.graph.nodes if n.op == "placeholder"]
        if len(args_list) != len(nodes):
            kind = "extra" if len(args_list) > len(nodes) else "missing"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(nodes)} arguments for placeholders but "
                f"received {len(args_list)} ({kind} arguments)"
            )
        self.env = dict(zip(nodes, args_list))
        args_list.clear()
        return self._run_all(False)

    def _run_all(self, processes):
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                self._tell(error, node)
                raise
            if self.garbage_collect_values:
                for gone in self.user_to_last_uses.get(node, ()):
                    self.env.pop(gone, None)
            if node.op == "output":
                value = self.env[node]
                return self.graph.process_outputs(value) if processes else value
        return None

    def _tell(self, error, node):
        """Add to an error which node it comes from."""
        if not self.extra_traceback or getattr(error, "_fx_node_told", False):
            return
        said = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
        said = f"{error.args[0]}\n\n{said}" if error.args else said
        error.args = (said, *error.args[1:])
        with contextlib.suppress(AttributeError):
            error._fx_node_told = True

    def run_node(self, n: Node) -> Any:
        """Run one node."""
        with set_current_meta(n, f"Interpreter_{type(self).__name__}"):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # -- kinds of nodes ----------------------------------------------------------------------
    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict) -> Any:
        """The next argument."""
        if isinstance(target, str) and target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict) -> Any:
        """Call a function."""
        if not callable(target):
            raise AssertionError(f"Expected a function, got {target!r}")
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict) -> Any:
        """Call a method."""
        owner, *rest = args
        return getattr(owner, str(target))(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict) -> Any:
        """Call a submodule."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict) -> Any:
        """What is returned."""
        return args[0]

    # -- values ------------------------------------------------------------------------------
    def fetch_attr(self, target: str) -> Any:
        """What the module holds at a path."""
        value: Any = self.module
        parts = target.split(".")
        for k, name in enumerate(parts):
            if not hasattr(value, name):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: k + 1])}")
            value = getattr(value, name)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict]:
        """The arguments of a node as values."""
        args, kwargs = self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Values in the place of nodes."""

        def value(node):
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose "
                    "such issues"
                )
            return self.env[node]

        return map_arg(args, value)


def _writer(graph: Graph, module: GraphModule) -> Any:
    """A tracer whose nodes go to a graph that is there; modules stay calls."""
    from flambeau.fx._symbolic_trace import Tracer

    tracer: Any = Tracer()
    tracer.graph, tracer.root, tracer.tensor_attrs = graph, module, {}
    tracer.is_leaf_module = lambda *_: True
    answer_outside(tracer)
    return tracer


class Transformer(Interpreter):
    """Runs a graph on proxies, which makes a new one; subclasses change what nodes become."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        graph = self.new_graph = Graph()
        graph.set_codegen(module.graph._codegen)
        self.tracer = _writer(graph, module)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict) -> Proxy:
        """A placeholder of the new graph."""
        default = next(iter(args)) if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict) -> Proxy:
        """A get_attr of the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict) -> Any:
        """A call of the same submodule."""
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict) -> Any:
        """A call of the same function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Run, and give a module with the new graph."""
        with preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            strip = lambda a: a.node if isinstance(a, Proxy) else a
            node = self.new_graph.output(map_aggregate(result, strip))
            old = self.graph.output_node()
            node.type, node.meta = old.type, dict(old.meta)
        return GraphModule(self.module, self.new_graph)
