"""Variables while a function is compiled: which value a name stands for, in which block."""

from typing import Any

from flambeau.jit import types as T
from flambeau.jit.ir import Block, Value
from flambeau.jit.places import CompileError

# variables of our own: no Python name begins with %
RESULT, RETURNED, EXITED, GOES = "%result", "%returned", "%exited", "%goes"


class Undefined:
    """What a name stands for that only some paths define."""

    def __init__(self, message: str, place: Any = None) -> None:
        self.message, self.place = message, place


class Frame:
    """The variables that one block assigns, and what its conditions tell about others."""

    def __init__(self, block: Block, parent: "Frame | None", falls: bool = True) -> None:
        self.block, self.parent, self.falls = block, parent, falls
        self.variables: dict[str, Any] = {}
        self.refined: dict[str, Value] = {}
        self.declared: dict[str, T.Type] = {}

    def find(self, name: str) -> Any:
        """What a name stands for; None if nothing."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.refined:
                return frame.refined[name]
            if name in frame.variables:
                return frame.variables[name]
            frame = frame.parent
        return None

    def declared_type(self, name: str) -> T.Type | None:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.declared:
                return frame.declared[name]
            frame = frame.parent
        return None

    def set(self, name: str, value: Any) -> None:
        self.variables[name] = value
        self.refined.pop(name, None)

    def adopt_refinements(self, other: "Frame") -> None:
        """What is known because another path never comes here."""
        for name, value in other.refined.items():
            if name not in other.variables:
                self.refined[name] = value


class Refinement:
    """What a condition tells: types of names where it holds, and where it does not."""

    def __init__(
        self,
        if_true: dict[str, T.Type] | None = None,
        if_false: dict[str, T.Type] | None = None,
    ) -> None:
        self.if_true, self.if_false = if_true or {}, if_false or {}

    def negated(self) -> "Refinement":
        return Refinement(self.if_false, self.if_true)

    def both(self, other: "Refinement") -> "Refinement":
        """Of `a and b`."""
        return Refinement({**self.if_true, **other.if_true}, _common(self.if_false, other.if_false))

    def either(self, other: "Refinement") -> "Refinement":
        """Of `a or b`."""
        return self.negated().both(other.negated()).negated()


def _common(a, b):
    return {name: t for name, t in a.items() if b.get(name) == t}


def check_defined(name: str, found: Any, place: Any) -> Any:
    """A variable that is there on all paths."""
    if isinstance(found, Undefined):
        if found.place is None:
            raise CompileError(found.message, place)
        used = f"and was used here:\n{place.highlight()}"
        raise CompileError("\n" + found.message, found.place, used)
    return found
