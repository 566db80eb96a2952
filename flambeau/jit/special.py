"""Calls with a meaning of their own: casts, len, range, isinstance, annotate, fork and the like."""

import ast
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.environment import Refinement
from flambeau.jit.ir import Value
from flambeau.jit.places import CompileError
from flambeau.jit.sugar import (
    SPECIAL_CONDITIONS,
    SPECIALS,
    Counting,
    ExceptionSugar,
    ModuleSugar,
    Range,
    Sugar,
    TupleSugar,
    Zipped,
    iterable_of,
    listed,
)


def special(*names):
    """A call that has a meaning of its own."""

    def register(function):
        for name in names:
            SPECIALS[name] = function
        return function

    return register


def _values(c, node, place):
    if node.keywords:
        args, kwargs = c.arguments(node)
        args = [*args, *kwargs.values()]
    else:
        args, _ = c.arguments(node)
    return [c.value_of(a, place) for a in args]


@special("annotate")
def _annotate(c, node, hint, place):
    """annotate(T, value)"""
    kind = c.resolver.annotation(node.args[0], place)
    value = c.emit_value(node.args[1], kind)
    c.widened(value, kind)
    if value.type_ == T.TENSOR and kind in (T.INT, T.FLOAT, T.NUMBER):
        return c.converted_return(value, kind, place)
    if value.type_ == T.NUMBER and kind in (T.INT, T.FLOAT):
        return c.builtin("aten::Int" if kind == T.INT else "aten::Float", place, [value])
    if not T.is_subtype(value.type_, kind):
        raise CompileError(
            f"expected an expression of type {kind.code} but found {value.type_.code}", place
        )
    if value.type_ == T.NONE and kind != T.NONE:
        return c.node("prim::Constant", [], kind, place, value=None)
    return value


@special("unchecked_cast")
def _unchecked_cast(c, node, hint, place):
    kind = c.resolver.annotation(node.args[0], place)
    return c.cast_unchecked(c.emit_value(node.args[1]), kind)


@special("uninitialized")
def _uninitialized(c, node, hint, place):
    return c.uninitialized(c.resolver.annotation(node.args[0], place), c.frame.block)


@special("len")
def _len(c, node, hint, place):
    found = c.emit(node.args[0])
    if isinstance(found, ModuleSugar) and getattr(found.type_, "container", ""):
        return c.constant(len(found.type_.order), place)
    if isinstance(found, TupleSugar):
        return c.constant(len(found.parts), place)
    value = c.value_of(found, place)
    if isinstance(value.type_, T.TupleOf):
        return c.constant(len(value.type_.parts), place)
    if isinstance(value.type_, T.ClassType):
        return c.call_method(value, "__len__", [], {}, place)
    return c.builtin("aten::len", place, [value])


def _cast(name, kind):
    @special(kind.kind)
    def cast(c, node, hint, place):
        if not node.args:
            return c.constant({"int": 0, "float": 0.0, "bool": False, "str": ""}[kind.kind], place)
        values = _values(c, node, place)
        if len(values) == 1 and values[0].type_ == kind:
            return values[0]
        if isinstance(values[0].type_, T.ClassType):
            return c.call_method(values[0], f"__{kind.kind}__", [], {}, place)
        return c.builtin(name, place, values)

    return cast


for _kind, _name in ((T.INT, "Int"), (T.FLOAT, "Float"), (T.BOOL, "Bool"), (T.COMPLEX, "Complex")):
    _cast("aten::" + _name, _kind)


@special("str")
def _str(c, node, hint, place):
    (value,) = _values(c, node, place)
    if isinstance(value.type_, T.ClassType):
        return c.call_method(value, "__str__", [], {}, place)
    return c.builtin("aten::str", place, [value])


@special("range")
def _range(c, node, hint, place):
    bounds = []
    for value in _values(c, node, place):
        if value.type_ == T.TENSOR:
            value = c.value_of(c.builtin("aten::IntImplicit", place, [value]), place)
        if value.type_ != T.INT:
            raise CompileError("range() is only supported for integers; found "
                               f"'{value.type_.code}'", place)  # fmt: skip
        bounds.append(value)
    return Range(bounds)


@special("enumerate")
def _enumerate(c, node, hint, place):
    args, kwargs = c.arguments(node)
    start = args[1] if len(args) > 1 else kwargs.get("start")
    start = None if start is None else c.value_of(start, place)
    return Zipped([Counting(start), iterable_of(c, args[0], place)])


@special("zip")
def _zip(c, node, hint, place):
    args, _ = c.arguments(node)
    return Zipped([iterable_of(c, a, place) for a in args])


@special("reversed")
def _reversed(c, node, hint, place):
    found = c.emit(node.args[0])
    items = found.unpack(c, place, None) if isinstance(found, Sugar) else None
    if items is not None:
        return TupleSugar(list(reversed(items)))
    value = c.value_of(found, place)
    bounds = [c.none(place), c.none(place), c.constant(-1, place)]
    return c.builtin("aten::slice", place, [value, *bounds])


@special("print")
def _print(c, node, hint, place):
    args, kwargs = c.arguments(node)
    if kwargs:
        raise CompileError("print doesn't accept any keyword arguments", place)
    c.frame.block.add("prim::Print", [c.value_of(a, place) for a in args], place)
    return TupleSugar([], is_none=True)


@special("getattr")
def _getattr(c, node, hint, place):
    name = node.args[1]
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        raise CompileError("getattr's second argument must be a string literal", place)
    base = c.emit(node.args[0])
    read = c.attribute if isinstance(base, Value) else None
    if len(node.args) == 3 and not _has(c, base, name.value, place):
        return c.emit(node.args[2], hint)
    return read(base, name.value, place) if read else base.attribute(c, name.value, place)


def _has(c, base, name, place):
    kind = base.type_ if isinstance(base, (Value, ModuleSugar)) else None
    if isinstance(kind, T.ClassType):
        known = name in kind.attributes or name in kind.constants or name in kind.properties
        return known or kind.method(name) is not None
    try:
        c.attribute(base, name, place)
    except CompileError:
        return False
    return True


@special("setattr")
def _setattr(c, node, hint, place):
    target = ast.Attribute(value=node.args[0], attr=node.args[1].value, ctx=ast.Store())
    c.assign(ast.copy_location(target, node), c.emit(node.args[2]))
    return TupleSugar([], is_none=True)


@special(*"abs round sorted divmod ord chr hash hex bin oct pow sum any all min max".split())
def _python_function(c, node, hint, place):
    """Functions of Python that are ops."""
    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
    args, kwargs = c.arguments(node)
    args = [_as_list(c, a, place) for a in args]
    error = None
    for space in ("prim::", "aten::"):
        try:
            return c.builtin(space + name, place, args, kwargs)
        except CompileError as reason:
            error = error or reason
            if "Unknown builtin" not in reason.message:
                error = reason
    raise error


def _as_list(c, found, place):
    """Tuples and ranges where a list is meant."""
    if isinstance(found, TupleSugar) and not found.is_none:
        return c.list_of([c.value_of(p, place) for p in found.parts], place)
    if isinstance(found, Range):
        return listed(c, found, place)
    return c.value_of(found, place)


@special("list")
def _list(c, node, hint, place):
    if not node.args:
        inner = hint.part if isinstance(hint, T.ListOf) else None
        return c.list_of([], place, inner)
    found = c.emit(node.args[0])
    if isinstance(found, Value) and (isinstance(found.type_, T.ListOf) or found.type_ == T.STR):
        return c.builtin("aten::list", place, [found])
    return listed(c, iterable_of(c, found, place), place)


@special("tuple")
def _tuple(c, node, hint, place):
    found = c.emit(node.args[0])
    if isinstance(found, Value) and isinstance(found.type_, T.TupleOf):
        return found
    items = iterable_of(c, found, place).static(c)
    if items is None:
        raise CompileError("cannot statically infer the expected size of a list in this context",
                           place)  # fmt: skip
    return TupleSugar(items)


@special("dict")
def _dict(c, node, hint, place):
    kind = hint if isinstance(hint, T.DictOf) else None
    if not node.args:
        keys = [c.constant(k.arg, place) for k in node.keywords]
        return c.dict_of(keys, [c.emit_value(k.value) for k in node.keywords], place, kind)
    found = c.emit(node.args[0])
    value = c.value_of(found, place)
    return c.builtin("aten::dict", place, [value])


@special("isinstance")
def _isinstance(c, node, hint, place):
    static, value, _ = SPECIAL_CONDITIONS["isinstance"](c, node)
    return c.constant(static, place) if static is not None else value


@special("hasattr")
def _hasattr(c, node, hint, place):
    return c.constant(SPECIAL_CONDITIONS["hasattr"](c, node)[0], place)


@special("is_scripting")
def _is_scripting(c, node, hint, place):
    return c.constant(True, place)


@special("is_tracing")
def _is_tracing(c, node, hint, place):
    return c.constant(False, place)


@special("false")
def _false(c, node, hint, place):
    """Questions whose answer is no: is this called by __torch_function__, by a compiler?"""
    return c.constant(False, place)


@special("nothing")
def _nothing(c, node, hint, place):
    return TupleSugar([], is_none=True)


@special("assert_")
def _assert(c, node, hint, place):
    statement = ast.Assert(test=node.args[0], msg=node.args[1] if len(node.args) > 1 else None)
    c._emit_assert(ast.copy_location(statement, node), [])
    return TupleSugar([], is_none=True)


@special("warn")
def _warn(c, node, hint, place):
    args, kwargs = c.arguments(node)
    text = c.value_of(args[0], place)
    level = kwargs.get("stacklevel")
    values = [text, c.constant(2, place) if level is None else c.value_of(level, place)]
    c.frame.block.add("aten::warn", values, place)
    return TupleSugar([], is_none=True)


@special("device")
def _device(c, node, hint, place):
    values = _values(c, node, place)
    if len(values) == 1 and values[0].type_ == T.DEVICE:
        return values[0]
    return c.node("prim::device", values, T.DEVICE, place)


@special("cast")
def _typing_cast(c, node, hint, place):
    """typing.cast(T, value)"""
    kind = c.resolver.annotation(node.args[0], place)
    value = c.emit_value(node.args[1], kind)
    return value if value.type_ == kind else c.cast_unchecked(value, kind)


@special("fork")
def _fork(c, node, hint, place):
    """fork(function, ...): the call as a block that may run elsewhere."""
    function = c.emit(node.args[0])
    rest = ast.Call(func=node.args[0], args=node.args[1:], keywords=node.keywords)
    args, kwargs = c.arguments(ast.copy_location(rest, node))
    args = [c.value_of(a, place) for a in args]
    kwargs = {k: c.value_of(v, place) for k, v in kwargs.items()}
    made = c.frame.block.add("prim::fork", [], place)
    with c.within(made.add_block()) as frame:
        if isinstance(function, Value):
            function = ModuleSugar(function, function.type_)
        result = c.value_of(function.call(c, args, kwargs, place), place)
        frame.block.outs.append(result)
    return made.add_output(T.FutureOf(result.type_))


@special("wait")
def _wait(c, node, hint, place):
    value = c.emit_value(node.args[0])
    if not isinstance(value.type_, T.FutureOf):
        raise CompileError(f"wait needs a Future, not {value.type_.code}", place)
    return c.node("aten::wait", [value], value.type_.part, place)


@special("super")
def _super(c, node, hint, place):
    owner = c.frame.find("self")
    return c.resolver.parent(c, owner, place)


@special("function")
def _function(c, node, hint, place):
    raise CompileError("this function cannot be called in a script", place)


# -- conditions that are known while compiling -----------------------------------------------------


def _condition(*names):
    def register(function):
        for name in names:
            SPECIAL_CONDITIONS[name] = function
        return function

    return register


@_condition("is_scripting")
def _scripting_condition(c, node):
    return True, None, Refinement()


@_condition("is_tracing", "false")
def _no_condition(c, node):
    return False, None, Refinement()


# names after a dot under which one of these may be called
for _alias in ("is_compiling", "has_torch_function", "has_torch_function_unary",
               "has_torch_function_variadic", "is_dynamo_compiling", "is_exporting"):  # fmt: skip
    SPECIAL_CONDITIONS.setdefault(_alias, _no_condition)


@_condition("hasattr")
def _hasattr_condition(c, node):
    place = c.at(node)
    base = c.emit(node.args[0])
    return _has(c, base, node.args[1].value, place), None, Refinement()


@_condition("isinstance")
def _isinstance_condition(c, node):
    place = c.at(node)
    found = c.emit(node.args[0])
    wanted = _types_asked(c, node.args[1], place)
    if isinstance(found, ModuleSugar):
        return any(w is found.type_ for w in wanted), None, Refinement()
    value = c.value_of(found, place)
    kinds = T.choices(value.type_) if value.type_ != T.ANY else (T.ANY,)
    fitting = [k for k in kinds if any(_is_one_of(k, w) for w in wanted)]
    rest = [k for k in kinds if k not in fitting]
    if value.type_ != T.ANY and not rest:
        return True, None, Refinement()
    if value.type_ != T.ANY and not fitting:
        return False, None, Refinement()
    asked = c.node(
        "prim::isinstance",
        [value],
        T.BOOL,
        place,
        types=[w for w in wanted if isinstance(w, T.Type)],
    )
    if not isinstance(node.args[0], ast.Name):
        return None, asked, Refinement()
    name = node.args[0].id
    if value.type_ == T.ANY:
        return None, asked, Refinement({name: T.union(wanted)})
    return None, asked, Refinement({name: T.union(fitting)}, {name: T.union(rest)})


def _is_one_of(kind, wanted):
    """Is a type one that isinstance asks for? `list` and `tuple` stand for all of theirs."""
    if wanted == T.ANY_LIST:
        return isinstance(kind, T.ListOf)
    if wanted == T.ANY_TUPLE:
        return isinstance(kind, T.TupleOf)
    if wanted == T.ANY_DICT:
        return isinstance(kind, T.DictOf)
    return T.is_subtype(kind, wanted)


def _types_asked(c, node, place):
    if isinstance(node, ast.Tuple):
        return [t for part in node.elts for t in _types_asked(c, part, place)]
    if isinstance(node, ast.Name) and node.id in ("list", "tuple", "dict"):
        return [{"list": T.ANY_LIST, "tuple": T.ANY_TUPLE, "dict": T.ANY_DICT}[node.id]]
    if isinstance(node, (ast.Name, ast.Attribute)):
        known = c.resolver.classes_asked(c, node, place)
        if known is not None:
            return known
    return [c.resolver.annotation(node, place)]


def raised(c: Any, node: ast.expr) -> tuple[Value, Value]:
    """(message, name of the class) of what `raise` is given."""
    place = c.at(node)
    called = isinstance(node, ast.Call)
    found = c.emit(node.func if isinstance(node, ast.Call) else node)
    if not isinstance(found, ExceptionSugar):
        raise CompileError("only exceptions that are Python classes can be raised", place)
    text: Any = c.constant("", place)
    if called:
        args, _ = c.arguments(node)
        if len(args) == 1:
            value = c.value_of(args[0], place)
            text = value if value.type_ == T.STR else c.builtin("aten::str", place, [value])
        elif args:
            packed = c.tuple_of(args, place)
            text = c.builtin("aten::str", place, [packed])
    name = f"{found.cls.__module__}.{found.cls.__qualname__}"
    return c.value_of(text, place), c.constant(name, place)
