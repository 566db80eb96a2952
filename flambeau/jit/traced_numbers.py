"""Sizes while a program is recorded: numbers that know which value of the program they are.

`x.view(x.size(0), -1)` must follow the size of other inputs. So a recorded tensor gives sizes that
are ints, and arithmetic on them is written down.
"""

import operator
from typing import Any

from flambeau.jit.ir import Value
from flambeau.jit.state import state

_OPS = {
    "add": ("aten::add", operator.add),
    "sub": ("aten::sub", operator.sub),
    "mul": ("aten::mul", operator.mul),
    "floordiv": ("aten::floordiv", operator.floordiv),
    "mod": ("aten::remainder", operator.mod),
}


class TracedInt(int):
    """A number that a program computes."""

    value: Value
    tracer: Any

    def __repr__(self) -> str:
        return int.__repr__(self)

    def __reduce__(self) -> Any:
        return int, (int(self),)


def traced(number: int, value: Value, tracer: Any) -> TracedInt:
    """A number with the value it is."""
    made = TracedInt(number)
    made.value, made.tracer = value, tracer
    return made


def _binary(name, reflected):
    op, function = _OPS[name]

    def method(self, other):
        if not isinstance(other, int) or isinstance(other, bool):
            plain = getattr(int, f"__{'r' if reflected else ''}{name}__")
            return plain(int(self), other)
        left, right = (other, self) if reflected else (self, other)
        result = function(int(left), int(right))
        if not state.tracers or state.tracers[-1] is not self.tracer:
            return result
        return self.tracer.number(op, [left, right], result)

    return method


for _name in _OPS:
    setattr(TracedInt, f"__{_name}__", _binary(_name, False))
    setattr(TracedInt, f"__r{_name}__", _binary(_name, True))


def untraced(value: Any) -> Any:
    """The same with plain numbers."""
    if isinstance(value, TracedInt):
        return int(value)
    if type(value) in (list, tuple):
        return type(value)(untraced(item) for item in value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(untraced(item) for item in value)
    if isinstance(value, slice):
        return slice(untraced(value.start), untraced(value.stop), untraced(value.step))
    return value
