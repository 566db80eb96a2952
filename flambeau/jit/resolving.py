"""What names in Python source stand for: the objects they name, as things of a program."""

import ast
import builtins
import enum
import functools
import inspect
import math
import types
import warnings
from collections.abc import Callable
from typing import Any, cast

import flambeau
from flambeau import _dtype
from flambeau._device import device
from flambeau._memory_format import layout, memory_format
from flambeau._tensor import Tensor
from flambeau.aten.overloads import OpOverload, OpOverloadPacket, namespace
from flambeau.jit import marks
from flambeau.jit import types as T
from flambeau.jit.annotating import NoType, enum_type, from_annotation, named_tuple
from flambeau.jit.numbering import number_of
from flambeau.jit.places import CompileError, FrontendTypeError
from flambeau.jit.schemas import is_op
from flambeau.jit.sugar import (
    Builtin,
    Choices,
    ClassSugar,
    EnumSugar,
    ExceptionSugar,
    FunctionSugar,
    NamedTupleSugar,
    Namespace,
    Partial,
    PythonFunction,
    Special,
    TupleSugar,
    TypeSugar,
    Variants,
)
from flambeau.nn import Module
from flambeau.nn import functional as F

_SPECIAL: dict[Any, str] = {
    **{getattr(builtins, name): name for name in
       "len int float bool complex str range enumerate zip reversed print getattr setattr hasattr "
       "min max abs round sorted divmod ord chr hash hex bin oct pow sum any all list tuple dict "
       "super isinstance".split()},
    marks.annotate: "annotate",
    marks.is_scripting: "is_scripting",
    marks.is_tracing: "is_tracing",
    marks.isinstance_: "isinstance",
    cast: "cast",
    device: "device",
    warnings.warn: "warn",
}  # fmt: skip
_BY_NAME = {
    "torch._assert": "assert_",
    "torch.compiler.is_compiling": "false",
    "torch.compiler.is_dynamo_compiling": "false",
    "torch._dynamo.is_compiling": "false",
    "torch.jit.fork": "fork",
    "torch.jit.wait": "wait",
    "torch.jit._fork": "fork",
    "torch.jit._wait": "wait",
    "torch.jit.is_scripting": "is_scripting",
    "torch.jit.is_tracing": "is_tracing",
    "torch._utils.is_compiling": "false",
    "torch.overrides.has_torch_function": "false",
    "torch.overrides.has_torch_function_unary": "false",
    "torch.overrides.has_torch_function_variadic": "false",
    "torch._C._log_api_usage_once": "nothing",
}
_PREFIXES = {"linalg": "linalg_", "fft": "fft_", "special": "special_"}
_MATH = {"remainder": "mathremainder"}


class Resolver:
    """Names of a Python function: its closure, its module and what Python has built in."""

    allows_closures = False

    def __init__(self, unit: Any, spaces: list[dict], owner: Any = None) -> None:
        self.unit, self.spaces, self.owner = unit, spaces, owner

    @classmethod
    def of(cls, unit: Any, function: Any, owner: Any = None) -> "Resolver":
        """The names that a function sees."""
        function = inspect.unwrap(function)
        closure = {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            try:
                closure[name] = cell.cell_contents
            except ValueError:
                continue
        return cls(unit, [closure, function.__globals__], owner)

    def find(self, name: str) -> Any:
        for space in self.spaces:
            if name in space:
                return space[name]
        return getattr(builtins, name, None)

    def name(self, c: Any, name: str, place: Any) -> Any:
        if name == "torch" and not any("torch" in space for space in self.spaces):
            return None
        known = any(name in space for space in self.spaces) or hasattr(builtins, name)
        return self.wrap(c, self.find(name), place) if known else None

    # -- types -------------------------------------------------------------------------------
    def annotation(self, node: Any, place: Any) -> T.Type:
        """The type that an annotation means, as written."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                raise FrontendTypeError(place, f"cannot read the type {node.value!r}") from None
        space: dict = {**vars(_typing)}
        for names in reversed(self.spaces):
            space.update(names)
        try:
            code = compile(ast.Expression(_unquoted(node)), "<annotation>", "eval")
            return self.type_of(eval(code, space), place)
        except (NameError, AttributeError, TypeError) as error:
            raise CompileError(f"Unknown type name '{ast.unparse(node)}': {error}", place) from None

    def type_of(self, found: Any, place: Any) -> T.Type:
        """The type that a Python object means as an annotation."""
        if isinstance(found, str):
            return self.annotation(ast.Constant(found), place)
        try:
            return from_annotation(found, self.unit.class_type)
        except NoType as error:
            raise CompileError(str(error), place) from None

    def classes_asked(self, c: Any, node: Any, place: Any) -> list | None:
        """The types behind a name in isinstance(x, name), if it is a tuple or a module's class."""
        found = self._evaluated(node)
        if isinstance(found, tuple):
            return [self.type_of(f, place) for f in found]
        if isinstance(found, type) and issubclass(found, Module):
            return [t for t in self.unit.module_types() if issubclass(t.original, found)]
        return None

    def _evaluated(self, node):
        if isinstance(node, ast.Name):
            return self.find(node.id)
        base = self._evaluated(node.value) if isinstance(node, ast.Attribute) else None
        return getattr(base, node.attr, None)

    def defines(self, kind: T.ClassType) -> bool:
        """Is this class being defined, so that new attributes are learnt?"""
        return self.owner is kind

    def attribute_type(self, kind: T.ClassType, name: str) -> T.Type | None:
        cls = getattr(kind, "original", None)
        hints = getattr(cls, "__annotations__", {})
        return self.type_of(hints[name], None) if name in hints else None

    def parent(self, c: Any, owner: Any, place: Any) -> Any:
        """What super() gives: the methods of the base class."""
        return self.unit.parent_of(c, owner, self.owner, place)

    # -- objects -----------------------------------------------------------------------------
    def wrap(self, c: Any, found: Any, place: Any) -> Any:
        """A Python object as a thing of a program."""
        if isinstance(found, enum.Enum):
            return EnumSugar(enum_type(type(found))).member(c, found, place)
        if found is None or isinstance(found, (bool, int, float, str, complex, device)):
            return c.constant(found, place)
        if isinstance(found, (_dtype.dtype, layout, memory_format)):
            return c.constant(number_of(found), place)
        if isinstance(found, (tuple, list)):
            return self._wrap_sequence(c, found, place)
        if isinstance(found, types.ModuleType):
            return Namespace(self.member, found)
        if found is flambeau.ops or isinstance(found, type(namespace("aten"))):
            return Namespace(self._op_member, found)
        special = _special(found)
        if special is not None:
            return Special(special)
        if found is flambeau.Size:  # a list of ints in programs
            return Builtin("aten::Size")
        if isinstance(found, type):
            return self._wrap_class(c, found, place)
        if isinstance(found, (OpOverload, OpOverloadPacket)):
            packet = getattr(found, "overloadpacket", found)
            return Builtin(f"{packet.namespace}::{packet.__name__}")
        if callable(found):
            return self._wrap_function(c, found, place)
        raise CompileError(
            f"python value of type '{type(found).__name__}' cannot be used as a value. Perhaps it "
            "is a closed over global variable? If so, please consider passing it in as an argument "
            "or use a local varible instead.",
            place,
        )

    def _wrap_sequence(self, c, found, place):
        parts = [self.wrap(c, f, place) for f in found]
        if isinstance(found, list):
            return c.list_of([c.value_of(p, place) for p in parts], place)
        return TupleSugar(parts)

    def _wrap_class(self, c, found, place):
        if issubclass(found, BaseException):
            return ExceptionSugar(found)
        if issubclass(found, tuple) and hasattr(found, "_fields"):
            return NamedTupleSugar(named_tuple(found, self.unit.class_type))
        if issubclass(found, enum.Enum):
            return EnumSugar(enum_type(found))
        if issubclass(found, Tensor):
            return TypeSugar(T.TENSOR)
        if issubclass(found, Module):
            raise CompileError(f"Could not compile the class {found.__name__}: modules are made "
                               "outside of scripts", place)  # fmt: skip
        made = self.unit.class_type(found)
        if made is None:
            raise CompileError(f"Unknown type name '{found.__name__}'", place)
        return ClassSugar(made)

    def _wrap_function(self, c, found, place):
        if isinstance(found, self.unit.ScriptFunction):
            return FunctionSugar(found._function)
        if isinstance(found, functools.partial):
            given = [self.wrap(c, value, place) for value in found.args]
            named = {k: self.wrap(c, value, place) for k, value in found.keywords.items()}
            return Partial(self.wrap(c, found.func, place), given, named)
        if isinstance(found, Module):
            raise CompileError(f"python value of type '{type(found).__name__}' cannot be used as a "
                               "value", place)  # fmt: skip
        short = getattr(found, "__name__", "")
        for space in (flambeau, F):
            if getattr(space, short, None) is found:
                several = self._several(short, space is F)
                if several is not None:
                    return several
        name = op_name(found)
        if isinstance(name, str):
            return Builtin(name)
        if name is not None:
            return FunctionSugar(self.unit.function(name))
        inner = inspect.unwrap(found)
        if isinstance(found, types.MethodType) or not isinstance(inner, types.FunctionType):
            raise CompileError(
                f"Python builtin {found!r} is currently not supported in Torchscript", place
            )
        mark = marks.mark_of(found)
        if mark in ("ignore", "unused", "drop"):
            schema = self.unit.python_schema(found, self)
            return PythonFunction(found, schema, None, mark != "ignore")
        return FunctionSugar(self.unit.function(found))

    def _several(self, name, is_functional):
        """A function that is compiled from one of several forms; None if it is none of these."""
        from flambeau.jit import functional_pool_forms, tensor_forms

        choices = functional_pool_forms.POOLS if is_functional else tensor_forms.CHOICES
        if name in choices:
            return Choices(*choices[name], self._form_sugar)
        if name in tensor_forms.VARIANTS and not is_functional:
            return Variants(tensor_forms.VARIANTS[name], self._form_sugar)
        return None

    def _form_sugar(self, form):
        return Builtin(form) if isinstance(form, str) else FunctionSugar(self.unit.function(form))

    def _op_member(self, c, space, name, place):
        """torch.ops.aten, and torch.ops.aten.name"""
        if space is flambeau.ops:
            return self.wrap(c, getattr(flambeau.ops, name), place)
        if is_op(f"{space.name}::{name}"):
            return Builtin(f"{space.name}::{name}")
        raise CompileError(f"Unknown builtin op: {space.name}::{name}", place)

    def member(self, c: Any, module: Any, name: str, place: Any) -> Any:
        """module.name"""
        if module is math and is_op("aten::" + _MATH.get(name, name)):
            return Builtin("aten::" + _MATH.get(name, name))
        spoken = module.__name__.replace("flambeau", "torch", 1)
        if f"{spoken}.{name}" in _BY_NAME:
            return Special(_BY_NAME[f"{spoken}.{name}"])
        several = self._several(name, module is F) if module is F or module is flambeau else None
        if several is not None:
            return several
        if module is F:
            form = functional_form(name)
            if form is not None:
                return FunctionSugar(self.unit.function(form))
        is_ours = module is F or module is flambeau
        is_class = isinstance(getattr(module, name, None), type)
        if is_ours and is_op("aten::" + name) and not is_class:
            return Builtin("aten::" + name)
        short = spoken.removeprefix("torch.")
        if short in _PREFIXES and is_op(f"aten::{_PREFIXES[short]}{name}"):
            return Builtin(f"aten::{_PREFIXES[short]}{name}")
        if spoken == "numpy" and not hasattr(module, name):
            return None
        found = getattr(module, name, _MISSING)
        return None if found is _MISSING else self.wrap(c, found, place)


_MISSING = object()


def _special(found):
    try:
        known = _SPECIAL.get(found)
    except TypeError:
        return None
    if known is not None:
        return known
    module, name = getattr(found, "__module__", None), getattr(found, "__name__", None)
    if not isinstance(module, str) or not module.startswith(("flambeau", "torch")):
        return None
    for spoken, special in _BY_NAME.items():
        space, _, last = spoken.rpartition(".")
        if last == name and _lookup(space, last) is found:
            return special
    return None


def _lookup(space, name):
    found: Any = flambeau
    for part in [*space.split(".")[1:], name]:
        found = getattr(found, part, None)
    return found


def functional_form(name: str) -> Callable | None:
    """The definition of a function of nn.functional as a script."""
    from flambeau.jit import functional_forms, functional_loss_forms, functional_pool_forms

    for module in (functional_forms, functional_loss_forms, functional_pool_forms):
        found = vars(module).get(name)
        if isinstance(found, types.FunctionType) and found.__module__ == module.__name__:
            return found
    return None


def op_name(found: Any) -> Any:
    """The op that a function of this package is; a function if it is one of nn.functional."""
    module, name = getattr(found, "__module__", "") or "", getattr(found, "__name__", "")
    if module == "math":
        return f"aten::{_MATH.get(name, name)}" if is_op("aten::" + _MATH.get(name, name)) else None
    known = module.startswith(("flambeau", "<flambeau")) or getattr(F, name, None) is found
    if not known and getattr(flambeau, name, None) is not found:
        return None
    if getattr(F, name, None) is found:
        form = functional_form(name)
        if form is not None and getattr(flambeau, name, None) is not found:
            return form
    for space, prefix in ((flambeau, ""), (F, ""), (flambeau.linalg, "linalg_"),
                          (flambeau.fft, "fft_"), (flambeau.special, "special_")):  # fmt: skip
        short = name.removeprefix(prefix)  # functions of linalg are called `linalg_...` themselves
        if getattr(space, short, None) is found and is_op(f"aten::{prefix}{short}"):
            return f"aten::{prefix}{short}"
    return None


class _typing:
    """Names of types that annotations in strings and comments may use without an import."""

    from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union  # noqa: UP035

    Tensor = Tensor


class _Unquote(ast.NodeTransformer):
    def visit_Constant(self, node):
        if isinstance(node.value, str):
            return ast.parse(node.value, mode="eval").body
        return node


def _unquoted(node):
    """An annotation without quotes around names inside, as in List["Tensor"]."""
    return ast.fix_missing_locations(
        _Unquote().visit(ast.parse(ast.unparse(node), mode="eval").body)
    )
