"""What has been compiled: functions and classes by the Python objects they come from.

There is one unit for all that Python compiles; each archive that is loaded brings its own, with
names that may be the same as others'.
"""

import dataclasses
import inspect
import linecache
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.annotating import qualified
from flambeau.jit.compiling import Function, compile_function, parsed, signature
from flambeau.jit.places import CompileError, NotSupportedError
from flambeau.jit.resolving import Resolver
from flambeau.jit.schemas import Schema
from flambeau.jit.sugar import BoundMethod, Sugar

lock = threading.RLock()


class Unit:
    """Functions and classes that were compiled from Python."""

    def __init__(self) -> None:
        self.functions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self.classes: dict[type, T.ClassType] = {}
        self.names: set[str] = set()
        self.modules: list[Any] = []  # types of modules
        self._mangled = 0

    @property
    def ScriptFunction(self) -> Any:
        from flambeau.jit.functions import ScriptFunction

        return ScriptFunction

    def unique_name(self, name: str) -> str:
        """A name that no other function or class has."""
        made = name
        while made in self.names:
            space, _, last = name.rpartition(".")
            made = f"{space}.___torch_mangle_{self._mangled}.{last}"
            self._mangled += 1
        self.names.add(made)
        return made

    # -- functions ---------------------------------------------------------------------------
    def function(self, python: Any) -> Function:
        """A Python function, compiled once."""
        python = inspect.unwrap(python)
        with lock:
            found = self.functions.get(python)
            if found is None:
                found = Function(python.__name__, self.unique_name(qualified(python)))
                if found.name == "<lambda>":
                    found.name = "lambda_"
                self.functions[python] = found
                try:
                    compile_function(found, python, Resolver.of(self, python))
                except BaseException:
                    del self.functions[python]
                    raise
            return found

    def python_schema(self, python: Any, resolver: Any, own: T.Type | None = None) -> Schema:
        """The signature of a function that stays Python."""
        python = inspect.unwrap(python)
        node, source = parsed(python)
        resolver = Resolver.of(self, python)
        arguments, returns = signature(node, source, resolver, python, own)
        return Schema(python.__name__, "", tuple(arguments), (returns or T.TENSOR,))

    # -- classes -----------------------------------------------------------------------------
    def class_type(self, cls: type) -> T.ClassType | None:
        """A Python class, compiled once; None for one that cannot be."""
        with lock:
            known = self.classes.get(cls)
            if known is not None:
                return known
            if cls.__module__ == "builtins" or issubclass(cls, BaseException):
                return None
            if getattr(cls, "_is_interface", False):
                return self._interface(cls)
            cls = _GRAD_MODES.get(getattr(cls, "__name__", ""), lambda c: c)(cls)
            known = self.classes.get(cls)
            if known is not None:
                return known
            ours = cls.__module__.startswith(("flambeau.", "torch."))
            if ours and not hasattr(cls, "_jit_class"):
                return None
            return self._class(cls)

    def _interface(self, cls):
        made = self.classes[cls] = T.ClassType(qualified(cls), is_interface=True)
        made.original = cls
        for name, member in vars(cls).items():
            if inspect.isfunction(member):
                node, source = parsed(member)
                resolver = Resolver.of(self, member)
                arguments, returns = signature(node, source, resolver, member, made)
                function = Function(name, f"{made.name}.{name}", made)
                function.schema = Schema(name, "", tuple(arguments), (returns or T.TENSOR,))
                made.methods[name] = function
        return made

    def _class(self, cls):
        """All methods of a class, __init__ first: it says which attributes there are."""
        made = self.classes[cls] = T.ClassType(self.unique_name(qualified(cls)))
        made.original = cls
        members = _members(cls)
        for name, member in members.items():
            if isinstance(member, property):
                made.properties[name] = (
                    f"__{name}_getter",
                    f"__{name}_setter" if member.fset else None,
                )
        compiling: list[str] = []

        def compile_method(name):
            member = _method_of(members, made, name)
            if member is None or name in compiling:
                return made.methods.get(name)
            compiling.append(name)
            return self._method(made, name, member)

        made.compile_method = compile_method
        try:
            for name in ["__init__", *members]:
                if callable(getattr(members.get(name), "__func__", members.get(name))):
                    compile_method(name)
            for getter, setter in made.properties.values():
                compile_method(getter)
                if setter:
                    compile_method(setter)
        except BaseException:
            del self.classes[cls]
            raise
        return made

    def _method(self, owner, name, member):
        if isinstance(member, staticmethod):
            owner.static.add(name)
            function = owner.methods[name] = self.function(member.__func__)
            return function
        if isinstance(member, classmethod):
            raise NotSupportedError(None, "classmethods aren't supported in scripted classes")
        function = owner.methods[name] = Function(name, f"{owner.name}.{name}", owner)
        compile_function(function, member, Resolver.of(self, member, owner), owner)
        return function

    def parent_of(self, c: Any, owner: Any, kind: Any, place: Any) -> Any:
        """What super() gives."""
        return _Super(owner, kind)

    def module_types(self) -> Iterator[Any]:
        return iter(self.modules)


class _Super(Sugar):
    """super(): methods of a base class, called on this object."""

    def __init__(self, owner: Any, kind: Any) -> None:
        self.owner, self.kind_ = owner, kind

    def attribute(self, c: Any, name: str, place: Any) -> Any:
        value = c.value_of(self.owner, place)
        cls = getattr(value.type_, "original", None)
        for base in cls.__mro__[1:] if cls else ():
            member = vars(base).get(name)
            if member is None:
                continue
            if name == "__init__":
                return BoundMethod(lambda *args: c.none(place), value, None)
            own = f"__super_{base.__name__}_{name}"
            kind = value.type_
            if own not in kind.methods:
                if hasattr(kind, "compile_as"):
                    kind.compile_as(own, name, base)
                else:
                    c.resolver.unit._method(kind, own, member)
            return BoundMethod(c._call_own, value, own)
        raise CompileError(f"super() has no attribute '{name}'", place)


def _members(cls):
    """What a class defines, its bases included."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        for name, member in vars(base).items():
            kept = inspect.isfunction(member) or isinstance(
                member, (staticmethod, classmethod, property)
            )
            if kept and getattr(member, "_torchscript_modifier", "") not in ("ignore", "unused"):
                found[name] = member
    if dataclasses.is_dataclass(cls):
        found |= _data_methods(cls)
    return {n: m for n, m in found.items() if n not in ("__repr__", "__hash__", "__reduce__")}


# a value may be missing on one side, on both, or on none
_IS_SAME = """\
    {0}_a, {0}_b = self.{0}, other.{0}
    if {0}_a is None or {0}_b is None:
        if {0}_a is not None or {0}_b is not None:
            return False
    elif not ({0}_a == {0}_b):
        return False
"""


def _data_methods(cls):
    """The methods that a dataclass is given, as source: Python keeps none for its own."""
    fields = dataclasses.fields(cls)
    space = dict(vars(sys.modules[cls.__module__]), _cls=cls)
    head, body, same = ["self"], [], []
    for field in fields:
        space[f"_type_{field.name}"] = field.type
        default = ""
        if field.default is not dataclasses.MISSING:
            space[f"_default_{field.name}"] = field.default
            default = f" = _default_{field.name}"
        head.append(f"{field.name}: _type_{field.name}{default}")
        body.append(f"    self.{field.name} = {field.name}\n")
        same.append(_IS_SAME.format(field.name))
    texts = {
        "__init__": f"def __init__({', '.join(head)}):\n{''.join(body) or '    pass'}",
        "__eq__": f"def __eq__(self, other: _cls) -> bool:\n{''.join(same)}    return True\n",
    }
    for name, text in texts.items():
        filename = f"<flambeau jit {cls.__qualname__}.{name}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        exec(compile(text, filename, "exec"), space)
    return {name: space[name] for name in texts}


def _method_of(members, made, name):
    for prop, (getter, setter) in made.properties.items():
        if name == getter:
            return members[prop].fget
        if name == setter:
            return members[prop].fset
    found = members.get(name)
    return None if isinstance(found, property) else found


def _no_grad(cls):
    from flambeau.jit import grad_modes

    return grad_modes.no_grad


def _enable_grad(cls):
    from flambeau.jit import grad_modes

    return grad_modes.enable_grad


_GRAD_MODES = {"no_grad": _no_grad, "enable_grad": _enable_grad}

unit = Unit()
