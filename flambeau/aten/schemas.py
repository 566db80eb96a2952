"""Schemas of aten: what overloads an op has and what arguments they take.

The lines of aten.txt are PyTorch's own notation, `add.Tensor(Tensor self, Tensor other, *, Scalar
alpha=1) -> Tensor`. They are parsed when an op is first asked for.
"""

import functools
import re
from pathlib import Path
from typing import Any, NamedTuple

from flambeau._dtype import dtype as DType
from flambeau._tensor import Tensor

REQUIRED: Any = type("REQUIRED", (), {"__repr__": lambda self: "REQUIRED"})()
_REDUCTIONS = {"None": 0, "Mean": 1, "Sum": 2}
_WORDS: dict[str, Any] = {"None": None, "True": True, "False": False, "[]": []}


class Argument(NamedTuple):
    """A parameter of an op."""

    name: str
    type: str  # without alias marks: Tensor, Scalar, SymInt[2], float?
    default: Any = REQUIRED
    kwarg_only: bool = False
    alias: str = ""  # "a" if the result may look at its memory, "a!" if it is written to

    @property
    def is_write(self) -> bool:
        return "!" in self.alias

    @property
    def is_tensor(self) -> bool:
        return self.type.startswith("Tensor")

    @property
    def is_list(self) -> bool:
        return "[" in self.type

    @property
    def is_optional(self) -> bool:
        return self.type.endswith("?")

    @property
    def length(self) -> int:
        """How long a list is that is given as one number; 0 if it may not be."""
        found = re.search(r"\[(\d+)\]", self.type)
        return int(found[1]) if found else 0

    def has_default_value(self) -> bool:
        return self.default is not REQUIRED

    @property
    def default_value(self) -> Any:
        return None if self.default is REQUIRED else self.default

    @property
    def alias_info(self) -> "AliasInfo | None":
        return alias_info(self.alias)

    @property
    def is_out(self) -> bool:
        return self.kwarg_only and self.is_write


class Return(NamedTuple):
    """A result of an op."""

    type: str
    alias: str = ""
    name: str = ""

    @property
    def alias_info(self) -> "AliasInfo | None":
        return alias_info(self.alias)


class AliasInfo(NamedTuple):
    """Whose memory something looks at, before and after a call, and whether it is written to."""

    is_write: bool
    before_set: frozenset[str]
    after_set: frozenset[str]


def alias_info(alias: str) -> AliasInfo | None:
    """What a schema says in brackets: a, a!, a -> *."""
    if not alias:
        return None
    before, _, after = alias.replace("!", "").partition("->")
    sets = [frozenset(part.split("|")) for part in (before.strip(), (after or before).strip())]
    return AliasInfo("!" in alias, *sets)


class FunctionSchema:
    """The parameters and results of an overload."""

    def __init__(self, line: str, namespace: str = "aten") -> None:
        self._line = f"{namespace}::{line}"
        head, results = line.rsplit(") -> ", 1)
        full, _, inner = head.partition("(")
        base, _, self.overload_name = full.partition(".")
        self.name = f"{namespace}::{base}"
        self.arguments = _arguments(inner)
        self.returns = _returns(results)
        self.named = {argument.name: argument for argument in self.arguments}

    @property
    def is_mutable(self) -> bool:
        """Does it write to an argument?"""
        return any(argument.is_write for argument in self.arguments)

    @property
    def is_view(self) -> bool:
        """Does a result look at the memory of an argument?"""
        aliases = any(a.alias and not a.is_write for a in self.arguments)
        return aliases and any(r.alias for r in self.returns)

    def __str__(self) -> str:
        return self._line

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and other._line == self._line

    def __hash__(self) -> int:
        return hash(self._line)


def _split(text):
    """Parts between commas that are not within brackets."""
    parts, depth, start = [], 0, 0
    for k, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append(text[start:k].strip())
            start = k + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _arguments(inner):
    found, by_name = [], False
    for part in _split(inner):
        if part == "*":
            by_name = True
            continue
        kind, _, rest = part.rpartition(" ") if "=" not in part else _typed(part)
        name, equals, default = rest.partition("=")
        plain, alias = _alias(kind)
        value = _default(default, plain) if equals else REQUIRED
        found.append(Argument(name, plain, value, by_name, alias))
    return found


def _typed(part):
    before, _, default = part.partition("=")
    kind, _, name = before.rpartition(" ")
    return kind, " ", f"{name}={default}"


def _alias(kind):
    found = re.search(r"\(([^)]*)\)", kind)
    return (kind, "") if found is None else (kind.replace(found[0], ""), found[1])


def _returns(text):
    parts = _split(text[1:-1]) if text.startswith("(") else [text]
    found = []
    for part in parts:
        plain, alias = _alias(part)
        kind, _, name = plain.partition(" ")
        found.append(Return(kind, alias, name))
    return found


def _default(text, kind):
    if text in _WORDS:
        return _WORDS[text] if text != "[]" else []
    if text in _REDUCTIONS:
        return _REDUCTIONS[text]
    if text[0] in "\"'":
        return text[1:-1]
    if text[0] == "[":
        return [_number(item) for item in text[1:-1].split(",")]
    value = _number(text)
    found = re.search(r"\[(\d+)\]", kind)
    return [value] * int(found[1]) if found else value


def _number(text):
    return int(text) if re.fullmatch(r"-?\d+", text.strip()) else float(text)


@functools.cache
def _lines() -> dict[str, list[str]]:
    """The lines of an op, by its name."""
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "aten.txt").read_text("utf-8").splitlines():
        found.setdefault(re.split(r"[.(]", line, maxsplit=1)[0], []).append(line)
    return found


@functools.cache
def schemas_of(name: str) -> dict[str, FunctionSchema]:
    """Overloads of an op of aten, "default" for the one without a name."""
    found = [FunctionSchema(line) for line in _lines().get(name, ())]
    return {schema.overload_name or "default": schema for schema in found}


def op_names() -> list[str]:
    """All ops there are schemas of."""
    return list(_lines())


# -- do values fit? --------------------------------------------------------------------------------


def is_int(value: Any) -> bool:
    """Is it a whole number, or a size that stands for one?"""
    return type(value) is int or getattr(value, "is_symbolic_int", False)


def is_number(value: Any) -> bool:
    """Is it a number, or stands for one?"""
    return type(value) in (int, float, complex, bool) or hasattr(value, "is_symbolic_int")


_FITS: dict[str, Any] = {
    "Tensor": lambda value: isinstance(value, Tensor),
    "Scalar": is_number,
    "int": is_int,
    "SymInt": is_int,
    "float": lambda value: type(value) is float or is_int(value),
    "bool": lambda value: type(value) is bool,
    "str": lambda value: isinstance(value, str),
    "ScalarType": lambda value: isinstance(value, DType),
}


def fits(value: Any, argument: Argument) -> bool:
    """Can a value be given for an argument?"""
    if value is None:
        return argument.is_optional
    kind = argument.type.removesuffix("?")
    item, bracket, _ = kind.partition("[")
    test = _FITS.get(item.removesuffix("?"), lambda value: True)
    if not bracket:
        return bool(test(value))
    if isinstance(value, (list, tuple)):
        return all(v is None if v is None and item.endswith("?") else test(v) for v in value)
    return argument.length > 0 and bool(test(value))
