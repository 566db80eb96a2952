"""ScriptModule and RecursiveScriptModule: modules whose methods are programs."""

import copy
import functools
from collections.abc import Iterator
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.functions import Compiled, ConstMap, as_type, bound, code_of
from flambeau.jit.ir import Graph
from flambeau.jit.marks import Attribute, mark_of
from flambeau.jit.passes import inlined
from flambeau.jit.state import state
from flambeau.jit.support import is_instance
from flambeau.nn import Module

_NO_PICKLE = (
    "Tried to serialize object {} which does not have a __getstate__ method defined! Use "
    "module.save(path) and torch.jit.load(path) instead."
)


class ScriptModule(Module):
    """A module whose methods are programs; derived classes mark theirs with script_method."""

    _type: T.ClassType | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls) and cls.__module__ != __name__:
            cls.__init__ = _settling(cls.__init__)  # type: ignore[method-assign]

    @property
    def graph(self) -> Graph:
        return self._forward_function().graph

    @property
    def inlined_graph(self) -> Graph:
        return inlined(self._forward_function().graph)

    @property
    def code(self) -> str:
        return code_of(self._forward_function())[0]

    @property
    def code_with_constants(self) -> tuple[str, ConstMap]:
        code, constants = code_of(self._forward_function())
        return code, ConstMap(constants)

    def _forward_function(self) -> Any:
        assert self._type is not None
        found = self._type.methods.get("forward")
        if found is None:
            raise AttributeError(f"Method 'forward' is not defined.")  # noqa: F541
        return found

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that runs for such arguments: always the same here."""
        return self.inlined_graph

    def save(self, f: Any, _extra_files: dict | None = None, **kwargs: Any) -> None:
        """Write it to an archive."""
        from flambeau.jit.archives import save_module

        save_module(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: dict | None = None) -> bytes:
        import io

        from flambeau.jit.archives import save_module

        buffer = io.BytesIO()
        save_module(self, buffer, _extra_files)
        return buffer.getvalue()

    def get_debug_state(self) -> Any:
        return self.graph

    def __getstate__(self) -> Any:
        raise RuntimeError(_NO_PICKLE.format(getattr(self._type, "name", type(self).__name__)))


def _settling(init):
    """The constructor of a module that was written as a script; at last it is compiled."""

    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        if type(self).__init__ is __init__ or getattr(type(self).__init__, "_of", None) is init:
            _settle(self)

    __init__._of = init
    return __init__


def _settle(module):
    from flambeau.jit.module_types import module_type
    from flambeau.jit.scripting import script_module

    for name, value in list(vars(module).items()):
        if isinstance(value, Attribute):
            object.__setattr__(module, name, value.value)
    for name, inner in list(module._modules.items()):
        if inner is not None and not isinstance(inner, ScriptModule):
            module._modules[name] = script_module(inner)
            module._show("_modules", name)
    kind = module_type(module)
    marked = [n for n in dir(type(module)) if mark_of(getattr(type(module), n, None)) in
              ("script_method", "export")]  # fmt: skip
    module.__dict__["_type"] = kind
    for name in marked:
        function = kind.method(name)
        module.__dict__[f"_jit_{name}"] = functools.partial(function.run, module)
        module.__dict__[name] = functools.partial(_call_method, module, function)
    for name, function in kind.methods.items():
        module.__dict__.setdefault(f"_jit_{name}", functools.partial(function.run, module))


def _call_method(module, function, *args, **kwargs):
    return function.run(module, *bound(function, args, kwargs, skip=1))


class ScriptMethod(Compiled):
    """A method of a script module, bound to it."""

    def __init__(self, module: Any, function: Any) -> None:
        self.owner, self._function = module, function
        self.__name__ = function.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = bound(self._function, args, kwargs, skip=1)
        if state.tracers:
            return state.tracers[-1].call_method_of(self.owner, self._function, values)
        state.last = self._function
        return self._function.run(self.owner, *values)

    @property
    def code_with_constants(self) -> tuple[str, ConstMap]:
        code, constants = code_of(self._function)
        return code, ConstMap(constants)


class _Bound:
    """What `module.method` finds on the class of a script module."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self if instance is None else ScriptMethod(instance, self.function)


class _Raw:
    """What compiled code finds as `module._jit_method`: Python, made when it is first called."""

    def __init__(self, function: Any, name: str) -> None:
        self.function, self.name = function, name

    def __get__(self, instance: Any, owner: Any) -> Any:
        run = self.function.run
        setattr(owner, f"_jit_{self.name}", run)
        return self if instance is None else run.__get__(instance, owner)


class RecursiveScriptModule(ScriptModule):
    """A module that was compiled, recorded or loaded."""

    _is_traced = False
    original_name: str = ""

    @property
    def _c(self) -> "RecursiveScriptModule":
        return self

    def _get_name(self) -> str:
        return self.original_name if self._is_traced else "RecursiveScriptModule"

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    def _method_names(self) -> list[str]:
        assert self._type is not None
        return list(self._type.methods)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self._type.attributes.get(name) if self._type is not None else None
        if kind is not None and not isinstance(kind, T.ClassType) and kind != T.TENSOR:
            value = as_type(value, kind)
            if not is_instance(value, [kind]):
                raise RuntimeError(
                    f"Could not cast attribute '{name}' to type {kind.code}: Unable to cast Python "
                    f"instance of type {type(value)}"
                )
        super().__setattr__(name, value)

    # -- containers: a script module of modules is one too
    def _members(self) -> list[Any]:
        return list(self._modules.values())

    def __iter__(self) -> Iterator[Any]:
        self._check_container("__iter__")
        if getattr(self._type, "container", "") == "ModuleDict":
            return iter(self._modules)
        return iter(self._members())

    def __len__(self) -> int:
        self._check_container("__len__")
        return len(self._modules)

    def __getitem__(self, key: Any) -> Any:
        self._check_container("__getitem__")
        if isinstance(key, str):
            return self._modules[key]
        return self._members()[key]

    def __contains__(self, key: Any) -> bool:
        self._check_container("__contains__")
        return key in self._modules

    def keys(self) -> Any:
        self._check_container("keys")
        return self._modules.keys()

    def values(self) -> Any:
        self._check_container("values")
        return self._modules.values()

    def items(self) -> Any:
        self._check_container("items")
        return self._modules.items()

    def _check_container(self, name):
        name_of = (getattr(self._type, "name", "") or "").rpartition(".")[2]
        if not getattr(self._type, "container", "") and name_of not in (
            "Sequential", "ModuleList", "ModuleDict"
        ):  # fmt: skip
            if name == "__len__":
                raise TypeError(f"object of type '{self.original_name}' has no len()")
            raise NotImplementedError(f"{name} is not defined for {self.original_name}")

    def __bool__(self) -> bool:
        return True

    # -- copies
    def __copy__(self) -> Any:
        return copied_module(self, lambda value: value)

    def __deepcopy__(self, memo: Any) -> Any:
        return copied_module(self, lambda value: copy.deepcopy(value, memo))

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError("script modules are not replicated")


class TracedModule(RecursiveScriptModule):
    """A module that was recorded."""

    _is_traced = True


class TopLevelTracedModule(TracedModule):
    """The module that a recording gave."""


def python_class(kind: Any, base: type = RecursiveScriptModule) -> Any:
    """The Python class of a type of modules: its methods are the program's."""
    if kind.python_class is None or not issubclass(kind.python_class, base):
        name = kind.name.rpartition(".")[2]
        members = {"_type": kind, "__module__": base.__module__, "original_name": name}
        kind.python_class = type(base.__name__, (base,), members)
    cls = kind.python_class
    for method, function in kind.methods.items():
        expose(cls, method, function)
    _expose_python(cls, kind)
    return cls


def expose(cls: Any, method: str, function: Any) -> None:
    """Let a class of modules have a method of its type."""
    known = vars(cls).get(method)
    if isinstance(known, _Bound) and known.function is function:
        return
    setattr(cls, f"_jit_{method}", _Raw(function, method))
    if not method.startswith("__super_"):
        setattr(cls, method, _Bound(function))


def _expose_python(cls, kind):
    """Methods that stay Python, and what module classes have besides."""
    original = getattr(kind, "original", None)
    for name in getattr(kind, "ignored", ()):
        setattr(cls, name, getattr(original, name))


def new_module(kind: Any, base: type = RecursiveScriptModule) -> Any:
    """An empty module of a type."""
    made = object.__new__(python_class(kind, base))
    Module.__init__(made)
    return made


def copied_module(module: Any, copied: Any) -> Any:
    """Another module of the same type, with copies of what this one holds."""
    made = object.__new__(type(module))
    Module.__init__(made)
    for name, value in vars(module).items():
        if not name.startswith("_"):
            made.__dict__[name] = copied(value)
    made.training = module.training
    for name, parameter in module._parameters.items():
        made.register_parameter(name, copied(parameter))
    for name, buffer in module._buffers.items():
        made.register_buffer(name, copied(buffer), name not in module._non_persistent_buffers_set)
    for name, inner in module._modules.items():
        made.add_module(name, copied(inner))
    for name in getattr(module._type, "attributes", {}):
        if name.startswith("_") and name in vars(module):
            made.__dict__[name] = copied(vars(module)[name])
    return made


def fill_module(made: Any, kind: Any, source: Any, scripted: Any) -> Any:
    """Give a new module what another one holds; scripted(inner) makes modules of modules."""
    for name, parameter in source._parameters.items():
        made.register_parameter(name, parameter)
    for name, buffer in source._buffers.items():
        made.register_buffer(name, buffer, name not in source._non_persistent_buffers_set)
    for name, inner in source._modules.items():
        made.add_module(name, None if inner is None else scripted(inner))
    for name, type_ in kind.attributes.items():
        known = name in source._parameters or name in source._buffers or name in source._modules
        if not known:
            value = getattr(source, name, None)
            value = value.value if isinstance(value, Attribute) else value
            made.__dict__[name] = as_type(value, type_)
    for name, value in kind.constants.items():
        if name not in made._parameters and name not in made._modules:
            made.__dict__[name] = value
    made.training = source.training
    return made
