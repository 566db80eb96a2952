"""Whether the arguments of a call fit a signature, and what has to be done so that they do."""

from collections.abc import Callable
from typing import Any

from flambeau.jit import types as T
from flambeau.jit.ir import Value
from flambeau.jit.schemas import REQUIRED, Argument, Schema

_IMPLICIT = {T.INT: "aten::IntImplicit", T.FLOAT: "aten::FloatImplicit",
             T.NUMBER: "aten::ScalarImplicit", T.COMPLEX: "aten::ComplexImplicit"}  # fmt: skip


class NoMatch(Exception):
    """Why a signature does not fit."""


def match(
    c: Any, schema: Schema, args: list[Value], kwargs: dict, place: Any, converting: bool
) -> tuple[list[Value], list[T.Type]]:
    """The values in the order of the signature, and the types of the results."""
    bound: dict[str, T.Type] = {}
    steps: list[Callable[[], Value]] = []
    used, rest = 0, dict(kwargs)
    for k, formal in enumerate(schema.arguments):
        if not formal.kwarg_only and used < len(args):
            if formal.name in rest:
                raise NoMatch(f"argument {formal.name} specified twice in schema, submitted both "
                              "by position and by name")  # fmt: skip
            if _takes_rest(schema, k, formal, args, used):
                steps.append(_packed(c, args[used:], formal, place))
                used = len(args)
                continue
            value = args[used]
            used += 1
        elif formal.name in rest:
            value = rest.pop(formal.name)
        elif formal.name == "self" and "input" in rest:
            value = rest.pop("input")
        elif formal.default is not REQUIRED:
            steps.append(_default(c, formal, place))
            continue
        else:
            raise NoMatch(f"Argument {formal.name} not provided.")
        steps.append(_fitted(c, value, formal, bound, place, converting))
    if used < len(args) and not schema.is_vararg:
        most = sum(not a.kwarg_only for a in schema.arguments)
        raise NoMatch(
            f"Expected at most {most} arguments but found {len(args)} positional arguments."
        )
    if rest:
        raise NoMatch(f"Unknown keyword argument '{next(iter(rest))}'.")
    values = [step() for step in steps]
    values.extend(args[used:])
    return values, [_filled(kind, bound) for kind in schema.returns]


def _default(c, formal, place):
    return lambda: default_value(c, formal.default, formal.type, place)


def _takes_rest(schema, k, formal, args, used):
    """x.view(2, 3): numbers for a list that is the last argument by position."""
    kind = formal.type.part if isinstance(formal.type, T.OptionalOf) else formal.type
    positional = [a for a in schema.arguments if not a.kwarg_only]
    if schema.is_vararg or not isinstance(kind, T.ListOf) or k != len(positional) - 1:
        return False
    if len(args) - used == 1 and formal.size is not None:
        return False
    rest = [a.type_ for a in args[used:]]
    if kind.part == T.TENSOR:
        return all(r == T.TENSOR for r in rest)
    return kind.part == T.INT and all(T.is_subtype(r, T.INT) or r == T.TENSOR for r in rest)


def _packed(c, values, formal, place):
    kind = formal.type.part if isinstance(formal.type, T.OptionalOf) else formal.type
    if kind.part == T.TENSOR:
        return lambda: c.node("prim::ListConstruct", values, kind, place)
    return lambda: c.node(
        "prim::ListConstruct", [_as_int(c, v, place) for v in values], kind, place
    )


def _fitted(c, value, formal: Argument, bound, place, converting):
    """What makes an argument fit; raises if nothing does."""
    kind = value.type_
    wanted = _bind(formal.type, value, bound)
    bare = wanted.part if isinstance(wanted, T.OptionalOf) else wanted
    is_empty = value.node.attributes.get("_open")
    if is_empty and type(kind) is type(bare) and kind != bare and not _has_letters(bare):
        return lambda: c.widened(value, bare)
    if T.is_subtype(kind, wanted):
        return lambda: value
    if isinstance(bare, T.ListOf):
        found = _as_list(c, value, formal, bare, place, converting)
        if found is not None:
            return found
    tuples = isinstance(bare, T.TupleOf) and isinstance(kind, T.TupleOf)
    if tuples and T.unify(kind, bare) is not None:
        return lambda: c.converted(value, bare, place)
    if converting:
        if kind == T.TENSOR and bare in _IMPLICIT and c.reads_numbers:
            return lambda: c.node(_IMPLICIT[bare], [value], bare, place)
        if kind == T.STR and bare == T.DEVICE:
            return lambda: c.node("prim::device", [value], T.DEVICE, place)
        if bare == T.TENSOR and kind in (T.INT, T.FLOAT, T.BOOL, T.COMPLEX) and formal.name in (
            "other", "value", "src"
        ):  # fmt: skip
            return lambda: c.value_of(c.builtin("aten::scalar_tensor", place, [value]), place)
        if bare == T.NUMBER and kind == T.BOOL:
            return lambda: c.value_of(c.builtin("aten::Int", place, [value]), place)
        if bare == T.FLOAT and kind == T.INT and value.node.op == "prim::Constant":
            raise NoMatch(_expected(wanted, formal, kind))
    raise NoMatch(_expected(wanted, formal, kind))


def _expected(wanted, formal, kind):
    return (
        f"Expected a value of type '{_code(wanted)}' for argument '{formal.name}' but instead "
        f"found type '{_code(kind)}'."
    )


def _code(kind):
    """Types in messages: as annotations, and Tensor with its optional explanation left out."""
    return "number" if kind == T.NUMBER else kind.code


def _as_list(c, value, formal, wanted, place, converting):
    kind = value.type_
    if formal.size is not None and T.is_subtype(kind, wanted.part):
        return lambda: c.node("prim::ListConstruct", [value] * formal.size, wanted, place)
    if isinstance(kind, T.TupleOf):
        fits = lambda p: (
            T.is_subtype(p, wanted.part) or (converting and p == T.TENSOR and wanted.part == T.INT)
        )
        if all(fits(p) for p in kind.parts):
            return lambda: _tuple_as_list(c, value, wanted, place)
    if isinstance(kind, T.ListOf) and T.is_subtype(kind.part, wanted.part):
        return lambda: value
    if converting and isinstance(kind, T.ListOf) and wanted.part == T.INT:
        node = value.node
        if node.op == "prim::ListConstruct" and kind.part in (T.TENSOR, T.NUMBER):
            return lambda: c.node("prim::ListConstruct", [_as_int(c, v, place) for v in node.ins],
                                  wanted, place)  # fmt: skip
    if converting and kind == T.INT and formal.size is not None:
        return lambda: c.node("prim::ListConstruct", [value] * formal.size, wanted, place)
    return None


def _as_int(c, value, place):
    if value.type_ == T.INT:
        return value
    return c.node("aten::IntImplicit", [value], T.INT, place)


def _tuple_as_list(c, value, wanted, place):
    parts = c.unpacked(value, place)
    if wanted.part == T.INT:
        parts = [_as_int(c, part, place) for part in parts]
    return c.node("prim::ListConstruct", parts, wanted, place)


def _has_letters(kind):
    return isinstance(kind, T.Variable) or any(_has_letters(p) for p in kind.parts)


def _bind(formal, value, bound):
    """A type of a signature, with its letters replaced by what they stand for."""
    if not _has_letters(formal):
        return formal
    _learn(formal, value.type_, bound)
    return _filled(formal, bound)


def _learn(formal, actual, bound):
    if isinstance(formal, T.Variable):
        known = bound.get(formal.kind)
        if known is None:
            bound[formal.kind] = actual
        else:
            both = T.unify(known, actual)
            if both is not None:
                bound[formal.kind] = known if T.is_subtype(actual, known) else both
        return
    if isinstance(formal, T.OptionalOf) and not isinstance(actual, T.OptionalOf):
        if actual != T.NONE:
            _learn(formal.part, actual, bound)
        return
    if isinstance(formal, T.ListOf) and isinstance(actual, T.TupleOf) and actual.parts:
        kind: T.Type | None = actual.parts[0]
        for part in actual.parts[1:]:
            kind = None if kind is None else T.unify(kind, part)
        if kind is not None:
            _learn(formal.part, kind, bound)
        return
    if type(formal) is not type(actual) or len(formal.parts) != len(actual.parts):
        raise NoMatch(f"Could not match type {actual.code} to {formal}")
    for a, b in zip(formal.parts, actual.parts):
        _learn(a, b, bound)


def _filled(kind, bound):
    if isinstance(kind, T.Variable):
        return bound.get(kind.kind, kind)
    if kind.parts and _has_letters(kind):
        return kind.with_parts(tuple(_filled(p, bound) for p in kind.parts))
    return kind


def default_value(c: Any, value: Any, kind: T.Type, place: Any) -> Value:
    """The default of an argument as a value of the program."""
    if isinstance(value, Value):
        return value
    bare = kind.part if isinstance(kind, T.OptionalOf) else kind
    if isinstance(bare, T.ListOf) and isinstance(value, (list, tuple, int)):
        items = [value] if isinstance(value, int) else value
        inner = [default_value(c, item, bare.part, place) for item in items]
        return c.node("prim::ListConstruct", inner, bare, place)
    if isinstance(bare, T.TupleOf) and isinstance(value, tuple):
        inner = [default_value(c, v, k, place) for v, k in zip(value, bare.parts)]
        return c.node("prim::TupleConstruct", inner, bare, place)
    if isinstance(bare, T.DictOf) and isinstance(value, dict):
        parts = [default_value(c, x, bare.parts[k], place)
                 for pair in value.items() for k, x in enumerate(pair)]  # fmt: skip
        return c.node("prim::DictConstruct", parts, bare, place)
    if bare == T.FLOAT and type(value) is int:
        value = float(value)
    if isinstance(bare, T.EnumType):
        return c.value_of(c.resolver.wrap(c, value, place), place)
    return c.constant(value, place)


def no_overload(name: str, reasons: list, args: list, kwargs: dict) -> str:
    """The message when no overload fits."""
    half = reasons[: len(reasons) // 2]
    if len(half) == 1:
        return f"{half[0][0]}:\n{half[0][1]}\n"
    lines = ["Arguments for call are not valid.", "The following variants are available:"]
    for schema, reason in half:
        lines += ["  ", f"  {schema}:", f"  {reason}"]
    return "\n".join([*lines, "", "The original call is"])
