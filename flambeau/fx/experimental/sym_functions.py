"""`torch.sym_float` and its kin: arithmetic that also takes sizes that are not numbers."""

import math
from typing import Any

from flambeau.fx.experimental.symbolic_shapes import SymFloat, SymInt
from flambeau.interposing.overriding import answerable

__all__ = ["sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sum"]


@answerable
def sym_float(a: Any) -> Any:
    """A number as a float."""
    return SymFloat.of(a) if isinstance(a, (SymInt, SymFloat)) else float(a)


@answerable
def sym_int(a: Any) -> Any:
    """A number without its fraction."""
    return a if isinstance(a, SymInt) else math.trunc(float(a)) if a == a else int(a)


@answerable
def sym_max(a: Any, b: Any) -> Any:
    """The larger of two."""
    return a if a >= b else b


@answerable
def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two."""
    return a if a <= b else b


@answerable
def sym_not(a: Any) -> bool:
    """Not."""
    return not a


@answerable
def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """One or the other."""
    return t if b else f


@answerable
def sym_sum(args: Any) -> Any:
    """The sum of several."""
    total: Any = 0
    for value in args:
        total = value + total
    return total


for _name in __all__:  # as graphs write them: torch.sym_float
    globals()[_name].__module__ = "flambeau"
