"""Reading calls: which function is meant, and whether it is read, recorded or just called."""

import contextlib
import dataclasses
import inspect
import sys
import sysconfig
import types
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any

from flambeau._dynamo import config, marks
from flambeau._dynamo.exc import Break
from flambeau._dynamo.known import KNOWN, PURE, PURE_MODULES
from flambeau._dynamo.objects import CONTAINERS, OPS, VALUES
from flambeau._dynamo.programs import program_of
from flambeau._dynamo.scopes import Late, Scope, bind
from flambeau._dynamo.tensors import is_op
from flambeau._dynamo.values import (
    BoundMethod,
    Callback,
    GradSwitch,
    MadeFunction,
    MadeGenerator,
    MadeObject,
    Outside,
    Partial,
    Symbolic,
    TensorValue,
)
from flambeau.aten.overloads import OpNamespace
from flambeau.autograd.grad_mode import enable_grad, no_grad
from flambeau.library import CustomOpDef
from flambeau.library.registered import Entry
from flambeau.nn.modules import calling
from flambeau.nn.modules.module import Module

_MANAGER = contextlib.contextmanager(lambda: iter(())).__code__
_STANDARD = sysconfig.get_paths()["stdlib"]
_SITES = tuple(sysconfig.get_paths()[k] for k in ("purelib", "platlib"))
# parts of flambeau whose functions are read like those of a program
_READABLE = (
    "flambeau.nn.", "flambeau.vision.", "flambeau.autograd.grad_mode", "flambeau.compiler",
    "flambeau.testing.", "flambeau.eager.fragments",
)  # fmt: skip
_CONTAINERS = (*CONTAINERS, str, bytes, *VALUES)
_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")


def is_standard(function: Any) -> bool:
    """Is it written in Python's own library?"""
    file = function.__code__.co_filename
    return file.startswith(_STANDARD) and not file.startswith(_SITES)


def is_readable(function: Any) -> bool:
    """Is it a function of a program, or a part of flambeau that is like one?"""
    module = function.__module__ or ""
    if module == "flambeau" or module.startswith("flambeau."):
        return module.startswith(_READABLE) and not is_op(function)
    return not is_standard(function)


class Calls:
    """The part of the reader that follows calls."""

    def call(self: Any, function: Any, args: tuple, kwargs: dict) -> Any:
        """A call of anything."""
        if isinstance(function, MadeFunction):
            return self.call_made(function, args, kwargs)
        if isinstance(function, BoundMethod):
            return self._call_method(function, args, kwargs)
        if isinstance(function, Partial):
            return self.call(
                function.function, (*function.args, *args), {**function.kwargs, **kwargs}
            )
        if isinstance(function, Callback):
            return self.call(function.function, args, kwargs)
        if isinstance(function, Outside):
            return self._call_object(function, args, kwargs)
        if isinstance(function, MadeObject):
            return self.call_special_with(function, "__call__", args, kwargs)
        if isinstance(function, GradSwitch):
            return self.decorated(function, *args, **kwargs)
        if isinstance(function, Symbolic):
            raise Break(f"a call of {function.describe()}")
        if function is calling.Calling.__call__ and args and isinstance(args[0], Outside):
            return self._call_module(args[0], args[1:], kwargs)
        try:
            known = KNOWN.get(function)
        except TypeError:
            known = None
        if known is not None:
            return known(self, *args, **kwargs)
        if isinstance(function, type):
            return self._construct(function, args, kwargs)
        if isinstance(function, types.FunctionType):
            return self._call_function(function, args, kwargs)
        if isinstance(function, OPS):
            return self._call_op(function, args, kwargs)
        return self._call_builtin(function, args, kwargs)

    def decorated(self: Any, switch: GradSwitch, function: Any) -> Any:
        """A function under no_grad or its kin."""
        if switch.previous is not None:  # of set_grad_enabled, whose call switched nothing then
            self.set_grad(switch.previous)
        kind = enable_grad if switch.mode else no_grad
        return self.call(kind, (function,), {})

    def _call_op(self, op, args, kwargs):
        """An op as an object: a function of ours, or an op that the program has registered."""
        if isinstance(op, CustomOpDef):
            op = op._opoverload
        if isinstance(op, OpNamespace):
            raise Break("a call of a namespace")
        found = op.function()
        found = found.overload if isinstance(found, Entry) else found
        return self.record_function(found, args, kwargs)

    # -- functions -------------------------------------------------------------------------------
    def _call_function(self, function, args, kwargs):
        mark = marks.mark_of(function)
        if mark == "disabled":
            raise Break(f"{function.__qualname__} is not to be compiled")
        if mark == "constant":
            return self._constant_result(function, args, kwargs)
        if mark == "in graph":
            return self.record_function(function, args, kwargs)
        compiled = marks.original_of(function)
        if compiled is not None:
            return self.call(compiled, args, kwargs)
        if function.__code__ is _MANAGER:
            return self._context_manager(function, args, kwargs)
        if mark != "out of graph" and is_op(function):
            return self.record_function(function, args, kwargs)
        if mark == "out of graph" or not is_readable(function):
            if function.__module__ in PURE_MODULES:
                return self.native(function, *args, **kwargs)
            raise Break(f"a call of {function.__module__}.{function.__qualname__}")
        return self.inline(function, self.guards.known(function), args, kwargs)

    def _context_manager(self, function, args, kwargs):
        """A call of what contextlib.contextmanager has made."""
        made = self.call(function.__wrapped__, args, kwargs)
        if not isinstance(made, MadeGenerator):
            raise Break("a context manager that is no generator")
        made.is_manager = True
        return made

    def _constant_result(self, function, args, kwargs):
        """What a function gave when it was first called, which the user says never changes."""
        given = [a.obj if isinstance(a, Outside) else a for a in args]
        if kwargs or any(isinstance(a, Symbolic) for a in given):
            raise Break("a function with a constant result of tensors")
        found = function(*given)
        return self.wrap(found, self.guards.known(found))

    def inline(self: Any, function: Any, source: tuple, args: tuple, kwargs: dict) -> Any:
        """Read the body of a function."""
        program = program_of(function)
        if not program.is_plain and not program.is_generator:
            raise Break(f"{function.__qualname__} is asynchronous")
        scope = Scope(program.names, program.filename, function, source)
        scope.variables = self.bound(program, function, source, args, kwargs)
        if program.is_generator:
            return MadeGenerator(self, scope, function.__qualname__, program.body)
        with self.deeper(scope, function.__qualname__):
            return self.run_body(program.body, scope)

    def bound(
        self: Any, program: Any, function: Any, source: tuple, args: tuple, kwargs: dict
    ) -> dict:
        """The parameters of a function from outside."""

        def default(place, k, value):
            return self.late(value, ("item", ("attr", source, place), k))

        values = function.__defaults__ or ()
        named = function.__kwdefaults__ or {}
        defaults = [default("__defaults__", k, v) for k, v in enumerate(values)]
        kwdefaults = {k: default("__kwdefaults__", k, v) for k, v in named.items()}
        if not (function.__module__ or "").startswith("flambeau."):  # code may be exchanged
            self.guards.require(
                f"{self.guards.variable(('attr', source, '__code__'))} is "
                f"{self.guards.constant(function.__code__)}"
            )
        return bind(program.node.args, defaults, kwdefaults, args, kwargs)

    def late(self: Any, value: Any, source: tuple) -> Late:
        """A value from outside that may never be looked at."""
        return Late(lambda: self.wrap(value, source), source)

    @contextlib.contextmanager
    def deeper(self: Any, scope: Scope, name: str) -> Iterator[None]:
        """Inside of another function; a break says where it was."""
        self.stack.append((scope, name))
        try:
            if len(self.stack) > config.inline_depth:
                raise Break("functions within functions, too deep")
            yield
        except Break as found:
            if found.place is None:
                found.place = (scope.filename, scope.line)
            found.stack.append((scope.filename, scope.line, name))
            raise
        finally:
            self.stack.pop()

    # -- methods and objects ---------------------------------------------------------------------
    def _call_method(self, method, args, kwargs):
        owner, function = method.owner, method.function
        if isinstance(owner, TensorValue) and isinstance(function, str):
            return self.tensor_method(owner, function, args, kwargs)
        if isinstance(function, types.MethodType):  # of the reader itself
            return function(owner, *args, **kwargs)
        if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            return self._call_descriptor(owner, function, args, kwargs)
        return self.call(function, (owner, *args), kwargs)

    def _call_descriptor(self, owner, function, args, kwargs):
        """A method of a builtin class, such as object.__init__ or dict.get of a subclass."""
        if function is object.__init__ and not args and not kwargs:
            return None
        raise Break(f"a call of {function.__qualname__}")

    def call_special_with(self: Any, owner: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """A method with two underscores, with all arguments."""
        cls = type(owner.obj) if isinstance(owner, Outside) else owner.cls
        if not hasattr(cls, name):
            raise Break(f"a call of {owner.describe()}")
        return self.call(self._class_attribute(cls, owner, name), args, kwargs)

    def _call_object(self, owner, args, kwargs):
        obj = owner.obj
        compiled = marks.original_of(obj)
        if compiled is not None:
            if isinstance(compiled, Module):
                inside = self.wrap(compiled, ("attr", owner.source, "_orig_mod"))
                return self.call(inside, args, kwargs)
            raise Break("a call of a compiled function")
        if isinstance(obj, Module) and type(obj).__call__ is calling.Calling.__call__:
            source = ("attr", self.guards.known(type(obj)), "__call__")
            self.guards.same_object(source, calling.Calling.__call__)
            return self._call_module(owner, args, kwargs)
        found = inspect.getattr_static(type(obj), "__call__", None)
        if not isinstance(found, types.FunctionType):
            raise Break(f"a call of {owner.describe()}")
        return self.call_special_with(owner, "__call__", args, kwargs)

    def _call_module(self, owner, args, kwargs):
        """Module.__call__: forward, if nobody has put hooks around it."""
        module, guards = owner.obj, self.guards
        if marks.mark_of(type(module).forward) == "disabled":
            raise Break(f"{type(module).__qualname__}.forward is not to be compiled")
        fields = ("dict", owner.source)
        hooks = [f"{guards.variable(fields)}[{name!r}]" for name in _HOOKS]
        if any(module.__dict__[name] for name in _HOOKS) or not self.no_global_hooks():
            raise Break(f"hooks of {owner.describe()}")
        guards.require(f"not ({' or '.join(hooks)})")
        return self.call(self.attribute(owner, "forward"), args, kwargs)

    def no_global_hooks(self: Any) -> bool:
        """Are there no hooks on all modules? That is guarded."""
        everywhere = (calling.backward_hooks, calling.backward_pre_hooks,
                      calling.forward_hooks, calling.forward_pre_hooks)  # fmt: skip
        if any(everywhere):
            return False
        names = " or ".join(self.guards.constant(hooks) for hooks in everywhere)
        self.guards.require(f"not ({names})")
        return True

    # -- classes ---------------------------------------------------------------------------------
    def _construct(self, cls, args, kwargs):
        if cls in PURE:
            return self.native(cls, *map(self.opened, args), **kwargs)
        if issubclass(cls, tuple) and hasattr(cls, "_fields"):
            written = cls.__new__.__code__.co_filename if hasattr(cls.__new__, "__code__") else ""
            if cls.__init__ is not object.__init__ or written[:1] != "<":
                raise Break(f"an object of {cls.__qualname__} is made")
            return self._named_tuple(cls, args, kwargs)
        if issubclass(cls, (Module, BaseException, type)) or type(cls) is not type:
            raise Break(f"an object of {cls.__qualname__} is made")
        if cls.__new__ is not object.__new__ or cls.__module__.startswith("flambeau."):
            raise Break(f"an object of {cls.__qualname__} is made")
        if not _is_simple(cls):
            raise Break(f"an object of {cls.__qualname__} is made")
        made = MadeObject(cls)
        if dataclasses.is_dataclass(cls) and _has_made_init(cls):
            self._fill_dataclass(made, cls, args, kwargs)
        elif isinstance(cls.__init__, types.FunctionType):
            found = self._class_attribute(cls, made, "__init__")
            if self.call(found, args, kwargs) is not None:
                raise Break("__init__ that returns something")
        elif args or kwargs:
            raise Break("arguments for a class that takes none")
        return made

    def _named_tuple(self, cls, args, kwargs):
        names = cls._fields
        values = dict(zip(names, args)) | kwargs
        defaults = getattr(cls, "_field_defaults", {})
        if len(args) > len(names) or any(k not in names for k in kwargs):
            raise Break(f"wrong arguments of {cls.__qualname__}")
        for name in names:
            if name not in values:
                if name not in defaults or type(defaults[name]) not in (*VALUES, type(None), bool):
                    raise Break(f"wrong arguments of {cls.__qualname__}")
                values[name] = defaults[name]
        return tuple.__new__(cls, [values[name] for name in names])

    def _fill_dataclass(self, made, cls, args, kwargs):
        """The __init__ that dataclasses write, which has no text."""
        fields = dataclasses.fields(cls)
        given = [f for f in fields if f.init]
        positional = [f.name for f in given if not f.kw_only]
        if len(args) > len(positional) or cls.__dataclass_params__.frozen:
            raise Break(f"an object of {cls.__qualname__} is made")
        values = dict(zip(positional, args)) | kwargs
        if len(values) != len(args) + len(kwargs) or not values.keys() <= {f.name for f in given}:
            raise Break(f"wrong arguments of {cls.__qualname__}")
        guards = self.guards
        guards.same_object(("attr", guards.known(cls), "__init__"), cls.__init__)
        for f in fields:
            if f.name in values:
                made.fields[f.name] = values[f.name]
            elif f.default is not dataclasses.MISSING:
                made.fields[f.name] = self.wrap(f.default, ("attr", guards.known(f), "default"))
            elif f.default_factory is not dataclasses.MISSING:
                made.fields[f.name] = self.call(f.default_factory, (), {})
            elif f.init:
                raise Break(f"wrong arguments of {cls.__qualname__}")
        if hasattr(cls, "__post_init__"):
            if any(type(v) is dataclasses.InitVar for v in inspect.get_annotations(cls).values()):
                raise Break("a dataclass with InitVar")
            self.call(self._class_attribute(cls, made, "__post_init__"), (), {})

    # -- Python's own ----------------------------------------------------------------------------
    def _call_builtin(self, function, args, kwargs):
        owner = getattr(function, "__self__", None)
        module = getattr(function, "__module__", None)
        if isinstance(owner, _CONTAINERS) or self._is_view(owner):
            return self._call_container(owner, function, args, kwargs)
        if function in PURE or module in PURE_MODULES:
            return self.native(function, *map(self.opened, args), **kwargs)
        name = getattr(function, "__qualname__", None) or type(function).__name__
        raise Break(f"a call of {module}.{name}")

    def _is_view(self, owner):
        return owner is not None and type(owner).__name__ in (
            "dict_keys", "dict_values", "dict_items", "odict_keys", "odict_values", "odict_items",
        )  # fmt: skip

    def _call_container(self, owner, function, args, kwargs):
        """A method of a list, a text, a number that the program has."""
        changes = isinstance(owner, (list, dict, set, OrderedDict, deque))
        if changes and self.origin(owner) is not None and function.__name__ not in (
            "index", "count", "copy", "keys", "values", "items", "get", "__len__", "__getitem__",
            "__contains__", "__iter__", "isdisjoint", "issubset", "issuperset", "union",
            "intersection", "difference",
        ):  # fmt: skip
            raise Break(f"{function.__name__} of something from outside")
        if not self.is_plain(owner, deep=False):
            raise Break(f"{function.__name__} of an object of {type(owner)}")
        args = tuple(map(self.opened, args))
        kwargs = {k: self.callback(v) for k, v in kwargs.items()}
        if isinstance(owner, dict) and function.__name__ == "update" and args:
            args = (self.mapping(args[0]) if isinstance(args[0], Outside) else args[0],)
        if function.__name__ in ("extend", "join"):
            args = (list(self.iterate(args[0])),)
        if function.__name__ == "format" and any(isinstance(a, Symbolic) for a in args):
            raise Break("the text of a tensor or an object")
        return self.native(function, *args, **kwargs)

    def callback(self: Any, value: Any) -> Any:
        """A function for Python's own functions to call."""
        if isinstance(value, (types.FunctionType, BoundMethod, Partial, Outside)):
            return Callback(self, value)
        return value


def _has_made_init(cls):
    """Was __init__ written by dataclasses, not by the program?"""
    code = getattr(cls.__init__, "__code__", None)
    return code is not None and code.co_filename == "<string>"


def _is_simple(cls):
    """Do objects of a class keep what they are given in a __dict__, and nothing else?"""
    for base in cls.__mro__[:-1]:
        if "__slots__" in base.__dict__ or base.__module__ in sys.stdlib_module_names:
            return False
        if any(n in base.__dict__ for n in ("__getattribute__", "__getattr__", "__del__")):
            return False
    return True
