"""Signatures of ops, as PyTorch prints them, and which of them fits the arguments of a call.

Those of ops of tensors are in aten/aten.txt; schemas.txt has what programs have besides, ops of
numbers, texts and containers (tests/jit/record_schemas.py writes it). Lines are parsed when an op
is first asked for.
"""

import ast
import functools
import pathlib
from typing import Any, NamedTuple

from flambeau.jit import types as T

_WORDS = {"Mean": 1, "Sum": 2, "contiguous_format": 0, "long": 4, "strided": 0}
REQUIRED: Any = object()  # the default of an argument that has none


class Argument(NamedTuple):
    """One argument of a function: size is N of int[N], which one number can stand for."""

    name: str
    type: T.Type
    default: Any = REQUIRED
    kwarg_only: bool = False
    size: int | None = None
    is_written: bool = False
    is_inferred: bool = False


class Schema:
    """Name, arguments and results of an op or of a function of a program."""

    __slots__ = ("name", "overload", "arguments", "returns", "is_vararg", "return_names")

    def __init__(
        self,
        name: str,
        overload: str,
        arguments: tuple[Argument, ...],
        returns: tuple[T.Type, ...],
        is_vararg: bool = False,
        return_names: tuple[str, ...] = (),
    ) -> None:
        self.name, self.overload = name, overload
        self.arguments, self.returns, self.is_vararg = arguments, returns, is_vararg
        self.return_names = return_names

    @property
    def writes(self) -> bool:
        """Does it change an argument?"""
        return any(a.is_written for a in self.arguments)

    @property
    def result(self) -> T.Type:
        """The type of what a call gives."""
        return self.returns[0] if len(self.returns) == 1 else T.TupleOf(*self.returns)

    def __str__(self) -> str:
        inside, starred = [], False
        for a in self.arguments:
            if a.kwarg_only and not starred:
                inside.append("*")
                starred = True
            kind = str(a.type)
            if a.size is not None:
                kind = kind.replace("[]", f"[{a.size}]")
            default = "" if a.default is REQUIRED else f"={_written(a.default)}"
            inside.append(f"{kind} {a.name}{default}")
        returns = ", ".join(map(str, self.returns))
        returns = returns if len(self.returns) == 1 else f"({returns})"
        ending = f".{self.overload}" if self.overload else ""
        return f"{self.name}{ending}({', '.join(inside)}) -> {returns}"


def _written(value):
    return f'"{value}"' if isinstance(value, str) else str(value)


@functools.cache
def _lines() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    here = pathlib.Path(__file__).parent
    ops = (here.parent / "aten" / "aten.txt").read_text().splitlines()
    others = (here / "schemas.txt").read_text().splitlines()
    for line in [*["aten::" + op for op in ops], *others]:
        name = line[: line.index("(")].partition(".")[0]
        found.setdefault(name, []).append(line)
    return found


@functools.cache
def overloads(name: str) -> tuple[Schema, ...]:
    """The overloads of an op such as aten::add, in the order in which they are tried."""
    return tuple(parse(line) for line in _lines().get(name, ()))


def is_op(name: str) -> bool:
    """Is there an op of that name?"""
    return name in _lines()


def parse(line: str) -> Schema:
    """A schema from its text."""
    start = line.index("(")
    full, rest = line[:start], line[start:]
    end = _closing(rest)
    name, _, overload = full.partition(".")
    arguments, vararg, kwarg_only = [], False, False
    for text in _split(rest[1:end]):
        if text == "*":
            kwarg_only = True
        elif text == "...":
            vararg = True
        else:
            arguments.append(_argument(text, kwarg_only))
    returns, names = _returns(rest[end + 1 :].partition("->")[2].strip())
    return Schema(name, overload, tuple(arguments), returns, vararg, names)


def _closing(text):
    """Where the parenthesis that opens a text is closed."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if not depth:
            return place
    raise ValueError(f"cannot read the schema {text!r}")


def _split(text):
    """The pieces between commas that are in no brackets."""
    pieces, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            pieces.append(text[start:place].strip())
            start = place + 1
    last = text[start:].strip()
    return [*pieces, last] if last else pieces


def _argument(text, kwarg_only):
    text, equals, default = text.partition("=")
    kind, _, name = text.strip().rpartition(" ")
    size = None
    bracket = kind.rfind("[")
    if bracket >= 0 and kind[bracket + 1 : kind.index("]", bracket)].isdigit():
        size = int(kind[bracket + 1 : kind.index("]", bracket)])
    value = _default(default.strip()) if equals else REQUIRED
    return Argument(name, T.parse(kind), value, kwarg_only, size, "!" in kind)


def _default(text):
    if text in _WORDS:
        return _WORDS[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return float(text) if text in ("inf", "-inf", "nan") else text


_NUMBERS = {"ScalarType": T.INT, "Layout": T.INT}  # what programs have for them


def _returns(text):
    if not text.startswith("("):
        text = text.removesuffix("(a!)")
        kind, _, name = (
            text.rpartition(" ") if " " in text and text[-1].isalnum() else (text, "", "")
        )
        if ("(" in kind and ")" not in kind) or not kind:
            kind, name = text, ""
        return (_NUMBERS.get(kind) or T.parse(kind),), (name,) if name else ()
    pieces = _split(text[1 : _closing(text)])
    types, names = [], []
    for piece in pieces:
        kind, space, name = piece.rpartition(" ")
        named = bool(space) and name.isidentifier() and not kind.endswith(",")
        types.append(T.parse(kind if named else piece))
        names.append(name if named else "")
    if text[_closing(text) + 1 :].strip():  # a tuple as one value is written with an ending
        return (T.parse(text),), ()
    return tuple(types), tuple(names) if any(names) else ()
