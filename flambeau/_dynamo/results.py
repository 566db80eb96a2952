"""Putting results together again: lines of Python that make of a graph's outputs what the program
has at the end of a piece, with the same objects in the same places."""

import enum
import functools
import types
from collections import OrderedDict
from typing import Any

from flambeau._dynamo.exc import Break
from flambeau._dynamo.objects import FUNCTIONS, SINGLE, VALUES
from flambeau._dynamo.scopes import Late
from flambeau._dynamo.values import (
    BoundMethod,
    MadeObject,
    Outside,
    Partial,
    TensorValue,
    holds_symbols,
    is_named_tuple,
)
from flambeau._dynamo.varying import NumberValue
from flambeau._layout import Size


class Builder:
    """Expressions for values, and the lines that have to run before them."""

    def __init__(self, reader: Any) -> None:
        self.reader, self.guards = reader, reader.guards
        self.lines: list[str] = []
        self.outputs: list[TensorValue] = []
        self.numbers: list[Any] = []  # nodes
        self._made: dict[int, str] = {}
        self._open: set[int] = set()
        self._kept: list[Any] = []

    def expression(self, value: Any) -> str:
        """Python for a value."""
        if isinstance(value, TensorValue):
            return self._tensor(value)
        if isinstance(value, (Late, Outside)):
            return self.guards.variable(value.source)
        if value is None or value is True or value is False or type(value) is int:
            return repr(value)
        origin = self.reader.origin(value)
        if origin is not None:
            return self.guards.variable(origin)
        kind = type(value)
        if isinstance(value, NumberValue):
            return self._number(value)
        if kind in (Size, slice) and holds_symbols(value):
            return self._make(value)
        if kind in VALUES or kind in SINGLE or kind in FUNCTIONS or kind is slice:
            return self.guards.constant(value)
        if isinstance(value, (type, enum.Enum)):
            return self.guards.constant(value)
        found = self._made.get(id(value))
        return self._make(value) if found is None else found

    def _tensor(self, value):
        if value.number >= 0:
            return self.guards.variable(value.source)
        for k, known in enumerate(self.outputs):
            if known is value:
                return f"o[{k}]"
        self.outputs.append(value)
        return f"o[{len(self.outputs) - 1}]"

    def _number(self, value):
        """A number that was counted when the sizes of this call were looked at."""
        if value.source is not None:
            return self.guards.variable(value.source)
        for k, known in enumerate(self.numbers):
            if known is value.node:
                return f"z[{k}]"
        self.numbers.append(value.node)
        return f"z[{len(self.numbers) - 1}]"

    def _make(self, value):
        """Something with parts: made once, in a line of its own."""
        if id(value) in self._open:
            raise Break("a structure that contains itself")
        self._open.add(id(value))
        self._kept.append(value)
        text = self._text(value)
        name = self._made[id(value)] = f"b{len(self._made)}"
        self.lines.append(f"{name} = {text}")
        if isinstance(value, MadeObject):
            fields = ", ".join(f"{k!r}: {self.expression(v)}" for k, v in value.fields.items())
            self.lines.append(f"{name}.__dict__.update({{{fields}}})")
        self._open.discard(id(value))
        return name

    def _items(self, values):
        return "".join(self.expression(v) + ", " for v in values)

    def _text(self, value):
        kind, constant = type(value), self.guards.constant
        if kind is Size:
            return f"{constant(Size)}(({self._items(value)}))"
        if kind is slice:
            parts = (value.start, value.stop, value.step)
            return f"{constant(slice)}({self._items(parts)})"
        if kind is tuple:
            return f"({self._items(value)})"
        if kind is list:
            return f"[{self._items(value)}]"
        if kind in (dict, OrderedDict):
            pairs = "".join(f"({self.expression(k)}, {self.expression(v)}), "
                            for k, v in value.items())  # fmt: skip
            return f"{constant(kind)}([{pairs}])"
        if kind in (set, frozenset):
            return f"{constant(kind)}([{self._items(value)}])"
        if isinstance(value, tuple) and is_named_tuple(kind):
            return f"{constant(tuple.__new__)}({constant(kind)}, ({self._items(value)}))"
        if isinstance(value, MadeObject) and value.is_plain:
            return f"{constant(object.__new__)}({constant(value.cls)})"
        if isinstance(value, Partial):
            named = "".join(f"{k}={self.expression(v)}, " for k, v in value.kwargs.items())
            given = self._items((value.function, *value.args))
            return f"{constant(functools.partial)}({given}{named})"
        if isinstance(value, BoundMethod):
            return self._method(value)
        describe = value.describe() if hasattr(value, "describe") else f"an object of {kind}"
        raise Break(f"{describe} as a result")

    def _method(self, value):
        owner = self.expression(value.owner)
        if isinstance(value.function, str):
            return f"{owner}.{value.function}"
        if not isinstance(value.function, types.FunctionType):
            raise Break("a method as a result")
        method = self.guards.constant(types.MethodType)
        return f"{method}({self.guards.constant(value.function)}, {owner})"
