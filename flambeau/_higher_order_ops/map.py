"""map: a function of each slice of tensors, and of others as they are."""

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.aten.overloads import current_recorder, namespace
from flambeau.utils import _pytree as pytree

__all__ = ["map", "map_impl"]


def _mapped(f: Callable, xs: list, pos_args: list) -> list:
    rows = [f(*row, *pos_args) for row in zip(*[x.unbind(0) for x in xs])]
    return [flambeau.stack(list(column)) for column in zip(*rows)]


map_impl = namespace("higher_order").packet("map_impl")
map_impl.function = lambda overload="": _mapped


def map(f: Callable, xs: Any, *args: Any) -> Any:
    """f(slice of xs, *args) for each slice along the first dimension, stacked.

    Example:
        >>> from flambeau._higher_order_ops import map
        >>> map(lambda x, y: x + y, flambeau.ones(3, 2), flambeau.ones(2)).shape
        torch.Size([3, 2])
    """
    leaves, spec = pytree.tree_flatten(xs)
    others, rest = pytree.tree_flatten(args)
    if not leaves or any(x.ndim == 0 or x.shape[0] != leaves[0].shape[0] for x in leaves):
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes "
            f"{[tuple(x.shape) for x in leaves]}."
        )
    kinds: list[Any] = []

    def body(*flat: Any) -> tuple:
        row = pytree.tree_unflatten(list(flat[: len(leaves)]), spec)
        given = pytree.tree_unflatten(list(flat[len(leaves) : len(leaves) + len(others)]), rest)
        found, kind = pytree.tree_flatten(f(row, *given))
        kinds[:] = [kind]
        return tuple(found)

    recorder = current_recorder()
    found: Any
    if recorder is not None and hasattr(recorder, "loops_over"):
        groups = (), tuple(leaves), tuple(others)
        found = recorder.loops_over(map_impl, "body_graph", body, groups, 0)
    else:
        found = _mapped(body, leaves, others)
    return pytree.tree_unflatten(list(found), kinds[0])
