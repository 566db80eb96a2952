"""Guards: what must still be so for something that was read to be used again.

A source says where a value comes from, as a tuple: ("arg", 0), ("item", source, "key"), ("attr",
source, "name"), ("dict", source) for its __dict__, ("cell", source, 0) for a variable of a closure,
("known", n) for an object that cannot be another. Guards are written as lines of Python in the
order in which values were met, so a line may rely on those above it. A value that is used twice is
looked up once.
"""

import math
from typing import Any

from flambeau._dynamo.exc import Break

MISS = object()  # what an entry answers when its guards do not hold


class GuardWriter:
    """The lines of one entry's guards."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {"MISS": MISS}
        self._names: dict[int, str] = {}
        self._variables: dict[tuple, str] = {}
        self._required: set[str] = set()
        self.facts: list[tuple] = []  # what values had to be, sizes aside

    def constant(self, value: Any) -> str:
        """A name for an object in the generated code."""
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"K{len(self._names)}"
            self.constants[name] = value  # which also keeps it alive, and its id its own
        return name

    def known(self, value: Any) -> tuple:
        """The source of an object that was already found to be the right one."""
        return ("known", self.constant(value))

    def variable(self, source: tuple) -> str:
        """A variable with the value of a source."""
        kind = source[0]
        if kind == "known":
            return source[1]
        if kind == "fn":
            return "fn"
        name = self._variables.get(source)
        if name is None:
            text = self._text(source)
            name = self._variables[source] = f"v{len(self._variables)}"
            self.lines.append(f"{name} = {text}")
        return name

    def _text(self, source):
        kind = source[0]
        if kind == "arg":
            return f"args[{source[1]}]"
        if kind == "kwarg":
            return f"kwargs[{source[1]!r}]"
        owner = self.variable(source[1])
        if kind == "item":
            key = source[2]
            plain = type(key) in (int, str)
            return f"{owner}[{key!r}]" if plain else f"{owner}[{self.constant(key)}]"
        if kind == "attr":
            return f"{owner}.{source[2]}"
        if kind == "dict":
            return f"{owner}.__dict__"
        if kind == "cell":
            return f"{owner}.__closure__[{source[2]}].cell_contents"
        raise AssertionError(source)

    def require(self, condition: str) -> None:
        """A condition that must hold."""
        if condition not in self._required:
            self._required.add(condition)
            self.lines.append(f"if not ({condition}): return MISS")

    # -- what values must be ---------------------------------------------------------------------
    def same_object(self, source: tuple, value: Any) -> None:
        """The very object."""
        if source[0] != "known":
            plain = value is None or value is True or value is False
            name = repr(value) if plain else self.constant(value)
            self.facts.append((source, id(value)))
            self.require(f"{self.variable(source)} is {name}")

    def same_type(self, source: tuple, value: Any) -> None:
        """An object of the same class."""
        if source[0] != "known":
            self.facts.append((source, type(value)))
            self.require(f"type({self.variable(source)}) is {self.constant(type(value))}")

    def same_value(self, source: tuple, value: Any) -> None:
        """An equal object of the same type. Most often it is the very object, which is quick."""
        if source[0] == "known":
            return
        self.facts.append((source, type(value), repr(value)))
        variable, name = self.variable(source), self.constant(value)
        kind = self.constant(type(value))
        if type(value) is float and (value != value or value == 0.0):
            if value != value:
                equal = f"{variable} != {variable}"
            else:  # zeros have signs
                sign = math.copysign(1.0, value)
                self.constants["copysign"] = math.copysign
                equal = f"{variable} == 0.0 and copysign(1.0, {variable}) == {sign}"
        elif type(value) is complex:
            raise Break("a complex number from outside")
        else:
            equal = f"{variable} == {name}"
        self.require(f"{variable} is {name} or type({variable}) is {kind} and {equal}")

    def same_length(self, source: tuple, value: Any) -> None:
        """As many items, in a container of the same type."""
        if source[0] != "known":
            kind, variable = self.constant(type(value)), self.variable(source)
            self.require(f"type({variable}) is {kind} and len({variable}) == {len(value)}")

    def same_keys(self, source: tuple, value: Any) -> None:
        """A dictionary with the same keys, in the same order."""
        keys = tuple(value)
        if not all(type(k) in (str, int) for k in keys):
            raise Break("a dictionary from outside with keys that are neither texts nor ints")
        kind, variable = self.constant(type(value)), self.variable(source)
        held = self.constant(keys)
        self.require(f"type({variable}) is {kind} and tuple({variable}) == {held}")

    def lacks(self, source: tuple, key: str) -> None:
        """A dictionary without a key."""
        self.require(f"{key!r} not in {self.variable(source)}")
