"""What stands in expressions without being a value: functions, modules, types, ranges.

Each knows what it means to call it, to read an attribute of it, to iterate over it. What Python
objects become which of these is in resolving.py, calls with a meaning of their own in special.py.
"""

import ast
import sys
from collections.abc import Callable
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.ir import Value
from flambeau.jit.places import CompileError


class Sugar:
    """The base: it can be none of the things it is asked for."""

    stays = True  # a variable may hold it as it is
    kind = "object"

    def as_value(self, c: Any, place: Any) -> Value:
        raise CompileError(f"{self.kind} cannot be used as a value", place)

    def attribute(self, c: Any, name: str, place: Any) -> Any:
        raise CompileError(f"attribute lookup is not defined on {self.kind}", place)

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        raise CompileError(f"cannot call a {self.kind}", place)

    def call_written(self, c: Any, node: ast.Call, hint: T.Type | None, place: Any) -> Any:
        """A call that looks at its arguments as written; None if this is none."""
        return None

    def item(self, c: Any, index: Any, place: Any) -> Any:
        return None

    def unpack(self, c: Any, place: Any, count: int | None) -> list | None:
        return None

    def items(self, c: Any, place: Any) -> "Items | None":
        return None


class TupleSugar(Sugar):
    """Several values that are not packed yet; an op without results gives an empty one."""

    stays = False
    kind = "tuple"

    def __init__(self, parts: list, names: tuple[str, ...] = (), is_none: bool = False) -> None:
        self.parts, self.names, self.is_none = parts, names, is_none
        self.stays = any(isinstance(p, Sugar) and p.stays for p in parts)

    def as_value(self, c: Any, place: Any) -> Value:
        return c.none(place) if self.is_none else c.tuple_of(self.parts, place, self.names)

    def unpack(self, c: Any, place: Any, count: int | None) -> list | None:
        return self.parts

    def attribute(self, c: Any, name: str, place: Any) -> Any:
        if name in self.names:
            return self.parts[self.names.index(name)]
        return c.attribute(self.as_value(c, place), name, place)

    def item(self, c: Any, index: ast.expr, place: Any) -> Any:
        number = constant_of(c, index)
        if type(number) is int and -len(self.parts) <= number < len(self.parts):
            return self.parts[number]
        return None

    def items(self, c: Any, place: Any) -> "Items | None":
        return Static(self.parts)


def constant_of(c: Any, node: ast.expr) -> Any:
    """The number or text that an expression is, if it is one as written."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = constant_of(c, node.operand)
        return -inner if isinstance(inner, int) else None
    return node.value if isinstance(node, ast.Constant) else None


class Builtin(Sugar):
    """An op, maybe of a certain tensor."""

    kind = "builtin function"

    def __init__(self, name: str, own: Value | None = None) -> None:
        self.name, self.own = name, own

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        own = [] if self.own is None else [self.own]
        kwargs = {_RENAMED.get(k, k): v for k, v in kwargs.items()}
        return c.builtin(self.name, place, [*own, *args], kwargs)


_RENAMED = {"axis": "dim", "keepdims": "keepdim", "requires_grad": "requires_grad"}


class BoundMethod(Sugar):
    """A method of a value; the compiler knows how to call it."""

    kind = "method"

    def __init__(self, function: Callable, value: Value, about: Any) -> None:
        self.function, self.value, self.about = function, value, about

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        return self.function(self.value, self.about, args, kwargs, place)


class FunctionSugar(Sugar):
    """A function of the program."""

    kind = "function"

    def __init__(self, function: Any) -> None:
        self.function = function

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        return c.call_function(self.function, args, kwargs, place)

    def as_value(self, c: Any, place: Any) -> Value:
        node = c.frame.block.add("prim::Constant", [], place)
        node.attributes["value"] = self.function
        return node.add_output(T.FUNCTION)


class Partial(Sugar):
    """A function with some of its arguments given before (functools.partial)."""

    kind = "function"

    def __init__(self, function: Sugar, args: list, kwargs: dict) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        return self.function.call(c, [*self.args, *args], self.kwargs | kwargs, place)


class ListOfTensor(Sugar):
    """x.tolist(): what is made of it depends on the type that is wanted."""

    kind = "method"

    def __init__(self, own: Value) -> None:
        self.own = own

    def call_written(self, c: Any, node: ast.Call, hint: T.Type | None, place: Any) -> Any:
        if hint is None:
            raise CompileError("Expected type hint for result of tolist()", place)
        depth, inner = 0, hint
        while isinstance(inner, T.ListOf):
            depth, inner = depth + 1, inner.part
        kinds = {T.INT: 0, T.FLOAT: 1, T.COMPLEX: 2, T.BOOL: 3}
        if inner not in kinds:
            raise CompileError(
                f"Only int, float, complex, and bool lists may be obtained from a tensor, found "
                f"{inner.code}",
                place,
            )
        facts = [c.constant(number, place) for number in (depth, kinds[inner])]
        return c.node("prim::tolist", [self.own, *facts], hint, place)


class Variants(Sugar):
    """Functions of one name for arguments of different types: the first that fits is called."""

    kind = "function"

    def __init__(self, forms: tuple, sugar_of: Callable) -> None:
        self.forms, self.sugar_of = forms, sugar_of

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        reasons = []
        for form in self.forms:
            try:
                return self.sugar_of(form).call(c, args, kwargs, place)
            except CompileError as reason:
                reasons.append(str(reason).partition("\n:\n")[0].strip("\n"))
        lines = ["Arguments for call are not valid.", "The following variants are available:"]
        lines += [f"  \n  {reason}" for reason in reasons]
        raise CompileError("\n".join(["", *lines, "", "The original call is"]), place)


class Choices(Sugar):
    """Functions of one name for settings of flags, which must be known where they are compiled."""

    kind = "function"

    def __init__(self, flags: dict[str, int], forms: dict, sugar_of: Callable) -> None:
        self.flags, self.forms, self.sugar_of = flags, forms, sugar_of

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        found = tuple(
            self._flag(kwargs[name] if name in kwargs else args[k], name, place)
            if name in kwargs or k < len(args)
            else False
            for name, k in self.flags.items()
        )
        return self.sugar_of(self.forms[found]).call(c, args, kwargs, place)

    @staticmethod
    def _flag(value, name, place):
        constant = isinstance(value, Value) and value.node.attributes.get("value")
        if type(constant) is bool:
            return constant
        raise CompileError(
            f"Keyword argument '{name}' for boolean dispatch at position was not constant", place
        )


class Closure(Sugar):
    """A function inside of a function; its body is compiled where it is called."""

    kind = "closure"

    def __init__(self, node: ast.FunctionDef) -> None:
        self.node = node

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        *body, last = self.node.body
        if not isinstance(last, ast.Return) or last.value is None:
            raise CompileError("a closure ends with a return", place)
        with c.own_names():
            c.emit_statements(body)
            return c.emit_value(last.value)


class PythonFunction(Sugar):
    """A function that stays Python (`torch.jit.ignore`), or must not be called (`unused`)."""

    kind = "Python function"

    def __init__(self, function: Any, schema: Any, own: Value | None, refuses: bool) -> None:
        self.function, self.schema, self.own, self.refuses = function, schema, own, refuses

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        own = [] if self.own is None else [self.own]
        holder = _Holder(self.schema, getattr(self.function, "__name__", "function"))
        values, returns = c._matched(holder, [*own, *args], kwargs, place)
        if self.refuses:
            text = c.constant(
                "Call to ignored method or function; it was marked with @torch.jit.unused", place
            )
            c.frame.block.add("prim::RaiseException", [text, c.none(place)], place)
            return c.uninitialized(returns[0], c.frame.block)
        return c.node("^" + holder.name, values, returns[0], place, _function=self.function)


class _Holder:
    def __init__(self, schema, name):
        self.schema, self.name = schema, name


class ClassSugar(Sugar):
    """A class of the program: calling it makes an object."""

    kind = "class"

    def __init__(self, type_: T.ClassType) -> None:
        self.type_ = type_

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        made = c.node("prim::CreateObject", [], self.type_, place)
        if self.type_.method("__init__") is not None:
            c.call_method(made, "__init__", args, kwargs, place)
        return made

    def attribute(self, c: Any, name: str, place: Any) -> Any:
        if name in self.type_.static:
            return FunctionSugar(self.type_.method(name))
        if name in self.type_.constants:
            return c.resolver.wrap(c, self.type_.constants[name], place)
        if name == "__new__":
            return _New(self.type_)
        raise CompileError(f"Tried to access nonexistent attribute '{name}' of {self.type_}", place)


class _New(Sugar):
    """`__torch__.C.__new__`, which archives say."""

    def __init__(self, type_: T.ClassType) -> None:
        self.type_ = type_

    def call_written(self, c: Any, node: ast.Call, hint: T.Type | None, place: Any) -> Any:
        return c.node("prim::CreateObject", [], self.type_, place)


class NamedTupleSugar(Sugar):
    """The class of a named tuple."""

    kind = "named tuple"

    def __init__(self, type_: T.TupleOf) -> None:
        self.type_ = type_

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        from flambeau.jit.matching import default_value

        fields = dict(zip(self.type_.fields, args)) | kwargs
        defaults = self.type_.defaults
        known = dict(zip(self.type_.fields[len(self.type_.fields) - len(defaults) :], defaults))
        values = []
        for name, kind in zip(self.type_.fields, self.type_.parts):
            if name in fields:
                value = c.value_of(fields[name], place)
            elif name in known:
                value = default_value(c, known[name], kind, place)
            else:
                raise CompileError(f"Argument {name} not provided.", place)
            values.append(c.converted(value, kind, place))
        return c.node("prim::TupleConstruct", values, self.type_, place)


class EnumSugar(Sugar):
    """A Python enumeration; its members are constants."""

    kind = "enum"

    def __init__(self, type_: T.EnumType) -> None:
        self.type_ = type_

    def member(self, c: Any, value: Any, place: Any) -> Value:
        node = c.frame.block.add("prim::Constant", [], place)
        node.attributes["value"] = value
        return node.add_output(self.type_)

    def attribute(self, c: Any, name: str, place: Any) -> Any:
        return self.member(c, self.type_.cls[name], place)

    def items(self, c: Any, place: Any) -> "Items | None":
        return Static([self.member(c, value, place) for value in self.type_.cls])


class ExceptionSugar(Sugar):
    """A class of exceptions."""

    kind = "exception"

    def __init__(self, cls: type) -> None:
        self.cls = cls


_BY_NAME = ("ModuleDict", "ParameterDict")


class ModuleSugar(Sugar):
    """A submodule: containers of modules are walked while compiling."""

    kind = "module"
    stays = True

    def __init__(self, value: Value, type_: Any) -> None:
        self.value, self.type_ = value, type_

    def as_value(self, c: Any, place: Any) -> Value:
        return self.value

    def attribute(self, c: Any, name: str, place: Any) -> Any:
        container = getattr(self.type_, "container", "")
        if container in _BY_NAME and name in ("keys", "values", "items"):
            return _Members(self, name)
        found = self.type_.lookup(c, self, name, place) if hasattr(self.type_, "lookup") else None
        if found is not None:
            return found
        return c.class_attribute(self.value, self.type_, name, place)

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        return c.call_method(self.value, "forward", args, kwargs, place)

    def members(self, c: Any, place: Any) -> list[tuple[str, Any]]:
        """The modules of a container, by name."""
        names = getattr(self.type_, "order", [])
        return [(n, c.class_attribute(self.value, self.type_, n, place)) for n in names]

    def item(self, c: Any, index: ast.expr, place: Any) -> Any:
        container = getattr(self.type_, "container", "")
        names = getattr(self.type_, "order", [])
        if not container:
            return c.call_method(self.value, "__getitem__", [c.emit(index)], {}, place)
        if isinstance(index, ast.Slice):
            chosen = names[
                slice(*[c._static_bound(b) for b in (index.lower, index.upper, index.step)])
            ]
            return TupleSugar([c.class_attribute(self.value, self.type_, n, place) for n in chosen])
        found = c.emit_value(index)
        if found.node.op != "prim::Constant":
            raise CompileError(
                "Unable to extract string literal index. ModuleDict indexing is only supported "
                "with string literals. For example, 'i = \"a\"; self.layers[i](x)' will fail "
                "because i is not a literal."
                if container in _BY_NAME
                else "Expected integer literal for index. ModuleList/Sequential indexing is only "
                "supported with integer literals. For example, 'i = 4; self.layers[i](x)' will "
                "fail because i is not a literal. Enumeration is supported, e.g. 'for index, v in "
                "enumerate(self): out = v(inp)'",
                place,
            )
        key = found.node.attributes["value"]
        if container in _BY_NAME:
            if key not in names:
                raise CompileError(f"Key Error, {key}", place)
            return c.class_attribute(self.value, self.type_, key, place)
        if not -len(names) <= key < len(names):
            raise CompileError(f"Index out of range: {key}", place)
        return c.class_attribute(self.value, self.type_, names[key], place)

    def unpack(self, c: Any, place: Any, count: int | None) -> list | None:
        if not getattr(self.type_, "container", ""):
            return None
        return [module for _, module in self.members(c, place)]

    def items(self, c: Any, place: Any) -> "Items | None":
        container = getattr(self.type_, "container", "")
        if not container:
            return None
        if container in _BY_NAME:
            return Static([c.constant(name, place) for name in self.type_.order])
        return Static([module for _, module in self.members(c, place)])


class _Members(Sugar):
    """`modules.items()` of a ModuleDict."""

    def __init__(self, module: ModuleSugar, which: str) -> None:
        self.module, self.which = module, which

    def call(self, c: Any, args: list, kwargs: dict, place: Any) -> Any:
        found: list = []
        for name, module in self.module.members(c, place):
            key = c.constant(name, place)
            chosen = {"keys": key, "values": module, "items": TupleSugar([key, module])}
            found.append(chosen[self.which])
        return TupleSugar(found)


class Special(Sugar):
    """A call with a meaning of its own: its function is in the table SPECIALS."""

    kind = "special form"

    def __init__(self, name: str) -> None:
        self.name = name

    def call_written(self, c: Any, node: ast.Call, hint: T.Type | None, place: Any) -> Any:
        return SPECIALS[self.name](c, node, hint, place)

    def attribute(self, c: Any, name: str, place: Any) -> Any:
        if self.name == "dict" and name == "fromkeys":
            return Builtin("aten::dict")
        return super().attribute(c, name, place)


class Namespace(Sugar):
    """A Python module, or another thing whose attributes are looked up."""

    kind = "module"

    def __init__(self, lookup: Callable, about: Any) -> None:
        self.lookup, self.about = lookup, about

    def attribute(self, c: Any, name: str, place: Any) -> Any:
        found = self.lookup(c, self.about, name, place)
        if found is None:
            shown = getattr(self.about, "__name__", self.about)
            raise CompileError(f"module '{shown}' has no attribute '{name}'", place)
        return found


class TypeSugar(Sugar):
    """A type, where one is written as a value."""

    kind = "type"

    def __init__(self, type_: T.Type) -> None:
        self.type_ = type_


SPECIALS: dict[str, Callable] = {}  # filled by special.py
SPECIAL_CONDITIONS: dict[Any, Callable] = {}


def special_name(found: Any) -> str | None:
    return found.name if isinstance(found, Special) else None


# -- iteration -------------------------------------------------------------------------------------


class Items(Sugar):
    """What a loop runs over."""

    kind = "iterable"

    def static(self, c: Any) -> list | None:
        """All items, if the loop is written out."""
        return None

    def length(self, c: Any, place: Any) -> Value:
        raise NotImplementedError

    def at_index(self, c: Any, index: Value, place: Any) -> Any:
        raise NotImplementedError

    def items(self, c: Any, place: Any) -> "Items | None":
        return self


class _Loop(Items):
    """Items with a number each."""

    def item(self, c: Any, index: Any, place: Any) -> Any:
        return self.at_index(c, index, place)


class Range(_Loop):
    """range(...)"""

    def __init__(self, bounds: list[Value]) -> None:
        self.bounds = bounds

    def length(self, c: Any, place: Any) -> Value:
        if len(self.bounds) == 1:
            return self.bounds[0]
        return c.value_of(c.builtin("aten::__range_length", place, self._three(c, place)), place)

    def _three(self, c, place):
        return [*self.bounds, c.constant(1, place)][:3]

    def at_index(self, c: Any, index: Value, place: Any) -> Any:
        if len(self.bounds) == 1:
            return index
        start, _, step = self._three(c, place)
        return c.value_of(c.builtin("aten::__derive_index", place, [index, start, step]), place)

    def as_value(self, c: Any, place: Any) -> Value:
        return listed(c, self, place)


class Indexed(_Loop):
    """A list, a string or a tensor."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def length(self, c: Any, place: Any) -> Value:
        return c.value_of(c.builtin("aten::len", place, [self.value]), place)

    def at_index(self, c: Any, index: Value, place: Any) -> Any:
        if self.value.type_ == T.TENSOR:
            zero = c.constant(0, place)
            return c.value_of(c.builtin("aten::select", place, [self.value, zero, index]), place)
        return c.value_of(c.builtin("aten::__getitem__", place, [self.value, index]), place)


class Zipped(_Loop):
    """zip and enumerate."""

    def __init__(self, parts: list[Items]) -> None:
        self.parts = parts

    def static(self, c: Any) -> list | None:
        known = [part.static(c) for part in self.parts]
        if all(k is None for k in known):
            return None
        count = min(len(k) for k in known if k is not None)
        columns = []
        for part, items in zip(self.parts, known):
            if items is None:
                items = [part.item(c, c.constant(k, None), None) for k in range(count)]
            columns.append(items[:count])
        return [TupleSugar(list(row)) for row in zip(*columns)]

    def length(self, c: Any, place: Any) -> Value:
        lengths = self._lengths(c, place)
        return c.value_of(c.builtin("prim::min", place, [c.list_of(lengths, place)]), place)

    def _lengths(self, c, place):
        found = []
        for part in self.parts:
            nested = isinstance(part, Zipped)
            found += part._lengths(c, place) if nested else [part.length(c, place)]
        return found

    def at_index(self, c: Any, index: Value, place: Any) -> Any:
        return TupleSugar([part.item(c, index, place) for part in self.parts])


class Counting(Range):
    """0, 1, 2, ... without an end: the first half of enumerate."""

    def __init__(self, start: Value | None) -> None:
        self.start = start

    def length(self, c: Any, place: Any) -> Value:
        return c.constant(sys.maxsize, place)

    def at_index(self, c: Any, index: Value, place: Any) -> Any:
        if self.start is None:
            return index
        one = c.constant(1, place)
        return c.value_of(c.builtin("aten::__derive_index", place, [index, self.start, one]), place)


class Static(Items):
    """Items that are known while compiling."""

    def __init__(self, found: list) -> None:
        self.found = found

    def static(self, c: Any) -> list | None:
        return self.found

    def length(self, c: Any, place: Any) -> Value:
        return c.constant(len(self.found), place)


def iterable_of(c: Any, found: Any, place: Any) -> Any:
    """What a loop over something runs over."""
    if isinstance(found, Sugar):
        items = found.items(c, place)
        if items is not None:
            return items
    value = c.value_of(found, place)
    kind = value.type_
    if isinstance(kind, (T.ListOf,)) or kind in (T.STR, T.TENSOR):
        return Indexed(value)
    if isinstance(kind, T.DictOf):
        return Indexed(c.value_of(c.builtin("aten::keys", place, [value]), place))
    if isinstance(kind, T.TupleOf):
        return Static(c.unpacked(value, place))
    raise CompileError(f"'{kind.code}' object is not iterable", place)


def listed(c: Any, items: Items, place: Any) -> Value:
    """All items of a loop as a list."""
    known = items.static(c)
    if known is not None:
        return c.list_of([c.value_of(k, place) for k in known], place)
    made = c.frame.block.add("prim::ListConstruct", [], place)
    result = made.add_output(T.ListOf(T.INT))
    count = items.length(c, place)
    loop = c.frame.block.add("prim::Loop", [count, c.constant(True, place)], place)
    block = loop.add_block()
    index = block.param.add_output(T.INT)
    with c.within(block) as frame:
        value = c.value_of(items.item(c, index, place), place)
        result.type_ = T.ListOf(value.type_)
        c.builtin("aten::append", place, [result, value])
        frame.block.outs.append(c.constant(True, place))
    return result
