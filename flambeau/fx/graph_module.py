"""GraphModule: a module that runs a graph."""

import copy
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flambeau._tensor import Tensor
from flambeau.fx import generated
from flambeau.fx.codegen import PythonCode, _PyTreeCodeGen
from flambeau.fx.graph import Graph
from flambeau.fx.node import Node
from flambeau.nn import Module, Parameter

__all__ = ["GraphModule", "reduce_graph_module"]

_HOOKS = ("_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")


def _copy_attr(source: Module, target: Module, path: str) -> None:
    """Let a module hold what another holds at a path."""
    *above, name = path.split(".")
    for item in above:
        below = getattr(source, item)
        if below is getattr(target, item, None):
            return
        if not hasattr(target, item):
            setattr(target, item, Module())
        source, target = below, getattr(target, item)
    value = getattr(source, name)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        persistent = name not in source._non_persistent_buffers_set
        target.register_buffer(name, value, persistent=persistent)
    else:
        setattr(target, name, value)


def _assign_attr(value: Any, target: Module, path: str) -> None:
    """Let a module hold a value at a path."""
    *above, name = path.split(".")
    for item in above:
        if not hasattr(target, item):
            setattr(target, item, Module())
        target = getattr(target, item)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        target.register_buffer(name, value)
    else:
        setattr(target, name, value)


class GraphModule(Module):
    """A module made from a graph: `graph`, `code`, and a `forward` that is compiled from it.

    After the graph has been changed in place, `recompile()` makes the code anew.
    """

    _graph: Graph
    _code: str

    def __new__(cls, *args: Any, **kwargs: Any) -> "GraphModule":
        # forward is an attribute of the class, so each instance has a class of its own
        for kind in cls.__mro__:
            if kind.__qualname__ == _OWN:
                cls = kind.__bases__[0]
                break

        class GraphModuleImpl(cls):  # type: ignore[misc,valid-type]
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = getattr(root, "training", True)
            self._take(root, graph)
        elif isinstance(root, dict):
            self._take_named(root, graph)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        meta = getattr(root, "meta", None)
        self.meta: dict[str, Any] = dict(meta) if isinstance(meta, dict) else {}
        for name in _HOOKS:
            self.__dict__[name] = []
        self.graph = graph
        kind = graph._tracer_cls
        local = kind is not None and "<locals>" in kind.__qualname__
        self._tracer_cls = None if local else kind
        self._tracer_extras = graph._tracer_extras or {}
        self.shape_env = None

    def _take(self, root, graph):
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if not isinstance(node.target, str):
                    raise AssertionError(f"Expected a path, got {type(node.target)}")
                _copy_attr(root, self, node.target)

    def _take_named(self, root, graph):
        paths = []
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not "
                        "provided in ``root``!"
                    )
                paths.append(node.target)
        for path in sorted(paths, key=lambda t: t.count(".")):  # modules before what is in them
            _assign_attr(root[path], self, path)

    # -- graph and code ----------------------------------------------------------------------
    @property
    def graph(self) -> Graph:
        """The graph; assigning one compiles it."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The Python code of the graph."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self) -> PythonCode:
        """Make forward from the graph as it is now."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self.__dict__["_in_spec"] = codegen.pytree_info.in_spec
            self.__dict__["_out_spec"] = codegen.pytree_info.out_spec
        code = self._graph.python_code("self")
        self.__dict__["_code"] = code.src
        self.__dict__["_lineno_map"] = code._lineno_map
        self.__dict__["_prologue_start"] = code._prologue_start
        type(self).forward = generated.function_of(code.src, code.globals, codegen._func_name)
        return code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            if not getattr(error, "_fx_place_told", False):
                generated.tell_place(error)
                error._fx_place_told = True  # type: ignore[attr-defined]
            raise

    # -- submodules --------------------------------------------------------------------------
    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a path, with empty modules above it; False if something is in the way."""
        *above, name = target.split(".")
        module: Any = self
        for item in above:
            if not hasattr(module, item):
                setattr(module, item, Module())
            module = getattr(module, item)
            if not isinstance(module, Module):
                return False
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take the module at a path away; False if there is none."""
        *above, name = target.split(".")
        module: Any = self
        for item in above:
            module = getattr(module, item, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take away modules that the graph neither calls nor reads from."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = node.target.split(".")
            used.update(itertools.accumulate(parts, "{}.{}".format))
            if node.op == "call_module":
                try:
                    module = self.get_submodule(node.target)
                except AttributeError:  # lint will tell
                    continue
                used.update(f"{node.target}.{name}" for name, _ in module.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # -- hooks -------------------------------------------------------------------------------
    def _register_replace_node_hook(self, f: Callable[..., object]) -> None:
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., object]) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[[Node], object]) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[[Node], object]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        self._erase_node_hooks.remove(f)

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., object]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    # -- copies ------------------------------------------------------------------------------
    def __deepcopy__(self, memo: dict[int, Any]) -> "GraphModule":
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        holder = Module()
        kept = {k: v for k, v in self.__dict__.items() if k not in ("_graph", *_HOOKS)}
        holder.__dict__.update(copy.deepcopy(kept, memo))
        GraphModule.__init__(twin, holder, copy.deepcopy(self._graph, memo))
        for name in ("_in_spec", "_out_spec", "_state_dict_hooks", "_load_state_dict_pre_hooks"):
            if name in holder.__dict__:
                twin.__dict__[name] = holder.__dict__[name]
        for hook in self._deepcopy_hooks:
            hook(twin)
        return twin

    def __copy__(self) -> "GraphModule":
        twin = GraphModule(self, self.graph)
        twin.meta = dict(self.meta)
        return twin

    def __reduce__(self) -> tuple:
        """Code is kept, not the graph; the code is recorded when it is loaded."""
        code = self.recompile()
        return reduce_graph_module, (self._without_graph(), generated.import_block(code.globals))

    def _without_graph(self) -> dict[str, Any]:
        """What a pickle has of a module, besides its code."""
        state = {k: v for k, v in self.__dict__.items() if k != "_graph"}
        state |= {name: [] for name in _HOOKS}
        state["_graphmodule_cls_name"] = type(self).__name__
        return state

    def __reduce_package__(self, exporter: Any) -> tuple:
        """In a package the code is a module of its own, so that what it imports comes along."""
        code = self.recompile()
        imports = generated.import_block(code.globals, exporter.importer)
        name = f"fx-generated._{exporter.get_unique_id()}"
        exporter.save_source_string(name, f"{imports}\n{self._code}")
        return reduce_package_graph_module, (self._without_graph(), name)

    # -- text --------------------------------------------------------------------------------
    def __str__(self) -> str:
        note = "# To see more debug info, please use `graph_module.print_readable()`"
        return f"{super().__repr__()}\n{self._code}\n{note}"

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """The code of this module and of graph modules in it, as classes; printed as well."""
        from flambeau.fx.readable import class_text

        text = class_text(
            self,
            include_stride=include_stride,
            include_device=include_device,
            additional_meta=additional_meta,
        )
        if print_output:
            print(text)
        return text

    def to_folder(self, folder: str | os.PathLike, module_name: str = "FxModule") -> None:
        """Write a package with this module as source, and its weights."""
        from flambeau.fx.folders import write

        write(self, folder, module_name)


_OWN = "GraphModule.__new__.<locals>.GraphModuleImpl"


class _CodeOnlyModule(Module):
    """What is in a pickle: attributes, and code as forward."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: dict[Any, Any], import_block: str) -> GraphModule:
    """Load a module: its code is recorded, every submodule as one call."""
    src = body.get("_code") or body["code"]
    return _recorded(body, generated.function_of(f"{import_block}\n{src}", {}))


def reduce_package_graph_module(
    importer: Any, body: dict[Any, Any], generated_module_name: str
) -> GraphModule:
    """Load a module of a package, whose code is a module there."""
    return _recorded(body, importer.import_module(generated_module_name).forward)


def _recorded(body: dict[Any, Any], forward: Any) -> GraphModule:
    from flambeau.fx._symbolic_trace import Tracer

    name = body.pop("_graphmodule_cls_name", "GraphModule")
    kind: Any = body.get("_tracer_cls") or Tracer

    class KeepModules(kind):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    _CodeOnlyModule.forward = forward
    com = _CodeOnlyModule(body)
    graph = KeepModules(**body.get("_tracer_extras", {})).trace(com)
    graph._tracer_cls = kind
    module = GraphModule(com, graph, class_name=name)
    for key, value in body.items():
        if not hasattr(module, key):
            setattr(module, key, value)
    return module
