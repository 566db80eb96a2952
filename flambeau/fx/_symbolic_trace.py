"""Tracer: runs a module or a function on proxies and records what it does."""

import builtins
import functools
import inspect
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from flambeau import interposing
from flambeau._tensor import Tensor
from flambeau.fx.arguments import PH as PH
from flambeau.fx.arguments import PHWithMeta as PHWithMeta
from flambeau.fx.arguments import _assert_is_none as _assert_is_none
from flambeau.fx.arguments import arguments_for
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Argument
from flambeau.fx.proxy import (
    ParameterProxy,
    Proxy,
    Scope,
    ScopeContextManager,
    TracerBase,
    _Functions,
)
from flambeau.fx.wrapping import Patcher
from flambeau.fx.wrapping import _wrapped_fns_to_patch as _wrapped_fns_to_patch
from flambeau.fx.wrapping import _wrapped_methods_to_patch as _wrapped_methods_to_patch
from flambeau.fx.wrapping import wrap as wrap
from flambeau.nn import Module, Parameter, Sequential
from flambeau.nn.modules.calling import Calling
from flambeau.nn.modules.registry import Registry, _Held
from flambeau.utils import _pytree as pytree

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap"]

_proxyable_classes: dict[type, None] = {}
_tracing = [0]  # how deep


def is_fx_tracing() -> bool:
    """Is something being recorded?"""
    return _tracing[0] > 0


is_fx_symbolic_tracing = is_fx_tracing


class ProxyableClassMeta(type):
    """Instances of such classes may hold proxies; graphs make them anew."""

    def __init__(cls, name: str, bases: tuple, attrs: dict) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = _first_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class _Modules(interposing.Handler):
    """Tells the tracer of calls of modules."""

    kinds = frozenset({"module"})
    level = interposing.FUNCTION_MODES
    sees = "all"

    def __init__(self, tracer: "Tracer", patcher: Patcher) -> None:
        self.tracer, self.patcher = tracer, patcher

    def around(self, name: interposing.Name, function: Callable, args: tuple, kwargs: dict) -> Any:
        module = args[0]
        going_on = functools.partial(function, module)
        self.tracer._wrap_globals(self.patcher, type(module).forward)
        return self.tracer.call_module(module, going_on, args[1:], kwargs)


class Tracer(TracerBase):
    """Records a module or a function as a graph; subclasses change what is recorded how.

    autowrap_modules: functions of these modules become calls. autowrap_functions: so do these.
    param_shapes_constant: shapes of parameters are numbers, not recorded values.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable, ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_search = list(autowrap_modules)
        members = [vars(module) for module in autowrap_modules]
        found = [f for names in members for n, f in names.items() if n[0] != "_" and callable(f)]
        self._autowrap_function_ids = {id(f) for f in (*found, *autowrap_functions)}
        self.submodule_paths: dict[Module, str] | None = None
        self.param_shapes_constant = param_shapes_constant
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self._qualname_counter: dict[str, int] = {}

    def __deepcopy__(self, memo: dict) -> "Tracer":
        twin = Tracer.__new__(type(self))
        vars(twin).update({k: v for k, v in vars(self).items() if k != "_autowrap_search"})
        twin._autowrap_search = list(self._autowrap_search)  # modules cannot be copied
        return twin

    # -- what subclasses change --------------------------------------------------------------
    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Is a call of this module one node? Those of torch.nn are, but Sequential."""
        ours = m.__module__.startswith(("flambeau.nn.", "torch.nn.", "torch.ao.nn."))
        return ours and not isinstance(m, Sequential)

    def call_module(
        self, m: Module, forward: Callable, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A module is called: a node if it is a leaf, else its forward is recorded."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            count = self.num_calls.get(path, 0)
            self.num_calls[path] = count + 1
            key = path if count == 0 else f"{path}@{count}"
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.popitem(last=True)

    def path_of_module(self, mod: Module) -> str:
        """Where a module is below the root."""
        if self.submodule_paths is not None:
            path = self.submodule_paths.get(mod)
        else:
            path = next((n for n, m in self.root.named_modules() if m is mod), None)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """An attribute of a module is read: parameters are proxies."""
        if isinstance(attr_val, Parameter):
            return self._attribute(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._attribute(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _attribute(self, value, named, cache):
        for name, held in named:
            if held is value:
                if name not in cache:
                    cache[name] = self._proxy_of_attribute(name, value)
                return cache[name]
        return value

    def _proxy_of_attribute(self, name, value):
        factory = None
        if self.param_shapes_constant and isinstance(value, Parameter):
            factory = lambda node: ParameterProxy(self, node, name, value)
        return self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=factory)

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name for an attribute of the root that is not there yet."""
        number = self._qualname_counter.get(prefix, 0)
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number + 1
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Argument:
        """A value as an argument: tensors and modules become attributes of the root."""
        if isinstance(a, Parameter):
            for name, held in self.root.named_parameters():
                if held is a:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._tensor_path(a), (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        if type(a) in _proxyable_classes:
            return self.create_node("get_attr", self._kept(a, "_class_constant"), (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node(
                "call_function", type(a), tuple(self.create_arg(item) for item in a), {}
            )
        return super().create_arg(a)

    def _tensor_path(self, tensor):
        for name, held in self.root.named_buffers():
            if held is tensor:
                return name
        path = self.tensor_attrs.get(id(tensor))
        return path if path is not None else self._kept(tensor, "_tensor_constant")

    def _kept(self, value, prefix):
        """Keep a constant in the root, under a new name."""
        name = self.get_fresh_qualname(prefix)
        setattr(self.root, name, value)
        if isinstance(value, Tensor):
            self.tensor_attrs[id(value)] = name
        return name

    def create_args_for_root(
        self,
        root_fn: Callable,
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Placeholders for the parameters of a function: what to call, and with what."""
        return arguments_for(self, root_fn, is_module, concrete_args)

    # -- recording ---------------------------------------------------------------------------
    def trace(self, root: Module | Callable, concrete_args: dict[str, Any] | None = None) -> Graph:
        """Record a module or a function."""
        fn = self._begin(root)
        self.graph = Graph(tracer_cls=getattr(self, "__class__", None), tracer_extras=None)
        fn, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
        cache: dict[str, Any] = {}
        with Patcher() as patcher, self._recording(patcher, cache):
            self._wrap_globals(patcher, fn)
            result = fn(*args)
            kind = getattr(fn, "__annotations__", {}).get("return")
            kind = None if kind is Any and fn.__module__.startswith("flambeau.nn.") else kind
            value = self.create_arg(result)
            self.create_node("output", "output", (value,), {}, type_expr=kind)
        self.submodule_paths = None
        return self.graph

    def _begin(self, root):
        """Set the root; gives the function that is recorded."""
        self.tensor_attrs: dict[int, str] = {}
        if not isinstance(root, Module):
            self.root: Module = Module()
            self.root_module_name = getattr(root, "__name__", "")
            self.submodule_paths = {self.root: ""}
            return root
        self.root, self.root_module_name = root, root._get_name()
        if not hasattr(type(root), self.traced_func_name):
            raise AssertionError(
                f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}"
            )
        self.submodule_paths = {}
        for path, module in root.named_modules(remove_duplicate=False):
            self.submodule_paths.setdefault(module, path)
            for name, value in vars(module).items():
                if isinstance(value, Tensor):
                    self.tensor_attrs.setdefault(id(value), f"{path}.{name}" if path else name)
        return getattr(type(root), self.traced_func_name)

    @contextmanager
    def _recording(self, patcher: Patcher, cache: dict[str, Any]) -> Iterator[None]:
        """Stand where calls and attributes of modules, and functions, pass."""
        self._watch_attributes(patcher, cache)
        interposing.offer(Calling.__call__, "nn.Module", "module")
        _tracing[0] += 1
        try:
            with interposing.handling(_Functions()), interposing.handling(_Modules(self, patcher)):
                yield
        finally:
            _tracing[0] -= 1

    def _watch_attributes(self, patcher, cache):
        """Reading an attribute of a module asks the tracer; it may read some itself."""
        plain, held = Registry.__getattr__, _Held.__get__
        asking, mine = [False], threading.get_ident()

        def ask(name, value):
            if asking[0] or not isinstance(value, Tensor) or threading.get_ident() != mine:
                return value
            asking[0] = True
            try:
                return self.getattr(name, value, cache)
            finally:
                asking[0] = False

        patcher.patch_method(
            Registry, "__getattr__", lambda module, name: ask(name, plain(module, name))
        )
        patcher.patch_method(
            _Held,
            "__get__",
            lambda self, module, owner=None: ask(self.name, held(self, module, owner)),
        )

    def _wrap_globals(self, patcher: Patcher, fn: Callable) -> None:
        """Let marked functions record calls; those in the globals of a function as well."""
        if patcher.visit_once(_wrapped_fns_to_patch):
            for (_, name), frame in list(_wrapped_fns_to_patch.items()):
                original = frame.get(name, getattr(builtins, name, None))
                if original is not None:
                    patcher.patch(frame, name, _recorded(original), name not in frame)
            for module in self._autowrap_search:
                self._wrap_members(patcher, vars(module))
            for cls, name in _wrapped_methods_to_patch:
                patcher.patch_method(cls, name, _recorded_method(cls, name))
        names = getattr(inspect.unwrap(fn), "__globals__", None)
        if names is not None:
            self._wrap_members(patcher, names)

    def _wrap_members(self, patcher, names):
        if not patcher.visit_once(names):
            return
        for name, value in list(names.items()):
            if name[:1] != "_" and id(value) in self._autowrap_function_ids:
                patcher.patch(names, name, _recorded(value), False)


def _first_proxy(args, kwargs):
    leaves = pytree.tree_leaves((args, kwargs))
    return next((leaf for leaf in leaves if isinstance(leaf, Proxy)), None)


def _recorded(original):
    """A function that records calls with proxies."""

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        proxy = _first_proxy(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        result = proxy.tracer.create_proxy("call_function", original, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return wrapped


def _recorded_method(cls, name):
    original = getattr(cls, name)

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        proxy = _first_proxy(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


def symbolic_trace(
    root: Module | Callable, concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Record a module or a function; gives a module that does the same, with its graph.

    Values in concrete_args are fixed, so that they may decide branches.

    Example:
        >>> from flambeau import fx
        >>> print(fx.symbolic_trace(lambda x: x.relu() + 1).code.strip())
        def forward(self, x):
            relu = x.relu();  x = None
            add = relu + 1;  relu = None
            return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "")
    return GraphModule(tracer.root, graph, name)
