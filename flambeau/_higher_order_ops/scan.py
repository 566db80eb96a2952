"""scan: a function of a state and each slice of tensors: the last state, and all it gives."""

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.aten.overloads import current_recorder, namespace
from flambeau.utils import _pytree as pytree

__all__ = ["scan", "scan_op"]


def _scanned(combine_fn: Callable, init: list, xs: list, additional: tuple = ()) -> list:
    carry, rows = list(init), []
    for row in zip(*[x.unbind(0) for x in xs]):
        found = list(combine_fn(*carry, *row, *additional))
        carry = found[: len(init)]
        rows.append(found[len(init) :])
    return [*carry, *[flambeau.stack(list(column)) for column in zip(*rows)]]


scan_op = namespace("higher_order").packet("scan")
scan_op.function = lambda overload="": _scanned


def scan(
    combine_fn: Callable, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """(last state, outputs stacked) of state, output = combine_fn(state, slice of xs).

    Example:
        >>> from flambeau._higher_order_ops import scan
        >>> scan(lambda c, x: (c + x, c * 2), flambeau.zeros(1), flambeau.ones(3, 1))[0]
        tensor([3.])
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    states, spec = pytree.tree_flatten(init)
    leaves, kind = pytree.tree_flatten(xs)
    if not states:
        raise RuntimeError("scan() operator requires init leaves.")
    if not leaves:
        raise RuntimeError("scan() operator requires xs leaves.")
    if dim:
        leaves = [x.movedim(dim, 0) for x in leaves]
    if reverse:
        leaves = [x.flip(0) for x in leaves]
    kinds: list[Any] = []

    def body(*flat: Any) -> tuple:
        state = pytree.tree_unflatten(list(flat[: len(states)]), spec)
        row = pytree.tree_unflatten(list(flat[len(states) : len(states) + len(leaves)]), kind)
        carry, out = combine_fn(state, row)
        given, form = pytree.tree_flatten(out)
        kinds[:] = [form]
        new = pytree.tree_leaves(carry)
        if [t.shape for t in new] != [t.shape for t in states]:
            raise RuntimeError("Expected init and carry to have the same shapes in scan")
        return (*new, *given)

    recorder = current_recorder()
    found: Any
    if recorder is not None and hasattr(recorder, "loops_over"):
        groups = tuple(states), tuple(leaves), ()
        found = recorder.loops_over(scan_op, "scan_combine_graph", body, groups, len(states))
    else:
        found = _scanned(body, states, leaves)
    outs = [x.flip(0) if reverse else x for x in found[len(states) :]]
    carry = pytree.tree_unflatten(list(found[: len(states)]), spec)
    return carry, pytree.tree_unflatten(outs, kinds[0])
