"""Types of modules: what a module holds, and how its methods are compiled.

Modules of one class that hold things of the same types share a type, and with it their methods.
"""

import inspect
import types
from typing import Any, Final, get_origin

from flambeau.jit import marks
from flambeau.jit import types as T
from flambeau.jit.annotating import NoType, from_annotation, infer, qualified
from flambeau.jit.compiling import Function, compile_function
from flambeau.jit.places import CompileError
from flambeau.jit.resolving import Resolver
from flambeau.jit.sugar import BoundMethod, FunctionSugar, PythonFunction
from flambeau.jit.units import lock, unit
from flambeau.nn import (
    Module,
    ModuleDict,
    ModuleList,
    Parameter,
    ParameterDict,
    ParameterList,
    Sequential,
)

_OWN = frozenset(vars(Module())) | {"_compiled_call_impl", "_directions"}
_CONTAINERS = ((Sequential, "Sequential"), (ModuleList, "ModuleList"), (ModuleDict, "ModuleDict"))


class ModuleType(T.ClassType):
    """The type of modules that hold the same."""

    def __init__(self, name: str, original: Any) -> None:
        super().__init__(name, is_module=True)
        self.original = original
        self.container = ""
        self.order: list[str] = []
        self.functions: dict[str, Any] = {}  # attributes that are functions
        self.failed: dict[str, str] = {}  # attributes that have no type, and why
        self.ignored: set[str] = set()
        self.is_traced = False
        self._compiling: set[str] = set()

    def compile(self, name: str) -> Function | None:
        """A method, compiled when it is first asked for."""
        member = method_source(self.original, name)
        if member is None or marks.mark_of(member) in ("ignore", "unused", "drop"):
            return None
        return self._compile(name, member)

    def _compile(self, name, member):
        function = self.methods[name] = Function(name, f"{self.name}.{name}", self)
        try:
            compile_function(function, member, Resolver.of(unit, member, self), self)
        except BaseException:
            del self.methods[name]
            raise
        return function

    def compile_as(self, own: str, name: str, base: Any) -> Function:
        """A method of a base class, under a name of its own."""
        return self._compile(own, _form_of(base, name) or vars(base)[name])

    def lookup(self, c: Any, sugar: Any, name: str, place: Any) -> Any:
        """An attribute that is no value; None if it is one."""
        if name in self.attributes or name in self.methods:
            return None
        if name in self.constants:
            return c.resolver.wrap(c, self.constants[name], place)
        if name == "_flat_weights" and "_flat_weights_names" in self.constants:
            names = self.constants["_flat_weights_names"]
            return c.list_of([c.class_attribute(sugar.value, self, n, place) for n in names], place)
        if name in self.functions:
            found = self.functions[name]
            if isinstance(found, types.MethodType):
                return BoundMethod(c._call_own, sugar.value, found.__name__)
            return c.resolver.wrap(c, found, place)
        member = inspect.getattr_static(self.original, name, None)
        if isinstance(member, staticmethod):
            return FunctionSugar(unit.function(member.__func__))
        if isinstance(member, property) and marks.mark_of(member.fget) not in ("unused", "ignore"):
            getter = f"__{name}_getter"
            if getter not in self.methods:
                self._compile(getter, member.fget)
            return c.call_method(sugar.value, getter, [], {}, place)
        mark = marks.mark_of(member)
        if mark in ("ignore", "unused", "drop"):
            self.ignored.add(name)
            schema = unit.python_schema(member, c.resolver, self)
            return PythonFunction(member, schema, sugar.value, mark != "ignore")
        if name in self.failed:
            raise CompileError(f"Module '{self.original.__name__}' has no attribute '{name}' "
                               f"({self.failed[name]})", place)  # fmt: skip
        if self.compile_method(name) is None:
            if member is not None and not callable(member):
                return c.resolver.wrap(c, member, place)
            raise CompileError(f"Module '{self.original.__name__}' has no attribute '{name}' ",
                               place)  # fmt: skip
        return None


def method_source(cls: Any, name: str) -> Any:
    """The function that is compiled for a method: ours for layers of this package."""
    for base in cls.__mro__:
        if base is Module:
            return None
        form = _form_of(base, name)
        if form is not None:
            return form
        if name in vars(base):
            member = vars(base)[name]
            member = getattr(member, "__func__", member)
            return member if inspect.isfunction(inspect.unwrap(member)) else None
    return None


def _form_of(base, name):
    if not base.__module__.startswith(("flambeau.", "torch.")):
        return None
    form = _layer_form(base)
    return None if form is None else vars(form).get(name)


def _layer_form(base):
    """The class whose methods are compiled in the place of a layer's."""
    from flambeau.jit import layer_forms, sequence_forms

    for module in (layer_forms, sequence_forms):
        form = vars(module).get(base.__name__)
        home = module.__name__.rpartition(".")[2]
        if isinstance(form, type) and form.__module__.rpartition(".")[2] == home:
            return form
    return None


def _constants_of(cls):
    """Names of attributes that never change."""
    names = set(getattr(cls, "__constants__", ()))
    for base in cls.__mro__:
        for name, hint in vars(base).get("__annotations__", {}).items():
            if (
                hint is Final
                or get_origin(hint) is Final
                or str(hint).startswith(("Final", "typing.Final"))
            ):
                names.add(name)
        if base.__module__.startswith(("flambeau.", "torch.")):
            names.update(getattr(base, "_kept", ()))
            names.update(getattr(_layer_form(base), "__constants__", ()))
    return names


def _hints_of(cls):
    """Annotations of attributes, where they are types."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith(("flambeau.", "torch.")):
            found.update(vars(base).get("__annotations__", {}))
    return found


_types: dict[Any, ModuleType] = {}


def module_type(module: Any) -> ModuleType:
    """The type of a module."""
    own = getattr(module, "_type", None)
    if isinstance(own, T.ClassType):
        return own  # type: ignore[return-value]
    with lock:
        made = ModuleType("", type(module))
        _describe(made, module)
        key = _key(made)
        known = _types.get(key)
        if known is not None:
            return known
        made.name = unit.unique_name(qualified(type(module)))
        made.compile_method = made.compile
        _types[key] = made
        unit.modules.append(made)
        return made


def _key(made):
    hashable = lambda value: repr(value) if isinstance(value, (list, dict, set)) else value
    return (
        made.original,
        tuple(made.attributes.items()),
        tuple((n, type(v), hashable(v)) for n, v in made.constants.items()),
        tuple(made.functions.items()),
        tuple(made.parameters),
        tuple(made.failed),
        tuple(made.buffers),
    )


def _describe(made, module):
    """Write down what a module holds."""
    cls = type(module)
    for base, name in _CONTAINERS:
        if isinstance(module, base):
            made.container = name
            made.order = list(module._modules)
    if isinstance(module, ParameterList):
        made.container, made.order = "ParameterList", list(module._parameters)
    if isinstance(module, ParameterDict):
        made.container, made.order = "ParameterDict", list(module.keys())
    constants, hints = _constants_of(cls), _hints_of(cls)
    for name, parameter in module._parameters.items():
        made.attributes[name] = T.NONE if parameter is None else T.TENSOR
        if parameter is not None:
            made.parameters.append(name)
    for name, buffer in module._buffers.items():
        hinted = _hinted(hints, name)
        made.attributes[name] = hinted or (T.NONE if buffer is None else T.TENSOR)
        if buffer is not None or hinted is not None:
            made.buffers.append(name)
    made.attributes["training"] = T.BOOL
    made.attributes["_is_full_backward_hook"] = T.OptionalOf(T.BOOL)
    for name, inner in module._modules.items():
        if inner is None:
            made.attributes[name] = T.NONE
        else:
            hinted = _hinted(hints, name)
            is_interface = isinstance(hinted, T.ClassType) and hinted.is_interface
            made.attributes[name] = hinted if is_interface else module_type(inner)
    for name, value in _values_of(module).items():
        if name in made.attributes:
            continue
        if name in constants:
            made.constants[name] = _constant(value)
        else:
            _describe_value(made, name, value, hints)


def _values_of(module):
    """Attributes of a module and of its class that are values."""
    found: dict[str, Any] = {}
    for base in reversed(type(module).__mro__):
        if base.__module__.startswith(("flambeau.", "torch.")) or base is object:
            continue
        for name, value in vars(base).items():
            plain = isinstance(value, (int, float, str, bool, tuple, list, dict)) or value is None
            if plain and not name.startswith("__") and name not in _OWN:
                found[name] = value
    for name, value in vars(module).items():
        if name not in _OWN:
            found[name] = value
    for name in _constants_of(type(module)):
        if name not in found and hasattr(module, name):
            found[name] = getattr(module, name)
    return found


def _constant(value):
    return list(value) if isinstance(value, (set, frozenset)) else value


def _hinted(hints, name):
    hint = hints.get(name)
    if hint is None or isinstance(hint, str):
        return None
    try:
        return from_annotation(hint, unit.class_type)
    except (NoType, CompileError):
        return None


def _describe_value(made, name, value, hints):
    if isinstance(value, marks.Attribute):
        made.attributes[name] = from_annotation(value.type, unit.class_type)
        return
    if isinstance(value, Parameter):
        return
    kind = _hinted(hints, name)
    if kind is None:
        if callable(value) and not isinstance(value, (Module, type)):
            made.functions[name] = value
            return
        ours = made.original.__module__.startswith(("flambeau.", "torch."))
        kind = None if ours and name.startswith("_") else infer(value, _scripted)
    if kind is None:
        said = f"`{type(value).__name__}`" if value != [] and value != {} else "an empty container"
        made.failed[name] = (
            "This attribute exists on the Python module, but we failed to convert Python type: "
            f"{said} to a TorchScript type."
        )
        return
    made.attributes[name] = kind


def _scripted(cls):
    """Classes that a program knows already; values of other classes have no type."""
    known = unit.classes.get(cls)
    own = getattr(cls, "_type", None)
    return known or (own if isinstance(own, T.ClassType) else None)
