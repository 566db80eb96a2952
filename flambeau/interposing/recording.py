"""History of tensors whose class answers for itself (`__torch_dispatch__`).

Such a class is asked below autograd, as in PyTorch: what it returns for an op on tensors that want
gradients has the op's node, whose derivative is made of ops that the class is asked for in turn.
Where a class went on with the op as usual, its result has a history already and is left alone.
"""

from collections.abc import Callable, Iterator
from typing import Any

from flambeau._tensor import Tensor
from flambeau.autograd.grad_mode import modes
from flambeau.autograd.node import Node, SavedOfSubclass, edge_of
from flambeau.eager import row_history
from flambeau.eager.binding import bind
from flambeau.eager.methods import INPLACE
from flambeau.interposing import Name
from flambeau.ops.table import TABLE


class _Kept(SavedOfSubclass):
    """A result that its own node saves, without the way back to the node."""

    __slots__ = ()

    def __init__(self, t: Any, output_nr: int = 0) -> None:
        modes.grad = False
        try:
            self.own = t.detach()
        finally:
            modes.grad = True
        self.output_nr = output_nr

    def restore(self, node: Node) -> Any:
        t = self.own.detach()
        if t._layout.dtype.category >= 2:
            t._grad_fn, t._output_nr, t._requires_grad = node, self.output_nr, True
        return t


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (v for v in value if isinstance(v, Tensor))


def wants_history(name: Name, args: tuple, kwargs: dict) -> bool:
    """Is a call to be recorded?"""
    if not modes.grad or name.place.key in INPLACE:
        return False
    if _row(name) is None and not is_composite(name):
        return False
    return any(t._requires_grad for t in _tensors([*args, *kwargs.values()]))


def is_composite(name: Name) -> bool:
    """Does an op without a derivative of its own consist of others?"""
    row = TABLE.get(name.place.row)
    return row is not None and row.kind == "composite" and _row(name) is None


def record(name: Name, args: tuple, kwargs: dict, result: Any) -> None:
    """Give what a class returned the history of the op, if it has none."""
    given = list(_tensors([*args, *kwargs.values()]))
    outs = list(_tensors([result]))
    if not outs or any(o._requires_grad or any(o is t for t in given) for o in outs):
        return
    change = _CHANGED.get(name.place.key)
    if change is not None:
        args, kwargs = change(*args, **kwargs)
    op, bound = _resolved(_row(name), args, kwargs)
    row_history.record(op, bound, result, _edge, _Kept)


def _row(name):
    """The row with the derivative of an op, or None."""
    found = TABLE.get(_ROWS.get(name.place.key, name.place.row))
    return found if found is not None and found.is_differentiable else None


def _looked_up(input, weight, padding_idx=None, *_, **options):
    return (weight, input, -1 if padding_idx is None else padding_idx), {}


# functions whose derivative is that of another row, and what that is called with
_ROWS = {"__rsub__": "sub", "__getitem__": "index", "functional_embedding": "embedding"}
_CHANGED: dict[str, Callable] = {
    "__rsub__": lambda t, other: ((other, t), {}),
    "__getitem__": lambda t, key: ((t, list(key) if type(key) is tuple else [key]), {}),
    "functional_embedding": _looked_up,
}


def _edge(t):
    return edge_of(t) if t._requires_grad else None


def _resolved(op, args, kwargs):
    """A row and its arguments by name; pointwise rows with numbers may call another one."""
    bound = bind(op, args, kwargs)
    while op.kind == "pointwise" and "overload" in op.options:
        name = op.options["overload"](bound)
        if name is None:
            break
        op = TABLE[name]
        bound = {p.name: bound[p.name] for p in op.params}
    return op, bound
