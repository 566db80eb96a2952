"""History of wrapped tensors: what transforms above a level differentiate.

The graph below a level hangs on values. This one hangs on the wrapped tensors themselves; its nodes
are those of eager/row_history.py.
"""

from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.node import Node, SavedOfSubclass, edge_of
from flambeau.eager import row_history
from flambeau.transforms.levels import Level, Wrapped, is_at


def wants(level: Level, bound: dict) -> bool:
    """Is one of the arguments a tensor of this level that wants gradients?"""
    for value in bound.values():
        if type(value) is Wrapped:
            if value._requires_grad and value._level is level:
                return True
        elif type(value) in (list, tuple):
            for v in value:
                if type(v) is Wrapped and v._requires_grad and v._level is level:
                    return True
    return False


class _SavedResult(SavedOfSubclass):
    """A result that its own node saves; plain, if the level has made all its tensors so."""

    __slots__ = ()

    def restore(self, node: Node) -> Tensor:
        level, value = self.own["_level"], self.own["_value"]
        if level.known is not None and not level.is_live:
            self.place = value._layout, value._storage, value._offset
            self.kind, self.own = type(value), {"_level": level, "_value": value}
            found = super().restore(node)
            del found.__dict__["_level"], found.__dict__["_value"]
            return found
        return super().restore(node)


def record(level: Level, op: Any, bound: dict, result: Any) -> None:
    """Make the node of a call of a row; its results are tensors of the level."""

    def edge(t):
        return edge_of(t) if is_at(t, level) and t._requires_grad else None

    row_history.record(op, bound, result, edge, _SavedResult)
